/*
 * timer_test.c - tr_after, tr_every, tr_receive_timeout, tr_sleep on virtual
 * time: when they fire, what cancels them, what they survive.
 */
#include <stdatomic.h>

#include "support/stage.h"

#include "support/core.h"

typedef struct plan {
    tr_nanos span;
    int64_t value;
    tr_timer timer;
} plan;

static tr_err act_after(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    plan *it = arg;
    (void)self;
    (void)m;
    it->timer = tr_after(ctx, it->span, Note, .value = it->value);
    return TR_OK;
}

static void test_a_timer_fires_once_and_in_time(void **state)
{
    stage it;
    plan once = {TR_SECONDS(2), 5, {0}};
    (void)state;
    stage_open(&it);
    expect_ok(stage_ask(&it, it.one, act_after, &once));
    stage_pass(&it, TR_MS(1999));
    expect_notes(&it);
    stage_pass(&it, TR_MS(1));
    expect_notes(&it, 5);
    stage_pass(&it, TR_SECONDS(100));
    expect_notes(&it, 5);
    stage_close(&it);
}

static void test_timers_fire_in_order_of_time(void **state)
{
    stage it;
    plan plans[] = {{TR_SECONDS(3), 3, {0}},
                    {TR_SECONDS(1), 1, {0}},
                    {TR_SECONDS(2), 2, {0}},
                    {0, 0, {0}}};
    (void)state;
    stage_open(&it);
    for (int i = 0; i < 4; i++) {
        expect_ok(stage_ask(&it, it.one, act_after, &plans[i]));
    }
    stage_pass(&it, TR_SECONDS(4));
    expect_notes(&it, 0, 1, 2, 3);
    stage_close(&it);
}

static tr_err act_every(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    plan *it = arg;
    (void)self;
    (void)m;
    it->timer = tr_every(ctx, it->span, Note, .value = it->value);
    return TR_OK;
}

static void test_a_periodic_timer_keeps_its_pace(void **state)
{
    stage it;
    plan beat = {TR_SECONDS(1), 1, {0}};
    (void)state;
    stage_open(&it);
    expect_ok(stage_ask(&it, it.one, act_every, &beat));
    stage_pass(&it, TR_SECONDS(10));
    assert_int_equal(atomic_load(&it.note_count), 10);
    // Ticks that fall into a long turn are delivered once.
    stage_tell(&it, it.one, act_sleep, (void *)TR_MS(3500));
    stage_pass(&it, TR_MS(3600));
    assert_int_equal(atomic_load(&it.note_count), 12);
    stage_pass(&it, TR_SECONDS(5));
    assert_int_equal(atomic_load(&it.note_count), 17);
    stage_close(&it);
}

static tr_err act_cancel(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    plan *it = arg;
    (void)self;
    (void)m;
    tr_cancel(ctx, it->timer);
    tr_cancel(ctx, it->timer);  // cancelling twice is allowed
    return TR_OK;
}

static void test_a_timer_is_cancelled_before_and_after_it_fired(void **state)
{
    stage it;
    plan once = {TR_SECONDS(1), 5, {0}}, beat = {TR_SECONDS(1), 6, {0}};
    (void)state;
    stage_open(&it);
    expect_ok(stage_ask(&it, it.one, act_after, &once));
    expect_ok(stage_ask(&it, it.one, act_cancel, &once));
    stage_pass(&it, TR_SECONDS(5));
    expect_notes(&it);
    // It fires behind a parked turn; the cancel is handled first.
    expect_ok(stage_ask(&it, it.one, act_after, &once));
    expect_ok(stage_ask(&it, it.one, act_every, &beat));
    stage_tell(&it, it.one, act_sleep, (void *)TR_SECONDS(2));
    stage_tell(&it, it.one, act_cancel, &once);
    stage_tell(&it, it.one, act_cancel, &beat);
    stage_pass(&it, TR_SECONDS(9));
    expect_notes(&it);
    stage_close(&it);
}

/* Cancels the timer whose message it handles. */
static tr_err self_cancel_note(tr_ctx *ctx, puppet *self, const Note *m)
{
    stage_note(self->stage, m->value);
    plan *it = self->kept;
    tr_cancel(ctx, it->timer);
    return m->value == 9 ? tr_fail(ctx, TR_EUSER, "nine") : TR_OK;
}

