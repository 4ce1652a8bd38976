/*
 * missing_state_test.c - no code of an actor runs if there was no memory for
 * its state: such an actor never started, and is neither resumed nor restarted
 * (rule 21).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <troupe/troupe.h>

enum { ACTORS = 4000, ROUNDS = 4 };

TR_MESSAGE(Touch);

typedef struct Big {
    char bytes[3000];
} Big;

static int without_state, touched;

static tr_err on_touch(tr_ctx *ctx, Big *self, const Touch *m)
{
    (void)ctx, (void)m;
    without_state += self == NULL;
    touched++;
    return TR_OK;
}

static tr_err on_hook(tr_ctx *ctx, Big *self)
{
    (void)ctx;
    without_state += self == NULL;
    return TR_OK;
}

static tr_err on_restart(tr_ctx *ctx, Big *self, const tr_failure *cause)
{
    (void)ctx, (void)cause;
    without_state += self == NULL;
    return TR_OK;
}

static tr_err on_end(tr_ctx *ctx, Big *self, tr_reason reason)
{
    (void)ctx, (void)reason;
    without_state += self == NULL;
    return TR_OK;
}

TR_ACTOR(big, Big, TR_ON(Touch, on_touch));
TR_ACTOR(big_with_hooks, Big, TR_ON(Touch, on_touch),
         TR_HOOK(pre_start, on_hook), TR_HOOK(post_start, on_hook),
         TR_HOOK(pre_stop, on_hook), TR_HOOK(pre_restart, on_restart),
         TR_HOOK(post_restart, on_hook), TR_HOOK(post_stop, on_end));

static void fill_memory(const tr_actor_def *def, tr_directive directive)
{
    tr_sim *sim;
    tr_system *sys;
    without_state = touched = 0;
    assert_int_equal(tr_sim_new(&sim, 1), TR_OK);
    assert_int_equal(tr_system_open(&sys, .world = tr_sim_world(sim),
                                    .memory_budget = 4 << 20,
                                    .log_level = TR_LOG_ERROR + 1),
                     TR_OK);
    static tr_ref refs[ACTORS];
    for (int i = 0; i < ACTORS; i++) {
        refs[i] =
            (tr_spawn)((tr_from){.sys = sys}, def,
                       TR_OPTIONS(tr_spawn_options,
                                  .supervision =
                                      TR_SUPERVISE(.on_failure = directive)));
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < ACTORS; i++) {
            tr_tell(sys, refs[i], Touch);
        }
        tr_sim_advance(sim, TR_SECONDS(2));
    }
    assert_true(touched > 0);                // some had memory
    assert_true(touched < ROUNDS * ACTORS);  // and some had none
    assert_int_equal(without_state, 0);
    tr_err err = tr_system_close(sys, 0);
    assert_int_equal(err, TR_OK);
    assert_int_equal(without_state, 0);
    tr_sim_free(sim);
}

static void test_rule_21_no_handler_runs_without_a_state(void **state)
{
    (void)state;
    fill_memory(&big, TR_RESUME);
    fill_memory(&big, TR_RESTART);
}

static void test_rule_21_no_hook_runs_without_a_state(void **state)
{
    (void)state;
    fill_memory(&big_with_hooks, TR_RESUME);
    fill_memory(&big_with_hooks, TR_RESTART);
    fill_memory(&big_with_hooks, TR_STOP);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rule_21_no_handler_runs_without_a_state),
        cmocka_unit_test(test_rule_21_no_hook_runs_without_a_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
