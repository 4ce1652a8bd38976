/*
 * cluster.c - all virtual actors of a system: kinds, beginning, end.
 *
 * It is made when the first of them is asked for, and freed with the system's
 * memory. Kinds are only added, so who has found one may keep it. After
 * tri_cluster_close nothing becomes active any more.
 */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cluster/activate.h"
#include "cluster/bus.h"
#include "troupe/observe.h"

/* ---- kinds ---- */

static bool kind_is(const void *value, const void *key, size_t size)
{
    const tri_kind *kind = value;
    return strlen(kind->name) == size && memcmp(kind->name, key, size) == 0;
}

tri_kind *tri_kind_find(tri_cluster *cluster, const char *name, size_t size)
{
    tri_lock_take(&cluster->kinds_lock);
    tri_kind *kind = tri_map_get_bytes(&cluster->kinds, name, size);
    tri_lock_drop(&cluster->kinds_lock);
    return kind;
}

void tri_kind_free(tri_kind *kind)
{
    if (kind != NULL) {
        tri_props_drop(kind->props);
        free(kind->name);
        free(kind);
    }
}

tri_kind *tri_kind_of(tri_cluster *cluster, tri_virtual *v)
{
    if (v->kind == NULL) {
        size_t at = strlen(cluster->ns) + 2;
        v->kind = tri_kind_find(cluster, v->text + at, v->key_at - 1 - at);
    }
    return v->kind;
}

/* ---- the whole ---- */

tr_ref tri_cluster_close(tr_system *sys)
{
    tri_cluster *cluster = tri_cluster_of(sys);
    // Relaxed: the locks below order it before every later activation.
    atomic_store_explicit(&cluster->closing, true, memory_order_relaxed);
    for (uint32_t i = 0; i < TRI_SHARDS; i++) {
        tri_lock_take(&cluster->shards[i].lock);
        tri_lock_drop(&cluster->shards[i].lock);
    }
    return cluster->guardian;
}

void tri_cluster_count(tr_system *sys, tr_metrics_snapshot *out)
{
    tri_cluster *cluster = tri_cluster_of(sys);
    // Relaxed, all: statistics.
    out->virtual_names =
        atomic_load_explicit(&cluster->names, memory_order_relaxed);
    out->virtual_active =
        atomic_load_explicit(&cluster->active, memory_order_relaxed);
    out->activations =
        atomic_load_explicit(&cluster->activations, memory_order_relaxed);
}

void tri_cluster_hosted(tr_system *sys, char *out, size_t size)
{
    tri_cluster *cluster = tri_cluster_of(sys);
    tri_text text;
    tri_text_init(&text, out, size);
    tri_lock_take(&cluster->kinds_lock);
    for (tri_kind *kind = cluster->first_kind; kind != NULL;
         kind = kind->next) {
        tri_text_add(&text, "%s%s",
                     kind == cluster->first_kind ? "; hosted here: " : ", ",
                     kind->name);
    }
    tri_lock_drop(&cluster->kinds_lock);
}

void tri_cluster_free(tr_system *sys)
{
    tri_cluster *cluster = tri_cluster_of(sys);
    tri_kind *kind;
    tri_bus_free(cluster);
    for (uint32_t i = 0; i < TRI_SHARDS; i++) {
        tri_catalog_free_mail(sys, &cluster->shards[i]);
    }
    for (tri_map_iter it = tri_map_iter_begin(&cluster->kinds);
         (kind = tri_map_iter_next(&cluster->kinds, &it)) != NULL;) {
        tri_kind_free(kind);
    }
    tri_map_fini(&cluster->kinds);
    tri_directory_fini(&cluster->directory);
    tri_names_free(cluster);
    free(cluster);
}

static const tr_actor_def guardian = {
    .size = sizeof(tr_actor_def), .name = "guardian", .state_size = 0};

static tr_err cluster_new(tri_actor_from *who, tri_cluster **out)
{
    tr_system *sys = who->sys;
    tri_cluster *cluster = tri_mem_calloc(&sys->mem, sizeof(*cluster));
    if (cluster == NULL) {
        return TR_ENOMEM;
    }
    cluster->base.ops = &tri_catalog_ops;
    cluster->sys = sys;
    cluster->ns = sys->ns != NULL ? sys->ns : "local";
    cluster->names_max = sys->options.virtual_names != 0
                             ? sys->options.virtual_names
                             : TRI_NAMES_DEFAULT;
    tri_map_init(&cluster->kinds, kind_is, NULL);
    tri_names_init(cluster);
    cluster->line.max =
        TRI_MAX(sys->options.max_parked / TRI_LOADING_SHARE, UINT32_C(1));
    tri_directory_init(&cluster->directory, &sys->mem, cluster->here);
    tr_spawn_options options = {.size = sizeof(options),
                                .name = "virtual",
                                .stop_timeout = TR_FOREVER / 4};
    cluster->guardian =
        tri_spawn_under(who, sys->root, &guardian, &options, TRI_CELL_SYSTEM);
    if (cluster->guardian.cell == 0) {
        tr_err err = tr_ref_err(cluster->guardian);
        tri_directory_fini(&cluster->directory);
        free(cluster);
        return err == TR_ESTOPPED ? TR_ECLOSED : err;
    }
    *out = cluster;
    return TR_OK;
}

tr_err tri_cluster_get(tri_actor_from *who, tri_cluster **out)
{
    tr_system *sys = who->sys;
    const char *why;
    tr_err err = TR_OK;
    *out = tri_cluster_of(sys);
    if (*out != NULL) {
        return TR_OK;
    }
    if (sys->ns != NULL && !tri_id_is_field(sys->ns, &why)) {
        tri_error_set(who->ctx, "namespace \"%s\": %s", sys->ns, why);
        return TR_EINVAL;
    }
    tri_lock_take(&sys->virtuals_lock);
    *out = tri_cluster_of(sys);
    if (*out == NULL) {
        err = cluster_new(who, out);
        if (err == TR_OK) {
            // Release: publishes it; pairs with tri_cluster_of.
            atomic_store_explicit(&sys->virtuals, &(*out)->base,
                                  memory_order_release);
        }
    }
    tri_lock_drop(&sys->virtuals_lock);
    return err;
}
