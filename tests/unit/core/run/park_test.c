/*
 * park_test.c - a turn that waits is parked on its own stack; what happens to
 * the actor meanwhile.
 */
#include <stdatomic.h>

#include "support/stage.h"

#include <sched.h>

#include "support/core.h"
#include "unit/core/waiting.h"

/* ---- stacks ---- */

enum { DEEP = 200, WAITERS = 50 };

static tr_err wait_deep(tr_ctx *ctx, puppet *self, int depth)
{
    volatile int64_t local[8];
    for (int i = 0; i < 8; i++) {
        local[i] = self->value * 1000 + depth * 10 + i;
    }
    TR_TRY(depth > 0 ? wait_deep(ctx, self, depth - 1)
                     : tr_sleep(ctx, TR_SECONDS(1)));
    for (int i = 0; i < 8; i++) {
        TR_ASSERT(ctx, local[i] == self->value * 1000 + depth * 10 + i);
    }
    return TR_OK;
}

static tr_err act_wait_deep(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)m;
    self->value = (int64_t)(intptr_t)arg;
    TR_TRY(wait_deep(ctx, self, DEEP));
    stage_note(self->stage, 1);
    return TR_OK;
}

static void test_DP10_a_waiting_turn_has_its_own_stack(void **state)
{
    stage it;
    tr_metrics_snapshot now = {.size = sizeof(now)};
    (void)state;
    stage_open(&it);
    for (int i = 0; i < WAITERS; i++) {
        stage_tell(&it, stage_spawn(&it, .soft_limit = 0), act_wait_deep,
                   (void *)(intptr_t)i);
    }
    stage_run_ready(&it);
    tr_metrics(it.sys, &now);
    assert_int_equal(now.parked, WAITERS);  // all of them are parked at once
    stage_pass(&it, TR_SECONDS(1));
    assert_int_equal(atomic_load(&it.note_count), WAITERS);
    stage_close(&it);
}

/* Stores the number of spare stacks after the worker was idle. */
static tr_err act_spare(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)self;
    TR_TRY(tr_sleep(ctx, TR_MS(10)));
    *(uint32_t *)arg = ctx->worker->fibers.spare_count;
    return tr_reply(ctx, m, .value = 1);
}

/* Many turns wait at once; their stacks are freed when they end. */
static void test_rule_04_stacks_of_many_waits_are_given_back(void **state)
{
    enum { MANY = 2 * TRI_FIBER_SPARE_WARM };
    stage it;
    uint32_t spare = 0;
    (void)state;
    stage_open_real(&it, TR_OPTIONS(tr_system_options, .workers = 1));
    static nap naps[MANY];
    for (int i = 0; i < MANY; i++) {
        naps[i] = (nap){.span = TR_MINUTES(60)};
        tell_beside(&it, it.one, act_nap, &naps[i]);
    }
    while (atomic_load(&it.note_count) < MANY) {
        sched_yield();
    }
    tr_kill(it.sys, it.one);
    while (atomic_load(&it.note_count) < 2 * MANY) {
        sched_yield();
    }
    do {
        expect_ok(stage_ask(&it, it.two, act_spare, &spare));
    } while (spare > TRI_FIBER_SPARE_WARM);
    stage_close(&it);
}

/* ---- system mail ---- */

static void test_rule_01_a_parked_actor_takes_watches_and_stops(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    stage_tell(&it, it.one, act_sleep, (void *)TR_SECONDS(2));
    stage_run_ready(&it);
    tr_probe_watch(it.probe, it.one);
    stage_run_ready(&it);
    tr_stop(it.sys, it.one);
    stage_run_ready(&it);
    assert_int_equal(tr_state_of(it.sys, it.one), TR_STATE_STOPPING);
    const tr_terminated *end =
        tr_expect(it.probe, TR_SECONDS(5), tr_terminated);
    assert_int_equal(end->reason, TR_STOPPED);
    stage_close(&it);
}

static tr_err act_spawn(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    puppet first = {.stage = self->stage};
    tr_ref *out = arg;
    (void)m;
    *out = tr_spawn(ctx, puppets, .init = &first, .init_size = sizeof(first),
                    .watch = true);
    return TR_OK;
}

