/*
 * out_of_memory_calls_test.c - each call of an actor while memory is short.
 *
 * out_of_memory_test.c fails one allocation of a whole scenario, whose actors
 * have their extension by then. Here a new actor makes one call, and the n-th
 * allocation after that fails, for every n. Whatever the call returns, the
 * actor goes on or its supervisor decides, no wait lasts for ever, and the
 * next call works.
 */
#include <stdatomic.h>

#include "support/stage.h"

#include <string.h>

#include "support/core.h"

enum { CALLS_MAX = 200 };

typedef struct trial {
    const char *name;
    act_fn fn;
    bool in_timer;  // the call is made in the handler of a timer
} trial;

TR_MESSAGE(Ring, (int64_t, value));

/* The actor that makes the call; as.value counts the good allocations. */
typedef struct caller {
    puppet as;
    const trial *trial;
    const char **wrong;  // the condition that did not hold, or NULL
} caller;

static tr_err try_it(tr_ctx *ctx, caller *self, const void *m)
{
    tri_mem_fail_after(&ctx->sys->mem, self->as.value);
    return self->trial->fn(ctx, &self->as, m, NULL);
}

static tr_err caller_act(tr_ctx *ctx, caller *self, const Note *m)
{
    if (self->trial->in_timer) {
        (void)tr_after(ctx, TR_MS(1), Ring, .value = 1);
        return TR_OK;
    }
    return try_it(ctx, self, m);
}

static tr_err caller_ring(tr_ctx *ctx, caller *self, const Ring *m)
{
    return m->value == 0 ? TR_OK : try_it(ctx, self, m);
}

static tr_err caller_asked(tr_ctx *ctx, caller *self, const Act *m)
{
    (void)self;
    return tr_reply(ctx, m, .value = 1);
}

static tr_err caller_terminated(tr_ctx *ctx, caller *self,
                                const tr_terminated *m)
{
    (void)ctx;
    stage_note(self->as.stage, 1000 + (int64_t)m->reason);
    return TR_OK;
}

static tr_err caller_failed(tr_ctx *ctx, caller *self, const tr_ask_failed *m)
{
    (void)ctx;
    stage_note(self->as.stage, (int64_t)m->err);
    return TR_OK;
}

TR_ACTOR(callers, caller, TR_ON(Note, caller_act), TR_ON(Ring, caller_ring),
         TR_ON(Act, caller_asked), TR_ON(tr_terminated, caller_terminated),
         TR_ON(tr_ask_failed, caller_failed));

/* ---- the calls ---- */

#define CALL(name)                                                             \
    static tr_err call_##name(tr_ctx *ctx, puppet *self, const Act *m,         \
                              void *arg)
#define UNUSED_ (void)ctx, (void)self, (void)m, (void)arg
/* Notes a broken condition; a panic would be one more failure. */
#define SHOULD(condition)                                                      \
    do {                                                                       \
        if (!(condition)) {                                                    \
            *((caller *)(void *)self)->wrong = #condition;                     \
        }                                                                      \
    } while (0)

static bool fits(tr_err err, tr_err good)
{
    return err == good || err == TR_ENOMEM || err == TR_ELIMIT;
}

CALL(name)
{
    UNUSED_;
    SHOULD(tr_name(ctx)[0] == '$');
    return TR_OK;
}

CALL(keep)
{
    UNUSED_;
    const Ring *kept = tr_keep(ctx, (const Ring *)(const void *)m);
    SHOULD(kept->value == 1);
    // The message of a timer is kept as a copy.
    SHOULD((const void *)kept != (const void *)m);
    tr_release(ctx, kept);
    return TR_OK;
}

CALL(stash)
{
    UNUSED_;
    SHOULD(fits(tr_stash(ctx, (const Ring *)(const void *)m), TR_OK));
    return TR_OK;
}

CALL(forward)
{
    UNUSED_;
    tr_forward(ctx, self->stage->two, (const Ring *)(const void *)m);
    return TR_OK;
}

CALL(future)
{
    Acted out;
    UNUSED_;
    tr_future made = tr_async(ctx, self->stage->two, TR_SECONDS(1), Act,
                              .fn = (uint64_t)(uintptr_t)act_nothing);
    tr_err err = tr_await(ctx, made, Act, &out);
    SHOULD(fits(err, TR_OK));
    return TR_OK;
}

