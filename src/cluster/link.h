/*
 * link.h - how packets get from node to node: the transport's side.
 *
 * A transport carries byte strings between numbered nodes and promises
 * nothing: they may be lost, doubled, late or in another order; the session
 * (session.h) makes a stream of them. Whoever has one hands what arrives to
 * tri_bus_receive. Over sockets a transport frames a stream; in one process
 * it is the link below; under simulation it is the simulated network.
 *
 * Threads: send is called from one bus at a time per node, so from several.
 */
#ifndef TRI_CLUSTER_LINK_H
#define TRI_CLUSTER_LINK_H

#include <stddef.h>
#include <stdint.h>

#include "troupe/base.h"

typedef struct tri_transport tri_transport;

typedef struct tri_transport_ops {
    /* Bytes are borrowed. Never waits; what cannot be sent is lost. */
    void (*send)(tri_transport *transport, uint32_t from, uint32_t to,
                 const void *bytes, size_t size);
} tri_transport_ops;

struct tri_transport {
    const tri_transport_ops *ops;
};

/*
 * Systems of one process, each of which is a node: what is sent arrives at
 * once. The caller owns *out and frees it after the systems have closed.
 * Errors: TR_ENOMEM.
 */
TR_NODISCARD tr_err tri_link_new(tri_transport **out);
void tri_link_free(tri_transport *link);
/*
 * The node's packets go to this system from now on; NULL: to nobody, which
 * must be said before the system is closed.
 */
void tri_link_attach(tri_transport *link, uint32_t node, tr_system *sys);

#endif
