/*
 * topics.c - named groups of actors that messages are published to.
 *
 * As in events.c, a publication copies some members out under the lock, sends
 * without it, and continues behind those.
 *
 * Invariant: a topic in the map has at least one member, except inside of a
 * call that holds the lock.
 */
#include "system/topics.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/lock.h"
#include "base/map.h"
#include "core/caller.h"
#include "core/cell/ext.h"
#include "core/cell/mem.h"
#include "core/run/context.h"
#include "core/system.h"
#include "system/events.h"
#include "system/fan_out.h"
#include "system/layers.h"
#include "troupe/actor.h"
#include "troupe/message.h"
#include "troupe/system.h"

enum { BATCH = 32 };  // members copied out at once

typedef struct topic_member {
    struct topic_member *next;
    tr_ref ref;
    tri_fan_out fan_out;
} topic_member;

typedef struct topic {
    char *name;
    topic_member *members;  // oldest first
} topic;

static tri_topics *topics_of(tr_system *sys)
{
    return &tri_layers_of(sys)->topics;
}

/* For the map: value is a topic. */
static bool topic_is(const void *value, const void *key, size_t size)
{
    const topic *found = value;
    return strlen(found->name) == size && memcmp(found->name, key, size) == 0;
}

void tri_topics_init(tri_topics *topics)
{
    tri_map_init(&topics->by_name, topic_is, NULL);
}

/* Publishes the number of topics after a change. With the lock. */
static void count_topics(tri_topics *topics)
{
    tri_lock_assert_held(&topics->lock);
    // Relaxed: tri_topics_leave_all looks for what its own actor has joined.
    atomic_store_explicit(&topics->count,
                          (uint32_t)tri_map_count(&topics->by_name),
                          memory_order_relaxed);
}

/* With the lock. */
static topic *topic_find(tri_topics *topics, const char *name)
{
    tri_lock_assert_held(&topics->lock);
    return tri_map_get_bytes(&topics->by_name, name, strlen(name));
}

/* Returns the topic, made if there is none; NULL without memory. */
static topic *topic_need(tri_topics *topics, const char *name)
{
    topic *found = topic_find(topics, name);
    if (found != NULL) {
        return found;
    }
    found = calloc(1, sizeof(*found));
    if (found != NULL && (found->name = strdup(name)) != NULL &&
        tri_map_put_bytes(&topics->by_name, found->name, strlen(name), found) ==
            TR_OK) {
        count_topics(topics);
        return found;
    }
    if (found != NULL) {
        free(found->name);
        free(found);
    }
    return NULL;
}

/*
 * Adds the member at the end. Returns false if it is there already; it then
 * has the new fan-out.
 */
static bool topic_add(topic *to, topic_member *member)
{
    topic_member **end = &to->members;
    while (*end != NULL) {
        if (tr_ref_eq((*end)->ref, member->ref)) {
            (*end)->fan_out = member->fan_out;
            return false;
        }
        end = &(*end)->next;
    }
    *end = member;
    return true;
}

static tr_err join(tr_ctx *ctx, const char *name, tri_fan_out fan_out)
{
    tri_topics *topics = topics_of(ctx->sys);
    if (name == NULL || name[0] == '\0') {
        return TR_EINVAL;
    }
    topic_member *member = tri_mem_calloc(&ctx->sys->mem, sizeof(*member));
    if (member == NULL || tri_ext_need(ctx->worker, ctx->cell) == NULL) {
        free(member);
        return TR_ENOMEM;
    }
    member->ref = tr_self(ctx);
    member->fan_out = fan_out;
    tri_lock_take(&topics->lock);
    topic *joined = topic_need(topics, name);
    bool added = joined != NULL && topic_add(joined, member);
    tri_lock_drop(&topics->lock);
    if (!added) {
        free(member);
    }
    return joined != NULL ? TR_OK : TR_ENOMEM;
}

