/*
 * unknown_sim.c - stored state behind a store whose answers are lost.
 *
 * As storage_sim.c, and in addition the outcome of a write may be unknown,
 * whether it was made or not. The counter then restarts from the stored state.
 * So an acknowledged save is never lost, every loaded state was once saved, and
 * at the end every counter replies. Wall clocks jump, too.
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
            .faults = TR_OPTIONS(tr_faults, .node_kill = 0.0003,
                                 .early_wake = 0.01, .disk_error = 0.001,
                                 .unknown_outcome = 0.05, .clock_jump = 0.0005,
                                 .disk_slow = 0.005, .delay_max = TR_MS(200),
                                 .pause_max = TR_SECONDS(2))));
}
