/*
 * waiting.h - what the parked turn of an actor waits for, as observers see it.
 *
 * A turn publishes what it waits for when it parks, and clears it when it is
 * resumed. If several turns of an actor are parked, the oldest one is shown.
 *
 * Threads: tri_waiting_publish: the owner of the cell. The others: any.
 */
#ifndef TRI_CORE_RUN_WAITING_H
#define TRI_CORE_RUN_WAITING_H

#include "base/text.h"
#include "core/types.h"

/* A copy of tri_waiting. All texts are static, or constants of the program. */
typedef struct tri_waiting_view {
    const char *call;         // "tr_ask"
    const tr_type *handling;  // type of the turn's message, or NULL
    const tr_type *type;      // type of the request, or NULL
    tr_ref target;            // the actor that is waited for, or nobody
    const char *site;         // file:line of the call, or NULL
    tr_nanos since;
} tri_waiting_view;

/* Publishes the wait of the oldest parked turn, or that there is none. */
void tri_waiting_publish(tri_worker *worker, tri_cell *cell);

/* Fills *out. Returns false if no turn of the cell waits. */
bool tri_waiting_read(tri_cell *cell, tri_waiting_view *out);

/*
 * Adds ", handling Sum, waits in tr_ask with Get for /user/bob at bank.c:42,
 * 500 ms so far"; nothing if no turn of the cell waits. named: with the path of
 * the target, whose parent is locked meanwhile, so the caller holds no lock.
 */
void tri_waiting_show(tr_system *sys, tri_cell *cell, bool named,
                      tri_text *out);

enum { TRI_WAITING_MAX = 512 };  // bytes for the text of tri_waiting_show

/*
 * Writes what tri_waiting_show says about `ref` to buf, which has room for
 * TRI_WAITING_MAX bytes, if err is TR_ETIMEDOUT; else "". Returns buf.
 */
const char *tri_waiting_text(tr_system *sys, tr_err err, tr_ref ref, char *buf);

/* Returns the site that tr_at has set, or NULL, and forgets it. */
const char *tri_site_take(tr_ctx *ctx);

#endif
