/*
 * drain.c - disposes of mail that its actor will not handle.
 *
 * Invariant: every message in the mailbox of an actor that ends, or that
 * restarts with an empty mailbox, becomes a dead letter, goes to another
 * actor, is dropped as the drain policy says, or stays in the queue for the
 * next activation of a virtual actor (rule 37 (messages left at an end)).
 */
#include "core/mail/drain.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/check.h"
#include "core/ask/answer.h"
#include "core/ask/error_text.h"
#include "core/ask/wait.h"
#include "core/cell/cell.h"
#include "core/cell/ext.h"
#include "core/cell/message.h"
#include "core/cell/props.h"
#include "core/life/lifecycle.h"
#include "core/life/watch.h"
#include "core/mail/hard_limit.h"
#include "core/mail/keep.h"
#include "core/mail/mailbox.h"
#include "core/mail/send.h"
#include "core/run/context.h"
#include "core/run/user_timer.h"
#include "core/run/worker.h"
#include "core/system.h"

void tri_drain_queue(tri_worker *worker, tri_cell *cell, uint32_t reason)
{
    tr_ref self = tri_cell_ref(worker->sys, cell);
    tri_cell_assert_owned(cell);
    while (cell->queue != NULL) {
        tri_item *item = cell->queue;
        cell->queue = item->next;
        if (tri_is_counted(item)) {
            tri_hard_limit_add(cell, -1);
        }
        if (item->kind == TRI_ITEM_TERMINATED) {  // its watch stays
            (void)tri_terminated_arrived(worker, cell,
                                         (tri_watch *)(void *)item);
        } else {
            tri_drain_item(worker, self, item, reason);
        }
    }
    // Relaxed: for observers.
    atomic_store_explicit(&cell->queued, 0, memory_order_relaxed);
}

void tri_drain_item(tri_worker *worker, tr_ref self, tri_item *item,
                    uint32_t reason)
{
    tr_msg *msg = tri_msg_from(item);
    TRI_CHECK(item->next != item);
    if (item->kind == TRI_ITEM_TERMINATED) {
        free(item);
    } else if (item->kind == TRI_ITEM_WAKE) {
        tri_wait *wait = (tri_wait *)(void *)item;
        tri_wait_unlink(wait);
        free(wait);
    } else if (item->flags & TRI_MSG_TIMER) {
        if (tri_user_timer_arrived(worker, msg)) {
            tri_user_timer_handled(worker, msg);
        }
    } else if (item->kind == TRI_ITEM_POISON) {
        tri_msg_free(&worker->cache, msg);
    } else {
        tri_dead(worker, (tr_ref){self.cell, msg->to_id}, msg, reason);
    }
}

void tri_queue_gather(tri_cell *cell)
{
    tri_ext *ext = tri_ext_of(cell);
    TRI_CHECK_SLOW(tri_cell_is_owned(cell));
    tri_unstash(cell);
    if (ext == NULL) {
        return;
    }
    for (int p = 1; p < TRI_PRIORITIES; p++) {
        tri_queue_append(cell, ext->urgent.first[p]);
        ext->urgent.first[p] = NULL;
    }
}

/* Answers a request to a virtual actor that could not start. Takes msg. */
static void refuse_start_failed(tr_ctx *ctx, tr_msg *msg)
{
    tri_ext *ext = tri_ext_of(ctx->cell);
    TRI_CHECK(ext != NULL);
    if (msg->item.flags & TRI_MSG_ASK) {
        tri_answer_error(ctx->worker, msg, ext->failure.err, ext->failure.text);
    } else {
        tri_dead(ctx->worker, tri_cell_ref(ctx->sys, ctx->cell), msg,
                 TR_DEAD_FAILED);
    }
}

