/*
 * virtual_stress.c - messages to virtual actors that are deactivated all the
 * time.
 *
 * Threads and actors send numbered messages to a few names as fast as they
 * can. The actors stop themselves again and again, another actor stops,
 * poisons and kills them, and the idle time is as short as possible. Every
 * message must be handled once, and those of one sender to one name in order.
 * The numbers are kept outside the actors, whose state ends with every
 * deactivation.
 *
 * TR_TEST_SCALE scales the number of messages.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include <troupe/troupe.h>

enum {
    KEYS = 7,
    THREADS = 3,
    ACTORS = 3,
    SENDERS = THREADS + ACTORS,
    BURST = 50,  // numbers between two waits until all are handled
};

static const char *const keys[KEYS] = {"a", "b", "c", "d", "e", "f", "g"};

/* By key and sender; the actor of the key writes, one activation at a time. */
typedef struct board {
    tr_system *sys;
    uint32_t rounds;
    _Atomic(uint32_t) last[KEYS][SENDERS];
    _Atomic(uint32_t) wrong, left;
    _Atomic(bool) over;
} board;

TR_MESSAGE(Numbered, (uint64_t, board), (uint32_t, key), (uint32_t, sender),
           (uint32_t, number));
TR_MESSAGE(Nothing);
TR_REQUEST(Flush, Nothing);
TR_MESSAGE(Disturb, (uint64_t, board));
TR_MESSAGE(Go, (uint64_t, board), (uint32_t, sender));

static tr_err on_numbered(tr_ctx *ctx, void *self, const Numbered *m)
{
    board *b = (board *)(uintptr_t)m->board;
    _Atomic(uint32_t) *last = &b->last[m->key][m->sender];
    (void)self;
    // Relaxed: this activation happens before the next one.
    uint32_t before = atomic_load_explicit(last, memory_order_relaxed);
    if (before + 1 != m->number) {
        fprintf(stderr, "key %u, sender %u: %u after %u\n", m->key, m->sender,
                m->number, before);
        atomic_fetch_add_explicit(&b->wrong, 1, memory_order_relaxed);
    }
    atomic_store_explicit(last, m->number, memory_order_relaxed);
    if (m->number % 13 == 0) {
        tr_stop(ctx, tr_self(ctx));  // the next activation handles the rest
    }
    return TR_OK;
}

static tr_err on_flush(tr_ctx *ctx, void *self, const Flush *m)
{
    (void)self;
    return tr_reply(ctx, m);
}

TR_ACTOR(target, void, TR_ON(Numbered, on_numbered), TR_ON(Flush, on_flush));

/* ---- senders ---- */

static tr_err on_go(tr_ctx *ctx, void *self, const Go *m)
{
    board *b = (board *)(uintptr_t)m->board;
    (void)self;
    for (uint32_t number = 1; number <= b->rounds; number++) {
        for (uint32_t key = 0; key < KEYS; key++) {
            tr_tell(ctx, tr_virtual(ctx, "target", keys[key]), Numbered,
                    .board = m->board, .key = key, .sender = m->sender,
                    .number = number);
        }
        for (uint32_t key = 0; number % BURST == 0 && key < KEYS; key++) {
            TR_TRY(tr_ask(ctx, tr_virtual(ctx, "target", keys[key]), NULL,
                          TR_SECONDS(100), Flush));
        }
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
    tr_ref refs[KEYS];
    for (uint32_t key = 0; key < KEYS; key++) {
        refs[key] = tr_virtual(b->sys, "target", keys[key]);
    }
    for (uint32_t number = 1; number <= b->rounds; number++) {
        for (uint32_t key = 0; key < KEYS; key++) {
            tr_tell(b->sys, refs[key], Numbered,
                    .board = (uint64_t)(uintptr_t)b, .key = key,
                    .sender = it->sender, .number = number);
        }
        for (uint32_t key = 0; number % BURST == 0 && key < KEYS; key++) {
            TR_MUST(tr_ask(b->sys, refs[key], NULL, TR_SECONDS(100), Flush));
        }
    }
    atomic_fetch_sub_explicit(&b->left, 1, memory_order_release);
}

/* Ends active actors again and again, in every way that loses no message. */
static tr_err on_disturb(tr_ctx *ctx, uint32_t *self, const Disturb *m)
{
    board *b = (board *)(uintptr_t)m->board;
    for (uint32_t key = 0; key < KEYS; key++) {
        tr_ref ref = tr_virtual(ctx, "target", keys[key]);
        switch ((*self)++ % 4) {
        case 0:
            tr_kill(ctx, ref);
            break;
        case 1:
            tr_poison(ctx, ref);
            break;
        case 2:
            tr_watch(ctx, ref);
            tr_unwatch(ctx, ref);
            break;
        default:
            tr_stop(ctx, ref);
        }
    }
    // Relaxed: one more round does no harm.
    if (!atomic_load_explicit(&b->over, memory_order_relaxed)) {
        tr_tell(ctx, tr_self(ctx), Disturb, .board = m->board);
    }
    return TR_OK;
}

TR_ACTOR(disturber, uint32_t, TR_ON(Disturb, on_disturb));

static void run(board *b)
{
    tr_thread *threads[THREADS];
    thread_arg args[THREADS];
    tr_probe *probe;

    for (uint32_t i = 0; i < ACTORS; i++) {
        tr_tell(b->sys, tr_spawn(b->sys, sender), Go,
                .board = (uint64_t)(uintptr_t)b, .sender = THREADS + i);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        args[i] = (thread_arg){b, i};
        TR_MUST(tr_thread_start(b->sys, &threads[i], send_all, &args[i]));
    }
    tr_tell(b->sys, tr_spawn(b->sys, disturber), Disturb,
            .board = (uint64_t)(uintptr_t)b);
    for (uint32_t i = 0; i < THREADS; i++) {
        tr_thread_join(b->sys, threads[i]);
    }
    TR_MUST(tr_probe_new(&probe, b->sys));
    while (atomic_load_explicit(&b->left, memory_order_acquire) > 0) {
        tr_expect_nothing(probe, TR_MS(1));  // the actors need longer
    }
    tr_probe_free(probe);
    // Relaxed: the disturber may see it late.
    atomic_store_explicit(&b->over, true, memory_order_relaxed);
}

int main(void)
{
    const char *scale = getenv("TR_TEST_SCALE");
    static board b;
    tr_metrics_snapshot m = {.size = sizeof(m)};
    uint32_t incomplete = 0;

    b.rounds = 5000;
    if (scale != NULL && scale[0] != '\0') {
        double scaled = b.rounds * atof(scale);
        b.rounds = scaled < 1.0 ? 1 : (uint32_t)scaled;
    }
    atomic_store(&b.left, SENDERS);
    TR_MUST(tr_system_open(&b.sys, .workers = 3, .log_level = TR_LOG_ERROR));
    TR_MUST(tr_host(b.sys, target, .idle = 1000));
    run(&b);
    for (uint32_t key = 0; key < KEYS; key++) {
        for (uint32_t i = 0; i < SENDERS; i++) {
            incomplete += atomic_load(&b.last[key][i]) != b.rounds;
        }
    }
    tr_metrics(b.sys, &m);
    TR_MUST(tr_system_close(b.sys, 0));
    printf("virtual: %u messages, %llu activations, %u out of order, "
           "%u rows incomplete\n",
           b.rounds * KEYS * SENDERS, (unsigned long long)m.activations,
           atomic_load(&b.wrong), incomplete);
    return atomic_load(&b.wrong) != 0 || incomplete != 0;
}
