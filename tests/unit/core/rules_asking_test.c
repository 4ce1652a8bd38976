/*
 * rules_asking_test.c - the rules about asking: 17, 18 and 20 to 22. Rule 19
 * is in rules_cycles_test.c.
 */
#include "support/stage.h"

#include <string.h>

/* ---- rule 17 ---- */

static tr_err act_text(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)self;
    return tr_reply(ctx, m, .value = 1,
                    .text = tr_textf(ctx, "text %s", (const char *)arg));
}

static tr_err act_read_two(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    Acted first, second;
    (void)m;
    (void)arg;
    TR_TRY(tr_ask(ctx, self->stage->two, &first, 0, Act,
                  .fn = (uint64_t)(uintptr_t)act_text,
                  .arg = (uint64_t)(uintptr_t)"a"));
    TR_TRY(tr_ask(ctx, self->stage->three, &second, 0, Act,
                  .fn = (uint64_t)(uintptr_t)act_text,
                  .arg = (uint64_t)(uintptr_t)"b"));
    TR_TRY(tr_sleep(ctx, TR_SECONDS(1)));
    TR_ASSERT(ctx, strcmp(first.text, "text a") == 0);
    TR_ASSERT(ctx, strcmp(second.text, "text b") == 0);
    return TR_OK;
}

static void test_rule_17_reply_text_lives_until_the_turn_ends(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    expect_ok(stage_ask(&it, it.one, act_read_two, NULL));
    stage_close(&it);
}

static void test_rule_17_an_outside_caller_owns_the_text(void **state)
{
    stage it;
    Acted done;
    (void)state;
    stage_open(&it);
    expect_ok(tr_ask(it.sys, it.two, &done, 0, Act,
                     .fn = (uint64_t)(uintptr_t)act_text,
                     .arg = (uint64_t)(uintptr_t)"out"));
    tr_kill(it.sys, it.two);
    stage_settle(&it);
    assert_string_equal(done.text, "text out");
    tr_drop(Acted, &done);
    memset(&done, 1, sizeof(done));
    expect_err(tr_ask(it.sys, it.one, &done, 0, Act,
                      .fn = (uint64_t)(uintptr_t)act_fail),
               TR_EUSER);
    assert_null(done.text);
    assert_int_equal(done.value, 0);
    stage_close(&it);
}

/* ---- rule 18 ---- */

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
    stage_settle(&it);
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
    stage_settle(&it);
    stage_tell(&it, it.one, act_then, act_nothing);
    stage_settle(&it);
    expect_notes(&it, 1, -TR_ETIMEDOUT, 1, -TR_EUSER, 1, -TR_EGONE);
    stage_close(&it);
}

static void test_rule_18_a_callback_dies_with_the_incarnation(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    stage_tell(&it, it.one, act_then, act_sleep);
    stage_settle(&it);
    stage_tell(&it, it.one, act_fail, NULL);
    stage_pass(&it, TR_SECONDS(20));
    expect_notes(&it, 1);
    assert_int_equal(stage_dead(&it, TR_DEAD_LATE), 1);
    stage_close(&it);
}

