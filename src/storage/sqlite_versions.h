/*
 * sqlite_versions.h - a cache of the versions in the table `state`.
 *
 * A save needs the version that is stored. For a key that is not in the
 * journal that is a search in the table `state`, which among a million keys
 * costs more than the row of the save, because a page must be read. The cache
 * holds what such searches and loads have found and what folds have written.
 * It compares whole keys, not only their hashes: a wrong version would let a
 * stale save pass.
 *
 * Invariant: a version in the cache is the one in the table. Only folds change
 * the table. Our folds put what they write, between tri_versions_begin and
 * tri_versions_end. When another process has written, or a transaction of ours
 * has failed, the cache is cleared.
 *
 * Threads: the writer gets, puts and clears. The reader offers what it found
 * in a snapshot; the stamp tells whether the table has changed since before
 * that snapshot, and then the offer is ignored.
 */
#ifndef TRI_STORAGE_SQLITE_VERSIONS_H
#define TRI_STORAGE_SQLITE_VERSIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/lock.h"
#include "storage/store_op.h"

typedef struct tri_versions_slot tri_versions_slot;

typedef struct tri_versions_table {
    tri_versions_slot *slots;
    uint32_t capacity;  // 0 or a power of two
    uint32_t used;
} tri_versions_table;

typedef struct tri_versions {
    tri_lock lock;
    tri_versions_table current;
    tri_versions_table previous;  // half as large; see grow
    uint32_t max;                 // capacity of `current`
    uint32_t victim;              // which slot of a full set is reused next
    uint64_t stamp;               // odd: a fold changes the table `state`
} tri_versions;

/* `max` is in slots of 64 bytes; it is rounded down to a power of two. */
void tri_versions_init(tri_versions *versions, uint32_t max);
void tri_versions_fini(tri_versions *versions);

/*
 * Gets the version of a key in the table `state`, 0 if the key is not there.
 * Returns false if the cache does not know it.
 */
bool tri_versions_get(tri_versions *versions, tri_store_bytes key,
                      uint64_t *version);
/* Does nothing for a long key, or if there is no memory. */
void tri_versions_put(tri_versions *versions, tri_store_bytes key,
                      uint64_t version);
/* Clears the cache. */
void tri_versions_clear(tri_versions *versions);

/* Called before a transaction changes the table `state`, and after commit. */
void tri_versions_begin(tri_versions *versions);
void tri_versions_end(tri_versions *versions);

/* Returns the stamp, which the reader takes before its snapshot begins. */
uint64_t tri_versions_stamp(tri_versions *versions);
/* Puts what the reader found, if the stamp is still the same and not odd. */
void tri_versions_offer(tri_versions *versions, uint64_t stamp,
                        tri_store_bytes key, uint64_t version);

#endif
