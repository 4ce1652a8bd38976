/*
 * sim_mail_callback_test.c - a run that checks callbacks still calls the
 * program's own: that of tr_ask_then, and that of tr_ask_then_with with its
 * pointer.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <troupe/troupe.h>

TR_MESSAGE(Number, (int32_t, n));
TR_REQUEST(Double, Number, (int32_t, n));
TR_MESSAGE(Start);

typedef struct Desk {
    int32_t plain, with;  // what the callbacks got
    int32_t plus;
} Desk;

static Desk got;  // the last state that a callback left

static tr_err on_double(tr_ctx *ctx, Desk *self, const Double *m)
{
    (void)self;
    return tr_reply(ctx, m, .n = 2 * m->n);
}

static tr_err then(tr_ctx *ctx, void *state, const void *reply, tr_err err)
{
    Desk *self = state;
    (void)ctx;
    TR_TRY(err);
    self->plain = ((const Number *)reply)->n;
    got = *self;
    return TR_OK;
}

static tr_err then_with(tr_ctx *ctx, void *state, const void *reply, tr_err err,
                        void *user)
{
    Desk *self = state;
    (void)ctx;
    TR_TRY(err);
    self->with = ((const Number *)reply)->n + *(int32_t *)user;
    got = *self;
    return TR_OK;
}

static tr_err on_start(tr_ctx *ctx, Desk *self, const Start *m)
{
    tr_ref other = tr_lookup(ctx, "/user/other");
    (void)m;
    self->plus = 1000;
    tr_ask_then(ctx, other, TR_SECONDS(5), then, Double, .n = 3);
    tr_ask_then_with(ctx, other, TR_SECONDS(5), then_with, &self->plus, Double,
                     .n = 4);
    return TR_OK;
}

TR_ACTOR(desk, Desk, TR_ON(Double, on_double), TR_ON(Start, on_start));

static tr_err node(tr_system *sys, uint32_t index, void *user)
{
    (void)index, (void)user;
    TR_TRY(tr_ref_err(tr_spawn(sys, desk, .name = "other")));
    tr_tell(sys, tr_spawn(sys, desk, .name = "desk"), Start);
    return TR_OK;
}

static tr_err workload(tr_sim *sim, void *user)
{
    (void)user;
    tr_sim_advance(sim, TR_SECONDS(1));
    return TR_OK;
}

static void test_both_callbacks_run_in_a_checked_run(void **state)
{
    (void)state;
    got = (Desk){0};
    assert_int_equal(tr_sim_run(TR_OPTIONS(tr_sim_options, .seed = 1,
                                           .node = node, .workload = workload)),
                     TR_OK);
    assert_int_equal(got.plain, 6);
    assert_int_equal(got.with, 1008);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_callbacks_run_in_a_checked_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
