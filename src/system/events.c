/*
 * events.c - the event stream.
 *
 * The subscriptions are a list behind a lock. A publication copies some of
 * them out, sends, and continues behind those. So nothing is sent with the
 * lock held, and whoever subscribes or leaves meanwhile may or may not get the
 * event.
 *
 * Callbacks run in the turns of one actor, the listener at /system/events:
 * one at a time, in order, without a lock.
 */
#include "system/events.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/lock.h"
#include "base/world.h"
#include "core/caller.h"
#include "core/cell/cell.h"
#include "core/cell/cell_path.h"
#include "core/cell/ext.h"
#include "core/cell/mem.h"
#include "core/cell/message.h"
#include "core/life/signal.h"
#include "core/life/spawn.h"
#include "core/mail/send.h"
#include "core/run/context.h"
#include "core/run/worker.h"
#include "core/system.h"
#include "system/layers.h"
#include "system/system_log.h"
#include "troupe/message.h"
#include "troupe/observe.h"
#include "troupe/system.h"

enum {
    BATCH = 32,  // subscriptions copied out at once
};

#define LOG_EVERY TR_SECONDS(1)  // between two lines about lost events

static tri_events *events_of(tr_system *sys)
{
    return &tri_layers_of(sys)->events;
}

/* ---- subscribing ---- */

/* Tells the core which events have subscribers. With the lock. */
static void note_wanted(tr_system *sys, tri_events *events)
{
    tri_lock_assert_held(&events->lock);
    uint32_t wanted = 0;
    for (tri_subscription *s = events->subscriptions; s != NULL; s = s->next) {
        wanted |= s->type->schema == tr_lifecycle_tr_type.schema
                      ? TRI_EVENT_LIFECYCLE
                      : TRI_EVENT_OTHER;
    }
    // Relaxed: a hint for tri_life_set; a new subscriber may miss an event.
    atomic_store_explicit(&sys->watch_events, wanted, memory_order_relaxed);
}

/* Finds the place of a subscription of ref to the type, or the end. */
static tri_subscription **find(tri_events *events, const tr_type *type,
                               tr_ref ref)
{
    tri_subscription **link = &events->subscriptions;
    tri_lock_assert_held(&events->lock);
    while (*link != NULL &&
           ((*link)->fn != NULL || !tr_ref_eq((*link)->ref, ref) ||
            (*link)->type->schema != type->schema)) {
        link = &(*link)->next;
    }
    return link;
}

/* Adds a subscription of a ref, once per type, or of a callback. */
static tr_err add(tr_system *sys, const tri_subscription *wanted)
{
    TRI_CHECK(wanted->type != NULL);
    tri_events *events = events_of(sys);
    tri_subscription *made = tri_mem_calloc(&sys->mem, sizeof(*made));
    if (made == NULL) {
        return TR_ENOMEM;
    }
    *made = *wanted;
    tri_lock_take(&events->lock);
    // A callback has no ref, and two callbacks may be the same.
    tri_subscription **link = find(events, wanted->type, wanted->ref);
    bool known = wanted->fn == NULL && *link != NULL;
    if (known) {
        (*link)->fan_out = wanted->fan_out;
    } else {
        while (*link != NULL) {
            link = &(*link)->next;
        }
        *link = made;
        note_wanted(sys, events);
    }
    tri_lock_drop(&events->lock);
    if (known) {
        free(made);
    }
    return TR_OK;
}

/* Removes the subscriptions of ref to the type, or to all if it is NULL. */
static void remove_ref(tr_system *sys, const tr_type *type, tr_ref ref)
{
    tri_events *events = events_of(sys);
    tri_lock_take(&events->lock);
    for (tri_subscription **link = &events->subscriptions; *link != NULL;) {
        tri_subscription *s = *link;
        if (s->fn == NULL && tr_ref_eq(s->ref, ref) &&
            (type == NULL || s->type->schema == type->schema)) {
            *link = s->next;
            free(s);
        } else {
            link = &s->next;
        }
    }
    note_wanted(sys, events);
    tri_lock_drop(&events->lock);
}

void tri_events_unsubscribe_all(tr_system *sys, tr_ref ref)
{
    // Relaxed: whoever subscribed ref did so before this call.
    if (atomic_load_explicit(&sys->watch_events, memory_order_relaxed) != 0) {
        remove_ref(sys, NULL, ref);
    }
}

tr_err tri_events_subscribe(tr_system *sys, const tr_type *type, tr_ref ref)
{
    tri_subscription wanted = {
        .type = type, .ref = ref, .fan_out = tri_fan_out_default};
    return add(sys, &wanted);
}

