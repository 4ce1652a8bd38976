/*
 * sqlite_fold.h - moves saved states from the table `journal` to the table
 * `state`.
 *
 * Threads: the writer.
 */
#ifndef TRI_STORAGE_SQLITE_FOLD_H
#define TRI_STORAGE_SQLITE_FOLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "storage/sqlite_journal.h"
#include "troupe/base.h"

typedef struct tri_sqlite_store tri_sqlite_store;

/* The generation of journal rows that is being folded, or trimmed. */
typedef struct tri_sqlite_fold {
    tri_journal_entry **entries;  // pinned; NULL: no fold is in progress
    size_t count, next;           // entries; the next one to fold
    uint64_t upto;                // the last row of this generation
    bool trimming;                // the journal has rows that are folded
    tr_nanos not_before;          // after a failure: when to try again
    void *buffer;                 // for one state
    size_t buffer_size;
} tri_sqlite_fold;

/* Returns whether rows should be folded now. idle: no operation waits. */
bool tri_sqlite_fold_is_due(tri_sqlite_store *store, bool idle);
/* Folds, or trims, about `rows` rows in a transaction of its own. */
void tri_sqlite_fold_step(tri_sqlite_store *store, uint32_t rows);
/* Gives up the fold in progress. The journal still has all rows. */
void tri_sqlite_fold_cancel(tri_sqlite_store *store);
/* Gives up the fold in progress, after a failure, and waits before the next. */
void tri_sqlite_fold_postpone(tri_sqlite_store *store);

#endif
