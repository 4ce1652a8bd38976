/*
 * room.h - senders that wait for room in a mailbox.
 *
 * A sender waits in ext->room of the receiver: above the soft limit after its
 * message was pushed, above a blocking hard limit before.
 *
 * Threads: tri_room_wait on the sender's; the rest on the receiver's owner.
 */
#ifndef TRI_CORE_MAIL_ROOM_H
#define TRI_CORE_MAIL_ROOM_H

#include "core/types.h"

/*
 * Waits until the mailbox of `to` has fallen to half of limit, has closed, or
 * a hard limit has room. A turn is parked; a thread outside gives its lock up
 * meanwhile. Waits until caller->deadline, or as long as an ask.
 * Errors: TR_EFULL (the caller cannot wait), TR_ETIMEDOUT, TR_EDEADLOCK (the
 * wait would close a cycle), TR_ELIMIT, TR_ENOMEM, and those of a turn whose
 * actor ends.
 */
tr_err tri_room_wait(tri_caller *caller, tri_cell *cell, tr_ref to,
                     uint32_t limit);

/* Wakes all senders that wait. */
void tri_room_wake(tri_worker *worker, tri_cell *cell);

/*
 * Wakes as many senders as there is room for if the mailbox has fallen to
 * half of its limit; else TRI_ATTENTION_SENDERS makes the owner check again.
 */
void tri_room_wake_if_low(tri_worker *worker, tri_cell *cell);

/* Wakes all senders that wait, and lets none wait from now on. */
void tri_room_close(tri_worker *worker, tri_ext *ext);

#endif
