/*
 * sim_run.h - one run of a simulated program, from the first boot to the end.
 *
 * sim_run.c leads a run through its phases. sim_process.c has the processes of
 * its nodes, sim_after_step.c the checks and faults after each step,
 * sim_report.c the result.
 *
 * Threads: the one that runs the world.
 */
#ifndef TRI_SIM_SIM_RUN_H
#define TRI_SIM_SIM_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/sim.h"
#include "sim/sim_fault.h"
#include "sim/sim_plan.h"
#include "sim/sim_process.h"
#include "troupe/base.h"
#include "troupe/sim.h"

/* What a run came to. */
typedef struct tri_sim_result {
    tr_err err;
    uint64_t steps, hash;
    tr_nanos time;
    uint64_t fault_step;             // of the last fault that struck
    char failure[TRI_SIM_LINE_MAX];  // place and text, up to the first number
    tri_sim_counter faults[TRI_SIM_COUNTERS];
} tri_sim_result;

typedef struct tri_run {
    tr_sim *sim;
    tr_sim_options options;  // with `faults`
    tr_faults faults;
    const tri_sim_plan *plan;
    tr_nanos end;                           // when options.limit is over
    tr_err (*fn)(tr_sim *sim, void *user);  // runs now, in a thread
    tr_err err;                             // what it returned ...
    char why[TRI_SIM_WHY_MAX];              // ... and the text of that
    bool ended;                             // the function has returned
    bool over;         // the run is being cleaned up, unchecked
    uint64_t checked;  // the step of the last check
    tri_boot *boots;   // all of the run; owned
    tri_run_node nodes[TRI_SIM_NODES_MAX];
} tri_run;

/* Looks at the world of a finished run, before it is freed. */
typedef void (*tri_sim_inspect_fn)(tr_sim *sim, void *user);

/*
 * Makes one run. options->faults may be NULL, and so may `inspect`.
 * Errors: TR_EINVAL (options), TR_ENOMEM, TR_EFAILED (the program failed).
 */
tr_err tri_sim_run_plan(const tr_sim_options *options, const tri_sim_plan *plan,
                        tri_sim_result *result, tri_sim_inspect_fn inspect,
                        void *user);

/* Fails the run with an error, and with `why` if that is not "". */
void tri_run_fail(tri_run *it, const char *what, tr_err err, const char *why);

static inline tri_run *tri_run_of(tr_sim *sim)
{
    return sim->run;
}

#endif
