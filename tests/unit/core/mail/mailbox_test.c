/*
 * mailbox_test.c - the two lanes of a mailbox: what is handled first, what
 * waits, and that a send takes no lock.
 */
#include <stdatomic.h>

#include "support/stage.h"

#include "base/lock.h"
#include "support/core.h"
#include "unit/core/waiting.h"

/* System mail overtakes a full user lane. */
static void test_MB1_MB14_system_mail_comes_before_user_mail(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    tr_ref ref = stage_spawn(&it, .mailbox_limit = 3);
    keep_busy(&it, ref);
    for (int i = 0; i < 5; i++) {
        tr_tell(it.sys, ref, Note, .value = i);
    }
    tr_probe_watch(it.probe, ref);
    tr_kill(it.sys, ref);
    stage_run_ready(&it);
    expect_notes(&it);
    assert_int_equal(tr_expect(it.probe, 0, tr_terminated)->reason, TR_KILLED);
    assert_int_equal(stage_dead(&it, TR_DEAD_FULL), 2);
    assert_int_equal(stage_dead(&it, TR_DEAD_DRAINED), 3);
    stage_close(&it);
}

static tr_err act_stop_now(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)self;
    (void)m;
    (void)arg;
    tr_stop(ctx, tr_self(ctx));
    return TR_OK;
}

static void test_MB4_a_stop_takes_effect_after_the_current_message(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    stage_tell(&it, it.one, act_note, (void *)1);
    stage_tell(&it, it.one, act_stop_now, NULL);
    stage_tell(&it, it.one, act_note, (void *)2);
    stage_run_ready(&it);
    expect_notes(&it, 1);
    assert_int_equal(stage_dead(&it, TR_DEAD_DRAINED), 1);
    stage_close(&it);
}

static tr_err slow_start(tr_ctx *ctx, puppet *self)
{
    TR_TRY(tr_sleep(ctx, TR_SECONDS(1)));
    stage_note(self->stage, 1);
    return TR_OK;
}

static tr_err slow_note(tr_ctx *ctx, puppet *self, const Note *m)
{
    stage_note(self->stage, m->value);
    return m->value == 5 ? tr_fail(ctx, TR_EUSER, "five") : TR_OK;
}

TR_ACTOR(slow_starters, puppet, TR_HOOK(pre_start, slow_start),
         TR_ON(Note, slow_note));

static void test_X5_mail_waits_until_the_actor_runs(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    tr_ref ref =
        tr_spawn(it.sys, slow_starters, TR_INIT(slow_starters, .stage = &it),
                 .supervision = TR_SUPERVISE(.backoff_min = TR_SECONDS(3),
                                             .backoff_max = TR_SECONDS(3)));
    tr_tell(it.sys, ref, Note, .value = 2);
    stage_run_ready(&it);
    expect_notes(&it);
    stage_pass(&it, TR_SECONDS(1));
    expect_notes(&it, 1, 2);
    // Mail waits in FAILED and RESTARTING, too.
    tr_tell(it.sys, ref, Note, .value = 5);
    tr_tell(it.sys, ref, Note, .value = 6);
    stage_run_ready(&it);
    assert_int_equal(tr_state_of(it.sys, ref), TR_STATE_RESTARTING);
    tr_tell(it.sys, ref, Note, .value = 7);
    stage_pass(&it, TR_SECONDS(5));
    expect_notes(&it, 1, 2, 5, 1, 6, 7);
    // Only the failed message is lost.
    assert_int_equal(stage_dead(&it, TR_DEAD_FAILED), 1);
    stage_close(&it);
}

/* Sends while it holds every lock that a push could want. */
static tr_err act_send_under_locks(tr_ctx *ctx, puppet *self, const Act *m,
                                   void *arg)
{
    uintptr_t *seen = arg;
    tri_cell *cell = tri_ref_cell(self->peer);
    tri_ext *ext = tri_ext_need(ctx->worker, cell);
    TR_ASSERT(ctx, ext != NULL);
    tri_lock *locks[] = {&ext->lock,
                         &ext->room.lock,
                         &ctx->worker->pool->lock,
                         &ctx->sys->pools_lock,
                         &ctx->sys->outside_lock,
                         &ctx->sys->boxes_lock};
    enum { LOCKS = sizeof(locks) / sizeof(locks[0]) };
    for (int i = 0; i < LOCKS; i++) {
        tri_lock_take(locks[i]);
    }
    seen[0] = atomic_load(&cell->mail);
    tr_tell(ctx, self->peer, Note, .value = 1);
    seen[1] = atomic_load(&cell->mail);
    tr_stop(ctx, self->peer);
    seen[2] = atomic_load(&cell->sys_mail);
    for (int i = LOCKS; i-- > 0;) {
        tri_lock_drop(locks[i]);
    }
    return tr_reply(ctx, m, .value = 1);
}

