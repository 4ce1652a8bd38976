/*
 * sim_run.c - a whole program under simulation: nodes, workload, faults.
 *
 * Every node is a system of its own, with its own clock and disk. All that
 * may wait runs in threads of the world: bringing nodes up, the workload, the
 * last look. Main only takes steps, and after each one decides what goes
 * wrong and whether the program is still right.
 *
 *     down -> booting -> up -> (closing) -> down ...
 *
 * A killed system is not freed at once: a thread of the workload may wait in
 * it, and does so until its time is over, as a client of a dead node would.
 * It is buried, which is to say that it is never stepped again, and closed
 * when the run is over and nobody looks any more.
 *
 * The library's threads in it, those of a store, are treated likewise.
 *
 * Invariant: node->sys is set exactly while the node is up. When a node is
 * killed, its threads are gone or stand still, and its disk has lost power,
 * before the next step of the world.
 */
#include "sim/sim_run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/options.h"
#include "core/probe.h"
#include "sim/sim_check.h"
#include "sim/sim_disk.h"
#include "sim/sim_schedule.h"
#include "sim/sim_stray.h"
#include "sim/sim_trace.h"
#include "troupe/observe.h"
#include "troupe/system.h"

#define LIMIT_DEFAULT     TR_MINUTES(60)
#define QUIET_DEFAULT     TR_SECONDS(60)
#define STEP_COST_DEFAULT INT64_C(1000)
#define BOOT_RETRY        TR_MS(500)
#define SKEW_MAX          TR_SECONDS(10)  // of a wall clock, at once
#define JUMP_MAX          TR_MINUTES(60)  // when somebody sets it
#define DRIFT_MAX_PPM     INT32_C(10000)  // of a node's clock
#define CLEAN_UP_TIME     TR_SECONDS(1)
#define CLEAN_UP_STEPS    UINT64_C(1000000)

typedef enum node_state {
    NODE_DOWN,
    NODE_BOOTING,
    NODE_UP,
    NODE_CLOSING,  // tr_sim_shutdown
} node_state;

typedef struct run run;

/*
 * One attempt of a process to come up, until it is up or was killed; or its
 * way down, until it has ended or was killed.
 */
typedef struct boot {
    struct boot *next;  // in run->boots
    struct run_node *rn;
    tr_system *sys;  // opened, and not yet the node's; or its no more
    bool ended;      // its thread has returned
} boot;

typedef struct run_node {
    run *owner;
    tri_sim_node *node;
    node_state state;
    boot *boot;               // while booting or closing
    tr_nanos down;            // before it boots again
    tr_nanos timeout;         // of the shutdown
    tr_err closed;            // what became of the last shutdown
    tr_close_report report;
    _Atomic(uint32_t) hurry;  // 1: do not wait so long
} run_node;

struct run {
    tr_sim *sim;
    tr_sim_options options;
    const tri_sim_plan *plan;
    tr_nanos end;                           // when the limit is over
    tr_err (*fn)(tr_sim *sim, void *user);  // runs now, in a thread
    tr_err err;                             // what it returned
    bool ended;                             // the function has returned
    bool over;                              // nobody looks any more
    uint64_t checked;                       // the step of the last look
    boot *boots;                            // all of them; owned
    run_node nodes[TRI_SIM_NODES_MAX];
};

static run *run_of(tr_sim *sim)
{
    return sim->run;
}

static void fail(run *it, const char *what, tr_err err)
{
    (void)tr_sim_fail(it->sim, "%s: %s (%s)", what, tr_errname(err),
                      tr_strerror(err));
}

/* ---- nodes ---- */

static const char *level_name(uint32_t level)
{
    static const char *const names[] = {"DEBUG", "INFO", "WARN", "ERROR"};

    return level < TRI_COUNT_OF(names) ? names[level] : "-";
}

