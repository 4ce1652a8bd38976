/*
 * stopping.h - shards whose actors are told to stop, some in each turn.
 *
 * Threads: the turns of the bus.
 */
#ifndef TRI_CLUSTER_STOPPING_H
#define TRI_CLUSTER_STOPPING_H

#include <stdbool.h>
#include <stdint.h>

#include "cluster/bus/bus.h"

/* Tells the actors of the shard to stop, in this turn or a later one. */
void tri_stopping_add(tri_bus *bus, uint32_t shard);
/* Does it now if it was put off: the shard is about to be opened again. */
void tri_stopping_finish(tri_bus *bus, uint32_t shard);
/* Goes on within the budget of the turn. Returns true if some are left. */
bool tri_stopping_go_on(tri_bus *bus);

#endif
