/*
 * ask_graph_sim.c - random graphs of asking actors: every request ends.
 *
 * An actor that is asked replies, refuses, fails, forgets to reply, forwards
 * the request, keeps it for a while, or asks others first: one, two at once,
 * the faster of two, or with a callback. Requests run in cycles, and most
 * cycles would be deadlocks; each must end with TR_EDEADLOCK.
 *
 * In every other run nothing takes time and every request has an hour. Then
 * none may time out: a request that does was stuck.
 *
 * Covers BU6, T8 and TE3.
 */
#include <inttypes.h>

#include <troupe/troupe.h>

#include "few_seeds.h"

enum {
    ACTORS = 6,
    QUESTIONS = 30,
    DEPTH = 4,
    WAYS = 12,
};

TR_MESSAGE(Answer, (uint32_t, value));
TR_REQUEST(Question, Answer, (uint32_t, left), (uint32_t, value));
TR_MESSAGE(Idle, (uint32_t, pending));
TR_REQUEST(AreYouIdle, Idle);
TR_MESSAGE(Later);

typedef struct graph {
    tr_sim *sim;
    tr_ref actors[ACTORS];
    uint32_t lives;  // how often the node has booted
    bool hasty;      // nothing takes time: a time-out is a failure
    bool forwards;   // requests may be forwarded
    uint64_t begun, ended, deadlocks, stuck, wrong;
} graph;

typedef struct Node {
    graph *graph;
    uint32_t pending;  // callbacks not called yet
    const Question *kept[4];
    uint32_t kept_count;
} Node;

static uint32_t draw(graph *g, uint64_t below)
{
    return (uint32_t)tr_sim_random(g->sim, below);
}

static tr_ref anybody(graph *g)
{
    return g->actors[draw(g, ACTORS)];
}

static tr_nanos patience(graph *g)
{
    static const tr_nanos spans[] = {TR_MS(20), TR_MS(500), TR_SECONDS(10)};

    return g->hasty ? TR_MINUTES(60) : spans[draw(g, 3)];
}

static void note_end(graph *g, tr_err err, uint32_t want, const Answer *answer)
{
    g->ended++;
    g->deadlocks += err == TR_EDEADLOCK;
    g->stuck += err == TR_ETIMEDOUT && g->hasty;
    g->wrong += err == TR_OK && answer->value != want;
}

static tr_err ask_one(tr_ctx *ctx, Node *self, const Question *m)
{
    graph *g = self->graph;
    Answer answer = {0};

    tr_ref to = anybody(g);
    tr_nanos span = patience(g);

    g->begun++;
    tr_err err = tr_ask(ctx, to, &answer, span, Question, .left = m->left - 1,
                        .value = m->value + 1);
    note_end(g, err, m->value + 1, &answer);
    TR_OR_REFUSE(ctx, m, err);
    return tr_reply(ctx, m, .value = m->value);
}

static tr_err ask_two(tr_ctx *ctx, Node *self, const Question *m, bool any)
{
    graph *g = self->graph;
    Answer answer = {0};
    tr_future futures[2];
    size_t first = 0;

    // The search for cycles does not see a cycle through a wait for the faster
    // of two, or through an actor that got the request by a forward before the
    // wait began. Such a cycle ends by its time-out.
    any = any && !g->hasty;
    if (g->hasty && g->forwards) {
        return ask_one(ctx, self, m);
    }
    for (uint32_t i = 0; i < 2; i++) {
        tr_ref to = anybody(g);
        tr_nanos span = patience(g);
        futures[i] = tr_async(ctx, to, span, Question, .left = m->left - 1,
                              .value = m->value + 1);
    }
    if (any) {
        TR_OR_REFUSE(ctx, m, tr_await_any(ctx, futures, 2, &first));
    }
    for (size_t i = 0; i < (any ? 1 : 2); i++) {
        g->begun++;
        tr_err err = tr_await(ctx, futures[(first + i) % 2], Question, &answer);
        note_end(g, err, m->value + 1, &answer);
    }
    return tr_reply(ctx, m, .value = m->value);
}

static tr_err on_answer(tr_ctx *ctx, void *self, const void *reply, tr_err err)
{
    Node *node = self;

    (void)ctx;
    node->graph->wrong += (err == TR_OK) != (reply != NULL);
    node->graph->wrong += node->pending == 0;
    node->pending--;
    return TR_OK;
}

static tr_err ask_later(tr_ctx *ctx, Node *self, const Question *m)
{
    tr_ref to = anybody(self->graph);
    tr_nanos span = patience(self->graph);

    self->pending++;
    tr_ask_then(ctx, to, span, on_answer, Question, .left = m->left - 1,
                .value = m->value + 1);
    return tr_reply(ctx, m, .value = m->value);
}

static tr_err pass_on(tr_ctx *ctx, Node *self, const Question *m)
{
    if (!self->graph->forwards) {
        return tr_refuse(ctx, m, TR_EUSER, "it is mine");
    }
    tr_forward(ctx, anybody(self->graph), m);
    return TR_OK;
}

static tr_err keep(tr_ctx *ctx, Node *self, const Question *m)
{
    if (self->kept_count == 4) {
        return tr_reply(ctx, m, .value = m->value);
    }
    self->kept[self->kept_count++] = tr_keep(ctx, m);
    (void)tr_after(ctx, TR_MS(1 + draw(self->graph, 100)), Later);
    return TR_OK;
}

