/*
 * wl_timers.c - timers that are cancelled, as most are, and timers that fire.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "bench.h"

enum { OUTSTANDING = 64 };  // armed timers of each actor at any time
#define FAR_MIN     TR_SECONDS(100)
#define FAR_SPREAD  50000000000  // up to 50 s later: several wheel levels
#define NEAR_SPREAD 1000000      // due within 1 ms, less than arming them takes

TR_MESSAGE(Begin);
TR_MESSAGE(Tick);

typedef struct Clockwork {
    bench *b;
    bool fire;
    _Atomic int64_t running;
} Clockwork;

typedef struct Keeper {
    Clockwork *clockwork;
    uint64_t dice;
    int64_t ticks;
} Keeper;

static void keeper_finished(Clockwork *clockwork)
{
    // Relaxed: only the count matters; bench_end's lock orders the rest.
    if (atomic_fetch_sub_explicit(&clockwork->running, 1,
                                  memory_order_relaxed) == 1)
        bench_end(clockwork->b);
}

static void arm_and_cancel(tr_ctx *ctx, Keeper *self, int64_t count)
{
    tr_timer armed[OUTSTANDING] = {{0}};
    for (int64_t i = 0; i < count + OUTSTANDING; i++) {
        if (i >= OUTSTANDING) tr_cancel(ctx, armed[i % OUTSTANDING]);
        uint64_t more = bench_random(&self->dice) % FAR_SPREAD;
        if (i < count)
            armed[i % OUTSTANDING] =
                tr_after(ctx, FAR_MIN + (tr_nanos)more, Tick);
    }
    keeper_finished(self->clockwork);
}

static void arm_all(tr_ctx *ctx, Keeper *self, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        uint64_t span = bench_random(&self->dice) % NEAR_SPREAD;
        (void)tr_after(ctx, (tr_nanos)span + 1, Tick);
    }
}

static tr_err keeper_begin(tr_ctx *ctx, Keeper *self, const Begin *m)
{
    (void)m;
    if (self->clockwork->fire)
        arm_all(ctx, self, self->clockwork->b->n);
    else
        arm_and_cancel(ctx, self, self->clockwork->b->n);
    return TR_OK;
}

static tr_err keeper_tick(tr_ctx *ctx, Keeper *self, const Tick *m)
{
    (void)ctx, (void)m;
    bench_verify(self->clockwork->fire, "a cancelled timer fired");
    bench_verify(++self->ticks <= self->clockwork->b->n, "timer fired twice");
    if (self->ticks == self->clockwork->b->n) keeper_finished(self->clockwork);
    return TR_OK;
}

TR_ACTOR(keeper, Keeper, TR_ON(Begin, keeper_begin), TR_ON(Tick, keeper_tick));

static double timers(bench *b, bool fire)
{
    b->n = b->n < b->w ? 1 : b->n / b->w;  // from here on: for each actor
    Clockwork clockwork = {.b = b, .fire = fire, .running = b->w};
    tr_ref *all = bench_alloc(b->w, sizeof(*all));
    for (int64_t i = 0; i < b->w; i++)
        all[i] = tr_spawn(b->sys, keeper,
                          TR_INIT(keeper, .clockwork = &clockwork,
                                  .dice = b->seed + (uint64_t)i));
    TR_MUST(tr_started(b->sys, all[b->w - 1], 0));
    bench_begin(b);
    for (int64_t i = 0; i < b->w; i++)
        tr_tell(b->sys, all[i], Begin);
    double seconds = bench_wait(b);
    free(all);
    return (double)b->n * (double)b->w / seconds;
}

static double run_timers(bench *b)
{
    return timers(b, false);
}

static double run_timers_fire(bench *b)
{
    return timers(b, true);
}

const bench_workload bench_timers[] = {
    {"timers", 5000000, 100, "timers/s",
     "W actors arm and cancel N timers, 64 outstanding each", run_timers},
    {"timers_fire", 1000000, 100, "timers/s",
     "W actors arm N timers due within 1 ms, all fire", run_timers_fire},
    {0},
};