/* The log of a node is part of the trace: where none is wanted, it is lost. */
static void log_of_node(void *user, const tr_log_record *record)
{
    const run_node *rn = user;

    if (!rn->owner->over) {
        tri_sim_trace(rn->owner->sim,
                      &(tri_sim_line){.node = rn->node->index,
                                      .actor = record->path,
                                      .event = "log",
                                      .type = level_name(record->level),
                                      .detail = record->text});
    }
}

static tr_err open_node(run *it, boot *b)
{
    run_node *rn = b->rn;
    char name[32];
    tr_err err = TR_OK;

    snprintf(name, sizeof(name), "node-%" PRIu32, rn->node->index);
    TR_TRY(tr_system_open(&b->sys, .name = name, .world = &rn->node->world,
                          .log = log_of_node, .log_user = rn));
    if (it->options.node != NULL && !it->over) {
        err = it->options.node(b->sys, rn->node->index, it->options.user);
    }
    // After the run, clean_up ends the system.
    if (err != TR_OK && !it->over) {
        (void)tr_system_close(b->sys, 0);
        b->sys = NULL;
    }
    return err;
}

/* Until it is up: a boot that a fault has spoilt is tried again. */
static void boot_until_up(run *it, boot *b)
{
    run_node *rn = b->rn;

    while (!it->over) {
        bool calm = it->sim->calm;
        tr_err err = open_node(it, b);
        if (it->over) {
            return;
        }
        if (err == TR_OK) {
            rn->node->sys = b->sys;
            rn->boot = NULL;
            b->sys = NULL;
            rn->state = NODE_UP;
            tri_sim_note(it->sim, TRI_KIND_NODE, rn->node->index, TRI_NODE_UP,
                         "up");
            return;
        }
        if (calm) {
            fail(it, "a node did not come up", err);
            return;
        }
        (void)tri_sim_sleep(it->sim, BOOT_RETRY);
    }
}

static void boot_main(void *arg)
{
    boot *b = arg;

    boot_until_up(b->rn->owner, b);
    b->ended = true;
}

/*
 * A main thread of a process. It is one of the library's for the world: if
 * its node is killed it stands still, and ends by itself after the run.
 */
static void process_thread(run_node *rn, const char *name,
                           void (*main)(void *boot), tr_system *sys,
                           node_state state)
{
    run *it = rn->owner;
    tri_world *world = &rn->node->world;
    tri_thread *thread;
    boot *b = calloc(1, sizeof(*b));
    tr_err err = b != NULL ? TR_OK : TR_ENOMEM;

    if (b != NULL) {
        b->rn = rn;
        b->sys = sys;
        b->next = it->boots;
        it->boots = b;
        err = world->ops->thread_start(world, &thread, name, main, b);
        b->ended = err != TR_OK;
    }
    if (err != TR_OK) {
        fail(it, "no thread for a node", err);
        return;
    }
    rn->boot = b;
    rn->state = state;
}

static void boot_begin(run_node *rn)
{
    process_thread(rn, "tr-boot", boot_main, NULL, NODE_BOOTING);
}

/* After its end: outside, since there is no process. */
static void boot_again_main(void *arg)
{
    run_node *rn = arg;
    tri_world *outside = &rn->owner->sim->outside.world;
    tr_nanos until = rn->owner->sim->now + rn->down;

    // Early wakes are no reason; to be hurried is.
    while (rn->owner->sim->now < until &&
           outside->ops->park(outside, &rn->hurry, 0,
                              until - rn->owner->sim->now) &&
           // Relaxed: the world is one thread.
           atomic_load_explicit(&rn->hurry, memory_order_relaxed) == 0) {
        // Still down.
    }
    boot_begin(rn);
}

static void boot_again(run_node *rn)
{
    tri_world *outside = &rn->owner->sim->outside.world;
    tri_thread *thread;
    tr_err err = outside->ops->thread_start(outside, &thread, "node",
                                            boot_again_main, rn);

    if (err != TR_OK) {
        fail(rn->owner, "no thread for a node", err);
    }
}

