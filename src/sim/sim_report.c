/*
 * sim_report.c - the result of a run, and what is printed of a failure.
 */
#include "sim/sim_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "sim/sim.h"
#include "sim/sim_fault.h"
#include "sim/sim_plan.h"
#include "troupe/base.h"

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

/* Keeps what failures of one kind share: the text up to the first number. */
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
