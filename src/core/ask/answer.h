/*
 * answer.h - answering requests, and forwarding them.
 *
 * Threads: any thread that may use the worker of the call.
 */
#ifndef TRI_CORE_ASK_ANSWER_H
#define TRI_CORE_ASK_ANSWER_H

#include "base/check.h"
#include "core/cell/message.h"
#include "core/run/context.h"
#include "core/types.h"

/* Out-of-line part of tri_msg_given. */
tr_msg *tri_msg_given_slow(tr_ctx *ctx, const void *m, const char *call);

/*
 * Returns the message of `m`, the argument of a call: the message of the turn,
 * or one that the actor has kept. Panics, naming the call, if it is neither.
 */
static inline tr_msg *tri_msg_given(tr_ctx *ctx, const void *m,
                                    const char *call)
{
    return TRI_LIKELY(ctx->msg != NULL && m == ctx->msg->payload)
               ? ctx->msg
               : tri_msg_given_slow(ctx, m, call);
}

/*
 * Answers a request that has no answer yet with an error and a text, which may
 * be NULL. If a refusal of it could not be sent for want of memory, the error of
 * that refusal is sent instead. Frees every other message. Takes msg.
 */
void tri_answer_error(tri_worker *worker, tr_msg *msg, tr_err err,
                      const char *text);

/*
 * Answers a request with an error and marks it TRI_MSG_ANSWERED. Borrows msg.
 * Without memory the asker gets the error, without text, when it is freed.
 */
void tri_answer_error_borrow(tri_worker *worker, tr_msg *msg, tr_err err,
                             const char *text);

/*
 * Answers a request with a value, as tr_reply does, for a caller that is no
 * turn; msg stays the caller's. Errors: TR_EEXIST, TR_ENOMEM.
 */
tr_err tri_answer_borrow(tri_worker *worker, tr_msg *msg, tr_ref from,
                         const void *payload);

/* Answers a request with a value from `from`, outside of a turn. Takes msg. */
void tri_answer_value(tri_worker *worker, tr_msg *msg, tr_ref from,
                      const void *payload);

/*
 * Sends a message on to another actor with its sender unchanged. The asker of
 * a request then waits for `to`. Takes msg on TR_OK.
 * Errors: TR_EDEADLOCK (that would close a cycle of waits; ctx has the text).
 */
TR_NODISCARD tr_err tri_forward(tr_ctx *ctx, tr_msg *msg, tr_ref to);

#endif
