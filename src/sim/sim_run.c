/*
 * sim_run.c - a whole program under simulation: nodes, workload, faults.
 *
 * Every node is a system of its own, with its own clock and disk. Everything
 * that may wait runs in threads of the world: booting nodes (sim_process.c),
 * the workload, the check at the end. Main only takes steps; after each one
 * sim_after_step.c checks the program and lets faults strike.
 *
 * Invariant: result, trace and checks are of the run alone. They end before
 * anything is cleaned up; the clean-up has no faults. Systems that cannot be
 * closed then are left behind, with a line in the log.
 */
#include "sim/sim_run.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/log.h"
#include "base/text.h"
#include "base/world.h"
#include "core/system.h"
#include "sim/sim_after_step.h"
#include "sim/sim_check.h"
#include "sim/sim_disk_crash.h"
#include "sim/sim_error.h"
#include "sim/sim_node.h"
#include "sim/sim_options.h"
#include "sim/sim_report.h"
#include "sim/sim_step.h"
#include "sim/sim_stray.h"
#include "sim/sim_system.h"
#include "sim/sim_thread.h"
#include "sim/sim_watchdog.h"
#include "system/guardian.h"
#include "system/probe.h"
#include "troupe/system.h"

#define CLEAN_UP_TIME  TR_SECONDS(1)
#define CLEAN_UP_STEPS UINT64_C(1000000)

void tri_run_fail(tri_run *it, const char *what, tr_err err, const char *why)
{
    (void)tr_sim_fail(it->sim, "%s: %s (%s)%s%s", what, tr_errname(err),
                      tr_strerror(err), why[0] != '\0' ? "; " : "", why);
}

/* ---- phases ---- */

static bool all_up(tri_run *it)
{
    for (uint32_t i = 0; i < it->sim->node_count; i++) {
        if (it->nodes[i].state != TRI_RUN_UP) {
            return false;
        }
    }
    return true;
}

static bool function_ended(tri_run *it)
{
    return it->ended;
}

/* Runs the world until `done`. Returns false if the run fails before. */
static bool run_until(tri_run *it, bool (*done)(tri_run *it), const char *what)
{
    tr_sim *sim = it->sim;

    while (!sim->failed && !done(it)) {
        bool went_on = tri_sim_step(sim, it->end);
        bool is_stuck = !went_on && tri_sim_next_due(sim) == TR_FOREVER;
        if (!sim->failed && !is_stuck && sim->now >= it->end && !done(it)) {
            (void)tr_sim_fail(sim,
                              "%s: has not ended within the limit of %" PRId64
                              " s; tr_sim_options.limit sets another",
                              what, it->options.limit / TR_SECONDS(1));
        } else if (!sim->failed && is_stuck && !done(it)) {
            (void)tr_sim_fail(sim,
                              "%s: nothing is left to do (a deadlock, "
                              "or a wake-up was lost)",
                              what);
        }
    }
    return !sim->failed;
}

static void call_main(void *arg)
{
    tri_run *it = arg;

    it->err = it->fn(it->sim, it->options.user);
    snprintf(it->why, sizeof(it->why), "%s", tri_sim_error_text(it->sim));
    it->ended = true;
}

/* Runs a function of the program in a thread that belongs to no node. */
static bool call_function(tri_run *it, const char *what,
                          tr_err (*fn)(tr_sim *sim, void *user))
{
    tri_world *outside = &it->sim->outside.world;
    tri_thread *thread;

    if (fn == NULL) {
        return true;
    }
    TRI_CHECK(!it->over);
    it->ended = false;
    it->fn = fn;
    tr_err err =
        outside->ops->thread_start(outside, &thread, what, call_main, it);
    if (err != TR_OK) {
        tri_run_fail(it, what, err, "");
        return false;
    }
    if (!run_until(it, function_ended, what)) {
        return false;  // clean_up freezes the thread
    }
    outside->ops->thread_join(outside, thread);
    if (it->err != TR_OK) {
        tri_run_fail(it, what, it->err, it->why);
        return false;
    }
    return true;
}

/* Runs the world without faults for options.quiet_time. */
static void run_quiet_time(tri_run *it)
{
    tr_sim *sim = it->sim;
    tr_nanos until = sim->now + it->options.quiet_time;

    while (!sim->failed && sim->now < until && tri_sim_step(sim, until)) {
        // tri_sim_step does the work.
    }
}

