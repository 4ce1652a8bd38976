/*
 * link.h - a transport between systems of one process.
 *
 * Each system is a node; a packet that is sent arrives at once.
 *
 * Threads: any.
 */
#ifndef TRI_CLUSTER_LINK_H
#define TRI_CLUSTER_LINK_H

#include <stdint.h>

#include "cluster/transport/transport.h"
#include "troupe/base.h"

/*
 * Makes a link. The caller owns *out and frees it after the systems have
 * closed. Errors: TR_ENOMEM.
 */
TR_NODISCARD tr_err tri_link_new(tri_transport **out);
void tri_link_free(tri_transport *link);
/*
 * Delivers the node's packets to this system from now on, or to none if sys is
 * NULL. Must be called with NULL before the system is closed; returns when no
 * packet is being delivered to the system before. Not from a handler.
 */
void tri_link_attach(tri_transport *link, uint32_t node, tr_system *sys);

#endif
