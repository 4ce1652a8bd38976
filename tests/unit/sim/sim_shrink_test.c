/*
 * sim_shrink_test.c - a failure is reduced to the faults that it needs.
 *
 * The planted bug needs two kills of node 0 and one slow answer, in any order;
 * many other faults strike as well.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include <troupe/troupe.h>

#include "base/text.h"
#include "sim/sim_fault.h"
#include "sim/sim_plan.h"
#include "sim/sim_run.h"
#include "sim/sim_schedule.h"
#include "sim/sim_shrink.h"

enum { NODES = 3, ROUNDS = 60, NEEDED = 3 };

TR_MESSAGE(Pong, (uint64_t, n));
TR_REQUEST(Ping, Pong, (uint64_t, n));

typedef struct program {
    uint32_t boots[NODES];
    uint32_t slow;
} program;

static program the_program;  // there is one run at a time

static tr_err on_ping(tr_ctx *ctx, void *self, const Ping *m)
{
    (void)self;
    if (TR_BUGGIFY(ctx, 0.05)) {
        the_program.slow++;
        TR_TRY(tr_sleep(ctx, TR_MS(20)));
    }
    if (TR_BUGGIFY(ctx, 0.1)) {  // has no part in the failure
        TR_TRY(tr_sleep(ctx, TR_MS(1)));
    }
    return tr_reply(ctx, m, .n = m->n);
}

TR_ACTOR(ponger, void, TR_ON(Ping, on_ping));

static void begin(tr_sim *sim, void *user)
{
    (void)sim;
    memset(user, 0, sizeof(program));
}

static tr_err node(tr_system *sys, uint32_t index, void *user)
{
    program *it = user;

    it->boots[index]++;
    return tr_ref_err(tr_spawn(sys, ponger, .name = "ponger"));
}

static tr_err workload(tr_sim *sim, void *user)
{
    (void)user;
    for (uint64_t i = 0; i < ROUNDS; i++) {
        tr_system *sys = tr_sim_node(sim, (uint32_t)tr_sim_random(sim, NODES));
        Pong pong;
        if (sys == NULL || tr_ask(sys, tr_lookup(sys, "ponger"), &pong,
                                  TR_SECONDS(1), Ping, .n = i) != TR_OK) {
            tr_sim_advance(sim, TR_SECONDS(1));
        }
        tr_sim_advance(sim, TR_MS(200));
    }
    return TR_OK;
}

static tr_err invariant(tr_sim *sim, void *user)
{
    const program *it = user;

    return it->boots[0] >= 3 && it->slow >= 1
               ? tr_sim_fail(sim, "the planted bug, %u boots", it->boots[0])
               : TR_OK;
}

static const tr_sim_options *options(void)
{
    static const tr_faults faults = {.size = sizeof(faults),
                                     .node_kill = 0.01,
                                     .node_pause = 0.01,
                                     .clock_skew = 0.01,
                                     .early_wake = 0.05,
                                     .pause_max = TR_SECONDS(2)};
    static tr_sim_options own;

    own = (tr_sim_options){.size = sizeof(own),
                           .nodes = NODES,
                           .node = node,
                           .workload = workload,
                           .invariant = invariant,
                           .begin = begin,
                           .user = &the_program,
                           .faults = &faults};
    return &own;
}

/* Returns a seed that fails, and its result. */
static tri_sim_plan failing(const tr_sim_options *own, tri_sim_result *result)
{
    tri_sim_plan plan = {.seed = 1, .silent = true, .program = "prog"};

    while (tri_sim_run_plan(own, &plan, result, NULL, NULL) == TR_OK) {
        assert_true(++plan.seed < 100);
    }
    return plan;
}

static void test_TE4_a_failure_shrinks_to_what_it_needs(void **state)
{
    const tr_sim_options *own = options();
    uint32_t kills = 0, sites = 0;
    tri_sim_result result;
    tri_sim_plan plan = failing(own, &result);
    tri_sim_shrunk shrunk;
    (void)state;

    assert_int_equal(tri_sim_shrink(&shrunk, own, &plan, &result), TR_OK);
    assert_true(shrunk.before > 20);
    assert_int_equal(shrunk.faults, NEEDED);
    for (uint32_t i = 0; i < shrunk.schedule.count; i++) {
        const tri_sim_strike *strike = &shrunk.schedule.all[i];
        kills += strike->kept && strike->fault == TRI_FAULT_node_kill;
        sites += strike->kept && strike->fault == TRI_FAULT_COUNT;
    }
    assert_int_equal(kills, 2);
    assert_int_equal(sites, 1);
    assert_true(shrunk.runs <= TRI_SIM_SHRINK_RUNS);
    tri_sim_shrunk_fini(&shrunk);
}