static tr_err on_later(tr_ctx *ctx, Node *self, const Later *m)
{
    (void)m;
    if (self->kept_count > 0) {
        const Question *kept = self->kept[--self->kept_count];
        (void)tr_reply(ctx, kept, .value = kept->value);
        tr_release(ctx, kept);
    }
    return TR_OK;
}

static tr_err slowly(tr_ctx *ctx, Node *self, const Question *m)
{
    if (!self->graph->hasty) {
        TR_TRY(tr_sleep(ctx, TR_MS(1 + draw(self->graph, 1000))));
    }
    return tr_reply(ctx, m, .value = m->value);
}

static tr_err on_question(tr_ctx *ctx, Node *self, const Question *m)
{
    uint32_t way = draw(self->graph, m->left > 0 ? WAYS : 5);

    switch (way) {
    case 0:
        return slowly(ctx, self, m);
    case 1:
        return tr_refuse(ctx, m, TR_EUSER, "no");
    case 2:
        return draw(self->graph, 4) == 0
                   ? tr_fail(ctx, TR_EUSER, "asked too much")
                   : tr_reply(ctx, m, .value = m->value);
    case 3:
        return TR_OK;  // no reply
    case 4:
        return keep(ctx, self, m);
    case 5:
        return pass_on(ctx, self, m);
    case 6:
        return ask_two(ctx, self, m, false);
    case 7:
        return ask_two(ctx, self, m, true);
    case 8:
        return ask_later(ctx, self, m);
    default:
        return ask_one(ctx, self, m);
    }
}

static tr_err on_are_you_idle(tr_ctx *ctx, Node *self, const AreYouIdle *m)
{
    return tr_reply(ctx, m, .pending = self->pending + self->kept_count);
}

TR_ACTOR(asker, Node, TR_ON(Question, on_question), TR_ON(Later, on_later),
         TR_ON(AreYouIdle, on_are_you_idle));

static tr_err node(tr_system *sys, uint32_t index, void *user)
{
    graph *g = user;

    (void)index;
    *g = (graph){.sim = g->sim,
                 .hasty = g->hasty,
                 .forwards = g->forwards,
                 .lives = g->lives + 1};
    for (uint32_t i = 0; i < ACTORS; i++) {
        g->actors[i] =
            tr_spawn(sys, asker, TR_INIT(asker, .graph = g),
                     .supervision = TR_SUPERVISE(.max_restarts = UINT32_MAX));
    }
    return TR_OK;
}

static tr_err workload(tr_sim *sim, void *user)
{
    graph *g = user;

    g->sim = sim;
    g->hasty = tr_sim_random(sim, 2) == 0;
    g->forwards = tr_sim_random(sim, 2) == 0;
    for (int i = 0; i < QUESTIONS; i++) {
        Answer answer = {0};
        tr_system *sys = tr_sim_node(sim, 0);
        if (sys == NULL) {
            tr_sim_advance(sim, TR_MS(100));
            continue;
        }
        if (tr_sim_random(sim, 3) != 0) {  // several at once
            tr_tell(sys, anybody(g), Question, .left = DEPTH, .value = 0);
            continue;
        }
        uint32_t life = g->lives;
        tr_ref to = anybody(g);
        tr_nanos span = patience(g);
        tr_err err =
            tr_ask(sys, to, &answer, span, Question, .left = DEPTH, .value = 7);
        if (err == TR_ETIMEDOUT && g->hasty && life == g->lives &&
            tr_sim_node(sim, 0) == sys) {
            return tr_sim_fail(sim, "a question from outside was stuck");
        }
    }
    return TR_OK;
}

static tr_err right(tr_sim *sim, void *user)
{
    const graph *g = user;

    if (g->stuck > 0) {
        return tr_sim_fail(sim, "a question was stuck for an hour");
    }
    return g->wrong > 0 ? tr_sim_fail(sim, "a wrong answer") : TR_OK;
}

static tr_err all_ended(tr_sim *sim, void *user)
{
    graph *g = user;

    if (g->begun != g->ended) {
        return tr_sim_fail(sim, "%" PRIu64 " asked, %" PRIu64 " ended",
                           g->begun, g->ended);
    }
    for (uint32_t i = 0; i < ACTORS; i++) {
        Idle idle;
        TR_TRY(tr_ask(tr_sim_node(sim, 0), g->actors[i], &idle, TR_SECONDS(1),
                      AreYouIdle));
        if (idle.pending > 0) {
            return tr_sim_fail(sim, "actor %" PRIu32 " waits for %" PRIu32, i,
                               idle.pending);
        }
    }
    return TR_OK;
}

int main(int argc, char **argv)
{
    graph it = {0};

    return few_seeds(
        argc, argv, "1000",
        TR_OPTIONS(tr_sim_options, .seed = 1, .node = node,
                   .workload = workload, .invariant = right,
                   .at_end = all_ended, .user = &it, .limit = TR_MINUTES(600),
                   .faults = TR_OPTIONS(tr_faults, .node_kill = 0.0002,
                                        .node_pause = 0.001,
                                        .clock_skew = 0.001, .early_wake = 0.01,
                                        .pause_max = TR_SECONDS(3))));
}
