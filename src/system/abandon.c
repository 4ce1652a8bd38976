/*
 * abandon.c - the end of a system whose process has died.
 *
 * Only for systems that a world steps: the simulator kills a node. No hook
 * and no handler runs any more; stacks of parked turns are given back as they
 * stand. Threads outside that wait for an answer of this system get
 * TR_ECLOSED by waking up to a closed mailbox. Memory the program holds is
 * given back: the actors' heaps, and what their closers close.
 */
#include <stdlib.h>

#include "core/mailbox.h"
#include "system/layers.h"

static void free_nodes(tri_worker *worker, tri_node *node)
{
    while (node != NULL) {
        tri_node *next = node->next;
        switch (node->kind) {
        case TRI_NODE_USER:
        case TRI_NODE_REPLY:
        case TRI_NODE_POISON:
            if (!(node->flags & TRI_MSG_TIMER)) {
                tri_msg_free(&worker->cache, tri_msg_from(node));
            }
            break;
        case TRI_NODE_WATCH:
        case TRI_NODE_WATCH_FOR:
        case TRI_NODE_UNWATCH_FOR:
        case TRI_NODE_UNWATCH:
        case TRI_NODE_TERMINATED:
            free(node);
            break;
        case TRI_NODE_JOIN:
            tri_join_abandon((tri_join *)(void *)node);
            break;
        default:
            break;  // FAILURE and WAKE are parts of something else
        }
        node = next;
    }
}

/* A turn that will never go on. */
static void free_turn(tri_worker *worker, tr_ctx *ctx)
{
    tri_fiber *fiber = ctx->fiber;
    if (ctx->msg != NULL && !(ctx->flags & TRI_CTX_MSG_GONE) &&
        !(ctx->msg->node.flags & TRI_MSG_TIMER)) {
        tri_msg_free(&worker->cache, ctx->msg);
    }
    while (ctx->replies != NULL) {
        tri_node *next = ctx->replies->next;
        tri_msg_free(&worker->cache, tri_msg_from(ctx->replies));
        ctx->replies = next;
    }
    while (ctx->scratch != NULL) {
        tri_scratch *next = ctx->scratch->next;
        tri_scratch_free(ctx->scratch);
        ctx->scratch = next;
    }
    free(ctx->fail_text);
    tri_fiber_give(&worker->fibers, fiber);
}

static void free_waits(tri_worker *worker, tri_ext *ext)
{
    for (tri_wait *w = ext->waits, *next; w != NULL; w = next) {
        next = w->next;
        if (w->reply != NULL) {
            tri_msg_free(&worker->cache, w->reply);
        }
        if (w->join != NULL) {
            tri_join_abandon(w->join);
        }
        if (w->kind == TRI_WAIT_FUTURE || w->kind == TRI_WAIT_THEN ||
            w->kind == TRI_WAIT_PIPE) {
            free(w);
        }
    }
}

static void free_ext(tri_worker *worker, tri_cell *cell, tri_ext *ext)
{
    free_waits(worker, ext);
    for (tr_ctx *ctx = ext->parked, *next; ctx != NULL; ctx = next) {
        next = ctx->next;
        free_turn(worker, ctx);
    }
    ext->parked = NULL;
    ext->blocked = NULL;
    for (tri_watch *w = ext->watchers, *next; w != NULL; w = next) {
        next = w->next;
        free(w);
    }
    tri_watching *watching;
    for (tri_map_iter it = tri_map_iter_begin(&ext->watching);
         (watching = tri_map_iter_next(&ext->watching, &it)) != NULL;) {
        free(watching);
    }
    while (ext->joins != NULL) {
        tri_join *next = ext->joins->next;
        tri_join_abandon(ext->joins);
        ext->joins = next;
    }
    free_nodes(worker, ext->pending);
    free_nodes(worker, ext->kept);
    free_nodes(worker, ext->stash);
    for (int p = 0; p < TRI_PRIORITIES; p++) {
        free_nodes(worker, ext->urgent[p]);
    }
    while (ext->timers != NULL) {
        tri_user_timer *timer = ext->timers;
        ext->timers = timer->next;
        timer->msg->node.flags &= (uint8_t)~TRI_MSG_TIMER;
        tri_msg_free(&worker->cache, timer->msg);
        free(timer);
    }
    tri_heap_release(worker, cell);
    free(ext->failure.text);
    if (ext->failure.msg != NULL) {
        tri_msg_free(&worker->cache, ext->failure.msg);
    }
}

static void free_tree(tri_worker *worker, tri_cell *cell)
{
    // Relaxed, all: the only thread.
    tri_ext *ext = tri_ext_of(cell);
    for (tri_cell *child = ext != NULL ? ext->first_child : NULL, *next;
         child != NULL; child = next) {
        next = child->sibling_next;
        free_tree(worker, child);
    }
    uintptr_t mail = atomic_load_explicit(&cell->mail, memory_order_relaxed);
    uintptr_t sys = atomic_load_explicit(&cell->sys_mail, memory_order_relaxed);
    // Waits on the stacks below hold nodes too: lanes first.
    free_nodes(worker, tri_mail_newest(mail));
    free_nodes(worker, (tri_node *)(sys & ~TRI_SYS_BITS));
    free_nodes(worker, cell->queue);
    if (ext != NULL) {
        free_ext(worker, cell, ext);
        tri_map_fini(&ext->watching);
        tri_map_fini(&ext->names);
    }
    tri_state_free(worker, cell);
    if (!tri_cell_is_virtual(cell)) {
        free((void *)(uintptr_t)cell->name);
    }
    tri_props_drop(cell->props);
}

void tri_system_abandon(tr_system *sys)
{
    TRI_CHECK(sys->magic == TRI_SYSTEM_MAGIC);
    TRI_CHECK(sys->driven_worker != NULL);
    tri_boxes_drive_out(sys);
    if (sys->root != NULL) {
        free_tree(sys->driven_worker, sys->root);
    }
    tri_hooks_free(sys);
    tri_io_close(sys);
    tri_system_free(sys);
}
