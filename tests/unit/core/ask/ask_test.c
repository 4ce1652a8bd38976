/*
 * ask_test.c - tr_ask: the ways in which a request ends, who owns the text of
 * its answer, and asking oneself.
 */
#include "support/stage.h"

#include <string.h>

/* ---- how a request ends ---- */

TR_REQUEST(Unknown, Acted);  // puppets have no handler for it

/* Returns without an answer. */
static tr_err act_forget(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)ctx;
    (void)self;
    (void)m;
    (void)arg;
    return TR_OK;
}

static void test_T8_the_error_says_why_there_is_no_answer(void **state)
{
    stage it;
    Acted out;
    (void)state;
    stage_open(&it);
    expect_err(stage_ask(&it, it.one, act_fail, NULL), TR_EUSER);
    expect_err(tr_ask(it.sys, it.two, NULL, 0, Act,
                      .fn = (uint64_t)(uintptr_t)act_forget),
               TR_ENOREPLY);
    expect_err(tr_ask(it.sys, it.two, &out, 0, Unknown), TR_EUNHANDLED);
    expect_err(stage_ask(&it, TR_NOBODY, act_nothing, NULL), TR_ENOENT);
    stage_tell(&it, it.three, act_sleep, (void *)TR_SECONDS(1));
    stage_run_ready(&it);
    tr_stop(it.sys, it.three);
    stage_run_ready(&it);
    expect_err(stage_ask(&it, it.three, act_nothing, NULL), TR_EGONE);
    expect_err(stage_ask_for(&it, it.two, act_sleep, (void *)TR_SECONDS(9),
                             TR_SECONDS(1)),
               TR_ETIMEDOUT);
    stage_close(&it);
}

/* ---- the text of an answer ---- */

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
    stage_run_ready(&it);
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

/* ---- asking oneself ---- */

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
    expect_err(errs[2], TR_EDEADLOCK);  // the asking turn is a parked writer
    // A reading turn may ask its own actor for a read, which runs beside it.
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
    stage_run_ready(&it);
    expect_err(err, TR_EDEADLOCK);
    expect_ok(tr_ask(it.sys, ref, NULL, 0, ActBeside));
    stage_close(&it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_T8_the_error_says_why_there_is_no_answer),
        cmocka_unit_test(test_rule_17_reply_text_lives_until_the_turn_ends),
        cmocka_unit_test(test_rule_17_an_outside_caller_owns_the_text),
        cmocka_unit_test(test_rule_21_asking_oneself),
        cmocka_unit_test(test_rule_21_nothing_runs_beside_a_hook),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
