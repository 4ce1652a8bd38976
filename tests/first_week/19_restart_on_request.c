/*
 * 19_restart_on_request.c - tr_restart begins an actor anew, without a failure.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <troupe/troupe.h>

enum { SEEDS = 20, TIMES = 10 };

TR_MESSAGE(Count, (uint32_t, number), (uint32_t, incarnation));
TR_REQUEST(Add, Count);
TR_MESSAGE(Nap);
TR_MESSAGE(Break);

static tr_err cause, woke;
static int restarts;

typedef struct Counter {
    uint32_t number;
} Counter;

static tr_err on_add(tr_ctx *ctx, Counter *self, const Add *m)
{
    self->number++;
    return tr_reply(ctx, m, .number = self->number,
                    .incarnation = tr_incarnation(ctx));
}

static tr_err on_nap(tr_ctx *ctx, Counter *self, const Nap *m)
{
    (void)self, (void)m;
    woke = tr_sleep(ctx, TR_SECONDS(1000));
    return TR_OK;
}

static tr_err before_restart(tr_ctx *ctx, Counter *self, const tr_failure *f)
{
    (void)ctx, (void)self;
    restarts++;
    cause = f->err;
    return TR_OK;
}

static tr_err on_break(tr_ctx *ctx, Counter *self, const Break *m)
{
    (void)self, (void)m;
    return tr_fail(ctx, TR_EUSER, "broken");
}

TR_ACTOR(counter, Counter, TR_ON(Add, on_add), TR_ON(Nap, on_nap),
         TR_ON(Break, on_break), TR_HOOK(pre_restart, before_restart));

static void restarted(uint64_t seed)
{
    tr_sim *sim;
    tr_system *sys;
    cause = woke = TR_OK;
    restarts = 0;
    assert_int_equal(tr_sim_new(&sim, seed), TR_OK);
    assert_int_equal(tr_system_open(&sys, .world = tr_sim_world(sim)), TR_OK);
    tr_ref c = tr_spawn(sys, counter, TR_INIT(counter, .number = 100));
    Count count;
    // More often than max_restarts: these are not failures.
    for (uint32_t i = 1; i <= TIMES; i++) {
        assert_int_equal(tr_ask(sys, c, &count, 0, Add), TR_OK);
        assert_int_equal(count.number, 101);
        assert_int_equal(count.incarnation, i);
        tr_restart(sys, c);
    }
    assert_int_equal(tr_ask(sys, c, &count, 0, Add), TR_OK);
    assert_int_equal(restarts, TIMES);
    assert_int_equal(cause, TR_ERESTARTED);
    // A wait ends; the mail stays.
    tr_tell(sys, c, Nap);
    tr_sim_advance(sim, TR_SECONDS(1));
    tr_restart(sys, c);
    assert_int_equal(tr_ask(sys, c, &count, 0, Add), TR_OK);
    assert_int_equal(count.number, 101);
    assert_int_equal(woke, TR_ERESTARTED);
    // An actor that ends is not restarted, and the dead stay dead.
    tr_restart(sys, c);
    tr_stop(sys, c);
    tr_sim_advance(sim, TR_SECONDS(1));
    assert_int_equal(tr_state_of(sys, c), TR_STATE_TERMINATED);
    tr_restart(sys, c);
    tr_restart(sys, TR_NOBODY);
    tr_metrics_snapshot m = {.size = sizeof(m)};
    tr_metrics(sys, &m);
    assert_int_equal(m.failures, 0);
    assert_int_equal(tr_system_close(sys, 0), TR_OK);
    tr_sim_free(sim);
}

static void test_first_week_19_S4_an_actor_is_restarted_on_request(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        restarted(seed);
    }
}

/* A failed actor is its supervisor's: its delay and its count stay. */
static void test_first_week_19_S4_a_failed_actor_is_left_alone(void **state)
{
    (void)state;
    tr_sim *sim;
    tr_system *sys;
    restarts = 0;
    assert_int_equal(tr_sim_new(&sim, 1), TR_OK);
    assert_int_equal(tr_system_open(&sys, .world = tr_sim_world(sim),
                                    .log_level = TR_LOG_ERROR + 1),
                     TR_OK);
    tr_ref c =
        tr_spawn(sys, counter,
                 .supervision = TR_SUPERVISE(.backoff_min = TR_SECONDS(10),
                                             .jitter = 0.0));
    tr_tell(sys, c, Break);
    tr_sim_advance(sim, TR_SECONDS(1));
    assert_int_equal(tr_state_of(sys, c), TR_STATE_RESTARTING);
    tr_restart(sys, c);
    tr_sim_advance(sim, TR_SECONDS(1));
    assert_int_equal(tr_state_of(sys, c), TR_STATE_RESTARTING);
    tr_sim_advance(sim, TR_SECONDS(20));
    Count count;
    assert_int_equal(tr_ask(sys, c, &count, 0, Add), TR_OK);
    assert_int_equal(count.incarnation, 2);
    assert_int_equal(restarts, 1);
    assert_int_equal(tr_system_close(sys, 0), TR_OK);
    tr_sim_free(sim);
}

/* Actors that are never restarted are stopped. */
static void test_first_week_19_S4_a_temporary_actor_is_stopped(void **state)
{
    (void)state;
    tr_sim *sim;
    tr_system *sys;
    restarts = 0;
    assert_int_equal(tr_sim_new(&sim, 1), TR_OK);
    assert_int_equal(tr_system_open(&sys, .world = tr_sim_world(sim)), TR_OK);
    tr_ref refs[] = {tr_spawn(sys, counter, .restart = TR_TEMPORARY),
                     tr_spawn_temp(sys, counter)};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(tr_started(sys, refs[i], 0), TR_OK);
        tr_restart(sys, refs[i]);
        tr_sim_advance(sim, TR_SECONDS(1));
        assert_int_equal(tr_state_of(sys, refs[i]), TR_STATE_TERMINATED);
    }
    assert_int_equal(restarts, 0);
    assert_int_equal(tr_system_close(sys, 0), TR_OK);
    tr_sim_free(sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            test_first_week_19_S4_an_actor_is_restarted_on_request),
        cmocka_unit_test(test_first_week_19_S4_a_failed_actor_is_left_alone),
        cmocka_unit_test(test_first_week_19_S4_a_temporary_actor_is_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
