/*
 * wait_test.c - waits: time-outs, requests that have expired, and calls that
 * may not wait.
 */
#include "support/stage.h"

#include <string.h>

#include "unit/core/waiting.h"

/* ---- time-outs ---- */

static tr_err act_short_ask(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    tr_err *out = arg;
    (void)m;
    *out = act_ask(ctx, self->peer, act_sleep, (uintptr_t)TR_SECONDS(3),
                   TR_SECONDS(1));
    stage_note(self->stage, 1);
    return TR_OK;
}

static void test_rule_06_X42_a_late_reply_is_a_dead_letter(void **state)
{
    stage it;
    tr_err err = TR_OK;
    (void)state;
    stage_open(&it);
    expect_ok(stage_ask(&it, it.one, act_meet, &it.two));
    stage_tell(&it, it.one, act_short_ask, &err);
    stage_pass(&it, TR_SECONDS(2));
    expect_err(err, TR_ETIMEDOUT);
    expect_notes(&it, 1);
    assert_int_equal(stage_dead(&it, TR_DEAD_LATE), 0);
    stage_pass(&it, TR_SECONDS(2));
    assert_int_equal(stage_dead(&it, TR_DEAD_LATE), 1);
    stage_close(&it);
}

static void test_rule_06_an_expired_request_is_skipped(void **state)
{
    stage it;
    tr_err err = TR_OK;
    (void)state;
    stage_open(&it);
    expect_ok(stage_ask(&it, it.one, act_meet, &it.two));
    stage_tell(&it, it.two, act_sleep, (void *)TR_SECONDS(5));
    stage_run_ready(&it);
    stage_tell(&it, it.one, act_short_ask, &err);
    stage_pass(&it, TR_SECONDS(6));
    expect_err(err, TR_ETIMEDOUT);
    assert_int_equal(stage_dead(&it, TR_DEAD_EXPIRED), 1);
    expect_ok(stage_ask(&it, it.two, act_nothing, NULL));
    stage_close(&it);
}

static void test_rule_06_a_request_of_an_ended_asker_is_cancelled(void **state)
{
    stage it;
    tr_err err = TR_OK;
    (void)state;
    stage_open(&it);
    expect_ok(stage_ask(&it, it.one, act_meet, &it.two));
    stage_tell(&it, it.two, act_sleep, (void *)TR_SECONDS(5));
    stage_run_ready(&it);
    stage_tell(&it, it.one, act_ask_nap, &err);
    stage_run_ready(&it);
    tr_kill(it.sys, it.one);
    stage_pass(&it, TR_SECONDS(6));
    expect_err(err, TR_EKILLED);
    assert_int_equal(stage_dead(&it, TR_DEAD_CANCELLED), 1);
    // The request was not run: the actor serves others at once.
    expect_ok(stage_ask_for(&it, it.two, act_nothing, NULL, TR_SECONDS(1)));
    stage_close(&it);
}

static tr_err act_bad_numbers(tr_ctx *ctx, puppet *self, const Act *m,
                              void *arg)
{
    (void)arg;
    TR_ASSERT(ctx, tr_sleep(ctx, -1) == TR_EINVAL);
    TR_ASSERT(ctx, tr_wait_fd(ctx, 0, TR_FD_READ, -1, NULL) == TR_ETIMEDOUT);
    TR_ASSERT(ctx, tr_wait_fd(ctx, -1, TR_FD_READ, 0, NULL) == TR_EINVAL);
    TR_ASSERT(ctx, tr_wait_fd(ctx, 0, 0, 0, NULL) == TR_EINVAL);
    // TR_FOREVER waits as long as it takes.
    TR_ASSERT(ctx, act_ask(ctx, self->stage->two, act_nothing, NULL,
                           TR_FOREVER) == TR_OK);
    TR_ASSERT(ctx, tr_started(ctx, self->stage->two, TR_FOREVER) == TR_OK);
    return tr_reply(ctx, m, .value = 1);
}

static tr_err act_negative_timer(tr_ctx *ctx, puppet *self, const Act *m,
                                 void *arg)
{
    (void)self;
    (void)m;
    (void)arg;
    (void)tr_after(ctx, -1, Note, .value = 1);
    return TR_OK;
}

static void test_T1_spans_out_of_range_are_refused(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    expect_ok(stage_ask(&it, it.one, act_bad_numbers, NULL));
    expect_err(stage_ask(&it, it.three, act_negative_timer, NULL), TR_EPANIC);
    stage_pass(&it, TR_SECONDS(5));
    expect_ok(stage_ask_for(&it, it.three, act_nothing, NULL, TR_FOREVER));
    stage_close(&it);
}

/* ---- calls that may not wait ---- */

static tr_err act_lend_ctx(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)self;
    *(tr_ctx **)arg = ctx;
    return tr_reply(ctx, m, .value = 1);
}

static tr_err nothing(void *arg)
{
    (void)arg;
    return TR_OK;
}

static void test_rule_22_a_ctx_does_not_wait_after_its_turn(void **state)
{
    stage it;
    tr_ctx *ctx = NULL;
    uint32_t ready;
    (void)state;
    stage_open(&it);
    expect_ok(stage_ask(&it, it.one, act_lend_ctx, &ctx));
    stage_run_ready(&it);
    expect_err(tr_sleep(ctx, 1), TR_EWOULDBLOCK);
    expect_err(tr_join(ctx, it.two, TR_SECONDS(1), NULL, NULL), TR_EWOULDBLOCK);
    expect_err(tr_started(ctx, it.two, TR_SECONDS(1)), TR_EWOULDBLOCK);
    expect_err(act_ask(ctx, it.two, act_nothing, NULL, TR_SECONDS(1)),
               TR_EWOULDBLOCK);
    expect_err(tr_blocking(ctx, nothing, NULL), TR_EWOULDBLOCK);
    expect_err(tr_wait_fd(ctx, 0, TR_FD_READ, TR_SECONDS(1), &ready),
               TR_EWOULDBLOCK);
    expect_ok(stage_ask(&it, it.one, act_nothing, NULL));
    stage_close(&it);
}

static tr_err act_as_sys(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    tr_err *out = arg;
    tr_system *sys = tr_system_of(ctx);
    (void)m;
    out[0] = tr_ask(sys, self->stage->two, NULL, 0, Act,
                    .fn = (uint64_t)(uintptr_t)act_nothing);
    out[1] = tr_join(sys, self->stage->two, 0, NULL, NULL);
    tr_tell(sys, self->stage->two, Note, .value = 1);
    return TR_OK;
}

static void test_rule_22_sys_inside_a_handler_does_not_wait(void **state)
{
    stage it;
    tr_err errs[2] = {TR_OK, TR_OK};
    (void)state;
    stage_open(&it);
    expect_ok(stage_ask(&it, it.one, act_as_sys, errs));
    expect_err(errs[0], TR_EWOULDBLOCK);
    expect_err(errs[1], TR_EWOULDBLOCK);
    stage_run_ready(&it);
    expect_notes(&it, 1);
    assert_non_null(strstr(it.last_log, "inside a handler"));
    stage_close(&it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rule_06_X42_a_late_reply_is_a_dead_letter),
        cmocka_unit_test(test_rule_06_an_expired_request_is_skipped),
        cmocka_unit_test(test_rule_06_a_request_of_an_ended_asker_is_cancelled),
        cmocka_unit_test(test_T1_spans_out_of_range_are_refused),
        cmocka_unit_test(test_rule_22_a_ctx_does_not_wait_after_its_turn),
        cmocka_unit_test(test_rule_22_sys_inside_a_handler_does_not_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
