/*
 * life_stress.c - storms of spawning, watching, stopping, restarting.
 *
 * Gardeners grow families, watch each other's children and end them in every
 * way while they work. Each watch must be told of exactly once, each actor
 * that started must stop once, and the system must end clean. Last come random
 * trees, 10 M actors at scale 1, where each message ends in one account.
 */
#include "support/stage.h"

#include <stdatomic.h>
#include <string.h>

#include "base/rand.h"

enum { GARDENERS = 4, CHILDREN = 8, POOL = 64 };

#define LONG TR_MINUTES(10)  // nobody is ended by force, however slow it is

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
    // Ends the leaves, does nothing to the others: what fails is told to.
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

static void test_families_come_and_go(void **state)
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

/* ---- each watch is told of exactly once ---- */

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
        tr_watch(ctx, ref);  // twice is once
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

static void test_each_watch_is_told_of_once(void **state)
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

/* ---- trees under a random driver: every message is accounted for ---- */

enum {
    DRIVERS = 4,
    TREES = 8,    // of one round of a driver
    FAN_MAX = 4,  // children that a node is born with
    DEPTH_MAX = 3,
    JOBS = 6,  // that a driver tells each tree
    ACTORS = 10000000,
};

TR_MESSAGE(Job, (uint64_t, seed), (uint32_t, hops));
TR_MESSAGE(Drive);
TR_MESSAGE(Finish);

/* Written by all nodes of one driver's trees. */
typedef struct ledger {
    _Alignas(64) _Atomic(uint64_t) sent;  // Jobs, by whomever
    _Atomic(uint64_t) done;               // Jobs whose handler returned TR_OK
    _Atomic(uint64_t) failed;             // Jobs whose handler did not
    _Atomic(uint64_t) started, stopped;   // incarnations
    _Atomic(uint64_t) spawned;
    uint64_t watched, told;  // by the driver itself
} ledger;

static void add(_Atomic(uint64_t) *to, uint64_t n)
{
    // Relaxed: sums, read when all actors have ended.
    atomic_fetch_add_explicit(to, n, memory_order_relaxed);
}

typedef struct node {
    ledger *book;
    uint64_t seed;
    uint32_t depth;
} node;

TR_ACTOR_FORWARD(nodes, node);

static void send_job(tr_ctx *ctx, ledger *book, tr_ref to, uint64_t seed,
                     uint32_t hops)
{
    add(&book->sent, 1);
    tr_tell(ctx, to, Job, .seed = seed, .hops = hops);
}

static const tr_supervision *some_policy(tri_rand *rand)
{
    static const tr_supervision policies[] = {
        {.size = sizeof(tr_supervision),
         .on_failure = TR_RESTART,
         .max_restarts = 2,
         .on_limit = TR_STOP,
         .backoff_min = 1,
         .backoff_max = 1000},
        {.size = sizeof(tr_supervision), .on_failure = TR_STOP},
        {.size = sizeof(tr_supervision), .on_failure = TR_RESUME},
        {.size = sizeof(tr_supervision),
         .on_failure = TR_RESTART,
         .max_restarts = 3,
         .on_limit = TR_STOP,
         .backoff_min = 1,
         .backoff_max = 1000,
         .scope = TR_ALL_FOR_ONE},
    };
    return &policies[tri_rand_below(rand, TRI_COUNT_OF(policies))];
}

static tr_ref spawn_node(tr_ctx *ctx, ledger *book, tri_rand *rand,
                         uint32_t depth)
{
    static const tr_overflow overflows[] = {
        TR_OVERFLOW_FAIL, TR_OVERFLOW_DROP_NEW, TR_OVERFLOW_DROP_OLD};
    bool bounded = tri_rand_below(rand, 8) == 0;
    tr_ref ref =
        tr_spawn(ctx, nodes,
                 TR_INIT(nodes, .book = book, .seed = tri_rand_next(rand),
                         .depth = depth),
                 .supervision = some_policy(rand), .stop_timeout = LONG,
                 .drain = tri_rand_below(rand, 4) == 0 ? TR_DRAIN_DROP
                                                       : TR_DRAIN_DEAD_LETTERS,
                 .mailbox_limit = bounded ? 2 : 0,
                 .overflow = overflows[tri_rand_below(rand, 3)]);
    add(&book->spawned, ref.cell != 0);
    return ref;
}

