/*
 * ask.c - requests from a turn: sends one, waits, takes the reply.
 *
 * The asker keeps a tri_wait with a correlation number. The request carries
 * the asker's ref and that number, and the answer carries both back (answer.c,
 * wait.c). tr_ask keeps the wait on its own stack, which does not move while
 * the turn is parked; futures and callbacks allocate it (future.c, then.c).
 *
 * Invariant: a request that was sent has a wait in the list of its asker, or
 * its answer is late and becomes a dead letter.
 */
#include "core/ask/ask.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/world.h"
#include "core/ask/deadlock.h"
#include "core/ask/error_text.h"
#include "core/ask/wait.h"
#include "core/caller.h"
#include "core/cell/cell.h"
#include "core/cell/cell_path.h"
#include "core/cell/message.h"
#include "core/cell/ref.h"
#include "core/life/lifecycle.h"
#include "core/mail/hard_limit.h"
#include "core/mail/send.h"
#include "core/run/clock.h"
#include "core/run/context.h"
#include "core/run/park.h"
#include "core/run/waiting.h"
#include "core/run/worker.h"
#include "core/system.h"

/* tri_ask_deadline, for the fast path of tr_ask. */
static inline __attribute__((always_inline)) tr_nanos
ask_deadline(tr_ctx *ctx, tri_wait *wait, tr_nanos timeout, bool *is_long)
{
    tr_nanos deadline = TR_FOREVER;
    TRI_CHECK_SLOW(ctx->magic == TRI_CTX_MAGIC);
    *is_long = true;
    if (TRI_UNLIKELY(timeout < 0)) {
        return 0;
    }
    if (timeout != TR_FOREVER) {
        tr_nanos span = timeout != 0 ? timeout : ctx->sys->options.ask_timeout;
        *is_long = span >= TRI_LONG_SPAN;
        // The coarse clock is late by up to TRI_CLOCK_LAG: adding that makes
        // a deadline a little late, but never early.
        tri_world *world = ctx->sys->world;
        tr_nanos now;
        if (*is_long && world->ops->mono_coarse != NULL) {
            wait->since = world->ops->mono_coarse(world);
            now = wait->since + TRI_CLOCK_LAG;
        } else {
            now = wait->since = tri_clock(ctx->worker);
        }
        deadline = span >= TR_FOREVER - now ? TR_FOREVER : now + span;
    }
    // The actor that asked this one waits no longer than its own deadline.
    const tr_context *context = tri_ctx_context(ctx);
    if (TRI_UNLIKELY(context != NULL && context->deadline != 0 &&
                     context->deadline < deadline)) {
        *is_long = false;
        return context->deadline > tri_clock(ctx->worker) ? context->deadline
                                                          : 0;
    }
    return deadline;
}

tr_nanos tri_ask_deadline(tr_ctx *ctx, tri_wait *wait, tr_nanos timeout,
                          bool *is_long)
{
    return ask_deadline(ctx, wait, timeout, is_long);
}

tr_err tri_ask_delivery_error(tr_ref to, tr_err err)
{
    // An actor that is ending may have ended a moment later: one error.
    return err == TR_ESTOPPED                            ? TR_EGONE
           : err == TR_EGONE && tri_ref_cell(to) == NULL ? TR_ENOENT
                                                         : err;
}

/*
 * Sends msg as the request of wait. It is not slowed down: an asker waits for
 * its reply anyway. `kind` is that of the wait.
 */
static inline __attribute__((always_inline)) tr_err
send_request(tr_ctx *ctx, const tri_wait *wait, uint32_t kind, tr_msg *msg)
{
    tr_ref to = wait->target;
    TRI_CHECK_SLOW(msg->item.flags & TRI_MSG_ASK);
    if (TRI_UNLIKELY(tri_send_is_special(ctx->sys, to))) {
        tri_caller caller = {.sys = ctx->sys,
                             .worker = ctx->worker,
                             .sender = ctx->self,
                             .admitted = wait->admitted};
        return tri_send_special(&caller, to, msg);
    }
    msg->sender = ctx->self;
    return tri_send_ordinary(kind == TRI_WAIT_REPLY ? TRI_SEND_PARKS : 0,
                             ctx->worker, NULL, to, 0, msg);
}

