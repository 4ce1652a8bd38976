/*
 * wl_cpu.c - handlers that compute: what a second worker gains.
 *
 * One foreman spawns and starts all actors, so the work begins on one worker
 * and must be spread by the scheduler. Each handler runs a busy loop that was
 * calibrated before, then sends its actor the next message.
 */
#include <stdatomic.h>
#include <stdio.h>

#include "bench.h"

enum { CALIBRATIONS = 7, CALIBRATION_LOOPS = 2000000 };

TR_MESSAGE(Begin);
TR_MESSAGE(Compute, (int64_t, left));

typedef struct Site {
    bench *b;
    uint64_t loops;  // of the busy loop, per handler
    _Atomic int64_t running;
} Site;

typedef struct Worker {
    Site *site;
} Worker;

/* Runs a chain of dependent steps that the compiler must not shorten. */
static void busy(uint64_t loops)
{
    uint64_t x = UINT64_C(88172645463325252);
    for (uint64_t i = 0; i < loops; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        __asm__ volatile("" : "+r"(x));
    }
}

/*
 * Returns how many loops take `seconds` on an undisturbed core: the best of
 * several.
 */
static uint64_t calibrate(double seconds)
{
    double best = 1e9;
    for (int i = 0; i < CALIBRATIONS; i++) {
        double begin = bench_now();
        busy(CALIBRATION_LOOPS);
        double took = bench_now() - begin;
        best = took < best ? took : best;
    }
    return (uint64_t)(seconds / best * CALIBRATION_LOOPS);
}

static tr_err worker_compute(tr_ctx *ctx, Worker *self, const Compute *m)
{
    Site *site = self->site;
    busy(site->loops);
    if (m->left > 1) tr_tell(ctx, tr_self(ctx), Compute, .left = m->left - 1);
    // Relaxed: only the count matters; bench_end's lock orders the rest.
    else if (atomic_fetch_sub_explicit(&site->running, 1,
                                       memory_order_relaxed) == 1)
        bench_end(site->b);
    return TR_OK;
}

TR_ACTOR(worker, Worker, TR_ON(Compute, worker_compute));

static tr_err foreman_begin(tr_ctx *ctx, Worker *self, const Begin *m)
{
    (void)m;
    Site *site = self->site;
    bench_begin(site->b);
    for (int64_t i = 0; i < site->b->w; i++) {
        tr_ref ref = tr_spawn(ctx, worker, TR_INIT(worker, .site = site));
        tr_tell(ctx, ref, Compute, .left = site->b->n);
    }
    return TR_OK;
}

TR_ACTOR(foreman, Worker, TR_ON(Begin, foreman_begin));

static double compute(bench *b, double seconds_each)
{
    b->n = b->n < b->w ? 1 : b->n / b->w;  // from here on: for each actor
    Site site = {.b = b, .loops = calibrate(seconds_each), .running = b->w};
    tr_ref ref = tr_spawn(b->sys, foreman, TR_INIT(foreman, .site = &site));
    tr_tell(b->sys, ref, Begin);
    double seconds = bench_wait(b);
    double handlers = (double)b->n * (double)b->w;
    fprintf(stderr, "# loops %llu cores_used %.3f\n",
            (unsigned long long)site.loops, handlers * seconds_each / seconds);
    return handlers / seconds;
}

static double run_cpu_1us(bench *b)
{
    return compute(b, 1e-6);
}

static double run_cpu_10us(bench *b)
{
    return compute(b, 10e-6);
}

const bench_workload bench_cpu[] = {
    {"cpu_1us", 1000000, 64, "handlers/s",
     "W actors run N handlers of 1 us of CPU", run_cpu_1us},
    {"cpu_10us", 100000, 64, "handlers/s",
     "W actors run N handlers of 10 us of CPU", run_cpu_10us},
    {0},
};
