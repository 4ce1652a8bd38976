/*
 * wl_messages.c - plain messages: one pair, one stream, many streams into one
 * mailbox, one message around a ring.
 */
#include <stdlib.h>

#include "bench.h"

TR_MESSAGE(Begin);
TR_MESSAGE(Peer, (tr_ref, ref));
TR_MESSAGE(Ping, (int64_t, i));
TR_MESSAGE(Pong, (int64_t, i));
TR_MESSAGE(Increment, (int64_t, by));
TR_MESSAGE(Token, (int64_t, left));
TR_MESSAGE(Total, (int64_t, count));
TR_REQUEST(GetTotal, Total);

/* ---- ping_pong: two actors, one message between them ---- */

typedef struct Player {
    bench *b;
    tr_ref peer;
    int64_t seen;
} Player;

static tr_err player_peer(tr_ctx *ctx, Player *self, const Peer *m)
{
    (void)ctx;
    self->peer = m->ref;
    return TR_OK;
}

static tr_err player_begin(tr_ctx *ctx, Player *self, const Begin *m)
{
    (void)m;
    bench_begin(self->b);
    tr_tell(ctx, self->peer, Ping, .i = 0);
    return TR_OK;
}

static tr_err player_ping(tr_ctx *ctx, Player *self, const Ping *m)
{
    bench_verify(m->i == self->seen++, "ping out of order");
    tr_tell(ctx, self->peer, Pong, .i = m->i);
    return TR_OK;
}

static tr_err player_pong(tr_ctx *ctx, Player *self, const Pong *m)
{
    bench_verify(m->i == self->seen++, "pong out of order");
    if (self->seen == self->b->n)
        bench_end(self->b);
    else
        tr_tell(ctx, self->peer, Ping, .i = self->seen);
    return TR_OK;
}

TR_ACTOR(player, Player, TR_ON(Peer, player_peer), TR_ON(Begin, player_begin),
         TR_ON(Ping, player_ping), TR_ON(Pong, player_pong));

static double run_ping_pong(bench *b)
{
    tr_ref one = tr_spawn(b->sys, player, TR_INIT(player, .b = b));
    tr_ref two = tr_spawn(b->sys, player, TR_INIT(player, .b = b));
    tr_tell(b->sys, one, Peer, .ref = two);
    tr_tell(b->sys, two, Peer, .ref = one);
    tr_tell(b->sys, one, Begin);
    return (double)b->n / bench_wait(b);
}

/* ---- counting, fan_in: producers that loop inside one handler ---- */

typedef struct Consumer {
    bench *b;
    int64_t sum;
    int64_t expected;
} Consumer;

static tr_err consumer_increment(tr_ctx *ctx, Consumer *self,
                                 const Increment *m)
{
    (void)ctx;
    self->sum += m->by;
    if (self->sum == self->expected) bench_end(self->b);
    return TR_OK;
}

static tr_err consumer_total(tr_ctx *ctx, Consumer *self, const GetTotal *m)
{
    return tr_reply(ctx, m, .count = self->sum);
}

TR_ACTOR(consumer, Consumer, TR_ON(Increment, consumer_increment),
         TR_ON(GetTotal, consumer_total));

typedef struct Producer {
    tr_ref to;
    int64_t n;
} Producer;

static tr_err producer_begin(tr_ctx *ctx, Producer *self, const Begin *m)
{
    (void)m;
    for (int64_t i = 0; i < self->n; i++)
        tr_tell(ctx, self->to, Increment, .by = 1);
    return TR_OK;
}

TR_ACTOR(producer, Producer, TR_ON(Begin, producer_begin));

static double stream(bench *b, int64_t producers)
{
    int64_t expected = b->n * producers;
    tr_ref sink = tr_spawn(b->sys, consumer,
                           TR_INIT(consumer, .b = b, .expected = expected));
    tr_ref *all = bench_alloc(producers, sizeof(*all));
    for (int64_t i = 0; i < producers; i++)
        all[i] = tr_spawn(b->sys, producer,
                          TR_INIT(producer, .to = sink, .n = b->n));
    TR_MUST(tr_started(b->sys, all[producers - 1], 0));
    bench_begin(b);
    for (int64_t i = 0; i < producers; i++)
        tr_tell(b->sys, all[i], Begin);
    double seconds = bench_wait(b);
    Total total;
    TR_MUST(tr_ask(b->sys, sink, &total, 0, GetTotal));
    bench_verify(total.count == expected, "sum of increments");
    free(all);
    return (double)expected / seconds;
}

static double run_counting(bench *b)
{
    return stream(b, 1);
}

static double run_fan_in(bench *b)
{
    return stream(b, b->w);
}

/* ---- thread_ring: one token, many actors ---- */

typedef struct RingNode {
    bench *b;
    tr_ref next;
    int64_t seen;
} RingNode;

static tr_err ring_peer(tr_ctx *ctx, RingNode *self, const Peer *m)
{
    (void)ctx;
    self->next = m->ref;
    return TR_OK;
}

static tr_err ring_token(tr_ctx *ctx, RingNode *self, const Token *m)
{
    self->seen++;
    if (m->left == 0)
        bench_end(self->b);
    else
        tr_tell(ctx, self->next, Token, .left = m->left - 1);
    return TR_OK;
}

static tr_err ring_total(tr_ctx *ctx, RingNode *self, const GetTotal *m)
{
    return tr_reply(ctx, m, .count = self->seen);
}

TR_ACTOR(ring_node, RingNode, TR_ON(Peer, ring_peer), TR_ON(Token, ring_token),
         TR_ON(GetTotal, ring_total));

static double run_thread_ring(bench *b)
{
    tr_ref *all = bench_alloc(b->w, sizeof(*all));
    for (int64_t i = 0; i < b->w; i++)
        all[i] = tr_spawn(b->sys, ring_node, TR_INIT(ring_node, .b = b));
    for (int64_t i = 0; i < b->w; i++)
        tr_tell(b->sys, all[i], Peer, .ref = all[(i + 1) % b->w]);
    TR_MUST(tr_started(b->sys, all[b->w - 1], 0));
    bench_begin(b);
    tr_tell(b->sys, all[0], Token, .left = b->n);
    double seconds = bench_wait(b);
    int64_t sum = 0;
    for (int64_t i = 0; i < b->w; i++) {
        Total total;
        TR_MUST(tr_ask(b->sys, all[i], &total, 0, GetTotal));
        sum += total.count;
    }
    bench_verify(sum == b->n + 1, "hops of the ring");
    free(all);
    return (double)b->n / seconds;
}

const bench_workload bench_messages[] = {
    {"ping_pong", 1000000, 1, "rt/s", "two actors, N round trips",
     run_ping_pong},
    {"counting", 10000000, 1, "msg/s",
     "one producer tells N increments in one handler", run_counting},
    {"fan_in", 100000, 100, "msg/s",
     "W producers tell N increments each to one consumer", run_fan_in},
    {"thread_ring", 10000000, 100, "hops/s",
     "one token makes N hops round W actors", run_thread_ring},
    {0},
};
