/*
 * kind.c - the kinds of virtual actors that this system hosts.
 *
 * Invariant: every kind in the cluster's map is in its list, and the reverse;
 * both change under kinds_lock.
 */
#include "cluster/virtual/kind.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/lock.h"
#include "base/map.h"
#include "base/options.h"
#include "cluster/virtual/cluster.h"
#include "cluster/virtual/shard.h"
#include "cluster/virtual/virtual.h"
#include "core/ask/error_text.h"
#include "core/cell/cell.h"
#include "core/cell/mem.h"
#include "core/life/supervise.h"
#include "core/run/intercept.h"
#include "core/run/pool.h"
#include "core/run/worker.h"
#include "core/system.h"
#include "core/types.h"
#include "troupe/supervise.h"
#include "troupe/system.h"

static bool kind_is(const void *value, const void *key, size_t size)
{
    const tri_kind *kind = value;
    return strlen(kind->name) == size && memcmp(kind->name, key, size) == 0;
}

/* ---- making ---- */

static tr_err refuse(const char *kind, const char *why)
{
    tri_error_set(NULL, "cannot host %s: %s", kind, why);
    return TR_EINVAL;
}

/*
 * Fills in the supervision of the kind's activations. Their guardian /virtual
 * cannot escalate, so an activation that would escalate ends instead. Returns
 * false if the options are not valid.
 */
static bool take_supervision(tr_system *sys, const tr_spawn_options *o,
                             tr_supervision *out)
{
    *out = sys->supervision;
    if (o->supervision != NULL &&
        (!tri_options_copy(out, sizeof(*out),
                           TRI_SIZE_THROUGH(tr_supervision, retry_message),
                           o->supervision) ||
         tri_supervision_fill(out) != NULL)) {
        return false;
    }
    if (out->on_failure == TR_ESCALATE) {
        out->on_failure = TR_STOP;
    }
    if (out->on_limit == TR_ESCALATE) {
        out->on_limit = TR_STOP;
    }
    out->scope = TR_ONE_FOR_ONE;  // other virtual actors are not its siblings
    return true;
}

static tr_err take_pool(tr_system *sys, const char *name, uint32_t *bits)
{
    *bits = 0;
    if (name == NULL || sys->driven_worker != NULL) {
        return TR_OK;
    }
    tri_pool *pool = tri_pool_find(sys, name);
    if (pool == NULL || pool->kind == TR_DISPATCH_PINNED) {
        return TR_EINVAL;
    }
    *bits = (uint32_t)pool->index << TRI_CELL_POOL_SHIFT;
    return tri_workers_start(sys, pool);  // if this is its first use
}

static void fill(tri_caller *who, tri_kind *kind, const tr_actor_def *def,
                 const tr_host_options *o, const tr_spawn_options *s)
{
    tr_system *sys = who->sys;
    kind->name = strdup(def->name);
    kind->def = def;
    kind->behaviour = tri_behaviour_get(sys, who->worker, def);
    if (kind->behaviour != NULL &&
        (s->interceptors != NULL || sys->options.interceptors != NULL)) {
        kind->behaviour = tri_behaviour_wrap(
            sys, kind->behaviour, sys->options.interceptors, s->interceptors);
    }
    kind->soft_limit = s->soft_limit;
    kind->idle = o->idle != 0 ? o->idle : TRI_IDLE_DEFAULT;
    kind->max_active = o->max_active;
    kind->workers = o->workers;
    kind->placement = (uint8_t)o->placement;
}

tr_err tri_kind_new(tri_caller *who, const tr_actor_def *def,
                    const tr_host_options *o, tr_spawn_options *s,
                    tri_kind **out)
{
    TRI_CHECK(who != NULL && def != NULL && o != NULL && s != NULL);
    tr_supervision supervision;
    tr_system *sys = who->sys;
    *out = NULL;
    uint32_t pool;
    if (!take_supervision(sys, s, &supervision) ||
        take_pool(sys, s->dispatcher, &pool) != TR_OK) {
        return refuse(def->name, "its supervision or dispatcher");
    }
    s->supervision = &supervision;
    s->storage = o->storage;
    tri_kind *kind = tri_mem_calloc(&sys->mem, sizeof(*kind));
    if (kind == NULL) {
        return TR_ENOMEM;
    }
    kind->pool = pool;
    fill(who, kind, def, o, s);
    tr_err err = kind->name != NULL && kind->behaviour != NULL
                     ? tri_props_new(sys, NULL, def, s, &kind->props)
                     : TR_ENOMEM;
    s->supervision = NULL;  // it ends with this call
    if (err != TR_OK) {
        tri_kind_free(kind);
        return err;
    }
    *out = kind;
    return TR_OK;
}

void tri_kind_free(tri_kind *kind)
{
    if (kind != NULL) {
        TRI_CHECK(kind->next == NULL);
        tri_props_drop(kind->props);
        free(kind->name);
        free(kind);
    }
}

/* ---- the cluster's list ---- */

tr_err tri_kind_add(tri_cluster *cluster, tri_kind *kind)
{
    TRI_CHECK(kind != NULL && kind->name != NULL);
    TRI_CHECK(kind->next == NULL);
    tri_lock_take(&cluster->kinds_lock);
    tr_err err = tri_map_put_bytes(&cluster->kinds, kind->name,
                                   strlen(kind->name), kind);
    if (err == TR_OK) {
        kind->next = cluster->first_kind;
        cluster->first_kind = kind;
    }
    tri_lock_drop(&cluster->kinds_lock);
    return err;
}

tri_kind *tri_kind_first(tri_cluster *cluster)
{
    tri_lock_take(&cluster->kinds_lock);
    tri_kind *first = cluster->first_kind;
    tri_lock_drop(&cluster->kinds_lock);
    return first;
}

tri_kind *tri_kind_find(tri_cluster *cluster, const char *name, size_t size)
{
    TRI_CHECK(name != NULL);
    tri_lock_take(&cluster->kinds_lock);
    tri_kind *kind = tri_map_get_bytes(&cluster->kinds, name, size);
    tri_lock_drop(&cluster->kinds_lock);
    return kind;
}

tri_kind *tri_kind_of(tri_cluster *cluster, tri_virtual *v)
{
    tri_lock_assert_held(&tri_cluster_shard(cluster, v)->lock);
    if (v->kind == NULL) {
        size_t at = strlen(cluster->ns) + 2;
        TRI_CHECK(at < v->key_at);
        v->kind = tri_kind_find(cluster, v->text + at, v->key_at - 1 - at);
    }
    return v->kind;
}

void tri_kind_init(tri_cluster *cluster)
{
    tri_map_init(&cluster->kinds, kind_is, NULL);
}

void tri_kind_fini(tri_cluster *cluster)
{
    uint32_t count = 0;
    while (cluster->first_kind != NULL) {
        tri_kind *kind = cluster->first_kind;
        cluster->first_kind = kind->next;
        kind->next = NULL;
        tri_kind_free(kind);
        count++;
    }
    TRI_CHECK(count == tri_map_count(&cluster->kinds));
    tri_map_fini(&cluster->kinds);
}
