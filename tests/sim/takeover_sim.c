/*
 * takeover_sim.c - shards change their owner and nodes are killed; the actors
 * stay available.
 *
 * The scenario of takeover.h over a network that is slow but loses nothing.
 */
#include "takeover.h"

int main(int argc, char **argv)
{
    return few_seeds(
        argc, argv, "20",
        TR_OPTIONS(tr_sim_options, .seed = 1, .nodes = NODES, .begin = begin,
                   .node = node, .workload = workload, .invariant = holds,
                   .at_end = all_told, .user = &the_board,
                   .faults = TR_OPTIONS(tr_faults, .early_wake = 0.01)));
}
