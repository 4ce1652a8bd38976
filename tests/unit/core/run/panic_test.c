/*
 * panic_test.c - tr_panic: it leaves the handler from any depth, on the stack
 * of its own turn.
 */
#include <stdatomic.h>

#include "support/stage.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/dying.h"

static void count_up(void *object)
{
    ++*(int *)object;
}

static __attribute__((noinline)) int deep(tr_ctx *ctx, int depth)
{
    char room[64];
    memset(room, depth, sizeof(room));
    if (depth < 0) {
        return depth;
    }
    if (depth == 0) {
        tr_panic(ctx, "at the bottom, %d", room[0]);
    }
    return deep(ctx, depth - 1) + room[1];
}

static tr_err act_deep(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)self;
    (void)m;
    (void)tr_scratch(ctx, 100);
    tr_on_end(ctx, count_up, arg);
    (void)tr_alloc(ctx, 100);
    return deep(ctx, 20) == 0 ? TR_OK : TR_EUSER;
}

static void test_rule_11_a_panic_leaves_from_any_depth(void **state)
{
    stage it;
    int closed = 0;
    (void)state;
    stage_open(&it);
    expect_err(stage_ask(&it, it.one, act_deep, &closed), TR_EPANIC);
    assert_non_null(strstr(tr_error_text(it.sys), "at the bottom, 0"));
    stage_pass(&it, TR_SECONDS(1));
    assert_int_equal(closed, 1);
    assert_int_equal(atomic_load(&it.restarts), 1);
    expect_ok(stage_ask(&it, it.one, act_nothing, NULL));
    stage_close(&it);
}

static tr_err act_nap_then_panic(tr_ctx *ctx, puppet *self, const Act *m,
                                 void *arg)
{
    (void)self;
    (void)m;
    (void)arg;
    TR_TRY(tr_sleep(ctx, TR_SECONDS(1)));
    TR_ASSERT(ctx, 1 + 1 == 3);
    return TR_OK;
}

static void test_rule_11_a_panic_after_a_wait_has_its_own_stack(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    stage_tell(&it, it.two, act_nap_then_panic, NULL);
    expect_err(stage_ask(&it, it.one, act_nap_then_panic, NULL), TR_EPANIC);
    assert_non_null(strstr(tr_error_text(it.sys), "1 + 1 == 3"));
    stage_pass(&it, TR_SECONDS(1));
    assert_int_equal(atomic_load(&it.restarts), 2);
    stage_close(&it);
}

typedef struct fragile {
    int *phase;
    int where;
} fragile;

static tr_err fragile_start(tr_ctx *ctx, fragile *self)
{
    if (self->where == TR_IN_START) {
        tr_panic(ctx, "in start");
    }
    return TR_OK;
}

static tr_err fragile_run(tr_ctx *ctx, fragile *self)
{
    if (self->where == TR_IN_RUN) {
        TR_TRY(tr_sleep(ctx, TR_SECONDS(1)));
        tr_panic(ctx, "in run");
    }
    return TR_OK;
}

TR_ACTOR(fragiles, fragile, TR_HOOK(pre_start, fragile_start),
         TR_HOOK(on_run, fragile_run));

static void test_rule_11_the_result_names_the_phase_of_a_panic(void **state)
{
    static const int phases[] = {TR_IN_START, TR_IN_RUN};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        stage it;
        tr_result result;
        stage_open(&it);
        tr_ref ref =
            tr_spawn(it.sys, fragiles, TR_INIT(fragiles, .where = phases[i]),
                     .supervision = TR_SUPERVISE(.on_failure = TR_STOP),
                     .joinable = true);
        expect_ok(tr_join(it.sys, ref, 0, &result, NULL));
        assert_int_equal(result.phase, phases[i]);
        expect_err(result.err, TR_EPANIC);
        stage_close(&it);
    }
}

static tr_err act_lend_ctx(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)self;
    *(tr_ctx **)arg = ctx;
    return tr_reply(ctx, m, .value = 1);
}

static void test_rule_22_a_panic_outside_of_a_turn_aborts(void **state)
{
    (void)state;
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        stage it;
        tr_ctx *ctx = NULL;
        (void)freopen("/dev/null", "w", stderr);
        dying_child();
        stage_open(&it);
        expect_ok(stage_ask(&it, it.one, act_lend_ctx, &ctx));
        tr_panic(ctx, "too late");
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rule_11_a_panic_leaves_from_any_depth),
        cmocka_unit_test(test_rule_11_a_panic_after_a_wait_has_its_own_stack),
        cmocka_unit_test(test_rule_11_the_result_names_the_phase_of_a_panic),
        cmocka_unit_test(test_rule_22_a_panic_outside_of_a_turn_aborts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
