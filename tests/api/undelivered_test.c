/*
 * undelivered_test.c - rule 13: a request that certainly did not run has not
 * run and does not run later.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <troupe/troupe.h>

TR_MESSAGE(Ran, (uint32_t, n));
TR_REQUEST(Pay, Ran);
TR_REQUEST(AskSelf, Ran);
TR_MESSAGE(Begin, (uint32_t, err));
TR_MESSAGE(Break);
TR_MESSAGE(End);

typedef struct Payer {
    uint32_t paid;
} Payer;

static tr_err on_pay(tr_ctx *ctx, Payer *self, const Pay *m)
{
    return tr_reply(ctx, m, .n = ++self->paid);
}

/* Awaits a request to itself, and replies with the error. */
static tr_err on_ask_self(tr_ctx *ctx, Payer *self, const AskSelf *m)
{
    Ran ran;
    (void)self;
    tr_future future = tr_async(ctx, tr_self(ctx), 0, Pay);
    return tr_reply(ctx, m, .n = tr_await(ctx, future, Pay, &ran));
}

TR_ACTOR(payer, Payer, TR_ON(Pay, on_pay), TR_ON(AskSelf, on_ask_self));

static void test_an_awaited_request_to_oneself_is_not_called_undelivered(
    void **state)
{
    tr_system *sys;
    Ran ran;
    (void)state;
    TR_MUST(tr_system_open(&sys, .log_level = TR_LOG_ERROR));
    tr_ref ref = tr_spawn(sys, payer);
    TR_MUST(tr_ask(sys, ref, &ran, 0, AskSelf));
    tr_err err = (tr_err)ran.n;
    assert_int_equal(err, TR_EDEADLOCK);
    TR_MUST(tr_ask(sys, ref, &ran, 0, Pay));
    assert_true(ran.n == 1 || !tr_undelivered(err));
    assert_int_equal(tr_system_close(sys, 0), TR_OK);
}

/* ---- a request of a child that its parent has kept ---- */

typedef struct Child {
    tr_ref tell;
} Child;

static tr_err on_begin(tr_ctx *ctx, Child *self, const Begin *m)
{
    Ran ran;
    (void)m;
    tr_err err = tr_ask(ctx, tr_parent(ctx), &ran, TR_SECONDS(20), Pay);
    tr_tell(ctx, self->tell, Begin, .err = err);
    return TR_OK;
}

TR_ACTOR(child, Child, TR_ON(Begin, on_begin));

typedef struct Parent {
    tr_ref tell;
} Parent;

static tr_err parent_start(tr_ctx *ctx, Parent *self)
{
    tr_ref ref = tr_spawn(ctx, child, TR_INIT(child, self->tell));
    if (tr_incarnation(ctx) == 1) {
        tr_tell(ctx, ref, Begin);
    }
    return TR_OK;
}

static tr_err parent_pay(tr_ctx *ctx, Parent *self, const Pay *m)
{
    (void)tr_keep(ctx, m);
    tr_tell(ctx, self->tell, Ran);
    return TR_OK;
}

static tr_err parent_break(tr_ctx *ctx, Parent *self, const Break *m)
{
    (void)self, (void)m;
    return tr_fail(ctx, TR_EFAILED, "as told");
}

static tr_err parent_end(tr_ctx *ctx, Parent *self, const End *m)
{
    (void)self, (void)m;
    tr_stop(ctx, tr_self(ctx));
    return TR_OK;
}

TR_ACTOR(parent, Parent, TR_HOOK(pre_start, parent_start),
         TR_ON(Pay, parent_pay), TR_ON(Break, parent_break),
         TR_ON(End, parent_end));

static tr_err error_of_kept(bool restart)
{
    tr_system *sys;
    tr_probe *probe;
    TR_MUST(tr_system_open(&sys, .log_level = TR_LOG_ERROR + 1));
    TR_MUST(tr_probe_new(&probe, sys));
    tr_ref ref = tr_spawn(sys, parent, TR_INIT(parent, tr_probe_ref(probe)));
    (void)tr_expect(probe, TR_SECONDS(30), Ran);  // the request is kept
    if (restart) {
        tr_tell(sys, ref, Break);
    } else {
        tr_tell(sys, ref, End);
    }
    tr_err err = (tr_err)tr_expect(probe, TR_SECONDS(30), Begin)->err;
    tr_probe_free(probe);
    assert_int_equal(tr_system_close(sys, 0), TR_OK);
    return err;
}

static void test_a_kept_request_of_a_child_ends_with_the_restart(void **state)
{
    (void)state;
    assert_int_equal(error_of_kept(true), TR_ERESTARTED);
}

static void test_a_kept_request_of_a_child_ends_with_the_stop(void **state)
{
    (void)state;
    assert_int_equal(error_of_kept(false), TR_ESTOPPED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            test_an_awaited_request_to_oneself_is_not_called_undelivered),
        cmocka_unit_test(test_a_kept_request_of_a_child_ends_with_the_restart),
        cmocka_unit_test(test_a_kept_request_of_a_child_ends_with_the_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
