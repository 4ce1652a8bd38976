/*
 * sim_thread.c - threads of a simulated world, and how they and main wait.
 *
 * A thread is a fiber that main switches to and that switches back when it
 * waits or ends. Main waits by running the world until its wait is over.
 *
 * Invariant: a thread is in `ready` exactly while READY, in `parked` exactly
 * while PARKED, in `frozen_threads` exactly while FROZEN, and in none while it
 * runs or is DONE. A DONE thread has given its stack back; its handle lives
 * until it is joined, or as long as the world. A FROZEN thread keeps stack and
 * handle until the run is over, joined or not: it is inside calls of systems
 * of other nodes, which write their answers to its stack.
 */
#include "sim/sim_thread.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/rand.h"
#include "sim/sim.h"
#include "sim/sim_error.h"
#include "sim/sim_fault.h"
#include "sim/sim_step.h"
#include "sim/sim_stream.h"

static void make_ready(tr_sim *sim, tri_thread *thread)
{
    TRI_CHECK(!tri_link_is_linked(&thread->queue));
    thread->state = TRI_THREAD_READY;
    tri_list_push_back(&sim->ready, &thread->queue);
}

static void unpark(tr_sim *sim, tri_thread *thread, bool timed_out)
{
    TRI_CHECK(thread->state == TRI_THREAD_PARKED);
    tri_list_remove(&thread->queue);
    tri_sim_event_cancel(sim, &thread->deadline);
    thread->word = NULL;
    thread->timed_out = timed_out;
    make_ready(sim, thread);
}

static void on_deadline(tr_sim *sim, tri_sim_event *event)
{
    unpark(sim, tri_container_of(event, tri_thread, deadline), true);
}

static void run_function(tr_sim *sim)
{
    tri_thread *thread = sim->running;

    // A killed thread jumps back to here, past whatever it was doing.
    if (!tri_jump_set(&thread->jump)) {
        thread->fn(thread->arg);
    }
}

void tri_sim_thread_loop(void *arg)
{
    tr_sim *sim = arg;

    for (;;) {
        run_function(sim);
        sim->running->state = TRI_THREAD_DONE;
        tri_fiber_switch(sim->running->fiber, &sim->main);
    }
}

/* Switches from the running thread to main; returns when it runs again. */
static void leave_thread(tr_sim *sim)
{
    tri_thread *thread = sim->running;

    TRI_CHECK(thread != NULL);
    tri_fiber_switch(thread->fiber, &sim->main);
    TRI_CHECK(sim->running == thread);
    if (thread->killed) {
        tri_jump_go(&thread->jump);
    }
}

void tri_sim_wake_all(tr_sim *sim, _Atomic(uint32_t) *word)
{
    tri_sim_wake(&sim->outside.world, word, UINT32_MAX);
}

static void thread_ended(tr_sim *sim, tri_thread *thread)
{
    if (thread->fiber != NULL) {
        tri_fiber_give(&sim->fibers, thread->fiber);
        thread->fiber = NULL;
    }
    TRI_CHECK(sim->thread_count > 0);
    sim->thread_count--;
    // Relaxed: the world is one thread.
    atomic_store_explicit(&thread->done, 1, memory_order_relaxed);
    tri_sim_wake_all(sim, &thread->done);
}

void tri_sim_thread_enter(tr_sim *sim, tri_thread *thread)
{
    TRI_CHECK(sim->running == NULL);
    TRI_CHECK(!sim->stepping);
    thread->state = TRI_THREAD_RUNNING;
    thread->begun = true;
    sim->running = thread;
    tri_sim_error_before_thread(sim);
    tri_fiber_thread_init(&sim->main);
    tri_fiber_switch(&sim->main, thread->fiber);
    tri_fiber_thread_fini(&sim->main);
    tri_sim_error_after_thread(sim, thread);
    sim->running = NULL;
    TRI_CHECK(thread->state != TRI_THREAD_RUNNING);
    if (thread->state == TRI_THREAD_DONE) {
        thread_ended(sim, thread);
    }
}

tr_err tri_sim_thread_start(tri_world *world, tri_thread **out,
                            const char *name, void (*fn)(void *arg), void *arg)
{
    tri_sim_node *node = tri_sim_node_of(world);
    tr_sim *sim = node->sim;

    TRI_CHECK(out != NULL);
    TRI_CHECK(fn != NULL);
    *out = NULL;
    if (sim->thread_count == TRI_SIM_THREADS_MAX) {
        return TR_ELIMIT;
    }
    tri_thread *thread = calloc(1, sizeof(*thread));
    if (thread == NULL) {
        return TR_ENOMEM;
    }
    thread->fiber = tri_fiber_take(&sim->fibers);
    if (thread->fiber == NULL) {
        free(thread);
        return TR_ENOMEM;
    }
    thread->node = node;
    thread->id = sim->thread_next++;
    thread->deadline.fn = on_deadline;
    thread->fn = fn;
    thread->arg = arg;
    strncpy(thread->name, name, sizeof(thread->name) - 1);
    thread->is_library = strncmp(name, "tr-", 3) == 0;
    sim->thread_count++;
    tri_list_push_back(&sim->threads, &thread->all);
    make_ready(sim, thread);
    *out = thread;
    return TR_OK;
}

