/*
 * wait.c - the waits of an actor: their list, their time-outs, their replies.
 *
 * Each wait has a correlation number that is unique in its actor. A reply is
 * for the wait with its number; if that wait has ended, the reply is late.
 *
 * Invariant: the reply or the time-out, whichever comes first, ends the wait;
 * the other finds it done or gone.
 */
#include "core/ask/wait.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/fiber.h"
#include "base/list.h"
#include "core/cell/cell.h"
#include "core/cell/ext.h"
#include "core/cell/message.h"
#include "core/life/signal.h"
#include "core/mail/mailbox.h"
#include "core/mail/push.h"
#include "core/mail/send.h"
#include "core/run/context.h"
#include "core/run/park.h"
#include "core/run/timer.h"
#include "core/run/worker.h"
#include "core/system.h"
#include "core/up.h"

void tri_wait_link(tri_cell *cell, tri_wait *wait)
{
    TRI_CHECK_SLOW(tri_ext_of(cell) != NULL);
    tri_list_push_front(&tri_ext_of(cell)->waits.list, &wait->link);
}

void tri_wait_unlink(tri_wait *wait)
{
    tri_list_remove(&wait->link);
}

/*
 * Appends an ask to worker->asks, which is sorted by deadline. Most asks have
 * the system's time-out, stay on one worker and are answered long before it:
 * the list costs less than the timer wheel and its lock.
 */
static void asks_append(tri_worker *worker, tri_wait *wait, tr_nanos deadline)
{
    TRI_CHECK_SLOW(wait->kind == TRI_WAIT_REPLY);
    wait->ask.deadline = deadline;
    tri_list_push_back(&worker->asks, &wait->ask.link);
}

/* Returns the wait of a link in worker->asks; NULL for NULL. */
static tri_wait *asks_wait(tri_link *link)
{
    return tri_list_item(link, tri_wait, ask.link);
}

tr_nanos tri_asks_due(const tri_worker *worker)
{
    const tri_wait *first = asks_wait(tri_list_first(&worker->asks));
    return first != NULL ? first->ask.deadline : TR_FOREVER;
}

void tri_asks_fire(tri_worker *worker, tr_nanos now)
{
    while (tri_asks_due(worker) <= now) {
        tri_wait *wait = asks_wait(tri_list_pop_front(&worker->asks));
        tri_wait_timed_out(worker, wait);
    }
}

/* tri_wait_arm, for the fast path of tri_wait_begin. */
static inline void wait_arm(tr_ctx *ctx, tri_wait *wait, tr_nanos deadline)
{
    tri_worker *worker = ctx->worker;
    TRI_CHECK_SLOW(wait->timer.due == 0);
    wait->wheel = (uint16_t)worker->index;
    if (deadline == TR_FOREVER) {
        return;
    }
    const tri_wait *last = asks_wait(tri_list_last(&worker->asks));
    if (wait->kind == TRI_WAIT_REPLY &&
        (last == NULL || last->ask.deadline <= deadline)) {
        asks_append(worker, wait, deadline);
    } else {
        tri_arm(worker, &wait->timer, deadline, TRI_TIMER_WAIT);
    }
}

void tri_wait_arm(tr_ctx *ctx, tri_wait *wait, tr_nanos deadline)
{
    wait_arm(ctx, wait, deadline);
}

void tri_wait_timed_out(tri_worker *worker, tri_wait *wait)
{
    tri_cell *cell = wait->cell;
    TRI_CHECK(cell != NULL);
    if (tri_wait_is_detached(wait)) {
        // Any worker may run its actor: wake it by mail.
        wait->item.kind = TRI_ITEM_WAKE;
        bool taken = tri_push_system(worker, cell, &wait->item);
        TRI_CHECK(taken);  // the actor lives: tri_then_drop_all disarms
        return;
    }
    // The turn is parked, and only this worker resumes it.
    if (wait->cancel != NULL && !wait->done && !wait->cancel(wait)) {
        return;  // its wake-up is on its way
    }
    if (!wait->done) {
        wait->done = true;
        wait->err = wait->kind == TRI_WAIT_SLEEP ? TR_OK : TR_ETIMEDOUT;
    }
    if (wait->ctx != NULL && wait->ctx->parked) {
        wait->ctx->ready = true;
    }
    // Relaxed: the turn keeps the actor alive.
    uint64_t id = atomic_load_explicit(&cell->id, memory_order_relaxed);
    tri_signal(worker, cell, id, TRI_SIG_WAKE);
}

