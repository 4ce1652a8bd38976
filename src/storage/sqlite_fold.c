/*
 * sqlite_fold.c - moves saved states from the journal to the table `state`.
 *
 * A save writes one row at the end of the journal, where many rows share a
 * page. In the table `state` a change writes the whole page of its key. So
 * rows stay in the journal until there are many. Then a generation, all rows
 * up to a number, is sorted by key and written in slices: neighbours share
 * pages, and a key that was saved several times is written once. Afterwards
 * the folded rows are trimmed, that is deleted from the journal.
 *
 * These transactions need no sync. If a crash loses a slice, its rows are
 * still in the journal, because `mark.folded` moves with the last slice of a
 * generation, and rows are trimmed only after that. The journal always keeps
 * its last row, so that no row number is used twice.
 */
#include "storage/sqlite_fold.h"

#include <sqlite3.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/list.h"
#include "base/world.h"
#include "storage/inbox.h"
#include "storage/sqlite_db.h"
#include "storage/sqlite_read.h"
#include "storage/sqlite_sum.h"
#include "storage/sqlite_versions.h"
#include "storage/sqlite_write.h"
#include "storage/storage_sqlite.h"
#include "storage/store_op.h"

#define RETRY_SPAN TR_SECONDS(1)  // after a failure
/* From twice the limit on, rows are folded even while operations wait. */
#define FORCE_FACTOR 2
/*
 * Trimming a row is cheaper than folding it. After a batch a step folds twice
 * as many rows as the batch has added, or trims four times as many: while a
 * generation of n rows is folded and trimmed, 3/4 n rows are added. So the
 * journal stays below 4 times its limit.
 */
#define TRIM_FACTOR 2

/* Returns how many rows of the journal are not folded. */
static uint64_t unfolded_rows(tri_sqlite_store *store)
{
    uint64_t known = tri_journal_known(&store->journal);

    return known > store->writer.folded ? known - store->writer.folded : 0;
}

/* Returns whether the journal has reached `factor` times its limits. */
static bool is_over_limit(tri_sqlite_store *store, uint64_t factor)
{
    return unfolded_rows(store) >= store->limits.fold_rows * factor ||
           tri_journal_size(&store->journal) >=
               store->limits.fold_size * factor;
}

bool tri_sqlite_fold_is_due(tri_sqlite_store *store, bool idle)
{
    tri_sqlite_fold *fold = &store->writer.fold;
    tri_world *world = store->file.world;

    if (fold->not_before != 0) {
        if (world->ops->mono(world) < fold->not_before) {
            return false;
        }
        fold->not_before = 0;
    }
    if (idle && (fold->entries != NULL || fold->trimming)) {
        return true;
    }
    if (!is_over_limit(store, idle ? 1 : FORCE_FACTOR)) {
        return false;
    }
    return fold->entries != NULL || fold->trimming || unfolded_rows(store) > 0;
}

void tri_sqlite_fold_cancel(tri_sqlite_store *store)
{
    tri_sqlite_fold *fold = &store->writer.fold;

    if (fold->entries != NULL) {
        tri_journal_unpin(&store->journal, fold->entries, fold->count);
    }
    free(fold->entries);
    free(fold->buffer);
    fold->entries = NULL;
    fold->buffer = NULL;
    fold->buffer_size = 0;
}

/* Writes a state to the table `state`; version 0: deletes it. */
static int put_state(tri_sqlite_store *store, const tri_journal_entry *entry,
                     uint64_t version, size_t size)
{
    tri_sqlite_db *db = &store->writer.db;
    tri_store_bytes key = {entry->key, entry->key_size};
    sqlite3_stmt *statement = tri_sqlite_db_prepare(
        db, version == 0 ? TRI_SQL_STATE_DELETE : TRI_SQL_STATE_PUT);

    if (statement == NULL) {
        return SQLITE_ERROR;
    }
    tri_sqlite_bind_text(statement, 1, key);
    if (version > 0) {
        tri_sqlite_bind(statement, 2, version);
        tri_store_bytes bytes = {store->writer.fold.buffer, size};
        tri_sqlite_bind_bytes(statement, 3, bytes.at, bytes.size);
        tri_sqlite_bind(statement, 4,
                        tri_sqlite_sum_hashed(entry->hash, version, bytes));
    }
    int code = tri_sqlite_step(statement);
    if (code == SQLITE_DONE) {
        tri_versions_put(&store->versions, key, version);
    }
    return code == SQLITE_DONE ? SQLITE_OK : code;
}

/* Folds one entry, unless the key has a row after this generation by now. */
static int fold_one(tri_sqlite_store *store, const tri_journal_entry *entry)
{
    tri_sqlite_fold *fold = &store->writer.fold;
    uint64_t version = 0;
    size_t size = 0;
    tr_err err = tri_journal_copy(&store->journal, entry, store->writer.folded,
                                  fold->upto, &fold->buffer, &fold->buffer_size,
                                  &version, &size);

    if (err == TR_ENOENT) {
        return SQLITE_OK;
    }
    return err == TR_OK ? put_state(store, entry, version, size) : SQLITE_NOMEM;
}

static int set_folded(tri_sqlite_store *store)
{
    sqlite3_stmt *statement =
        tri_sqlite_db_prepare(&store->writer.db, TRI_SQL_SET_FOLDED);

    if (statement == NULL) {
        return SQLITE_ERROR;
    }
    tri_sqlite_bind(statement, 1, store->writer.fold.upto);
    int code = tri_sqlite_step(statement);
    return code == SQLITE_DONE ? SQLITE_OK : code;
}

