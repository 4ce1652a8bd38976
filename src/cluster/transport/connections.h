/*
 * connections.h - a transport over streams: one connection to each other node.
 *
 * Of two nodes the younger one, whose incarnation is higher, dials the older
 * one: it knows the older ones from the view it has joined with. So there is
 * one connection per pair, and no rule for two that cross.
 *
 * The first frame of each side is a greeting: namespace, version, and which
 * incarnations of which slots it connects. Every packet that comes later must
 * name the node of the greeting as its sender, so a peer can speak only for
 * itself.
 *
 * Threads: the turns of the bus, except where said.
 */
#ifndef TRI_CLUSTER_TRANSPORT_CONNECTIONS_H
#define TRI_CLUSTER_TRANSPORT_CONNECTIONS_H

#include "base/world.h"
#include "cluster/transport/transport.h"
#include "troupe/base.h"

/*
 * Listens at an address, "tcp://127.0.0.1:0". The caller owns *out; `bound`
 * gets the address with its port. Any thread.
 * Errors: those of stream_listen; TR_ENOMEM, TR_ELIMIT.
 */
TR_NODISCARD tr_err tri_connections_open(tri_transport **out, tr_system *sys,
                                         const char *ns, const char *address,
                                         char bound[TRI_STREAM_ADDRESS_MAX]);
/* Frees it after the bus has ended, or if there never was one; NULL is fine. */
void tri_connections_free(tri_transport *transport);

#endif
