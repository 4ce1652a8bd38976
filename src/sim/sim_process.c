/*
 * sim_process.c - the processes of the nodes: coming up, ending in good order,
 * being killed.
 *
 *     down -> booting -> up -> (closing) -> down ...
 *
 * Everything that may wait runs in threads of the world, and so do booting and
 * closing a node.
 *
 * A killed system is not freed at once: a thread of the workload may wait in
 * it, and does so until its time is over, as a client of a dead node would. It
 * is frozen, which means that it is never stepped again, and closed when the
 * run is over. The library's threads in it, those of a store, are frozen, too.
 *
 * Invariant: node->sys is set exactly while the node is up. When a node is
 * killed, its threads are gone or frozen, and its disk has lost power, before
 * the next step of the world.
 */
#include "sim/sim_process.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/world.h"
#include "sim/sim.h"
#include "sim/sim_disk_crash.h"
#include "sim/sim_error.h"
#include "sim/sim_fault.h"
#include "sim/sim_run.h"
#include "sim/sim_system.h"
#include "sim/sim_tcp.h"
#include "sim/sim_thread.h"
#include "sim/sim_trace.h"
#include "troupe/observe.h"
#include "troupe/sim.h"

#define BOOT_RETRY TR_MS(500)

/* ---- coming up ---- */

static const char *level_name(uint32_t level)
{
    static const char *const names[] = {"DEBUG", "INFO", "WARN", "ERROR"};

    return level < TRI_COUNT_OF(names) ? names[level] : "-";
}

/* Writes the log of a node into the trace, if there is one. */
static void log_to_trace(void *user, const tr_log_record *record)
{
    const tri_run_node *rn = user;

    if (!rn->owner->over) {
        tri_sim_trace(rn->owner->sim,
                      &(tri_sim_line){.node = rn->node->index,
                                      .actor = record->path,
                                      .event = "log",
                                      .type = level_name(record->level),
                                      .detail = record->text});
    }
}

static tr_err open_node(tri_run *it, tri_boot *b)
{
    tri_run_node *rn = b->rn;
    char name[32];
    tr_err err = TR_OK;

    snprintf(name, sizeof(name), "node-%" PRIu32, rn->node->index);
    TR_TRY(tr_system_open(&b->sys, .name = name, .world = &rn->node->world,
                          .log = log_to_trace, .log_user = rn));
    if (it->options.node != NULL && !it->over) {
        err = it->options.node(b->sys, rn->node->index, it->options.user);
    }
    // While the run is cleaned up, sim_run.c closes the system.
    if (err != TR_OK && !it->over) {
        (void)tr_system_close(b->sys, 0);
        b->sys = NULL;
    }
    return err;
}

/* The index comes last: failures are compared up to the first number. */
static void fail_boot(tri_run *it, uint32_t index, tr_err err)
{
    char why[TRI_SIM_WHY_MAX];
    const char *text = tri_sim_error_text(it->sim);

    snprintf(why, sizeof(why), "node %" PRIu32 "%s%s", index,
             text[0] != '\0' ? ": " : "", text);
    tri_run_fail(it, "a node did not come up", err, why);
}

/* Tries again after BOOT_RETRY while faults may be the cause of an error. */
static void boot_until_up(tri_run *it, tri_boot *b)
{
    tri_run_node *rn = b->rn;

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
            rn->state = TRI_RUN_UP;
            tri_sim_note(it->sim, TRI_KIND_NODE, rn->node->index, TRI_NODE_UP,
                         "up");
            return;
        }
        if (calm) {
            fail_boot(it, rn->node->index, err);
            return;
        }
        (void)tri_sim_sleep(it->sim, BOOT_RETRY);
    }
}

static void boot_main(void *arg)
{
    tri_boot *b = arg;

    TRI_CHECK(!b->ended);
    boot_until_up(b->rn->owner, b);
    b->ended = true;
}

/*
 * Starts a main thread of a process. Its name begins with "tr-", so the world
 * treats it like one of the library: if its node is killed it is frozen, and
 * it ends by itself after the run.
 */
static void start_process_thread(tri_run_node *rn, const char *name,
                                 void (*main)(void *boot), tr_system *sys,
                                 tri_run_state state)
{
    tri_run *it = rn->owner;
    tri_world *world = &rn->node->world;
    tri_thread *thread;
    tri_boot *b = calloc(1, sizeof(*b));
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
        tri_run_fail(it, "no thread for a node", err, "");
        return;
    }
    TRI_CHECK(rn->boot == NULL);
    rn->boot = b;
    rn->state = state;
}

void tri_run_boot(tri_run_node *rn)
{
    TRI_CHECK(rn->node->sys == NULL);
    start_process_thread(rn, "tr-boot", boot_main, NULL, TRI_RUN_BOOTING);
}

