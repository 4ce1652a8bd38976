/*
 * force.h - ends an actor for everybody else while its handler still runs.
 *
 * Threads: the owner of the cell in ctx, except where a comment says otherwise.
 */
#ifndef TRI_CORE_LIFE_FORCE_H
#define TRI_CORE_LIFE_FORCE_H

#include "core/types.h"

/* The time between TRI_SIG_FORCE and the end by force, rule 41 (force). */
#define TRI_FORCE_GRACE TR_MS(250)

enum { TRI_FORCE_BATCH = 16 };  // children that are forced under one lock

/* Ends by force the children that TRI_SIG_FORCE has not ended. */
void tri_force_children(tr_ctx *ctx);

/*
 * Ends by force the actor of ctx, which cannot be restarted because its other
 * turns do not return. Returns false, and does nothing, if the actor is not in
 * its parent's list, is virtual or of the library, or without memory.
 */
bool tri_force_self(tr_ctx *ctx);

/*
 * Ends by force an actor whose handler does not return, if the cell still has
 * this id and `waited` is as long as its stop time-out. in_restart: it was to
 * restart. Returns true if the actor was forced. The monitor's thread.
 */
bool tri_force_stuck(tr_system *sys, tri_cell *cell, uint64_t id,
                     tr_nanos waited, bool in_restart);

/*
 * Must be called after a push to the system lane. If the cell is a zombie,
 * answers what is in the lane and returns true. Any thread.
 */
bool tri_zombie_answer(tri_worker *worker, tri_cell *cell, uint64_t id);

/*
 * Waits until the forcer has notified all and takes the cell out of
 * sys->zombies. For its owner, before it frees anything.
 */
void tri_zombie_leave(tr_system *sys, tri_cell *cell);

#endif
