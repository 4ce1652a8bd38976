/*
 * sim_running.c - what a simulated world runs now.
 *
 * Invariant: nothing is changed and no lock is taken, so a signal handler may
 * ask.
 */
#include "sim/sim_running.h"

#include <stdatomic.h>

#include "base/world.h"
#include "core/run/worker.h"
#include "core/system.h"
#include "sim/sim.h"
#include "sim/sim_system.h"
#include "sim/sim_thread.h"

tri_sim_running tri_sim_running_now(const tr_sim *sim)
{
    if (sim->running != NULL) {
        return (tri_sim_running){.node = sim->running->node,
                                 .thread = sim->running->name};
    }
    if (!sim->stepping || sim->stepped == NULL) {
        return (tri_sim_running){0};
    }
    tr_system *sys = sim->stepped->driven->system;
    tri_worker *worker = sys->driven_worker;
    // Relaxed, both: the world is one thread.
    return (tri_sim_running){
        .node = sim->stepped->node,
        .sys = sys,
        .cell = atomic_load_explicit(&worker->running, memory_order_relaxed),
        .type = atomic_load_explicit(&worker->handling, memory_order_relaxed)};
}

uint32_t tri_sim_running_node(const tr_sim *sim)
{
    return sim->stepping          ? sim->stepped->node->index
           : sim->running != NULL ? sim->running->node->index
                                  : TRI_SIM_NO_NODE;
}
