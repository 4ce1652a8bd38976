/*
 * send.h - sending a message to an actor: one send, with a policy.
 *
 * Every user message goes through tri_send_ordinary. Its policy says what the
 * send may do to the sender, and is known where the send is compiled, so that
 * the compiler keeps only the steps of that policy:
 *
 *   tr_tell from a turn, fast path    TRI_SEND_SLOWED | TRI_SEND_FAST
 *   the other sends of a turn         TRI_SEND_SLOWED
 *   tr_ask from a turn                TRI_SEND_PARKS
 *   futures and callbacks             0
 *   outside threads, the runtime      0
 *
 * Ownership: a send takes the message if it returns TR_OK; tri_send and
 * tri_dead take it on every path.
 *
 * Threads: any thread that may use the worker it passes. With TRI_SEND_SLOWED
 * the turn may be parked inside the call.
 */
#ifndef TRI_CORE_MAIL_SEND_H
#define TRI_CORE_MAIL_SEND_H

#include <stdatomic.h>

#include "base/check.h"
#include "core/cell/cell.h"
#include "core/cell/message.h"
#include "core/cell/ref.h"
#include "core/mail/mailbox.h"
#include "core/mail/push.h"
#include "core/mail/soft_limit.h"
#include "core/run/run_queue.h"
#include "core/run/scheduler.h"
#include "core/run/worker.h"
#include "core/system.h"
#include "core/types.h"

enum {
    /*
     * The sender is a turn: it waits while the target is above its soft
     * limit, and yields after TRI_BATCH_SENDS sends. Without this flag a
     * target above its soft limit only causes an alarm.
     */
    TRI_SEND_SLOWED = 1,
    /* The sender parks right after the send, so the target may run next. */
    TRI_SEND_PARKS = 2,
    /*
     * The caller has compared the target's id, and the message is not urgent:
     * it may go into the queue of a sleeping actor, which costs one exchange
     * less. A very deep lane refuses it as a closed one does. Only some pushes
     * check the soft limit (TRI_SOFT_CHECK_EVERY).
     */
    TRI_SEND_FAST = 4,

    /* Flags of a cell that need more than tri_send_ordinary. */
    TRI_SEND_SPECIAL =
        TRI_CELL_BOUNDED | TRI_CELL_DEPTH_CHECKED | TRI_CELL_VIRTUAL,
};

/* Sends msg; if the target does not take it, it becomes a dead letter. */
void tri_send(tri_caller *caller, tr_ref to, tr_msg *msg);

/*
 * Sends msg with the policy of its caller: slowed down if it is a turn.
 * Errors: TR_EGONE, TR_ESTOPPED, TR_EFOREIGN, and those of
 * tri_hard_limit_admit and tri_virtual_ops.send.
 */
tr_err tri_try_send(tri_caller *caller, tr_ref to, tr_msg *msg);

/* Hands msg to the dead letters with the reason, one of TR_DEAD_*. */
void tri_dead(tri_worker *worker, tr_ref to, tr_msg *msg, uint32_t reason);

/* True if a send to the ref needs tri_send_special. */
static inline bool tri_send_is_special(const tr_system *sys, tr_ref to)
{
    // Relaxed: set before the ref existed; a stale ref finds those of another
    // actor, and the push finds another id.
    return TRI_UNLIKELY(!tri_ref_is_here(sys, to)) ||
           TRI_UNLIKELY((atomic_load_explicit(&tri_ref_cell(to)->flags,
                                              memory_order_relaxed) &
                         TRI_SEND_SPECIAL) != 0);
}

/*
 * Sends msg to a ref of any system, or to a cell with a flag of
 * TRI_SEND_SPECIAL. Errors: as tri_try_send.
 */
tr_err tri_send_special(tri_caller *caller, tr_ref to, tr_msg *msg);

/*
 * Ends a send of a turn out of line: schedules the target if it was idle,
 * parks the sender if the mailbox is deep, and counts the send.
 */
void tri_send_finish(tr_ctx *ctx, uint64_t to_cell, uint64_t to_id, bool deep,
                     bool idle);

/*
 * Ends a send with TRI_SEND_PARKS whose target cannot run next, out of line.
 * Errors: TR_EGONE, TR_ESTOPPED.
 */
tr_err tri_send_without_handoff(tri_worker *worker, uint64_t to_cell,
                                uint64_t to_id, tr_msg *msg);

/*
 * Pushes msg, whose sender is set, to an actor of this system and does what
 * the policy asks for. `ctx` is the sending turn, or NULL without
 * TRI_SEND_SLOWED; `flags` are those of the target that the caller has read,
 * or 0. Errors: TR_EGONE, TR_ESTOPPED.
 */
static inline __attribute__((always_inline)) tr_err
tri_send_ordinary(uint32_t policy, tri_worker *worker, tr_ctx *ctx, tr_ref to,
                  uint32_t flags, tr_msg *msg)
{
    tri_cell *cell = tri_ref_cell(to);
    uintptr_t seen = TRI_MAIL_IDLE;
    uint32_t depth = 1;

    TRI_CHECK_SLOW(tri_ref_is_here(worker->sys, to));
    TRI_CHECK_SLOW(ctx != NULL || (policy & TRI_SEND_SLOWED) == 0);
    msg->to_id = to.id;
    if (policy & TRI_SEND_PARKS) {
        return TRI_LIKELY(tri_handoff_send(worker, cell, msg))
                   ? TR_OK
                   : tri_send_without_handoff(worker, to.cell, to.id, msg);
    }
    // Relaxed: saves a push in vain; the message carries the id.
    if (!(policy & TRI_SEND_FAST) &&
        TRI_UNLIKELY(atomic_load_explicit(&cell->id, memory_order_relaxed) !=
                     to.id)) {
        return TR_EGONE;
    }
    if (!((policy & TRI_SEND_FAST) && tri_mail_claim(cell, msg)) &&
        TRI_UNLIKELY(!((policy & TRI_SEND_FAST)
                           ? tri_mail_push(cell, msg, &seen, &depth)
                           : tri_mail_push_any(cell, msg, &seen, &depth)))) {
        return TR_ESTOPPED;
    }
    bool idle = (seen & TRI_MAIL_IDLE) != 0;
    bool deep = (policy & TRI_SEND_FAST) ? tri_soft_limit_is_checked(depth)
                                         : depth >= TRI_SOFT_CHECK_FROM ||
                                               (flags & TRI_CELL_DEPTH_CHECKED);
    if (!(policy & TRI_SEND_SLOWED)) {
        if (idle) {
            tri_schedule(worker, cell);
        }
        if (TRI_UNLIKELY(deep)) {
            tri_soft_limit_alarm(worker, cell);
        }
        return TR_OK;
    }
    if (TRI_UNLIKELY(deep || worker->sends_left == 1)) {
        tri_send_finish(ctx, to.cell, to.id, deep, idle);
        return TR_OK;
    }
    worker->sends_left--;
    if (idle) {
        tri_schedule_inline(worker, cell);
    }
    return TR_OK;
}

#endif
