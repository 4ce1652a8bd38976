/*
 * catalog_check.c - checks the invariants of records, activations and lanes.
 *
 * A simulation calls this after its steps; what it finds is a fault of the
 * library.
 */
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/map.h"
#include "cluster/bus/lane.h"
#include "cluster/virtual/activation.h"
#include "cluster/virtual/catalog.h"
#include "cluster/virtual/cluster.h"
#include "cluster/virtual/shard.h"
#include "cluster/virtual/virtual.h"

static void check_shard(tri_cluster *cluster, tri_shard *shard)
{
    tri_virtual *v;
    uint32_t active = 0;
    tri_lock_assert_held(&shard->lock);
    tri_list_check(&shard->activations);
    TRI_LIST_EACH_ITEM (a, &shard->activations, tri_activation, link) {
        TRI_CHECK(a->v->activation == a);
        TRI_CHECK(tri_cluster_shard(cluster, a->v) == shard);
        tri_virtual_check(cluster, a->v);
        active++;
    }
    // Relaxed: written under the lock.
    TRI_CHECK(atomic_load_explicit(&shard->active, memory_order_relaxed) ==
              active);
    for (tri_map_iter it = tri_map_iter_begin(&shard->names);
         (v = tri_map_iter_next(&shard->names, &it)) != NULL;) {
        TRI_CHECK(tri_cluster_shard(cluster, v) == shard);
        tri_virtual_check(cluster, v);
    }
    for (v = shard->spare; v != NULL; v = v->spare_next) {
        TRI_CHECK(tri_virtual_id(v) == 0 && !tri_virtual_is_open(v));
        TRI_CHECK(v->activation == NULL && v->pending_last == NULL);
    }
}

void tri_catalog_check(tr_system *sys, uint32_t first, uint32_t count)
{
    tri_cluster *cluster = tri_cluster_of(sys);
    if (cluster == NULL) {
        return;
    }
    tri_lane_check_shards(sys, first, count);
    for (uint32_t i = first; i < first + count; i++) {
        tri_lock_take(&cluster->shards[i].lock);
        check_shard(cluster, &cluster->shards[i]);
        tri_lock_drop(&cluster->shards[i].lock);
    }
}
