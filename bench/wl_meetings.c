/*
 * wl_meetings.c - many actors that meet: at random (big) and through one busy
 * actor (chameneos).
 */
#include <stdlib.h>

#include "bench.h"

TR_MESSAGE(Begin);
TR_MESSAGE(Ping, (int64_t, from));
TR_MESSAGE(Pong, (int64_t, from));
TR_MESSAGE(Finished, (int64_t, count));
TR_MESSAGE(Meet, (int32_t, colour), (tr_ref, who));
TR_MESSAGE(Change, (int32_t, colour));
TR_MESSAGE(Leave);

/* ---- big: each actor pings random others, one ping in flight each ---- */

typedef struct Mesh {
    bench *b;
    tr_ref *all;
    tr_ref sink;
} Mesh;

typedef struct Peer {
    const Mesh *mesh;
    int64_t index;
    int64_t sent;
    int64_t expected;  // the actor that must answer the ping in flight
    uint64_t dice;
} Peer;

static void ping_someone(tr_ctx *ctx, Peer *self)
{
    uint64_t others = (uint64_t)self->mesh->b->w - 1;
    int64_t to = (int64_t)bench_below(bench_random(&self->dice), others);
    if (to >= self->index) to++;
    self->sent++;
    self->expected = to;
    tr_tell(ctx, self->mesh->all[to], Ping, .from = self->index);
}

static tr_err peer_begin(tr_ctx *ctx, Peer *self, const Begin *m)
{
    (void)m;
    ping_someone(ctx, self);
    return TR_OK;
}

static tr_err peer_ping(tr_ctx *ctx, Peer *self, const Ping *m)
{
    tr_tell(ctx, self->mesh->all[m->from], Pong, .from = self->index);
    return TR_OK;
}

static tr_err peer_pong(tr_ctx *ctx, Peer *self, const Pong *m)
{
    bench_verify(m->from == self->expected, "pong from another actor");
    if (self->sent == self->mesh->b->n)
        tr_tell(ctx, self->mesh->sink, Finished, .count = self->sent);
    else
        ping_someone(ctx, self);
    return TR_OK;
}

TR_ACTOR(peer, Peer, TR_ON(Begin, peer_begin), TR_ON(Ping, peer_ping),
         TR_ON(Pong, peer_pong));

typedef struct Sink {
    bench *b;
    int64_t finished;
    int64_t sum;
} Sink;

static tr_err sink_finished(tr_ctx *ctx, Sink *self, const Finished *m)
{
    (void)ctx;
    self->sum += m->count;
    if (++self->finished == self->b->w) {
        bench_verify(self->sum == self->b->n * self->b->w, "pings of big");
        bench_end(self->b);
    }
    return TR_OK;
}

TR_ACTOR(sink, Sink, TR_ON(Finished, sink_finished));

static double run_big(bench *b)
{
    b->w = b->w < 2 ? 2 : b->w;
    Mesh mesh = {.b = b, .all = bench_alloc(b->w, sizeof(tr_ref))};
    mesh.sink = tr_spawn(b->sys, sink, TR_INIT(sink, .b = b));
    for (int64_t i = 0; i < b->w; i++)
        mesh.all[i] = tr_spawn(b->sys, peer,
                               TR_INIT(peer, .mesh = &mesh, .index = i,
                                       .dice = b->seed + (uint64_t)i * 7919));
    TR_MUST(tr_started(b->sys, mesh.all[b->w - 1], 0));
    bench_begin(b);
    for (int64_t i = 0; i < b->w; i++)
        tr_tell(b->sys, mesh.all[i], Begin);
    double seconds = bench_wait(b);
    free(mesh.all);  // the last pong has been handled: no actor reads it
    return 2.0 * (double)b->n * (double)b->w / seconds;
}

/* ---- chameneos: one actor makes the pairs ---- */

typedef struct Creature {
    tr_ref mall;
    int32_t colour;
    int64_t meetings;
} Creature;

static int32_t mixed(int32_t a, int32_t b)
{
    return a == b ? a : 3 - a - b;
}

static void ask_for_meeting(tr_ctx *ctx, const Creature *self)
{
    tr_tell(ctx, self->mall, Meet, .colour = self->colour, .who = tr_self(ctx));
}

static tr_err creature_begin(tr_ctx *ctx, Creature *self, const Begin *m)
{
    (void)m;
    ask_for_meeting(ctx, self);
    return TR_OK;
}

static tr_err creature_meet(tr_ctx *ctx, Creature *self, const Meet *m)
{
    self->colour = mixed(self->colour, m->colour);
    self->meetings++;
    tr_tell(ctx, m->who, Change, .colour = self->colour);
    ask_for_meeting(ctx, self);
    return TR_OK;
}

static tr_err creature_change(tr_ctx *ctx, Creature *self, const Change *m)
{
    self->colour = m->colour;
    self->meetings++;
    ask_for_meeting(ctx, self);
    return TR_OK;
}

static tr_err creature_leave(tr_ctx *ctx, Creature *self, const Leave *m)
{
    (void)m;
    tr_tell(ctx, self->mall, Finished, .count = self->meetings);
    return TR_OK;
}

TR_ACTOR(creature, Creature, TR_ON(Begin, creature_begin),
         TR_ON(Meet, creature_meet), TR_ON(Change, creature_change),
         TR_ON(Leave, creature_leave));

typedef struct Mall {
    bench *b;
    tr_ref waiting;
    bool has_waiting;
    int64_t left;
    int64_t finished;
    int64_t sum;
} Mall;

static tr_err mall_meet(tr_ctx *ctx, Mall *self, const Meet *m)
{
    if (self->left == 0) {
        tr_tell(ctx, m->who, Leave);
    } else if (!self->has_waiting) {
        self->waiting = m->who;
        self->has_waiting = true;
    } else {
        self->left--;
        self->has_waiting = false;
        tr_tell(ctx, self->waiting, Meet, .colour = m->colour, .who = m->who);
    }
    return TR_OK;
}

static tr_err mall_finished(tr_ctx *ctx, Mall *self, const Finished *m)
{
    (void)ctx;
    self->sum += m->count;
    if (++self->finished == self->b->w) {
        bench_verify(self->sum == 2 * self->b->n, "meetings of chameneos");
        bench_end(self->b);
    }
    return TR_OK;
}

TR_ACTOR(mall, Mall, TR_ON(Meet, mall_meet), TR_ON(Finished, mall_finished));

static double run_chameneos(bench *b)
{
    b->w = b->w < 2 ? 2 : b->w;
    tr_ref place = tr_spawn(b->sys, mall, TR_INIT(mall, .b = b, .left = b->n));
    tr_ref *all = bench_alloc(b->w, sizeof(*all));
    for (int64_t i = 0; i < b->w; i++)
        all[i] = tr_spawn(
            b->sys, creature,
            TR_INIT(creature, .mall = place, .colour = (int32_t)(i % 3)));
    TR_MUST(tr_started(b->sys, all[b->w - 1], 0));
    bench_begin(b);
    for (int64_t i = 0; i < b->w; i++)
        tr_tell(b->sys, all[i], Begin);
    double seconds = bench_wait(b);
    free(all);
    return (double)b->n / seconds;
}

const bench_workload bench_meetings[] = {
    {"big", 20000, 120, "msg/s", "W actors ping random others, N pings each",
     run_big},
    {"chameneos", 2000000, 100, "meetings/s",
     "W creatures meet N times in one mall", run_chameneos},
    {0},
};