static void set_down(run_node *rn, tr_nanos down)
{
    rn->down = down < TR_FOREVER / 2 ? down : TR_FOREVER / 2;
    // Relaxed: the world is one thread.
    atomic_store_explicit(&rn->hurry, 0, memory_order_relaxed);
}

/* ---- the end of a process ---- */

/* If its node is killed meanwhile, this goes on after the run. */
static void shutdown_main(void *arg)
{
    boot *b = arg;
    run_node *rn = b->rn;
    tr_close_report report = {.size = sizeof(report)};
    tr_err err = tr_system_close_report(b->sys, rn->timeout, &report);

    b->sys = NULL;
    b->ended = true;
    if (rn->owner->over) {
        return;
    }
    rn->closed = err;
    rn->report = report;
    rn->boot = NULL;
    rn->state = NODE_DOWN;
    tri_sim_note(rn->owner->sim, TRI_KIND_NODE, rn->node->index, TRI_NODE_DOWN,
                 "down, in good order");
    boot_again(rn);
}

void tr_sim_shutdown(tr_sim *sim, uint32_t index, tr_nanos timeout,
                     tr_nanos down)
{
    TRI_CHECK(sim->run != NULL);
    TRI_CHECK(index < sim->node_count);
    run_node *rn = &run_of(sim)->nodes[index];
    tr_system *sys = rn->node->sys;

    if (rn->state == NODE_CLOSING) {
        return;
    }
    rn->closed = TR_ESTOPPED;
    if (rn->state != NODE_UP) {
        return;
    }
    set_down(rn, down);
    rn->timeout = timeout;
    rn->node->sys = NULL;
    process_thread(rn, "tr-shutdown", shutdown_main, sys, NODE_CLOSING);
}

tr_err tr_sim_shutdown_report(const tr_sim *sim, uint32_t index,
                              tr_close_report *report)
{
    TRI_CHECK(sim->run != NULL);
    TRI_CHECK(index < sim->node_count);
    const run *it = sim->run;
    const run_node *rn = &it->nodes[index];

    if (rn->state == NODE_CLOSING) {
        return TR_EWOULDBLOCK;
    }
    if (report != NULL) {
        if (report->size != sizeof(*report)) {
            return TR_EINVAL;
        }
        *report = rn->report;
        report->size = sizeof(*report);
    }
    return rn->closed;
}

/* Inside tr_system_open a system is only half of one, and cannot be buried. */
static bool can_kill(const run_node *rn)
{
    return rn->state == NODE_UP || rn->state == NODE_CLOSING ||
           (rn->state == NODE_BOOTING && rn->boot->sys != NULL);
}

/* On main, between two steps. */
static void kill_node(run *it, run_node *rn, tr_nanos down, bool lose_disk)
{
    tri_sim_node *node = rn->node;

    if (!can_kill(rn) || !tri_sim_bury(node)) {
        return;
    }
    tri_sim_note(it->sim, TRI_KIND_NODE, node->index, TRI_NODE_DOWN,
                 rn->state == NODE_UP        ? "down"
                 : rn->state == NODE_BOOTING ? "down, while it came up"
                                             : "down, while it closed");
    if (rn->state == NODE_CLOSING) {
        rn->closed = TR_ESTOPPED;
    }
    set_down(rn, down);
    rn->state = NODE_DOWN;
    rn->boot = NULL;
    node->sys = NULL;
    tri_sim_resume(node);
    tri_sim_bury_threads(node);
    tri_sim_disk_crash(it->sim, node->index);
    if (tri_sim_strikes(it->sim, TRI_FAULT_disk_lost, node->index)) {
        lose_disk = true;
    }
    tri_sim_count(it->sim, TRI_EVENT_disk_kept, !lose_disk);
    if (lose_disk) {
        tri_sim_disk_lose(it->sim, node->index);
    }
    boot_again(rn);
}

void tr_sim_kill(tr_sim *sim, uint32_t index, tr_nanos down)
{
    TRI_CHECK(sim->run != NULL);
    TRI_CHECK(index < sim->node_count);
    sim->nodes[index]->kill_wanted = true;
    sim->nodes[index]->down = down;
}

