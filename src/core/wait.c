/*
 * wait.c - what an actor waits for: the list, the time limits, the reply.
 *
 * Each wait of an incarnation has a number and is in its cell's list from its
 * beginning to its end. A reply is for the wait that has its number; if there
 * is none any more, it came too late. What comes first, the reply or the end
 * of the time, ends the wait; the other finds it done or gone.
 */
#include <stdlib.h>

#include "core/ask.h"

void tri_wait_link(tri_cell *cell, tri_wait *wait)
{
    tri_ext *ext = tri_ext_of(cell);
    wait->prev = NULL;
    wait->next = ext->waits;
    if (ext->waits != NULL) {
        ext->waits->prev = wait;
    }
    ext->waits = wait;
}

void tri_wait_unlink(tri_cell *cell, tri_wait *wait)
{
    tri_ext *ext = tri_ext_of(cell);
    if (wait->prev != NULL) {
        wait->prev->next = wait->next;
    } else {
        ext->waits = wait->next;
    }
    if (wait->next != NULL) {
        wait->next->prev = wait->prev;
    }
}

/*
 * Most asks have the system's time limit, begin and end on one worker and are
 * answered long before: in the order of their deadlines a list will do, and
 * the wheel and its lock are left alone.
 */
static void asks_append(tri_worker *worker, tri_wait *wait, tr_nanos deadline)
{
    wait->deadline = deadline;
    wait->listed = true;
    wait->blocked_next = NULL;
    wait->blocked_prev = worker->asks_last;
    if (worker->asks_last != NULL) {
        worker->asks_last->blocked_next = wait;
    } else {
        worker->asks = wait;
    }
    worker->asks_last = wait;
}

static void asks_remove(tri_worker *worker, tri_wait *wait)
{
    wait->listed = false;
    if (wait->blocked_prev != NULL) {
        wait->blocked_prev->blocked_next = wait->blocked_next;
    } else {
        worker->asks = wait->blocked_next;
    }
    if (wait->blocked_next != NULL) {
        wait->blocked_next->blocked_prev = wait->blocked_prev;
    } else {
        worker->asks_last = wait->blocked_prev;
    }
}

void tri_asks_fire(tri_worker *worker, tr_nanos now)
{
    while (worker->asks != NULL && worker->asks->deadline <= now) {
        tri_wait *wait = worker->asks;
        asks_remove(worker, wait);
        tri_wait_timed_out(worker, wait);
    }
}

void tri_wait_arm(tr_ctx *ctx, tri_wait *wait, tr_nanos deadline)
{
    tri_worker *worker = ctx->worker;
    wait->wheel = (uint16_t)worker->index;
    if (deadline == TR_FOREVER) {
        return;
    }
    if (wait->kind == TRI_WAIT_REPLY &&
        (worker->asks_last == NULL ||
         worker->asks_last->deadline <= deadline)) {
        asks_append(worker, wait, deadline);
    } else {
        tri_arm(worker, &wait->timer, deadline, TRI_TIMER_WAIT);
    }
}

/* On the worker that armed it; of the wheel: under its lock. */
void tri_wait_timed_out(tri_worker *worker, tri_wait *wait)
{
    tri_cell *cell = wait->cell;
    if (tri_wait_is_detached(wait)) {
        // Its actor may be anywhere: tell it by mail.
        wait->node.kind = TRI_NODE_WAKE;
        bool taken = tri_push_system(worker, cell, &wait->node);
        TRI_CHECK(taken);  // tri_waits_drop disarms first
        return;
    }
    // The turn is bound to this worker and not running.
    if (wait->cancel != NULL && !wait->done && !wait->cancel(wait)) {
        return;  // what it waits for has just come
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
    if (ext == NULL && (ext = tri_ext_need(ctx->worker, ctx->cell)) == NULL) {
        return TR_ENOMEM;
    }
    if (wait->kind != TRI_WAIT_FUTURE) {
        // Now: once somebody knows of the wait it must be able to park.
        wait->fiber = tri_fiber_take(&ctx->worker->fibers);
        if (wait->fiber == NULL) {
            return TR_ELIMIT;
        }
    }
    wait->cell = ctx->cell;
    wait->correlation = ++ext->correlation;
    tri_wait_link(ctx->cell, wait);
    tri_wait_arm(ctx, wait, deadline);
    return TR_OK;
}

void tri_wait_finish(tr_ctx *ctx, tri_wait *wait)
{
    if (wait->fiber != NULL) {  // it did not come to parking
        tri_fiber_give(&ctx->worker->fibers, wait->fiber);
        wait->fiber = NULL;
    }
    if (wait->listed) {
        TRI_CHECK(wait->wheel == ctx->worker->index);
        asks_remove(ctx->worker, wait);
    } else if (wait->timer.due != 0) {  // else it was never armed
        tri_disarm(ctx->sys, wait->wheel, &wait->timer);
    }
    tri_wait_unlink(ctx->cell, wait);
}

bool tri_reply_awaited(tri_worker *worker, tri_cell *cell, tr_msg *reply)
{
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
    if (TRI_LIKELY(tri_reply_awaited(worker, cell, reply))) {
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
    if (!tri_wait_is_detached(wait)) {
        tri_wait_done(ctx->worker, ctx->cell, wait, wait->err);
    } else if (wait->orphan) {
        tri_wait_unlink(ctx->cell, wait);
        free(wait);
    } else {
        // User code waits for its turn, behind the mail that is there.
        wait->woken = true;
        wait->node.next = NULL;
        tri_detach(ctx->cell);
        tri_node **end = &ctx->cell->queue;
        while (*end != NULL) {
            end = &(*end)->next;
        }
        *end = &wait->node;
        // Relaxed: for observers.
        atomic_fetch_add_explicit(&ctx->cell->queued, 1, memory_order_relaxed);
    }
}
