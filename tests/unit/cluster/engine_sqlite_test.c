/*
 * engine_sqlite_test.c - the engine in a file: what it refuses to open, and
 * that its answers are true whichever file operation or allocation fails.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <troupe/storage.h>

#include "support/fail_world.h"
#include "support/starve.h"
#include "unit/cluster/engine_calls.h"
#include "unit/storage/store_calls.h"

enum { STEPS = 5, POINTS_MAX = 20000, TEXT_SIZE = 512 };

static int setup(void **state)
{
    static folder it;

    *state = &it;
    return folder_make(&it) ? 0 : 1;
}

static int teardown(void **state)
{
    return folder_remove(*state);
}

/* ---- opening ---- */

static void test_a_folder_must_exist(void **state)
{
    char text[TEXT_SIZE];
    tr_engine_options options = {
        .size = sizeof(options), .text = text, .text_size = sizeof(text)};
    tr_engine *engine;
    (void)state;

    assert_int_equal(
        tr_engine_sqlite(&engine, "/no/such/folder/engine", &options),
        TR_ESTORAGE);
    assert_null(engine);
    assert_non_null(strstr(text, "the folder must exist"));
}

static void test_the_file_of_a_store_is_refused(void **state)
{
    const folder *it = *state;
    char text[TEXT_SIZE];
    tr_engine_options options = {
        .size = sizeof(options), .text = text, .text_size = sizeof(text)};
    tr_storage *store;
    tr_engine *engine;

    TR_MUST(tr_storage_sqlite(&store, it->database));
    tr_storage_close(store);
    assert_int_equal(tr_engine_sqlite(&engine, it->database, &options),
                     TR_ESTORAGE);
    assert_non_null(strstr(text, "belongs to another program"));
}

static void test_a_table_outlives_the_engine(void **state)
{
    const folder *it = *state;
    tr_engine *engine;
    uint64_t revision, next = 0;

    TR_MUST(tr_engine_sqlite(&engine, it->database, NULL));
    assert_int_equal(cas_text(engine, "k", 0, "5", NULL), TRI_ENGINE_YES);
    tr_engine_close(engine);
    TR_MUST(tr_engine_sqlite(&engine, it->database, NULL));
    assert_int_equal(read_number(engine, "k", &revision), 5);
    assert_int_equal(cas_text(engine, "j", 0, "6", &next), TRI_ENGINE_YES);
    assert_true(next > revision);
    tr_engine_close(engine);
}

/* ---- failures ---- */

/* What a caller knows of its counter. */
typedef struct known {
    uint64_t least, most;  // increments answered yes; and those unknown
} known;

/* Increments a counter on a world that may fail. */
static void count_up(tri_world *world, const folder *it, known *out)
{
    char text[TEXT_SIZE];
    tr_engine_options options = {.size = sizeof(options),
                                 .world = world,
                                 .text = text,
                                 .text_size = sizeof(text)};
    tr_engine *engine;

    if (tr_engine_sqlite(&engine, it->database, &options) != TR_OK) {
        assert_string_not_equal(text, "");
        return;
    }
    for (int i = 0; i < STEPS; i++) {
        posed read, cas;
        if (read_run(&read, engine, TRI_ENGINE_GET, "sum", 0) !=
            TRI_ENGINE_YES) {
            assert_string_not_equal(read.op.text, "");
            continue;
        }
        tri_engine_row *row = tri_engine_op_row(&read.op);
        uint64_t value = row == NULL ? 0 : *(const unsigned char *)row->value;
        assert_true(value >= out->least && value <= out->most);
        out->least = out->most = value;
        char next[2] = {(char)(value + 1), '\0'};
        tri_engine_answer answer =
            cas_run(&cas, engine, "sum", row == NULL ? 0 : row->revision, next);
        tri_engine_op_fini(&read.op);
        assert_int_not_equal(answer, TRI_ENGINE_NO);
        out->most++;
        out->least += answer == TRI_ENGINE_YES;
    }
    tr_engine_close(engine);
}

/* The counter shows all increments that were answered yes, and no others. */
static void check_sum(tri_world *world, const folder *it, const known *sum)
{
    tr_engine_options options = {.size = sizeof(options), .world = world};
    tr_engine *engine;
    posed read;

    TR_MUST(tr_engine_sqlite(&engine, it->database, &options));
    assert_int_equal(read_run(&read, engine, TRI_ENGINE_GET, "sum", 0),
                     TRI_ENGINE_YES);
    tri_engine_row *row = tri_engine_op_row(&read.op);
    uint64_t value = row == NULL ? 0 : *(const unsigned char *)row->value;
    assert_true(value >= sum->least && value <= sum->most);
    tri_engine_op_fini(&read.op);
    tr_engine_close(engine);
}

static void fail_every(const folder *it, fail_kind kind, uint64_t least)
{
    fail_world *world = fail_world_new(tri_world_posix());
    uint64_t n = 0;
    bool failed;

    do {
        known sum = {0, 0};
        folder_clean(it);
        fail_world_arm(world, ++n, kind);
        count_up(fail_world_of(world), it, &sum);
        failed = fail_world_has_failed(world);
        fail_world_arm(world, 0, kind);
        check_sum(fail_world_of(world), it, &sum);
        assert_true(n < POINTS_MAX);
    } while (failed);
    assert_true(n > least);
    fail_world_free(world);
}

static void test_any_file_operation_may_fail_once(void **state)
{
    fail_every(*state, FAIL_ONCE, 50);
}

static void test_the_disk_may_fail_from_any_operation_on(void **state)
{
    fail_every(*state, FAIL_ON, 50);
}

static void test_any_sync_may_fail(void **state)
{
    fail_every(*state, FAIL_SYNC, 50);
}

static void test_the_thread_may_not_start(void **state)
{
    fail_every(*state, FAIL_CALL, 1);
}

/* Opening allocates on the caller's thread; the rest is SQLite's. */
static void test_any_allocation_of_opening_may_fail(void **state)
{
    const folder *it = *state;
    bool failed;
    int64_t n = 0;

    do {
        char text[TEXT_SIZE];
        tr_engine_options options = {
            .size = sizeof(options), .text = text, .text_size = sizeof(text)};
        tr_engine *engine;
        folder_clean(it);
        starve_arm(n);
        // Later allocations are SQLite's and much alike, and every round
        // syncs: a longer run fails each of them.
        n += n > 20 && test_scale() == 1 ? 1 + n / 8 : 1;
        tr_err err = tr_engine_sqlite(&engine, it->database, &options);
        failed = starve_end();
        assert_true(err == TR_OK || failed);
        tr_engine_close(engine);
    } while (failed);
    assert_true(n > 10 || !STARVE_WORKS);
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_a_folder_must_exist),
        IN_FOLDER(test_the_file_of_a_store_is_refused),
        IN_FOLDER(test_a_table_outlives_the_engine),
        IN_FOLDER(test_any_file_operation_may_fail_once),
        IN_FOLDER(test_the_disk_may_fail_from_any_operation_on),
        IN_FOLDER(test_any_sync_may_fail),
        IN_FOLDER(test_the_thread_may_not_start),
        IN_FOLDER(test_any_allocation_of_opening_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
