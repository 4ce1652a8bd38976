/*
 * names_stress.c - sends by name while names are forgotten and made again.
 *
 * Threads and actors send numbered messages by name to more keys than there
 * are shards. The actors stop themselves after a few messages, so records are
 * reused for other names all the time. Each message must be handled once, by
 * an actor of its name, and those of one sender to one name in order. Refs of
 * activations are kept and used long after: such a message reaches the same
 * name, or no actor at all. Some names are kept alive by a ref; at the end the
 * others are forgotten.
 *
 * TR_TEST_SCALE scales the number of messages.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <troupe/troupe.h>

enum {
    KEYS = 12000,  // about three in each shard
    KEPT = 500,    // every 500th name is kept by a ref
    THREADS = 2,
    ACTORS = 2,
    SENDERS = THREADS + ACTORS,
    REFS = 1024,
    KEY_SIZE = 16,
};

typedef struct board {
    tr_system *sys;
    tr_ref meddler;
    uint32_t rounds;
    _Atomic(uint32_t) last[KEYS][SENDERS];
    _Atomic(uint32_t) wrong, left, strays, gone;
} board;

TR_MESSAGE(Numbered, (uint64_t, board), (uint32_t, key), (uint32_t, sender),
           (uint32_t, number), (tr_ref, tell));
TR_MESSAGE(Nothing);
TR_REQUEST(Flush, Nothing);
TR_MESSAGE(Stray, (uint64_t, board), (uint32_t, key));
TR_MESSAGE(Here, (tr_ref, ref), (uint32_t, key));
TR_MESSAGE(Go, (uint64_t, board), (uint32_t, sender));

static void key_of(char out[KEY_SIZE], uint32_t key)
{
    snprintf(out, KEY_SIZE, "key-%u", key);
}

static void check_name(tr_ctx *ctx, board *b, uint32_t key)
{
    char text[KEY_SIZE];
    key_of(text, key);
    if (strcmp(text, tr_key(ctx)) != 0) {
        fprintf(stderr, "%s has mail for %s\n", tr_key(ctx), text);
        // Relaxed, here and below: read after the last message.
        atomic_fetch_add_explicit(&b->wrong, 1, memory_order_relaxed);
    }
}

static tr_err on_numbered(tr_ctx *ctx, void *self, const Numbered *m)
{
    board *b = (board *)(uintptr_t)m->board;
    _Atomic(uint32_t) *last = &b->last[m->key][m->sender];
    (void)self;
    check_name(ctx, b, m->key);
    uint32_t before = atomic_load_explicit(last, memory_order_relaxed);
    if (before + 1 != m->number) {
        fprintf(stderr, "key %u, sender %u: %u after %u\n", m->key, m->sender,
                m->number, before);
        atomic_fetch_add_explicit(&b->wrong, 1, memory_order_relaxed);
    }
    atomic_store_explicit(last, m->number, memory_order_relaxed);
    if (m->tell.cell != 0) {
        tr_tell(ctx, m->tell, Here, .ref = tr_self(ctx), .key = m->key);
    }
    if ((m->number + m->key) % 2 == 0) {
        tr_stop(ctx, tr_self(ctx));
    }
    return TR_OK;
}

static tr_err on_flush(tr_ctx *ctx, void *self, const Flush *m)
{
    (void)self;
    return tr_reply(ctx, m);
}

static tr_err on_stray(tr_ctx *ctx, void *self, const Stray *m)
{
    board *b = (board *)(uintptr_t)m->board;
    (void)self;
    check_name(ctx, b, m->key);
    atomic_fetch_add_explicit(&b->strays, 1, memory_order_relaxed);
    return TR_OK;
}

TR_ACTOR(target, void, TR_ON(Numbered, on_numbered), TR_ON(Flush, on_flush),
         TR_ON(Stray, on_stray));

/* ---- uses of old refs ---- */

typedef struct Meddler {
    board *board;
    uint32_t count;
    tr_ref refs[REFS];
    uint32_t keys[REFS];
} Meddler;

static tr_err on_here(tr_ctx *ctx, Meddler *self, const Here *m)
{
    uint32_t at = self->count++ % REFS;
    if (self->count > REFS) {
        tr_err err = tr_try_tell(ctx, self->refs[at], Stray,
                                 .board = (uint64_t)(uintptr_t)self->board,
                                 .key = self->keys[at]);
        atomic_fetch_add_explicit(&self->board->gone, err != TR_OK,
                                  memory_order_relaxed);
        if (at % 64 == 0) {
            tr_stop(ctx, self->refs[at]);
        }
    }
    self->refs[at] = m->ref;
    self->keys[at] = m->key;
    return TR_OK;
}

TR_ACTOR(meddler, Meddler, TR_ON(Here, on_here));

/* ---- senders ---- */

