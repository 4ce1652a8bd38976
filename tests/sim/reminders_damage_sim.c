/*
 * reminders_damage_sim.c - reminders on disks that lie.
 *
 * As reminders_sim.c, and in addition writes are lost or go elsewhere, bits
 * flip, and syncs do nothing. A reminder may be gone, or fire again, and a file
 * may be damaged. But a reminder that fires was set, by that actor, and is
 * never early. Damage that is found is an error that does not stop other
 * reminders: one that is set and acknowledged at the end fires.
 */
#include "reminders_bank.h"

/* Sets one reminder for each clock; returns how many were acknowledged. */
static uint64_t set_last_ones(tr_sim *sim, board *b)
{
    uint64_t answers = b->answers;

    for (uint32_t n = 0; n < NODES; n++) {
        for (uint32_t c = 0; c < CLOCKS; c++) {
            tr_system *sys = tr_sim_node(sim, n);
            if (sys != NULL) {
                set_one(sim, b, sys, n, c, 0, TR_SECONDS(30));
            }
        }
    }
    return b->answers - answers;
}

static bool has_missing(const board *b, uint64_t first, uint64_t *which)
{
    for (uint64_t i = first; i < b->count; i++) {
        if (b->sets[i].answered && b->sets[i].calls == 0) {
            *which = i;
            return true;
        }
    }
    return false;
}

/* A damaged state cannot be saved, but the handler is called. */
static tr_err last_ones_come(tr_sim *sim, void *user)
{
    enum { MINUTES_MAX = 25 };
    board *b = user;
    uint64_t first = b->count, missing = 0;

    if (set_last_ones(sim, b) == 0) {
        return nothing_is_wrong(sim, user);
    }
    for (int i = 0; i < MINUTES_MAX && has_missing(b, first, &missing); i++) {
        tr_sim_advance(sim, TR_MINUTES(1));
    }
    if (has_missing(b, first, &missing)) {
        complain(b, missing, "was answered in the end and never came");
    }
    return nothing_is_wrong(sim, user);
}

int main(int argc, char **argv)
{
    board b = {.disks_lie = true};

    return few_seeds(
        argc, argv, "20",
        TR_OPTIONS(
            tr_sim_options, .seed = 1, .nodes = NODES, .begin = begin,
            .node = node, .workload = workload, .invariant = nothing_is_wrong,
            .at_end = last_ones_come, .user = &b,
            .faults = TR_OPTIONS(
                tr_faults, .node_kill = 0.0005, .node_pause = 0.0002,
                .early_wake = 0.01, .disk_error = 0.0005, .disk_full = 0.0005,
                .disk_slow = 0.005, .torn_write = 0.0005, .lost_write = 0.002,
                .misdirected_write = 0.002, .disk_bit_flip = 0.002,
                .sync_lie = 0.01, .disk_lost = 0.1, .delay_max = TR_MS(200),
                .pause_max = TR_SECONDS(2))));
}
