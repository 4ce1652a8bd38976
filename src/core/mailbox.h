/*
 * mailbox.h - the owner's side of a mailbox, for the rest of the core.
 *
 * Threads: the owner of the cell, except where said.
 */
#ifndef TRI_CORE_MAILBOX_H
#define TRI_CORE_MAILBOX_H

#include "core/runtime.h"

/*
 * A push that finds this many below it looks at the soft limit; of those of a
 * busy turn one in so many does: the look takes a line from the cell's owner.
 */
#ifdef TRI_TORTURE
#define TRI_SOFT_GLANCE 1
#define TRI_SOFT_EVERY  1
#else
#define TRI_SOFT_GLANCE 64
#define TRI_SOFT_EVERY  16
#endif

/* Does the turn whose push made the mail so deep look at the soft limit? */
static inline bool tri_looks_deep(uint32_t depth)
{
    return depth >= TRI_SOFT_GLANCE &&
           (depth % TRI_SOFT_EVERY == 0 || depth == TRI_MAIL_MANY);
}

/*
 * Puts a message on top of the mail; *seen is what was there, *depth how many
 * there are now. The caller schedules if IDLE was seen: then it was empty.
 * False: closed, msg is still the caller's. Any thread.
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
        msg->node.next = tri_mail_newest(*seen);
        if (TRI_UNLIKELY(__builtin_add_overflow(
                *seen & kept, (uintptr_t)1 << ONE_SHIFT, &next))) {
            next = *seen & kept;  // many
        }
        next |= (uintptr_t)msg;
        // Release: publishes the message to tri_detach. Acquire: where IDLE
        // was set the cell is ours now; pairs with the step in tri_sleep.
    } while (!atomic_compare_exchange_weak_explicit(
        &cell->mail, seen, next, memory_order_acq_rel, memory_order_relaxed));
    *depth = tri_mail_depth(next);
    return true;
}

/*
 * Pushes a user message; *depth: how many it found, and itself. Takes msg on
 * TR_OK. Any thread. Errors: TR_EGONE, TR_ESTOPPED.
 */
static inline tr_err tri_push_user(tri_worker *worker, tri_cell *cell,
                                   uint64_t id, tr_msg *msg, uint32_t *depth)
{
    // Relaxed: only a first glance; the message carries the id.
    if (TRI_UNLIKELY(atomic_load_explicit(&cell->id, memory_order_relaxed) !=
                     id)) {
        return TR_EGONE;
    }
    msg->to_id = id;
    uintptr_t seen;
    if (TRI_UNLIKELY(!tri_mail_push(cell, msg, &seen, depth))) {
        return TR_ESTOPPED;
    }
    if (seen & TRI_MAIL_IDLE) {
        tri_schedule(worker, cell);
    }
    return TR_OK;
}

/* To the end of what the owner has detached. Takes the list. */
static inline void tri_queue_append(tri_cell *cell, tri_node *list)
{
    tri_node **end = &cell->queue;
    while (TRI_UNLIKELY(*end != NULL)) {
        end = &(*end)->next;
    }
    *end = list;
}

/*
 * Puts a message into the queue of an actor that sleeps. True: the cell is
 * the caller's, who schedules it. One exchange less than a push, which the
 * owner has to detach.
 */
static inline bool tri_mail_claim(tri_cell *cell, tr_msg *msg)
{
    uintptr_t idle = TRI_MAIL_IDLE;
    // Relaxed: a glance. Acquire: the cell is ours; pairs with the step in
    // tri_sleep.
    if (atomic_load_explicit(&cell->mail, memory_order_relaxed) != idle ||
        !atomic_compare_exchange_strong_explicit(&cell->mail, &idle, 0,
                                                 memory_order_acquire,
                                                 memory_order_relaxed)) {
        return false;
    }
    msg->node.next = NULL;
    // Behind mail that may not run beside a parked turn, if there is any.
    tri_queue_append(cell, &msg->node);
    // Relaxed: for observers.
    atomic_store_explicit(
        &cell->queued,
        atomic_load_explicit(&cell->queued, memory_order_relaxed) + 1,
        memory_order_relaxed);
    return true;
}

/*
 * Gives a request to an actor that sleeps, which then runs next; its mailbox
 * has no limit, and the asker parks now. Takes msg on true; false: it is to
 * be pushed.
 */
bool tri_hand_over(tri_worker *worker, tri_cell *cell, uint64_t id,
                   tr_msg *msg);

/* Schedules the cell if nobody owns it. After a write to sys_mail. */
void tri_poke(tri_worker *worker, tri_cell *cell);

uint32_t tri_signals_take(tri_cell *cell);
/* All system nodes, oldest first; *signalled: signals may be there, too. */
tri_node *tri_system_take(tri_cell *cell, bool *signalled);

/*
 * Gives the cell up until mail comes; user mail too, or system mail only.
 * False: user mail is there, the caller still owns the cell. True: the cell
 * must not be touched any more.
 */
bool tri_sleep(tri_worker *worker, tri_cell *cell, bool for_user_mail);

