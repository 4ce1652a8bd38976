/*
 * vfs_database.h - a database on our VFS in a folder of its own, for tests.
 *
 * VFS_TEST makes a row of a test whose *state is a fixture.
 */
#ifndef TEST_STORAGE_VFS_DATABASE_H
#define TEST_STORAGE_VFS_DATABASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <sqlite3.h>
#include <cmocka.h>

#include "storage/vfs_sqlite.h"
#include "unit/storage/store_calls.h"

#define PATH_SIZE (FOLDER_SIZE + 32)
#define TEXT_SIZE 256
#define BUSY_MS   60000

typedef struct fixture {
    folder folder;
    tri_world *world;
    tri_sqlite_vfs *vfs;
} fixture;

static inline int open_fixture(void **state)
{
    fixture *it = calloc(1, sizeof(*it));

    if (it == NULL || !folder_make(&it->folder)) {
        return -1;
    }
    it->world = tri_world_posix();
    *state = it;
    return tri_sqlite_vfs_open(&it->vfs, it->world) == TR_OK ? 0 : -1;
}

static inline int close_fixture(void **state)
{
    fixture *it = *state;

    tri_sqlite_vfs_close(it->vfs);
    int result = folder_remove(&it->folder);
    free(it);
    return result;
}

static inline int open_with(const char *path, tri_sqlite_vfs *vfs,
                            sqlite3 **out)
{
    int code =
        sqlite3_open_v2(path, out, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE,
                        tri_sqlite_vfs_name(vfs));
    if (code == SQLITE_OK) {
        sqlite3_busy_timeout(*out, BUSY_MS);
    }
    return code;
}

static inline sqlite3 *open_db(fixture *it)
{
    sqlite3 *db;

    assert_int_equal(open_with(it->folder.database, it->vfs, &db), SQLITE_OK);
    return db;
}

static inline int run(sqlite3 *db, const char *sql)
{
    return sqlite3_exec(db, sql, NULL, NULL, NULL);
}

static inline void must(sqlite3 *db, const char *sql)
{
    if (run(db, sql) != SQLITE_OK) {
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    }
}

/* The first column of the first row. */
static inline void ask(sqlite3 *db, const char *sql, char out[TEXT_SIZE])
{
    sqlite3_stmt *statement;

    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &statement, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    snprintf(out, TEXT_SIZE, "%s",
             (const char *)sqlite3_column_text(statement, 0));
    sqlite3_finalize(statement);
}

static inline void must_say(sqlite3 *db, const char *sql, const char *expected)
{
    char text[TEXT_SIZE];

    ask(db, sql, text);
    assert_string_equal(text, expected);
}

static inline void make_wal(sqlite3 *db)
{
    must_say(db, "PRAGMA journal_mode=WAL", "wal");
    must(db, "PRAGMA synchronous=FULL");
    must(db, "CREATE TABLE IF NOT EXISTS t (id INTEGER PRIMARY KEY, v TEXT)");
}

static inline void check_rows(fixture *it, const char *expected)
{
    sqlite3 *db = open_db(it);

    must_say(db, "SELECT count(*) FROM t", expected);
    must_say(db, "PRAGMA integrity_check", "ok");
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

#define VFS_TEST(name)                                                         \
    cmocka_unit_test_setup_teardown(name, open_fixture, close_fixture)

#endif
