/*
 * stopping.c - shards whose actors are told to stop, some in each turn.
 *
 * A shard that is given away, and every shard of a node without a lease, is
 * closed at once: no actor of it begins any more. Its actors end later, and
 * each of them has to be told. Until it is told, an actor of a shard that is
 * given away works on as before: the shard moves only when the last one has
 * ended. An actor of a node without a lease is handed no message, because the
 * lease is checked before each of them (0016).
 *
 * Invariant: no shard in the list is open. An actor of an earlier epoch must
 * not go on in a later one, so whoever opens a shard calls tri_stopping_finish
 * first.
 */
#include "cluster/bus/stopping.h"

#include "base/check.h"
#include "base/list.h"
#include "cluster/bus/lane.h"
#include "cluster/bus/relay.h"
#include "cluster/bus/turn_budget.h"
#include "cluster/virtual/activation.h"

void tri_stopping_add(tri_bus *bus, uint32_t shard)
{
    TRI_CHECK(shard < TRI_SHARDS);
    tri_lane *lane = &bus->lanes[shard];
    TRI_CHECK(lane->state != TRI_LANE_OPEN);
    if (!tri_link_is_linked(&lane->stopping)) {
        tri_list_push_back(&bus->stopping, &lane->stopping);
    }
}

/* Tells all actors of a shard that has been taken out of the list. */
static void tell_all(tri_bus *bus, tri_lane *lane)
{
    uint32_t shard = (uint32_t)(lane - bus->lanes);
    TRI_CHECK(!tri_link_is_linked(&lane->stopping));
    uint32_t told =
        tri_activation_stop_all(bus->cluster, tri_bus_worker(bus), shard);
    if (lane->draining) {
        told += tri_relay_drain(bus, shard);
    }
    tri_turn_budget_spend(bus, told);
}

void tri_stopping_finish(tri_bus *bus, uint32_t shard)
{
    TRI_CHECK(shard < TRI_SHARDS);
    tri_lane *lane = &bus->lanes[shard];
    if (tri_link_is_linked(&lane->stopping)) {
        tri_list_remove(&lane->stopping);
        tell_all(bus, lane);
    }
}

bool tri_stopping_go_on(tri_bus *bus)
{
    tri_link *link;
    while (tri_turn_budget_is_left(bus) &&
           (link = tri_list_pop_front(&bus->stopping)) != NULL) {
        tell_all(bus, tri_list_item(link, tri_lane, stopping));
    }
    return !tri_list_is_empty(&bus->stopping);
}
