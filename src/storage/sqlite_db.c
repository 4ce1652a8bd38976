/*
 * sqlite_db.c - opening a connection, preparing statements, binding values.
 *
 * The file has a write-ahead log. `synchronous=FULL`: a commit is on the disk
 * when it returns. Checkpoints run only when the store asks for them.
 *
 * Waiting for other processes. SQLite's own busy handler sleeps longer and
 * longer, so a process that has waited for long loses against one that has
 * just begun to wait; one of four processes got all locks. Our busy handler
 * sleeps for a random 50 to 200 microseconds each time, so that all processes
 * have the same chance.
 */
#include "storage/sqlite_db.h"

#include <string.h>

#include "base/check.h"
#include "storage/sqlite_layout.h"

#define SLEEP_MIN    INT64_C(50000)
#define SLEEP_SPREAD UINT64_C(150000)
#define CACHE_KIB    "32768"  // holds a journal at twice its limit

static const char *const sql_texts[] = {
#define TRI_X(name, text) [TRI_SQL_##name] = (text),
    TRI_SQL_TABLE(TRI_X)
#undef TRI_X
};

void tri_sqlite_sleep(tri_world *world, tr_nanos span)
{
    _Atomic(uint32_t) never = 0;  // no thread changes it: only the time ends it

    (void)world->ops->park(world, &never, 0, span);
}

void tri_sqlite_db_explain(tri_sqlite_db *db, int code, tri_sqlite_fault *why)
{
    TRI_CHECK(db->handle != NULL);
    int own = sqlite3_extended_errcode(db->handle);

    if (own == SQLITE_OK || own == SQLITE_ROW || own == SQLITE_DONE) {
        // The code is ours, for example SQLITE_CORRUPT for a wrong sum.
        tri_sqlite_fault_set(why, db, code, sqlite3_errstr(code));
    } else {
        tri_sqlite_fault_set(why, db, own, sqlite3_errmsg(db->handle));
    }
}

/* ---- statements ---- */

sqlite3_stmt *tri_sqlite_db_prepare(tri_sqlite_db *db, tri_sql which)
{
    TRI_CHECK((size_t)which < TRI_COUNT_OF(db->statements));
    TRI_CHECK(db->handle != NULL);
    sqlite3_stmt **statement = &db->statements[which];
    if (*statement == NULL) {
        (void)sqlite3_prepare_v3(db->handle, sql_texts[which], -1,
                                 SQLITE_PREPARE_PERSISTENT, statement, NULL);
    }
    return *statement;
}

int tri_sqlite_step(sqlite3_stmt *statement)
{
    TRI_CHECK(statement != NULL);
    int code = sqlite3_step(statement);
    int reset = sqlite3_reset(statement);

    if (code != SQLITE_ROW && code != SQLITE_DONE) {
        return code;
    }
    return reset == SQLITE_OK ? code : reset;
}

int tri_sqlite_db_run(tri_sqlite_db *db, tri_sql which)
{
    sqlite3_stmt *statement = tri_sqlite_db_prepare(db, which);

    if (statement == NULL) {
        return sqlite3_extended_errcode(db->handle);
    }
    int code = tri_sqlite_step(statement);
    return code == SQLITE_DONE || code == SQLITE_ROW ? SQLITE_OK : code;
}

int tri_sqlite_number(sqlite3_stmt *statement, uint64_t *out)
{
    TRI_CHECK(statement != NULL);
    int code = sqlite3_step(statement);

    if (code == SQLITE_ROW &&
        sqlite3_column_type(statement, 0) != SQLITE_NULL) {
        if (sqlite3_column_int64(statement, 0) < 0) {
            code = SQLITE_CORRUPT;  // no number that we write is negative
        } else {
            *out = (uint64_t)sqlite3_column_int64(statement, 0);
        }
    }
    return tri_sqlite_end(statement, code);
}

int tri_sqlite_end(sqlite3_stmt *statement, int code)
{
    int reset = sqlite3_reset(statement);

    return code == SQLITE_ROW || code == SQLITE_DONE ? reset : code;
}

bool tri_sqlite_add_row(tri_store_op *op, const tri_store_row *row,
                        uint32_t *left)
{
    if (*left == 0) {
        op->more = true;
        return false;
    }
    (*left)--;
    return tri_store_add_row(op, row);
}

/*
 * The checks of the bind functions hold: binding fails only for a column that
 * the statement does not have, or for more than a gigabyte.
 */
void tri_sqlite_bind(sqlite3_stmt *statement, int at, uint64_t number)
{
    TRI_CHECK(number <= TRI_STORE_NUMBER_MAX);
    TRI_CHECK(sqlite3_bind_int64(statement, at, (sqlite3_int64)number) ==
              SQLITE_OK);
}

