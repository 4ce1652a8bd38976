/*
 * virtual_test.c - virtual actors as a program sees them, and what is behind.
 *
 * Most tests run on virtual time with several seeds and once on threads. The
 * actor tells the probe what its hooks see.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include <troupe/troupe.h>

#include "cluster/catalog.h"

#define NS   "shop"
#define IDLE TR_MINUTES(10)

enum { SEEDS = 5 };

/* ---- the actor ---- */

TR_MESSAGE(Note, (const char *, text), (int64_t, number), (tr_ref, ref));
TR_MESSAGE(Count, (int64_t, number), (const char *, key), (tr_ref, self),
           (uint64_t, epoch));
TR_REQUEST(Get, Count);
TR_REQUEST(Hold, Count);         // kept until Release
TR_REQUEST(Nap, Count, (int64_t, span));
TR_REQUEST(Call, Count, (tr_ref, to), (tr_ref, back));
TR_REQUEST(Store, Count, (int64_t, number));
TR_MESSAGE(Release);
TR_MESSAGE(Add, (int64_t, number));
TR_MESSAGE(Tick, (int64_t, number));  // does not keep it active
TR_MESSAGE(Fail);
TR_MESSAGE(Greet, (tr_ref, to));

TR_STATE(Counter, (int64_t, count));

/* Tests are one at a time: what hooks need to know. */
static struct {
    tr_ref probe;
    _Atomic(bool) tells;  // the hooks tell the probe
    tr_nanos start_for, stop_for;
    tr_err start_err;
    const Hold *held;
} stage;

static void note(tr_ctx *ctx, const char *text, int64_t number)
{
    if (stage.tells) {
        tr_tell(ctx, stage.probe, Note, .text = text, .number = number,
                .ref = tr_self(ctx));
    }
}

static tr_err counter_start(tr_ctx *ctx, Counter *self)
{
    if (stage.start_for > 0) {
        TR_TRY(tr_sleep(ctx, stage.start_for));
    }
    if (stage.start_err != TR_OK) {
        return tr_fail(ctx, stage.start_err, "no start today");
    }
    note(ctx, "start", self->count);
    return TR_OK;
}

static tr_err counter_stop(tr_ctx *ctx, Counter *self, tr_reason reason)
{
    (void)self;
    if (stage.stop_for > 0) {
        TR_TRY(tr_sleep(ctx, stage.stop_for));
    }
    note(ctx, "stop", reason);
    return TR_OK;
}

static tr_err on_get(tr_ctx *ctx, Counter *self, const Get *m)
{
    return tr_reply(ctx, m, .number = self->count, .key = tr_key(ctx),
                    .self = tr_self(ctx), .epoch = tr_epoch(ctx));
}

static tr_err on_hold(tr_ctx *ctx, Counter *self, const Hold *m)
{
    (void)self;
    stage.held = tr_keep(ctx, m);
    return TR_OK;
}

static tr_err on_release(tr_ctx *ctx, Counter *self, const Release *m)
{
    (void)m;
    tr_err err = tr_reply(ctx, stage.held, .number = self->count);
    tr_release(ctx, stage.held);
    return err;
}

static tr_err on_nap(tr_ctx *ctx, Counter *self, const Nap *m)
{
    TR_TRY(tr_sleep(ctx, m->span));
    return tr_reply(ctx, m, .number = self->count);
}

static tr_err on_call(tr_ctx *ctx, Counter *self, const Call *m)
{
    Count count;
    (void)self;
    TR_OR_REFUSE(ctx, m,
                 tr_ref_eq(m->back, TR_NOBODY)
                     ? tr_ask(ctx, m->to, &count, 0, Get)
                     : tr_ask(ctx, m->to, &count, 0, Call, .to = m->back));
    return tr_reply(ctx, m, .number = count.number);
}

static tr_err on_store(tr_ctx *ctx, Counter *self, const Store *m)
{
    Counter next = {.count = m->number};
    TR_OR_REFUSE(ctx, m, tr_persist(ctx, self, &next));
    return tr_reply(ctx, m, .number = self->count);
}

