/*
 * wl_virtual.c - virtual actors: the cost of a name and of an activation.
 *
 * virtual_call asks one virtual actor and one plain one in turn, so that both
 * run under the same load; its figure is the ratio of the two. Where wall time
 * depends on other load, CPU time is reported as well.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "virtuals.h"

#define KEY_SIZE 32
#define FILLING  4096  // saves at a time

TR_MESSAGE(Answer, (int64_t, value));
TR_REQUEST(Question, Answer, (int64_t, value));
TR_MESSAGE(Touch);
TR_MESSAGE(Fill, (int64_t, value));
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

/* ---- virtual_ref, virtual_ref_new: tr_virtual ---- */

static char (*make_keys(int64_t count))[KEY_SIZE]
{
    char(*keys)[KEY_SIZE] = bench_alloc(count, KEY_SIZE);
    for (int64_t i = 0; i < count; i++) {
        snprintf(keys[i], KEY_SIZE, "key-%lld", (long long)i);
    }
    return keys;
}

static uint64_t make_refs(bench *b, char (*keys)[KEY_SIZE], int64_t count)
{
    uint64_t sum = 0;
    for (int64_t i = 0; i < count; i++) {
        tr_ref ref = tr_virtual(b->sys, "oracle", keys[i]);
        bench_verify(ref.cell != 0, "a name was refused");
        sum += ref.id;
    }
    return sum;
}

static uint64_t names_of(bench *b)
{
    tr_metrics_snapshot m = {.size = sizeof(m)};
    tr_metrics(b->sys, &m);
    return m.virtual_names;
}

static double run_ref(bench *b)
{
    char(*keys)[KEY_SIZE] = make_keys(b->w);
    TR_MUST(tr_host(b->sys, oracle));
    uint64_t sum = make_refs(b, keys, b->w);
    int64_t laps = b->n / b->w + 1;
    double cpu = bench_cpu_time(), begin = bench_now();
    for (int64_t lap = 0; lap < laps; lap++) {
        bench_verify(make_refs(b, keys, b->w) == sum, "other refs");
    }
    double seconds = bench_now() - begin, calls = (double)(laps * b->w);
    fprintf(stderr, "# cpu_ns %.1f\n", (bench_cpu_time() - cpu) / calls * 1e9);
    bench_verify(names_of(b) == (uint64_t)b->w, "names");
    free(keys);
    return seconds / calls * 1e9;
}

static double run_ref_new(bench *b)
{
    char(*keys)[KEY_SIZE] = make_keys(b->n);
    TR_MUST(tr_host(b->sys, oracle));
    double cpu = bench_cpu_time(), begin = bench_now();
    (void)make_refs(b, keys, b->n);
    double seconds = bench_now() - begin;
    fprintf(stderr, "# cpu_ns %.1f\n",
            (bench_cpu_time() - cpu) / (double)b->n * 1e9);
    bench_verify(names_of(b) == (uint64_t)b->n, "names");
    free(keys);
    return seconds / (double)b->n * 1e9;
}

/* ---- activations: a first message each ---- */

typedef struct Life {
    bench *b;
    int64_t stored;  // what an actor must load; 0: nothing
    _Atomic int64_t left;
} Life;

static Life the_life;  // one run per process

static void one_less(void)
{
    // Acquire and release: the last one ends the run.
    if (atomic_fetch_sub_explicit(&the_life.left, 1, memory_order_acq_rel) ==
        1) {
        bench_end(the_life.b);
    }
}

static tr_err on_fill(tr_ctx *ctx, Kept *self, const Fill *m)
{
    Kept next = {.value = m->value};
    TR_MUST(tr_persist(ctx, self, &next));
    one_less();
    return TR_OK;
}

static tr_err on_touch(tr_ctx *ctx, Kept *self, const Touch *m)
{
    (void)ctx;
    (void)m;
    bench_verify(self->value == the_life.stored, "the stored state");
    one_less();
    return TR_OK;
}

TR_ACTOR(kept, Kept, TR_ON(Fill, on_fill), TR_ON(Touch, on_touch));

/* Waits until at most this many actors have been sent to and are not done. */
static void wait_for(bench *b, int64_t sent, int64_t at_most)
{
    if (sent % 256 == 0) {
        while (sent - (b->n - atomic_load_explicit(&the_life.left,
                                                   memory_order_relaxed)) >=
               at_most) {
            bench_sleep(0.00005);
        }
    }
}

static tr_ref *begin_life(bench *b, tr_storage *store, int64_t stored)
{
    tr_ref *refs = bench_alloc(b->n, sizeof(*refs));
    the_life.b = b;
    the_life.stored = stored;
    // Relaxed: no other thread counts yet.
    atomic_store_explicit(&the_life.left, b->n, memory_order_relaxed);
    TR_MUST(tr_host(b->sys, kept, .storage = store, .idle = TR_SECONDS(3600)));
    for (int64_t i = 0; i < b->n; i++) {
        char key[KEY_SIZE];
        snprintf(key, sizeof(key), "key-%lld", (long long)i);
        refs[i] = tr_virtual(b->sys, "kept", key);
    }
    return refs;
}

static void another_system(bench *b)
{
    TR_MUST(tr_system_close(b->sys, TR_MINUTES(10)));
    b->sys = bench_open(b);
}

