/*
 * child_end.h - tells a parent of the end of each child (child_terminated).
 *
 * Threads: the owner of the cell, except where a comment says otherwise.
 */
#ifndef TRI_CORE_LIFE_CHILD_END_H
#define TRI_CORE_LIFE_CHILD_END_H

#include "core/types.h"

/*
 * Makes the record of the child's end, so that the end needs no memory. The
 * child is not scheduled yet. Errors: TR_ENOMEM.
 */
tr_err tri_child_end_prepare(tri_worker *worker, tr_ref parent,
                             tri_cell *child);

/*
 * Sends the record, if there is one, to the parent. A parent that got the child
 * only by force.c, when the first parent had ended, is told nothing. `parent`
 * still counts the child, so it exists. Called by the child's owner, or by
 * whoever ends a zombie by force.
 */
void tri_child_end_send(tri_worker *worker, tri_cell *parent, tri_cell *child,
                        tr_reason reason);

/* Keeps a record that has arrived, or frees it if it comes too late. */
void tri_child_end_arrived(tr_ctx *ctx, tri_child_end *record);

/* Runs the hook for the oldest record. */
void tri_child_end_turn(tr_ctx *ctx);

/* Frees the records whose hook has not run; the actor ends. */
void tri_child_ends_free(tri_cell *cell, tri_ext *ext);

void tri_child_end_free(tri_child_end *record);

#endif
