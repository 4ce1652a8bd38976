/*
 * attention.h - what a batch does before the next message of a cell that is
 * not in the usual state.
 *
 * Threads: the worker that runs the cell.
 */
#ifndef TRI_CORE_RUN_ATTENTION_H
#define TRI_CORE_RUN_ATTENTION_H

#include "core/types.h"

/* Handles one item of the system lane. Takes it. */
void tri_system_item(tr_ctx *ctx, tri_item *item);

/* What the loop of a batch does next. */
typedef enum tri_next {
    TRI_NEXT_MESSAGE,  // handles the next message
    TRI_NEXT_CHECK,    // checks for system mail and attention again
    TRI_NEXT_CELL,     // ends: the cell is released or must not be touched,
                       // or worker->resuming is set
} tri_next;

/*
 * Does what comes before the next message. Called when there is system mail or
 * cell->attention is not 0.
 */
tri_next tri_attention(tr_ctx *ctx);

/*
 * Detaches urgent mail that has come while the queue was not empty. Returns
 * true if there is some; then the batch calls tri_attention.
 */
bool tri_urgent_arrived(tri_cell *cell);

#endif
