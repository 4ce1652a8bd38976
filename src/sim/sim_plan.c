/*
 * sim_plan.c - the command line that repeats a run.
 *
 * Invariant: the line names everything in which a plan differs from the
 * program's own options, so it repeats the same run.
 */
#include "sim/sim_plan.h"

#include <inttypes.h>
#include <stddef.h>

#include "base/check.h"

/* Adds the numbers of the faults that are kept, counted from 1. */
static void add_kept(const tri_sim_schedule *schedule, tri_text *text)
{
    const char *between = " --faults ";

    for (uint32_t i = 0; i < schedule->count; i++) {
        if (schedule->all[i].kept) {
            tri_text_add(text, "%s%" PRIu32, between, i + 1);
            between = ",";
        }
    }
    if (between[0] == ' ') {
        tri_text_add(text, " --faults none");
    }
}

void tri_sim_plan_text(const tri_sim_plan *plan, tri_text *text)
{
    TRI_CHECK(text != NULL);
    const char *between = " --only ";
    bool all = !plan->without_buggify;

    tri_text_add(text, "%s --seed %" PRIu64,
                 plan->program != NULL ? plan->program : "tr_sim_main",
                 plan->seed);
    for (uint32_t i = 0; i < TRI_FAULT_COUNT; i++) {
        all = all && !plan->without[i];
    }
    for (uint32_t i = 0; i < TRI_FAULT_COUNT && !all; i++) {
        if (!plan->without[i]) {
            tri_text_add(text, "%s%s", between, tri_sim_fault_name(i));
            between = ",";
        }
    }
    if (!all && !plan->without_buggify) {
        tri_text_add(text, "%sbuggify", between);
        between = ",";
    }
    if (!all && between[0] == ' ') {
        tri_text_add(text, " --only none");
    }
    if (plan->fault_steps > 0) {
        tri_text_add(text, " --fault-steps %" PRIu64, plan->fault_steps);
    }
    if (plan->replay != NULL) {
        add_kept(plan->replay, text);
    }
    if (plan->strays_fail) {
        tri_text_add(text, " --no-strays");
    }
}
