/*
 * cluster.h - all that a system has for virtual actors.
 *
 * It is made for the first call that needs it, and freed with the memory of
 * the system.
 *
 * Threads: any, except where said.
 */
#ifndef TRI_CLUSTER_CLUSTER_H
#define TRI_CLUSTER_CLUSTER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "base/lock.h"
#include "base/map.h"
#include "cluster/virtual/arena.h"
#include "cluster/virtual/fence_break.h"
#include "cluster/virtual/kind.h"
#include "cluster/virtual/load_queue.h"
#include "cluster/virtual/shard.h"
#include "cluster/virtual/virtual.h"
#include "core/caller.h"
#include "core/system.h"
#include "core/up.h"
#include "troupe/base.h"
#include "troupe/observe.h"

struct tr_metrics_snapshot;
struct tri_bus;
struct tri_cluster_node;

typedef struct tri_cluster {
    tri_virtuals base;  // first: tr_system.virtuals
    tr_system *sys;
    const char *ns;                           // borrowed from the system
    tr_ref guardian;                          // /virtual
    _Atomic(struct tri_bus *) bus;            // NULL: no other nodes
    _Atomic(struct tri_cluster_node *) node;  // NULL: not joined
    _Atomic(bool) closing;                    // no activation begins any more
    tri_fence_break fence_break;              // of a test
    uint32_t names_max;
    _Atomic(uint64_t) names, active, activations;

    tri_lock kinds_lock;  // guards the four fields below
    tri_map kinds;
    tri_kind *first_kind;
    tr_ref sweeper;
    tr_nanos sweep_every;

    tri_arena records, texts;
    tri_load_queue load_queue;
    tri_shard shards[TRI_SHARDS];
} tri_cluster;

/* Returns the cluster of a system, or NULL if it has none yet. */
static inline tri_cluster *tri_cluster_of(tr_system *sys)
{
    // Acquire: pairs with tri_cluster_get.
    return (tri_cluster *)(void *)atomic_load_explicit(&sys->virtuals,
                                                       memory_order_acquire);
}

/* Returns the shard of a record. */
static inline tri_shard *tri_cluster_shard(tri_cluster *cluster,
                                           const tri_virtual *v)
{
    TRI_CHECK_SLOW(v->shard < TRI_SHARDS);
    return &cluster->shards[v->shard];
}

/*
 * Returns the cluster of the caller's system in *out; makes it on first use.
 * Errors: TR_EINVAL (the system's namespace), TR_ENOMEM, TR_ECLOSED.
 */
TR_NODISCARD tr_err tri_cluster_get(tri_caller *who, tri_cluster **out);

/* ---- functions of tri_virtual_ops ---- */

/* Begins no activation from now on; returns the guardian of the others. */
tr_ref tri_cluster_close(tr_system *sys);
void tri_cluster_count(tr_system *sys, struct tr_metrics_snapshot *out);
/* Writes "; hosted here: a, b", as far as there is room. */
void tri_cluster_hosted(tr_system *sys, char *out, size_t size);
/* Frees the cluster. No other thread uses the system any more. */
void tri_cluster_free(tr_system *sys);

#endif
