/*
 * sqlite_read.c - the reader: answers all reads that wait from one snapshot.
 *
 * First the index of the journal is brought up to the snapshot. Then a load of
 * a key that has rows in the journal is answered from the index, and all
 * others from the table `state`. By the invariant of sqlite_journal.h a key is
 * in one of them. If the index has a newer state than the snapshot, the load
 * answers with the newer one, which is committed.
 */
#include "storage/sqlite_read.h"

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/check.h"
#include "base/list.h"
#include "storage/sqlite_events.h"
#include "storage/sqlite_fault.h"
#include "storage/sqlite_fold.h"
#include "storage/sqlite_journal.h"
#include "storage/sqlite_journal_sync.h"
#include "storage/sqlite_sum.h"
#include "storage/sqlite_versions.h"
#include "storage/storage_sqlite.h"
#include "storage/store_op.h"
#include "troupe/base.h"
#include "troupe/storage.h"

/* ---- one operation; each function returns an SQLite code ---- */

static int load(tri_sqlite_store *store, tri_store_op *op, uint64_t folded)
{
    if (tri_journal_load(&store->journal, op, folded)) {
        return SQLITE_OK;
    }
    sqlite3_stmt *statement =
        tri_sqlite_db_prepare(&store->reader.db, TRI_SQL_STATE_GET);
    if (statement == NULL) {
        return SQLITE_ERROR;
    }
    tri_sqlite_bind_text(statement, 1, op->key);
    int code = sqlite3_step(statement);
    if (code == SQLITE_ROW) {
        tri_store_bytes bytes = tri_sqlite_column(statement, 1);
        uint64_t version = (uint64_t)sqlite3_column_int64(statement, 0);
        if (!tri_sqlite_sum_fits(statement, 2,
                                 tri_sqlite_sum(op->key, version, bytes))) {
            return tri_sqlite_end(statement, SQLITE_CORRUPT);
        }
        (void)tri_store_set_state(op, bytes.at, bytes.size, version);
        tri_versions_offer(&store->versions, store->reader.stamp, op->key,
                           version);
    } else if (code == SQLITE_DONE) {
        tri_versions_offer(&store->versions, store->reader.stamp, op->key, 0);
    }
    return tri_sqlite_end(statement, code);
}

static int list_reminders(tri_sqlite_store *store, tri_store_op *op)
{
    uint32_t left = tri_store_row_limit(op);
    sqlite3_stmt *statement =
        tri_sqlite_db_prepare(&store->reader.db, TRI_SQL_REMINDERS);
    int code;

    if (statement == NULL) {
        return SQLITE_ERROR;
    }
    tri_sqlite_bind(statement, 1, op->shard);
    tri_sqlite_bind(statement, 2, op->number);
    tri_sqlite_bind(statement, 3, op->after);
    tri_sqlite_bind_text(statement, 4, op->key);
    tri_sqlite_bind_text(statement, 5, op->name);
    tri_sqlite_bind(statement, 6, left + 1);
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        tri_store_row row = {
            .number = (uint64_t)sqlite3_column_int64(statement, 0),
            .key = tri_sqlite_column(statement, 1),
            .name = tri_sqlite_column(statement, 2),
            .bytes = tri_sqlite_column(statement, 3),
        };
        if (!tri_sqlite_sum_fits(
                statement, 4, tri_sqlite_sum(row.key, row.number, row.bytes))) {
            return tri_sqlite_end(statement, SQLITE_CORRUPT);
        }
        if (!tri_sqlite_add_row(op, &row, &left)) {
            break;
        }
    }
    return tri_sqlite_end(statement, code);
}

/* Lists keys from the snapshot alone: the index of the journal is not sorted. */
static int scan(tri_sqlite_store *store, tri_store_op *op)
{
    char end[TRI_STORE_KEY_MAX];
    size_t end_size = tri_store_scan_end(op, end);
    uint32_t left = tri_store_row_limit(op);
    sqlite3_stmt *statement =
        tri_sqlite_db_prepare(&store->reader.db, TRI_SQL_SCAN);
    int code;

    if (statement == NULL) {
        return SQLITE_ERROR;
    }
    tri_sqlite_bind_text(statement, 1, op->bytes);
    tri_sqlite_bind_text(statement, 2, (tri_store_bytes){end, end_size});
    tri_sqlite_bind_text(statement, 3, op->key);
    tri_sqlite_bind(statement, 4, left + 1);
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        tri_store_row row = {.key = tri_sqlite_column(statement, 0)};
        if (!tri_sqlite_add_row(op, &row, &left)) {
            break;
        }
    }
    return tri_sqlite_end(statement, code);
}

