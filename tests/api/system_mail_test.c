/*
 * system_mail_test.c - what a program sees of system messages: each is taken or
 * returned, a watch is kept by the watched actor, and messages stay small.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sched.h>

#include <troupe/troupe.h>

#define PATIENCE TR_SECONDS(60)

TR_MESSAGE(Follow, (tr_ref, ref));
TR_MESSAGE(Unfollow, (tr_ref, ref));
TR_MESSAGE(Told, (tr_ref, ref), (uint32_t, reason), (uint32_t, incarnation));
TR_MESSAGE(Seen);
TR_REQUEST(Look, Seen);
TR_MESSAGE(Small, (uint64_t, number));

typedef struct Watcher {
    tr_ref probe;
} Watcher;

static tr_err on_follow(tr_ctx *ctx, Watcher *self, const Follow *m)
{
    (void)self;
    tr_watch(ctx, m->ref);
    return TR_OK;
}

static tr_err on_unfollow(tr_ctx *ctx, Watcher *self, const Unfollow *m)
{
    (void)self;
    tr_unwatch(ctx, m->ref);
    return TR_OK;
}

static tr_err on_look(tr_ctx *ctx, Watcher *self, const Look *m)
{
    (void)self;
    return tr_reply(ctx, m);
}

static tr_err on_small(tr_ctx *ctx, Watcher *self, const Small *m)
{
    (void)ctx, (void)self, (void)m;
    return TR_OK;
}

static tr_err on_terminated(tr_ctx *ctx, Watcher *self, const tr_terminated *m)
{
    tr_tell(ctx, self->probe, Told, .ref = m->actor, .reason = m->reason,
            .incarnation = tr_incarnation(ctx));
    return TR_OK;
}

TR_ACTOR(watcher, Watcher, TR_ON(Follow, on_follow),
         TR_ON(Unfollow, on_unfollow), TR_ON(Look, on_look),
         TR_ON(Small, on_small), TR_ON(tr_terminated, on_terminated));

typedef struct stage {
    tr_system *sys;
    tr_probe *probe;
} stage;

static stage open_stage(void)
{
    stage s;
    TR_MUST(tr_system_open(&s.sys, .workers = 2, .log_level = TR_LOG_ERROR));
    TR_MUST(tr_probe_new(&s.probe, s.sys));
    return s;
}

static void close_stage(stage *s)
{
    tr_probe_free(s->probe);
    assert_int_equal(tr_system_close(s->sys, 0), TR_OK);
}

static tr_ref spawn(stage *s)
{
    return tr_spawn(s->sys, watcher,
                    TR_INIT(watcher, .probe = tr_probe_ref(s->probe)));
}

/* Returns when the actor has handled everything sent to it before. */
static void settle(stage *s, tr_ref ref)
{
    Seen seen;
    assert_int_equal(tr_ask(s->sys, ref, &seen, PATIENCE, Look), TR_OK);
}

static void await_end(stage *s, tr_ref ref)
{
    while (tr_state_of(s->sys, ref) != TR_STATE_TERMINATED) {
        sched_yield();
    }
}

/* No notice is left: the next is that of a watch of nobody. */
static void expect_no_more(stage *s, tr_ref w)
{
    tr_tell(s->sys, w, Follow, .ref = TR_NOBODY);
    const Told *told = tr_expect(s->probe, PATIENCE, Told);
    assert_true(tr_ref_eq(told->ref, TR_NOBODY));
}

typedef enum moment { BEFORE, AROUND, AFTER } moment;

/* Lets w watch an actor at that moment of its end; returns the reason. */
static tr_reason watch_at(stage *s, tr_ref w, moment when)
{
    tr_ref target = spawn(s);
    TR_MUST(tr_started(s->sys, target, PATIENCE));
    if (when == BEFORE) {
        tr_tell(s->sys, w, Follow, .ref = target);
        settle(s, w);
    }
    tr_stop(s->sys, target);
    if (when == AFTER) {
        await_end(s, target);
    }
    if (when != BEFORE) {
        tr_tell(s->sys, w, Follow, .ref = target);
    }
    const Told *told = tr_expect(s->probe, PATIENCE, Told);
    assert_true(tr_ref_eq(told->ref, target));
    tr_reason reason = (tr_reason)told->reason;
    expect_no_more(s, w);
    return reason;
}

