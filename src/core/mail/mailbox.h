/*
 * mailbox.h - the two lanes of a cell's mailbox.
 *
 * User mail (cell->mail) and system mail (cell->sys_mail) are stacks of items
 * that any thread pushes to with one exchange; cell.h draws the bits of both
 * words. The owner detaches a whole lane at once. Detached user mail waits in
 * cell->queue, oldest first.
 *
 * Who owns a cell: whoever replaces IDLE or PARKED in cell->mail owns the cell
 * until it schedules the cell or puts one of the two bits back.
 *
 * Mail of the runtime is sent with push.h, signals with life/signal.h.
 *
 * Threads: tri_mail_push, tri_mail_claim, tri_mailbox_claim and
 * tri_mailbox_wake on any thread; the rest only on the owner's.
 */
#ifndef TRI_CORE_MAIL_MAILBOX_H
#define TRI_CORE_MAIL_MAILBOX_H

#include <stdatomic.h>

#include "base/check.h"
#include "core/cell/cell.h"
#include "core/cell/message.h"
#include "core/types.h"

/* Moves user mail from its lane to the queue. Returns true if there was any. */
bool tri_detach(tri_cell *cell);

/* True if a function of the actor decides on the order of its mail. */
bool tri_mail_is_ordered(const tri_cell *cell);

/*
 * Pushes a message to the user lane. *seen gets the word of the lane before
 * the push: if it has IDLE, the cell is the caller's, who schedules it. *depth
 * gets the number of messages in the lane. Returns false if the lane is closed
 * or has TRI_MAIL_MANY messages; msg is then still the caller's. A call of
 * tri_mail_push_deep here would cost each push a stack frame.
 */
static inline bool tri_mail_push(tri_cell *cell, tr_msg *msg, uintptr_t *seen,
                                 uint32_t *depth)
{
    enum { ONE_SHIFT = TRI_MAIL_DEPTH_SHIFT };
    const uintptr_t kept = TRI_MAIL_PARKED | TRI_MAIL_MANY << ONE_SHIFT;
    uintptr_t next;
    // Relaxed: the exchange below confirms it.
    *seen = atomic_load_explicit(&cell->mail, memory_order_relaxed);
    do {
        if (TRI_UNLIKELY(*seen & TRI_MAIL_CLOSED)) {
            return false;
        }
        msg->item.next = tri_mail_newest(*seen);
        if (TRI_UNLIKELY(__builtin_add_overflow(
                *seen & kept, (uintptr_t)1 << ONE_SHIFT, &next))) {
            return false;
        }
        next |= (uintptr_t)msg;
        // Release: publishes the message to tri_detach. Acquire: if IDLE was
        // set the cell is ours now; pairs with tri_sleep.
    } while (!atomic_compare_exchange_weak_explicit(
        &cell->mail, seen, next, memory_order_acq_rel, memory_order_relaxed));
    *depth = tri_mail_depth(next);
    return true;
}

/* Pushes as tri_mail_push does, also to a lane of TRI_MAIL_MANY messages. */
bool tri_mail_push_deep(tri_cell *cell, tr_msg *msg, uintptr_t *seen,
                        uint32_t *depth);

/*
 * Pushes as tri_mail_push does, off the fast path. Returns false only if the
 * lane is closed.
 */
static inline bool tri_mail_push_any(tri_cell *cell, tr_msg *msg,
                                     uintptr_t *seen, uint32_t *depth)
{
    return TRI_LIKELY(tri_mail_push(cell, msg, seen, depth)) ||
           tri_mail_push_deep(cell, msg, seen, depth);
}

/* Appends a list of items to the queue. Takes the list. */
static inline void tri_queue_append(tri_cell *cell, tri_item *list)
{
    tri_item **end = &cell->queue;
    TRI_CHECK_SLOW(list == NULL || list != cell->queue);
    while (TRI_UNLIKELY(*end != NULL)) {
        end = &(*end)->next;
    }
    *end = list;
}

/*
 * Claims the cell if it sleeps with an empty lane, and puts the message into
 * its queue. Returns true if so; the caller then schedules the cell. Costs one
 * exchange less than a push, which the owner has to detach.
 */
static inline bool tri_mail_claim(tri_cell *cell, tr_msg *msg)
{
    uintptr_t idle = TRI_MAIL_IDLE;
    // Relaxed: a hint that saves the exchange. Acquire: the cell is ours;
    // pairs with tri_sleep.
    if (atomic_load_explicit(&cell->mail, memory_order_relaxed) != idle ||
        !atomic_compare_exchange_strong_explicit(&cell->mail, &idle, 0,
                                                 memory_order_acquire,
                                                 memory_order_relaxed)) {
        return false;
    }
    msg->item.next = NULL;
    // The queue may hold mail that must not run beside a parked turn.
    tri_queue_append(cell, &msg->item);
    // Relaxed: for observers.
    atomic_store_explicit(
        &cell->queued,
        atomic_load_explicit(&cell->queued, memory_order_relaxed) + 1,
        memory_order_relaxed);
    return true;
}

