/*
 * deliver.h - delivers parcels to the actors of a shard that is open here.
 *
 * Threads: the turns of the bus.
 */
#ifndef TRI_CLUSTER_DELIVER_H
#define TRI_CLUSTER_DELIVER_H

#include "cluster/bus/bus.h"

struct tri_parcel;

/*
 * Delivers a list of parcels of one shard, oldest first; begins actors that are
 * not active. Takes the list.
 */
void tri_deliver_here(tri_bus *bus, struct tri_parcel *list);

/*
 * Delivers a parcel to an actor that is hosted here for the owner of its shard.
 * Takes p; returns messages that an activation which is ending refuses.
 */
tri_item *tri_deliver_one(tri_bus *bus, tri_virtual *v, struct tri_parcel *p);

#endif
