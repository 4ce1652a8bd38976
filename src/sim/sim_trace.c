/*
 * sim_trace.c - the event log of a run: one line for each thing that happens.
 *
 * A step is told by what it does: the handler that is entered, the dead
 * letter, the line of the program's own log. Only one that does nothing of
 * the kind, such as the start of an actor, is told as a step.
 */
#include "sim/sim_trace.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/runtime.h"
#include "system/layers.h"

static const char *or_dash(const char *text)
{
    return text != NULL && text[0] != '\0' ? text : "-";
}

const char *tri_sim_trace_head(void)
{
    return "      step         seconds node actor                    event"
           "    type             detail";
}

static void put(tr_sim *sim, uint64_t step, tr_nanos at,
                const tri_sim_line *line)
{
    char text[TRI_SIM_TRACE_MAX];
    char node[16] = "-";

    if (line->node != TRI_SIM_NOBODY) {
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
        sim->trace_waits = false;
        put(sim, sim->steps, sim->now, line);
    }
}

void tri_sim_trace_end(tr_sim *sim)
{
    if (TRI_UNLIKELY(sim->trace_waits) && sim->trace != NULL) {
        put(sim, sim->trace_step, sim->trace_at,
            &(tri_sim_line){.node = sim->trace_node,
                            .actor = sim->trace_actor,
                            .event = "step"});
    }
    sim->trace_waits = false;
}

static const char *event_of(tri_sim_kind kind, uint64_t what)
{
    static const char *const names[] = {
        [TRI_KIND_STEP] = "step",   [TRI_KIND_THREAD] = "thread",
        [TRI_KIND_TIME] = "time",   [TRI_KIND_FIRE] = "timers",
        [TRI_KIND_EVENT] = "world", [TRI_KIND_FAULT] = "fault",
        [TRI_KIND_NODE] = "node",
    };

    return kind == TRI_KIND_FAULT && what == TRI_FAULT_COUNT ? "buggify"
                                                             : names[kind];
}

/* Whose turn it is. In a bare world a system may be a test's own. */
static void keep_actor(tr_sim *sim, uint64_t index)
{
    tr_system *sys = sim->stepped->driven->system;

    if (sim->run == NULL) {
        return;
    }
    tri_cell *cell = sys->driven_worker->own;
    for (; cell != NULL && index > 0; index--) {
        cell = cell->run_next;
    }
    if (cell != NULL) {
        tr_ref_path(sys, tri_cell_ref(sys, cell), sim->trace_actor,
                    sizeof(sim->trace_actor));
    }
}

/* A fault inside a step is what the step is told by, and has its actor. */
static void place(tr_sim *sim, tri_sim_line *line)
{
    uint32_t here = tri_sim_here(sim);

    if (line->node == TRI_SIM_NOBODY) {
        line->node = here;
    }
    if (sim->stepping && line->node == here) {
        line->actor = sim->trace_actor;
        sim->trace_waits = false;
    }
}

void tri_sim_trace_note(tr_sim *sim, tri_sim_kind kind, uint32_t who,
                        uint64_t what, const char *text)
{
    tri_sim_line line = {.node = who, .event = event_of(kind, what)};
    bool is_class = kind == TRI_KIND_FAULT && what != TRI_FAULT_COUNT;

    if (kind == TRI_KIND_STEP || kind == TRI_KIND_FIRE) {
        line.node = sim->stepped->node->index;  // `who` is a system
        sim->trace_actor[0] = '\0';
    }
    if (kind == TRI_KIND_FAULT) {
        place(sim, &line);
    }
    if (kind == TRI_KIND_STEP) {
        sim->trace_waits = true;
        sim->trace_step = sim->steps;
        sim->trace_at = sim->now;
        sim->trace_node = line.node;
        keep_actor(sim, what);
        return;
    }
    line.type = is_class ? text : NULL;
    line.detail = is_class ? NULL : text;
    put(sim, sim->steps, sim->now, &line);
}
