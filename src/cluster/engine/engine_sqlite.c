/*
 * engine_sqlite.c - an engine in an SQLite file that the processes of one
 * machine share.
 *
 * Every operation is one transaction of the engine's only connection. A CAS
 * takes the writer's lock before it compares (BEGIN IMMEDIATE), so nothing
 * changes between the comparison and the write. The log is synced before
 * others see a commit (synchronous=FULL), and a connection first writes the
 * barrier commit of sqlite_layout.c: what an answer shows is on the disk.
 *
 * Processes that wait for the writer's lock sleep for 50 to 200 us each time
 * (sqlite_db.c), so all of them have the same chance. An operation that has
 * waited for BUSY_LIMIT is given up and answered "unknown".
 *
 * A commit that failed leaves its pages in the log, and a later recovery may
 * find them: then the commit happens after its answer "unknown", as the
 * contract allows. To keep that from happening long after, a connection that
 * has failed is closed, and its successor writes the barrier.
 */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "cluster/engine/engine.h"
#include "storage/sqlite_db.h"
#include "storage/sqlite_fault.h"
#include "storage/store_op.h"
#include "storage/vfs_sqlite.h"

#define BUSY_LIMIT       TR_SECONDS(2)
#define CHECKPOINT_EVERY 256  // commits of this process; some 4 MiB of log

typedef struct sqlite_engine {
    tr_engine base;
    tri_sqlite_file file;
    tri_sqlite_db db;  // closed after a failure, until the next operation
    uint32_t commits;  // since the last checkpoint
} sqlite_engine;

static const tri_sqlite_layout layout = {
    .application_id = 0x54525045,  // "TRPE"
    .newest = 1,
    .oldest = 1,
    .schema =
        "CREATE TABLE mark (id INTEGER PRIMARY KEY CHECK (id = 1),"
        " revision INTEGER NOT NULL, removed INTEGER NOT NULL,"
        " settled INTEGER NOT NULL);"
        "INSERT INTO mark VALUES (1, 0, 0, 0);"
        "CREATE TABLE entry (key TEXT PRIMARY KEY, revision INTEGER NOT NULL,"
        " value BLOB NOT NULL) WITHOUT ROWID;"
        "CREATE INDEX entry_revision ON entry (revision);",
};

static sqlite_engine *sqlite_of(tr_engine *engine)
{
    return tri_container_of(engine, sqlite_engine, base);
}

/* ---- statements; all return an SQLite code ---- */

static tri_store_bytes bytes_of(const char *text)
{
    return (tri_store_bytes){text, strlen(text)};
}

/* Sets *out to the statement, or returns the error of preparing it. */
static int prepare(sqlite_engine *it, tri_sql which, sqlite3_stmt **out)
{
    *out = tri_sqlite_db_prepare(&it->db, which);
    return *out != NULL ? SQLITE_OK : sqlite3_extended_errcode(it->db.handle);
}

/* Steps a statement that returns no row. */
static int finish(sqlite3_stmt *statement)
{
    int code = tri_sqlite_step(statement);

    return code == SQLITE_DONE ? SQLITE_OK : code;
}

static int read_revisions(sqlite_engine *it, uint64_t *revision,
                          uint64_t *removed)
{
    sqlite3_stmt *statement;
    int code = prepare(it, TRI_SQL_REVISIONS, &statement);

    if (code != SQLITE_OK) {
        return code;
    }
    code = sqlite3_step(statement);
    if (code == SQLITE_ROW) {
        *revision = (uint64_t)sqlite3_column_int64(statement, 0);
        *removed = (uint64_t)sqlite3_column_int64(statement, 1);
    } else if (code == SQLITE_DONE) {
        code = SQLITE_CORRUPT;  // the row is made with the table
    }
    return tri_sqlite_end(statement, code);
}

/* ---- reading ---- */

/*
 * Prepares the statement that finds all rows with a prefix. Keys are UTF-8, in
 * which no byte is 0xff. `end` must stay until the statement is reset.
 */
static int prepare_range(sqlite_engine *it, const char *prefix, uint64_t after,
                         char end[TRI_ENGINE_KEY_MAX + 2], sqlite3_stmt **out)
{
    tri_sql which = after == 0 ? TRI_SQL_ENTRY_RANGE : TRI_SQL_ENTRY_NEWER;
    int code = prepare(it, which, out);

    if (code != SQLITE_OK) {
        return code;
    }
    (void)snprintf(end, TRI_ENGINE_KEY_MAX + 2, "%s\xff", prefix);
    tri_sqlite_bind_text(*out, 1, bytes_of(prefix));
    tri_sqlite_bind_text(*out, 2, bytes_of(end));
    if (after > 0) {
        tri_sqlite_bind(*out, 3, after);
    }
    return SQLITE_OK;
}