tr_err tr_topic_join(tr_ctx *ctx, const char *name)
{
    TRI_CHECK(ctx->magic == TRI_CTX_MAGIC);
    return join(ctx, name, tri_fan_out_default);
}

tr_err(tr_topic_join_with)(tr_ctx *ctx, const char *name,
                           const tr_fan_out *options)
{
    tri_fan_out fan_out;
    TRI_CHECK(ctx->magic == TRI_CTX_MAGIC);
    TR_TRY(tri_fan_out_take(ctx, options, tri_fan_out_default.limit, &fan_out));
    return join(ctx, name, fan_out);
}

/* Removes the member, and the topic with its last member. With the lock. */
static void topic_remove(tri_topics *topics, topic *from, tr_ref ref)
{
    tri_lock_assert_held(&topics->lock);
    for (topic_member **link = &from->members; *link != NULL;) {
        topic_member *member = *link;
        if (tr_ref_eq(member->ref, ref)) {
            *link = member->next;
            free(member);
        } else {
            link = &member->next;
        }
    }
    if (from->members == NULL) {
        tri_map_remove_bytes(&topics->by_name, from->name, strlen(from->name));
        count_topics(topics);
        free(from->name);
        free(from);
    }
}

void tr_topic_leave(tr_ctx *ctx, const char *name)
{
    TRI_CHECK(name != NULL);
    tri_topics *topics = topics_of(ctx->sys);
    tri_lock_take(&topics->lock);
    topic *left = topic_find(topics, name);
    if (left != NULL) {
        topic_remove(topics, left, tr_self(ctx));
    }
    tri_lock_drop(&topics->lock);
}

/*
 * Copies up to BATCH members, the first `from` of them left out. Returns how
 * many.
 */
static uint32_t copy_some(tri_topics *topics, const char *name, uint32_t from,
                          topic_member *out)
{
    uint32_t seen = 0, count = 0;
    tri_lock_take(&topics->lock);
    const topic *found = topic_find(topics, name);
    for (const topic_member *m = found != NULL ? found->members : NULL;
         m != NULL && count < BATCH; m = m->next) {
        if (seen++ >= from) {
            out[count++] = *m;
        }
    }
    tri_lock_drop(&topics->lock);
    return count;
}

void(tr_topic_publish)(tr_from from, const char *name, const tr_type *type,
                       const void *payload)
{
    TRI_CHECK(name != NULL);
    tri_caller who = tri_enter(from);
    topic_member some[BATCH];
    uint32_t done = 0, count;
    while ((count = copy_some(topics_of(who.sys), name, done, some)) > 0) {
        for (uint32_t i = 0; i < count; i++) {
            tri_event_send(who.worker, who.sender, some[i].ref, some[i].fan_out,
                           type, payload);
        }
        done += count;
    }
    tri_leave(&who);
}

void tri_topics_leave_all(tr_system *sys, tr_ref ref)
{
    tri_topics *topics = topics_of(sys);
    // Relaxed: the actor joined in an earlier turn of its cell.
    if (atomic_load_explicit(&topics->count, memory_order_relaxed) == 0) {
        return;
    }
    tri_lock_take(&topics->lock);
    topic *at;
    for (tri_map_iter it = tri_map_iter_begin(&topics->by_name);
         (at = tri_map_iter_next(&topics->by_name, &it)) != NULL;) {
        topic_remove(topics, at, ref);
    }
    tri_lock_drop(&topics->lock);
}

void tri_topics_free(tr_system *sys)
{
    tri_topics *topics = topics_of(sys);
    topic *at;
    for (tri_map_iter it = tri_map_iter_begin(&topics->by_name);
         (at = tri_map_iter_next(&topics->by_name, &it)) != NULL;) {
        while (at->members != NULL) {
            topic_member *next = at->members->next;
            free(at->members);
            at->members = next;
        }
        free(at->name);
        free(at);
    }
    tri_map_fini(&topics->by_name);
}