/*
 * The push itself decides who schedules the cell. If it takes one of the
 * locks, this test does not end.
 */
static void test_MB7_X25_a_send_takes_no_lock(void **state)
{
    stage it;
    uintptr_t seen[3];
    (void)state;
    stage_open(&it);
    expect_ok(stage_ask(&it, it.one, act_meet, &it.two));
    stage_run_ready(&it);
    expect_ok(stage_ask(&it, it.one, act_send_under_locks, seen));
    assert_true(seen[0] & TRI_MAIL_IDLE);
    assert_false(
        seen[1] &
        TRI_MAIL_IDLE);  // the sender has claimed the cell and schedules it
    assert_int_equal(tri_mail_depth(seen[1]), 1);
    assert_true(seen[2] & TRI_SYS_SIGNAL);
    stage_run_ready(&it);
    assert_int_equal(tr_state_of(it.sys, it.two), TR_STATE_TERMINATED);
    stage_close(&it);
}

/* System mail is pushed on a stack and handled in the order of sending. */
static void test_X25_system_mail_keeps_its_order(void **state)
{
    stage it;
    tr_ref refs[5];
    (void)state;
    stage_open(&it);
    for (int i = 0; i < 5; i++) {
        refs[i] = stage_spawn(&it, .soft_limit = 0);
        tr_watch_for(it.sys, it.one, refs[i]);
    }
    stage_tell(&it, it.one, act_sleep, (void *)TR_SECONDS(1));
    stage_run_ready(&it);
    for (int i = 0; i < 5; i++) {  // each end sends the sleeper one notice
        if (i % 2 == 0) {
            tr_stop(it.sys, refs[i]);
        } else {
            tr_kill(it.sys, refs[i]);
        }
        stage_run_ready(&it);
    }
    stage_pass(&it, TR_SECONDS(1));
    expect_notes(&it, 1000 + TR_STOPPED, 1000 + TR_KILLED, 1000 + TR_STOPPED,
                 1000 + TR_KILLED, 1000 + TR_STOPPED);
    stage_close(&it);
}

/* ---- urgent mail ---- */

static void test_MB16_urgent_mail_is_handled_by_priority(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    keep_busy(&it, it.one);
    tr_tell(it.sys, it.one, Note, .value = 10);
    tr_tell_urgent(it.sys, it.one, 1, Note, .value = 1);
    tr_tell_urgent(it.sys, it.one, 7, Note, .value = 7);
    tr_tell(it.sys, it.one, Note, .value = 11);
    tr_tell_urgent(it.sys, it.one, 3, Note, .value = 3);
    tr_tell_urgent(it.sys, it.one, 3, Note, .value = 33);
    stage_pass(&it, TR_SECONDS(1));
    expect_notes(&it, 7, 3, 33, 1, 10, 11);
    stage_close(&it);
}

/* Sends itself urgent mail while its queue is detached from the lane. */
static tr_err act_tell_itself_urgently(tr_ctx *ctx, puppet *self, const Act *m,
                                       void *arg)
{
    (void)self;
    (void)m;
    (void)arg;
    tr_tell_urgent(ctx, tr_self(ctx), 2, Note, .value = 2);
    return TR_OK;
}

static tr_err act_plain_then_urgent(tr_ctx *ctx, puppet *self, const Act *m,
                                    void *arg)
{
    tr_ref to = *(tr_ref *)arg;
    (void)self;
    (void)m;
    // The receiver sleeps: this claims its cell.
    tr_tell(ctx, to, Note, .value = 1);
    tr_tell_urgent(ctx, to, 2, Note, .value = 2);
    return TR_OK;
}

static void test_MB16_urgent_mail_overtakes_the_detached_queue(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    stage_tell(&it, it.one, act_sleep, (void *)TR_MS(1));
    tr_tell(it.sys, it.one, Note, .value = 1);
    stage_tell(&it, it.one, act_tell_itself_urgently, NULL);
    for (int i = 3; i <= 5; i++) {
        tr_tell(it.sys, it.one, Note, .value = i);
    }
    stage_pass(&it, TR_MS(10));
    expect_notes(&it, 1, 2, 3, 4, 5);
    stage_close(&it);

    stage_open(&it);
    expect_ok(stage_ask(&it, it.one, act_plain_then_urgent, &it.two));
    stage_run_ready(&it);
    expect_notes(&it, 2, 1);
    stage_close(&it);
}

