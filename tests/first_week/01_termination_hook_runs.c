/*
 * 01_termination_hook_runs.c - an actor of the program that has called
 * tr_on_terminate gets its tr_termination_hook while everything still runs, and
 * the system waits for it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <troupe/troupe.h>

enum { SEEDS = 20 };

/* What happened, in order; the simulated world has one thread. */
typedef struct record {
    int next;
    int hooked, answered, ended;
    tr_err ask;
} record;

static record seen;

TR_MESSAGE(Done);
TR_REQUEST(Flush, Done);

/* The actor that is still needed at the end. */
static tr_err on_flush(tr_ctx *ctx, void *self, const Flush *m)
{
    (void)self;
    TR_TRY(tr_sleep(ctx, TR_MS(20)));
    return tr_reply(ctx, m);
}

static tr_err disk_ends(tr_ctx *ctx, void *self, tr_reason reason)
{
    (void)ctx, (void)self, (void)reason;
    seen.ended = ++seen.next;
    return TR_OK;
}

TR_ACTOR(disk, void, TR_ON(Flush, on_flush), TR_HOOK(post_stop, disk_ends));

typedef struct Drainer {
    tr_ref disk;
    bool silent;  // ends instead of calling tr_termination_done
} Drainer;

static tr_err drainer_starts(tr_ctx *ctx, Drainer *self)
{
    (void)self;
    return tr_on_terminate(ctx);
}

static tr_err on_hook(tr_ctx *ctx, Drainer *self, const tr_termination_hook *m)
{
    (void)m;
    seen.hooked = ++seen.next;
    seen.ask = tr_ask(ctx, self->disk, NULL, TR_SECONDS(1), Flush);
    seen.answered = ++seen.next;
    if (self->silent) {
        tr_stop(ctx, tr_self(ctx));
    } else {
        tr_termination_done(ctx);
    }
    return TR_OK;
}

TR_ACTOR(drainer, Drainer, TR_HOOK(pre_start, drainer_starts),
         TR_ON(tr_termination_hook, on_hook));

static void run_and_close(uint64_t seed, bool silent, bool terminates)
{
    tr_sim *sim;
    tr_system *sys;
    memset(&seen, 0, sizeof(seen));
    assert_int_equal(tr_sim_new(&sim, seed), TR_OK);
    assert_int_equal(tr_system_open(&sys, .world = tr_sim_world(sim)), TR_OK);
    tr_ref d = tr_spawn(sys, disk, .name = "disk");
    tr_ref hooked =
        tr_spawn(sys, drainer, TR_INIT(drainer, .disk = d, .silent = silent));
    assert_int_equal(tr_started(sys, hooked, 0), TR_OK);
    if (terminates) {
        tr_system_terminate(sys);
        // No close is needed for the hook to run, and for /user to stop.
        tr_sim_advance(sim, TR_SECONDS(1));
        assert_int_equal(seen.ended, 3);
    }
    assert_int_equal(tr_system_close(sys, 0), TR_OK);
    assert_int_equal(seen.hooked, 1);
    assert_int_equal(seen.ask, TR_OK);
    assert_int_equal(seen.answered, 2);
    assert_int_equal(seen.ended, 3);
    tr_sim_free(sim);
}

static void test_first_week_01_S9_SH1_SH4_a_hook_runs_before_user_ends(
    void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        run_and_close(seed, false, false);
        run_and_close(seed, false, true);
    }
}

static void test_first_week_01_SH7_a_hook_that_ends_is_done(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        run_and_close(seed, true, false);
        run_and_close(seed, true, true);
    }
}

/* ---- a hook that does not answer ---- */

static tr_err idle_starts(tr_ctx *ctx, void *self)
{
    (void)self;
    return tr_on_terminate(ctx);
}

static tr_err idle_hook(tr_ctx *ctx, void *self, const tr_termination_hook *m)
{
    (void)ctx, (void)self, (void)m;
    return TR_OK;
}

TR_ACTOR(idle, void, TR_HOOK(pre_start, idle_starts),
         TR_ON(tr_termination_hook, idle_hook));

static void test_first_week_01_SH5_a_silent_hook_has_a_limit(void **state)
{
    (void)state;
    tr_sim *sim;
    tr_system *sys;
    assert_int_equal(tr_sim_new(&sim, 1), TR_OK);
    assert_int_equal(tr_system_open(&sys, .world = tr_sim_world(sim),
                                    .log_level = TR_LOG_ERROR),
                     TR_OK);
    assert_int_equal(tr_started(sys, tr_spawn(sys, idle), 0), TR_OK);
    tr_nanos start = tr_sim_now(sim);
    assert_int_equal(tr_system_close(sys, TR_SECONDS(40)), TR_OK);
    tr_nanos took = tr_sim_now(sim) - start;
    assert_true(took >= TR_SECONDS(5) && took < TR_SECONDS(6));
    tr_sim_free(sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            test_first_week_01_S9_SH1_SH4_a_hook_runs_before_user_ends),
        cmocka_unit_test(test_first_week_01_SH7_a_hook_that_ends_is_done),
        cmocka_unit_test(test_first_week_01_SH5_a_silent_hook_has_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
