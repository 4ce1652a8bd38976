/*
 * answer.c - answers a request with a value, an error or a refusal.
 *
 * An answer carries the asker's ref and the correlation number of its wait,
 * like the request; the asker's side finds out whether a turn still waits
 * (wait.c). tri_answer_error turns the block of the request into the answer,
 * so it needs no memory.
 *
 * Invariant: a request is answered once, because each answer marks it
 * TRI_MSG_ANSWERED or takes it (rule 11 (one answer)).
 */
#include "core/ask/answer.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "core/ask/deadlock.h"
#include "core/ask/error_text.h"
#include "core/caller.h"
#include "core/cell/cell.h"
#include "core/cell/cell_path.h"
#include "core/cell/message.h"
#include "core/cell/ref.h"
#include "core/life/failure.h"
#include "core/mail/push.h"
#include "core/mail/send.h"
#include "core/run/context.h"
#include "core/run/worker.h"
#include "core/system.h"
#include "core/up.h"

enum {
    REFUSED_MAX = 1024,    // text of tr_refuse_with
    EXPRESSION_MAX = 160,  // the expression in it
};

tr_msg *tri_msg_given_slow(tr_ctx *ctx, const void *m, const char *call)
{
    TRI_CHECK(ctx->magic == TRI_CTX_MAGIC);
    if (m == NULL) {
        tri_misuse(ctx, call, "m is NULL");
    }
    tr_msg *msg = tri_msg_of(m);
    // Relaxed: the turn owns the cell. Of a copy, the bytes in front of it are
    // read; that they are equal to the id, which is unique, is next to
    // impossible.
    if (((uintptr_t)msg & (TRI_BLOCK_ALIGN - 1)) != 0 ||
        msg->to_id !=
            atomic_load_explicit(&ctx->cell->id, memory_order_relaxed) ||
        msg->item.kind > TRI_ITEM_REPLY || msg->item.kind == 0) {
        tri_misuse(ctx, call,
                   "m is not the message of this handler, nor one of tr_keep; "
                   "a copy of a message cannot be answered or kept");
    }
    return msg;
}

/* Pushes an answer as system mail. Returns false if the lane is closed. */
static bool push_answer(tri_worker *worker, tri_cell *cell, tr_msg *answer)
{
    tri_edge_answered(cell, tri_msg_ask(answer)->correlation);
    return tri_push_reply(worker, cell, answer);
}

/*
 * Pushes an answer that tri_up.answers observes. Out of line, because few
 * answers are observed.
 */
__attribute__((noinline)) static bool push_observed(tri_worker *worker,
                                                    tri_cell *cell, tr_ref to,
                                                    tr_msg *answer,
                                                    uint8_t flags)
{
    TRI_CHECK(flags & TRI_ANSWER_OBSERVED);
    const tri_up *up = worker->sys->up;
    if (up->answers != NULL) {
        up->answers(worker, to, answer);
    }
    return flags & TRI_ANSWER_IN_ORDER
               ? tri_push(worker, cell, to.id, answer) == TR_OK
               : push_answer(worker, cell, answer);
}

/* Sends an answer to the asker `to`; a late one is a dead letter. Takes it. */
static void send_answer(tri_worker *worker, tr_ref to, tr_msg *answer,
                        uint8_t flags)
{
    tri_cell *cell = tri_ref_cell(to);
    answer->to_id = to.id;
    answer->item.kind = TRI_ITEM_REPLY;
    TRI_CHECK_SLOW(answer->item.flags & TRI_MSG_ASK);
    if (tri_ref_is_here(worker->sys, to)) {
        // Relaxed: saves a push in vain; the receiver compares to_id.
        if (atomic_load_explicit(&cell->id, memory_order_relaxed) == to.id) {
            if (TRI_LIKELY(flags == 0) ? push_answer(worker, cell, answer)
                : flags == TRI_ANSWER_IN_ORDER
                    ? tri_push(worker, cell, to.id, answer) == TR_OK
                    : push_observed(worker, cell, to, answer, flags)) {
                return;
            }
        }
    }
    tri_dead(worker, to, answer, TR_DEAD_LATE);
}

