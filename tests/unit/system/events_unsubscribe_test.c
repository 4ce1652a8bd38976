/*
 * events_unsubscribe_test.c - a subscriber that leaves one of two types, and
 * one that shares a type with a callback.
 */
#include "support/stage.h"

static tr_err act_two_kinds(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)self;
    (void)arg;
    tr_subscribe(ctx, Note);
    tr_subscribe(ctx, Stranger);
    tr_unsubscribe(ctx, Stranger);
    tr_unsubscribe(ctx, tr_overload);  // it never did
    return tr_reply(ctx, m, .value = 1);
}

static void test_EV2_leaving_one_type_keeps_the_other(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);  // its own callbacks listen to dead letters
    tr_probe_subscribe(it.probe, tr_dead_letter);
    expect_ok(stage_ask(&it, it.one, act_two_kinds, NULL));
    tr_publish(it.sys, Note, .value = 5);
    tr_publish(it.sys, Stranger, .value = 6);
    stage_run_ready(&it);
    expect_notes(&it, 5);
    // A callback and a subscriber of the same: both, once.
    tr_tell(it.sys, TR_NOBODY, Note, .value = 7);
    assert_string_equal(
        tr_expect(it.probe, TR_SECONDS(1), tr_dead_letter)->type, "Note");
    tr_expect_nothing(it.probe, TR_SECONDS(1));
    uint32_t dead = 0;
    for (int i = 0; i < STAGE_REASONS; i++) {
        dead += stage_dead(&it, (tr_dead_reason)i);
    }
    assert_int_equal(dead, 1);
    stage_close(&it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_EV2_leaving_one_type_keeps_the_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
