/*
 * storage_sqlite.h - the store in an SQLite file: its parts.
 *
 *     submit --writes--> writer  commits batches, folds the journal
 *            --reads---> reader  answers batches of loads from one snapshot
 *                        checkpointer  moves the log into the database
 *
 * Each is a thread with a connection of its own. docs/design/0007-storage.md
 * says why.
 */
#ifndef TRI_STORAGE_STORAGE_SQLITE_H
#define TRI_STORAGE_STORAGE_SQLITE_H

#include "storage/inbox.h"
#include "storage/sqlite_db.h"
#include "storage/sqlite_journal.h"
#include "storage/sqlite_versions.h"

/* A field left zero takes the default named beside it. */
typedef struct tri_sqlite_limits {
    uint32_t batch;             // operations in a transaction; 4096
    uint64_t fold_rows;         // of the journal, then it is folded; 32768
    uint64_t fold_size;         // bytes of them; 16 MiB
    uint32_t slice;             // rows folded in a transaction; 512
    uint32_t checkpoint_pages;  // added to the log; 4096
    uint32_t log_pages;         // then writers wait for a checkpoint; 16384
    uint32_t versions;          // remembered, 64 bytes each; 1048576
    tr_nanos idle;              // then the journal is folded; 1 s
    tr_nanos busy;              // wait for other processes; 10 s
} tri_sqlite_limits;

/* A generation of journal rows on their way into the table by key. */
typedef struct tri_sqlite_fold {
    tri_journal_entry **entries;  // pinned; NULL: no fold is under way
    size_t count, next;
    uint64_t upto;        // the last row of this generation
    bool trimming;        // folded rows are left in the journal
    tr_nanos not_before;  // after a failure
    void *room;           // for one state
    size_t room_size;
} tri_sqlite_fold;

/* All of it is the writer's own, but the inbox. */
typedef struct tri_sqlite_writer {
    tri_inbox inbox;
    tri_sqlite_db db;
    uint64_t folded, last;  // rows of the journal, as last seen
    uint64_t changes;       // data_version: moves when others write
    tr_nanos shared_until;  // others have written lately
    uint64_t *fences;       // epoch + 1 by shard; 0: ask the file
    uint32_t fence_top;     // beyond this, all are 0
    tri_list claims;        // entries of the index in this transaction
    tri_sqlite_fold fold;
    uint32_t log_pages, checkpoint_at;
    uint32_t crowd;        // operations that were here at once, lately
    tr_nanos commit_span;  // how long a commit takes, lately
    tri_thread *thread;
} tri_sqlite_writer;

typedef struct tri_sqlite_reader {
    tri_inbox inbox;
    tri_sqlite_db db;
    uint64_t stamp;  // of the versions, before its snapshot
    tri_thread *thread;
} tri_sqlite_reader;

typedef struct tri_sqlite_store {
    tr_storage base;
    tri_sqlite_file file;
    tri_sqlite_limits limits;
    tri_journal journal;
    tri_versions versions;
    tri_sqlite_writer writer;
    tri_sqlite_reader reader;
    tri_sqlite_reader checkpointer;  // its inbox is only nudged
    _Atomic(uint32_t) gate;          // 1: the writer waits for a checkpoint
    _Atomic(uint32_t) unsettled;     // 1: a commit failed and may come back
} tri_sqlite_store;

static inline bool tri_sqlite_is_unsettled(tri_sqlite_store *store)
{
    // Relaxed: see ensure_open in sqlite_write.c.
    return atomic_load_explicit(&store->unsettled, memory_order_relaxed) != 0;
}

/*
 * As tr_storage_sqlite_with, in any world. NULL limits means every default;
 * tests make them small to reach what is rare.
 */
TR_NODISCARD tr_err tri_storage_sqlite_open(tr_storage **out, tri_world *world,
                                            const char *path,
                                            const tri_sqlite_limits *limits,
                                            tri_sqlite_fault *why);

/* The threads; each takes the store and returns when its inbox is closed. */
void tri_sqlite_write_loop(void *store);
void tri_sqlite_read_loop(void *store);
void tri_sqlite_checkpoint_loop(void *store);

/*
 * Begins a transaction that writes: waits for the gate and other processes,
 * and knows then all that they have saved. On failure nothing is open.
 */
int tri_sqlite_write_begin(tri_sqlite_store *store);
/*
 * What counts the commits of others, in a transaction of the writer; after
 * this a change of it means that somebody else has written.
 */
int tri_sqlite_write_changes(tri_sqlite_store *store, uint64_t *changes);
/* After a failure: nothing of the transaction stays. */
void tri_sqlite_write_cancel(tri_sqlite_store *store);

/*
 * Events; each returns an SQLite code. An op whose events are not whole has
 * failed then, and SQLITE_OK is returned: the connection is well.
 */
int tri_sqlite_append(tri_sqlite_db *db, tri_store_op *op);
int tri_sqlite_trim(tri_sqlite_db *db, tri_store_op *op);
int tri_sqlite_read_events(tri_sqlite_db *db, tri_store_op *op);

/* Whether rows should be folded now; idle: nobody waits. */
bool tri_sqlite_fold_is_due(tri_sqlite_store *store, bool idle);
/* Folds some rows, about `rows`, in a transaction of its own. */
void tri_sqlite_fold_step(tri_sqlite_store *store, uint32_t rows);
/* Gives up what is under way; the journal still has it all. */
void tri_sqlite_fold_cancel(tri_sqlite_store *store);
/* The file cannot be used now: not again before a while has passed. */
void tri_sqlite_fold_postpone(tri_sqlite_store *store);

#endif