void tr_sim_replace(tr_sim *sim, uint32_t index, tr_nanos down)
{
    tr_sim_kill(sim, index, down);
    sim->nodes[index]->disk_wanted = true;
    sim->disk_replaced = true;
}

/* ---- what goes wrong ---- */

static run_node *any_node(run *it, tri_sim_fault fault)
{
    uint64_t index = tri_sim_fault_below(it->sim, fault, it->sim->node_count);

    return &it->nodes[index];
}

static tr_nanos any_span(tr_sim *sim, tri_sim_fault fault)
{
    return 1 +
           (tr_nanos)tri_sim_fault_below(sim, fault, (uint64_t)sim->pause_max);
}

static void skew_clock(tr_sim *sim, tri_sim_node *node)
{
    uint64_t skew = tri_sim_fault_below(sim, TRI_FAULT_clock_skew,
                                        2 * (uint64_t)SKEW_MAX + 1);
    uint64_t rate = tri_sim_fault_below(sim, TRI_FAULT_clock_skew,
                                        2 * (uint64_t)DRIFT_MAX_PPM + 1);

    node->wall_skew = (tr_nanos)skew - SKEW_MAX;
    tri_sim_set_rate(node, (int32_t)rate - DRIFT_MAX_PPM);
}

/* Somebody has set the wall clock; the other one goes on as it did. */
static void jump_clock(tr_sim *sim, tri_sim_node *node)
{
    uint64_t jump = tri_sim_fault_below(sim, TRI_FAULT_clock_jump,
                                        2 * (uint64_t)JUMP_MAX + 1);

    node->wall_skew += (tr_nanos)jump - JUMP_MAX;
}

static void do_kills(run *it)
{
    for (uint32_t i = 0; i < it->sim->node_count; i++) {
        run_node *rn = &it->nodes[i];
        if (rn->node->kill_wanted) {
            bool lose_disk = rn->node->disk_wanted;
            rn->node->kill_wanted = false;
            rn->node->disk_wanted = false;
            kill_node(it, rn, rn->node->down, lose_disk);
        }
    }
}

static void trouble(run *it)
{
    tr_sim *sim = it->sim;

    if (sim->calm) {
        return;
    }
    if (it->plan->fault_steps > 0 && sim->steps >= it->plan->fault_steps) {
        sim->calm = true;
        return;
    }
    if (tri_sim_strikes(sim, TRI_FAULT_node_kill, TRI_SIM_NOBODY)) {
        run_node *rn = any_node(it, TRI_FAULT_node_kill);
        tr_nanos down = any_span(sim, TRI_FAULT_node_kill);
        kill_node(it, rn, down, false);
    }
    if (tri_sim_strikes(sim, TRI_FAULT_node_pause, TRI_SIM_NOBODY)) {
        run_node *rn = any_node(it, TRI_FAULT_node_pause);
        tri_sim_pause(rn->node, any_span(sim, TRI_FAULT_node_pause));
    }
    if (tri_sim_strikes(sim, TRI_FAULT_clock_skew, TRI_SIM_NOBODY)) {
        skew_clock(sim, any_node(it, TRI_FAULT_clock_skew)->node);
    }
    if (tri_sim_strikes(sim, TRI_FAULT_clock_jump, TRI_SIM_NOBODY)) {
        jump_clock(sim, any_node(it, TRI_FAULT_clock_jump)->node);
    }
}

static void after_step(tr_sim *sim, void *user)
{
    run *it = user;

    if (sim->failed) {
        return;
    }
    tri_sim_listen(sim);
    if (sim->steps - it->checked >= it->options.check_every) {
        it->checked = sim->steps;
        tri_sim_check(sim, false);
        if (sim->failed) {
            return;
        }
    }
    if (it->options.invariant != NULL) {
        tr_err err = it->options.invariant(sim, it->options.user);
        if (err != TR_OK) {
            fail(it, "the invariant is broken", err);
            return;
        }
    }
    do_kills(it);
    trouble(it);
}

