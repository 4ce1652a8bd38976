/*
 * fairness_test.c - whatever can run does run: among many new actors, beside a
 * handler that sends without end, and while others are busy.
 */
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <troupe/troupe.h>

enum { SPAWNS = 100000, SENDS = 1000000 };

TR_MESSAGE(Tick, (uint32_t, n));
TR_MESSAGE(Ran);
TR_MESSAGE(Done);

typedef struct Child {
    tr_ref report_to;
} Child;

static tr_err child_start(tr_ctx *ctx, Child *self)
{
    tr_tell(ctx, self->report_to, Ran);  // the probe if it is the first child
    tr_stop(ctx, tr_self(ctx));
    return TR_OK;
}

TR_ACTOR(child, Child, TR_HOOK(pre_start, child_start));

typedef struct Spawner {
    tr_ref report_to;
} Spawner;

static tr_err on_tick(tr_ctx *ctx, Spawner *self, const Tick *m)
{
    tr_ref report_to = m->n == 0 ? self->report_to : tr_self(ctx);
    (void)tr_spawn(ctx, child, .dispatcher = "concurrent",
                   TR_INIT(child, .report_to = report_to));
    if (m->n < SPAWNS) {
        tr_tell(ctx, tr_self(ctx), Tick, .n = m->n + 1);
    } else {
        tr_tell(ctx, self->report_to, Done);
    }
    return TR_OK;
}

static tr_err on_ran(tr_ctx *ctx, Spawner *self, const Ran *m)
{
    (void)ctx, (void)self, (void)m;
    return TR_OK;
}

TR_ACTOR(spawner, Spawner, TR_ON(Tick, on_tick), TR_ON(Ran, on_ran));

/* Newborn actors run first, but an older one among them runs, too. */
static void test_the_first_child_runs_while_others_are_spawned(void **state)
{
    (void)state;
    tr_system *sys;
    tr_probe *probe;
    TR_MUST(tr_system_open(&sys, .workers = 1, .log_level = 9));
    TR_MUST(tr_probe_new(&probe, sys));
    // All on one thread; "concurrent" never gets a second one.
    tr_ref ref = tr_spawn(sys, spawner, .dispatcher = "concurrent",
                          TR_INIT(spawner, .report_to = tr_probe_ref(probe)));
    tr_tell(sys, ref, Tick, .n = 0);
    (void)tr_expect(probe, TR_MINUTES(5), Ran);  // before Done
    (void)tr_expect(probe, TR_MINUTES(5), Done);
    tr_probe_free(probe);
    TR_MUST(tr_system_close(sys, TR_MINUTES(5)));
}

TR_REQUEST(Begin, tr_none);
TR_REQUEST(Release, tr_none);

static void pass(sem_t *sem)
{
    while (sem_wait(sem) != 0) {
    }
}

/* Its handler sends to itself until another actor has run. */
typedef struct Sender {
    tr_ref report_to;
    sem_t *in, *go_on;      // NULL: it begins right after its answer
    _Atomic(bool) *others;  // true when the other actor has run
} Sender;

static tr_err on_begin(tr_ctx *ctx, Sender *self, const Begin *m)
{
    TR_TRY(tr_reply(ctx, m));
    if (self->in != NULL) {
        sem_post(self->in);
        pass(self->go_on);
    }
    bool ran = false;
    for (int i = 0; i < SENDS && !ran; i++) {
        tr_tell(ctx, tr_self(ctx), Ran);
        // Acquire: pairs with on_client.
        ran = atomic_load_explicit(self->others, memory_order_acquire);
    }
    tr_tell(ctx, self->report_to, Tick, .n = ran);
    return TR_OK;
}

static tr_err sender_ran(tr_ctx *ctx, Sender *self, const Ran *m)
{
    (void)ctx, (void)self, (void)m;
    return TR_OK;
}

TR_ACTOR(sender, Sender, TR_ON(Begin, on_begin), TR_ON(Ran, sender_ran));

typedef struct Other {
    tr_ref asks;
    _Atomic(bool) *ran;
} Other;

static tr_err on_client(tr_ctx *ctx, Other *self, const Done *m)
{
    (void)m;
    TR_TRY(tr_ask(ctx, self->asks, NULL, TR_FOREVER, Begin));
    // Release: pairs with on_begin.
    atomic_store_explicit(self->ran, true, memory_order_release);
    return TR_OK;
}

