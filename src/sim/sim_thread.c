/*
 * sim_thread.c - threads of a simulated world, and how they and main wait.
 *
 * A thread is a fiber that main switches to and that comes back when it waits
 * or ends. Main waits by running the world until it need not.
 *
 * Invariant: a thread is in `ready` exactly while READY, in `parked` exactly
 * while PARKED, in `buried_threads` exactly while BURIED, and in none while it
 * runs or is DONE. Its stack is given back when it is DONE; its handle lives
 * until it is joined, or as long as the world. A BURIED one keeps both until
 * the run is over, joined or not: it stands inside calls of systems that have
 * not died with it, and their answers are written to its stack.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/sim.h"

static void make_ready(tr_sim *sim, tri_thread *thread)
{
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

static void deadline_is_over(tr_sim *sim, tri_sim_event *event)
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

/* The entry of every fiber: one thread after another. */
void tri_sim_thread_loop(void *arg)
{
    tr_sim *sim = arg;

    for (;;) {
        run_function(sim);
        sim->running->state = TRI_THREAD_DONE;
        tri_fiber_switch(sim->running->fiber, &sim->main);
    }
}

/* Leaves the running thread; returns when it is switched to again. */
static void leave_thread(tr_sim *sim)
{
    tri_thread *thread = sim->running;

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
    sim->thread_count--;
    // Relaxed: the world is one thread.
    atomic_store_explicit(&thread->done, 1, memory_order_relaxed);
    tri_sim_wake_all(sim, &thread->done);
}

/* Lets a thread that is in no queue go on until it waits or ends. */
void tri_sim_thread_enter(tr_sim *sim, tri_thread *thread)
{
    TRI_CHECK(sim->running == NULL);
    TRI_CHECK(!sim->stepping);
    thread->state = TRI_THREAD_RUNNING;
    thread->begun = true;
    sim->running = thread;
    tri_sim_error_before(sim);
    tri_fiber_thread_init(&sim->main);
    tri_fiber_switch(&sim->main, thread->fiber);
    tri_fiber_thread_fini(&sim->main);
    tri_sim_error_after(sim, thread);
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
    thread->deadline.fn = deadline_is_over;
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
    if (thread->state != TRI_THREAD_BURIED) {
        thread_free(thread);  // a buried one is freed with the world: others
                              // still reach its stack
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
        tri_sim_thread_enter(sim, thread);  // it jumps out of what it was doing
    } else {
        thread->state = TRI_THREAD_DONE;
        thread_ended(sim, thread);
    }
}

static void bury_thread(tr_sim *sim, tri_thread *thread)
{
    TRI_CHECK(thread->state != TRI_THREAD_RUNNING);
    tri_list_remove(&thread->queue);
    tri_sim_event_cancel(sim, &thread->deadline);
    thread->word = NULL;
    thread->timed_out = false;
    thread->state = TRI_THREAD_BURIED;
    tri_list_push_back(&sim->buried_threads, &thread->queue);
    // Relaxed: the world is one thread.
    atomic_store_explicit(&thread->done, 1, memory_order_relaxed);
    tri_sim_wake_all(sim, &thread->done);
}

void tri_sim_bury_threads(tri_sim_node *node)
{
    tr_sim *sim = node->sim;
    tri_link *link = sim->threads.head.next;

    while (link != &sim->threads.head) {
        tri_thread *thread = tri_container_of(link, tri_thread, all);
        link = link->next;
        if (thread->node != node || thread->state == TRI_THREAD_DONE ||
            thread->state == TRI_THREAD_BURIED) {
            continue;
        }
        if (thread->is_library || thread->begun) {
            bury_thread(sim, thread);
        } else {
            kill_thread(sim, thread);  // nobody knows its stack yet
        }
    }
}

void tri_sim_exhume_threads(tr_sim *sim)
{
    tri_link *link = sim->buried_threads.head.next;

    while (link != &sim->buried_threads.head) {
        tri_thread *thread = tri_container_of(link, tri_thread, queue);
        link = link->next;
        if (!thread->is_library) {
            continue;  // the program's: it never goes on
        }
        tri_list_remove(&thread->queue);
        // Relaxed: the world is one thread.
        atomic_store_explicit(&thread->done, 0, memory_order_relaxed);
        make_ready(sim, thread);  // to it, an early wake
    }
}

void tri_sim_kill_threads(tri_sim_node *node)
{
    tr_sim *sim = node->sim;
    tri_link *link = sim->threads.head.next;

    while (link != &sim->threads.head) {
        tri_thread *thread = tri_container_of(link, tri_thread, all);
        link = link->next;
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
        // Somebody else may go first.
        make_ready(sim, thread);
        leave_thread(sim);
        return timeout > 0;
    }
    thread->state = TRI_THREAD_PARKED;
    thread->word = word;
    tri_list_push_back(&sim->parked, &thread->queue);
    if (timeout != TR_FOREVER) {
        tr_nanos due =
            tri_sim_when(node, tri_sim_later(tri_sim_local(node), timeout));
        tri_sim_event_arm(sim, &thread->deadline, due - sim->now);
    }
    leave_thread(sim);
    return !thread->timed_out;
}

/* Main waits: the world runs until it need not. */
static bool main_park(tr_sim *sim, tri_sim_node *node, _Atomic(uint32_t) *word,
                      uint32_t expected, tr_nanos timeout)
{
    tr_nanos due = TR_FOREVER;
    _Atomic(uint32_t) *outer = sim->main_word;

    if (timeout != TR_FOREVER) {
        due = tri_sim_when(node, tri_sim_later(tri_sim_local(node), timeout));
    }
    sim->main_word = word;
    sim->main_woken = false;
    bool more = true;
    while (more && is_word(word, expected) && !sim->main_woken) {
        // At `due`, what goes on at this instant still ends; but a program
        // that never rests must not hold us.
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
    // Whoever waits below us looks at its word again.
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

static uint32_t waiters_of(tr_sim *sim, const _Atomic(uint32_t) *word)
{
    uint32_t count = 0;

    for (tri_link *it = sim->parked.head.next; it != &sim->parked.head;
         it = it->next) {
        count += tri_container_of(it, tri_thread, queue)->word == word;
    }
    return count;
}

static tri_thread *waiter_at(tr_sim *sim, const _Atomic(uint32_t) *word,
                             uint64_t index)
{
    for (tri_link *it = sim->parked.head.next; it != &sim->parked.head;
         it = it->next) {
        tri_thread *thread = tri_container_of(it, tri_thread, queue);
        if (thread->word == word && index-- == 0) {
            return thread;
        }
    }
    tr_abort("sim", "no such waiter");
}

/* Whom a wake finds first is not promised, so the seed decides. */
void tri_sim_wake(tri_world *world, _Atomic(uint32_t) *word, uint32_t count)
{
    tr_sim *sim = tri_sim_of(world);
    uint32_t waiting = waiters_of(sim, word);

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
    tri_link *link = sim->threads.head.next;

    while (link != &sim->threads.head) {
        tri_thread *thread = tri_container_of(link, tri_thread, all);
        link = link->next;
        TRI_CHECK(thread->state == TRI_THREAD_DONE);
        thread_free(thread);
    }
}
