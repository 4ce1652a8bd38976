/*
 * then.h - replies that are turns of their own: tr_ask_then, tr_ask_pipe.
 *
 * Threads: the owner of the cell.
 */
#ifndef TRI_CORE_ASK_THEN_H
#define TRI_CORE_ASK_THEN_H

#include "core/types.h"

/*
 * Runs the turn of a reply that came through the user lane; a late one is a
 * dead letter. Takes reply.
 */
void tri_then_reply(tr_ctx *ctx, tr_msg *reply);

/*
 * Runs the turn of a wait that has ended: with the reply, with the error of
 * wait or reply, or with TR_ETIMEDOUT if there is neither. Takes both.
 */
void tri_then_turn(tr_ctx *ctx, tri_wait *wait, tr_msg *reply);

/* Ends all waits of callbacks and pipes, because the incarnation ends. */
void tri_then_drop_all(tri_worker *worker, tri_cell *cell);

#endif
