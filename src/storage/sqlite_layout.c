/*
 * sqlite_layout.c - makes, upgrades and inspects the tables of a file.
 *
 * The barrier commit. A commit that failed has left its frames in the log, and
 * so has a process that was killed between write and sync. After the next
 * crash SQLite may find these frames, and before it a reader may see what a
 * crash can still take away. So a connection that is opened for writing first
 * commits a change of its own: its frame replaces the first frame of the
 * failed commit, and its sync covers all frames before it. The commit must change a
 * page, so it increments a counter (the column mark.settled); SQLite does not
 * write a page for a value that is set to itself.
 */
#include "storage/sqlite_layout.h"

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/check.h"
#include "storage/sqlite_fault.h"
#include "storage/sqlite_sum.h"
#include "storage/store_op.h"
#include "troupe/base.h"

#define LAYOUT 4

#define NUMBER_SIZE 24

static const char schema[] =
    "CREATE TABLE mark (id INTEGER PRIMARY KEY CHECK (id = 1),"
    " folded INTEGER NOT NULL, settled INTEGER NOT NULL DEFAULT 0);"
    "INSERT INTO mark VALUES (1, 0, 0);"
    // In the order in which saves came. bytes is NULL for a delete.
    "CREATE TABLE journal (id INTEGER PRIMARY KEY, key TEXT NOT NULL,"
    " version INTEGER NOT NULL, bytes BLOB, sum INTEGER NOT NULL);"
    "CREATE TABLE state (key TEXT PRIMARY KEY, version INTEGER NOT NULL,"
    " bytes BLOB NOT NULL, sum INTEGER NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE fence (shard INTEGER PRIMARY KEY, epoch INTEGER NOT NULL);"
    // upto is the number of the last event of the same append. prev is the
    // chain sum of the event before, 0 for the first event, and NULL for an
    // event that was written by an older layout.
    "CREATE TABLE event (key TEXT NOT NULL, number INTEGER NOT NULL,"
    " bytes BLOB NOT NULL, sum INTEGER NOT NULL, upto INTEGER, prev INTEGER,"
    " PRIMARY KEY (key, number)) WITHOUT ROWID;"
    "CREATE TABLE reminder (key TEXT NOT NULL, name TEXT NOT NULL,"
    " shard INTEGER NOT NULL, due INTEGER NOT NULL, bytes BLOB NOT NULL,"
    " sum INTEGER NOT NULL,"
    " PRIMARY KEY (key, name)) WITHOUT ROWID;"
    "CREATE INDEX reminder_due ON reminder (shard, due, key, name);";

/*
 * Upgrades from an older layout. Events of layout 2 have the sums of states,
 * so a page of one table that took the place of a page of the other would go
 * unnoticed. Layout 3 left these events as they were. The upgrade gives them
 * sums of events, each as an append of one event.
 */
#define FROM_3                                                                 \
    "ALTER TABLE event ADD COLUMN prev INTEGER;"                               \
    "UPDATE event SET sum = troupe_sum(key, number, bytes, sum),"              \
    " upto = number WHERE upto IS NULL;"
#define FROM_2                                                                 \
    "ALTER TABLE mark ADD COLUMN settled INTEGER NOT NULL DEFAULT 0;"          \
    "ALTER TABLE event ADD COLUMN upto INTEGER;" FROM_3

static const char *const upgrades[LAYOUT] = {[2] = FROM_2, [3] = FROM_3};

const tri_sqlite_layout tri_sqlite_store_layout = {
    .application_id = 0x54525053,  // "TRPS"
    .newest = LAYOUT,
    .oldest = 2,
    .schema = schema,
    .upgrades = upgrades,
};

/* ---- inspecting ---- */

/* Reads one number with a statement of its own. Returns an SQLite code. */
static int read_number(tri_sqlite_db *db, const char *sql, uint64_t *out)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(db->handle, sql, -1, &statement, NULL);

    *out = 0;
    if (code == SQLITE_OK) {
        code = tri_sqlite_number(statement, out);
    }
    sqlite3_finalize(statement);
    return code;
}

static void refuse(tri_sqlite_fault *why, const tri_sqlite_layout *ours,
                   uint64_t application, uint64_t layout)
{
    why->err = TR_ESTORAGE;
    why->fault = TRI_STORE_FAULT_OPERATION_FAILED;
    if (application != ours->application_id) {
        (void)snprintf(why->text, sizeof(why->text),
                       "the file belongs to another program; choose another "
                       "name");
    } else {
        (void)snprintf(why->text, sizeof(why->text),
                       "the file has layout %llu and this Troupe knows %u to "
                       "%u; use %s",
                       (unsigned long long)layout, ours->oldest, ours->newest,
                       layout > ours->newest
                           ? "the Troupe that wrote it, or a newer one"
                           : "the Troupe that wrote it, or begin a new file");
    }
}

