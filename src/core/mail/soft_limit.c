/*
 * soft_limit.c - checks a mailbox's soft limit after a send.
 *
 * The message is in the mailbox before its depth is compared, so a soft limit
 * refuses nothing; it only delays the sender's next step.
 *
 * Invariant: a cell whose soft limit is below TRI_SOFT_CHECK_FROM has
 * TRI_CELL_DEPTH_CHECKED for life (spawn.c); any other cell only while turns
 * of it are parked.
 */
#include "core/mail/soft_limit.h"

#include <stdatomic.h>

#include "base/check.h"
#include "core/caller.h"
#include "core/cell/cell.h"
#include "core/cell/ext.h"
#include "core/mail/hard_limit.h"
#include "core/mail/room.h"
#include "core/run/context.h"
#include "core/run/worker.h"
#include "core/system.h"

/* Senders may not read the actor's props, so they read the copy in ext. */
uint32_t tri_soft_limit(tr_system *sys, tri_cell *cell)
{
    TRI_CHECK(sys->magic == TRI_SYSTEM_MAGIC);
    // Acquire: pairs with tri_ext_make. Relaxed: fixed at spawn.
    tri_ext *ext = atomic_load_explicit(&cell->ext, memory_order_acquire);
    uint32_t limit = ext != NULL ? atomic_load_explicit(&ext->room.soft_limit,
                                                        memory_order_relaxed)
                                 : 0;
    return limit != 0 ? limit : sys->options.soft_limit;
}

void tri_soft_limit_check_always(tri_cell *cell)
{
    tri_cell_assert_owned(cell);
    // Relaxed, all: the owner's own number; senders may see the flag late.
    if (atomic_load_explicit(&cell->queued, memory_order_relaxed) >=
            TRI_SOFT_CHECK_FROM &&
        (atomic_load_explicit(&cell->flags, memory_order_relaxed) &
         TRI_CELL_DEPTH_CHECKED) == 0) {
        atomic_fetch_or_explicit(&cell->flags, TRI_CELL_DEPTH_CHECKED,
                                 memory_order_relaxed);
    }
}

void tri_soft_limit_check_seldom(tri_worker *worker, tri_cell *cell)
{
    tri_cell_assert_owned(cell);
    if (tri_soft_limit(worker->sys, cell) >= TRI_SOFT_CHECK_FROM) {
        // Relaxed: senders may see it late.
        atomic_fetch_and_explicit(&cell->flags,
                                  ~(uint32_t)TRI_CELL_DEPTH_CHECKED,
                                  memory_order_relaxed);
    }
}

/* True for cells of the runtime, which must take their mail at any depth. */
static bool is_exempt(uint32_t flags)
{
    return (flags & (TRI_CELL_SYSTEM | TRI_CELL_OUTSIDE)) != 0;
}

void tri_soft_limit_slow_down(tr_ctx *ctx, tri_cell *cell, tr_ref to)
{
    TRI_CHECK(ctx->magic == TRI_CTX_MAGIC);
    // Relaxed: fixed at spawn; a stale ref finds those of another actor.
    uint32_t flags = atomic_load_explicit(&cell->flags, memory_order_relaxed);
    if (is_exempt(flags) ||
        ((flags & TRI_CELL_BOUNDED) && tri_hard_limit_blocks(cell))) {
        return;
    }
    // Rule 35 (soft limit): a hook does not wait. The receiver may be a
    // sibling that starts only after the hook has returned (cohort.c).
    if (ctx->kind == TRI_TURN_HOOK) {
        tri_soft_limit_alarm(ctx->worker, cell);
        return;
    }
    tri_caller caller = {.sys = ctx->sys, .worker = ctx->worker, .ctx = ctx};
    uint32_t limit = tri_soft_limit(ctx->sys, cell);
    uint32_t depth = tri_depth(cell);
    if (depth > limit && tri_room_wait(&caller, cell, to, limit) != TR_OK) {
        ctx->sys->up->overload(ctx->worker, cell, depth);
    }
}

void tri_soft_limit_alarm(tri_worker *worker, tri_cell *cell)
{
    TRI_CHECK(worker->sys->magic == TRI_SYSTEM_MAGIC);
    uint32_t depth = tri_depth(cell);
    // Relaxed: fixed at spawn; a stale ref finds those of another actor.
    uint32_t flags = atomic_load_explicit(&cell->flags, memory_order_relaxed);
    if (!is_exempt(flags) && depth > tri_soft_limit(worker->sys, cell)) {
        worker->sys->up->overload(worker, cell, depth);
    }
}
