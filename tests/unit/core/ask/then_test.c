/*
 * then_test.c - tr_ask_then and tr_ask_pipe: each ends in one callback or one
 * message.
 */
#include <stdatomic.h>

#include "support/stage.h"

#include <string.h>

/* ---- callbacks ---- */

static tr_err then_note(tr_ctx *ctx, void *self, const void *reply, tr_err err)
{
    puppet *me = self;
    (void)ctx;
    stage_note(me->stage,
               err != TR_OK ? -(int64_t)err : ((const Acted *)reply)->value);
    return TR_OK;
}

static tr_err act_tell_then_reply(tr_ctx *ctx, puppet *self, const Act *m,
                                  void *arg)
{
    (void)arg;
    tr_tell(ctx, tr_sender(ctx), Note, .value = 5);
    (void)self;
    return tr_reply(ctx, m, .value = 6);
}

static tr_err act_then(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)m;
    tr_ask_then(ctx, self->stage->two, TR_SECONDS(1), then_note, Act,
                .fn = (uint64_t)(uintptr_t)arg, .arg = (uint64_t)TR_SECONDS(5));
    stage_note(self->stage, 1);
    return TR_OK;
}

static void test_rule_18_a_callback_comes_after_mail_of_its_sender(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    stage_tell(&it, it.one, act_then, act_tell_then_reply);
    stage_run_ready(&it);
    expect_notes(&it, 1, 5, 6);
    stage_close(&it);
}

static void test_rule_18_a_callback_runs_exactly_once(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    stage_tell(&it, it.one, act_then, act_sleep);  // times out
    stage_pass(&it, TR_SECONDS(2));
    expect_notes(&it, 1, -TR_ETIMEDOUT);
    stage_pass(&it, TR_SECONDS(10));
    expect_notes(&it, 1, -TR_ETIMEDOUT);
    assert_int_equal(stage_dead(&it, TR_DEAD_LATE), 1);
    stage_tell(&it, it.one, act_then, act_fail);
    stage_pass(&it, TR_SECONDS(1));
    expect_notes(&it, 1, -TR_ETIMEDOUT, 1, -TR_EUSER);
    tr_stop(it.sys, it.two);
    stage_run_ready(&it);
    stage_tell(&it, it.one, act_then, act_nothing);
    stage_run_ready(&it);
    expect_notes(&it, 1, -TR_ETIMEDOUT, 1, -TR_EUSER, 1, -TR_EGONE);
    stage_close(&it);
}

static void test_rule_18_a_callback_ends_with_the_incarnation(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    stage_tell(&it, it.one, act_then, act_sleep);
    stage_run_ready(&it);
    stage_tell(&it, it.one, act_fail, NULL);
    stage_pass(&it, TR_SECONDS(20));
    expect_notes(&it, 1);
    assert_int_equal(stage_dead(&it, TR_DEAD_LATE), 1);
    stage_close(&it);
}

/* The time-out is queued behind a parked turn when the actor restarts. */
static void test_rule_18_a_queued_timeout_ends_with_the_incarnation(
    void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    stage_tell(&it, it.one, act_then, act_sleep);
    stage_tell(&it, it.one, act_sleep, (void *)TR_SECONDS(2));
    stage_pass(&it, TR_MS(1500));
    tr_tell(it.sys, it.one, ActBeside, .fn = (uint64_t)(uintptr_t)act_fail);
    stage_pass(&it, TR_SECONDS(20));
    expect_notes(&it, 1);
    stage_close(&it);
}

static tr_err then_fails(tr_ctx *ctx, void *self, const void *reply, tr_err err)
{
    (void)reply;
    stage_note(((puppet *)self)->stage, err);
    return tr_fail(ctx, TR_EUSER, "the callback fails");
}

static tr_err act_then_fails(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)m;
    tr_ask_then(ctx, self->stage->two, (tr_nanos)(uintptr_t)arg, then_fails,
                Act, .fn = (uint64_t)(uintptr_t)act_nothing);
    return TR_OK;
}

/* An error of the callback counts like an error of a handler. */
static void test_rule_18_a_callback_that_fails_is_a_failure(void **state)
{
    static const tr_nanos limits[] = {TR_SECONDS(1), TR_FOREVER,
                                      TR_FOREVER - 1};
    (void)state;
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        stage it;
        stage_open(&it);
        stage_tell(&it, it.one, act_then_fails, (void *)limits[i]);
        stage_pass(&it, TR_SECONDS(5));
        assert_int_equal(atomic_load(&it.note_count), 1);
        assert_int_equal(atomic_load(&it.restarts), 1);
        expect_ok(stage_ask(&it, it.one, act_nothing, NULL));
        stage_close(&it);
    }
}

