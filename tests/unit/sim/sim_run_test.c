/*
 * sim_run_test.c - whole runs: nodes that die and come back, how a run fails,
 * and that a plan repeats it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include <troupe/troupe.h>

#include "sim/sim_run.h"

enum { NODES = 3, ROUNDS = 40 };

TR_MESSAGE(Total, (uint64_t, sum));
TR_REQUEST(Add, Total, (uint64_t, n));
TR_REQUEST(Hang, Total);

typedef struct Adder {
    uint64_t sum;
} Adder;

static tr_err on_add(tr_ctx *ctx, Adder *self, const Add *m)
{
    self->sum += m->n;
    if (TR_BUGGIFY(ctx, 0.1)) {
        TR_TRY(tr_sleep(ctx, TR_MS(20)));
    }
    return tr_reply(ctx, m, .sum = self->sum);
}

static tr_err on_hang(tr_ctx *ctx, Adder *self, const Hang *m)
{
    (void)self;
    (void)m;
    return tr_sleep(ctx, TR_FOREVER);
}

TR_ACTOR(adder, Adder, TR_ON(Add, on_add), TR_ON(Hang, on_hang));

typedef struct program {
    tr_ref refs[NODES];
    uint32_t boots[NODES];
    uint32_t failing_boots;  // so many boots of node 0 fail
    uint32_t answered, unanswered;
    uint64_t steps_checked;
    uint64_t fail_at;  // the invariant breaks at this step; 0: never
    bool saw_end;
} program;

static tr_err node(tr_system *sys, uint32_t index, void *user)
{
    program *it = user;

    if (index == 0 && it->failing_boots > 0) {
        it->failing_boots--;
        return TR_EIO;
    }
    it->boots[index]++;
    it->refs[index] = tr_spawn(sys, adder, TR_INIT(adder));
    return TR_OK;
}

static tr_err workload(tr_sim *sim, void *user)
{
    program *it = user;

    for (uint32_t i = 0; i < ROUNDS; i++) {
        uint32_t index = (uint32_t)tr_sim_random(sim, NODES);
        tr_sim_advance(sim, TR_MS(50));
        tr_system *sys = tr_sim_node(sim, index);
        if (sys == NULL) {
            continue;
        }
        tr_err err =
            tr_ask(sys, it->refs[index], NULL, TR_SECONDS(1), Add, .n = 1);
        it->answered += err == TR_OK;
        it->unanswered += err != TR_OK;
    }
    return TR_OK;
}

static tr_err invariant(tr_sim *sim, void *user)
{
    program *it = user;

    it->steps_checked++;
    if (it->fail_at > 0 && tr_sim_steps(sim) >= it->fail_at) {
        return tr_sim_fail(sim, "planted at %d", 1);
    }
    return TR_OK;
}

static tr_err at_end(tr_sim *sim, void *user)
{
    program *it = user;

    it->saw_end = true;
    for (uint32_t i = 0; i < NODES; i++) {
        tr_system *sys = tr_sim_node(sim, i);
        if (sys == NULL) {
            return tr_sim_fail(sim, "node %u is down", i);
        }
        TR_TRY(tr_ask(sys, it->refs[i], NULL, TR_SECONDS(1), Add, .n = 1));
    }
    return TR_OK;
}

static tr_sim_options options_of(program *it)
{
    return (tr_sim_options){.size = sizeof(tr_sim_options),
                            .nodes = NODES,
                            .node = node,
                            .workload = workload,
                            .invariant = invariant,
                            .at_end = at_end,
                            .user = it};
}

static void keep_text(tr_sim *sim, void *user)
{
    memcpy(user, sim->fail_text, TRI_SIM_FAIL_MAX);
}

/* Runs in silence; the text of the failure is stored. */
static tri_sim_result run(tr_sim_options options, uint64_t seed, char *text)
{
    tri_sim_plan plan = {.seed = seed, .silent = true};
    tri_sim_result result;
    char unused[TRI_SIM_FAIL_MAX];

    (void)tri_sim_run_plan(&options, &plan, &result, keep_text,
                           text != NULL ? text : unused);
    return result;
}

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

