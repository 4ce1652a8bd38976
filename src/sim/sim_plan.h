/*
 * sim_plan.h - how one run differs from the options of its program, and the
 * command line that repeats it.
 */
#ifndef TRI_SIM_SIM_PLAN_H
#define TRI_SIM_SIM_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"
#include "sim/sim_fault.h"
#include "sim/sim_schedule.h"
#include "sim/sim_stray.h"
#include "troupe/sim.h"

struct tri_sim_watchdog;

/* Borrows everything that it points to. */
typedef struct tri_sim_plan {
    uint64_t seed;
    bool without[TRI_FAULT_COUNT];  // classes that are off
    bool without_buggify;
    uint64_t fault_steps;  // faults end at this step; 0: never
    uint32_t check_every;  // replaces that of the options; 0: does not
    tr_sim_trace_fn trace;
    void *trace_user;
    tri_sim_strays *strays;    // where they are kept; NULL: in the world
    bool strays_fail;          // whatever the options say
    tri_sim_schedule *record;  // every strike is added to it; or NULL
    tri_sim_schedule *replay;  // only what it keeps strikes; or NULL
    struct tri_sim_watchdog *watchdog;  // or NULL
    bool silent;                        // a failure is not printed
    const char *program;  // its name, for tri_sim_plan_text; or NULL
} tri_sim_plan;

/* Adds the command line that repeats a plan. */
void tri_sim_plan_text(const tri_sim_plan *plan, tri_text *text);

#endif