static tr_err on_add(tr_ctx *ctx, Counter *self, const Add *m)
{
    note(ctx, "add", m->number);
    self->count += m->number;
    return TR_OK;
}

static tr_err on_tick(tr_ctx *ctx, Counter *self, const Tick *m)
{
    (void)ctx;
    self->count += m->number;
    return TR_OK;
}

static tr_err on_fail(tr_ctx *ctx, Counter *self, const Fail *m)
{
    (void)self;
    (void)m;
    return tr_fail(ctx, TR_EUSER, "told to fail");
}

static tr_err on_greet(tr_ctx *ctx, Counter *self, const Greet *m)
{
    (void)self;
    tr_tell(ctx, m->to, Note, .text = "hello", .ref = tr_self(ctx));
    return TR_OK;
}

TR_ACTOR(counter, Counter, TR_HOOK(pre_start, counter_start),
         TR_HOOK(post_stop, counter_stop), TR_ON(Get, on_get),
         TR_ON(Hold, on_hold), TR_ON(Release, on_release), TR_ON(Nap, on_nap),
         TR_ON(Call, on_call), TR_ON(Store, on_store), TR_ON(Add, on_add),
         TR_ON_QUIET(Tick, on_tick), TR_ON(Fail, on_fail),
         TR_ON(Greet, on_greet));

/* ---- the stage ---- */

typedef struct world {
    tr_sim *sim;  // NULL: on threads
    tr_system *sys;
    tr_probe *probe;
} world;

static void quiet_log(void *user, const tr_log_record *record)
{
    (void)user;
    (void)record;
}

static void open_world(world *w, uint64_t seed)
{
    memset(&stage, 0, sizeof(stage));
    *w = (world){0};
    tr_system_options o = {.size = sizeof(o), .ns = NS, .workers = 2,
                           .virtual_names = 100, .log = quiet_log};
    if (seed != 0) {
        assert_int_equal(tr_sim_new(&w->sim, seed), TR_OK);
        o.world = tr_sim_world(w->sim);
    }
    assert_int_equal((tr_system_open)(&w->sys, &o), TR_OK);
    assert_int_equal(tr_probe_new(&w->probe, w->sys), TR_OK);
    stage.probe = tr_probe_ref(w->probe);
}

static void close_world(world *w)
{
    stage.tells = false;
    tr_probe_free(w->probe);
    assert_int_equal(tr_system_close(w->sys, 0), TR_OK);
    tr_sim_free(w->sim);
}

/* On threads and on virtual time; or, for what is about time, only there. */
static void play(void (*scenario)(world *w), uint64_t first)
{
    for (uint64_t seed = first; seed <= SEEDS; seed++) {
        world w;
        open_world(&w, seed);
        scenario(&w);
        close_world(&w);
    }
}

