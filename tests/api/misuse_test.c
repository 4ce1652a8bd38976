/*
 * misuse_test.c - a mistake in a call is named: by an error with a text, by a
 * failure of the actor, or by a text before the process ends.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <troupe/troupe.h>

#include "../support/sanitizer.h"

enum { TEXT_MAX = 2048 };

static void assert_says(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", text, part);
    }
}

/* ---- options of a system ---- */

static void assert_refused(tr_err err, tr_system *sys, const char *part)
{
    assert_int_equal(err, TR_EINVAL);
    assert_null(sys);
    assert_says(tr_error_text((tr_system *)NULL), "tr_system_open");
    assert_says(tr_error_text((tr_system *)NULL), part);
}

static void test_a_stack_size_out_of_range_is_refused(void **state)
{
    tr_system *sys = NULL;

    (void)state;
    assert_refused(tr_system_open(&sys, .workers = 1, .stack_size = 1), sys,
                   "stack_size");
    assert_refused(tr_system_open(&sys, .workers = 1, .stack_size = SIZE_MAX),
                   sys, "stack_size");
}

TR_MESSAGE(Answer, (int64_t, n));
TR_REQUEST(Question, Answer);

static tr_err on_question(tr_ctx *ctx, void *self, const Question *m)
{
    (void)self;
    return tr_reply(ctx, m, .n = 42);
}

TR_ACTOR(oracle, void, TR_ON(Question, on_question));

static void test_a_small_memory_budget_is_for_the_mailboxes(void **state)
{
    tr_system *sys;
    Answer answer;

    (void)state;
    TR_MUST(tr_system_open(&sys, .workers = 1, .memory_budget = 300 * 1024));
    tr_ref ref = tr_spawn(sys, oracle);
    TR_MUST(tr_ask(sys, ref, &answer, 0, Question));
    assert_int_equal(answer.n, 42);
    TR_MUST(tr_system_close(sys, 0));
}

/* ---- numbers that are out of their range ---- */

static void test_a_policy_with_nan_is_refused(void **state)
{
    tr_system *sys = NULL;

    (void)state;
    assert_refused(
        tr_system_open(&sys, .supervision = TR_SUPERVISE(.jitter = NAN)), sys,
        "jitter");
    assert_refused(
        tr_system_open(&sys,
                       .supervision = TR_SUPERVISE(.backoff_factor = NAN)),
        sys, "backoff_factor");
}

/* ---- mistakes inside a handler ---- */

TR_REQUEST(Try, Answer, (uint32_t, number));

static tr_err refuse_with_ok(tr_ctx *ctx, const Try *m)
{
    return tr_refuse(ctx, m, TR_OK, "no");
}

static tr_err fail_with_ok(tr_ctx *ctx, const Try *m)
{
    (void)m;
    return tr_fail(ctx, TR_OK, "broken");
}

static tr_err become_null(tr_ctx *ctx, const Try *m)
{
    (void)m;
    (tr_become)(ctx, NULL);
    return TR_OK;
}

static tr_err every_zero(tr_ctx *ctx, const Try *m)
{
    (void)m;
    tr_every(ctx, 0, Question);
    return TR_OK;
}

static tr_err reply_to_null(tr_ctx *ctx, const Try *m)
{
    (void)m;
    return (tr_reply)(ctx, NULL, &(Answer){.n = 1});
}

/* A copy that is aligned as the value in a message is. */
static tr_err reply_to_a_copy(tr_ctx *ctx, const Try *m)
{
    struct {
        _Alignas(32) char before[48];
        Try copy;
    } block = {.copy = *m};
    return tr_reply(ctx, &block.copy, .n = 1);
}

/* A copy that is not. */
static tr_err refuse_a_copy(tr_ctx *ctx, const Try *m)
{
    struct {
        _Alignas(32) char before[56];
        Try copy;
    } block = {.copy = *m};
    return tr_refuse(ctx, &block.copy, TR_EINVAL, "no");
}

static tr_err keep_a_copy(tr_ctx *ctx, const Try *m)
{
    struct {
        _Alignas(32) char before[48];
        Try copy;
    } block = {.copy = *m};
    (void)tr_keep(ctx, &block.copy);
    return TR_OK;
}

static tr_err run_the_system(tr_ctx *ctx, const Try *m)
{
    tr_err err = tr_system_run(tr_system_of(ctx));
    return tr_refuse(ctx, m, err, "%s", tr_error_text(tr_system_of(ctx)));
}

static tr_err then_null(tr_ctx *ctx, const Try *m)
{
    (void)m;
    tr_ask_then(ctx, tr_self(ctx), 0, NULL, Question);
    return TR_OK;
}

static tr_err block_on_null(tr_ctx *ctx, const Try *m)
{
    (void)m;
    return tr_blocking(ctx, NULL, NULL);
}

static tr_err tell_without_a_type(tr_ctx *ctx, const Try *m)
{
    (void)m;
    (tr_tell)(ctx, tr_self(ctx), NULL, NULL);
    return TR_OK;
}

