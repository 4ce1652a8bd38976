/*
 * sqlite_write.h - the writer: a thread that carries out all writes.
 *
 * Functions that return int return an SQLite code.
 */
#ifndef TRI_STORAGE_SQLITE_WRITE_H
#define TRI_STORAGE_SQLITE_WRITE_H

#include <stdint.h>

#include "base/list.h"
#include "base/map.h"
#include "base/world.h"
#include "storage/inbox.h"
#include "storage/sqlite_db.h"
#include "storage/sqlite_fold.h"
#include "troupe/base.h"

/* All fields except the inbox belong to the writer's thread. */
typedef struct tri_sqlite_writer {
    tri_inbox inbox;
    tri_sqlite_db db;
    uint64_t folded, last;  // rows of the journal, as of the last transaction
    uint64_t changes;       // data_version: changes when other processes write
    tr_nanos shared_until;  // others wrote lately: leave them the lock at times
    tri_map fences;         // tri_store_fence_of -> epoch + 1, as in the file
    tri_list claims;        // entries of the index in this transaction
    tri_sqlite_fold fold;
    uint32_t log_pages, checkpoint_at;
    uint32_t recent_ops;   // ops in a batch and waiting, decaying maximum
    tr_nanos commit_span;  // duration of a commit, moving average
    tri_thread *thread;
} tri_sqlite_writer;

/* The thread; takes the store and returns when its inbox is closed. */
void tri_sqlite_write_loop(void *store);

/*
 * Begins a transaction that writes: waits for the gate and for other
 * processes, and reads what they have saved. On failure the caller calls
 * tri_sqlite_write_cancel.
 */
int tri_sqlite_write_begin(tri_sqlite_store *store);
/* Rolls back after a failure and closes the connection. */
void tri_sqlite_write_cancel(tri_sqlite_store *store);
/*
 * Reads data_version inside a transaction of the writer. It changes when
 * another connection has committed.
 */
int tri_sqlite_write_changes(tri_sqlite_store *store, uint64_t *changes);

#endif
