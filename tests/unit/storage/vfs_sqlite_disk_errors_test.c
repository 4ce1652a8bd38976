/*
 * vfs_sqlite_disk_errors_test.c - no file operation that fails harms what was
 * committed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/fail_world.h"
#include "unit/storage/vfs_database.h"

#define POINTS_MAX 20000  // more than the file operations of any scenario

static void test_a_commit_fails_if_its_sync_fails(void **state)
{
    fixture *it = *state;
    fail_world *fail = fail_world_new(it->world);
    tri_sqlite_vfs *vfs;
    sqlite3 *db;

    assert_int_equal(tri_sqlite_vfs_open(&vfs, fail_world_of(fail)), TR_OK);
    assert_int_equal(open_with(it->folder.database, vfs, &db), SQLITE_OK);
    make_wal(db);
    fail_world_arm(fail, 1, FAIL_SYNC);
    assert_int_equal(run(db, "INSERT INTO t (v) VALUES ('a')") & 0xff,
                     SQLITE_IOERR);
    fail_world_arm(fail, 0, FAIL_ONCE);
    must_say(db, "SELECT count(*) FROM t", "0");
    must(db, "INSERT INTO t (v) VALUES ('b')");
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    tri_sqlite_vfs_close(vfs);
    fail_world_free(fail);
    check_rows(it, "1");
}

#define BATCHES 6
#define BATCH_SQL                                                              \
    "BEGIN IMMEDIATE;"                                                         \
    "INSERT INTO t (v) VALUES (hex(zeroblob(600))), (hex(zeroblob(600)));"     \
    "UPDATE n SET batches = batches + 1;"                                      \
    "COMMIT"

/* Makes a new database without any batch. */
static void prepare(fixture *it, const char *journal)
{
    char sql[64];

    folder_clean(&it->folder);
    sqlite3 *db = open_db(it);
    snprintf(sql, sizeof(sql), "PRAGMA journal_mode=%s", journal);
    must(db, "PRAGMA synchronous=OFF");
    must(db, sql);
    must(db, "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)");
    must(db, "CREATE TABLE n (batches INTEGER)");
    must(db, "INSERT INTO n VALUES (0)");
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

/*
 * Writes batches through two connections in turn, with checkpoints in between;
 * after an error it rolls back and goes on with the next batch. Returns how
 * many batches were acknowledged. *unclear: how many failed, which may be
 * there or not.
 */
static int write_batches(fixture *it, tri_sqlite_vfs *vfs, int *unclear)
{
    sqlite3 *dbs[2] = {NULL, NULL};
    int acknowledged = 0;

    *unclear = 0;
    for (int i = 0; i < 2; i++) {
        if (open_with(it->folder.database, vfs, &dbs[i]) == SQLITE_OK) {
            sqlite3_busy_timeout(dbs[i], 0);
            (void)run(dbs[i], "PRAGMA synchronous=FULL");
            (void)run(dbs[i], "PRAGMA wal_autocheckpoint=8");
        }
    }
    for (int i = 0; i < BATCHES; i++) {
        sqlite3 *db = dbs[i % 2];
        if (run(db, BATCH_SQL) == SQLITE_OK) {
            acknowledged++;
            continue;
        }
        (*unclear)++;
        if (!sqlite3_get_autocommit(db)) {
            (void)run(db, "ROLLBACK");
        }
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(sqlite3_close(dbs[i]), SQLITE_OK);
    }
    return acknowledged;
}

/* All acknowledged batches are there, and no half of a batch. */
static void check_batches(fixture *it, int acknowledged, int unclear)
{
    sqlite3 *db = open_db(it);
    char text[TEXT_SIZE];

    sqlite3_busy_timeout(db, 0);
    must(db, "PRAGMA synchronous=OFF");
    must_say(db, "PRAGMA integrity_check", "ok");
    ask(db, "SELECT batches FROM n", text);
    int batches = atoi(text);
    assert_in_range(batches, acknowledged, acknowledged + unclear);
    ask(db, "SELECT count(*) FROM t", text);
    assert_int_equal(atoi(text), 2 * batches);
    must_say(db, "SELECT count(*) FROM t WHERE length(v) <> 1200", "0");
    must(db, BATCH_SQL);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void fail_every_point(fixture *it, const char *journal, fail_kind kind)
{
    fail_world *fail = fail_world_new(it->world);
    tri_sqlite_vfs *vfs;
    int failures = 0;
    uint64_t n;

    assert_int_equal(tri_sqlite_vfs_open(&vfs, fail_world_of(fail)), TR_OK);
    for (n = 1; n < POINTS_MAX; n++) {
        int unclear;
        prepare(it, journal);
        fail_world_arm(fail, n, kind);
        int acknowledged = write_batches(it, vfs, &unclear);
        bool failed = fail_world_has_failed(fail);
        fail_world_arm(fail, 0, FAIL_ONCE);
        check_batches(it, acknowledged, unclear);
        failures += unclear;
        if (!failed) {
            assert_int_equal(acknowledged, BATCHES);
            break;
        }
    }
    assert_in_range(n, 50, POINTS_MAX - 1);
    assert_true(failures > 0);
    tri_sqlite_vfs_close(vfs);
    fail_world_free(fail);
}

static void test_wal_survives_each_failing_operation(void **state)
{
    fail_every_point(*state, "WAL", FAIL_ONCE);
}

static void test_wal_survives_a_disk_that_stays_broken(void **state)
{
    fail_every_point(*state, "WAL", FAIL_ON);
}

static void test_journal_survives_each_failing_operation(void **state)
{
    fail_every_point(*state, "DELETE", FAIL_ONCE);
}

static void test_journal_survives_a_disk_that_stays_broken(void **state)
{
    fail_every_point(*state, "DELETE", FAIL_ON);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        VFS_TEST(test_a_commit_fails_if_its_sync_fails),
        VFS_TEST(test_wal_survives_each_failing_operation),
        VFS_TEST(test_wal_survives_a_disk_that_stays_broken),
        VFS_TEST(test_journal_survives_each_failing_operation),
        VFS_TEST(test_journal_survives_a_disk_that_stays_broken),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