static void test_rule_02_terminated_waits_for_the_parked_turn(void **state)
{
    stage it;
    nap first = {TR_SECONDS(1), 1, 2, TR_OK};
    tr_ref child;
    (void)state;
    stage_open(&it);
    expect_ok(stage_ask(&it, it.one, act_spawn, &child));
    stage_tell(&it, it.one, act_nap, &first);
    tr_tell(it.sys, it.one, Note, .value = 3);
    stage_run_ready(&it);
    tr_stop(it.sys, child);
    stage_run_ready(&it);
    expect_notes(&it, 1);
    assert_int_equal(tr_state_of(it.sys, child), TR_STATE_TERMINATED);
    stage_pass(&it, TR_SECONDS(1));
    expect_notes(&it, 1, 2, 1000 + TR_STOPPED, 3);
    stage_close(&it);
}

static tr_directive always_resume(const puppet *self, const tr_failure *f)
{
    (void)f;
    stage_note(self->stage, 7);
    return TR_RESUME;
}

static tr_err parent_act(tr_ctx *ctx, puppet *self, const Act *m)
{
    return ((act_fn)(uintptr_t)m->fn)(ctx, self, m, (void *)(uintptr_t)m->arg);
}

TR_ACTOR(resuming_parent, puppet, TR_ON(Act, parent_act),
         TR_HOOK(decide, always_resume));

static void test_rule_02_a_parked_parent_decides_at_once(void **state)
{
    stage it;
    nap first = {TR_SECONDS(1), 1, 2, TR_OK};
    tr_ref child;
    (void)state;
    stage_open(&it);
    tr_ref parent = tr_spawn(it.sys, resuming_parent,
                             TR_INIT(resuming_parent, .stage = &it));
    expect_ok(stage_ask(&it, parent, act_spawn, &child));
    stage_tell(&it, parent, act_nap, &first);
    stage_run_ready(&it);
    expect_err(stage_ask(&it, child, act_fail, NULL), TR_EUSER);
    stage_run_ready(&it);
    expect_notes(&it, 1, 7);
    expect_ok(stage_ask(&it, child, act_nothing, NULL));
    assert_int_equal(tr_state_of(it.sys, child), TR_STATE_RUNNING);
    stage_close(&it);
}

/* ---- failures ---- */

static tr_err act_fail_beside(tr_ctx *ctx, puppet *self, const Act *m,
                              void *arg)
{
    (void)self;
    (void)m;
    (void)arg;
    return tr_fail(ctx, TR_EUSER, "beside");
}

static tr_directive decide_and_note(const puppet *self, const tr_failure *f)
{
    (void)f;
    stage_note(self->stage, 5);
    return TR_RESUME;
}

TR_ACTOR(deciding_parent, puppet, TR_ON(Act, parent_act),
         TR_HOOK(decide, decide_and_note));

static void test_rule_09_replies_are_held_until_the_decision(void **state)
{
    // The decision takes no time. The order shows it: a turn whose wait ends
    // while its actor is FAILED runs after the decider.
    stage it;
    nap first = {TR_SECONDS(1), 1, 2, TR_EUSER};
    tr_ref child;
    (void)state;
    stage_open(&it);
    tr_ref parent = tr_spawn(it.sys, deciding_parent,
                             TR_INIT(deciding_parent, .stage = &it));
    expect_ok(stage_ask(&it, parent, act_spawn, &child));
    stage_tell(&it, child, act_nap, &first);
    stage_run_ready(&it);
    tell_beside(&it, child, act_fail_beside, NULL);
    stage_pass(&it, TR_SECONDS(2));
    expect_err(first.err, TR_OK);
    expect_notes(&it, 1, 5, 2);
    stage_close(&it);
}

static tr_err act_long(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    tr_err *out = arg;
    (void)m;
    *out = tr_sleep(ctx, TR_SECONDS(2));
    stage_note(self->stage, 2);
    return TR_OK;
}

static void test_rule_12_resume_lets_the_parked_turn_go_on(void **state)
{
    stage it;
    tr_err err = TR_EUSER;
    (void)state;
    stage_open(&it);
    tr_ref ref =
        stage_spawn(&it, .supervision = TR_SUPERVISE(.on_failure = TR_RESUME));
    stage_tell(&it, ref, act_long, &err);
    stage_run_ready(&it);
    tell_beside(&it, ref, act_fail, NULL);
    stage_pass(&it, TR_SECONDS(3));
    expect_err(err, TR_OK);
    expect_notes(&it, 2);
    assert_int_equal(atomic_load(&it.restarts), 0);
    stage_close(&it);
}

