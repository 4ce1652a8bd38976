/*
 * wl_virtual.c - virtual actors: what a name costs, and a life.
 *
 * virtual_call asks one virtual actor and one plain one in turns, so that both
 * meet the same machine; its figure is the ratio of the two.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"

#define KEY_SIZE 24

TR_MESSAGE(Answer, (int64_t, value));
TR_REQUEST(Question, Answer, (int64_t, value));
TR_MESSAGE(Touch);
TR_STATE(Kept, (int64_t, value));

static tr_err on_question(tr_ctx *ctx, void *self, const Question *m)
{
    (void)self;
    return tr_reply(ctx, m, .value = m->value + 1);
}

TR_ACTOR(oracle, void, TR_ON(Question, on_question));

/* ---- virtual_call: through a ref that was made once ---- */

static double ask_many(bench *b, tr_ref to, int64_t count)
{
    Answer answer;
    double begin = bench_now();
    for (int64_t i = 0; i < count; i++) {
        TR_MUST(tr_ask(b->sys, to, &answer, 0, Question, .value = i));
        bench_verify(answer.value == i + 1, "answer");
    }
    return bench_now() - begin;
}

static double run_call(bench *b)
{
    enum { PARTS = 20 };
    double plain = 0, named = 0;
    TR_MUST(tr_host(b->sys, oracle));
    tr_ref a = tr_spawn(b->sys, oracle);
    tr_ref v = tr_virtual(b->sys, "oracle", "delphi");
    (void)ask_many(b, a, 100);
    (void)ask_many(b, v, 100);
    for (int part = 0; part < PARTS; part++) {
        plain += ask_many(b, a, b->n / PARTS + 1);
        named += ask_many(b, v, b->n / PARTS + 1);
    }
    return named / plain;
}

/* ---- virtual_name: tr_virtual of names that are known ---- */

static double run_name(bench *b)
{
    char (*keys)[KEY_SIZE] = bench_alloc(b->w, KEY_SIZE);
    uint64_t sum = 0;
    TR_MUST(tr_host(b->sys, oracle));
    for (int64_t i = 0; i < b->w; i++) {
        snprintf(keys[i], KEY_SIZE, "key-%lld", (long long)i);
        sum += tr_virtual(b->sys, "oracle", keys[i]).id;
    }
    double begin = bench_now();
    uint64_t again = 0;
    for (int64_t i = 0; i < b->n; i++) {
        again += tr_virtual(b->sys, "oracle", keys[i % b->w]).id;
    }
    double seconds = bench_now() - begin;
    bench_verify(b->n % b->w != 0 || again == sum * (uint64_t)(b->n / b->w),
                 "names");
    free(keys);
    return seconds / (double)b->n * 1e9;
}

/* ---- virtual_activate: a first message each, state from memory ---- */

typedef struct Count {
    bench *b;
    _Atomic int64_t left;
} Count;

static Count the_count;  // one run per process

static tr_err on_touch(tr_ctx *ctx, Kept *self, const Touch *m)
{
    (void)ctx;
    (void)self;
    (void)m;
    // Acquire and release: the last one ends the run.
    if (atomic_fetch_sub_explicit(&the_count.left, 1,
                                  memory_order_acq_rel) == 1) {
        bench_end(the_count.b);
    }
    return TR_OK;
}

TR_ACTOR(kept, Kept, TR_ON(Touch, on_touch));

/* Names are made before: what is measured is the way into life. */
static double activate(bench *b, tr_storage *store)
{
    char key[KEY_SIZE];
    tr_ref *refs = bench_alloc(b->n, sizeof(*refs));
    TR_MUST(tr_host(b->sys, kept, .storage = store));
    for (int64_t i = 0; i < b->n; i++) {
        snprintf(key, sizeof(key), "key-%lld", (long long)i);
        refs[i] = tr_virtual(b->sys, "kept", key);
    }
    the_count.b = b;
    // Relaxed: nobody counts yet.
    atomic_store_explicit(&the_count.left, b->n, memory_order_relaxed);
    bench_begin(b);
    for (int64_t i = 0; i < b->n; i++) {
        tr_tell(b->sys, refs[i], Touch);
    }
    double seconds = bench_wait(b);
    free(refs);
    return (double)b->n / seconds;
}

static double run_activate(bench *b)
{
    tr_storage *store;
    TR_MUST(tr_storage_memory(&store));
    return activate(b, store);
}

static double run_activate_plain(bench *b)
{
    return activate(b, NULL);
}

/* ---- virtual_names: N names, W of them active; memory ---- */

static double run_names(bench *b)
{
    char key[KEY_SIZE];
    TR_MUST(tr_host(b->sys, oracle, .idle = TR_SECONDS(3600)));
    int64_t before = bench_rss();
    for (int64_t i = 0; i < b->n; i++) {
        snprintf(key, sizeof(key), "key-%lld", (long long)i);
        tr_ref ref = tr_virtual(b->sys, "oracle", key);
        bench_verify(ref.id != 0, "a name was refused");
        if (i < b->w) {
            Answer answer;
            TR_MUST(tr_ask(b->sys, ref, &answer, 0, Question, .value = i));
        }
    }
    double bytes = (double)(bench_rss() - before);
    fprintf(stderr, "# bytes_per_name %.1f\n", bytes / (double)b->n);
    return bytes / 1048576;
}

const bench_workload bench_virtuals[] = {
    {"virtual_call", 200000, 1, "ratio",
     "ask a virtual actor, against a plain one", run_call},
    {"virtual_name", 2000000, 10000, "ns", "tr_virtual of a known name",
     run_name},
    {"virtual_activate", 200000, 1, "activations/s",
     "first messages, state in memory", run_activate},
    {"virtual_activate_bare", 200000, 1, "activations/s",
     "first messages, no storage", run_activate_plain},
    {"virtual_names", 10000000, 100000, "MiB",
     "N names known, W of them active", run_names},
    {0},
};
