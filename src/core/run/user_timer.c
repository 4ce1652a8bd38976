/*
 * user_timer.c - tr_after, tr_every, tr_receive_timeout, tr_sleep.
 *
 * A timer owns one message for its whole life; firing pushes that message and
 * needs no memory. A periodic timer that is due while its message is still in
 * the mailbox fires once more as soon as the message has been handled. If
 * other mail is handled while the message of a receive timeout is in the
 * mailbox, that message is not handled: the timer is armed again instead.
 *
 * Invariant: a timer is in the wheel of the worker that armed it (`wheel`),
 * also when the actor runs elsewhere; in_flight and once_more are written
 * under the lock of that wheel. So a thread that disarms a timer under the
 * lock knows whether its message is in the mailbox.
 */
#include "core/run/user_timer.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/wheel.h"
#include "core/ask/wait.h"
#include "core/cell/cell.h"
#include "core/cell/ext.h"
#include "core/cell/mem.h"
#include "core/cell/message.h"
#include "core/life/failure.h"
#include "core/mail/push.h"
#include "core/run/clock.h"
#include "core/run/context.h"
#include "core/run/park.h"
#include "core/run/timer.h"
#include "core/run/waiting.h"
#include "core/run/worker.h"
#include "core/system.h"

/* Returns the time after a span from now; TR_FOREVER stays TR_FOREVER. */
static tr_nanos time_after(tri_worker *worker, tr_nanos span)
{
    tr_nanos now = tri_clock(worker);
    return span >= TR_FOREVER - now ? TR_FOREVER : now + span;
}

/* Returns the worker whose wheel holds the timer. */
static tri_worker *wheel_worker(tri_worker *worker, const tri_user_timer *timer)
{
    // Acquire: the worker was published by tri_worker_new.
    return atomic_load_explicit(&worker->sys->workers[timer->wheel],
                                memory_order_acquire);
}

/* Returns the timer that owns the message. */
static tri_user_timer *timer_of(tr_msg *msg)
{
    TRI_CHECK_SLOW(msg->item.flags & TRI_MSG_TIMER);  // the callers look at it
    return (tri_user_timer *)(uintptr_t)msg->sender.cell;
}

/* Frees a timer that is in no wheel, no list and no mailbox. */
static void timer_free(tri_worker *worker, tri_user_timer *timer)
{
    TRI_CHECK(!tri_link_is_linked(&timer->link));
    timer->msg->item.flags &= (uint8_t)~TRI_MSG_TIMER;
    tri_msg_free(&worker->cache, timer->msg);
    free(timer);
}

void tri_user_timer_fire(tri_worker *worker, tri_user_timer *timer)
{
    TRI_CHECK_SLOW(tri_lock_is_held(&worker->wheel_lock));
    TRI_CHECK(!timer->cancelled);
    if (timer->every > 0 && timer->every != TR_FOREVER) {
        tr_nanos due = tri_timer_due(&timer->timer) + timer->every;
        if (due <= worker->now) {  // more than a period late: skip some
            due = worker->now + timer->every;
        }
        tri_wheel_arm(&worker->wheel, &timer->timer, due, TRI_TIMER_USER);
    }
    if (timer->in_flight) {
        timer->once_more = true;
        return;
    }
    timer->in_flight = true;
    if (tri_push(worker, timer->cell, timer->cell_id, timer->msg) != TR_OK) {
        timer->in_flight = false;  // the actor ends and cancels it soon
    }
}

/* Makes and arms a timer; NULL without memory. */
static tri_user_timer *timer_try(tr_ctx *ctx, tr_nanos span, tr_nanos every,
                                 const tr_type *type, const void *payload)
{
    tri_worker *worker = ctx->worker;
    TRI_CHECK(ctx->magic == TRI_CTX_MAGIC);
    tri_ext *ext = tri_ext_need(worker, ctx->cell);
    tri_user_timer *timer = tri_mem_calloc(&ctx->sys->mem, sizeof(*timer));
    tr_msg *msg = timer != NULL && ext != NULL
                      ? tri_msg_new(&worker->cache, type, payload, false)
                      : NULL;
    if (msg == NULL) {
        free(timer);
        return NULL;
    }
    msg->item.flags |= TRI_MSG_TIMER;
    msg->sender = (tr_ref){(uint64_t)(uintptr_t)timer, 0};
    timer->msg = msg;
    timer->cell = ctx->cell;
    // Relaxed: the worker owns the cell.
    timer->cell_id = atomic_load_explicit(&ctx->cell->id, memory_order_relaxed);
    timer->id = ++ext->timers.last_id;
    timer->every = every;
    timer->wheel = (uint16_t)worker->index;
    tri_list_push_front(&ext->timers.list, &timer->link);
    tri_arm(worker, &timer->timer, time_after(worker, span), TRI_TIMER_USER);
    return timer;
}

