/*
 * heap_test.c - memory that belongs to an actor: text in its state, and what a
 * restart must release.
 */
#include <stdatomic.h>

#include "support/stage.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/core.h"
#include "support/dying.h"

TR_STATE(Remember, (const char *, text));

static tr_err on_remember(tr_ctx *ctx, Remember *self, const Acted *m)
{
    self->text = m->value == 1 ? m->text : tr_dup(ctx, m->text);
    return TR_OK;
}

TR_ACTOR(remembering, Remember, TR_ON(Acted, on_remember));

static void test_rule_30_a_copy_may_be_stored(void **state)
{
    stage it;
    Remember kept;
    (void)state;
    stage_open(&it);
    tr_ref ref = tr_spawn(it.sys, remembering, .joinable = true);
    tr_tell(it.sys, ref, Acted, .value = 2, .text = "copied");
    tr_poison(it.sys, ref);
    expect_ok(tr_join(it.sys, ref, 0, NULL, &kept));
    assert_string_equal(kept.text, "copied");
    tr_drop(Remember, &kept);
    stage_close(&it);
}

static void test_rule_30_a_borrowed_text_in_the_state_is_found(void **state)
{
    (void)state;
    if (!TRI_FAULTS) {  // allocations cannot be made to fail
        skip();
    }
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        stage it;
        (void)freopen("/dev/null", "w", stderr);
        dying_child();
        stage_open(&it);
        tr_ref ref = tr_spawn(it.sys, remembering);
        tr_tell(it.sys, ref, Acted, .value = 1, .text = "borrowed");
        stage_run_ready(&it);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
}

static void count_down(void *object)
{
    --*(int64_t *)object;
}

/* A callback of a request whose incarnation ends before the answer. */
static tr_err never_called(tr_ctx *ctx, void *self, const void *reply,
                           tr_err err)
{
    (void)self, (void)reply, (void)err;
    TR_ASSERT(ctx, false);
    return TR_OK;
}

static tr_err act_own_and_fail(tr_ctx *ctx, puppet *self, const Act *m,
                               void *arg)
{
    int64_t *open = arg;
    (void)self;
    (void)m;
    ++*open;
    tr_on_end(ctx, count_down, open);
    (void)tr_alloc(ctx, 1000);
    (void)tr_scratch(ctx, 1000);
    (void)tr_after(ctx, TR_SECONDS(100), Note, .value = 1);
    tr_ask_then(ctx, tr_self(ctx), 0, never_called, Act,
                .fn = (uint64_t)(uintptr_t)act_nothing);
    (void)tr_keep(ctx, m);
    if (*open % 2 == 0) {
        tr_panic(ctx, "again");
    }
    return tr_fail(ctx, TR_EUSER, "again");
}

static tr_err act_callback_free(tr_ctx *ctx, puppet *self, const Act *m,
                                void *arg)
{
    int64_t *open = arg;
    (void)self;
    ++*open;
    tr_on_end(ctx, count_down, open);
    (void)tr_alloc(ctx, 1000);
    (void)tr_scratch(ctx, 1000);
    (void)tr_after(ctx, TR_SECONDS(100), Note, .value = 1);
    (void)tr_keep(ctx, m);
    return tr_fail(ctx, TR_EUSER, "again");
}

static void test_failing_restarts_leak_nothing(void **state)
{
    stage it;
    int64_t open = 0;
    uint64_t rounds = stage_scaled(1000000);
    (void)state;
    stage_open(&it);
    tr_ref ref = stage_spawn(
        &it, .supervision = TR_SUPERVISE(.max_restarts = UINT32_MAX,
                                         .backoff_min = 1, .backoff_max = 1));
    size_t mapped = 0;
    for (uint64_t i = 0; i < rounds; i++) {
        stage_tell(&it, ref, act_callback_free, &open);
        if (i % 64 == 63) {
            stage_pass(&it, TR_MS(1));
        }
        if (i == rounds / 2) {
            mapped = atomic_load(&it.sys->mem.mapped);
        }
    }
    stage_pass(&it, TR_SECONDS(1));
    assert_int_equal(open, 0);
    assert_int_equal(atomic_load(&it.restarts), rounds);
    assert_int_equal(atomic_load(&it.sys->mem.mapped), mapped);
    assert_int_equal(tr_state_of(it.sys, ref), TR_STATE_RUNNING);
    stage_tell(&it, ref, act_own_and_fail, &open);
    stage_pass(&it, TR_SECONDS(1));
    assert_int_equal(open, 0);
    stage_close(&it);
}

/* ---- tr_scratch_reset ---- */

TR_MESSAGE(Told, (const char *, text));
TR_REQUEST(TellMe, Told);
TR_REQUEST(Loop, tr_none, (tr_ref, teller));

static tr_err on_tell_me(tr_ctx *ctx, void *self, const TellMe *m)
{
    (void)self;
    return tr_reply(ctx, m, .text = "a text");
}

TR_ACTOR(teller, void, TR_ON(TellMe, on_tell_me));

/* Each round leaves an answer and scratch memory behind, and frees both. */
static tr_err on_loop(tr_ctx *ctx, void *self, const Loop *m)
{
    Told told;
    (void)self;
    for (int i = 0; i < 3; i++) {
        TR_TRY(tr_ask(ctx, m->teller, &told, 0, TellMe));
        TR_ASSERT(ctx, strcmp(tr_textf(ctx, "%s", told.text), "a text") == 0);
        TR_ASSERT(ctx, ctx->scratch != NULL && ctx->scratch->next == NULL);
        TR_ASSERT(ctx, ctx->replies != NULL && ctx->replies->next == NULL);
        tr_scratch_reset(ctx);
        TR_ASSERT(ctx, ctx->scratch == NULL && ctx->replies == NULL);
    }
    tr_scratch_reset(ctx);  // nothing is left: allowed
    return tr_reply(ctx, m);
}

TR_ACTOR(looper, void, TR_ON(Loop, on_loop));

static void test_scratch_reset_frees_before_the_turn_ends(void **state)
{
    tr_system *sys;
    (void)state;
    assert_int_equal(tr_system_open(&sys), TR_OK);
    tr_ref told = tr_spawn(sys, teller);
    assert_int_equal(
        tr_ask(sys, tr_spawn(sys, looper), NULL, 0, Loop, .teller = told),
        TR_OK);
    assert_int_equal(tr_system_close(sys, 0), TR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rule_30_a_copy_may_be_stored),
        cmocka_unit_test(test_rule_30_a_borrowed_text_in_the_state_is_found),
        cmocka_unit_test(test_failing_restarts_leak_nothing),
        cmocka_unit_test(test_scratch_reset_frees_before_the_turn_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
