/*
 * map.h - a hash map from numbers, or from bytes, to pointers.
 *
 * The map stores no byte keys: the value holds its own key and a callback
 * compares. Values belong to the caller; NULL is no value.
 *
 * The order of iteration follows from the keys and the calls made so far, never
 * from addresses, and is the same on every machine.
 *
 * Threads: none of this is thread-safe; readers alone may share a map.
 */
#ifndef TRI_BASE_MAP_H
#define TRI_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "troupe/base.h"

#define TRI_MAP_COUNT_MAX (UINT32_C(1) << 30)  // then a put is TR_ENOMEM

/* True if the value's key is these bytes. */
typedef bool (*tri_map_same_fn)(const void *value, const void *key,
                                size_t size);

/* Where a map gets its table. `alloc` may return NULL and need not clear. */
typedef struct tri_map_memory {
    void *(*alloc)(void *user, size_t size);
    void (*free)(void *user, void *at, size_t size);
    void *user;
} tri_map_memory;

typedef struct tri_map_entry {
    uint64_t key;  // the number, or the hash of the bytes
    void *value;   // NULL: an empty place
} tri_map_entry;

/* Visible because its owner embeds it. */
typedef struct tri_map {
    tri_map_entry *entries;        // capacity of them, or NULL
    tri_map_same_fn same;          // NULL: keys are numbers
    const tri_map_memory *memory;  // NULL: malloc and free
    uint32_t count;
    uint32_t capacity;  // 0 or a power of two
} tri_map;

/*
 * Makes an empty map, without allocating. `same` NULL: keys are numbers, else
 * bytes. The map borrows *memory until tri_map_fini; NULL: malloc and free.
 */
void tri_map_init(tri_map *map, tri_map_same_fn same,
                  const tri_map_memory *memory);
/* Frees the table, not the values; the map is empty and can be used again. */
void tri_map_fini(tri_map *map);

static inline uint32_t tri_map_count(const tri_map *map)
{
    return map->count;
}

/*
 * Adds a value. Errors: TR_EEXIST, TR_ENOMEM; the map is then unchanged.
 * A put after a remove, or within a reserve, does not allocate.
 */
TR_NODISCARD tr_err tri_map_put(tri_map *map, uint64_t key, void *value);
TR_NODISCARD tr_err tri_map_put_bytes(tri_map *map, const void *key,
                                      size_t size, void *value);

/* The value, or NULL. */
void *tri_map_get(const tri_map *map, uint64_t key);
void *tri_map_get_bytes(const tri_map *map, const void *key, size_t size);

/* Of a map of bytes whose hash, by tri_hash_bytes, the caller knows. */
TR_NODISCARD tr_err tri_map_put_hashed(tri_map *map, uint64_t hash,
                                       const void *key, size_t size,
                                       void *value);
void *tri_map_get_hashed(const tri_map *map, uint64_t hash, const void *key,
                         size_t size);
void *tri_map_remove_hashed(tri_map *map, uint64_t hash, const void *key,
                            size_t size);

/* Takes the value out and returns it, or NULL. Never allocates. */
void *tri_map_remove(tri_map *map, uint64_t key);
void *tri_map_remove_bytes(tri_map *map, const void *key, size_t size);

/* Makes room for `count` values in all. Errors: TR_ENOMEM. */
TR_NODISCARD tr_err tri_map_reserve(tri_map *map, uint32_t count);

/* Gives memory back where much is unused, if a smaller table can be had. */
void tri_map_trim(tri_map *map);

/*
 * Walking: for (tri_map_iter it = tri_map_iter_begin(map);
 *               (value = tri_map_iter_next(map, &it)) != NULL;)
 * The value just returned, and those before it, may be removed on the way;
 * nothing may be put.
 */
typedef struct tri_map_iter {
    uint64_t key;   // of the value just returned
    uint32_t at;    // the place it was in
    uint32_t left;  // places not yet seen
} tri_map_iter;

tri_map_iter tri_map_iter_begin(const tri_map *map);
void *tri_map_iter_next(const tri_map *map, tri_map_iter *iter);

/* Walks all of the map and checks its invariants. */
void tri_map_check(const tri_map *map);

#endif
