/*
 * sim_system.h - the systems that a simulated world steps, and those of killed
 * processes, which it keeps frozen.
 *
 * Threads: the one that runs the world.
 * Ownership: a system belongs to whoever opened it; the world borrows it from
 * attach to detach.
 */
#ifndef TRI_SIM_SIM_SYSTEM_H
#define TRI_SIM_SIM_SYSTEM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/world.h"
#include "sim/sim_node.h"
#include "troupe/base.h"

typedef struct tri_sim_attached {
    tri_driven *driven;
    tri_sim_node *node;
    uint32_t id;        // unique in the run; part of the trace
    uint32_t runnable;  // actors to choose from in this step
    tr_nanos fired_at;  // everything due at this time has been fired
    bool touched;       // stepped or fired since the last check (sim_check.c)
    uint32_t checks;    // so far; decides which cells and shards are walked
} tri_sim_attached;

/* For the world's table: see base/world.h. */
void tri_sim_attach(tri_world *world, tri_driven *driven);
void tri_sim_detach(tri_world *world, tri_driven *driven);

/*
 * Freezes the systems of a node whose process has died: they are not stepped
 * any more. They are not freed, because outside threads may still be inside
 * them. Returns false, and does nothing, if there is no room for more.
 */
bool tri_sim_systems_freeze(tri_sim_node *node);
/* Attaches the system that was frozen last, to be closed; NULL: there is none. */
tri_driven *tri_sim_systems_unfreeze_last(tr_sim *sim);
/* Attaches this system if it is frozen and there is room. */
void tri_sim_systems_unfreeze(tr_sim *sim, const void *system);

#endif
