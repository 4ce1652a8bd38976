/*
 * turn.c - the loop of a worker: batches of messages, one cell after another.
 *
 * The loop runs on a fiber. It picks a cell (scheduler.c) and runs a batch:
 * what comes before the next message is done by attention.c, the message by
 * handle.h. A turn that waits parks the fiber with the loop on it (park.c),
 * and a spare fiber continues the loop. When the wait is over, the fiber that
 * finds the turn ready switches to it and becomes spare.
 *
 * Invariant: every fiber that was left is switched to again; a stack is never
 * abandoned. A worker runs only cells that it owns.
 */
#include "core/run/turn.h"

#include <stdatomic.h>

#include "base/check.h"
#include "base/fiber.h"
#include "base/world.h"
#include "core/cell/behaviour.h"
#include "core/cell/cell.h"
#include "core/cell/ext.h"
#include "core/cell/message.h"
#include "core/life/failure.h"
#include "core/mail/mailbox.h"
#include "core/run/attention.h"
#include "core/run/clock.h"
#include "core/run/context.h"
#include "core/run/handle.h"
#include "core/run/park.h"
#include "core/run/pick.h"
#include "core/run/run_queue.h"
#include "core/run/scheduler.h"
#include "core/run/worker.h"
#include "core/system.h"

/* ---- a batch ---- */

/*
 * True if the batch has sent or handled enough, or has taken TRI_QUANTUM: then
 * the cell queues again.
 */
static inline __attribute__((always_inline)) bool batch_is_over(tr_ctx *ctx)
{
    tri_worker *worker = ctx->worker;
    if (worker->sends_left < TRI_BATCH_SENDS / 2) {
        return true;
    }
    if (TRI_LIKELY(--ctx->budget > 0)) {
        return false;
    }
    if (worker->stepping || TRI_BATCH_MESSAGES <= TRI_CLOCK_EVERY) {
        return true;
    }
    tr_nanos before = ctx->started == 0 ? 0 : worker->now;
    tr_nanos now = tri_clock(worker);
    if (before == 0) {
        ctx->started = now;
        ctx->budget = TRI_CLOCK_FIRST;
        return false;
    }
    if (now - ctx->started > TRI_QUANTUM) {
        // Relaxed: the worker's own request; the next pick polls.
        atomic_fetch_or_explicit(&worker->requests, TRI_REQUEST_CLOCK,
                                 memory_order_relaxed);
        return true;
    }
    bool slow = now - before > TRI_QUANTUM / 16;
    ctx->budget = slow ? 1 : TRI_CLOCK_EVERY;
    return false;
}

/*
 * Handles messages until the cell is released, queues again or must not be
 * touched; then returns false. With `timed`, times the first handler and
 * returns true after it.
 */
static inline __attribute__((always_inline)) bool run_messages(tr_ctx *ctx,
                                                               bool timed)
{
    tri_worker *worker = ctx->worker;
    tri_cell *cell = ctx->cell;

    for (;;) {
        // Relaxed: tri_attention acquires.
        if (TRI_UNLIKELY(
                (atomic_load_explicit(&cell->sys_mail, memory_order_relaxed) &
                 ~TRI_SYS_CLOSED) != 0 ||
                cell->attention != 0)) {
            tri_next next = tri_attention(ctx);
            if (next == TRI_NEXT_CELL) {
                return false;
            }
            if (next == TRI_NEXT_CHECK) {
                continue;
            }
        }
        tri_item *item = cell->queue;
        if (item == NULL) {
            // Relaxed: tri_detach_first and tri_sleep_idle confirm it.
            uintptr_t mail =
                atomic_load_explicit(&cell->mail, memory_order_relaxed);
            if (TRI_LIKELY(tri_mail_newest(mail) == NULL)) {
                if (tri_sleep_idle(worker, cell, mail)) {
                    return false;
                }
                continue;
            }
            item = tri_detach_first(cell, mail);
            if (TRI_UNLIKELY(item == NULL)) {
                continue;
            }
        } else {
            // Relaxed: tri_urgent_arrived acquires.
            if (TRI_UNLIKELY(
                    (atomic_load_explicit(&cell->flags, memory_order_relaxed) &
                     TRI_CELL_URGENT_PENDING) != 0) &&
                tri_urgent_arrived(cell)) {
                continue;
            }
            cell->queue = item->next;
            tri_queue_taken(cell, item);
        }
        if (timed) {
            tri_handle_timed(ctx, item);
        } else {
            tri_handle_inline(ctx, cell, item, false);
        }
        if (TRI_UNLIKELY(batch_is_over(ctx))) {
            tri_schedule(worker, cell);
            return false;
        }
        if (timed) {
            return true;
        }
    }
}

