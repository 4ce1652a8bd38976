/*
 * engine_memory.c - an engine in memory: a sorted table that all engines of one
 * name share.
 *
 * In the real world the table never fails, except for want of memory. In a
 * simulation it stands for a server elsewhere, and the seed decides when that
 * server is slow, when nobody or only this node reaches it, which answers are
 * lost, and which hints are late or lost. The answer to a CAS may be lost
 * before the CAS is carried out, after it, or while it is on its way: then it
 * is carried out some time after its caller got the answer "unknown".
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/shared.h"
#include "cluster/engine/engine.h"

enum { NAME_MAX_BYTES = 255, FIRST_CAPACITY = 64 };

#define LATENCY_MAX TR_MS(2)  // of an operation in a simulation

/* The longest faults of a simulation. A lease has 6 s: some are longer. */
#define SLOW_MAX    TR_SECONDS(2)
#define OUTAGE_MAX  TR_SECONDS(12)
#define LATE_MAX    TR_SECONDS(4)
#define ANSWER_WAIT TR_SECONDS(1)  // until an operation is given up

typedef struct entry {
    tri_link newest;  // in the space's
    uint64_t revision;
    size_t size;
    char *key;  // the value follows its zero
} entry;

/* What all engines of a name share. */
typedef struct space {
    tri_shared_object shared;
    _Atomic(uint32_t) lock;  // 0 free, 1 held, 2 held and somebody waits
    uint64_t revision;
    uint64_t removed;  // revision of the last commit that deleted a key
    entry **entries;   // in order of keys
    tri_list newest;   // the same, the last written first
    uint32_t count, capacity;
    tr_nanos down_until;  // by the clock of whichever node asks
    char name[];
} space;

/* A CAS that is carried out after its answer. */
typedef struct late_cas {
    tri_engine_op op;
    tr_nanos due;
    tri_engine_change changes[];  // the keys and values follow
} late_cas;

typedef struct memory_engine {
    tr_engine base;
    space *space;
    late_cas *late;        // NULL: none
    tr_nanos apart_until;  // this node does not reach the server
    tr_nanos mute_until;   // hints are late
    uint64_t lost;         // hints up to this revision are lost
} memory_engine;

static memory_engine *memory_of(tr_engine *engine)
{
    return tri_container_of(engine, memory_engine, base);
}

/* ---- the lock: held while memory is allocated, so waiters sleep ---- */

static void lock_space(space *it, tri_world *world)
{
    uint32_t held = 0;

    // Acquire: pairs with the release in unlock_space.
    if (atomic_compare_exchange_strong_explicit(
            &it->lock, &held, 1, memory_order_acquire, memory_order_relaxed)) {
        return;
    }
    // Acquire: pairs with the release in unlock_space.
    while (atomic_exchange_explicit(&it->lock, 2, memory_order_acquire) != 0) {
        (void)world->ops->park(world, &it->lock, 2, TR_FOREVER);
    }
}

static void unlock_space(space *it, tri_world *world)
{
    // Release: pairs with the acquire in lock_space.
    if (atomic_exchange_explicit(&it->lock, 0, memory_order_release) == 2) {
        world->ops->wake(world, &it->lock, 1);
    }
}

/* ---- the table ---- */

/* Returns the index of the first entry whose key is not less than `key`; with
 * `past`, of the first one after all that begin with `key`. */
