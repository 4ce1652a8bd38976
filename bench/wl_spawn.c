/*
 * wl_spawn.c - actors that are spawned and end.
 *
 * fork_join_create and skynet use ordinary children: spawned with tr_spawn from
 * a handler, given one message, ended by tr_stop on themselves.
 */
#include <stdatomic.h>
#include <stdio.h>

#include "bench.h"

TR_MESSAGE(Begin);
TR_MESSAGE(Work, (int64_t, i));
TR_MESSAGE(Branch, (int64_t, first), (int64_t, size));
TR_MESSAGE(Sum, (int64_t, value));

/* ---- fork_join_create: N actors, one message each ---- */

typedef struct Fork {
    bench *b;
    _Atomic int64_t handled;
    _Atomic int64_t sum;
} Fork;

typedef struct Short {
    Fork *fork;
} Short;

static tr_err short_work(tr_ctx *ctx, Short *self, const Work *m)
{
    Fork *fork = self->fork;
    // Relaxed: the sum is read after the last handled, which acquires.
    atomic_fetch_add_explicit(&fork->sum, m->i, memory_order_relaxed);
    // Acquire and release: the last one sees every other's addition to sum.
    int64_t before =
        atomic_fetch_add_explicit(&fork->handled, 1, memory_order_acq_rel);
    if (before + 1 == fork->b->n) bench_end(fork->b);
    tr_stop(ctx, tr_self(ctx));
    return TR_OK;
}

TR_ACTOR(short_lived, Short, TR_ON(Work, short_work));

static tr_err forker_begin(tr_ctx *ctx, Short *self, const Begin *m)
{
    (void)m;
    Fork *fork = self->fork;
    bench_begin(fork->b);
    for (int64_t i = 0; i < fork->b->n; i++) {
        tr_ref child =
            tr_spawn(ctx, short_lived, TR_INIT(short_lived, .fork = fork));
        tr_tell(ctx, child, Work, .i = i);
    }
    return TR_OK;
}

TR_ACTOR(forker, Short, TR_ON(Begin, forker_begin));

static double run_fork_join_create(bench *b)
{
    Fork fork = {.b = b};
    tr_ref master = tr_spawn(b->sys, forker, .joinable = true,
                             TR_INIT(forker, .fork = &fork));
    tr_tell(b->sys, master, Begin);
    double seconds = bench_wait(b);
    // Relaxed: bench_wait's lock orders it after the last handler.
    int64_t sum = atomic_load_explicit(&fork.sum, memory_order_relaxed);
    bench_verify(sum == b->n * (b->n - 1) / 2, "sum of fork_join_create");
    double handled = bench_now();
    tr_stop(b->sys, master);
    TR_MUST(tr_join(b->sys, master, TR_SECONDS(60), NULL, NULL));
    fprintf(stderr, "# ended_ms %.3f after the last message\n",
            (bench_now() - handled) * 1e3);
    return (double)b->n / seconds;
}

/* ---- skynet: a tree of ten children per level, sums come back ---- */

enum { SKYNET_CHILDREN = 10 };

typedef struct Node {
    int64_t sum;
    int64_t left;
} Node;

TR_ACTOR_FORWARD(node, Node);

static tr_err report_and_end(tr_ctx *ctx, int64_t value)
{
    tr_tell(ctx, tr_parent(ctx), Sum, .value = value);
    tr_stop(ctx, tr_self(ctx));
    return TR_OK;
}

static tr_err node_branch(tr_ctx *ctx, Node *self, const Branch *m)
{
    if (m->size == 1) return report_and_end(ctx, m->first);
    int64_t part = m->size / SKYNET_CHILDREN;
    self->left = SKYNET_CHILDREN;
    for (int64_t i = 0; i < SKYNET_CHILDREN; i++) {
        tr_ref child = tr_spawn(ctx, node);
        tr_tell(ctx, child, Branch, .first = m->first + i * part, .size = part);
    }
    return TR_OK;
}

static tr_err node_sum(tr_ctx *ctx, Node *self, const Sum *m)
{
    self->sum += m->value;
    return --self->left == 0 ? report_and_end(ctx, self->sum) : TR_OK;
}

TR_ACTOR(node, Node, TR_ON(Branch, node_branch), TR_ON(Sum, node_sum));

typedef struct Root {
    bench *b;
} Root;

static tr_err root_begin(tr_ctx *ctx, Root *self, const Begin *m)
{
    (void)m;
    bench_begin(self->b);
    tr_ref top = tr_spawn(ctx, node);
    tr_tell(ctx, top, Branch, .first = 0, .size = self->b->n);
    return TR_OK;
}

static tr_err root_sum(tr_ctx *ctx, Root *self, const Sum *m)
{
    (void)ctx;
    int64_t n = self->b->n;
    bench_end(self->b);
    bench_verify(m->value == n * (n - 1) / 2, "sum of skynet");
    return TR_OK;
}

