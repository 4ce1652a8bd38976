/*
 * world_sim.h - the simulated world's table of functions, for base/world.h.
 */
#ifndef TRI_SIM_WORLD_SIM_H
#define TRI_SIM_WORLD_SIM_H

#include "base/world.h"
#include "troupe/base.h"

extern const tri_world_ops tri_sim_ops;

/* Prepares clock, lists and the first node. Errors: TR_ENOMEM. */
tr_err tri_sim_world_init(tr_sim *sim);
/* Ends all threads and frees the nodes; aborts if a system is still open. */
void tri_sim_world_fini(tr_sim *sim);

#endif
