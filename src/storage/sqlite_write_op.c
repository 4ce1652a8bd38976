/*
 * sqlite_write_op.c - one write: its checks, its rows, its fence.
 *
 * States are added to the journal; their entries in the index are claimed and
 * staged (sqlite_journal.h), and sqlite_write.c puts them after the commit.
 * Events, reminders and fences go to their tables.
 *
 * Each static function that returns int returns an SQLite code.
 */
#include "storage/sqlite_write_op.h"

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "base/map.h"
#include "storage/sqlite_db.h"
#include "storage/sqlite_events.h"
#include "storage/sqlite_journal.h"
#include "storage/sqlite_sum.h"
#include "storage/sqlite_versions.h"
#include "storage/sqlite_write.h"
#include "storage/storage_sqlite.h"
#include "storage/store_op.h"
#include "troupe/base.h"
#include "troupe/storage.h"

/* Keeps the epoch of a fence in memory; without memory it is read again. */
static void cache_fence(tri_sqlite_writer *writer, uint64_t number,
                        uint64_t epoch)
{
    (void)tri_map_remove(&writer->fences, number);
    (void)!tri_map_put(&writer->fences, number, (void *)(uintptr_t)(epoch + 1));
}

/* Reads the epoch of a fence, from memory or from the file. */
static int fence_of(tri_sqlite_writer *writer, uint64_t number, uint64_t *fence)
{
    TRI_CHECK(fence != NULL);
    uint64_t cached = (uintptr_t)tri_map_get(&writer->fences, number);
    *fence = 0;
    if (cached > 0) {
        *fence = cached - 1;
        return SQLITE_OK;
    }
    sqlite3_stmt *statement =
        tri_sqlite_db_prepare(&writer->db, TRI_SQL_FENCE_GET);
    if (statement == NULL) {
        return SQLITE_ERROR;
    }
    tri_sqlite_bind(statement, 1, number);
    int code = tri_sqlite_number(statement, fence);
    if (code == SQLITE_OK) {
        cache_fence(writer, number, *fence);
    }
    return code;
}

static int raise_fence(tri_sqlite_writer *writer, uint64_t number,
                       uint64_t epoch)
{
    sqlite3_stmt *statement =
        tri_sqlite_db_prepare(&writer->db, TRI_SQL_FENCE_PUT);

    if (statement == NULL) {
        return SQLITE_ERROR;
    }
    tri_sqlite_bind(statement, 1, number);
    tri_sqlite_bind(statement, 2, epoch);
    cache_fence(writer, number, epoch);
    return tri_sqlite_step(statement);
}

/*
 * Finds the stored version of the op's key: from this transaction, from the
 * journal, or from the table `state`. *entry is the entry of the key in the
 * index of the journal, or NULL.
 */
static int version_of(tri_sqlite_store *store, const tri_store_op *op,
                      tri_journal_entry **entry, uint64_t *version)
{
    tri_sqlite_writer *writer = &store->writer;
    bool known;

    *entry = tri_journal_claim(&store->journal, op->key, writer->folded,
                               &writer->claims, &known, version);
    if (known || tri_versions_get(&store->versions, op->key, version)) {
        return SQLITE_OK;
    }
    sqlite3_stmt *statement =
        tri_sqlite_db_prepare(&writer->db, TRI_SQL_STATE_VERSION);
    if (statement == NULL) {
        return SQLITE_ERROR;
    }
    *version = 0;
    tri_sqlite_bind_text(statement, 1, op->key);
    int code = tri_sqlite_number(statement, version);
    if (code == SQLITE_OK) {
        tri_versions_put(&store->versions, op->key, *version);
    }
    return code;
}

/* Writes the row `writer->last` of the journal; version 0: a delete. */
static int add_row(tri_sqlite_writer *writer, const tri_store_op *op,
                   uint64_t key_hash, uint64_t version)
{
    sqlite3_stmt *statement =
        tri_sqlite_db_prepare(&writer->db, TRI_SQL_JOURNAL_ADD);

    if (statement == NULL) {
        return SQLITE_ERROR;
    }
    tri_sqlite_bind(statement, 1, writer->last);
    tri_sqlite_bind_text(statement, 2, op->key);
    tri_sqlite_bind(statement, 3, version);
    tri_store_bytes bytes = {NULL, 0};
    if (version == 0) {
        (void)sqlite3_bind_null(statement, 4);
    } else {
        bytes = op->bytes;
        tri_sqlite_bind_bytes(statement, 4, bytes.at, bytes.size);
    }
    tri_sqlite_bind(statement, 5,
                    tri_sqlite_sum_hashed(key_hash, version, bytes));
    return tri_sqlite_step(statement);
}