/* As timer_try, but panics without memory or type. `call`: for the text. */
static tri_user_timer *timer_new(tr_ctx *ctx, const char *call, tr_nanos span,
                                 tr_nanos every, const tr_type *type,
                                 const void *payload)
{
    if (type == NULL) {
        tri_misuse(ctx, call, "the type is NULL");
    }
    tri_user_timer *timer = timer_try(ctx, span, every, type, payload);
    if (timer == NULL) {
        (tr_panic)(ctx, type->name, "out of memory for a timer");
    }
    return timer;
}

tr_timer tri_after_try(tr_ctx *ctx, tr_nanos span, const tr_type *type,
                       const void *payload)
{
    tri_user_timer *timer = timer_try(ctx, span, 0, type, payload);
    return (tr_timer){timer != NULL ? timer->id : 0};
}

bool tri_alarm_new(tr_ctx *ctx, const tr_type *type, const void *payload)
{
    return timer_try(ctx, TR_FOREVER, TR_FOREVER, type, payload) != NULL;
}

void tri_alarm_set(tr_ctx *ctx, tr_nanos span)
{
    tri_user_timer *timer = NULL;
    TRI_LIST_EACH_ITEM (t, &tri_ext_of(ctx->cell)->timers.list, tri_user_timer,
                        link) {
        timer = t->every == TR_FOREVER ? t : timer;
    }
    TRI_CHECK(timer != NULL);
    tri_disarm(ctx->sys, timer->wheel, &timer->timer);
    timer->wheel = (uint16_t)ctx->worker->index;
    if (span != TR_FOREVER) {
        tri_arm(ctx->worker, &timer->timer, time_after(ctx->worker, span),
                TRI_TIMER_USER);
    }
}

tr_timer(tr_after)(tr_ctx *ctx, tr_nanos span, const tr_type *type,
                   const void *payload)
{
    if (span < 0) {
        tri_misuse(ctx, "tr_after", "a negative span of time");
    }
    return (tr_timer){timer_new(ctx, "tr_after", span, 0, type, payload)->id};
}

tr_timer(tr_every)(tr_ctx *ctx, tr_nanos span, const tr_type *type,
                   const void *payload)
{
    if (span <= 0) {
        tri_misuse(ctx, "tr_every", "the span must be above 0");
    }
    return (tr_timer){
        timer_new(ctx, "tr_every", span, span, type, payload)->id};
}

/* Cancels a timer; frees it now, or when its message leaves the mailbox. */
static void timer_end(tri_worker *worker, tri_cell *cell, tri_user_timer *timer)
{
    tri_ext *ext = tri_ext_of(cell);
    tri_worker *holder = wheel_worker(worker, timer);
    tri_cell_assert_owned(cell);
    tri_lock_take(&holder->wheel_lock);
    tri_wheel_cancel(&holder->wheel, &timer->timer);
    bool in_flight = timer->in_flight;
    timer->cancelled = true;
    tri_lock_drop(&holder->wheel_lock);
    tri_list_remove(&timer->link);
    if (ext->timers.receive_timeout == timer) {
        ext->timers.receive_timeout = NULL;
    }
    if (!in_flight) {
        timer_free(worker, timer);
    }
}

void tr_cancel(tr_ctx *ctx, tr_timer handle)
{
    TRI_CHECK(ctx->magic == TRI_CTX_MAGIC);
    tri_ext *ext = tri_ext_of(ctx->cell);
    if (ext == NULL) {
        return;
    }
    TRI_LIST_EACH_ITEM (t, &ext->timers.list, tri_user_timer, link) {
        if (t->id == handle.id) {
            timer_end(ctx->worker, ctx->cell, t);
            return;
        }
    }
}

void tri_timers_cancel_all(tri_worker *worker, tri_cell *cell)
{
    tri_ext *ext = tri_ext_of(cell);
    TRI_CHECK(ext != NULL);
    tri_cell_assert_owned(cell);
    tri_link *link;
    while ((link = tri_list_first(&ext->timers.list)) != NULL) {
        timer_end(worker, cell, tri_list_item(link, tri_user_timer, link));
    }
    ext->timers.receive_span = 0;
    cell->attention &= (uint16_t)~TRI_ATTENTION_TIMEOUT;
}

/*
 * Arms a receive timeout, which is in no wheel and not in flight, in the wheel
 * of the worker that runs the actor now: another worker may be asleep.
 */
static void receive_arm(tri_worker *worker, tri_user_timer *timer)
{
    TRI_CHECK(!timer->in_flight && !tri_timer_is_armed(&timer->timer));
    timer->wheel = (uint16_t)worker->index;
    tri_arm(worker, &timer->timer,
            time_after(worker, tri_ext_of(timer->cell)->timers.receive_span),
            TRI_TIMER_USER);
}

