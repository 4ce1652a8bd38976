/*
 * sim_options.h - checks and copies the options of a run.
 */
#ifndef TRI_SIM_SIM_OPTIONS_H
#define TRI_SIM_SIM_OPTIONS_H

#include <stdbool.h>

#include "base/text.h"
#include "troupe/sim.h"

/*
 * Copies the options and fills in the defaults; own->faults becomes `faults`,
 * a copy as well. Returns false if an option makes no sense; `why` names it.
 */
bool tri_sim_options_take(tr_sim_options *own, tr_faults *faults,
                          const tr_sim_options *options, tri_text *why);

/* Only checks them. Returns false with a line on standard error. */
bool tri_sim_options_check(const tr_sim_options *options);

#endif