/* Subscribes the actor of ctx. Its end looks at the extension: up.c. */
static tr_err subscribe(tr_ctx *ctx, const tr_type *type, tri_fan_out fan_out)
{
    tri_subscription wanted = {
        .type = type, .ref = tr_self(ctx), .fan_out = fan_out};
    if (tri_ext_need(ctx->worker, ctx->cell) == NULL) {
        return TR_ENOMEM;
    }
    return add(ctx->sys, &wanted);
}

void(tr_subscribe)(tr_ctx *ctx, const tr_type *type)
{
    if (subscribe(ctx, type, tri_fan_out_default) != TR_OK) {
        (tr_panic)(ctx, "tr_subscribe", "out of memory");
    }
}

tr_err(tr_subscribe_with)(tr_ctx *ctx, const tr_type *type,
                          const tr_fan_out *options)
{
    tri_fan_out fan_out;
    TRI_CHECK(ctx->magic == TRI_CTX_MAGIC);
    TR_TRY(tri_fan_out_take(ctx, options, tri_fan_out_default.limit, &fan_out));
    return subscribe(ctx, type, fan_out);
}

void(tr_unsubscribe)(tr_ctx *ctx, const tr_type *type)
{
    remove_ref(ctx->sys, type, tr_self(ctx));
}

/* ---- the listener ---- */

static tr_err run_callbacks(tr_ctx *ctx, void *self, const void *m);

static const tr_handler listener_handlers[] = {{NULL, run_callbacks, 0}};
static const tr_actor_def listener_def = {.size = sizeof(tr_actor_def),
                                          .name = "events",
                                          .handlers = listener_handlers,
                                          .handler_count = 1};

static tr_ref listener_of(tri_events *events)
{
    tri_lock_take(&events->lock);
    tr_ref listener = events->listener;
    tri_lock_drop(&events->lock);
    return listener;
}

/* Spawns the listener unless it is there. */
static tr_err need_listener(tr_system *sys)
{
    tri_events *events = events_of(sys);
    if (listener_of(events).cell != 0) {
        return TR_OK;
    }
    tr_spawn_options options = {.size = sizeof(options), .name = "events"};
    tri_caller who = tri_enter((tr_from){.sys = sys});
    tr_ref ref = tri_spawn_under(&who, sys->system, &listener_def, &options,
                                 TRI_CELL_SYSTEM);
    tri_leave(&who);
    if (tr_ref_err(ref) == TR_EEXIST) {
        return TR_OK;  // another thread was faster
    }
    TR_TRY(tr_ref_err(ref));
    tri_lock_take(&events->lock);
    events->listener = ref;
    tri_lock_drop(&events->lock);
    return TR_OK;
}

bool tri_events_has_listener(tr_system *sys)
{
    return listener_of(events_of(sys)).cell != 0;
}

void tri_events_flush(tr_system *sys, tr_nanos deadline)
{
    tr_ref listener = listener_of(events_of(sys));
    tr_nanos now = sys->world->ops->mono(sys->world);
    if (listener.cell != 0 && deadline > now) {
        tri_poison_any(sys, listener);
        (void)!tr_join(sys, listener, deadline - now, NULL, NULL);
    }
}

tr_err(tr_on_event)(tr_system *sys, const tr_type *type, tr_event_fn fn,
                    void *user)
{
    TRI_CHECK(sys->magic == TRI_SYSTEM_MAGIC);
    // Acquire: pairs with tri_shutdown_begin.
    if (atomic_load_explicit(&sys->terminating, memory_order_acquire)) {
        return TR_ECLOSED;
    }
    TR_TRY(need_listener(sys));
    tri_subscription wanted = {
        .type = type, .fn = fn, .user = user, .fan_out = tri_fan_out_default};
    return add(sys, &wanted);
}

/* ---- publishing ---- */

bool tri_event_wanted(tr_system *sys, const tr_type *type)
{
    // Relaxed: as in note_wanted.
    uint32_t wanted =
        atomic_load_explicit(&sys->watch_events, memory_order_relaxed);
    return type->schema == tr_lifecycle_tr_type.schema
               ? wanted & TRI_EVENT_LIFECYCLE
               : wanted & TRI_EVENT_OTHER;
}

/*
 * Copies up to BATCH subscriptions to the type, the first `from` of them left
 * out, with the listener's ref for callbacks. Returns how many.
 */
