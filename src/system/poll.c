/*
 * poll.c - systems without threads of their own, run by the caller's.
 *
 * One thread drives such a system (api rule 34): the one that opened it, or
 * that called tr_poll last. When it waits for something, an answer or the end
 * of an actor, it drives meanwhile; other threads only wait.
 *
 * The descriptor of tr_poll_fd is the poller's own: readable after a wake,
 * when the next timer is due, or when a descriptor that some actor waits for
 * is ready. A driver that waits sleeps in the same poller.
 */
#include "system/io.h"
#include "system/layers.h"

static _Thread_local char this_thread;  // only its address counts

static bool is_polled(tr_system *sys)
{
    return sys->options.poll && sys->world->ops->has_threads;
}

static bool is_driver(tr_system *sys)
{
    // Relaxed: only a thread itself makes itself the driver.
    return is_polled(sys) &&
           atomic_load_explicit(&sys->driver, memory_order_relaxed) ==
               (uintptr_t)&this_thread;
}

void tri_poll_own(tr_system *sys)
{
    // Acquire and release: what the driver before us did is done.
    if (is_polled(sys)) {
        atomic_exchange_explicit(&sys->driver, (uintptr_t)&this_thread,
                                 memory_order_acq_rel);
    }
}

void tri_poll_ready(tr_system *sys)
{
    tri_io *io = tri_io_peek(sys);
    if (io != NULL && sys->options.poll) {
        sys->world->ops->poller_wake(io->poller);
    }
}

tr_err tri_poll_open(tr_system *sys)
{
    tri_io *io;
    if (!is_polled(sys)) {
        return TR_OK;
    }
    tri_poll_own(sys);
    return tri_io_need(sys, &io);  // now, so that no wake-up can be missed
}

int tr_poll_fd(tr_system *sys)
{
    if (!is_polled(sys)) {
        return -1;
    }
    tri_poll_ready(sys);  // whatever happened before somebody could see it
    return sys->world->ops->poller_fd(tri_io_peek(sys)->poller);
}

/* The next timer and what is left to run make the descriptor readable. */
static void rearm(tr_system *sys, tri_io *io)
{
    tr_nanos due = tri_worker_due(sys->driven_worker);
    sys->world->ops->poller_alarm(io->poller, due);
    if (tri_worker_runnable(sys->driven_worker) > 0) {
        sys->world->ops->poller_wake(io->poller);
    }
}

static bool run_for(tr_system *sys, tr_nanos budget)
{
    tri_worker *worker = sys->driven_worker;
    tr_nanos start = tri_clock(worker);
    bool did = false;
    for (;;) {
        tr_nanos now = tri_clock(worker);
        if (tri_worker_due(worker) <= now) {
            tri_worker_fire(worker, now);
            did = true;
        }
        if (tri_worker_runnable(worker) == 0 || now - start > budget) {
            return did;
        }
        tri_worker_step(worker, 0);
        did = true;
    }
}

bool tri_drive(tr_system *sys, tr_nanos budget)
{
    if (!is_driver(sys)) {
        return false;
    }
    // Acquire, release: two threads at a time is the program's error.
    TRI_CHECK(
        !atomic_exchange_explicit(&sys->driving, true, memory_order_acquire));
    tri_io *io = tri_io_peek(sys);
    tri_io_collect(io, 0);
    bool did = run_for(sys, budget);
    rearm(sys, io);
    atomic_store_explicit(&sys->driving, false, memory_order_release);
    return did;
}

void tri_drive_or_park(tr_system *sys, _Atomic(uint32_t) *word,
                       uint32_t expected, tr_nanos timeout)
{
    tri_world *world = sys->world;
    if (!is_driver(sys)) {
        world->ops->park(world, word, expected, timeout);
        return;
    }
    // Acquire: whoever writes the word afterwards wakes the poller.
    if (tri_drive(sys, TRI_QUANTUM) ||
        atomic_load_explicit(word, memory_order_acquire) != expected) {
        return;
    }
    tr_nanos due = tri_worker_due(sys->driven_worker);
    tr_nanos now = world->ops->mono(world);
    if (due != TR_FOREVER && due - now < timeout) {
        timeout = due > now ? due - now : 0;
    }
    tri_io_collect(tri_io_peek(sys), timeout);
}

tr_err tr_poll(tr_system *sys, tr_nanos budget)
{
    TRI_CHECK(tri_worker_current() == NULL);
    if (!sys->options.poll) {
        return TR_EINVAL;
    }
    tri_poll_own(sys);
    tri_top_levels_close(sys);
    tri_drive(sys, budget > 0 ? budget : TRI_QUANTUM);
    return TR_OK;
}
