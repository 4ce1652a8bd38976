/*
 * room_test.c - the hard limit of a mailbox: the overflow policies, and
 * senders that wait for room.
 */
#include <stdatomic.h>

#include "support/stage.h"

#include "unit/core/waiting.h"

/* ---- policies ---- */

static void fill(stage *it, tr_ref ref, int count)
{
    for (int i = 1; i <= count; i++) {
        tr_tell(it->sys, ref, Note, .value = i);
    }
}

static void test_MB10_MB22_overflow_fail(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    tr_ref ref = stage_spawn(&it, .mailbox_limit = 2);
    keep_busy(&it, ref);
    fill(&it, ref, 4);
    expect_err(tr_try_tell(it.sys, ref, Note, .value = 9), TR_EFULL);
    expect_err(stage_ask(&it, ref, act_nothing, NULL), TR_EFULL);
    stage_pass(&it, TR_SECONDS(2));
    expect_notes(&it, 1, 2);
    assert_int_equal(stage_dead(&it, TR_DEAD_FULL), 2);
    fill(&it, ref, 1);  // there is room again
    stage_run_ready(&it);
    expect_notes(&it, 1, 2, 1);
    stage_close(&it);
}

static void test_MB10_MB22_overflow_drop_new(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    tr_ref ref =
        stage_spawn(&it, .mailbox_limit = 2, .overflow = TR_OVERFLOW_DROP_NEW);
    keep_busy(&it, ref);
    fill(&it, ref, 4);
    stage_pass(&it, TR_SECONDS(2));
    expect_notes(&it, 1, 2);
    assert_int_equal(stage_dead(&it, TR_DEAD_FULL), 2);
    stage_close(&it);
}

static void test_MB10_MB22_overflow_drop_old(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    tr_ref ref =
        stage_spawn(&it, .mailbox_limit = 2, .overflow = TR_OVERFLOW_DROP_OLD);
    keep_busy(&it, ref);
    fill(&it, ref, 5);
    stage_pass(&it, TR_SECONDS(2));
    expect_notes(&it, 4, 5);
    assert_int_equal(stage_dead(&it, TR_DEAD_DROPPED_OLD), 3);
    stage_close(&it);
}

static void test_MB10_MB22_overflow_stop(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    tr_ref ref =
        stage_spawn(&it, .mailbox_limit = 2, .overflow = TR_OVERFLOW_STOP);
    keep_busy(&it, ref);
    fill(&it, ref, 3);
    stage_pass(&it, TR_SECONDS(2));
    assert_int_equal(tr_state_of(it.sys, ref), TR_STATE_TERMINATED);
    assert_int_equal(stage_dead(&it, TR_DEAD_FULL), 1);
    stage_close(&it);
}

static tr_err act_tick(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)self;
    (void)m;
    (void)arg;
    (void)tr_every(ctx, TR_MS(10), Note, .value = 0);
    return TR_OK;
}

static tr_err act_stash_once(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)arg;
    return self->value == 0 ? tr_stash(ctx, m) : TR_OK;
}

static tr_err act_unstash(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)m;
    (void)arg;
    self->value = 1;
    tr_unstash_all(ctx);
    return TR_OK;
}

static void expect_limit(stage *it, tr_ref ref, uint32_t limit)
{
    keep_busy(it, ref);
    for (uint32_t i = 0; i < limit; i++) {
        expect_ok(tr_try_tell(it->sys, ref, Note, .value = 1));
    }
    expect_err(tr_try_tell(it->sys, ref, Note, .value = 1), TR_EFULL);
    stage_pass(it, TR_SECONDS(2));
}

static void test_MB10_timers_and_stashed_mail_do_not_use_up_the_limit(
    void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    tr_ref ref =
        stage_spawn(&it, .mailbox_limit = 4,
                    .supervision = TR_SUPERVISE(.max_restarts = 100,
                                                .clear_mailbox = true));
    expect_ok(stage_ask(&it, ref, act_tick, NULL));
    stage_pass(&it, TR_SECONDS(1));
    expect_limit(&it, ref, 4);
    stage_tell(&it, ref, act_stash_once, NULL);
    stage_tell(&it, ref, act_stash_once, NULL);
    stage_tell(&it, ref, act_unstash, NULL);
    stage_run_ready(&it);
    expect_limit(&it, ref, 4);
    // A restart that clears the mailbox resets the count.
    keep_busy(&it, ref);
    stage_tell(&it, ref, act_fail, NULL);
    fill(&it, ref, 3);
    stage_pass(&it, TR_SECONDS(3));
    assert_int_equal(stage_dead(&it, TR_DEAD_RESTARTED), 3);
    expect_limit(&it, ref, 4);
    stage_close(&it);
}

static void test_MB10_drop_old_keeps_messages_of_timers(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    tr_ref ref =
        stage_spawn(&it, .mailbox_limit = 2, .overflow = TR_OVERFLOW_DROP_OLD);
    expect_ok(stage_ask(&it, ref, act_tick, NULL));
    keep_busy(&it, ref);
    stage_pass(&it, TR_MS(500));
    fill(&it, ref, 5);
    stage_pass(&it, TR_MS(506));
    expect_notes(&it, 0, 4, 5, 0);
    stage_close(&it);
}