/* From now on the world is friendly: nothing new goes wrong, all comes up. */
static void make_calm(run *it)
{
    tr_sim *sim = it->sim;
    tri_world *outside = &sim->outside.world;

    sim->calm = true;
    sim->calm_since = sim->now;
    for (uint32_t i = 0; i < sim->node_count; i++) {
        run_node *rn = &it->nodes[i];
        tri_sim_resume(rn->node);
        tri_sim_set_rate(rn->node, 0);
        // Relaxed: the world is one thread.
        atomic_store_explicit(&rn->hurry, 1, memory_order_relaxed);
        outside->ops->wake(outside, &rn->hurry, UINT32_MAX);
    }
}

/* ---- phases ---- */

static bool all_up(run *it)
{
    for (uint32_t i = 0; i < it->sim->node_count; i++) {
        if (it->nodes[i].state != NODE_UP) {
            return false;
        }
    }
    return true;
}

static bool function_ended(run *it)
{
    return it->ended;
}

/* Runs the world until `done`; false if the run has failed before. */
static bool drive(run *it, bool (*done)(run *it), const char *what)
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
    run *it = arg;

    it->err = it->fn(it->sim, it->options.user);
    it->ended = true;
}

/* Runs a function of the program in a thread that belongs to no node. */
static bool call_function(run *it, const char *what,
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
        fail(it, what, err);
        return false;
    }
    if (!drive(it, function_ended, what)) {
        return false;  // clean_up sees to the thread
    }
    outside->ops->thread_join(outside, thread);
    if (it->err != TR_OK) {
        fail(it, what, it->err);
        return false;
    }
    return true;
}

static void settle(run *it)
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
        run_of(sim)->nodes[i].state = NODE_DOWN;
        if (sys != NULL) {
            TR_TRY(tr_system_close(sys, 0));
        }
    }
    return TR_OK;
}

