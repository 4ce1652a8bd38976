/*
 * poll.c - systems without threads of their own, run by the caller's.
 *
 * One thread drives such a system: the one that opened it, or that called
 * tr_poll or tr_system_close last. When the driver waits for something, an
 * answer or the end of an actor, it runs the system meanwhile; other threads
 * only wait.
 *
 * The descriptor of tr_poll_fd is the poller's own. It is readable after a
 * wake, when the next timer is due, and when a descriptor is ready that an
 * actor waits for. A driver that waits sleeps in the same poller.
 */
#include "system/poll.h"

#include <stdatomic.h>
#include <stddef.h>

#include "base/check.h"
#include "base/world.h"
#include "core/run/clock.h"
#include "core/run/scheduler.h"
#include "core/run/timer.h"
#include "core/run/worker.h"
#include "core/system.h"
#include "core/types.h"
#include "system/io.h"
#include "system/top_level.h"
#include "troupe/system.h"

static _Thread_local char this_thread;  // its address identifies the thread

static bool is_polled(tr_system *sys)
{
    return sys->options.poll && sys->world->ops->has_threads;
}

static bool is_driver(tr_system *sys)
{
    // Relaxed: only a thread itself becomes the driver, so it reads its own
    // store or another thread's.
    return is_polled(sys) &&
           atomic_load_explicit(&sys->driver, memory_order_relaxed) ==
               (uintptr_t)&this_thread;
}

void tri_poll_own(tr_system *sys)
{
    // Acquire and release: the new driver sees what the one before it did.
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
    return tri_io_need(sys, &io);  // now, so that no wake-up is missed
}

int tr_poll_fd(tr_system *sys)
{
    TRI_CHECK(sys->magic == TRI_SYSTEM_MAGIC);
    if (!is_polled(sys)) {
        return -1;
    }
    tri_poll_ready(sys);  // for what happened before the caller had it
    return sys->world->ops->poller_fd(tri_io_peek(sys)->poller);
}

/* Makes the descriptor readable at the next timer, or now if cells can run. */
static void rearm(tr_system *sys, tri_io *io)
{
    TRI_CHECK(io != NULL);
    tr_nanos due = tri_worker_due(sys->driven_worker);
    sys->world->ops->poller_alarm(io->poller, due);
    if (tri_worker_runnable(sys->driven_worker) > 0) {
        sys->world->ops->poller_wake(io->poller);
    }
}

/* Runs timers and cells until none is left or the budget is used up. */
static bool run_for(tr_system *sys, tr_nanos budget)
{
    TRI_CHECK(sys->driven_worker != NULL);
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
    // Acquire, release: pair with each other. Two threads that drive at the
    // same time are the program's error.
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
    TRI_CHECK(word != NULL);
    tri_world *world = sys->world;
    if (!is_driver(sys)) {
        world->ops->park(world, word, expected, timeout);
        return;
    }
    // Acquire: pairs with the store of the word; a later store wakes the
    // poller.
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
    TRI_CHECK(sys->magic == TRI_SYSTEM_MAGIC);
    TRI_CHECK(tri_worker_current() == NULL);
    if (!sys->options.poll) {
        return TR_EINVAL;
    }
    tri_poll_own(sys);
    tri_top_levels_close(sys);
    tri_drive(sys, budget > 0 ? budget : TRI_QUANTUM);
    return TR_OK;
}