static tr_err then_notes(tr_ctx *ctx, void *self, const void *reply, tr_err err)
{
    (void)ctx;
    (void)reply;
    stage_note(((puppet *)self)->stage, 100 + err);
    return TR_OK;
}

static tr_err act_ask_and_fail(tr_ctx *ctx, puppet *self, const Act *m,
                               void *arg)
{
    (void)arg;
    (void)m;
    // One that times out, one without a time-out, one answered at once.
    tr_ask_then(ctx, self->stage->two, TR_SECONDS(30), then_notes, Act,
                .fn = (uint64_t)(uintptr_t)act_sleep,
                .arg = (uint64_t)TR_SECONDS(60));
    tr_ask_then(ctx, self->stage->three, TR_FOREVER, then_notes, Act,
                .fn = (uint64_t)(uintptr_t)act_sleep,
                .arg = (uint64_t)TR_SECONDS(60));
    tr_ask_then(ctx, TR_NOBODY, TR_SECONDS(1), then_notes, Act, .fn = 0);
    return tr_fail(ctx, TR_EUSER, "and now it fails");
}

/* The next incarnation gets no callback of the one before. */
static void test_rule_18_a_restart_drops_callbacks(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    stage_tell(&it, it.one, act_ask_and_fail, NULL);
    stage_pass(&it, TR_SECONDS(300));
    assert_int_equal(atomic_load(&it.restarts), 1);
    assert_int_equal(atomic_load(&it.note_count), 0);
    stage_tell(&it, it.one, act_ask_and_fail, NULL);
    stage_run_ready(&it);
    tr_kill(it.sys, it.one);  // nor does an actor that has ended
    stage_pass(&it, TR_SECONDS(300));
    assert_int_equal(atomic_load(&it.note_count), 0);
    stage_close(&it);
}

/* ---- pipes ---- */

static tr_err on_piped(tr_ctx *ctx, puppet *self, const Acted *m)
{
    (void)ctx;
    stage_note(self->stage, m->value);
    return TR_OK;
}

static tr_err on_pipe_failed(tr_ctx *ctx, puppet *self, const tr_ask_failed *m)
{
    (void)ctx;
    assert_true(strstr(m->text, tr_strerror((tr_err)m->err)) != NULL ||
                *m->text != 0);
    stage_note(self->stage, -(int64_t)m->err);
    return TR_OK;
}

static tr_err pipe_note(tr_ctx *ctx, puppet *self, const Note *m)
{
    act_fn fn = m->value == 0   ? act_nothing
                : m->value == 1 ? act_sleep
                                : act_fail;
    tr_ask_pipe(ctx, self->stage->two, TR_SECONDS(1), Act,
                .fn = (uint64_t)(uintptr_t)fn, .arg = (uint64_t)TR_SECONDS(5));
    return TR_OK;
}

TR_ACTOR(pipers, puppet, TR_ON(Acted, on_piped), TR_ON(Note, pipe_note),
         TR_ON(tr_ask_failed, on_pipe_failed));

static void test_rule_18_a_pipe_gives_one_message_or_one_failure(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    tr_ref ref = tr_spawn(it.sys, pipers, TR_INIT(pipers, .stage = &it));
    for (int i = 0; i < 3; i++) {
        tr_tell(it.sys, ref, Note, .value = i);
        stage_pass(&it, TR_SECONDS(10));
    }
    expect_notes(&it, 1, -TR_ETIMEDOUT, -TR_EUSER);
    stage_close(&it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            test_rule_18_a_callback_comes_after_mail_of_its_sender),
        cmocka_unit_test(test_rule_18_a_callback_runs_exactly_once),
        cmocka_unit_test(test_rule_18_a_callback_ends_with_the_incarnation),
        cmocka_unit_test(
            test_rule_18_a_queued_timeout_ends_with_the_incarnation),
        cmocka_unit_test(test_rule_18_a_callback_that_fails_is_a_failure),
        cmocka_unit_test(test_rule_18_a_restart_drops_callbacks),
        cmocka_unit_test(test_rule_18_a_pipe_gives_one_message_or_one_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
