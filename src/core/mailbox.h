/*
 * mailbox.h - the owner's side of a mailbox, for the rest of the core.
 *
 * Threads: the owner of the cell, except where said.
 */
#ifndef TRI_CORE_MAILBOX_H
#define TRI_CORE_MAILBOX_H

#include "core/runtime.h"

/* A push that finds this many below it looks at the soft limit. */
#ifdef TRI_TORTURE
#define TRI_SOFT_GLANCE 1
#else
#define TRI_SOFT_GLANCE 64
#endif

/*
 * Pushes a user message; *depth: how many it found, and itself. Takes msg on
 * TR_OK. Any thread. Errors: TR_EGONE, TR_ESTOPPED.
 */
static inline tr_err tri_push_user(tri_worker *worker, tri_cell *cell, uint64_t id,
                               tr_msg *msg, uint32_t *depth)
{
    // Relaxed: only a first glance; the message carries the id.
    if (TRI_UNLIKELY(atomic_load_explicit(&cell->id, memory_order_relaxed) !=
                     id)) {
        return TR_EGONE;
    }
    msg->to_id = id;
    // Relaxed: the exchange below confirms it.
    uintptr_t seen = atomic_load_explicit(&cell->mail, memory_order_relaxed);
    uintptr_t count;
    do {
        if (TRI_UNLIKELY(seen & TRI_MAIL_CLOSED)) {
            return TR_ESTOPPED;
        }
        msg->node.next = tri_mail_newest(seen);
        count = seen >> TRI_MAIL_DEPTH_SHIFT;
        count += count < TRI_MAIL_MANY;
        // Release: publishes the message to tri_detach. Acquire: where IDLE
        // was set the cell is ours now; pairs with the step in tri_sleep.
    } while (!atomic_compare_exchange_weak_explicit(
        &cell->mail, &seen,
        (uintptr_t)msg | (seen & TRI_MAIL_PARKED) |
            count << TRI_MAIL_DEPTH_SHIFT,
        memory_order_acq_rel, memory_order_relaxed));
    *depth = (uint32_t)count;
    if (seen & TRI_MAIL_IDLE) {
        tri_schedule(worker, cell);
    }
    return TR_OK;
}

uint32_t tri_signals_take(tri_cell *cell);
/* All system nodes, oldest first; *signalled: signals may be there, too. */
tri_node *tri_system_take(tri_cell *cell, bool *signalled);

/*
 * Gives the cell up until mail comes; user mail too, or system mail only.
 * False: user mail is there, the caller still owns the cell. True: the cell
 * must not be touched any more.
 */
bool tri_sleep(tri_worker *worker, tri_cell *cell, bool for_user_mail);

/* Refuses all further mail; returns what was there, oldest first. */
tri_node *tri_close_user(tri_cell *cell);
tri_node *tri_close_system(tri_cell *cell);

/* Parks the sender until the mailbox has fallen to half the limit. */
tr_err tri_wait_for_room(tri_actor_from *who, tri_cell *cell, tr_ref to,
                         uint32_t limit);
/* The sender waits if the target's mailbox is beyond its soft limit. */
void tri_slow_down(tr_ctx *ctx, tri_cell *cell, tr_ref to);
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
        atomic_fetch_add_explicit(&tri_ext_of(cell)->bounded,
                                  (uint32_t)count, memory_order_relaxed);
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
 * A request is passed on by this turn: its asker now waits for another.
 * Errors: TR_EDEADLOCK.
 */
tr_err tri_edge_move(tr_ctx *ctx, tr_msg *request, tr_ref to);

#endif
