/*
 * sim_fault_test.c - the counters of fault classes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <troupe/sim.h>

#include "sim/sim_fault.h"
#include "support/toy_world.h"

static void test_fault_classes_are_listed(void **state)
{
    (void)state;
    tr_sim *sim = sim_of(1);
    tr_sim_count counts[TRI_SIM_COUNTERS];

    assert_int_equal(tr_sim_faults(sim, counts, TRI_SIM_COUNTERS),
                     TRI_SIM_COUNTERS);
    assert_string_equal(counts[TRI_FAULT_torn_write].name, "torn_write");
    tr_sim_free(sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fault_classes_are_listed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
