/*
 * sim_process_test.c - processes of nodes: killed by the workload, ended in
 * good order, booted again.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "sim/sim.h"
#include "sim/sim_run.h"
#include "unit/sim/adder_program.h"

/* ---- killed nodes ---- */

static tr_err kill_all_and_ask(tr_sim *sim, void *user)
{
    program *it = user;

    for (uint32_t i = 0; i < NODES; i++) {
        tr_sim_kill(sim, i, i == 0 ? 0 : TR_FOREVER);
    }
    tr_sim_kill(sim, 0, 0);
    tr_sim_advance(sim, TR_SECONDS(10));
    assert_non_null(tr_sim_node(sim, 0));
    assert_null(tr_sim_node(sim, 1));
    assert_null(tr_sim_node(sim, NODES));
    tr_err err = tr_ask(tr_sim_node(sim, 0), it->refs[0], NULL, TR_SECONDS(1),
                        Add, .n = 1);
    assert_int_equal(err, TR_OK);
    return TR_OK;
}

static void test_a_workload_kills_nodes(void **state)
{
    (void)state;
    program it = {0};
    tr_sim_options options = options_of(&it);

    options.workload = kill_all_and_ask;
    assert_int_equal(run(options, 1, NULL).err, TR_OK);
    for (uint32_t i = 0; i < NODES; i++) {
        assert_int_equal(it.boots[i], 2);
    }
}

/* ---- nodes that end in good order ---- */

static tr_err await_shutdown(tr_sim *sim, uint32_t index,
                             tr_close_report *report)
{
    tr_err err;

    while ((err = tr_sim_shutdown_report(sim, index, report)) ==
           TR_EWOULDBLOCK) {
        assert_null(tr_sim_node(sim, index));
        tr_sim_advance(sim, TR_MS(1));
    }
    return err;
}

static void closed(void *arg)
{
    ++*(uint32_t *)arg;
}

static tr_err shut_down_and_ask(tr_sim *sim, void *user)
{
    program *it = user;
    uint32_t ends = 0;
    tr_close_report report = {.size = sizeof(report)};

    // No shutdown yet.
    assert_int_equal(tr_sim_shutdown_report(sim, 0, NULL), TR_ESTOPPED);
    for (uint32_t i = 0; i < 2; i++) {
        TR_TRY(tr_system_on_closed(tr_sim_node(sim, i), closed, &ends));
        tr_sim_shutdown(sim, i, TR_SECONDS(2), i == 0 ? 0 : TR_FOREVER);
    }
    tr_sim_shutdown(sim, 0, TR_SECONDS(2),
                    TR_FOREVER);  // is closing already: no effect
    assert_int_equal(await_shutdown(sim, 0, &report), TR_OK);
    assert_int_equal(report.size, sizeof(report));
    assert_int_equal(report.stopped, 1);
    assert_int_equal(report.forced, 0);
    assert_int_equal(await_shutdown(sim, 1, NULL), TR_OK);
    assert_int_equal(ends, 2);
    tr_sim_shutdown(sim, 1, 0, 0);  // is down already: stays down
    assert_int_equal(tr_sim_shutdown_report(sim, 1, NULL), TR_ESTOPPED);
    tr_sim_advance(sim, TR_SECONDS(10));
    assert_null(tr_sim_node(sim, 1));
    report.size = 1;
    assert_int_equal(tr_sim_shutdown_report(sim, 0, &report), TR_EINVAL);
    return tr_ask(tr_sim_node(sim, 0), it->refs[0], NULL, TR_SECONDS(1), Add,
                  .n = 1);
}

static void test_SH9_nodes_end_in_good_order_and_come_back(void **state)
{
    (void)state;
    program it = {0};
    tr_sim_options options = options_of(&it);

    options.workload = shut_down_and_ask;
    assert_int_equal(run(options, 1, NULL).err, TR_OK);
    assert_int_equal(it.boots[0], 2);
    assert_int_equal(it.boots[1], 2);
    assert_int_equal(it.boots[2], 1);
}

