/*
 * ask.h - what the files of requests and waits ask of each other.
 *
 * Threads: the owner of the cell.
 */
#ifndef TRI_CORE_ASK_H
#define TRI_CORE_ASK_H

#include "core/mailbox.h"

/* ---- wait.c ---- */

/* Is its reply a turn of its own? */
static inline bool tri_wait_is_detached(const tri_wait *wait)
{
    return wait->kind == TRI_WAIT_THEN || wait->kind == TRI_WAIT_PIPE;
}

/* NULL: there is none of that number any more. */
static inline tri_wait *tri_wait_find(tri_cell *cell, uint64_t correlation)
{
    tri_ext *ext = tri_ext_of(cell);
    for (tri_wait *w = ext != NULL ? ext->waits : NULL; w != NULL;
         w = w->next) {
        if (w->correlation == correlation) {
            return w;
        }
    }
    return NULL;
}

/* Times it out at deadline; TR_FOREVER: never. */
void tri_wait_arm(tr_ctx *ctx, tri_wait *wait, tr_nanos deadline);

/* ---- ask.c ---- */

/* The end of a request's time; *is_long: as in tri_ask. */
tr_nanos tri_ask_deadline(tr_ctx *ctx, tr_nanos timeout, bool *is_long);
/* Sends the request that wait is for. */
tr_err tri_ask_send(tr_ctx *ctx, tri_wait *wait, tr_nanos deadline,
                    bool is_long, const void *payload);
/* The text of an error of wait; text: what the other side said, or NULL. */
void tri_ask_say_why(tr_ctx *ctx, const tri_wait *wait, tr_err err,
                     const char *text);
/* Moves what the reply of wait holds to *out. Takes the reply. */
tr_err tri_ask_take_reply(tr_ctx *ctx, tri_wait *wait, void *out);
/* The reply, if there is one, becomes a dead letter. */
void tri_ask_drop_reply(tr_ctx *ctx, tri_wait *wait);
/* What the asker finds where there is no reply. */
void tri_ask_zero_out(void *out, const tr_type *type);

#endif
