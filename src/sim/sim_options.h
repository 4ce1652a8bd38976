/*
 * sim_options.h - the options of a run: taken, or refused with a reason.
 */
#ifndef TRI_SIM_SIM_OPTIONS_H
#define TRI_SIM_SIM_OPTIONS_H

#include "base/text.h"
#include "sim/sim.h"

/*
 * Copies the options, with their defaults; own->faults is `faults`, a copy as
 * well. False: one of them makes no sense, and `why` names it.
 */
bool tri_sim_options_take(tr_sim_options *own, tr_faults *faults,
                          const tr_sim_options *options, tri_text *why);

/* The same for its answer alone: what is wrong is written to standard error. */
bool tri_sim_options_check(const tr_sim_options *options);

#endif
