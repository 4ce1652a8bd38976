/*
 * lane_check.c - checks the invariants of lanes, for simulations.
 */
#include <stddef.h>

#include "base/check.h"
#include "base/list.h"
#include "base/lock.h"
#include "cluster/bus/lane.h"
#include "cluster/virtual/cluster.h"
#include "cluster/virtual/shard.h"

static void lane_check(tri_bus *bus, uint32_t shard)
{
    TRI_CHECK(shard < TRI_SHARDS);
    tri_lane *lane = &bus->lanes[shard];
    tri_shard *records = &bus->cluster->shards[shard];
    TRI_CHECK(lane->state <= TRI_LANE_OPEN);
    TRI_CHECK(lane->token == 0 || lane->state != TRI_LANE_OPEN);
    TRI_CHECK(lane->first_held == NULL || lane->token != 0);
    TRI_CHECK(lane->state != TRI_LANE_OPEN || lane->first == NULL);
    TRI_CHECK(lane->state != TRI_LANE_REMOTE || lane->to.slot < TRI_NODES_MAX);
    TRI_CHECK(!lane->draining || lane->state == TRI_LANE_CLOSED);
    TRI_CHECK(!tri_link_is_linked(&lane->stopping) ||
              lane->state != TRI_LANE_OPEN);
    tri_lock_take(&records->lock);
    TRI_CHECK(records->is_open == (lane->state == TRI_LANE_OPEN));
    tri_lock_drop(&records->lock);
}

void tri_lane_check_shards(tr_system *sys, uint32_t first, uint32_t count)
{
    tri_cluster *cluster = tri_cluster_of(sys);
    tri_bus *bus = cluster != NULL ? tri_bus_of(cluster) : NULL;
    for (uint32_t i = 0; bus != NULL && !bus->closed && i < count; i++) {
        TRI_CHECK(bus->ctx == NULL);
        lane_check(bus, first + i);
    }
}
