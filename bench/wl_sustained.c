/*
 * wl_sustained.c - everything at once for a given time: memory must not grow.
 *
 * Walkers cross a crowd of actors, a gardener spawns and ends actors, a client
 * asks and waits, an alarm ticks. The main thread reads the resident memory
 * while they run, then sets `over`, and every part ends.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"

enum { WALKERS = 200, BRANCHES = 64, SAMPLES = 60 };
#define FIRST_SHARE 0.1  // of the run, before growth is counted

TR_MESSAGE(Begin);
TR_MESSAGE(Step, (uint64_t, dice), (int64_t, hops));
TR_MESSAGE(Home, (int64_t, hops));
TR_MESSAGE(Tick);
TR_MESSAGE(Answer, (int64_t, value));
TR_REQUEST(Question, Answer, (int64_t, value));

typedef struct Load {
    bench *b;
    tr_ref *all;
    tr_ref home;
    _Atomic bool over;
    _Atomic int64_t ends;  // of actors
    _Atomic int64_t asks;
    _Atomic int64_t ticks;
    _Atomic int64_t parts;  // that have not ended
} Load;

typedef struct Part {
    Load *load;
    int64_t seen;
} Part;

static bool is_over(const Load *load)
{
    // Relaxed: a hint to end; it publishes nothing else.
    return atomic_load_explicit(&load->over, memory_order_relaxed);
}

static void count_one(_Atomic int64_t *counter)
{
    // Relaxed: a figure for the report.
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

static int64_t figure(const _Atomic int64_t *counter)
{
    // Relaxed: as in count_one.
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static void part_home(Load *load)
{
    // Acquire and release: the last part to end sees what the others wrote.
    if (atomic_fetch_sub_explicit(&load->parts, 1, memory_order_acq_rel) == 1)
        bench_end(load->b);
}

/* ---- walkers ---- */

static tr_err walk_step(tr_ctx *ctx, Part *self, const Step *m)
{
    Load *load = self->load;
    self->seen++;
    uint64_t dice = m->dice;
    uint64_t to = bench_below(bench_random(&dice), (uint64_t)load->b->w);
    if (is_over(load))
        tr_tell(ctx, load->home, Home, .hops = m->hops + 1);
    else
        tr_tell(ctx, load->all[to], Step, .dice = dice, .hops = m->hops + 1);
    return TR_OK;
}

TR_ACTOR(walked, Part, TR_ON(Step, walk_step));

typedef struct Inn {
    Load *load;
    int64_t arrived;
    int64_t hops;
} Inn;

static tr_err inn_home(tr_ctx *ctx, Inn *self, const Home *m)
{
    (void)ctx;
    self->hops += m->hops;
    if (++self->arrived == WALKERS) {
        self->load->b->n = self->hops;
        part_home(self->load);
    }
    return TR_OK;
}

TR_ACTOR(inn, Inn, TR_ON(Home, inn_home));

/* ---- actors that are spawned and end ---- */

static tr_err leaf_begin(tr_ctx *ctx, Part *self, const Begin *m)
{
    (void)m;
    count_one(&self->load->ends);
    tr_tell(ctx, tr_parent(ctx), Home, .hops = 1);
    tr_stop(ctx, tr_self(ctx));
    return TR_OK;
}

TR_ACTOR(leaf, Part, TR_ON(Begin, leaf_begin));

static tr_err gardener_begin(tr_ctx *ctx, Part *self, const Begin *m)
{
    (void)m;
    for (int i = 0; i < BRANCHES; i++) {
        tr_ref ref = tr_spawn(ctx, leaf, TR_INIT(leaf, .load = self->load));
        tr_tell(ctx, ref, Begin);
    }
    return TR_OK;
}

static tr_err gardener_home(tr_ctx *ctx, Part *self, const Home *m)
{
    self->seen += m->hops;
    if (self->seen % BRANCHES != 0) return TR_OK;
    if (is_over(self->load))
        part_home(self->load);
    else
        tr_tell(ctx, tr_self(ctx), Begin);
    return TR_OK;
}

TR_ACTOR(gardener, Part, TR_ON(Begin, gardener_begin),
         TR_ON(Home, gardener_home));

