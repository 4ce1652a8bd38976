/*
 * sim_node.h - one node of a simulated world: its clocks, and its pauses.
 *
 * Every node is a tri_world of its own. The world's clock (tr_sim.now) is
 * exact; a node's monotonic clock may run at another rate, and its wall clock
 * may be wrong.
 *
 * Threads: the one that runs the world.
 */
#ifndef TRI_SIM_SIM_NODE_H
#define TRI_SIM_SIM_NODE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/world.h"
#include "sim/sim_event.h"
#include "troupe/base.h"

/* The index of what belongs to no node: main, the workload, the world. */
#define TRI_SIM_NO_NODE UINT32_MAX

/* Limit of a clock's rate; the world's own rate is 0. */
#define TRI_SIM_RATE_MAX INT32_C(200000)  // parts per million

/* Never moves: programs have the address of `world`. */
typedef struct tri_sim_node {
    tri_world world;  // first: tri_sim_node_of
    tr_sim *sim;
    uint32_t index;  // or TRI_SIM_NO_NODE
    bool paused;
    bool kill_wanted;         // by tr_sim_kill; done after the step
    bool lose_disk_wanted;    // by tr_sim_replace: the kill empties the disk
    tr_nanos down_wanted;     // how long the killed node stays down
    tr_system *sys;           // set by sim_process.c; NULL while down
    int32_t rate_ppm;         // how much faster than the world's clock
    tr_nanos local_base;      // what this node's clock showed when ...
    tr_nanos world_base;      // ... the world's clock showed this
    tr_nanos wall_skew;       // error of the wall clock
    tri_sim_event pause_end;  // armed while paused
} tri_sim_node;

/* Returns the simulated world behind a seam, or NULL if it is another one. */
tr_sim *tri_sim_of(const tri_world *world);
/* Returns the node whose world it is, which must be a simulated one. */
tri_sim_node *tri_sim_node_of(tri_world *world);

/* Prepares a node in the caller's memory. */
void tri_sim_node_init(tri_sim_node *node, tr_sim *sim, uint32_t index);
/* Adds a node to the world. NULL: too many, or no memory. */
tri_sim_node *tri_sim_node_add(tr_sim *sim);

/* Returns what the node's monotonic clock shows now. */
tr_nanos tri_sim_node_time(const tri_sim_node *node);
/* Returns the world's time at which the node's clock will show `local`. */
tr_nanos tri_sim_node_when(const tri_sim_node *node, tr_nanos local);
/* Changes the rate of the node's clock, from now on; the clock does not jump. */
void tri_sim_node_set_rate(tri_sim_node *node, int32_t rate_ppm);

/* Stops the node's systems and threads for `span`. */
void tri_sim_node_pause(tri_sim_node *node, tr_nanos span);
/* Ends a pause early; does nothing if there is none. */
void tri_sim_node_resume(tri_sim_node *node);

#endif