/* Folds the next rows. *done: the generation is complete. */
static int fold_slice(tri_sqlite_store *store, uint32_t rows, bool *done)
{
    tri_sqlite_fold *fold = &store->writer.fold;
    size_t end = (size_t)TRI_MIN(fold->next + rows, fold->count);

    TRI_CHECK(fold->next <= fold->count);
    *done = true;
    if (store->writer.folded >= fold->upto) {
        return SQLITE_OK;  // another process has folded them
    }
    for (size_t i = fold->next; i < end; i++) {
        int code = fold_one(store, fold->entries[i]);
        if (code != SQLITE_OK) {
            return code;
        }
    }
    fold->next = end;
    *done = end == fold->count;
    return *done ? set_folded(store) : SQLITE_OK;
}

/* Deletes folded rows from the journal. *done: none are left. */
static int trim_slice(tri_sqlite_store *store, uint32_t rows, bool *done)
{
    tri_sqlite_writer *writer = &store->writer;
    sqlite3_stmt *statement =
        tri_sqlite_db_prepare(&writer->db, TRI_SQL_JOURNAL_FIRST);
    uint64_t first = 0;

    *done = true;
    if (statement == NULL) {
        return SQLITE_ERROR;
    }
    int code = tri_sqlite_number(statement, &first);
    if (code != SQLITE_OK || first == 0) {
        return code;
    }
    uint64_t end = TRI_MIN(writer->folded, writer->last - 1);
    uint64_t upto = TRI_MIN(end, first + rows - 1);
    if (upto < first) {
        return SQLITE_OK;
    }
    statement = tri_sqlite_db_prepare(&writer->db, TRI_SQL_JOURNAL_TRIM);
    if (statement == NULL) {
        return SQLITE_ERROR;
    }
    tri_sqlite_bind(statement, 1, upto);
    code = tri_sqlite_step(statement);
    *done = upto == end;
    return code == SQLITE_DONE ? SQLITE_OK : code;
}

/* Folds or trims in one transaction, without a sync. */
static int step(tri_sqlite_store *store, uint32_t rows, bool *done)
{
    tri_sqlite_db *db = &store->writer.db;
    int code = tri_sqlite_db_exec(db, "PRAGMA synchronous=NORMAL");

    if (code == SQLITE_OK) {
        code = tri_sqlite_write_begin(store);
    }
    if (code == SQLITE_OK) {
        code = store->writer.fold.entries != NULL
                   ? fold_slice(store, rows, done)
                   : trim_slice(store, rows * TRIM_FACTOR, done);
    }
    if (code == SQLITE_OK) {
        code = tri_sqlite_db_run(db, TRI_SQL_COMMIT);
    }
    // The caller closes the connection if this fails, because the next commit
    // of a save must be synced.
    return code == SQLITE_OK ? tri_sqlite_db_exec(db, "PRAGMA synchronous=FULL")
                             : code;
}

/* Goes on after the last slice: from folding to trimming, then to nothing. */
static void finish_phase(tri_sqlite_store *store)
{
    tri_sqlite_fold *fold = &store->writer.fold;

    if (fold->entries == NULL) {
        fold->trimming = false;
        return;
    }
    store->writer.folded = TRI_MAX(store->writer.folded, fold->upto);
    tri_sqlite_fold_cancel(store);
    fold->trimming = true;
    tri_inbox_wake(&store->reader.inbox);  // so that it prunes the index
}

/* Begins a generation. Returns false if there are no rows, or no memory. */
static bool start_generation(tri_sqlite_store *store)
{
    tri_sqlite_fold *fold = &store->writer.fold;

    TRI_CHECK(fold->entries == NULL);
    fold->next = 0;
    fold->entries = tri_journal_pin(&store->journal, store->writer.folded,
                                    &fold->upto, &fold->count);
    if (fold->entries != NULL && fold->count == 0) {
        free(fold->entries);
        fold->entries = NULL;
    }
    return fold->entries != NULL;
}

void tri_sqlite_fold_postpone(tri_sqlite_store *store)
{
    tri_world *world = store->file.world;

    tri_sqlite_fold_cancel(store);
    store->writer.fold.not_before = world->ops->mono(world) + RETRY_SPAN;
}

/*
 * Called when there are unfolded rows, but the index has none of them. Either
 * a commit that moved `mark.folded` took effect although it returned an error,
 * and the reader has pruned the index: then reads `mark.folded` again. Or
 * there was no memory: then postpones the fold.
 */
static void refresh_folded(tri_sqlite_store *store)
{
    int code = tri_sqlite_write_begin(store);  // reads mark.folded

    if (code == SQLITE_OK) {
        code = tri_sqlite_db_run(&store->writer.db, TRI_SQL_ROLLBACK);
    }
    if (code != SQLITE_OK) {
        tri_sqlite_write_cancel(store);
    }
    if (code != SQLITE_OK || unfolded_rows(store) > 0) {
        tri_sqlite_fold_postpone(store);
    }
}

void tri_sqlite_fold_step(tri_sqlite_store *store, uint32_t rows)
{
    tri_sqlite_fold *fold = &store->writer.fold;
    bool done = false;

    TRI_CHECK(rows > 0);
    TRI_CHECK(tri_list_is_empty(&store->writer.claims));
    if (fold->entries == NULL && !fold->trimming) {
        if (unfolded_rows(store) == 0) {
            return;
        }
        if (!start_generation(store)) {
            refresh_folded(store);
            return;
        }
    }
    tri_versions_begin(&store->versions);
    bool ok = step(store, rows, &done) == SQLITE_OK;
    tri_versions_end(&store->versions);
    if (ok) {
        if (done) {
            finish_phase(store);
        }
        return;
    }
    tri_sqlite_write_cancel(store);
    tri_sqlite_fold_postpone(store);
}