/* tri_ask_send, for the fast path of tr_ask, which knows the kind of wait. */
static inline __attribute__((always_inline)) tr_err
ask_send(tr_ctx *ctx, const tri_wait *wait, uint32_t kind, tr_nanos deadline,
         bool is_long, const void *payload)
{
    const tr_context *context = tri_ctx_context(ctx);
    TRI_CHECK_SLOW(wait->kind == kind);
    TRI_CHECK_SLOW(wait->type != NULL && wait->correlation != 0);
    tr_msg *msg = TRI_LIKELY(context == NULL)
                      ? tri_ask_new(&ctx->worker->cache, wait->type, payload)
                      : tri_msg_new_with(&ctx->worker->cache, wait->type,
                                         payload, true, context);
    if (msg == NULL) {
        return TR_ENOMEM;
    }
    *tri_msg_ask(msg) =
        (tri_ask){.correlation = wait->correlation,
                  .deadline = deadline,
                  .site = wait->site,
                  .answer_flags =
                      tri_wait_kind_is_detached(kind) ? TRI_ANSWER_IN_ORDER : 0,
                  .is_long = is_long};
    tri_count(&ctx->worker->count.asks);
    tr_err err = send_request(ctx, wait, kind, msg);
    if (TRI_LIKELY(err == TR_OK)) {
        return TR_OK;
    }
    tri_msg_free(&ctx->worker->cache, msg);
    return tri_ask_delivery_error(wait->target, err);
}

tr_err tri_ask_send(tr_ctx *ctx, tri_wait *wait, tr_nanos deadline,
                    bool is_long, const void *payload)
{
    return ask_send(ctx, wait, wait->kind, deadline, is_long, payload);
}

void tri_ask_set_error(tr_ctx *ctx, const tri_wait *wait, tr_err err,
                       const char *text)
{
    char path[TRI_PATH_MAX], room[TRI_ADVICE_MAX];
    TRI_CHECK(wait != NULL);
    ctx->sys->up->ref_path((tr_from){.ctx = ctx}, wait->target, path,
                           sizeof(path));
    tri_cell *cell = tri_ref_cell(wait->target);
    bool here = tri_ref_is_here(ctx->sys, wait->target);
    bool more = text != NULL && strcmp(text, tr_strerror(err)) != 0;
    char reason[TRI_SHOWN_MAX];  // `text` may be the text that is replaced
    snprintf(reason, sizeof(reason), "%s", more ? text : tr_strerror(err));
    char doing[TRI_WAITING_MAX];
    tri_error_set(ctx, "%s of %s at %s: %s%s%s%s (target %s, %u queued%s)",
                  wait->type != NULL ? wait->type->name : "wait", path,
                  wait->site != NULL ? wait->site : "?", tr_strerror(err),
                  more ? ": " : "", more ? text : "",
                  tri_advice(ctx->sys, err, wait->target, room, sizeof(room)),
                  here ? tri_state_name(tri_cell_life(cell)) : "gone",
                  here ? tri_depth(cell) : 0,
                  tri_waiting_text(ctx->sys, err, wait->target, doing));
    tri_error_set_reason(ctx, reason);
}

tr_err tri_ask_take_reply(tr_ctx *ctx, tri_wait *wait, void *out)
{
    tr_msg *reply = wait->reply;
    TRI_CHECK_SLOW(reply != NULL);
    wait->reply = NULL;
    if (reply->item.flags & TRI_MSG_ERROR) {
        tri_error_reply *error = (tri_error_reply *)(void *)reply->payload;
        tr_err err = error->err;
        tri_ask_set_error(ctx, wait, err, error->text);
        if (error->reason_at != 0) {
            tri_error_set_reason(ctx, error->text + error->reason_at);
        }
        tri_msg_free(&ctx->worker->cache, reply);
        return err;
    }
    const tr_type *type = reply->item.type;
    if (wait->type->reply->schema != type->schema) {
        tri_msg_free(&ctx->worker->cache, reply);
        return TR_ESCHEMA;
    }
    if (out != NULL && type->size > 0) {
        tri_copy_payload(out, reply->payload, type->size);
    }
    if (type->var_count > 0) {  // rule 15 (text in an answer)
        reply->item.next = ctx->replies;
        ctx->replies = &reply->item;
        ctx->flags |= TRI_CTX_REPLIES;
    } else {
        tri_msg_free(&ctx->worker->cache, reply);
    }
    return TR_OK;
}

void tri_ask_drop_reply(tr_ctx *ctx, tri_wait *wait)
{
    TRI_CHECK_SLOW(ctx->magic == TRI_CTX_MAGIC);
    if (wait->reply != NULL) {
        tri_dead(ctx->worker, tri_cell_ref(ctx->sys, ctx->cell), wait->reply,
                 TR_DEAD_LATE);
        wait->reply = NULL;
    }
}

