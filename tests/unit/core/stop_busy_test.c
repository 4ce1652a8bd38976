/*
 * stop_busy_test.c - who stops among the busy does not come last.
 *
 * Turns are counted, so all take their turns on one thread, which no helper
 * joins while the machine lets it wait: that of "concurrent".
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <troupe/troupe.h>

enum { CHILDREN = 200, TURNS_MAX = 1000 };

TR_MESSAGE(Ball);
TR_MESSAGE(Breed);

typedef struct count {
    _Atomic(uint64_t) turns;  // of the busy
    _Atomic(uint64_t) over;   // what it was when the parent had ended
    _Atomic(uint32_t) forced, started;
    _Atomic(bool) enough;
} count;

typedef struct Player {
    count *count;
    tr_ref other;
} Player;

/* Each turn of these two is one message. */
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

/* The last to start stops them all. */
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

TR_ACTOR(child, Relative, TR_HOOK(post_start, child_starts),
         TR_HOOK(post_stop, child_ends));

static tr_err on_breed(tr_ctx *ctx, Relative *self, const Breed *m)
{
    (void)m;
    for (int i = 0; i < CHILDREN; i++) {
        tr_spawn(ctx, child, .dispatcher = "concurrent",
                 .stop_timeout = TR_MINUTES(1),
                 TR_INIT(child, .count = self->count));
    }
    return TR_OK;
}

static tr_err parent_stops(tr_ctx *ctx, Relative *self)
{
    (void)ctx;
    // Relaxed: as above. The children are stopped from here on.
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

/* K7, K12: the time of a family that stops is its own, not the others'. */
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
        cmocka_unit_test(test_K7_K12_a_family_stops_among_busy_actors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