static uint32_t search(const space *it, const char *key, bool past)
{
    size_t size = strlen(key) + !past;  // with its zero it is the whole key
    uint32_t low = 0, high = it->count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (strncmp(it->entries[middle]->key, key, size) < (int)past) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static uint32_t find(const space *it, const char *key)
{
    return search(it, key, false);
}

static bool has_key(const space *it, uint32_t at, const char *key)
{
    return at < it->count && strcmp(it->entries[at]->key, key) == 0;
}

static bool begins_with(const entry *it, const char *prefix)
{
    return strncmp(it->key, prefix, strlen(prefix)) == 0;
}

static bool add_row(tri_engine_op *op, const entry *found)
{
    return tri_engine_add_row(op, found->key, found->revision,
                              found->key + strlen(found->key) + 1, found->size);
}

static void read_rows(space *it, tri_engine_op *op)
{
    uint32_t at = find(it, op->key);

    op->answer = TRI_ENGINE_YES;
    op->revision = it->revision;
    if (op->call == TRI_ENGINE_GET) {
        if (has_key(it, at, op->key)) {
            (void)add_row(op, it->entries[at]);
        }
        return;
    }
    uint32_t end = search(it, op->key, true);
    for (; at < end; at++) {
        if (it->entries[at]->revision > op->after &&
            !add_row(op, it->entries[at])) {
            return;
        }
    }
}

/* Makes room for `more` entries. Returns false without memory. */
static bool reserve(space *it, uint32_t more)
{
    uint32_t capacity = it->capacity > 0 ? it->capacity : FIRST_CAPACITY;

    while (capacity - it->count < more) {
        capacity *= 2;
    }
    if (capacity > it->capacity) {
        entry **entries =
            realloc(it->entries, (size_t)capacity * sizeof(*entries));
        if (entries == NULL) {
            return false;
        }
        it->entries = entries;
        it->capacity = capacity;
    }
    return true;
}

/* Returns an entry for the change; NULL without memory. */
static entry *entry_new(const tri_engine_change *change)
{
    size_t key_size = strlen(change->key) + 1;
    entry *it = malloc(sizeof(*it) + key_size + change->size);

    if (it == NULL) {
        return NULL;
    }
    *it = (entry){.size = change->size, .key = (char *)(it + 1)};
    memcpy(it->key, change->key, key_size);
    if (change->size > 0) {
        memcpy(it->key + key_size, change->value, change->size);
    }
    return it;
}

/* Returns true if every key has the revision that its change expects. */
static bool all_expected(const space *it, const tri_engine_op *op)
{
    for (uint32_t i = 0; i < op->change_count; i++) {
        const tri_engine_change *change = &op->changes[i];
        uint32_t at = find(it, change->key);
        uint64_t has =
            has_key(it, at, change->key) ? it->entries[at]->revision : 0;
        if (has != change->expected) {
            return false;
        }
    }
    return true;
}

/* Puts `made` in the place of the entry with that key; NULL removes it. */
static void replace(space *it, const char *key, entry *made)
{
    uint32_t at = find(it, key);
    bool is_there = has_key(it, at, key);
    entry **place = &it->entries[at];
    size_t after = (it->count - at) * sizeof(*place);

    if (is_there) {
        tri_list_remove(&(*place)->newest);
        free(*place);
    } else {
        memmove(place + 1, place, after);
        it->count++;
    }
    if (made != NULL) {
        made->revision = it->revision;
        tri_list_push_front(&it->newest, &made->newest);
        *place = made;
    } else {
        TRI_CHECK(is_there);
        memmove(place, place + 1, after - sizeof(*place));
        it->count--;
        it->removed = it->revision;
    }
}

/* Makes the entries of all changes. Returns false, having none, if it cannot. */
static bool make_entries(entry **made, const tri_engine_op *op)
{
    uint32_t i = 0;

    for (; i < op->change_count; i++) {
        made[i] = NULL;
        if (op->changes[i].value == NULL) {
            continue;
        }
        made[i] = entry_new(&op->changes[i]);
        if (made[i] == NULL) {
            break;
        }
    }
    if (i == op->change_count) {
        return true;
    }
    while (i > 0) {
        free(made[--i]);
    }
    return false;
}

static void commit(space *it, tri_engine_op *op)
{
    entry *made[TRI_ENGINE_CHANGES_MAX];

    if (!all_expected(it, op)) {
        op->answer = TRI_ENGINE_NO;
        return;
    }
    if (!reserve(it, op->change_count) || !make_entries(made, op)) {
        tri_engine_fail(op, TR_ENOMEM, "no memory for the change");
        return;
    }
    it->revision++;
    for (uint32_t i = 0; i < op->change_count; i++) {
        replace(it, op->changes[i].key, made[i]);
    }
    op->answer = TRI_ENGINE_YES;
    op->revision = it->revision;
}

/* Carries out an operation on the table. */
static void carry_out(memory_engine *it, tri_engine_op *op)
{
    lock_space(it->space, it->base.world);
    if (op->call == TRI_ENGINE_CAS) {
        commit(it->space, op);
    } else {
        read_rows(it->space, op);
    }
    unlock_space(it->space, it->base.world);
}

/* ---- the faults of a simulation ---- */

static tr_nanos now_of(memory_engine *it)
{
    return it->base.world->ops->mono(it->base.world);
}

static tr_nanos random_span(memory_engine *it, tr_nanos max)
{
    tri_world *world = it->base.world;

    return (tr_nanos)(world->ops->random(world) % (uint64_t)max);
}

static void sleep_for(memory_engine *it, tr_nanos span)
{
    _Atomic(uint32_t) never = 0;  // no thread wakes it: the span ends the park

    (void)it->base.world->ops->park(it->base.world, &never, 0, span);
}

/* Carries out the CAS that was on its way, if it has arrived by now. */
static void arrive_late(memory_engine *it)
{
    if (it->late != NULL && now_of(it) >= it->late->due) {
        carry_out(it, &it->late->op);
        free(it->late);
        it->late = NULL;
    }
}

/* Keeps a copy of the CAS for later; without memory the CAS is lost. */
static void delay_cas(memory_engine *it, const tri_engine_op *op)
{
    size_t size = sizeof(*it->late) + op->change_count * sizeof(*op->changes);

    for (uint32_t i = 0; i < op->change_count; i++) {
        size += strlen(op->changes[i].key) + 1 + op->changes[i].size;
    }
    late_cas *late = it->late == NULL ? calloc(1, size) : NULL;
    if (late == NULL) {
        return;
    }
    char *at = (char *)&late->changes[op->change_count];
    for (uint32_t i = 0; i < op->change_count; i++) {
        const tri_engine_change *from = &op->changes[i];
        size_t key_size = strlen(from->key) + 1;
        late->changes[i] = *from;
        late->changes[i].key = memcpy(at, from->key, key_size);
        at += key_size;
        if (from->value != NULL) {
            late->changes[i].value = memcpy(at, from->value, from->size);
            at += from->size;
        }
    }
    late->op = (tri_engine_op){.call = TRI_ENGINE_CAS,
                               .changes = late->changes,
                               .change_count = op->change_count};
    late->due = now_of(it) + random_span(it, LATE_MAX);
    it->late = late;
}

/* Loses the answer of an operation: before, after, or on the way. */
static void lose_answer(memory_engine *it, tri_engine_op *op)
{
    uint64_t moment = it->base.world->ops->random(it->base.world) % 3;

    if (op->call == TRI_ENGINE_CAS && moment == 0) {
        carry_out(it, op);
    } else if (op->call == TRI_ENGINE_CAS && moment == 1) {
        delay_cas(it, op);
    }
    sleep_for(it, ANSWER_WAIT);
    tri_engine_fail(op, TR_EUNKNOWN, "the engine did not answer in time");
}

/* Returns true if the server is out of reach, and lets faults begin. */
static bool is_out_of_reach(memory_engine *it)
{
    tri_world *world = it->base.world;
    tr_nanos now = now_of(it);

    if (TRI_BUGGIFY(world, 0.01)) {
        sleep_for(it, random_span(it, SLOW_MAX));
    }
    if (TRI_BUGGIFY(world, 0.002)) {
        it->space->down_until = now + random_span(it, OUTAGE_MAX);
    }
    if (TRI_BUGGIFY(world, 0.002)) {
        it->apart_until = now + random_span(it, OUTAGE_MAX);
    }
    return now < it->space->down_until || now < it->apart_until;
}

static void memory_execute(tr_engine *engine, tri_engine_op *op)
{
    memory_engine *it = memory_of(engine);

    if (it->base.world->ops->has_threads) {
        carry_out(it, op);
        return;
    }
    sleep_for(it, random_span(it, LATENCY_MAX));
    arrive_late(it);
    if (is_out_of_reach(it)) {
        sleep_for(it, ANSWER_WAIT);
        tri_engine_fail(op, TR_EIO, "the engine is out of reach");
    } else if (TRI_BUGGIFY(it->base.world, 0.01)) {
        lose_answer(it, op);
    } else {
        carry_out(it, op);
    }
}

/* Returns true if a hint is late or lost. */
static bool is_hint_missing(memory_engine *it, uint64_t now)
{
    tri_world *world = it->base.world;

    if (TRI_BUGGIFY(world, 0.02)) {
        it->lost = now;
    }
    if (TRI_BUGGIFY(world, 0.02)) {
        it->mute_until = now_of(it) + random_span(it, LATE_MAX);
    }
    return it->lost == now || now_of(it) < it->mute_until;
}

/* Returns true if a key with the prefix was written after that revision. */
static bool is_newer(const space *it, const char *prefix, uint64_t after)
{
    if (it->removed > after) {
        return true;  // which key it was is not known any more
    }
    TRI_LIST_EACH_ITEM (written, &it->newest, entry, newest) {
        if (written->revision <= after) {
            return false;
        }
        if (begins_with(written, prefix)) {
            return true;
        }
    }
    return false;
}

static bool memory_changed(tr_engine *engine, const char *prefix,
                           uint64_t after, uint64_t *now)
{
    memory_engine *it = memory_of(engine);

    arrive_late(it);
    lock_space(it->space, engine->world);
    *now = it->space->revision;
    bool is = is_newer(it->space, prefix, after > it->lost ? after : it->lost);
    unlock_space(it->space, engine->world);
    return is && !is_hint_missing(it, *now);
}

/* ---- opening and closing ---- */

static void space_free(tri_shared_object *object)
{
    space *it = tri_container_of(object, space, shared);

    for (uint32_t i = 0; i < it->count; i++) {
        free(it->entries[i]);
    }
    free(it->entries);
    free(it);
}

static void memory_free(tr_engine *engine)
{
    memory_engine *it = memory_of(engine);

    tri_shared_drop(engine->world->ops->shared(engine->world),
                    &it->space->shared);
    free(it->late);
    free(it);
}

/* Returns NULL without memory. */
static space *space_new(const char *name)
{
    size_t size = strlen(name) + 1;
    space *it = calloc(1, sizeof(*it) + size);

    if (it != NULL) {
        memcpy(it->name, name, size);
        tri_list_init(&it->newest);
        it->shared.name = it->name;
        it->shared.free = space_free;
    }
    return it;
}

/* Returns NULL without memory. */
static memory_engine *engine_new(tri_world *world, const char *name)
{
    static const tri_engine_ops ops = {
        .name = "memory",
        .execute = memory_execute,
        .changed = memory_changed,
        .free = memory_free,
    };
    memory_engine *it = calloc(1, sizeof(*it));
    space *made = space_new(name);

    if (it == NULL || made == NULL) {
        free(it);
        free(made);
        return NULL;
    }
    tri_engine_init(&it->base, &ops, world);
    it->space = tri_container_of(
        tri_shared_hold(world->ops->shared(world), &made->shared), space,
        shared);
    return it;
}

tr_err tr_engine_memory(tr_engine **out, const char *name,
                        const tr_engine_options *options)
{
    tr_engine_options own;
    memory_engine *it = NULL;
    tr_err err = TR_EINVAL;
    const char *why = "";

    TRI_CHECK(out != NULL);
    TRI_CHECK(name != NULL);
    *out = NULL;
    tri_world *world = tri_engine_options(&own, options);
    if (world == NULL) {
        return TR_EINVAL;
    }
    if (name[0] == '\0' || strlen(name) > NAME_MAX_BYTES) {
        why = "the name of an engine has 1 to 255 bytes";
    } else {
        it = engine_new(world, name);
        err = it != NULL ? TR_OK : TR_ENOMEM;
    }
    return tri_engine_open(out, it != NULL ? &it->base : NULL, &own, world, err,
                           "an engine in memory", why);
}
