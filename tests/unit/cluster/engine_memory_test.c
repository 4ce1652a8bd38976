/*
 * engine_memory_test.c - the engine in memory: names, and allocations that
 * fail; what a simulation does to it is in tests/sim/engine_sim.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <troupe/sim.h>

#include "support/starve.h"
#include "unit/cluster/engine_calls.h"

static void test_other_names_are_other_tables(void **state)
{
    tr_engine *one, *two;
    char rows[ROWS_TEXT];
    (void)state;

    TR_MUST(tr_engine_memory(&one, "one", NULL));
    TR_MUST(tr_engine_memory(&two, "two", NULL));
    assert_int_equal(cas_text(one, "k", 0, "x", NULL), TRI_ENGINE_YES);
    assert_string_equal(rows_text(two, TRI_ENGINE_GET, "k", 0, rows), "");
    tr_engine_close(one);
    tr_engine_close(two);
}

static void test_a_table_ends_with_its_last_engine(void **state)
{
    tr_engine *one, *two;
    char rows[ROWS_TEXT];
    (void)state;

    TR_MUST(tr_engine_memory(&one, "name", NULL));
    TR_MUST(tr_engine_memory(&two, "name", NULL));
    assert_int_equal(cas_text(one, "k", 0, "x", NULL), TRI_ENGINE_YES);
    tr_engine_close(one);
    TR_MUST(tr_engine_memory(&one, "name", NULL));
    assert_string_equal(rows_text(one, TRI_ENGINE_GET, "k", 0, rows), "k=x");
    tr_engine_close(one);
    tr_engine_close(two);
    TR_MUST(tr_engine_memory(&one, "name", NULL));
    assert_string_equal(rows_text(one, TRI_ENGINE_GET, "k", 0, rows), "");
    tr_engine_close(one);
}

static void test_a_simulated_table_outlives_its_engines(void **state)
{
    tr_sim *sim;
    tr_engine *engine;
    char rows[ROWS_TEXT];
    (void)state;

    TR_MUST(tr_sim_new(&sim, 1));
    tr_engine_options options = {.size = sizeof(options),
                                 .world = tr_sim_world(sim)};
    TR_MUST(tr_engine_memory(&engine, "name", &options));
    assert_int_equal(cas_text(engine, "k", 0, "x", NULL), TRI_ENGINE_YES);
    tr_engine_close(engine);
    TR_MUST(tr_engine_memory(&engine, "name", &options));
    assert_string_equal(rows_text(engine, TRI_ENGINE_GET, "k", 0, rows), "k=x");
    tr_engine_close(engine);
    tr_sim_free(sim);
}

static void test_names_and_options_are_checked(void **state)
{
    char text[256];
    tr_engine_options options = {
        .size = sizeof(options), .text = text, .text_size = sizeof(text)};
    tr_engine *engine;
    (void)state;

    assert_int_equal(tr_engine_memory(&engine, "", &options), TR_EINVAL);
    assert_null(engine);
    assert_non_null(strstr(text, "1 to 255 bytes"));
    options.size = 1;
    assert_int_equal(tr_engine_memory(&engine, "name", &options), TR_EINVAL);
}

/* In a simulation the engine's thread is this one, and is starved as well. */
static void test_any_allocation_may_fail(void **state)
{
    bool failed;
    int64_t n = 0;
    (void)state;

    do {
        tr_sim *sim;
        tr_engine *engine;
        char text[256], rows[ROWS_TEXT];
        TR_MUST(tr_sim_new(&sim, 1));
        tr_engine_options options = {.size = sizeof(options),
                                     .world = tr_sim_world(sim),
                                     .text = text,
                                     .text_size = sizeof(text)};
        starve_arm(n++);
        if (tr_engine_memory(&engine, "name", &options) == TR_OK) {
            tri_engine_answer first = cas_text(engine, "a", 0, "x", NULL);
            tri_engine_answer second = cas_text(engine, "b", 0, "y", NULL);
            (void)rows_text(engine, TRI_ENGINE_RANGE, "", 0, rows);
            failed = starve_end();
            // An operation without memory has not happened.
            assert_string_equal(
                rows_text(engine, TRI_ENGINE_RANGE, "", 0, rows),
                first != TRI_ENGINE_YES    ? "b=y"
                : second != TRI_ENGINE_YES ? "a=x"
                                           : "a=x b=y");
            tr_engine_close(engine);
        } else {
            failed = starve_end();
            assert_true(failed);
        }
        tr_sim_free(sim);
    } while (failed);
    assert_true(n > 6 || !STARVE_WORKS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_other_names_are_other_tables),
        cmocka_unit_test(test_a_table_ends_with_its_last_engine),
        cmocka_unit_test(test_a_simulated_table_outlives_its_engines),
        cmocka_unit_test(test_names_and_options_are_checked),
        cmocka_unit_test(test_any_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
