/*
 * virtual_api.c - the public calls of cluster.h: refs and sends by name, and
 * what an activation knows of itself. tr_host is in host.c. And tr_system_open,
 * which gives the layers below the function that names a virtual actor.
 */
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "cluster/virtual/activation.h"
#include "cluster/virtual/actor_id.h"
#include "cluster/virtual/cluster.h"
#include "cluster/virtual/names.h"
#include "cluster/virtual/virtual.h"
#include "core/ask/error_text.h"
#include "core/caller.h"
#include "core/cell/cell.h"
#include "core/run/context.h"
#include "core/system.h"
#include "system/system.h"
#include "troupe/actor.h"
#include "troupe/base.h"
#include "troupe/cluster.h"
#include "troupe/message.h"
#include "troupe/system.h"

static tr_ref no_ref(tr_err err)
{
    TRI_CHECK(err != TR_OK);
    return (tr_ref){0, (uint64_t)err};
}

/* ---- names ---- */

/* Returns the system of a caller and, if it is an actor, its context. */
static tr_system *system_of(tr_from from, tr_ctx **ctx)
{
    *ctx = tri_from_is_ctx(from) ? from.ctx : NULL;
    return tri_from_system(from);
}

static tr_err cluster_for(tr_from from, tr_system *sys, tri_cluster **out)
{
    TRI_CHECK(sys != NULL);
    *out = tri_cluster_of(sys);
    if (TRI_LIKELY(*out != NULL)) {
        return TR_OK;
    }
    tri_caller who = tri_enter(from);
    tr_err err = tri_cluster_get(&who, out);
    tri_leave(&who);
    return err;
}

/* Adds an error text if there were too many names; returns err. */
static tr_err explain(tr_from from, tri_cluster *cluster, tr_err err,
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
    tr_err err = tri_names_keep(cluster, from, id, &v);
    return err == TR_OK ? tri_cell_ref(cluster->sys, &v->cell)
                        : no_ref(explain(from, cluster, err, id));
}

/* Makes the id of an actor in the caller's namespace. */
static tr_err make_id(tr_from from, const char *kind, const char *key,
                      tri_cluster **cluster, tri_actor_id *id)
{
    tr_ctx *ctx;
    tr_system *sys = system_of(from, &ctx);
    const char *why;
    TR_TRY(cluster_for(from, sys, cluster));
    tr_err err = tri_actor_id_make(id, (*cluster)->ns, kind, key, &why);
    if (err != TR_OK) {
        tri_error_set(ctx, "\"%s/%s\" is not a name of a virtual actor: %s",
                      kind != NULL ? kind : "", key != NULL ? key : "", why);
    }
    return err;
}

tr_ref(tr_virtual)(tr_from from, const char *kind, const char *key)
{
    tri_cluster *cluster;
    tri_actor_id id;
    tr_err err = make_id(from, kind, key, &cluster, &id);
    return err == TR_OK ? ref_of(cluster, from, &id) : no_ref(err);
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
        return no_ref(err);
    }
    err = text != NULL ? tri_actor_id_parse(&id, text, &why) : TR_EINVAL;
    if (err != TR_OK) {
        tri_error_set(ctx, "\"%s\" is not namespace::kind/key: %s",
                      text != NULL ? text : "", why);
        return no_ref(err);
    }
    size_t size = strlen(cluster->ns);
    if (size + 2 != id.kind_at || memcmp(id.text, cluster->ns, size) != 0) {
        tri_error_set(ctx, "\"%s\" is not of this namespace, %s", text,
                      cluster->ns);
        return no_ref(TR_EFOREIGN);
    }
    return ref_of(cluster, from, &id);
}

/* ---- sends by name ---- */

/* The record of a name that is held during one send. */
typedef struct target {
    tri_cluster *cluster;
    tri_virtual *v;  // NULL: there is none, and ref.id is the error
    tr_ref ref;
} target;

static target target_begin(tr_from from, const char *kind, const char *key)
{
    target t = {0};
    tri_actor_id id;
    tr_err err = make_id(from, kind, key, &t.cluster, &id);
    if (err == TR_OK) {
        err = explain(from, t.cluster,
                      tri_names_hold(t.cluster, from, &id, &t.v), &id);
    }
    t.ref =
        err == TR_OK ? tri_cell_ref(t.cluster->sys, &t.v->cell) : no_ref(err);
    return t;
}

static void target_end(const target *t)
{
    TRI_CHECK(t->v == NULL || t->ref.cell != 0);
    if (t->v != NULL) {
        tri_names_release(t->cluster, t->v);
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
    if (t.v == NULL) {  // the error text is set already
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
    TRI_CHECK(ctx->magic == TRI_CTX_MAGIC);
    if (!tri_cell_is_virtual(ctx->cell)) {
        return NULL;
    }
    tri_virtual *v = tri_virtual_of(ctx->cell);
    return v->text + v->key_at;
}

uint64_t tr_epoch(tr_ctx *ctx)
{
    TRI_CHECK(ctx->magic == TRI_CTX_MAGIC);
    if (!tri_cell_is_virtual(ctx->cell)) {
        return 0;
    }
    tri_activation *a = tri_virtual_of(ctx->cell)->activation;
    TRI_CHECK(a != NULL);
    // Relaxed: the store decides whether a save with it is in time.
    return atomic_load_explicit(&a->epoch, memory_order_relaxed);
}

/* ---- opening ---- */

/* The system layer cannot name a virtual actor without this layer. */
tr_err(tr_system_open)(tr_system **out, const tr_system_options *options)
{
    return tri_system_open(out, options, tr_virtual_named);
}