static int add_rows(sqlite3_stmt *statement, tri_engine_op *op)
{
    int code;

    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        const char *key = (const char *)sqlite3_column_text(statement, 0);
        tri_store_bytes value = tri_sqlite_column(statement, 2);
        if (key == NULL) {
            code = SQLITE_NOMEM;
            break;
        }
        if (!tri_engine_add_row(op, key,
                                (uint64_t)sqlite3_column_int64(statement, 1),
                                value.at, value.size)) {
            break;
        }
    }
    return tri_sqlite_end(statement, code);
}

static int read_in_transaction(sqlite_engine *it, tri_engine_op *op)
{
    char end[TRI_ENGINE_KEY_MAX + 2];
    sqlite3_stmt *statement;
    uint64_t removed;
    int code = read_revisions(it, &op->revision, &removed);

    if (code != SQLITE_OK) {
        return code;
    }
    if (op->call == TRI_ENGINE_GET) {
        code = prepare(it, TRI_SQL_ENTRY_GET, &statement);
        if (code == SQLITE_OK) {
            tri_sqlite_bind_text(statement, 1, bytes_of(op->key));
        }
    } else {
        code = prepare_range(it, op->key, op->after, end, &statement);
    }
    return code == SQLITE_OK ? add_rows(statement, op) : code;
}

static int read_rows(sqlite_engine *it, tri_engine_op *op)
{
    int code = tri_sqlite_db_run(&it->db, TRI_SQL_BEGIN_READ);

    if (code == SQLITE_OK) {
        op->answer = TRI_ENGINE_YES;
        code = read_in_transaction(it, op);
    }
    return code == SQLITE_OK ? tri_sqlite_db_run(&it->db, TRI_SQL_COMMIT)
                             : code;
}

/* ---- writing ---- */

/* Sets *out to the revision of a key, 0 if there is no such key. */
static int revision_of(sqlite_engine *it, const char *key, uint64_t *out)
{
    sqlite3_stmt *statement;
    int code = prepare(it, TRI_SQL_ENTRY_GET, &statement);

    *out = 0;
    if (code != SQLITE_OK) {
        return code;
    }
    tri_sqlite_bind_text(statement, 1, bytes_of(key));
    code = sqlite3_step(statement);
    if (code == SQLITE_ROW) {
        *out = (uint64_t)sqlite3_column_int64(statement, 1);
    }
    return tri_sqlite_end(statement, code);
}

/* Answers no if a key does not have the revision that its change expects. */
static int compare(sqlite_engine *it, tri_engine_op *op)
{
    op->answer = TRI_ENGINE_YES;
    for (uint32_t i = 0; i < op->change_count; i++) {
        uint64_t has;
        int code = revision_of(it, op->changes[i].key, &has);
        if (code != SQLITE_OK) {
            return code;
        }
        if (has != op->changes[i].expected) {
            op->answer = TRI_ENGINE_NO;
            return SQLITE_OK;
        }
    }
    return SQLITE_OK;
}

static int write_change(sqlite_engine *it, const tri_engine_change *change,
                        uint64_t revision)
{
    bool deletes = change->value == NULL;
    sqlite3_stmt *statement;
    int code = prepare(it, deletes ? TRI_SQL_ENTRY_DELETE : TRI_SQL_ENTRY_PUT,
                       &statement);

    if (code != SQLITE_OK) {
        return code;
    }
    tri_sqlite_bind_text(statement, 1, bytes_of(change->key));
    if (!deletes) {
        tri_sqlite_bind(statement, 2, revision);
        tri_sqlite_bind_bytes(statement, 3, change->value, change->size);
    }
    return finish(statement);
}

/* Writes all changes under the next revision. */
static int write_changes(sqlite_engine *it, tri_engine_op *op)
{
    uint64_t revision, removed;
    sqlite3_stmt *statement;
    int code = read_revisions(it, &revision, &removed);

    revision++;
    for (uint32_t i = 0; i < op->change_count && code == SQLITE_OK; i++) {
        code = write_change(it, &op->changes[i], revision);
        if (op->changes[i].value == NULL) {
            removed = revision;
        }
    }
    if (code == SQLITE_OK) {
        code = prepare(it, TRI_SQL_SET_REVISIONS, &statement);
    }
    if (code != SQLITE_OK) {
        return code;
    }
    tri_sqlite_bind(statement, 1, revision);
    tri_sqlite_bind(statement, 2, removed);
    op->revision = revision;
    return finish(statement);
}

static int commit(sqlite_engine *it, tri_engine_op *op)
{
    int code = tri_sqlite_db_run(&it->db, TRI_SQL_BEGIN_WRITE);

    if (code == SQLITE_OK) {
        code = compare(it, op);
    }
    if (code == SQLITE_OK && op->answer == TRI_ENGINE_NO) {
        return tri_sqlite_db_run(&it->db, TRI_SQL_ROLLBACK);
    }
    if (code == SQLITE_OK) {
        code = write_changes(it, op);
    }
    return code == SQLITE_OK ? tri_sqlite_db_run(&it->db, TRI_SQL_COMMIT)
                             : code;
}

