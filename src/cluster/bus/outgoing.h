/*
 * outgoing.h - sends parcels to other nodes.
 *
 * Threads: the turns of the bus.
 */
#ifndef TRI_CLUSTER_OUTGOING_H
#define TRI_CLUSTER_OUTGOING_H

#include <stdbool.h>

#include "cluster/bus/bus.h"
#include "cluster/bus/parcel.h"
#include "cluster/membership/view.h"

/*
 * Sends a parcel to a node, or fails it; takes p. Returns false, without taking
 * it, if there is no room now.
 */
bool tri_outgoing_send(tri_bus *bus, tri_node to, tri_parcel *p);
/* The same for a parcel that its host gives back to the owner. */
bool tri_outgoing_send_back(tri_bus *bus, tri_node owner, tri_parcel *p);

#endif