/*
 * Claims the cell if nobody owns it, after a write to sys_mail. Returns true
 * if the caller owns the cell now.
 */
static inline bool tri_mailbox_claim(tri_cell *cell)
{
    // Seq_cst: after our write to sys_mail; see mailbox.c.
    uintptr_t seen = atomic_load_explicit(&cell->mail, memory_order_seq_cst);
    while (seen & (TRI_MAIL_IDLE | TRI_MAIL_PARKED)) {
        // Acquire side: pairs with tri_sleep, the cell is ours.
        if (atomic_compare_exchange_weak_explicit(
                &cell->mail, &seen, seen & ~(TRI_MAIL_IDLE | TRI_MAIL_PARKED),
                memory_order_seq_cst, memory_order_seq_cst)) {
            return true;
        }
    }
    return false;
}

/* Schedules the cell if nobody owns it. Called after a write to sys_mail. */
void tri_mailbox_wake(tri_worker *worker, tri_cell *cell);

/*
 * Detaches all system mail and returns it, oldest first. *signalled is set if
 * there may be signals.
 */
tri_item *tri_system_take(tri_cell *cell, bool *signalled);

/*
 * Gives the cell up until mail comes: with for_user_mail any mail (IDLE), else
 * only system mail (PARKED). Returns false if user mail has come meanwhile:
 * the caller still owns the cell. After true the caller must not touch it.
 */
bool tri_sleep(tri_worker *worker, tri_cell *cell, bool for_user_mail);

/*
 * Detaches all user mail and returns it, newest first. `seen` is the word of
 * the lane as the owner has just read it.
 */
static inline tri_item *tri_mail_take(tri_cell *cell, uintptr_t seen)
{
    TRI_CHECK_SLOW((seen & (TRI_MAIL_IDLE | TRI_MAIL_PARKED)) == 0);
    // Acquire: sees the messages that tri_mail_push published. Only the owner
    // sets CLOSED, so the bit in `seen` is still true.
    return tri_mail_newest(atomic_exchange_explicit(
        &cell->mail, seen & TRI_MAIL_CLOSED, memory_order_acq_rel));
}

/* tri_detach_first out of line, for several messages or a special cell. */
tri_item *tri_detach_many(tri_cell *cell, tri_item *newest);

/*
 * Detaches user mail, of which there is some, while the queue is empty, and
 * returns the oldest message without putting it into the queue. Returns NULL
 * if something else comes first (cell->attention); all mail is in the queue then.
 */
static inline tri_item *tri_detach_first(tri_cell *cell, uintptr_t seen)
{
    tri_item *newest = tri_mail_take(cell, seen);
    TRI_CHECK_SLOW(newest != NULL && cell->queue == NULL);
    // Relaxed: fixed, or set before the message was pushed.
    if (TRI_LIKELY(newest->next == NULL && cell->attention == 0 &&
                   (atomic_load_explicit(&cell->flags, memory_order_relaxed) &
                    TRI_CELL_URGENT) == 0)) {
        return newest;
    }
    return tri_detach_many(cell, newest);
}

/*
 * tri_sleep in line, for any mail, after the owner has read the lane as `seen`
 * and found it empty. Returns false if the lane has changed since.
 */
static inline bool tri_sleep_idle(tri_worker *worker, tri_cell *cell,
                                  uintptr_t seen)
{
    TRI_CHECK_SLOW(tri_mail_newest(seen) == NULL);
    // Seq_cst, both: as in tri_sleep.
    if (!atomic_compare_exchange_strong_explicit(
            &cell->mail, &seen, seen | TRI_MAIL_IDLE, memory_order_seq_cst,
            memory_order_relaxed)) {
        return false;
    }
    if (TRI_UNLIKELY(
            atomic_load_explicit(&cell->sys_mail, memory_order_seq_cst) &
            ~TRI_SYS_CLOSED)) {
        tri_mailbox_wake(worker, cell);
    }
    return true;
}

/* Returns a list of items in the reverse order, and counts them. */
tri_item *tri_items_reverse(tri_item *newest, uint32_t *count);

/* Closes the user lane for good and returns its mail, oldest first. */
tri_item *tri_close_user(tri_cell *cell);

/* Closes the system lane for good and returns its mail, oldest first. */
tri_item *tri_close_system(tri_cell *cell);

#endif
