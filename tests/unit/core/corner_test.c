/*
 * corner_test.c - calls at the wrong moment, messages used in unusual ways,
 * signals without a handler, futures without memory.
 *
 * Each has a defined answer (api/rules.md); nobody else is harmed.
 */
#include "support/stage.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/runtime.h"
#include "support/dying.h"

/* ---- a ctx is the turn's ---- */

static tr_err act_lend_ctx(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)self;
    *(tr_ctx **)arg = ctx;
    return tr_reply(ctx, m, .value = 1);
}

static tr_err nothing(void *arg)
{
    (void)arg;
    return TR_OK;
}

static void test_rule_22_a_ctx_does_not_wait_after_its_turn(void **state)
{
    stage it;
    tr_ctx *ctx = NULL;
    uint32_t ready;
    (void)state;
    stage_open(&it);
    expect_ok(stage_ask(&it, it.one, act_lend_ctx, &ctx));
    stage_settle(&it);
    expect_err(tr_sleep(ctx, 1), TR_EWOULDBLOCK);
    expect_err(tr_join(ctx, it.two, TR_SECONDS(1), NULL, NULL), TR_EWOULDBLOCK);
    expect_err(tr_started(ctx, it.two, TR_SECONDS(1)), TR_EWOULDBLOCK);
    expect_err(act_ask(ctx, it.two, act_nothing, NULL, TR_SECONDS(1)),
               TR_EWOULDBLOCK);
    expect_err(tr_blocking(ctx, nothing, NULL), TR_EWOULDBLOCK);
    expect_err(tr_wait_fd(ctx, 0, TR_FD_READ, TR_SECONDS(1), &ready),
               TR_EWOULDBLOCK);
    expect_ok(stage_ask(&it, it.one, act_nothing, NULL));
    stage_close(&it);
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

/* ---- numbers ---- */

static tr_err act_bad_numbers(tr_ctx *ctx, puppet *self, const Act *m,
                              void *arg)
{
    (void)arg;
    TR_ASSERT(ctx, tr_sleep(ctx, -1) == TR_EINVAL);
    TR_ASSERT(ctx, tr_wait_fd(ctx, 0, TR_FD_READ, -1, NULL) == TR_EINVAL);
    TR_ASSERT(ctx, tr_wait_fd(ctx, -1, TR_FD_READ, 0, NULL) == TR_EINVAL);
    TR_ASSERT(ctx, tr_wait_fd(ctx, 0, 0, 0, NULL) == TR_EINVAL);
    // Without an end: as long as it takes.
    TR_ASSERT(ctx, act_ask(ctx, self->stage->two, act_nothing, NULL,
                           TR_FOREVER) == TR_OK);
    TR_ASSERT(ctx, tr_started(ctx, self->stage->two, TR_FOREVER) == TR_OK);
    return tr_reply(ctx, m, .value = 1);
}

static tr_err act_negative_timer(tr_ctx *ctx, puppet *self, const Act *m,
                                 void *arg)
{
    (void)self;
    (void)m;
    (void)arg;
    (void)tr_after(ctx, -1, Note, .value = 1);
    return TR_OK;
}

static void test_T1_spans_out_of_range(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    expect_ok(stage_ask(&it, it.one, act_bad_numbers, NULL));
    expect_err(stage_ask(&it, it.three, act_negative_timer, NULL), TR_EPANIC);
    stage_pass(&it, TR_SECONDS(5));
    expect_ok(stage_ask_for(&it, it.three, act_nothing, NULL, TR_FOREVER));
    stage_close(&it);
}

/* ---- messages ---- */

static tr_err act_keep_and_release(tr_ctx *ctx, puppet *self, const Act *m,
                                   void *arg)
{
    (void)self;
    (void)arg;
    const Act *kept = tr_keep(ctx, m);
    TR_ASSERT(ctx, tr_keep(ctx, kept) == kept);
    tr_release(ctx, kept);
    tr_release(ctx, kept);  // the turn's again: nothing to release
    return tr_reply(ctx, kept, .value = 7);
}

static tr_err act_keep_and_forward(tr_ctx *ctx, puppet *self, const Act *m,
                                   void *arg)
{
    (void)arg;
    if (tr_ref_eq(tr_self(ctx), self->stage->two)) {
        return tr_reply(ctx, m, .value = 8);
    }
    const Act *kept = tr_keep(ctx, m);
    tr_forward(ctx, self->stage->two, kept);
    return TR_OK;
}

static tr_err act_keep_and_stash(tr_ctx *ctx, puppet *self, const Act *m,
                                 void *arg)
{
    (void)arg;
    if (self->value++ > 0) {
        return tr_reply(ctx, m, .value = 9);
    }
    const Act *kept = tr_keep(ctx, m);
    TR_TRY(tr_stash(ctx, kept));
    TR_TRY(tr_stash(ctx, m));  // once is enough
    tr_unstash_all(ctx);
    return TR_OK;
}

static int64_t value_of(stage *it, act_fn fn)
{
    Acted out;
    expect_ok(
        tr_ask(it->sys, it->one, &out, 0, Act, .fn = (uint64_t)(uintptr_t)fn));
    int64_t value = out.value;
    tr_drop(Acted, &out);
    return value;
}

static void test_rule_13_a_kept_message_in_its_own_turn(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    assert_int_equal(value_of(&it, act_keep_and_release), 7);
    assert_int_equal(value_of(&it, act_keep_and_forward), 8);
    assert_int_equal(value_of(&it, act_keep_and_stash), 9);
    stage_close(&it);
}

/* A message of a timer comes again: what is kept or sent on is a copy. */
typedef struct Clock {
    stage *stage;
    int64_t beats;
    const Note *kept;
} Clock;

static tr_err clock_start(tr_ctx *ctx, Clock *self)
{
    (void)self;
    (void)tr_every(ctx, TR_SECONDS(1), Note, .value = 5);
    return TR_OK;
}

static tr_err clock_beat(tr_ctx *ctx, Clock *self, const Note *m)
{
    switch (self->beats++) {
    case 0:
        tr_forward(ctx, self->stage->two, m);
        break;
    case 1:
        self->kept = tr_keep(ctx, m);
        break;
    case 2:
        TR_ASSERT(ctx, self->kept->value == 5);
        tr_release(ctx, self->kept);
        return tr_stash(ctx, m);
    case 3:
        tr_unstash_all(ctx);
        break;
    default:
        tr_stop(ctx, tr_self(ctx));
        TR_ASSERT(ctx, tr_stopping(ctx));
        break;
    }
    return TR_OK;
}

static tr_err clock_stop(tr_ctx *ctx, Clock *self, tr_reason reason)
{
    (void)reason;
    TR_ASSERT(ctx, tr_stopping(ctx));
    stage_note(self->stage, self->beats);
    return TR_OK;
}

TR_ACTOR(clocks, Clock, TR_ON_QUIET(Note, clock_beat),
         TR_HOOK(pre_start, clock_start), TR_HOOK(post_stop, clock_stop));

static void test_T7_messages_of_timers_are_kept_as_copies(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    tr_ref ref = tr_spawn(it.sys, clocks, TR_INIT(clocks, .stage = &it));
    stage_pass(&it, TR_SECONDS(10));
    expect_notes(&it, 5, 5);  // two was told once; the fifth beat was the last
    assert_int_equal(tr_state_of(it.sys, ref), TR_STATE_TERMINATED);
    stage_close(&it);
}

/* ---- signals that no handler names ---- */

typedef struct Listener {
    stage *stage;
} Listener;

static tr_err on_poke(tr_ctx *ctx, Listener *self, const Note *m)
{
    (void)m;
    tr_watch(ctx, self->stage->three);
    tr_receive_timeout(ctx, TR_SECONDS(1));
    tr_ask_pipe(ctx, TR_NOBODY, TR_SECONDS(1), Act, .fn = 0);
    return TR_OK;
}

static int64_t sort_of(const tr_type *type)
{
    return type->schema == tr_terminated_tr_type.schema   ? 1
           : type->schema == tr_timeout_tr_type.schema    ? 2
           : type->schema == tr_ask_failed_tr_type.schema ? 3
                                                          : 5;
}

static tr_err listener_signal(tr_ctx *ctx, Listener *self, const tr_msg *m)
{
    int64_t sort = sort_of(tr_msg_type(m));
    stage_note(self->stage, sort);
    if (sort == 2) {
        tr_receive_timeout(ctx, 0);
    }
    return TR_OK;
}

TR_ACTOR(listeners, Listener, TR_ON(Note, on_poke),
         TR_HOOK(on_signal, listener_signal));
TR_ACTOR(deaf_ones, Listener, TR_ON(Note, on_poke));

static uint32_t times(stage *it, int64_t sort)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < atomic_load(&it->note_count); i++) {
        count += it->notes[i] == sort;
    }
    return count;
}

