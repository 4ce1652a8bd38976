/*
 * sim_running.h - what a simulated world runs now: a thread, an actor, or
 * neither.
 *
 * Threads: the one that runs the world; also in its signal handlers.
 */
#ifndef TRI_SIM_SIM_RUNNING_H
#define TRI_SIM_SIM_RUNNING_H

#include <stdint.h>

#include "core/types.h"
#include "sim/sim_node.h"
#include "troupe/base.h"

typedef struct tri_sim_running {
    const tri_sim_node *node;  // NULL: neither a thread nor a step
    const char *thread;        // its name, or NULL
    tr_system *sys;            // that takes a step, or NULL
    tri_cell *cell;            // of the actor in the step, or NULL
    const tr_type *type;       // of the message it handles, or NULL
} tri_sim_running;

/* Returns what runs now. Everything in it is borrowed. */
tri_sim_running tri_sim_running_now(const tr_sim *sim);

/* Returns the node that runs now, in a step or thread, or TRI_SIM_NO_NODE. */
uint32_t tri_sim_running_node(const tr_sim *sim);

#endif
