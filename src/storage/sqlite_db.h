/*
 * sqlite_db.h - one connection to the file of a store or an engine, and its
 * statements.
 *
 * Functions that return int return an SQLite code.
 *
 * Threads: a connection is used by one thread at a time.
 */
#ifndef TRI_STORAGE_SQLITE_DB_H
#define TRI_STORAGE_SQLITE_DB_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/world.h"
#include "storage/sqlite_fault.h"
#include "storage/store_op.h"
#include "storage/vfs_sqlite.h"
#include "troupe/base.h"

/*
 * The keys from ?1 to before ?2, after ?3, at most ?4: those in the table of
 * states unless the journal has newer rows, those whose newest row in the
 * journal is not a delete, and those that have events.
 */
#define TRI_SQL_RANGE "key >= ?1 AND key < ?2 AND key > ?3"
#define TRI_SQL_SCAN_TEXT                                                      \
    "WITH j AS (SELECT key, max(id) AS id FROM journal"                        \
    " WHERE id > (SELECT folded FROM mark) AND " TRI_SQL_RANGE                 \
    " GROUP BY key)"                                                           \
    " SELECT key FROM (SELECT key FROM state WHERE " TRI_SQL_RANGE             \
    " AND key NOT IN (SELECT key FROM j) ORDER BY key LIMIT ?4)"               \
    " UNION SELECT r.key FROM j JOIN journal AS r ON r.id = j.id"              \
    " WHERE r.version > 0"                                                     \
    " UNION SELECT key FROM (SELECT DISTINCT key FROM event"                   \
    " WHERE " TRI_SQL_RANGE " ORDER BY key LIMIT ?4)"                          \
    " ORDER BY key LIMIT ?4"

/* All statements: name, text. Each is prepared when it is first used. */
#define TRI_SQL_TABLE(X)                                                       \
    X(BEGIN_READ, "BEGIN")                                                     \
    X(BEGIN_WRITE, "BEGIN IMMEDIATE")                                          \
    X(COMMIT, "COMMIT")                                                        \
    X(ROLLBACK, "ROLLBACK")                                                    \
    X(CHANGES, "PRAGMA data_version")                                          \
    X(MARKS, "SELECT folded, (SELECT max(id) FROM journal) FROM mark")         \
    X(SET_FOLDED, "UPDATE mark SET folded = ?1")                               \
    X(BARRIER, "UPDATE mark SET settled = settled + 1")                        \
    X(JOURNAL_ADD, "INSERT INTO journal VALUES (?1, ?2, ?3, ?4, ?5)")          \
    X(JOURNAL_AFTER, "SELECT id, key, version, bytes, sum FROM journal"        \
                     " WHERE id > ?1 ORDER BY id")                             \
    X(JOURNAL_FIRST, "SELECT min(id) FROM journal")                            \
    X(JOURNAL_TRIM, "DELETE FROM journal WHERE id <= ?1")                      \
    X(STATE_VERSION, "SELECT version FROM state WHERE key = ?1")               \
    X(STATE_GET, "SELECT version, bytes, sum FROM state WHERE key = ?1")       \
    X(STATE_PUT, "INSERT OR REPLACE INTO state VALUES (?1, ?2, ?3, ?4)")       \
    X(STATE_DELETE, "DELETE FROM state WHERE key = ?1")                        \
    X(FENCE_GET, "SELECT epoch FROM fence WHERE shard = ?1")                   \
    X(FENCE_PUT, "INSERT OR REPLACE INTO fence VALUES (?1, ?2)")               \
    X(EVENT_LAST, "SELECT number, upto, sum, prev FROM event WHERE key = ?1"   \
                  " ORDER BY number DESC LIMIT 1")                             \
    X(EVENT_ADD, "INSERT INTO event VALUES (?1, ?2, ?3, ?4, ?5, ?6)")          \
    X(EVENT_READ, "SELECT number, upto, sum, prev, bytes FROM event"           \
                  " WHERE key = ?1 AND number >= ?2 ORDER BY number LIMIT ?3") \
    X(EVENT_TRIM, "DELETE FROM event WHERE key = ?1 AND number <= ?2")         \
    X(EVENT_CLEAR, "DELETE FROM event WHERE key = ?1")                         \
    X(REMIND, "INSERT OR REPLACE INTO reminder"                                \
              " VALUES (?1, ?2, ?3, ?4, ?5, ?6)")                              \
    X(REMIND_IF, "UPDATE reminder SET shard = ?3, due = ?4, bytes = ?5,"       \
                 " sum = ?6 WHERE key = ?1 AND name = ?2 AND due = ?7")        \
    X(FORGET, "DELETE FROM reminder WHERE key = ?1 AND name = ?2"              \
              " AND (?3 = 0 OR due = ?3)")                                     \
    X(REMINDERS, "SELECT due, key, name, bytes, sum FROM reminder"             \
                 " WHERE shard = ?1 AND due <= ?2"                             \
                 " AND (due, key, name) > (?3, ?4, ?5)"                        \
                 " ORDER BY due, key, name LIMIT ?6")                          \
    /* The table of an engine: cluster/engine/engine_sqlite.c. */              \
    X(REVISIONS, "SELECT revision, removed FROM mark")                         \
    X(SET_REVISIONS, "UPDATE mark SET revision = ?1, removed = ?2")            \
    X(ENTRY_GET, "SELECT key, revision, value FROM entry WHERE key = ?1")      \
    X(ENTRY_RANGE, "SELECT key, revision, value FROM entry"                    \
                   " WHERE key >= ?1 AND key < ?2 ORDER BY key")               \
    X(ENTRY_NEWER, "SELECT key, revision, value FROM entry"                    \
                   " INDEXED BY entry_revision WHERE revision > ?3"            \
                   " AND key >= ?1 AND key < ?2 ORDER BY key")                 \
    X(ENTRY_PUT, "INSERT OR REPLACE INTO entry VALUES (?1, ?2, ?3)")           \
    X(ENTRY_DELETE, "DELETE FROM entry WHERE key = ?1")                        \
    X(SCAN, TRI_SQL_SCAN_TEXT)

