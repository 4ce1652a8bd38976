/*
 * backlog.h - the backlog of a mailbox that drops its oldest messages.
 *
 * While the handler of an actor with TR_OVERFLOW_DROP_OLD is busy, its owner
 * cannot drop anything. So senders that find the mailbox full move the user
 * lane to a list that they share with the owner, the backlog, and drop the
 * oldest message there. The owner takes one message at a time out of it.
 *
 * Order: the queue is older than the backlog, the backlog older than the lane.
 *
 * Threads: tri_backlog_overflow on any; the rest on the owner's, or on that of a
 * forcer after the owner (force.c).
 */
#ifndef TRI_CORE_MAIL_BACKLOG_H
#define TRI_CORE_MAIL_BACKLOG_H

#include "core/types.h"

/*
 * Takes messages out of the backlog of the actor with this id until it has
 * less than its hard limit, and returns them, oldest first. For a sender that
 * has counted its message and pushes it next.
 */
tri_item *tri_backlog_overflow(tri_cell *cell, uint64_t id);

/*
 * Prepares the next message: returns what is above the hard limit, oldest
 * first, and moves the oldest message of the backlog to the queue if that is
 * empty. All mail goes to the queue if some of it may be urgent.
 */
tri_item *tri_backlog_next(tri_cell *cell);

/* Takes all mail of the backlog and the lane, oldest first; NULL: none. */
tri_item *tri_backlog_take(tri_cell *cell, uint32_t *count);

/* Returns the backlog followed by `rest`, the mail of the closed lane. */
tri_item *tri_backlog_close(tri_cell *cell, tri_item *rest);

#endif
