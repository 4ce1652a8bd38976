/*
 * context.c - what an actor asks about itself: tr_self, tr_parent, tr_name and
 * the like.
 *
 * Invariant: ctx is the context of the running turn, so its worker owns the
 * cell.
 */
#include "core/run/context.h"

#include <stdatomic.h>
#include <stdio.h>

#include "base/check.h"
#include "core/cell/cell.h"
#include "core/cell/ext.h"
#include "core/cell/message.h"
#include "core/system.h"

tr_ref tr_self(tr_ctx *ctx)
{
    TRI_CHECK(ctx->magic == TRI_CTX_MAGIC);
    return tri_cell_ref(ctx->sys, ctx->cell);
}

tr_ref tr_parent(tr_ctx *ctx)
{
    TRI_CHECK(ctx->magic == TRI_CTX_MAGIC);
    tri_cell *parent = tri_cell_parent(ctx->cell);
    return parent != NULL ? tri_cell_ref(ctx->sys, parent) : (tr_ref){0};
}

tr_ref tr_sender(tr_ctx *ctx)
{
    TRI_CHECK(ctx->magic == TRI_CTX_MAGIC);
    uint8_t flags = ctx->msg != NULL ? ctx->msg->item.flags : TRI_MSG_TIMER;
    // The sender of a request of another node is the bus, which has to answer.
    bool is_bus = (flags & TRI_MSG_FOREIGN) && (flags & TRI_MSG_ASK);
    return flags & TRI_MSG_TIMER || is_bus ? (tr_ref){0} : ctx->msg->sender;
}

tr_system *tr_system_of(tr_ctx *ctx)
{
    TRI_CHECK(ctx->magic == TRI_CTX_MAGIC);
    return ctx->sys;
}

const char *tr_name(tr_ctx *ctx)
{
    TRI_CHECK(ctx->magic == TRI_CTX_MAGIC);
    tri_cell *cell = ctx->cell;
    if (cell->name != NULL) {
        return cell->name;
    }
    tri_ext *ext = tri_ext_need(ctx->worker, cell);
    if (ext == NULL) {
        return "$";
    }
    if (ext->own_name[0] == '\0') {
        // Relaxed: the worker owns the cell.
        snprintf(ext->own_name, sizeof(ext->own_name), "$%llx",
                 (unsigned long long)atomic_load_explicit(
                     &cell->id, memory_order_relaxed));
    }
    return ext->own_name;
}

uint32_t tr_incarnation(tr_ctx *ctx)
{
    TRI_CHECK(ctx->magic == TRI_CTX_MAGIC);
    return tri_cell_incarnation(ctx->cell);
}

bool tr_stopping(tr_ctx *ctx)
{
    TRI_CHECK(ctx->magic == TRI_CTX_MAGIC);
    tr_state life = tri_cell_life(ctx->cell);
    // Relaxed: signals that have not been processed yet count as well.
    uint64_t signals =
        atomic_load_explicit(&ctx->cell->signals, memory_order_relaxed);
    return ctx->cancel != TR_OK || life == TR_STATE_STOPPING ||
           (ctx->cell->attention & TRI_ATTENTION_STOP) != 0 ||
           (signals & (TRI_SIG_STOP | TRI_SIG_KILL | TRI_SIG_FORCE)) != 0;
}

const tr_type *tr_msg_type(const tr_msg *msg)
{
    TRI_CHECK(msg != NULL);
    return msg->item.type;
}

const void *tr_msg_payload(const tr_msg *msg)
{
    TRI_CHECK(msg != NULL);
    return msg->payload;
}