static tr_err node_start(tr_ctx *ctx, node *self)
{
    tri_rand rand;
    tri_rand_init(&rand, self->seed + tr_incarnation(ctx));
    add(&self->book->started, 1);
    (void)tr_alloc(ctx, 48);
    for (uint64_t n = self->depth > 0 ? tri_rand_below(&rand, FAN_MAX + 1) : 0;
         n > 0; n--) {
        tr_ref child = spawn_node(ctx, self->book, &rand, self->depth - 1);
        if (tri_rand_below(&rand, 4) == 0) {
            tr_watch(ctx, child);
        }
    }
    return TR_OK;
}

static tr_err node_stop(tr_ctx *ctx, node *self, tr_reason reason)
{
    (void)ctx;
    (void)reason;
    add(&self->book->stopped, 1);
    return TR_OK;
}

static tr_err node_job(tr_ctx *ctx, node *self, const Job *m)
{
    tri_rand rand;
    tri_rand_init(&rand, m->seed ^ self->seed);
    tr_ref children[FAN_MAX + 4];
    size_t count = tr_children(ctx, children, TRI_COUNT_OF(children));
    count = count < TRI_COUNT_OF(children) ? count : TRI_COUNT_OF(children);
    tr_ref child =
        count > 0 ? children[tri_rand_below(&rand, count)] : tr_self(ctx);
    switch (tri_rand_below(&rand, 16)) {
    case 0:
        add(&self->book->failed, 1);
        return tr_fail(ctx, TR_EUSER, "as told");
    case 1:
        add(&self->book->failed, 1);
        tr_panic(ctx, "as told");
    case 2:
        tr_stop(ctx, child);
        break;
    case 3:
        tr_poison(ctx, child);
        break;
    case 4:
        tr_kill(ctx, child);
        break;
    case 5:
        tr_watch(ctx, child);
        break;
    case 6:
        tr_unwatch(ctx, child);
        break;
    case 7:
        if (self->depth > 0) {
            (void)spawn_node(ctx, self->book, &rand, self->depth - 1);
        }
        break;
    default:
        break;
    }
    for (uint32_t i = 0; m->hops > 0 && i < 2; i++) {
        send_job(ctx, self->book,
                 count > 0 ? children[tri_rand_below(&rand, count)] : child,
                 tri_rand_next(&rand), m->hops - 1);
    }
    add(&self->book->done, 1);
    return TR_OK;
}

static tr_err node_told(tr_ctx *ctx, node *self, const tr_terminated *m)
{
    (void)ctx;
    (void)self;
    (void)m;
    return TR_OK;
}

TR_ACTOR(nodes, node, TR_HOOK(pre_start, node_start),
         TR_HOOK(post_stop, node_stop), TR_ON(Job, node_job),
         TR_ON(tr_terminated, node_told));

typedef struct driver {
    ledger *book;
    uint64_t enough;  // spawned: then it ends
    tri_rand rand;
    tr_ref trees[TREES];
    uint32_t alive;
} driver;

static void end_somehow(tr_ctx *ctx, tri_rand *rand, tr_ref ref)
{
    switch (tri_rand_below(rand, 3)) {
    case 0:
        tr_stop(ctx, ref);
        break;
    case 1:
        tr_kill(ctx, ref);
        break;
    default:
        tr_poison(ctx, ref);
        break;
    }
}

static tr_err on_drive(tr_ctx *ctx, driver *self, const Drive *m)
{
    (void)m;
    // Relaxed: as add.
    if (atomic_load_explicit(&self->book->spawned, memory_order_relaxed) >=
        self->enough) {
        tr_stop(ctx, tr_self(ctx));
        return TR_OK;
    }
    self->alive = TREES;
    for (uint32_t i = 0; i < TREES; i++) {
        tr_ref top = spawn_node(ctx, self->book, &self->rand, DEPTH_MAX);
        self->trees[i] = top;
        bool late = tri_rand_below(&self->rand, 4) == 0;
        if (!late) {
            tr_watch(ctx, top);
        }
        for (int j = 0; j < JOBS; j++) {
            send_job(ctx, self->book, top, tri_rand_next(&self->rand), 3);
        }
        if (tri_rand_below(&self->rand, 4) == 0) {
            end_somehow(ctx, &self->rand, top);  // while it grows
        }
        send_job(ctx, self->book, top, 1, 0);  // may find it ending
        if (late) {
            tr_watch(ctx, top);  // races with the end
        }
        self->book->watched++;
    }
    (void)tr_after(ctx, TR_MS(1), Finish);
    return TR_OK;
}

