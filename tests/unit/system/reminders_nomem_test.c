/*
 * reminders_nomem_test.c - reminders come although the n-th allocation fails,
 * for every n: while one is set and delivered, and while the service starts.
 */
#include <stdatomic.h>

#include "unit/system/timepiece.h"

enum { SCENARIO_MAX = 600 };

/* True when the n-th allocation was reached. */
static bool run_without_memory(fixture *f, int64_t n)
{
    seen.rang = 0;
    pass(f, TR_SECONDS(1));  // the service is there
    tri_mem_fail_after(&f->sys->mem, n);
    tr_err err = remind(f, "m", "r", TR_SECONDS(1), 0, 1);
    pass(f, TR_MINUTES(6));
    // Relaxed: one thread.
    bool reached =
        atomic_load_explicit(&f->sys->mem.fail_at, memory_order_relaxed) < 0;
    tri_mem_fail_after(&f->sys->mem, -1);
    pass(f, TR_MINUTES(6));
    if (err == TR_OK) {
        if (seen.rang == 0) {
            fail_msg("it never came, allocation %d", (int)n);
        }
    }
    assert_true(seen.rang <= 2);
    down(f);
    up(f);
    return reached;
}

/*
 * A reminder is stored; the next system's service has no memory at its start.
 * True when the n-th allocation was reached.
 */
static bool start_without_memory(fixture *f, int64_t n)
{
    assert_int_equal(remind(f, "m", "r", TR_SECONDS(30), 0, 1), TR_OK);
    down(f);
    seen.rang = 0;
    up(f);
    tri_mem_fail_after(&f->sys->mem, n);
    pass(f, TR_SECONDS(20));
    // Relaxed: one thread.
    bool reached =
        atomic_load_explicit(&f->sys->mem.fail_at, memory_order_relaxed) < 0;
    tri_mem_fail_after(&f->sys->mem, -1);
    pass(f, TR_MINUTES(12));
    if (seen.rang != 1) {
        fail_msg("it came %d times, allocation %d", seen.rang, (int)n);
    }
    return reached;
}

static void test_ST9_a_service_without_memory_at_its_start(void **state)
{
    if (!TRI_FAULTS) {  // a release build has no hook for this
        skip();
    }
    int64_t n = 0;
    while (start_without_memory(*state, n) && n < SCENARIO_MAX) {
        n++;
    }
    assert_true(n > 3);
}

static void test_the_nth_allocation_fails(void **state)
{
    fixture *f = *state;
    if (!TRI_FAULTS) {  // a release build has no hook for this
        skip();
    }
    int64_t n = 0;
    while (run_without_memory(f, n) && n < SCENARIO_MAX) {
        n++;
    }
    assert_true(n > 10);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, open_all, close_all)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_the_nth_allocation_fails),
        TEST(test_ST9_a_service_without_memory_at_its_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
