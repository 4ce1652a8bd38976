/*
 * force_test.c - an actor that does not end in time is ended by force: for
 * everybody else, while its handler still runs. A restart that does not end in
 * time is a failure of the parent.
 */
#include "support/fixture.h"

#include <pthread.h>
#include <stdatomic.h>

#include "support/core.h"

/* ---- stuck actors ---- */

TR_MESSAGE(Spin);

typedef struct Spinner {
    _Atomic(bool) *in;   // set when the handler runs
    _Atomic(bool) *out;  // it returns when this is set
    tr_ref probe;
    tr_ref *child;  // spawned at the start, if not NULL
    tr_err result;
    int *heap;
} Spinner;

static tr_err spinner_start(tr_ctx *ctx, Spinner *self)
{
    self->heap = tr_alloc(ctx, 64 * sizeof(int));
    if (self->child != NULL) {
        *self->child = tr_spawn(ctx, player, .name = "grandchild",
                                TR_INIT(player, .probe = self->probe));
    }
    return TR_OK;
}

static tr_err on_spin(tr_ctx *ctx, Spinner *self, const Spin *m)
{
    (void)m;
    // Release: the test may go on. Acquire: pairs with the test's store.
    atomic_store_explicit(self->in, true, memory_order_release);
    while (!atomic_load_explicit(self->out, memory_order_acquire)) {
        self->heap[63]++;  // the memory is still there
    }
    // The handler can still use its context.
    tr_tell(ctx, tr_self(ctx), Spin);
    tr_ref late = tr_spawn(ctx, player);
    if (tr_ref_err(late) != TR_ESTOPPED) {
        return TR_EUSER;
    }
    tr_tell(ctx, self->probe, Note, .text = "returned",
            .number = self->heap[63] > 0);
    return self->result;
}

static tr_err spinner_end(tr_ctx *ctx, Spinner *self, tr_reason reason)
{
    tr_tell(ctx, self->probe, Note, .text = "over", .number = reason);
    return TR_OK;
}

static tr_err on_get_spinner(tr_ctx *ctx, Spinner *self, const Get *m)
{
    (void)self;
    return tr_reply(ctx, m, .number = 1);
}

TR_ACTOR(spinner, Spinner, TR_HOOK(pre_start, spinner_start),
         TR_HOOK(post_stop, spinner_end), TR_ON(Spin, on_spin),
         TR_ON(Get, on_get_spinner));

typedef struct flags {
    _Atomic(bool) in, out;
} flags;

static void wait_for(_Atomic(bool) *flag)
{
    // Acquire: pairs with the handler.
    while (!atomic_load_explicit(flag, memory_order_acquire)) {
        tri_lock_yield();
    }
}

static uint64_t zombies(stage *s)
{
    tr_metrics_snapshot m = {.size = sizeof(m)};
    tr_metrics(s->sys, &m);
    return m.zombies;
}

