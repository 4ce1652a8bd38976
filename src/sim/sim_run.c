/*
 * sim_run.c - a whole program under simulation: nodes, workload, faults.
 *
 * Every node is a system of its own, with its own clock and disk. All that
 * may wait runs in threads of the world: bringing nodes up (sim_process.c),
 * the workload, the last look. Main only takes steps, and after each one
 * decides what goes wrong and whether the program is still right
 * (sim_trouble.c).
 *
 * Invariant: result, trace and checks are of the run alone. They are closed
 * before anything is cleaned up, which the world does calmly and unseen; what
 * cannot be ended then is left behind, and said so.
 */
#include "sim/sim_run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "core/probe.h"
#include "sim/sim_check.h"
#include "sim/sim_disk.h"
#include "sim/sim_options.h"
#include "sim/sim_process.h"
#include "sim/sim_schedule.h"
#include "sim/sim_stray.h"
#include "sim/sim_watch.h"
#include "system/layers.h"

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

/* Runs the world until `done`; false if the run has failed before. */
static bool drive(tri_run *it, bool (*done)(tri_run *it), const char *what)
{
    tr_sim *sim = it->sim;

    while (!sim->failed && !done(it)) {
        bool went_on = tri_sim_step(sim, it->end);
        bool dry = !went_on && tri_sim_next(sim) == TR_FOREVER;
        if (!sim->failed && !dry && sim->now >= it->end && !done(it)) {
            (void)tr_sim_fail(sim,
                              "%s: has not ended within the limit of %" PRId64
                              " s; tr_sim_options.limit sets another",
                              what, it->options.limit / TR_SECONDS(1));
        } else if (!sim->failed && dry && !done(it)) {
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
    it->ended = false;
    it->fn = fn;
    tr_err err =
        outside->ops->thread_start(outside, &thread, what, call_main, it);
    if (err != TR_OK) {
        tri_run_fail(it, what, err, "");
        return false;
    }
    if (!drive(it, function_ended, what)) {
        return false;  // clean_up sees to the thread
    }
    outside->ops->thread_join(outside, thread);
    if (it->err != TR_OK) {
        tri_run_fail(it, what, it->err, it->why);
        return false;
    }
    return true;
}

static void settle(tri_run *it)
{
    tr_sim *sim = it->sim;
    tr_nanos until = sim->now + it->options.quiet_time;

    while (!sim->failed && sim->now < until && tri_sim_step(sim, until)) {
        // Each turn is a step.
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
    // What happens before the program is there is of no interest.
    it->sim->calm = true;
    if (!drive(it, all_up, "bringing the nodes up")) {
        return;
    }
    it->sim->calm = false;
    if (!call_function(it, "the workload", it->options.workload)) {
        return;
    }
    tri_run_calm(it);
    if (!drive(it, all_up, "bringing the nodes up again")) {
        return;
    }
    settle(it);
    if (!it->sim->failed) {
        tri_sim_check(it->sim, true);
    }
    if (!it->sim->failed &&
        call_function(it, "the check at the end", it->options.at_end)) {
        (void)call_function(it, "closing the nodes", close_nodes);
    }
}

/* Ends one system as well as it goes. */
static void close_quietly(tr_system **sys)
{
    tr_system *taken = *sys;

    *sys = NULL;
    if (taken != NULL) {
        (void)tr_system_close(taken, CLEAN_UP_TIME);
    }
}

/*
 * Whether a system of the workload can be closed for it. Not if the workload
 * stands inside its opening or closing, or has a probe in it.
 */
static bool is_left_open(const tri_sim_attached *at)
{
    tr_system *sys = at->driven->system;
    tri_layers *layers = tri_layers_of(sys);

    // Relaxed, both: the world is one thread.
    return layers->dead_letters != NULL &&
           atomic_load_explicit(&layers->probes, memory_order_relaxed) == 0 &&
           atomic_load_explicit(&sys->terminating, memory_order_relaxed) == 0;
}

/* One that the workload opened and has not closed, or NULL. */
static tr_system *client_left_open(tr_sim *sim)
{
    for (uint32_t i = 0; i < sim->system_count; i++) {
        tri_sim_attached *at = &sim->systems[i];
        if (at->node == &sim->client && is_left_open(at)) {
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
    while ((driven = tri_sim_exhume(it->sim)) != NULL) {
        tr_system *sys = driven->system;
        close_quietly(&sys);
    }
    // One that was tried is terminating: it is not tried again.
    tr_system *sys;
    while ((sys = client_left_open(it->sim)) != NULL) {
        close_quietly(&sys);
    }
    it->ended = true;
}

/* Processes that had not come up: their main threads return. */
static void end_boots(tri_run *it)
{
    tr_sim *sim = it->sim;
    uint64_t most = sim->steps + CLEAN_UP_STEPS;

    for (tri_boot *b = it->boots; b != NULL; b = b->next) {
        if (b->sys != NULL) {
            tri_sim_exhume_one(sim, b->sys);
        }
    }
    for (tri_boot *b = it->boots; b != NULL; b = b->next) {
        while (!b->ended && sim->steps < most &&
               tri_sim_step(sim, TR_FOREVER)) {
            // Each turn is a step.
        }
    }
}

/*
 * After the run, with the trace and the checks off. Threads of the workload,
 * and of systems that it opened, stand still from now on, wherever they are,
 * but for the library's. What cannot be ended is left
 * behind.
 */
static void clean_up(tri_run *it)
{
    tr_sim *sim = it->sim;
    tri_world *world = &sim->nodes[0]->world;
    tri_thread *thread;

    sim->after_step = NULL;
    tr_sim_on_trace(sim, NULL, NULL);
    it->over = true;
    it->ended = false;
    tri_run_calm(it);
    tri_sim_disk_unplug(sim);
    tri_sim_bury_threads(&sim->client);
    tri_sim_exhume_threads(sim);
    sim->outside.paused = true;
    end_boots(it);
    if (world->ops->thread_start(world, &thread, "clean up", clean_up_main,
                                 it) == TR_OK) {
        uint64_t most = sim->steps + CLEAN_UP_STEPS;
        while (!it->ended && sim->steps < most &&
               tri_sim_step(sim, TR_FOREVER)) {
            // Each turn is a step.
        }
    }
    if (sim->system_count + sim->buried_count > 0) {
        tri_log_write(TRI_LOG_WARN, TRI_SIM_EPOCH + sim->now, NULL, "sim",
                      "some systems could not be ended and are left behind");
        sim->system_count = 0;
        sim->buried_count = 0;
    }
}

/* ---- one run ---- */

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
    sim->after_user = it;
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
                        tri_sim_result *result, tri_sim_seen_fn seen,
                        void *user)
{
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
        bool watch = it->options.strays != TR_STRAYS_ALLOW || plan->strays_fail;
        tr_sim *before = tri_sim_stray_watch(watch ? it->sim : NULL);
        tri_sim_watch_begin(plan->watch, it->sim, plan);
        run_phases(it);
        (void)tri_sim_stray_watch(before);
        tri_run_result(it, result);
        err = result->err;
        if (err != TR_OK && !plan->silent) {
            tri_run_print(it, result);
        }
        if (seen != NULL) {
            seen(it->sim, user);
        }
        clean_up(it);
        tri_sim_watch_end(plan->watch);
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
    tri_sim_plan plan = {.seed = options->seed};
    tri_sim_result result;

    (void)tri_sim_stray_lead();
    return tri_sim_run_plan(options, &plan, &result, NULL, NULL);
}

bool(tr_buggify)(tr_from from, double p, const char *site)
{
    tr_sim *sim = tri_sim_of(tri_from_world(from));

    return sim != NULL && tri_sim_buggify(sim, p, site);
}
