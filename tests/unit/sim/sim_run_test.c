/*
 * sim_run_test.c - whole runs: that they pass, how they fail, and that a seed
 * repeats them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "sim/sim.h"
#include "sim/sim_fault.h"
#include "sim/sim_run.h"
#include "unit/sim/adder_program.h"

/* ---- runs that pass ---- */

static void test_a_run_without_faults(void **state)
{
    (void)state;
    program it = {0};
    tri_sim_result result = run(options_of(&it), 1, NULL);

    assert_int_equal(result.err, TR_OK);
    assert_int_equal(it.answered, ROUNDS);
    assert_true(it.saw_end);
    assert_true(it.steps_checked > ROUNDS);
    for (uint32_t i = 0; i < NODES; i++) {
        assert_int_equal(it.boots[i], 1);
    }
}

static void test_nodes_die_and_come_back(void **state)
{
    (void)state;
    uint64_t kills = 0, pauses = 0, skews = 0, boots = 0, unanswered = 0;

    for (uint64_t seed = 0; seed < 40; seed++) {
        program it = {0};
        tr_sim_options options = options_of(&it);
        options.faults = &rough;
        tri_sim_result result = run(options, seed, NULL);
        assert_int_equal(result.err, TR_OK);
        assert_true(it.saw_end);
        kills += result.faults[TRI_FAULT_node_kill].fired;
        pauses += result.faults[TRI_FAULT_node_pause].fired;
        skews += result.faults[TRI_FAULT_clock_skew].fired;
        boots += it.boots[0] + it.boots[1] + it.boots[2];
        unanswered += it.unanswered;
    }
    assert_true(kills > 20);
    assert_true(pauses > 20);
    assert_true(skews > 20);
    assert_true(boots > 40 * NODES);
    assert_true(unanswered > 0);
}

static void test_rough_runs_replay(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        program one = {0}, two = {0};
        tr_sim_options options = options_of(&one);
        options.faults = &rough;
        tri_sim_result first = run(options, seed, NULL);
        options.user = &two;
        tri_sim_result again = run(options, seed, NULL);
        assert_int_equal(first.hash, again.hash);
        assert_int_equal(first.steps, again.steps);
        assert_int_equal(one.answered, two.answered);
    }
}

/* ---- runs that fail ---- */

static void test_a_broken_invariant_ends_the_run(void **state)
{
    (void)state;
    program it = {.fail_at = 100};
    char text[TRI_SIM_FAIL_MAX];
    tri_sim_result result = run(options_of(&it), 1, text);

    assert_int_equal(result.err, TR_EFAILED);
    assert_in_range(result.steps, 100, 110);
    assert_string_equal(text, "planted at 1");
    assert_false(it.saw_end);
}

static tr_err returns_an_error(tr_sim *sim, void *user)
{
    (void)sim;
    (void)user;
    return TR_EIO;
}

static void test_an_error_of_the_workload_fails_the_run(void **state)
{
    (void)state;
    program it = {0};
    tr_sim_options options = options_of(&it);
    char text[TRI_SIM_FAIL_MAX];

    options.workload = returns_an_error;
    assert_int_equal(run(options, 1, text).err, TR_EFAILED);
    assert_non_null(strstr(text, "the workload: TR_EIO"));
    assert_null(strchr(text, ';'));  // no text, not even one of another thread
}

/* Makes an error text in another thread than the workload. */
static void errs(void *sys)
{
    (void)tr_lookup(sys, "");
}

static tr_err others_err(tr_sim *sim, void *user)
{
    tr_system *sys = tr_sim_node(sim, 0);
    tr_thread *thread;
    (void)user;

    TR_TRY(tr_thread_start(sys, &thread, errs, sys));
    tr_thread_join(sys, thread);
    return TR_EINVAL;
}

static tr_err asks_too_short(tr_sim *sim, void *user)
{
    program *it = user;

    return tr_ask(tr_sim_node(sim, 0), it->refs[0], NULL, TR_MS(5), Hang);
}

