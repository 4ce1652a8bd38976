/*
 * virtual.c - the calls of cluster.h, and what an activation knows of itself.
 */
#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "cluster/bus.h"
#include "core/probe.h"
#include "system/layers.h"
#include "troupe/cluster.h"

static tr_ref nobody(tr_err err)
{
    return (tr_ref){0, (uint64_t)err};
}

/* ---- hosting ---- */

static tr_err refuse(const char *kind, const char *why)
{
    tri_error_set(NULL, "cannot host %s: %s", kind, why);
    return TR_EINVAL;
}

/* What of a plain actor makes no sense for one that comes and goes. */
static const char *misfit(const tr_actor_def *def, const tr_host_options *o,
                          const tr_spawn_options *s)
{
    return o->idle < 0                      ? "a negative idle time"
           : o->workers > TRI_STATELESS_MAX ? "too many workers"
           : o->workers > 0 && o->storage != NULL
               ? "stateless workers have nothing to store"
           : s->name != NULL       ? "a name: each has its own"
           : s->mailbox_limit != 0 ? "a bounded mailbox"
           : s->drain != TR_DRAIN_DEAD_LETTERS
               ? "a drain: mail waits for the next activation"
           : s->joinable || s->auto_stop || s->watch
               ? "joinable, auto_stop or watch"
           : s->storage != NULL ? "storage belongs to the host's options"
           : !tri_storable(def, &(tr_spawn_options){.storage = o->storage})
               ? "a stored state needs TR_STATE, not a plain struct"
               : NULL;
}

/* /virtual has nobody to escalate to: such an activation ends. */
static bool take_supervision(tr_system *sys, const tr_spawn_options *o,
                             tr_supervision *out)
{
    *out = sys->supervision;
    if (o->supervision != NULL &&
        (!tri_options_copy(out, sizeof(*out),
                           TRI_SIZE_THROUGH(tr_supervision, retry_message),
                           o->supervision) ||
         !tri_supervision_fill(out))) {
        return false;
    }
    if (out->on_failure == TR_ESCALATE) {
        out->on_failure = TR_STOP;
    }
    if (out->on_limit == TR_ESCALATE) {
        out->on_limit = TR_STOP;
    }
    out->scope = TR_ONE_FOR_ONE;  // the others are no siblings of its own
    return true;
}

static tr_err take_group(tr_system *sys, const char *name, uint32_t *bits)
{
    *bits = 0;
    if (name == NULL || sys->driven_worker != NULL) {
        return TR_OK;
    }
    tri_group *group = tri_group_find(sys, name);
    if (group == NULL || group->kind == TR_DISPATCH_PINNED) {
        return TR_EINVAL;
    }
    *bits = (uint32_t)group->index << TRI_CELL_GROUP_SHIFT;
    return tri_workers_start(sys, group);  // those that nobody used yet
}

static tr_err kind_new(tri_actor_from *who, const tr_actor_def *def,
                       const tr_host_options *o, tr_spawn_options *s,
                       tri_kind **out)
{
    tr_supervision supervision;
    tr_system *sys = who->sys;
    *out = NULL;
    uint32_t group;
    if (!take_supervision(sys, s, &supervision) ||
        take_group(sys, s->dispatcher, &group) != TR_OK) {
        return refuse(def->name, "its supervision or dispatcher");
    }
    s->supervision = &supervision;
    s->storage = o->storage;
    tri_kind *kind = tri_mem_calloc(&sys->mem, sizeof(*kind));
    if (kind == NULL) {
        return TR_ENOMEM;
    }
    kind->name = strdup(def->name);
    kind->def = def;
    kind->behaviour = tri_behaviour_get(sys, who->worker, def);
    if (kind->behaviour != NULL &&
        (s->interceptors != NULL || sys->options.interceptors != NULL)) {
        kind->behaviour = tri_behaviour_wrap(
            sys, kind->behaviour, sys->options.interceptors, s->interceptors);
    }
    kind->group = group;
    kind->soft_limit = s->soft_limit;
    kind->idle = o->idle != 0 ? o->idle : TRI_IDLE_DEFAULT;
    kind->max_active = o->max_active;
    kind->workers = o->workers;
    tr_err err = kind->name != NULL && kind->behaviour != NULL
                     ? tri_props_new(sys, NULL, def, s, &kind->props)
                     : TR_ENOMEM;
    if (err != TR_OK) {
        tri_kind_free(kind);
        return err;
    }
    *out = kind;
    return TR_OK;
}