static const tr_faults rough = {.size = sizeof(rough),
                                .node_kill = 0.005,
                                .node_pause = 0.005,
                                .clock_skew = 0.005,
                                .early_wake = 0.05,
                                .pause_max = TR_SECONDS(1)};

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

    // There was none yet.
    assert_int_equal(tr_sim_shutdown_report(sim, 0, NULL), TR_ESTOPPED);
    for (uint32_t i = 0; i < 2; i++) {
        TR_TRY(tr_system_on_closed(tr_sim_node(sim, i), closed, &ends));
        tr_sim_shutdown(sim, i, TR_SECONDS(2), i == 0 ? 0 : TR_FOREVER);
    }
    tr_sim_shutdown(sim, 0, TR_SECONDS(2), TR_FOREVER);  // it does already
    assert_int_equal(await_shutdown(sim, 0, &report), TR_OK);
    assert_int_equal(report.size, sizeof(report));
    assert_int_equal(report.stopped, 1);
    assert_int_equal(report.forced, 0);
    assert_int_equal(await_shutdown(sim, 1, NULL), TR_OK);
    assert_int_equal(ends, 2);
    tr_sim_shutdown(sim, 1, 0, 0);  // it is down, and stays so
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

/* An actor hangs: it is forced out, or the node is killed before. */
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

/* The next system may be at the same address: it must not have the ledger. */
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

/* The faults end while it closes: it comes up without delay. */
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

static void test_a_spoilt_boot_is_tried_again(void **state)
{
    (void)state;
    program it = {0};
    tr_sim_options options = options_of(&it);

    options.workload = spoil_a_boot;
    assert_int_equal(run(options, 1, NULL).err, TR_OK);
    assert_int_equal(it.boots[0], 2);
}

static void test_a_boot_must_not_fail_in_a_calm_world(void **state)
{
    (void)state;
    program it = {.failing_boots = 1};
    char text[TRI_SIM_FAIL_MAX];

    assert_int_equal(run(options_of(&it), 1, text).err, TR_EFAILED);
    assert_non_null(strstr(text, "a node did not come up: TR_EIO"));
    assert_non_null(strstr(text, "; node 0"));
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

static void test_an_error_of_the_workload_is_told(void **state)
{
    (void)state;
    program it = {0};
    tr_sim_options options = options_of(&it);
    char text[TRI_SIM_FAIL_MAX];

    options.workload = returns_an_error;
    assert_int_equal(run(options, 1, text).err, TR_EFAILED);
    assert_non_null(strstr(text, "the workload: TR_EIO"));
    assert_null(strchr(text, ';'));  // it has got no text, and no other's
}

/* Another thread of the world, whose errors are not the workload's. */
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

static void test_TE5_a_node_that_stays_down_says_why(void **state)
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

static void test_the_limit_holds(void **state)
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

/* ---- plans ---- */

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

static void test_a_plan_is_told_as_a_command(void **state)
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

/* ---- the command line ---- */

static int main_with(tr_sim_options *options, const char *a, const char *b,
                     const char *c)
{
    char copies[4][32] = {"prog"};
    char *argv[5] = {copies[0]};
    const char *given[] = {a, b, c};
    int argc = 1;

    for (int i = 0; i < 3 && given[i] != NULL; i++, argc++) {
        strncpy(copies[argc], given[i], sizeof(copies[argc]) - 1);
        argv[argc] = copies[argc];
    }
    return tr_sim_main(argc, argv, options);
}

static void test_the_command_line(void **state)
{
    (void)state;
    program it = {0};
    tr_sim_options options = options_of(&it);

    options.faults = &rough;
    assert_int_equal(main_with(&options, NULL, NULL, NULL), 0);
    assert_int_equal(main_with(&options, "--seed", "12", NULL), 0);
    assert_int_equal(main_with(&options, "--seeds", "3", NULL), 0);
    assert_int_equal(main_with(&options, "--only", "node_kill", NULL), 0);
    assert_int_equal(main_with(&options, "--only", "none", NULL), 0);
    assert_int_equal(main_with(&options, "--only", "drop,buggify", NULL), 0);
    assert_int_equal(main_with(&options, "--only", "nonsense", NULL), 2);
    assert_int_equal(main_with(&options, "--seed", NULL, NULL), 2);
    assert_int_equal(main_with(&options, "--seed", "x", NULL), 2);
    assert_int_equal(main_with(&options, "--seeds", "0", NULL), 2);
    assert_int_equal(main_with(&options, "--sed", "7", NULL), 2);
    assert_int_equal(main_with(&options, "--help", NULL, NULL), 0);
    assert_int_equal(main_with(&options, "--what", NULL, NULL), 2);
    it.fail_at = 100;
    assert_int_equal(main_with(&options, "--seed", "1", "--shrink"), 1);
}

/* ---- buggify ---- */

/* Whether each of the files has sites, and all of them have fired. */
static void keep_sites(tr_sim *sim, void *user)
{
    static const char *const files[] = {"core/turn.c", "core/scheduler.c",
                                        "system/system.c"};
    uint32_t *fired = user;
    tr_sim_count sites[64];
    uint32_t count = tr_sim_sites(sim, sites, 64);

    for (uint32_t i = 0; i < count && i < 64; i++) {
        for (uint32_t k = 0; k < 3; k++) {
            if (strstr(sites[i].name, files[k]) != NULL) {
                fired[k] += sites[i].fired > 0;
            }
        }
    }
}

static void test_TE4_the_sites_of_the_library_fire(void **state)
{
    program it = {0};
    tr_sim_options options = options_of(&it);
    uint32_t fired[3] = {0};

    (void)state;
    options.faults = &rough;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        tri_sim_plan plan = {.seed = seed};
        tri_sim_result result;
        it = (program){0};
        assert_int_equal(
            tri_sim_run_plan(&options, &plan, &result, keep_sites, fired),
            TR_OK);
    }
    for (uint32_t k = 0; k < 3; k++) {
        assert_true(fired[k] > 0);
    }
    // And never where they are switched off.
    memset(fired, 0, sizeof(fired));
    tri_sim_plan plan = {.seed = 1, .without_buggify = true};
    tri_sim_result result;
    assert_int_equal(
        tri_sim_run_plan(&options, &plan, &result, keep_sites, fired), TR_OK);
    assert_int_equal(fired[0] + fired[1] + fired[2], 0);
}

