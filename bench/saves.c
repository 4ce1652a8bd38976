/*
 * saves.c - actors that save as fast as their store answers.
 *
 * There are b->w tokens. An actor that has a token saves its state and passes
 * the token to the next actor of the same residue, so b->w saves are under way
 * at any time, spread over b->n keys. With as many keys as tokens each actor
 * keeps its token.
 */
#include "saves.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STARTING_MAX  4096  // actors that load at a time
#define STARTING_STEP 256

TR_MESSAGE(Turn);
TR_MESSAGE(Fill);
TR_STATE(Vault, (int64_t, count), (const char *, text));

typedef struct Bank {
    bench *b;
    tr_ref *all;
    char text[SAVES_STATE_SIZE];
    _Atomic int64_t started;
    _Atomic int64_t saved;
    _Atomic int64_t running;  // tokens
    _Atomic bool over;
    bool filled;  // all states are stored
} Bank;

/*
 * Data that the actor's state cannot hold, because the state is stored. One run
 * at a time.
 */
static Bank bank;

static int64_t index_of(tr_ctx *ctx)
{
    return strtoll(tr_name(ctx) + 1, NULL, 10);
}

static tr_ref next_of(int64_t index, int64_t count)
{
    int64_t tokens = bank.b->w;
    uint64_t dice = (uint64_t)index * 31 + (uint64_t)count;
    int64_t laps = bank.b->n / tokens;
    int64_t lap = (int64_t)bench_below(bench_random(&dice), (uint64_t)laps);

    return bank.all[index % tokens + lap * tokens];
}

static tr_err vault_turn(tr_ctx *ctx, Vault *self, const Turn *m)
{
    (void)m;
    // Relaxed, here and below: counts; bench_end's lock orders the rest.
    if (atomic_load_explicit(&bank.over, memory_order_relaxed)) {
        if (atomic_fetch_sub_explicit(&bank.running, 1, memory_order_relaxed) ==
            1)
            bench_end(bank.b);
        return TR_OK;
    }
    Vault next = {.count = self->count + 1, .text = bank.text};
    tr_err err = tr_persist(ctx, self, &next);
    bench_verify(err == TR_OK, "a save failed");
    atomic_fetch_add_explicit(&bank.saved, 1, memory_order_relaxed);
    tr_tell(ctx, next_of(index_of(ctx), self->count), Turn);
    return TR_OK;
}

/* Saves once and passes the token to the next actor of the same residue. */
static tr_err vault_fill(tr_ctx *ctx, Vault *self, const Fill *m)
{
    (void)m;
    Vault next = {.count = 1, .text = bank.text};
    tr_err err = tr_persist(ctx, self, &next);
    bench_verify(err == TR_OK, "a save failed");
    int64_t next_index = index_of(ctx) + bank.b->w;
    if (next_index < bank.b->n)
        tr_tell(ctx, bank.all[next_index], Fill);
    else if (atomic_fetch_sub_explicit(&bank.running, 1,
                                       memory_order_relaxed) == 1)
        bench_end(bank.b);
    return TR_OK;
}

/* Runs after the load and checks that it found what was saved. */
static tr_err vault_start(tr_ctx *ctx, Vault *self)
{
    (void)ctx;
    bench_verify(!bank.filled || self->count == 1, "a state was not loaded");
    atomic_fetch_add_explicit(&bank.started, 1, memory_order_relaxed);
    return TR_OK;
}

TR_ACTOR(vault, Vault, TR_HOOK(pre_start, vault_start), TR_ON(Turn, vault_turn),
         TR_ON(Fill, vault_fill));

/* Waits until this many actors have loaded their states. */
static void wait_started(int64_t count)
{
    while (atomic_load_explicit(&bank.started, memory_order_relaxed) < count)
        bench_sleep(0.0001);
}

static void spawn_all(bench *b, tr_storage *store, bool filled)
{
    b->n = b->n < b->w ? b->w : b->n / b->w * b->w;
    memset(&bank, 0, sizeof(bank));
    bank.b = b;
    bank.filled = filled;
    bank.running = b->w;
    memset(bank.text, 's', sizeof(bank.text) - 32);
    bank.all = bench_alloc(b->n, sizeof(*bank.all));
    for (int64_t i = 0; i < b->n; i++) {
        char name[SAVES_KEY_SIZE];
        snprintf(name, sizeof(name), "v%lld", (long long)i);
        bank.all[i] = tr_spawn(b->sys, vault, .name = name, .storage = store);
        // In groups: each actor needs a stack while it loads.
        if (i % STARTING_STEP == 0) wait_started(i - STARTING_MAX);
    }
    wait_started(b->n);
}

/* The store outlives its actors. */
static void end_all(bench *b)
{
    TR_MUST(tr_system_close(b->sys, TR_MINUTES(10)));
    b->sys = bench_open(b);
    free(bank.all);
}

double saves_run(bench *b, tr_storage *store)
{
    spawn_all(b, store, false);
    bench_begin(b);
    for (int64_t i = 0; i < b->w; i++)
        tr_tell(b->sys, bank.all[i], Turn);
    bench_sleep(b->seconds);
    atomic_store_explicit(&bank.over, true, memory_order_relaxed);
    double seconds = bench_wait(b);
    end_all(b);
    return (double)atomic_load_explicit(&bank.saved, memory_order_relaxed) /
           seconds;
}

double saves_load(bench *b, tr_storage *store)
{
    // First each saves once, so that there is something to load.
    spawn_all(b, store, false);
    for (int64_t i = 0; i < b->w; i++)
        tr_tell(b->sys, bank.all[i], Fill);
    (void)bench_wait(b);
    end_all(b);
    double begin = bench_now();
    spawn_all(b, store, true);
    double seconds = bench_now() - begin;
    end_all(b);
    return (double)b->n / seconds;
}

double saves_report(double value, double raw)
{
    fprintf(stderr, "# raw %.6g per second, ratio %.3f\n", raw, value / raw);
    return value;
}