static void fill(bench *b, tr_storage *store)
{
    tr_ref *refs = begin_life(b, store, 0);
    bench_begin(b);
    for (int64_t i = 0; i < b->n; i++) {
        tr_tell(b->sys, refs[i], Fill, .value = 42);
        wait_for(b, i, FILLING);  // a handler that saves needs a stack
    }
    (void)bench_wait(b);
    free(refs);
    another_system(b);
}

/* Measures activations only: the names are made before. */
double virtuals_activate(bench *b, tr_storage *store)
{
    if (store != NULL) {
        fill(b, store);
    }
    tr_ref *refs = begin_life(b, store, store != NULL ? 42 : 0);
    double cpu = bench_cpu_time();
    bench_begin(b);
    for (int64_t i = 0; i < b->n; i++) {
        tr_tell(b->sys, refs[i], Touch);
        wait_for(b, i, b->w);
    }
    double seconds = bench_wait(b);
    fprintf(stderr, "# cpu_us_per_activation %.3f\n",
            (bench_cpu_time() - cpu) / (double)b->n * 1e6);
    tr_metrics_snapshot m = {.size = sizeof(m)};
    tr_metrics(b->sys, &m);
    bench_verify(m.activations == (uint64_t)b->n, "activations");
    bench_verify(m.virtual_active == (uint64_t)b->n, "active");
    free(refs);
    another_system(b);  // the store may be closed now
    return (double)b->n / seconds;
}

static double run_activate_memory(bench *b)
{
    tr_storage *store;
    TR_MUST(tr_storage_memory(&store));
    double value = virtuals_activate(b, store);
    tr_storage_close(store);
    return value;
}

static double run_activate_bare(bench *b)
{
    return virtuals_activate(b, NULL);
}

/* ---- virtual_by_name: tells by name, against tells by ref ---- */

TR_MESSAGE(Poke);

static tr_err on_poke(tr_ctx *ctx, void *self, const Poke *m)
{
    (void)ctx;
    (void)self;
    (void)m;
    one_less();
    return TR_OK;
}

TR_ACTOR(poked, void, TR_ON(Poke, on_poke));

static double poke_all(bench *b, char (*keys)[KEY_SIZE], const tr_ref *refs)
{
    atomic_store_explicit(&the_life.left, b->n, memory_order_relaxed);
    bench_begin(b);
    double cpu = bench_cpu_time();
    for (int64_t i = 0; i < b->n; i++) {
        if (refs != NULL) {
            tr_tell(b->sys, refs[i % b->w], Poke);
        } else {
            tr_tell_virtual(b->sys, "poked", keys[i % b->w], Poke);
        }
    }
    (void)bench_wait(b);
    return (bench_cpu_time() - cpu) / (double)b->n * 1e9;
}

static double run_by_name(bench *b)
{
    char(*keys)[KEY_SIZE] = make_keys(b->w);
    tr_ref *refs = bench_alloc(b->w, sizeof(*refs));
    the_life.b = b;
    TR_MUST(tr_host(b->sys, poked, .idle = TR_SECONDS(3600)));
    (void)poke_all(b, keys, NULL);  // all are active, no name is kept
    double named = poke_all(b, keys, NULL);
    for (int64_t i = 0; i < b->w; i++) {
        refs[i] = tr_virtual(b->sys, "poked", keys[i]);
    }
    fprintf(stderr, "# by_ref_cpu_ns %.1f\n", poke_all(b, keys, refs));
    bench_verify(names_of(b) == (uint64_t)b->w, "names");
    free(keys);
    free(refs);
    return named;
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
        bench_verify(ref.cell != 0, "a name was refused");
    }
    int64_t known = bench_rss();
    int64_t step = b->w > 0 && b->n > b->w ? b->n / b->w : 1;
    for (int64_t i = 0; i < b->w; i++) {
        Answer answer;
        snprintf(key, sizeof(key), "key-%lld", (long long)(i * step % b->n));
        TR_MUST(tr_ask(b->sys, tr_virtual(b->sys, "oracle", key), &answer, 0,
                       Question, .value = i));
        bench_verify(answer.value == i + 1, "answer");
    }
    tr_metrics_snapshot m = {.size = sizeof(m)};
    tr_metrics(b->sys, &m);
    bench_verify(m.virtual_names == (uint64_t)b->n, "names");
    bench_verify(m.virtual_active == (uint64_t)(b->w < b->n ? b->w : b->n),
                 "active");
    int64_t after = bench_rss();
    fprintf(stderr, "# bytes_per_name %.1f bytes_per_active %.1f\n",
            (double)(known - before) / (double)b->n,
            (double)(after - known) / (double)b->w);
    return (double)after / 1048576;
}

const bench_workload bench_virtuals[] = {
    {"virtual_call", 200000, 1, "ratio",
     "ask a virtual actor, against a plain one", run_call},
    {"virtual_ref", 2000000, 10000, "ns", "tr_virtual of a known name",
     run_ref},
    {"virtual_ref_new", 1000000, 1, "ns", "tr_virtual of a new name",
     run_ref_new},
    {"virtual_by_name", 1000000, 1000, "ns",
     "CPU time of a tell by name to an active actor", run_by_name},
    {"virtual_activate_memory", 500000, 1000000, "activations/s",
     "first messages, states in a store in memory", run_activate_memory},
    {"virtual_activate_bare", 500000, 1000000, "activations/s",
     "first messages, no storage", run_activate_bare},
    {"virtual_names", 10000000, 100000, "MiB",
     "resident, with N names known, W of them active", run_names},
    {0},
};
