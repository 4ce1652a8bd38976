/*
 * sqlite_fold.c - moves what was saved from the journal to the table by key.
 *
 * A save costs one row at the end of the journal; many rows share a page. In
 * the table by key each state has its place, and a change writes a whole page
 * there. So rows are left in the journal until there are many of them. Then a
 * generation, all rows up to a number, is sorted by key and written in slices:
 * neighbours share pages, and a key that was saved often is written once.
 *
 * Nothing here needs a sync of its own. If a crash takes a slice away, the
 * rows are still in the journal: `mark.folded` moves only with the last slice
 * of a generation, and rows up to it are deleted only afterwards. The journal
 * always keeps its last row, so that no row number is used twice.
 */
#include <stdlib.h>

#include "base/check.h"
#include "storage/storage_sqlite.h"

#define FAILED_SPAN TR_SECONDS(1)
/* From twice the limit on, folding no longer waits until nobody writes. */
#define FORCE_FACTOR 2
/*
 * To delete a row is cheaper than to fold it. A step then folds twice as many
 * rows as the batch before it has added, or deletes four times as many: while
 * a generation of n rows goes through both, 3/4 n come in. So the journal
 * stays below 4 times the limit.
 */
#define TRIM_FACTOR 2

static uint64_t rows_waiting(tri_sqlite_store *store)
{
    uint64_t known = tri_journal_known(&store->journal);

    return known > store->writer.folded ? known - store->writer.folded : 0;
}

static bool is_beyond(tri_sqlite_store *store, uint64_t factor)
{
    return rows_waiting(store) >= store->limits.fold_rows * factor ||
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
    if (!is_beyond(store, idle ? 1 : FORCE_FACTOR)) {
        return false;
    }
    return fold->entries != NULL || fold->trimming || rows_waiting(store) > 0;
}

void tri_sqlite_fold_cancel(tri_sqlite_store *store)
{
    tri_sqlite_fold *fold = &store->writer.fold;

    if (fold->entries != NULL) {
        tri_journal_unpin(&store->journal, fold->entries, fold->count);
    }
    free(fold->entries);
    free(fold->room);
    fold->entries = NULL;
    fold->room = NULL;
    fold->room_size = 0;
}

static int run(tri_sqlite_store *store, const char *sql)
{
    return sqlite3_exec(store->writer.db.handle, sql, NULL, NULL, NULL);
}

static int put(tri_sqlite_store *store, const tri_journal_entry *entry,
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
        tri_store_bytes bytes = {store->writer.fold.room, size};
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

/* Folds one entry, unless a newer row of its key is there by now. */
static int fold_one(tri_sqlite_store *store, const tri_journal_entry *entry)
{
    tri_sqlite_fold *fold = &store->writer.fold;
    uint64_t version = 0;
    size_t size = 0;
    tr_err err = tri_journal_copy(&store->journal, entry, store->writer.folded,
                                  fold->upto, &fold->room, &fold->room_size,
                                  &version, &size);

    if (err == TR_ENOENT) {
        return SQLITE_OK;
    }
    return err == TR_OK ? put(store, entry, version, size) : SQLITE_NOMEM;
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

/* In a transaction: the next rows; *done: that was the generation's end. */
static int fold_slice(tri_sqlite_store *store, uint32_t rows, bool *done)
{
    tri_sqlite_fold *fold = &store->writer.fold;
    size_t end = (size_t)TRI_MIN(fold->next + rows, fold->count);

    *done = true;
    if (store->writer.folded >= fold->upto) {
        return SQLITE_OK;  // another process was faster
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

/* In a transaction: deletes folded rows; *done: none are left. */
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

/* One transaction without a sync. */
static int step(tri_sqlite_store *store, uint32_t rows, bool *done)
{
    int code = run(store, "PRAGMA synchronous=NORMAL");

    if (code == SQLITE_OK) {
        code = tri_sqlite_write_begin(store);
    }
    if (code == SQLITE_OK) {
        code = store->writer.fold.entries != NULL
                   ? fold_slice(store, rows, done)
                   : trim_slice(store, rows * TRIM_FACTOR, done);
    }
    if (code == SQLITE_OK) {
        code = tri_sqlite_db_run(&store->writer.db, TRI_SQL_COMMIT);
    }
    // A failure here closes the connection, as all others do: the next commit
    // must be on the disk.
    return code == SQLITE_OK ? run(store, "PRAGMA synchronous=FULL") : code;
}

static void finish(tri_sqlite_store *store)
{
    tri_sqlite_fold *fold = &store->writer.fold;

    if (fold->entries == NULL) {
        fold->trimming = false;
        return;
    }
    store->writer.folded = TRI_MAX(store->writer.folded, fold->upto);
    tri_sqlite_fold_cancel(store);
    fold->trimming = true;
    tri_inbox_nudge(&store->reader.inbox);  // it may prune now
}

/* False: there is nothing to fold, or no memory for it. */
static bool start(tri_sqlite_store *store)
{
    tri_sqlite_fold *fold = &store->writer.fold;

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
    store->writer.fold.not_before = world->ops->mono(world) + FAILED_SPAN;
}

/*
 * Rows are said to wait, but none is in the index: the mark that we know is
 * older than the file's, because its commit was not seen through, and the
 * reader has pruned by the newer one. Or there is no memory: then later.
 */
static void look_again(tri_sqlite_store *store)
{
    int code = tri_sqlite_write_begin(store);  // learns the mark

    if (code == SQLITE_OK) {
        code = tri_sqlite_db_run(&store->writer.db, TRI_SQL_ROLLBACK);
    }
    if (code != SQLITE_OK) {
        tri_sqlite_write_cancel(store);
    }
    if (code != SQLITE_OK || rows_waiting(store) > 0) {
        tri_sqlite_fold_postpone(store);
    }
}

void tri_sqlite_fold_step(tri_sqlite_store *store, uint32_t rows)
{
    tri_sqlite_fold *fold = &store->writer.fold;
    bool done = false;

    if (fold->entries == NULL && !fold->trimming) {
        if (rows_waiting(store) == 0) {
            return;
        }
        if (!start(store)) {
            look_again(store);
            return;
        }
    }
    tri_versions_begin(&store->versions);
    bool is_well = step(store, rows, &done) == SQLITE_OK;
    tri_versions_end(&store->versions);
    if (is_well) {
        if (done) {
            finish(store);
        }
        return;
    }
    tri_sqlite_write_cancel(store);
    tri_sqlite_fold_postpone(store);
}