CALL(any_future)
{
    size_t index;
    UNUSED_;
    tr_future made = tr_async(ctx, self->stage->two, TR_SECONDS(1), Act,
                              .fn = (uint64_t)(uintptr_t)act_nothing);
    tr_err err = tr_await_any(ctx, &made, 1, &index);
    SHOULD(fits(err, TR_OK));
    SHOULD(index == 0);
    return TR_OK;
}

static tr_err then_heard(tr_ctx *ctx, void *self, const void *reply, tr_err err)
{
    (void)ctx;
    (void)reply;
    stage_note(((caller *)self)->as.stage, err);
    return TR_OK;
}

CALL(then)
{
    UNUSED_;
    tr_ask_then(ctx, self->stage->two, TR_SECONDS(1), then_heard, Act,
                .fn = (uint64_t)(uintptr_t)act_nothing);
    return TR_OK;
}

CALL(pipe)
{
    UNUSED_;
    tr_ask_pipe(ctx, TR_NOBODY, TR_SECONDS(1), Act,
                .fn = (uint64_t)(uintptr_t)act_nothing);
    return TR_OK;
}

CALL(ask)
{
    UNUSED_;
    tr_err err =
        act_ask(ctx, self->stage->two, act_nothing, NULL, TR_SECONDS(1));
    SHOULD(fits(err, TR_OK));
    return TR_OK;
}

CALL(sleep)
{
    UNUSED_;
    tr_err err = tr_sleep(ctx, TR_MS(1));
    SHOULD(fits(err, TR_OK));
    return TR_OK;
}

CALL(watch)
{
    UNUSED_;
    tr_watch(ctx, self->stage->three);
    tr_stop(ctx, self->stage->three);
    return TR_OK;
}

CALL(watch_for)
{
    UNUSED_;
    tr_watch_for(ctx, tr_self(ctx), self->stage->three);
    tr_stop(ctx, self->stage->three);
    return TR_OK;
}

CALL(subscribe)
{
    UNUSED_;
    tr_subscribe(ctx, Ring);
    tr_unsubscribe(ctx, Ring);
    return TR_OK;
}

CALL(topic)
{
    UNUSED_;
    SHOULD(fits(tr_topic_join(ctx, "news"), TR_OK));
    return TR_OK;
}

CALL(urgent)
{
    UNUSED_;
    tr_tell_urgent(ctx, tr_self(ctx), 2, Ring, .value = 0);
    return TR_OK;
}

TR_ACTOR_FORWARD(changed, caller);

CALL(become)
{
    UNUSED_;
    caller *state = (caller *)(void *)self;
    tr_become(ctx, state, changed);
    return TR_OK;
}

TR_ACTOR(changed, caller, TR_ON(Act, caller_asked), TR_ON(Ring, caller_ring));

CALL(alloc)
{
    UNUSED_;
    char *text = tr_dup(ctx, "text");
    text = tr_realloc(ctx, text, 500);
    SHOULD(strcmp(text, "text") == 0);
    (void)tr_scratch(ctx, 100000);
    return TR_OK;
}

CALL(timers)
{
    UNUSED_;
    tr_receive_timeout(ctx, TR_SECONDS(5));
    tr_receive_timeout(ctx, 0);
    (void)tr_after(ctx, TR_MS(1), Ring, .value = 0);
    return TR_OK;
}

CALL(spawn)
{
    UNUSED_;
    tr_ref ref =
        tr_spawn(ctx, puppets, .name = "child", .watch = true,
                 .mailbox_limit = 5, .heap_limit = 10000, .auto_stop = true,
                 TR_INIT(puppets, .stage = self->stage));
    SHOULD(fits(tr_ref_err(ref), TR_OK));
    tr_tell(ctx, ref, Note, .value = 1);
    tr_stop(ctx, ref);
    return TR_OK;
}

CALL(join)
{
    tr_result result;
    UNUSED_;
    tr_kill(ctx, self->stage->three);
    tr_err err = tr_join(ctx, self->stage->three, TR_SECONDS(1), &result, NULL);
    SHOULD(err == TR_ENOENT || fits(err, TR_OK));
    return TR_OK;
}

CALL(hook)
{
    UNUSED_;
    SHOULD(fits(tr_on_terminate(ctx), TR_OK));
    return TR_OK;
}

CALL(fail)
{
    UNUSED_;
    return tr_fail(ctx, TR_EUSER, "as told");
}