static tr_err close_nodes(tr_sim *sim, void *user)
{
    (void)user;
    for (uint32_t i = 0; i < sim->node_count; i++) {
        tr_system *sys = sim->nodes[i]->sys;
        sim->nodes[i]->sys = NULL;
        tri_run_of(sim)->nodes[i].state = TRI_RUN_DOWN;
        if (sys != NULL) {
            TR_TRY(tr_system_close(sys, 0));
        }
    }
    return TR_OK;
}

static void run_phases(tri_run *it)
{
    if (it->options.begin != NULL) {
        it->options.begin(it->sim, it->options.user);
    }
    for (uint32_t i = 0; i < it->sim->node_count; i++) {
        tri_run_boot(&it->nodes[i]);
    }
    // No faults before the program is up.
    it->sim->calm = true;
    if (!run_until(it, all_up, "bringing the nodes up")) {
        return;
    }
    it->sim->calm = false;
    if (!call_function(it, "the workload", it->options.workload)) {
        return;
    }
    tri_run_calm(it);
    if (!run_until(it, all_up, "bringing the nodes up again")) {
        return;
    }
    run_quiet_time(it);
    if (!it->sim->failed) {
        tri_sim_check(it->sim, true);
    }
    if (!it->sim->failed &&
        call_function(it, "the check at the end", it->options.at_end)) {
        (void)call_function(it, "closing the nodes", close_nodes);
    }
}

/* ---- cleaning up ---- */

/*
 * Closes a system, if it is not NULL, and ignores errors. The thread that would
 * free its probes does not run any more.
 */
static void close_quietly(tr_system **sys)
{
    tr_system *taken = *sys;

    *sys = NULL;
    if (taken != NULL) {
        tri_probes_free_all(taken);
        (void)tr_system_close(taken, CLEAN_UP_TIME);
    }
}

/*
 * Returns true if clean_up can close a system that the workload opened. It
 * cannot while the workload is inside opening or closing it.
 */
static bool can_close(const tri_sim_attached *at)
{
    tr_system *sys = at->driven->system;

    // Relaxed: the world is one thread.
    return tri_guardians_exist(sys) &&
           atomic_load_explicit(&sys->terminating, memory_order_relaxed) == 0;
}

/* Returns a system that the workload opened and has not closed, or NULL. */
static tr_system *client_left_open(tr_sim *sim)
{
    for (uint32_t i = 0; i < sim->system_count; i++) {
        tri_sim_attached *at = &sim->systems[i];
        if (at->node == &sim->client && can_close(at)) {
            return at->driven->system;
        }
    }
    return NULL;
}

static void clean_up_main(void *arg)
{
    tri_run *it = arg;
    tri_driven *driven;

    for (uint32_t i = 0; i < it->sim->node_count; i++) {
        close_quietly(&it->sim->nodes[i]->sys);
    }
    for (tri_boot *b = it->boots; b != NULL; b = b->next) {
        if (b->ended) {
            close_quietly(&b->sys);
        }
    }
    while ((driven = tri_sim_systems_unfreeze_last(it->sim)) != NULL) {
        tr_system *sys = driven->system;
        close_quietly(&sys);
    }
    // Closing makes a system `terminating`, so none is tried twice.
    tr_system *sys;
    while ((sys = client_left_open(it->sim)) != NULL) {
        close_quietly(&sys);
    }
    it->ended = true;
}

/* Lets the main threads of processes that had not come up return. */
static void end_boots(tri_run *it)
{
    tr_sim *sim = it->sim;
    uint64_t most = sim->steps + CLEAN_UP_STEPS;

    for (tri_boot *b = it->boots; b != NULL; b = b->next) {
        if (b->sys != NULL) {
            tri_sim_systems_unfreeze(sim, b->sys);
        }
    }
    for (tri_boot *b = it->boots; b != NULL; b = b->next) {
        while (!b->ended && sim->steps < most &&
               tri_sim_step(sim, TR_FOREVER)) {
            // tri_sim_step does the work.
        }
    }
}

/*
 * Frees what the run holds, with the trace and the checks off. Threads of the
 * workload, and of systems that it opened, do not run any more, except those
 * of the library. What cannot be ended is left behind.
 */
