/*
 * host.c - tr_host: makes a kind of virtual actors known to a system.
 */
#include <stdatomic.h>
#include <stddef.h>

#include "base/check.h"
#include "base/options.h"
#include "cluster/bus/bus.h"
#include "cluster/virtual/actor_id.h"
#include "cluster/virtual/cluster.h"
#include "cluster/virtual/kind.h"
#include "cluster/virtual/stateless.h"
#include "cluster/virtual/sweeper.h"
#include "core/ask/error_text.h"
#include "core/caller.h"
#include "core/cell/props.h"
#include "core/system.h"
#include "system/reminders.h"
#include "system/stores.h"
#include "troupe/actor.h"
#include "troupe/base.h"
#include "troupe/cluster.h"

/* Returns why a virtual actor cannot have these options, or NULL if it can. */
static const char *misfit(const tr_actor_def *def, const tr_host_options *o,
                          const tr_spawn_options *s)
{
    return o->idle < 0                      ? "a negative idle time"
           : o->workers > TRI_STATELESS_MAX ? "too many workers"
           : (unsigned)o->placement > TR_PLACE_LEAST_LOADED
               ? "a placement that does not exist"
           : o->placement != TR_PLACE_OWNER && o->workers > 0
               ? "a placement: stateless workers run where they are hosted"
           : o->workers > 0 && o->storage != NULL
               ? "stateless workers have nothing to store"
           : s->name != NULL       ? "a name: each has its own"
           : s->mailbox_limit != 0 ? "a bounded mailbox"
           : s->priority != NULL   ? "an order of its mailbox"
           : s->drain != TR_DRAIN_DEAD_LETTERS
               ? "a drain: mail waits for the next activation"
           : s->joinable || s->auto_stop || s->watch
               ? "joinable, auto_stop or watch"
           : s->storage != NULL ? "storage belongs to the host's options"
           : !tri_storable(def, &(tr_spawn_options){.storage = o->storage})
               ? "a stored state needs TR_STATE, not a plain struct"
               : NULL;
}

/* Adds the kind to a system that is entered. Errors: as tr_host. */
static tr_err host(tri_caller *who, const tr_actor_def *def,
                   const tr_host_options *o, tr_spawn_options *s)
{
    tri_cluster *cluster;
    tri_kind *kind;
    // Acquire: pairs with tri_shutdown_begin.
    if (atomic_load_explicit(&who->sys->terminating, memory_order_acquire)) {
        return TR_ECLOSED;
    }
    TR_TRY(tri_cluster_get(who, &cluster));
    if (o->storage != NULL) {
        TR_TRY(tri_store_use(who->sys, o->storage, NULL));
    }
    TR_TRY(tri_kind_new(who, def, o, s, &kind));
    tr_err err = o->storage != NULL ? tri_reminders_host(who, def, o->storage,
                                                         s->serializer, NULL)
                                    : TR_OK;
    if (err == TR_OK) {
        err = tri_sweeper_start(cluster, who);
    }
    if (err == TR_OK) {
        err = tri_kind_add(cluster, kind);
    }
    if (err != TR_OK) {
        tri_kind_free(kind);
        return err;
    }
    tri_sweeper_add_kind(cluster, who->worker, kind);
    tri_bus_host_kind(cluster, who->worker, kind);
    return TR_OK;
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
    if (!tri_actor_id_is_field(def->name, &why) ||
        (why = misfit(def, &o, &s)) != NULL) {
        tri_error_set(NULL, "cannot host %s: %s", def->name, why);
        return TR_EINVAL;
    }
    tri_caller who = tri_enter((tr_from){.sys = sys});
    tr_err err = host(&who, def, &o, &s);
    tri_leave(&who);
    if (err == TR_EEXIST || err == TR_ECLOSED) {
        tri_error_set(NULL, "cannot host %s: %s", def->name,
                      err == TR_EEXIST ? "this system hosts the kind already"
                                       : tr_strerror(err));
    }
    return err;
}
