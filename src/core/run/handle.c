/*
 * handle.c - the slow path of one message, and the end of a turn.
 *
 * Invariant: every message ends exactly once: it is freed, or it was taken by
 * the turn (kept, stashed, forwarded), by an answer, or by the dead letters.
 */
#include "core/run/handle.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/world.h"
#include "core/ask/answer.h"
#include "core/ask/error_text.h"
#include "core/ask/future.h"
#include "core/ask/then.h"
#include "core/ask/wait.h"
#include "core/cell/behaviour.h"
#include "core/cell/cell.h"
#include "core/cell/ext.h"
#include "core/cell/heap.h"
#include "core/cell/mem.h"
#include "core/cell/message.h"
#include "core/cell/ref.h"
#include "core/cell/tally.h"
#include "core/life/lifecycle.h"
#include "core/life/watch.h"
#include "core/mail/send.h"
#include "core/run/clock.h"
#include "core/run/context.h"
#include "core/run/user_timer.h"
#include "core/run/worker.h"
#include "core/system.h"
#include "troupe/system.h"

/* Frees the replies and the scratch memory that the turn has got so far. */
static void free_borrowed(tr_ctx *ctx)
{
    while (ctx->replies != NULL) {
        tri_item *next = ctx->replies->next;
        tri_msg_free(&ctx->worker->cache, tri_msg_from(ctx->replies));
        ctx->replies = next;
    }
    while (ctx->scratch != NULL) {
        tri_scratch *next = ctx->scratch->next;
        tri_scratch_free(ctx->scratch);
        ctx->scratch = next;
    }
}

void tr_scratch_reset(tr_ctx *ctx)
{
    TRI_CHECK(ctx->magic == TRI_CTX_MAGIC && ctx->in_turn && !ctx->parked);
    free_borrowed(ctx);
    ctx->flags &= (uint8_t)~(TRI_CTX_SCRATCH | TRI_CTX_REPLIES);
}

void tri_turn_end(tr_ctx *ctx)
{
    TRI_CHECK_SLOW(ctx->magic == TRI_CTX_MAGIC && !ctx->parked);
    if (ctx->flags & TRI_CTX_FUTURES) {
        tri_futures_drop(ctx);
    }
    free_borrowed(ctx);
    if (ctx->fail_text != NULL || ctx->fail_reason != NULL) {
        tri_error_clear(ctx);
    }
    ctx->fail_site = NULL;
    tri_ctx_clear_context(ctx);
    ctx->flags = 0;
    ctx->cancel = TR_OK;
    ctx->in_turn = false;
}

__attribute__((noinline)) void tri_turn_finish(tr_ctx *ctx, tr_msg *msg)
{
    tri_worker *worker = ctx->worker;
    bool taken = (ctx->flags & TRI_CTX_MSG_TAKEN) != 0;
    TRI_CHECK_SLOW(ctx->msg == msg);  // tri_call_handler has set it
    tri_turn_end(ctx);
    ctx->msg = NULL;
    if (taken) {
        return;
    }
    uint8_t flags = msg->item.flags;
    if (flags & TRI_MSG_TIMER) {
        tri_user_timer_handled(worker, msg);
    } else if ((flags & TRI_MSG_ASK) && !(flags & TRI_MSG_ANSWERED)) {
        tri_answer_error(worker, msg, TR_ENOREPLY, NULL);
    } else {
        tri_msg_free(&worker->cache, msg);
    }
}

/* Reports a message that no handler takes. Takes msg. */
static __attribute__((noinline)) void unhandled(tr_ctx *ctx, tr_msg *msg)
{
    tri_worker *worker = ctx->worker;
    TRI_CHECK(msg->item.kind == TRI_ITEM_USER);
    tri_ctx_clear_context(ctx);  // no turn will do it
    if ((msg->item.flags & TRI_MSG_TIMER) == 0) {
        worker->sys->up->unhandled(worker, ctx->cell, msg);
        return;
    }
    // The message belongs to its timer: a copy is reported.
    tr_msg *copy =
        tri_msg_new(&worker->cache, msg->item.type, msg->payload, false);
    if (copy != NULL) {
        copy->to_id = msg->to_id;
        copy->sender = (tr_ref){0};
        worker->sys->up->unhandled(worker, ctx->cell, copy);
    }
    tri_user_timer_handled(worker, msg);
}

/*
 * True if the asker is worker->held_asker, whose cell this worker still owns,
 * and waits for this request: then it cannot be too late.
 */