static void test_S11_each_signal_is_offered_to_the_hook(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    tr_ref a = tr_spawn(it.sys, listeners, TR_INIT(listeners, .stage = &it));
    tr_ref b = tr_spawn(it.sys, deaf_ones, TR_INIT(deaf_ones, .stage = &it));
    tr_tell(it.sys, a, Note, .value = 1);
    tr_tell(it.sys, b, Note, .value = 1);
    stage_settle(&it);
    tr_tell(it.sys, a, Stranger, .value = 1);  // no signal: unhandled
    tr_stop(it.sys, it.three);
    stage_pass(&it, TR_SECONDS(3));
    assert_int_equal(times(&it, 1), 1);
    assert_int_equal(times(&it, 2), 1);
    assert_int_equal(times(&it, 3), 1);
    assert_int_equal(times(&it, 5), 0);
    stage_close(&it);
}

/* ---- futures ---- */

static tr_err act_poor_futures(tr_ctx *ctx, puppet *self, const Act *m,
                               void *arg)
{
    tri_mem *mem = &ctx->sys->mem;
    Acted out;
    size_t index;
    (void)arg;
    tri_mem_fail_after(mem, 0);
    tr_future none = tr_async(ctx, self->stage->two, TR_SECONDS(5), Act,
                              .fn = (uint64_t)(uintptr_t)act_nothing);
    tri_mem_fail_after(mem, -1);
    TR_ASSERT(ctx, tr_await(ctx, none, Act, &out) == TR_ENOMEM);
    TR_ASSERT(ctx, tr_await_any(ctx, &none, 1, &index) == TR_ENOMEM);
    // Of another type than it was asked with.
    tr_future other = tr_async(ctx, self->stage->two, TR_SECONDS(5), Act,
                               .fn = (uint64_t)(uintptr_t)act_nothing);
    TR_ASSERT(ctx, (tr_await)(ctx, other, &ActRead_tr_type, NULL, TR_HERE) ==
                       TR_EINVAL);
    TR_ASSERT(ctx, tr_await_any(ctx, &other, 1, &index) == TR_OK);
    TR_ASSERT(ctx, index == 0);
    TR_ASSERT(ctx, tr_await(ctx, other, Act, NULL) == TR_OK);
    return tr_reply(ctx, m, .value = 1);
}