typedef enum tri_sql {
#define TRI_X(name, text) TRI_SQL_##name,
    TRI_SQL_TABLE(TRI_X)
#undef TRI_X
        TRI_SQL_COUNT,
} tri_sql;

/*
 * The tables that a file must have. Each has a table `mark` with a column
 * `settled`, for the barrier commit of sqlite_layout.c.
 */
typedef struct tri_sqlite_layout {
    uint32_t application_id;
    uint32_t newest, oldest;      // numbers of the layouts that can be opened
    const char *schema;           // SQL that makes the newest
    const char *const *upgrades;  // SQL for each older one, by its number
} tri_sqlite_layout;

/* What all connections to a file share. */
typedef struct tri_sqlite_file {
    const tri_sqlite_layout *layout;
    tri_world *world;
    tri_sqlite_vfs *vfs;
    char *path;
    tr_nanos busy_limit;  // how long to wait for locks of other processes
} tri_sqlite_file;

typedef struct tri_sqlite_db {
    const tri_sqlite_file *file;
    sqlite3 *handle;  // NULL: not open
    sqlite3_stmt *statements[TRI_SQL_COUNT];
    tr_nanos busy_limit, busy_until;  // of the wait for a lock
} tri_sqlite_db;

/*
 * Opens a connection. With `create` it makes or upgrades the tables, refuses a
 * file that is not ours, and writes the barrier commit of sqlite_layout.c:
 * from then on what can be read is on the disk, and a commit that failed
 * before stays undone. On failure the text of *why says what a person can do,
 * and the db is closed. Errors: TR_ESTORAGE, TR_EIO, TR_ENOMEM.
 */
TR_NODISCARD tr_err tri_sqlite_db_open(tri_sqlite_db *db,
                                       const tri_sqlite_file *file, bool create,
                                       tri_sqlite_fault *why);
/* Closes the connection, if it is open. */
void tri_sqlite_db_close(tri_sqlite_db *db);

/* Describes why a call on the connection returned `code`. */
void tri_sqlite_db_explain(tri_sqlite_db *db, int code, tri_sqlite_fault *why);

/* ---- statements ---- */

/* Runs SQL that is used too rarely to keep its statements prepared. */
int tri_sqlite_db_exec(tri_sqlite_db *db, const char *sql);
/* Returns the statement, ready for binding; NULL if preparing it failed. */
sqlite3_stmt *tri_sqlite_db_prepare(tri_sqlite_db *db, tri_sql which);
/* Prepares and steps a statement that has no parameters. */
int tri_sqlite_db_run(tri_sqlite_db *db, tri_sql which);
/* Steps once and resets. Returns SQLITE_ROW or SQLITE_DONE on success. */
int tri_sqlite_step(sqlite3_stmt *statement);
/*
 * Steps once, reads the first column into *out and resets. *out is unchanged
 * if the column is NULL or there is no row.
 */
int tri_sqlite_number(sqlite3_stmt *statement, uint64_t *out);
/* Resets after a step returned `code`. Returns SQLITE_OK or the error. */
int tri_sqlite_end(sqlite3_stmt *statement, int code);

void tri_sqlite_bind(sqlite3_stmt *statement, int at, uint64_t number);
/* The next two borrow the bytes until the statement has been stepped. */
void tri_sqlite_bind_text(sqlite3_stmt *statement, int at,
                          tri_store_bytes text);
void tri_sqlite_bind_bytes(sqlite3_stmt *statement, int at, const void *bytes,
                           size_t size);

/*
 * Returns the text or bytes of a column, borrowed until the statement is
 * stepped or reset.
 */
tri_store_bytes tri_sqlite_column(sqlite3_stmt *statement, int at);
/*
 * Adds a row to the answer, of which *left more are allowed. Returns false if
 * the answer is full or the op has failed.
 */
bool tri_sqlite_add_row(tri_store_op *op, const tri_store_row *row,
                        uint32_t *left);

/* Blocks the thread for this time. */
void tri_sqlite_sleep(tri_world *world, tr_nanos span);

#endif
