/*
 * sim_after_step.h - what a run does after each step: checks, kills, faults of
 * nodes.
 *
 * Threads: the one that runs the world, on main's stack.
 */
#ifndef TRI_SIM_SIM_AFTER_STEP_H
#define TRI_SIM_SIM_AFTER_STEP_H

#include "sim/sim_run.h"
#include "troupe/base.h"

/* For tr_sim.after_step; `run` is the tri_run. */
void tri_run_after_step(tr_sim *sim, void *run);
/* Ends all faults: clocks are right, pauses end, nodes that are down boot. */
void tri_run_calm(tri_run *it);

#endif
