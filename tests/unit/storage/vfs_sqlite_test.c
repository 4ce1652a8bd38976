/*
 * vfs_sqlite_test.c - SQLite on a world's files: it works, alone and shared,
 * and no failing file operation harms what was committed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "storage/vfs_sqlite.h"
#include "support/fail_world.h"
#include "unit/storage/sqlite_file.h"

#define PATH_SIZE  (FOLDER_SIZE + 32)
#define TEXT_SIZE  256
#define BUSY_MS    60000
#define ROWS_EACH  50
#define POINTS_MAX 20000  // file operations of the largest scenario, far off

typedef struct fixture {
    folder folder;
    tri_world *world;
    tri_sqlite_vfs *vfs;
} fixture;

static int open_fixture(void **state)
{
    fixture *it = calloc(1, sizeof(*it));

    if (it == NULL || !folder_make(&it->folder)) {
        return -1;
    }
    it->world = tri_world_posix();
    *state = it;
    return tri_sqlite_vfs_open(&it->vfs, it->world) == TR_OK ? 0 : -1;
}

static int close_fixture(void **state)
{
    fixture *it = *state;

    tri_sqlite_vfs_close(it->vfs);
    int result = folder_remove(&it->folder);
    free(it);
    return result;
}

static int open_with(const char *path, tri_sqlite_vfs *vfs, sqlite3 **out)
{
    int code =
        sqlite3_open_v2(path, out, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE,
                        tri_sqlite_vfs_name(vfs));
    if (code == SQLITE_OK) {
        sqlite3_busy_timeout(*out, BUSY_MS);
    }
    return code;
}

static sqlite3 *open_db(fixture *it)
{
    sqlite3 *db;

    assert_int_equal(open_with(it->folder.database, it->vfs, &db), SQLITE_OK);
    return db;
}

static int run(sqlite3 *db, const char *sql)
{
    return sqlite3_exec(db, sql, NULL, NULL, NULL);
}

static void must(sqlite3 *db, const char *sql)
{
    if (run(db, sql) != SQLITE_OK) {
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    }
}

/* The first column of the first row. */
static void ask(sqlite3 *db, const char *sql, char out[TEXT_SIZE])
{
    sqlite3_stmt *statement;

    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &statement, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    snprintf(out, TEXT_SIZE, "%s",
             (const char *)sqlite3_column_text(statement, 0));
    sqlite3_finalize(statement);
}

static void must_say(sqlite3 *db, const char *sql, const char *expected)
{
    char text[TEXT_SIZE];

    ask(db, sql, text);
    assert_string_equal(text, expected);
}

static void make_wal(sqlite3 *db)
{
    must_say(db, "PRAGMA journal_mode=WAL", "wal");
    must(db, "PRAGMA synchronous=FULL");
    must(db, "CREATE TABLE IF NOT EXISTS t (id INTEGER PRIMARY KEY, v TEXT)");
}

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

static void test_many_regions_of_the_index(void **state)
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

static void test_rollback_journal_works_too(void **state)
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

static void test_time_is_the_worlds(void **state)
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

    // Only one writes.
    sqlite3_busy_timeout(two, 0);
    must(one, "BEGIN IMMEDIATE");
    assert_int_equal(run(two, "BEGIN IMMEDIATE"), SQLITE_BUSY);
    must(one, "COMMIT");
    must(two, "BEGIN IMMEDIATE; INSERT INTO t (v) VALUES ('c'); COMMIT");

    // The first to close is not the last: the log stays for the other.
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

    // RESERVED lets readers in, but no second writer.
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

/* SQLite's own VFS and ours agree about files and locks. */
static void test_it_shares_with_the_unix_vfs(void **state)
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

/* Adds ROWS_EACH rows, each in its own transaction; 0 if all went well. */
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

static void check_rows(fixture *it, const char *expected)
{
    sqlite3 *db = open_db(it);

    must_say(db, "SELECT count(*) FROM t", expected);
    must_say(db, "PRAGMA integrity_check", "ok");
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
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

/* A process that ends in the middle leaves its committed rows and no locks. */
static void test_a_dead_process_holds_nothing(void **state)
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

/* After a crash of the machine the index may be an old one: it is not used. */
static void test_an_old_index_is_thrown_away(void **state)
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

/* ---- failing file operations ---- */

static void test_a_commit_needs_its_sync(void **state)
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

/* What is there before each run of the scenario: a database with no batch. */
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
 * Two connections write in turn, with checkpoints in between; an error is
 * answered by a rollback and the next batch. Returns how many batches were
 * acknowledged; *unclear counts those that failed, and may be there or not.
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

/* Nothing acknowledged is lost, nothing is there by half. */
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

static void test_wal_survives_each_failure(void **state)
{
    fail_every_point(*state, "WAL", FAIL_ONCE);
}

static void test_wal_survives_a_lost_disk(void **state)
{
    fail_every_point(*state, "WAL", FAIL_ON);
}

static void test_journal_survives_each_failure(void **state)
{
    fail_every_point(*state, "DELETE", FAIL_ONCE);
}

static void test_journal_survives_a_lost_disk(void **state)
{
    fail_every_point(*state, "DELETE", FAIL_ON);
}

int main(void)
{
#define VFS_TEST(name)                                                         \
    cmocka_unit_test_setup_teardown(name, open_fixture, close_fixture)
    const struct CMUnitTest tests[] = {
        VFS_TEST(test_rows_survive_a_reopen),
        VFS_TEST(test_last_close_removes_log_and_index),
        VFS_TEST(test_many_regions_of_the_index),
        VFS_TEST(test_rollback_journal_works_too),
        VFS_TEST(test_temporary_files_leave_nothing),
        VFS_TEST(test_time_is_the_worlds),
        VFS_TEST(test_a_missing_folder_is_an_error),
        VFS_TEST(test_two_connections_see_each_other),
        VFS_TEST(test_rollback_locks_exclude),
        VFS_TEST(test_it_shares_with_the_unix_vfs),
        VFS_TEST(test_two_threads_write),
        VFS_TEST(test_two_processes_write),
        VFS_TEST(test_a_dead_process_holds_nothing),
        VFS_TEST(test_an_old_index_is_thrown_away),
        VFS_TEST(test_a_commit_needs_its_sync),
        VFS_TEST(test_wal_survives_each_failure),
        VFS_TEST(test_wal_survives_a_lost_disk),
        VFS_TEST(test_journal_survives_each_failure),
        VFS_TEST(test_journal_survives_a_lost_disk),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
