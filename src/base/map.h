/*
 * map.h - a hash map from numbers, or from bytes, to pointers.
 *
 * The map does not store keys of bytes: the value contains its key, and a
 * callback compares. Values belong to the caller and are not NULL.
 *
 * The order of iteration depends only on the keys and the calls made so far,
 * not on addresses, and is the same on every machine.
 *
 * Threads: none of this is thread-safe; several threads may read a map that
 * none changes.
 */
#ifndef TRI_BASE_MAP_H
#define TRI_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "troupe/base.h"

#define TRI_MAP_COUNT_MAX (UINT32_C(1) << 30)  // a put beyond is TR_ENOMEM

/* Returns true if the value's key equals these bytes. */
typedef bool (*tri_map_same_fn)(const void *value, const void *key,
                                size_t size);

/* Allocates the table. `alloc` may return NULL and need not zero the memory. */
typedef struct tri_map_memory {
    void *(*alloc)(void *user, size_t size);
    void (*free)(void *user, void *at, size_t size);
    void *user;
} tri_map_memory;

typedef struct tri_map_entry {
    uint64_t key;  // the number, or the hash of the bytes
    void *value;   // NULL: the entry is empty
} tri_map_entry;

/* Defined here because its owner embeds it. */
typedef struct tri_map {
    tri_map_entry *entries;        // `capacity` entries; NULL if 0
    tri_map_same_fn same;          // NULL: keys are numbers
    const tri_map_memory *memory;  // NULL: malloc and free
    uint32_t count;
    uint32_t capacity;  // 0 or a power of two
} tri_map;

/*
 * Makes an empty map without allocating. Keys are numbers if `same` is NULL,
 * else bytes. The map borrows *memory until tri_map_fini; NULL stands for
 * malloc and free.
 */
void tri_map_init(tri_map *map, tri_map_same_fn same,
                  const tri_map_memory *memory);

/* Frees the table but not the values. The map is empty and usable again. */
void tri_map_fini(tri_map *map);

static inline uint32_t tri_map_count(const tri_map *map)
{
    return map->count;
}

/*
 * Adds a value. Errors: TR_EEXIST, TR_ENOMEM; the map is then unchanged. Does
 * not allocate right after a remove, or up to the count of tri_map_reserve.
 */
TR_NODISCARD tr_err tri_map_put(tri_map *map, uint64_t key, void *value);
TR_NODISCARD tr_err tri_map_put_bytes(tri_map *map, const void *key,
                                      size_t size, void *value);

/* Returns the value of a key, or NULL. */
void *tri_map_get(const tri_map *map, uint64_t key);
void *tri_map_get_bytes(const tri_map *map, const void *key, size_t size);

/* For maps of bytes, if the caller knows the key's tri_hash_bytes already. */
TR_NODISCARD tr_err tri_map_put_hashed(tri_map *map, uint64_t hash,
                                       const void *key, size_t size,
                                       void *value);
void *tri_map_get_hashed(const tri_map *map, uint64_t hash, const void *key,
                         size_t size);
void *tri_map_remove_hashed(tri_map *map, uint64_t hash, const void *key,
                            size_t size);

/* Removes a key and returns its value, or NULL. Never allocates. */
void *tri_map_remove(tri_map *map, uint64_t key);
void *tri_map_remove_bytes(tri_map *map, const void *key, size_t size);

/* Makes room for `count` values in total. Errors: TR_ENOMEM. */
TR_NODISCARD tr_err tri_map_reserve(tri_map *map, uint32_t count);

/* Replaces a table that is much too large by a smaller one, if it can. */
void tri_map_trim(tri_map *map);

/*
 * Walks all values:
 *     for (tri_map_iter it = tri_map_iter_begin(map);
 *          (value = tri_map_iter_next(map, &it)) != NULL;)
 * The loop may remove the value just returned and those before it, but must
 * not put any.
 */
typedef struct tri_map_iter {
    uint64_t key;   // of the value just returned
    uint32_t at;    // index of that value
    uint32_t left;  // indexes not yet visited
} tri_map_iter;

tri_map_iter tri_map_iter_begin(const tri_map *map);
void *tri_map_iter_next(const tri_map *map, tri_map_iter *iter);

/* Walks the whole map and checks its invariant. */
void tri_map_check(const tri_map *map);

#endif
