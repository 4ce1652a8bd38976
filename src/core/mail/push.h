/*
 * push.h - sends mail of the runtime: system mail, answers, and user messages
 * without a limit or policy.
 *
 * Threads: any that may use the worker of the call.
 */
#ifndef TRI_CORE_MAIL_PUSH_H
#define TRI_CORE_MAIL_PUSH_H

#include "core/types.h"

/*
 * Pushes a user message without any limit or policy: for mail of the runtime.
 * Takes msg on TR_OK. Errors: TR_EGONE (no such actor), TR_ESTOPPED.
 */
tr_err tri_push(tri_worker *worker, tri_cell *cell, uint64_t id, tr_msg *msg);

/* Pushes system mail. Takes item and returns true unless the lane is closed. */
bool tri_push_system(tri_worker *worker, tri_cell *cell, tri_item *item);

/*
 * Pushes an answer, or gives it at once to the turn that waits for it if the
 * cell sleeps. Takes reply and returns true unless the lane is closed.
 */
bool tri_push_reply(tri_worker *worker, tri_cell *cell, tr_msg *reply);

/*
 * Gives a request to an actor that sleeps and puts it into the hand-off slot,
 * so that it runs next. msg->to_id is set, the mailbox is unbounded, and the
 * asker parks right after. Takes msg on true; on false the caller pushes it.
 */
bool tri_handoff_send(tri_worker *worker, tri_cell *cell, tr_msg *msg);

#endif
