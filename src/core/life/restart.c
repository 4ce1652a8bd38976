/*
 * restart.c - ends one incarnation of an actor and starts the next.
 *
 * Ref, mailbox, name and watches stay, rule 28 (a restart). The
 * stages are those of lifecycle.c: parked turns return, pre_restart, children,
 * post_stop, release of everything that the incarnation held, the cohort, the
 * delay, and then the same start as the first one.
 *
 * Invariant: no incarnation starts while a stack of the one before has not
 * returned. If a turn does not return in time, the actor ends instead.
 */
#include "core/life/restart.h"

#include <stdatomic.h>

#include "base/check.h"
#include "core/cell/behaviour.h"
#include "core/cell/cell.h"
#include "core/cell/ext.h"
#include "core/cell/props.h"
#include "core/life/cohort.h"
#include "core/life/failure.h"
#include "core/life/family.h"
#include "core/life/force.h"
#include "core/life/lifecycle.h"
#include "core/life/start.h"
#include "core/life/stop.h"
#include "core/life/supervise.h"
#include "core/life/watch.h"
#include "core/mail/drain.h"
#include "core/mail/keep.h"
#include "core/mail/mailbox.h"
#include "core/run/context.h"
#include "core/run/handle.h"
#include "core/run/park.h"
#include "core/run/worker.h"
#include "core/system.h"

bool tri_restart_forbid(tr_ctx *ctx)
{
    tri_cell_assert_owned(ctx->cell);
    tri_ext *ext = tri_ext_need(ctx->worker, ctx->cell);
    if (ext == NULL) {
        return false;
    }
    // Release: pairs with tri_restart_is_allowed.
    atomic_store_explicit(&ext->restarts.is_forbidden, true,
                          memory_order_release);
    return true;
}

bool tri_restart_is_allowed(tri_cell *cell)
{
    tri_ext *ext = tri_ext_of(cell);
    if (cell->props != NULL && cell->props->restart == TR_TEMPORARY) {
        return false;
    }
    // Acquire: pairs with tri_restart_forbid.
    return ext == NULL || !atomic_load_explicit(&ext->restarts.is_forbidden,
                                                memory_order_acquire);
}

void tri_restart_begin(tr_ctx *ctx)
{
    tri_cell *cell = ctx->cell;
    TRI_CHECK(!cell->skips_hooks);
    tri_stage_set(cell, TRI_STAGE_UNWIND);
    tri_life_set(ctx->worker, cell, TR_STATE_RESTARTING);
    tri_count(&ctx->worker->count.restarts);
    tri_count(&tri_lives_of(ctx->worker, cell)->restarts);
    tri_parked_cancel(ctx->worker, cell,
                      TRI_PARKED_MESSAGES | TRI_PARKED_RUN | TRI_PARKED_HOOKS,
                      TR_ERESTARTED);
    tri_deadline_arm(ctx, tri_stop_timeout(cell));
}

/* True if a parked turn is still waiting. */
static bool has_waiting_turns(tri_cell *cell)
{
    tri_ext *ext = tri_ext_of(cell);
    const tr_ctx *turn = ext != NULL ? ext->parked : NULL;
    while (turn != NULL && turn->ready) {
        turn = turn->next;
    }
    return turn != NULL;
}

void tri_restart_give_up(tr_ctx *ctx)
{
    tri_cell *cell = ctx->cell;
    TRI_CHECK(tri_cell_life(cell) == TR_STATE_RESTARTING);
    char text[] = "a turn has not returned in time: it cannot be restarted";
    tri_failure failure = {
        .err = TR_ETIMEDOUT, .phase = TR_IN_RESTART, .text = text};
    tr_directive directive = tri_supervision_of(ctx->sys, cell)->on_limit;
    ctx->sys->up->supervision(ctx->worker, cell, &failure, directive, true);
    tri_parked_cancel(ctx->worker, cell,
                      TRI_PARKED_MESSAGES | TRI_PARKED_RUN | TRI_PARKED_HOOKS,
                      TR_EKILLED);
    tri_stop_begin(ctx, TR_FORCED);
    if (has_waiting_turns(cell) && tri_force_self(ctx)) {
        return;
    }
    if (directive == TR_ESCALATE) {
        tri_parent_signal(ctx->worker, cell, TRI_SIG_CHILD_LOST);
    }
}

/*
 * True if the actor may stop now. A member of a cohort waits until its younger
 * siblings have stopped; its stop time-out does not run meanwhile.
 */
static bool cohort_lets_stop(tr_ctx *ctx)
{
    tri_cell *cell = ctx->cell;
    if (tri_cohort_stage_of(cell) == TRI_COHORT_SUSPENDED) {
        tri_deadline_disarm(ctx->sys, cell);
        return false;
    }
    if (cell->timer.due == 0) {
        tri_deadline_arm(ctx, tri_stop_timeout(cell));
    }
    return true;
}

