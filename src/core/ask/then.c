/*
 * then.c - requests whose reply is a turn of its own: callbacks and pipes.
 *
 * The asker does not park. Its wait is allocated, and the reply comes through
 * the user lane, behind the messages that are queued.
 *
 * Invariant: exactly one turn follows each request, with the reply, an error
 * or TR_ETIMEDOUT, unless the incarnation that asked has ended before (rule
 * 17, callbacks). The wait ends once: by the reply if its timer could be
 * disarmed, else by the notice of the timer.
 */
#include "core/ask/then.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "core/ask/ask.h"
#include "core/ask/wait.h"
#include "core/cell/cell.h"
#include "core/cell/cell_path.h"
#include "core/cell/ext.h"
#include "core/cell/mem.h"
#include "core/cell/message.h"
#include "core/life/failure.h"
#include "core/mail/push.h"
#include "core/mail/send.h"
#include "core/run/context.h"
#include "core/run/handle.h"
#include "core/run/timer.h"
#include "core/run/worker.h"
#include "core/system.h"

/*
 * Sends a request whose callback, if it has one, is in `how`; panics without
 * memory.
 */
static void ask_then(tr_ctx *ctx, const tri_wait *how, tr_ref to,
                     tr_nanos timeout, const tr_type *type, const void *payload)
{
    const tr_context *context = tri_ctx_context(ctx);
    TRI_CHECK(tri_wait_is_detached(how));
    if (type == NULL || (how->kind == TRI_WAIT_THEN && how->then.fn == NULL &&
                         how->then.fn_with == NULL)) {
        tri_misuse(ctx,
                   how->kind == TRI_WAIT_PIPE ? "tr_ask_pipe" : "tr_ask_then",
                   type == NULL ? "the type is NULL" : "the callback is NULL");
    }
    tri_wait *wait = tri_mem_calloc(
        &ctx->sys->mem,
        sizeof(*wait) + (context != NULL ? sizeof(*context) : 0));
    if (wait == NULL || tri_ext_need(ctx->worker, ctx->cell) == NULL) {
        free(wait);
        (tr_panic)(ctx, type->name, "out of memory for a request");
    }
    *wait = *how;
    if (context != NULL) {
        wait->then.has_context = true;
        memcpy(wait + 1, context, sizeof(*context));
    }
    wait->target = to;
    wait->type = type;
    wait->cell = ctx->cell;
    wait->correlation = ++tri_ext_of(ctx->cell)->waits.correlation;
    tri_wait_link(ctx->cell, wait);
    bool is_long;
    tr_nanos deadline = tri_ask_deadline(ctx, wait, timeout, &is_long);
    tr_err err = deadline == 0
                     ? TR_ETIMEDOUT
                     : tri_ask_send(ctx, wait, deadline, is_long, payload);
    if (err == TR_OK) {
        tri_wait_arm(ctx, wait, deadline);
        return;
    }
    // The error comes as a turn of its own, too.
    wait->err = err;
    wait->item.kind = TRI_ITEM_WAKE;
    bool taken = tri_push_system(ctx->worker, ctx->cell, &wait->item);
    TRI_CHECK(taken);
    wait->then.woken = true;
}

void(tr_ask_then)(tr_ctx *ctx, tr_ref to, tr_nanos timeout, tr_then_fn then,
                  const tr_type *type, const void *payload)
{
    tri_wait how = {.kind = TRI_WAIT_THEN, .then.fn = then};
    ask_then(ctx, &how, to, timeout, type, payload);
}

void(tr_ask_then_with)(tr_ctx *ctx, tr_ref to, tr_nanos timeout,
                       tr_then_with_fn then, void *user, const tr_type *type,
                       const void *payload)
{
    tri_wait how = {.kind = TRI_WAIT_THEN,
                    .then = {.fn_with = then, .user = user}};
    ask_then(ctx, &how, to, timeout, type, payload);
}

void(tr_ask_pipe)(tr_ctx *ctx, tr_ref to, tr_nanos timeout, const tr_type *type,
                  const void *payload)
{
    tri_wait how = {.kind = TRI_WAIT_PIPE};
    ask_then(ctx, &how, to, timeout, type, payload);
}