/* Its time-out is queued behind a parked turn when the actor restarts. */
static void test_rule_18_a_queued_timeout_dies_with_the_incarnation(
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

static tr_err act_leave_future(tr_ctx *ctx, puppet *self, const Act *m,
                               void *arg)
{
    (void)m;
    (void)arg;
    (void)tr_async(ctx, self->stage->two, 0, Act,
                   .fn = (uint64_t)(uintptr_t)act_nothing);
    return TR_OK;
}

static void test_rule_18_a_future_ends_with_its_turn(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    stage_tell(&it, it.one, act_leave_future, NULL);
    stage_settle(&it);
    assert_int_equal(stage_dead(&it, TR_DEAD_LATE), 1);
    stage_close(&it);
}

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

/* ---- rule 20 ---- */

static tr_err act_join(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    tr_err *out = arg;
    (void)m;
    out[0] = tr_join(ctx, tr_self(ctx), 0, NULL, NULL);
    out[1] = tr_join(ctx, tr_parent(ctx), 0, NULL, NULL);
    (void)self;
    return TR_OK;
}

static void test_rule_20_join_on_oneself_or_an_ancestor(void **state)
{
    stage it;
    tr_err errs[2] = {TR_OK, TR_OK};
    (void)state;
    stage_open(&it);
    expect_ok(stage_ask(&it, it.one, act_join, errs));
    expect_err(errs[0], TR_EDEADLOCK);
    expect_err(errs[1], TR_EDEADLOCK);
    stage_close(&it);
}

/* ---- rule 21 ---- */

static tr_err act_ask_self(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    tr_err *out = arg;
    (void)self;
    (void)m;
    out[0] = act_ask(ctx, tr_self(ctx), act_nothing, NULL, 0);
    out[1] = tr_ask(ctx, tr_self(ctx), NULL, 0, ActBeside,
                    .fn = (uint64_t)(uintptr_t)act_nothing);
    out[2] = tr_ask(ctx, tr_self(ctx), NULL, 0, ActRead,
                    .fn = (uint64_t)(uintptr_t)act_nothing);
    return TR_OK;
}

static void test_rule_21_asking_oneself(void **state)
{
    stage it;
    tr_err errs[3];
    (void)state;
    stage_open(&it);
    expect_ok(stage_ask(&it, it.one, act_ask_self, errs));
    expect_err(errs[0], TR_EDEADLOCK);
    expect_err(errs[1], TR_OK);
    expect_err(errs[2], TR_EDEADLOCK);  // a writer is parked: us
    // From a reading turn a read runs beside it.
    expect_err(tr_ask(it.sys, it.one, NULL, 0, ActRead,
                      .fn = (uint64_t)(uintptr_t)act_ask_self,
                      .arg = (uint64_t)(uintptr_t)errs),
               TR_ENOREPLY);
    expect_err(errs[0], TR_EDEADLOCK);
    expect_err(errs[1], TR_OK);
    expect_err(errs[2], TR_OK);
    stage_close(&it);
}

typedef struct starter {
    tr_err *out;
} starter;

static tr_err starter_start(tr_ctx *ctx, starter *self)
{
    *self->out = tr_ask(ctx, tr_self(ctx), NULL, 0, ActBeside,
                        .fn = (uint64_t)(uintptr_t)act_nothing);
    return TR_OK;
}

static tr_err starter_beside(tr_ctx *ctx, const starter *self,
                             const ActBeside *m)
{
    (void)self;
    return tr_reply(ctx, m, .value = 1);
}

TR_ACTOR(starters, starter, TR_HOOK(pre_start, starter_start),
         TR_ON_INTERLEAVE(ActBeside, starter_beside));

static void test_rule_21_nothing_runs_beside_a_hook(void **state)
{
    stage it;
    tr_err err = TR_OK;
    (void)state;
    stage_open(&it);
    tr_ref ref = tr_spawn(it.sys, starters, TR_INIT(starters, .out = &err));
    stage_settle(&it);
    expect_err(err, TR_EDEADLOCK);
    expect_ok(tr_ask(it.sys, ref, NULL, 0, ActBeside));
    stage_close(&it);
}

/* ---- rule 22 ---- */

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
    stage_settle(&it);
    expect_notes(&it, 1);
    assert_non_null(strstr(it.last_log, "inside a handler"));
    stage_close(&it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rule_17_reply_text_lives_until_the_turn_ends),
        cmocka_unit_test(test_rule_17_an_outside_caller_owns_the_text),
        cmocka_unit_test(
            test_rule_18_a_callback_comes_after_mail_of_its_sender),
        cmocka_unit_test(test_rule_18_a_callback_runs_exactly_once),
        cmocka_unit_test(test_rule_18_a_callback_dies_with_the_incarnation),
        cmocka_unit_test(
            test_rule_18_a_queued_timeout_dies_with_the_incarnation),
        cmocka_unit_test(test_rule_18_a_future_ends_with_its_turn),
        cmocka_unit_test(test_rule_18_a_pipe_gives_one_message_or_one_failure),
        cmocka_unit_test(test_rule_20_join_on_oneself_or_an_ancestor),
        cmocka_unit_test(test_rule_21_asking_oneself),
        cmocka_unit_test(test_rule_21_nothing_runs_beside_a_hook),
        cmocka_unit_test(test_rule_22_sys_inside_a_handler_does_not_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
