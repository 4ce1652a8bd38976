/*
 * wl_crowds.c - a million actors: their cost when idle, what they cost the
 * active ones, and messages to random ones.
 *
 * The messages are walkers: a message goes to a random member of the crowd, and
 * on from there, until its hops are used up.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"

enum {
    IDLE_COUNT = 1000000,  // around the active ones; multiplied by --scale
    ROUNDS = 9,            // interleaved pairs of active_among_idle
    WALKERS = 1000,        // messages in flight of random_1m
    CACHE_LINE = 64,
};
#define SETTLE_SECONDS 1.0  // before memory is read, as in the peers' programs

TR_MESSAGE(Increment, (int64_t, by));
TR_MESSAGE(Hop, (uint64_t, dice), (int64_t, left));

typedef struct Crowd {
    bench *b;
    tr_ref *all;
    uint64_t count;
    _Atomic int64_t greeted;  // members that have handled an Increment
    _Atomic int64_t walking;  // walkers under way
} Crowd;

typedef struct Member {
    Crowd *crowd;
    int64_t seen;
} Member;

static tr_err member_increment(tr_ctx *ctx, Member *self, const Increment *m)
{
    (void)ctx;
    self->seen += m->by;
    // Relaxed: greet only counts; it publishes no other memory.
    atomic_fetch_add_explicit(&self->crowd->greeted, 1, memory_order_relaxed);
    return TR_OK;
}

static tr_err member_hop(tr_ctx *ctx, Member *self, const Hop *m)
{
    Crowd *crowd = self->crowd;
    self->seen++;
    if (m->left > 0) {
        uint64_t dice = m->dice;
        uint64_t to = bench_below(bench_random(&dice), crowd->count);
        tr_tell(ctx, crowd->all[to], Hop, .dice = dice, .left = m->left - 1);
        // Relaxed: only the count matters; bench_end's lock orders the rest.
    } else if (atomic_fetch_sub_explicit(&crowd->walking, 1,
                                         memory_order_relaxed) == 1) {
        bench_end(crowd->b);
    }
    return TR_OK;
}

TR_ACTOR(member, Member, TR_ON(Increment, member_increment),
         TR_ON(Hop, member_hop));

/* Spawns members into all[0..count) and waits until each has had a message. */
static void greet(Crowd *crowd, tr_system *sys, tr_ref *all, int64_t count)
{
    // Relaxed, here and below: a counter, see member_increment.
    int64_t before =
        atomic_load_explicit(&crowd->greeted, memory_order_relaxed);
    for (int64_t i = 0; i < count; i++) {
        all[i] = tr_spawn(sys, member, TR_INIT(member, .crowd = crowd));
        tr_tell(sys, all[i], Increment, .by = 1);
    }
    while (atomic_load_explicit(&crowd->greeted, memory_order_relaxed) !=
           before + count)
        bench_sleep(1e-3);
}

/* Sends the walkers and returns the seconds until the last has arrived. */
static double walk(Crowd *crowd, tr_system *sys, int64_t walkers, int64_t hops)
{
    uint64_t dice = crowd->b->seed;
    // Relaxed: the tells below publish it to the handlers.
    atomic_store_explicit(&crowd->walking, walkers, memory_order_relaxed);
    bench_begin(crowd->b);
    for (int64_t i = 0; i < walkers; i++) {
        uint64_t start = bench_random(&dice);
        tr_tell(sys, crowd->all[bench_below(start, crowd->count)], Hop,
                .dice = start, .left = hops / walkers);
    }
    return bench_wait(crowd->b);
}

/* ---- idle_mem ---- */

static double run_idle_mem(bench *b)
{
    Crowd crowd = {.b = b, .count = (uint64_t)b->n};
    crowd.all = bench_alloc(b->n, sizeof(tr_ref));
    for (int64_t i = 0; i < b->n; i++)
        crowd.all[i].id = 1;  // touched: the table is not the actors' memory
    int64_t before = bench_rss();
    greet(&crowd, b->sys, crowd.all, b->n);
    bench_sleep(SETTLE_SECONDS);
    double each = (double)(bench_rss() - before) / (double)b->n;
    free(crowd.all);
    return each;
}

/* ---- active_among_idle: two systems, so that the rounds interleave ---- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t count)
{
    qsort(values, count, sizeof(*values), by_value);
    return values[count / 2];
}

/* The members of *crowd are spread evenly among the idle ones around them. */
static void settle_among(Crowd *crowd, Crowd *idle, tr_system *sys)
{
    int64_t between =
        (int64_t)(IDLE_COUNT * crowd->b->scale) / (int64_t)crowd->count;
    between = between < 1 ? 1 : between;
    tr_ref *neighbours = bench_alloc(between, sizeof(*neighbours));
    for (uint64_t i = 0; i < crowd->count; i++) {
        greet(crowd, sys, &crowd->all[i], 1);
        greet(idle, sys, neighbours, between);
    }
    free(neighbours);
}