/* Adds a row to the journal and stages it; version 0: a delete. */
static int add_to_journal(tri_sqlite_store *store, tri_store_op *op,
                          tri_journal_entry *entry, uint64_t version)
{
    tri_sqlite_writer *writer = &store->writer;
    tri_store_bytes none = {NULL, 0};

    if (entry == NULL) {
        entry =
            tri_journal_claim_new(&store->journal, op->key, &writer->claims);
    }
    if (entry == NULL ||
        tri_journal_stage(entry, writer->last + 1, version,
                          version == 0 ? none : op->bytes) != TR_OK) {
        tri_store_fail_no_memory(op);
        return SQLITE_OK;
    }
    writer->last++;
    op->version = version;
    op->found = true;
    return add_row(writer, op, entry->hash, version);
}

static int save(tri_sqlite_store *store, tri_store_op *op)
{
    tri_journal_entry *entry;
    uint64_t stored;
    int code = version_of(store, op, &entry, &stored);

    if (code != SQLITE_OK || !tri_store_check_version(op, stored)) {
        return code;
    }
    return add_to_journal(store, op, entry, stored + 1);
}

/*
 * Checks both first. The row of the journal may fail without memory, and then
 * nothing has been removed; an SQLite error undoes all of it.
 */
static int delete_all(tri_sqlite_store *store, tri_store_op *op)
{
    tri_sqlite_db *db = &store->writer.db;
    tri_journal_entry *entry;
    uint64_t stored, last = 0;
    int code = version_of(store, op, &entry, &stored);

    if (code != SQLITE_OK || !tri_store_check_version(op, stored)) {
        return code;
    }
    code = tri_sqlite_last_event(db, op, &last);
    if (code != SQLITE_OK || op->err != TR_OK ||
        !tri_store_check_last(op, last)) {
        return code;
    }
    if (stored > 0) {
        code = add_to_journal(store, op, entry, 0);
    }
    if (last == 0 || op->err != TR_OK ||
        (code != SQLITE_OK && code != SQLITE_DONE)) {
        return code;
    }
    op->found = true;
    return tri_sqlite_clear_events(db, op->key);
}

static int remind(tri_sqlite_writer *writer, tri_store_op *op)
{
    sqlite3_stmt *statement = tri_sqlite_db_prepare(
        &writer->db, op->after == 0 ? TRI_SQL_REMIND : TRI_SQL_REMIND_IF);

    if (statement == NULL) {
        return SQLITE_ERROR;
    }
    tri_sqlite_bind_text(statement, 1, op->key);
    tri_sqlite_bind_text(statement, 2, op->name);
    tri_sqlite_bind(statement, 3, op->shard);
    tri_sqlite_bind(statement, 4, op->number);
    tri_sqlite_bind_bytes(statement, 5, op->bytes.at, op->bytes.size);
    tri_sqlite_bind(statement, 6,
                    tri_sqlite_sum(op->key, op->number, op->bytes));
    if (op->after != 0) {
        tri_sqlite_bind(statement, 7, op->after);
    }
    int code = tri_sqlite_step(statement);
    op->found = sqlite3_changes(writer->db.handle) > 0;
    return code;
}

static int forget(tri_sqlite_writer *writer, tri_store_op *op)
{
    sqlite3_stmt *statement =
        tri_sqlite_db_prepare(&writer->db, TRI_SQL_FORGET);

    if (statement == NULL) {
        return SQLITE_ERROR;
    }
    tri_sqlite_bind_text(statement, 1, op->key);
    tri_sqlite_bind_text(statement, 2, op->name);
    tri_sqlite_bind(statement, 3, op->after);
    int code = tri_sqlite_step(statement);
    op->found = sqlite3_changes(writer->db.handle) > 0;
    return code;
}

static int run_op(tri_sqlite_store *store, tri_store_op *op)
{
    tri_sqlite_writer *writer = &store->writer;

    switch (op->call) {
    case TR_STORE_SAVE:
        return save(store, op);
    case TR_STORE_DELETE:
        return delete_all(store, op);
    case TR_STORE_APPEND:
        return tri_sqlite_append(&writer->db, op);
    case TR_STORE_TRIM:
        return tri_sqlite_trim(&writer->db, op);
    case TR_STORE_REMIND:
        return remind(writer, op);
    case TR_STORE_FORGET:
        return forget(writer, op);
    default:
        TRI_CHECK(op->call == TR_STORE_FENCE);
        op->version = op->epoch;
        return SQLITE_OK;
    }
}

int tri_sqlite_write_op(tri_sqlite_store *store, tri_store_op *op)
{
    uint64_t fence;

    TRI_CHECK(op->err == TR_OK);
    TRI_CHECK(!tri_store_op_is_read(op));
    uint64_t number = tri_store_fence_of(op);
    int code = fence_of(&store->writer, number, &fence);

    if (code != SQLITE_OK || !tri_store_check_epoch(op, fence)) {
        return code;
    }
    code = run_op(store, op);
    if (code != SQLITE_OK && code != SQLITE_DONE) {
        return code;
    }
    if (op->err == TR_OK && op->epoch > fence) {
        code = raise_fence(&store->writer, number, op->epoch);
    }
    return code == SQLITE_DONE ? SQLITE_OK : code;
}
