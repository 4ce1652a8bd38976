/*
 * stop_while_waiting_test.c - stop, kill and shutdown of an actor whose
 * handler waits; what its last hooks may do.
 */
#include <stdatomic.h>

#include "support/stage.h"

#include "unit/core/waiting.h"

/* ---- stop ---- */

static void test_rule_03_X49_stop_lets_a_parked_turn_finish(void **state)
{
    stage it;
    nap first = {TR_SECONDS(2), 1, 2, TR_EUSER};
    (void)state;
    stage_open(&it);
    stage_tell(&it, it.one, act_nap, &first);
    stage_run_ready(&it);
    tr_stop(it.sys, it.one);
    stage_run_ready(&it);
    assert_int_equal(tr_state_of(it.sys, it.one), TR_STATE_STOPPING);
    tr_tell(it.sys, it.one, Note, .value = 9);  // refused: a dead letter
    stage_run_ready(&it);
    assert_int_equal(stage_dead(&it, TR_DEAD_STOPPING), 1);
    stage_pass(&it, TR_SECONDS(3));
    expect_notes(&it, 1, 2);
    expect_err(first.err, TR_OK);
    assert_int_equal(tr_state_of(it.sys, it.one), TR_STATE_TERMINATED);
    stage_close(&it);
}

static void test_rule_03_X49_waits_end_at_the_deadline(void **state)
{
    stage it;
    tr_err errs[3] = {TR_EUSER, TR_EUSER, TR_EUSER};
    (void)state;
    stage_open(&it);
    tr_ref ref = stage_spawn(&it, .stop_timeout = TR_SECONDS(7));
    expect_ok(stage_ask(&it, ref, act_meet, &it.two));
    stage_tell(&it, ref, act_two_naps, errs);
    stage_run_ready(&it);
    tr_stop(it.sys, ref);
    stage_pass(&it, TR_SECONDS(6));
    expect_err(errs[0], TR_EUSER);
    stage_pass(&it, TR_SECONDS(2));
    expect_err(errs[0], TR_ESTOPPED);
    expect_err(errs[1], TR_ESTOPPED);
    expect_err(errs[2], TR_ESTOPPED);
    assert_int_equal(tr_state_of(it.sys, ref), TR_STATE_TERMINATED);
    stage_close(&it);
}

/* The wait ends in its own time; after it tr_stopping is true. */
static void test_rule_3_a_stop_is_visible_after_the_wait(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    stage_tell(&it, it.one, act_sleep_and_look, (void *)TR_SECONDS(2));
    stage_pass(&it, TR_SECONDS(1));
    tr_stop(it.sys, it.one);
    stage_pass(&it, TR_SECONDS(2));
    expect_notes(&it, TR_OK, true);
    assert_int_equal(tr_state_of(it.sys, it.one), TR_STATE_TERMINATED);
    stage_close(&it);
}

static tr_err act_stop_self(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    nap *it = arg;
    (void)m;
    assert_false(tr_stopping(ctx));
    tr_stop(ctx, tr_self(ctx));
    assert_true(tr_stopping(ctx));
    it->err = tr_sleep(ctx, it->span);
    stage_note(self->stage, it->after);
    return TR_OK;
}

static void test_rule_08_a_handler_may_wait_after_it_stopped_its_actor(
    void **state)
{
    stage it;
    nap first = {TR_SECONDS(2), 0, 2, TR_EUSER};
    (void)state;
    stage_open(&it);
    stage_tell(&it, it.one, act_stop_self, &first);
    stage_tell(&it, it.one, act_note, (void *)3);
    stage_pass(&it, TR_SECONDS(3));
    expect_err(first.err, TR_OK);
    expect_notes(&it, 2);
    assert_int_equal(tr_state_of(it.sys, it.one), TR_STATE_TERMINATED);
    assert_int_equal(stage_dead(&it, TR_DEAD_DRAINED), 1);
    stage_close(&it);
}

static tr_err act_end_itself(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)m;
    stage_note(self->stage, tr_stopping(ctx));
    if (arg != NULL) {
        tr_kill(ctx, tr_self(ctx));
    } else {
        tr_stop(ctx, tr_self(ctx));
    }
    stage_note(self->stage, tr_stopping(ctx));
    return TR_OK;
}

/* tr_stopping is true before the handler returns. */
static void test_K2_a_handler_sees_its_own_stop_and_kill_at_once(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    stage_tell(&it, it.one, act_end_itself, NULL);
    stage_tell(&it, it.two, act_end_itself, &it);
    stage_run_ready(&it);
    expect_notes(&it, false, true, false, true);
    assert_int_equal(tr_state_of(it.sys, it.one), TR_STATE_TERMINATED);
    assert_int_equal(tr_state_of(it.sys, it.two), TR_STATE_TERMINATED);
    stage_close(&it);
}

/* ---- kill ---- */

static void test_rule_04_X49_kill_ends_every_wait_at_once(void **state)
{
    stage it;
    tr_err errs[3] = {TR_EUSER, TR_EUSER, TR_EUSER};
    (void)state;
    stage_open(&it);
    expect_ok(stage_ask(&it, it.one, act_meet, &it.two));
    stage_tell(&it, it.one, act_two_naps, errs);
    stage_run_ready(&it);
    tr_probe_watch(it.probe, it.one);
    tr_kill(it.sys, it.one);
    stage_run_ready(&it);
    expect_err(errs[0], TR_EKILLED);
    expect_err(errs[1], TR_EKILLED);
    expect_err(errs[2], TR_EKILLED);
    assert_int_equal(tr_expect(it.probe, 0, tr_terminated)->reason, TR_KILLED);
    stage_close(&it);
}