static int read_one(tri_sqlite_store *store, tri_store_op *op, uint64_t folded)
{
    switch (op->call) {
    case TR_STORE_LOAD:
        return load(store, op, folded);
    case TR_STORE_READ:
        return tri_sqlite_read_events(&store->reader.db, op);
    case TR_STORE_SCAN:
        return scan(store, op);
    default:
        TRI_CHECK(op->call == TR_STORE_REMINDERS);
        return list_reminders(store, op);
    }
}

/* ---- a batch ---- */

static void fail_all(tri_list *batch, const tri_sqlite_fault *why)
{
    TRI_LIST_EACH (link, batch) {
        tri_sqlite_fault_fail(why, tri_container_of(link, tri_store_op, link));
    }
}

/* Begins a snapshot and brings the index of the journal up to it. */
static int begin(tri_sqlite_store *store, uint64_t *folded)
{
    tri_sqlite_db *db = &store->reader.db;
    uint64_t last;

    store->reader.stamp = tri_versions_stamp(&store->versions);
    int code = tri_sqlite_db_run(db, TRI_SQL_BEGIN_READ);

    if (code == SQLITE_OK) {
        code = tri_sqlite_journal_sync(db, &store->journal, folded, &last);
    }
    if (code == SQLITE_OK) {
        tri_journal_prune(&store->journal, *folded);
    }
    return code;
}

static const tri_sqlite_fault in_doubt = {
    .err = TR_ESTORAGE,
    .fault = TRI_STORE_FAULT_UNAVAILABLE,
    .text = "whether an earlier write was done is open until the disk takes "
            "writes again",
};

/*
 * Sets the answers of all ops. Returns false if the connection cannot be used
 * any more.
 */
static bool read_all(tri_sqlite_store *store, tri_list *batch)
{
    tri_sqlite_db *db = &store->reader.db;
    tri_sqlite_fault why;
    uint64_t folded = 0;
    bool ok = true;
    int code = begin(store, &folded);

    if (code != SQLITE_OK) {
        tri_sqlite_db_explain(db, code, &why);
        fail_all(batch, &why);
        return false;
    }
    if (tri_sqlite_is_in_doubt(store)) {
        fail_all(batch, &in_doubt);
        return false;
    }
    TRI_LIST_EACH (link, batch) {
        tri_store_op *op = tri_container_of(link, tri_store_op, link);
        code = read_one(store, op, folded);
        if (code != SQLITE_OK) {
            tri_sqlite_db_explain(db, code, &why);
            tri_sqlite_fault_fail(&why, op);
            ok = false;
        }
    }
    return tri_sqlite_db_run(db, TRI_SQL_COMMIT) == SQLITE_OK && ok;
}

/* Answers a batch. With an empty batch it only prunes the index. */
static void read_batch(tri_sqlite_store *store, tri_list *batch)
{
    tri_sqlite_db *db = &store->reader.db;
    tri_sqlite_fault why;
    tri_link *link;

    if (db->handle == NULL &&
        tri_sqlite_db_open(db, &store->file, false, &why) != TR_OK) {
        fail_all(batch, &why);
    } else if (!read_all(store, batch)) {
        tri_sqlite_db_close(db);
    }
    while ((link = tri_list_pop_front(batch)) != NULL) {
        tri_store_done(tri_container_of(link, tri_store_op, link));
    }
}

void tri_sqlite_read_loop(void *arg)
{
    tri_sqlite_store *store = arg;
    tri_inbox *inbox = &store->reader.inbox;
    tri_list batch;

    tri_list_init(&batch);
    for (;;) {
        uint32_t count =
            tri_inbox_take(inbox, &batch, store->limits.batch, TR_FOREVER);
        if (count == 0 && tri_inbox_is_closed(inbox)) {
            break;
        }
        read_batch(store, &batch);
    }
    tri_sqlite_db_close(&store->reader.db);
}
