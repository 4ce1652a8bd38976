/*
 * user_timer.h - the timers of an actor: tr_after, tr_every,
 * tr_receive_timeout.
 *
 * Threads: the worker that owns the cell; tri_user_timer_fire: the worker
 * whose wheel holds the timer.
 */
#ifndef TRI_CORE_RUN_USER_TIMER_H
#define TRI_CORE_RUN_USER_TIMER_H

#include "base/list.h"
#include "base/wheel.h"
#include "core/types.h"

/* A timer of tr_after, tr_every, tr_receive_timeout. Owns its message. */
typedef struct tri_user_timer {
    tri_link link;  // in tri_timers.list; first, which makes walking it cheap
    tri_timer timer;
    tri_cell *cell;  // of the actor
    uint64_t cell_id;
    uint64_t id;     // tr_timer.id
    tr_nanos every;  // the period; 0: once; TR_FOREVER: an alarm
    tr_msg *msg;     // TRI_MSG_TIMER; its sender.cell points back here
    uint16_t wheel;  // index of the worker whose wheel holds `timer`
    bool in_flight;  // msg is in the mailbox
    bool cancelled;  // freed when msg leaves the mailbox
    bool once_more;  // was due while in flight
} tri_user_timer;

/* Restarts the receive timeout, because msg is handled now. */
void tri_receive_timeout_restart(tr_ctx *ctx, tr_msg *msg);

/* Cancels all timers of the actor, which has an extension. */
void tri_timers_cancel_all(tri_worker *worker, tri_cell *cell);

/* As tr_after, but returns {0} without memory instead of a panic. */
tr_timer tri_after_try(tr_ctx *ctx, tr_nanos span, const tr_type *type,
                       const void *payload);

/*
 * Makes the alarm of the running actor: a timer that tri_alarm_set sets again
 * and again, without memory. An actor has one at most. False: no memory.
 */
bool tri_alarm_new(tr_ctx *ctx, const tr_type *type, const void *payload);

/* Lets the alarm fire once, after the span; TR_FOREVER: not at all. */
void tri_alarm_set(tr_ctx *ctx, tr_nanos span);

/* Pushes the timer's message. wheel_lock is held. */
void tri_user_timer_fire(tri_worker *worker, tri_user_timer *timer);

/*
 * Called when a timer's message leaves the mailbox. Returns false if it must
 * not be handled: the timer is cancelled or armed again.
 */
bool tri_user_timer_arrived(tri_worker *worker, tr_msg *msg);

/* Called when the handler of a timer's message has returned. Takes msg. */
void tri_user_timer_handled(tri_worker *worker, tr_msg *msg);

#endif