static void test_TE4_a_shrunk_failure_is_one_command(void **state)
{
    const tr_sim_options *own = options();
    char line[512];
    tri_text text;
    tri_sim_result result, again;
    tri_sim_plan plan = failing(own, &result);
    tri_sim_shrunk shrunk;
    (void)state;

    assert_int_equal(tri_sim_shrink(&shrunk, own, &plan, &result), TR_OK);
    tri_text_init(&text, line, sizeof(line));
    tri_sim_plan_text(&shrunk.plan, &text);
    char *faults = strstr(line, " --faults ");
    assert_non_null(strstr(line, " --only "));
    assert_non_null(faults);
    // --faults with the listed numbers repeats the run, to the last step.
    tri_sim_schedule named = {0};
    tri_sim_plan from_text = shrunk.plan;
    from_text.replay = NULL;
    assert_int_equal(tri_sim_keep_faults(&named, own, &from_text,
                                         faults + strlen(" --faults ")),
                     TR_OK);
    assert_int_equal(tri_sim_run_plan(own, &from_text, &again, NULL, NULL),
                     TR_EFAILED);
    assert_int_equal(again.hash, shrunk.result.hash);
    assert_string_equal(again.failure, result.failure);
    tri_sim_schedule_fini(&named);
    tri_sim_shrunk_fini(&shrunk);
}

typedef struct log_of_faults {
    const tri_sim_schedule *schedule;
    uint32_t lines;
} log_of_faults;

/* Each fault of the trace is in the list, with its time and node. */
static void look_up(void *user, const char *line)
{
    log_of_faults *it = user;
    unsigned long long step, seconds, nanos;
    char node_is[16], actor[64], event[16], type[64], detail[256];
    uint32_t found = 0;

    assert_int_equal(sscanf(line, "%llu %llu.%llu %15s %63s %15s %63s %255s",
                            &step, &seconds, &nanos, node_is, actor, event,
                            type, detail),
                     8);
    bool is_site = strcmp(event, "buggify") == 0;
    if (!is_site && strcmp(event, "fault") != 0) {
        return;
    }
    it->lines++;
    for (uint32_t i = 0; i < it->schedule->count; i++) {
        const tri_sim_strike *strike = &it->schedule->all[i];
        char index[16];
        snprintf(index, sizeof(index), "%u", strike->node);
        found += strike->kept &&
                 strcmp(strike->name, is_site ? detail : type) == 0 &&
                 strike->at == (tr_nanos)(seconds * 1000000000 + nanos) &&
                 strcmp(index, node_is) == 0;
    }
    if (found != 1) {
        fail_msg("not in the list: %s", line);
    }
}

static void test_TE4_listed_faults_are_those_of_the_shrunk_run(void **state)
{
    const tr_sim_options *own = options();
    tri_sim_result result, again;
    tri_sim_plan plan = failing(own, &result);
    tri_sim_shrunk shrunk;
    log_of_faults it = {.schedule = &shrunk.schedule};
    tri_sim_strike listed[NEEDED];
    uint32_t count = 0;
    (void)state;

    assert_int_equal(tri_sim_shrink(&shrunk, own, &plan, &result), TR_OK);
    for (uint32_t i = 0; i < shrunk.schedule.count; i++) {
        if (shrunk.schedule.all[i].kept) {
            assert_true(count < NEEDED);
            listed[count++] = shrunk.schedule.all[i];
        }
    }
    shrunk.plan.trace = look_up;
    shrunk.plan.trace_user = &it;
    assert_int_equal(tri_sim_run_plan(own, &shrunk.plan, &again, NULL, NULL),
                     TR_EFAILED);
    assert_int_equal(it.lines, NEEDED);
    // The list that was printed before that run is the same.
    for (uint32_t i = 0, n = 0; i < shrunk.schedule.count; i++) {
        const tri_sim_strike *strike = &shrunk.schedule.all[i];
        if (strike->kept) {
            assert_int_equal(strike->at, listed[n].at);
            assert_int_equal(strike->node, listed[n].node);
            n++;
        }
    }
    tri_sim_shrunk_fini(&shrunk);
}

static void test_TE4_a_replay_of_all_faults_is_the_run(void **state)
{
    const tr_sim_options *own = options();
    tri_sim_schedule schedule = {0};
    tri_sim_result result, again;
    tri_sim_plan plan = failing(own, &result);
    (void)state;

    plan.record = &schedule;
    assert_int_equal(tri_sim_run_plan(own, &plan, &again, NULL, NULL),
                     TR_EFAILED);
    assert_true(schedule.count > 20);
    assert_int_equal(tri_sim_schedule_begin(&schedule), TR_OK);
    plan.record = NULL;
    plan.replay = &schedule;
    assert_int_equal(tri_sim_run_plan(own, &plan, &again, NULL, NULL),
                     TR_EFAILED);
    assert_int_equal(again.hash, result.hash);
    tri_sim_schedule_fini(&schedule);
}

static void test_TE4_unknown_fault_numbers_are_refused(void **state)
{
    const tr_sim_options *own = options();
    static const char *const wrong[] = {"0", "x", "1,,2", "999999", "1x"};
    tri_sim_plan plan = {.seed = 1, .silent = true};
    (void)state;

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        tri_sim_schedule schedule = {0};
        assert_int_equal(tri_sim_keep_faults(&schedule, own, &plan, wrong[i]),
                         TR_EINVAL);
        tri_sim_schedule_fini(&schedule);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_TE4_a_failure_shrinks_to_what_it_needs),
        cmocka_unit_test(test_TE4_a_shrunk_failure_is_one_command),
        cmocka_unit_test(test_TE4_listed_faults_are_those_of_the_shrunk_run),
        cmocka_unit_test(test_TE4_a_replay_of_all_faults_is_the_run),
        cmocka_unit_test(test_TE4_unknown_fault_numbers_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