#define SCENARIO(name, first)                                                  \
    static void play_##name(world *w);                                         \
    static void test_##name(void **state)                                      \
    {                                                                          \
        (void)state;                                                           \
        play(play_##name, first);                                              \
    }                                                                          \
    static void play_##name(world *w)
#define EVERYWHERE(name) SCENARIO(name, 0)
#define VIRTUALLY(name)  SCENARIO(name, 1)

static tr_ref named(world *w, const char *key)
{
    tr_ref ref = tr_virtual(w->sys, "counter", key);
    assert_int_equal(tr_ref_err(ref), TR_OK);
    return ref;
}

static int64_t get(world *w, tr_ref ref)
{
    Count count;
    assert_int_equal(tr_ask(w->sys, ref, &count, 0, Get), TR_OK);
    int64_t number = count.number;
    tr_drop(Count, &count);
    return number;
}

static void heard(world *w, const char *text, int64_t number)
{
    const Note *n = tr_expect(w->probe, TR_SECONDS(86400), Note);
    assert_string_equal(n->text, text);
    assert_int_equal(n->number, number);
}

static tr_metrics_snapshot metrics(world *w)
{
    tr_metrics_snapshot m = {.size = sizeof(m)};
    tr_metrics(w->sys, &m);
    return m;
}

/* ---- names ---- */

EVERYWHERE(T17_a_ref_activates_nothing)
{
    assert_int_equal(tr_host(w->sys, counter), TR_OK);
    tr_ref a = named(w, "a");
    assert_int_equal(tr_state_of(w->sys, a), TR_STATE_CREATED);
    assert_int_equal(metrics(w).virtual_active, 0);
    assert_int_equal(metrics(w).virtual_names, 1);
}

EVERYWHERE(VA6_same_names_same_actor)
{
    char path[64];
    tr_ref a = named(w, "a");
    assert_true(tr_ref_eq(a, named(w, "a")));
    assert_false(tr_ref_eq(a, named(w, "b")));
    assert_false(tr_ref_eq(a, tr_virtual(w->sys, "other", "a")));
    tr_ref_path(w->sys, a, path, sizeof(path));
    assert_string_equal(path, NS "::counter/a");
    assert_true(tr_ref_eq(tr_virtual_named(w->sys, path), a));
}

EVERYWHERE(VA7_VA8_one_namespace)
{
    tr_ref ref = tr_virtual_named(w->sys, "other::counter/a");
    assert_int_equal(tr_ref_err(ref), TR_EFOREIGN);
    assert_non_null(strstr(tr_error_text(w->sys), NS));
    ref = tr_virtual_named(w->sys, NS "2::counter/a");
    assert_int_equal(tr_ref_err(ref), TR_EFOREIGN);
    assert_int_equal(metrics(w).virtual_names, 0);
}

EVERYWHERE(VA3_VA4_VA5_invalid_names_are_nobody)
{
    static const char *const bad[] = {"", "a/b", "a::b", "a b", "\xc3\xa9"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(tr_ref_err(tr_virtual(w->sys, "counter", bad[i])),
                         TR_EINVAL);
        assert_int_equal(tr_ref_err(tr_virtual(w->sys, bad[i], "a")),
                         TR_EINVAL);
        assert_non_null(strstr(tr_error_text(w->sys), "no name"));
    }
    assert_int_equal(tr_ref_err(tr_virtual_named(w->sys, "counter/a")),
                     TR_EINVAL);
    assert_int_equal(tr_ref_err(tr_virtual_named(w->sys, NULL)), TR_EINVAL);
}

EVERYWHERE(rule33_names_are_limited)
{
    char key[16];
    for (int i = 0; i < 100; i++) {
        snprintf(key, sizeof(key), "k%d", i);
        named(w, key);
    }
    assert_int_equal(tr_ref_err(tr_virtual(w->sys, "counter", "one-more")),
                     TR_ELIMIT);
    assert_int_equal(metrics(w).virtual_names, 100);
    named(w, "k7");  // known ones still are
}

static void test_VA7_a_namespace_must_be_one(void **state)
{
    tr_system *sys;
    (void)state;
    assert_int_equal(tr_system_open(&sys, .ns = "a b", .workers = 1), TR_OK);
    assert_int_equal(tr_host(sys, counter), TR_EINVAL);
    assert_int_equal(tr_ref_err(tr_virtual(sys, "counter", "a")), TR_EINVAL);
    assert_int_equal(tr_system_close(sys, 0), TR_OK);
}

/* ---- activation ---- */

static void test_AC1_AC3_transitions(void **state)
{
    enum { N = TRI_ACTIVATION_NONE, C, A, V, D, I };
    static const bool legal[6][6] = {
        [N] = {[C] = true},
        [C] = {[A] = true, [D] = true},
        [A] = {[V] = true, [D] = true},
        [V] = {[D] = true},
        [D] = {[I] = true},
    };
    (void)state;
    for (int from = N; from <= I; from++) {
        for (int to = N; to <= I; to++) {
            assert_int_equal(tri_activation_legal((tri_activation)from,
                                                  (tri_activation)to),
                             legal[from][to]);
        }
    }
}

EVERYWHERE(AC12_first_message_activates)
{
    assert_int_equal(tr_host(w->sys, counter), TR_OK);
    tr_ref a = named(w, "a");
    stage.tells = true;
    tr_tell(w->sys, a, Add, .number = 5);
    heard(w, "start", 0);
    heard(w, "add", 5);
    assert_int_equal(get(w, a), 5);
    assert_int_equal(tr_state_of(w->sys, a), TR_STATE_RUNNING);
    assert_int_equal(tri_activation_of(tri_virtual_of(tri_ref_cell(a))),
                     TRI_ACTIVATION_VALID);
    assert_int_equal(metrics(w).activations, 1);
}

EVERYWHERE(T14_T15_calls_and_sends)
{
    Count count;
    assert_int_equal(tr_host(w->sys, counter), TR_OK);
    tr_ref a = named(w, "alice");
    for (int i = 0; i < 10; i++) {
        tr_tell(w->sys, a, Add, .number = 2);
    }
    assert_int_equal(tr_ask(w->sys, a, &count, 0, Get), TR_OK);
    assert_int_equal(count.number, 20);
    assert_string_equal(count.key, "alice");
    assert_int_equal(count.epoch, 1);
    assert_true(tr_ref_eq(count.self, a));
    tr_drop(Count, &count);
}

VIRTUALLY(T14_a_call_waits_30_s_unless_told)
{
    Count count;
    assert_int_equal(tr_host(w->sys, counter), TR_OK);
    tr_ref a = named(w, "a");
    tr_nanos before = tr_now(w->sys);
    assert_int_equal(tr_ask(w->sys, a, &count, 0, Nap,
                            .span = TR_MINUTES(2)),
                     TR_ETIMEDOUT);
    assert_int_equal(tr_now(w->sys) - before, TR_SECONDS(30));
    before = tr_now(w->sys);
    assert_int_equal(tr_ask(w->sys, named(w, "b"), &count, TR_SECONDS(2), Nap,
                            .span = TR_MINUTES(2)),
                     TR_ETIMEDOUT);
    assert_int_equal(tr_now(w->sys) - before, TR_SECONDS(2));
    // The error of a call that fails is the answer.
    assert_int_equal(tr_ask(w->sys, named(w, "c"), &count, 0, Call,
                            .to = TR_NOBODY),
                     TR_EFAILED);
}

EVERYWHERE(T18_the_sender_is_the_virtual_actor)
{
    assert_int_equal(tr_host(w->sys, counter), TR_OK);
    tr_ref a = named(w, "a");
    tr_tell(w->sys, a, Greet, .to = stage.probe);
    const tr_msg *msg = tr_expect_any(w->probe, TR_SECONDS(60));
    assert_true(tr_ref_eq(msg->sender, a));
    assert_true(tr_ref_eq(((const Note *)tr_msg_payload(msg))->ref, a));
}

VIRTUALLY(AC2_messages_wait_while_it_starts)
{
    assert_int_equal(tr_host(w->sys, counter), TR_OK);
    stage.tells = true;
    stage.start_for = TR_SECONDS(20);
    tr_ref a = named(w, "a");
    for (int i = 1; i <= 3; i++) {
        tr_tell(w->sys, a, Add, .number = i);
        tr_sim_advance(w->sim, TR_SECONDS(1));
        assert_int_equal(tri_activation_of(tri_virtual_of(tri_ref_cell(a))),
                         TRI_ACTIVATION_ACTIVATING);
    }
    heard(w, "start", 0);
    heard(w, "add", 1);
    heard(w, "add", 2);
    heard(w, "add", 3);
}

EVERYWHERE(AC13_a_failed_start_answers_its_callers)
{
    Count count;
    assert_int_equal(tr_host(w->sys, counter), TR_OK);
    tr_ref a = named(w, "a");
    stage.start_err = TR_EIO;
    assert_int_equal(tr_ask(w->sys, a, &count, 0, Get), TR_EIO);
    assert_non_null(strstr(tr_error_text(w->sys), "no start today"));
    stage.start_err = TR_OK;
    assert_int_equal(get(w, a), 0);
}

EVERYWHERE(a_kind_nobody_hosts)
{
    Count count;
    tr_ref a = named(w, "a");
    assert_int_equal(tr_ask(w->sys, a, &count, 0, Get), TR_ENOENT);
    assert_int_equal(tr_host(w->sys, counter), TR_OK);
    assert_int_equal(get(w, a), 0);
    assert_int_equal(tr_host(w->sys, counter), TR_EEXIST);
}

EVERYWHERE(hosting_refuses_what_makes_no_sense)
{
    tr_spawn_options s = {.size = sizeof(s), .name = "x"};
    assert_int_equal(tr_host(w->sys, counter, .spawn = &s), TR_EINVAL);
    s = (tr_spawn_options){.size = sizeof(s), .mailbox_limit = 3};
    assert_int_equal(tr_host(w->sys, counter, .spawn = &s), TR_EINVAL);
    s = (tr_spawn_options){.size = sizeof(s), .joinable = true};
    assert_int_equal(tr_host(w->sys, counter, .spawn = &s), TR_EINVAL);
    assert_int_equal(tr_host(w->sys, counter, .idle = -1), TR_EINVAL);
    assert_non_null(strstr(tr_error_text(w->sys), "idle"));
    assert_int_equal(tr_host(w->sys, counter), TR_OK);
}

/* ---- deactivation ---- */

EVERYWHERE(AC7_stop_deactivates)
{
    assert_int_equal(tr_host(w->sys, counter), TR_OK);
    tr_ref a = named(w, "a");
    tr_stop(w->sys, a);  // nothing to stop
    tr_tell(w->sys, a, Add, .number = 5);
    assert_int_equal(get(w, a), 5);
    tr_probe_watch(w->probe, a);
    tr_stop(w->sys, a);
    const tr_terminated *t = tr_expect(w->probe, TR_SECONDS(60),
                                       tr_terminated);
    assert_int_equal(t->reason, TR_STOPPED);
    assert_true(tr_ref_eq(t->actor, a));
    assert_int_equal(get(w, a), 0);  // another activation
    assert_int_equal(metrics(w).activations, 2);
    stage.tells = true;
    tr_stop(w->sys, a);
    heard(w, "stop", TR_STOPPED);
    get(w, a);
    heard(w, "start", 0);
    tr_kill(w->sys, a);
    heard(w, "stop", TR_KILLED);
}

EVERYWHERE(AC7_shutdown_deactivates)
{
    // The fixture closes the system while these are active.
    assert_int_equal(tr_host(w->sys, counter), TR_OK);
    for (int i = 0; i < 20; i++) {
        char key[16];
        snprintf(key, sizeof(key), "k%d", i);
        tr_tell(w->sys, named(w, key), Add, .number = 1);
    }
    assert_int_equal(get(w, named(w, "k0")), 1);
}

VIRTUALLY(AC5_AC6_idle_ones_are_deactivated)
{
    assert_int_equal(tr_host(w->sys, counter, .idle = IDLE), TR_OK);
    tr_ref a = named(w, "a");
    stage.tells = true;
    for (int i = 1; i <= 8; i++) {  // each one begins the time anew
        tr_tell(w->sys, a, Add, .number = i);
        if (i == 1) {
            heard(w, "start", 0);
        }
        heard(w, "add", i);
        tr_sim_advance(w->sim, IDLE / 2);
    }
    tr_sim_advance(w->sim, IDLE + 1);
    heard(w, "stop", TR_IDLE);
    assert_int_equal(metrics(w).virtual_active, 0);
    assert_int_equal(tr_state_of(w->sys, a), TR_STATE_CREATED);
    assert_int_equal(get(w, a), 0);
    heard(w, "start", 0);
}

VIRTUALLY(AC6_not_before_its_time)
{
    assert_int_equal(tr_host(w->sys, counter, .idle = IDLE), TR_OK);
    tr_ref a = named(w, "a");
    assert_int_equal(get(w, a), 0);
    tr_sim_advance(w->sim, IDLE - TR_SECONDS(1));
    assert_int_equal(metrics(w).virtual_active, 1);
    tr_sim_advance(w->sim, IDLE / 2 + TR_SECONDS(2));
    assert_int_equal(metrics(w).virtual_active, 0);
}

VIRTUALLY(MS11_quiet_messages_keep_nobody_active)
{
    assert_int_equal(tr_host(w->sys, counter, .idle = IDLE), TR_OK);
    tr_ref a = named(w, "a");
    assert_int_equal(get(w, a), 0);
    for (int i = 0; i < 15; i++) {
        if (metrics(w).virtual_active == 1) {
            tr_tell(w->sys, a, Tick, .number = 1);
        }
        tr_sim_advance(w->sim, TR_MINUTES(1));
    }
    tr_sim_advance(w->sim, 1);
    assert_int_equal(metrics(w).virtual_active, 0);
    assert_int_equal(metrics(w).activations, 1);
}

VIRTUALLY(rule29_who_waits_is_busy)
{
    Count count;
    assert_int_equal(tr_host(w->sys, counter, .idle = IDLE), TR_OK);
    tr_ref a = named(w, "a");
    tr_tell(w->sys, a, Add, .number = 3);
    assert_int_equal(tr_ask(w->sys, a, &count, 4 * IDLE, Nap,
                            .span = 3 * IDLE),
                     TR_OK);
    assert_int_equal(count.number, 3);
    assert_int_equal(metrics(w).activations, 1);
}

static tr_err ask_hold(tr_ctx *ctx, void *self, const Greet *m)
{
    Count count;
    (void)self;
    TR_TRY(tr_ask(ctx, m->to, &count, TR_SECONDS(86400), Hold));
    tr_tell(ctx, stage.probe, Note, .text = "answered",
            .number = count.number);
    return TR_OK;
}

TR_ACTOR(asker, void, TR_ON(Greet, ask_hold));

VIRTUALLY(rule29_a_kept_request_is_busy)
{
    assert_int_equal(tr_host(w->sys, counter, .idle = IDLE), TR_OK);
    tr_ref a = named(w, "a");
    tr_tell(w->sys, a, Add, .number = 3);
    tr_tell(w->sys, tr_spawn(w->sys, asker), Greet, .to = a);
    tr_sim_advance(w->sim, 5 * IDLE);
    assert_int_equal(metrics(w).virtual_active, 1);
    tr_tell(w->sys, a, Release);
    heard(w, "answered", 3);
    tr_sim_advance(w->sim, 2 * IDLE);
    assert_int_equal(metrics(w).virtual_active, 0);
}

VIRTUALLY(X30_what_comes_while_it_ends_is_for_the_next)
{
    assert_int_equal(tr_host(w->sys, counter), TR_OK);
    stage.tells = true;
    stage.stop_for = TR_SECONDS(2);
    tr_ref a = named(w, "a");
    tr_tell(w->sys, a, Add, .number = 1);
    heard(w, "start", 0);
    heard(w, "add", 1);
    tr_stop(w->sys, a);
    for (int i = 2; i <= 5; i++) {
        tr_tell(w->sys, a, Add, .number = i);
        tr_sim_advance(w->sim, TR_MS(100));
        assert_int_equal(tri_activation_of(tri_virtual_of(tri_ref_cell(a))),
                         TRI_ACTIVATION_DEACTIVATING);
    }
    heard(w, "stop", TR_STOPPED);
    heard(w, "start", 0);
    for (int i = 2; i <= 5; i++) {
        heard(w, "add", i);
    }
    stage.stop_for = 0;
}

VIRTUALLY(X30_what_it_has_not_handled_is_for_the_next)
{
    assert_int_equal(tr_host(w->sys, counter), TR_OK);
    stage.tells = true;
    tr_ref a = named(w, "a");
    tr_tell(w->sys, a, Nap, .span = TR_SECONDS(1));
    tr_sim_advance(w->sim, TR_MS(1));
    for (int i = 1; i <= 3; i++) {
        tr_tell(w->sys, a, Add, .number = i);
    }
    tr_stop(w->sys, a);  // after the nap, and before the others
    tr_tell(w->sys, a, Add, .number = 4);
    heard(w, "start", 0);
    heard(w, "stop", TR_STOPPED);
    heard(w, "start", 0);
    for (int i = 1; i <= 4; i++) {
        heard(w, "add", i);
    }
}

EVERYWHERE(watching_one_that_is_not_active)
{
    assert_int_equal(tr_host(w->sys, counter), TR_OK);
    tr_ref a = named(w, "a");
    tr_probe_watch(w->probe, a);
    const tr_terminated *t = tr_expect(w->probe, TR_SECONDS(60),
                                       tr_terminated);
    assert_int_equal(t->reason, TR_NO_SUCH_ACTOR);
    assert_int_equal(tr_join(w->sys, a, 0, NULL, NULL), TR_ENOENT);
}

EVERYWHERE(a_failure_restarts_and_at_last_ends_an_activation)
{
    tr_supervision policy = {.size = sizeof(policy), .max_restarts = 2,
                             .within = TR_MINUTES(60), .backoff_min = 1,
                             .backoff_max = 1};
    tr_spawn_options s = {.size = sizeof(s), .supervision = &policy};
    assert_int_equal(tr_host(w->sys, counter, .spawn = &s), TR_OK);
    tr_ref a = named(w, "a");
    for (int i = 0; i < 3; i++) {
        tr_tell(w->sys, a, Add, .number = 1);
        tr_tell(w->sys, a, Fail);
    }
    // The limit is reached: it ends, and only it.
    assert_int_equal(get(w, a), 0);
    assert_int_equal(metrics(w).activations, 2);
    assert_int_equal(get(w, named(w, "b")), 0);
}

EVERYWHERE(rule19_a_cycle_of_calls_is_found)
{
    Count count;
    assert_int_equal(tr_host(w->sys, counter), TR_OK);
    tr_ref a = named(w, "a"), b = named(w, "b");
    assert_int_equal(tr_ask(w->sys, a, &count, 0, Call, .to = b), TR_OK);
    // Refused by the last one, not timed out: b passes TR_EDEADLOCK on.
    assert_int_equal(tr_ask(w->sys, a, &count, 0, Call, .to = b, .back = a),
                     TR_EFAILED);
}

/* ---- the catalog ---- */

EVERYWHERE(AC8_AC9_AC10_the_directory_has_who_is_active)
{
    char key[16];
    assert_int_equal(tr_host(w->sys, counter), TR_OK);
    for (int i = 0; i < 30; i++) {
        snprintf(key, sizeof(key), "k%d", i);
        get(w, named(w, key));
    }
    tri_directory *d = &tri_cluster_of(w->sys)->directory;
    tri_place first, second;
    assert_int_equal(tri_directory_load(d, 0), 30);
    assert_int_equal(metrics(w).virtual_active, 30);
    assert_true(tri_directory_lookup(d, NS "::counter/k3",
                                     strlen(NS "::counter/k3"), &first));
    tr_ref ref = named(w, "k3");
    tr_stop(w->sys, ref);
    (void)!tr_join(w->sys, ref, 0, NULL, NULL);
    get(w, ref);
    assert_true(tri_directory_lookup(d, NS "::counter/k3",
                                     strlen(NS "::counter/k3"), &second));
    assert_true(second.number > first.number);  // VA15
    assert_int_equal(tri_directory_load(d, 0), 30);
}

VIRTUALLY(the_least_used_go_first)
{
    assert_int_equal(tr_host(w->sys, counter, .idle = IDLE, .max_active = 3),
                     TR_OK);
    static const char *const key[] = {"a", "b", "c"};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(get(w, named(w, key[i])), 0);
    }
    tr_sim_advance(w->sim, IDLE / 3);
    get(w, named(w, "a"));  // b and c are idle since longer
    get(w, named(w, "c"));
    tr_sim_advance(w->sim, IDLE / 3);
    assert_int_equal(metrics(w).virtual_active, 3);
    stage.tells = true;
    tr_tell(w->sys, named(w, "d"), Add, .number = 1);
    int stops = 0;
    for (int i = 0; i < 3; i++) {  // start and add of d, and who goes
        const Note *n = tr_expect(w->probe, TR_SECONDS(60), Note);
        if (strcmp(n->text, "stop") == 0) {
            assert_int_equal(n->number, TR_IDLE);
            assert_true(tr_ref_eq(n->ref, named(w, "b")));
            stops++;
        }
    }
    assert_int_equal(stops, 1);
    tr_sim_advance(w->sim, 1);
    assert_int_equal(metrics(w).virtual_active, 3);
}