static tr_err self_cancel_act(tr_ctx *ctx, puppet *self, const Act *m)
{
    self->kept = (void *)(uintptr_t)m->arg;
    return act_every(ctx, self, m, self->kept);
}

TR_ACTOR(self_cancellers, puppet, TR_ON(Note, self_cancel_note),
         TR_ON(Act, self_cancel_act));

static void test_a_timer_is_cancelled_by_its_own_handler(void **state)
{
    stage it;
    plan beat = {TR_SECONDS(1), 4, {0}}, failing = {TR_SECONDS(1), 9, {0}};
    (void)state;
    stage_open(&it);
    tr_ref ref = tr_spawn(it.sys, self_cancellers,
                          TR_INIT(self_cancellers, .stage = &it));
    stage_tell(&it, ref, NULL, &beat);
    stage_pass(&it, TR_SECONDS(5));
    expect_notes(&it, 4);
    stage_tell(&it, ref, NULL, &failing);
    stage_pass(&it, TR_SECONDS(5));
    expect_notes(&it, 4, 9);
    stage_close(&it);
}

static tr_err act_receive_timeout(tr_ctx *ctx, puppet *self, const Act *m,
                                  void *arg)
{
    (void)self;
    (void)m;
    tr_receive_timeout(ctx, (tr_nanos)(intptr_t)arg);
    return TR_OK;
}

static tr_err act_become_deaf(tr_ctx *ctx, puppet *self, const Act *m,
                              void *arg);

static tr_err deaf_act(tr_ctx *ctx, puppet *self, const Act *m)
{
    return ((act_fn)(uintptr_t)m->fn)(ctx, self, m, (void *)(uintptr_t)m->arg);
}

TR_ACTOR(deaf, puppet, TR_ON(Act, deaf_act));

static tr_err act_become_deaf(tr_ctx *ctx, puppet *self, const Act *m,
                              void *arg)
{
    (void)m;
    (void)arg;
    tr_become(ctx, self, deaf);
    return TR_OK;
}

static void test_an_unhandled_timer_message_is_reported(void **state)
{
    stage it;
    plan beat = {TR_SECONDS(1), 4, {0}}, once = {TR_MS(1500), 5, {0}};
    (void)state;
    stage_open(&it);
    expect_ok(stage_ask(&it, it.one, act_every, &beat));
    expect_ok(stage_ask(&it, it.one, act_after, &once));
    expect_ok(stage_ask(&it, it.one, act_receive_timeout, (void *)TR_MS(300)));
    expect_ok(stage_ask(&it, it.one, act_become_deaf, NULL));
    stage_pass(&it, TR_MS(2500));
    expect_notes(&it);
    assert_int_equal(stage_dead(&it, TR_DEAD_UNHANDLED), 3);
    stage_close(&it);
}

static tr_err act_keep_timer(tr_ctx *ctx, puppet *self, const Note *m)
{
    if (m->value == 1) {
        const Note *kept = tr_keep(ctx, m);
        self->kept = (void *)(uintptr_t)kept;
        return TR_OK;
    }
    if (m->value == 2) {
        return tr_stash(ctx, m);
    }
    stage_note(self->stage, ((const Note *)self->kept)->value);
    tr_release(ctx, self->kept);
    tr_become(ctx, self, puppets);
    tr_unstash_all(ctx);
    return TR_OK;
}

TR_ACTOR(timer_keepers, puppet, TR_ON(Note, act_keep_timer),
         TR_ON(Act, deaf_act));

static void test_timer_messages_may_be_kept_and_stashed(void **state)
{
    stage it;
    plan keep = {TR_SECONDS(1), 1, {0}}, stash = {TR_SECONDS(2), 2, {0}};
    (void)state;
    stage_open(&it);
    tr_ref ref =
        tr_spawn(it.sys, timer_keepers, TR_INIT(timer_keepers, .stage = &it));
    stage_tell(&it, ref, act_after, &keep);
    stage_tell(&it, ref, act_after, &stash);
    stage_pass(&it, TR_SECONDS(3));
    expect_notes(&it);
    tr_tell(it.sys, ref, Note, .value = 3);
    stage_run_ready(&it);
    expect_notes(&it, 1, 2);
    stage_close(&it);
}

