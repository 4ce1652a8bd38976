/*
 * sim_trouble.c - after each step: is all still right, and what goes wrong.
 *
 * The rules of the library and of the program are looked at first, so a
 * failure is seen at the step that made it. Nodes die, clocks go wrong and
 * machines stop between two steps, never within one, and only until the world
 * is calm.
 */
#include "sim/sim_check.h"
#include "sim/sim_process.h"
#include "sim/sim_schedule.h"

#define SKEW_MAX      TR_SECONDS(10)  // of a wall clock, at once
#define JUMP_MAX      TR_MINUTES(60)  // when somebody sets it
#define DRIFT_MAX_PPM INT32_C(10000)  // of a node's clock

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

static void do_kills(tri_run *it)
{
    for (uint32_t i = 0; i < it->sim->node_count; i++) {
        tri_run_node *rn = &it->nodes[i];
        if (rn->node->kill_wanted) {
            bool lose_disk = rn->node->disk_wanted;
            rn->node->kill_wanted = false;
            rn->node->disk_wanted = false;
            tri_run_kill(it, rn, rn->node->down, lose_disk);
        }
    }
}

static void trouble(tri_run *it)
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
    if (tri_sim_strikes_one(sim, TRI_FAULT_node_kill, &i)) {
        tr_nanos down = any_span(sim, TRI_FAULT_node_kill);
        tri_run_kill(it, &it->nodes[i], down, false);
    }
    if (tri_sim_strikes_one(sim, TRI_FAULT_node_pause, &i)) {
        tri_sim_pause(sim->nodes[i], any_span(sim, TRI_FAULT_node_pause));
    }
    if (tri_sim_strikes_one(sim, TRI_FAULT_clock_skew, &i)) {
        skew_clock(sim, sim->nodes[i]);
    }
    if (tri_sim_strikes_one(sim, TRI_FAULT_clock_jump, &i)) {
        jump_clock(sim, sim->nodes[i]);
    }
}

void tri_run_after_step(tr_sim *sim, void *user)
{
    tri_run *it = user;

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
            tri_run_fail(it, "the invariant is broken", err, "");
            return;
        }
    }
    do_kills(it);
    trouble(it);
}

void tri_run_calm(tri_run *it)
{
    tr_sim *sim = it->sim;
    tri_world *outside = &sim->outside.world;

    sim->calm = true;
    sim->calm_since = sim->now;
    for (uint32_t i = 0; i < sim->node_count; i++) {
        tri_run_node *rn = &it->nodes[i];
        tri_sim_resume(rn->node);
        tri_sim_set_rate(rn->node, 0);
        // Relaxed: the world is one thread.
        atomic_store_explicit(&rn->hurry, 1, memory_order_relaxed);
        outside->ops->wake(outside, &rn->hurry, UINT32_MAX);
    }
}