static tr_err add_kind(tri_cluster *cluster, tri_actor_from *who,
                       tri_kind *kind)
{
    tri_lock_take(&cluster->kinds_lock);
    tr_err err = tri_map_put_bytes(&cluster->kinds, kind->name,
                                   strlen(kind->name), kind);
    if (err == TR_OK) {
        err = tri_sweep_for(cluster, who, kind);
        if (err == TR_OK) {
            kind->next = cluster->first_kind;
            cluster->first_kind = kind;
        } else {
            tri_map_remove_bytes(&cluster->kinds, kind->name,
                                 strlen(kind->name));
        }
    }
    tri_lock_drop(&cluster->kinds_lock);
    return err;
}

tr_err(tr_host)(tr_system *sys, const tr_actor_def *def,
                const tr_host_options *options)
{
    TRI_CHECK(sys->magic == TRI_SYSTEM_MAGIC);
    tr_host_options o;
    tr_spawn_options s;
    const char *why;
    if (def == NULL || def->size < sizeof(*def) ||
        !tri_options_copy(&o, sizeof(o),
                          TRI_SIZE_THROUGH(tr_host_options, spawn), options) ||
        !tri_options_copy(&s, sizeof(s),
                          TRI_SIZE_THROUGH(tr_spawn_options, auto_stop),
                          o.spawn)) {
        return TR_EINVAL;
    }
    if (!tri_id_is_field(def->name, &why) ||
        (why = misfit(def, &o, &s)) != NULL) {
        return refuse(def->name, why);
    }
    tri_actor_from who = tri_enter((tr_from){.sys = sys});
    tri_cluster *cluster;
    tri_kind *kind = NULL;
    // Acquire: pairs with tri_system_begin_end.
    tr_err err = atomic_load_explicit(&sys->terminating, memory_order_acquire)
                     ? TR_ECLOSED
                     : tri_cluster_get(&who, &cluster);
    if (err == TR_OK && o.storage != NULL) {
        err = tri_store_use(sys, o.storage);
    }
    if (err == TR_OK) {
        err = kind_new(&who, def, &o, &s, &kind);
    }
    if (err == TR_OK && o.storage != NULL) {
        err = tri_reminders_host(&who, def, o.storage, s.serializer, NULL);
        if (err != TR_OK) {
            tri_kind_free(kind);
        }
    }
    if (err == TR_OK) {
        err = add_kind(cluster, &who, kind);
        if (err == TR_OK) {
            tri_bus_host(cluster, who.worker, kind);
        } else {
            tri_kind_free(kind);
        }
    }
    tri_leave(&who);
    if (err == TR_EEXIST || err == TR_ECLOSED) {
        tri_error_set(NULL, "cannot host %s: %s", def->name,
                      err == TR_EEXIST ? "this system hosts the kind already"
                                       : tr_strerror(err));
    }
    return err;
}

/* ---- names ---- */

static tr_system *system_of(tr_from from, tr_ctx **ctx)
{
    *ctx = tri_from_is_ctx(from) ? from.ctx : NULL;
    return tri_from_system(from);
}

static tr_err cluster_for(tr_from from, tr_system *sys, tri_cluster **out)
{
    *out = tri_cluster_of(sys);
    if (TRI_LIKELY(*out != NULL)) {
        return TR_OK;
    }
    tri_actor_from who = tri_enter(from);
    tr_err err = tri_cluster_get(&who, out);
    tri_leave(&who);
    return err;
}

static tr_err too_many(tr_from from, tri_cluster *cluster, tr_err err,
                       const tri_actor_id *id)
{
    tr_ctx *ctx;
    (void)system_of(from, &ctx);
    if (err == TR_ELIMIT) {
        tri_error_set(ctx,
                      "no room for the name \"%s\": %u are in use, "
                      "which is tr_system_options.virtual_names",
                      id->text, cluster->names_max);
    }
    return err;
}

static tr_ref ref_of(tri_cluster *cluster, tr_from from, const tri_actor_id *id)
{
    tri_virtual *v;
    tr_err err = tri_virtual_get(cluster, from, id, &v);
    return err == TR_OK ? tri_cell_ref(cluster->sys, &v->cell)
                        : nobody(too_many(from, cluster, err, id));
}

static tr_err make_id(tr_from from, const char *kind, const char *key,
                      tri_cluster **cluster, tri_actor_id *id)
{
    tr_ctx *ctx;
    tr_system *sys = system_of(from, &ctx);
    const char *why;
    TR_TRY(cluster_for(from, sys, cluster));
    tr_err err = tri_id_make(id, (*cluster)->ns, kind, key, &why);
    if (err != TR_OK) {
        tri_error_set(ctx, "\"%s/%s\" is no name of a virtual actor: %s",
                      kind != NULL ? kind : "", key != NULL ? key : "", why);
    }
    return err;
}

