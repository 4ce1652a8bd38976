/*
 * storage_sqlite_disk_errors_test.c - the store in a file loses no acknowledged
 * save, whichever file operation fails, and answers no load with a state that
 * a crash could take away.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/fail_world.h"
#include "unit/storage/sqlite_file.h"

#define POINTS_MAX 20000  // more than the file operations of any scenario

/* ---- failing file operations ---- */

#define STEPS 12
#define KEYS  3

static const char *const names[KEYS] = {"a::b/0", "a::b/1", "a::b/2"};

/* What a caller knows about one key. */
typedef struct known {
    uint64_t version;  // the last acknowledged one
    uint64_t maybe;    // a higher one whose outcome is unknown, or 0
} known;

static void note_answer(known *it, const asked *save)
{
    if (save->op.err == TR_OK) {
        it->version = save->op.version;
        it->maybe = 0;
    } else if (save->op.err == TR_EUNKNOWN) {
        it->maybe = save->op.number + 1;
    } else if (save->op.err == TR_EFENCED) {
        // The write of unknown outcome was done.
        assert_true(it->maybe != 0);
        it->version = it->maybe;
        it->maybe = 0;
    } else {
        assert_true(save->op.err == TR_EIO || save->op.err == TR_ESTORAGE);
        assert_string_not_equal(save->op.text, "");
    }
}

/* Saves, loads and folds on a world that may fail. */
static void run_on(tri_world *world, const folder *it, known keys[KEYS])
{
    static const tri_sqlite_limits tiny = {
        .batch = 4,
        .fold_rows = 4,
        .slice = 2,
        .checkpoint_pages = 2,
        .log_pages = 8,
    };
    tr_storage *store;
    tri_sqlite_fault why;
    asked saves[KEYS];
    char texts[KEYS][32], loaded[LOADED_SIZE];

    if (tri_storage_sqlite_open(&store, world, it->database, &tiny, &why) !=
        TR_OK) {
        assert_string_not_equal(why.text, "");
        return;
    }
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < KEYS; i++) {
            snprintf(texts[i], sizeof(texts[i]), "state %llu",
                     (unsigned long long)keys[i].version + 1);
            saves[i] = ask_save(names[i], keys[i].version, texts[i]);
            asked_submit(&saves[i], store);
        }
        for (int i = 0; i < KEYS; i++) {
            asked_wait(&saves[i]);
            note_answer(&keys[i], &saves[i]);
        }
        (void)load_text(store, "a::b/1", loaded);
    }
    tr_storage_close(store);
}

/* All acknowledged saves are there, and no refused one. */
static void check_known(tri_world *world, const folder *it,
                        const known keys[KEYS])
{
    tr_storage *store = open_on(world, it, NULL);

    for (int i = 0; i < KEYS; i++) {
        asked load = ask_for(TR_STORE_LOAD, names[i]);
        char expected[32];
        assert_int_equal(asked_run(&load, store), TR_OK);
        uint64_t version = load.op.version;
        if (version != keys[i].version &&
            (keys[i].maybe == 0 || version != keys[i].maybe)) {
            fail_msg("key %d: version %llu is stored, %llu was acknowledged, "
                     "%llu is unknown",
                     i, (unsigned long long)version,
                     (unsigned long long)keys[i].version,
                     (unsigned long long)keys[i].maybe);
        }
        if (version > 0) {
            snprintf(expected, sizeof(expected), "state %llu",
                     (unsigned long long)version);
            assert_int_equal(load.op.out_size, strlen(expected));
            assert_memory_equal(load.op.out, expected, load.op.out_size);
        }
        tri_store_op_fini(&load.op);
    }
    tr_storage_close(store);
    assert_intact(it);
}

/* Fails the n-th file operation, for every n up to the last one. */
static void fail_every(const folder *it, fail_kind kind)
{
    fail_world *world = fail_world_new(tri_world_posix());
    uint64_t n = 0;
    bool failed;

    do {
        known keys[KEYS] = {{0, 0}};
        folder_clean(it);
        fail_world_arm(world, ++n, kind);
        run_on(fail_world_of(world), it, keys);
        failed = fail_world_has_failed(world);
        fail_world_arm(world, 0, kind);
        // In the same world, whose syncs do not wait: there are many checks.
        check_known(fail_world_of(world), it, keys);
        assert_true(n < POINTS_MAX);
        // Later operations are much alike; a longer run fails every one.
        n += n > 200 && test_scale() == 1 ? n % 7 : 0;
    } while (failed);
    assert_true(n > 50);
    fail_world_free(world);
}