/* Out-of-line copy that times the first handler. */
static __attribute__((noinline)) bool run_first_timed(tr_ctx *ctx)
{
    return run_messages(ctx, true);
}

/*
 * Runs the rest of a batch, off the fast path. A driven worker times each
 * handler, and so tri_up.handles sees each message.
 */
static void run_batch(tr_ctx *ctx)
{
    if (!ctx->worker->stepping) {
        (void)run_messages(ctx, false);
        return;
    }
    while (run_first_timed(ctx)) {
        // run_first_timed does the work.
    }
}

/*
 * Sets the limits of a step of a driven worker. Usually a step is one message.
 * At random it is several messages, or the turn yields at its first send,
 * because workers with threads do both.
 */
static void step_begin(tr_ctx *ctx)
{
    tri_world *world = ctx->sys->world;
    TRI_CHECK(ctx->worker->stepping);
    ctx->budget = TRI_BUGGIFY(world, 0.02) ? TRI_CLOCK_FIRST : 1;
    ctx->worker->sends_left =
        TRI_BUGGIFY(world, 0.02) ? 1 : (uint32_t)TRI_BATCH_SENDS;
}

/*
 * Runs a step, or begins a batch whose first handler is timed. Returns false
 * if the batch is over.
 */
static __attribute__((noinline)) bool run_special(tr_ctx *ctx)
{
    TRI_CHECK(ctx->worker->special_batch);
    if (ctx->worker->stepping) {
        step_begin(ctx);
        run_batch(ctx);
        return false;
    }
    bool more = run_first_timed(ctx);
    // The mark is for this batch, even if no handler ran.
    ctx->worker->special_batch = false;
    return more;
}

static inline void count_batch(tri_worker *worker)
{
    // Relaxed: the monitor and thieves read it as a hint.
    atomic_store_explicit(
        &worker->progress,
        atomic_load_explicit(&worker->progress, memory_order_relaxed) + 1,
        memory_order_relaxed);
}

/* Begins a batch of a cell that the worker owns; false: it is over already. */
static inline __attribute__((always_inline)) bool batch_begin(tr_ctx *ctx,
                                                              tri_cell *cell)
{
    tri_worker *worker = ctx->worker;
    TRI_CHECK_SLOW(tri_cell_is_owned(cell) && !ctx->in_turn && !ctx->parked);
    ctx->cell = cell;
    ctx->self = tri_cell_ref(ctx->sys, cell);
    ctx->started = 0;
    ctx->budget = TRI_BATCH_MESSAGES == 1 ? 1 : TRI_CLOCK_FIRST;
    worker->sends_left = TRI_BATCH_SENDS;
    if (!TRI_BARE) {
        // Release: the monitor reads the cell.
        atomic_store_explicit(&worker->running, cell, memory_order_release);
    }
    count_batch(worker);
    return TRI_BARE || TRI_LIKELY(!worker->special_batch) || run_special(ctx);
}

static inline void batch_end(tri_worker *worker)
{
    if (!TRI_BARE) {
        // Relaxed: for observers.
        atomic_store_explicit(&worker->running, NULL, memory_order_relaxed);
    }
}

/* Runs a batch of a cell that the worker owns; off the fast path. */
static void run_cell(tr_ctx *ctx, tri_cell *cell)
{
    if (batch_begin(ctx, cell)) {
        run_batch(ctx);
    }
    batch_end(ctx->worker);
}

void tri_asker_release_now(tri_worker *worker)
{
    tri_cell *cell = worker->held_asker;
    tri_cell_assert_owned(cell);
    worker->held_asker = NULL;
    (void)tri_sleep(worker, cell, false);
}

/* ---- after a switch of fibers ---- */

/* True if a batch has nothing to do but to wait for a parked turn. */
static inline bool is_only_parked(const tri_cell *cell)
{
    return (cell->attention & ~TRI_ATTENTION_LEASE) == TRI_ATTENTION_PARKED;
}

/*
 * Continues the batch of a cell whose turn has parked. Most cells then only
 * wait for an answer. If it is to come from the cell in the hand-off slot, the
 * worker keeps the asker's cell until that one has run: no other worker could
 * run it, because the parked stack is here.
 */
static void after_park(tr_ctx *ctx, tri_cell *cell)
{
    tri_worker *worker = ctx->worker;
    const tr_ctx *parked = tri_ext_of(cell)->parked;
    TRI_CHECK_SLOW(tri_cell_is_owned(cell) && parked != NULL);
    // Relaxed: tri_sleep reads it again.
    if (TRI_LIKELY(
            is_only_parked(cell) && parked->next == NULL &&
            parked->kind != TRI_TURN_ON_RUN && !worker->stepping &&
            !tri_cell_behaviour(cell)->interleaves &&
            (atomic_load_explicit(&cell->sys_mail, memory_order_relaxed) &
             ~TRI_SYS_CLOSED) == 0)) {
        atomic_store_explicit(&worker->running, NULL, memory_order_relaxed);
        if (worker->handoff != NULL) {
            worker->held_asker = cell;
        } else {
            (void)tri_sleep(worker, cell, false);  // as beside_parked does
        }
    } else {
        tri_handoff_return(worker);  // handlers of this cell may run first
        run_cell(ctx, cell);
    }
}

