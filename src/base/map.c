/*
 * map.c - the hash map: open addressing, linear probing, no tombstones.
 *
 * An entry's home is the hash of its key modulo the capacity. Invariant: from
 * an entry's home up to its own index no index is empty, so a search may stop
 * at the first empty index. A remove keeps this by moving later entries of the
 * run back into the hole (Knuth, volume 3, 6.4, algorithm R). At least a
 * quarter of the table is empty, so every run ends.
 */
#include "base/map.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"

#define CAPACITY_MIN UINT32_C(8)
#define NOT_FOUND    UINT32_MAX

/* The table grows at three quarters: longer runs cost more than memory. */
#define LOAD_NUMERATOR   3
#define LOAD_DENOMINATOR 4

/* tri_map_trim replaces a table that is at least this many times too large. */
#define TRIM_FACTOR 4

static void *table_alloc(const tri_map *map, size_t size)
{
    return map->memory != NULL ? map->memory->alloc(map->memory->user, size)
                               : malloc(size);
}

static void table_free(const tri_map *map, tri_map_entry *entries,
                       uint32_t capacity)
{
    if (entries == NULL) {
        return;
    }
    if (map->memory != NULL) {
        map->memory->free(map->memory->user, entries,
                          capacity * sizeof(*entries));
    } else {
        free(entries);
    }
}

/* Returns true if a table of this capacity may hold `count` values. */
static bool holds(uint32_t capacity, uint32_t count)
{
    return (uint64_t)count * LOAD_DENOMINATOR <=
           (uint64_t)capacity * LOAD_NUMERATOR;
}

/* Returns the smallest capacity for `count` values. */
static uint32_t capacity_for(uint32_t count)
{
    TRI_CHECK(count <= TRI_MAP_COUNT_MAX);
    uint32_t capacity = CAPACITY_MIN;

    while (!holds(capacity, count)) {
        capacity *= 2;
    }
    return capacity;
}

static uint32_t home_of(const tri_map *map, uint64_t key)
{
    return (uint32_t)tri_hash_mix(key) & (map->capacity - 1);
}

static uint32_t index_after(const tri_map *map, uint32_t at)
{
    return (at + 1) & (map->capacity - 1);
}

/* Inserts an entry with a new key into a table that has room. */
static void insert_entry(tri_map *map, tri_map_entry entry)
{
    uint32_t at = home_of(map, entry.key);

    while (map->entries[at].value != NULL) {
        at = index_after(map, at);
    }
    map->entries[at] = entry;
}

/* Moves all entries to a new table. Returns false, unchanged, if no memory. */
static bool resize(tri_map *map, uint32_t capacity)
{
    TRI_CHECK(holds(capacity, map->count));
    size_t size = capacity * sizeof(tri_map_entry);
    tri_map_entry *entries = table_alloc(map, size);
    if (entries == NULL) {
        return false;
    }
    memset(entries, 0, size);

    tri_map_entry *old = map->entries;
    uint32_t old_capacity = map->capacity;
    map->entries = entries;
    map->capacity = capacity;
    for (uint32_t i = 0; i < old_capacity; i++) {
        if (old[i].value != NULL) {
            insert_entry(map, old[i]);
        }
    }
    table_free(map, old, old_capacity);
    return true;
}

/* Returns an entry's index or NOT_FOUND. Only maps of bytes use `bytes`. */
static uint32_t find(const tri_map *map, uint64_t key, const void *bytes,
                     size_t size)
{
    if (map->count == 0) {
        return NOT_FOUND;
    }
    for (uint32_t at = home_of(map, key);; at = index_after(map, at)) {
        const tri_map_entry *entry = &map->entries[at];
        if (entry->value == NULL) {
            return NOT_FOUND;
        }
        if (entry->key == key &&
            (map->same == NULL || map->same(entry->value, bytes, size))) {
            return at;
        }
    }
}

static tr_err put(tri_map *map, tri_map_entry entry, const void *bytes,
                  size_t size)
{
    TRI_CHECK(entry.value != NULL);
    if (find(map, entry.key, bytes, size) != NOT_FOUND) {
        return TR_EEXIST;
    }
    if (TRI_UNLIKELY(!holds(map->capacity, map->count + 1))) {
        TR_TRY(tri_map_reserve(map, map->count + 1));
    }
    insert_entry(map, entry);
    map->count++;
    return TR_OK;
}

/* Returns true if the entry at `at` with this home may move to `hole`. */
static bool may_fill(const tri_map *map, uint32_t hole, uint32_t home,
                     uint32_t at)
{
    uint32_t mask = map->capacity - 1;

    // Distances wrap around: the home must not lie after the hole.
    return ((at - home) & mask) >= ((at - hole) & mask);
}

/* Empties index `hole` and closes the gap. Returns the value, or NULL. */
static void *remove_at(tri_map *map, uint32_t hole)
{
    if (hole == NOT_FOUND) {
        return NULL;
    }
    tri_map_entry *entries = map->entries;
    void *value = entries[hole].value;
    uint32_t at = index_after(map, hole);

    for (; entries[at].value != NULL; at = index_after(map, at)) {
        if (may_fill(map, hole, home_of(map, entries[at].key), at)) {
            entries[hole] = entries[at];
            hole = at;
        }
    }
    entries[hole] = (tri_map_entry){0};
    map->count--;
    return value;
}

