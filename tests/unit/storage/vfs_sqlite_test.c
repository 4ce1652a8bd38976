/*
 * vfs_sqlite_test.c - SQLite works on the files of a world, with one
 * connection and with several, in one process and in several.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "unit/storage/sqlite_file.h"
#include "unit/storage/vfs_database.h"

#define ROWS_EACH 50

/* ---- one connection ---- */

static void test_rows_survive_a_reopen(void **state)
{
    fixture *it = *state;
    sqlite3 *db = open_db(it);
    char *name = NULL;

    assert_int_equal(
        sqlite3_file_control(db, "main", SQLITE_FCNTL_VFSNAME, &name),
        SQLITE_OK);
    assert_string_equal(name, tri_sqlite_vfs_name(it->vfs));
    sqlite3_free(name);

    make_wal(db);
    must(db, "INSERT INTO t (v) VALUES ('one'), ('two')");
    assert_int_equal(sqlite3_close(db), SQLITE_OK);

    db = open_db(it);
    must_say(db, "PRAGMA journal_mode", "wal");
    must_say(db, "SELECT count(*) FROM t", "2");
    must_say(db, "PRAGMA integrity_check", "ok");
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void test_last_close_removes_log_and_index(void **state)
{
    fixture *it = *state;
    sqlite3 *db = open_db(it);
    char path[PATH_SIZE];

    make_wal(db);
    snprintf(path, sizeof(path), "%s-shm", it->folder.database);
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    assert_int_not_equal(access(path, F_OK), 0);
    snprintf(path, sizeof(path), "%s-wal", it->folder.database);
    assert_int_not_equal(access(path, F_OK), 0);
}

static void test_an_index_of_many_regions_is_mapped(void **state)
{
    fixture *it = *state;
    sqlite3 *db = open_db(it);

    // The index has 4,062 pages in its first region and 4,096 in each other.
    must(db, "PRAGMA page_size=512");
    make_wal(db);
    must(db, "PRAGMA wal_autocheckpoint=0");
    must(db, "PRAGMA synchronous=OFF");
    must(db, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n"
             " WHERE i < 10000) INSERT INTO t (v) SELECT hex(zeroblob(230))"
             " FROM n");

    sqlite3 *other = open_db(it);
    must_say(other, "SELECT count(*) FROM t", "10000");
    must_say(other, "PRAGMA integrity_check", "ok");
    assert_int_equal(sqlite3_close(other), SQLITE_OK);
    must(db, "PRAGMA wal_checkpoint(TRUNCATE)");
    must_say(db, "PRAGMA integrity_check", "ok");
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void test_a_rollback_journal_works(void **state)
{
    fixture *it = *state;
    sqlite3 *db = open_db(it);

    must_say(db, "PRAGMA journal_mode=DELETE", "delete");
    must(db, "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)");
    must(db, "INSERT INTO t (v) VALUES ('kept')");
    must(db, "BEGIN; INSERT INTO t (v) VALUES ('lost'); ROLLBACK");
    must_say(db, "SELECT group_concat(v) FROM t", "kept");
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void test_temporary_files_leave_nothing(void **state)
{
    fixture *it = *state;
    sqlite3 *db = open_db(it);

    must(db, "PRAGMA temp_store=FILE; PRAGMA cache_size=1; "
             "PRAGMA cache_spill=1");
    must(db, "CREATE TEMP TABLE x (v TEXT)");
    must(db, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n"
             " WHERE i < 2000) INSERT INTO x SELECT hex(randomblob(100))"
             " FROM n");
    must_say(db, "SELECT count(*) FROM (SELECT v FROM x ORDER BY v)", "2000");
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void test_the_time_comes_from_the_world(void **state)
{
    fixture *it = *state;
    sqlite3 *db = open_db(it);
    char text[TEXT_SIZE];

    int64_t before = it->world->ops->wall(it->world) / TR_SECONDS(1);
    ask(db, "SELECT strftime('%s', 'now')", text);
    int64_t after = it->world->ops->wall(it->world) / TR_SECONDS(1);
    assert_in_range(strtoll(text, NULL, 10), before, after);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void test_a_missing_folder_is_an_error(void **state)
{
    fixture *it = *state;
    sqlite3 *db;
    char path[PATH_SIZE];

    snprintf(path, sizeof(path), "%s/none/db", it->folder.path);
    assert_int_equal(open_with(path, it->vfs, &db) & 0xff, SQLITE_CANTOPEN);
    sqlite3_close(db);
}

/* ---- several ---- */

static void test_two_connections_see_each_other(void **state)
{
    fixture *it = *state;
    sqlite3 *one = open_db(it);
    make_wal(one);
    sqlite3 *two = open_db(it);

    // A reader keeps its view while the other writes and commits.
    must(one, "INSERT INTO t (v) VALUES ('a')");
    must(two, "BEGIN");
    must_say(two, "SELECT count(*) FROM t", "1");
    must(one, "INSERT INTO t (v) VALUES ('b')");
    must_say(two, "SELECT count(*) FROM t", "1");
    must(two, "COMMIT");
    must_say(two, "SELECT count(*) FROM t", "2");

    // Only one connection may write.
    sqlite3_busy_timeout(two, 0);
    must(one, "BEGIN IMMEDIATE");
    assert_int_equal(run(two, "BEGIN IMMEDIATE"), SQLITE_BUSY);
    must(one, "COMMIT");
    must(two, "BEGIN IMMEDIATE; INSERT INTO t (v) VALUES ('c'); COMMIT");

    // Closing one connection leaves the log for the other.
    assert_int_equal(sqlite3_close(one), SQLITE_OK);
    must_say(two, "SELECT count(*) FROM t", "3");
    assert_int_equal(sqlite3_close(two), SQLITE_OK);
}

static void test_rollback_locks_exclude(void **state)
{
    fixture *it = *state;
    sqlite3 *one = open_db(it);
    sqlite3 *two = open_db(it);

    must(one, "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)");
    sqlite3_busy_timeout(one, 0);
    sqlite3_busy_timeout(two, 0);

    // RESERVED allows readers, but no second writer.
    must(one, "BEGIN IMMEDIATE; INSERT INTO t (v) VALUES ('a')");
    must_say(two, "SELECT count(*) FROM t", "0");
    assert_int_equal(run(two, "BEGIN IMMEDIATE"), SQLITE_BUSY);
    // A reader that stays keeps the writer from committing (PENDING), and a
    // pending writer keeps new readers out.
    must(two, "BEGIN");
    must_say(two, "SELECT count(*) FROM t", "0");
    assert_int_equal(run(one, "COMMIT"), SQLITE_BUSY);
    sqlite3 *three = open_db(it);
    sqlite3_busy_timeout(three, 0);
    assert_int_equal(run(three, "SELECT count(*) FROM t"), SQLITE_BUSY);
    must(two, "COMMIT");
    must(one, "COMMIT");
    must_say(three, "SELECT count(*) FROM t", "1");

    must(one, "BEGIN EXCLUSIVE");
    assert_int_equal(run(two, "SELECT count(*) FROM t"), SQLITE_BUSY);
    must(one, "COMMIT");
    must_say(two, "SELECT count(*) FROM t", "1");
    assert_int_equal(sqlite3_close(one), SQLITE_OK);
    assert_int_equal(sqlite3_close(two), SQLITE_OK);
    assert_int_equal(sqlite3_close(three), SQLITE_OK);
}

/* SQLite's own VFS and ours use the same files and locks. */
static void test_a_database_is_shared_with_the_unix_vfs(void **state)
{
    fixture *it = *state;
    sqlite3 *ours = open_db(it);
    sqlite3 *theirs;

    make_wal(ours);
    must(ours, "INSERT INTO t (v) VALUES ('a')");
    assert_int_equal(sqlite3_open_v2(it->folder.database, &theirs,
                                     SQLITE_OPEN_READWRITE, "unix"),
                     SQLITE_OK);
    must_say(theirs, "SELECT count(*) FROM t", "1");
    must(ours, "BEGIN IMMEDIATE");
    assert_int_equal(run(theirs, "BEGIN IMMEDIATE"), SQLITE_BUSY);
    must(ours, "COMMIT");
    must(theirs, "INSERT INTO t (v) VALUES ('b')");
    must_say(ours, "SELECT count(*) FROM t", "2");
    assert_int_equal(sqlite3_close(theirs), SQLITE_OK);
    must(ours, "INSERT INTO t (v) VALUES ('c')");
    must_say(ours, "PRAGMA integrity_check", "ok");
    assert_int_equal(sqlite3_close(ours), SQLITE_OK);
}

/* Adds ROWS_EACH rows, each in its own transaction. Returns SQLITE_OK. */
static int add_rows(const char *path, tri_sqlite_vfs *vfs)
{
    sqlite3 *db;
    int code = open_with(path, vfs, &db);

    if (code == SQLITE_OK) {
        // Few pages in the log, so that checkpoints happen between the rows.
        code = run(db, "PRAGMA wal_autocheckpoint=10");
    }
    for (int i = 0; i < ROWS_EACH && code == SQLITE_OK; i++) {
        code = run(db, "BEGIN IMMEDIATE; INSERT INTO t (v) VALUES"
                       " (hex(randomblob(300))); COMMIT");
    }
    sqlite3_close(db);
    return code;
}

typedef struct adder {
    const fixture *fixture;
    int result;
} adder;

static void add_rows_here(void *arg)
{
    adder *it = arg;

    it->result = add_rows(it->fixture->folder.database, it->fixture->vfs);
}

static void test_two_threads_write(void **state)
{
    fixture *it = *state;
    const tri_world_ops *ops = it->world->ops;
    adder adders[2] = {{it, -1}, {it, -1}};
    tri_thread *threads[2];
    sqlite3 *db = open_db(it);

    make_wal(db);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ops->thread_start(it->world, &threads[i], "adder",
                                           add_rows_here, &adders[i]),
                         TR_OK);
    }
    for (int i = 0; i < 2; i++) {
        ops->thread_join(it->world, threads[i]);
        assert_int_equal(adders[i].result, SQLITE_OK);
    }
    check_rows(it, "100");
}

static void test_two_processes_write(void **state)
{
    fixture *it = *state;
    sqlite3 *db = open_db(it);
    pid_t children[2];

    make_wal(db);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    for (int i = 0; i < 2; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] == 0) {
            _exit(add_rows(it->folder.database, it->vfs) & 0xff);
        }
    }
    assert_int_equal(add_rows(it->folder.database, it->vfs), SQLITE_OK);
    for (int i = 0; i < 2; i++) {
        int status;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
    check_rows(it, "150");
}

/* A process ends in a transaction: committed rows stay, its locks go. */
static void test_an_ended_process_holds_no_lock(void **state)
{
    fixture *it = *state;
    int status;

    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        sqlite3 *db;
        int code = open_with(it->folder.database, it->vfs, &db);
        code |= run(db, "PRAGMA journal_mode=WAL");
        code |= run(db, "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)");
        code |= run(db, "INSERT INTO t (v) VALUES ('kept')");
        code |= run(db, "BEGIN IMMEDIATE; INSERT INTO t (v) VALUES ('lost')");
        _exit(code != SQLITE_OK);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);

    sqlite3 *db = open_db(it);
    sqlite3_busy_timeout(db, 0);
    must(db, "INSERT INTO t (v) VALUES ('next')");
    must_say(db, "SELECT group_concat(v) FROM t", "kept,next");
    must_say(db, "PRAGMA integrity_check", "ok");
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

/* After a crash of the machine the index file may be old: it is not used. */
static void test_an_index_left_by_a_crash_is_discarded(void **state)
{
    fixture *it = *state;
    char index[PATH_SIZE];
    char old[PATH_SIZE];
    int status;

    snprintf(index, sizeof(index), "%s-shm", it->folder.database);
    snprintf(old, sizeof(old), "%s-journal", it->folder.database);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        sqlite3 *db;
        int code = open_with(it->folder.database, it->vfs, &db);
        make_wal(db);
        code |= run(db, "INSERT INTO t (v) VALUES ('one')");
        copy_file(index, old);
        code |= run(db, "INSERT INTO t (v) VALUES ('two')");
        _exit(code != SQLITE_OK);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(rename(old, index), 0);

    sqlite3 *db = open_db(it);
    must_say(db, "SELECT group_concat(v) FROM t", "one,two");
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        VFS_TEST(test_rows_survive_a_reopen),
        VFS_TEST(test_last_close_removes_log_and_index),
        VFS_TEST(test_an_index_of_many_regions_is_mapped),
        VFS_TEST(test_a_rollback_journal_works),
        VFS_TEST(test_temporary_files_leave_nothing),
        VFS_TEST(test_the_time_comes_from_the_world),
        VFS_TEST(test_a_missing_folder_is_an_error),
        VFS_TEST(test_two_connections_see_each_other),
        VFS_TEST(test_rollback_locks_exclude),
        VFS_TEST(test_a_database_is_shared_with_the_unix_vfs),
        VFS_TEST(test_two_threads_write),
        VFS_TEST(test_two_processes_write),
        VFS_TEST(test_an_ended_process_holds_no_lock),
        VFS_TEST(test_an_index_left_by_a_crash_is_discarded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