static void test_any_file_operation_may_fail_once(void **state)
{
    fail_every(*state, FAIL_ONCE);
}

static void test_the_disk_may_fail_from_any_operation_on(void **state)
{
    fail_every(*state, FAIL_ON);
}

static void test_any_sync_may_fail(void **state)
{
    fail_every(*state, FAIL_SYNC);
}

/* ---- writes of unknown outcome ---- */

/* Loads what a process would find if this machine crashed now. */
static void load_after_crash(const folder *it, const char *key,
                             char out[LOADED_SIZE])
{
    folder other;
    char wal[sizeof(it->database) + 8], other_wal[sizeof(it->database) + 8];

    assert_true(folder_make(&other));
    snprintf(wal, sizeof(wal), "%s-wal", it->database);
    snprintf(other_wal, sizeof(other_wal), "%s-wal", other.database);
    copy_file(it->database, other.database);
    copy_file(wal, other_wal);
    tr_storage *store = open_store(&other);
    (void)load_text(store, key, out);
    tr_storage_close(store);
    assert_int_equal(folder_remove(&other), 0);
}

/*
 * The n-th operation of a save fails, for every n. If the outcome is unknown,
 * a load tells it, and a crash does not change it.
 */
static void test_ST10_a_load_after_an_unknown_save_survives_a_crash(
    void **state)
{
    const folder *it = *state;
    fail_world *world = fail_world_new(tri_world_posix());
    uint32_t unknown = 0;
    bool failed = true;

    for (uint64_t n = 1; failed; n++) {
        char loaded[LOADED_SIZE], later[LOADED_SIZE];
        folder_clean(it);
        tr_storage *store = open_on(fail_world_of(world), it, NULL);
        assert_int_equal(save_text(store, "a::b/c", 0, "one"), TR_OK);
        fail_world_arm(world, n, FAIL_ONCE);
        tr_err err = save_text(store, "a::b/c", 1, "two");
        failed = fail_world_has_failed(world);
        fail_world_arm(world, 0, FAIL_ONCE);
        if (err == TR_EUNKNOWN) {
            unknown++;
            (void)load_text(store, "a::b/c", loaded);
            load_after_crash(it, "a::b/c", later);
            assert_string_equal(loaded, later);
        }
        tr_storage_close(store);
        assert_true(n < POINTS_MAX);
    }
    assert_true(unknown > 1);
    fail_world_free(world);
}

/* While the disk takes no writes, loads are refused. */
static void test_ST10_loads_are_refused_while_a_commit_is_in_doubt(void **state)
{
    const folder *it = *state;
    fail_world *world = fail_world_new(tri_world_posix());
    tr_storage *store = open_on(fail_world_of(world), it, NULL);

    assert_int_equal(save_text(store, "a::b/c", 0, "one"), TR_OK);
    fail_world_arm(world, 1, FAIL_SYNC);
    assert_int_equal(save_text(store, "a::b/c", 1, "two"), TR_EUNKNOWN);
    asked load = ask_for(TR_STORE_LOAD, "a::b/c");
    assert_int_equal(asked_run(&load, store), TR_ESTORAGE);
    assert_non_null(strstr(load.op.text, "whether an earlier write was done"));
    tri_store_op_fini(&load.op);
    fail_world_arm(world, 0, FAIL_SYNC);
    // The store ends the doubt by itself, without another call.
    char loaded[LOADED_SIZE];
    while (strcmp(load_text(store, "a::b/c", loaded), "TR_ESTORAGE") == 0) {
    }
    char later[LOADED_SIZE];
    load_after_crash(it, "a::b/c", later);
    assert_string_equal(loaded, later);
    assert_true(strcmp(loaded, "1:one") == 0 || strcmp(loaded, "2:two") == 0);
    uint64_t version = loaded[0] == '1' ? 1 : 2;
    assert_int_equal(save_text(store, "a::b/c", version, "other"), TR_OK);
    tr_storage_close(store);
    fail_world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_any_file_operation_may_fail_once),
        IN_FOLDER(test_the_disk_may_fail_from_any_operation_on),
        IN_FOLDER(test_any_sync_may_fail),
        IN_FOLDER(test_ST10_a_load_after_an_unknown_save_survives_a_crash),
        IN_FOLDER(test_ST10_loads_are_refused_while_a_commit_is_in_doubt),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
