/*
 * drain.c - what becomes of mail that is not handled any more.
 *
 * Every message of a life that ends, or of an incarnation that leaves its
 * mailbox behind, is a dead letter, goes to another actor, is dropped by the
 * policy that was declared, or waits for a virtual actor's next life.
 */
#include "core/lifecycle.h"

#include <stdlib.h>

#include "core/mailbox.h"

/* Stashed mail goes back in front, oldest first. */
void tri_unstash(tri_cell *cell)
{
    tri_ext *ext = tri_ext_of(cell);
    if (ext == NULL || ext->stash == NULL) {
        return;
    }
    ext->stash_last->next = cell->queue;
    cell->queue = ext->stash;
    tri_count_again(cell, (int32_t)ext->stashed);
    // Relaxed: for observers.
    atomic_fetch_add_explicit(&cell->queued, ext->stashed,
                              memory_order_relaxed);
    ext->stash = NULL;
    ext->stash_last = NULL;
    ext->stashed = 0;
}

void tri_queue_dead(tri_worker *worker, tri_cell *cell, uint32_t reason)
{
    tr_ref self = tri_cell_ref(worker->sys, cell);
    while (cell->queue != NULL) {
        tri_node *node = cell->queue;
        cell->queue = node->next;
        if (tri_is_counted(node)) {
            tri_count_again(cell, -1);
        }
        tri_drain_node(worker, self, node, reason);
    }
    // Relaxed: for observers.
    atomic_store_explicit(&cell->queued, 0, memory_order_relaxed);
}

void tri_drain_node(tri_worker *worker, tr_ref self, tri_node *node,
                    uint32_t reason)
{
    tr_msg *msg = tri_msg_from(node);
    if (node->kind == TRI_NODE_TERMINATED) {
        free(node);
    } else if (node->kind == TRI_NODE_WAKE) {
        tri_wait *wait = (tri_wait *)(void *)node;
        tri_wait_unlink(wait->cell, wait);
        free(wait);
    } else if (node->flags & TRI_MSG_TIMER) {
        if (tri_user_timer_arrived(worker, msg)) {
            tri_user_timer_handled(worker, msg);
        }
    } else if (node->kind == TRI_NODE_POISON) {
        tri_msg_free(&worker->cache, msg);
    } else {
        tri_dead(worker, (tr_ref){self.cell, msg->to_id}, msg, reason);
    }
}

void tri_queue_gather(tri_cell *cell)
{
    tri_ext *ext = tri_ext_of(cell);
    tri_unstash(cell);
    if (ext == NULL) {
        return;
    }
    for (int p = 1; p < TRI_PRIORITIES; p++) {
        tri_queue_append(cell, ext->urgent[p]);
        ext->urgent[p] = NULL;
    }
}

/* AC13: whoever called an actor that could not start hears why. */
static void start_failed(tr_ctx *ctx, tr_msg *msg)
{
    tri_ext *ext = tri_ext_of(ctx->cell);
    if (msg->node.flags & TRI_MSG_ASK) {
        tri_answer_error(ctx->worker, msg, ext->failure.err, ext->failure.text);
    } else {
        tri_dead(ctx->worker, tri_cell_ref(ctx->sys, ctx->cell), msg,
                 TR_DEAD_FAILED);
    }
}

/* X30: what a virtual actor has not handled waits for its next life. */
static void drain_virtual(tr_ctx *ctx)
{
    tri_cell *cell = ctx->cell;
    tri_ext *ext = tri_ext_of(cell);
    tr_ref self = tri_cell_ref(ctx->sys, cell);
    bool failed = tri_failed_to_start(cell);
    tri_node *rest = NULL, **last = &rest;

    tri_unstash(cell);
    for (int p = 1; ext != NULL && p < TRI_PRIORITIES; p++) {
        if (ext->urgent[p] != NULL) {
            ext->urgent_last[p]->next = cell->queue;
            cell->queue = ext->urgent[p];
            ext->urgent[p] = NULL;
        }
    }
    for (tri_node *node = cell->queue, *next; node != NULL; node = next) {
        next = node->next;
        if (node->kind != TRI_NODE_USER || (node->flags & TRI_MSG_TIMER)) {
            tri_drain_node(ctx->worker, self, node, TR_DEAD_DRAINED);
        } else if (failed) {
            start_failed(ctx, tri_msg_from(node));
        } else {
            *last = node;
            last = &node->next;
        }
    }
    *last = NULL;
    cell->queue = rest;
}

/* A message that no life will handle, by the strategy. Takes node. */
static void drain_one(tr_ctx *ctx, tri_node *node)
{
    tri_worker *worker = ctx->worker;
    tri_cell *cell = ctx->cell;
    const tri_props *props = cell->props;
    tr_drain how = props != NULL ? props->drain : TR_DRAIN_DEAD_LETTERS;
    tr_msg *msg = tri_msg_from(node);

    if (tri_is_counted(node)) {
        tri_count_again(cell, -1);
    }
    if (!tri_is_counted(node) || how == TR_DRAIN_DEAD_LETTERS ||
        (how == TR_DRAIN_REDIRECT && props->drain_to.cell == 0)) {
        tri_drain_node(worker, tri_cell_ref(ctx->sys, cell), node,
                       TR_DEAD_DRAINED);
    } else if (how == TR_DRAIN_REDIRECT) {
        tri_pass_on(ctx, msg, props->drain_to);
    } else {
        tri_count(&worker->count.dropped);
        tri_answer_error(worker, msg, TR_ESTOPPED, NULL);
    }
}

void tri_drain_requests(tr_ctx *ctx)
{
    tri_cell *cell = ctx->cell;
    if (tri_cell_is_virtual(cell)) {
        return;  // X30
    }
    uint32_t left = 0;
    tri_queue_gather(cell);
    tri_node **link = &cell->queue;
    while (*link != NULL) {
        tri_node *node = *link;
        if (!tri_is_counted(node) ||
            (node->flags & (TRI_MSG_ASK | TRI_MSG_ANSWERED)) != TRI_MSG_ASK) {
            link = &node->next;
            left++;
        } else {
            *link = node->next;
            drain_one(ctx, node);
        }
    }
    // Relaxed: for observers.
    atomic_store_explicit(&cell->queued, left, memory_order_relaxed);
}

void tri_drain(tr_ctx *ctx)
{
    tri_cell *cell = ctx->cell;
    if (tri_cell_is_virtual(cell)) {
        drain_virtual(ctx);
        return;
    }
    tri_queue_gather(cell);
    while (cell->queue != NULL) {
        tri_node *node = cell->queue;
        cell->queue = node->next;
        drain_one(ctx, node);
    }
    // Relaxed: for observers.
    atomic_store_explicit(&cell->queued, 0, memory_order_relaxed);
}
