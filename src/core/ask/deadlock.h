/*
 * deadlock.h - the wait-for graph: finds waits that would never end.
 *
 * A turn that parks on another actor records an edge to it. A wait whose edge
 * would close a cycle is refused (rule 18 (cycles)).
 *
 * Threads: the owner of the waiting cell; tri_edge_answered and tri_edge_move
 * on any.
 */
#ifndef TRI_CORE_ASK_DEADLOCK_H
#define TRI_CORE_ASK_DEADLOCK_H

#include "core/types.h"

/*
 * Records the edge of a wait that is about to park. Errors: TR_EDEADLOCK (the
 * edge would close a cycle: no edge is recorded, and the error text names the
 * cycle).
 */
tr_err tri_edge_begin(tr_ctx *ctx, tri_wait *wait);

/* Removes the edge of the wait, if it has one. */
void tri_edge_end(tr_ctx *ctx, tri_wait *wait);

/*
 * Returns true if an edge for the wait would close a cycle, and sets the
 * error text. Records no edge: a turn that waits for the first of several
 * futures depends on none of them alone.
 */
bool tri_edge_would_close(tr_ctx *ctx, const tri_wait *wait);

/*
 * Marks the cell's edge as answered if it stands for the wait of this
 * correlation. Called before the answer is sent. Any thread.
 */
void tri_edge_answered(tri_cell *cell, uint64_t correlation);

/*
 * Ends with TR_EDEADLOCK the waits of an actor that must end, if the chain of
 * waits leads to an ancestor that waits for this actor to end.
 */
void tri_edge_cancel_family(tr_ctx *ctx);

/*
 * Points the edge of a request's asker to `to`, because this turn forwards the
 * request. Errors: TR_EDEADLOCK, with the error text set.
 */
tr_err tri_edge_move(tr_ctx *ctx, tr_msg *request, tr_ref to);

#endif