/*
 * Finds out what the file needs to have our layout: *sql is the SQL to run, or
 * NULL if nothing is needed. If the file is refused, sets *why and returns
 * SQLITE_OK.
 */
static int inspect(tri_sqlite_db *db, const char **sql, tri_sqlite_fault *why)
{
    const tri_sqlite_layout *ours = db->file->layout;
    uint64_t application = 0, layout = 0, tables = 0;
    int code = read_number(db, "PRAGMA application_id", &application);

    *sql = NULL;
    if (code == SQLITE_OK) {
        code = read_number(db, "PRAGMA user_version", &layout);
    }
    if (code == SQLITE_OK) {
        code = read_number(db, "SELECT count(*) FROM sqlite_schema", &tables);
    }
    if (code != SQLITE_OK) {
        return code;
    }
    if (tables == 0 && application == 0 && layout == 0) {
        *sql = ours->schema;
    } else if (application != ours->application_id || layout > ours->newest ||
               layout < ours->oldest) {
        refuse(why, ours, application, layout);
    } else if (layout < ours->newest) {
        *sql = ours->upgrades[layout];
    }
    return SQLITE_OK;
}

int tri_sqlite_layout_check(tri_sqlite_db *db, tri_sqlite_fault *why)
{
    const char *sql = NULL;

    TRI_CHECK(db->handle != NULL);
    // One snapshot, because another process may be making the tables.
    int code = tri_sqlite_db_exec(db, "BEGIN");
    if (code == SQLITE_OK) {
        code = inspect(db, &sql, why);
    }
    return code == SQLITE_OK ? tri_sqlite_db_exec(db, "COMMIT") : code;
}

/* ---- making ---- */

/*
 * The SQL function troupe_sum(key, number, bytes, sum): returns the event sum
 * for an event of layout 2. If the old sum is wrong, the row is damaged, and
 * the result is -1, which no row fits: the damage stays visible.
 */
static void troupe_sum(sqlite3_context *context, int count,
                       sqlite3_value **values)
{
    tri_store_bytes key = {sqlite3_value_text(values[0]), 0};
    uint64_t number = (uint64_t)sqlite3_value_int64(values[1]);
    tri_store_bytes bytes = {sqlite3_value_blob(values[2]), 0};
    uint64_t sum = (uint64_t)sqlite3_value_int64(values[3]);

    TRI_CHECK(count == 4);
    key.size = (size_t)sqlite3_value_bytes(values[0]);
    bytes.size = (size_t)sqlite3_value_bytes(values[2]);
    bool fits = sum == tri_sqlite_sum(key, number, bytes);
    uint64_t ours = tri_sqlite_event_sum(key, number, number, bytes);
    sqlite3_result_int64(context, fits ? (sqlite3_int64)ours : -1);
}

/* Runs the SQL that makes or upgrades the tables, and marks the file. */
static int make_tables(tri_sqlite_db *db, const char *sql)
{
    char marks[sizeof("PRAGMA application_id=;PRAGMA user_version=;") +
               2 * NUMBER_SIZE];

    (void)snprintf(marks, sizeof(marks),
                   "PRAGMA application_id=%u;PRAGMA user_version=%u;",
                   db->file->layout->application_id, db->file->layout->newest);
    int code = sqlite3_create_function_v2(db->handle, "troupe_sum", 4,
                                          SQLITE_UTF8 | SQLITE_DETERMINISTIC,
                                          NULL, troupe_sum, NULL, NULL, NULL);
    if (code == SQLITE_OK) {
        code = tri_sqlite_db_exec(db, sql);
    }
    return code == SQLITE_OK ? tri_sqlite_db_exec(db, marks) : code;
}

int tri_sqlite_layout_make(tri_sqlite_db *db, tri_sqlite_fault *why)
{
    const char *sql = NULL;

    TRI_CHECK(db->handle != NULL);
    // IMMEDIATE takes the writer's lock: only one process makes the tables.
    int code = tri_sqlite_db_exec(db, "BEGIN IMMEDIATE");
    if (code != SQLITE_OK) {
        return code;
    }
    code = inspect(db, &sql, why);
    if (code == SQLITE_OK && sql != NULL) {
        code = make_tables(db, sql);
    }
    if (code == SQLITE_OK && why->err == TR_OK) {
        code = tri_sqlite_db_run(db, TRI_SQL_BARRIER);
    }
    return code == SQLITE_OK ? tri_sqlite_db_exec(db, "COMMIT") : code;
}