static void test_rule_12_stop_lets_the_parked_turn_finish(void **state)
{
    stage it;
    tr_err err = TR_EUSER;
    (void)state;
    stage_open(&it);
    tr_ref ref =
        stage_spawn(&it, .supervision = TR_SUPERVISE(.on_failure = TR_STOP));
    stage_tell(&it, ref, act_long, &err);
    stage_run_ready(&it);
    tell_beside(&it, ref, act_fail, NULL);
    stage_pass(&it, TR_SECONDS(3));
    expect_err(err, TR_OK);
    assert_int_equal(tr_state_of(it.sys, ref), TR_STATE_TERMINATED);
    stage_close(&it);
}

/* ---- restarts ---- */

static void test_rule_05_X49_restart_ends_waits_at_once(void **state)
{
    stage it;
    tr_err errs[3] = {TR_EUSER, TR_EUSER, TR_EUSER};
    (void)state;
    stage_open(&it);
    expect_ok(stage_ask(&it, it.one, act_meet, &it.two));
    stage_tell(&it, it.one, act_two_naps, errs);
    stage_run_ready(&it);
    tell_beside(&it, it.one, act_fail_beside, NULL);
    stage_pass(&it, TR_SECONDS(1));
    expect_err(errs[0], TR_ERESTARTED);
    expect_err(errs[1], TR_ERESTARTED);
    expect_err(errs[2], TR_ERESTARTED);
    assert_int_equal(atomic_load(&it.restarts), 1);
    assert_int_equal(tr_state_of(it.sys, it.one), TR_STATE_RUNNING);
    stage_close(&it);
}

static tr_err act_unwind(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    tr_err *out = arg;
    (void)self;
    (void)m;
    *out = tr_sleep(ctx, TR_SECONDS(100));
    return *out;
}

static void test_rule_05_an_interrupted_message_is_a_dead_letter(void **state)
{
    stage it;
    tr_err err = TR_OK;
    (void)state;
    stage_open(&it);
    stage_tell(&it, it.one, act_unwind, &err);
    stage_run_ready(&it);
    tell_beside(&it, it.one, act_fail_beside, NULL);
    stage_pass(&it, TR_SECONDS(1));
    expect_err(err, TR_ERESTARTED);
    assert_int_equal(stage_dead(&it, TR_DEAD_RESTARTED), 1);
    stage_close(&it);
}

/* The restart ends the wait; after it tr_stopping is true. */
static void test_rule_5_a_restart_is_visible_after_the_wait(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    stage_tell(&it, it.one, act_sleep_and_look, (void *)TR_SECONDS(2));
    stage_pass(&it, TR_SECONDS(1));
    tri_caller who = tri_enter((tr_from){.sys = it.sys});
    tri_signal(who.worker, tri_ref_cell(it.one), it.one.id, TRI_SIG_RESTART);
    tri_leave(&who);
    stage_pass(&it, TR_MS(500));
    expect_notes(&it, TR_ERESTARTED, true);
    stage_pass(&it, TR_SECONDS(2));
    assert_int_equal(atomic_load(&it.restarts), 1);
    expect_ok(stage_ask(&it, it.one, act_nothing, NULL));
    stage_close(&it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_DP10_a_waiting_turn_has_its_own_stack),
        cmocka_unit_test(test_rule_04_stacks_of_many_waits_are_given_back),
        cmocka_unit_test(test_rule_01_a_parked_actor_takes_watches_and_stops),
        cmocka_unit_test(test_rule_02_terminated_waits_for_the_parked_turn),
        cmocka_unit_test(test_rule_02_a_parked_parent_decides_at_once),
        cmocka_unit_test(test_rule_09_replies_are_held_until_the_decision),
        cmocka_unit_test(test_rule_12_resume_lets_the_parked_turn_go_on),
        cmocka_unit_test(test_rule_12_stop_lets_the_parked_turn_finish),
        cmocka_unit_test(test_rule_05_X49_restart_ends_waits_at_once),
        cmocka_unit_test(test_rule_05_an_interrupted_message_is_a_dead_letter),
        cmocka_unit_test(test_rule_5_a_restart_is_visible_after_the_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
