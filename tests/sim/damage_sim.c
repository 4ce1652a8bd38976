/*
 * damage_sim.c - stored state on disks that lie.
 *
 * As storage_sim.c, and in addition writes are lost or go elsewhere, bits flip,
 * and syncs do nothing. An acknowledged save may be gone, and a file may be
 * damaged. But every state that a counter loads was once saved under its name,
 * and damage that is found is an error. A store that does not open any more,
 * or a counter that does not start, is a correct outcome here.
 */
#include "storage_bank.h"

static tr_err nothing_is_wrong(tr_sim *sim, void *user)
{
    board *b = user;

    for (uint32_t n = 0; n < NODES; n++) {
        tr_system *sys = tr_sim_node(sim, n);
        for (uint32_t i = 0; i < COUNTERS; i++) {
            // Any result is accepted: the counter checks its own state.
            tr_err err = tr_ask(
                sys, tr_virtual(sys, "counter", names[i]), NULL, TR_SECONDS(5),
                Look, .board = (uint64_t)(uintptr_t)b, .node = n, .index = i);
            b->errors += err != TR_OK;
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
