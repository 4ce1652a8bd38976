/*
 * fence.h - the nodes of the fence test, the driver that disturbs them, and
 * what they share.
 *
 * The driver starts the nodes as processes, pauses and kills them, and checks
 * the logs that their clients have written (history.h). All files are in one
 * folder:
 *
 *   engine.db, state.db  of the cluster
 *   board                pages that all processes share: see board
 *   node-N.log           history of the processes that were node N
 *   node-N.err           their standard error
 *
 * Threads: board, any; the rest as said in each function.
 */
#ifndef TEST_FENCE_FENCE_H
#define TEST_FENCE_FENCE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "history.h"
#include "token.h"

enum {
    NODES = 4,
    GROUPS = 16,       // of counters; each second clients write to another one
    GROUP_SIZE = 256,  // counters of a group
    FAST_COUNTERS = GROUPS * GROUP_SIZE,
    SLOW_COUNTERS = 64,  // their handlers last longer than a death
    COUNTERS = FAST_COUNTERS + SLOW_COUNTERS,
    READ_GROUPS = 7,  // clients read those that were written last
    BURST = 4,        // updates of one request that stores several times
    PATH_SIZE = 512,
};

/* What the nodes tell the driver while they run. */
typedef struct board {
    _Atomic(int64_t) changed[NODES];  // when the node last heard of a change
    _Atomic(uint64_t) acknowledged[NODES];
    _Atomic(bool) joined[NODES];    // set by the node, cleared by the driver
    _Atomic(uint32_t) activations;  // so many have begun
    token_guard guards[COUNTERS];   // what counters write outside the store
} board;

/* Arguments of a node; the driver passes them on as text. */
typedef struct settings {
    const char *folder;
    uint64_t seed;
    uint32_t seconds;
    uint32_t lease_ms;
    uint32_t clients;      // of each node
    uint64_t updates;      // fewest in 120 s; 0: the default
    uint32_t broken;       // TRI_FENCE_BREAK_*
    const char *breaking;  // their name, "" if none
} settings;

/* Runs node `index` until SIGTERM. Returns the status of the process. */
int node_run(const settings *s, uint32_t index);
/* Joins as the last node and logs the final values. Returns the status. */
int reader_run(const settings *s);
/* Runs the test. Returns the status of the process. */
int driver_run(const settings *s);

/* CLOCK_MONOTONIC in nanoseconds: one clock for all processes. */
int64_t clock_now(void);
/* Writes the path of a file of the folder to `out`, of PATH_SIZE. */
char *file_path(const settings *s, const char *name, char *out);
/* Maps the board, which the driver has made. Exits if that fails. */
board *board_map(const settings *s, bool make);

#endif