/*
 * Returns the parked turn of a cell if it is the only one and ready; NULL: the
 * batch must decide. For a cell whose attention is only TRI_ATTENTION_PARKED.
 */
static tr_ctx *ready_alone(tri_worker *worker, tri_cell *cell)
{
    // Relaxed: mail that comes now is seen when the turn ends or waits.
    if (worker->stepping ||
        (atomic_load_explicit(&cell->sys_mail, memory_order_relaxed) &
         ~TRI_SYS_CLOSED) != 0) {
        return NULL;
    }
    tr_ctx *parked = tri_ext_of(cell)->parked;
    TRI_CHECK_SLOW(parked != NULL && cell->home == worker->index);
    return parked->next == NULL && parked->ready ? parked : NULL;
}

/* Acts on worker->last_switch. */
static void after_switch(tr_ctx *ctx)
{
    tri_worker *worker = ctx->worker;
    tri_switch why = worker->last_switch;
    TRI_CHECK_SLOW(!ctx->in_turn && !ctx->parked);
    worker->last_switch = TRI_SWITCH_NONE;
    tri_asker_release(worker);
    switch (why) {
    case TRI_SWITCH_NONE:
        break;
    case TRI_SWITCH_PARKED:
        after_park(ctx, worker->switch_cell);
        break;
    case TRI_SWITCH_YIELDED:
        tri_schedule(worker, worker->switch_cell);
        break;
    case TRI_SWITCH_RESUMED:
        tri_fiber_give(&worker->fibers, worker->switch_fiber);
        break;
    }
}

/*
 * Switches to the turn worker->resuming. Called by the loop itself, because
 * the CPU mispredicts each return after a switch.
 */
static void resume(tri_worker *worker)
{
    tri_fiber *self = worker->current;
    tr_ctx *ctx = worker->resuming;

    TRI_CHECK_SLOW(ctx->parked && ctx->magic == TRI_CTX_MAGIC);
    worker->resuming = NULL;
    tri_parked_remove(ctx);
    worker->last_switch = TRI_SWITCH_RESUMED;
    worker->switch_fiber = self;
    worker->current = ctx->fiber;
    tri_fiber_switch(self, ctx->fiber);
}

/* Switches to the thread's own stack: the step is over, or the thread ends. */
static void return_to_thread(tri_worker *worker)
{
    tri_fiber *self = worker->current;
    TRI_CHECK(worker->loop_fiber == NULL);
    worker->loop_fiber = self;
    worker->current = &worker->thread;
    tri_fiber_switch(self, &worker->thread);
}

/* ---- the loop ---- */

/* Not part of tri_worker_loop, where the jump keeps all locals in memory. */
static _Noreturn __attribute__((noinline)) void loop(tr_ctx *ctx)
{
    tri_worker *worker = ctx->worker;
    for (;;) {
        while (worker->last_switch != TRI_SWITCH_NONE) {
            after_switch(ctx);
        }
        if (worker->resuming != NULL) {
            resume(worker);
            continue;
        }
        tri_cell *cell = tri_worker_next(worker);
        if (TRI_UNLIKELY(cell == NULL)) {
            return_to_thread(worker);
            continue;
        }
        if (TRI_UNLIKELY(is_only_parked(cell)) &&
            (worker->resuming = ready_alone(worker, cell)) != NULL) {
            count_batch(worker);
            worker->sends_left = TRI_BATCH_SENDS;
            continue;
        }
        // As run_cell, inline: the CPU predicts a handler by the last few
        // jumps, so there must be few between two handlers.
        if (batch_begin(ctx, cell)) {
            (void)run_messages(ctx, false);
        }
        batch_end(worker);
        tri_asker_release(worker);
    }
}

void tri_worker_loop(void *arg)
{
    tr_ctx ctx = {.magic = TRI_CTX_MAGIC,
                  .worker = arg,
                  .sys = ((tri_worker *)arg)->sys,
                  .fast_tag = ((tri_worker *)arg)->sys->tag};

    TRI_CHECK(arg != NULL);
    if (tri_jump_set(&ctx.jump)) {  // tr_panic jumps here
        if (ctx.timed != 0) {
            tri_handle_timed_end(&ctx);
        }
        tri_life_fail(&ctx, TR_EPANIC);
        run_batch(&ctx);
        tri_asker_release(ctx.worker);
    }
    loop(&ctx);
}
