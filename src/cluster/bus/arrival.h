/*
 * arrival.h - packets that arrive from other nodes.
 *
 * Threads: the turns of the bus.
 */
#ifndef TRI_CLUSTER_BUS_ARRIVAL_H
#define TRI_CLUSTER_BUS_ARRIVAL_H

#include <stddef.h>
#include <stdint.h>

#include "cluster/bus/bus.h"
#include "cluster/membership/view.h"
#include "troupe/message.h"

/* What became of a packet that a connection has carried. */
typedef enum tri_taken {
    TRI_TAKEN,
    TRI_TAKE_LATER,    // give it again in a later turn
    TRI_TAKE_REFUSED,  // it is damaged, or its sender is not a member
} tri_taken;

/* Takes a packet that `from` has sent over its connection. */
tri_taken tri_arrival_take(tri_bus *bus, tri_node from, const void *bytes,
                           size_t size);
/* Takes a packet of a transport that may lose it: what is left comes again. */
void tri_arrival_packet(tri_bus *bus, tr_bytes bytes);
/* The transport has a new connection to the slot. */
void tri_arrival_connected(tri_bus *bus, uint32_t slot);

#endif
