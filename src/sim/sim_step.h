/*
 * sim_step.h - one step of a simulated world after the other.
 *
 * Threads: the one that runs the world; in it, only main's stack.
 */
#ifndef TRI_SIM_SIM_STEP_H
#define TRI_SIM_SIM_STEP_H

#include <stdbool.h>

#include "troupe/base.h"

/*
 * Runs one actor or thread that can go on, chosen by the seed. If there is
 * none, the clock moves to the time when there will be, but not past `until`.
 * Returns false if nothing can happen before `until`; it is then `until`,
 * unless that is TR_FOREVER.
 */
bool tri_sim_step(tr_sim *sim, tr_nanos until);

/* Returns the earliest time at which something is due, or TR_FOREVER. */
tr_nanos tri_sim_next_due(tr_sim *sim);
/* Returns true if an actor or thread can go on without time passing. */
bool tri_sim_is_busy(tr_sim *sim);

#endif