/*
 * If the target took the watch, its end answers it; if not, the sender of the
 * watch knows, and answers it.
 */
static void test_S14_a_watch_is_taken_or_returned(void **state)
{
    enum { ROUNDS = 200 };
    (void)state;
    stage s = open_stage();
    tr_ref w = spawn(&s);
    for (int round = 0; round < ROUNDS; round++) {
        assert_int_equal(watch_at(&s, w, BEFORE), TR_STOPPED);
        assert_int_equal(watch_at(&s, w, AFTER), TR_NO_SUCH_ACTOR);
        tr_reason reason = watch_at(&s, w, AROUND);
        assert_true(reason == TR_STOPPED || reason == TR_NO_SUCH_ACTOR);
    }
    close_stage(&s);
}

/*
 * The list is the target's: it outlives the watcher's state, and one watcher's
 * end or unwatch takes only that watcher out of it.
 */
static void test_DW6_the_watched_actor_keeps_its_watchers(void **state)
{
    enum { WATCHERS = 5 };
    tr_ref w[WATCHERS];
    (void)state;
    stage s = open_stage();
    tr_ref target = spawn(&s);
    for (int i = 0; i < WATCHERS; i++) {
        w[i] = spawn(&s);
        tr_tell(s.sys, w[i], Follow, .ref = target);
        settle(&s, w[i]);
    }
    tr_restart(s.sys, w[0]);
    settle(&s, w[0]);
    tr_tell(s.sys, w[1], Unfollow, .ref = target);
    settle(&s, w[1]);
    tr_stop(s.sys, w[2]);
    await_end(&s, w[2]);
    tr_restart(s.sys, target);  // the same actor, with the same watchers
    settle(&s, target);
    tr_stop(s.sys, target);
    uint32_t restarted = 0;
    for (int i = 0; i < WATCHERS - 2; i++) {
        const Told *told = tr_expect(s.probe, PATIENCE, Told);
        assert_true(tr_ref_eq(told->ref, target));
        assert_int_equal(told->reason, TR_STOPPED);
        restarted += told->incarnation == 2;
    }
    assert_int_equal(restarted, 1);
    expect_no_more(&s, w[1]);
    close_stage(&s);
}

/* ---- sizes ---- */

/* Returns how many messages of 8 bytes fit into the memory budget. */
static uint64_t messages_in(size_t budget)
{
    tr_system *sys;
    TR_MUST(tr_system_open(&sys, .poll = true, .memory_budget = budget,
                           .soft_limit = 1u << 30, .dead_letters = 1,
                           .log_level = TR_LOG_ERROR + 1));
    tr_ref ref = tr_spawn(sys, watcher);
    uint64_t count = 0;
    while (tr_try_tell(sys, ref, Small, .number = 1) == TR_OK) {
        count++;
    }
    (void)tr_system_close(sys, 0);
    return count;
}

/*
 * A message costs its payload and a head, whatever system messages hold: if it
 * had room for what a watch holds, it would not fit into 64 bytes.
 */
static void test_S16_system_messages_do_not_enlarge_the_others(void **state)
{
    enum { MIB = 1 << 20, BYTES = 64, OVERHEAD = MIB / 4 };
    (void)state;
    uint64_t few = messages_in(8 * MIB), many = messages_in(16 * MIB);
    assert_true(many > few);
    assert_true((many - few) * BYTES >= 8 * MIB - OVERHEAD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_S14_a_watch_is_taken_or_returned),
        cmocka_unit_test(test_DW6_the_watched_actor_keeps_its_watchers),
        cmocka_unit_test(test_S16_system_messages_do_not_enlarge_the_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