/* Waits until the node may boot again. Runs outside: there is no process. */
static void boot_again_main(void *arg)
{
    tri_run_node *rn = arg;
    tri_world *outside = &rn->owner->sim->outside.world;
    tr_nanos until = rn->owner->sim->now + rn->down;

    // A park may return early; only boot_now ends the wait before its time.
    while (rn->owner->sim->now < until &&
           outside->ops->park(outside, &rn->boot_now, 0,
                              until - rn->owner->sim->now) &&
           // Relaxed: the world is one thread.
           atomic_load_explicit(&rn->boot_now, memory_order_relaxed) == 0) {
        // Still down.
    }
    tri_run_boot(rn);
}

static void boot_again(tri_run_node *rn)
{
    tri_world *outside = &rn->owner->sim->outside.world;
    tri_thread *thread;
    tr_err err = outside->ops->thread_start(outside, &thread, "node",
                                            boot_again_main, rn);

    if (err != TR_OK) {
        tri_run_fail(rn->owner, "no thread for a node", err, "");
    }
}

static void set_down(tri_run_node *rn, tr_nanos down)
{
    rn->down = down < TR_FOREVER / 2 ? down : TR_FOREVER / 2;
    // Relaxed: the world is one thread.
    atomic_store_explicit(&rn->boot_now, 0, memory_order_relaxed);
}

/* ---- ending in good order ---- */

/* Closes the system. If the node is killed meanwhile, ends after the run. */
static void shutdown_main(void *arg)
{
    tri_boot *b = arg;
    tri_run_node *rn = b->rn;
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
    rn->state = TRI_RUN_DOWN;
    tri_sim_note(rn->owner->sim, TRI_KIND_NODE, rn->node->index, TRI_NODE_DOWN,
                 "down, in good order");
    boot_again(rn);
}

void tr_sim_shutdown(tr_sim *sim, uint32_t index, tr_nanos timeout,
                     tr_nanos down)
{
    TRI_CHECK(sim->run != NULL);
    TRI_CHECK(index < sim->node_count);
    tri_run_node *rn = &tri_run_of(sim)->nodes[index];
    tr_system *sys = rn->node->sys;

    if (rn->state == TRI_RUN_CLOSING) {
        return;
    }
    rn->closed = TR_ESTOPPED;
    if (rn->state != TRI_RUN_UP) {
        return;
    }
    set_down(rn, down);
    rn->timeout = timeout;
    rn->node->sys = NULL;
    start_process_thread(rn, "tr-shutdown", shutdown_main, sys,
                         TRI_RUN_CLOSING);
}

tr_err tr_sim_shutdown_report(const tr_sim *sim, uint32_t index,
                              tr_close_report *report)
{
    TRI_CHECK(sim->run != NULL);
    TRI_CHECK(index < sim->node_count);
    const tri_run *it = sim->run;
    const tri_run_node *rn = &it->nodes[index];

    if (rn->state == TRI_RUN_CLOSING) {
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

/* ---- being killed ---- */

/* A system can be frozen only after tr_system_open has returned. */
static bool can_kill(const tri_run_node *rn)
{
    return rn->state == TRI_RUN_UP || rn->state == TRI_RUN_CLOSING ||
           (rn->state == TRI_RUN_BOOTING && rn->boot->sys != NULL);
}

void tri_run_kill(tri_run *it, tri_run_node *rn, tr_nanos down, bool lose_disk)
{
    tri_sim_node *node = rn->node;

    TRI_CHECK(it->sim->running == NULL);
    TRI_CHECK(!it->sim->stepping);
    if (!can_kill(rn) || !tri_sim_systems_freeze(node)) {
        return;
    }
    tri_sim_note(it->sim, TRI_KIND_NODE, node->index, TRI_NODE_DOWN,
                 rn->state == TRI_RUN_UP        ? "down"
                 : rn->state == TRI_RUN_BOOTING ? "down, while it came up"
                                                : "down, while it closed");
    if (rn->state == TRI_RUN_CLOSING) {
        rn->closed = TR_ESTOPPED;
    }
    set_down(rn, down);
    rn->state = TRI_RUN_DOWN;
    rn->boot = NULL;
    node->sys = NULL;
    tri_sim_node_resume(node);
    tri_sim_threads_freeze(node);
    tri_sim_tcp_kill(node);
    tri_sim_disk_crash(it->sim, node->index);
    if (tri_sim_strikes(it->sim, TRI_FAULT_disk_lost, node->index)) {
        lose_disk = true;
    }
    tri_sim_count_event(it->sim, TRI_EVENT_disk_kept, !lose_disk);
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
    sim->nodes[index]->down_wanted = down;
}

void tr_sim_replace(tr_sim *sim, uint32_t index, tr_nanos down)
{
    tr_sim_kill(sim, index, down);
    sim->nodes[index]->lose_disk_wanted = true;
    sim->disk_replaced = true;
}
