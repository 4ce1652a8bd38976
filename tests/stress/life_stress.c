/*
 * life_stress.c - many actors spawn, watch, stop and restart each other.
 *
 * Gardeners spawn families of plants, watch each other's plants and end them
 * in every way while they work. Each watch must be notified exactly once, each
 * actor that started must stop once, and closing the system must force no one.
 */
#include "support/stage.h"

#include <stdatomic.h>
#include <string.h>

#include "base/rand.h"

enum { GARDENERS = 4, CHILDREN = 8, POOL = 64 };

#define LONG TR_MINUTES(10)  // so that no actor is ended by force, however slow

TR_MESSAGE(Grow, (uint64_t, left));
TR_MESSAGE(Hurt, (uint32_t, how));

typedef struct garden {
    tr_system *sys;
    tr_ref gardeners[GARDENERS];
    _Atomic(uint64_t) cells[POOL], ids[POOL];
    _Atomic(uint64_t) watched, told, unwatched, started, stopped, spawned;
    _Atomic(uint64_t) done;
} garden;

typedef struct plant {
    garden *garden;
    uint32_t depth;
} plant;

static tr_err plant_start(tr_ctx *ctx, plant *self);

static tr_err plant_stop(tr_ctx *ctx, plant *self, tr_reason reason)
{
    (void)ctx;
    (void)reason;
    atomic_fetch_add(&self->garden->stopped, 1);
    return TR_OK;
}

static tr_err on_hurt(tr_ctx *ctx, plant *self, const Hurt *m)
{
    (void)self;
    switch (m->how % 6) {
    case 0:
        return tr_fail(ctx, TR_EUSER, "hurt");
    case 1:
        tr_panic(ctx, "hurt badly");
    case 2:
        return tr_sleep(ctx, TR_MS(1));
    case 3:
        tr_stop(ctx, tr_self(ctx));
        return TR_OK;
    default:
        return TR_OK;
    }
}

TR_ACTOR(plants, plant, TR_HOOK(pre_start, plant_start),
         TR_HOOK(post_stop, plant_stop), TR_ON(Hurt, on_hurt));

static tr_err plant_start(tr_ctx *ctx, plant *self)
{
    atomic_fetch_add(&self->garden->started, 1);
    (void)tr_alloc(ctx, 64);
    // With depth 0 it stops itself; otherwise the message does nothing.
    (void)tr_after(ctx, TR_MS(1), Hurt, .how = self->depth + 3);
    if (self->depth > 0) {
        tr_ref ref = tr_spawn(
            ctx, plants,
            TR_INIT(plants, .garden = self->garden, .depth = self->depth - 1),
            .stop_timeout = LONG);
        atomic_fetch_add(&self->garden->spawned, ref.cell != 0);
    }
    return TR_OK;
}

typedef struct gardener {
    garden *garden;
    tri_rand rand;
} gardener;

static tr_ref some(garden *it, tri_rand *rand)
{
    uint64_t i = tri_rand_below(rand, POOL);
    return (tr_ref){atomic_load(&it->cells[i]), atomic_load(&it->ids[i])};
}

static void put(garden *it, tri_rand *rand, tr_ref ref)
{
    uint64_t i = tri_rand_below(rand, POOL);
    atomic_store(&it->cells[i], ref.cell);
    atomic_store(&it->ids[i], ref.id);
}

static void work(tr_ctx *ctx, gardener *self)
{
    garden *it = self->garden;
    tr_ref ref = some(it, &self->rand);
    switch (tri_rand_below(&self->rand, 10)) {
    case 0:
    case 1:
        ref =
            tr_spawn(ctx, plants,
                     TR_INIT(plants, .garden = it,
                             .depth = (uint32_t)tri_rand_below(&self->rand, 3)),
                     .stop_timeout = LONG,
                     .supervision = TR_SUPERVISE(.max_restarts = 2,
                                                 .backoff_min = TR_MS(1),
                                                 .on_limit = TR_STOP));
        atomic_fetch_add(&it->spawned, ref.cell != 0);
        put(it, &self->rand, ref);
        break;
    case 2:
        tr_stop(ctx, ref);
        break;
    case 3:
        tr_kill(ctx, ref);
        break;
    case 4:
        tr_poison(ctx, ref);
        break;
    case 5:
    case 6:
        tr_tell(ctx, ref, Hurt,
                .how = (uint32_t)tri_rand_below(&self->rand, 6));
        break;
    case 7:
        tr_watch(ctx, ref);
        break;
    case 8:
        tr_unwatch(ctx, ref);
        break;
    default:
        tr_watch_for(ctx, it->gardeners[tri_rand_below(&self->rand, GARDENERS)],
                     ref);
        break;
    }
}

static tr_err on_grow(tr_ctx *ctx, gardener *self, const Grow *m)
{
    for (int i = 0; i < 16; i++) {
        work(ctx, self);
    }
    if (m->left > 0) {
        tr_tell(ctx, tr_self(ctx), Grow, .left = m->left - 1);
    } else {
        atomic_fetch_add(&self->garden->done, 1);
        tr_stop(ctx, tr_self(ctx));
    }
    return TR_OK;
}