static uint32_t copy_some(tr_system *sys, const tr_type *type, uint32_t from,
                          tri_subscription *out)
{
    tri_events *events = events_of(sys);
    uint32_t seen = 0, count = 0;
    tri_lock_take(&events->lock);
    for (tri_subscription *s = events->subscriptions;
         s != NULL && count < BATCH; s = s->next) {
        if (s->type->schema == type->schema && seen++ >= from) {
            out[count] = *s;
            out[count].ref = s->fn != NULL ? events->listener : s->ref;
            count++;
        }
    }
    tri_lock_drop(&events->lock);
    return count;
}

/* Names a subscriber that misses events in the log, not too often. */
static void log_slow(tr_system *sys, tr_ref to, const tr_type *type)
{
    tri_events *events = events_of(sys);
    tr_nanos now = sys->world->ops->mono(sys->world);
    TRI_CHECK(type != NULL);
    // Relaxed, all: statistics; the exchange lets one thread log.
    uint64_t lost = atomic_load_explicit(&events->lost, memory_order_relaxed);
    tr_nanos last =
        atomic_load_explicit(&events->lost_logged, memory_order_relaxed);
    if ((last != 0 && now - last < LOG_EVERY) ||
        !atomic_compare_exchange_strong_explicit(&events->lost_logged, &last,
                                                 now, memory_order_relaxed,
                                                 memory_order_relaxed)) {
        return;
    }
    char path[TRI_PATH_MAX];
    tr_ref_path(sys, to, path, sizeof(path));
    tri_logf(sys, TR_LOG_WARN, NULL, NULL,
             "%s is too slow and misses a %s (%llu events lost so far)", path,
             type->name, (unsigned long long)lost);
}

/* Publishing never waits: a subscriber that is too slow misses events. */
void tri_event_send(tri_worker *worker, tr_ref sender, tr_ref to,
                    tri_fan_out fan_out, const tr_type *type,
                    const void *payload)
{
    tri_caller who = {.sys = worker->sys, .worker = worker, .sender = sender};
    tr_err err = TR_EFULL;
    if (tri_fan_out_admits(worker, to, fan_out)) {
        tr_msg *msg = tri_msg_new(&worker->cache, type, payload, false);
        err = msg != NULL ? tri_try_send(&who, to, msg) : TR_ENOMEM;
        if (err != TR_OK && msg != NULL) {
            tri_msg_free(&worker->cache, msg);
        }
    }
    if (err != TR_OK) {
        // Relaxed: a statistic.
        atomic_fetch_add_explicit(&events_of(worker->sys)->lost, 1,
                                  memory_order_relaxed);
    }
    if (err == TR_EFULL) {
        log_slow(worker->sys, to, type);
    }
}

static void publish(tri_worker *worker, tr_ref sender, const tr_type *type,
                    const void *payload)
{
    tri_subscription some[BATCH];
    uint32_t from = 0, count;
    bool called = false;
    while ((count = copy_some(worker->sys, type, from, some)) > 0) {
        for (uint32_t i = 0; i < count; i++) {
            if (some[i].fn != NULL && called) {
                continue;  // the listener runs all callbacks for one message
            }
            tri_event_send(worker, sender, some[i].ref, some[i].fan_out, type,
                           payload);
            called |= some[i].fn != NULL;
        }
        from += count;
    }
}

static tr_err run_callbacks(tr_ctx *ctx, void *self, const void *m)
{
    const tr_type *type = tr_msg_type(m);
    tri_subscription some[BATCH];
    uint32_t from = 0, count;
    (void)self;
    while ((count = copy_some(ctx->sys, type, from, some)) > 0) {
        for (uint32_t i = 0; i < count; i++) {
            if (some[i].fn != NULL) {
                some[i].fn(some[i].user, type, tr_msg_payload(m));
            }
        }
        from += count;
    }
    return TR_OK;
}

void tri_event(tri_worker *worker, const tr_type *type, const void *payload)
{
    TRI_CHECK(type != NULL);
    if (tri_event_wanted(worker->sys, type)) {
        publish(worker, (tr_ref){0}, type, payload);
    }
}

void(tr_publish)(tr_from from, const tr_type *type, const void *payload)
{
    tri_caller who = tri_enter(from);
    publish(who.worker, who.sender, type, payload);
    tri_leave(&who);
}

void tri_events_free(tr_system *sys)
{
    tri_events *events = events_of(sys);
    while (events->subscriptions != NULL) {
        tri_subscription *next = events->subscriptions->next;
        free(events->subscriptions);
        events->subscriptions = next;
    }
}
