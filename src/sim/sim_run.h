/*
 * sim_run.h - one run of a simulated program, as tr_sim_main asks for it.
 */
#ifndef TRI_SIM_SIM_RUN_H
#define TRI_SIM_SIM_RUN_H

#include "base/text.h"
#include "sim/sim.h"

/* How this run differs from the options. */
typedef struct tri_sim_plan {
    uint64_t seed;
    bool without[TRI_FAULT_COUNT];  // classes that stay off
    bool without_buggify;
    uint64_t fault_steps;  // faults end at this step; 0: never
    uint32_t check_every;  // instead of the options'; 0: those
    tr_sim_trace_fn trace;
    void *trace_user;
    tri_sim_strays *strays;    // where they are kept; NULL: in the world
    bool strays_fail;          // whatever the options say
    tri_sim_schedule *record;  // what strikes is added to it; or NULL
    tri_sim_schedule *replay;  // only what it keeps strikes; or NULL
    tri_sim_watch *watch;      // tells of crashes, or NULL
    bool silent;               // a failure is not printed
    const char *program;       // for the line that tells how to replay, or NULL
} tri_sim_plan;

/* What a run came to. */
typedef struct tri_sim_result {
    tr_err err;
    uint64_t steps, hash;
    tr_nanos time;
    uint64_t fault_step;             // when the last fault struck
    char failure[TRI_SIM_LINE_MAX];  // place and words up to a number
    tri_sim_counter faults[TRI_SIM_COUNTERS];
} tri_sim_result;

/* Called with the world of a finished run, before it is freed. */
typedef void (*tri_sim_seen_fn)(tr_sim *sim, void *user);

/*
 * One run. options->faults may be NULL.
 * Errors: TR_EINVAL (options), TR_ENOMEM, and what the program failed with.
 */
tr_err tri_sim_run_plan(const tr_sim_options *options, const tri_sim_plan *plan,
                        tri_sim_result *result, tri_sim_seen_fn seen,
                        void *user);

/* Adds the command line that repeats a plan. */
void tri_sim_plan_text(const tri_sim_plan *plan, tri_text *text);

#endif
