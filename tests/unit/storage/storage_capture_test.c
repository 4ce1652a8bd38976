/*
 * storage_capture_test.c - the capturing store records all calls and injects
 * errors.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "unit/storage/store_calls.h"

typedef struct fixture {
    tr_storage *inner;
    tr_storage *capture;
} fixture;

static int open_both(void **state)
{
    fixture *it = calloc(1, sizeof(*it));

    *state = it;
    return it != NULL && tr_storage_memory(&it->inner) == TR_OK &&
                   tr_storage_capture(&it->capture, it->inner) == TR_OK
               ? 0
               : -1;
}

static int close_both(void **state)
{
    fixture *it = *state;

    tr_storage_close(it->capture);
    tr_storage_close(it->inner);
    free(it);
    return 0;
}

static void test_TE13_calls_are_captured(void **state)
{
    fixture *it = *state;
    tr_captured seen;
    const tri_store_bytes events[] = {bytes_of("ab"), bytes_of("c")};
    asked append = ask_for(TR_STORE_APPEND, "a::b/log");

    assert_false(tr_storage_captured(it->capture, 0, &seen));
    assert_int_equal(save_text(it->capture, "a::b/c", 0, "state"), TR_OK);
    assert_stored(it->capture, "a::b/c", "1:state");
    assert_int_equal(save_text(it->capture, "a::b/c", 5, "no"), TR_EFENCED);
    append.op.events = events;
    append.op.event_count = 2;
    assert_int_equal(asked_run(&append, it->capture), TR_OK);

    assert_int_equal(tr_storage_captured_count(it->capture), 4);
    assert_true(tr_storage_captured(it->capture, 0, &seen));
    assert_int_equal(seen.call, TR_STORE_SAVE);
    assert_string_equal(seen.key, "a::b/c");
    assert_int_equal(seen.size, 5);
    assert_memory_equal(seen.bytes, "state", 5);
    assert_int_equal(seen.err, TR_OK);
    assert_true(tr_storage_captured(it->capture, 1, &seen));
    assert_int_equal(seen.call, TR_STORE_LOAD);
    assert_true(tr_storage_captured(it->capture, 2, &seen));
    assert_int_equal(seen.version, 5);
    assert_int_equal(seen.err, TR_EFENCED);
    assert_true(tr_storage_captured(it->capture, 3, &seen));
    assert_int_equal(seen.size, 3);
    assert_memory_equal(seen.bytes, "abc", 3);
    assert_false(tr_storage_captured(it->capture, 4, &seen));
}

static void test_ST13_calls_reach_the_inner_store(void **state)
{
    fixture *it = *state;

    assert_int_equal(save_text(it->capture, "a::b/c", 0, "state"), TR_OK);
    assert_stored(it->inner, "a::b/c", "1:state");
}

static void test_only_the_nth_call_fails(void **state)
{
    fixture *it = *state;
    asked save = ask_save("a::b/c", 0, "x");
    tr_captured seen;

    tr_storage_fail_nth(it->capture, 2, TR_EIO);
    assert_stored(it->capture, "a::b/c", "none");
    assert_int_equal(asked_run(&save, it->capture), TR_EIO);
    assert_string_equal(save.op.text, "OperationFailed(Simulated failure)");
    assert_stored(it->inner, "a::b/c", "none");
    assert_true(tr_storage_captured(it->capture, 1, &seen));
    assert_int_equal(seen.err, TR_EIO);
    // ST6: the store does not retry; its caller may.
    assert_int_equal(asked_run(&save, it->capture), TR_OK);
    assert_int_equal(tr_storage_captured_count(it->capture), 3);
}

static void test_an_injected_unknown_outcome_is_carried_out(void **state)
{
    fixture *it = *state;

    tr_storage_fail_nth(it->capture, 1, TR_EUNKNOWN);
    assert_int_equal(save_text(it->capture, "a::b/c", 0, "x"), TR_EUNKNOWN);
    assert_stored(it->capture, "a::b/c", "1:x");
    // A load of unknown outcome answers without a state, and leaks nothing.
    tr_storage_fail_nth(it->capture, 1, TR_EUNKNOWN);
    assert_stored(it->capture, "a::b/c", "TR_EUNKNOWN");
}

#define SAVES 2000

/* failed[i]: save i failed. Returns how many did. */
static uint32_t run_saves(tr_storage *store, uint64_t seed, bool failed[SAVES])
{
    uint32_t count = 0;
    uint64_t version = 0;
    asked delete = ask_for(TR_STORE_DELETE, "a::b/c");

    tr_storage_fail_saves(store, 0.1, seed);
    for (uint32_t i = 0; i < SAVES; i++) {
        tr_err err = save_text(store, "a::b/c", version, "x");
        failed[i] = err == TR_ESTORAGE;
        count += failed[i];
        version += err == TR_OK;
    }
    delete.op.number = version;
    assert_int_equal(asked_run(&delete, store), TR_OK);
    return count;
}

static void test_ST17_saves_fail_as_the_seed_says(void **state)
{
    fixture *it = *state;
    static bool first[SAVES], again[SAVES], other[SAVES];

    uint32_t count = run_saves(it->capture, 7, first);
    assert_in_range(count, SAVES / 20, SAVES / 5);
    assert_int_equal(run_saves(it->capture, 7, again), count);
    assert_memory_equal(first, again, sizeof(first));
    (void)run_saves(it->capture, 8, other);
    assert_memory_not_equal(first, other, sizeof(first));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_TE13_calls_are_captured, open_both,
                                        close_both),
        cmocka_unit_test_setup_teardown(test_ST13_calls_reach_the_inner_store,
                                        open_both, close_both),
        cmocka_unit_test_setup_teardown(test_only_the_nth_call_fails, open_both,
                                        close_both),
        cmocka_unit_test_setup_teardown(
            test_an_injected_unknown_outcome_is_carried_out, open_both,
            close_both),
        cmocka_unit_test_setup_teardown(test_ST17_saves_fail_as_the_seed_says,
                                        open_both, close_both),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
