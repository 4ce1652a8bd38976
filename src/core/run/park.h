/*
 * park.h - parking a turn that waits, and the list of parked turns of a cell.
 *
 * Threads: the worker that owns the cell.
 */
#ifndef TRI_CORE_RUN_PARK_H
#define TRI_CORE_RUN_PARK_H

#include <stdatomic.h>

#include "base/check.h"
#include "core/cell/cell.h"
#include "core/cell/ext.h"
#include "core/mail/soft_limit.h"
#include "core/run/context.h"
#include "core/run/worker.h"
#include "core/types.h"

/* True if the caller is a turn of an actor; the outside worker runs none. */
static inline bool tri_can_park(const tr_ctx *ctx)
{
    return ctx->in_turn;
}

/*
 * Parks the turn until wait->done. Returns wait->err, or the error with which
 * tri_parked_cancel has ended the wait, or TR_ELIMIT if there is no stack.
 */
tr_err tri_park(tr_ctx *ctx, tri_wait *wait);

/* Lets other cells run first, if some are runnable; the turn goes on later. */
void tri_yield(tr_ctx *ctx);

/* Ends a wait with err and makes the turn that is parked on it ready. */
void tri_wait_done(tri_worker *worker, tri_cell *cell, tri_wait *wait,
                   tr_err err);

/* Kinds of parked turns, for the two functions that follow. */
enum {
    TRI_PARKED_MESSAGES = 1,  // handlers and callbacks
    TRI_PARKED_RUN = 2,       // on_run
    TRI_PARKED_HOOKS = 4,
};

/*
 * Ends the waits of all parked turns of the kinds in `which` with err; later
 * waits of these turns return err at once.
 */
void tri_parked_cancel(tri_worker *worker, tri_cell *cell, uint32_t which,
                       tr_err err);

/* Returns the number of parked turns of the kinds in `which`. */
uint32_t tri_parked_count(tri_cell *cell, uint32_t which);

/*
 * Adds the running turn to the parked ones of its cell, whose extension is
 * `ext`; its worker becomes the home.
 */
static inline void tri_parked_append(tr_ctx *ctx, tri_ext *ext)
{
    tri_cell *cell = ctx->cell;
    TRI_CHECK_SLOW(!ctx->parked && tri_cell_is_owned(cell));
    TRI_CHECK_SLOW(tri_ext_of(cell) == ext);
    tr_ctx **end = &ext->parked;
    while (*end != NULL) {
        end = &(*end)->next;
    }
    ctx->next = NULL;
    *end = ctx;
    ctx->parked = true;
    cell->attention |= TRI_ATTENTION_PARKED;
    cell->home = (uint16_t)ctx->worker->index;
}

/* Takes a turn out of the parked ones; the last one frees the home. */
static inline void tri_parked_remove(tr_ctx *ctx)
{
    tri_cell *cell = ctx->cell;
    tri_ext *ext = tri_ext_of(cell);
    TRI_CHECK_SLOW(ctx->parked && tri_cell_is_owned(cell));
    tr_ctx **link = &ext->parked;
    while (*link != ctx) {
        link = &(*link)->next;
    }
    *link = ctx->next;
    ctx->parked = false;
    if (ext->parked == NULL) {
        cell->attention &= (uint16_t)~TRI_ATTENTION_PARKED;
        // Relaxed: fixed at spawn, or set by the owner.
        uint32_t flags =
            atomic_load_explicit(&cell->flags, memory_order_relaxed);
        if ((flags & TRI_CELL_PINNED) == 0) {
            cell->home = TRI_HOME_NONE;
        }
        if (TRI_UNLIKELY(flags & TRI_CELL_DEPTH_CHECKED)) {
            tri_soft_limit_check_seldom(ctx->worker, cell);
        }
    }
}

#endif