static double run_active_among_idle(bench *b)
{
    uint64_t count = (uint64_t)b->w;
    Crowd alone = {.b = b, .count = count};
    Crowd among = {.b = b, .count = count};
    Crowd idle = {.b = b};
    alone.all = bench_alloc(b->w, sizeof(tr_ref));
    among.all = bench_alloc(b->w, sizeof(tr_ref));
    tr_system *other = bench_open(b);
    greet(&alone, other, alone.all, b->w);
    settle_among(&among, &idle, b->sys);
    double ratio[ROUNDS], ns_alone[ROUNDS], ns_among[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        double per_hop = 1e9 / (double)b->n;
        ns_alone[i] = walk(&alone, other, b->w, b->n) * per_hop;
        ns_among[i] = walk(&among, b->sys, b->w, b->n) * per_hop;
        ratio[i] = ns_among[i] / ns_alone[i];
    }
    fprintf(stderr, "# alone_ns %.2f among_idle_ns %.2f\n",
            median(ns_alone, ROUNDS), median(ns_among, ROUNDS));
    TR_MUST(tr_system_close(other, TR_SECONDS(60)));
    free(alone.all);
    free(among.all);
    return median(ratio, ROUNDS);
}

/* ---- random_1m, and the cost of the memory alone ---- */

typedef struct Line {
    _Alignas(CACHE_LINE) uint64_t value;
} Line;

typedef struct Lines {  // three tables of one cache line per actor
    Line *table[3];
    uint64_t count;
} Lines;

static Lines lines_new(uint64_t count)
{
    Lines lines = {.count = count};
    for (int t = 0; t < 3; t++) {
        Line *table = aligned_alloc(CACHE_LINE, count * sizeof(Line));
        if (table == NULL) tr_abort(TR_HERE, "out of memory");
        for (uint64_t i = 0; i < count; i++)
            table[i].value = 0;
        lines.table[t] = table;
    }
    return lines;
}

static void lines_free(Lines *lines)
{
    for (int t = 0; t < 3; t++)
        free(lines->table[t]);
}

/*
 * Returns nanoseconds per message if three cache lines are touched
 * independently.
 */
static double touch_independent(Lines *lines, int64_t n)
{
    uint64_t dice = 1;
    double begin = bench_now();
    for (int64_t i = 0; i < n; i++)
        for (int t = 0; t < 3; t++) {
            uint64_t at = bench_below(bench_random(&dice), lines->count);
            lines->table[t][at].value++;
        }
    return (bench_now() - begin) / (double)n * 1e9;
}

/*
 * Returns the same if each line has the address of the next one, as a ref has.
 */
static double touch_dependent(Lines *lines, int64_t n)
{
    uint64_t dice = 1;
    double begin = bench_now();
    for (int64_t i = 0; i < n; i++)
        for (int t = 0; t < 3; t++) {
            uint64_t at = bench_below(bench_random(&dice), lines->count);
            dice += lines->table[t][at].value++;
        }
    return (bench_now() - begin) / (double)n * 1e9;
}

static double raw_random(uint64_t count, int64_t n)
{
    Lines lines = lines_new(count);
    double independent = touch_independent(&lines, n);
    double dependent = touch_dependent(&lines, n);
    fprintf(stderr, "# raw_independent_ns %.2f raw_dependent_ns %.2f\n",
            independent, dependent);
    lines_free(&lines);
    return independent;
}

static double run_random_1m(bench *b)
{
    Crowd crowd = {.b = b, .count = (uint64_t)b->w};
    crowd.all = bench_alloc(b->w, sizeof(tr_ref));
    greet(&crowd, b->sys, crowd.all, b->w);
    int64_t walkers = b->n < WALKERS ? 1 : WALKERS;
    double ns = walk(&crowd, b->sys, walkers, b->n) / (double)b->n * 1e9;
    double raw = raw_random(crowd.count, b->n);
    fprintf(stderr, "# ratio_to_raw %.3f\n", ns / raw);
    free(crowd.all);
    return ns;
}

static double run_raw_random_1m(bench *b)
{
    return raw_random((uint64_t)b->w, b->n);
}

const bench_workload bench_crowds[] = {
    {"idle_mem", 1000000, 1, "B/actor",
     "resident memory of N idle actors (lower)", run_idle_mem},
    {"active_among_idle", 2000000, 100, "x",
     "W active among 1M x scale idle, against W alone (lower)",
     run_active_among_idle},
    {"random_1m", 10000000, 1000000, "ns",
     "N messages to random ones of W actors (lower)", run_random_1m},
    {"raw_random_1m", 10000000, 1000000, "ns",
     "a C loop that touches 3 random lines of W (lower)", run_raw_random_1m},
    {0},
};
