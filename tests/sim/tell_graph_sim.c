/*
 * tell_graph_sim.c - random graphs of telling actors never lock up.
 *
 * Every actor slows its senders down, and messages come in bursts, so many
 * actors are parked in tr_tell much of the time, also in cycles. Whatever the
 * order: each message arrives, and those of one sender to one receiver arrive
 * in the order in which they were sent. No actor handles two messages at once,
 * and none stays parked. Covers C9, C10 and TE3.
 */
#include <inttypes.h>

#include <troupe/troupe.h>

#include "few_seeds.h"

enum {
    ACTORS = 6,
    OUTSIDE = ACTORS,  // the workload, as a sender
    STARTS = 12,
    HOPS_MAX = 5,
    FAN_OUT = 3,
    BURST = 150,  // soft limits are checked after some dozens of messages
    MESSAGES_MAX = 1500,
    SOFT_LIMIT = 2,
};

/*
 * Only pauses of the node take time here, so a sender that is parked for longer
 * was not woken. Shorter than the limit of such a wait, which is 30 s.
 */
#define PARKED_MAX TR_SECONDS(25)

TR_MESSAGE(Hop, (uint32_t, from), (uint64_t, number), (uint32_t, left));

/* What is known of the present incarnation of a node. */
typedef struct graph {
    tr_sim *sim;
    tr_ref actors[ACTORS];
    uint64_t next[ACTORS + 1][ACTORS];  // sent, for each pair
    uint64_t seen[ACTORS + 1][ACTORS];  // ... and arrived
    uint64_t sent, arrived;
    bool mixed_up;  // a message arrived out of order
    bool two_at_once;
    bool forgotten;  // a sender was parked although there was room
} graph;

typedef struct Node {
    graph *graph;
    uint32_t index;
    bool busy;
} Node;

static uint32_t anybody(graph *g)
{
    return (uint32_t)tr_sim_random(g->sim, ACTORS);
}

static void send_hop(tr_from from, graph *g, uint32_t me, uint32_t to,
                     uint32_t left)
{
    g->sent++;
    tr_tell(from, g->actors[to], Hop, .from = me, .number = ++g->next[me][to],
            .left = left);
}

static tr_err on_hop(tr_ctx *ctx, Node *self, const Hop *m)
{
    graph *g = self->graph;

    g->arrived++;
    g->two_at_once = g->two_at_once || self->busy;
    if (m->number != ++g->seen[m->from][self->index]) {
        g->mixed_up = true;
    }
    if (m->left == 0) {
        return TR_OK;
    }
    bool burst = tr_sim_random(g->sim, 8) == 0;
    uint64_t out = tr_sim_random(g->sim, burst ? BURST : FAN_OUT + 1);
    uint32_t only = anybody(g);
    for (uint64_t i = 0; i < out && g->sent < MESSAGES_MAX; i++) {
        tr_nanos begun = tr_now(ctx);
        self->busy = true;
        send_hop(ctx, g, self->index, burst ? only : anybody(g), m->left - 1);
        g->forgotten = g->forgotten || tr_now(ctx) - begun > PARKED_MAX;
    }
    self->busy = false;
    return TR_OK;
}

TR_ACTOR(hopper, Node, TR_ON(Hop, on_hop));

static tr_err node(tr_system *sys, uint32_t index, void *user)
{
    graph *g = user;

    (void)index;
    *g = (graph){.sim = g->sim};
    for (uint32_t i = 0; i < ACTORS; i++) {
        g->actors[i] = tr_spawn(sys, hopper, .soft_limit = SOFT_LIMIT,
                                TR_INIT(hopper, .graph = g, .index = i));
    }
    return TR_OK;
}

static tr_err workload(tr_sim *sim, void *user)
{
    graph *g = user;

    g->sim = sim;
    for (int i = 0; i < STARTS; i++) {
        tr_system *sys = tr_sim_node(sim, 0);
        if (sys != NULL) {
            send_hop(sys, g, OUTSIDE, anybody(g), HOPS_MAX);
        }
        if (tr_sim_random(sim, 2) == 0) {
            tr_sim_advance(sim, 1 + (tr_nanos)tr_sim_random(sim, TR_MS(1)));
        }
    }
    return TR_OK;
}

static tr_err in_order(tr_sim *sim, void *user)
{
    const graph *g = user;

    if (g->mixed_up) {
        return tr_sim_fail(sim, "a message overtook another");
    }
    if (g->forgotten) {
        return tr_sim_fail(sim, "a sender was parked for too long");
    }
    return g->two_at_once ? tr_sim_fail(sim, "two messages at once") : TR_OK;
}

static tr_err all_arrived(tr_sim *sim, void *user)
{
    const graph *g = user;

    if (g->sent != g->arrived) {
        return tr_sim_fail(sim, "%" PRIu64 " sent, %" PRIu64 " arrived",
                           g->sent, g->arrived);
    }
    return TR_OK;
}

int main(int argc, char **argv)
{
    graph it = {0};

    return few_seeds(
        argc, argv, "300",
        TR_OPTIONS(tr_sim_options, .seed = 1, .node = node,
                   .workload = workload, .invariant = in_order,
                   .at_end = all_arrived, .user = &it,
                   .faults = TR_OPTIONS(tr_faults, .node_kill = 0.0002,
                                        .node_pause = 0.001,
                                        .clock_skew = 0.001, .early_wake = 0.01,
                                        .pause_max = TR_SECONDS(3))));
}
