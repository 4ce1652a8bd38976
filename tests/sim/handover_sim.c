/*
 * handover_sim.c - the network breaks while shards change their owner.
 *
 * The scenario of takeover.h, without killed nodes. In the middle of each
 * hand-over links are cut, both ways or one way, are slow, or clogged and
 * released in any order, and packets are lost, doubled and out of order. No
 * node is taken for dead, so this only delays the markers of the hand-over
 * (docs/design/0016-owners.md). The store accepts the writes of one epoch only,
 * which the built-in invariant `commit` checks after every write. At the end
 * every acknowledged number is stored, every watch was notified, and requests
 * are answered.
 */
#include "takeover.h"

int main(int argc, char **argv)
{
    the_board.cut = true;
    return few_seeds(
        argc, argv, "20",
        TR_OPTIONS(tr_sim_options, .seed = 1, .nodes = NODES, .begin = begin,
                   .node = node, .workload = workload, .invariant = holds,
                   .at_end = all_told, .user = &the_board,
                   .faults = TR_OPTIONS(
                       tr_faults, .early_wake = 0.01, .partition = 0.1,
                       .one_way = 0.1, .half_open = 0.1, .swizzle = 0.1,
                       .slow_link = 0.1, .clog = 0.1, .drop = 0.01,
                       .duplicate = 0.01, .reorder = 0.01, .delay = 0.01,
                       .delay_max = TR_MS(200), .pause_max = TR_SECONDS(2))));
}