static inline bool asker_is_held(tri_worker *worker, tr_msg *msg)
{
    tri_cell *asker = worker->held_asker;
    const tri_ask *ask = tri_msg_ask(msg);
    // Relaxed: the worker owns the cell.
    return asker != NULL && asker == tri_ref_cell(msg->sender) &&
           ask->is_long &&
           ask->correlation == tri_ext_of(asker)->waits.correlation &&
           atomic_load_explicit(&asker->id, memory_order_relaxed) ==
               msg->sender.id;
}

/*
 * True if no answer is expected any more, because the time-out is over or the
 * asker has ended; then *reason is TR_DEAD_*. Rule 14 (time-outs).
 */
static bool asker_is_gone(tri_worker *worker, tr_msg *msg, uint32_t *reason)
{
    TRI_CHECK(msg->item.flags & TRI_MSG_ASK);
    if (asker_is_held(worker, msg)) {
        return false;
    }
    tr_nanos deadline = tri_msg_ask(msg)->deadline;
    // The coarse clock is late by up to TRI_CLOCK_LAG: near the deadline the
    // exact one decides.
    if (deadline - tri_clock_coarse(worker) <= TRI_CLOCK_LAG &&
        deadline <= tri_clock(worker)) {
        *reason = TR_DEAD_EXPIRED;
        return true;
    }
    tri_cell *asker = tri_ref_cell(msg->sender);
    // Relaxed: if the asker ends right now, the answer is a dead letter.
    if (tri_ref_is_here(worker->sys, msg->sender) &&
        atomic_load_explicit(&asker->id, memory_order_relaxed) !=
            msg->sender.id) {
        *reason = TR_DEAD_CANCELLED;
        return true;
    }
    return false;
}

/* Out of line: what tri_handle_special does for all but the usual cases. */
static __attribute__((noinline)) bool handle_rare(tr_ctx *ctx, tr_msg *msg)
{
    tri_worker *worker = ctx->worker;
    tri_cell *cell = ctx->cell;

    TRI_CHECK_SLOW(!ctx->in_turn);
    if (msg->item.kind == TRI_ITEM_TERMINATED) {
        tri_terminated_in_order(ctx, (tri_watch *)(void *)msg);
        return true;
    }
    if (msg->item.kind == TRI_ITEM_WAKE) {
        tri_then_turn(ctx, (tri_wait *)(void *)msg, NULL);
        return true;
    }
    // Relaxed: the worker owns the cell.
    uint64_t id = atomic_load_explicit(&cell->id, memory_order_relaxed);
    if (msg->to_id != id && msg->item.kind == TRI_ITEM_POISON) {
        tri_msg_free(&worker->cache, msg);  // a poison is no dead letter
        return true;
    }
    if (msg->to_id != id) {
        tri_dead(worker,
                 (tr_ref){tri_cell_ref(worker->sys, cell).cell, msg->to_id},
                 msg, TR_DEAD_NO_SUCH_ACTOR);
        return true;
    }
    if (msg->item.kind == TRI_ITEM_POISON) {
        tri_msg_free(&worker->cache, msg);
        tri_life_handle_signals(ctx, TRI_SIG_STOP);
        return true;
    }
    if (msg->item.kind == TRI_ITEM_REPLY) {
        tri_then_reply(ctx, msg);
        return true;
    }
    if ((msg->item.flags & TRI_MSG_TIMER) &&
        !tri_user_timer_arrived(worker, msg)) {
        return true;
    }
    uint32_t reason = 0;
    if ((msg->item.flags & (TRI_MSG_ASK | TRI_MSG_ANSWERED)) == TRI_MSG_ASK &&
        asker_is_gone(worker, msg, &reason)) {
        tri_dead(worker, tri_cell_ref(worker->sys, cell), msg, reason);
        return true;
    }
    if (msg->item.flags & TRI_MSG_CONTEXT) {
        tri_ctx_set_context(ctx, tri_msg_context(msg));
    }
    return false;
}

__attribute__((noinline)) bool tri_handle_special(tr_ctx *ctx, tr_msg *msg)
{
    const uint32_t mask =
        TRI_MSG_ASK | TRI_MSG_ANSWERED | TRI_MSG_TIMER | TRI_MSG_CONTEXT;
    uint32_t flags = msg->item.flags & mask;
    // Relaxed: the worker owns the cell.
    if (TRI_LIKELY(msg->item.kind == TRI_ITEM_USER &&
                   msg->to_id == atomic_load_explicit(&ctx->cell->id,
                                                      memory_order_relaxed))) {
        if (flags == TRI_MSG_TIMER) {
            return !tri_user_timer_arrived(ctx->worker, msg);
        }
        if (flags == TRI_MSG_ASK && asker_is_held(ctx->worker, msg)) {
            return false;
        }
    }
    return handle_rare(ctx, msg);
}