/* Actors hang: one is forced to end, the other node is killed before. */
static tr_err shut_down_and_kill(tr_sim *sim, void *user)
{
    program *it = user;
    tr_nanos begun = tr_sim_now(sim);
    tr_close_report report = {.size = sizeof(report)};

    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(
            tr_ask(tr_sim_node(sim, i), it->refs[i], NULL, TR_MS(10), Hang),
            TR_ETIMEDOUT);
        tr_sim_shutdown(sim, i, TR_SECONDS(4), 0);
    }
    tr_sim_advance(sim, TR_SECONDS(1));
    assert_int_equal(tr_sim_shutdown_report(sim, 1, NULL), TR_EWOULDBLOCK);
    tr_sim_kill(sim, 1, 0);
    assert_int_equal(await_shutdown(sim, 1, NULL), TR_ESTOPPED);
    assert_true(tr_sim_now(sim) - begun < TR_SECONDS(2));
    assert_int_equal(await_shutdown(sim, 0, &report), TR_ETIMEDOUT);
    assert_int_equal(report.forced, 1);
    assert_true(tr_sim_now(sim) - begun < TR_SECONDS(6));
    return TR_OK;
}

static void test_SH9_a_node_is_killed_while_it_closes(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        program it = {0};
        tr_sim_options options = options_of(&it);

        options.workload = shut_down_and_kill;
        assert_int_equal(run(options, seed, NULL).err, TR_OK);
        assert_int_equal(it.boots[0], 2);
        assert_int_equal(it.boots[1], 2);
    }
}

/* The next system may be at the same address: it needs a new ledger. */
static tr_err look_for_the_ledger(tr_sim *sim, void *user)
{
    program *it = user;

    for (uint32_t round = 0; round < 2; round++) {
        TR_TRY(tr_ask(tr_sim_node(sim, 0), it->refs[0], NULL, TR_SECONDS(1),
                      Add, .n = 1));
        assert_non_null(sim->mail);
        tr_sim_shutdown(sim, 0, TR_SECONDS(2), TR_SECONDS(1));
        assert_int_equal(await_shutdown(sim, 0, NULL), TR_OK);
        assert_null(sim->mail);
        tr_sim_advance(sim, TR_SECONDS(2));
    }
    return TR_OK;
}

static void test_TE4_mail_of_a_system_ends_with_it(void **state)
{
    (void)state;
    program it = {0};
    tr_sim_options options = options_of(&it);

    options.workload = look_for_the_ledger;
    options.at_end = NULL;
    options.nodes = 1;
    assert_int_equal(run(options, 1, NULL).err, TR_OK);
    assert_int_equal(it.boots[0], 3);
}

static tr_err shut_down_at_the_end(tr_sim *sim, void *user)
{
    (void)user;
    tr_sim_shutdown(sim, 0, TR_SECONDS(2), TR_FOREVER);
    return TR_OK;
}

/* The faults end while the node closes: it boots again at once. */
static void test_SH9_the_last_shutdown_ends_with_the_workload(void **state)
{
    (void)state;
    program it = {0};
    tr_sim_options options = options_of(&it);

    options.workload = shut_down_at_the_end;
    assert_int_equal(run(options, 1, NULL).err, TR_OK);
    assert_int_equal(it.boots[0], 2);
    assert_true(it.saw_end);
}

/* ---- boots that fail ---- */

static tr_err spoil_a_boot(tr_sim *sim, void *user)
{
    program *it = user;

    it->failing_boots = 3;
    tr_sim_kill(sim, 0, TR_MS(1));
    tr_sim_advance(sim, TR_SECONDS(10));
    assert_int_equal(it->failing_boots, 0);
    assert_non_null(tr_sim_node(sim, 0));
    return TR_OK;
}

static void test_a_failed_boot_is_tried_again(void **state)
{
    (void)state;
    program it = {0};
    tr_sim_options options = options_of(&it);

    options.workload = spoil_a_boot;
    assert_int_equal(run(options, 1, NULL).err, TR_OK);
    assert_int_equal(it.boots[0], 2);
}

static void test_a_failed_boot_without_faults_fails_the_run(void **state)
{
    (void)state;
    program it = {.failing_boots = 1};
    char text[TRI_SIM_FAIL_MAX];

    assert_int_equal(run(options_of(&it), 1, text).err, TR_EFAILED);
    assert_non_null(strstr(text, "a node did not come up: TR_EIO"));
    assert_non_null(strstr(text, "; node 0"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_workload_kills_nodes),
        cmocka_unit_test(test_SH9_nodes_end_in_good_order_and_come_back),
        cmocka_unit_test(test_SH9_a_node_is_killed_while_it_closes),
        cmocka_unit_test(test_TE4_mail_of_a_system_ends_with_it),
        cmocka_unit_test(test_SH9_the_last_shutdown_ends_with_the_workload),
        cmocka_unit_test(test_a_failed_boot_is_tried_again),
        cmocka_unit_test(test_a_failed_boot_without_faults_fails_the_run),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