static void test_TE5_a_failure_has_the_text_of_its_thread(void **state)
{
    (void)state;
    program it = {0};
    tr_sim_options options = options_of(&it);
    char text[TRI_SIM_FAIL_MAX];

    options.workload = asks_too_short;
    assert_int_equal(run(options, 1, text).err, TR_EFAILED);
    assert_non_null(strstr(text, "the workload: TR_ETIMEDOUT"));
    assert_non_null(strstr(text, "; Hang of /user/"));
    options.workload = others_err;
    assert_int_equal(run(options, 1, text).err, TR_EFAILED);
    assert_string_equal(text, "the workload: TR_EINVAL (invalid argument)");
}

static tr_err boots_badly(tr_system *sys, uint32_t index, void *user)
{
    (void)user;
    return index == 1 ? tr_ref_err(tr_lookup(sys, "nobody/here")) : TR_OK;
}

static void test_TE5_a_failed_boot_is_reported_with_its_reason(void **state)
{
    (void)state;
    program it = {0};
    tr_sim_options options = options_of(&it);
    char text[TRI_SIM_FAIL_MAX];

    options.node = boots_badly;
    assert_int_equal(run(options, 1, text).err, TR_EFAILED);
    assert_non_null(strstr(text, "a node did not come up: TR_ENOENT"));
    assert_non_null(strstr(text, "; node 1: no actor has the path"));
}

static tr_err asks_for_ever(tr_sim *sim, void *user)
{
    program *it = user;

    return tr_ask(tr_sim_node(sim, 0), it->refs[0], NULL, TR_FOREVER, Hang);
}

static void test_a_deadlock_is_found(void **state)
{
    (void)state;
    program it = {0};
    tr_sim_options options = options_of(&it);
    char text[TRI_SIM_FAIL_MAX];

    options.workload = asks_for_ever;
    assert_int_equal(run(options, 1, text).err, TR_EFAILED);
    assert_non_null(strstr(text, "nothing is left to do"));
}

static tr_err sleeps_for_days(tr_sim *sim, void *user)
{
    (void)user;
    for (int i = 0; i < 1000; i++) {
        tr_sim_advance(sim, TR_MINUTES(1));
    }
    return TR_OK;
}

static void test_a_run_ends_at_its_limit(void **state)
{
    (void)state;
    program it = {0};
    tr_sim_options options = options_of(&it);
    char text[TRI_SIM_FAIL_MAX];

    options.workload = sleeps_for_days;
    options.limit = TR_MINUTES(5);
    tri_sim_result result = run(options, 1, text);
    assert_int_equal(result.err, TR_EFAILED);
    assert_in_range(result.time, TR_MINUTES(5), TR_MINUTES(5) + TR_MS(1));
    assert_non_null(strstr(text, "the workload: has not ended within"));
    assert_non_null(strstr(text, "limit of 300 s; tr_sim_options.limit"));
}

static void test_wrong_options_are_refused(void **state)
{
    (void)state;
    program it = {0};
    tr_sim_options options = options_of(&it);

    options.nodes = TRI_SIM_NODES_MAX + 1;
    assert_int_equal(tr_sim_run(&options), TR_EINVAL);
    options.size = 0;
    assert_int_equal(tr_sim_run(&options), TR_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_run_without_faults),
        cmocka_unit_test(test_nodes_die_and_come_back),
        cmocka_unit_test(test_rough_runs_replay),
        cmocka_unit_test(test_a_broken_invariant_ends_the_run),
        cmocka_unit_test(test_an_error_of_the_workload_fails_the_run),
        cmocka_unit_test(test_TE5_a_failure_has_the_text_of_its_thread),
        cmocka_unit_test(test_TE5_a_failed_boot_is_reported_with_its_reason),
        cmocka_unit_test(test_a_deadlock_is_found),
        cmocka_unit_test(test_a_run_ends_at_its_limit),
        cmocka_unit_test(test_wrong_options_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