/*
 * Notes that the message has left the mailbox and may be pushed again. Returns
 * true if the timer was due meanwhile.
 */
static bool message_returned(tri_worker *worker, tri_user_timer *timer)
{
    tri_worker *holder = wheel_worker(worker, timer);
    tri_lock_take(&holder->wheel_lock);
    TRI_CHECK(timer->in_flight);
    timer->in_flight = false;
    bool again = timer->once_more;
    timer->once_more = false;
    tri_lock_drop(&holder->wheel_lock);
    return again;
}

static bool is_receive_timeout(const tri_user_timer *timer)
{
    return tri_ext_of(timer->cell)->timers.receive_timeout == timer;
}

bool tri_user_timer_arrived(tri_worker *worker, tr_msg *msg)
{
    tri_user_timer *timer = timer_of(msg);
    TRI_CHECK(timer->in_flight && timer->msg == msg);
    if (timer->cancelled) {
        timer_free(worker, timer);
        return false;
    }
    if (is_receive_timeout(timer) && timer->once_more) {
        (void)message_returned(worker, timer);  // other mail was handled
        receive_arm(worker, timer);
        return false;
    }
    return true;
}

void tri_user_timer_handled(tri_worker *worker, tr_msg *msg)
{
    tri_user_timer *timer = timer_of(msg);
    if (timer->cancelled) {
        timer_free(worker, timer);
        return;
    }
    if (is_receive_timeout(timer)) {
        (void)message_returned(worker, timer);
        receive_arm(worker, timer);  // the silence is counted from now on
        return;
    }
    tri_cell *cell = timer->cell;
    tri_worker *holder = wheel_worker(worker, timer);
    tri_lock_take(&holder->wheel_lock);
    bool again = timer->once_more;
    timer->once_more = false;
    // Pushed under the lock, or firing could push the message twice.
    timer->in_flight =
        again && tri_push(worker, cell, timer->cell_id, msg) == TR_OK;
    tri_lock_drop(&holder->wheel_lock);
    if (timer->every == 0) {
        tri_list_remove(&timer->link);
        timer_free(worker, timer);
    }
}

void tr_receive_timeout(tr_ctx *ctx, tr_nanos span)
{
    TRI_CHECK(ctx->magic == TRI_CTX_MAGIC);
    if (span < 0) {
        tri_misuse(ctx, "tr_receive_timeout", "a negative span of time");
    }
    tri_ext *ext = tri_ext_of(ctx->cell);
    if (ext != NULL && ext->timers.receive_timeout != NULL) {
        timer_end(ctx->worker, ctx->cell, ext->timers.receive_timeout);
        ext->timers.receive_span = 0;
    }
    ctx->cell->attention &= (uint16_t)~TRI_ATTENTION_TIMEOUT;
    if (span == 0) {
        return;
    }
    tr_timeout nothing = {};
    tri_user_timer *timer = timer_new(ctx, "tr_receive_timeout", span, 0,
                                      &tr_timeout_tr_type, &nothing);
    ext = tri_ext_of(ctx->cell);
    ext->timers.receive_timeout = timer;
    ext->timers.receive_span = span;
    ctx->cell->attention |= TRI_ATTENTION_TIMEOUT;
}

void tri_receive_timeout_restart(tr_ctx *ctx, tr_msg *msg)
{
    tri_worker *worker = ctx->worker;
    TRI_CHECK(tri_ext_of(ctx->cell) != NULL);
    tri_user_timer *timer = tri_ext_of(ctx->cell)->timers.receive_timeout;
    if (timer == NULL ||
        ((msg->item.flags & TRI_MSG_TIMER) && timer_of(msg) == timer)) {
        return;
    }
    tri_worker *holder = wheel_worker(worker, timer);
    tri_lock_take(&holder->wheel_lock);
    tri_wheel_cancel(&holder->wheel, &timer->timer);
    bool in_flight = timer->in_flight;
    timer->once_more = in_flight;
    tri_lock_drop(&holder->wheel_lock);
    if (!in_flight) {
        receive_arm(worker, timer);
    }
}

tr_err(tr_sleep)(tr_ctx *ctx, tr_nanos span)
{
    TRI_CHECK(ctx->magic == TRI_CTX_MAGIC);
    if (span < 0) {
        return TR_EINVAL;
    }
    if (!tri_can_park(ctx)) {
        return TR_EWOULDBLOCK;
    }
    tri_wait wait = {
        .kind = TRI_WAIT_SLEEP, .call = "tr_sleep", .site = tri_site_take(ctx)};
    TR_TRY(tri_wait_begin(ctx, &wait, time_after(ctx->worker, span)));
    tr_err err = tri_park(ctx, &wait);
    tri_wait_finish(ctx, &wait);
    return err;
}
