/*
 * events_sim.c - event sourcing on disks that fail, but keep what they
 * promise.
 *
 * Disks give errors, are full and slow, and tear writes. Nodes are killed at
 * any moment, and their disks keep any part of what was not synced. After every
 * crash each acknowledged entry is there, in order, once and whole, loaded from
 * a snapshot or from events. At the end every journal replies.
 */
#include "events_bank.h"

static tr_err all_answer(tr_sim *sim, void *user)
{
    board *b = user;

    for (uint32_t n = 0; n < NODES; n++) {
        for (uint32_t i = 0; i < JOURNALS; i++) {
            TR_TRY(look(sim, b, n, i, 0));
        }
    }
    return b->acks >= ENTRIES / 4
               ? states_are_right(sim, user)
               : tr_sim_fail(sim, "only %" PRIu64 " entries", b->acks);
}

int main(int argc, char **argv)
{
    board b = {.acks = 0};

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
