/*
 * short_life_stress.c - actors without hooks, which start and stop in one
 * step.
 *
 * Trees of such actors (leaves) spawn, ask, stop, kill and poison each other
 * at random, by refs that are mostly stale, while drivers watch some of them
 * and outside threads ask, stop and join. Whatever the order: each watcher is
 * notified once, each request ends once, every message is handled or a dead
 * letter, and no actor has to be forced.
 */
#include "support/stage.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/rand.h"

enum {
    DRIVERS = 4,
    LEAVES = 8,  // of a driver, in each round
    POOL = 32,   // refs that all actors share
    THREADS = 2,
    DEPTH = 2,  // of a tree of leaves
    CHILDREN = 3,
};
#define LONG TR_MINUTES(10)  // a wait that times out is a failure

TR_MESSAGE(Answer, (int64_t, value));
TR_REQUEST(Query, Answer, (uint64_t, dice));
TR_MESSAGE(Job, (uint64_t, dice));
TR_MESSAGE(Drive, (uint64_t, rounds));

typedef struct scene {
    tr_system *sys;
    struct {
        _Atomic(uint64_t) cell, id;  // may be torn: that is one more stale ref
    } pool[POOL];
    _Atomic(uint64_t) sent, asked, begun, answered, wrong;
    _Atomic(uint64_t) watched, told, twice;
    _Atomic(bool) enough;
} scene;

typedef struct leaf {
    scene *scene;
    uint32_t depth;
} leaf;

typedef struct driver {
    scene *scene;
    tri_rand rand;
    uint64_t rounds;
    uint32_t waiting;  // for the ends of this many leaves
} driver;

static tr_ref known(scene *it, uint64_t dice)
{
    return (tr_ref){atomic_load(&it->pool[dice % POOL].cell),
                    atomic_load(&it->pool[dice % POOL].id)};
}

static void make_known(scene *it, uint64_t dice, tr_ref ref)
{
    atomic_store(&it->pool[dice % POOL].cell, ref.cell);
    atomic_store(&it->pool[dice % POOL].id, ref.id);
}

/* Counts the end of a request, and errors that no request may end with. */
static void ended(scene *it, tr_err err)
{
    atomic_fetch_add(&it->answered, 1);
    switch (err) {
    case TR_OK:
    case TR_EGONE:
    case TR_ENOENT:
    case TR_ESTOPPED:
    case TR_EKILLED:
    case TR_ENOREPLY:
    case TR_EDEADLOCK:
        break;
    default:
        print_error("a request ended with %s\n", tr_strerror(err));
        atomic_fetch_add(&it->wrong, 1);
    }
}

static void ask_one(tr_ctx *ctx, scene *it, tr_ref to, uint64_t dice)
{
    Answer out;
    atomic_fetch_add(&it->asked, 1);
    ended(it, tr_ask(ctx, to, &out, LONG, Query, .dice = dice));
}

static void ask_two(tr_ctx *ctx, scene *it, tri_rand *rand)
{
    tr_future futures[2];
    Answer out;
    for (int i = 0; i < 2; i++) {
        futures[i] = tr_async(ctx, known(it, tri_rand_next(rand)), LONG, Query,
                              .dice = tri_rand_next(rand));
    }
    atomic_fetch_add(&it->asked, 2);
    for (int i = 0; i < 2; i++) {
        ended(it, tr_await(ctx, futures[i], Query, &out));
    }
}

TR_ACTOR_FORWARD(leaves, leaf);

static void have_children(tr_ctx *ctx, const leaf *self, tri_rand *rand)
{
    scene *it = self->scene;
    for (int i = 0; self->depth > 0 && i < CHILDREN; i++) {
        tr_ref child = tr_spawn(
            ctx, leaves, TR_INIT(leaves, .scene = it, .depth = self->depth - 1),
            .stop_timeout = LONG);
        make_known(it, tri_rand_next(rand), child);
        atomic_fetch_add(&it->sent, 1);
        tr_tell(ctx, child, Job, .dice = tri_rand_next(rand));
    }
}

static void act(tr_ctx *ctx, const leaf *self, uint64_t dice)
{
    scene *it = self->scene;
    tri_rand rand;
    tri_rand_init(&rand, dice);
    switch (tri_rand_below(&rand, 10)) {
    case 0:
        tr_stop(ctx, tr_self(ctx));
        break;
    case 1:
        tr_stop(ctx, tr_self(ctx));
        ask_one(ctx, it, known(it, tri_rand_next(&rand)), tri_rand_next(&rand));
        break;
    case 2:
    case 3:
        ask_one(ctx, it, known(it, tri_rand_next(&rand)), tri_rand_next(&rand));
        break;
    case 4:
        have_children(ctx, self, &rand);
        break;
    case 5:
        have_children(ctx, self, &rand);
        tr_stop(ctx, tr_self(ctx));
        break;
    case 6:
        ask_two(ctx, it, &rand);
        break;
    case 7:
        tr_kill(ctx, known(it, tri_rand_next(&rand)));
        break;
    case 8:
        tr_poison(ctx, known(it, tri_rand_next(&rand)));
        break;
    default:
        break;
    }
}

static tr_err on_job(tr_ctx *ctx, leaf *self, const Job *m)
{
    atomic_fetch_add(&self->scene->begun, 1);
    act(ctx, self, m->dice);
    return TR_OK;
}