/* ---- senders that wait ---- */

static tr_err act_tell_ten(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)self;
    (void)m;
    for (int i = 1; i <= 10; i++) {
        tr_tell(ctx, *(tr_ref *)arg, Note, .value = i);
    }
    return TR_OK;
}

static tr_err act_slow_note(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    uint32_t *deepest = arg;
    (void)m;
    for (int i = 0; i < 200; i++) {
        TR_TRY(tr_sleep(ctx, TR_MS(10)));
        uint32_t depth = stage_depth(self->stage, tr_self(ctx));
        *deepest = depth > *deepest ? depth : *deepest;
    }
    return TR_OK;
}

static tr_err puppet_run(tr_ctx *ctx, puppet *self)
{
    return act_slow_note(ctx, self, NULL, self->kept);
}

static tr_err watched_note(tr_ctx *ctx, puppet *self, const Note *m)
{
    stage_note(self->stage, m->value);
    return tr_sleep(ctx, TR_MS(7));
}

TR_ACTOR(watched, puppet, TR_ON(Note, watched_note),
         TR_HOOK(on_run, puppet_run));

static void test_MB11_MB12_MB22_block_keeps_the_limit(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        stage it;
        uint32_t deepest = 0;
        stage_open_seed(&it, seed, NULL);
        tr_ref full = tr_spawn(
            it.sys, watched, TR_INIT(watched, .stage = &it, .kept = &deepest),
            .mailbox_limit = 3, .overflow = TR_OVERFLOW_BLOCK);
        stage_run_ready(&it);
        for (int i = 0; i < 10; i++) {
            stage_tell(&it, stage_spawn(&it, .soft_limit = 0), act_tell_ten,
                       &full);
        }
        stage_pass(&it, TR_SECONDS(5));
        assert_int_equal(atomic_load(&it.note_count), 100);
        assert_true(deepest <= 3);
        assert_int_equal(stage_dead(&it, TR_DEAD_FULL), 0);
        stage_close(&it);
    }
}

static tr_err act_tell_five(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)m;
    for (int i = 1; i <= 5; i++) {
        tr_tell(ctx, *(tr_ref *)arg, Note, .value = i);
    }
    stage_note(self->stage, 100);
    return TR_OK;
}

static tr_ref spawn_blocking(stage *it, uint32_t limit)
{
    tr_ref ref = stage_spawn(it, .name = "full", .mailbox_limit = limit,
                             .overflow = TR_OVERFLOW_BLOCK);
    stage_run_ready(it);
    return ref;
}

static void test_rule_23_a_full_mailbox_parks_the_sender(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    tr_ref full = spawn_blocking(&it, 2);
    stage_tell(&it, full, act_sleep, (void *)TR_SECONDS(5));
    stage_run_ready(&it);
    stage_tell(&it, it.one, act_tell_five, &full);
    stage_run_ready(&it);
    expect_notes(&it);
    assert_int_equal(stage_depth(&it, full), 2);
    stage_pass(&it, TR_SECONDS(6));
    assert_int_equal(atomic_load(&it.note_count), 6);
    assert_int_equal(stage_dead(&it, TR_DEAD_FULL), 0);
    stage_close(&it);
}

static void test_rule_23_the_wait_is_capped_by_the_ask_timeout(void **state)
{
    stage it;
    tr_system_options options = {.size = sizeof(options),
                                 .ask_timeout = TR_SECONDS(2)};
    (void)state;
    stage_open_seed(&it, 1, &options);
    tr_ref full = spawn_blocking(&it, 2);
    stage_tell(&it, full, act_sleep, (void *)TR_SECONDS(100));
    stage_run_ready(&it);
    stage_tell(&it, it.one, act_tell_five, &full);
    stage_pass(&it, TR_SECONDS(7));
    expect_notes(&it, 100);
    assert_int_equal(stage_dead(&it, TR_DEAD_FULL), 3);
    stage_close(&it);
}

static tr_err act_fill_self(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    tr_err *out = arg;
    (void)self;
    (void)m;
    tr_tell(ctx, tr_self(ctx), Note, .value = 1);
    tr_tell(ctx, tr_self(ctx), Note, .value = 2);
    tr_tell(ctx, tr_self(ctx), Note, .value = 3);
    *out = tr_try_tell(ctx, tr_self(ctx), Note, .value = 4);
    return TR_OK;
}

static void test_rule_23_a_tell_to_a_full_own_mailbox_is_refused(void **state)
{
    stage it;
    tr_err err = TR_OK;
    (void)state;
    stage_open(&it);
    tr_ref full = spawn_blocking(&it, 2);
    expect_ok(stage_ask(&it, full, act_fill_self, &err));
    stage_run_ready(&it);
    expect_notes(&it, 1, 2);
    assert_int_equal(stage_dead(&it, TR_DEAD_FULL), 1);
    assert_true(err == TR_EFULL || err == TR_EDEADLOCK);
    stage_close(&it);
}