/* ---- stateless workers ---- */

VIRTUALLY(stateless_workers_share_a_name)
{
    Count count;
    assert_int_equal(tr_host(w->sys, counter, .workers = 4, .idle = IDLE),
                     TR_OK);
    tr_ref a = named(w, "a");
    for (int i = 0; i < 8; i++) {
        tr_tell(w->sys, a, Add, .number = 1);
    }
    for (int i = 0; i < 4; i++) {  // each had two
        assert_int_equal(tr_ask(w->sys, a, &count, 0, Get), TR_OK);
        assert_int_equal(count.number, 2);
        assert_string_equal(count.key, "a");
        tr_drop(Count, &count);
    }
    assert_int_equal(metrics(w).virtual_active, 4);
    tr_sim_advance(w->sim, 2 * IDLE);
    assert_int_equal(metrics(w).virtual_active, 0);
    assert_int_equal(get(w, a), 0);
}

/* ---- state ---- */

EVERYWHERE(ST_state_survives_deactivation)
{
    tr_storage *memory, *store;
    Count count;
    assert_int_equal(tr_storage_memory(&memory), TR_OK);
    assert_int_equal(tr_storage_capture(&store, memory), TR_OK);
    assert_int_equal(tr_host(w->sys, counter, .storage = store), TR_OK);
    tr_ref a = named(w, "a");
    assert_int_equal(tr_ask(w->sys, a, &count, 0, Store, .number = 42),
                     TR_OK);
    tr_stop(w->sys, a);
    assert_int_equal(get(w, a), 42);
    assert_int_equal(get(w, named(w, "b")), 0);
    tr_captured call;
    bool saved = false;
    for (size_t i = 0; tr_storage_captured(store, i, &call); i++) {
        if (call.call == TR_STORE_SAVE) {
            assert_string_equal(call.key, NS "::counter/a");
            saved = true;
        }
    }
    assert_true(saved);
    close_world(w);
    tr_storage_close(store);
    tr_storage_close(memory);
    open_world(w, 1);  // for the fixture to close
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_T17_a_ref_activates_nothing),
        cmocka_unit_test(test_VA6_same_names_same_actor),
        cmocka_unit_test(test_VA7_VA8_one_namespace),
        cmocka_unit_test(test_VA3_VA4_VA5_invalid_names_are_nobody),
        cmocka_unit_test(test_rule33_names_are_limited),
        cmocka_unit_test(test_VA7_a_namespace_must_be_one),
        cmocka_unit_test(test_AC1_AC3_transitions),
        cmocka_unit_test(test_AC12_first_message_activates),
        cmocka_unit_test(test_T14_T15_calls_and_sends),
        cmocka_unit_test(test_T14_a_call_waits_30_s_unless_told),
        cmocka_unit_test(test_T18_the_sender_is_the_virtual_actor),
        cmocka_unit_test(test_AC2_messages_wait_while_it_starts),
        cmocka_unit_test(test_AC13_a_failed_start_answers_its_callers),
        cmocka_unit_test(test_a_kind_nobody_hosts),
        cmocka_unit_test(test_hosting_refuses_what_makes_no_sense),
        cmocka_unit_test(test_AC7_stop_deactivates),
        cmocka_unit_test(test_AC7_shutdown_deactivates),
        cmocka_unit_test(test_AC5_AC6_idle_ones_are_deactivated),
        cmocka_unit_test(test_AC6_not_before_its_time),
        cmocka_unit_test(test_MS11_quiet_messages_keep_nobody_active),
        cmocka_unit_test(test_rule29_who_waits_is_busy),
        cmocka_unit_test(test_rule29_a_kept_request_is_busy),
        cmocka_unit_test(test_X30_what_comes_while_it_ends_is_for_the_next),
        cmocka_unit_test(test_X30_what_it_has_not_handled_is_for_the_next),
        cmocka_unit_test(test_watching_one_that_is_not_active),
        cmocka_unit_test(
            test_a_failure_restarts_and_at_last_ends_an_activation),
        cmocka_unit_test(test_rule19_a_cycle_of_calls_is_found),
        cmocka_unit_test(test_AC8_AC9_AC10_the_directory_has_who_is_active),
        cmocka_unit_test(test_the_least_used_go_first),
        cmocka_unit_test(test_stateless_workers_share_a_name),
        cmocka_unit_test(test_ST_state_survives_deactivation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
