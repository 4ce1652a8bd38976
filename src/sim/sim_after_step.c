/*
 * sim_after_step.c - what a run does after each step: checks, kills, faults of
 * nodes.
 *
 * The invariants of the library and of the program are checked first, so a
 * failure is seen at the step that made it. Nodes are killed and paused, and
 * clocks go wrong, between two steps, never within one, and only until the
 * world is calm.
 */
#include "sim/sim_after_step.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "base/world.h"
#include "sim/sim.h"
#include "sim/sim_check.h"
#include "sim/sim_fault.h"
#include "sim/sim_node.h"
#include "sim/sim_plan.h"
#include "sim/sim_process.h"
#include "sim/sim_tcp.h"
#include "troupe/sim.h"

#define SKEW_MAX      TR_SECONDS(10)  // of a wall clock, at once
#define JUMP_MAX      TR_MINUTES(60)  // of a wall clock that is set
#define DRIFT_MAX_PPM INT32_C(10000)  // of a node's clock

static tr_nanos draw_span(tr_sim *sim, tri_sim_fault fault)
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
    tri_sim_node_set_rate(node, (int32_t)rate - DRIFT_MAX_PPM);
}

/* Sets the wall clock to another time; the monotonic one is unchanged. */
static void jump_clock(tr_sim *sim, tri_sim_node *node)
{
    uint64_t jump = tri_sim_fault_below(sim, TRI_FAULT_clock_jump,
                                        2 * (uint64_t)JUMP_MAX + 1);

    node->wall_skew += (tr_nanos)jump - JUMP_MAX;
}

/* Kills the nodes that tr_sim_kill and tr_sim_replace have named. */
static void do_kills(tri_run *it)
{
    for (uint32_t i = 0; i < it->sim->node_count; i++) {
        tri_run_node *rn = &it->nodes[i];
        if (rn->node->kill_wanted) {
            bool lose_disk = rn->node->lose_disk_wanted;
            rn->node->kill_wanted = false;
            rn->node->lose_disk_wanted = false;
            tri_run_kill(it, rn, rn->node->down_wanted, lose_disk);
        }
    }
}

static void strike_nodes(tri_run *it)
{
    tr_sim *sim = it->sim;
    uint32_t i;

    if (sim->calm) {
        return;
    }
    if (it->plan->fault_steps > 0 && sim->steps >= it->plan->fault_steps) {
        sim->calm = true;
        return;
    }
    if (tri_sim_strikes_any_node(sim, TRI_FAULT_node_kill, &i)) {
        tr_nanos down = draw_span(sim, TRI_FAULT_node_kill);
        tri_run_kill(it, &it->nodes[i], down, false);
    }
    if (tri_sim_strikes_any_node(sim, TRI_FAULT_node_pause, &i)) {
        tri_sim_node_pause(sim->nodes[i], draw_span(sim, TRI_FAULT_node_pause));
    }
    if (tri_sim_strikes_any_node(sim, TRI_FAULT_clock_skew, &i)) {
        skew_clock(sim, sim->nodes[i]);
    }
    if (tri_sim_strikes_any_node(sim, TRI_FAULT_clock_jump, &i)) {
        jump_clock(sim, sim->nodes[i]);
    }
    tri_sim_tcp_trouble(sim);
}

void tri_run_after_step(tr_sim *sim, void *run)
{
    tri_run *it = run;

    TRI_CHECK(it->sim == sim);
    if (sim->failed) {
        return;
    }
    tri_sim_check_hook(sim);
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
            tri_run_fail(it, "the invariant is broken", err, "");
            return;
        }
    }
    do_kills(it);
    strike_nodes(it);
}

void tri_run_calm(tri_run *it)
{
    tr_sim *sim = it->sim;
    tri_world *outside = &sim->outside.world;

    sim->calm = true;
    sim->calm_since = sim->now;
    tri_sim_tcp_heal(sim);
    for (uint32_t i = 0; i < sim->node_count; i++) {
        tri_run_node *rn = &it->nodes[i];
        tri_sim_node_resume(rn->node);
        tri_sim_node_set_rate(rn->node, 0);
        // Relaxed: the world is one thread.
        atomic_store_explicit(&rn->boot_now, 1, memory_order_relaxed);
        outside->ops->wake(outside, &rn->boot_now, UINT32_MAX);
    }
}
