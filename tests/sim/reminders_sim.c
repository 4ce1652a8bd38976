/*
 * reminders_sim.c - reminders on disks that fail, but keep what they promise.
 *
 * Disks give errors, are full and slow and tear writes, and nodes are killed.
 * An acknowledged reminder fires at least once, however often its node went
 * down in between, not before it is due, as it was set last, and never in an
 * incarnation of the node that began after it was cancelled.
 *
 * Covers ST9, ST12 and TE4.
 */
#include "reminders_bank.h"

/* Returns the first setting that should have fired and has not, or count. */
static uint64_t find_missing(const board *b)
{
    uint64_t i = 0;

    while (i < b->count && (!b->sets[i].answered || b->sets[i].replaced ||
                            b->sets[i].rings > 0)) {
        i++;
    }
    return i;
}

/* A reminder whose handler failed fires again within ten minutes. */
static tr_err all_have_come(tr_sim *sim, void *user)
{
    enum { MINUTES_MAX = 25 };
    board *b = user;

    for (int i = 0; i < MINUTES_MAX && find_missing(b) < b->count; i++) {
        tr_sim_advance(sim, TR_MINUTES(1));
    }
    uint64_t missing = find_missing(b);
    if (missing < b->count) {
        complain(b, missing, "was answered and never came");
    }
    if (b->answers < ROUNDS / 6) {
        return tr_sim_fail(sim, "only %" PRIu64 " were set", b->answers);
    }
    return nothing_is_wrong(sim, user);
}

int main(int argc, char **argv)
{
    board b = {.count = 0};

    return few_seeds(
        argc, argv, "20",
        TR_OPTIONS(
            tr_sim_options, .seed = 1, .nodes = NODES, .begin = begin,
            .node = node, .workload = workload, .invariant = nothing_is_wrong,
            .at_end = all_have_come, .user = &b,
            .faults = TR_OPTIONS(
                tr_faults, .node_kill = 0.0005, .node_pause = 0.0002,
                .early_wake = 0.01, .disk_error = 0.001, .disk_full = 0.001,
                .disk_slow = 0.01, .torn_write = 0.001, .delay_max = TR_MS(200),
                .pause_max = TR_SECONDS(2))));
}