/*
 * A periodic timer reuses its message: what a handler keeps, stashes or
 * forwards is a copy.
 */
typedef struct Clock {
    stage *stage;
    int64_t beats;
    const Note *kept;
} Clock;

static tr_err clock_start(tr_ctx *ctx, Clock *self)
{
    (void)self;
    (void)tr_every(ctx, TR_SECONDS(1), Note, .value = 5);
    return TR_OK;
}

static tr_err clock_beat(tr_ctx *ctx, Clock *self, const Note *m)
{
    switch (self->beats++) {
    case 0:
        tr_forward(ctx, self->stage->two, m);
        break;
    case 1:
        self->kept = tr_keep(ctx, m);
        break;
    case 2:
        TR_ASSERT(ctx, self->kept->value == 5);
        tr_release(ctx, self->kept);
        return tr_stash(ctx, m);
    case 3:
        tr_unstash_all(ctx);
        break;
    default:
        tr_stop(ctx, tr_self(ctx));
        TR_ASSERT(ctx, tr_stopping(ctx));
        break;
    }
    return TR_OK;
}

static tr_err clock_stop(tr_ctx *ctx, Clock *self, tr_reason reason)
{
    (void)reason;
    TR_ASSERT(ctx, tr_stopping(ctx));
    stage_note(self->stage, self->beats);
    return TR_OK;
}

TR_ACTOR(clocks, Clock, TR_ON_QUIET(Note, clock_beat),
         TR_HOOK(pre_start, clock_start), TR_HOOK(post_stop, clock_stop));

static void test_T7_messages_of_timers_are_kept_as_copies(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    tr_ref ref = tr_spawn(it.sys, clocks, TR_INIT(clocks, .stage = &it));
    stage_pass(&it, TR_SECONDS(10));
    expect_notes(&it, 5, 5);  // forwarded to `two` once; five beats in all
    assert_int_equal(tr_state_of(it.sys, ref), TR_STATE_TERMINATED);
    stage_close(&it);
}

static void test_timers_end_with_the_actor(void **state)
{
    stage it;
    plan beat = {TR_SECONDS(1), 4, {0}}, once = {TR_SECONDS(1), 5, {0}};
    (void)state;
    stage_open(&it);
    expect_ok(stage_ask(&it, it.one, act_every, &beat));
    expect_ok(stage_ask(&it, it.one, act_after, &once));
    stage_tell(&it, it.one, act_sleep, (void *)TR_SECONDS(2));
    stage_pass(&it, TR_MS(1500));
    tr_stop(it.sys, it.one);
    stage_pass(&it, TR_SECONDS(3));
    expect_notes(&it);
    stage_close(&it);
}

static void test_timers_survive_resume_not_restart(void **state)
{
    stage it;
    plan beat = {TR_SECONDS(1), 4, {0}};
    (void)state;
    stage_open(&it);
    tr_ref ref =
        stage_spawn(&it, .supervision = TR_SUPERVISE(.on_failure = TR_RESUME));
    expect_ok(stage_ask(&it, ref, act_every, &beat));
    stage_tell(&it, ref, act_fail, NULL);
    stage_pass(&it, TR_SECONDS(2));
    expect_notes(&it, 4, 4);
    expect_ok(stage_ask(&it, it.one, act_every, &beat));
    stage_tell(&it, it.one, act_fail, NULL);
    tr_kill(it.sys, ref);
    stage_pass(&it, TR_SECONDS(5));
    expect_notes(&it, 4, 4);
    stage_close(&it);
}

/* ---- tr_receive_timeout ---- */

