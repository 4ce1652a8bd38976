/*
 * send.c - the parts of a send that are not in line, and dead letters.
 *
 * A ref names its system in a tag of 16 bits, so a send compares the tag
 * before it touches the cell. The memory of a cell stays a cell for the
 * system's life: a stale ref is read safely and finds another id.
 */
#include "core/mail/send.h"

#include <stdatomic.h>

#include "base/check.h"
#include "core/caller.h"
#include "core/cell/cell.h"
#include "core/cell/message.h"
#include "core/cell/ref.h"
#include "core/mail/hard_limit.h"
#include "core/mail/soft_limit.h"
#include "core/run/context.h"
#include "core/run/park.h"
#include "core/run/scheduler.h"
#include "core/run/worker.h"
#include "core/system.h"

void tri_dead(tri_worker *worker, tr_ref to, tr_msg *msg, uint32_t reason)
{
    TRI_CHECK(msg != NULL);
    worker->sys->up->dead_letter(worker, to, msg, reason);
}

/* Returns the reason of the dead letter for an error of tri_try_send. */
static uint32_t dead_reason(tr_err err)
{
    switch (err) {
    case TR_EFULL:
    case TR_EDEADLOCK:
    case TR_ETIMEDOUT:  // no room came in time
    case TR_ELIMIT:
        return TR_DEAD_FULL;
    case TR_EFOREIGN:
        return TR_DEAD_FOREIGN;
    case TR_ESTOPPED:
        return TR_DEAD_STOPPING;
    case TR_ECLOSED:
        return TR_DEAD_CLOSED;
    case TR_ENOMEM:
        return TR_DEAD_NO_MEMORY;
    default:
        return TR_DEAD_NO_SUCH_ACTOR;
    }
}

void tri_send_finish(tr_ctx *ctx, uint64_t to_cell, uint64_t to_id, bool deep,
                     bool idle)
{
    tr_ref to = {to_cell, to_id};
    TRI_CHECK(ctx->magic == TRI_CTX_MAGIC);
    if (idle) {
        tri_schedule(ctx->worker, tri_ref_cell(to));
    }
    if (deep) {
        tri_soft_limit_slow_down(ctx, tri_ref_cell(to), to);
    }
    if (--ctx->worker->sends_left == 0) {
        tri_yield(ctx);
    }
}

tr_err tri_send_without_handoff(tri_worker *worker, uint64_t to_cell,
                                uint64_t to_id, tr_msg *msg)
{
    return tri_send_ordinary(0, worker, NULL, (tr_ref){to_cell, to_id}, 0, msg);
}

/* Returns the policy of a caller: a turn that may wait is slowed. */
static inline uint32_t policy_of(const tri_caller *caller)
{
    return caller->ctx != NULL && !caller->never_waits ? TRI_SEND_SLOWED : 0;
}

tr_err tri_send_special(tri_caller *caller, tr_ref to, tr_msg *msg)
{
    tr_system *sys = caller->sys;
    TRI_CHECK_SLOW(sys->magic == TRI_SYSTEM_MAGIC);  // tri_enter has checked it
    if (!tri_ref_is_here(sys, to)) {
        return tri_ref_cell(to) == NULL ? TR_EGONE : TR_EFOREIGN;
    }
    tri_cell *cell = tri_ref_cell(to);
    // Relaxed: as in tri_send_is_special.
    uint32_t flags = atomic_load_explicit(&cell->flags, memory_order_relaxed);
    msg->sender = caller->sender;
    if (flags & TRI_CELL_RELAYED) {
        msg->to_id = to.id;
        return tri_virtual_ops_of(sys)->send(caller->worker, cell, msg);
    }
    if (flags & TRI_CELL_BOUNDED) {
        // Relaxed: the limit must be that of the actor which is meant.
        if (atomic_load_explicit(&cell->id, memory_order_relaxed) != to.id ||
            (flags & TRI_CELL_ZOMBIE)) {
            return TR_EGONE;
        }
        if (!caller->admitted) {
            TR_TRY(tri_hard_limit_admit(caller, cell, to));
        }
    }
    tr_err err = tri_send_ordinary(policy_of(caller), caller->worker,
                                   caller->ctx, to, flags, msg);
    if (err != TR_OK && (flags & TRI_CELL_BOUNDED)) {
        tri_hard_limit_unadmit(cell);
    }
    // A virtual actor that is not active: the message may activate it.
    return err == TR_ESTOPPED && (flags & TRI_CELL_VIRTUAL)
               ? tri_virtual_ops_of(sys)->send(caller->worker, cell, msg)
               : err;
}

/* tri_try_send, inlined into tri_send. */
static inline tr_err try_send(tri_caller *caller, tr_ref to, tr_msg *msg)
{
    TRI_CHECK(msg != NULL);
    if (TRI_UNLIKELY(tri_send_is_special(caller->sys, to))) {
        return tri_send_special(caller, to, msg);
    }
    msg->sender = caller->sender;
    return tri_send_ordinary(policy_of(caller), caller->worker, caller->ctx, to,
                             0, msg);
}

tr_err tri_try_send(tri_caller *caller, tr_ref to, tr_msg *msg)
{
    return try_send(caller, to, msg);
}

void tri_send(tri_caller *caller, tr_ref to, tr_msg *msg)
{
    tr_err err = try_send(caller, to, msg);
    if (TRI_UNLIKELY(err != TR_OK)) {
        tri_dead(caller->worker, to, msg, dead_reason(err));
    }
}