static tr_err send_one(tr_from from, board *b, uint32_t sender, uint32_t step,
                       tr_ref tell)
{
    char text[KEY_SIZE];
    uint32_t key = (step * 7919 + sender * 31) % KEYS;
    uint32_t number = step / KEYS + 1;
    key_of(text, key);
    if (number == 1 && key % KEPT == 0) {
        TR_MUST(tr_ref_err((tr_virtual)(from, "target", text)));
    }
    (tr_tell_virtual)(from, "target", text, &Numbered_tr_type,
                      &(Numbered){.board = (uint64_t)(uintptr_t)b,
                                  .key = key,
                                  .sender = sender,
                                  .number = number,
                                  .tell = tell});
    return step % 1000 != 0
               ? TR_OK
               : (tr_ask_virtual)(from, "target", text, NULL, TR_SECONDS(100),
                                  &Flush_tr_type, &(Flush){}, TR_HERE);
}

static tr_err on_go(tr_ctx *ctx, void *self, const Go *m)
{
    board *b = (board *)(uintptr_t)m->board;
    (void)self;
    for (uint32_t step = 0; step < b->rounds * KEYS; step++) {
        TR_MUST(send_one((tr_from){.ctx = ctx}, b, m->sender, step,
                         step % 4 == 0 ? b->meddler : TR_NOBODY));
    }
    // Release: pairs with main, which then reads the board.
    atomic_fetch_sub_explicit(&b->left, 1, memory_order_release);
    return TR_OK;
}

TR_ACTOR(sender, void, TR_ON(Go, on_go));

typedef struct thread_arg {
    board *board;
    uint32_t sender;
} thread_arg;

static void send_all(void *arg)
{
    thread_arg *it = arg;
    board *b = it->board;
    for (uint32_t step = 0; step < b->rounds * KEYS; step++) {
        TR_MUST(
            send_one((tr_from){.sys = b->sys}, b, it->sender, step, TR_NOBODY));
    }
    // Release: as on_go.
    atomic_fetch_sub_explicit(&b->left, 1, memory_order_release);
}

static void run(board *b)
{
    tr_thread *threads[THREADS];
    thread_arg args[THREADS];
    tr_probe *probe;
    tr_metrics_snapshot m = {.size = sizeof(m)};

    Meddler *first = calloc(1, sizeof(*first));
    TR_MUST(first != NULL ? TR_OK : TR_ENOMEM);
    first->board = b;
    b->meddler =
        tr_spawn(b->sys, meddler, .init = first, .init_size = sizeof(*first));
    free(first);
    for (uint32_t i = 0; i < ACTORS; i++) {
        tr_tell(b->sys, tr_spawn(b->sys, sender), Go,
                .board = (uint64_t)(uintptr_t)b, .sender = THREADS + i);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        args[i] = (thread_arg){b, i};
        TR_MUST(tr_thread_start(b->sys, &threads[i], send_all, &args[i]));
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        tr_thread_join(b->sys, threads[i]);
    }
    TR_MUST(tr_probe_new(&probe, b->sys));
    do {  // until the actors are done and the last ones deactivated
        tr_expect_nothing(probe, TR_MS(1));
        tr_metrics(b->sys, &m);
    } while (atomic_load_explicit(&b->left, memory_order_acquire) > 0 ||
             m.virtual_active > 0 || m.virtual_names > KEYS / KEPT);
    tr_probe_free(probe);
}

int main(void)
{
    const char *scale = getenv("TR_TEST_SCALE");
    static board b;
    tr_metrics_snapshot m = {.size = sizeof(m)};
    uint32_t incomplete = 0;

    b.rounds = (uint32_t)(8 * (scale != NULL ? atof(scale) : 1));
    b.rounds = b.rounds > 0 ? b.rounds : 1;
    atomic_store(&b.left, SENDERS);
    TR_MUST(tr_system_open(&b.sys, .workers = 2, .log_level = TR_LOG_ERROR));
    TR_MUST(tr_host(b.sys, target, .idle = TR_MS(1)));
    run(&b);
    for (uint32_t key = 0; key < KEYS; key++) {
        for (uint32_t i = 0; i < SENDERS; i++) {
            incomplete += atomic_load(&b.last[key][i]) != b.rounds;
        }
    }
    tr_metrics(b.sys, &m);
    TR_MUST(tr_system_close(b.sys, 0));
    printf("names: %u messages, %llu activations, %llu names left, %u wrong, "
           "%u rows incomplete; late refs: %u found, %u gone\n",
           b.rounds * KEYS * SENDERS, (unsigned long long)m.activations,
           (unsigned long long)m.virtual_names, atomic_load(&b.wrong),
           incomplete, atomic_load(&b.strays), atomic_load(&b.gone));
    return atomic_load(&b.wrong) != 0 || incomplete != 0 ||
           m.virtual_names != KEYS / KEPT;
}