static void test_receive_timeout_comes_after_silence(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    expect_ok(
        stage_ask(&it, it.one, act_receive_timeout, (void *)TR_SECONDS(1)));
    for (int i = 0; i < 5; i++) {
        stage_pass(&it, TR_MS(900));
        tr_tell(it.sys, it.one, Note, .value = i);
        stage_run_ready(&it);
    }
    expect_notes(&it, 0, 1, 2, 3, 4);
    stage_pass(&it, TR_MS(3100));  // it repeats
    expect_notes(&it, 0, 1, 2, 3, 4, -1, -1, -1);
    expect_ok(stage_ask(&it, it.one, act_receive_timeout, NULL));
    stage_pass(&it, TR_SECONDS(5));
    expect_notes(&it, 0, 1, 2, 3, 4, -1, -1, -1);
    expect_ok(
        stage_ask(&it, it.one, act_receive_timeout, (void *)TR_SECONDS(1)));
    stage_pass(&it, TR_MS(1500));
    expect_notes(&it, 0, 1, 2, 3, 4, -1, -1, -1, -1);
    stage_close(&it);
}

/* Other mail is queued before the time-out: there was no silence. */
static void test_receive_timeout_is_dropped_behind_other_mail(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    expect_ok(
        stage_ask(&it, it.one, act_receive_timeout, (void *)TR_SECONDS(1)));
    stage_tell(&it, it.one, act_sleep, (void *)TR_SECONDS(3));
    stage_run_ready(&it);
    tr_tell(it.sys, it.one, Note, .value = 1);
    stage_pass(&it, TR_MS(3500));
    expect_notes(&it, 1);
    stage_pass(&it, TR_SECONDS(1));
    expect_notes(&it, 1, -1);
    stage_close(&it);
}

static void test_receive_timeout_needs_no_memory_later(void **state)
{
    stage it;
    (void)state;
    if (!TRI_FAULTS) {  // allocations cannot be made to fail
        skip();
    }
    stage_open(&it);
    expect_ok(
        stage_ask(&it, it.one, act_receive_timeout, (void *)TR_SECONDS(1)));
    tr_tell(it.sys, it.one, Note, .value = 1);
    tri_mem_fail_after(&it.sys->mem, 0);
    stage_pass(&it, TR_MS(1500));
    tri_mem_fail_after(&it.sys->mem, -1);
    expect_notes(&it, 1, -1);
    stage_close(&it);
}

static void test_receive_timeout_ends_at_a_restart(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    expect_ok(
        stage_ask(&it, it.one, act_receive_timeout, (void *)TR_SECONDS(1)));
    stage_tell(&it, it.one, act_fail, NULL);
    stage_pass(&it, TR_SECONDS(1));
    tr_tell(it.sys, it.one, Note, .value = 1);
    stage_pass(&it, TR_SECONDS(9));
    expect_notes(&it, 1);
    stage_close(&it);
}

static void test_infinite_spans_never_fire(void **state)
{
    stage it;
    plan never = {TR_FOREVER, 1, {0}};
    (void)state;
    stage_open(&it);
    expect_ok(stage_ask(&it, it.one, act_after, &never));
    expect_ok(stage_ask(&it, it.one, act_every, &never));
    expect_ok(stage_ask(&it, it.one, act_receive_timeout, (void *)TR_FOREVER));
    stage_tell(&it, it.one, act_sleep, (void *)TR_FOREVER);
    stage_pass(&it, TR_SECONDS(100000));
    expect_notes(&it);
    tr_kill(it.sys, it.one);
    stage_close(&it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_timer_fires_once_and_in_time),
        cmocka_unit_test(test_timers_fire_in_order_of_time),
        cmocka_unit_test(test_a_periodic_timer_keeps_its_pace),
        cmocka_unit_test(test_a_timer_is_cancelled_before_and_after_it_fired),
        cmocka_unit_test(test_a_timer_is_cancelled_by_its_own_handler),
        cmocka_unit_test(test_an_unhandled_timer_message_is_reported),
        cmocka_unit_test(test_timer_messages_may_be_kept_and_stashed),
        cmocka_unit_test(test_T7_messages_of_timers_are_kept_as_copies),
        cmocka_unit_test(test_timers_end_with_the_actor),
        cmocka_unit_test(test_timers_survive_resume_not_restart),
        cmocka_unit_test(test_receive_timeout_comes_after_silence),
        cmocka_unit_test(test_receive_timeout_is_dropped_behind_other_mail),
        cmocka_unit_test(test_receive_timeout_needs_no_memory_later),
        cmocka_unit_test(test_receive_timeout_ends_at_a_restart),
        cmocka_unit_test(test_infinite_spans_never_fire),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
