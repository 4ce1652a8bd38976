/*
 * sim_step.c - one step of a simulated world after the other.
 *
 * A step runs one batch of one actor, or lets one thread go on until it waits
 * again. Which one is drawn from all that could go on. If none can, the clock
 * moves to the next time at which something is due. A handler takes no virtual
 * time, unless step_cost says so.
 *
 * Invariant: at each moment exactly one of these runs: main's stack (running
 * NULL, not stepping), a system on behalf of it (stepping), a thread
 * (running). Systems are stepped on main's stack only, and only main switches
 * to threads, so every switch is balanced. The clock never falls.
 */
#include "sim/sim_step.h"

#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "base/list.h"
#include "base/rand.h"
#include "base/wheel.h"
#include "base/world.h"
#include "sim/sim.h"
#include "sim/sim_event.h"
#include "sim/sim_node.h"
#include "sim/sim_stream.h"
#include "sim/sim_system.h"
#include "sim/sim_thread.h"
#include "sim/sim_trace.h"

/*
 * After this many steps at one instant each further step costs STILL_COST, so
 * that a program that never waits cannot stop the clock. Programs that do wait
 * still see exact times.
 */
#define STILL_MAX  UINT32_C(10000)
#define STILL_COST INT64_C(1000)

static void set_clock(tr_sim *sim, tr_nanos now)
{
    TRI_CHECK(now >= sim->now);
    if (now > sim->now) {
        sim->now = now;
        sim->still = 0;
        sim->nothing_due = false;
    }
}

/* ---- timers ---- */

/* Returns the world's time at which the system has a timer to fire. */
static tr_nanos system_due(const tri_sim_attached *it)
{
    if (it->node->paused) {
        return TR_FOREVER;
    }
    tr_nanos due = it->driven->next_due(it->driven->system);

    return due == TR_FOREVER ? TR_FOREVER : tri_sim_node_when(it->node, due);
}

static void fire_system(tr_sim *sim, tri_sim_attached *it)
{
    sim->stepped = it;
    tri_sim_note(sim, TRI_KIND_FIRE, it->id, 0, "");
    sim->stepping = true;
    it->touched = true;
    it->driven->fire(it->driven->system, tri_sim_node_time(it->node));
    sim->stepping = false;
    if (system_due(it) > sim->now) {
        it->fired_at = sim->now;
    } else {
        sim->nothing_due = false;  // the system fired its timers late
    }
}

static void fire_due(tr_sim *sim)
{
    if (sim->nothing_due) {
        return;
    }
    sim->nothing_due = true;
    if (tri_wheel_next(&sim->wheel) <= sim->now) {
        tri_sim_events_fire(sim);
    }
    for (uint32_t i = 0; i < sim->system_count; i++) {
        tri_sim_attached *it = &sim->systems[i];
        if (system_due(it) > sim->now) {
            it->fired_at = it->node->paused ? it->fired_at : sim->now;
        } else {
            fire_system(sim, it);
        }
    }
}

tr_nanos tri_sim_next_due(tr_sim *sim)
{
    tr_nanos next = tri_wheel_next(&sim->wheel);

    for (uint32_t i = 0; i < sim->system_count; i++) {
        tr_nanos due = system_due(&sim->systems[i]);
        next = due < next ? due : next;
    }
    return next > sim->now ? next : sim->now;
}

/* ---- what can go on ---- */

static uint32_t count_runnable_actors(tr_sim *sim)
{
    uint32_t total = 0;

    for (uint32_t i = 0; i < sim->system_count; i++) {
        tri_sim_attached *it = &sim->systems[i];
        it->runnable = 0;
        if (!it->node->paused) {
            uint32_t count = it->driven->runnable(it->driven->system);
            it->runnable = count < TRI_SIM_WINDOW ? count : TRI_SIM_WINDOW;
        }
        total += it->runnable;
    }
    return total;
}

static uint32_t count_ready_threads(tr_sim *sim)
{
    uint32_t total = 0;

    TRI_LIST_EACH (link, &sim->ready) {
        total += !tri_container_of(link, tri_thread, queue)->node->paused;
    }
    return total;
}