static bool is_done(tri_thread *thread)
{
    // Relaxed: the world is one thread.
    return atomic_load_explicit(&thread->done, memory_order_relaxed) != 0;
}

static void thread_free(tri_thread *thread)
{
    tri_list_remove(&thread->all);
    free(thread);
}

void tri_sim_thread_join(tri_world *world, tri_thread *thread)
{
    while (!is_done(thread)) {
        (void)tri_sim_park(world, &thread->done, 0, TR_FOREVER);
    }
    if (thread->state != TRI_THREAD_FROZEN) {
        thread_free(thread);  // a frozen one is freed with the world
    }
}

static void kill_thread(tr_sim *sim, tri_thread *thread)
{
    TRI_CHECK(thread->state != TRI_THREAD_RUNNING);
    tri_list_remove(&thread->queue);
    tri_sim_event_cancel(sim, &thread->deadline);
    thread->word = NULL;
    thread->killed = true;
    if (thread->begun) {
        tri_sim_thread_enter(sim, thread);  // leave_thread jumps to its end
    } else {
        thread->state = TRI_THREAD_DONE;
        thread_ended(sim, thread);
    }
}

static void freeze_thread(tr_sim *sim, tri_thread *thread)
{
    TRI_CHECK(thread->state != TRI_THREAD_RUNNING);
    tri_list_remove(&thread->queue);
    tri_sim_event_cancel(sim, &thread->deadline);
    thread->word = NULL;
    thread->timed_out = false;
    thread->state = TRI_THREAD_FROZEN;
    tri_list_push_back(&sim->frozen_threads, &thread->queue);
    // Relaxed: the world is one thread.
    atomic_store_explicit(&thread->done, 1, memory_order_relaxed);
    tri_sim_wake_all(sim, &thread->done);
}

void tri_sim_threads_freeze(tri_sim_node *node)
{
    tr_sim *sim = node->sim;

    TRI_LIST_EACH_SAFE (link, &sim->threads) {
        tri_thread *thread = tri_container_of(link, tri_thread, all);
        if (thread->node != node || thread->state == TRI_THREAD_DONE ||
            thread->state == TRI_THREAD_FROZEN) {
            continue;
        }
        if (thread->is_library || thread->begun) {
            freeze_thread(sim, thread);
        } else {
            kill_thread(sim, thread);  // nothing points to its stack yet
        }
    }
}

void tri_sim_threads_unfreeze(tr_sim *sim)
{
    TRI_LIST_EACH_SAFE (link, &sim->frozen_threads) {
        tri_thread *thread = tri_container_of(link, tri_thread, queue);
        if (!thread->is_library) {
            continue;
        }
        tri_list_remove(&thread->queue);
        // Relaxed: the world is one thread.
        atomic_store_explicit(&thread->done, 0, memory_order_relaxed);
        make_ready(sim, thread);  // its park returns as if woken early
    }
}

void tri_sim_threads_kill(tri_sim_node *node)
{
    tr_sim *sim = node->sim;

    TRI_LIST_EACH_SAFE (link, &sim->threads) {
        tri_thread *thread = tri_container_of(link, tri_thread, all);
        if (thread->node == node && thread->state != TRI_THREAD_DONE) {
            kill_thread(sim, thread);
        }
    }
}

/* ---- waiting ---- */

static void fail_deadlock(tr_sim *sim, const char *what)
{
    char line[TRI_SIM_LINE_MAX];

    snprintf(line, sizeof(line),
             "%s, and nothing can happen any more (seed %" PRIu64
             ", step %" PRIu64 ", %u systems, %u threads)",
             what, sim->seed, sim->steps, sim->system_count, sim->thread_count);
    tr_abort("sim", line);
}

static bool is_word(const _Atomic(uint32_t) *word, uint32_t expected)
{
    // Acquire: as in the real world; here it costs nothing.
    return atomic_load_explicit(word, memory_order_acquire) == expected;
}

