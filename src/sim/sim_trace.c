/*
 * sim_trace.c - the event log of a run, and the hash over its decisions.
 *
 * A step is shown by what it does: the handler that is entered, the dead
 * letter, the program's own log line. Only a step without any of these, such
 * as the start of an actor, has a line "step".
 *
 * Invariant: everything that the seed decides passes through tri_sim_hash, so
 * two runs with the same hash made the same choices at the same times.
 */
#include "sim/sim_trace.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/world.h"
#include "core/cell/cell.h"
#include "core/run/worker.h"
#include "core/system.h"
#include "core/types.h"
#include "sim/sim.h"
#include "sim/sim_fault.h"
#include "sim/sim_node.h"
#include "sim/sim_running.h"
#include "sim/sim_system.h"
#include "troupe/message.h"
#include "troupe/sim.h"

void tri_sim_hash(tr_sim *sim, tri_sim_kind kind, uint32_t who, uint64_t what)
{
    sim->steps++;
    sim->hash = tri_hash_mix(sim->hash ^ (uint64_t)who << 8 ^ (uint64_t)kind);
    sim->hash = tri_hash_mix(sim->hash ^ what);
    sim->hash = tri_hash_mix(sim->hash ^ (uint64_t)sim->now);
}

void tri_sim_note(tr_sim *sim, tri_sim_kind kind, uint32_t who, uint64_t what,
                  const char *text)
{
    tri_sim_hash(sim, kind, who, what);
    if (TRI_UNLIKELY(sim->trace != NULL)) {
        tri_sim_trace_note(sim, kind, who, what, text);
    }
}

uint64_t tr_sim_steps(const tr_sim *sim)
{
    return sim->steps;
}

uint64_t tr_sim_trace_hash(const tr_sim *sim)
{
    return sim->hash;
}

void tr_sim_on_trace(tr_sim *sim, tr_sim_trace_fn fn, void *user)
{
    sim->trace = fn;
    sim->trace_user = user;
}

/* ---- lines ---- */

static const char *or_dash(const char *text)
{
    return text != NULL && text[0] != '\0' ? text : "-";
}

const char *tri_sim_trace_head(void)
{
    return "      step         seconds node actor                    event"
           "    type             detail";
}

static void write_line(tr_sim *sim, uint64_t step, tr_nanos at,
                       const tri_sim_line *line)
{
    char text[TRI_SIM_TRACE_MAX];
    char node[16] = "-";

    TRI_CHECK(sim->trace != NULL);
    if (line->node != TRI_SIM_NO_NODE) {
        snprintf(node, sizeof(node), "%" PRIu32, line->node);
    }
    snprintf(text, sizeof(text),
             "%10" PRIu64 " %5" PRId64 ".%09" PRId64 " %4s %-24s %-8s %-16s %s",
             step, at / TR_SECONDS(1), at % TR_SECONDS(1), node,
             or_dash(line->actor), or_dash(line->event), or_dash(line->type),
             or_dash(line->detail));
    sim->trace(sim->trace_user, text);
}

void tri_sim_trace(tr_sim *sim, const tri_sim_line *line)
{
    if (TRI_UNLIKELY(sim->trace != NULL)) {
        sim->trace_pending = false;
        write_line(sim, sim->steps, sim->now, line);
    }
}

void tri_sim_trace_step_end(tr_sim *sim)
{
    if (TRI_UNLIKELY(sim->trace_pending) && sim->trace != NULL) {
        write_line(sim, sim->trace_step, sim->trace_at,
                   &(tri_sim_line){.node = sim->trace_node,
                                   .actor = sim->trace_actor,
                                   .event = "step"});
    }
    sim->trace_pending = false;
}

/* ---- decisions ---- */

static const char *event_name(tri_sim_kind kind, uint64_t what)
{
    static const char *const names[] = {
        [TRI_KIND_STEP] = "step",   [TRI_KIND_THREAD] = "thread",
        [TRI_KIND_TIME] = "time",   [TRI_KIND_FIRE] = "timers",
        [TRI_KIND_EVENT] = "world", [TRI_KIND_FAULT] = "fault",
        [TRI_KIND_NODE] = "node",
    };

    TRI_CHECK(kind < TRI_COUNT_OF(names));
    return kind == TRI_KIND_FAULT && what == TRI_FAULT_COUNT ? "buggify"
                                                             : names[kind];
}

/*
 * Keeps the path of the actor that the step will run, the `index`-th of the
 * run queue. In a bare world the system may be a test's stand-in: no path.
 */
static void keep_actor(tr_sim *sim, uint64_t index)
{
    tr_system *sys = sim->stepped->driven->system;

    if (sim->run == NULL) {
        return;
    }
    tri_cell *cell = sys->driven_worker->local;
    for (; cell != NULL && index > 0; index--) {
        cell = cell->run_next;
    }
    if (cell != NULL) {
        tr_ref_path(sys, tri_cell_ref(sys, cell), sim->trace_actor,
                    sizeof(sim->trace_actor));
    }
}

/* Adds node and actor to a fault's line. Inside a step it shows the step. */
static void place_fault(tr_sim *sim, tri_sim_line *line)
{
    uint32_t running = tri_sim_running_node(sim);

    if (line->node == TRI_SIM_NO_NODE) {
        line->node = running;
    }
    if (sim->stepping && line->node == running) {
        line->actor = sim->trace_actor;
        sim->trace_pending = false;
    }
}

void tri_sim_trace_note(tr_sim *sim, tri_sim_kind kind, uint32_t who,
                        uint64_t what, const char *text)
{
    tri_sim_line line = {.node = who, .event = event_name(kind, what)};
    bool is_class = kind == TRI_KIND_FAULT && what != TRI_FAULT_COUNT;

    if (kind == TRI_KIND_STEP || kind == TRI_KIND_FIRE) {
        line.node = sim->stepped->node->index;  // `who` is a system's id
        sim->trace_actor[0] = '\0';
    }
    if (kind == TRI_KIND_FAULT) {
        place_fault(sim, &line);
    }
    if (kind == TRI_KIND_STEP) {
        sim->trace_pending = true;
        sim->trace_step = sim->steps;
        sim->trace_at = sim->now;
        sim->trace_node = line.node;
        keep_actor(sim, what);
        return;
    }
    line.type = is_class ? text : NULL;
    line.detail = is_class ? NULL : text;
    write_line(sim, sim->steps, sim->now, &line);
}
