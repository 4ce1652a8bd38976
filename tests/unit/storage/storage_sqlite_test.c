/*
 * storage_sqlite_test.c - the store in a file: states survive a restart, the
 * journal is folded, damaged states are found, and the file can be shared.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "unit/storage/shared_counters.h"
#include "unit/storage/sqlite_file.h"

static void test_states_survive_a_restart(void **state)
{
    tr_storage *store = open_store(*state);
    asked fence = ask_for(TR_STORE_FENCE, "a::b/c");

    fence.op.shard = 1;
    fence.op.epoch = 3;
    assert_int_equal(asked_run(&fence, store), TR_OK);
    assert_int_equal(save_text(store, "a::b/c", 0, "one"), TR_OK);
    assert_int_equal(save_text(store, "a::b/c", 1, "two"), TR_OK);
    assert_int_equal(save_text(store, "a::b/d", 0, "other"), TR_OK);
    tr_storage_close(store);

    store = open_store(*state);
    assert_stored(store, "a::b/c", "2:two");
    assert_stored(store, "a::b/d", "1:other");
    assert_int_equal(save_text(store, "a::b/c", 1, "stale"), TR_EFENCED);
    fence.op.epoch = 2;
    assert_int_equal(asked_run(&fence, store), TR_EFENCED);
    tr_storage_close(store);
    assert_intact(*state);
}

/* ---- the journal ---- */

#define KEYS 40

static const tri_sqlite_limits small = {
    .batch = 8,
    .fold_rows = 16,
    .slice = 3,
    .checkpoint_pages = 4,
    .log_pages = 32,
};

/* Saves all keys, in rounds; the saves of a round are one batch. */
static void save_rounds(tr_storage *store, uint32_t from, uint32_t to)
{
    asked ops[KEYS];
    char keys[KEYS][32], texts[KEYS][32];
    tri_list list;

    for (uint32_t round = from; round < to; round++) {
        tri_list_init(&list);
        for (uint32_t i = 0; i < KEYS; i++) {
            snprintf(keys[i], sizeof(keys[i]), "a::b/%u", i);
            snprintf(texts[i], sizeof(texts[i]), "%u in %u", i, round);
            ops[i] = ask_save(keys[i], round, texts[i]);
            tri_list_push_back(&list, &ops[i].op.link);
        }
        tri_storage_submit_all(store, &list);
        for (uint32_t i = 0; i < KEYS; i++) {
            asked_wait(&ops[i]);
            assert_int_equal(ops[i].op.err, TR_OK);
        }
    }
}

static void check_round(tr_storage *store, uint32_t round)
{
    char key[32], expected[48];

    for (uint32_t i = 0; i < KEYS; i++) {
        snprintf(key, sizeof(key), "a::b/%u", i);
        snprintf(expected, sizeof(expected), "%u:%u in %u", round + 1, i,
                 round);
        assert_stored(store, key, expected);
    }
}

static void test_the_journal_is_bounded_and_folded(void **state)
{
    tr_storage *store = open_limited(*state, &small);
    const uint32_t rounds = 30;

    for (uint32_t round = 0; round < rounds; round++) {
        save_rounds(store, round, round + 1);
        check_round(store, round);
        // Twice the limit forces a fold. A round is added to that, and half
        // as much again while a generation is folded.
        assert_in_range(sql_number(*state, "SELECT count(*) FROM journal"), 1,
                        5 * KEYS);
    }
    assert_true(sql_number(*state, "SELECT folded FROM mark") > 0);
    assert_in_range(sql_number(*state, "SELECT count(*) FROM state"), 1, KEYS);
    tr_storage_close(store);
    // States that are not folded yet are found in the journal.
    store = open_store(*state);
    check_round(store, rounds - 1);
    tr_storage_close(store);
    assert_intact(*state);
}

static void test_an_idle_store_folds_everything(void **state)
{
    static const tri_sqlite_limits idle = {.idle = 1};
    tr_storage *store = open_limited(*state, &idle);
    asked delete = ask_for(TR_STORE_DELETE, "a::b/0");

    save_rounds(store, 0, 2);
    delete.op.number = 2;
    assert_int_equal(asked_run(&delete, store), TR_OK);
    // The journal keeps its last row; see sqlite_fold.c.
    while (sql_number(*state, "SELECT count(*) FROM journal") > 1) {
    }
    assert_int_equal(sql_number(*state, "SELECT count(*) FROM state"),
                     KEYS - 1);
    assert_stored(store, "a::b/0", "none");
    assert_stored(store, "a::b/1", "2:1 in 1");
    tr_storage_close(store);
}

/* SQLite has no checksums of database pages: our sums find the damage. */
static void test_ST16_a_damaged_row_is_an_error(void **state)
{
    static const tri_sqlite_limits idle = {.idle = 1};
    tr_storage *store = open_limited(*state, &idle);

    save_rounds(store, 0, 2);
    while (sql_number(*state, "SELECT count(*) FROM journal") > 1) {
    }
    tr_storage_close(store);
    (void)sql_number(*state, "UPDATE state SET bytes = '1 in 2'"
                             " WHERE key = 'a::b/1'");
    (void)sql_number(*state, "UPDATE state SET version = 7"
                             " WHERE key = 'a::b/2'");
    store = open_store(*state);
    assert_stored(store, "a::b/1", "TR_ESTORAGE");
    assert_stored(store, "a::b/2", "TR_ESTORAGE");
    assert_stored(store, "a::b/3", "2:3 in 1");
    tr_storage_close(store);
    // Damage in the journal is found when the file is opened.
    (void)sql_number(*state, "UPDATE journal SET bytes = 'x'");
    (void)sql_number(*state, "UPDATE mark SET folded = 0");
    assert_refused(*state, "the file is damaged");
}

