/*
 * sim_trace_test.c - the event log: its columns, what is in them, and that a
 * replay writes the same log, byte for byte.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <troupe/troupe.h>

#include "sim/sim.h"
#include "sim/sim_plan.h"
#include "sim/sim_run.h"
#include "sim/sim_trace.h"
#include "support/toy_world.h"

enum { LINES_MAX = 4096 };

TR_MESSAGE(Pong, (uint64_t, n));
TR_REQUEST(Ping, Pong, (uint64_t, n));
TR_MESSAGE(Lost, (uint64_t, n));
TR_REQUEST(Work, Pong);

static tr_err on_ping(tr_ctx *ctx, void *self, const Ping *m)
{
    (void)self;
    if (TR_BUGGIFY(ctx, 0.5)) {
        tr_log(ctx, TR_LOG_WARN, "a slow one");
        TR_TRY(tr_sleep(ctx, TR_MS(20)));
    }
    tr_tell(ctx, tr_self(ctx), Lost, .n = m->n);  // has no handler
    return tr_reply(ctx, m, .n = m->n);
}

TR_ACTOR(ponger, void, TR_ON(Ping, on_ping));

/* Keeps its request, asks another actor, then answers with an error. */
static tr_err on_work(tr_ctx *ctx, void *self, const Work *m)
{
    const Work *kept = tr_keep(ctx, m);
    (void)self;
    TR_TRY(tr_ask(ctx, tr_lookup(ctx, "/user/ponger"), NULL, 0, Ping));
    TR_TRY(tr_refuse(ctx, kept, TR_EEXIST, "enough"));
    tr_release(ctx, kept);
    return TR_OK;
}

TR_ACTOR(worker, void, TR_ON(Work, on_work));

static tr_err node(tr_system *sys, uint32_t index, void *user)
{
    (void)index;
    (void)user;
    TR_TRY(tr_ref_err(tr_spawn(sys, worker, .name = "worker")));
    return tr_ref_err(tr_spawn(sys, ponger, .name = "ponger"));
}

static tr_err workload(tr_sim *sim, void *user)
{
    (void)user;
    tr_sim_kill(sim, 1, TR_SECONDS(1));
    for (uint64_t i = 0; i < 5; i++) {
        tr_system *sys = tr_sim_node(sim, 0);
        TR_TRY(tr_ask(sys, tr_lookup(sys, "ponger"), NULL, 0, Ping, .n = i));
        assert_int_equal(tr_ask(sys, tr_lookup(sys, "worker"), NULL, 0, Work),
                         TR_EEXIST);
        tr_sim_advance(sim, TR_SECONDS(1));
    }
    return tr_sim_fail(sim, "it fails");
}

typedef struct kept {
    uint32_t count;
    char *lines[LINES_MAX];
} kept;

static void keep(void *user, const char *line)
{
    kept *it = user;
    assert_true(it->count < LINES_MAX);
    it->lines[it->count++] = strdup(line);
}

static void drop(kept *it)
{
    while (it->count > 0) {
        free(it->lines[--it->count]);
    }
}

static void run(kept *it)
{
    tri_sim_plan plan = {
        .seed = 3, .silent = true, .trace = keep, .trace_user = it};
    tri_sim_result result;
    tr_err err = tri_sim_run_plan(
        TR_OPTIONS(
            tr_sim_options, .nodes = 2, .node = node, .workload = workload,
            .faults = TR_OPTIONS(tr_faults, .early_wake = 0.2,
                                 .node_pause = 0.05, .pause_max = TR_MS(1))),
        &plan, &result, NULL, NULL);
    assert_int_equal(err, TR_EFAILED);
}

typedef struct columns {
    uint64_t step;
    long long seconds, nanos;
    char node[16], actor[128], event[16], type[40], detail[256];
} columns;

static columns parse(const char *line)
{
    columns c = {0};
    int got = sscanf(line, "%ju %lld.%9lld %15s %127s %15s %39s %255[^\n]",
                     (uintmax_t *)&c.step, &c.seconds, &c.nanos, c.node,
                     c.actor, c.event, c.type, c.detail);
    if (got != 8) {
        fail_msg("%d columns: %s", got, line);
    }
    return c;
}

static void test_TE5_every_line_has_the_columns(void **state)
{
    static const char *const events[] = {
        "step", "thread", "time", "timers", "world", "fault",   "buggify",
        "node", "handle", "dead", "reply",  "log",   "callback"};
    kept it = {0};
    long long last = 0;
    uint64_t last_step = 0;
    (void)state;

    run(&it);
    assert_true(it.count > 20);
    for (uint32_t i = 0; i < it.count; i++) {
        columns c = parse(it.lines[i]);
        bool known = false;
        for (size_t e = 0; e < sizeof(events) / sizeof(events[0]); e++) {
            known = known || strcmp(c.event, events[e]) == 0;
        }
        if (!known) {
            fail_msg("an unknown event: %s", it.lines[i]);
        }
        long long at = c.seconds * 1000000000 + c.nanos;
        assert_true(at >= last);
        assert_true(c.step >= last_step);
        last = at;
        last_step = c.step;
    }
    drop(&it);
}