static tr_err act_fill_itself(tr_ctx *ctx, puppet *self, const Act *m,
                              void *arg)
{
    (void)self;
    (void)arg;
    for (int i = 0; i < 5; i++) {
        tr_tell(ctx, tr_self(ctx), Note, .value = i);
    }
    return tr_reply(ctx, m, .value = 1);
}

static void test_rule_23_an_actor_does_not_wait_for_its_own_mailbox(
    void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    tr_ref ref =
        stage_spawn(&it, .mailbox_limit = 2, .overflow = TR_OVERFLOW_BLOCK);
    expect_ok(stage_ask(&it, ref, act_fill_itself, NULL));
    stage_run_ready(&it);
    expect_notes(&it, 0, 1);
    assert_int_equal(stage_dead(&it, TR_DEAD_FULL), 3);
    stage_close(&it);
}

static tr_err act_fill_asker(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)arg;
    for (int i = 0; i < 5; i++) {
        tr_tell(ctx, self->peer, Note, .value = i);
    }
    return tr_reply(ctx, m, .value = 1);
}

static tr_err act_ask_filler(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)m;
    return act_ask(ctx, self->peer, act_fill_asker, arg, 0);
}

static void test_rule_23_a_sender_does_not_wait_for_its_own_asker(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    tr_ref full = spawn_blocking(&it, 2);
    expect_ok(stage_ask(&it, full, act_meet, &it.one));
    expect_ok(stage_ask(&it, it.one, act_meet, &full));
    expect_ok(stage_ask(&it, full, act_ask_filler, NULL));
    stage_run_ready(&it);
    expect_notes(&it, 0, 1);
    assert_int_equal(stage_dead(&it, TR_DEAD_FULL), 3);
    stage_close(&it);
}

static tr_err act_fill_other(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)m;
    (void)!tr_sleep(ctx, TR_SECONDS(60));  // whatever it returns
    for (int i = 0; i < 5; i++) {
        tr_tell(ctx, *(tr_ref *)arg, Note, .value = i);
    }
    stage_note(self->stage, 77);
    return TR_OK;
}

/* After the kill no call of the turn waits. */
static void test_rule_4_a_killed_turn_does_not_wait_for_room(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    tr_ref full =
        stage_spawn(&it, .mailbox_limit = 2, .overflow = TR_OVERFLOW_BLOCK);
    stage_tell(&it, full, act_sleep, (void *)TR_SECONDS(30));
    stage_tell(&it, it.one, act_fill_other, &full);
    stage_pass(&it, TR_SECONDS(1));
    tr_kill(it.sys, it.one);
    stage_pass(&it, TR_SECONDS(1));
    expect_notes(&it, 77);
    assert_int_equal(stage_dead(&it, TR_DEAD_FULL), 3);
    stage_pass(&it, TR_SECONDS(60));
    expect_notes(&it, 77, 0, 1);
    stage_close(&it);
}

static void tell_outside(void *arg)
{
    stage *it = arg;
    tr_ref full = tr_lookup(it->sys, "/user/full");
    for (int i = 0; i < 5; i++) {
        tr_tell(it->sys, full, Note, .value = i);
    }
    stage_note(it, 100);
}

static void test_rule_23_an_outside_thread_blocks(void **state)
{
    stage it;
    tr_thread *thread;
    (void)state;
    stage_open(&it);
    tr_ref full = spawn_blocking(&it, 2);
    stage_tell(&it, full, act_sleep, (void *)TR_SECONDS(5));
    stage_run_ready(&it);
    expect_ok(tr_thread_start(it.sys, &thread, tell_outside, &it));
    stage_run_ready(&it);
    expect_notes(&it);
    stage_pass(&it, TR_SECONDS(6));
    tr_thread_join(it.sys, thread);
    stage_run_ready(&it);
    assert_int_equal(atomic_load(&it.note_count), 6);
    assert_int_equal(stage_dead(&it, TR_DEAD_FULL), 0);
    stage_close(&it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_MB10_MB22_overflow_fail),
        cmocka_unit_test(test_MB10_MB22_overflow_drop_new),
        cmocka_unit_test(test_MB10_MB22_overflow_drop_old),
        cmocka_unit_test(test_MB10_MB22_overflow_stop),
        cmocka_unit_test(
            test_MB10_timers_and_stashed_mail_do_not_use_up_the_limit),
        cmocka_unit_test(test_MB10_drop_old_keeps_messages_of_timers),
        cmocka_unit_test(test_MB11_MB12_MB22_block_keeps_the_limit),
        cmocka_unit_test(test_rule_23_a_full_mailbox_parks_the_sender),
        cmocka_unit_test(test_rule_23_the_wait_is_capped_by_the_ask_timeout),
        cmocka_unit_test(test_rule_23_a_tell_to_a_full_own_mailbox_is_refused),
        cmocka_unit_test(
            test_rule_23_an_actor_does_not_wait_for_its_own_mailbox),
        cmocka_unit_test(test_rule_23_a_sender_does_not_wait_for_its_own_asker),
        cmocka_unit_test(test_rule_4_a_killed_turn_does_not_wait_for_room),
        cmocka_unit_test(test_rule_23_an_outside_thread_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
