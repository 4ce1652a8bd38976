/*
 * outside_test.c - calls from threads that are not workers.
 */
#include "support/stage.h"

#include <string.h>

/* Writes the path of the asker to arg: under /temp, without an actor. */
static tr_err act_path_of_sender(tr_ctx *ctx, puppet *self, const Act *m,
                                 void *arg)
{
    (void)self;
    (void)tr_ref_path(ctx, tr_sender(ctx), arg, TR_PATH_SIZE);
    return tr_reply(ctx, m, .value = 1);
}

static void test_T19_X42_an_outside_asker_has_a_path_under_temp(void **state)
{
    stage it;
    char path[TR_PATH_SIZE];
    tr_metrics_snapshot before = {.size = sizeof(before)}, after = before;
    (void)state;
    stage_open(&it);
    tr_metrics(it.sys, &before);
    expect_ok(stage_ask(&it, it.one, act_path_of_sender, path));
    tr_metrics(it.sys, &after);
    assert_int_equal(strncmp(path, "/temp/", 6), 0);
    assert_int_equal(before.spawned, after.spawned);
    stage_close(&it);
}

static void test_rule_35_outside_calls_run_the_simulated_world(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    tr_nanos start = tr_now(it.sys);
    expect_ok(stage_ask(&it, it.one, act_sleep, (void *)TR_SECONDS(500)));
    assert_int_equal(tr_now(it.sys) - start, TR_SECONDS(500));
    tr_expect_nothing(it.probe, TR_SECONDS(1000));
    expect_err(tr_join(it.sys, it.two, TR_SECONDS(3000), NULL, NULL),
               TR_ETIMEDOUT);
    assert_true(tr_now(it.sys) - start >= TR_SECONDS(4500));
    stage_close(&it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_T19_X42_an_outside_asker_has_a_path_under_temp),
        cmocka_unit_test(test_rule_35_outside_calls_run_the_simulated_world),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
