/*
 * sim_main.c - the main function of a simulated program: runs, statistics,
 * shrinking.
 *
 * Invariant: what a run does depends on the plan alone; the real clock is
 * read for the statistics only.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "base/world.h"
#include "sim/sim.h"
#include "sim/sim_command.h"
#include "sim/sim_fault.h"
#include "sim/sim_node.h"
#include "sim/sim_options.h"
#include "sim/sim_plan.h"
#include "sim/sim_run.h"
#include "sim/sim_schedule.h"
#include "sim/sim_shrink.h"
#include "sim/sim_stray.h"
#include "sim/sim_trace.h"
#include "sim/sim_watchdog.h"
#include "troupe/base.h"
#include "troupe/sim.h"

#define PROGRESS_EVERY TR_SECONDS(5)  // of real time
#define LINE_MAX       1024

typedef struct site_sum {
    struct site_sum *next;
    tri_sim_counter count;
    char name[];
} site_sum;

/* Statistics over all runs. */
typedef struct statistics {
    uint64_t runs, failed, steps;
    uint64_t trace;    // the sum of the hashes of all runs
    tr_nanos time;     // virtual
    tr_nanos started;  // real
    tr_nanos shown;    // when the last line of progress was written
    tri_sim_counter faults[TRI_SIM_COUNTERS];
    bool on[TRI_FAULT_COUNT];  // in one of the runs
    bool refused;              // --faults named a fault that does not exist
    site_sum *sites;
    tri_sim_strays strays;
} statistics;

static tr_nanos real_time(void)
{
    tri_world *world = tri_world_posix();

    return world->ops->mono(world);
}

/* ---- statistics ---- */

static void add_site(statistics *it, const tr_sim_count *count)
{
    site_sum **at = &it->sites;

    while (*at != NULL && strcmp((*at)->name, count->name) != 0) {
        at = &(*at)->next;
    }
    if (*at == NULL) {
        size_t size = strlen(count->name) + 1;
        *at = calloc(1, sizeof(**at) + size);
        if (*at == NULL) {
            return;
        }
        memcpy((*at)->name, count->name, size);
    }
    (*at)->count.reached += count->reached;
    (*at)->count.fired += count->fired;
}

/* Adds sites and active classes; a tri_sim_inspect_fn. */
static void add_world(tr_sim *sim, void *user)
{
    uint32_t count = tr_sim_sites(sim, NULL, 0);
    tr_sim_count *counts = calloc(count + 1, sizeof(*counts));

    for (uint32_t i = 0; i < TRI_FAULT_COUNT; i++) {
        ((statistics *)user)->on[i] |= sim->chance[i] > 0.0;
    }
    if (counts == NULL) {
        return;
    }
    (void)tr_sim_sites(sim, counts, count);
    for (uint32_t i = 0; i < count; i++) {
        add_site(user, &counts[i]);
    }
    free(counts);
}

static void add_result(statistics *it, const tri_sim_result *result)
{
    it->runs++;
    it->failed += result->err != TR_OK;
    it->steps += result->steps;
    it->trace += result->hash;
    it->time += result->time;
    for (uint32_t i = 0; i < TRI_SIM_COUNTERS; i++) {
        it->faults[i].reached += result->faults[i].reached;
        it->faults[i].fired += result->faults[i].fired;
    }
}

static uint64_t per_second(uint64_t count, tr_nanos span)
{
    return span > 0 ? (uint64_t)((double)count * 1e9 / (double)span) : 0;
}

static void show_progress(statistics *it, uint64_t wanted, bool is_last)
{
    char line[LINE_MAX];
    tr_nanos now = real_time();
    tr_nanos span = now - it->started;
    uint64_t fired = 0;

    if (!is_last && now - it->shown < PROGRESS_EVERY) {
        return;
    }
    it->shown = now;
    for (uint32_t i = 0; i < TRI_FAULT_COUNT; i++) {
        fired += it->faults[i].fired;
    }
    snprintf(line, sizeof(line),
             "%" PRIu64 " of %" PRIu64 " seeds, %" PRIu64 " failed; %" PRIu64
             " seeds/s, %" PRIu64 " simulated s/s, %" PRIu64
             " steps/s, %" PRIu64 " faults",
             it->runs, wanted, it->failed, per_second(it->runs, span),
             per_second((uint64_t)(it->time / TR_SECONDS(1)), span),
             per_second(it->steps, span), fired);
    tri_sim_log(TRI_LOG_INFO, line);
}

