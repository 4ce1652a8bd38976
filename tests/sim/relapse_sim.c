/*
 * relapse_sim.c - killed nodes are back before the others know of the kill.
 *
 * The nodes and actors of takeover.h over a network that is slow but loses
 * nothing. Nodes are killed often and boot again soon, as another incarnation.
 * Their shards are given away, but about half of the other nodes do not learn
 * of a kill: when the next incarnation connects, they still have placements
 * on the dead one, mail for it, and watches of its actors.
 *   - of each name at most one activation is alive at any time;
 *   - every watch is notified of an end;
 *   - the work goes on: requests are answered.
 *
 * Covers X34, DI9 and DW10.
 */
#include "takeover.h"

static void begin_untold(tr_sim *sim, void *user)
{
    begin(sim, user);
    the_board.untold = true;
}

static tr_err deaths(tr_sim *sim, void *user)
{
    board *b = user;

    tr_sim_advance(sim, TR_SECONDS(1));
    for (int round = 0; round < ROUNDS && b->broken == NULL; round++) {
        uint32_t key = (uint32_t)tr_sim_random(sim, KEYS);
        uint32_t n = (uint32_t)tr_sim_random(sim, NODES);
        uint64_t what = tr_sim_random(sim, 20);

        usual(sim, b, what, USUAL - 10, key, n);
        if (what >= USUAL && what < 18 && n != HOME) {
            kill_one(sim, b, n);
        } else if (what >= 18 && b->mesh.systems[n] != NULL) {
            tr_system *sys = b->mesh.systems[n];
            tr_stop(sys, tr_virtual(sys, "target", keys[key]));
        }
        pass(sim, TR_MS(400));
        mesh_tell(&b->mesh, (uint32_t)tr_sim_random(sim, NODES));
    }
    settle(sim, b);
    return TR_OK;
}

int main(int argc, char **argv)
{
    return few_seeds(
        argc, argv, "20",
        TR_OPTIONS(tr_sim_options, .seed = 1, .nodes = NODES,
                   .begin = begin_untold, .node = node, .workload = deaths,
                   .invariant = holds, .at_end = all_told, .user = &the_board,
                   .faults = TR_OPTIONS(tr_faults, .early_wake = 0.01)));
}
