/*
 * sqlite_journal.h - what is saved but not folded yet, in memory.
 *
 * storage_sqlite.c appends each save to a table in the order of arrival and
 * folds it into the table by key later (docs/design/0007-storage.md). Until
 * then only this index knows where a key's newest state is, so it holds it:
 * the key, the number of its newest journal row, and the state itself.
 *
 * Threads: any; a small lock inside. Rows come from the writer, for its own
 * commits, and from whoever finds rows of other processes in the file.
 *
 * Rule: an entry is removed only by tri_journal_prune, and that only by the
 * reader, under a snapshot in which the entry's row is folded. So a key that
 * the reader does not find here is, in that snapshot, in the table by key.
 */
#ifndef TRI_STORAGE_SQLITE_JOURNAL_H
#define TRI_STORAGE_SQLITE_JOURNAL_H

#include "base/lock.h"
#include "base/map.h"
#include "storage/storage.h"

typedef struct tri_journal_entry {
    tri_link link;     // by row, oldest first, nearly; see set_state
    uint64_t row;      // the newest of this key; 0: none yet, see below
    uint64_t version;  // 0: it was deleted
    void *bytes;
    size_t size, room;  // of bytes: used, allocated
    uint64_t hash;      // of the key
    bool pinned;        // a fold has a pointer to it
    bool claimed;       // the writer has one: it is in `claim`

    /* What the writer's transaction makes of it, if next_row is not 0. */
    tri_link claim;
    uint64_t next_row, next_version;
    void *next_bytes;
    size_t next_size, next_room;

    size_t key_size;
    char key[];
} tri_journal_entry;

typedef struct tri_journal {
    tri_lock lock;
    tri_map map;
    tri_list entries;
    uint64_t known;  // every row up to here was put, or is folded
    uint64_t size;   // of all states held
} tri_journal;

void tri_journal_init(tri_journal *journal);
void tri_journal_fini(tri_journal *journal);

/* Puts a row; an older one than is there changes nothing. Errors: TR_ENOMEM. */
TR_NODISCARD tr_err tri_journal_put(tri_journal *journal, tri_store_bytes key,
                                    uint64_t row, uint64_t version,
                                    tri_store_bytes bytes);

/*
 * The writer's way: it claims the entry of a key, so that nobody removes it,
 * stages what its transaction writes, and in the end makes all of it true at
 * once, or forgets it. Nothing can fail any more then, and no key is looked
 * up twice.
 */
/*
 * The key's entry, in `claims` from now on; NULL: there is none. *known: it
 * has a row that is staged or behind `folded`, whose version is *version.
 */
tri_journal_entry *tri_journal_claim(tri_journal *journal, tri_store_bytes key,
                                     uint64_t folded, tri_list *claims,
                                     bool *known, uint64_t *version);
/* Makes the entry that claim did not find, without a row. NULL: no memory. */
tri_journal_entry *tri_journal_claim_new(tri_journal *journal,
                                         tri_store_bytes key, tri_list *claims);
/* Copies the state that the transaction writes as `row`. Errors: TR_ENOMEM. */
TR_NODISCARD tr_err tri_journal_stage(tri_journal_entry *entry, uint64_t row,
                                      uint64_t version, tri_store_bytes bytes);
/* Ends all claims; the list is empty then. */
void tri_journal_end(tri_journal *journal, tri_list *claims, bool committed);

/* All rows up to this one were put, or are folded. */
void tri_journal_set_known(tri_journal *journal, uint64_t row);
uint64_t tri_journal_known(tri_journal *journal);
uint64_t tri_journal_size(tri_journal *journal);

/* Answers a load, if the key has a row behind `folded`. */
bool tri_journal_load(tri_journal *journal, tri_store_op *op, uint64_t folded);

/* Forgets what is folded in the snapshot that the caller reads. */
void tri_journal_prune(tri_journal *journal, uint64_t folded);

/*
 * Pins all entries with rows in (folded, upto] and gives them sorted by key;
 * *upto is what is known now. NULL: nothing to do, or no memory. The caller
 * frees the array after tri_journal_unpin.
 */
tri_journal_entry **tri_journal_pin(tri_journal *journal, uint64_t folded,
                                    uint64_t *upto, size_t *count);
void tri_journal_unpin(tri_journal *journal, tri_journal_entry **entries,
                       size_t count);
/*
 * Copies a pinned entry's state if its row is in (folded, upto]. The bytes go
 * to *room, which is grown as needed. Errors: TR_ENOENT (it is not), ENOMEM.
 */
TR_NODISCARD tr_err tri_journal_copy(tri_journal *journal,
                                     const tri_journal_entry *entry,
                                     uint64_t folded, uint64_t upto,
                                     void **room, size_t *room_size,
                                     uint64_t *version, size_t *size);

#endif