tr_err tri_wait_begin(tr_ctx *ctx, tri_wait *wait, tr_nanos deadline)
{
    tri_ext *ext = tri_ext_of(ctx->cell);
    TRI_CHECK_SLOW(ctx->magic == TRI_CTX_MAGIC);
    TRI_CHECK_SLOW(wait->kind >= TRI_WAIT_REPLY &&
                   wait->kind <= TRI_WAIT_OUTSIDE);
    if (ext == NULL && (ext = tri_ext_need(ctx->worker, ctx->cell)) == NULL) {
        return TR_ENOMEM;
    }
    if (wait->kind != TRI_WAIT_FUTURE) {
        // Reserved now: once the request is sent, the turn must be able to
        // park.
        wait->fiber = tri_fiber_take(&ctx->worker->fibers);
        if (wait->fiber == NULL) {
            return TR_ELIMIT;
        }
    }
    wait->cell = ctx->cell;
    wait->correlation = ++ext->waits.correlation;
    tri_list_push_front(&ext->waits.list, &wait->link);
    wait_arm(ctx, wait, deadline);
    return TR_OK;
}

void tri_wait_finish(tr_ctx *ctx, tri_wait *wait)
{
    if (wait->fiber != NULL) {  // the turn has not parked
        tri_fiber_give(&ctx->worker->fibers, wait->fiber);
        wait->fiber = NULL;
    }
    if (tri_link_is_linked(&wait->ask.link)) {
        TRI_CHECK(wait->wheel == ctx->worker->index);
        tri_list_remove(&wait->ask.link);
    } else if (wait->timer.due != 0) {
        tri_disarm(ctx->sys, wait->wheel, &wait->timer);
    }
    tri_wait_unlink(wait);
}

bool tri_wait_give_reply(tri_worker *worker, tri_cell *cell, tr_msg *reply)
{
    TRI_CHECK_SLOW(reply->item.kind == TRI_ITEM_REPLY);
    // Relaxed: we own the cell.
    uint64_t id = atomic_load_explicit(&cell->id, memory_order_relaxed);
    tri_wait *wait = reply->to_id == id
                         ? tri_wait_find(cell, tri_msg_ask(reply)->correlation)
                         : NULL;
    if (wait == NULL || wait->done) {
        return false;
    }
    wait->reply = reply;
    tri_wait_done(worker, cell, wait, TR_OK);
    return true;
}

void tri_reply_arrived(tri_worker *worker, tri_cell *cell, tr_msg *reply)
{
    if (TRI_LIKELY(tri_wait_give_reply(worker, cell, reply))) {
        return;
    }
    const tri_virtual_ops *ops = tri_virtual_ops_of(worker->sys);
    if (ops == NULL || !ops->reply(worker, cell, reply)) {
        tri_dead(worker,
                 (tr_ref){tri_cell_ref(worker->sys, cell).cell, reply->to_id},
                 reply, TR_DEAD_LATE);
    }
}

void tri_wait_woken(tr_ctx *ctx, tri_wait *wait)
{
    TRI_CHECK(wait->item.kind == TRI_ITEM_WAKE);
    if (!tri_wait_is_detached(wait)) {
        tri_wait_done(ctx->worker, ctx->cell, wait, wait->err);
    } else if (wait->orphan) {
        tri_wait_unlink(wait);
        free(wait);
    } else {
        // The callback runs behind the messages that are queued.
        wait->then.woken = true;
        wait->item.next = NULL;
        tri_detach(ctx->cell);
        tri_queue_append(ctx->cell, &wait->item);
        // Relaxed: for observers.
        atomic_fetch_add_explicit(&ctx->cell->queued, 1, memory_order_relaxed);
    }
}
