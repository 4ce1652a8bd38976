/*
 * refs_test.c - refs that lead nowhere: to nobody, of a failed spawn, of
 * another system, of an ended actor. Every call with one has a defined answer
 * and harms nobody.
 */
#include "support/stage.h"

static tr_err act_misuse_refs(tr_ctx *ctx, puppet *self, const Act *m,
                              void *arg)
{
    const tr_ref *bad = arg;
    (void)self;
    tr_tell(ctx, *bad, Note, .value = 1);
    tr_tell_urgent(ctx, *bad, 3, Note, .value = 1);
    tr_stop(ctx, *bad);
    tr_poison(ctx, *bad);
    tr_kill(ctx, *bad);
    tr_watch(ctx, *bad);
    tr_unwatch(ctx, *bad);
    tr_watch_in_order(ctx, *bad);
    tr_handle_drop(ctx, tr_handle_hold(ctx, *bad).ref);
    TR_ASSERT(ctx, tr_join(ctx, *bad, TR_MS(1), NULL, NULL) != TR_OK);
    TR_ASSERT(ctx, tr_started(ctx, *bad, TR_MS(1)) != TR_OK);
    TR_ASSERT(ctx, act_ask(ctx, *bad, act_nothing, NULL, TR_MS(1)) != TR_OK);
    TR_ASSERT(ctx, tr_state_of(ctx, *bad) == TR_STATE_TERMINATED);
    tr_forward(ctx, *bad, m);
    return TR_OK;
}

static void misuse_refs(stage *it, tr_ref bad)
{
    char path[TR_PATH_SIZE];
    tr_actor_info info = {.size = sizeof(info)};
    assert_int_not_equal(stage_ask(it, it->one, act_misuse_refs, &bad), TR_OK);
    tr_tell(it->sys, bad, Note, .value = 1);
    tr_tell_urgent(it->sys, bad, 3, Note, .value = 1);
    assert_int_not_equal(tr_try_tell(it->sys, bad, Note), TR_OK);
    assert_int_not_equal(tr_join(it->sys, bad, TR_MS(1), NULL, NULL), TR_OK);
    assert_int_not_equal(tr_started(it->sys, bad, TR_MS(1)), TR_OK);
    assert_int_not_equal(tr_actor_info_of(it->sys, bad, &info), TR_OK);
    assert_int_equal(tr_state_of(it->sys, bad), TR_STATE_TERMINATED);
    assert_int_equal(tr_state_of(it->probe, bad), TR_STATE_TERMINATED);
    assert_non_null(tr_ref_path(it->probe, bad, path, sizeof(path)));
    tr_stop(it->sys, bad);
    tr_kill(it->probe, bad);
    tr_poison(it->sys, bad);
    tr_watch_for(it->sys, bad, it->one);
    tr_watch_for(it->sys, it->two, bad);
    tr_handle_drop(it->sys, tr_handle_hold(it->sys, bad).ref);
    tr_probe_watch(it->probe, bad);
    assert_int_equal(tr_expect(it->probe, TR_SECONDS(5), tr_terminated)->reason,
                     TR_NO_SUCH_ACTOR);
    tr_ref redirected =
        stage_spawn(it, .drain = TR_DRAIN_REDIRECT, .drain_to = bad);
    tr_tell(it->sys, redirected, Note, .value = 1);
    tr_kill(it->sys, redirected);
    stage_run_ready(it);
}

static void test_rule_31_refs_that_lead_nowhere_do_no_harm(void **state)
{
    stage it, other;
    (void)state;
    stage_open(&it);
    stage_open_seed(&other, 2, NULL);
    tr_ref gone = it.three;
    tr_kill(it.sys, gone);
    stage_run_ready(&it);
    const tr_ref bad[] = {
        TR_NOBODY,
        {0, TR_EEXIST},  // of a spawn that failed
        other.one,
        gone,
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        misuse_refs(&it, bad[i]);
    }
    assert_int_equal(tr_state_of(it.sys, it.one), TR_STATE_RUNNING);
    assert_int_equal(tr_state_of(it.sys, it.two), TR_STATE_RUNNING);
    expect_ok(stage_ask(&other, other.one, act_nothing, NULL));
    // Equal: the same actor, or nobody twice, whatever the reason.
    assert_true(tr_ref_eq(bad[0], bad[1]));
    assert_true(tr_ref_eq(it.one, it.one));
    assert_false(tr_ref_eq(it.one, it.two));
    tr_ref older = it.one;
    older.id++;
    assert_false(tr_ref_eq(it.one, older));
    stage_close(&other);
    stage_close(&it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rule_31_refs_that_lead_nowhere_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