TR_ACTOR(other, Other, TR_ON(Done, on_client));

typedef struct Keeper {
    sem_t *in;
    const Begin *kept;
} Keeper;

static tr_err keeper_begin(tr_ctx *ctx, Keeper *self, const Begin *m)
{
    self->kept = tr_keep(ctx, m);
    sem_post(self->in);
    return TR_OK;
}

static tr_err keeper_release(tr_ctx *ctx, Keeper *self, const Release *m)
{
    TR_TRY(tr_reply(ctx, self->kept));
    return tr_reply(ctx, m);
}

TR_ACTOR(keeper, Keeper, TR_ON(Begin, keeper_begin),
         TR_ON(Release, keeper_release));

/* The asker waits on the same worker; another thread answers it. */
static void test_a_sending_turn_yields_to_an_asker_answered_elsewhere(
    void **state)
{
    (void)state;
    tr_system *sys;
    tr_probe *probe;
    sem_t in, go_on;
    _Atomic(bool) ran = false;
    assert_int_equal(sem_init(&in, 0, 0), 0);
    assert_int_equal(sem_init(&go_on, 0, 0), 0);
    TR_MUST(tr_system_open(&sys, .workers = 1, .log_level = 9));
    TR_MUST(tr_probe_new(&probe, sys));
    tr_ref answers = tr_spawn(sys, keeper, .dispatcher = "pinned",
                              TR_INIT(keeper, .in = &in));
    tr_ref asker = tr_spawn(sys, other, .dispatcher = "concurrent",
                            TR_INIT(other, .asks = answers, .ran = &ran));
    tr_ref ref = tr_spawn(sys, sender, .dispatcher = "concurrent",
                          TR_INIT(sender, .report_to = tr_probe_ref(probe),
                                  .in = &in, .go_on = &go_on, .others = &ran));
    tr_tell(sys, asker, Done);
    pass(&in);
    tr_tell(sys, ref, Begin);
    pass(&in);
    TR_MUST(tr_ask(sys, answers, NULL, TR_MINUTES(5), Release));
    sem_post(&go_on);
    assert_true(tr_expect(probe, TR_MINUTES(5), Tick)->n);
    tr_probe_free(probe);
    TR_MUST(tr_system_close(sys, TR_MINUTES(5)));
    sem_destroy(&in);
    sem_destroy(&go_on);
}

/* The asker goes on before the turn that has answered it ends. */
static void test_a_sending_turn_yields_to_the_asker_it_has_answered(
    void **state)
{
    (void)state;
    tr_system *sys;
    tr_probe *probe;
    _Atomic(bool) ran = false;
    TR_MUST(tr_system_open(&sys, .workers = 1, .log_level = 9));
    TR_MUST(tr_probe_new(&probe, sys));
    tr_ref ref = tr_spawn(
        sys, sender, .dispatcher = "concurrent",
        TR_INIT(sender, .report_to = tr_probe_ref(probe), .others = &ran));
    tr_ref asker = tr_spawn(sys, other, .dispatcher = "concurrent",
                            TR_INIT(other, .asks = ref, .ran = &ran));
    tr_tell(sys, asker, Done);
    assert_true(tr_expect(probe, TR_MINUTES(5), Tick)->n);
    tr_probe_free(probe);
    TR_MUST(tr_system_close(sys, TR_MINUTES(5)));
}

enum { CHILDREN = 200, TURNS_MAX = 1000 };

TR_MESSAGE(Ball);
TR_MESSAGE(Breed);

typedef struct count {
    _Atomic(uint64_t) turns;  // of the two busy actors
    _Atomic(uint64_t) over;   // turns while the family stopped
    _Atomic(uint32_t) forced, started;
    _Atomic(bool) enough;
} count;

typedef struct Player {
    count *count;
    tr_ref other;
} Player;

