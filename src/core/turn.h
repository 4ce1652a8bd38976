/*
 * turn.h - what the files that run a cell ask of each other.
 *
 * turn.c has the loop, attention.c what it does before a message where there
 * is more than that, park.c turns that wait. Threads: the owner of the cell.
 */
#ifndef TRI_CORE_TURN_H
#define TRI_CORE_TURN_H

#include "core/mailbox.h"

/* ---- turn.c ---- */

/* Runs the handler for node, which it takes, between two looks at the clock. */
void tri_handle_timed(tr_ctx *ctx, tri_node *node);

/* A message has left the queue. */
static inline void tri_taken(tri_cell *cell, const tri_node *node)
{
    // Relaxed: for observers; only the owner writes.
    atomic_store_explicit(
        &cell->queued,
        atomic_load_explicit(&cell->queued, memory_order_relaxed) - 1,
        memory_order_relaxed);
    if (TRI_UNLIKELY(cell->slow & TRI_SLOW_BOUNDED) && tri_is_counted(node)) {
        // Relaxed: only the number counts.
        atomic_fetch_sub_explicit(&tri_ext_of(cell)->bounded, 1,
                                  memory_order_relaxed);
    }
}

/* ---- attention.c ---- */

typedef enum tri_verdict {
    TRI_GO,     // on to the next message
    TRI_AGAIN,  // from the beginning
    TRI_GONE,   // the cell is not ours any more, or worker->resuming is set
} tri_verdict;

/* Where system mail has come or cell->slow is not 0. */
tri_verdict tri_attention(tr_ctx *ctx);
/* Urgent mail does not wait for the queue. True: there is some. */
bool tri_rush(tri_cell *cell);

/* ---- the list of turns that are parked ---- */

static inline void tri_parked_append(tr_ctx *ctx)
{
    tri_cell *cell = ctx->cell;
    tr_ctx **end = &tri_ext_of(cell)->parked;
    while (*end != NULL) {
        end = &(*end)->next;
    }
    ctx->next = NULL;
    *end = ctx;
    ctx->parked = true;
    cell->slow |= TRI_SLOW_PARKED;
    cell->home = (uint16_t)ctx->worker->index;
}

static inline void tri_parked_remove(tr_ctx *ctx)
{
    tri_cell *cell = ctx->cell;
    tri_ext *ext = tri_ext_of(cell);
    tr_ctx **link = &ext->parked;
    while (*link != ctx) {
        link = &(*link)->next;
    }
    *link = ctx->next;
    ctx->parked = false;
    if (ext->parked == NULL) {
        cell->slow &= (uint8_t)~TRI_SLOW_PARKED;
        // Relaxed: fixed at spawn, or set by us.
        uint32_t flags =
            atomic_load_explicit(&cell->flags, memory_order_relaxed);
        if ((flags & TRI_CELL_PINNED) == 0) {
            cell->home = TRI_HOME_NONE;
        }
        if (TRI_UNLIKELY(flags & TRI_CELL_TIGHT)) {
            tri_loosen(ctx->worker, cell);
        }
    }
}

#endif
