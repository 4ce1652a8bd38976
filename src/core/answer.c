/*
 * answer.c - answers: a value, an error, a refusal.
 *
 * An answer carries the asker's ref and the number of its wait, as its request
 * did; whether somebody still waits is for the asker's side to see (wait.c). A
 * request is answered once: who answers marks it. One that must be answered
 * with an error becomes that answer: its own block is used, so it cannot fail.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "core/lifecycle.h"
#include "core/mailbox.h"

/* Of the text of a refusal with its cause: all, and of the expression. */
enum { REFUSED_MAX = 1024, EXPRESSION_MAX = 160 };

static bool push_answer(tri_worker *worker, tri_cell *cell, tr_msg *answer)
{
    tri_edge_answered(cell, tri_msg_ask(answer)->correlation);
    return tri_push_reply(worker, cell, answer);
}

/* Somebody looks. Apart, so that all others pay nothing for it. */
__attribute__((noinline)) static bool push_told(tri_worker *worker,
                                                tri_cell *cell, tr_ref to,
                                                tr_msg *answer, uint8_t way)
{
    const tri_up *up = worker->sys->up;
    if (up->answers != NULL) {
        up->answers(worker, to, answer);
    }
    return way & TRI_WAY_USER_LANE
               ? tri_push(worker, cell, to.id, answer) == TR_OK
               : push_answer(worker, cell, answer);
}

static void send_answer(tri_worker *worker, tr_ref to, tr_msg *answer,
                        uint8_t way)
{
    tr_system *sys = worker->sys;
    tri_cell *cell = tri_ref_cell(to);
    answer->to_id = to.id;
    answer->node.kind = TRI_NODE_REPLY;
    if ((to.cell >> 48) == sys->tag) {
        // Relaxed: a glance; the receiver compares to_id.
        if (atomic_load_explicit(&cell->id, memory_order_relaxed) == to.id) {
            if (TRI_LIKELY(way == 0) ? push_answer(worker, cell, answer)
                : way == TRI_WAY_USER_LANE
                    ? tri_push(worker, cell, to.id, answer) == TR_OK
                    : push_told(worker, cell, to, answer, way)) {
                return;
            }
        }
    }
    tri_dead(worker, to, answer, TR_DEAD_LATE);
}

void tri_answer_error(tri_worker *worker, tr_msg *msg, tr_err err,
                      const char *text)
{
    if (!(msg->node.flags & TRI_MSG_ASK) ||
        (msg->node.flags & (TRI_MSG_ANSWERED | TRI_MSG_ERROR))) {
        tri_msg_free(&worker->cache, msg);
        return;
    }
    tr_ref asker = msg->sender;
    uint8_t way = tri_msg_ask(msg)->way;
    tri_msg_become_error(msg, err, text != NULL ? strdup(text) : NULL);
    send_answer(worker, asker, msg, way);
}

void tri_answer_copy(tri_worker *worker, tr_msg *msg, tr_err err,
                     const char *text)
{
    tr_msg *answer =
        tri_msg_new_raw(&worker->cache, NULL, sizeof(tri_error_reply), true);
    if (answer == NULL) {
        return;  // the request itself will answer when it is freed
    }
    *tri_msg_ask(answer) = *tri_msg_ask(msg);
    tri_msg_become_error(answer, err, text != NULL ? strdup(text) : NULL);
    msg->node.flags |= TRI_MSG_ANSWERED;
    answer->sender = (tr_ref){0};
    send_answer(worker, msg->sender, answer, tri_msg_ask(msg)->way);
}