/* Two actors play ball: each turn is one message. */
static tr_err on_ball(tr_ctx *ctx, Player *self, const Ball *m)
{
    (void)m;
    if (tr_ref_eq(self->other, TR_NOBODY)) {
        self->other = tr_sender(ctx);
    }
    // Relaxed: counters, read when the system has closed.
    atomic_fetch_add_explicit(&self->count->turns, 1, memory_order_relaxed);
    if (!atomic_load_explicit(&self->count->enough, memory_order_relaxed)) {
        tr_tell(ctx, self->other, Ball);
    }
    return TR_OK;
}

TR_ACTOR(player, Player, TR_ON(Ball, on_ball));

typedef struct Relative {
    count *count;
} Relative;

/* The last child that starts stops its parent. */
static tr_err child_starts(tr_ctx *ctx, Relative *self)
{
    if (atomic_fetch_add_explicit(&self->count->started, 1,
                                  memory_order_relaxed) == CHILDREN - 1) {
        tr_stop(ctx, tr_parent(ctx));
    }
    return TR_OK;
}

static tr_err child_ends(tr_ctx *ctx, Relative *self, tr_reason reason)
{
    (void)ctx;
    atomic_fetch_add_explicit(&self->count->forced, reason != TR_STOPPED,
                              memory_order_relaxed);
    return TR_OK;
}

TR_ACTOR(relative, Relative, TR_HOOK(post_start, child_starts),
         TR_HOOK(post_stop, child_ends));

static tr_err on_breed(tr_ctx *ctx, Relative *self, const Breed *m)
{
    (void)m;
    for (int i = 0; i < CHILDREN; i++) {
        tr_spawn(ctx, relative, .dispatcher = "concurrent",
                 .stop_timeout = TR_MINUTES(1),
                 TR_INIT(relative, .count = self->count));
    }
    return TR_OK;
}

static tr_err parent_stops(tr_ctx *ctx, Relative *self)
{
    (void)ctx;
    // Relaxed: counters. The children are stopped from here on.
    atomic_store_explicit(
        &self->count->over,
        atomic_load_explicit(&self->count->turns, memory_order_relaxed),
        memory_order_relaxed);
    return TR_OK;
}

static tr_err parent_ends(tr_ctx *ctx, Relative *self, tr_reason reason)
{
    (void)ctx;
    (void)reason;
    uint64_t turns =
        atomic_load_explicit(&self->count->turns, memory_order_relaxed);
    uint64_t begin =
        atomic_load_explicit(&self->count->over, memory_order_relaxed);
    atomic_store_explicit(&self->count->over, turns - begin,
                          memory_order_relaxed);
    return TR_OK;
}

TR_ACTOR(parent, Relative, TR_HOOK(pre_stop, parent_stops),
         TR_HOOK(post_stop, parent_ends), TR_ON(Breed, on_breed));

/*
 * Turns are counted, so all actors share one thread, that of "concurrent".
 */
static void test_K7_K12_a_family_stops_among_busy_actors(void **state)
{
    (void)state;
    tr_system *sys;
    count it = {0};
    TR_MUST(tr_system_open(&sys, .workers = 1, .log_level = TR_LOG_ERROR));
    tr_ref one = tr_spawn(sys, player, .dispatcher = "concurrent",
                          TR_INIT(player, .count = &it));
    tr_ref two = tr_spawn(sys, player, .dispatcher = "concurrent",
                          TR_INIT(player, .count = &it, .other = one));
    tr_ref p = tr_spawn(sys, parent, TR_INIT(parent, .count = &it),
                        .dispatcher = "concurrent",
                        .stop_timeout = TR_MINUTES(1), .joinable = true);
    tr_tell(sys, two, Ball);
    tr_tell(sys, p, Breed);
    tr_result how;
    TR_MUST(tr_join(sys, p, TR_SECONDS(60), &how, NULL));
    atomic_store_explicit(&it.enough, true, memory_order_relaxed);
    TR_MUST(tr_system_close(sys, TR_SECONDS(60)));
    assert_int_equal(it.forced, 0);
    assert_in_range(it.over, 0, TURNS_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_first_child_runs_while_others_are_spawned),
        cmocka_unit_test(
            test_a_sending_turn_yields_to_an_asker_answered_elsewhere),
        cmocka_unit_test(
            test_a_sending_turn_yields_to_the_asker_it_has_answered),
        cmocka_unit_test(test_K7_K12_a_family_stops_among_busy_actors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
