/*
 * sim_shrink.h - finds the fewest faults with which a run still fails.
 */
#ifndef TRI_SIM_SIM_SHRINK_H
#define TRI_SIM_SIM_SHRINK_H

#include <stdint.h>

#include "sim/sim_plan.h"
#include "sim/sim_run.h"
#include "sim/sim_schedule.h"
#include "troupe/base.h"
#include "troupe/sim.h"

/* Runs made for one failure; after that the best so far is the result. */
enum { TRI_SIM_SHRINK_RUNS = 500 };

typedef struct tri_sim_shrunk {
    tri_sim_plan plan;          // repeats the failure; borrows `schedule`
    tri_sim_schedule schedule;  // of the run that --faults refers to
    tri_sim_result result;      // of `plan`
    uint32_t faults;            // that are left
    uint32_t before;            // that struck in the first run
    uint32_t runs;              // that were made
} tri_sim_shrunk;

/*
 * Looks for a plan that fails as `failed` did, at the same place with the same
 * text up to the first number, but with fewer faults. It removes whole classes
 * first, then all faults after some step, then single ones by delta debugging
 * (Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input",
 * 2002), until none can be left out. The caller owns *out.
 * Errors: TR_ENOMEM.
 */
TR_NODISCARD tr_err tri_sim_shrink(tri_sim_shrunk *out,
                                   const tr_sim_options *options,
                                   const tri_sim_plan *failed,
                                   const tri_sim_result *result);
void tri_sim_shrunk_fini(tri_sim_shrunk *it);

/*
 * Makes the plan repeat only those faults of its run whose numbers, counted
 * from 1, are in the text ("1,4,9", or "none").
 * Errors: TR_EINVAL (no such number), TR_ENOMEM.
 */
TR_NODISCARD tr_err tri_sim_keep_faults(tri_sim_schedule *schedule,
                                        const tr_sim_options *options,
                                        tri_sim_plan *plan, const char *text);

#endif