tr_ref(tr_virtual)(tr_from from, const char *kind, const char *key)
{
    tri_cluster *cluster;
    tri_actor_id id;
    tr_err err = make_id(from, kind, key, &cluster, &id);
    return err == TR_OK ? ref_of(cluster, from, &id) : nobody(err);
}

tr_ref(tr_virtual_named)(tr_from from, const char *text)
{
    tr_ctx *ctx;
    tr_system *sys = system_of(from, &ctx);
    tri_cluster *cluster;
    tri_actor_id id;
    const char *why = "it is missing";
    tr_err err = cluster_for(from, sys, &cluster);
    if (err != TR_OK) {
        return nobody(err);
    }
    err = text != NULL ? tri_id_parse(&id, text, &why) : TR_EINVAL;
    if (err != TR_OK) {
        tri_error_set(ctx, "\"%s\" is not namespace::kind/key: %s",
                      text != NULL ? text : "", why);
        return nobody(err);
    }
    size_t size = strlen(cluster->ns);
    if (size + 2 != id.kind_at || memcmp(id.text, cluster->ns, size) != 0) {
        tri_error_set(ctx, "\"%s\" is not of this namespace, %s", text,
                      cluster->ns);
        return nobody(TR_EFOREIGN);
    }
    return ref_of(cluster, from, &id);
}

/* ---- sends by name ---- */

/* A name that is held over one send. */
typedef struct target {
    tri_cluster *cluster;
    tri_virtual *v;  // NULL: nobody, and ref says why
    tr_ref ref;
} target;

static target target_begin(tr_from from, const char *kind, const char *key)
{
    target t = {0};
    tri_actor_id id;
    tr_err err = make_id(from, kind, key, &t.cluster, &id);
    if (err == TR_OK) {
        err = too_many(from, t.cluster,
                       tri_virtual_hold(t.cluster, from, &id, &t.v), &id);
    }
    t.ref =
        err == TR_OK ? tri_cell_ref(t.cluster->sys, &t.v->cell) : nobody(err);
    return t;
}

static void target_end(const target *t)
{
    if (t->v != NULL) {
        tri_virtual_let_go(t->cluster, t->v);
    }
}

void(tr_tell_virtual)(tr_from from, const char *kind, const char *key,
                      const tr_type *type, const void *payload)
{
    target t = target_begin(from, kind, key);
    (tr_tell)(from, t.ref, type, payload);
    target_end(&t);
}

tr_err(tr_try_tell_virtual)(tr_from from, const char *kind, const char *key,
                            const tr_type *type, const void *payload)
{
    target t = target_begin(from, kind, key);
    tr_err err = t.v != NULL ? (tr_try_tell)(from, t.ref, type, payload)
                             : tr_ref_err(t.ref);
    target_end(&t);
    return err;
}

tr_err(tr_ask_virtual)(tr_from from, const char *kind, const char *key,
                       void *out, tr_nanos timeout, const tr_type *type,
                       const void *payload, const char *site)
{
    target t = target_begin(from, kind, key);
    if (t.v == NULL) {  // the text is there already
        TRI_CHECK(type->reply != NULL);
        if (out != NULL) {
            memset(out, 0, type->reply->size);
        }
        return tr_ref_err(t.ref);
    }
    tr_err err = (tr_ask)(from, t.ref, out, timeout, type, payload, site);
    target_end(&t);
    return err;
}

void tr_forward_virtual(tr_ctx *ctx, const char *kind, const char *key,
                        const void *m)
{
    target t = target_begin((tr_from){.ctx = ctx}, kind, key);
    tr_forward(ctx, t.ref, m);
    target_end(&t);
}

/* ---- what an activation knows of itself ---- */

const char *tr_key(tr_ctx *ctx)
{
    if (!tri_cell_is_virtual(ctx->cell)) {
        return NULL;
    }
    tri_virtual *v = tri_virtual_of(ctx->cell);
    return v->text + v->key_at;
}

uint64_t tr_epoch(tr_ctx *ctx)
{
    if (!tri_cell_is_virtual(ctx->cell)) {
        return 0;
    }
    uint64_t epoch;
    (void)tri_shard_owner(&tri_cluster_of(ctx->sys)->directory,
                          tri_virtual_of(ctx->cell)->shard, &epoch);
    return epoch;
}