CALL(panic)
{
    UNUSED_;
    tr_panic(ctx, "as told");
}

static const trial trials[] = {
    {"tr_name", call_name, false},
    {"tr_keep", call_keep, true},
    {"tr_stash", call_stash, true},
    {"tr_forward", call_forward, true},
    {"tr_async", call_future, false},
    {"tr_await_any", call_any_future, false},
    {"tr_ask_then", call_then, false},
    {"tr_ask_pipe", call_pipe, false},
    {"tr_ask", call_ask, false},
    {"tr_sleep", call_sleep, false},
    {"tr_watch", call_watch, false},
    {"tr_watch_for", call_watch_for, false},
    {"tr_subscribe", call_subscribe, false},
    {"tr_topic_join", call_topic, false},
    {"tr_tell_urgent", call_urgent, false},
    {"tr_become", call_become, false},
    {"tr_alloc", call_alloc, false},
    {"tr_after", call_timers, false},
    {"tr_spawn", call_spawn, false},
    {"tr_join", call_join, false},
    {"tr_on_terminate", call_hook, false},
    {"tr_fail", call_fail, false},
    {"tr_panic", call_panic, false},
};

/* ---- one of them, with the n-th allocation failing ---- */

static tr_err pass_on(tr_ctx *ctx, const tr_msg *msg, tr_call *call, void *user)
{
    (void)ctx;
    (void)msg;
    (void)user;
    return tr_proceed(call);
}

static const tr_interceptor passing = {"passing", pass_on, NULL};
static const tr_interceptor *const around[] = {&passing, NULL};

/* Runs one call; returns true if the n-th allocation was reached. */
static bool run_trial(const trial *which, int64_t n, tr_scope scope)
{
    stage it;
    stage_open(&it);
    const char *wrong = NULL;
    caller first = {
        .as = {.stage = &it, .value = n}, .trial = which, .wrong = &wrong};
    tr_ref ref = tr_spawn(
        it.sys, callers, .init = &first, .init_size = sizeof(first),
        .interceptors = scope == TR_ONE_FOR_ONE ? around : NULL,
        .supervision = TR_SUPERVISE(.scope = scope, .backoff_min = TR_MS(1)));
    stage_run_ready(&it);
    tr_tell(it.probe, ref, Note, .value = 1);
    stage_pass(&it, TR_SECONDS(3));
    // Relaxed: one thread.
    bool reached =
        atomic_load_explicit(&it.sys->mem.fail_at, memory_order_relaxed) < 0;
    tri_mem_fail_after(&it.sys->mem, -1);
    stage_pass(&it, TR_SECONDS(3));
    Acted out;
    tr_err err = tr_ask(it.sys, ref, &out, TR_SECONDS(5), Act, .fn = 0);
    if (err != TR_OK) {
        fail_msg("%s, allocation %lld: %s", which->name, (long long)n,
                 tr_errname(err));
    }
    tr_drop(Acted, &out);
    if (wrong != NULL) {
        fail_msg("%s, allocation %lld: not %s", which->name, (long long)n,
                 wrong);
    }
    expect_ok(stage_ask(&it, it.one, act_nothing, NULL));
    expect_ok(stage_ask(&it, it.two, act_nothing, NULL));
    stage_close(&it);
    return reached;
}

static void every_call(tr_scope scope)
{
    for (size_t i = 0; i < sizeof(trials) / sizeof(trials[0]); i++) {
        int64_t n = 0;
        while (run_trial(&trials[i], n, scope)) {
            n++;
            assert_true(n < CALLS_MAX);
        }
        if (n == 0) {
            fail_msg("%s: needs no memory", trials[i].name);
        }
    }
}

static void test_rule_27_each_call_survives_a_failed_allocation(void **state)
{
    (void)state;
    if (!TRI_FAULTS) {  // allocations cannot be made to fail
        skip();
    }
    every_call(TR_ONE_FOR_ONE);
}

/* The same with a supervisor that restarts all children. */
static void test_SV5_X44_a_cohort_restarts_without_memory(void **state)
{
    (void)state;
    if (!TRI_FAULTS) {  // allocations cannot be made to fail
        skip();
    }
    every_call(TR_ALL_FOR_ONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rule_27_each_call_survives_a_failed_allocation),
        cmocka_unit_test(test_SV5_X44_a_cohort_restarts_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