void tri_answer_error(tri_worker *worker, tr_msg *msg, tr_err err,
                      const char *text)
{
    TRI_CHECK(msg != NULL);
    if (!(msg->item.flags & TRI_MSG_ASK) ||
        (msg->item.flags & (TRI_MSG_ANSWERED | TRI_MSG_ERROR))) {
        tri_msg_free(&worker->cache, msg);
        return;
    }
    tr_ref asker = msg->sender;
    uint8_t flags = tri_msg_ask(msg)->answer_flags;
    if (tri_msg_ask(msg)->refused != TR_OK) {
        err = tri_msg_ask(msg)->refused;  // earlier, without memory
        text = NULL;
    }
    tri_msg_become_error(msg, err, text != NULL ? strdup(text) : NULL);
    send_answer(worker, asker, msg, flags);
}

/* Returns both texts one behind the other, from malloc; NULL: no memory. */
static char *text_with_reason(const char *text, const char *reason)
{
    size_t size = strlen(text) + 1, reason_size = strlen(reason) + 1;
    char *both = malloc(size + reason_size);
    if (both != NULL) {
        memcpy(both, text, size);
        memcpy(both + size, reason, reason_size);
    }
    return both;
}

/*
 * Answers a request with an error; msg stays the caller's. text may be NULL;
 * reason is NULL or the part of text that is for people.
 */
static void answer_error_borrow(tri_worker *worker, tr_msg *msg, tr_err err,
                                const char *text, const char *reason)
{
    TRI_CHECK((msg->item.flags & TRI_MSG_ANSWERED) == 0);
    tr_msg *answer =
        tri_msg_new_raw(&worker->cache, NULL, sizeof(tri_error_reply), true);
    if (answer == NULL) {
        // The request itself becomes the answer when its turn ends or it is
        // released: tri_answer_error.
        tri_msg_ask(msg)->refused = err;
        return;
    }
    *tri_msg_ask(answer) = *tri_msg_ask(msg);
    char *copy = text == NULL     ? NULL
                 : reason != NULL ? text_with_reason(text, reason)
                                  : strdup(text);
    tri_msg_become_error(answer, err, copy);
    if (copy != NULL && reason != NULL) {
        ((tri_error_reply *)(void *)answer->payload)->reason_at =
            (uint32_t)strlen(text) + 1;
    }
    msg->item.flags |= TRI_MSG_ANSWERED;
    answer->sender = (tr_ref){0};
    send_answer(worker, msg->sender, answer, tri_msg_ask(msg)->answer_flags);
}

void tri_answer_error_borrow(tri_worker *worker, tr_msg *msg, tr_err err,
                             const char *text)
{
    answer_error_borrow(worker, msg, err, text, NULL);
}

/*
 * Answers a request as `self`; msg stays the caller's. `ctx` is the turn, for
 * the error text, or NULL. Errors: those of tr_reply.
 */
static inline __attribute__((always_inline)) tr_err
answer_borrow(tri_worker *worker, tr_ctx *ctx, tr_ref self, tr_msg *msg,
              const void *payload)
{
    const tr_type *type = msg->item.type->reply;
    if (type == NULL) {
        tri_misuse(ctx, "tr_reply", "m is not a request: it has no reply type");
    }
    if (!(msg->item.flags & TRI_MSG_ASK)) {
        return TR_OK;  // a message of tr_tell: nobody waits
    }
    if ((msg->item.flags & TRI_MSG_ANSWERED) ||
        tri_msg_ask(msg)->refused != TR_OK) {
        tri_error_set(ctx,
                      "%s has been answered already: by an earlier tr_reply, "
                      "or when its handler returned without tr_keep",
                      msg->item.type->name);
        return TR_EEXIST;
    }
    tr_msg *answer = tri_ask_new(&worker->cache, type, payload);
    if (answer == NULL) {
        return TR_ENOMEM;
    }
    const tri_ask *ask = tri_msg_ask(msg);
    *tri_msg_ask(answer) = *ask;
    answer->item.flags |= TRI_MSG_ANSWERED;  // nobody answers an answer
    answer->sender = self;
    msg->item.flags |= TRI_MSG_ANSWERED;
    send_answer(worker, msg->sender, answer, ask->answer_flags);
    return TR_OK;
}

