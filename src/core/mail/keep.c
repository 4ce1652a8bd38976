/*
 * keep.c - messages that outlive their turn: kept, stashed, forwarded.
 *
 * A handler borrows its message. tr_keep, tr_stash and tr_forward take the
 * message from the turn, which is then marked TRI_CTX_MSG_TAKEN so that its end
 * does not free the message. A message that is not a block of its own, such as
 * a timer's, is copied instead.
 *
 * Threads: the worker that runs the turn.
 *
 * Invariant: a message is in at most one of: the turn, ext->keep.kept (flag
 * TRI_MSG_KEPT), ext->keep.stash, a mailbox.
 */
#include "core/mail/keep.h"

#include <stdatomic.h>

#include "base/check.h"
#include "core/ask/answer.h"
#include "core/cell/cell.h"
#include "core/cell/ext.h"
#include "core/cell/mem.h"
#include "core/cell/message.h"
#include "core/cell/ref.h"
#include "core/life/family.h"
#include "core/mail/hard_limit.h"
#include "core/run/context.h"
#include "core/run/worker.h"
#include "core/system.h"

enum { STASH_MAX = 1 << 20 };  // messages in the stash of one actor

/* Marks the message as taken from the turn, if it is the turn's. */
static void take_from_turn(tr_ctx *ctx, const tr_msg *msg)
{
    if (ctx->msg == msg) {
        ctx->flags |= TRI_CTX_MSG_TAKEN;
    }
}

static void panic_no_memory(tr_ctx *ctx, const char *what)
{
    (tr_panic)(ctx, what, "out of memory");
}

/* True if the message was taken from the turn before. */
static bool was_taken(const tr_ctx *ctx, const tr_msg *msg)
{
    return ctx->msg == msg && (ctx->flags & TRI_CTX_MSG_TAKEN);
}

/*
 * Returns msg if its block can be kept, else a copy: the messages of timers
 * and those on the stack have other owners. Panics without memory.
 */
static tr_msg *own(tr_ctx *ctx, tr_msg *msg)
{
    TRI_CHECK(ctx->magic == TRI_CTX_MAGIC);
    if (!(msg->item.flags & TRI_MSG_TIMER) &&
        msg->item.klass != TRI_CLASS_STACK) {
        return msg;
    }
    tr_msg *copy =
        tri_msg_new(&ctx->worker->cache, msg->item.type, msg->payload, false);
    if (copy == NULL) {
        panic_no_memory(ctx, "tr_keep");
    }
    copy->to_id = msg->to_id;
    copy->sender = (tr_ref){0};
    return copy;
}

const void *(tr_keep)(tr_ctx *ctx, const void *m)
{
    TRI_CHECK(ctx->magic == TRI_CTX_MAGIC);
    tr_msg *msg = tri_msg_given(ctx, m, "tr_keep");
    if ((msg->item.flags & TRI_MSG_KEPT) || was_taken(ctx, msg)) {
        return m;
    }
    tri_ext *ext = tri_ext_need(ctx->worker, ctx->cell);
    if (ext == NULL) {
        panic_no_memory(ctx, "tr_keep");
    }
    tr_msg *kept = own(ctx, msg);
    kept->item.flags |= TRI_MSG_KEPT;
    kept->item.next = ext->keep.kept;
    ext->keep.kept = &kept->item;
    if (kept == msg) {
        take_from_turn(ctx, msg);
    }
    return m == (const void *)msg ? (const void *)kept : kept->payload;
}

/* Takes msg out of the kept messages. Returns false if it is not kept. */
static bool unkeep(tr_ctx *ctx, tr_msg *msg)
{
    tri_ext *ext = tri_ext_of(ctx->cell);
    for (tri_item **link = ext != NULL ? &ext->keep.kept : NULL;
         link != NULL && *link != NULL; link = &(*link)->next) {
        if (*link == &msg->item) {
            *link = msg->item.next;
            msg->item.flags &= (uint8_t)~TRI_MSG_KEPT;
            return true;
        }
    }
    return false;
}

void tr_release(tr_ctx *ctx, const void *m)
{
    TRI_CHECK(ctx->magic == TRI_CTX_MAGIC);
    tr_msg *msg = tri_msg_given(ctx, m, "tr_release");
    if (!unkeep(ctx, msg)) {
        return;
    }
    if (ctx->msg == msg) {
        ctx->flags &= (uint8_t)~TRI_CTX_MSG_TAKEN;  // the turn frees it
    } else if ((msg->item.flags & TRI_MSG_ASK) &&
               !(msg->item.flags & TRI_MSG_ANSWERED)) {
        tri_answer_error(ctx->worker, msg, TR_ENOREPLY, NULL);
    } else {
        tri_msg_free(&ctx->worker->cache, msg);
    }
}

tr_msg *tri_msg_take(tr_ctx *ctx, const void *m)
{
    TRI_CHECK(ctx->magic == TRI_CTX_MAGIC);
    tr_msg *msg = tri_msg_given(ctx, m, "tr_forward");
    if (!unkeep(ctx, msg) && was_taken(ctx, msg)) {
        return NULL;  // stashed or forwarded already
    }
    tr_msg *taken = own(ctx, msg);
    if (taken == msg) {
        take_from_turn(ctx, msg);
    }
    return taken;
}