/* Waits until parked turns have returned, then calls pre_restart. */
static tri_step unwind(tr_ctx *ctx)
{
    tri_cell *cell = ctx->cell;
    const tr_actor_def *def = tri_def_of(cell);
    if (tri_parked_count(cell, TRI_PARKED_MESSAGES | TRI_PARKED_RUN) > 0) {
        return TRI_STEP_WAIT;
    }
    if (!cohort_lets_stop(ctx)) {
        return TRI_STEP_WAIT;
    }
    tri_stage_set(cell, TRI_STAGE_STOP_CHILDREN);
    if (def->pre_restart != NULL && tri_has_state(cell)) {
        tri_failure_view view;
        tri_failure_show(ctx->sys, cell, &view);
        tri_hook_begin(ctx, TR_IN_RESTART);
        tr_err err = def->pre_restart(ctx, cell->state, &view.failure);
        if (err != TR_OK) {
            tri_hook_failed(ctx, err);
        } else {
            tri_turn_end(ctx);
        }
    }
    return TRI_STEP_AGAIN;
}

static tri_step stop_children(tr_ctx *ctx, bool keep_children)
{
    tri_cell *cell = ctx->cell;
    tri_stage_set(cell, TRI_STAGE_AWAIT_CHILDREN);
    if (!keep_children) {
        tri_family_close(cell, true);
        tri_kept_refuse_family(ctx, TR_ERESTARTED);
        tri_family_set_awaited(cell, tri_children_live(cell) > 0);
        tri_unwatch_children(ctx->worker, cell);
        tri_children_signal(ctx, TRI_SIG_STOP);
    }
    return TRI_STEP_AGAIN;
}

static tri_step await_children(tr_ctx *ctx, bool keep_children)
{
    tri_cell *cell = ctx->cell;
    if (!keep_children && tri_children_live(cell) > 0) {
        return TRI_STEP_WAIT;
    }
    tri_family_set_awaited(cell, false);
    tri_stage_set(cell, TRI_STAGE_RELEASE);
    tri_post_stop(ctx, TR_RESTARTING);
    return TRI_STEP_AGAIN;
}

/* Releases what the incarnation held and resets the behaviour. */
static tri_step release(tr_ctx *ctx)
{
    tri_cell *cell = ctx->cell;
    TRI_CHECK(tri_parked_count(cell, TRI_PARKED_MESSAGES | TRI_PARKED_RUN) ==
              0);
    if (tri_waits_for_store(cell)) {
        return TRI_STEP_WAIT;
    }
    tri_life_release(ctx, TR_ERESTARTED);
    tri_unstash(cell);
    if (tri_supervision_of(ctx->sys, cell)->clear_mailbox) {
        tri_detach(cell);
        tri_queue_gather(cell);
        tri_drain_queue(ctx->worker, cell, TR_DEAD_RESTARTED);
    }
    tri_failure_retry(ctx, cell);
    tri_cell_become(cell, tri_first_behaviour(cell));
    tri_stage_set(cell, TRI_STAGE_AWAIT_COHORT);
    tri_deadline_disarm(ctx->sys, cell);
    tri_cohort_report(ctx->worker, cell, TRI_COHORT_STOPPED);
    return TRI_STEP_AGAIN;
}

static tri_step await_cohort(tr_ctx *ctx)
{
    tri_cell *cell = ctx->cell;
    tri_ext *ext = tri_ext_of(cell);
    TRI_CHECK(cell->timer.due == 0);
    if (tri_cohort_stage_of(cell) == TRI_COHORT_STOPPED) {
        return TRI_STEP_WAIT;
    }
    tri_stage_set(cell, TRI_STAGE_DELAY);
    if (ext != NULL && ext->restarts.backoff > 0) {
        tri_deadline_arm(ctx, ext->restarts.backoff);
        ext->restarts.backoff = 0;
        return TRI_STEP_WAIT;
    }
    tri_stage_set(cell, TRI_STAGE_START);
    return TRI_STEP_AGAIN;
}

static tri_step start(tr_ctx *ctx, bool keep_children)
{
    TRI_CHECK(tri_ext_of(ctx->cell) == NULL ||
              tri_ext_of(ctx->cell)->parked == NULL);
    tri_deadline_disarm(ctx->sys, ctx->cell);
    tri_family_close(ctx->cell, false);
    if (keep_children) {  // those whose failure was escalated restart as well
        tri_children_signal(ctx, TRI_SIG_RESTART | TRI_SIG_RESUME);
    }
    return tri_life_start(ctx);
}

tri_step tri_restart_step(tr_ctx *ctx)
{
    tri_cell *cell = ctx->cell;
    TRI_CHECK(tri_cell_life(cell) == TR_STATE_RESTARTING);
    tri_cell_assert_owned(cell);
    bool keep_children = tri_supervision_of(ctx->sys, cell)->keep_children;
    switch ((tri_stage)cell->stage) {
    case TRI_STAGE_UNWIND:
        return unwind(ctx);
    case TRI_STAGE_STOP_CHILDREN:
        return stop_children(ctx, keep_children);
    case TRI_STAGE_AWAIT_CHILDREN:
        return await_children(ctx, keep_children);
    case TRI_STAGE_RELEASE:
        return release(ctx);
    case TRI_STAGE_AWAIT_COHORT:
        return await_cohort(ctx);
    case TRI_STAGE_DELAY:
        return TRI_STEP_WAIT;
    case TRI_STAGE_START:
        break;
    }
    return start(ctx, keep_children);
}
