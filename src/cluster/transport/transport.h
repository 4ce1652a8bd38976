/*
 * transport.h - carries byte strings between numbered nodes.
 *
 * There are two sorts. A transport without turns promises nothing: packets may
 * be lost, doubled, late or out of order; what arrives is given to
 * tri_bus_receive. In one process that is link.h, in tests of the bus the
 * simulated network. A transport with turns has connections (connections.h):
 * packets arrive once and in order while a connection lasts, and all its work
 * is done in turns of the bus. The session (session.h) makes a stream of either.
 *
 * Threads: `send` of a transport without turns is called by the bus of each
 * node, so by several threads; everything else in turns of one bus.
 */
#ifndef TRI_CLUSTER_TRANSPORT_H
#define TRI_CLUSTER_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "troupe/base.h"

struct tri_bus;
typedef struct tri_transport tri_transport;

typedef struct tri_transport_ops {
    /* Borrows the bytes. Never waits; drops what cannot be sent. */
    void (*send)(tri_transport *transport, uint32_t from, uint32_t to,
                 const void *bytes, size_t size);

    /* The rest belongs to a transport with turns; without them it is NULL. */

    /* Gives what has come to tri_arrival_take. In every turn, before `flush`. */
    void (*receive)(tri_transport *transport, struct tri_bus *bus);
    /* Sends what `send` has gathered. Returns when it needs the next turn. */
    tr_nanos (*flush)(tri_transport *transport, tr_nanos now);
    /* False: too much waits to be sent to this node. */
    bool (*has_room)(tri_transport *transport, uint32_t to);
    /* The bus has a new view, or is another incarnation of its node. */
    void (*members_changed)(tri_transport *transport, struct tri_bus *bus);
    /* The bus has ended: closes all connections. */
    void (*close)(tri_transport *transport);
} tri_transport_ops;

struct tri_transport {
    const tri_transport_ops *ops;
};

/* True if the transport has connections, and works in turns of the bus. */
static inline bool tri_transport_has_turns(const tri_transport *transport)
{
    return transport->ops->receive != NULL;
}

#endif