/* ---- operations ---- */

/* Makes the answer unknown; only a lock of others leaves the connection. */
static void give_up(sqlite_engine *it, tri_engine_op *op, int code)
{
    tri_sqlite_fault why;

    tri_sqlite_db_explain(&it->db, code, &why);
    tri_engine_fail(op, why.err, "%s: %s", it->file.path, why.text);
    if ((code & 0xff) != SQLITE_BUSY ||
        (!sqlite3_get_autocommit(it->db.handle) &&
         tri_sqlite_db_run(&it->db, TRI_SQL_ROLLBACK) != SQLITE_OK)) {
        tri_sqlite_db_close(&it->db);
    }
}

/* Copies the log into the file now and then; a failure waits for the next. */
static void checkpoint(sqlite_engine *it)
{
    if (it->commits >= CHECKPOINT_EVERY) {
        it->commits = 0;
        (void)sqlite3_wal_checkpoint_v2(it->db.handle, "main",
                                        SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    }
}

static void sqlite_execute(tr_engine *engine, tri_engine_op *op)
{
    sqlite_engine *it = sqlite_of(engine);
    tri_sqlite_fault why;

    if (it->db.handle == NULL &&
        tri_sqlite_db_open(&it->db, &it->file, true, &why) != TR_OK) {
        tri_engine_fail(op, why.err, "%s: %s", it->file.path, why.text);
        return;
    }
    int code = op->call == TRI_ENGINE_CAS ? commit(it, op) : read_rows(it, op);
    if (code != SQLITE_OK) {
        give_up(it, op, code);
    } else if (op->answer == TRI_ENGINE_YES && op->call == TRI_ENGINE_CAS) {
        it->commits++;
        checkpoint(it);
    }
}

/* Finds out whether a row with the prefix is newer than that revision. */
static int is_newer(sqlite_engine *it, const char *prefix, uint64_t after,
                    bool *out)
{
    char end[TRI_ENGINE_KEY_MAX + 2];
    sqlite3_stmt *statement;
    int code = prepare_range(it, prefix, after, end, &statement);

    if (code != SQLITE_OK) {
        return code;
    }
    code = sqlite3_step(statement);
    *out = code == SQLITE_ROW;
    return tri_sqlite_end(statement, code);
}

static bool sqlite_changed(tr_engine *engine, const char *prefix,
                           uint64_t after, uint64_t *now)
{
    sqlite_engine *it = sqlite_of(engine);
    uint64_t removed = 0;
    bool is = false;

    // After a failure the next operation opens the file; hints may be missing.
    if (it->db.handle == NULL ||
        read_revisions(it, now, &removed) != SQLITE_OK || *now <= after) {
        return false;
    }
    return removed > after ||
           (is_newer(it, prefix, after, &is) == SQLITE_OK && is);
}

/* ---- opening and closing ---- */

static void sqlite_free(tr_engine *engine)
{
    sqlite_engine *it = sqlite_of(engine);

    tri_sqlite_db_close(&it->db);
    tri_sqlite_vfs_close(it->file.vfs);
    free(it->file.path);
    free(it);
}

/* Makes the engine and opens its file. On failure *out is NULL. */
static tr_err engine_new(sqlite_engine **out, tri_world *world,
                         const char *file, tri_sqlite_fault *why)
{
    static const tri_engine_ops ops = {
        .name = "sqlite",
        .execute = sqlite_execute,
        .changed = sqlite_changed,
        .free = sqlite_free,
    };
    sqlite_engine *it = calloc(1, sizeof(*it));

    *out = NULL;
    if (it == NULL) {
        return TR_ENOMEM;
    }
    tri_engine_init(&it->base, &ops, world);
    it->file = (tri_sqlite_file){.layout = &layout,
                                 .world = world,
                                 .path = strdup(file),
                                 .busy_limit = BUSY_LIMIT};
    tr_err err = it->file.path != NULL
                     ? tri_sqlite_vfs_open(&it->file.vfs, world)
                     : TR_ENOMEM;
    if (err == TR_OK) {
        err = tri_sqlite_db_open(&it->db, &it->file, true, why);
    }
    if (err != TR_OK) {
        sqlite_free(&it->base);
        return err;
    }
    *out = it;
    return TR_OK;
}

tr_err tr_engine_sqlite(tr_engine **out, const char *file,
                        const tr_engine_options *options)
{
    tr_engine_options own;
    sqlite_engine *it;
    tri_sqlite_fault why = {0};

    TRI_CHECK(out != NULL);
    TRI_CHECK(file != NULL);
    *out = NULL;
    tri_world *world = tri_engine_options(&own, options);
    if (world == NULL) {
        return TR_EINVAL;
    }
    tr_err err = engine_new(&it, world, file, &why);
    return tri_engine_open(out, it != NULL ? &it->base : NULL, &own, world, err,
                           file, why.text);
}
