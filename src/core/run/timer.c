/*
 * timer.c - arming and firing the timers of a worker.
 *
 * Invariant: a timer fires under the lock of the wheel that holds it. So a
 * thread that disarms a timer and finds it not armed knows that its message or
 * signal has been sent.
 */
#include "core/run/timer.h"

#include <stdatomic.h>

#include "base/check.h"
#include "base/lock.h"
#include "base/wheel.h"
#include "core/ask/wait.h"
#include "core/cell/cell.h"
#include "core/life/signal.h"
#include "core/run/user_timer.h"
#include "core/run/worker.h"
#include "core/system.h"

void tri_arm(tri_worker *worker, tri_timer *timer, tr_nanos due, uint32_t kind)
{
    TRI_CHECK(kind <= TRI_TIMER_USER);
    tri_lock_take(&worker->wheel_lock);
    tri_wheel_arm(&worker->wheel, timer, due, kind);
    // Relaxed: read by the worker, and by the world that drives it.
    if (due < atomic_load_explicit(&worker->wheel_next, memory_order_relaxed)) {
        atomic_store_explicit(&worker->wheel_next, due, memory_order_relaxed);
    }
    tri_lock_drop(&worker->wheel_lock);
}

void tri_disarm(tr_system *sys, uint16_t wheel, tri_timer *timer)
{
    // Acquire: the worker was published by tri_worker_new.
    tri_worker *worker =
        atomic_load_explicit(&sys->workers[wheel], memory_order_acquire);
    TRI_CHECK(worker != NULL);
    tri_lock_take(&worker->wheel_lock);
    tri_wheel_cancel(&worker->wheel, timer);
    tri_lock_drop(&worker->wheel_lock);
}

/* Fires a timer that is due. wheel_lock is held. */
static void fire_one(tri_worker *worker, tri_timer *timer)
{
    TRI_CHECK_SLOW(tri_lock_is_held(&worker->wheel_lock));
    switch (tri_timer_kind(timer)) {
    case TRI_TIMER_CELL: {
        tri_cell *cell = tri_container_of(timer, tri_cell, timer);
        // Relaxed: the owner disarms the timer before the id changes.
        uint64_t id = atomic_load_explicit(&cell->id, memory_order_relaxed);
        tri_signal(worker, cell, id, TRI_SIG_TIMER);
        break;
    }
    case TRI_TIMER_WAIT:
        tri_wait_timed_out(worker, tri_container_of(timer, tri_wait, timer));
        break;
    default:
        tri_count(&worker->count.timers);
        tri_user_timer_fire(worker,
                            tri_container_of(timer, tri_user_timer, timer));
        break;
    }
}

void tri_worker_fire(tri_worker *worker, tr_nanos now)
{
    tri_lock_take(&worker->wheel_lock);
    tri_timer *timer;
    while ((timer = tri_wheel_expire(&worker->wheel, now)) != NULL) {
        fire_one(worker, timer);
    }
    // Relaxed: as in tri_arm.
    atomic_store_explicit(&worker->wheel_next, tri_wheel_next(&worker->wheel),
                          memory_order_relaxed);
    tri_lock_drop(&worker->wheel_lock);
    tri_asks_fire(worker, now);
}

bool tri_disarm_was_armed(tr_system *sys, tri_wait *wait)
{
    // Acquire: the worker was published by tri_worker_new.
    tri_worker *worker =
        atomic_load_explicit(&sys->workers[wait->wheel], memory_order_acquire);
    TRI_CHECK(worker != NULL);
    tri_lock_take(&worker->wheel_lock);
    bool armed = tri_timer_is_armed(&wait->timer);
    tri_wheel_cancel(&worker->wheel, &wait->timer);
    tri_lock_drop(&worker->wheel_lock);
    return armed;
}
