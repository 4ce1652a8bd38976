/*
 * events.c - the event stream, and topics.
 *
 * Both are lists of refs behind a lock. A publication copies some of the refs
 * out, sends, and goes on; so nothing is sent with the lock held, and whoever
 * joins or leaves meanwhile gets it or does not.
 *
 * Callbacks run in the turns of one actor, /system/events: so they come one at
 * a time, in order, and without a lock.
 */
#include <stdlib.h>
#include <string.h>

#include "system/layers.h"

enum {
    BATCH = 32,
    BEHIND_MAX = 32768,  // mail of a subscriber that gets no more events
};

/* ---- who listens ---- */

static void note_wanted(tr_system *sys)
{
    tri_layers *layers = tri_layers_of(sys);
    uint32_t wanted = 0;
    for (tri_subscription *s = layers->subscriptions; s != NULL; s = s->next) {
        wanted |= s->type->schema == tr_lifecycle_tr_type.schema
                      ? TRI_EVENT_LIFECYCLE
                      : TRI_EVENT_OTHER;
    }
    // Relaxed: a hint for tri_life_set; a new listener may miss one.
    atomic_store_explicit(&sys->watch_events, wanted, memory_order_relaxed);
}

static tr_err add(tr_system *sys, const tr_type *type, tr_ref ref,
                  tr_event_fn fn, void *user)
{
    tri_layers *layers = tri_layers_of(sys);
    tri_subscription *made = tri_mem_calloc(&sys->mem, sizeof(*made));
    if (made == NULL) {
        return TR_ENOMEM;
    }
    *made =
        (tri_subscription){.type = type, .ref = ref, .fn = fn, .user = user};
    tri_lock_take(&layers->events_lock);
    tri_subscription **end = &layers->subscriptions;
    bool known = false;
    while (*end != NULL) {
        known |= fn == NULL && (*end)->fn == NULL &&
                 tr_ref_eq((*end)->ref, ref) &&
                 (*end)->type->schema == type->schema;
        end = &(*end)->next;
    }
    if (!known) {
        *end = made;
        note_wanted(sys);
    }
    tri_lock_drop(&layers->events_lock);
    if (known) {
        free(made);
    }
    return TR_OK;
}

static void remove_if(tr_system *sys, const tr_type *type, tr_ref ref)
{
    tri_layers *layers = tri_layers_of(sys);
    tri_lock_take(&layers->events_lock);
    for (tri_subscription **link = &layers->subscriptions; *link != NULL;) {
        tri_subscription *s = *link;
        if (s->fn == NULL && tr_ref_eq(s->ref, ref) &&
            (type == NULL || s->type->schema == type->schema)) {
            *link = s->next;
            free(s);
        } else {
            link = &s->next;
        }
    }
    note_wanted(sys);
    tri_lock_drop(&layers->events_lock);
}

void tri_unsubscribe_ref(tr_system *sys, tr_ref ref)
{
    remove_if(sys, NULL, ref);
}

tr_err tri_subscribe_ref(tr_system *sys, const tr_type *type, tr_ref ref)
{
    return add(sys, type, ref, NULL, NULL);
}

void(tr_subscribe)(tr_ctx *ctx, const tr_type *type)
{
    if (add(ctx->sys, type, tr_self(ctx), NULL, NULL) != TR_OK) {
        (tr_panic)(ctx, "tr_subscribe", "out of memory");
    }
    if (tri_ext_need(ctx->worker, ctx->cell) == NULL) {
        (tr_panic)(ctx, "tr_subscribe", "out of memory");
    }
}

void(tr_unsubscribe)(tr_ctx *ctx, const tr_type *type)
{
    remove_if(ctx->sys, type, tr_self(ctx));
}

/* ---- callbacks ---- */

static tr_err run_callbacks(tr_ctx *ctx, void *self, const void *m);

static const tr_handler listener_handlers[] = {{NULL, run_callbacks, 0}};
static const tr_actor_def listener_def = {.size = sizeof(tr_actor_def),
                                          .name = "events",
                                          .handlers = listener_handlers,
                                          .handler_count = 1};

static tr_err need_listener(tr_system *sys)
{
    tri_layers *layers = tri_layers_of(sys);
    tri_lock_take(&layers->events_lock);
    bool there = layers->listener.cell != 0;
    tri_lock_drop(&layers->events_lock);
    if (there) {
        return TR_OK;
    }
    tr_spawn_options options = {.size = sizeof(options), .name = "events"};
    tri_actor_from who = tri_enter((tr_from){.sys = sys});
    tr_ref ref = tri_spawn_under(&who, sys->system, &listener_def, &options,
                                 TRI_CELL_SYSTEM);
    tri_leave(&who);
    if (tr_ref_err(ref) == TR_EEXIST) {
        return TR_OK;  // another thread was faster
    }
    TR_TRY(tr_ref_err(ref));
    tri_lock_take(&layers->events_lock);
    layers->listener = ref;
    tri_lock_drop(&layers->events_lock);
    return TR_OK;
}