static void run_phases(run *it)
{
    if (it->options.begin != NULL) {
        it->options.begin(it->sim, it->options.user);
    }
    for (uint32_t i = 0; i < it->sim->node_count; i++) {
        boot_begin(&it->nodes[i]);
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
    make_calm(it);
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

static void clean_up_main(void *arg)
{
    run *it = arg;
    tri_driven *driven;

    for (uint32_t i = 0; i < it->sim->node_count; i++) {
        close_quietly(&it->sim->nodes[i]->sys);
    }
    for (boot *b = it->boots; b != NULL; b = b->next) {
        if (b->ended) {
            close_quietly(&b->sys);
        }
    }
    while ((driven = tri_sim_exhume(it->sim)) != NULL) {
        tr_system *sys = driven->system;
        close_quietly(&sys);
    }
    it->ended = true;
}

/* Processes that had not come up: their main threads return. */
static void end_boots(run *it)
{
    tr_sim *sim = it->sim;
    uint64_t most = sim->steps + CLEAN_UP_STEPS;

    for (boot *b = it->boots; b != NULL; b = b->next) {
        if (b->sys != NULL) {
            tri_sim_exhume_one(sim, b->sys);
        }
    }
    for (boot *b = it->boots; b != NULL; b = b->next) {
        while (!b->ended && sim->steps < most &&
               tri_sim_step(sim, TR_FOREVER)) {
            // Each turn is a step.
        }
    }
}

/*
 * After the run, with the trace and the checks off. Threads of the workload
 * stand still from now on, wherever they are. What cannot be ended is left
 * behind.
 */
static void clean_up(run *it)
{
    tr_sim *sim = it->sim;
    tri_world *world = &sim->nodes[0]->world;
    tri_thread *thread;

    sim->after_step = NULL;
    tr_sim_on_trace(sim, NULL, NULL);
    it->over = true;
    it->ended = false;
    make_calm(it);
    tri_sim_disk_unplug(sim);
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

static bool take_options(run *it, const tr_sim_options *options)
{
    tr_sim_options *own = &it->options;

    if (!tri_options_copy(own, sizeof(*own),
                          TRI_SIZE_THROUGH(tr_sim_options, limit), options)) {
        return false;
    }
    own->nodes = own->nodes > 0 ? own->nodes : 1;
    own->check_every = own->check_every > 0 ? own->check_every : 1;
    own->limit = own->limit > 0 ? own->limit : LIMIT_DEFAULT;
    own->quiet_time = own->quiet_time > 0 ? own->quiet_time : QUIET_DEFAULT;
    if (own->step_cost == 0) {
        own->step_cost = STEP_COST_DEFAULT;
    }
    return own->nodes <= TRI_SIM_NODES_MAX;
}

/* There is no run that could say it. */
static void refuse_options(const tr_sim_options *options)
{
    char line[TRI_SIM_LINE_MAX];
    tri_world *world = tri_world_posix();

    snprintf(line, sizeof(line),
             options->nodes > TRI_SIM_NODES_MAX
                 ? "tr_sim_options: .nodes is above %u"
                 : "tr_sim_options: .size is not sizeof(tr_sim_options), or "
                   "of a newer version; the limit of nodes is %u",
             (unsigned)TRI_SIM_NODES_MAX);
    tri_log_write(TRI_LOG_ERROR, world->ops->wall(world), NULL, "sim", line);
}

static tr_err prepare(run *it, const tri_sim_plan *plan)
{
    TR_TRY(tr_sim_new(&it->sim, plan->seed));
    tr_sim *sim = it->sim;
    while (sim->node_count < it->options.nodes) {
        if (tri_sim_node_add(sim) == NULL) {
            return TR_ENOMEM;
        }
    }
    for (uint32_t i = 0; i < sim->node_count; i++) {
        it->nodes[i] = (run_node){.owner = it, .node = sim->nodes[i],
                                  .closed = TR_ESTOPPED};
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
    sim->after_step = after_step;
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

static void print_failure(const run *it, const tri_sim_result *result)
{
    char line[2 * TRI_SIM_LINE_MAX];
    const tr_sim *sim = it->sim;
    tr_nanos at = TRI_SIM_EPOCH + sim->now;
    tri_text text;

    snprintf(line, sizeof(line),
             "seed %" PRIu64 " failed at step %" PRIu64 ", %" PRId64
             ".%03" PRId64 " s: %s",
             sim->seed, result->steps, result->time / TR_SECONDS(1),
             result->time % TR_SECONDS(1) / TR_MS(1), sim->fail_text);
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

static void keep_result(const run *it, tri_sim_result *result)
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

static void boots_free(run *it)
{
    while (it->boots != NULL) {
        boot *b = it->boots;
        it->boots = b->next;
        free(b);
    }
}

tr_err tri_sim_run_plan(const tr_sim_options *options, const tri_sim_plan *plan,
                        tri_sim_result *result, tri_sim_seen_fn seen,
                        void *user)
{
    run *it = calloc(1, sizeof(*it));
    tr_err err = it != NULL ? TR_OK : TR_ENOMEM;

    *result = (tri_sim_result){0};
    if (err == TR_OK && !take_options(it, options)) {
        refuse_options(options);
        err = TR_EINVAL;
    }
    if (err == TR_OK) {
        it->plan = plan;
        err = prepare(it, plan);
    }
    if (err == TR_OK) {
        bool watch = it->options.strays != TR_STRAYS_ALLOW || plan->strays_fail;
        tr_sim *before = tri_sim_stray_watch(watch ? it->sim : NULL);
        run_phases(it);
        (void)tri_sim_stray_watch(before);
        keep_result(it, result);
        err = result->err;
        if (err != TR_OK && !plan->silent) {
            print_failure(it, result);
        }
        if (seen != NULL) {
            seen(it->sim, user);
        }
        clean_up(it);
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