bool tri_sim_is_busy(tr_sim *sim)
{
    return count_runnable_actors(sim) + count_ready_threads(sim) > 0;
}

/* ---- steps ---- */

/* Runs the `pick`-th of all runnable actors, as counted just before. */
static void step_system(tr_sim *sim, uint32_t pick)
{
    tri_sim_attached *it = sim->systems;

    while (pick >= it->runnable) {
        pick -= it->runnable;
        it++;
    }
    TRI_CHECK(it < sim->systems + sim->system_count);
    sim->stepped = it;
    tri_sim_note(sim, TRI_KIND_STEP, it->id, pick, "");
    sim->stepping = true;
    it->touched = true;
    it->driven->step(it->driven->system, pick);
    sim->stepping = false;
    tri_sim_trace_step_end(sim);
}

/* Runs the `pick`-th of the ready threads whose node is not paused. */
static void step_thread(tr_sim *sim, uint32_t pick)
{
    tri_link *it = sim->ready.head.next;
    tri_thread *thread = tri_container_of(it, tri_thread, queue);

    while (thread->node->paused || pick-- > 0) {
        it = it->next;
        TRI_CHECK(it != &sim->ready.head);
        thread = tri_container_of(it, tri_thread, queue);
    }
    tri_sim_note(sim, TRI_KIND_THREAD, thread->node->index, thread->id,
                 thread->name);
    tri_list_remove(&thread->queue);
    sim->touched = true;
    tri_sim_thread_enter(sim, thread);
}

/* Moves the clock by the time that a step takes. */
static void pay_step(tr_sim *sim)
{
    tr_nanos cost = 0;

    if (sim->step_cost > 0) {
        cost = (tr_nanos)tri_rand_below(tri_sim_rand(sim, TRI_STREAM_COST),
                                        (uint64_t)sim->step_cost * 2);
    }
    if (sim->still < STILL_MAX) {
        sim->still++;
    } else if (cost < STILL_COST) {
        cost = STILL_COST;
    }
    if (cost > 0) {
        uint32_t still = sim->still;
        set_clock(sim, sim->now + cost);
        // A clock that only STILL_COST moves counts as standing still.
        sim->still = sim->step_cost > 0 ? 0 : still;
    }
}

/* Moves the clock to what is due next, since nothing can go on now. */
static bool pass_time(tr_sim *sim, tr_nanos until)
{
    tr_nanos next = tri_sim_next_due(sim);

    if (next == TR_FOREVER || next > until) {
        if (until != TR_FOREVER && until > sim->now) {
            set_clock(sim, until);
        }
        return false;
    }
    set_clock(sim, next);
    sim->nothing_due = false;
    tri_sim_note(sim, TRI_KIND_TIME, TRI_SIM_NO_NODE, 0, "");
    fire_due(sim);
    pay_step(sim);
    return true;
}

static void call_after_step(tr_sim *sim)
{
    if (sim->after_step == NULL || sim->in_after_step) {
        return;
    }
    sim->in_after_step = true;
    sim->after_step(sim, sim->after_step_user);
    sim->in_after_step = false;
}

bool tri_sim_step(tr_sim *sim, tr_nanos until)
{
    TRI_CHECK(sim->running == NULL);
    TRI_CHECK(!sim->stepping);
    fire_due(sim);

    uint32_t actors = count_runnable_actors(sim);
    uint32_t total = actors + count_ready_threads(sim);
    bool went_on = true;
    if (total == 0) {
        went_on = pass_time(sim, until);
    } else {
        uint32_t pick = 0;
        if (total > 1) {
            pick = (uint32_t)tri_rand_below(
                tri_sim_rand(sim, TRI_STREAM_SCHEDULE), total);
        }
        if (pick < actors) {
            step_system(sim, pick);
        } else {
            step_thread(sim, pick - actors);
        }
        pay_step(sim);
    }
    call_after_step(sim);
    return went_on;
}
