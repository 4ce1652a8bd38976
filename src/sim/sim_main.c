/*
 * sim_main.c - the command line of a simulated program.
 *
 *     program                     one run with the seed of the options
 *     program --seed N            one run
 *     program --seeds N           N runs from that seed on; figures at the end
 *     program --trace             the event log: one line for each event
 *     program --shrink            a failing run again, with fewer faults
 *     program --only a,b          fault classes that may strike; or none;
 *                                 `buggify` is one of them
 *     program --fault-steps N     faults end at that step
 *     program --faults 3,17       of the faults of that run only these, by
 *                                 number; what --shrink prints
 *     program --check-every N     steps between two looks at the invariants
 *     program --no-strays         a call around the world fails the run
 *
 * Lines go to standard error as log lines do. Exit status: 0 all runs passed,
 * 1 one failed, 2 the command line is wrong.
 *
 * Invariant: what a run does depends on the plan alone; the real clock is
 * read for the figures only.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "sim/sim_shrink.h"
#include "sim/sim_stray.h"
#include "sim/sim_trace.h"

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
    site_sum *sites;
    tri_sim_strays strays;
} figures;

typedef struct command {
    tri_sim_plan plan;
    uint64_t seeds;  // 0: one run, without figures
    const char *faults;  // the numbers of those that strike, or NULL: all
    bool trace, shrink, help;
    const char *wrong;  // the first argument that is; NULL: none
} command;

static tr_nanos real_time(void)
{
    tri_world *world = tri_world_posix();

    return world->ops->mono(world);
}

static void say(int level, const char *text)
{
    tri_world *world = tri_world_posix();

    tri_log_write(level, world->ops->wall(world), NULL, "sim", text);
}

/* ---- the command line ---- */

static bool parse_number(const char *text, uint64_t *out)
{
    char *end = NULL;

    if (text == NULL || *text < '0' || *text > '9') {
        return false;
    }
    *out = strtoull(text, &end, 0);
    return *end == '\0';
}

static uint32_t fault_named(const char *name, size_t length)
{
    uint32_t i = 0;

    while (i < TRI_FAULT_COUNT &&
           (strlen(tri_sim_fault_name(i)) != length ||
            strncmp(tri_sim_fault_name(i), name, length) != 0)) {
        i++;
    }
    return i;
}

static bool parse_only(const char *text, tri_sim_plan *plan)
{
    if (text == NULL) {
        return false;
    }
    memset(plan->without, true, sizeof(plan->without));
    plan->without_buggify = true;
    while (strcmp(text, "none") != 0 && *text != '\0') {
        size_t length = strcspn(text, ",");
        uint32_t fault = fault_named(text, length);
        if (length == strlen("buggify") &&
            strncmp(text, "buggify", length) == 0) {
            plan->without_buggify = false;
        } else if (fault == TRI_FAULT_COUNT) {
            return false;
        } else {
            plan->without[fault] = false;
        }
        text += length + (text[length] == ',');
    }
    return true;
}

static command parse(int argc, char **argv, const tr_sim_options *options)
{
    command it = {.plan = {.seed = options->seed, .program = argv[0]}};

    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        bool ok = true, takes_value = true;
        if (strcmp(argv[i], "--seed") == 0) {
            ok = parse_number(value, &it.plan.seed);
        } else if (strcmp(argv[i], "--seeds") == 0) {
            ok = parse_number(value, &it.seeds) && it.seeds > 0;
        } else if (strcmp(argv[i], "--fault-steps") == 0) {
            ok = parse_number(value, &it.plan.fault_steps);
        } else if (strcmp(argv[i], "--check-every") == 0) {
            uint64_t every = 0;
            ok = parse_number(value, &every) && every > 0 &&
                 every <= UINT32_MAX;
            it.plan.check_every = (uint32_t)every;
        } else if (strcmp(argv[i], "--faults") == 0) {
            it.faults = value;
            ok = value != NULL;
        } else if (strcmp(argv[i], "--only") == 0) {
            ok = parse_only(value, &it.plan);
        } else {
            takes_value = false;
            it.trace = it.trace || strcmp(argv[i], "--trace") == 0;
            it.shrink = it.shrink || strcmp(argv[i], "--shrink") == 0;
            bool no_strays = strcmp(argv[i], "--no-strays") == 0;
            it.plan.strays_fail = it.plan.strays_fail || no_strays;
            it.help = it.help || strcmp(argv[i], "--help") == 0;
            ok = strcmp(argv[i], "--trace") == 0 ||
                 strcmp(argv[i], "--shrink") == 0 ||
                 strcmp(argv[i], "--help") == 0 || no_strays;
        }
        if (!ok && it.wrong == NULL) {
            it.wrong = argv[i];
        }
        i += takes_value;
    }
    return it;
}

