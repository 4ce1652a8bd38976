/*
 * sim_report.c - what is said of a run: its result, and how to repeat it.
 *
 * The line that repeats a plan names all in which it differs from the
 * program's own options, so that the same run follows from it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "core/runtime.h"
#include "sim/sim_process.h"
#include "sim/sim_schedule.h"

/* ---- whose text it is ---- */

void tri_sim_error_before(tr_sim *sim)
{
    uint64_t mark = tr_error_mark();

    if (mark != sim->error_mark) {
        sim->error_by = 0;  // no thread's: a handler's, or the test's
    }
    sim->error_mark = mark;
}

void tri_sim_error_after(tr_sim *sim, const tri_thread *thread)
{
    uint64_t mark = tr_error_mark();

    if (mark != sim->error_mark) {
        sim->error_by = (uint64_t)thread->id + 1;
    }
    sim->error_mark = mark;
}

const char *tri_sim_error_text(const tr_sim *sim)
{
    if (sim->running == NULL ||
        (tr_error_mark() == sim->error_mark &&
         sim->error_by != (uint64_t)sim->running->id + 1)) {
        return "";
    }
    return tri_error_outside();
}

/* ---- how to repeat it ---- */

/* The numbers of the faults that are kept, from 1. */
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

void tri_run_print(const tri_run *it, const tri_sim_result *result)
{
    char line[TRI_SIM_LINE_MAX + TRI_SIM_FAIL_MAX];
    const tr_sim *sim = it->sim;
    tr_nanos at = TRI_SIM_EPOCH + sim->now;
    tri_text text;

    snprintf(line, sizeof(line),
             "seed %" PRIu64 " failed at step %" PRIu64 ", %" PRId64
             ".%03" PRId64 " s: %s",
             sim->seed, result->steps, sim->now / TR_SECONDS(1),
             sim->now % TR_SECONDS(1) / TR_MS(1), sim->fail_text);
    tri_log_write(TRI_LOG_ERROR, at, sim->fail_site, "sim", line);
    tri_text_init(&text, line, sizeof(line));
    tri_text_add(&text, "replay: ");
    tri_sim_plan_text(it->plan, &text);
    tri_text_add(&text, " --trace");
    tri_log_write(TRI_LOG_ERROR, at, NULL, "sim", line);
}

/* What failures of one kind have in common: numbers differ between runs. */
static void keep_failure(const tr_sim *sim, tri_sim_result *result)
{
    size_t length = strcspn(sim->fail_text, "0123456789");

    snprintf(result->failure, sizeof(result->failure), "%s %.*s",
             sim->fail_site != NULL ? sim->fail_site : "", (int)length,
             sim->fail_text);
}

void tri_run_result(const tri_run *it, tri_sim_result *result)
{
    const tr_sim *sim = it->sim;

    if (sim->failed) {
        keep_failure(sim, result);
    }
    result->err = sim->failed ? TR_EFAILED : TR_OK;
    result->steps = sim->steps;
    result->hash = sim->hash;
    result->fault_step = sim->fault_step;
    result->time = sim->now - TRI_SIM_BEGIN;
    for (uint32_t i = 0; i < TRI_SIM_COUNTERS; i++) {
        result->faults[i] = sim->faults[i];
    }
}