void tri_ask_zero_out(void *out, const tr_type *type)
{
    if (out != NULL && type->reply != NULL) {
        memset(out, 0, type->reply->size);
    }
}

/*
 * Zeroes *wait in pieces: for the whole struct the compiler takes a string
 * instruction, which is slower.
 */
static inline void wait_clear(tri_wait *wait)
{
    enum { PIECE = 64, REST = sizeof(*wait) % PIECE };
    _Static_assert(sizeof(*wait) / PIECE == 3, "as many pieces as below");
    char *at = (char *)wait;
    memset(at, 0, PIECE);
    memset(at + PIECE, 0, PIECE);
    memset(at + 2 * PIECE, 0, PIECE);
    memset(at + 3 * PIECE, 0, REST);
}

/*
 * Parks the turn until the full mailbox of the target has room, then sends the
 * request of wait. Errors: TR_EFULL (the mailbox does not block its senders),
 * and those of tri_hard_limit_admit and tri_ask_send.
 */
static __attribute__((noinline)) tr_err
send_when_there_is_room(tr_ctx *ctx, tri_wait *wait, tr_nanos deadline,
                        bool is_long, const void *payload)
{
    tri_cell *cell = tri_ref_cell(wait->target);
    tri_caller caller = {.sys = ctx->sys,
                         .worker = ctx->worker,
                         .ctx = ctx,
                         .deadline = deadline};
    TRI_CHECK(cell != NULL);
    if (!tri_hard_limit_blocks(cell)) {
        return TR_EFULL;
    }
    tri_edge_end(ctx, wait);  // the wait for room has an edge of its own
    tr_err err = tri_hard_limit_admit(&caller, cell, wait->target);
    if (err != TR_OK) {
        return tri_ask_delivery_error(wait->target, err);
    }
    err = wait->done ? wait->err : tri_edge_begin(ctx, wait);
    if (err == TR_OK) {
        wait->admitted = true;
        return tri_ask_send(ctx, wait, deadline, is_long, payload);
    }
    tri_hard_limit_unadmit(cell);
    return err;
}

/* tri_ask_inside, except that *out stays as it is on error. */
static inline __attribute__((always_inline)) tr_err
ask(tr_ctx *ctx, tr_ref to, void *out, tr_nanos timeout, const tr_type *type,
    const void *payload, const char *site)
{
    TRI_CHECK_SLOW(ctx->magic == TRI_CTX_MAGIC);
    if (!tri_can_park(ctx)) {
        return TR_EWOULDBLOCK;
    }
    if (ctx->cancel != TR_OK) {
        return ctx->cancel;
    }
    tri_wait wait;
    wait_clear(&wait);
    wait.kind = TRI_WAIT_REPLY;
    wait.target = to;
    wait.type = type;
    wait.call = "tr_ask";
    wait.site = site;
    bool is_long;
    tr_nanos deadline = ask_deadline(ctx, &wait, timeout, &is_long);
    if (TRI_UNLIKELY(deadline == 0)) {
        tri_ask_set_error(ctx, &wait, TR_ETIMEDOUT, NULL);
        return TR_ETIMEDOUT;
    }
    TR_TRY(tri_wait_begin(ctx, &wait, deadline));
    tr_err err = tri_edge_begin(ctx, &wait);
    if (err == TR_OK) {
        err = ask_send(ctx, &wait, TRI_WAIT_REPLY, deadline, is_long, payload);
        if (TRI_UNLIKELY(err == TR_EFULL)) {
            err =
                send_when_there_is_room(ctx, &wait, deadline, is_long, payload);
        }
        if (err == TR_OK) {
            err = tri_park(ctx, &wait);
        }
        if (wait.reply == NULL && err != TR_OK) {
            // TR_EDEADLOCK: whoever found the cycle has set the text.
            tri_ask_set_error(ctx, &wait, err,
                              err == TR_EDEADLOCK ? ctx->fail_text : NULL);
        }
        tri_edge_end(ctx, &wait);
    }
    tri_wait_finish(ctx, &wait);
    if (err == TR_OK && wait.reply != NULL) {
        return tri_ask_take_reply(ctx, &wait, out);
    }
    tri_ask_drop_reply(ctx, &wait);
    return err;
}

tr_err tri_ask_inside(tr_ctx *ctx, tr_ref to, void *out, tr_nanos timeout,
                      const tr_type *type, const void *payload,
                      const char *site)
{
    tr_err err = ask(ctx, to, out, timeout, type, payload, site);
    if (TRI_UNLIKELY(err != TR_OK)) {
        tri_ask_zero_out(out, type);
    }
    return err;
}
