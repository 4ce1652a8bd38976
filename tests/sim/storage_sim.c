/*
 * storage_sim.c - stored state on disks that fail, but keep what they promise.
 *
 * Disks give errors, are full and slow, and tear writes. Nodes are killed at
 * any moment, and their disks keep any part of what was not synced. An
 * acknowledged save survives every crash. A loaded state was once saved, and is
 * not newer than the last save. At the end every counter replies.
 */
#include "storage_bank.h"

int main(int argc, char **argv)
{
    board b = {0};

    return few_seeds(
        argc, argv, "20",
        TR_OPTIONS(
            tr_sim_options, .seed = 1, .nodes = NODES, .begin = begin,
            .node = node, .workload = workload, .invariant = states_are_right,
            .at_end = all_answer, .user = &b,
            .faults = TR_OPTIONS(
                tr_faults, .node_kill = 0.0005, .node_pause = 0.0002,
                .clock_skew = 0.0002, .early_wake = 0.01, .disk_error = 0.001,
                .disk_full = 0.001, .disk_slow = 0.01, .torn_write = 0.001,
                .delay_max = TR_MS(200), .pause_max = TR_SECONDS(2))));
}