static void show_counter(const char *what, const char *name,
                         const tri_sim_counter *count, const char *unreached)
{
    char line[LINE_MAX];

    snprintf(line, sizeof(line), "%-7s %-28s %12" PRIu64 " of %12" PRIu64 "%s",
             what, name, count->fired, count->reached,
             count->reached == 0 ? unreached
             : count->fired == 0 ? " (never)"
                                 : "");
    tri_sim_log(TRI_LOG_INFO, line);
}

static void show_strays(const tri_sim_strays *strays)
{
    for (const tri_sim_stray *it = strays->first; it != NULL; it = it->next) {
        tri_sim_counter count = {.reached = it->count, .fired = it->count};
        show_counter("stray", it->name, &count, "");
    }
    if (strays->unlisted > 0) {
        tri_sim_counter count = {.reached = strays->unlisted,
                                 .fired = strays->unlisted};
        show_counter("stray", "from further places", &count, "");
    }
}

static void show_statistics(statistics *it, uint64_t wanted)
{
    char line[LINE_MAX];

    show_progress(it, wanted, true);
    snprintf(line, sizeof(line),
             "in all %" PRId64 ".%03" PRId64 " simulated s, %" PRIu64
             " steps, trace %016" PRIx64,
             it->time / TR_SECONDS(1), it->time % TR_SECONDS(1) / TR_MS(1),
             it->steps, it->trace);
    tri_sim_log(TRI_LOG_INFO, line);
    for (uint32_t i = 0; i < TRI_SIM_COUNTERS; i++) {
        show_counter("fault", tri_sim_fault_name(i), &it->faults[i],
                     i >= TRI_FAULT_COUNT ? " (not reached)"
                     : it->on[i]          ? " (switched on, never reached)"
                                          : " (off)");
    }
    for (const site_sum *site = it->sites; site != NULL; site = site->next) {
        show_counter("buggify", site->name, &site->count, "");
    }
    show_strays(&it->strays);
}

static void statistics_fini(statistics *it)
{
    while (it->sites != NULL) {
        site_sum *site = it->sites;
        it->sites = site->next;
        free(site);
    }
    tri_sim_strays_fini(&it->strays);
}

/* ---- shrinking ---- */

static void show_strike(uint32_t number, const tri_sim_strike *it)
{
    char line[LINE_MAX];
    char node[32] = "";

    if (it->node != TRI_SIM_NO_NODE) {
        snprintf(node, sizeof(node), "node %" PRIu32 ", ", it->node);
    }
    snprintf(line, sizeof(line),
             "fault %" PRIu32 ": %" PRId64 ".%06" PRId64 " s, %s%s", number,
             it->at / TR_SECONDS(1), it->at % TR_SECONDS(1) / 1000, node,
             it->name);
    tri_sim_log(TRI_LOG_ERROR, line);
}

static void show_shrunk(const tri_sim_shrunk *it)
{
    char line[LINE_MAX];
    tri_text text;

    snprintf(line, sizeof(line),
             "shrunk from %" PRIu32 " faults to %" PRIu32 " in %" PRIu32
             " runs%s",
             it->before, it->faults, it->runs,
             it->runs >= TRI_SIM_SHRINK_RUNS ? ", the limit" : "");
    tri_sim_log(TRI_LOG_ERROR, line);
    for (uint32_t i = 0; i < it->schedule.count; i++) {
        if (it->schedule.all[i].kept) {
            show_strike(i + 1, &it->schedule.all[i]);
        }
    }
    tri_text_init(&text, line, sizeof(line));
    tri_text_add(&text, "shrunk: ");
    tri_sim_plan_text(&it->plan, &text);
    tri_sim_log(TRI_LOG_ERROR, line);
}

