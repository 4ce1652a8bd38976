/*
 * park.c - parking a turn that waits, and making it ready again.
 *
 * The loop of a worker runs on a fiber. A turn that waits leaves that fiber as
 * it is, with the loop on it, and the worker switches to a spare fiber. That
 * fiber first deals with the cell whose turn has parked (tri_switch), because
 * a cell may be released only when its stack is not in use any more. The end
 * of a wait only marks its turn as ready; attention.c finds the turn and the
 * loop (turn.c) switches back to it.
 *
 * While turns are parked, only this worker may run the cell (`home`), because
 * compilers keep the addresses of thread-local variables across a wait.
 *
 * Invariant: a turn is in ext->parked exactly while its stack is left.
 */
#include "core/run/park.h"

#include <stdatomic.h>

#include "base/check.h"
#include "base/fiber.h"
#include "core/ask/wait.h"
#include "core/cell/cell.h"
#include "core/cell/ext.h"
#include "core/run/clock.h"
#include "core/run/context.h"
#include "core/run/steal.h"
#include "core/run/waiting.h"
#include "core/run/worker.h"

/*
 * The exceptions that a C++ program handles on this thread: inside a catch
 * block there is one. The layout is that of the C++ ABI.
 */
typedef struct cxx_exceptions {
    void *caught;
    unsigned int uncaught;
} cxx_exceptions;

/* Of the C++ library; NULL in a program without it. */
extern cxx_exceptions *__cxa_get_globals(void) __attribute__((weak));

/* Takes the exceptions of the turn from the thread, which then has none. */
static inline cxx_exceptions exceptions_take(void)
{
    cxx_exceptions taken = {NULL, 0};
    if (__cxa_get_globals != NULL) {
        cxx_exceptions *now = __cxa_get_globals();
        taken = *now;
        *now = (cxx_exceptions){NULL, 0};
    }
    return taken;
}

static inline void exceptions_restore(cxx_exceptions taken)
{
    if (__cxa_get_globals != NULL) {
        *__cxa_get_globals() = taken;
    }
}

/* Gives back the fiber that has just switched to this one. */
static void give_back_fiber(tri_worker *worker)
{
    TRI_CHECK(worker->last_switch == TRI_SWITCH_RESUMED);
    worker->last_switch = TRI_SWITCH_NONE;
    tri_fiber_give(&worker->fibers, worker->switch_fiber);
}

/*
 * Leaves this stack for the fiber `next`; returns when the turn is resumed.
 * Inlined, because the CPU mispredicts each return after a switch.
 */
static inline __attribute__((always_inline)) void leave(tr_ctx *ctx,
                                                        tri_fiber *next,
                                                        tri_switch why)
{
    tri_worker *worker = ctx->worker;
    tri_fiber *self = worker->current;
    tri_ext *ext = tri_ext_of(ctx->cell);
    // Relaxed: for observers; the turn's own, restored when it goes on.
    const tr_type *handling =
        atomic_load_explicit(&worker->handling, memory_order_relaxed);

    ctx->fiber = self;
    tri_parked_append(ctx, ext);
    if (why == TRI_SWITCH_PARKED) {
        tri_waiting_begin(ext, ctx);
    }
    worker->last_switch = why;
    worker->switch_cell = ctx->cell;
    worker->current = next;
    cxx_exceptions exceptions = exceptions_take();
    tri_fiber_switch(self, next);
    exceptions_restore(exceptions);
    give_back_fiber(worker);
    // Release: the monitor reads the cell.
    atomic_store_explicit(&worker->running, ctx->cell, memory_order_release);
    atomic_store_explicit(&worker->handling, handling, memory_order_relaxed);
}

tr_err tri_park(tr_ctx *ctx, tri_wait *wait)
{
    tri_worker *worker = ctx->worker;
    TRI_CHECK(tri_can_park(ctx));
    TRI_CHECK_SLOW(!ctx->parked && wait->ctx == NULL);
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
    if (wait->since == 0) {
        wait->since = tri_clock_coarse(worker);
    }
    // Relaxed: for observers.
    wait->handling =
        atomic_load_explicit(&worker->handling, memory_order_relaxed);
    tri_count(&worker->count.parked_turns);
    leave(ctx, next, TRI_SWITCH_PARKED);
    tri_waiting_end(tri_ext_of(ctx->cell));
    // Relaxed: as in tri_count; a turn continues on the worker it parked on.
    atomic_store_explicit(&worker->count.parked_turns,
                          atomic_load_explicit(&worker->count.parked_turns,
                                               memory_order_relaxed) -
                              1,
                          memory_order_relaxed);
    ctx->wait = NULL;
    wait->ctx = NULL;
    return ctx->cancel != TR_OK ? ctx->cancel : wait->err;
}

/* True if a yield would let another cell run. */
static bool others_wait(tri_worker *worker)
{
    TRI_CHECK(worker->pool != NULL);
    // Relaxed, both: hints.
    return worker->handoff != NULL || tri_worker_waiting(worker) != 0 ||
           atomic_load_explicit(&worker->inbox, memory_order_relaxed) != NULL ||
           atomic_load_explicit(&worker->pool->length, memory_order_relaxed) !=
               0;
}

void tri_yield(tr_ctx *ctx)
{
    tri_worker *worker = ctx->worker;
    TRI_CHECK(ctx->magic == TRI_CTX_MAGIC);
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
    leave(ctx, next, TRI_SWITCH_YIELDED);
    worker->sends_left = TRI_BATCH_SENDS;
}

void tri_wait_done(tri_worker *worker, tri_cell *cell, tri_wait *wait,
                   tr_err err)
{
    (void)worker;
    TRI_CHECK_SLOW(tri_cell_is_owned(cell));
    if (!wait->done) {
        wait->done = true;
        wait->err = err;
    }
    if (wait->ctx != NULL && wait->ctx->parked) {
        wait->ctx->ready = true;
        cell->attention |= TRI_ATTENTION_PARKED;
    }
}

/* Returns TRI_PARKED_* of a parked turn. */
static uint32_t parked_kind(const tr_ctx *ctx)
{
    return ctx->kind == TRI_TURN_ON_RUN ? TRI_PARKED_RUN
           : ctx->kind == TRI_TURN_HOOK ? TRI_PARKED_HOOKS
                                        : TRI_PARKED_MESSAGES;
}

void tri_parked_cancel(tri_worker *worker, tri_cell *cell, uint32_t which,
                       tr_err err)
{
    (void)worker;
    TRI_CHECK_SLOW(tri_cell_is_owned(cell));
    TRI_CHECK(err != TR_OK);
    tri_ext *ext = tri_ext_of(cell);
    for (tr_ctx *c = ext != NULL ? ext->parked : NULL; c != NULL; c = c->next) {
        if ((which & parked_kind(c)) == 0) {
            continue;
        }
        if (c->cancel == TR_OK) {
            c->cancel = err;
        }
        // If `cancel` fails, another thread is about to end the wait.
        if (!c->ready && (c->wait == NULL || c->wait->cancel == NULL ||
                          c->wait->cancel(c->wait))) {
            c->ready = true;
        }
    }
}

uint32_t tri_parked_count(tri_cell *cell, uint32_t which)
{
    tri_cell_assert_owned(cell);
    tri_ext *ext = tri_ext_of(cell);
    uint32_t count = 0;
    for (tr_ctx *c = ext != NULL ? ext->parked : NULL; c != NULL; c = c->next) {
        count += (which & parked_kind(c)) != 0;
    }
    return count;
}