/* Those that are left; those of the next round, if all had ended. */
static tr_err on_finish(tr_ctx *ctx, driver *self, const Finish *m)
{
    (void)m;
    for (uint32_t i = 0; i < TREES; i++) {
        if (!tr_ref_eq(self->trees[i], TR_NOBODY)) {
            end_somehow(ctx, &self->rand, self->trees[i]);
        }
    }
    return TR_OK;
}

/* Exactly once: each that is told of is one that we still wait for. */
static tr_err on_tree_gone(tr_ctx *ctx, driver *self, const tr_terminated *m)
{
    uint32_t i = 0;
    while (i < TREES && !tr_ref_eq(self->trees[i], m->actor)) {
        i++;
    }
    if (i == TREES || self->alive == 0) {
        tr_abort(TR_HERE, "told of an end that was not watched, or twice");
    }
    self->trees[i] = TR_NOBODY;
    self->book->told++;
    if (--self->alive == 0) {
        tr_tell(ctx, tr_self(ctx), Drive);
    }
    return TR_OK;
}

TR_ACTOR(drivers, driver, TR_ON(Drive, on_drive), TR_ON(Finish, on_finish),
         TR_ON(tr_terminated, on_tree_gone));

static void test_every_message_of_every_tree_is_accounted_for(void **state)
{
    static ledger books[DRIVERS];
    tr_system *sys;
    tr_ref refs[DRIVERS];
    tr_close_report report = {.size = sizeof(report)};
    tr_metrics_snapshot m = {.size = sizeof(m)};
    (void)state;
    memset(books, 0, sizeof(books));
    expect_ok(tr_system_open(&sys, .log = no_log, .workers = 2));
    tr_metrics(sys, &m);
    uint64_t own = m.actors;
    for (uint64_t i = 0; i < DRIVERS; i++) {
        driver first = {.book = &books[i],
                        .enough = stage_scaled(ACTORS) / DRIVERS};
        tri_rand_init(&first.rand, i + 1);
        refs[i] = tr_spawn(sys, drivers, .init = &first,
                           .init_size = sizeof(first), .joinable = true);
        tr_tell(sys, refs[i], Drive);
    }
    for (int i = 0; i < DRIVERS; i++) {
        expect_ok(tr_join(sys, refs[i], TR_FOREVER, NULL, NULL));
    }
    ledger sum = {0};
    for (int i = 0; i < DRIVERS; i++) {
        sum.sent += books[i].sent;
        sum.done += books[i].done;
        sum.failed += books[i].failed;
        sum.started += books[i].started;
        sum.stopped += books[i].stopped;
        sum.spawned += books[i].spawned;
        sum.watched += books[i].watched;
        sum.told += books[i].told;
    }
    tr_metrics(sys, &m);
    expect_ok(tr_system_close_report(sys, LONG, &report));
    print_message(
        "%llu actors, %llu starts, %llu jobs: %llu done, "
        "%llu dead letters (%llu of them failed), %llu dropped\n",
        (unsigned long long)sum.spawned, (unsigned long long)sum.started,
        (unsigned long long)sum.sent, (unsigned long long)sum.done,
        (unsigned long long)report.dead_letters, (unsigned long long)sum.failed,
        (unsigned long long)m.dropped);
    // A failed one becomes a dead letter as well, so each is in one of three.
    assert_int_equal(sum.sent, sum.done + report.dead_letters + m.dropped);
    assert_true(sum.failed <= report.dead_letters);
    assert_int_equal(sum.watched, sum.told);
    assert_int_equal(sum.started, sum.stopped);
    assert_true(m.restarts > 0 && m.dropped > 0);
    assert_true(m.actors <= own + DRIVERS);  // those who were joined just now
    assert_int_equal(report.forced, 0);
    assert_int_equal(report.zombies, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_families_come_and_go),
        cmocka_unit_test(test_each_watch_is_told_of_once),
        cmocka_unit_test(test_every_message_of_every_tree_is_accounted_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