/* Counts the lines with these columns; NULL matches anything. */
static uint32_t count(const kept *it, const char *node_is, const char *actor,
                      const char *event, const char *type, const char *detail)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < it->count; i++) {
        columns c = parse(it->lines[i]);
        found += (node_is == NULL || strcmp(c.node, node_is) == 0) &&
                 (actor == NULL || strcmp(c.actor, actor) == 0) &&
                 strcmp(c.event, event) == 0 &&
                 (type == NULL || strcmp(c.type, type) == 0) &&
                 (detail == NULL || strstr(c.detail, detail) != NULL);
    }
    return found;
}

static void test_TE5_events_have_actor_and_type(void **state)
{
    kept it = {0};
    (void)state;

    run(&it);
    assert_int_equal(count(&it, "0", "/user/ponger", "handle", "Ping", NULL),
                     10);
    assert_int_equal(
        count(&it, "0", "/user/ponger", "dead", "Lost", "from /user/ponger"),
        10);
    // Replies to an actor, to an outside thread, and to a kept request.
    assert_int_equal(
        count(&it, "0", "/user/ponger", "reply", "Pong", "to /user/worker"), 5);
    assert_int_equal(count(&it, "0", "/user/ponger", "reply", "Pong", "to "),
                     10);
    assert_int_equal(
        count(&it, "0", "/user/worker", "reply", "error", "TR_EEXIST"), 5);
    assert_true(count(&it, "0", "/user/ponger", "log", "WARN", "a slow one") >
                0);
    assert_true(count(&it, "0", "/user/ponger", "buggify", "-",
                      "sim_trace_test.c") > 0);
    assert_int_equal(count(&it, "-", NULL, "buggify", NULL, NULL), 0);
    assert_true(count(&it, NULL, "-", "fault", "node_pause", "-") > 0);
    assert_int_equal(count(&it, "-", NULL, "fault", "node_pause", NULL), 0);
    assert_true(count(&it, NULL, "-", "fault", "early_wake", "-") > 0);
    assert_int_equal(count(&it, "1", "-", "node", "-", "down"), 1);
    assert_true(count(&it, "1", "-", "node", "-", "up") >= 2);
    assert_true(count(&it, "-", "-", "time", "-", "-") > 0);
    drop(&it);
}

static void test_TE5_a_replay_has_the_same_log(void **state)
{
    kept one = {0}, two = {0};
    (void)state;

    run(&one);
    run(&two);
    assert_int_equal(one.count, two.count);
    for (uint32_t i = 0; i < one.count; i++) {
        assert_string_equal(one.lines[i], two.lines[i]);
    }
    drop(&one);
    drop(&two);
}

static void test_TE5_the_head_names_the_columns(void **state)
{
    kept it = {0};
    const char *head = tri_sim_trace_head();
    (void)state;

    run(&it);
    const char *actor = strstr(head, "actor");
    const char *event = strstr(head, "event");
    assert_non_null(strstr(head, "step"));
    assert_non_null(strstr(head, "seconds"));
    for (uint32_t i = 0; i < it.count; i++) {
        columns c = parse(it.lines[i]);
        assert_memory_equal(it.lines[i] + (actor - head), c.actor,
                            strlen(c.actor));
        if (strlen(c.actor) <= 24) {
            assert_memory_equal(it.lines[i] + (event - head), c.event,
                                strlen(c.event));
        }
    }
    drop(&it);
}

/* ---- a bare world ---- */

typedef struct lines {
    uint32_t count;
    char first[TRI_SIM_LINE_MAX];
} lines;

static void keep_line(void *user, const char *line)
{
    lines *it = user;

    if (it->count++ == 0) {
        strncpy(it->first, line, sizeof(it->first) - 1);
    }
}

static void test_a_bare_world_traces_every_step(void **state)
{
    (void)state;
    tr_sim *sim = sim_of(1);
    tri_world *world = world_of(sim);
    lines it = {0};
    toy busy;

    toy_init(&busy, 1, 5);
    world->ops->attach(world, &busy.driven);
    tr_sim_on_trace(sim, keep_line, &it);
    tr_sim_advance(sim, TR_SECONDS(1));
    assert_string_equal(it.first,
                        "         1     1.000000000    0 -                 "
                        "       step     -                -");
    assert_int_equal(it.count, tr_sim_steps(sim));
    world->ops->detach(world, &busy.driven);
    tr_sim_free(sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_TE5_every_line_has_the_columns),
        cmocka_unit_test(test_TE5_events_have_actor_and_type),
        cmocka_unit_test(test_TE5_a_replay_has_the_same_log),
        cmocka_unit_test(test_TE5_the_head_names_the_columns),
        cmocka_unit_test(test_a_bare_world_traces_every_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
