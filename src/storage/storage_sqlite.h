/*
 * storage_sqlite.h - the store in an SQLite file: its parts.
 *
 *     submit --writes--> writer        commits batches, folds the journal
 *            --reads---> reader        answers batches from one snapshot
 *                        checkpointer  copies the log into the database
 *
 * Each is a thread with its own connection. docs/design/0007-storage.md says
 * why.
 */
#ifndef TRI_STORAGE_STORAGE_SQLITE_H
#define TRI_STORAGE_STORAGE_SQLITE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/world.h"
#include "storage/sqlite_checkpoint.h"
#include "storage/sqlite_db.h"
#include "storage/sqlite_fault.h"
#include "storage/sqlite_fold.h"
#include "storage/sqlite_journal.h"
#include "storage/sqlite_read.h"
#include "storage/sqlite_versions.h"
#include "storage/sqlite_write.h"
#include "storage/storage.h"
#include "troupe/base.h"

/* A field left zero takes the default named beside it. */
typedef struct tri_sqlite_limits {
    uint32_t batch;             // operations in a transaction; 4096
    uint64_t fold_rows;         // rows of the journal before a fold; 32768
    uint64_t fold_size;         // bytes of these rows before a fold; 16 MiB
    uint32_t slice;             // rows folded in a transaction; 512
    uint32_t checkpoint_pages;  // added to the log before a checkpoint; 4096
    uint32_t log_pages;         // then the writer waits for one; 16384
    uint32_t versions;          // in the cache, 64 bytes each; 1048576
    tr_nanos idle;              // without writes, then fold; 1 s
    tr_nanos busy;              // wait for locks of other processes; 10 s
} tri_sqlite_limits;

struct tri_sqlite_store {
    tr_storage base;
    tri_sqlite_file file;
    tri_sqlite_limits limits;
    tri_journal journal;
    tri_versions versions;
    tri_sqlite_writer writer;
    tri_sqlite_reader reader;
    tri_sqlite_checkpointer checkpointer;
    _Atomic(uint32_t) gate;      // 1: the writer waits for a checkpoint
    _Atomic(uint32_t) in_doubt;  // 1: a commit failed and may come back
};

/* Returns whether the outcome of an earlier commit is not known yet. */
static inline bool tri_sqlite_is_in_doubt(tri_sqlite_store *store)
{
    // Relaxed: see ensure_open in sqlite_write.c.
    return atomic_load_explicit(&store->in_doubt, memory_order_relaxed) != 0;
}

/*
 * Opens the store as tr_storage_sqlite_with does, in any world. NULL limits
 * means every default; tests make them small to reach rare cases.
 */
TR_NODISCARD tr_err tri_storage_sqlite_open(tr_storage **out, tri_world *world,
                                            const char *path,
                                            const tri_sqlite_limits *limits,
                                            tri_sqlite_fault *why);

#endif
