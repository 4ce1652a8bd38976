/*
 * error_text_test.c - what the text of an error says: the call that failed,
 * where, and why.
 */
#include "support/stage.h"

#include <stdio.h>
#include <string.h>

static tr_err act_ask_and_tell(tr_ctx *ctx, puppet *self, const Act *m,
                               void *arg)
{
    (void)m;
    tr_err err = act_ask(ctx, self->stage->two, act_sleep,
                         (uintptr_t)TR_SECONDS(9), TR_SECONDS(1));
    snprintf(arg, STAGE_TEXT, "%s", tr_error_text(ctx));
    return err;
}

static void expect_parts(const char *text, const char *const *parts)
{
    for (; *parts != NULL; parts++) {
        if (strstr(text, *parts) == NULL) {
            fail_msg("\"%s\" does not say \"%s\"", text, *parts);
        }
    }
}

static void test_an_error_names_target_type_state_depth_and_site(void **state)
{
    static const char *const parts[] = {
        "Act",       "/user/two", "RUNNING", "3 queued", "error_text_test.c:",
        "timed out", NULL};
    stage it;
    char text[STAGE_TEXT] = "";
    (void)state;
    stage_open(&it);
    stage_tell(&it, it.two, act_sleep, (void *)TR_SECONDS(20));
    stage_run_ready(&it);
    stage_tell(&it, it.one, act_ask_and_tell, text);
    stage_run_ready(&it);
    tr_tell(it.sys, it.two, Note, .value = 1);
    tr_tell(it.sys, it.two, Note, .value = 1);
    stage_pass(&it, TR_SECONDS(2));
    expect_parts(text, parts);
    static const char *const outside[] = {
        "Act",       "/user/two", "RUNNING", "4 queued", "error_text_test.c:",
        "timed out", NULL};
    expect_err(tr_ask(it.sys, it.two, NULL, TR_SECONDS(1), Act), TR_ETIMEDOUT);
    expect_parts(tr_error_text(it.sys), outside);
    stage_close(&it);
}

static tr_err act_ask_for_reason(tr_ctx *ctx, puppet *self, const Act *m,
                                 void *arg)
{
    (void)m;
    tr_err err = act_ask(ctx, self->stage->two, act_sleep,
                         (uintptr_t)TR_SECONDS(9), TR_SECONDS(1));
    snprintf(arg, STAGE_TEXT, "%s", tr_error_reason(ctx));
    return err == TR_ETIMEDOUT ? TR_OK : err;
}

static void test_in_a_handler_the_reason_has_no_decoration(void **state)
{
    stage it;
    char text[STAGE_TEXT] = "";
    (void)state;
    stage_open(&it);
    stage_tell(&it, it.one, act_ask_for_reason, text);
    stage_pass(&it, TR_SECONDS(2));
    assert_string_equal(text, tr_strerror(TR_ETIMEDOUT));
    stage_close(&it);
}

/* ---- TR_OR_REFUSE ---- */

static void expect_said(stage *it, const char *part)
{
    const char *text = tr_error_text(it->sys);
    if (strstr(text, part) == NULL) {
        print_error("\"%s\" is not in \"%s\"\n", part, text);
        fail();
    }
}

static tr_err act_ask_peer(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)arg;
    TR_OR_REFUSE(ctx, m, act_ask(ctx, self->peer, act_ask_peer, NULL, 0));
    return TR_OK;
}

/* The handler cannot refuse with TR_EDEADLOCK; the text names it. */
static void test_rule_15_rule_19_a_refusal_names_the_cycle(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    expect_ok(stage_ask(&it, it.one, act_meet, &it.two));
    expect_ok(stage_ask(&it, it.two, act_meet, &it.one));
    expect_err(stage_ask(&it, it.one, act_ask_peer, NULL), TR_EFAILED);
    expect_said(&it, "act_ask(ctx, self->peer, act_ask_peer, NULL, 0)");
    expect_said(&it, "TR_EDEADLOCK: ");
    expect_said(&it, "would close a cycle: /user/two (");
    expect_said(&it, " -> /user/one (");
    expect_said(&it, " -> /user/two; ");
    stage_close(&it);
}

static void expect_unsaid(stage *it, const char *part)
{
    const char *text = tr_error_text(it->sys);
    if (strstr(text, part) != NULL) {
        print_error("\"%s\" is in \"%s\"\n", part, text);
        fail();
    }
}

static tr_err pay(tr_ctx *ctx, const char *why)
{
    return tr_fail(ctx, TR_EUSER + 3, "no money: %s", why);
}

static tr_err act_pay(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)self;
    TR_OR_REFUSE(ctx, m, pay(ctx, arg));
    return TR_OK;
}

static tr_err act_pay_later(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)self;
    tr_err err = pay(ctx, arg);
    TR_OR_REFUSE(ctx, m, err);
    return TR_OK;
}

static void test_T8_a_refusal_carries_the_text_of_tr_fail(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    expect_err(stage_ask(&it, it.one, act_pay, (void *)"spent"), TR_EUSER + 3);
    expect_said(&it, "pay(ctx, arg): no money: spent");
    expect_unsaid(&it, "TR_EUSER");
    expect_err(stage_ask(&it, it.one, act_pay_later, (void *)"lost"),
               TR_EUSER + 3);
    expect_said(&it, "err: no money: lost");
    stage_close(&it);
}

static tr_err act_other_cause(tr_ctx *ctx, puppet *self, const Act *m,
                              void *arg)
{
    (void)self;
    (void)arg;
    // Sets an error text that the handler ignores.
    (void)tr_lookup(ctx, "/user/none");
    TR_OR_REFUSE(ctx, m, (tr_err)(TR_EUSER + 1));
    return TR_OK;
}

static void test_T8_an_older_text_is_not_the_cause(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    expect_err(stage_ask(&it, it.one, act_other_cause, NULL), TR_EUSER + 1);
    expect_said(&it, "(tr_err)(TR_EUSER + 1)");
    expect_unsaid(&it, "/user/none");
    stage_close(&it);
}

static tr_err act_long(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)self;
    (void)arg;
    TR_OR_REFUSE(ctx, m,
                 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 +
                     1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 +
                     1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 +
                     1 + 1 + 1 + 1 + pay(ctx, "long"));
    return TR_OK;
}

/* The text shows a part of a long expression and all of the cause. */
static void test_T8_a_long_expression_leaves_room_for_the_cause(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    expect_err(stage_ask(&it, it.one, act_long, NULL), TR_EUSER + 3 + 50);
    expect_said(&it, "1 + ...: no money: long");
    expect_unsaid(&it, "pay(");
    stage_close(&it);
}

/* The message was told, so there is no asker; the actor goes on. */
static void test_T10_a_refused_tell_has_no_effect(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    stage_tell(&it, it.one, act_pay, (void *)"spent");
    stage_run_ready(&it);
    assert_int_equal(it.restarts, 0);
    expect_ok(stage_ask(&it, it.one, act_nothing, NULL));
    stage_close(&it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_error_names_target_type_state_depth_and_site),
        cmocka_unit_test(test_in_a_handler_the_reason_has_no_decoration),
        cmocka_unit_test(test_rule_15_rule_19_a_refusal_names_the_cycle),
        cmocka_unit_test(test_T8_a_refusal_carries_the_text_of_tr_fail),
        cmocka_unit_test(test_T8_an_older_text_is_not_the_cause),
        cmocka_unit_test(test_T8_a_long_expression_leaves_room_for_the_cause),
        cmocka_unit_test(test_T10_a_refused_tell_has_no_effect),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