TR_ACTOR(root, Root, TR_ON(Begin, root_begin), TR_ON(Sum, root_sum));

static double run_skynet(bench *b)
{
    int64_t leaves = 1;  // the tree is full: the next power of ten at most N
    while (leaves * SKYNET_CHILDREN <= b->n)
        leaves *= SKYNET_CHILDREN;
    b->n = leaves;
    tr_ref top = tr_spawn(b->sys, root, TR_INIT(root, .b = b));
    tr_tell(b->sys, top, Begin);
    return bench_wait(b) * 1e3;
}

/* ---- spawn: idle actors, made in one handler ---- */

typedef struct Maker {
    bench *b;
    tr_ref last;
} Maker;

static tr_err silent_work(tr_ctx *ctx, Node *self, const Work *m)
{
    (void)ctx;
    self->sum += m->i;
    return TR_OK;
}

TR_ACTOR(silent, Node, TR_ON(Work, silent_work));

static tr_err maker_begin(tr_ctx *ctx, Maker *self, const Begin *m)
{
    (void)m;
    int64_t made = 0;
    bench_begin(self->b);
    for (int64_t i = 0; i < self->b->n; i++) {
        self->last = tr_spawn(ctx, silent);
        made += tr_ref_err(self->last) == TR_OK;
    }
    bench_end(self->b);
    bench_verify(made == self->b->n, "spawned actors");
    return TR_OK;
}

TR_ACTOR(maker, Maker, TR_ON(Begin, maker_begin));

static double run_spawn(bench *b)
{
    tr_ref ref = tr_spawn(b->sys, maker, TR_INIT(maker, .b = b));
    tr_tell(b->sys, ref, Begin);
    return (double)b->n / bench_wait(b);
}

/* ---- tree_stop: N actors in a tree, ended by one tr_stop at its top ---- */

enum { TREE_CHILDREN = 10 };

typedef struct Tree {
    bench *b;
    _Atomic int64_t grown;
} Tree;

typedef struct Twig {
    Tree *tree;
} Twig;

TR_ACTOR_FORWARD(twig, Twig);

/* Spawns the descendants: size - 1 actors below this one, in equal parts. */
static tr_err twig_grow(tr_ctx *ctx, Twig *self, const Branch *m)
{
    int64_t left = m->size - 1;
    for (int64_t i = TREE_CHILDREN; i > 0 && left > 0; i--) {
        int64_t part = (left + i - 1) / i;
        tr_ref child = tr_spawn(ctx, twig, TR_INIT(twig, .tree = self->tree));
        tr_tell(ctx, child, Branch, .size = part);
        left -= part;
    }
    // Relaxed: the waiting thread is woken under a lock.
    int64_t before =
        atomic_fetch_add_explicit(&self->tree->grown, 1, memory_order_relaxed);
    if (before + 1 == self->tree->b->n) bench_end(self->tree->b);
    return TR_OK;
}

TR_ACTOR(twig, Twig, TR_ON(Branch, twig_grow));

static double run_tree_stop(bench *b)
{
    Tree tree = {.b = b};
    tr_ref top = tr_spawn(b->sys, twig, TR_INIT(twig, .tree = &tree),
                          .joinable = true, .stop_timeout = TR_SECONDS(60));
    bench_begin(b);
    tr_tell(b->sys, top, Branch, .size = b->n);
    fprintf(stderr, "# grown_ms %.3f\n", bench_wait(b) * 1e3);
    tr_metrics_snapshot before = {.size = sizeof(before)}, after = before;
    tr_metrics(b->sys, &before);
    tr_result result;
    double begin = bench_now();
    tr_stop(b->sys, top);
    TR_MUST(tr_join(b->sys, top, TR_SECONDS(60), &result, NULL));
    double seconds = bench_now() - begin;
    tr_metrics(b->sys, &after);
    bench_verify(result.reason == TR_STOPPED, "end of the top");
    // The top itself is counted a moment after its joiner is told.
    bench_verify(after.ended - before.ended + 1 >= (uint64_t)b->n,
                 "ended actors");
    return seconds * 1e3;
}

const bench_workload bench_spawns[] = {
    {"fork_join_create", 1000000, 1, "actors/s",
     "N actors spawned, given one message, ended", run_fork_join_create},
    {"skynet", 1000000, 1, "ms",
     "a tree with N leaves, ten children per level (lower)", run_skynet},
    {"spawn", 1000000, 1, "actors/s", "N idle actors spawned in one handler",
     run_spawn},
    {"tree_stop", 1000000, 1, "ms",
     "a tree of N actors, ten children each, stopped at its top (lower)",
     run_tree_stop},
    {0},
};