static bool thread_park(tr_sim *sim, tri_sim_node *node,
                        _Atomic(uint32_t) *word, tr_nanos timeout)
{
    tri_thread *thread = sim->running;

    if (timeout <= 0 ||
        tri_sim_strikes(sim, TRI_FAULT_early_wake, node->index)) {
        // Not parked, but another thread or actor may run first.
        make_ready(sim, thread);
        leave_thread(sim);
        return timeout > 0;
    }
    thread->state = TRI_THREAD_PARKED;
    thread->word = word;
    tri_list_push_back(&sim->parked, &thread->queue);
    if (timeout != TR_FOREVER) {
        tr_nanos due = tri_sim_node_when(
            node, tri_sim_later(tri_sim_node_time(node), timeout));
        tri_sim_event_arm(sim, &thread->deadline, due - sim->now);
    }
    leave_thread(sim);
    return !thread->timed_out;
}

/* Runs the world until main's wait is over. */
static bool main_park(tr_sim *sim, tri_sim_node *node, _Atomic(uint32_t) *word,
                      uint32_t expected, tr_nanos timeout)
{
    tr_nanos due = TR_FOREVER;
    _Atomic(uint32_t) *outer = sim->main_word;

    if (timeout != TR_FOREVER) {
        due = tri_sim_node_when(
            node, tri_sim_later(tri_sim_node_time(node), timeout));
    }
    sim->main_word = word;
    sim->main_woken = false;
    bool more = true;
    while (more && is_word(word, expected) && !sim->main_woken) {
        // At `due`, everything that can go on at this instant still runs. A
        // program that never rests moves the clock past `due`: sim_step.c.
        more = sim->now < due || (sim->now == due && tri_sim_is_busy(sim));
        if (more) {
            more = tri_sim_step(sim, due);
        }
    }
    bool woken = sim->main_woken || !is_word(word, expected);
    if (!woken && due == TR_FOREVER) {
        fail_deadlock(sim, "main waits for ever");
    }
    sim->main_word = outer;
    // An outer wait on this stack must look at its word again.
    sim->main_woken = outer != NULL;
    return woken;
}

bool tri_sim_park(tri_world *world, _Atomic(uint32_t) *word, uint32_t expected,
                  tr_nanos timeout)
{
    tri_sim_node *node = tri_sim_node_of(world);
    tr_sim *sim = node->sim;

    if (!is_word(word, expected)) {
        return true;
    }
    if (sim->running != NULL) {
        return thread_park(sim, node, word, timeout);
    }
    if (sim->stepping) {
        tr_abort("sim", "a handler blocks the thread that runs the world");
    }
    return main_park(sim, node, word, expected, timeout);
}

static uint32_t count_waiters(tr_sim *sim, const _Atomic(uint32_t) *word)
{
    uint32_t count = 0;

    TRI_LIST_EACH (link, &sim->parked) {
        count += tri_container_of(link, tri_thread, queue)->word == word;
    }
    return count;
}

static tri_thread *waiter_at(tr_sim *sim, const _Atomic(uint32_t) *word,
                             uint64_t index)
{
    TRI_LIST_EACH (link, &sim->parked) {
        tri_thread *thread = tri_container_of(link, tri_thread, queue);
        if (thread->word == word && index-- == 0) {
            return thread;
        }
    }
    tr_abort("sim", "no such waiter");
}

/* No order of waiters is promised, so the seed decides whom it wakes. */
void tri_sim_wake(tri_world *world, _Atomic(uint32_t) *word, uint32_t count)
{
    tr_sim *sim = tri_sim_of(world);
    uint32_t waiting = count_waiters(sim, word);

    while (waiting > 0 && count > 0) {
        uint64_t index = 0;
        if (waiting > count) {
            index =
                tri_rand_below(tri_sim_rand(sim, TRI_STREAM_SCHEDULE), waiting);
        }
        unpark(sim, waiter_at(sim, word, index), false);
        waiting--;
        count--;
    }
    if (sim->main_word == word && count > 0) {
        sim->main_woken = true;
    }
}

void tri_sim_yield(tri_world *world)
{
    tr_sim *sim = tri_sim_of(world);

    if (sim->running != NULL) {
        make_ready(sim, sim->running);
        leave_thread(sim);
    } else if (!sim->stepping && tri_sim_is_busy(sim)) {
        (void)tri_sim_step(sim, sim->now);
    }
}

bool tri_sim_sleep(tr_sim *sim, tr_nanos span)
{
    tri_thread *thread = sim->running;

    if (thread == NULL) {
        return false;
    }
    tr_nanos until = tri_sim_later(sim->now, span);
    do {
        (void)tri_sim_park(&sim->outside.world, &thread->sleep, 0,
                           until - sim->now);
    } while (sim->now < until);
    return true;
}

void tri_sim_threads_free(tr_sim *sim)
{
    TRI_LIST_EACH_SAFE (link, &sim->threads) {
        tri_thread *thread = tri_container_of(link, tri_thread, all);
        TRI_CHECK(thread->state == TRI_THREAD_DONE);
        thread_free(thread);
    }
}
