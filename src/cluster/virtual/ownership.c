/*
 * ownership.c - what this node may do for the actors of a shard: load, write,
 * deliver reminders.
 */
#include "cluster/virtual/ownership.h"

#include "base/check.h"
#include "base/lock.h"
#include "cluster/bus/bus.h"
#include "cluster/virtual/cluster.h"
#include "cluster/virtual/fence_break.h"
#include "cluster/virtual/kind.h"
#include "cluster/virtual/shard.h"
#include "core/cell/cell.h"
#include "core/run/context.h"

/* Without other nodes there is nobody to fence. persist.c raises the fence. */
uint64_t tri_ownership_load_fence(tr_ctx *ctx)
{
    TRI_CHECK(tri_cell_is_virtual(ctx->cell));
    tri_cluster *cluster = tri_cluster_of(ctx->sys);
    return tri_bus_of(cluster) == NULL ||
                   tri_fence_is_broken(&cluster->fence_break,
                                       TRI_FENCE_BREAK_LOAD)
               ? 0
               : tr_epoch(ctx);
}

/* True if this node takes the owner's place for the kind; NULL: for any. */
static bool replaces(tri_cluster *cluster, uint32_t owner, const char *name,
                     size_t size)
{
    tri_kind *kind = name != NULL ? tri_kind_find(cluster, name, size)
                                  : tri_kind_first(cluster);
    bool found = false;
    for (; kind != NULL && !found; kind = kind->next) {
        found = tri_kind_reminds_for(kind, owner);
        if (name != NULL) {
            break;
        }
    }
    return found;
}

uint64_t tri_ownership_reminds(tr_system *sys, uint32_t index, const char *kind,
                               size_t size)
{
    TRI_CHECK(index < TRI_SHARDS);
    tri_cluster *cluster = tri_cluster_of(sys);
    tri_shard *shard = &cluster->shards[index];
    bool alone = tri_bus_of(cluster) == NULL;
    tri_lock_take(&shard->lock);
    uint64_t epoch = shard->epoch;
    bool ours = alone || shard->is_open;
    uint32_t owner = shard->owner;
    tri_lock_drop(&shard->lock);
    return ours || replaces(cluster, owner, kind, size) ? epoch : 0;
}

bool tri_ownership_has_lease(tr_system *sys)
{
    TRI_CHECK(tri_cluster_of(sys) != NULL);
    tri_bus *bus = tri_bus_of(tri_cluster_of(sys));
    return bus == NULL || tri_bus_has_lease(bus);
}
