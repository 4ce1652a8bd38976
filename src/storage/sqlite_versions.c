/*
 * sqlite_versions.c - the cache of stored versions: sets of four slots.
 *
 * A slot is a cache line and has its key inside, so a search touches four
 * lines and follows no pointer, and nothing is allocated per key. A set that
 * is full gives away one of its slots in turn.
 *
 * Invariant: no key is twice in a table, and none is in both of them. So what
 * is found is the last that was put, whatever was given away since.
 */
#include "storage/sqlite_versions.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"

#define KEY_MAX   55  // of a key that is kept
#define WAYS      UINT32_C(4)
#define FIRST_CAP UINT32_C(1024)

struct tri_versions_slot {
    uint64_t version;
    uint8_t size;  // of the key, and one; 0: empty
    char key[KEY_MAX];
};

_Static_assert(sizeof(tri_versions_slot) == 64, "a cache line");

void tri_versions_init(tri_versions *versions, uint32_t max)
{
    memset(versions, 0, sizeof(*versions));
    tri_lock_init(&versions->lock);
    versions->max = WAYS;
    while (versions->max <= max / 2) {
        versions->max *= 2;
    }
}

void tri_versions_fini(tri_versions *versions)
{
    free(versions->now.slots);
    free(versions->before.slots);
}

/* ---- one table; under the lock ---- */

static tri_versions_slot *set_of(const tri_versions_table *table, uint64_t hash)
{
    return &table->slots[hash & (table->capacity - WAYS)];
}

static bool is_of(const tri_versions_slot *slot, tri_store_bytes key)
{
    return slot->size == key.size + 1 &&
           memcmp(slot->key, key.at, key.size) == 0;
}

/* NULL: not here. */
static tri_versions_slot *find(const tri_versions_table *table, uint64_t hash,
                               tri_store_bytes key)
{
    if (table->capacity == 0) {
        return NULL;
    }
    tri_versions_slot *set = set_of(table, hash);
    for (uint32_t i = 0; i < WAYS; i++) {
        if (is_of(&set[i], key)) {
            return &set[i];
        }
    }
    return NULL;
}

/* Where a key that is not here goes: an empty slot, or one in turn. */
static tri_versions_slot *make_room(tri_versions *versions, uint64_t hash)
{
    tri_versions_table *table = &versions->now;
    tri_versions_slot *set = set_of(table, hash);

    for (uint32_t i = 0; i < WAYS; i++) {
        if (set[i].size == 0) {
            table->used++;
            return &set[i];
        }
    }
    return &set[versions->turn++ % WAYS];
}

static void remove_from(tri_versions_table *table, uint64_t hash,
                        tri_store_bytes key)
{
    tri_versions_slot *slot = find(table, hash, key);

    if (slot != NULL) {
        slot->size = 0;
        table->used--;
    }
}

static void put(tri_versions *versions, uint64_t hash, tri_store_bytes key,
                uint64_t version)
{
    tri_lock_assert_held(&versions->lock);
    if (versions->now.capacity == 0) {
        return;
    }
    remove_from(&versions->before, hash, key);
    tri_versions_slot *slot = find(&versions->now, hash, key);
    if (slot == NULL) {
        slot = make_room(versions, hash);
        slot->size = (uint8_t)(key.size + 1);
        memcpy(slot->key, key.at, key.size);
    }
    slot->version = version;
}

/* ---- growing ---- */

static bool is_full(const tri_versions *versions)
{
    return versions->now.capacity < versions->max &&
           versions->now.used >= versions->now.capacity / 2;
}

/*
 * A table twice as large, still empty; the one so far is kept beside it, and
 * what is found there moves. So no call ever moves all of them, and what is
 * not looked for is gone with the next table but one. Without memory it stays
 * as it is. The lock is not held while memory is asked for: the other thread
 * may be faster.
 */
static void grow(tri_versions *versions, uint32_t capacity)
{
    uint32_t larger = capacity == 0
                          ? (uint32_t)TRI_MIN(FIRST_CAP, versions->max)
                          : capacity * 2;
    tri_versions_slot *slots = calloc(larger, sizeof(*slots));

    if (slots == NULL) {
        return;
    }
    tri_lock_take(&versions->lock);
    tri_versions_slot *old = slots;
    if (versions->now.capacity == capacity) {
        old = versions->before.slots;
        versions->before = versions->now;
        versions->now = (tri_versions_table){slots, larger, 0};
    }
    tri_lock_drop(&versions->lock);
    free(old);
}

/* ---- both ---- */

static bool is_kept(tri_store_bytes key)
{
    return key.size > 0 && key.size <= KEY_MAX;
}

bool tri_versions_get(tri_versions *versions, tri_store_bytes key,
                      uint64_t *version)
{
    if (!is_kept(key)) {
        return false;
    }
    uint64_t hash = tri_hash_bytes(key.at, key.size);
    tri_lock_take(&versions->lock);
    tri_versions_slot *slot = find(&versions->now, hash, key);
    bool moves = slot == NULL;
    if (moves) {
        slot = find(&versions->before, hash, key);
    }
    bool found = slot != NULL;
    if (found) {
        *version = slot->version;
        if (moves) {
            put(versions, hash, key, *version);
        }
    }
    tri_lock_drop(&versions->lock);
    return found;
}

/* if_stamp: NULL, or what the stamp must be. */
static void add(tri_versions *versions, const uint64_t *if_stamp,
                tri_store_bytes key, uint64_t version)
{
    if (!is_kept(key)) {
        return;
    }
    uint64_t hash = tri_hash_bytes(key.at, key.size);
    tri_lock_take(&versions->lock);
    uint32_t capacity = versions->now.capacity;
    bool full = is_full(versions);
    tri_lock_drop(&versions->lock);
    if (full) {
        grow(versions, capacity);
    }
    tri_lock_take(&versions->lock);
    if (if_stamp == NULL || *if_stamp == versions->stamp) {
        put(versions, hash, key, version);
    }
    tri_lock_drop(&versions->lock);
}

void tri_versions_put(tri_versions *versions, tri_store_bytes key,
                      uint64_t version)
{
    add(versions, NULL, key, version);
}

void tri_versions_forget(tri_versions *versions)
{
    tri_lock_take(&versions->lock);
    tri_versions_table now = versions->now, before = versions->before;
    versions->now = versions->before = (tri_versions_table){0};
    versions->stamp += 2;
    tri_lock_drop(&versions->lock);
    free(now.slots);
    free(before.slots);
}

/* ---- what the reader found ---- */

void tri_versions_begin(tri_versions *versions)
{
    tri_lock_take(&versions->lock);
    TRI_CHECK(versions->stamp % 2 == 0);
    versions->stamp++;
    tri_lock_drop(&versions->lock);
}

void tri_versions_end(tri_versions *versions)
{
    tri_lock_take(&versions->lock);
    TRI_CHECK(versions->stamp % 2 == 1);
    versions->stamp++;
    tri_lock_drop(&versions->lock);
}

uint64_t tri_versions_stamp(tri_versions *versions)
{
    tri_lock_take(&versions->lock);
    uint64_t stamp = versions->stamp;
    tri_lock_drop(&versions->lock);
    return stamp;
}

void tri_versions_offer(tri_versions *versions, uint64_t stamp,
                        tri_store_bytes key, uint64_t version)
{
    if (stamp % 2 == 0) {
        add(versions, &stamp, key, version);
    }
}