static void test_nothing_is_buggified_outside(void **state)
{
    (void)state;
    tr_system *sys;

    assert_int_equal(tr_system_open(&sys), TR_OK);
    for (int i = 0; i < 100; i++) {
        assert_false(TR_BUGGIFY(sys, 1.0));
    }
    assert_int_equal(tr_system_close(sys, 0), TR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_run_without_faults),
        cmocka_unit_test(test_nodes_die_and_come_back),
        cmocka_unit_test(test_rough_runs_replay),
        cmocka_unit_test(test_a_workload_kills_nodes),
        cmocka_unit_test(test_SH9_nodes_end_in_good_order_and_come_back),
        cmocka_unit_test(test_SH9_a_node_is_killed_while_it_closes),
        cmocka_unit_test(test_TE4_mail_of_a_system_ends_with_it),
        cmocka_unit_test(test_SH9_the_last_shutdown_ends_with_the_workload),
        cmocka_unit_test(test_a_spoilt_boot_is_tried_again),
        cmocka_unit_test(test_a_boot_must_not_fail_in_a_calm_world),
        cmocka_unit_test(test_a_broken_invariant_ends_the_run),
        cmocka_unit_test(test_an_error_of_the_workload_is_told),
        cmocka_unit_test(test_TE5_a_failure_has_the_text_of_its_thread),
        cmocka_unit_test(test_TE5_a_node_that_stays_down_says_why),
        cmocka_unit_test(test_a_deadlock_is_found),
        cmocka_unit_test(test_the_limit_holds),
        cmocka_unit_test(test_a_plan_switches_faults_off),
        cmocka_unit_test(test_a_plan_is_told_as_a_command),
        cmocka_unit_test(test_wrong_options_are_refused),
        cmocka_unit_test(test_the_command_line),
        cmocka_unit_test(test_TE4_the_sites_of_the_library_fire),
        cmocka_unit_test(test_nothing_is_buggified_outside),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