tr_err(tr_reply)(tr_ctx *ctx, const void *m, const void *payload)
{
    return answer_borrow(ctx->worker, ctx, tri_cell_ref(ctx->sys, ctx->cell),
                         tri_msg_given(ctx, m, "tr_reply"), payload);
}

tr_err tri_answer_borrow(tri_worker *worker, tr_msg *msg, tr_ref from,
                         const void *payload)
{
    TRI_CHECK(msg != NULL);
    return answer_borrow(worker, NULL, from, msg, payload);
}

void tri_answer_value(tri_worker *worker, tr_msg *msg, tr_ref from,
                      const void *payload)
{
    const tri_ask *ask = tri_msg_ask(msg);
    TRI_CHECK(msg->item.type->reply != NULL);
    tr_msg *answer =
        tri_msg_new(&worker->cache, msg->item.type->reply, payload, true);
    if (answer == NULL) {
        tri_answer_error(worker, msg, TR_ENOMEM, NULL);
        return;
    }
    *tri_msg_ask(answer) = *ask;
    answer->item.flags |= TRI_MSG_ANSWERED;
    answer->sender = from;
    send_answer(worker, msg->sender, answer, ask->answer_flags);
    tri_msg_free(&worker->cache, msg);
}

/* True if msg is a request that waits for its answer. */
static bool is_open_request(tr_msg *msg)
{
    return (msg->item.flags & (TRI_MSG_ASK | TRI_MSG_ANSWERED)) ==
               TRI_MSG_ASK &&
           tri_msg_ask(msg)->refused == TR_OK;
}

tr_err tr_refuse(tr_ctx *ctx, const void *m, tr_err err, const char *format,
                 ...)
{
    tr_msg *msg = tri_msg_given(ctx, m, "tr_refuse");
    TRI_CHECK(ctx->magic == TRI_CTX_MAGIC);
    if (!is_open_request(msg)) {
        return TR_OK;
    }
    char text[TRI_SHOWN_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    tri_answer_error_borrow(ctx->worker, msg, tri_user_err(err), text);
    return TR_OK;
}

/*
 * True if the expression is the name of a variable. Its error happened before
 * tr_refuse_with, so the turn's text belongs to it although it is older than
 * the mark.
 */
static bool is_name(const char *expression)
{
    return expression[strspn(expression, "abcdefghijklmnopqrstuvwxyz"
                                         "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                         "0123456789_")] == '\0';
}

tr_err tr_refuse_with(tr_ctx *ctx, const void *m, tr_err err, uint32_t mark,
                      const char *expression)
{
    tr_msg *msg = tri_msg_given(ctx, m, "tr_refuse");
    TRI_CHECK(ctx->magic == TRI_CTX_MAGIC);
    if (!is_open_request(msg)) {
        return TR_OK;
    }
    bool is_new = ctx->texts != mark || is_name(expression);
    const char *why = is_new ? ctx->fail_text : NULL;
    tr_err answered = tri_user_err(err);
    char text[REFUSED_MAX];
    tri_text out;
    tri_text_init(&out, text, sizeof(text));
    size_t length = strlen(expression);
    tri_text_add(&out, "%.*s%s", EXPRESSION_MAX, expression,
                 length > EXPRESSION_MAX ? "..." : "");
    if (answered != err) {  // the asker gets another code: name this one
        tri_text_add(&out, ": %s: %s", tr_errname(err), tr_strerror(err));
    }
    if (why != NULL) {
        tri_text_add(&out, ": %s", why);
    }
    const char *reason = why == NULL                ? tr_strerror(err)
                         : ctx->fail_reason != NULL ? ctx->fail_reason
                                                    : why;
    answer_error_borrow(ctx->worker, msg, answered, text, reason);
    return TR_OK;
}

tr_err tri_forward(tr_ctx *ctx, tr_msg *msg, tr_ref to)
{
    TRI_CHECK(ctx->magic == TRI_CTX_MAGIC);
    if (msg->item.flags & TRI_MSG_ASK) {
        TR_TRY(tri_edge_move(ctx, msg, to));
    }
    // No ctx: an actor that forwards is not slowed down.
    tri_caller caller = {
        .sys = ctx->sys, .worker = ctx->worker, .sender = msg->sender};
    tri_send(&caller, to, msg);
    return TR_OK;
}
