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
    tri_link link;     // by row, oldest first, nearly; see tri_journal_put
    uint64_t row;      // the newest of this key
    uint64_t version;  // 0: it was deleted
    void *bytes;
    size_t size;
    bool pinned;  // a fold has a pointer to it
    size_t key_size;
    char key[];
} tri_journal_entry;

typedef struct tri_journal {
    tri_lock lock;
    tri_map map;
    tri_list entries;
    uint32_t promised;  // puts for which there is room
    uint64_t known;     // every row up to here was put, or is folded
    uint64_t size;      // of all states held
} tri_journal;

void tri_journal_init(tri_journal *journal);
void tri_journal_fini(tri_journal *journal);

/* With copies of both. NULL: no memory. */
tri_journal_entry *tri_journal_entry_new(tri_store_bytes key,
                                         tri_store_bytes bytes);
void tri_journal_entry_free(tri_journal_entry *entry);

/* Makes room, so that `count` puts cannot fail. Errors: TR_ENOMEM. */
TR_NODISCARD tr_err tri_journal_promise(tri_journal *journal, uint32_t count);
void tri_journal_unpromise(tri_journal *journal, uint32_t count);

/* Takes the entry, whose put was promised. An older row changes nothing. */
void tri_journal_put(tri_journal *journal, tri_journal_entry *entry);
/* All rows up to this one were put, or are folded. */
void tri_journal_set_known(tri_journal *journal, uint64_t row);
uint64_t tri_journal_known(tri_journal *journal);
uint64_t tri_journal_size(tri_journal *journal);

/* The newest version, if the key has a row behind `folded`. */
bool tri_journal_version(tri_journal *journal, tri_store_bytes key,
                         uint64_t folded, uint64_t *version);
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