void tri_map_init(tri_map *map, tri_map_same_fn same,
                  const tri_map_memory *memory)
{
    TRI_CHECK(map != NULL);
    *map = (tri_map){.same = same, .memory = memory};
}

void tri_map_fini(tri_map *map)
{
    table_free(map, map->entries, map->capacity);
    tri_map_init(map, map->same, map->memory);
}

tr_err tri_map_put(tri_map *map, uint64_t key, void *value)
{
    TRI_CHECK(map->same == NULL);
    return put(map, (tri_map_entry){.key = key, .value = value}, NULL, 0);
}

tr_err tri_map_put_hashed(tri_map *map, uint64_t hash, const void *key,
                          size_t size, void *value)
{
    TRI_CHECK(map->same != NULL);
    TRI_CHECK_SLOW(hash == tri_hash_bytes(key, size));
    return put(map, (tri_map_entry){.key = hash, .value = value}, key, size);
}

tr_err tri_map_put_bytes(tri_map *map, const void *key, size_t size,
                         void *value)
{
    return tri_map_put_hashed(map, tri_hash_bytes(key, size), key, size, value);
}

void *tri_map_get(const tri_map *map, uint64_t key)
{
    TRI_CHECK(map->same == NULL);
    uint32_t at = find(map, key, NULL, 0);

    return at != NOT_FOUND ? map->entries[at].value : NULL;
}

void *tri_map_get_hashed(const tri_map *map, uint64_t hash, const void *key,
                         size_t size)
{
    TRI_CHECK(map->same != NULL);
    TRI_CHECK_SLOW(hash == tri_hash_bytes(key, size));
    uint32_t at = find(map, hash, key, size);

    return at != NOT_FOUND ? map->entries[at].value : NULL;
}

void *tri_map_get_bytes(const tri_map *map, const void *key, size_t size)
{
    return tri_map_get_hashed(map, tri_hash_bytes(key, size), key, size);
}

void *tri_map_remove(tri_map *map, uint64_t key)
{
    TRI_CHECK(map->same == NULL);
    return remove_at(map, find(map, key, NULL, 0));
}

void *tri_map_remove_hashed(tri_map *map, uint64_t hash, const void *key,
                            size_t size)
{
    TRI_CHECK(map->same != NULL);
    TRI_CHECK_SLOW(hash == tri_hash_bytes(key, size));
    return remove_at(map, find(map, hash, key, size));
}

void *tri_map_remove_bytes(tri_map *map, const void *key, size_t size)
{
    return tri_map_remove_hashed(map, tri_hash_bytes(key, size), key, size);
}

tr_err tri_map_reserve(tri_map *map, uint32_t count)
{
    if (holds(map->capacity, count)) {
        return TR_OK;
    }
    if (count > TRI_MAP_COUNT_MAX || !resize(map, capacity_for(count))) {
        return TR_ENOMEM;
    }
    return TR_OK;
}

void tri_map_trim(tri_map *map)
{
    if (map->count == 0) {
        tri_map_fini(map);
        return;
    }
    uint32_t capacity = capacity_for(map->count);
    if (capacity <= map->capacity / TRIM_FACTOR) {
        // If memory is short, the old table stays in use.
        (void)resize(map, capacity);
    }
}

/*
 * Starts at an empty index; tri_map_iter_next walks downwards and around to it.
 * A remove moves entries down only within their run, and no run crosses the
 * empty index: an entry that moves into the current index was seen before.
 */
tri_map_iter tri_map_iter_begin(const tri_map *map)
{
    tri_map_iter iter = {0};

    if (map->count == 0) {
        return iter;
    }
    while (map->entries[iter.at].value != NULL) {
        iter.at++;
    }
    iter.left = map->capacity - 1;
    return iter;
}

void *tri_map_iter_next(const tri_map *map, tri_map_iter *iter)
{
    TRI_CHECK(iter->left <= map->capacity);
    while (iter->left > 0) {
        iter->left--;
        iter->at = (iter->at - 1) & (map->capacity - 1);
        const tri_map_entry *entry = &map->entries[iter->at];
        if (entry->value != NULL) {
            iter->key = entry->key;
            return entry->value;
        }
    }
    return NULL;
}

void tri_map_check(const tri_map *map)
{
    uint32_t count = 0;

    TRI_CHECK((map->capacity & (map->capacity - 1)) == 0);
    TRI_CHECK((map->capacity == 0) == (map->entries == NULL));
    TRI_CHECK(holds(map->capacity, map->count));
    for (uint32_t i = 0; i < map->capacity; i++) {
        if (map->entries[i].value == NULL) {
            continue;
        }
        count++;
        uint32_t at = home_of(map, map->entries[i].key);
        for (; at != i; at = index_after(map, at)) {
            TRI_CHECK(map->entries[at].value != NULL);
        }
    }
    TRI_CHECK(count == map->count);
}
