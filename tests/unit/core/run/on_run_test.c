/*
 * on_run_test.c - the hook on_run: it runs between messages, waits like a
 * handler and ends with the actor.
 */
#include "support/stage.h"

#include "unit/core/waiting.h"

typedef struct runner {
    stage *stage;
    tr_nanos span;
    tr_err end;       // what on_run returns after the last round
    uint32_t rounds;  // 0: until it is stopped
} runner;

static tr_err runner_run(tr_ctx *ctx, runner *self)
{
    stage_note(self->stage, 100);
    for (uint32_t i = 0; self->rounds == 0 || i < self->rounds; i++) {
        tr_err err = tr_sleep(ctx, self->span);
        if (err != TR_OK) {
            stage_note(self->stage, 200 + (int64_t)err);
            return err;
        }
        stage_note(self->stage, 101);
    }
    return self->end;
}

static tr_err runner_act(tr_ctx *ctx, runner *self, const Act *m)
{
    nap *it = (nap *)(uintptr_t)m->arg;
    stage_note(self->stage, it->before);
    it->err = tr_sleep(ctx, it->span);
    stage_note(self->stage, it->after);
    return TR_OK;
}

static tr_err runner_note(tr_ctx *ctx, runner *self, const Note *m)
{
    stage_note(self->stage, m->value);
    return m->value < 0 ? tr_fail(ctx, TR_EUSER, "told to") : TR_OK;
}

TR_ACTOR(runners, runner, TR_ON(Act, runner_act), TR_ON(Note, runner_note),
         TR_HOOK(on_run, runner_run));

static tr_ref spawn_runner(stage *it, tr_nanos span, uint32_t rounds,
                           tr_err end)
{
    tr_ref ref = tr_spawn(it->sys, runners,
                          TR_INIT(runners, .stage = it, .span = span,
                                  .rounds = rounds, .end = end),
                          .joinable = true);
    stage_run_ready(it);
    return ref;
}

static void test_rule_10_OR1_OR2_X36_mail_is_handled_while_on_run_waits(
    void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    tr_ref ref = spawn_runner(&it, TR_SECONDS(1), 0, TR_OK);
    tr_tell(it.sys, ref, Note, .value = 1);
    stage_run_ready(&it);
    expect_notes(&it, 100, 1);
    stage_pass(&it, TR_SECONDS(1));
    expect_notes(&it, 100, 1, 101);
    stage_close(&it);
}

static void test_rule_10_OR2_on_run_waits_for_a_parked_writer(void **state)
{
    stage it;
    nap first = {TR_SECONDS(3), 1, 2, TR_OK};
    (void)state;
    stage_open(&it);
    tr_ref ref = spawn_runner(&it, TR_SECONDS(2), 0, TR_OK);
    stage_tell(&it, ref, NULL, &first);
    stage_run_ready(&it);
    stage_pass(&it, TR_MS(2500));
    expect_notes(&it, 100, 1);  // on_run could go on, but a writer is parked
    stage_pass(&it, TR_SECONDS(1));
    expect_notes(&it, 100, 1, 2, 101);
    stage_close(&it);
}

static void test_rule_10_OR3_OR5_stop_ends_the_waits_of_on_run(void **state)
{
    stage it;
    tr_result result;
    (void)state;
    stage_open(&it);
    tr_ref ref = spawn_runner(&it, TR_SECONDS(9), 0, TR_OK);
    tr_stop(it.sys, ref);
    expect_ok(tr_join(it.sys, ref, 0, &result, NULL));
    assert_int_equal(result.reason, TR_STOPPED);
    expect_notes(&it, 100, 200 + TR_ESTOPPED);
    stage_close(&it);
}

static void test_rule_10_X36_OR5_the_actor_goes_on_after_on_run_returns(
    void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    tr_ref ref = spawn_runner(&it, TR_SECONDS(1), 1, TR_OK);
    stage_pass(&it, TR_SECONDS(5));
    tr_tell(it.sys, ref, Note, .value = 1);
    stage_run_ready(&it);
    expect_notes(&it, 100, 101, 1);
    // A restart starts on_run again.
    tr_tell(it.sys, ref, Note, .value = -5);
    stage_pass(&it, TR_MS(100));
    expect_notes(&it, 100, 101, 1, -5, 100);
    stage_close(&it);
}

static void test_rule_10_OR4_an_error_of_on_run_is_a_failure(void **state)
{
    stage it;
    tr_result result;
    (void)state;
    stage_open(&it);
    tr_ref ref = tr_spawn(it.sys, runners,
                          TR_INIT(runners, .stage = &it, .span = TR_SECONDS(1),
                                  .rounds = 1, .end = TR_EUSER),
                          .supervision = TR_SUPERVISE(.on_failure = TR_STOP));
    expect_ok(tr_join(it.sys, ref, 0, &result, NULL));
    assert_int_equal(result.reason, TR_FAILED);
    assert_int_equal(result.phase, TR_IN_RUN);
    expect_err(result.err, TR_EUSER);
    stage_close(&it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            test_rule_10_OR1_OR2_X36_mail_is_handled_while_on_run_waits),
        cmocka_unit_test(test_rule_10_OR2_on_run_waits_for_a_parked_writer),
        cmocka_unit_test(test_rule_10_OR3_OR5_stop_ends_the_waits_of_on_run),
        cmocka_unit_test(
            test_rule_10_X36_OR5_the_actor_goes_on_after_on_run_returns),
        cmocka_unit_test(test_rule_10_OR4_an_error_of_on_run_is_a_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
