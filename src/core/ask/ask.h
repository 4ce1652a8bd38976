/*
 * ask.h - requests from a turn: sending one and taking its reply.
 *
 * The parts are shared by tr_ask (ask.c), futures (future.c) and callbacks
 * (then.c).
 *
 * Threads: the worker that runs the turn of ctx, except where said.
 */
#ifndef TRI_CORE_ASK_ASK_H
#define TRI_CORE_ASK_ASK_H

#include "core/types.h"

/* tr_ask from a turn. The arguments and errors are those of tr_ask. */
tr_err tri_ask_inside(tr_ctx *ctx, tr_ref to, void *out, tr_nanos timeout,
                      const tr_type *type, const void *payload,
                      const char *site);

/* Returns the error of an ask whose request was refused with err. */
tr_err tri_ask_delivery_error(tr_ref to, tr_err err);

/*
 * Returns when a request times out that is sent now; timeout 0 is the
 * system's. Returns 0 if the time is over already (rule 60 (time-outs below
 * zero)): the request must not be sent. *is_long gets tri_ask.is_long, and
 * wait->since the present time if it was read.
 */
tr_nanos tri_ask_deadline(tr_ctx *ctx, tri_wait *wait, tr_nanos timeout,
                          bool *is_long);

/*
 * Sends the request of wait, whose kind, target, type, site and correlation
 * are set. Errors: those of an ask that was not delivered.
 */
tr_err tri_ask_send(tr_ctx *ctx, tri_wait *wait, tr_nanos deadline,
                    bool is_long, const void *payload);

/*
 * Sets the error text of the turn for a wait that ended with err. `text` is
 * the text of the actor that refused or failed, or NULL.
 */
void tri_ask_set_error(tr_ctx *ctx, const tri_wait *wait, tr_err err,
                       const char *text);

/*
 * Copies the reply of wait to *out, or returns the error that it carries.
 * Takes the reply. Text of the reply lives until the turn ends.
 */
tr_err tri_ask_take_reply(tr_ctx *ctx, tri_wait *wait, void *out);

/* Makes a dead letter of the reply of wait, if there is one. */
void tri_ask_drop_reply(tr_ctx *ctx, tri_wait *wait);

/* Zeroes *out, of the reply type of `type`: the answer of a failed ask. */
void tri_ask_zero_out(void *out, const tr_type *type);

#endif
