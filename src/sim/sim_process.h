/*
 * sim_process.h - the processes of a run's nodes: coming up, ending in good
 * order, being killed.
 *
 * Threads: the one that runs the world.
 */
#ifndef TRI_SIM_SIM_PROCESS_H
#define TRI_SIM_SIM_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/sim_node.h"
#include "troupe/base.h"
#include "troupe/system.h"

typedef enum tri_run_state {
    TRI_RUN_DOWN,
    TRI_RUN_BOOTING,
    TRI_RUN_UP,
    TRI_RUN_CLOSING,  // by tr_sim_shutdown
} tri_run_state;

/*
 * A main thread of a process: it brings the node up, or closes its system. It
 * ends with that, or its node is killed before.
 */
typedef struct tri_boot {
    struct tri_boot *next;  // in run->boots
    struct tri_run_node *rn;
    tr_system *sys;  // open, but not node->sys yet, or no more
    bool ended;      // its thread has returned
} tri_boot;

typedef struct tri_run_node {
    struct tri_run *owner;
    tri_sim_node *node;
    tri_run_state state;
    tri_boot *boot;              // while booting or closing
    tr_nanos down;               // how long it stays down before it boots again
    tr_nanos timeout;            // of the shutdown
    tr_err closed;               // the result of the last shutdown ...
    tr_close_report report;      // ... and its report
    _Atomic(uint32_t) boot_now;  // 1: boots before `down` is over
} tri_run_node;

/* Begins to bring the node up. */
void tri_run_boot(tri_run_node *rn);
/*
 * Kills the node's process, which boots again after `down`; `lose_disk`: with
 * an empty disk. On main's stack, between two steps. Does nothing if the node
 * cannot be killed now.
 */
void tri_run_kill(struct tri_run *it, tri_run_node *rn, tr_nanos down,
                  bool lose_disk);

#endif
