/*
 * failure.h - what is known of the failure of an actor.
 *
 * Threads: the owner of the cell; while the actor is FAILED and its parent has
 * not decided, the parent's turn may read the failure.
 */
#ifndef TRI_CORE_LIFE_FAILURE_H
#define TRI_CORE_LIFE_FAILURE_H

#include "core/cell/cell_path.h"
#include "core/types.h"

typedef struct tri_failure {
    tr_err err;
    tr_phase phase;
    char *text;  // malloc'd or NULL
    const char *site;
    tr_msg *msg;  // the message that failed, or NULL; owned
} tri_failure;

/*
 * Ends the turn of ctx with an error: answers the asker, keeps the failure for
 * the parent, goes to FAILED and sends the notice. If the turn was cancelled,
 * or the actor ends or restarts already, the turn only ends.
 */
void tri_life_fail(tr_ctx *ctx, tr_err err);

/* Goes on after a failure with the next message, rule 29 (a resume). */
void tri_life_resume(tr_ctx *ctx);

/*
 * Reports a mistake in a call, "tr_become: the behaviour is NULL": the actor
 * panics, or the process ends if ctx is NULL or not in a turn.
 */
TR_NORETURN void tri_misuse(tr_ctx *ctx, const char *call, const char *what);

/*
 * Returns the error of a handler as its asker may see it: TR_EFAILED in place
 * of TR_OK, and of an error that only the runtime may use, rule 13 (certainly
 * not run).
 */
tr_err tri_user_err(tr_err err);

/* Makes a dead letter of the message of the failure; its text stays. */
void tri_failure_drop_message(tri_worker *worker, tri_cell *cell,
                              uint32_t reason);

/*
 * Forgets text and message of the failure; the message becomes a dead letter
 * with this reason.
 */
void tri_failure_clear(tri_worker *worker, tri_cell *cell, uint32_t reason);

/*
 * Forgets the failure; puts its message back in front of the queue, once, if
 * the policy has retry_message.
 */
void tri_failure_retry(tr_ctx *ctx, tri_cell *cell);

/* A tr_failure with the memory that it points to. */
typedef struct tri_failure_view {
    tr_failure failure;
    char path[TRI_PATH_MAX];
    char message[TRI_SHOWN_MAX];
    char state[TRI_SHOWN_MAX];
} tri_failure_view;

/* Fills the view that deciders and pre_restart see. Must not be copied. */
void tri_failure_show(tr_system *sys, tri_cell *cell, tri_failure_view *view);

#endif
