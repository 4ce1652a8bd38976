/*
 * sim_fault.c - draws, counts and records the faults of a simulated world.
 *
 * Invariant: a class draws from its own stream only (sim_stream.h), and draws
 * once for each occasion, so a class that is switched off changes no other.
 */
#include "sim/sim_fault.h"

#include <stddef.h>

#include "base/check.h"
#include "base/options.h"
#include "base/rand.h"
#include "sim/sim.h"
#include "sim/sim_node.h"
#include "sim/sim_schedule.h"
#include "sim/sim_stream.h"
#include "sim/sim_trace.h"

const char *tri_sim_fault_name(tri_sim_fault fault)
{
    static const char *const names[] = {
#define TRI_X(name) #name,
        TRI_SIM_FAULTS(TRI_X) TRI_SIM_EVENTS(TRI_X)
#undef TRI_X
    };

    TRI_CHECK(fault < TRI_SIM_COUNTERS);
    return names[fault];
}

/* Decides by the recorded schedule in a replay, else by the seed. */
static bool is_drawn(tr_sim *sim, tri_sim_fault fault, uint32_t node,
                     uint64_t occasion)
{
    if (sim->replay != NULL) {
        return tri_sim_schedule_strikes(
            sim->replay, sim, fault, tri_sim_fault_name(fault), node, occasion);
    }
    return tri_rand_chance(tri_sim_rand(sim, TRI_STREAM_FAULT + fault),
                           sim->chance[fault]);
}

/* Everything but the trace line: that may need a node drawn later. */
static bool strikes(tr_sim *sim, tri_sim_fault fault, uint32_t node)
{
    TRI_CHECK(fault < TRI_FAULT_COUNT);
    if (sim->chance[fault] <= 0.0 || sim->calm) {
        return false;
    }
    uint64_t occasion = ++sim->faults[fault].reached;
    if (!is_drawn(sim, fault, node, occasion)) {
        return false;
    }
    if (sim->record != NULL) {
        tri_sim_schedule_add(sim->record, sim, fault, tri_sim_fault_name(fault),
                             node, occasion);
    }
    sim->faults[fault].fired++;
    sim->fault_step = sim->steps;
    tri_sim_hash(sim, TRI_KIND_FAULT, node, fault);
    return true;
}

static void trace_fault(tr_sim *sim, tri_sim_fault fault, uint32_t node)
{
    if (TRI_UNLIKELY(sim->trace != NULL)) {
        tri_sim_trace_note(sim, TRI_KIND_FAULT, node, fault,
                           tri_sim_fault_name(fault));
    }
}

bool tri_sim_strikes(tr_sim *sim, tri_sim_fault fault, uint32_t node)
{
    if (!strikes(sim, fault, node)) {
        return false;
    }
    trace_fault(sim, fault, node);
    return true;
}

bool tri_sim_strikes_any_node(tr_sim *sim, tri_sim_fault fault, uint32_t *index)
{
    if (!strikes(sim, fault, TRI_SIM_NO_NODE)) {
        return false;
    }
    *index = (uint32_t)tri_sim_fault_below(sim, fault, sim->node_count);
    if (sim->record != NULL) {
        tri_sim_schedule_set_node(sim->record, *index);
    }
    if (sim->replay != NULL) {
        tri_sim_schedule_set_node(sim->replay, *index);
    }
    trace_fault(sim, fault, *index);
    return true;
}

void tri_sim_count_event(tr_sim *sim, tri_sim_fault event, bool did)
{
    TRI_CHECK(event >= TRI_FAULT_COUNT);
    TRI_CHECK(event < TRI_SIM_COUNTERS);
    sim->faults[event].reached++;
    sim->faults[event].fired += did;
}

uint64_t tri_sim_fault_below(tr_sim *sim, tri_sim_fault fault, uint64_t limit)
{
    TRI_CHECK(fault < TRI_FAULT_COUNT);
    return tri_rand_below(tri_sim_rand(sim, TRI_STREAM_FAULT + fault), limit);
}

void tri_sim_set_faults(tr_sim *sim, const tr_faults *faults)
{
    tr_faults own;

    if (!tri_options_copy(&own, sizeof(own), sizeof(size_t), faults)) {
        tr_abort("sim", "tr_faults: .size is not sizeof(tr_faults), or of a "
                        "newer version");
    }
#define TRI_X(name) sim->chance[TRI_FAULT_##name] = own.name;
    TRI_SIM_FAULTS(TRI_X)
#undef TRI_X
    sim->delay_max = own.delay_max > 0 ? own.delay_max : TRI_SIM_DELAY_MAX;
    sim->pause_max = own.pause_max > 0 ? own.pause_max : TRI_SIM_PAUSE_MAX;
}

uint32_t tr_sim_faults(const tr_sim *sim, tr_sim_count *out, uint32_t max)
{
    for (uint32_t i = 0; i < TRI_SIM_COUNTERS && i < max; i++) {
        out[i] = (tr_sim_count){.name = tri_sim_fault_name(i),
                                .reached = sim->faults[i].reached,
                                .fired = sim->faults[i].fired};
    }
    return TRI_SIM_COUNTERS;
}