static void shrink(const tr_sim_options *options, const tri_sim_plan *failed,
                   const tri_sim_result *result)
{
    tri_sim_shrunk it;
    tri_sim_result again;
    tr_err err = tri_sim_shrink(&it, options, failed, result);

    if (err != TR_OK) {
        tri_sim_log(TRI_LOG_ERROR, tr_strerror(err));
    } else {
        show_shrunk(&it);
        // Once more, with its failure printed.
        (void)!tri_sim_run_plan(options, &it.plan, &again, NULL, NULL);
    }
    tri_sim_shrunk_fini(&it);
}

/* ---- runs ---- */

static void trace_to_stderr(void *user, const char *line)
{
    (void)user;
    tri_log_line(line);
}

/* Reports numbers of --faults that the run does not have. */
static void show_faults(const char *text, uint64_t seed,
                        const tri_sim_schedule *schedule)
{
    char line[LINE_MAX];

    snprintf(line, sizeof(line),
             "--faults %.64s: expected numbers from 1 to %" PRIu32
             " with commas between them, or none: the faults that strike with "
             "seed %" PRIu64,
             text, schedule->count, seed);
    tri_sim_log(TRI_LOG_ERROR, line);
}

static void show_passed(const tri_sim_plan *plan, const tri_sim_result *result)
{
    char line[LINE_MAX];
    tr_nanos at = TRI_SIM_BEGIN + result->time;  // as the trace has it
    uint64_t fired = 0;

    for (uint32_t i = 0; i < TRI_FAULT_COUNT; i++) {
        fired += result->faults[i].fired;
    }
    snprintf(line, sizeof(line),
             "seed %" PRIu64 " passed at step %" PRIu64 ", %" PRId64
             ".%03" PRId64 " s: %" PRIu64 " faults",
             plan->seed, result->steps, at / TR_SECONDS(1),
             at % TR_SECONDS(1) / TR_MS(1), fired);
    tri_log_write(TRI_LOG_INFO, TRI_SIM_EPOCH + at, NULL, "sim", line);
}

static void run_one(const tr_sim_options *options, const tri_sim_command *it,
                    tri_sim_plan *plan, statistics *sum)
{
    tri_sim_result result = {0};
    tri_sim_schedule schedule = {0};
    tr_err err = TR_OK;

    if (it->faults != NULL) {
        err = tri_sim_keep_faults(&schedule, options, plan, it->faults);
        if (err == TR_EINVAL) {
            sum->refused = true;
            show_faults(it->faults, plan->seed, &schedule);
        }
    }
    if (err == TR_OK) {
        err = tri_sim_run_plan(options, plan, &result, add_world, sum);
    }
    result.err = err;

    add_result(sum, &result);
    if (err != TR_OK && err != TR_EFAILED && err != TR_EINVAL) {
        tri_sim_log(TRI_LOG_ERROR, tr_strerror(err));
    }
    if (err == TR_OK && it->seeds == 0) {
        show_passed(plan, &result);
    }
    if (err == TR_EFAILED && it->shrink && it->faults == NULL) {
        shrink(options, plan, &result);
    }
    tri_sim_schedule_fini(&schedule);
}

int tr_sim_main(int argc, char **argv, const tr_sim_options *options)
{
    tri_sim_command it = tri_sim_command_read(argc, argv, options);
    uint64_t count = it.seeds > 0 ? it.seeds : 1;
    statistics sum = {.started = real_time()};
    tri_sim_watchdog watchdog = {0};

    if (it.wrong[0] != '\0' || it.help) {
        return tri_sim_usage(argv[0], it.wrong);
    }
    if (!tri_sim_options_check(options)) {
        return 2;
    }
    if (it.trace) {
        it.plan.trace = trace_to_stderr;
        tri_log_line(tri_sim_trace_head());
    }
    sum.shown = sum.started;
    it.plan.strays = &sum.strays;
    it.plan.watchdog = &watchdog;
    tri_sim_watchdog_start(&watchdog);
    (void)tri_sim_stray_redirect();
    for (uint64_t i = 0; i < count; i++) {
        tri_sim_plan plan = it.plan;
        plan.seed += i;
        run_one(options, &it, &plan, &sum);
        if (it.seeds > 0) {
            show_progress(&sum, count, false);
        }
    }
    if (it.seeds > 0) {
        show_statistics(&sum, count);
    }
    statistics_fini(&sum);
    tri_sim_watchdog_stop(&watchdog);
    return sum.refused ? 2 : sum.failed > 0 ? 1 : 0;
}