/* ---- several stores on one file ---- */

static void test_two_stores_see_each_other(void **state)
{
    tr_storage *one = open_limited(*state, &small);
    tr_storage *two = open_limited(*state, &small);
    asked fence = ask_for(TR_STORE_FENCE, "a::b/c");

    for (uint32_t i = 0; i < 30; i++) {
        // Each folds what the other one saved.
        save_rounds(i % 2 == 0 ? one : two, i, i + 1);
        check_round(i % 2 == 0 ? two : one, i);
        check_round(i % 2 == 0 ? one : two, i);
    }
    assert_int_equal(save_text(two, "a::b/0", 29, "stale"), TR_EFENCED);
    fence.op.epoch = 2;
    assert_int_equal(asked_run(&fence, one), TR_OK);
    asked late = ask_save("a::b/0", 30, "epoch 1");
    late.op.epoch = 1;
    assert_int_equal(asked_run(&late, two), TR_EFENCED);
    tr_storage_close(one);
    tr_storage_close(two);
    assert_intact(*state);
}

/*
 * Versions that a store has cached, from its folds and from loads, are not
 * used after another store has written.
 */
static void test_ST12_cached_versions_go_when_another_store_writes(void **state)
{
    tr_storage *one = open_limited(*state, &small);
    tr_storage *two = open_limited(*state, &small);
    char key[32];

    save_rounds(one, 0, 3);
    check_round(one, 2);
    save_rounds(two, 3, 9);
    for (uint32_t i = 0; i < KEYS; i++) {
        snprintf(key, sizeof(key), "a::b/%u", i);
        assert_int_equal(save_text(one, key, 3, "stale"), TR_EFENCED);
    }
    save_rounds(one, 9, 10);
    check_round(two, 9);
    tr_storage_close(one);
    tr_storage_close(two);
    assert_intact(*state);
}

static void test_a_load_puts_its_version_into_the_cache(void **state)
{
    tr_storage *store = open_store(*state);
    tri_sqlite_store *inner = tri_container_of(store, tri_sqlite_store, base);
    uint64_t version = 7;

    assert_stored(store, "a::b/c", "none");
    assert_true(
        tri_versions_get(&inner->versions, bytes_of("a::b/c"), &version));
    assert_int_equal(version, 0);
    // The first transaction of the writer keeps the cache: no one else wrote.
    assert_int_equal(save_text(store, "a::b/d", 0, "other"), TR_OK);
    assert_true(
        tri_versions_get(&inner->versions, bytes_of("a::b/c"), &version));
    assert_int_equal(save_text(store, "a::b/c", 1, "stale"), TR_ENOENT);
    assert_int_equal(save_text(store, "a::b/c", 0, "one"), TR_OK);
    assert_stored(store, "a::b/c", "1:one");
    tr_storage_close(store);
    assert_intact(*state);
}

/* ---- several processes ---- */

#define PROCESSES   3
#define COUNTS_EACH 60
#define OPENINGS    20

/* Calls `run` in several processes at once; each must return 0. */
static void in_processes(int (*run)(const folder *it), const folder *it)
{
    pid_t children[PROCESSES];

    for (int i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] == 0) {
            _exit(run(it));
        }
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
}

/* Opens the store in a child, where assertions cannot be used. */
static tr_storage *open_in_process(const folder *it,
                                   const tri_sqlite_limits *limits)
{
    tr_storage *store;
    tri_sqlite_fault why;

    if (tri_storage_sqlite_open(&store, tri_world_posix(), it->database, limits,
                                &why) != TR_OK) {
        fprintf(stderr, "open: %s\n", why.text);
        return NULL;
    }
    return store;
}

/* Increments counters that all processes share. Returns 0 on success. */
static int count_up(const folder *it)
{
    incrementer one = {.store = open_in_process(it, &small),
                       .wanted = COUNTS_EACH};

    if (one.store == NULL) {
        return 1;
    }
    incrementer_run(&one);
    tr_storage_close(one.store);
    return one.bad == 0 ? 0 : 2;
}

static void test_processes_share_a_file(void **state)
{
    in_processes(count_up, *state);
    tr_storage *store = open_store(*state);
    assert_counted(store, PROCESSES * COUNTS_EACH);
    tr_storage_close(store);
    assert_intact(*state);
}

static int open_and_close(const folder *it)
{
    tr_storage *store = open_in_process(it, NULL);

    if (store == NULL) {
        return 1;
    }
    tr_storage_close(store);
    return 0;
}

/* The first process makes the tables; the others find them. */
static void test_processes_open_a_new_file_at_once(void **state)
{
    for (int round = 0; round < OPENINGS; round++) {
        folder_clean(*state);
        in_processes(open_and_close, *state);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_states_survive_a_restart),
        IN_FOLDER(test_the_journal_is_bounded_and_folded),
        IN_FOLDER(test_an_idle_store_folds_everything),
        IN_FOLDER(test_ST16_a_damaged_row_is_an_error),
        IN_FOLDER(test_two_stores_see_each_other),
        IN_FOLDER(test_ST12_cached_versions_go_when_another_store_writes),
        IN_FOLDER(test_a_load_puts_its_version_into_the_cache),
        IN_FOLDER(test_processes_open_a_new_file_at_once),
        IN_FOLDER(test_processes_share_a_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
