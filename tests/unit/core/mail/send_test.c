/*
 * send_test.c - what a send tells the receiver and the sender: who sent it,
 * that nobody is there, that memory is short.
 */
#include "support/stage.h"

#include "support/core.h"
#include "unit/core/waiting.h"

/* Stores the sender in arg and answers it with a tell. */
static tr_err act_note_sender(tr_ctx *ctx, puppet *self, const Act *m,
                              void *arg)
{
    (void)m;
    tr_ref *out = arg;
    *out = tr_sender(ctx);
    if (out->cell != 0) {
        tr_tell(ctx, *out, Note, .value = 4);
    }
    (void)self;
    return TR_OK;
}

static tr_err act_tell_two(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)m;
    act_tell(ctx, self->stage->two, act_note_sender, arg);
    return TR_OK;
}

static void test_T3_T5_the_receiver_knows_the_sender(void **state)
{
    stage it;
    tr_ref sender = TR_NOBODY;
    (void)state;
    stage_open(&it);
    stage_tell(&it, it.one, act_tell_two, &sender);
    stage_run_ready(&it);
    assert_true(tr_ref_eq(sender, it.one));
    expect_notes(&it, 4);
    act_tell(it.sys, it.two, act_note_sender, &sender);
    stage_run_ready(&it);
    assert_int_equal(sender.cell, 0);  // a send from outside has no sender
    act_tell(it.probe, it.two, act_note_sender, &sender);
    assert_int_equal(tr_expect(it.probe, 0, Note)->value, 4);
    stage_close(&it);
}

static void test_T12_mail_for_an_ended_actor_is_a_dead_letter(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    tr_kill(it.sys, it.one);
    stage_run_ready(&it);
    tr_tell(it.sys, it.one, Note, .value = 1);
    tr_tell(it.sys, TR_NOBODY, Note, .value = 1);
    assert_int_equal(stage_dead(&it, TR_DEAD_NO_SUCH_ACTOR), 2);
    tr_tell(it.sys, it.two, Stranger, .value = 1);
    assert_int_equal(stage_dead(&it, TR_DEAD_UNHANDLED), 1);
    stage_close(&it);
}

/* A tr_try_tell that fails leaves no dead letter. */
static void test_X52_try_tell_returns_why_it_failed(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    expect_err(tr_try_tell(it.sys, TR_NOBODY, Note), TR_EGONE);
    tr_kill(it.sys, it.one);
    expect_ok(tr_join(it.sys, it.one, 0, NULL, NULL));
    expect_err(tr_try_tell(it.sys, it.one, Note), TR_EGONE);
    keep_busy(&it, it.two);
    tr_stop(it.sys, it.two);
    stage_run_ready(&it);
    expect_err(tr_try_tell(it.sys, it.two, Note), TR_EGONE);
    for (int i = 0; i < STAGE_REASONS; i++) {
        assert_int_equal(stage_dead(&it, (tr_dead_reason)i), 0);
    }
    stage_close(&it);
}

static void test_rule_27_a_tell_without_memory_is_counted(void **state)
{
    stage it;
    tr_metrics_snapshot before = {.size = sizeof(before)}, after = before;
    (void)state;
    if (!TRI_FAULTS) {  // allocations cannot be made to fail
        skip();
    }
    stage_open(&it);
    tr_metrics(it.sys, &before);
    tri_mem_fail_after(&it.sys->mem, 0);
    tr_tell(it.sys, it.one, Note, .value = 1);
    tri_mem_fail_after(&it.sys->mem, 0);
    expect_err(tr_try_tell(it.sys, it.one, Note, .value = 2), TR_ENOMEM);
    tri_mem_fail_after(&it.sys->mem, -1);
    stage_run_ready(&it);
    expect_notes(&it);
    tr_metrics(it.sys, &after);
    assert_int_equal(after.dead_letters, before.dead_letters + 1);
    stage_close(&it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_T3_T5_the_receiver_knows_the_sender),
        cmocka_unit_test(test_T12_mail_for_an_ended_actor_is_a_dead_letter),
        cmocka_unit_test(test_X52_try_tell_returns_why_it_failed),
        cmocka_unit_test(test_rule_27_a_tell_without_memory_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
