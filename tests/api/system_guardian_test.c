/*
 * system_guardian_test.c - the states of /system: it runs, it terminates while
 * termination hooks run, and it has stopped when tr_system_close returns.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include <troupe/troupe.h>

enum { SEEDS = 10 };

/* What an actor sees at one moment. */
typedef struct moment {
    tr_state user, system, self;
    tr_err register_err;  // of tr_on_terminate
} moment;

static struct {
    tr_ref user, system;
    moment start;               // before the end
    moment hook, late_in_hook;  // of an actor beside /user: /user has ended
    moment stop;                // of that actor: all hooks have returned
    uint32_t closed;            // calls of on_closed
} seen;

static moment look(tr_ctx *ctx)
{
    return (moment){.user = tr_state_of(ctx, seen.user),
                    .system = tr_state_of(ctx, seen.system),
                    .self = tr_state_of(ctx, tr_self(ctx)),
                    .register_err = tr_on_terminate(ctx)};
}

TR_MESSAGE(Looked);
TR_REQUEST(Look, Looked);

static tr_err on_look(tr_ctx *ctx, void *self, const Look *m)
{
    (void)self;
    seen.start = look(ctx);
    return tr_reply(ctx, m);
}

/* Takes a part of the five seconds that hooks have. */
static tr_err on_hook(tr_ctx *ctx, void *self, const tr_termination_hook *m)
{
    (void)self, (void)m;
    seen.hook = look(ctx);
    TR_TRY(tr_sleep(ctx, TR_SECONDS(2)));
    seen.late_in_hook = look(ctx);
    tr_termination_done(ctx);
    return TR_OK;
}

static tr_err part_stop(tr_ctx *ctx, void *self, tr_reason reason)
{
    (void)self, (void)reason;
    seen.stop = look(ctx);
    return TR_OK;
}

TR_ACTOR(part, void, TR_ON(Look, on_look), TR_ON(tr_termination_hook, on_hook),
         TR_HOOK(post_stop, part_stop));

static void on_closed(void *arg)
{
    (void)arg;
    seen.closed++;
}

/* Opens a system, lets it run, and closes it. */
static void play(tr_sim *sim)
{
    tr_system *sys;
    Looked looked;
    memset(&seen, 0, sizeof(seen));
    TR_MUST(tr_system_open(&sys, .world = tr_sim_world(sim),
                           .log_level = TR_LOG_ERROR));
    tr_ref ref = tr_top_level(sys, part, .name = "part");
    seen.user = tr_lookup(sys, "/user");
    seen.system = tr_lookup(sys, "/system");
    TR_MUST(tr_started(sys, seen.user, 0));
    TR_MUST(tr_started(sys, seen.system, 0));
    TR_MUST(tr_ask(sys, ref, &looked, 0, Look));
    TR_MUST(tr_system_on_closed(sys, on_closed, NULL));
    tr_close_report report = {.size = sizeof(report)};
    assert_int_equal(tr_system_close_report(sys, 0, &report), TR_OK);
    assert_int_equal(report.forced, 0);
}

static void expect_moment(moment m, tr_state user, tr_state self,
                          tr_err register_err)
{
    assert_int_equal(m.self, self);
    assert_int_equal(m.user, user);
    assert_int_equal(m.system, TR_STATE_RUNNING);
    assert_int_equal(m.register_err, register_err);
}

static void test_GD14_the_system_guardian_runs_terminates_and_stops(
    void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        tr_sim *sim;
        TR_MUST(tr_sim_new(&sim, seed));
        play(sim);
        expect_moment(seen.start, TR_STATE_RUNNING, TR_STATE_RUNNING, TR_OK);
        // Terminating: it waits for the hooks, and takes no other one.
        expect_moment(seen.hook, TR_STATE_TERMINATED, TR_STATE_RUNNING,
                      TR_ECLOSED);
        expect_moment(seen.late_in_hook, TR_STATE_TERMINATED, TR_STATE_RUNNING,
                      TR_ECLOSED);
        expect_moment(seen.stop, TR_STATE_TERMINATED, TR_STATE_STOPPING,
                      TR_ECLOSED);
        assert_int_equal(seen.closed, 1);  // it has stopped, as all others
        tr_sim_free(sim);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            test_GD14_the_system_guardian_runs_terminates_and_stops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
