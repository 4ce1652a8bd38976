/*
 * sqlite_versions.h - which version the table by key has of a key.
 *
 * A save must know the stored version. For a key that is not in the journal
 * that is a search in the table by key, which among a million keys costs more
 * than the save's row: the page must be read. This is a cache of what such
 * searches found, of what loads found, and of what folds have written. It
 * holds whole keys and no hashes in their place: a wrong version would let a
 * stale save pass.
 *
 * Rule: what is in it is what the table has now. Only folds change the table.
 * Ours say so (tri_versions_begin, _end) and put what they wrote; when another
 * process has written anything, or a transaction of ours failed, all of it is
 * forgotten.
 *
 * Threads: the writer, which gets, puts and forgets; the reader, which offers
 * what it found in a snapshot. An offer counts only if the table has not
 * changed since before that snapshot, which the stamp tells.
 */
#ifndef TRI_STORAGE_SQLITE_VERSIONS_H
#define TRI_STORAGE_SQLITE_VERSIONS_H

#include "base/lock.h"
#include "storage/storage.h"

typedef struct tri_versions_slot tri_versions_slot;

typedef struct tri_versions_table {
    tri_versions_slot *slots;
    uint32_t capacity;  // 0 or a power of two
    uint32_t used;
} tri_versions_table;

typedef struct tri_versions {
    tri_lock lock;
    tri_versions_table now;
    tri_versions_table before;  // half as large; see grow
    uint32_t max;               // slots of `now`
    uint32_t turn;              // which one of a full set goes next
    uint64_t stamp;             // odd: the table by key is being changed
} tri_versions;

/* max: slots, of 64 bytes each; it is rounded down to a power of two. */
void tri_versions_init(tri_versions *versions, uint32_t max);
void tri_versions_fini(tri_versions *versions);

/* The key's version, 0 if the table has none; false: it is not known. */
bool tri_versions_get(tri_versions *versions, tri_store_bytes key,
                      uint64_t *version);
/* A long key is not kept, nor one for which there is no memory. */
void tri_versions_put(tri_versions *versions, tri_store_bytes key,
                      uint64_t version);
void tri_versions_forget(tri_versions *versions);

/* Around a transaction that changes the table by key, its commit included. */
void tri_versions_begin(tri_versions *versions);
void tri_versions_end(tri_versions *versions);

/* The reader's way: the stamp before its snapshot, then what it found. */
uint64_t tri_versions_stamp(tri_versions *versions);
void tri_versions_offer(tri_versions *versions, uint64_t stamp,
                        tri_store_bytes key, uint64_t version);

#endif