static void clean_up(tri_run *it)
{
    tr_sim *sim = it->sim;
    tri_world *world = &sim->nodes[0]->world;
    tri_thread *thread;

    TRI_CHECK(sim->running == NULL);
    TRI_CHECK(!it->over);
    sim->after_step = NULL;
    tr_sim_on_trace(sim, NULL, NULL);
    it->over = true;
    it->ended = false;
    tri_run_calm(it);
    tri_sim_disk_unplug(sim);
    tri_sim_threads_freeze(&sim->client);
    tri_sim_threads_unfreeze(sim);
    sim->outside.paused = true;
    end_boots(it);
    if (world->ops->thread_start(world, &thread, "clean up", clean_up_main,
                                 it) == TR_OK) {
        uint64_t most = sim->steps + CLEAN_UP_STEPS;
        while (!it->ended && sim->steps < most &&
               tri_sim_step(sim, TR_FOREVER)) {
            // tri_sim_step does the work.
        }
    }
    if (sim->system_count + sim->frozen_count > 0) {
        tri_log_write(TRI_LOG_WARN, TRI_SIM_EPOCH + sim->now, NULL, "sim",
                      "some systems could not be ended and are left behind");
        sim->system_count = 0;
        sim->frozen_count = 0;
    }
}

/* ---- one run ---- */

/* Makes the world of the run. */
static tr_err prepare(tri_run *it, const tri_sim_plan *plan)
{
    TR_TRY(tr_sim_new(&it->sim, plan->seed));
    tr_sim *sim = it->sim;
    while (sim->node_count < it->options.nodes) {
        if (tri_sim_node_add(sim) == NULL) {
            return TR_ENOMEM;
        }
    }
    for (uint32_t i = 0; i < sim->node_count; i++) {
        it->nodes[i] = (tri_run_node){
            .owner = it, .node = sim->nodes[i], .closed = TR_ESTOPPED};
    }
    tri_sim_set_faults(sim, it->options.faults);
    for (uint32_t i = 0; i < TRI_FAULT_COUNT; i++) {
        if (plan->without[i]) {
            sim->chance[i] = 0.0;
        }
    }
    sim->no_buggify = plan->without_buggify;
    sim->record = plan->record;
    sim->replay = plan->replay;
    sim->step_cost = it->options.step_cost > 0 ? it->options.step_cost : 0;
    sim->run = it;
    sim->after_step = tri_run_after_step;
    sim->after_step_user = it;
    if (plan->check_every > 0) {
        it->options.check_every = plan->check_every;
    }
    if (plan->strays != NULL) {
        sim->strays = plan->strays;
    }
    sim->strays_fail =
        it->options.strays == TR_STRAYS_FAIL || plan->strays_fail;
    it->end = sim->now + it->options.limit;
    tr_sim_on_trace(sim, plan->trace, plan->trace_user);
    return TR_OK;
}

static void boots_free(tri_run *it)
{
    while (it->boots != NULL) {
        tri_boot *b = it->boots;
        it->boots = b->next;
        free(b);
    }
}

tr_err tri_sim_run_plan(const tr_sim_options *options, const tri_sim_plan *plan,
                        tri_sim_result *result, tri_sim_inspect_fn inspect,
                        void *user)
{
    TRI_CHECK(options != NULL);
    TRI_CHECK(plan != NULL);
    TRI_CHECK(result != NULL);
    tri_run *it = calloc(1, sizeof(*it));
    tr_err err = it != NULL ? TR_OK : TR_ENOMEM;

    *result = (tri_sim_result){0};
    if (err == TR_OK && !tri_sim_options_check(options)) {
        err = TR_EINVAL;
    }
    if (err == TR_OK) {
        tri_text nothing;
        tri_text_init(&nothing, NULL, 0);
        bool taken =
            tri_sim_options_take(&it->options, &it->faults, options, &nothing);
        TRI_CHECK(taken);
        it->plan = plan;
        err = prepare(it, plan);
    }
    if (err == TR_OK) {
        bool find_strays =
            it->options.strays != TR_STRAYS_ALLOW || plan->strays_fail;
        tr_sim *before = tri_sim_stray_set_world(find_strays ? it->sim : NULL);
        tri_sim_watchdog_begin(plan->watchdog, it->sim, plan);
        run_phases(it);
        (void)tri_sim_stray_set_world(before);
        tri_run_result(it, result);
        err = result->err;
        if (err != TR_OK && !plan->silent) {
            tri_run_print(it, result);
        }
        if (inspect != NULL) {
            inspect(it->sim, user);
        }
        clean_up(it);
        tri_sim_watchdog_end(plan->watchdog);
    }
    if (it != NULL) {
        tr_sim_free(it->sim);
        boots_free(it);
    }
    free(it);
    result->err = err;
    return err;
}

tr_err tr_sim_run(const tr_sim_options *options)
{
    TRI_CHECK(options != NULL);
    tri_sim_plan plan = {.seed = options->seed};
    tri_sim_result result;

    (void)tri_sim_stray_redirect();
    return tri_sim_run_plan(options, &plan, &result, NULL, NULL);
}
