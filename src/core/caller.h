/*
 * caller.h - who makes a call: an actor in a turn, an outside thread, a probe.
 *
 * Every call that sends, spawns or signals begins with tri_enter and ends with
 * tri_leave. Between them the caller may use one worker: its memory cache and
 * its run queues.
 *
 * Threads: any. A caller belongs to the thread that entered; a thread that is
 * not a worker must not wait between tri_enter and tri_leave.
 */
#ifndef TRI_CORE_CALLER_H
#define TRI_CORE_CALLER_H

#include "base/check.h"
#include "base/lock.h"
#include "base/world.h"
#include "core/run/context.h"
#include "core/system.h"
#include "core/types.h"

typedef struct tri_caller {
    tr_system *sys;
    tri_worker *worker;  // the caller's own, or sys->outside
    tr_ctx *ctx;         // NULL outside of a turn
    tr_ref sender;       // the actor or probe that calls, or nobody
    bool locked;         // the caller holds sys->outside_lock
    bool never_waits;    // tr_try_tell: not even for room in a mailbox
    bool admitted;       // a hard limit has counted the message already
    tr_nanos deadline;   // of a wait for room; 0: after the ask_timeout
} tri_caller;

/* True if the call comes from a turn. False for NULL. */
static inline bool tri_from_is_ctx(tr_from from)
{
    return TRI_LIKELY(from.ctx != NULL) && from.ctx->magic == TRI_CTX_MAGIC;
}

/* Returns the system of the caller; ends the process if it is not open. */
tr_system *tri_from_system(tr_from from);

/* Returns the world of that system. */
tri_world *tri_from_world(tr_from from);

/* Out-of-line part of tri_enter: `from` is not a context. */
tri_caller tri_enter_outside(tr_from from);

/* Enters for a thread that knows its system but has no tr_from. */
tri_caller tri_enter_system(tr_system *sys, tr_ref sender);

/* Returns the caller with its worker; takes outside_lock if it needs it. */
static inline tri_caller tri_enter(tr_from from)
{
    tr_ctx *ctx = from.ctx;
    if (TRI_UNLIKELY(!tri_from_is_ctx(from))) {
        return tri_enter_outside(from);
    }
    return (tri_caller){.sys = ctx->sys,
                        .worker = ctx->worker,
                        .ctx = ctx,
                        .sender = tri_cell_ref(ctx->sys, ctx->cell)};
}

/* Ends what tri_enter began; the worker must not be used after it. */
static inline void tri_leave(tri_caller *caller)
{
    TRI_CHECK_SLOW(caller->worker != NULL);
    if (caller->locked) {
        tri_lock_drop(&caller->sys->outside_lock);
    }
}

#endif
