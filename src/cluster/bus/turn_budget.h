/*
 * turn_budget.h - how much a turn of the bus may do, and how long it took.
 *
 * Work that grows with the number of actors (a shard that moves, a lease that
 * is lost) spends a budget; what is left when the budget is spent goes on in
 * the next turn, which follows at once. So messages, requests and the lease do
 * not wait for all of it.
 *
 * Threads: the turns of the bus.
 */
#ifndef TRI_CLUSTER_TURN_BUDGET_H
#define TRI_CLUSTER_TURN_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#include "cluster/bus/bus.h"

/*
 * Actors that are stopped, confirmed or placed anew in one turn; one shard
 * more may be begun. About 2 us each: half of the 10 ms that a turn may take.
 */
enum { TRI_TURN_ACTORS = 2048 };

/* Begins a turn, with a whole budget. */
void tri_turn_budget_begin(tri_bus *bus);
/* Ends a turn: counts it for tr_metrics. Does nothing outside of a turn. */
void tri_turn_budget_end(tri_bus *bus);

/* Notes work for that many actors. */
static inline void tri_turn_budget_spend(tri_bus *bus, uint32_t actors)
{
    bus->turn_budget -= actors < bus->turn_budget ? actors : bus->turn_budget;
}

/* True if this turn may begin with another shard. */
static inline bool tri_turn_budget_is_left(const tri_bus *bus)
{
    return bus->turn_budget > 0;
}

#endif
