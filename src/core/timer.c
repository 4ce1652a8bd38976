/*
 * timer.c - tr_after, tr_every, tr_receive_timeout, tr_sleep.
 *
 * A user timer owns one message for its whole life; firing pushes that
 * message and never allocates. A periodic timer that is due again while its
 * message is still queued fires once more as soon as it has been handled. A
 * receive timeout whose message is queued when other mail is handled is not
 * handed over but armed again when it comes out.
 *
 * The wheel of the worker that armed a timer holds it, also when the actor
 * has moved on; firing happens under that wheel's lock, so whoever disarms
 * under the lock knows whether the message is in the mailbox.
 */
#include <stdlib.h>
#include <string.h>

#include "core/lifecycle.h"
#include "core/mailbox.h"

bool tri_disarm_was_armed(tr_system *sys, tri_wait *wait)
{
    // Acquire: the worker was published by tri_worker_new.
    tri_worker *worker =
        atomic_load_explicit(&sys->workers[wait->wheel], memory_order_acquire);
    tri_lock_take(&worker->wheel_lock);
    bool armed = tri_timer_is_armed(&wait->timer);
    tri_wheel_cancel(&worker->wheel, &wait->timer);
    tri_lock_drop(&worker->wheel_lock);
    return armed;
}

/* The end of a span from now; never is never. */
static tr_nanos after(tri_worker *worker, tr_nanos span)
{
    tr_nanos now = tri_clock(worker);
    return span >= TR_FOREVER - now ? TR_FOREVER : now + span;
}

static tri_user_timer *timer_of(tr_msg *msg)
{
    return (tri_user_timer *)(uintptr_t)msg->sender.cell;
}

static void timer_unlink(tri_ext *ext, tri_user_timer *timer)
{
    if (timer->prev != NULL) {
        timer->prev->next = timer->next;
    } else {
        ext->timers = timer->next;
    }
    if (timer->next != NULL) {
        timer->next->prev = timer->prev;
    }
}

static void timer_free(tri_worker *worker, tri_user_timer *timer)
{
    timer->msg->node.flags &= (uint8_t)~TRI_MSG_TIMER;
    tri_msg_free(&worker->cache, timer->msg);
    free(timer);
}

