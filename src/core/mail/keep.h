/*
 * keep.h - the stash and the kept requests of an actor.
 *
 * Threads: the owner of the cell.
 */
#ifndef TRI_CORE_MAIL_KEEP_H
#define TRI_CORE_MAIL_KEEP_H

#include "core/types.h"

/*
 * Answers the kept requests of the actor's descendants with err, before the
 * actor waits for their end: a descendant that waits for such an answer could
 * not end (rule 28 (a restart)).
 */
void tri_kept_refuse_family(tr_ctx *ctx, tr_err err);

/*
 * Takes the message of `m` out of the turn, or out of the kept messages, and
 * returns it; a message with another owner is copied. Returns NULL if it was
 * taken before. Panics without memory.
 */
tr_msg *tri_msg_take(tr_ctx *ctx, const void *m);

/* Moves stashed messages to the front of the queue, oldest first. */
void tri_unstash(tri_cell *cell);

#endif