static void test_rule_27_futures_without_memory(void **state)
{
    stage it;
    (void)state;
    if (!TRI_FAULTS) {  // a release build has no hook for this
        skip();
    }
    stage_open(&it);
    expect_ok(stage_ask(&it, it.one, act_poor_futures, NULL));
    stage_close(&it);
}

/* ---- a child that has failed while its parent cannot decide ---- */

static tr_err act_child_fails(tr_ctx *ctx, puppet *self, const Act *m,
                              void *arg)
{
    tr_ref *child = arg;
    (void)m;
    *child = tr_spawn(ctx, puppets, TR_INIT(puppets, .stage = self->stage));
    act_tell(ctx, *child, act_fail, NULL);
    return tr_sleep(ctx, TR_SECONDS(10));
}

static void test_SV3_a_failed_child_waits_for_its_parent(void **state)
{
    stage it;
    (void)state;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        tr_ref child;
        stage_open_seed(&it, seed, NULL);
        stage_tell(&it, it.one, act_child_fails, &child);
        stage_pass(&it, TR_SECONDS(1));
        tr_state life = tr_state_of(it.sys, child);
        tr_err err = tr_started(it.sys, child, TR_MS(1));
        assert_true(life == TR_STATE_FAILED
                        ? err == TR_EUSER
                        : err == TR_OK || err == TR_ETIMEDOUT);
        stage_pass(&it, TR_SECONDS(60));
        expect_ok(stage_ask(&it, child, act_nothing, NULL));
        stage_close(&it);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rule_22_a_ctx_does_not_wait_after_its_turn),
        cmocka_unit_test(test_rule_22_a_panic_outside_of_a_turn_aborts),
        cmocka_unit_test(test_T1_spans_out_of_range),
        cmocka_unit_test(test_rule_13_a_kept_message_in_its_own_turn),
        cmocka_unit_test(test_T7_messages_of_timers_are_kept_as_copies),
        cmocka_unit_test(test_S11_each_signal_is_offered_to_the_hook),
        cmocka_unit_test(test_rule_27_futures_without_memory),
        cmocka_unit_test(test_SV3_a_failed_child_waits_for_its_parent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
