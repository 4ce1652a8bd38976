/*
 * park.c - a turn that waits leaves its stack, and what makes it go on.
 *
 * A worker's loop runs on a fiber. A turn that must wait parks that fiber as
 * it stands, loop and all, and the worker goes on with a spare one; the first
 * thing the spare one does is to look after the cell whose turn has parked
 * (tri_after), because that may only be given up when its stack has been left.
 * Who ends a wait only marks its turn as ready; attention.c finds the turn,
 * and the loop (turn.c) switches back to it.
 *
 * While turns are parked the cell stays with its worker (`home`): compilers
 * keep the addresses of thread-locals across a wait.
 */
#include "core/private.h"
#include "core/turn.h"

/* ---- leaving ---- */

/* Gives back the fiber that has just switched to this one. */
static void after_resume(tri_worker *worker)
{
    TRI_CHECK(worker->after == TRI_AFTER_GIVE);
    worker->after = TRI_AFTER_NONE;
    tri_fiber_give(&worker->fibers, worker->after_fiber);
}

/*
 * Leaves this stack; returns when somebody resumes ctx. Part of its callers:
 * each return behind a switch is one that the processor cannot foresee.
 */
static inline __attribute__((always_inline)) void leave(tr_ctx *ctx,
                                                        tri_fiber *next,
                                                        tri_after after)
{
    tri_worker *worker = ctx->worker;
    tri_fiber *self = worker->current;

    ctx->fiber = self;
    tri_parked_append(ctx);
    worker->after = after;
    worker->after_cell = ctx->cell;
    worker->current = next;
    tri_fiber_switch(self, next);
    after_resume(worker);
    // Release: observers look at the cell.
    atomic_store_explicit(&worker->running, ctx->cell, memory_order_release);
    if (ctx->msg != NULL && (ctx->flags & TRI_CTX_MSG_GONE) == 0) {
        // Relaxed: for observers.
        atomic_store_explicit(&worker->handling, ctx->msg->node.type,
                              memory_order_relaxed);
    }
}

tr_err tri_park(tr_ctx *ctx, tri_wait *wait)
{
    tri_worker *worker = ctx->worker;
    TRI_CHECK(tri_can_park(ctx));
    if (ctx->cancel != TR_OK || wait->done) {
        if (wait->fiber != NULL) {
            tri_fiber_give(&worker->fibers, wait->fiber);
            wait->fiber = NULL;
        }
        return ctx->cancel != TR_OK ? ctx->cancel : wait->err;
    }
    tri_fiber *next =
        wait->fiber != NULL ? wait->fiber : tri_fiber_take(&worker->fibers);
    wait->fiber = NULL;
    if (next == NULL) {
        return TR_ELIMIT;
    }
    ctx->wait = wait;
    ctx->ready = false;
    wait->ctx = ctx;
    tri_count(&worker->count.parked_turns);
    leave(ctx, next, TRI_AFTER_CONTINUE);
    // Relaxed: as in tri_count; turns go on where they have parked.
    atomic_store_explicit(&worker->count.parked_turns,
                          atomic_load_explicit(&worker->count.parked_turns,
                                               memory_order_relaxed) -
                              1,
                          memory_order_relaxed);
    ctx->wait = NULL;
    wait->ctx = NULL;
    return ctx->cancel != TR_OK ? ctx->cancel : wait->err;
}

static bool others_wait(tri_worker *worker)
{
    // Relaxed, both: hints.
    return worker->hand != NULL || tri_worker_waiting(worker) != 0 ||
           atomic_load_explicit(&worker->inbox, memory_order_relaxed) != NULL ||
           atomic_load_explicit(&worker->group->length, memory_order_relaxed) !=
               0;
}

void tri_yield(tr_ctx *ctx)
{
    tri_worker *worker = ctx->worker;
    worker->sends_left = TRI_BATCH_SENDS;
    if (!tri_can_park(ctx) || ctx->kind == TRI_TURN_HOOK ||
        ctx->cancel != TR_OK || !others_wait(worker) ||
        tri_ext_need(worker, ctx->cell) == NULL) {
        return;
    }
    tri_fiber *next = tri_fiber_take(&worker->fibers);
    if (next == NULL) {
        return;
    }
    ctx->ready = true;
    leave(ctx, next, TRI_AFTER_REQUEUE);
    worker->sends_left = TRI_BATCH_SENDS;
}

/* ---- the end of a wait ---- */

void tri_wait_done(tri_worker *worker, tri_cell *cell, tri_wait *wait,
                   tr_err err)
{
    (void)worker;
    if (!wait->done) {
        wait->done = true;
        wait->err = err;
    }
    if (wait->ctx != NULL && wait->ctx->parked) {
        wait->ctx->ready = true;
        cell->slow |= TRI_SLOW_PARKED;
    }
}

void tri_cut_waits(tri_worker *worker, tri_cell *cell, uint32_t which,
                   tr_err err)
{
    (void)worker;
    tri_ext *ext = tri_ext_of(cell);
    for (tr_ctx *c = ext != NULL ? ext->parked : NULL; c != NULL; c = c->next) {
        uint32_t bit = c->kind == TRI_TURN_RUN    ? TRI_CUT_RUN
                       : c->kind == TRI_TURN_HOOK ? TRI_CUT_HOOKS
                                                  : TRI_CUT_MESSAGES;
        if ((which & bit) == 0) {
            continue;
        }
        if (c->cancel == TR_OK) {
            c->cancel = err;
        }
        // A wait somebody else holds is left to him: he wakes it soon.
        if (!c->ready && (c->wait == NULL || c->wait->cancel == NULL ||
                          c->wait->cancel(c->wait))) {
            c->ready = true;
        }
    }
}

uint32_t tri_parked_count(tri_cell *cell, uint32_t which)
{
    tri_ext *ext = tri_ext_of(cell);
    uint32_t count = 0;
    for (tr_ctx *c = ext != NULL ? ext->parked : NULL; c != NULL; c = c->next) {
        uint32_t bit = c->kind == TRI_TURN_RUN    ? TRI_CUT_RUN
                       : c->kind == TRI_TURN_HOOK ? TRI_CUT_HOOKS
                                                  : TRI_CUT_MESSAGES;
        count += (which & bit) != 0;
    }
    return count;
}