/* Under the wheel's lock. */
void tri_user_timer_fire(tri_worker *worker, tri_user_timer *timer)
{
    if (timer->every > 0 && timer->every != TR_FOREVER) {
        tr_nanos due = tri_timer_due(&timer->timer) + timer->every;
        if (due <= worker->now) {  // far behind: do not run after it
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
        timer->in_flight = false;  // stopping: cancelled soon
    }
}

/* NULL: no memory. */
static tri_user_timer *timer_try(tr_ctx *ctx, tr_nanos span, tr_nanos every,
                                 const tr_type *type, const void *payload)
{
    tri_worker *worker = ctx->worker;
    tri_ext *ext = tri_ext_need(worker, ctx->cell);
    tri_user_timer *timer = tri_mem_calloc(&ctx->sys->mem, sizeof(*timer));
    tr_msg *msg = timer != NULL && ext != NULL
                      ? tri_msg_new(&worker->cache, type, payload, false)
                      : NULL;
    if (msg == NULL) {
        free(timer);
        return NULL;
    }
    msg->node.flags |= TRI_MSG_TIMER;
    msg->sender = (tr_ref){(uint64_t)(uintptr_t)timer, 0};
    timer->msg = msg;
    timer->cell = ctx->cell;
    // Relaxed: we own the cell.
    timer->cell_id = atomic_load_explicit(&ctx->cell->id, memory_order_relaxed);
    timer->id = ++ext->timer_id;
    timer->every = every;
    timer->wheel = (uint16_t)worker->index;
    timer->next = ext->timers;
    if (ext->timers != NULL) {
        ext->timers->prev = timer;
    }
    ext->timers = timer;
    tri_arm(worker, &timer->timer, after(worker, span), TRI_TIMER_USER);
    return timer;
}

static tri_user_timer *timer_new(tr_ctx *ctx, tr_nanos span, tr_nanos every,
                                 const tr_type *type, const void *payload)
{
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

bool tri_bell_try(tr_ctx *ctx, const tr_type *type, const void *payload)
{
    return timer_try(ctx, TR_FOREVER, TR_FOREVER, type, payload) != NULL;
}

void tri_bell_set(tr_ctx *ctx, tr_nanos span)
{
    tri_user_timer *timer = tri_ext_of(ctx->cell)->timers;
    while (timer->every != TR_FOREVER) {
        timer = timer->next;
    }
    // Acquire: the worker was published by tri_worker_new.
    tri_worker *holder = atomic_load_explicit(&ctx->sys->workers[timer->wheel],
                                              memory_order_acquire);
    tri_lock_take(&holder->wheel_lock);
    tri_wheel_cancel(&holder->wheel, &timer->timer);
    tri_lock_drop(&holder->wheel_lock);
    timer->wheel = (uint16_t)ctx->worker->index;
    if (span != TR_FOREVER) {
        tri_arm(ctx->worker, &timer->timer, after(ctx->worker, span),
                TRI_TIMER_USER);
    }
}

static void check_span(tr_ctx *ctx, tr_nanos span)
{
    if (span < 0) {
        (tr_panic)(ctx, "timer", "a negative span of time");
    }
}

tr_timer(tr_after)(tr_ctx *ctx, tr_nanos span, const tr_type *type,
                   const void *payload)
{
    check_span(ctx, span);
    return (tr_timer){timer_new(ctx, span, 0, type, payload)->id};
}

tr_timer(tr_every)(tr_ctx *ctx, tr_nanos span, const tr_type *type,
                   const void *payload)
{
    check_span(ctx, span - 1);
    return (tr_timer){timer_new(ctx, span, span, type, payload)->id};
}

/* Ends a timer: at once, or when its message comes out. */
static void timer_end(tri_worker *worker, tri_cell *cell, tri_user_timer *timer)
{
    tri_ext *ext = tri_ext_of(cell);
    // Acquire: the worker was published by tri_worker_new.
    tri_worker *holder = atomic_load_explicit(
        &worker->sys->workers[timer->wheel], memory_order_acquire);
    tri_lock_take(&holder->wheel_lock);
    tri_wheel_cancel(&holder->wheel, &timer->timer);
    bool in_flight = timer->in_flight;
    timer->cancelled = true;
    tri_lock_drop(&holder->wheel_lock);
    timer_unlink(ext, timer);
    if (ext->receive_timeout == timer) {
        ext->receive_timeout = NULL;
    }
    if (!in_flight) {
        timer_free(worker, timer);
    }
}

void tr_cancel(tr_ctx *ctx, tr_timer handle)
{
    tri_ext *ext = tri_ext_of(ctx->cell);
    for (tri_user_timer *t = ext != NULL ? ext->timers : NULL; t != NULL;
         t = t->next) {
        if (t->id == handle.id) {
            timer_end(ctx->worker, ctx->cell, t);
            return;
        }
    }
}

void tri_timers_cancel_all(tri_worker *worker, tri_cell *cell)
{
    tri_ext *ext = tri_ext_of(cell);
    while (ext->timers != NULL) {
        timer_end(worker, cell, ext->timers);
    }
    ext->receive_span = 0;
    cell->slow &= (uint8_t)~TRI_SLOW_TIMEOUT;
}

static tri_worker *holder_of(tri_worker *worker, const tri_user_timer *timer)
{
    // Acquire: the worker was published by tri_worker_new.
    return atomic_load_explicit(&worker->sys->workers[timer->wheel],
                                memory_order_acquire);
}

/*
 * Arms the receive timeout, which is in no wheel and not in flight, in the
 * wheel of the worker that runs the actor now: another one may be asleep.
 */
static void receive_arm(tri_worker *worker, tri_user_timer *timer)
{
    timer->wheel = (uint16_t)worker->index;
    tri_arm(worker, &timer->timer,
            after(worker, tri_ext_of(timer->cell)->receive_span),
            TRI_TIMER_USER);
}

/* The message has come out of the mailbox: it may be pushed again. */
static bool landed(tri_worker *worker, tri_user_timer *timer)
{
    tri_worker *holder = holder_of(worker, timer);
    tri_lock_take(&holder->wheel_lock);
    timer->in_flight = false;
    bool again = timer->once_more;
    timer->once_more = false;
    tri_lock_drop(&holder->wheel_lock);
    return again;
}

static bool is_receive_timeout(const tri_user_timer *timer)
{
    return tri_ext_of(timer->cell)->receive_timeout == timer;
}

bool tri_user_timer_arrived(tri_worker *worker, tr_msg *msg)
{
    tri_user_timer *timer = timer_of(msg);
    if (timer->cancelled) {
        timer_free(worker, timer);
        return false;
    }
    if (is_receive_timeout(timer) && timer->once_more) {
        (void)landed(worker, timer);  // other mail came first
        receive_arm(worker, timer);
        return false;
    }
    return true;
}

/* The handler is done with the message. */
void tri_user_timer_handled(tri_worker *worker, tr_msg *msg)
{
    tri_user_timer *timer = timer_of(msg);
    if (timer->cancelled) {
        timer_free(worker, timer);
        return;
    }
    if (is_receive_timeout(timer)) {
        (void)landed(worker, timer);
        receive_arm(worker, timer);  // still silence: from now on
        return;
    }
    tri_cell *cell = timer->cell;
    tri_worker *holder = holder_of(worker, timer);
    tri_lock_take(&holder->wheel_lock);
    bool again = timer->once_more;
    timer->once_more = false;
    // In flight again under the lock, or a firing would push it twice.
    timer->in_flight =
        again && tri_push(worker, cell, timer->cell_id, msg) == TR_OK;
    tri_lock_drop(&holder->wheel_lock);
    if (timer->every == 0) {
        timer_unlink(tri_ext_of(cell), timer);
        timer_free(worker, timer);
    }
}

void tr_receive_timeout(tr_ctx *ctx, tr_nanos span)
{
    tri_ext *ext = tri_ext_of(ctx->cell);
    if (ext != NULL && ext->receive_timeout != NULL) {
        timer_end(ctx->worker, ctx->cell, ext->receive_timeout);
        ext->receive_span = 0;
    }
    ctx->cell->slow &= (uint8_t)~TRI_SLOW_TIMEOUT;
    if (span <= 0) {
        return;
    }
    tr_timeout nothing = {};
    tri_user_timer *timer =
        timer_new(ctx, span, 0, &tr_timeout_tr_type, &nothing);
    ext = tri_ext_of(ctx->cell);
    ext->receive_timeout = timer;
    ext->receive_span = span;
    ctx->cell->slow |= TRI_SLOW_TIMEOUT;
}

void tri_receive_timeout_touch(tr_ctx *ctx, tr_msg *msg)
{
    tri_worker *worker = ctx->worker;
    tri_user_timer *timer = tri_ext_of(ctx->cell)->receive_timeout;
    if (timer == NULL ||
        ((msg->node.flags & TRI_MSG_TIMER) && timer_of(msg) == timer)) {
        return;
    }
    tri_worker *holder = holder_of(worker, timer);
    tri_lock_take(&holder->wheel_lock);
    tri_wheel_cancel(&holder->wheel, &timer->timer);
    bool in_flight = timer->in_flight;
    timer->once_more = in_flight;
    tri_lock_drop(&holder->wheel_lock);
    if (!in_flight) {
        receive_arm(worker, timer);
    }
}

tr_err tr_sleep(tr_ctx *ctx, tr_nanos span)
{
    if (span < 0) {
        return TR_EINVAL;
    }
    if (!tri_can_park(ctx)) {
        return TR_EWOULDBLOCK;
    }
    tri_wait wait = {.kind = TRI_WAIT_SLEEP, .site = "tr_sleep"};
    TR_TRY(tri_wait_begin(ctx, &wait, after(ctx->worker, span)));
    tr_err err = tri_park(ctx, &wait);
    tri_wait_finish(ctx, &wait);
    return err;
}