void tri_events_flush(tr_system *sys, tr_nanos deadline)
{
    tri_layers *layers = tri_layers_of(sys);
    tri_lock_take(&layers->events_lock);
    tr_ref ref = layers->listener;
    tri_lock_drop(&layers->events_lock);
    tr_nanos now = sys->world->ops->mono(sys->world);
    if (ref.cell != 0 && deadline > now) {
        tri_poison_any(sys, ref);
        (void)!tr_join(sys, ref, deadline - now, NULL, NULL);
    }
}

tr_err(tr_on_event)(tr_system *sys, const tr_type *type, tr_event_fn fn,
                    void *user)
{
    // Acquire: pairs with tri_system_begin_end.
    if (atomic_load_explicit(&sys->terminating, memory_order_acquire)) {
        return TR_ECLOSED;
    }
    TR_TRY(need_listener(sys));
    return add(sys, type, (tr_ref){0}, fn, user);
}

bool tri_event_wanted(tr_system *sys, const tr_type *type)
{
    // Relaxed: as in note_wanted.
    uint32_t wanted =
        atomic_load_explicit(&sys->watch_events, memory_order_relaxed);
    return type->schema == tr_lifecycle_tr_type.schema
               ? wanted & TRI_EVENT_LIFECYCLE
               : wanted & TRI_EVENT_OTHER;
}

/* ---- telling them ---- */

/* Copies subscriptions from the `from`-th on; returns how many. */
static uint32_t copy_some(tr_system *sys, const tr_type *type, uint32_t from,
                          tri_subscription *out)
{
    tri_layers *layers = tri_layers_of(sys);
    uint32_t seen = 0, count = 0;
    tri_lock_take(&layers->events_lock);
    for (tri_subscription *s = layers->subscriptions;
         s != NULL && count < BATCH; s = s->next) {
        if (s->type->schema == type->schema && seen++ >= from) {
            out[count] = *s;
            out[count].ref = s->fn != NULL ? layers->listener : s->ref;
            count++;
        }
    }
    tri_lock_drop(&layers->events_lock);
    return count;
}

static void count_lost(tri_worker *worker)
{
    // Relaxed: a statistic.
    atomic_fetch_add_explicit(&tri_layers_of(worker->sys)->events_lost, 1,
                              memory_order_relaxed);
}

static void send_copy(tri_worker *worker, tr_ref sender, tr_ref to,
                      const tr_type *type, const void *payload)
{
    tr_msg *msg = tri_msg_new(&worker->cache, type, payload, false);
    tri_actor_from who = {
        .sys = worker->sys, .worker = worker, .sender = sender};
    if (msg == NULL || tri_try_send(&who, to, msg) != TR_OK) {
        if (msg != NULL) {
            tri_msg_free(&worker->cache, msg);
        }
        count_lost(worker);
    }
}

/* Nobody waits for a subscriber: one that is far behind misses events. */
static bool is_far_behind(tr_ref subscriber)
{
    tri_cell *cell = tri_ref_cell(subscriber);
    return cell != NULL && tri_depth(cell) >= BEHIND_MAX;
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
                continue;  // one for all callbacks
            }
            if (is_far_behind(some[i].ref)) {
                count_lost(worker);
            } else {
                send_copy(worker, sender, some[i].ref, type, payload);
            }
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
    if (tri_event_wanted(worker->sys, type)) {
        publish(worker, (tr_ref){0}, type, payload);
    }
}

void(tr_publish)(tr_from from, const tr_type *type, const void *payload)
{
    tri_actor_from who = tri_enter(from);
    publish(who.worker, who.sender, type, payload);
    tri_leave(&who);
}

void tri_events_free(tr_system *sys)
{
    tri_layers *layers = tri_layers_of(sys);
    while (layers->subscriptions != NULL) {
        tri_subscription *next = layers->subscriptions->next;
        free(layers->subscriptions);
        layers->subscriptions = next;
    }
}

/* ---- topics ---- */

bool tri_topic_is(const void *value, const void *key, size_t size)
{
    const tri_topic *topic = value;
    return strlen(topic->name) == size && memcmp(topic->name, key, size) == 0;
}

/* After a change, under the lock. */
static void count_topics(tri_layers *layers)
{
    // Relaxed: tri_events_leave looks for what its own actor has joined.
    atomic_store_explicit(&layers->topic_count,
                          (uint32_t)tri_map_count(&layers->topics),
                          memory_order_relaxed);
}

static tri_topic *topic_get(tri_layers *layers, const char *name, bool make)
{
    tri_topic *topic = tri_map_get_bytes(&layers->topics, name, strlen(name));
    if (topic != NULL || !make) {
        return topic;
    }
    topic = calloc(1, sizeof(*topic));
    if (topic != NULL && (topic->name = strdup(name)) != NULL &&
        tri_map_put_bytes(&layers->topics, topic->name, strlen(name), topic) ==
            TR_OK) {
        count_topics(layers);
        return topic;
    }
    if (topic != NULL) {
        free(topic->name);
        free(topic);
    }
    return NULL;
}

