/*
 * timer.h - arming and firing the timers of a worker.
 *
 * Threads: tri_arm and tri_worker_fire: the thread of the worker, or the
 * holder of outside_lock if it is sys->outside. The others: any.
 */
#ifndef TRI_CORE_RUN_TIMER_H
#define TRI_CORE_RUN_TIMER_H

#include "base/wheel.h"
#include "core/types.h"

/* Fires all timers and asks of the worker that are due. */
void tri_worker_fire(tri_worker *worker, tr_nanos now);

/* Arms a timer in the worker's wheel; the caller notes the worker's index. */
void tri_arm(tri_worker *worker, tri_timer *timer, tr_nanos due, uint32_t kind);

/* Disarms a timer, armed or not, of the worker with the index `wheel`. */
void tri_disarm(tr_system *sys, uint16_t wheel, tri_timer *timer);

/* Disarms the timer of a wait; returns false if it was not armed. */
bool tri_disarm_was_armed(tr_system *sys, tri_wait *wait);

/* Kinds of timers: the struct in which the tri_timer is embedded. */
enum {
    TRI_TIMER_CELL,  // tri_cell.timer
    TRI_TIMER_WAIT,  // tri_wait.timer
    TRI_TIMER_USER,  // tri_user_timer.timer
};

#endif
