/*
 * cluster.c - makes, closes and frees what a system has for virtual actors.
 *
 * Invariant: a system has one cluster. The thread whose spawn of the guardian
 * /virtual succeeds makes it known; a thread that comes second finds that name
 * taken and waits until the first one has set sys->virtuals. After tri_cluster_close no
 * activation begins.
 */
#include "cluster/virtual/cluster.h"

#include <stdlib.h>

#include "base/text.h"
#include "cluster/bus/bus.h"
#include "cluster/join/cluster_node.h"
#include "cluster/virtual/actor_id.h"
#include "cluster/virtual/catalog.h"
#include "cluster/virtual/names.h"
#include "core/ask/error_text.h"
#include "core/cell/cell.h"
#include "core/cell/mem.h"
#include "core/life/spawn.h"
#include "troupe/actor.h"
#include "troupe/message.h"
#include "troupe/observe.h"
#include "troupe/system.h"

enum {
    NAMES_DEFAULT = 1 << 24,
    LOADING_SHARE = 4,  // one in so many of max_parked stacks is for loading
};

/* ---- making it ---- */

static const tr_actor_def guardian = {
    .size = sizeof(tr_actor_def), .name = "guardian", .state_size = 0};

static tri_cluster *cluster_new(tr_system *sys)
{
    tri_cluster *cluster = tri_mem_calloc(&sys->mem, sizeof(*cluster));
    if (cluster == NULL) {
        return NULL;
    }
    cluster->base.ops = &tri_catalog_ops;
    cluster->sys = sys;
    cluster->ns = sys->ns != NULL ? sys->ns : "local";
    cluster->names_max = sys->options.virtual_names != 0
                             ? sys->options.virtual_names
                             : NAMES_DEFAULT;
    tri_kind_init(cluster);
    tri_names_init(cluster);
    cluster->load_queue.max =
        TRI_MAX(sys->options.max_parked / LOADING_SHARE, UINT32_C(1));
    return cluster;
}

/* Frees a cluster that was never known to others. */
static void cluster_drop(tri_cluster *cluster)
{
    tri_names_fini(cluster);
    tri_kind_fini(cluster);
    free(cluster);
}

static tr_ref spawn_guardian(tri_caller *who)
{
    tr_spawn_options options = {.size = sizeof(options),
                                .name = "virtual",
                                .stop_timeout = TR_FOREVER / 4};
    return tri_spawn_under(who, who->sys->root, &guardian, &options,
                           TRI_CELL_SYSTEM);
}

/* Waits for the thread whose guardian has the name to publish its cluster. */
static tri_cluster *await_other(tr_system *sys)
{
    tri_cluster *cluster;
    while ((cluster = tri_cluster_of(sys)) == NULL) {
        tri_lock_yield();  // a few instructions are missing
    }
    return cluster;
}

tr_err tri_cluster_get(tri_caller *who, tri_cluster **out)
{
    TRI_CHECK(who != NULL && out != NULL);
    tr_system *sys = who->sys;
    const char *why;
    *out = tri_cluster_of(sys);
    if (*out != NULL) {
        return TR_OK;
    }
    if (sys->ns != NULL && !tri_actor_id_is_field(sys->ns, &why)) {
        tri_error_set(who->ctx, "namespace \"%s\": %s", sys->ns, why);
        return TR_EINVAL;
    }
    tri_cluster *cluster = cluster_new(sys);
    if (cluster == NULL) {
        return TR_ENOMEM;
    }
    cluster->guardian = spawn_guardian(who);
    if (cluster->guardian.cell == 0) {
        tr_err err = tr_ref_err(cluster->guardian);
        cluster_drop(cluster);
        if (err == TR_EEXIST) {
            *out = await_other(sys);
            return TR_OK;
        }
        return err == TR_ESTOPPED ? TR_ECLOSED : err;
    }
    // Release: publishes the cluster; pairs with tri_cluster_of.
    atomic_store_explicit(&sys->virtuals, &cluster->base, memory_order_release);
    *out = cluster;
    return TR_OK;
}

/* ---- its end ---- */

tr_ref tri_cluster_close(tr_system *sys)
{
    tri_cluster *cluster = tri_cluster_of(sys);
    TRI_CHECK(cluster != NULL);
    // Relaxed: the locks below order it before every later activation.
    atomic_store_explicit(&cluster->closing, true, memory_order_relaxed);
    for (uint32_t i = 0; i < TRI_SHARDS; i++) {
        tri_lock_take(&cluster->shards[i].lock);
        tri_lock_drop(&cluster->shards[i].lock);
    }
    return cluster->guardian;
}

void tri_cluster_free(tr_system *sys)
{
    tri_cluster *cluster = tri_cluster_of(sys);
    TRI_CHECK(cluster != NULL && cluster->sys == sys);
    tri_cluster_node_stop(cluster);
    tri_bus_free(cluster);
    tri_cluster_node_free(cluster);
    for (uint32_t i = 0; i < TRI_SHARDS; i++) {
        tri_catalog_free_mail(sys, &cluster->shards[i]);
    }
    cluster_drop(cluster);
}

/* ---- what is seen of it ---- */

void tri_cluster_count(tr_system *sys, tr_metrics_snapshot *out)
{
    tri_cluster *cluster = tri_cluster_of(sys);
    TRI_CHECK(cluster != NULL);
    // Relaxed, all: statistics.
    out->virtual_names =
        atomic_load_explicit(&cluster->names, memory_order_relaxed);
    out->virtual_active =
        atomic_load_explicit(&cluster->active, memory_order_relaxed);
    out->activations =
        atomic_load_explicit(&cluster->activations, memory_order_relaxed);
    tri_bus *bus = tri_bus_of(cluster);
    if (bus != NULL) {
        out->bus_turns =
            atomic_load_explicit(&bus->turns, memory_order_relaxed);
        out->bus_turn_max =
            atomic_load_explicit(&bus->turn_max, memory_order_relaxed);
    }
}

void tri_cluster_hosted(tr_system *sys, char *out, size_t size)
{
    tri_cluster *cluster = tri_cluster_of(sys);
    TRI_CHECK(cluster != NULL);
    tri_text text;
    tri_text_init(&text, out, size);
    tri_kind *first = tri_kind_first(cluster);
    for (tri_kind *kind = first; kind != NULL; kind = kind->next) {
        tri_text_add(&text, "%s%s", kind == first ? "; hosted here: " : ", ",
                     kind->name);
    }
}
