/*
 * error_text.h - the text of the last error, for people.
 *
 * A turn has a text of its own, which ends with the turn; so has each thread
 * that is no actor.
 *
 * Threads: the worker that runs the turn, or the thread itself.
 */
#ifndef TRI_CORE_ASK_ERROR_TEXT_H
#define TRI_CORE_ASK_ERROR_TEXT_H

#include <stddef.h>

#include "troupe/base.h"

enum { TRI_ADVICE_MAX = 256 };  // size of a buffer for tri_advice

/*
 * Returns what to do about an error of a request to `to`, as "; do this", or
 * "". The text is static, or in the buffer `room` of size bytes.
 */
const char *tri_advice(tr_system *sys, tr_err err, tr_ref to, char *room,
                       size_t size);

/* Sets the error text of the turn, or of the thread if ctx is NULL. */
void tri_error_set(tr_ctx *ctx, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/*
 * Sets the reason (tr_error_reason) of the error text that was set last: why,
 * without actor, place and advice.
 */
void tri_error_set_reason(tr_ctx *ctx, const char *reason);

/* Forgets the error text of the turn. */
void tri_error_clear(tr_ctx *ctx);

/* Returns the error text of this thread outside of turns; "" at first. */
const char *tri_error_outside(void);

#endif
