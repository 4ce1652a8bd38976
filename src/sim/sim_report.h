/*
 * sim_report.h - the result of a run, and what is printed of a failure.
 *
 * Threads: the one that runs the world.
 */
#ifndef TRI_SIM_SIM_REPORT_H
#define TRI_SIM_SIM_REPORT_H

#include "sim/sim_run.h"

/* Stores what a run came to, when its phases are over. */
void tri_run_result(const tri_run *it, tri_sim_result *result);
/* Writes the failure and the command that repeats it to standard error. */
void tri_run_print(const tri_run *it, const tri_sim_result *result);

#endif