/* ---- a client that waits, an alarm that ticks ---- */

static tr_err oracle_question(tr_ctx *ctx, Part *self, const Question *m)
{
    self->seen++;
    return tr_reply(ctx, m, .value = m->value + 1);
}

TR_ACTOR(oracle, Part, TR_ON(Question, oracle_question));

static tr_err client_begin(tr_ctx *ctx, Part *self, const Begin *m)
{
    (void)m;
    Load *load = self->load;
    tr_ref to = tr_spawn(ctx, oracle, TR_INIT(oracle, .load = load));
    for (int64_t i = 0; !is_over(load); i++) {
        Answer answer;
        TR_MUST(tr_ask(ctx, to, &answer, 0, Question, .value = i));
        bench_verify(answer.value == i + 1, "answer");
        count_one(&load->asks);
    }
    part_home(load);
    return TR_OK;
}

TR_ACTOR(client, Part, TR_ON(Begin, client_begin));

static tr_err alarm_begin(tr_ctx *ctx, Part *self, const Begin *m)
{
    (void)self, (void)m;
    (void)tr_every(ctx, TR_MS(1), Tick);
    return TR_OK;
}

static tr_err alarm_tick(tr_ctx *ctx, Part *self, const Tick *m)
{
    (void)m;
    count_one(&self->load->ticks);
    if (is_over(self->load)) {
        part_home(self->load);
        tr_stop(ctx, tr_self(ctx));
    }
    return TR_OK;
}

TR_ACTOR(alarm_clock, Part, TR_ON(Begin, alarm_begin), TR_ON(Tick, alarm_tick));

/* ---- the run ---- */

static void start_all(Load *load, tr_system *sys)
{
    bench *b = load->b;
    uint64_t dice = b->seed;
    load->home = tr_spawn(sys, inn, TR_INIT(inn, .load = load));
    for (int64_t i = 0; i < b->w; i++)
        load->all[i] = tr_spawn(sys, walked, TR_INIT(walked, .load = load));
    tr_ref parts[] = {
        tr_spawn(sys, gardener, TR_INIT(gardener, .load = load)),
        tr_spawn(sys, client, TR_INIT(client, .load = load)),
        tr_spawn(sys, alarm_clock, TR_INIT(alarm_clock, .load = load)),
    };
    bench_begin(b);
    for (int i = 0; i < WALKERS; i++)
        tr_tell(sys, load->all[i % b->w], Step, .dice = bench_random(&dice));
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        tr_tell(sys, parts[i], Begin);
}

/* Reports memory over time; growth is counted after FIRST_SHARE of the run. */
static void watch_memory(const Load *load, double seconds)
{
    double step = seconds / SAMPLES, begin = bench_now();
    double settled = 0, last = 0;
    for (int i = 1; i <= SAMPLES; i++) {
        bench_sleep(step);
        double at = bench_now() - begin;
        last = (double)bench_rss() / 1048576;
        if (settled == 0 && at >= FIRST_SHARE * seconds) settled = last;
        fprintf(stderr, "# t %.1f rss_mb %.2f ends %lld asks %lld ticks %lld\n",
                at, last, (long long)figure(&load->ends),
                (long long)figure(&load->asks),
                (long long)figure(&load->ticks));
    }
    fprintf(stderr, "# rss_growth %.4f\n", last / settled);
}

static double run_sustained(bench *b)
{
    Load load = {.b = b, .parts = 4};
    load.all = bench_alloc(b->w, sizeof(tr_ref));
    start_all(&load, b->sys);
    watch_memory(&load, b->seconds);
    // Relaxed: see is_over.
    atomic_store_explicit(&load.over, true, memory_order_relaxed);
    double seconds = bench_wait(b);
    bench_verify(figure(&load.ends) % BRANCHES == 0, "ends of actors");
    bench_verify(figure(&load.asks) > 0, "asks");
    bench_verify(figure(&load.ticks) > 0, "ticks");
    free(load.all);
    return (double)b->n / seconds;
}

const bench_workload bench_sustained[] = {
    {"sustained", 1, 1000, "hops/s",
     "all kinds of work for --seconds S, memory over time", run_sustained},
    {0},
};
