/*
 * sim_main.c - the main of a simulated program: runs, figures, shrinking.
 *
 * Invariant: what a run does depends on the plan alone; the real clock is
 * read for the figures only.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "sim/sim_command.h"
#include "sim/sim_options.h"
#include "sim/sim_shrink.h"
#include "sim/sim_stray.h"
#include "sim/sim_trace.h"
#include "sim/sim_watch.h"

#define PROGRESS_EVERY TR_SECONDS(5)  // of real time
#define LINE_MAX       1024

typedef struct site_sum {
    struct site_sum *next;
    tri_sim_counter count;
    char name[];
} site_sum;

/* Over all runs. */
typedef struct figures {
    uint64_t runs, failed, steps;
    uint64_t trace;    // the sum of the hashes of all runs
    tr_nanos time;     // virtual
    tr_nanos started;  // real
    tr_nanos told;     // when the last line of progress was written
    tri_sim_counter faults[TRI_SIM_COUNTERS];
    bool on[TRI_FAULT_COUNT];  // in one of them
    bool refused;              // --faults named one that there is not
    site_sum *sites;
    tri_sim_strays strays;
} figures;

static tr_nanos real_time(void)
{
    tri_world *world = tri_world_posix();

    return world->ops->mono(world);
}

/* ---- figures ---- */

static void add_site(figures *it, const tr_sim_count *count)
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