static void test_rule_04_the_asker_of_a_killed_turn_gets_an_error(void **state)
{
    stage it;
    tr_err err = TR_OK;
    (void)state;
    stage_open(&it);
    expect_ok(stage_ask(&it, it.one, act_meet, &it.two));
    stage_tell(&it, it.one, act_ask_nap, &err);
    stage_run_ready(&it);
    tr_kill(it.sys, it.two);
    stage_run_ready(&it);
    expect_err(err, TR_EKILLED);
    stage_close(&it);
}

/* ---- shutdown ---- */

static void test_rule_07_shutdown_waits_for_parked_turns(void **state)
{
    stage it;
    nap first = {TR_SECONDS(2), 1, 2, TR_EUSER};
    (void)state;
    stage_open(&it);
    stage_tell(&it, it.one, act_nap, &first);
    stage_run_ready(&it);
    stage_close(&it);
    expect_err(first.err, TR_OK);
    expect_notes(&it, 1, 2);
}

static void test_rule_07_shutdown_ends_waits_in_time(void **state)
{
    stage it;
    tr_err errs[3] = {TR_EUSER, TR_EUSER, TR_EUSER};
    (void)state;
    stage_open(&it);
    tr_ref ref = stage_spawn(&it, .stop_timeout = TR_SECONDS(1000));
    expect_ok(stage_ask(&it, ref, act_meet, &it.two));
    stage_tell(&it, ref, act_two_naps, errs);
    stage_run_ready(&it);
    tr_probe_free(it.probe);
    expect_err(tr_system_close(it.sys, TR_SECONDS(20)), TR_ETIMEDOUT);
    for (int i = 0; i < 3; i++) {
        expect_err(errs[i], TR_ECLOSED);
    }
    tr_sim_free(it.sim);
}

/* ---- the last hooks ---- */

typedef struct leaver {
    stage *stage;
    tr_ref peer;
    tr_err *out;  // ask and spawn in post_stop, spawn in pre_stop
} leaver;

static tr_err leaver_pre_stop(tr_ctx *ctx, leaver *self)
{
    puppet first = {.stage = self->stage};
    tr_ref ref =
        tr_spawn(ctx, puppets, .init = &first, .init_size = sizeof(first));
    self->out[2] = tr_ref_err(ref);
    return TR_OK;
}

static tr_err leaver_post_stop(tr_ctx *ctx, leaver *self, tr_reason reason)
{
    puppet first = {.stage = self->stage};
    (void)reason;
    tr_tell(ctx, self->peer, Note, .value = 1);
    tr_tell(ctx, tr_self(ctx), Note, .value = 2);
    self->out[0] = act_ask(ctx, self->peer, act_nothing, NULL, 0);
    self->out[1] = tr_ref_err(
        tr_spawn(ctx, puppets, .init = &first, .init_size = sizeof(first)));
    return TR_OK;
}

static tr_err leaver_note(tr_ctx *ctx, leaver *self, const Note *m)
{
    (void)ctx;
    stage_note(self->stage, -m->value);
    return TR_OK;
}

TR_ACTOR(leavers, leaver, TR_ON(Note, leaver_note),
         TR_HOOK(pre_stop, leaver_pre_stop),
         TR_HOOK(post_stop, leaver_post_stop));

static void test_rule_24_the_last_hook_may_tell_and_ask(void **state)
{
    stage it;
    tr_err errs[3] = {TR_EUSER, TR_OK, TR_EUSER};
    (void)state;
    stage_open(&it);
    tr_ref ref =
        tr_spawn(it.sys, leavers,
                 TR_INIT(leavers, .stage = &it, .peer = it.one, .out = errs));
    expect_ok(tr_started(it.sys, ref, 0));
    tr_stop(it.sys, ref);
    expect_ok(tr_join(it.sys, ref, 0, NULL, NULL));
    expect_notes(&it, 1);
    expect_ok(errs[0]);
    expect_err(errs[1], TR_ESTOPPED);
    expect_ok(errs[2]);
    assert_int_equal(stage_dead(&it, TR_DEAD_STOPPING), 1);
    // The child that pre_stop spawned was stopped with its parent.
    assert_int_equal(atomic_load(&it.starts), atomic_load(&it.stops) + 3);
    stage_close(&it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rule_03_X49_stop_lets_a_parked_turn_finish),
        cmocka_unit_test(test_rule_03_X49_waits_end_at_the_deadline),
        cmocka_unit_test(test_rule_3_a_stop_is_visible_after_the_wait),
        cmocka_unit_test(
            test_rule_08_a_handler_may_wait_after_it_stopped_its_actor),
        cmocka_unit_test(test_K2_a_handler_sees_its_own_stop_and_kill_at_once),
        cmocka_unit_test(test_rule_04_X49_kill_ends_every_wait_at_once),
        cmocka_unit_test(test_rule_04_the_asker_of_a_killed_turn_gets_an_error),
        cmocka_unit_test(test_rule_07_shutdown_waits_for_parked_turns),
        cmocka_unit_test(test_rule_07_shutdown_ends_waits_in_time),
        cmocka_unit_test(test_rule_24_the_last_hook_may_tell_and_ask),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
