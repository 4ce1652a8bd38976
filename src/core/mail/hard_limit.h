/*
 * hard_limit.h - the hard limit of a mailbox: how many messages it takes.
 *
 * A bounded mailbox (TRI_CELL_BOUNDED) counts its messages in
 * ext->room.counted. A sender counts its message before the push; the owner
 * counts it off when it takes the message out of the queue.
 *
 * Threads: what senders call (admit, unadmit, blocks) on any thread that may
 * use the worker of the caller; the rest only on the owner's.
 */
#ifndef TRI_CORE_MAIL_HARD_LIMIT_H
#define TRI_CORE_MAIL_HARD_LIMIT_H

#include <stdatomic.h>

#include "core/cell/cell.h"
#include "core/cell/ext.h"
#include "core/cell/message.h"
#include "core/types.h"

/*
 * Counts one message of the caller into the bounded mailbox of `to`, or lets
 * the overflow policy decide; may wait. On TR_OK the caller pushes, or calls
 * tri_hard_limit_unadmit. Errors: TR_EFULL, or those of tri_room_wait.
 */
tr_err tri_hard_limit_admit(tri_caller *caller, tri_cell *cell, tr_ref to);

/* Takes back tri_hard_limit_admit for a message that was not pushed. */
void tri_hard_limit_unadmit(tri_cell *cell);

/* True if senders wait while the mailbox is full (TR_OVERFLOW_BLOCK). */
bool tri_hard_limit_blocks(tri_cell *cell);

/*
 * Drops the oldest messages above the limit and puts the next one into the
 * queue, if the policy is TR_OVERFLOW_DROP_OLD; returns false if it is not.
 * The owner calls it before each message.
 */
bool tri_hard_limit_trim(tri_worker *worker, tri_cell *cell);

/* True if a hard limit counts the item; timer messages and answers are free. */
static inline bool tri_is_counted(const tri_item *item)
{
    return item->kind == TRI_ITEM_USER && !(item->flags & TRI_MSG_TIMER);
}

/*
 * Adds `count`, which may be negative, to the messages of a bounded mailbox.
 * For messages that the owner puts back into the queue, or takes out without
 * handling them.
 */
static inline void tri_hard_limit_add(tri_cell *cell, int32_t count)
{
    tri_cell_assert_owned(cell);
    if (cell->attention & TRI_ATTENTION_BOUNDED) {
        // Relaxed: only the number matters, it publishes nothing.
        atomic_fetch_add_explicit(&tri_ext_of(cell)->room.counted,
                                  (uint32_t)count, memory_order_relaxed);
    }
}

#endif