static tr_err timer_without_a_type(tr_ctx *ctx, const Try *m)
{
    (void)m;
    (tr_after)(ctx, TR_MS(1), NULL, NULL);
    return TR_OK;
}

/* A mistake, and what its asker gets. */
static const struct {
    tr_err (*make)(tr_ctx *ctx, const Try *m);
    tr_err err;
    const char *text;
} mistakes[] = {
    {refuse_with_ok, TR_EFAILED, "no"},
    {fail_with_ok, TR_EFAILED, "broken"},
    {become_null, TR_EPANIC, "tr_become: the behaviour is NULL"},
    {every_zero, TR_EPANIC, "tr_every: the span must be above 0"},
    {reply_to_null, TR_EPANIC, "tr_reply: m is NULL"},
    {reply_to_a_copy, TR_EPANIC, "tr_reply: m is not the message"},
    {refuse_a_copy, TR_EPANIC, "tr_refuse: m is not the message"},
    {keep_a_copy, TR_EPANIC, "tr_keep: m is not the message"},
    {run_the_system, TR_EWOULDBLOCK, "tr_system_run"},
    {then_null, TR_EPANIC, "tr_ask_then: the callback is NULL"},
    {block_on_null, TR_EPANIC, "tr_blocking: the function is NULL"},
    {tell_without_a_type, TR_EPANIC, "tr_tell: the type is NULL"},
    {timer_without_a_type, TR_EPANIC, "tr_after: the type is NULL"},
};

static tr_err on_try(tr_ctx *ctx, void *self, const Try *m)
{
    (void)self;
    return mistakes[m->number].make(ctx, m);
}

TR_ACTOR(clumsy, void, TR_ON(Try, on_try));

static void test_mistakes_of_a_handler_are_named(void **state)
{
    tr_system *sys;

    (void)state;
    TR_MUST(tr_system_open(&sys, .workers = 1, .log_level = TR_LOG_ERROR));
    tr_ref ref = tr_spawn(sys, clumsy,
                          .supervision = TR_SUPERVISE(.on_failure = TR_RESUME));
    for (uint32_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
        tr_err err = tr_ask(sys, ref, NULL, 0, Try, .number = i);
        assert_says(tr_error_text(sys), mistakes[i].text);
        assert_int_equal(err, mistakes[i].err);
    }
    TR_MUST(tr_system_close(sys, 0));
}

/* ---- mistakes that end the process ---- */

static tr_err free_twice(tr_ctx *ctx, void *self)
{
    (void)self;
    void *memory = tr_alloc(ctx, 100);
    tr_free(ctx, memory);
    tr_free(ctx, memory);
    return TR_OK;
}

static tr_err free_foreign(tr_ctx *ctx, void *self)
{
    static _Alignas(16) char memory[256];
    (void)self;
    tr_free(ctx, memory + 128);
    return TR_OK;
}

static tr_err close_inside(tr_ctx *ctx, void *self)
{
    (void)self;
    return tr_system_close(tr_system_of(ctx), 0);
}

TR_ACTOR(twice, void, TR_HOOK(pre_start, free_twice));
TR_ACTOR(foreign, void, TR_HOOK(pre_start, free_foreign));
TR_ACTOR(closer, void, TR_HOOK(pre_start, close_inside));

static const tr_handler no_handler[] = {{&Question_tr_type, NULL, 0}};
static const tr_actor_def empty = {.size = sizeof(empty),
                                   .name = "empty",
                                   .handlers = no_handler,
                                   .handler_count = 1};

/* Starts an actor in a child process and stores what that prints. */
static int said(const tr_actor_def *def, char *text)
{
    int ends[2], status = 0;
    size_t used = 0;
    ssize_t got;

    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        tr_system *sys;
        dup2(ends[1], STDERR_FILENO);
        TR_MUST(tr_system_open(&sys, .workers = 1));
        _exit(tr_started(sys, (tr_spawn)(sys, def, NULL), 0) == TR_OK);
    }
    close(ends[1]);
    while (used + 1 < TEXT_MAX &&
           (got = read(ends[0], text + used, TEXT_MAX - used - 1)) > 0) {
        used += (size_t)got;
    }
    text[used] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void assert_dies(const tr_actor_def *def, const char *part)
{
    char text[TEXT_MAX];
    int status = said(def, text);

    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    assert_says(text, part);
}

static void test_mistakes_that_end_the_process_are_named(void **state)
{
    (void)state;
    assert_dies(&closer, "tr_system_close: called inside a handler");
    assert_dies(&empty, "empty: a handler of its tr_actor_def is NULL");
    if (UNDER_SANITIZER) {
        return;
    }
    assert_dies(&twice, "tr_free: not memory of this actor");
    assert_dies(&foreign, "tr_free: not memory of this actor");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_stack_size_out_of_range_is_refused),
        cmocka_unit_test(test_a_small_memory_budget_is_for_the_mailboxes),
        cmocka_unit_test(test_a_policy_with_nan_is_refused),
        cmocka_unit_test(test_mistakes_of_a_handler_are_named),
        cmocka_unit_test(test_mistakes_that_end_the_process_are_named),
    };
    return cmocka_run_group_tests_name("misuse", tests, NULL, NULL);
}