/* All user mail, newest first; `seen` is what the owner has just read. */
static inline tri_node *tri_mail_take(tri_cell *cell, uintptr_t seen)
{
    // Acquire: sees the messages that tri_mail_push published. Only the owner
    // sets CLOSED, so what it has seen of that bit is true.
    return tri_mail_newest(atomic_exchange_explicit(
        &cell->mail, seen & TRI_MAIL_CLOSED, memory_order_acq_rel));
}

/* The rest of tri_detach_first. */
tri_node *tri_detach_many(tri_cell *cell, tri_node *newest);

/*
 * Detaches user mail, of which there is some, where the queue is empty. The
 * oldest one, which does not go through the queue; or NULL: all are in it, as
 * something else must be looked at first.
 */
static inline tri_node *tri_detach_first(tri_cell *cell, uintptr_t seen)
{
    tri_node *newest = tri_mail_take(cell, seen);
    // Relaxed: fixed, or set before the message was pushed.
    if (TRI_LIKELY(newest->next == NULL && cell->slow == 0 &&
                   (atomic_load_explicit(&cell->flags, memory_order_relaxed) &
                    TRI_CELL_URGENT) == 0)) {
        return newest;
    }
    return tri_detach_many(cell, newest);
}

/*
 * tri_sleep for user mail too, where the owner has just seen none. False:
 * there is some now, or a push came between.
 */
static inline bool tri_sleep_idle(tri_worker *worker, tri_cell *cell,
                                  uintptr_t seen)
{
    // As in tri_sleep, both.
    if (!atomic_compare_exchange_strong_explicit(
            &cell->mail, &seen, seen | TRI_MAIL_IDLE, memory_order_seq_cst,
            memory_order_relaxed)) {
        return false;
    }
    if (TRI_UNLIKELY(
            atomic_load_explicit(&cell->sys_mail, memory_order_seq_cst) &
            ~TRI_SYS_CLOSED)) {
        tri_poke(worker, cell);
    }
    return true;
}

/* As tri_signal; true: the cell is the caller's now, who schedules it. */
bool tri_signal_claim(tri_cell *cell, uint64_t id, uint32_t signal);

/* Refuses all further mail; returns what was there, oldest first. */
tri_node *tri_close_user(tri_cell *cell);
tri_node *tri_close_system(tri_cell *cell);

/* Parks the sender until the mailbox has fallen to half the limit. */
tr_err tri_wait_for_room(tri_actor_from *who, tri_cell *cell, tr_ref to,
                         uint32_t limit);
/* The sender waits if the target's mailbox is beyond its soft limit. */
void tri_slow_down(tr_ctx *ctx, tri_cell *cell, tr_ref to);
/* One who is not slowed down has sent; the alarm is the same. */
void tri_look_at_depth(tri_worker *worker, tri_cell *cell);
/* Wakes all who wait, and refuses those who would from now on. */
void tri_room_close(tri_worker *worker, tri_ext *ext);
/* Puts a wait into the list of wait->room; false: it need not wait. */
bool tri_room_join(tri_wait *wait, tri_cell *cell, uint32_t limit);
/* Takes a wait out of the list again; false: it is being woken already. */
bool tri_room_leave(tri_wait *wait);
/* The same for a thread that is no actor, whose lock is given up meanwhile. */
tr_err tri_outside_room(tri_actor_from *who, tri_cell *cell, tr_ref to,
                        uint32_t limit);

/* Is it a message that a hard limit counts? Timers and answers are not. */
static inline bool tri_is_counted(const tri_node *node)
{
    return node->kind == TRI_NODE_USER && !(node->flags & TRI_MSG_TIMER);
}

/* Messages that come back to the queue are inside a hard limit again. */
static inline void tri_count_again(tri_cell *cell, int32_t count)
{
    if (cell->slow & TRI_SLOW_BOUNDED) {
        // Relaxed: only the number counts.
        atomic_fetch_add_explicit(&tri_ext_of(cell)->bounded, (uint32_t)count,
                                  memory_order_relaxed);
    }
}

/* The wait-for graph: deadlock.c. Errors: TR_EDEADLOCK. */
tr_err tri_edge_begin(tr_ctx *ctx, tri_wait *wait);
void tri_edge_end(tr_ctx *ctx, tri_wait *wait);
/* The same without an edge, with the text set: for one wait of several. */
bool tri_edge_would_close(tr_ctx *ctx, const tri_wait *wait);
/* What the actor's edge stands for is done: before it is told. Any thread. */
void tri_edge_answered(tri_cell *cell, uint64_t correlation);
/*
 * The actor is to end. Of its turns, those that wait for an ancestor who waits
 * for that end go on with TR_EDEADLOCK.
 */
void tri_edge_cut_family(tr_ctx *ctx);
/*
 * A request is passed on by this turn: its asker now waits for another.
 * Errors: TR_EDEADLOCK.
 */
tr_err tri_edge_move(tr_ctx *ctx, tr_msg *request, tr_ref to);

#endif
