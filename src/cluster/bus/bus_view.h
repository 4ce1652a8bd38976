/*
 * bus_view.h - acts on a new view: members that are dead, owners of shards.
 *
 * Threads: the turns of the bus.
 */
#ifndef TRI_CLUSTER_BUS_VIEW_H
#define TRI_CLUSTER_BUS_VIEW_H

#include "cluster/bus/bus.h"

/* Acts on the newest view that has come, if there is one. */
void tri_bus_view_act(tri_bus *bus);

#endif
