/*
 * sqlite_journal.h - the index, in memory, of states that are not folded yet.
 *
 * The writer adds each save to the table `journal`, in the order in which the
 * saves come, and later folds it into the table `state`, which is sorted by
 * key (docs/design/0007-storage.md). Until then only this index finds a key's
 * newest state. It has an entry for each key in the journal, with the number
 * of the key's newest row and the state itself.
 *
 * Threads: any; a lock inside. Rows come from the writer, for its own commits,
 * and from each thread that finds rows of other processes in the file.
 *
 * Invariant: only tri_journal_prune removes entries, and only the reader calls
 * it, in a snapshot in which the row of the entry is folded. So a key that the
 * reader does not find here is in the table `state` of that snapshot, or
 * nowhere.
 */
#ifndef TRI_STORAGE_SQLITE_JOURNAL_H
#define TRI_STORAGE_SQLITE_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/lock.h"
#include "base/map.h"
#include "storage/store_op.h"
#include "troupe/base.h"

typedef struct tri_journal_entry {
    tri_link link;     // in `entries`, roughly by row; see set_state
    uint64_t row;      // the newest row of the key; 0: claimed and new
    uint64_t version;  // 0: the state was deleted
    void *bytes;
    size_t size, capacity;  // of bytes
    uint64_t hash;          // of the key
    bool pinned;            // a fold has a pointer to the entry
    bool claimed;           // the writer has a pointer: it is in its claims

    /* What the writer's transaction saves, if next_row is not 0. */
    tri_link claim;
    uint64_t next_row, next_version;
    void *next_bytes;
    size_t next_size, next_capacity;

    size_t key_size;
    char key[];
} tri_journal_entry;

typedef struct tri_journal {
    tri_lock lock;
    tri_map map;       // of all entries, by key
    tri_list entries;  // those that have a row
    uint64_t known;    // all rows up to this one were put or are folded
    uint64_t size;     // bytes of all states
} tri_journal;

void tri_journal_init(tri_journal *journal);
void tri_journal_fini(tri_journal *journal);
/* Walks the whole index and checks its invariant. */
void tri_journal_check(tri_journal *journal);

/*
 * Puts a row that is in the file. Does nothing if the index has a newer row of
 * the key. Errors: TR_ENOMEM.
 */
TR_NODISCARD tr_err tri_journal_put(tri_journal *journal, tri_store_bytes key,
                                    uint64_t row, uint64_t version,
                                    tri_store_bytes bytes);

/*
 * ---- for the writer ----
 *
 * The writer claims the entry of a key, so that it is not removed, stages what
 * its transaction writes, and after the commit puts all staged rows, or drops
 * them. After the commit nothing can fail, and no key is searched twice.
 */

/*
 * Returns the entry of the key, now in `claims`, or NULL. *known: the entry
 * has a row, staged or after `folded`, and *version is the version of it.
 */
tri_journal_entry *tri_journal_claim(tri_journal *journal, tri_store_bytes key,
                                     uint64_t folded, tri_list *claims,
                                     bool *known, uint64_t *version);
/*
 * Makes and claims the entry that tri_journal_claim did not find. Returns NULL
 * if there is no memory.
 */
tri_journal_entry *tri_journal_claim_new(tri_journal *journal,
                                         tri_store_bytes key, tri_list *claims);
/* Stages a copy of the state that is written as `row`. Errors: TR_ENOMEM. */
TR_NODISCARD tr_err tri_journal_stage(tri_journal_entry *entry, uint64_t row,
                                      uint64_t version, tri_store_bytes bytes);
/* Ends all claims: puts the staged rows if committed, else drops them. */
void tri_journal_end_claims(tri_journal *journal, tri_list *claims,
                            bool committed);

/* Notes that all rows up to this one were put or are folded. */
void tri_journal_set_known(tri_journal *journal, uint64_t row);
uint64_t tri_journal_known(tri_journal *journal);
uint64_t tri_journal_size(tri_journal *journal);

/* ---- for the reader ---- */

/* Answers a load and returns true if the key has a row after `folded`. */
bool tri_journal_load(tri_journal *journal, tri_store_op *op, uint64_t folded);

/* Removes the entries that are folded in the snapshot of the caller. */
void tri_journal_prune(tri_journal *journal, uint64_t folded);

/* ---- for a fold ---- */

/*
 * Pins all entries with rows in (folded, *upto], so that they are not removed,
 * and returns them sorted by key; *upto is the last known row. Returns NULL if
 * the index is empty or there is no memory. The caller unpins the entries and
 * frees the array.
 */
tri_journal_entry **tri_journal_pin(tri_journal *journal, uint64_t folded,
                                    uint64_t *upto, size_t *count);
void tri_journal_unpin(tri_journal *journal, tri_journal_entry **entries,
                       size_t count);
/*
 * Copies the state of a pinned entry, if its row is in (folded, upto], to
 * *buffer, which grows as needed. Errors: TR_ENOENT (another row), TR_ENOMEM.
 */
TR_NODISCARD tr_err tri_journal_copy(tri_journal *journal,
                                     const tri_journal_entry *entry,
                                     uint64_t folded, uint64_t upto,
                                     void **buffer, size_t *capacity,
                                     uint64_t *version, size_t *size);

#endif