tr_err tr_topic_join(tr_ctx *ctx, const char *name)
{
    tri_layers *layers = tri_layers_of(ctx->sys);
    if (name == NULL || name[0] == '\0') {
        return TR_EINVAL;
    }
    tri_member *member = tri_mem_calloc(&ctx->sys->mem, sizeof(*member));
    if (member == NULL || tri_ext_need(ctx->worker, ctx->cell) == NULL) {
        free(member);
        return TR_ENOMEM;
    }
    member->ref = tr_self(ctx);
    tri_lock_take(&layers->topics_lock);
    tri_topic *topic = topic_get(layers, name, true);
    tri_member **end = topic != NULL ? &topic->members : NULL;
    bool known = false;
    while (end != NULL && *end != NULL) {
        known |= tr_ref_eq((*end)->ref, member->ref);
        end = &(*end)->next;
    }
    if (end != NULL && !known) {
        *end = member;
    }
    tri_lock_drop(&layers->topics_lock);
    if (end == NULL || known) {
        free(member);
    }
    return end != NULL ? TR_OK : TR_ENOMEM;
}

/* A topic without members is forgotten. */
static void topic_remove(tri_layers *layers, tri_topic *topic, tr_ref ref)
{
    for (tri_member **link = &topic->members; *link != NULL;) {
        tri_member *member = *link;
        if (tr_ref_eq(member->ref, ref)) {
            *link = member->next;
            free(member);
        } else {
            link = &member->next;
        }
    }
    if (topic->members == NULL) {
        tri_map_remove_bytes(&layers->topics, topic->name, strlen(topic->name));
        count_topics(layers);
        free(topic->name);
        free(topic);
    }
}

void tr_topic_leave(tr_ctx *ctx, const char *name)
{
    tri_layers *layers = tri_layers_of(ctx->sys);
    tri_lock_take(&layers->topics_lock);
    tri_topic *topic = topic_get(layers, name, false);
    if (topic != NULL) {
        topic_remove(layers, topic, tr_self(ctx));
    }
    tri_lock_drop(&layers->topics_lock);
}

static uint32_t members_some(tri_layers *layers, const char *name,
                             uint32_t from, tr_ref *out)
{
    uint32_t seen = 0, count = 0;
    tri_lock_take(&layers->topics_lock);
    tri_topic *topic = topic_get(layers, name, false);
    for (tri_member *m = topic != NULL ? topic->members : NULL;
         m != NULL && count < BATCH; m = m->next) {
        if (seen++ >= from) {
            out[count++] = m->ref;
        }
    }
    tri_lock_drop(&layers->topics_lock);
    return count;
}

void(tr_topic_publish)(tr_from from, const char *name, const tr_type *type,
                       const void *payload)
{
    tri_actor_from who = tri_enter(from);
    tr_ref some[BATCH];
    uint32_t done = 0, count;
    while ((count = members_some(tri_layers_of(who.sys), name, done, some)) >
           0) {
        for (uint32_t i = 0; i < count; i++) {
            send_copy(who.worker, who.sender, some[i], type, payload);
        }
        done += count;
    }
    tri_leave(&who);
}

void tri_events_leave(tri_worker *worker, tri_cell *cell)
{
    tr_system *sys = worker->sys;
    tri_layers *layers = tri_layers_of(sys);
    tr_ref self = tri_cell_ref(sys, cell);
    // Relaxed: whoever subscribed did so in an earlier turn of this cell.
    if (atomic_load_explicit(&sys->watch_events, memory_order_relaxed) != 0) {
        remove_if(sys, NULL, self);
    }
    // Relaxed: as above, of those that joined a topic.
    if (atomic_load_explicit(&layers->topic_count, memory_order_relaxed) == 0) {
        return;
    }
    tri_lock_take(&layers->topics_lock);
    tri_topic *topic;
    for (tri_map_iter it = tri_map_iter_begin(&layers->topics);
         (topic = tri_map_iter_next(&layers->topics, &it)) != NULL;) {
        topic_remove(layers, topic, self);
    }
    tri_lock_drop(&layers->topics_lock);
}

void tri_topics_free(tr_system *sys)
{
    tri_layers *layers = tri_layers_of(sys);
    tri_topic *topic;
    for (tri_map_iter it = tri_map_iter_begin(&layers->topics);
         (topic = tri_map_iter_next(&layers->topics, &it)) != NULL;) {
        while (topic->members != NULL) {
            tri_member *next = topic->members->next;
            free(topic->members);
            topic->members = next;
        }
        free(topic->name);
        free(topic);
    }
    tri_map_fini(&layers->topics);
}