/* Sends msg on; a request that would close a cycle is refused. Takes msg. */
static void forward(tr_ctx *ctx, tr_msg *msg, tr_ref to)
{
    tr_err err = tri_forward(ctx, msg, to);
    if (err != TR_OK) {
        tri_answer_error(ctx->worker, msg, err, ctx->fail_text);
    }
}

void tr_forward(tr_ctx *ctx, tr_ref to, const void *m)
{
    tr_msg *sent = tri_msg_take(ctx, m);
    if (sent != NULL) {
        forward(ctx, sent, to);
    }
}

/*
 * Returns a message with the content of *value and, if msg is a request that
 * waits for its answer, the asker of msg. Panics without memory.
 */
static tr_msg *copy_with(tr_ctx *ctx, tr_msg *msg, const void *value)
{
    uint8_t flags = msg->item.flags;
    bool ask = (flags & (TRI_MSG_ASK | TRI_MSG_ANSWERED)) == TRI_MSG_ASK;
    tr_msg *copy =
        tri_msg_new_with(&ctx->worker->cache, msg->item.type, value, ask,
                         flags & TRI_MSG_CONTEXT ? tri_msg_context(msg) : NULL);
    if (copy == NULL) {
        panic_no_memory(ctx, "tr_forward_copy");
    }
    copy->sender = flags & TRI_MSG_TIMER ? (tr_ref){0} : msg->sender;
    copy->item.flags |= flags & TRI_MSG_FOREIGN;
    if (ask) {
        *tri_msg_ask(copy) = *tri_msg_ask(msg);
        msg->item.flags |= TRI_MSG_ANSWERED;  // the copy will be
    }
    return copy;
}

void(tr_forward_copy)(tr_ctx *ctx, tr_ref to, const void *m, const void *value)
{
    tr_msg *msg = tri_msg_of(m);
    TRI_CHECK(ctx->magic == TRI_CTX_MAGIC);
    if ((msg->item.flags & TRI_MSG_KEPT) == 0 && was_taken(ctx, msg)) {
        return;  // stashed or forwarded already
    }
    tr_msg *copy = copy_with(ctx, msg, value);
    tr_release(ctx, m);
    forward(ctx, copy, to);
}

tr_err tr_stash(tr_ctx *ctx, const void *m)
{
    TRI_CHECK(ctx->magic == TRI_CTX_MAGIC);
    tr_msg *msg = tri_msg_given(ctx, m, "tr_stash");
    tri_ext *ext = tri_ext_need(ctx->worker, ctx->cell);
    if (ext == NULL) {
        return TR_ENOMEM;
    }
    if (ext->keep.stashed >= STASH_MAX) {
        return TR_ELIMIT;
    }
    if (!unkeep(ctx, msg) && was_taken(ctx, msg)) {
        return TR_OK;  // stashed or forwarded already
    }
    tr_msg *stashed = own(ctx, msg);
    if (stashed == msg) {
        take_from_turn(ctx, msg);
    }
    stashed->item.next = NULL;
    if (ext->keep.stash == NULL) {
        ext->keep.stash = &stashed->item;
    } else {
        ext->keep.stash_last->next = &stashed->item;
    }
    ext->keep.stash_last = &stashed->item;
    ext->keep.stashed++;
    return TR_OK;
}

/* True if the asker of an unanswered request is a descendant of the cell. */
static bool is_asked_from_below(tr_system *sys, tri_cell *cell, tr_msg *msg)
{
    tri_cell *asker = tri_ref_cell(msg->sender);
    // Relaxed: a descendant cannot end before the owner of the cell lets it.
    return (msg->item.flags & (TRI_MSG_ASK | TRI_MSG_ANSWERED)) ==
               TRI_MSG_ASK &&
           tri_ref_is_here(sys, msg->sender) && asker != cell &&
           atomic_load_explicit(&asker->id, memory_order_relaxed) ==
               msg->sender.id &&
           tri_is_ancestor(cell, asker);
}

void tri_kept_refuse_family(tr_ctx *ctx, tr_err err)
{
    tri_ext *ext = tri_ext_of(ctx->cell);
    TRI_CHECK_SLOW(tri_cell_is_owned(ctx->cell));
    for (tri_item *item = ext != NULL ? ext->keep.kept : NULL; item != NULL;
         item = item->next) {
        tr_msg *msg = tri_msg_from(item);
        if (is_asked_from_below(ctx->sys, ctx->cell, msg)) {
            tri_answer_error_borrow(ctx->worker, msg, err, NULL);
        }
    }
}

void tri_unstash(tri_cell *cell)
{
    tri_ext *ext = tri_ext_of(cell);
    tri_cell_assert_owned(cell);
    if (ext == NULL || ext->keep.stash == NULL) {
        return;
    }
    ext->keep.stash_last->next = cell->queue;
    cell->queue = ext->keep.stash;
    tri_hard_limit_add(cell, (int32_t)ext->keep.stashed);
    // Relaxed: for observers.
    atomic_fetch_add_explicit(&cell->queued, ext->keep.stashed,
                              memory_order_relaxed);
    ext->keep.stash = NULL;
    ext->keep.stash_last = NULL;
    ext->keep.stashed = 0;
}

void tr_unstash_all(tr_ctx *ctx)
{
    TRI_CHECK(ctx->magic == TRI_CTX_MAGIC);
    tri_unstash(ctx->cell);
}
