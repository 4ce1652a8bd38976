/*
 * answer_test.c - tr_reply and tr_refuse: one answer for each request, before
 * the supervisor hears of a failure.
 */
#include <stdatomic.h>

#include "support/stage.h"

#include <string.h>

#include "support/core.h"

/* Stores the errors of two replies to one request in arg. */
static tr_err act_reply_twice(tr_ctx *ctx, puppet *self, const Act *m,
                              void *arg)
{
    tr_err *out = arg;
    (void)self;
    out[0] = tr_reply(ctx, m, .value = 1);
    out[1] = tr_reply(ctx, m, .value = 2);
    return TR_OK;
}

static void test_T6_T7_T10_a_request_is_answered_once(void **state)
{
    stage it;
    tr_err errs[2];
    Acted done;
    (void)state;
    stage_open(&it);
    expect_ok(tr_ask(it.sys, it.one, &done, 0, Act,
                     .fn = (uint64_t)(uintptr_t)act_reply_twice,
                     .arg = (uint64_t)(uintptr_t)errs));
    assert_int_equal(done.value, 1);
    expect_ok(errs[0]);
    expect_err(errs[1], TR_EEXIST);
    // A tell: nobody waits for the answer.
    stage_tell(&it, it.one, act_reply_twice, errs);
    stage_run_ready(&it);
    expect_ok(errs[0]);
    assert_int_equal(stage_dead(&it, TR_DEAD_LATE), 0);
    stage_close(&it);
}

static tr_err act_fail_undelivered(tr_ctx *ctx, puppet *self, const Act *m,
                                   void *arg)
{
    (void)self;
    (void)m;
    (void)arg;
    return tr_fail(ctx, TR_ENOENT, "not what it seems");
}

static void test_rule_15_the_asker_hears_before_the_supervisor(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    tr_nanos before = tr_now(it.sys);
    expect_err(stage_ask(&it, it.one, act_fail, NULL), TR_EUSER);
    // The asker gets the error before the delay of the restart.
    assert_int_equal(tr_now(it.sys), before);
    expect_err(stage_ask(&it, it.two, act_fail_undelivered, NULL), TR_EFAILED);
    stage_close(&it);
}

static tr_err act_refuse(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)self;
    return tr_refuse(ctx, m, (tr_err)(uintptr_t)arg, "because %d", 5);
}

static void test_rule_15_a_refusal_is_no_failure(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    expect_err(stage_ask(&it, it.one, act_refuse, (void *)TR_EUSER), TR_EUSER);
    assert_non_null(strstr(tr_error_text(it.sys), "because 5"));
    expect_err(stage_ask(&it, it.one, act_refuse, (void *)TR_EGONE),
               TR_EFAILED);
    assert_false(tr_undelivered(TR_EFAILED));
    stage_run_ready(&it);
    assert_int_equal(atomic_load(&it.restarts), 0);
    stage_close(&it);
}

typedef struct starved {
    bool keeps;     // it keeps the request and releases it
    tr_err second;  // of a reply after the refusal
} starved;

/* Refuses the request when there is no memory for the answer. */
static tr_err act_refuse_starved(tr_ctx *ctx, puppet *self, const Act *m,
                                 void *arg)
{
    starved *it = arg;
    (void)self;
    const Act *request = it->keeps ? tr_keep(ctx, m) : m;
    tri_mem_fail_after(&ctx->sys->mem, 0);
    TR_TRY(tr_refuse(ctx, request, TR_EUSER + 5, "refused"));
    tri_mem_fail_after(&ctx->sys->mem, -1);
    it->second = tr_reply(ctx, request, .value = 1);
    if (it->keeps) {
        tr_release(ctx, request);
    }
    return TR_OK;
}

static void test_rule_11_a_refusal_without_memory_keeps_its_error(void **state)
{
    (void)state;
    for (int keeps = 0; keeps < 2; keeps++) {
        stage it;
        starved how = {.keeps = keeps == 1};
        stage_open(&it);
        expect_err(stage_ask(&it, it.one, act_refuse_starved, &how),
                   TR_EUSER + 5);
        expect_err(how.second, TR_EEXIST);
        stage_close(&it);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_T6_T7_T10_a_request_is_answered_once),
        cmocka_unit_test(test_rule_15_the_asker_hears_before_the_supervisor),
        cmocka_unit_test(test_rule_15_a_refusal_is_no_failure),
        cmocka_unit_test(test_rule_11_a_refusal_without_memory_keeps_its_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
