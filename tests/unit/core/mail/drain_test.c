/*
 * drain_test.c - what becomes of the mail that an actor leaves behind.
 */
#include <stdatomic.h>

#include "support/stage.h"

#include "unit/core/waiting.h"

/* Stops an actor that has three messages left. */
static void drain_to(stage *it, const tr_spawn_options *options)
{
    tr_ref ref = stage_puppet(it, options);
    keep_busy(it, ref);
    for (int i = 1; i <= 3; i++) {
        tr_tell(it->sys, ref, Note, .value = i);
    }
    stage_run_ready(it);
    tr_stop(it->sys, ref);
    stage_pass(it, TR_SECONDS(2));
}

static void test_MB8_each_drain_policy_disposes_of_the_rest(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    drain_to(&it, TR_OPTIONS(tr_spawn_options, .name = "dead"));
    assert_int_equal(stage_dead(&it, TR_DEAD_DRAINED), 3);
    drain_to(&it, TR_OPTIONS(tr_spawn_options, .drain = TR_DRAIN_DROP));
    assert_int_equal(stage_dead(&it, TR_DEAD_DRAINED), 3);
    drain_to(&it, TR_OPTIONS(tr_spawn_options, .drain = TR_DRAIN_REDIRECT,
                             .drain_to = it.two));
    expect_notes(&it, 1, 2, 3);
    assert_int_equal(stage_dead(&it, TR_DEAD_DRAINED), 3);
    stage_close(&it);
}

static tr_err act_timers_and_sleep(tr_ctx *ctx, puppet *self, const Act *m,
                                   void *arg)
{
    (void)self;
    (void)m;
    (void)tr_after(ctx, TR_MS(1), Note, .value = 5);
    tr_ask_pipe(ctx, TR_NOBODY, TR_SECONDS(1), Act, .fn = 0);
    return act_sleep(ctx, self, m, arg);
}

/* Messages of own timers and answers are neither redirected nor counted. */
static void test_DR_timers_and_answers_are_not_redirected(void **state)
{
    static const tr_drain drains[] = {TR_DRAIN_REDIRECT, TR_DRAIN_DROP,
                                      TR_DRAIN_DEAD_LETTERS};
    (void)state;
    for (int i = 0; i < 3; i++) {
        stage it;
        stage_open(&it);
        tr_ref ref = stage_spawn(&it, .drain = drains[i], .drain_to = it.two);
        stage_tell(&it, ref, act_timers_and_sleep, (void *)TR_SECONDS(30));
        stage_pass(&it, TR_SECONDS(1));
        tr_tell(it.probe, ref, Note, .value = 1);
        tr_tell_urgent(it.probe, ref, 2, Note, .value = 2);
        stage_run_ready(&it);
        tr_kill(it.sys, ref);
        stage_pass(&it, TR_SECONDS(1));
        if (drains[i] == TR_DRAIN_REDIRECT) {
            expect_notes(&it, 1, 2);
        } else {
            assert_int_equal(atomic_load(&it.note_count), 0);
        }
        assert_int_equal(stage_dead(&it, TR_DEAD_DRAINED),
                         drains[i] == TR_DRAIN_DEAD_LETTERS ? 2 : 0);
        stage_close(&it);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_MB8_each_drain_policy_disposes_of_the_rest),
        cmocka_unit_test(test_DR_timers_and_answers_are_not_redirected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