#define SPINNER(s, f, ...)                                                     \
    TR_INIT(spinner, .in = &(f)->in, .out = &(f)->out, .probe = (s)->to,       \
            ##__VA_ARGS__)

static void let_go(flags *f)
{
    // Release: pairs with the handler.
    atomic_store_explicit(&f->out, true, memory_order_release);
}

/* A thread that asks or joins the stuck actor. */
typedef struct waiter {
    stage *s;
    tr_ref ref;
    tr_err err;
    tr_result result;
} waiter;

static void asks(void *arg)
{
    waiter *w = arg;
    Count count;
    w->err = tr_ask(w->s->sys, w->ref, &count, TR_SECONDS(60), Get);
}

static void joins(void *arg)
{
    waiter *w = arg;
    w->err = tr_join(w->s->sys, w->ref, TR_SECONDS(60), &w->result, NULL);
}

static void test_X15_K10_DW10_a_stuck_actor_ends_for_everybody_else(
    void **state)
{
    (void)state;
    static stage s;
    static flags f;
    stage_open(&s, 0, NULL);
    tr_probe *dead;
    assert_int_equal(tr_probe_new(&dead, s.sys), TR_OK);
    tr_probe_subscribe(dead, tr_dead_letter);
    tr_ref a = tr_spawn(s.sys, spinner, .name = "a", .stop_timeout = TR_MS(20),
                        SPINNER(&s, &f));
    watch_end(&s, a);
    tr_tell(s.sys, a, Spin);
    wait_for(&f.in);
    waiter asker = {.s = &s, .ref = a}, joiner = {.s = &s, .ref = a};
    tr_thread *threads[2];
    assert_int_equal(tr_thread_start(s.sys, &threads[0], asks, &asker), TR_OK);
    assert_int_equal(tr_thread_start(s.sys, &threads[1], joins, &joiner),
                     TR_OK);
    tr_tell(s.sys, a, Spin);
    tr_stop(s.sys, a);

    assert_int_equal(ended(&s, a), TR_FORCED);
    tr_thread_join(s.sys, threads[0]);
    tr_thread_join(s.sys, threads[1]);
    assert_true(asker.err != TR_OK && asker.err != TR_ETIMEDOUT);
    assert_true(joiner.err == TR_ENOENT ||
                (joiner.err == TR_OK && joiner.result.reason == TR_FORCED));
    const tr_dead_letter *letter =
        tr_expect(dead, TR_SECONDS(60), tr_dead_letter);
    while (strcmp(letter->type, "Spin") != 0) {
        letter = tr_expect(dead, TR_SECONDS(60), tr_dead_letter);
    }
    assert_int_equal(letter->reason, TR_DEAD_DRAINED);
    assert_int_equal(tr_state_of(s.sys, a), TR_STATE_TERMINATED);
    assert_int_equal(zombies(&s), 1);
    assert_true(stage_logged(&s, "/user/a ended by force"));

    // Later callers find no actor, and the name is free.
    watch_end(&s, a);
    assert_int_equal(ended(&s, a), TR_NO_SUCH_ACTOR);
    assert_int_equal(tr_try_tell(s.sys, a, Spin), TR_EGONE);
    assert_true(tr_lookup(s.sys, "/user/a").cell == 0);
    tr_ref next = PLAY(&s, "a", ());
    assert_int_equal(tr_ref_err(next), TR_OK);
    (void)gotten(&s, next);

    // The handler returns and the zombie ends; nobody is notified again.
    let_go(&f);
    assert_int_equal(heard(&s, "returned"), true);
    assert_int_equal(heard(&s, "over"), TR_FORCED);
    while (zombies(&s) != 0) {
        tri_lock_yield();
    }
    assert_true(tr_ref_eq(tr_lookup(s.sys, "/user/a"), next));
    tr_expect_nothing(s.deaths, 1);
    tr_probe_free(dead);
    stage_close(&s);
}

typedef struct Keeper {
    tr_ref probe;
    flags *child;
    tr_ref *refs;  // spinner, its child, a player
    bool all;      // a failure of the player restarts all siblings
} Keeper;

static tr_err keeper_start(tr_ctx *ctx, Keeper *self)
{
    self->refs[0] =
        tr_spawn(ctx, spinner, .name = "c", .stop_timeout = TR_MS(20),
                 .supervision = TR_SUPERVISE(.on_limit = TR_ESCALATE),
                 TR_INIT(spinner, .in = &self->child->in,
                         .out = &self->child->out, .probe = self->probe,
                         .child = &self->refs[1], .result = TR_EUSER));
    self->refs[2] = tr_spawn(
        ctx, player, .name = "f", TR_INIT(player, .probe = self->probe),
        .supervision =
            TR_SUPERVISE(.scope = self->all ? TR_ALL_FOR_ONE : TR_ONE_FOR_ONE));
    return TR_OK;
}

static tr_err keeper_end(tr_ctx *ctx, Keeper *self, tr_reason reason)
{
    tr_tell(ctx, self->probe, Note, .text = "keeper", .number = reason);
    return TR_OK;
}

TR_ACTOR(keeper, Keeper, TR_HOOK(pre_start, keeper_start),
         TR_HOOK(post_stop, keeper_end));

static tr_ref keep(stage *s, flags *f, tr_ref *refs, bool all)
{
    tr_ref k = tr_spawn(
        s->sys, keeper, .name = "k",
        .stop_timeout = TR_MINUTES(1),  // it is not forced itself
        .supervision = TR_SUPERVISE(.on_failure = TR_STOP),
        TR_INIT(keeper, .probe = s->to, .child = f, .refs = refs, .all = all));
    assert_int_equal(tr_started(s->sys, k, 0), TR_OK);
    assert_int_equal(tr_started(s->sys, refs[0], 0), TR_OK);
    tr_tell(s->sys, refs[0], Spin);
    wait_for(&f->in);
    return k;
}

/* Expects the notices of k and of the first two refs, in any order. */
static void all_end(stage *s, tr_ref k, const tr_ref *refs, tr_reason keepers)
{
    for (int i = 0; i < 3; i++) {
        const tr_terminated *t =
            tr_expect(s->deaths, patience(s), tr_terminated);
        bool is_keeper = tr_ref_eq(t->actor, k);
        assert_true(is_keeper || tr_ref_eq(t->actor, refs[0]) ||
                    tr_ref_eq(t->actor, refs[1]));
        assert_int_equal(t->reason, is_keeper ? keepers : TR_FORCED);
    }
}

static void returns_and_closes(stage *s, flags *f)
{
    assert_int_equal(zombies(s), 1);
    let_go(f);
    assert_int_equal(heard(s, "returned"), true);
    assert_int_equal(heard(s, "over"), TR_FORCED);
    stage_close(s);
}

static void test_X15_K7_a_stuck_child_does_not_hold_up_its_parent(void **state)
{
    (void)state;
    static stage s;
    static flags f;
    tr_ref refs[3];
    stage_open(&s, 0, NULL);
    tr_ref k = keep(&s, &f, refs, false);
    watch_end(&s, k);
    watch_end(&s, refs[0]);
    watch_end(&s, refs[1]);
    tr_stop(s.sys, k);
    assert_int_equal(heard(&s, "keeper"), TR_STOPPED);
    all_end(&s, k, refs, TR_STOPPED);
    returns_and_closes(&s, &f);
}

/* The handler of the sibling does not return, so it cannot be restarted. */
static void test_X15_X44_X49_SV18_a_stuck_sibling_is_not_restarted(void **state)
{
    (void)state;
    static stage s;
    static flags f;
    tr_ref refs[3];
    stage_open(&s, 0, NULL);
    tr_ref k = keep(&s, &f, refs, true);
    watch_end(&s, k);
    watch_end(&s, refs[0]);
    watch_end(&s, refs[1]);
    tr_tell(s.sys, refs[2], Fail);
    assert_int_equal(heard(&s, "keeper"), TR_FAILED);
    all_end(&s, k, refs, TR_FAILED);
    assert_true(stage_logged(&s, "a child could not be restarted"));
    returns_and_closes(&s, &f);
}

typedef struct Hasty {
    tr_ref probe;
    flags *child;
    tr_ref *ref;
} Hasty;

static tr_err hasty_start(tr_ctx *ctx, Hasty *self)
{
    *self->ref =
        tr_spawn(ctx, spinner, .name = "child", .stop_timeout = TR_MINUTES(60),
                 TR_INIT(spinner, .in = &self->child->in,
                         .out = &self->child->out, .probe = self->probe));
    return TR_OK;
}

TR_ACTOR(hasty, Hasty, TR_HOOK(pre_start, hasty_start));

/* The stop timeout of the child is an hour; that of its parent counts. */
static void ends_with_its_parent(tr_nanos time)
{
    static stage s;
    static flags f;
    tr_ref child;
    f = (flags){0};
    stage_open(&s, 0, NULL);
    tr_ref parent =
        tr_spawn(s.sys, hasty, .name = "p", .stop_timeout = time,
                 TR_INIT(hasty, .probe = s.to, .child = &f, .ref = &child));
    assert_int_equal(tr_started(s.sys, parent, 0), TR_OK);
    assert_int_equal(tr_started(s.sys, child, 0), TR_OK);
    tr_tell(s.sys, child, Spin);
    wait_for(&f.in);
    watch_end(&s, parent);
    watch_end(&s, child);
    tr_stop(s.sys, parent);
    for (int i = 0; i < 2; i++) {
        const tr_terminated *t =
            tr_expect(s.deaths, patience(&s), tr_terminated);
        assert_int_equal(t->reason,
                         tr_ref_eq(t->actor, child) ? TR_FORCED : TR_STOPPED);
    }
    returns_and_closes(&s, &f);
}

static void test_X15_K7_a_child_has_no_more_time_than_its_parent(void **state)
{
    (void)state;
    ends_with_its_parent(TR_MS(50));
    ends_with_its_parent(2 * TRI_FORCE_GRACE);
}

/* Lets the handler return while tr_system_close waits for zombies. */
static void *let_go_when_forced(void *arg)
{
    waiter *w = arg;
    while (!stage_logged(w->s, "ended by force")) {
        tri_lock_yield();
    }
    let_go((flags *)(uintptr_t)w->ref.cell);
    return NULL;
}

static void test_X15_SH12_SH13_closing_ends_stuck_actors(void **state)
{
    (void)state;
    static stage s;
    static flags f;
    stage_open(&s, 0, NULL);
    tr_ref a = tr_spawn(s.sys, spinner, .name = "a", .stop_timeout = TR_MS(20),
                        SPINNER(&s, &f));
    tr_tell(s.sys, a, Spin);
    wait_for(&f.in);
    waiter w = {.s = &s, .ref = {.cell = (uint64_t)(uintptr_t)&f}};
    pthread_t thread;  // outlives the system
    assert_int_equal(pthread_create(&thread, NULL, let_go_when_forced, &w), 0);
    tr_probe_free(s.probe);
    tr_probe_free(s.deaths);
    tr_close_report report = {.size = sizeof(report)};
    assert_int_equal(tr_system_close_report(s.sys, TR_SECONDS(60), &report),
                     TR_ETIMEDOUT);
    pthread_join(thread, NULL);
    assert_int_equal(report.forced, 1);
    assert_int_equal(report.zombies, 0);
}

/* ---- deadlines on virtual time ---- */

/* The child would sleep for hours. */
static void deadline_forces(stage *s)
{
    tr_ref p =
        PLAY(s, "p", (.says = POST_STOP), .stop_timeout = TR_SECONDS(10));
    tr_ref c =
        CHILD(s, p, "c", (.says = POST_STOP), .stop_timeout = TR_MINUTES(600));
    tr_tell(s->sys, c, Nap, .span = TR_MINUTES(600));
    tr_sim_advance(s->sim, TR_SECONDS(1));
    watch_end(s, c);
    watch_end(s, p);
    tr_nanos start = tr_sim_now(s->sim);
    tr_stop(s->sys, p);
    tr_expect_nothing(s->probe, TR_SECONDS(9));
    // The parent goes on at once, while the child unwinds.
    for (int i = 0; i < 3; i++) {
        const Note *n = tr_expect(s->probe, TR_SECONDS(3), Note);
        if (strcmp(n->text, "c woke") == 0) {
            assert_int_equal(n->number, TR_EKILLED);
        } else if (strcmp(n->text, "c post_stop") == 0) {
            assert_int_equal(n->number, TR_FORCED);
        } else {
            assert_string_equal(n->text, "p post_stop");
            assert_int_equal(n->number, TR_STOPPED);
        }
    }
    for (int i = 0; i < 2; i++) {
        const tr_terminated *t = tr_expect(s->deaths, 0, tr_terminated);
        assert_int_equal(t->reason,
                         tr_ref_eq(t->actor, c) ? TR_FORCED : TR_STOPPED);
    }
    assert_true(tr_sim_now(s->sim) - start < TR_SECONDS(12));
}

static void test_K7_K10_X15_children_are_forced_at_the_deadline(void **state)
{
    (void)state;
    virtually(deadline_forces);
}

/* A hook of the restart sleeps for too long. */
static void restart_takes_too_long(stage *s)
{
    tr_ref p = PLAY(s, "p", (.says = POST_STOP),
                    .supervision = TR_SUPERVISE(.on_failure = TR_STOP));
    tr_ref c = CHILD(s, p, "c", (.says = PRE_RESTART, .sleepy = true),
                     .stop_timeout = TR_SECONDS(7),
                     .supervision = TR_SUPERVISE(.on_limit = TR_ESCALATE));
    watch_end(s, c);
    tr_nanos start = tr_sim_now(s->sim);
    tr_tell(s->sys, c, Fail);
    assert_int_equal(ended(s, c), TR_FORCED);
    tr_nanos took = tr_sim_now(s->sim) - start;
    assert_true(took >= TR_SECONDS(7) && took < TR_SECONDS(8));
    assert_int_equal(heard(s, "p post_stop"), TR_FAILED);
    assert_true(stage_logged(s, "it cannot be restarted"));
}

static void test_X49_SV18_a_restart_that_takes_too_long_escalates(void **state)
{
    (void)state;
    virtually(restart_takes_too_long);
}

/* The parent already stops: losing the child is no failure any more. */
static void lost_by_one_that_stops(stage *s)
{
    tr_ref p = PLAY(s, "p", (.says = PRE_STOP | POST_STOP, .sleepy = true),
                    .stop_timeout = TR_MINUTES(10));
    tr_ref c = CHILD(s, p, "c", (.says = PRE_RESTART, .sleepy = true),
                     .stop_timeout = TR_SECONDS(7));
    watch_end(s, c);
    tr_tell(s->sys, c, Fail);
    tr_sim_advance(s->sim, TR_SECONDS(1));
    assert_int_equal(tr_state_of(s->sys, c), TR_STATE_RESTARTING);
    tr_stop(s->sys, p);
    assert_int_equal(ended(s, c), TR_FORCED);
    assert_int_equal(tr_state_of(s->sys, p), TR_STATE_STOPPING);
    watch_end(s, p);
    heard(s, "p pre_stop");
    assert_int_equal(heard(s, "p post_stop"), TR_STOPPED);
    assert_int_equal(ended(s, p), TR_STOPPED);
    assert_false(stage_logged(s, "a child could not be restarted"));
}

static void test_rule_5_X49_a_stopping_parent_does_not_fail(void **state)
{
    (void)state;
    virtually(lost_by_one_that_stops);
}

typedef struct Nest {
    tr_ref probe, *child;
} Nest;

/* The start takes a minute; its child fails meanwhile. */
static tr_err nest_start(tr_ctx *ctx, Nest *self)
{
    *self->child =
        tr_spawn(ctx, player, .name = "c", .stop_timeout = TR_SECONDS(7),
                 .supervision = TR_SUPERVISE(.on_limit = TR_ESCALATE),
                 TR_INIT(player, .probe = self->probe, .says = PRE_RESTART,
                         .sleepy = true));
    tr_tell(ctx, *self->child, Fail);
    return tr_sleep(ctx, TR_MINUTES(1));
}

TR_ACTOR(nest, Nest, TR_HOOK(pre_start, nest_start));

/* tr_started returns when the child is lost, before the minute is over. */
static void lost_by_one_that_starts(stage *s)
{
    tr_ref c = TR_NOBODY;
    tr_ref p = tr_spawn(s->sys, nest, .name = "p", .joinable = true,
                        .supervision = TR_SUPERVISE(.on_failure = TR_STOP),
                        TR_INIT(nest, .probe = s->to, .child = &c));
    tr_nanos start = tr_sim_now(s->sim);
    assert_int_equal(tr_started(s->sys, p, TR_MINUTES(60)), TR_EFAILED);
    tr_nanos took = tr_sim_now(s->sim) - start;
    assert_true(took >= TR_SECONDS(7) && took < TR_MINUTES(1));
    tr_result result;
    assert_int_equal(tr_join(s->sys, p, TR_MINUTES(60), &result, NULL), TR_OK);
    assert_int_equal(result.reason, TR_FAILED);
    assert_non_null(strstr(result.text, "a child could not be restarted"));
    watch_end(s, c);
    assert_int_equal(ended(s, c), TR_NO_SUCH_ACTOR);
    quiet(s);
}

static void test_rule_5_X49_a_starting_parent_fails(void **state)
{
    (void)state;
    virtually(lost_by_one_that_starts);
}

/* The stop timeout of the restarting parent bounds that of its children. */
static void restart_with_slow_children(stage *s)
{
    tr_ref p = PLAY(s, "p", (.says = POST_START), .stop_timeout = TR_SECONDS(3),
                    .supervision = TR_SUPERVISE(.backoff_min = 1));
    heard(s, "p post_start");
    tr_ref c = CHILD(s, p, "c", (.says = PRE_STOP, .sleepy = true),
                     .stop_timeout = TR_MINUTES(10));
    (void)gotten(s, c);
    watch_end(s, c);
    tr_nanos start = tr_sim_now(s->sim);
    tr_tell(s->sys, p, Fail);
    assert_int_equal(ended(s, c), TR_FORCED);
    heard(s, "p post_start");
    tr_nanos took = tr_sim_now(s->sim) - start;
    assert_true(took >= TR_SECONDS(3) && took < TR_SECONDS(5));
    assert_int_equal(gotten(s, p).incarnation, 2);
    assert_true(tr_lookup(s->sys, "/user/p/c").cell == 0);
}

static void test_K7_X45_slow_children_do_not_hold_up_a_restart(void **state)
{
    (void)state;
    virtually(restart_with_slow_children);
}

/* The cohort waits until the sibling has started, then restarts. */
static void sibling_still_starts(stage *s)
{
    tr_ref p = PLAY(s, "p", ());
    tr_ref a = CHILD(s, p, "a", (.says = PRE_START, .sleepy = true),
                     .stop_timeout = TR_MINUTES(10));
    tr_ref b = CHILD(
        s, p, "b", (.says = POST_START),
        .supervision = TR_SUPERVISE(.scope = TR_ALL_FOR_ONE, .backoff_min = 1));
    heard(s, "b post_start");
    tr_sim_advance(s->sim, TR_SECONDS(1));
    assert_int_equal(tr_state_of(s->sys, a), TR_STATE_STARTING);
    tr_tell(s->sys, b, Fail);
    bool back = false;
    for (int i = 0; i < 2; i++) {  // in either order
        const Note *n = tr_expect(s->probe, patience(s), Note);
        back |= strcmp(n->text, "b post_start") == 0;
    }
    assert_true(back);
    assert_int_equal(gotten(s, b).incarnation, 2);
    assert_int_equal(gotten(s, a).incarnation, 1);  // it had just started
    assert_int_equal(gotten(s, p).incarnation, 1);
}

static void test_X44_a_cohort_waits_for_a_sibling_that_still_starts(
    void **state)
{
    (void)state;
    virtually(sibling_still_starts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            test_X15_K10_DW10_a_stuck_actor_ends_for_everybody_else),
        cmocka_unit_test(test_X15_K7_a_stuck_child_does_not_hold_up_its_parent),
        cmocka_unit_test(
            test_X15_X44_X49_SV18_a_stuck_sibling_is_not_restarted),
        cmocka_unit_test(test_X15_K7_a_child_has_no_more_time_than_its_parent),
        cmocka_unit_test(test_X15_SH12_SH13_closing_ends_stuck_actors),
        cmocka_unit_test(test_K7_K10_X15_children_are_forced_at_the_deadline),
        cmocka_unit_test(test_X49_SV18_a_restart_that_takes_too_long_escalates),
        cmocka_unit_test(test_rule_5_X49_a_stopping_parent_does_not_fail),
        cmocka_unit_test(test_rule_5_X49_a_starting_parent_fails),
        cmocka_unit_test(test_K7_X45_slow_children_do_not_hold_up_a_restart),
        cmocka_unit_test(
            test_X44_a_cohort_waits_for_a_sibling_that_still_starts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
