/*
 * sqlite_versions.c - the cache of stored versions, four-way set-associative.
 *
 * A slot is one cache line and holds its key, so a search touches four lines
 * and follows no pointer, and no memory is allocated per key. A set that is
 * full reuses its slots in turn.
 *
 * Invariant: a key has at most one slot in both tables together. So the
 * version that is found is the one that was put last.
 */
#include "storage/sqlite_versions.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"

#define KEY_MAX   55  // bytes of a key that is kept
#define WAYS      UINT32_C(4)
#define FIRST_CAP UINT32_C(1024)

struct tri_versions_slot {
    uint64_t version;
    uint8_t size;  // of the key, plus one; 0: empty
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
    TRI_CHECK(versions->stamp % 2 == 0);  // no fold is in progress
    free(versions->current.slots);
    free(versions->previous.slots);
}

/* ---- one table; the lock is held ---- */

static tri_versions_slot *set_of(const tri_versions_table *table, uint64_t hash)
{
    TRI_CHECK_SLOW((table->capacity & (table->capacity - 1)) == 0);
    return &table->slots[hash & (table->capacity - WAYS)];
}

static bool is_of(const tri_versions_slot *slot, tri_store_bytes key)
{
    return slot->size == key.size + 1 &&
           memcmp(slot->key, key.at, key.size) == 0;
}

/* Returns the slot of the key, or NULL. */
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

/* Returns a slot for a new key: an empty one, or one that is reused. */
static tri_versions_slot *take_slot(tri_versions *versions, uint64_t hash)
{
    tri_versions_table *table = &versions->current;
    tri_versions_slot *set = set_of(table, hash);

    for (uint32_t i = 0; i < WAYS; i++) {
        if (set[i].size == 0) {
            table->used++;
            return &set[i];
        }
    }
    return &set[versions->victim++ % WAYS];
}

/* Removes the key from the table, if it is there. */
static void remove_from(tri_versions_table *table, uint64_t hash,
                        tri_store_bytes key)
{
    tri_versions_slot *slot = find(table, hash, key);

    if (slot != NULL) {
        TRI_CHECK(table->used > 0);
        slot->size = 0;
        table->used--;
    }
}

static void put(tri_versions *versions, uint64_t hash, tri_store_bytes key,
                uint64_t version)
{
    tri_lock_assert_held(&versions->lock);
    if (versions->current.capacity == 0) {
        return;
    }
    remove_from(&versions->previous, hash, key);
    tri_versions_slot *slot = find(&versions->current, hash, key);
    if (slot == NULL) {
        slot = take_slot(versions, hash);
        slot->size = (uint8_t)(key.size + 1);
        memcpy(slot->key, key.at, key.size);
    }
    slot->version = version;
}

/* ---- growing ---- */

/* Returns whether the current table should grow. */
static bool is_full(const tri_versions *versions)
{
    return versions->current.capacity < versions->max &&
           versions->current.used >= versions->current.capacity / 2;
}

/*
 * Makes an empty table twice as large the current one and keeps the table so
 * far as the previous one. A slot that is found there moves to the current
 * table, so that no call has to move all slots; slots that are never searched
 * go when the table grows again. Without memory nothing changes. Memory is
 * allocated without the lock, so the other thread may have grown it first.
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
    if (versions->current.capacity == capacity) {
        old = versions->previous.slots;
        versions->previous = versions->current;
        versions->current = (tri_versions_table){slots, larger, 0};
    }
    tri_lock_drop(&versions->lock);
    free(old);
}

/* ---- both tables ---- */

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
    tri_versions_slot *slot = find(&versions->current, hash, key);
    bool is_previous = slot == NULL;
    if (is_previous) {
        slot = find(&versions->previous, hash, key);
    }
    bool found = slot != NULL;
    if (found) {
        *version = slot->version;
        if (is_previous) {
            put(versions, hash, key, *version);
        }
    }
    tri_lock_drop(&versions->lock);
    return found;
}

/* Puts a version. if_stamp: NULL, or the stamp that must not have changed. */
static void add(tri_versions *versions, const uint64_t *if_stamp,
                tri_store_bytes key, uint64_t version)
{
    if (!is_kept(key)) {
        return;
    }
    uint64_t hash = tri_hash_bytes(key.at, key.size);
    tri_lock_take(&versions->lock);
    uint32_t capacity = versions->current.capacity;
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

void tri_versions_clear(tri_versions *versions)
{
    tri_lock_take(&versions->lock);
    tri_versions_table current = versions->current;
    tri_versions_table previous = versions->previous;
    versions->current = versions->previous = (tri_versions_table){0};
    versions->stamp += 2;
    tri_lock_drop(&versions->lock);
    free(current.slots);
    free(previous.slots);
}

/* ---- stamps ---- */

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