/* Answers first, last, or not at all. */
static tr_err on_query(tr_ctx *ctx, leaf *self, const Query *m)
{
    if (m->dice % 3 == 0) {
        tr_err err = tr_reply(ctx, m, .value = 1);
        act(ctx, self, m->dice);
        return err;
    }
    act(ctx, self, m->dice);
    return m->dice % 7 == 0 ? TR_OK : tr_reply(ctx, m, .value = 2);
}

TR_ACTOR(leaves, leaf, TR_ON(Job, on_job), TR_ON(Query, on_query));

/* ---- drivers ---- */

static void one_leaf(tr_ctx *ctx, driver *self, int i)
{
    scene *it = self->scene;
    tr_ref ref =
        tr_spawn(ctx, leaves, TR_INIT(leaves, .scene = it, .depth = DEPTH),
                 .stop_timeout = LONG);
    make_known(it, tri_rand_next(&self->rand), ref);
    if (i % 2 == 0) {
        atomic_fetch_add(&it->sent, 1);
        tr_tell(ctx, ref, Job, .dice = tri_rand_next(&self->rand));
    }
    if (i % 3 == 0) {
        tr_watch(ctx, ref);
    }
    if (i % 5 == 0) {
        ask_one(ctx, it, ref, tri_rand_next(&self->rand));
    }
    if (i % 4 == 0) {
        tr_kill(ctx, ref);
    } else if (i % 4 == 1) {
        tr_poison(ctx, ref);
    } else {
        tr_stop(ctx, ref);
    }
    tr_watch(ctx, ref);
    if (i == LEAVES - 1) {
        tr_unwatch(ctx, ref);
        tr_watch(ctx, ref);
    }
    self->waiting++;
    atomic_fetch_add(&it->watched, 1);
}

static tr_err next_round(tr_ctx *ctx, driver *self)
{
    if (self->rounds-- == 0) {
        tr_stop(ctx, tr_self(ctx));
        return TR_OK;
    }
    for (int i = 0; i < LEAVES; i++) {
        one_leaf(ctx, self, i);
    }
    return TR_OK;
}

static tr_err on_drive(tr_ctx *ctx, driver *self, const Drive *m)
{
    self->rounds = m->rounds;
    return next_round(ctx, self);
}

static tr_err on_end(tr_ctx *ctx, driver *self, const tr_terminated *m)
{
    (void)m;
    atomic_fetch_add(&self->scene->told, 1);
    if (self->waiting == 0) {
        atomic_fetch_add(&self->scene->twice, 1);
        return TR_OK;
    }
    return --self->waiting == 0 ? next_round(ctx, self) : TR_OK;
}

TR_ACTOR(drivers, driver, TR_ON(Drive, on_drive), TR_ON(tr_terminated, on_end));

/* ---- outside ---- */

static void *from_outside(void *arg)
{
    scene *it = arg;
    tri_rand rand;
    tri_rand_init(&rand, (uint64_t)(uintptr_t)&rand);
    while (!atomic_load(&it->enough)) {
        tr_ref ref = known(it, tri_rand_next(&rand));
        Answer out;
        atomic_fetch_add(&it->asked, 1);
        ended(it, tr_ask(it->sys, ref, &out, LONG, Query,
                         .dice = tri_rand_next(&rand)));
        ref = known(it, tri_rand_next(&rand));
        if (tri_rand_below(&rand, 2) == 0) {
            tr_stop(it->sys, ref);
        } else {
            tr_poison(it->sys, ref);
        }
        tr_err err = tr_join(it->sys, ref, LONG, NULL, NULL);
        if (err != TR_OK && err != TR_ENOENT) {
            print_error("a join ended with %s\n", tr_strerror(err));
            atomic_fetch_add(&it->wrong, 1);
        }
    }
    return NULL;
}

static void no_log(void *user, const tr_log_record *record)
{
    (void)user;
    (void)record;
}

static void test_short_lived_actors_are_accounted_for(void **state)
{
    scene it = {0};
    tr_ref all[DRIVERS];
    pthread_t threads[THREADS];
    tr_close_report report = {.size = sizeof(report)};
    (void)state;
    expect_ok(tr_system_open(&it.sys, .log = no_log, .workers = 2,
                             .ask_timeout = LONG));
    for (uint64_t i = 0; i < DRIVERS; i++) {
        driver first = {.scene = &it};
        tri_rand_init(&first.rand, i);
        all[i] = tr_spawn(it.sys, drivers, .init = &first,
                          .init_size = sizeof(first), .joinable = true,
                          .stop_timeout = LONG);
        tr_tell(it.sys, all[i], Drive, .rounds = stage_scaled(20000));
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, from_outside, &it),
                         0);
    }
    for (int i = 0; i < DRIVERS; i++) {
        expect_ok(tr_join(it.sys, all[i], LONG, NULL, NULL));
    }
    atomic_store(&it.enough, true);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    expect_ok(tr_system_close_report(it.sys, LONG, &report));
    print_message("%llu watched, %llu asked, %llu dead letters\n",
                  (unsigned long long)it.watched, (unsigned long long)it.asked,
                  (unsigned long long)report.dead_letters);
    assert_int_equal(it.told, it.watched);
    assert_int_equal(it.twice, 0);
    assert_int_equal(it.answered, it.asked);
    assert_int_equal(it.wrong, 0);
    assert_int_equal(report.forced, 0);
    // Requests and answers that come too late are dead letters, too.
    assert_true(it.sent <= it.begun + report.dead_letters);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_short_lived_actors_are_accounted_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
