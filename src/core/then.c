/*
 * then.c - requests whose reply is a turn of its own: callbacks and pipes.
 *
 * The asker does not wait: its wait lies in memory, and the reply comes as
 * user mail, in its order. Exactly one turn follows each request, with the
 * reply, an error or the end of its time, unless the incarnation that asked
 * has ended before.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/ask.h"
#include "core/lifecycle.h"

static void ask_later(tr_ctx *ctx, uint8_t kind, tr_ref to, tr_nanos timeout,
                      tr_then_fn then, const tr_type *type, const void *payload)
{
    const tr_context *context = tri_ctx_context(ctx);
    tri_wait *wait = tri_mem_calloc(
        &ctx->sys->mem,
        sizeof(*wait) + (context != NULL ? sizeof(*context) : 0));
    if (wait == NULL || tri_ext_need(ctx->worker, ctx->cell) == NULL) {
        free(wait);
        (tr_panic)(ctx, type->name, "out of memory for a request");
    }
    if (context != NULL) {
        wait->has_context = true;
        memcpy(wait + 1, context, sizeof(*context));
    }
    wait->kind = kind;
    wait->then = then;
    wait->target = to;
    wait->type = type;
    wait->cell = ctx->cell;
    wait->correlation = ++tri_ext_of(ctx->cell)->correlation;
    tri_wait_link(ctx->cell, wait);
    bool is_long;
    tr_nanos deadline = tri_ask_deadline(ctx, timeout, &is_long);
    tr_err err = tri_ask_send(ctx, wait, deadline, is_long, payload);
    if (err == TR_OK) {
        tri_wait_arm(ctx, wait, deadline);
        return;
    }
    // The answer comes as a turn of its own all the same.
    wait->err = err;
    wait->node.kind = TRI_NODE_WAKE;
    bool taken = tri_push_system(ctx->worker, ctx->cell, &wait->node);
    TRI_CHECK(taken);
    wait->woken = true;
}

void(tr_ask_then)(tr_ctx *ctx, tr_ref to, tr_nanos timeout, tr_then_fn then,
                  const tr_type *type, const void *payload)
{
    ask_later(ctx, TRI_WAIT_THEN, to, timeout, then, type, payload);
}

void(tr_ask_pipe)(tr_ctx *ctx, tr_ref to, tr_nanos timeout, const tr_type *type,
                  const void *payload)
{
    ask_later(ctx, TRI_WAIT_PIPE, to, timeout, NULL, type, payload);
}

static void pipe_turn(tr_ctx *ctx, tri_wait *wait, tr_msg *reply, tr_err err,
                      const char *text)
{
    tr_msg *msg = reply;
    if (err != TR_OK) {
        tr_ask_failed failed = {
            .to = wait->target, .err = (uint32_t)err, .text = text};
        msg = tri_msg_new(&ctx->worker->cache, &tr_ask_failed_tr_type, &failed,
                          false);
        if (msg == NULL) {
            tri_handle_on_stack(ctx, &tr_ask_failed_tr_type, &failed,
                                sizeof(failed));
            return;
        }
        msg->sender = wait->target;
    }
    // Relaxed: we own the cell.
    msg->to_id = atomic_load_explicit(&ctx->cell->id, memory_order_relaxed);
    msg->node.kind = TRI_NODE_USER;
    msg->node.flags |= TRI_MSG_ANSWERED;  // a reply is not answered
    tri_handle(ctx, msg);
}

static void then_turn(tr_ctx *ctx, tr_then_fn then, tr_msg *reply, tr_err err)
{
    tri_cell *cell = ctx->cell;
    ctx->kind = TRI_TURN_WRITE;
    ctx->phase = TR_IN_HANDLER;
    ctx->msg = NULL;
    ctx->in_turn = true;
    if (reply != NULL) {  // freed with the turn, whatever happens
        reply->node.next = ctx->replies;
        ctx->replies = &reply->node;
        ctx->flags |= TRI_CTX_REPLIES;
    }
    tr_err result =
        then(ctx, cell->state, err == TR_OK ? reply->payload : NULL, err);
    if (result != TR_OK) {
        tri_life_fail(ctx, result);
    } else {
        tri_turn_end(ctx);
    }
}

/* The wait is over: as a turn. Takes wait and reply. */
void tri_then_turn(tr_ctx *ctx, tri_wait *wait, tr_msg *reply)
{
    if (wait->orphan) {  // of an earlier incarnation
        tri_wait_unlink(ctx->cell, wait);
        free(wait);
        return;
    }
    tr_err err = wait->err != TR_OK ? wait->err
                 : reply == NULL    ? TR_ETIMEDOUT
                                    : TR_OK;
    char text[TRI_SHOWN_MAX] = "";
    if (reply != NULL && (reply->node.flags & TRI_MSG_ERROR)) {
        tri_error_reply *error = (tri_error_reply *)(void *)reply->payload;
        err = error->err;
        snprintf(text, sizeof(text), "%s",
                 error->text != NULL ? error->text : tr_strerror(err));
        tri_msg_free(&ctx->worker->cache, reply);
        reply = NULL;
    } else if (err != TR_OK) {
        snprintf(text, sizeof(text), "%s", tr_strerror(err));
    }
    tri_wait done = *wait;
    if (wait->has_context) {  // the turn goes on where it asked
        tr_context context;
        memcpy(&context, wait + 1, sizeof(context));
        tri_ctx_carry(ctx, &context);
    }
    tri_wait_unlink(ctx->cell, wait);
    free(wait);
    if (done.kind == TRI_WAIT_THEN) {
        then_turn(ctx, done.then, reply, err);
    } else {
        pipe_turn(ctx, &done, reply, err, text);
    }
}

void tri_reply_in_order(tr_ctx *ctx, tr_msg *reply)
{
    tri_worker *worker = ctx->worker;
    tri_wait *wait = tri_wait_find(ctx->cell, tri_msg_ask(reply)->correlation);
    if (wait == NULL || wait->woken) {
        tri_dead(worker, tri_cell_ref(ctx->sys, ctx->cell), reply,
                 TR_DEAD_LATE);
        return;
    }
    if (!tri_disarm_was_armed(ctx->sys, wait) && wait->timer.due != 0) {
        // It timed out just now: the notice is on its way, and it wins.
        tri_dead(worker, tri_cell_ref(ctx->sys, ctx->cell), reply,
                 TR_DEAD_LATE);
        return;
    }
    tri_then_turn(ctx, wait, reply);
}

/* The incarnation ends: nobody waits for these any more. */
void tri_waits_drop(tri_worker *worker, tri_cell *cell)
{
    tri_ext *ext = tri_ext_of(cell);
    for (tri_wait *w = ext->waits, *next; w != NULL; w = next) {
        next = w->next;
        if (!tri_wait_is_detached(w)) {
            continue;
        }
        bool armed = tri_disarm_was_armed(worker->sys, w);
        if (armed || (w->timer.due == 0 && !w->woken)) {
            tri_wait_unlink(cell, w);
            free(w);
        } else {
            w->orphan = true;  // freed when its notice comes out
        }
    }
}
