/*
 * events_damage_sim.c - event sourcing on disks that lie.
 *
 * As events_sim.c, and in addition writes are lost or go elsewhere, bits flip,
 * and syncs do nothing. Acknowledged entries may be gone, and a file may be
 * damaged. But everything in a journal was once emitted by it, in order and
 * once, and damage that is found is an error.
 */
#include "events_bank.h"

static tr_err nothing_is_wrong(tr_sim *sim, void *user)
{
    board *b = user;

    for (uint32_t n = 0; n < NODES; n++) {
        for (uint32_t i = 0; i < JOURNALS; i++) {
            b->errors += look(sim, b, n, i, TR_SECONDS(5)) != TR_OK;
        }
    }
    return states_are_right(sim, user);
}

int main(int argc, char **argv)
{
    board b = {.disks_lie = true};

    return few_seeds(
        argc, argv, "20",
        TR_OPTIONS(
            tr_sim_options, .seed = 1, .nodes = NODES, .begin = begin,
            .node = node, .workload = workload, .invariant = states_are_right,
            .at_end = nothing_is_wrong, .user = &b,
            .faults = TR_OPTIONS(
                tr_faults, .node_kill = 0.0005, .early_wake = 0.01,
                .disk_error = 0.0005, .disk_full = 0.0005, .disk_slow = 0.005,
                .torn_write = 0.0005, .lost_write = 0.002,
                .misdirected_write = 0.002, .disk_bit_flip = 0.002,
                .sync_lie = 0.01, .disk_lost = 0.1, .delay_max = TR_MS(200),
                .pause_max = TR_SECONDS(2))));
}