/* What only the world knows: its sites, and the classes that are on. */
static void add_world(tr_sim *sim, void *user)
{
    uint32_t count = tr_sim_sites(sim, NULL, 0);
    tr_sim_count *counts = calloc(count + 1, sizeof(*counts));

    for (uint32_t i = 0; i < TRI_FAULT_COUNT; i++) {
        ((figures *)user)->on[i] |= sim->chance[i] > 0.0;
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

static void add_result(figures *it, const tri_sim_result *result)
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

static void tell_progress(figures *it, uint64_t wanted, bool is_last)
{
    char line[LINE_MAX];
    tr_nanos now = real_time();
    tr_nanos span = now - it->started;
    uint64_t fired = 0;

    if (!is_last && now - it->told < PROGRESS_EVERY) {
        return;
    }
    it->told = now;
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
    tri_sim_say(TRI_LOG_INFO, line);
}

static void tell_counter(const char *what, const char *name,
                         const tri_sim_counter *count, const char *unreached)
{
    char line[LINE_MAX];

    snprintf(line, sizeof(line), "%-7s %-28s %12" PRIu64 " of %12" PRIu64 "%s",
             what, name, count->fired, count->reached,
             count->reached == 0 ? unreached
             : count->fired == 0 ? " (never)"
                                 : "");
    tri_sim_say(TRI_LOG_INFO, line);
}

static void tell_strays(const tri_sim_strays *strays)
{
    for (const tri_sim_stray *it = strays->first; it != NULL; it = it->next) {
        tri_sim_counter count = {.reached = it->count, .fired = it->count};
        tell_counter("stray", it->name, &count, "");
    }
    if (strays->unlisted > 0) {
        tri_sim_counter count = {.reached = strays->unlisted,
                                 .fired = strays->unlisted};
        tell_counter("stray", "from further places", &count, "");
    }
}

static void tell_figures(figures *it, uint64_t wanted)
{
    char line[LINE_MAX];

    tell_progress(it, wanted, true);
    snprintf(line, sizeof(line),
             "in all %" PRId64 ".%03" PRId64 " simulated s, %" PRIu64
             " steps, trace %016" PRIx64,
             it->time / TR_SECONDS(1), it->time % TR_SECONDS(1) / TR_MS(1),
             it->steps, it->trace);
    tri_sim_say(TRI_LOG_INFO, line);
    for (uint32_t i = 0; i < TRI_SIM_COUNTERS; i++) {
        tell_counter("fault", tri_sim_fault_name(i), &it->faults[i],
                     i >= TRI_FAULT_COUNT ? " (not reached)"
                     : it->on[i]          ? " (switched on, never reached)"
                                          : " (off)");
    }
    for (const site_sum *site = it->sites; site != NULL; site = site->next) {
        tell_counter("buggify", site->name, &site->count, "");
    }
    tell_strays(&it->strays);
}

static void figures_fini(figures *it)
{
    while (it->sites != NULL) {
        site_sum *site = it->sites;
        it->sites = site->next;
        free(site);
    }
    tri_sim_strays_fini(&it->strays);
}

/* ---- shrinking ---- */

static void tell_strike(uint32_t number, const tri_sim_strike *it)
{
    char line[LINE_MAX];
    char node[32] = "";

    if (it->node != TRI_SIM_NOBODY) {
        snprintf(node, sizeof(node), "node %" PRIu32 ", ", it->node);
    }
    snprintf(line, sizeof(line),
             "fault %" PRIu32 ": %" PRId64 ".%06" PRId64 " s, %s%s", number,
             it->at / TR_SECONDS(1), it->at % TR_SECONDS(1) / 1000, node,
             it->name);
    tri_sim_say(TRI_LOG_ERROR, line);
}

static void tell_shrunk(const tri_sim_shrunk *it)
{
    char line[LINE_MAX];
    tri_text text;

    snprintf(line, sizeof(line),
             "shrunk from %" PRIu32 " faults to %" PRIu32 " in %" PRIu32
             " runs%s",
             it->before, it->faults, it->runs,
             it->runs >= TRI_SIM_SHRINK_RUNS ? ", the limit" : "");
    tri_sim_say(TRI_LOG_ERROR, line);
    for (uint32_t i = 0; i < it->schedule.count; i++) {
        if (it->schedule.all[i].kept) {
            tell_strike(i + 1, &it->schedule.all[i]);
        }
    }
    tri_text_init(&text, line, sizeof(line));
    tri_text_add(&text, "shrunk: ");
    tri_sim_plan_text(&it->plan, &text);
    tri_sim_say(TRI_LOG_ERROR, line);
}

static void shrink(const tr_sim_options *options, const tri_sim_plan *failed,
                   const tri_sim_result *result)
{
    tri_sim_shrunk it;
    tri_sim_result again;
    tr_err err = tri_sim_shrink(&it, options, failed, result);

    if (err != TR_OK) {
        tri_sim_say(TRI_LOG_ERROR, tr_strerror(err));
    } else {
        tell_shrunk(&it);
        // Once more, to be seen.
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

/* A wrong part of --faults: the numbers are of the faults of that run. */
static void tell_faults(const char *text, uint64_t seed,
                        const tri_sim_schedule *schedule)
{
    char line[LINE_MAX];

    snprintf(line, sizeof(line),
             "--faults %.64s: expected numbers from 1 to %" PRIu32
             " with commas between them, or none: so many faults strike with "
             "seed %" PRIu64,
             text, schedule->count, seed);
    tri_sim_say(TRI_LOG_ERROR, line);
}

static void tell_passed(const tri_sim_plan *plan, const tri_sim_result *result)
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
                    tri_sim_plan *plan, figures *sum)
{
    tri_sim_result result = {0};
    tri_sim_schedule schedule = {0};
    tr_err err = TR_OK;

    if (it->faults != NULL) {
        err = tri_sim_keep_faults(&schedule, options, plan, it->faults);
        if (err == TR_EINVAL) {
            sum->refused = true;
            tell_faults(it->faults, plan->seed, &schedule);
        }
    }
    if (err == TR_OK) {
        err = tri_sim_run_plan(options, plan, &result, add_world, sum);
    }
    result.err = err;

    add_result(sum, &result);
    if (err != TR_OK && err != TR_EFAILED && err != TR_EINVAL) {
        tri_sim_say(TRI_LOG_ERROR, tr_strerror(err));
    }
    if (err == TR_OK && it->seeds == 0) {
        tell_passed(plan, &result);
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
    figures sum = {.started = real_time()};
    tri_sim_watch watch = {0};

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
    sum.told = sum.started;
    it.plan.strays = &sum.strays;
    it.plan.watch = &watch;
    tri_sim_watch_start(&watch);
    (void)tri_sim_stray_lead();
    for (uint64_t i = 0; i < count; i++) {
        tri_sim_plan plan = it.plan;
        plan.seed += i;
        run_one(options, &it, &plan, &sum);
        if (it.seeds > 0) {
            tell_progress(&sum, count, false);
        }
    }
    if (it.seeds > 0) {
        tell_figures(&sum, count);
    }
    figures_fini(&sum);
    tri_sim_watch_stop(&watch);
    return sum.refused ? 2 : sum.failed > 0 ? 1 : 0;
}
