/*
 * sqlite_read.c - the reader and the checkpointer.
 *
 * The reader takes all loads that wait and answers them from one snapshot of
 * the file. First the index is brought up to that snapshot; then a key that
 * has rows in the journal is answered from memory, all others from the table
 * by key. That a key is never missed between the two is the rule of
 * sqlite_journal.h. A load that meets a newer state in memory than in its
 * snapshot gives that one: it is committed.
 *
 * The checkpointer moves the log's pages into the database while the writer
 * goes on. The log can begin anew only when nobody has added to it meanwhile,
 * so a busy writer would make it grow for ever: when it is too long, the
 * gate keeps the writer out for the last few pages.
 */
#include "base/check.h"
#include "storage/storage_sqlite.h"

/* How long writers may wait at the gate for readers of other processes. */
#define GATE_LIMIT TR_MS(200)

/* ---- one operation; each returns an SQLite code ---- */

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
        (void)tri_store_give(op, bytes.at, bytes.size, version);
        tri_versions_offer(&store->versions, store->reader.stamp, op->key,
                           version);
    } else if (code == SQLITE_DONE) {
        tri_versions_offer(&store->versions, store->reader.stamp, op->key, 0);
    }
    return tri_sqlite_end(statement, code);
}

static int list_reminders(tri_sqlite_store *store, tri_store_op *op)
{
    uint32_t left = tri_store_limit(op);
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

static int read_one(tri_sqlite_store *store, tri_store_op *op, uint64_t folded)
{
    switch (op->call) {
    case TR_STORE_LOAD:
        return load(store, op, folded);
    case TR_STORE_READ:
        return tri_sqlite_read_events(&store->reader.db, op);
    default:
        TRI_CHECK(op->call == TR_STORE_REMINDERS);
        return list_reminders(store, op);
    }
}

/* ---- a batch ---- */

static void fail(tri_store_op *op, const tri_sqlite_fault *why)
{
    tri_store_fail(op, why->err, why->fault, "%s", why->text);
}

/* Begins a snapshot and brings the index up to it. */
static int begin(tri_sqlite_store *store, uint64_t *folded)
{
    tri_sqlite_db *db = &store->reader.db;
    uint64_t last;

    store->reader.stamp = tri_versions_stamp(&store->versions);
    int code = tri_sqlite_db_run(db, TRI_SQL_BEGIN_READ);

    if (code == SQLITE_OK) {
        code = tri_sqlite_db_sync(db, &store->journal, folded, &last);
    }
    if (code == SQLITE_OK) {
        tri_journal_prune(&store->journal, *folded);
    }
    return code;
}

/* Sets the answers; false: the connection is not worth keeping. */
static bool read_all(tri_sqlite_store *store, tri_list *batch,
                     tri_sqlite_fault *why)
{
    tri_sqlite_db *db = &store->reader.db;
    uint64_t folded = 0;
    bool is_well = true;
    int code = begin(store, &folded);

    if (code != SQLITE_OK || tri_sqlite_is_unsettled(store)) {
        if (code != SQLITE_OK) {
            tri_sqlite_db_why(db, code, why);
        } else {
            *why = (tri_sqlite_fault){
                .err = TR_ESTORAGE,
                .fault = TRI_STORE_FAULT_UNAVAILABLE,
                .text = "whether an earlier write was done is open until the "
                        "disk takes writes again"};
        }
        TRI_LIST_EACH (link, batch) {
            fail(tri_container_of(link, tri_store_op, link), why);
        }
        return false;
    }
    TRI_LIST_EACH (link, batch) {
        tri_store_op *op = tri_container_of(link, tri_store_op, link);
        code = read_one(store, op, folded);
        if (code != SQLITE_OK) {
            tri_sqlite_db_why(db, code, why);
            fail(op, why);
            is_well = false;
        }
    }
    return tri_sqlite_db_run(db, TRI_SQL_COMMIT) == SQLITE_OK && is_well;
}

static void read_batch(tri_sqlite_store *store, tri_list *batch)
{
    tri_sqlite_db *db = &store->reader.db;
    tri_sqlite_fault why;
    tri_link *link;

    if (db->handle == NULL &&
        tri_sqlite_db_open(db, &store->file, false, &why) != TR_OK) {
        TRI_LIST_EACH (failed, batch) {
            fail(tri_container_of(failed, tri_store_op, link), &why);
        }
    } else if (!read_all(store, batch, &why)) {
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
        read_batch(store, &batch);  // an empty one only prunes
    }
    tri_sqlite_db_close(&store->reader.db);
}

/* ---- checkpoints ---- */

static void set_gate(tri_sqlite_store *store, uint32_t value)
{
    tri_world *world = store->file.world;

    // Release: pairs with wait_for_gate of the writer.
    atomic_store_explicit(&store->gate, value, memory_order_release);
    if (value == 0) {
        world->ops->wake(world, &store->gate, 1);
    }
}

static int checkpoint(tri_sqlite_store *store)
{
    sqlite3 *handle = store->checkpointer.db.handle;
    int pages = 0;
    int code = sqlite3_wal_checkpoint_v2(
        handle, "main", SQLITE_CHECKPOINT_PASSIVE, &pages, NULL);

    if (code != SQLITE_OK || pages < (int)store->limits.log_pages) {
        return code;
    }
    store->checkpointer.db.busy_limit = GATE_LIMIT;
    set_gate(store, 1);
    code = sqlite3_wal_checkpoint_v2(handle, "main", SQLITE_CHECKPOINT_RESTART,
                                     NULL, NULL);
    set_gate(store, 0);
    return code;
}

/* A failure harms nobody: the log stays as it is until the next time. */
static void checkpoint_once(tri_sqlite_store *store)
{
    tri_sqlite_db *db = &store->checkpointer.db;
    tri_sqlite_fault why;

    if (db->handle == NULL &&
        tri_sqlite_db_open(db, &store->file, false, &why) != TR_OK) {
        return;
    }
    int code = checkpoint(store);
    if (code != SQLITE_OK && (code & 0xff) != SQLITE_BUSY) {
        tri_sqlite_db_close(db);
    }
}

void tri_sqlite_checkpoint_loop(void *arg)
{
    tri_sqlite_store *store = arg;
    tri_inbox *inbox = &store->checkpointer.inbox;
    tri_list none;

    tri_list_init(&none);
    for (;;) {
        (void)tri_inbox_take(inbox, &none, 1, TR_FOREVER);
        if (tri_inbox_is_closed(inbox)) {
            break;
        }
        checkpoint_once(store);
    }
    tri_sqlite_db_close(&store->checkpointer.db);
}