void tri_sqlite_bind_text(sqlite3_stmt *statement, int at, tri_store_bytes text)
{
    // An empty text must not become NULL, with which nothing is equal.
    TRI_CHECK(sqlite3_bind_text(statement, at, text.size == 0 ? "" : text.at,
                                (int)text.size, SQLITE_STATIC) == SQLITE_OK);
}

void tri_sqlite_bind_bytes(sqlite3_stmt *statement, int at, const void *bytes,
                           size_t size)
{
    TRI_CHECK(sqlite3_bind_blob(statement, at, size == 0 ? "" : bytes,
                                (int)size, SQLITE_STATIC) == SQLITE_OK);
}

tri_store_bytes tri_sqlite_column(sqlite3_stmt *statement, int at)
{
    TRI_CHECK(at < sqlite3_column_count(statement));
    // In this order, as SQLite demands: column_blob may convert the value.
    const void *bytes = sqlite3_column_blob(statement, at);

    return (tri_store_bytes){bytes,
                             (size_t)sqlite3_column_bytes(statement, at)};
}

/* ---- opening ---- */

/* SQLite calls this while another connection has a lock; 0: give up. */
static int on_busy(void *arg, int count)
{
    tri_sqlite_db *db = arg;
    tri_world *world = db->file->world;
    tr_nanos now = world->ops->mono(world);

    if (count == 0) {
        db->busy_until = now + db->busy_limit;
    }
    if (now >= db->busy_until) {
        return 0;
    }
    uint64_t more = world->ops->random(world) % SLEEP_SPREAD;
    tri_sqlite_sleep(world, SLEEP_MIN + (tr_nanos)more);
    return 1;
}

int tri_sqlite_db_exec(tri_sqlite_db *db, const char *sql)
{
    TRI_CHECK(db->handle != NULL);
    return sqlite3_exec(db->handle, sql, NULL, NULL, NULL);
}

/* Retries itself: SQLite does not always call the busy handler for this. */
static int use_write_ahead_log(tri_sqlite_db *db)
{
    int code = tri_sqlite_db_exec(db, "PRAGMA journal_mode=WAL");

    for (int i = 0; (code & 0xff) == SQLITE_BUSY && on_busy(db, i); i++) {
        code = tri_sqlite_db_exec(db, "PRAGMA journal_mode=WAL");
    }
    return code;
}

static int configure(tri_sqlite_db *db)
{
    sqlite3_extended_result_codes(db->handle, 1);
    sqlite3_busy_handler(db->handle, on_busy, db);
    int code = use_write_ahead_log(db);
    if (code == SQLITE_OK) {
        code = tri_sqlite_db_exec(db, "PRAGMA synchronous=FULL;"
                                      "PRAGMA wal_autocheckpoint=0;"
                                      "PRAGMA temp_store=MEMORY;"
                                      "PRAGMA cache_size=-" CACHE_KIB);
    }
    return code;
}

/*
 * Opens a file for writing. A file of another program must not be changed, not
 * even to our kind of log, so the layout is checked first. It is checked again
 * under the writer's lock, because another process may have made the tables
 * in between.
 */
static int open_for_writing(tri_sqlite_db *db, tri_sqlite_fault *why)
{
    sqlite3_extended_result_codes(db->handle, 1);
    sqlite3_busy_handler(db->handle, on_busy, db);
    int code = tri_sqlite_layout_check(db, why);
    if (code == SQLITE_OK && why->err == TR_OK) {
        code = configure(db);
        if (code == SQLITE_OK) {
            code = tri_sqlite_layout_make(db, why);
        }
    }
    return code;
}

tr_err tri_sqlite_db_open(tri_sqlite_db *db, const tri_sqlite_file *file,
                          bool create, tri_sqlite_fault *why)
{
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX;

    TRI_CHECK(db->handle == NULL);
    TRI_CHECK(file->path != NULL);
    TRI_CHECK(file->vfs != NULL);
    memset(db, 0, sizeof(*db));
    memset(why, 0, sizeof(*why));
    db->file = file;
    db->busy_limit = file->busy_limit;
    int code = sqlite3_open_v2(file->path, &db->handle,
                               flags | (create ? SQLITE_OPEN_CREATE : 0),
                               tri_sqlite_vfs_name(file->vfs));
    if (code == SQLITE_OK) {
        code = create ? open_for_writing(db, why) : configure(db);
    }
    if (code != SQLITE_OK) {
        tri_sqlite_fault_set(why, db, code,
                             db->handle == NULL ? sqlite3_errstr(code)
                                                : sqlite3_errmsg(db->handle));
    }
    if (why->err != TR_OK) {
        tri_sqlite_db_close(db);
    }
    return why->err;
}

void tri_sqlite_db_close(tri_sqlite_db *db)
{
    for (size_t i = 0; i < TRI_COUNT_OF(db->statements); i++) {
        sqlite3_finalize(db->statements[i]);
        db->statements[i] = NULL;
    }
    TRI_CHECK(sqlite3_close(db->handle) == SQLITE_OK);
    db->handle = NULL;
}