void tri_handle_observe(tr_ctx *ctx, tr_msg *msg, uint32_t flags)
{
    const tri_up *up = ctx->sys->up;
    TRI_CHECK(msg->item.kind == TRI_ITEM_USER);
    if (up->handles != NULL) {
        up->handles(ctx, msg, flags);
    }
}

__attribute__((noinline)) uint8_t tri_handler_turn_kind(tr_ctx *ctx,
                                                        uint32_t flags)
{
    TRI_CHECK(flags != 0);
    if ((flags & TR_SUPPRESS_KEEP_ALIVE) && tri_cell_is_virtual(ctx->cell)) {
        tri_virtual_ops_of(ctx->sys)->quiet(ctx->cell);
    }
    return flags & TR_ALWAYS_INTERLEAVE ? TRI_TURN_INTERLEAVE
           : flags & TR_READ_ONLY       ? TRI_TURN_READ
                                        : TRI_TURN_WRITE;
}

/* True if the type is a message of the library and the actor has on_signal. */
static bool wants_signal(tri_cell *cell, const tr_type *type)
{
    return tri_first_behaviour(cell)->def->on_signal != NULL &&
           (type->schema == tr_terminated_tr_type.schema ||
            type->schema == tr_timeout_tr_type.schema ||
            type->schema == tr_ask_failed_tr_type.schema ||
            type->schema == tr_termination_hook_tr_type.schema);
}

/* Runs on_signal in the place of a handler. */
static tr_err offer_signal(tr_ctx *ctx, void *self, const void *m)
{
    return tri_first_behaviour(ctx->cell)->def->on_signal(ctx, self, m);
}

__attribute__((noinline)) void tri_handle_unnamed(tr_ctx *ctx, tr_msg *msg)
{
    tri_cell *cell = ctx->cell;
    TRI_CHECK(msg->item.type != NULL);
    const tr_handler *any = tri_cell_behaviour(cell)->any;
    tr_handler_fn fn = wants_signal(cell, msg->item.type) ? offer_signal
                       : any != NULL                      ? any->fn
                                                          : NULL;
    if (fn != NULL) {
        tri_handle_observe(ctx, msg, 0);
        tri_call_handler(ctx, msg, fn, msg, 0, tri_cell_behaviour(cell)->kind);
    } else {
        unhandled(ctx, msg);
    }
}

/* Out-of-line copy for callers off the fast path. */
static __attribute__((noinline)) void handle(tr_ctx *ctx, tri_item *item)
{
    tri_handle_inline(ctx, ctx->cell, item, true);
}

void tri_handle(tr_ctx *ctx, tr_msg *msg)
{
    handle(ctx, &msg->item);
}

void tri_handle_on_stack(tr_ctx *ctx, const tr_type *type, const void *payload,
                         size_t size)
{
    _Alignas(TRI_BLOCK_ALIGN) char room[sizeof(tr_msg) + TRI_STACK_PAYLOAD];
    TRI_CHECK(size <= TRI_STACK_PAYLOAD);
    memset(room, 0, sizeof(room));
    tr_msg *msg = (tr_msg *)(void *)room;
    msg->item.type = type;
    msg->item.kind = TRI_ITEM_USER;
    msg->item.klass = TRI_CLASS_STACK;
    // Relaxed: the worker owns the cell.
    msg->to_id = atomic_load_explicit(&ctx->cell->id, memory_order_relaxed);
    memcpy(msg->payload, payload, size);
    handle(ctx, &msg->item);
}

void tri_handle_timed_end(tr_ctx *ctx)
{
    tri_world *world = ctx->sys->world;
    TRI_CHECK(ctx->timed != 0);
    tri_tally_sample(ctx->worker, ctx->timed_kind,
                     world->ops->mono(world) - ctx->timed, ctx->timed_depth);
    ctx->timed = 0;
}

__attribute__((noinline)) void tri_handle_timed(tr_ctx *ctx, tri_item *item)
{
    tri_world *world = ctx->sys->world;
    tri_cell *cell = ctx->cell;
    TRI_CHECK(!ctx->in_turn);
    ctx->worker->special_batch = ctx->worker->stepping;
    // Relaxed: only the owner writes. Waits of the handler count as time.
    uint64_t handled =
        atomic_load_explicit(&cell->handled, memory_order_relaxed);
    ctx->timed_kind = tri_cell_behaviour(cell)->kind;
    ctx->timed_depth = tri_depth(cell);
    ctx->timed = world->ops->mono(world);
    handle(ctx, item);
    if (atomic_load_explicit(&cell->handled, memory_order_relaxed) != handled) {
        tri_handle_timed_end(ctx);
    }
    ctx->timed = 0;  // if no handler ran, there is no sample
}
