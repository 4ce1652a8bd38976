/*
 * wl_ask.c - asks: from an outside thread, and between actors that wait inside
 * their handlers.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "bench.h"

#define PAUSE_SECONDS 1e-3  // longer than any worker spins before it sleeps

TR_MESSAGE(Begin);
TR_MESSAGE(Answer, (int64_t, value));
TR_REQUEST(Question, Answer, (int64_t, value));

typedef struct Server {
    int64_t served;
} Server;

static tr_err server_question(tr_ctx *ctx, Server *self, const Question *m)
{
    self->served++;
    return tr_reply(ctx, m, .value = m->value + 1);
}

TR_ACTOR(server, Server, TR_ON(Question, server_question));

/* ---- ask, ask_slept: from the main thread, one at a time ---- */

static double ask_once(bench *b, tr_ref to, int64_t i)
{
    Answer answer;
    double begin = bench_now();
    TR_MUST(tr_ask(b->sys, to, &answer, 0, Question, .value = i));
    double seconds = bench_now() - begin;
    bench_verify(answer.value == i + 1, "answer");
    return seconds;
}

static double ask_outside(bench *b, double pause)
{
    tr_ref to = tr_spawn(b->sys, server);
    double *seconds = bench_alloc(b->n, sizeof(*seconds));
    double sum = 0;
    for (int64_t i = 0; i < b->n; i++) {
        if (pause > 0) bench_sleep(pause);
        seconds[i] = ask_once(b, to, i);
        sum += seconds[i];
    }
    bench_percentiles(b->workload, seconds, b->n);
    free(seconds);
    return sum / (double)b->n * 1e6;
}

static double run_ask(bench *b)
{
    return ask_outside(b, 0);
}

static double run_ask_slept(bench *b)
{
    return ask_outside(b, PAUSE_SECONDS);
}

/* ---- ask_await: W clients ask and wait inside their handlers ---- */

typedef struct Fleet {
    bench *b;
    _Atomic int64_t running;
} Fleet;

typedef struct Client {
    Fleet *fleet;
    tr_ref server;
} Client;

static tr_err client_begin(tr_ctx *ctx, Client *self, const Begin *m)
{
    (void)m;
    Fleet *fleet = self->fleet;
    for (int64_t i = 0; i < fleet->b->n; i++) {
        Answer answer;
        TR_MUST(tr_ask(ctx, self->server, &answer, 0, Question, .value = i));
        bench_verify(answer.value == i + 1, "answer");
    }
    // Relaxed: only the count matters; bench_end's lock orders the rest.
    if (atomic_fetch_sub_explicit(&fleet->running, 1, memory_order_relaxed) ==
        1)
        bench_end(fleet->b);
    return TR_OK;
}

TR_ACTOR(client, Client, TR_ON(Begin, client_begin));

static double ask_inside(bench *b, bool one_server)
{
    Fleet fleet = {.b = b, .running = b->w};
    tr_ref *all = bench_alloc(b->w, sizeof(*all));
    tr_ref to = tr_spawn(b->sys, server);
    for (int64_t i = 0; i < b->w; i++) {
        if (!one_server) to = tr_spawn(b->sys, server);
        all[i] = tr_spawn(b->sys, client,
                          TR_INIT(client, .fleet = &fleet, .server = to));
    }
    TR_MUST(tr_started(b->sys, all[b->w - 1], 0));
    bench_begin(b);
    for (int64_t i = 0; i < b->w; i++)
        tr_tell(b->sys, all[i], Begin);
    double seconds = bench_wait(b);
    free(all);
    return seconds / ((double)b->n * (double)b->w) * 1e9;
}

static double run_ask_await(bench *b)
{
    return ask_inside(b, false);
}

static double run_ask_await_server(bench *b)
{
    return ask_inside(b, true);
}

const bench_workload bench_asks[] = {
    {"ask", 200000, 1, "us", "a thread outside asks N times in a row (lower)",
     run_ask},
    {"ask_slept", 2000, 1, "us",
     "the same with 1 ms between, so that workers sleep (lower)",
     run_ask_slept},
    {"ask_await", 20000, 100, "ns",
     "W pairs, N asks each, waited for in the handler (lower)", run_ask_await},
    {"ask_await_server", 20000, 100, "ns",
     "W clients, N asks each to one server (lower)", run_ask_await_server},
    {0},
};