/* Handles the reply, or tr_ask_failed, like a message. Takes reply. */
static void pipe_turn(tr_ctx *ctx, tri_wait *wait, tr_msg *reply, tr_err err,
                      const char *text)
{
    tr_msg *msg = reply;
    TRI_CHECK(err != TR_OK || reply != NULL);
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
    msg->item.kind = TRI_ITEM_USER;
    msg->item.flags |= TRI_MSG_ANSWERED;  // nobody answers a reply
    tri_handle(ctx, msg);
}

/* Calls the callback with the reply or the error. Takes reply. */
static void then_turn(tr_ctx *ctx, const tri_wait *wait, tr_msg *reply,
                      tr_err err)
{
    tri_cell *cell = ctx->cell;
    TRI_CHECK(err != TR_OK || reply != NULL);
    ctx->kind = TRI_TURN_WRITE;
    ctx->phase = TR_IN_HANDLER;
    ctx->msg = NULL;
    ctx->in_turn = true;
    if (reply != NULL) {  // the end of the turn frees it
        reply->item.next = ctx->replies;
        ctx->replies = &reply->item;
        ctx->flags |= TRI_CTX_REPLIES;
    }
    const void *value = err == TR_OK ? reply->payload : NULL;
    tr_err result =
        wait->then.fn != NULL
            ? wait->then.fn(ctx, cell->state, value, err)
            : wait->then.fn_with(ctx, cell->state, value, err, wait->then.user);
    if (result != TR_OK) {
        tri_life_fail(ctx, result);
    } else {
        tri_turn_end(ctx);
    }
}

void tri_then_turn(tr_ctx *ctx, tri_wait *wait, tr_msg *reply)
{
    TRI_CHECK(tri_wait_is_detached(wait));
    if (wait->orphan) {  // of an earlier incarnation
        tri_wait_unlink(wait);
        free(wait);
        return;
    }
    tr_err err = wait->err != TR_OK ? wait->err
                 : reply == NULL    ? TR_ETIMEDOUT
                                    : TR_OK;
    char text[TRI_SHOWN_MAX] = "";
    if (reply != NULL && (reply->item.flags & TRI_MSG_ERROR)) {
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
    if (wait->then.has_context) {  // the context of the turn that asked
        tr_context context;
        memcpy(&context, wait + 1, sizeof(context));
        tri_ctx_set_context(ctx, &context);
    }
    tri_wait_unlink(wait);
    free(wait);
    if (done.kind == TRI_WAIT_THEN) {
        then_turn(ctx, &done, reply, err);
    } else {
        pipe_turn(ctx, &done, reply, err, text);
    }
}

void tri_then_reply(tr_ctx *ctx, tr_msg *reply)
{
    tri_worker *worker = ctx->worker;
    TRI_CHECK(reply->item.kind == TRI_ITEM_REPLY);
    tri_wait *wait = tri_wait_find(ctx->cell, tri_msg_ask(reply)->correlation);
    if (wait == NULL || wait->then.woken) {
        tri_dead(worker, tri_cell_ref(ctx->sys, ctx->cell), reply,
                 TR_DEAD_LATE);
        return;
    }
    if (!tri_disarm_was_armed(ctx->sys, wait) && wait->timer.due != 0) {
        // The timer has fired: its notice is on its way and ends the wait.
        tri_dead(worker, tri_cell_ref(ctx->sys, ctx->cell), reply,
                 TR_DEAD_LATE);
        return;
    }
    tri_then_turn(ctx, wait, reply);
}

void tri_then_drop_all(tri_worker *worker, tri_cell *cell)
{
    tri_ext *ext = tri_ext_of(cell);
    TRI_CHECK_SLOW(tri_cell_is_owned(cell));
    TRI_CHECK(ext != NULL);
    TRI_LIST_EACH_SAFE (link, &ext->waits.list) {
        tri_wait *w = tri_list_item(link, tri_wait, link);
        if (!tri_wait_is_detached(w)) {
            continue;
        }
        bool armed = tri_disarm_was_armed(worker->sys, w);
        if (armed || (w->timer.due == 0 && !w->then.woken)) {
            tri_wait_unlink(w);
            free(w);
        } else {
            w->orphan = true;  // its notice is in the mailbox and frees it
        }
    }
}