static tr_err on_told(tr_ctx *ctx, gardener *self, const tr_terminated *m)
{
    (void)ctx;
    (void)m;
    atomic_fetch_add(&self->garden->told, 1);
    return TR_OK;
}

TR_ACTOR(gardeners, gardener, TR_ON(Grow, on_grow),
         TR_ON(tr_terminated, on_told));

static void no_log(void *user, const tr_log_record *record)
{
    (void)user;
    (void)record;
}

static void test_families_start_and_stop_as_often(void **state)
{
    garden it = {0};
    tr_close_report report = {.size = sizeof(report)};
    (void)state;
    expect_ok(tr_system_open(&it.sys, .log = no_log, .workers = 2));
    for (uint64_t i = 0; i < GARDENERS; i++) {
        gardener first = {.garden = &it};
        tri_rand_init(&first.rand, i + 1);
        it.gardeners[i] = tr_spawn(it.sys, gardeners, .init = &first,
                                   .init_size = sizeof(first),
                                   .stop_timeout = LONG, .joinable = true);
    }
    for (int i = 0; i < GARDENERS; i++) {
        tr_tell(it.sys, it.gardeners[i], Grow, .left = stage_scaled(30000));
    }
    for (int i = 0; i < GARDENERS; i++) {
        expect_ok(tr_join(it.sys, it.gardeners[i], LONG, NULL, NULL));
    }
    expect_ok(tr_system_close_report(it.sys, LONG, &report));
    print_message("%llu spawned, %llu starts, %llu told\n",
                  (unsigned long long)it.spawned,
                  (unsigned long long)it.started, (unsigned long long)it.told);
    assert_int_equal(it.done, GARDENERS);
    assert_int_equal(it.started, it.stopped);
    assert_int_equal(report.zombies, 0);
    assert_int_equal(report.forced, 0);
    assert_true(it.told > 0);
}

/* ---- each watch is notified exactly once ---- */

TR_MESSAGE(Batch, (uint64_t, left));

typedef struct watcher {
    garden *garden;
    uint32_t waiting;
    uint64_t left;
} watcher;

static tr_err next_batch(tr_ctx *ctx, watcher *self)
{
    garden *it = self->garden;
    if (self->left-- == 0) {
        atomic_fetch_add(&it->done, 1);
        tr_stop(ctx, tr_self(ctx));
        return TR_OK;
    }
    for (uint32_t i = 0; i < CHILDREN; i++) {
        tr_ref ref = tr_spawn(ctx, plants, TR_INIT(plants, .garden = it),
                              .stop_timeout = LONG);
        atomic_fetch_add(&it->spawned, 1);
        if (i % 2 == 0) {
            tr_kill(ctx, ref);  // the watch races with the end
        }
        tr_watch(ctx, ref);
        tr_watch(ctx, ref);  // watching twice is watching once
        if (i % 4 == 3) {
            tr_poison(ctx, ref);
            tr_unwatch(ctx, ref);
            tr_watch(ctx, ref);
        } else {
            tr_stop(ctx, ref);
        }
        self->waiting++;
        atomic_fetch_add(&it->watched, 1);
    }
    return TR_OK;
}

static tr_err on_batch(tr_ctx *ctx, watcher *self, const Batch *m)
{
    self->left = m->left;
    return next_batch(ctx, self);
}

static tr_err on_one_gone(tr_ctx *ctx, watcher *self, const tr_terminated *m)
{
    (void)m;
    atomic_fetch_add(&self->garden->told, 1);
    TR_ASSERT(ctx, self->waiting > 0);
    return --self->waiting == 0 ? next_batch(ctx, self) : TR_OK;
}

TR_ACTOR(watchers, watcher, TR_ON(Batch, on_batch),
         TR_ON(tr_terminated, on_one_gone));

static void test_each_watch_is_notified_once(void **state)
{
    garden it = {0};
    tr_ref refs[GARDENERS];
    (void)state;
    expect_ok(tr_system_open(&it.sys, .log = no_log, .workers = 2));
    for (int i = 0; i < GARDENERS; i++) {
        refs[i] = tr_spawn(it.sys, watchers, TR_INIT(watchers, .garden = &it),
                           .joinable = true);
        tr_tell(it.sys, refs[i], Batch, .left = stage_scaled(40000));
    }
    for (int i = 0; i < GARDENERS; i++) {
        expect_ok(tr_join(it.sys, refs[i], LONG, NULL, NULL));
    }
    expect_ok(tr_system_close(it.sys, LONG));
    assert_int_equal(it.done, GARDENERS);
    assert_int_equal(it.told, it.watched);
    assert_int_equal(it.started, it.stopped);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_families_start_and_stop_as_often),
        cmocka_unit_test(test_each_watch_is_notified_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
