/*
 * sim_shrink.h - the smallest part of a failing run's faults that still fails.
 */
#ifndef TRI_SIM_SIM_SHRINK_H
#define TRI_SIM_SIM_SHRINK_H

#include "sim/sim_run.h"
#include "sim/sim_schedule.h"

/* Runs that are made for one failure; then what there is must do. */
enum { TRI_SIM_SHRINK_RUNS = 500 };

typedef struct tri_sim_shrunk {
    tri_sim_plan plan;          // repeats the failure; borrows `schedule`
    tri_sim_schedule schedule;  // of the run without the last part
    tri_sim_result result;      // of that plan
    uint32_t faults;            // left
    uint32_t before;            // that had struck at first
    uint32_t runs;
} tri_sim_shrunk;

/*
 * Looks for a plan that fails as `failed` did, in the same place with the same
 * words up to the first number, but with fewer faults: whole classes go first,
 * then all behind some step, then single ones by delta debugging (Zeller and
 * Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", 2002), so
 * that in the end none can be left out. *out is owned by the caller.
 * Errors: TR_ENOMEM.
 */
TR_NODISCARD tr_err tri_sim_shrink(tri_sim_shrunk *out,
                                   const tr_sim_options *options,
                                   const tri_sim_plan *failed,
                                   const tri_sim_result *result);
void tri_sim_shrunk_fini(tri_sim_shrunk *it);

/*
 * Keeps of the faults of a plan's run those whose numbers are in the text
 * (1,4,9; none), counted from 1: the plan then repeats that part.
 * Errors: TR_EINVAL (no such number), TR_ENOMEM.
 */
TR_NODISCARD tr_err tri_sim_keep_faults(tri_sim_schedule *schedule,
                                        const tr_sim_options *options,
                                        tri_sim_plan *plan, const char *text);

#endif
