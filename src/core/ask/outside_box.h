/*
 * outside_box.h - the mailbox of a thread that is no actor.
 *
 * A thread that waits for mail has a cell of its own, without behaviour. To
 * schedule such a cell (TRI_CELL_OUTSIDE) sets the word of its box and wakes
 * the thread, which then owns the cell.
 *
 * Threads: the thread that opened the box; tri_outside_wake on any.
 */
#ifndef TRI_CORE_ASK_OUTSIDE_BOX_H
#define TRI_CORE_ASK_OUTSIDE_BOX_H

#include "base/list.h"
#include "core/types.h"

/* Lives on the stack of its thread, or in a probe. */
typedef struct tri_outside_box {
    tri_cell *cell;
    tr_system *sys;
    _Atomic(uint32_t) word;   // 1: the thread owns the cell again
    const tri_cell *awaited;  // whom the thread waits for, perhaps, or NULL
    tri_link link;            // in sys->boxes
} tri_outside_box;

/* Makes the cell of a box. Errors: TR_ENOMEM. */
tr_err tri_outside_box_open(tri_outside_box *box, tr_system *sys);

/* Drops the mail of the box, tells watchers and joins, and frees the cell. */
void tri_outside_box_close(tri_outside_box *box);

/*
 * Waits for the next user message or system item and returns it, or NULL at
 * the deadline. The caller owns the item.
 */
tri_item *tri_outside_box_wait(tri_outside_box *box, tr_nanos deadline);

/* Disposes of an item that was in the box of `self`. Takes item. */
void tri_outside_box_drop(tri_worker *worker, tr_ref self, tri_item *item);

/*
 * Gives the cell of an outside box back to the thread of the box and wakes that
 * thread. The caller owns the cell before this, and must not use it after.
 */
void tri_outside_wake(tri_worker *worker, tri_cell *cell);

/* Returns when a wait that begins now ends; timeout 0 stands for `standard`. */
tr_nanos tri_deadline_outside(tr_system *sys, tr_nanos timeout,
                              tr_nanos standard);

#endif
