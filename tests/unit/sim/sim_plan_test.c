/*
 * sim_plan_test.c - a plan switches faults off, and is printed as a command.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/text.h"
#include "sim/sim.h"
#include "sim/sim_fault.h"
#include "sim/sim_plan.h"
#include "sim/sim_run.h"
#include "unit/sim/adder_program.h"

static void test_a_plan_switches_faults_off(void **state)
{
    (void)state;
    program it = {0};
    tr_sim_options options = options_of(&it);
    tri_sim_plan plan = {.seed = 3, .silent = true};
    tri_sim_result result;

    options.faults = &rough;
    plan.without[TRI_FAULT_node_kill] = true;
    assert_int_equal(tri_sim_run_plan(&options, &plan, &result, NULL, NULL),
                     TR_OK);
    assert_int_equal(result.faults[TRI_FAULT_node_kill].reached, 0);
    assert_true(result.faults[TRI_FAULT_node_pause].reached > 0);

    plan.fault_steps = 1;
    assert_int_equal(tri_sim_run_plan(&options, &plan, &result, NULL, NULL),
                     TR_OK);
    assert_int_equal(result.faults[TRI_FAULT_node_pause].fired, 0);
}

static void test_a_plan_is_printed_as_a_command(void **state)
{
    (void)state;
    tri_sim_plan plan = {.seed = 7, .program = "prog"};
    char line[TRI_SIM_LINE_MAX];
    tri_text text;

    tri_text_init(&text, line, sizeof(line));
    tri_sim_plan_text(&plan, &text);
    assert_string_equal(line, "prog --seed 7");

    memset(plan.without, true, sizeof(plan.without));
    plan.fault_steps = 12;
    tri_text_init(&text, line, sizeof(line));
    tri_sim_plan_text(&plan, &text);
    assert_string_equal(line, "prog --seed 7 --only buggify --fault-steps 12");

    plan.without[TRI_FAULT_drop] = false;
    plan.without[TRI_FAULT_node_kill] = false;
    plan.fault_steps = 0;
    tri_text_init(&text, line, sizeof(line));
    tri_sim_plan_text(&plan, &text);
    assert_string_equal(line, "prog --seed 7 --only drop,node_kill,buggify");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_plan_switches_faults_off),
        cmocka_unit_test(test_a_plan_is_printed_as_a_command),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
