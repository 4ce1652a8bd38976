/*
 * metrics_test.c - the numbers of tr_metrics follow what happens.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <troupe/troupe.h>

TR_REQUEST(Loop, tr_none);
TR_MESSAGE(Nap);
TR_MESSAGE(Ring);
TR_MESSAGE(Break);
TR_MESSAGE(Strange);  // nobody takes it

static tr_err on_loop(tr_ctx *ctx, void *self, const Loop *m)
{
    (void)self;
    // To wait for oneself is the shortest cycle.
    tr_err err = tr_ask(ctx, tr_self(ctx), NULL, TR_SECONDS(1), Loop);
    assert_int_equal(err, TR_EDEADLOCK);
    return tr_reply(ctx, m);
}

static tr_err on_nap(tr_ctx *ctx, void *self, const Nap *m)
{
    (void)self, (void)m;
    (void)tr_after(ctx, TR_SECONDS(1), Ring);
    return tr_sleep(ctx, TR_SECONDS(10));
}

static tr_err on_ring(tr_ctx *ctx, void *self, const Ring *m)
{
    (void)ctx, (void)self, (void)m;
    return TR_OK;
}

static tr_err on_break(tr_ctx *ctx, void *self, const Break *m)
{
    (void)self, (void)m;
    return tr_fail(ctx, TR_EUSER, "told to");
}

TR_ACTOR(subject, void, TR_ON(Loop, on_loop), TR_ON(Nap, on_nap),
         TR_ON(Ring, on_ring), TR_ON(Break, on_break));

static tr_metrics_snapshot now(tr_system *sys)
{
    tr_metrics_snapshot m = {.size = sizeof(m)};
    tr_metrics(sys, &m);
    return m;
}

static void test_PA5_metrics_count_waits_timers_and_cycles(void **state)
{
    (void)state;
    tr_sim *sim;
    tr_system *sys;
    TR_MUST(tr_sim_new(&sim, 1));
    TR_MUST(tr_system_open(&sys, .world = tr_sim_world(sim), .log_level = 9));
    tr_ref ref = tr_spawn(sys, subject);
    TR_MUST(tr_ask(sys, ref, NULL, TR_SECONDS(5), Loop));
    assert_int_equal(now(sys).deadlocks, 1);
    assert_int_equal(now(sys).parked, 0);

    tr_tell(sys, ref, Nap);
    tr_sim_advance(sim, TR_SECONDS(5));
    assert_int_equal(now(sys).parked, 1);
    assert_int_equal(now(sys).timers, 1);
    tr_sim_advance(sim, TR_SECONDS(6));
    assert_int_equal(now(sys).parked, 0);
    assert_int_equal(now(sys).messages, 3);

    char text[1 << 16];
    assert_true(tr_metrics_text(sys, text, sizeof(text)) < sizeof(text));
    assert_non_null(
        strstr(text, "troupe_deadlocks_total{system=\"troupe\"} 1"));
    TR_MUST(tr_system_close(sys, 0));
    tr_sim_free(sim);
}

/* PA5: throughput, depth of mailboxes, and what happens in lives. */
static void test_PA5_metrics_follow_mail_and_lives(void **state)
{
    (void)state;
    tr_sim *sim;
    tr_system *sys;
    TR_MUST(tr_sim_new(&sim, 1));
    TR_MUST(tr_system_open(&sys, .world = tr_sim_world(sim), .log_level = 9));
    tr_metrics_snapshot first = now(sys);
    tr_ref ref = tr_spawn(sys, subject);
    tr_ref bad = tr_spawn(sys, subject);
    tr_ref worse = tr_spawn(
        sys, subject, .supervision = TR_SUPERVISE(.on_limit = TR_ESCALATE));
    tr_sim_advance(sim, TR_SECONDS(1));
    assert_int_equal(now(sys).spawned, first.spawned + 3);
    assert_int_equal(now(sys).actors, first.actors + 3);

    tr_tell(sys, ref, Nap);
    tr_sim_advance(sim, TR_MS(1));
    for (uint32_t i = 0; i < 7; i++) {
        tr_actor_info info = {.size = sizeof(info)};
        tr_tell(sys, ref, Ring);
        TR_MUST(tr_actor_info_of(sys, ref, &info));
        assert_int_equal(info.depth, i + 1);
    }
    tr_sim_advance(sim, TR_SECONDS(20));
    assert_int_equal(now(sys).messages, 1 + 7 + 1);  // Nap has set a timer

    tr_tell(sys, ref, Break);
    tr_tell(sys, ref, Strange);
    tr_sim_advance(sim, TR_SECONDS(20));
    assert_int_equal(now(sys).failures, 1);
    assert_int_equal(now(sys).restarts, 1);
    assert_int_equal(now(sys).unhandled, 1);
    assert_int_equal(now(sys).dead_letters, 2);  // Break is one, too
    tr_stop(sys, ref);
    tr_sim_advance(sim, TR_SECONDS(1));
    assert_int_equal(now(sys).ended, first.ended + 1);
    assert_int_equal(now(sys).actors, first.actors + 2);
    for (int i = 0; i < 4; i++) {  // more than three restarts in a second
        tr_tell(sys, bad, Break);
        tr_tell(sys, worse, Break);
    }
    tr_sim_advance(sim, TR_SECONDS(1));
    assert_int_equal(now(sys).given_up, 1);
    assert_int_equal(now(sys).escalations, 1);

    char text[1 << 16];
    assert_true(tr_metrics_text(sys, text, sizeof(text)) < sizeof(text));
    static const char *const lines[] = {
        "actors_spawned_total", "actors_ended_total", "messages_total",
        "failures_total",       "restarts_total",     "escalations_total",
        "dead_letters_total",   "unhandled_total",    "given_up_total"};
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        char line[64];
        snprintf(line, sizeof(line), "\ntroupe_%s{system=\"troupe\"} ",
                 lines[i]);
        const char *found = strstr(text, line);
        assert_non_null(found);
        assert_int_not_equal(found[strlen(line)], '0');
    }
    (void)!tr_system_close(sys, 0);
    tr_sim_free(sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_PA5_metrics_count_waits_timers_and_cycles),
        cmocka_unit_test(test_PA5_metrics_follow_mail_and_lives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