/* Keeps user messages in the queue for the actor's next activation. */
static void drain_virtual(tr_ctx *ctx)
{
    tri_cell *cell = ctx->cell;
    tri_ext *ext = tri_ext_of(cell);
    tr_ref self = tri_cell_ref(ctx->sys, cell);
    bool failed = tri_cell_incarnation(cell) == 1 && tri_failed_in_start(cell);
    tri_item *kept = NULL, **last = &kept;

    TRI_CHECK(tri_cell_is_virtual(cell));
    tri_unstash(cell);
    for (int p = 1; ext != NULL && p < TRI_PRIORITIES; p++) {
        if (ext->urgent.first[p] != NULL) {
            ext->urgent.last[p]->next = cell->queue;
            cell->queue = ext->urgent.first[p];
            ext->urgent.first[p] = NULL;
        }
    }
    for (tri_item *item = cell->queue, *next; item != NULL; item = next) {
        next = item->next;
        if (item->kind != TRI_ITEM_USER || (item->flags & TRI_MSG_TIMER)) {
            tri_drain_item(ctx->worker, self, item, TR_DEAD_DRAINED);
        } else if (failed) {
            refuse_start_failed(ctx, tri_msg_from(item));
        } else {
            *last = item;
            last = &item->next;
        }
    }
    *last = NULL;
    cell->queue = kept;
}

/*
 * Sends the message to props->drain_to. Returns false, and does not take msg,
 * if that is nobody, or if the asker of a request would wait for itself.
 */
static bool redirect(tr_ctx *ctx, const tri_props *props, tr_msg *msg)
{
    TRI_CHECK(props->drain == TR_DRAIN_REDIRECT);
    bool sent = props->drain_to.cell != 0 &&
                tri_forward(ctx, msg, props->drain_to) == TR_OK;
    if (!sent) {
        tri_error_clear(ctx);  // no turn follows that would free the text
    }
    return sent;
}

/* Disposes of one item as the drain policy of its actor says. Takes item. */
static void drain_one(tr_ctx *ctx, tri_item *item)
{
    tri_worker *worker = ctx->worker;
    tri_cell *cell = ctx->cell;
    const tri_props *props = cell->props;
    tr_drain policy = props != NULL ? props->drain : TR_DRAIN_DEAD_LETTERS;
    tr_msg *msg = tri_msg_from(item);

    if (tri_is_counted(item)) {
        tri_hard_limit_add(cell, -1);
        if (policy == TR_DRAIN_REDIRECT && redirect(ctx, props, msg)) {
            return;
        }
        if (policy == TR_DRAIN_DROP) {
            tri_count(&worker->count.dropped);
            tri_answer_error(worker, msg, TR_ESTOPPED, NULL);
            return;
        }
    }
    tri_drain_item(worker, tri_cell_ref(ctx->sys, cell), item, TR_DEAD_DRAINED);
}

void tri_drain_requests(tr_ctx *ctx)
{
    tri_cell *cell = ctx->cell;
    uint32_t left = 0;
    tri_cell_assert_owned(cell);
    if (tri_cell_is_virtual(cell)) {
        return;  // the next activation handles them
    }
    tri_queue_gather(cell);
    tri_item **link = &cell->queue;
    while (*link != NULL) {
        tri_item *item = *link;
        if (!tri_is_counted(item) ||
            (item->flags & (TRI_MSG_ASK | TRI_MSG_ANSWERED)) != TRI_MSG_ASK) {
            link = &item->next;
            left++;
        } else {
            *link = item->next;
            drain_one(ctx, item);
        }
    }
    // Relaxed: for observers.
    atomic_store_explicit(&cell->queued, left, memory_order_relaxed);
}

void tri_drain(tr_ctx *ctx)
{
    tri_cell *cell = ctx->cell;
    tri_cell_assert_owned(cell);
    if (tri_cell_is_virtual(cell)) {
        drain_virtual(ctx);
        return;
    }
    tri_queue_gather(cell);
    while (cell->queue != NULL) {
        tri_item *item = cell->queue;
        cell->queue = item->next;
        drain_one(ctx, item);
    }
    // Relaxed: for observers.
    atomic_store_explicit(&cell->queued, 0, memory_order_relaxed);
}
