/*
 * apart_sim.c - nodes do not hear each other for seconds, while shards move.
 *
 * The scenario of takeover.h, without killed nodes. Cuts between nodes, both
 * ways or one way, last up to 25 seconds, also while shards change their owner.
 * A stream is not given up because it is silent (docs/design/0016-owners.md),
 * so after the cuts every node talks to every other one again: there is one
 * activation of a name, requests are answered, and every watch is notified in
 * the end.
 *
 * Covers DI8, DI10, DW10 and X53.
 */
#include "takeover.h"

enum { TALKS = 120, MEETINGS = 40, QUIET = KEYS / 2 };

/* Draws how long a cut lasts: from the delay of a slow link to 25 seconds. */
static tr_nanos any_cut(tr_sim *sim)
{
    return (tr_nanos)tr_sim_random(sim, TR_SECONDS(25)) + 1;
}

static void break_links(tr_sim *sim, board *b)
{
    uint32_t from = (uint32_t)tr_sim_random(sim, NODES);
    uint32_t to = (from + 1 + (uint32_t)tr_sim_random(sim, NODES - 1)) % NODES;
    if (tr_sim_random(sim, 2) == 0) {
        tri_sim_net_partition(b->mesh.net, UINT64_C(1) << from, any_cut(sim));
    } else {
        tri_sim_net_cut(b->mesh.net, from, to, any_cut(sim));
    }
}

/* Sends to the first half of the names, from all nodes, all the time. */
static void talk(board *b)
{
    for (uint32_t n = 0; n < NODES; n++) {
        tr_system *sys = b->mesh.systems[n];
        for (uint32_t key = 0; key < QUIET; key++) {
            tr_tell(sys, tr_virtual(sys, "target", keys[key]), Note);
        }
    }
}

static uint32_t alive(board *b, uint32_t key)
{
    uint32_t count = 0;
    for (uint32_t n = 0; n < NODES; n++) {
        count += b->active[key][n];
    }
    return count;
}

static void one_round(tr_sim *sim, board *b)
{
    uint32_t key = (uint32_t)tr_sim_random(sim, KEYS);
    uint32_t n = (uint32_t)tr_sim_random(sim, NODES);
    uint64_t what = tr_sim_random(sim, 20);
    if (what < 6) {
        tr_tell(b->mesh.systems[HOME], b->guard, Guard, .key = key);
    } else if (what < 9) {
        call_all(sim, b, key);
    } else if (what < 13) {
        give_away(sim, b, key, n);
    } else if (what < 15) {
        break_links(sim, b);
    }
}

static tr_err live_apart(tr_sim *sim, void *user)
{
    board *b = user;

    tr_sim_advance(sim, TR_SECONDS(1));
    for (int i = 0; i < TALKS && b->broken == NULL; i++) {
        one_round(sim, b);
        talk(b);
        pass(sim, TR_SECONDS(1));
    }
    settle(sim, b);
    for (int i = 0; i < MEETINGS; i++) {
        talk(b);
        tr_sim_advance(sim, TR_MS(500));
    }
    for (uint32_t i = 0; i < KEYS && b->broken == NULL; i++) {
        if (alive(b, i) > 1) {
            broken("two activations after all have met");
        }
    }
    return TR_OK;
}

int main(int argc, char **argv)
{
    the_board.cut = true;
    return few_seeds(
        argc, argv, "10",
        TR_OPTIONS(tr_sim_options, .seed = 1, .nodes = NODES, .begin = begin,
                   .node = node, .workload = live_apart, .invariant = holds,
                   .at_end = all_told, .user = &the_board,
                   .faults = TR_OPTIONS(tr_faults, .early_wake = 0.01)));
}