static int usage(const char *program, const char *wrong)
{
    char line[LINE_MAX];
    tri_text text;
    int level = wrong != NULL ? TRI_LOG_ERROR : TRI_LOG_INFO;

    if (wrong != NULL) {
        snprintf(line, sizeof(line),
                 "%.64s: no such option, or a value that is missing or makes "
                 "no sense",
                 wrong);
        say(level, line);
    }

    snprintf(line, sizeof(line),
             "usage: %s [--seed N] [--seeds N] [--trace] [--shrink] "
             "[--only CLASS,...] [--fault-steps N] [--check-every N] "
             "[--faults N,...] [--no-strays]",
             program);
    say(level, line);
    tri_text_init(&text, line, sizeof(line));
    tri_text_add(&text, "classes:");
    for (uint32_t i = 0; i < TRI_FAULT_COUNT; i++) {
        tri_text_add(&text, " %s", tri_sim_fault_name(i));
    }
    tri_text_add(&text, " buggify");
    say(level, line);
    return wrong != NULL ? 2 : 0;
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

static void add_sites(tr_sim *sim, void *user)
{
    uint32_t count = tr_sim_sites(sim, NULL, 0);
    tr_sim_count *counts = calloc(count + 1, sizeof(*counts));

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
    say(TRI_LOG_INFO, line);
}

static void tell_counter(const char *what, const char *name,
                         const tri_sim_counter *count)
{
    char line[LINE_MAX];

    snprintf(line, sizeof(line), "%-7s %-28s %12" PRIu64 " of %12" PRIu64 "%s",
             what, name, count->fired, count->reached,
             count->reached == 0 ? " (not reached)"
             : count->fired == 0 ? " (never)"
                                 : "");
    say(TRI_LOG_INFO, line);
}

static void tell_strays(const tri_sim_strays *strays)
{
    for (const tri_sim_stray *it = strays->first; it != NULL; it = it->next) {
        tri_sim_counter count = {.reached = it->count, .fired = it->count};
        tell_counter("stray", it->name, &count);
    }
    if (strays->unlisted > 0) {
        tri_sim_counter count = {.reached = strays->unlisted,
                                 .fired = strays->unlisted};
        tell_counter("stray", "from further places", &count);
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
    say(TRI_LOG_INFO, line);
    for (uint32_t i = 0; i < TRI_SIM_COUNTERS; i++) {
        tell_counter("fault", tri_sim_fault_name(i), &it->faults[i]);
    }
    for (const site_sum *site = it->sites; site != NULL; site = site->next) {
        tell_counter("buggify", site->name, &site->count);
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
    say(TRI_LOG_ERROR, line);
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
    say(TRI_LOG_ERROR, line);
    for (uint32_t i = 0; i < it->schedule.count; i++) {
        if (it->schedule.all[i].kept) {
            tell_strike(i + 1, &it->schedule.all[i]);
        }
    }
    tri_text_init(&text, line, sizeof(line));
    tri_text_add(&text, "shrunk: ");
    tri_sim_plan_text(&it->plan, &text);
    say(TRI_LOG_ERROR, line);
}

static void shrink(const tr_sim_options *options, const tri_sim_plan *failed,
                   const tri_sim_result *result)
{
    tri_sim_shrunk it;
    tri_sim_result again;
    tr_err err = tri_sim_shrink(&it, options, failed, result);

    if (err != TR_OK) {
        say(TRI_LOG_ERROR, tr_strerror(err));
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

static void run_one(const tr_sim_options *options, const command *it,
                    tri_sim_plan *plan, figures *sum)
{
    tri_sim_result result = {0};
    tri_sim_schedule schedule = {0};
    tr_err err = TR_OK;

    if (it->faults != NULL) {
        err = tri_sim_keep_faults(&schedule, options, plan, it->faults);
    }
    if (err == TR_OK) {
        err = tri_sim_run_plan(options, plan, &result, add_sites, sum);
    }
    result.err = err;

    add_result(sum, &result);
    if (err != TR_OK && err != TR_EFAILED) {
        say(TRI_LOG_ERROR, tr_strerror(err));
    }
    if (err == TR_EFAILED && it->shrink && it->faults == NULL) {
        shrink(options, plan, &result);
    }
    tri_sim_schedule_fini(&schedule);
}

int tr_sim_main(int argc, char **argv, const tr_sim_options *options)
{
    command it = parse(argc, argv, options);
    uint64_t count = it.seeds > 0 ? it.seeds : 1;
    figures sum = {.started = real_time()};

    if (it.wrong != NULL || it.help) {
        return usage(argv[0], it.wrong);
    }
    if (it.trace) {
        it.plan.trace = trace_to_stderr;
        tri_log_line(tri_sim_trace_head());
    }
    sum.told = sum.started;
    it.plan.strays = &sum.strays;
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
    return sum.failed > 0 ? 1 : 0;
}