tr_err(tr_reply)(tr_ctx *ctx, const void *m, const void *payload)
{
    tr_msg *msg = tri_msg_of(m);
    const tr_type *type = msg->node.type->reply;
    TRI_CHECK(type != NULL);
    if (!(msg->node.flags & TRI_MSG_ASK)) {
        return TR_OK;  // told, not asked: nobody waits (T10)
    }
    if (msg->node.flags & TRI_MSG_ANSWERED) {
        tri_error_set(ctx,
                      "%s has been answered already: by an earlier tr_reply, "
                      "or when its handler returned without tr_keep",
                      msg->node.type->name);
        return TR_EEXIST;
    }
    tr_msg *answer = tri_ask_new(&ctx->worker->cache, type, payload);
    if (answer == NULL) {
        return TR_ENOMEM;
    }
    const tri_ask *ask = tri_msg_ask(msg);
    *tri_msg_ask(answer) = *ask;
    answer->node.flags |= TRI_MSG_ANSWERED;  // is never answered itself
    answer->sender = tri_cell_ref(ctx->sys, ctx->cell);
    msg->node.flags |= TRI_MSG_ANSWERED;
    send_answer(ctx->worker, msg->sender, answer, ask->way);
    return TR_OK;
}

void tri_answer_value(tri_worker *worker, tr_msg *msg, tr_ref from,
                      const void *payload)
{
    const tri_ask *ask = tri_msg_ask(msg);
    tr_msg *answer =
        tri_msg_new(&worker->cache, msg->node.type->reply, payload, true);
    if (answer == NULL) {
        tri_answer_error(worker, msg, TR_ENOMEM, NULL);
        return;
    }
    *tri_msg_ask(answer) = *ask;
    answer->node.flags |= TRI_MSG_ANSWERED;
    answer->sender = from;
    send_answer(worker, msg->sender, answer, ask->way);
    tri_msg_free(&worker->cache, msg);
}

tr_err tr_refuse(tr_ctx *ctx, const void *m, tr_err err, const char *format,
                 ...)
{
    tr_msg *msg = tri_msg_of(m);
    if (!(msg->node.flags & TRI_MSG_ASK) ||
        (msg->node.flags & TRI_MSG_ANSWERED)) {
        return TR_OK;
    }
    char text[TRI_SHOWN_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    tri_answer_copy(ctx->worker, msg, tri_blame(err), text);
    return TR_OK;
}

/* An error that was there before: a name, which makes no text of its own. */
static bool is_name(const char *expression)
{
    return expression[strspn(expression, "abcdefghijklmnopqrstuvwxyz"
                                         "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                         "0123456789_")] == '\0';
}

tr_err tr_refuse_with(tr_ctx *ctx, const void *m, tr_err err, uint32_t mark,
                      const char *expression)
{
    tr_msg *msg = tri_msg_of(m);
    if (!(msg->node.flags & TRI_MSG_ASK) ||
        (msg->node.flags & TRI_MSG_ANSWERED)) {
        return TR_OK;
    }
    bool is_new = ctx->texts != mark || is_name(expression);
    const char *why = is_new ? ctx->fail_text : NULL;
    tr_err told = tri_blame(err);
    char text[REFUSED_MAX];
    tri_text out;
    tri_text_init(&out, text, sizeof(text));
    size_t length = strlen(expression);
    tri_text_add(&out, "%.*s%s", EXPRESSION_MAX, expression,
                 length > EXPRESSION_MAX ? "..." : "");
    if (told != err) {  // the code does not tell
        tri_text_add(&out, ": %s: %s", tr_errname(err), tr_strerror(err));
    }
    if (why != NULL) {
        tri_text_add(&out, ": %s", why);
    }
    tri_answer_copy(ctx->worker, msg, told, text);
    return TR_OK;
}

void tri_pass_on(tr_ctx *ctx, tr_msg *msg, tr_ref to)
{
    if ((msg->node.flags & TRI_MSG_ASK) &&
        tri_edge_move(ctx, msg, to) != TR_OK) {
        tri_answer_error(ctx->worker, msg, TR_EDEADLOCK, ctx->fail_text);
        return;
    }
    tri_actor_from who = {
        .sys = ctx->sys, .worker = ctx->worker, .sender = msg->sender};
    tri_send(&who, to, msg);
}
