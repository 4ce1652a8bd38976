/*
 * tree_stress.c - random trees of actors: every message is accounted for.
 *
 * Drivers spawn trees, 10 million actors at scale 1, send jobs into them and
 * end them at random moments. Every job is handled, dropped by a bounded
 * mailbox, or a dead letter; every watch is notified once; every start has a
 * stop.
 */
#include "support/stage.h"

#include <stdatomic.h>
#include <string.h>

#include "base/check.h"
#include "base/rand.h"

#define LONG TR_MINUTES(10)  // so that no actor is ended by force, however slow

enum {
    DRIVERS = 4,
    TREES = 8,    // that a driver spawns in one round
    FAN_MAX = 4,  // most children that a branch starts with
    DEPTH_MAX = 3,
    JOBS = 6,  // that a driver sends to each tree
    ACTORS = 10000000,
};

TR_MESSAGE(Job, (uint64_t, seed), (uint32_t, hops));
TR_MESSAGE(Drive);
TR_MESSAGE(Finish);

/* The counts of one driver and its trees. */
typedef struct ledger {
    _Alignas(64) _Atomic(uint64_t) sent;  // Jobs
    _Atomic(uint64_t) done;               // Jobs whose handler returned TR_OK
    _Atomic(uint64_t) failed;             // Jobs whose handler did not
    _Atomic(uint64_t) started, stopped;   // incarnations
    _Atomic(uint64_t) spawned;
    uint64_t watched, notified;  // written by the driver
} ledger;

static void add(_Atomic(uint64_t) *to, uint64_t n)
{
    // Relaxed: sums, read when all actors have ended.
    atomic_fetch_add_explicit(to, n, memory_order_relaxed);
}

static void no_log(void *user, const tr_log_record *record)
{
    (void)user;
    (void)record;
}

typedef struct branch {
    ledger *book;
    uint64_t seed;
    uint32_t depth;
} branch;

TR_ACTOR_FORWARD(branches, branch);

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

static tr_ref spawn_branch(tr_ctx *ctx, ledger *book, tri_rand *rand,
                           uint32_t depth)
{
    static const tr_overflow overflows[] = {
        TR_OVERFLOW_FAIL, TR_OVERFLOW_DROP_NEW, TR_OVERFLOW_DROP_OLD};
    bool bounded = tri_rand_below(rand, 8) == 0;
    tr_ref ref =
        tr_spawn(ctx, branches,
                 TR_INIT(branches, .book = book, .seed = tri_rand_next(rand),
                         .depth = depth),
                 .supervision = some_policy(rand), .stop_timeout = LONG,
                 .drain = tri_rand_below(rand, 4) == 0 ? TR_DRAIN_DROP
                                                       : TR_DRAIN_DEAD_LETTERS,
                 .mailbox_limit = bounded ? 2 : 0,
                 .overflow = overflows[tri_rand_below(rand, 3)]);
    add(&book->spawned, ref.cell != 0);
    return ref;
}

static tr_err branch_start(tr_ctx *ctx, branch *self)
{
    tri_rand rand;
    tri_rand_init(&rand, self->seed + tr_incarnation(ctx));
    add(&self->book->started, 1);
    (void)tr_alloc(ctx, 48);
    for (uint64_t n = self->depth > 0 ? tri_rand_below(&rand, FAN_MAX + 1) : 0;
         n > 0; n--) {
        tr_ref child = spawn_branch(ctx, self->book, &rand, self->depth - 1);
        if (tri_rand_below(&rand, 4) == 0) {
            tr_watch(ctx, child);
        }
    }
    return TR_OK;
}

static tr_err branch_stop(tr_ctx *ctx, branch *self, tr_reason reason)
{
    (void)ctx;
    (void)reason;
    add(&self->book->stopped, 1);
    return TR_OK;
}

static tr_err branch_job(tr_ctx *ctx, branch *self, const Job *m)
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
            (void)spawn_branch(ctx, self->book, &rand, self->depth - 1);
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

static tr_err branch_terminated(tr_ctx *ctx, branch *self,
                                const tr_terminated *m)
{
    (void)ctx;
    (void)self;
    (void)m;
    return TR_OK;
}

TR_ACTOR(branches, branch, TR_HOOK(pre_start, branch_start),
         TR_HOOK(post_stop, branch_stop), TR_ON(Job, branch_job),
         TR_ON(tr_terminated, branch_terminated));

typedef struct driver {
    ledger *book;
    uint64_t enough;  // actors spawned: then the driver ends
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
    // Relaxed: as in add.
    if (atomic_load_explicit(&self->book->spawned, memory_order_relaxed) >=
        self->enough) {
        tr_stop(ctx, tr_self(ctx));
        return TR_OK;
    }
    self->alive = TREES;
    for (uint32_t i = 0; i < TREES; i++) {
        tr_ref top = spawn_branch(ctx, self->book, &self->rand, DEPTH_MAX);
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

/* Ends the trees that are left, perhaps those of the next round already. */
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

/* Checks that the end was not reported before. */
static tr_err on_tree_gone(tr_ctx *ctx, driver *self, const tr_terminated *m)
{
    uint32_t i = 0;
    while (i < TREES && !tr_ref_eq(self->trees[i], m->actor)) {
        i++;
    }
    if (i == TREES || self->alive == 0) {
        tr_abort(TR_HERE, "an end was reported twice, or was not watched");
    }
    self->trees[i] = TR_NOBODY;
    self->book->notified++;
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
        sum.notified += books[i].notified;
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
    // A failed Job is also a dead letter: each Job is in one of three sums.
    assert_int_equal(sum.sent, sum.done + report.dead_letters + m.dropped);
    assert_true(sum.failed <= report.dead_letters);
    assert_int_equal(sum.watched, sum.notified);
    assert_int_equal(sum.started, sum.stopped);
    assert_true(m.restarts > 0 && m.dropped > 0);
    assert_true(m.actors <= own + DRIVERS);  // the drivers may not be freed yet
    assert_int_equal(report.forced, 0);
    assert_int_equal(report.zombies, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_message_of_every_tree_is_accounted_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
