/*
 * sqlite_db.h - one connection to a store's file, and what went wrong with it.
 *
 * Threads: a connection has one user at a time.
 */
#ifndef TRI_STORAGE_SQLITE_DB_H
#define TRI_STORAGE_SQLITE_DB_H

#include <sqlite3.h>

#include "base/world.h"
#include "storage/sqlite_journal.h"
#include "storage/storage.h"
#include "storage/vfs_sqlite.h"

/* Every statement there is: name, text. Prepared when first used. */
#define TRI_SQL_TABLE(X)                                                       \
    X(BEGIN_READ, "BEGIN")                                                     \
    X(BEGIN_WRITE, "BEGIN IMMEDIATE")                                          \
    X(COMMIT, "COMMIT")                                                        \
    X(ROLLBACK, "ROLLBACK")                                                    \
    X(CHANGES, "PRAGMA data_version")                                          \
    X(MARKS, "SELECT folded, (SELECT max(id) FROM journal) FROM mark")         \
    X(SET_FOLDED, "UPDATE mark SET folded = ?1")                               \
    X(SETTLE, "UPDATE mark SET settled = settled + 1")                         \
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
    X(REMIND, "INSERT OR REPLACE INTO reminder"                                \
              " VALUES (?1, ?2, ?3, ?4, ?5, ?6)")                              \
    X(REMIND_IF, "UPDATE reminder SET shard = ?3, due = ?4, bytes = ?5,"       \
                 " sum = ?6 WHERE key = ?1 AND name = ?2 AND due = ?7")        \
    X(FORGET, "DELETE FROM reminder WHERE key = ?1 AND name = ?2"              \
              " AND (?3 = 0 OR due = ?3)")                                     \
    X(REMINDERS, "SELECT due, key, name, bytes, sum FROM reminder"             \
                 " WHERE shard = ?1 AND due <= ?2"                             \
                 " AND (due, key, name) > (?3, ?4, ?5)"                        \
                 " ORDER BY due, key, name LIMIT ?6")

typedef enum tri_sql {
#define TRI_X(name, text) TRI_SQL_##name,
    TRI_SQL_TABLE(TRI_X)
#undef TRI_X
        TRI_SQL_COUNT,
} tri_sql;

/* What all connections of a store have in common. */
typedef struct tri_sqlite_file {
    tri_world *world;
    tri_sqlite_vfs *vfs;
    char *path;
    tr_nanos busy_limit;  // how long another process may keep us waiting
} tri_sqlite_file;

typedef struct tri_sqlite_db {
    const tri_sqlite_file *file;
    sqlite3 *handle;  // NULL: not open
    sqlite3_stmt *statements[TRI_SQL_COUNT];
    tr_nanos busy_limit, busy_until;
} tri_sqlite_db;

/* Why something failed, as an answer says it. */
typedef struct tri_sqlite_fault {
    tr_err err;
    tri_store_fault fault;
    char text[TRI_STORE_TEXT_SIZE];
} tri_sqlite_fault;

/*
 * Opens the file; if `create`, makes it or brings it to our layout, checks
 * that it is ours, and commits a change of nothing else: from then on what
 * can be read is on the disk, and a commit that once failed stays undone. The
 * text of *why says what a person can do. On failure the db is closed.
 * Errors: TR_ESTORAGE, TR_EIO, TR_ENOMEM.
 */
TR_NODISCARD tr_err tri_sqlite_db_open(tri_sqlite_db *db,
                                       const tri_sqlite_file *file, bool create,
                                       tri_sqlite_fault *why);
/* Closing what is closed does nothing. */
void tri_sqlite_db_close(tri_sqlite_db *db);

/* The statement, ready to be bound; NULL: it failed. */
sqlite3_stmt *tri_sqlite_db_prepare(tri_sqlite_db *db, tri_sql which);
/* Steps to the end and resets. An SQLite code; a row is SQLITE_ROW. */
int tri_sqlite_step(sqlite3_stmt *statement);
/* Prepares and steps one without parameters. */
int tri_sqlite_db_run(tri_sqlite_db *db, tri_sql which);
/* The first column of the first row; *out stays if it is NULL or missing. */
int tri_sqlite_number(sqlite3_stmt *statement, uint64_t *out);
/* Resets after sqlite3_step gave `code`: SQLITE_OK, or what went wrong. */
int tri_sqlite_end(sqlite3_stmt *statement, int code);
/* Adds a row to the answer; false: it is full or failed. *left counts down. */
bool tri_sqlite_add_row(tri_store_op *op, const tri_store_row *row,
                        uint32_t *left);

void tri_sqlite_bind(sqlite3_stmt *statement, int at, uint64_t number);
/* Both borrow until the statement is stepped. */
void tri_sqlite_bind_text(sqlite3_stmt *statement, int at,
                          tri_store_bytes text);
void tri_sqlite_bind_bytes(sqlite3_stmt *statement, int at, const void *bytes,
                           size_t size);

/*
 * What makes a row's value its own: of the key, the number beside it and the
 * bytes. SQLite sums its log, but not the pages of a database, where a bit
 * that flipped would be a state that nobody saved. Fits tri_sqlite_bind.
 */
uint64_t tri_sqlite_sum(tri_store_bytes key, uint64_t number,
                        tri_store_bytes bytes);
/* The same, for whoever has tri_hash_bytes of the key. */
uint64_t tri_sqlite_sum_hashed(uint64_t key_hash, uint64_t number,
                               tri_store_bytes bytes);
/* The same for an event of an append that goes up to event `upto`. */
uint64_t tri_sqlite_event_sum(tri_store_bytes key, uint64_t number,
                              uint64_t upto, tri_store_bytes bytes);
/* And of an event, whose sum is `sum`, behind one whose sum is `prev`. */
uint64_t tri_sqlite_chain_sum(uint64_t sum, uint64_t prev);
/* Whether column `at` is that sum. */
bool tri_sqlite_sum_fits(sqlite3_stmt *statement, int at, uint64_t sum);

/* A text or bytes; borrowed until the statement is stepped or reset. */
tri_store_bytes tri_sqlite_column(sqlite3_stmt *statement, int at);

/* Why `code` was returned; the connection may know it more closely. */
void tri_sqlite_db_why(tri_sqlite_db *db, int code, tri_sqlite_fault *why);

/*
 * In a transaction: learns how far the journal is folded in this snapshot and
 * puts the rows that `journal` does not know. *last is the journal's newest
 * row. Returns an SQLite code.
 */
int tri_sqlite_db_sync(tri_sqlite_db *db, tri_journal *journal,
                       uint64_t *folded, uint64_t *last);

/* Waits, as nobody else has a reason to wake us. */
void tri_sqlite_nap(tri_world *world, tr_nanos span);

#endif
