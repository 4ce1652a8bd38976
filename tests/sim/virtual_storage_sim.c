/*
 * virtual_storage_sim.c - virtual actors of three nodes, on a store that fails.
 *
 * The nodes and actors of takeover.h; their states are on another machine, in
 * an SQLite file on a disk that gives errors, is full and slow, and tears
 * writes. That machine is killed, and its disk keeps any part of what was not
 * synced. Nodes are killed, too, with saves in progress. Results of the store
 * are lost, links have faults, and shards change their owner meanwhile. So
 * activations fail to load, saves fail or have an unknown outcome, and the
 * next activation is on another node. Still
 *   - acknowledged numbers are stored, and none is acknowledged twice: no save
 *     is lost, overtaken, or made by two activations;
 *   - every call ends within its time, every watch is notified of an end;
 *   - when the faults are over every actor replies, with its state.
 *
 * Covers ST16, ST17, TE4, AC13 and DI6.
 */
#include "takeover.h"

#include "remote_store.h"

enum { STORE_NODE = NODES };  // apart from the linked nodes

static remote_store *front_of(board *b)
{
    return (remote_store *)(void *)b->store;
}

static tr_err machine(tr_system *sys, uint32_t index, void *user)
{
    return index == STORE_NODE ? remote_up(front_of(user), sys)
                               : node(sys, index, user);
}

static void kill_store(tr_sim *sim, board *b)
{
    if (tr_sim_node(sim, STORE_NODE) == NULL) {
        return;
    }
    tr_sim_kill(sim, STORE_NODE,
                (tr_nanos)tr_sim_random(sim, TR_MS(500)) + TR_MS(1));
    while (tr_sim_node(sim, STORE_NODE) != NULL) {
        tr_sim_advance(sim, 1);
    }
    remote_down(front_of(b));
}

static tr_err failing(tr_sim *sim, void *user)
{
    board *b = user;

    tr_sim_advance(sim, TR_SECONDS(1));
    for (int round = 0; round < ROUNDS && b->broken == NULL; round++) {
        uint32_t key = (uint32_t)tr_sim_random(sim, KEYS);
        uint32_t n = (uint32_t)tr_sim_random(sim, NODES);
        uint64_t what = tr_sim_random(sim, 20);
        usual(sim, b, what, 3, key, n);
        if (what == USUAL) {
            load(sim, b);
            pass(sim, TR_MS(5));
            kill_store(sim, b);
        } else if (what > USUAL && what < 18 && n != HOME &&
                   tr_sim_node(sim, n) != NULL) {
            load(sim, b);
            pass(sim, TR_MS(5));
            kill_one(sim, b, n);
        }
        load(sim, b);
        pass(sim, TR_MS(400));
    }
    tri_sim_net_heal(b->mesh.net);
    return TR_OK;
}

int main(int argc, char **argv)
{
    the_board.cut = true;
    the_board.make_store = remote_new;
    return few_seeds(
        argc, argv, "20",
        TR_OPTIONS(tr_sim_options, .seed = 1, .nodes = NODES + 1,
                   .begin = begin, .node = machine, .workload = failing,
                   .invariant = holds, .at_end = all_told, .user = &the_board,
                   .faults = TR_OPTIONS(
                       tr_faults, .early_wake = 0.01, .drop = 0.01,
                       .delay = 0.01, .reorder = 0.01, .duplicate = 0.01,
                       .partition = 0.05, .half_open = 0.05, .one_way = 0.05,
                       .swizzle = 0.05, .slow_link = 0.05, .clog = 0.05,
                       .disk_error = 0.001, .disk_full = 0.001,
                       .disk_slow = 0.01, .torn_write = 0.001,
                       .unknown_outcome = 0.02, .clock_skew = 0.0001,
                       .clock_jump = 0.0001, .delay_max = TR_MS(200),
                       .pause_max = TR_SECONDS(2))));
}
