/*
 * sim_shrink.c - finds the fewest faults with which a run still fails.
 *
 * Invariant: it->plan fails whenever no attempt is under way. An attempt that
 * does not fail, or fails in another way, is undone.
 */
#include "sim/sim_shrink.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "sim/sim_fault.h"

typedef struct shrinker {
    const tr_sim_options *options;
    tri_sim_shrunk *out;
    const tri_sim_result *first;  // the failure to reproduce
} shrinker;

static bool may_go_on(const shrinker *it)
{
    return it->out->runs < TRI_SIM_SHRINK_RUNS;
}

/* Returns true if the plan fails as the first run did; keeps its result. */
static bool still_fails(shrinker *it)
{
    tri_sim_shrunk *out = it->out;
    tri_sim_result result;

    out->runs++;
    if (tri_sim_run_plan(it->options, &out->plan, &result, NULL, NULL) !=
            TR_EFAILED ||
        strcmp(result.failure, it->first->failure) != 0) {
        return false;
    }
    out->result = result;
    return true;
}

/* ---- classes and steps ---- */

static void drop_classes(shrinker *it)
{
    tri_sim_plan *plan = &it->out->plan;

    for (uint32_t i = 0; i < TRI_FAULT_COUNT && may_go_on(it); i++) {
        // A class that never fired can be switched off without a run.
        if (plan->without[i] || it->out->result.faults[i].fired == 0) {
            plan->without[i] = true;
            continue;
        }
        plan->without[i] = true;
        plan->without[i] = still_fails(it);
    }
    if (!plan->without_buggify && may_go_on(it)) {
        plan->without_buggify = true;
        plan->without_buggify = still_fails(it);
    }
}

/* Bisects the step at which faults end. The result may not be the lowest. */
static void drop_steps(shrinker *it)
{
    uint64_t low = 0, high = it->out->result.fault_step + 1;
    tri_sim_plan *plan = &it->out->plan;

    while (low + 1 < high && may_go_on(it)) {
        uint64_t middle = low + (high - low) / 2;
        plan->fault_steps = middle;
        if (still_fails(it)) {
            high = middle;
        } else {
            low = middle;
        }
    }
    plan->fault_steps = high;
}

/* ---- single faults ---- */

/* Runs the plan silently and records the faults that strike. */
static tr_err record(const tr_sim_options *options, tri_sim_plan *plan,
                     tri_sim_schedule *schedule, tri_sim_result *result)
{
    tri_sim_plan quiet = *plan;

    quiet.silent = true;
    quiet.trace = NULL;
    quiet.record = schedule;
    tr_err err = tri_sim_run_plan(options, &quiet, result, NULL, NULL);
    return err == TR_EFAILED ? TR_OK : err;
}

/* Leaves list[from .. from + count) out, or keeps it if that does not fail. */
static bool try_without(shrinker *it, const uint32_t *list, uint32_t from,
                        uint32_t count)
{
    tri_sim_schedule *schedule = &it->out->schedule;
    bool done = false;

    TRI_CHECK(count > 0);
    TRI_CHECK(from + count <= schedule->count);
    for (uint32_t i = from; i < from + count; i++) {
        schedule->all[list[i]].kept = false;
    }
    if (tri_sim_schedule_begin(schedule) == TR_OK) {
        done = still_fails(it);
    }
    for (uint32_t i = from; i < from + count && !done; i++) {
        schedule->all[list[i]].kept = true;
    }
    // Faults whose occasion did not come in that run are left out, too.
    for (uint32_t i = 0; i < schedule->count && done; i++) {
        schedule->all[i].kept = schedule->all[i].struck;
    }
    return done;
}

static uint32_t list_kept(const tri_sim_schedule *schedule, uint32_t *list)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < schedule->count; i++) {
        if (schedule->all[i].kept) {
            list[count++] = i;
        }
    }
    return count;
}

/* Delta debugging: leaves out one of `parts` parts after the other. */
static void drop_faults(shrinker *it, uint32_t *list)
{
    const tri_sim_schedule *schedule = &it->out->schedule;
    uint32_t count = list_kept(schedule, list);
    uint32_t parts = count > 1 ? 2 : 1;

    while (count > 0 && may_go_on(it)) {
        uint32_t size = (count + parts - 1) / parts;
        bool reduced = false;
        for (uint32_t from = 0; from < count && may_go_on(it);) {
            uint32_t span = size < count - from ? size : count - from;
            if (try_without(it, list, from, span)) {
                count = list_kept(schedule, list);
                reduced = true;
            } else {
                from += span;
            }
        }
        if (size == 1 && !reduced) {
            return;  // none can be left out
        }
        parts = reduced && size > 1 ? parts : parts * 2;
        parts = parts < count ? parts : count;
        parts = parts > 0 ? parts : 1;
    }
}

static tr_err shrink_faults(shrinker *it)
{
    tri_sim_shrunk *out = it->out;
    tri_sim_result again;

    TR_TRY(record(it->options, &out->plan, &out->schedule, &again));
    out->runs++;
    if (out->schedule.is_cut ||
        strcmp(again.failure, it->first->failure) != 0) {
        return TR_OK;  // too many to record: no replay is possible
    }
    uint32_t *list = calloc(out->schedule.count + 1, sizeof(*list));
    if (list == NULL) {
        return TR_ENOMEM;
    }
    out->plan.replay = &out->schedule;
    drop_faults(it, list);
    free(list);
    // The last attempt may have failed: a last run sets times and nodes.
    TR_TRY(tri_sim_schedule_begin(&out->schedule));
    (void)still_fails(it);
    return tri_sim_schedule_begin(&out->schedule);
}

tr_err tri_sim_shrink(tri_sim_shrunk *out, const tr_sim_options *options,
                      const tri_sim_plan *failed, const tri_sim_result *result)
{
    TRI_CHECK(out != NULL);
    TRI_CHECK(result->err == TR_EFAILED);
    shrinker it = {.options = options, .out = out, .first = result};
    tri_sim_schedule whole = {0};
    tri_sim_result again;

    *out = (tri_sim_shrunk){.plan = *failed, .result = *result};
    out->plan.silent = true;
    out->plan.trace = NULL;
    tr_err err = record(options, &out->plan, &whole, &again);
    out->before = whole.count;
    tri_sim_schedule_fini(&whole);
    TR_TRY(err);
    drop_classes(&it);
    if (out->result.fault_step > 0) {
        drop_steps(&it);
    }
    TR_TRY(shrink_faults(&it));
    out->faults = tri_sim_schedule_kept(&out->schedule);
    out->plan.silent = failed->silent;
    return TR_OK;
}

void tri_sim_shrunk_fini(tri_sim_shrunk *it)
{
    tri_sim_schedule_fini(&it->schedule);
}

/* ---- faults named on the command line ---- */

tr_err tri_sim_keep_faults(tri_sim_schedule *schedule,
                           const tr_sim_options *options, tri_sim_plan *plan,
                           const char *text)
{
    tri_sim_result result;

    TRI_CHECK(text != NULL);
    TR_TRY(record(options, plan, schedule, &result));
    for (uint32_t i = 0; i < schedule->count; i++) {
        schedule->all[i].kept = false;
    }
    while (*text != '\0' && strcmp(text, "none") != 0) {
        char *end = NULL;
        unsigned long number = strtoul(text, &end, 10);
        if (end == text || (*end != ',' && *end != '\0') || number == 0 ||
            number > schedule->count) {
            return TR_EINVAL;
        }
        schedule->all[number - 1].kept = true;
        text = end + (*end == ',');
    }
    plan->replay = schedule;
    return tri_sim_schedule_begin(schedule);
}