static void test_MB16_urgent_mail_is_drained_and_limited(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    tr_ref ref = stage_spawn(&it, .mailbox_limit = 3);
    keep_busy(&it, ref);
    for (int i = 0; i < 5; i++) {
        tr_tell_urgent(it.sys, ref, 2, Note, .value = i);
    }
    assert_int_equal(stage_dead(&it, TR_DEAD_FULL), 2);
    tr_stop(it.sys, ref);
    stage_pass(&it, TR_SECONDS(2));
    assert_int_equal(stage_dead(&it, TR_DEAD_DRAINED), 3);
    stage_close(&it);
}

/* ---- what can be seen of a mailbox ---- */

static void test_MB5_MB20_the_depth_can_be_read_at_any_time(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    keep_busy(&it, it.one);
    for (uint32_t i = 1; i <= 50; i++) {
        tr_tell(it.sys, it.one, Note, .value = i);
        assert_int_equal(stage_depth(&it, it.one), i);
    }
    stage_pass(&it, TR_SECONDS(2));
    assert_int_equal(stage_depth(&it, it.one), 0);
    stage_close(&it);
}

static tr_actor_info info_of(tr_from from, tr_ref ref)
{
    tr_actor_info info = {.size = sizeof(info)};
    expect_ok((tr_actor_info_of)(from, ref, &info));
    return info;
}

static tr_err act_look_at_self(tr_ctx *ctx, puppet *self, const Act *m,
                               void *arg)
{
    tr_actor_info *out = arg;
    (void)self;
    *out = info_of((tr_from){.ctx = ctx}, tr_self(ctx));
    return tr_reply(ctx, m, .value = 1);
}

static void test_MB3_MB17_info_shows_what_waits_and_what_runs(void **state)
{
    stage it;
    tr_actor_info inside = {0};
    (void)state;
    stage_open(&it);
    tr_from sys = {.sys = it.sys};
    tr_actor_info before = info_of(sys, it.one);
    assert_null(before.running);
    stage_tell(&it, it.one, act_look_at_self, &inside);
    tr_actor_info sent = info_of(sys, it.one);  // the world has not run yet
    assert_int_equal(sent.depth, 1);
    assert_int_equal(sent.messages, before.messages);
    assert_null(sent.running);
    stage_run_ready(&it);
    assert_int_equal(inside.depth, 0);
    assert_non_null(inside.running);
    assert_string_equal(inside.running, "Act");
    tr_actor_info after = info_of(sys, it.one);
    assert_int_equal(after.depth, 0);
    assert_int_equal(after.messages, before.messages + 1);
    assert_null(after.running);
    stage_close(&it);
}

static tr_err sleeps_at_start(tr_ctx *ctx, void *self)
{
    (void)self;
    return tr_sleep(ctx, TR_SECONDS(1));
}

TR_ACTOR(sleeper, void, TR_HOOK(pre_start, sleeps_at_start));

/* A hook once showed the message that its worker had handled last. */
static void test_MB17_a_hook_that_waits_shows_no_message(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    stage_tell(&it, it.one, act_nothing, NULL);
    stage_run_ready(&it);
    tr_ref ref = tr_spawn(it.sys, sleeper);
    stage_run_ready(&it);
    tr_actor_info info = info_of((tr_from){.sys = it.sys}, ref);
    assert_null(info.running);
    assert_string_equal(info.waits_in, "tr_sleep");
    stage_close(&it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_MB1_MB14_system_mail_comes_before_user_mail),
        cmocka_unit_test(
            test_MB4_a_stop_takes_effect_after_the_current_message),
        cmocka_unit_test(test_X5_mail_waits_until_the_actor_runs),
        cmocka_unit_test(test_MB7_X25_a_send_takes_no_lock),
        cmocka_unit_test(test_X25_system_mail_keeps_its_order),
        cmocka_unit_test(test_MB16_urgent_mail_is_handled_by_priority),
        cmocka_unit_test(test_MB16_urgent_mail_overtakes_the_detached_queue),
        cmocka_unit_test(test_MB16_urgent_mail_is_drained_and_limited),
        cmocka_unit_test(test_MB5_MB20_the_depth_can_be_read_at_any_time),
        cmocka_unit_test(test_MB3_MB17_info_shows_what_waits_and_what_runs),
        cmocka_unit_test(test_MB17_a_hook_that_waits_shows_no_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
