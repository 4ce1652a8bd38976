/*
 * handle.h - one message: finding its handler, calling it, ending its turn.
 *
 * The usual case is inlined into the loop of a batch (turn.c); everything else
 * is in handle.c.
 *
 * Threads: the worker that runs the cell.
 */
#ifndef TRI_CORE_RUN_HANDLE_H
#define TRI_CORE_RUN_HANDLE_H

#include <stdatomic.h>

#include "base/check.h"
#include "core/cell/behaviour.h"
#include "core/cell/cache.h"
#include "core/cell/cell.h"
#include "core/cell/heap.h"
#include "core/cell/mem.h"
#include "core/cell/message.h"
#include "core/life/failure.h"
#include "core/run/context.h"
#include "core/run/user_timer.h"
#include "core/run/worker.h"
#include "core/types.h"

/*
 * Ends a turn: cancels its futures, frees its replies and scratch memory. Does
 * not free its message.
 */
void tri_turn_end(tr_ctx *ctx);

/* Runs the handler for msg. Takes msg. */
void tri_handle(tr_ctx *ctx, tr_msg *msg);

enum { TRI_STACK_PAYLOAD = 64 };  // bytes, at most, for tri_handle_on_stack

/* As tri_handle with a message on the stack: needs no memory. */
void tri_handle_on_stack(tr_ctx *ctx, const tr_type *type, const void *payload,
                         size_t size);

/* Runs the handler for the item and takes a sample of its time. Takes item. */
void tri_handle_timed(tr_ctx *ctx, tri_item *item);

/* ---- slow path, out of line ---- */

/*
 * Does what must come before the handler of a request, timer message or
 * message with a context, and handles all other kinds of items. A message to an
 * earlier actor of this cell becomes a dead letter. Returns true if it has taken
 * msg; else the caller runs the handler.
 */
bool tri_handle_special(tr_ctx *ctx, tr_msg *msg);

/*
 * Runs on_signal or the TR_ON_ANY handler for a type that no handler names;
 * without those the message is unhandled. Takes msg.
 */
void tri_handle_unnamed(tr_ctx *ctx, tr_msg *msg);

/* Shows msg to tri_up.handles before its handler runs. */
void tri_handle_observe(tr_ctx *ctx, tr_msg *msg, uint32_t flags);

/* Returns the tri_turn_kind of a handler with flags (TR_READ_ONLY, ...). */
uint8_t tri_handler_turn_kind(tr_ctx *ctx, uint32_t flags);

/* Ends a turn whose handler returned TR_OK, and its message. */
void tri_turn_finish(tr_ctx *ctx, tr_msg *msg);

/* ---- fast path, inlined into the loop of a batch ---- */

/* Calls a handler with `argument` (payload or tr_msg) and ends the turn. */
static inline __attribute__((always_inline)) void tri_call_handler(
    tr_ctx *ctx, tr_msg *msg, tr_handler_fn fn, const void *argument,
    uint32_t flags, uint32_t kind)
{
    tri_cell *cell = ctx->cell;
    TRI_CHECK_SLOW(!ctx->in_turn && ctx->flags <= TRI_CTX_CONTEXT);
    ctx->msg = msg;
    ctx->kind = TRI_LIKELY(flags == 0) ? TRI_TURN_WRITE
                                       : tri_handler_turn_kind(ctx, flags);
    ctx->in_turn = true;
    if (!TRI_BARE) {
        ctx->phase = TR_IN_HANDLER;
        tri_count(&ctx->worker->tally.messages[kind]);
        // Relaxed: for observers.
        atomic_store_explicit(&ctx->worker->handling, msg->item.type,
                              memory_order_relaxed);
    }
    tr_err err = fn(ctx, cell->state, argument);
    if (!TRI_BARE) {
        // Relaxed: for observers; only the owner writes.
        atomic_store_explicit(
            &cell->handled,
            atomic_load_explicit(&cell->handled, memory_order_relaxed) + 1,
            memory_order_relaxed);
    }
    if (!TRI_BARE && TRI_UNLIKELY(err != TR_OK)) {
        tri_life_fail(ctx, err);
        return;
    }
    // A message that was taken may be freed already: the flag is read first.
    if (TRI_FAULTS && !(ctx->flags & TRI_CTX_MSG_TAKEN) &&
        (msg->item.flags & TRI_MSG_BLOBS)) {
        tri_state_check(ctx, msg);
    }
    if (TRI_LIKELY(ctx->flags == 0 && ctx->fail_text == NULL &&
                   ctx->cancel == TR_OK)) {
        if (TRI_LIKELY(tri_msg_is_plain(msg))) {
            ctx->in_turn = false;
            ctx->msg = NULL;
            tri_cache_free(&ctx->worker->cache, msg->item.klass, msg);
            return;
        }
        if ((msg->item.flags &
             (TRI_MSG_ASK | TRI_MSG_ANSWERED | TRI_MSG_TIMER)) ==
            (TRI_MSG_ASK | TRI_MSG_ANSWERED)) {
            ctx->in_turn = false;
            ctx->msg = NULL;
            tri_msg_free(&ctx->worker->cache, msg);
            return;
        }
    }
    tri_turn_finish(ctx, msg);
}

/*
 * Finds and runs the handler for the item. Takes item. `observed`: a constant;
 * true if tri_up.handles sees the message.
 */
static inline __attribute__((always_inline)) void tri_handle_inline(
    tr_ctx *ctx, tri_cell *cell, tri_item *item, bool observed)
{
    tr_msg *msg = tri_msg_from(item);
    TRI_CHECK_SLOW(tri_cell_is_owned(cell));
    // Relaxed: the worker owns the cell.
    uint64_t id = atomic_load_explicit(&cell->id, memory_order_relaxed);

    if (TRI_UNLIKELY(
            msg->to_id != id || item->kind != TRI_ITEM_USER ||
            (item->flags & (TRI_MSG_ASK | TRI_MSG_TIMER | TRI_MSG_CONTEXT)))) {
        if (tri_handle_special(ctx, msg)) {
            return;
        }
    }
    if (TRI_UNLIKELY(cell->attention & TRI_ATTENTION_TIMEOUT)) {
        tri_receive_timeout_restart(ctx, msg);
    }
    const tri_slot *slot =
        tri_behaviour_find(tri_cell_behaviour(cell), item->type);
    if (TRI_LIKELY(slot != NULL)) {
        if (observed) {
            tri_handle_observe(ctx, msg, slot->flags);
        }
        tri_call_handler(ctx, msg, slot->fn, msg->payload, slot->flags,
                         slot->kind);
    } else {
        tri_handle_unnamed(ctx, msg);
    }
}

/* Counts the sample of a timed handler that has returned or panicked. */
void tri_handle_timed_end(tr_ctx *ctx);

#endif
