/*
 * lifecycle.c - the eight states of an actor, its hooks and its signals.
 *
 * The table `legal` has all transitions; rule 20 (states) of docs/semantics.md
 * and tests/unit/core/life/lifecycle_test.c follow it. start.c, restart.c and
 * stop.c have the steps of a start, a restart and an end.
 *
 * A stop and a restart go through stages (tri_cell.stage). Each stage waits
 * for a condition, does its work and begins the next one:
 *
 *   stage           waits for         STOPPING           RESTARTING
 *   UNWIND          parked turns      pre_stop           pre_restart
 *   STOP_CHILDREN                     signal children    the same, or keep them
 *   AWAIT_CHILDREN  their end         post_stop          post_stop
 *   RELEASE         the store         the end            release the old
 *                                                        incarnation
 *   AWAIT_COHORT    siblings' stop                       arm the delay
 *   DELAY           cell.timer
 *   START                                                start
 *
 * Flags of the cell beside the stage:
 *
 *   children_forced  STOPPING, RESTARTING: the children were sent
 *                    TRI_SIG_FORCE; the next deadline ends them by force
 *   skips_hooks      STOPPING: the restart that this stop interrupts had called
 *                    post_stop already, so the stop calls no hook
 *   notice_back      FAILED: the parent has decided. Until then it may read the
 *                    cell, so the owner changes nothing
 *   stop_held, kill_held, force_held
 *                    FAILED: signals that came before notice_back
 *
 * Invariant: all of this runs in turns of the cell's owner. A hook may park:
 * then another fiber continues with the cell, finds the hook parked and waits.
 * So the next stage begins before a hook is called, never after; a hook that
 * panics or parks is not called twice.
 */
#include "core/life/lifecycle.h"

#include <stdatomic.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/wheel.h"
#include "core/caller.h"
#include "core/cell/cell.h"
#include "core/cell/ext.h"
#include "core/cell/ref.h"
#include "core/life/cohort.h"
#include "core/life/failure.h"
#include "core/life/restart.h"
#include "core/life/start.h"
#include "core/life/stop.h"
#include "core/mail/room.h"
#include "core/run/clock.h"
#include "core/run/context.h"
#include "core/run/handle.h"
#include "core/run/park.h"
#include "core/run/worker.h"
#include "core/system.h"

#define BIT(state) (UINT32_C(1) << TR_STATE_##state)

/* From each state, the states that may follow. */
static const uint32_t legal[] = {
    [TR_STATE_CREATED] = BIT(STARTING),
    [TR_STATE_STARTING] = BIT(RUNNING) | BIT(FAILED) | BIT(STOPPING),
    [TR_STATE_RUNNING] = BIT(STOPPING) | BIT(FAILED) | BIT(RESTARTING),
    [TR_STATE_STOPPING] = BIT(STOPPED),
    [TR_STATE_STOPPED] = BIT(TERMINATED),
    [TR_STATE_FAILED] = BIT(RUNNING) | BIT(RESTARTING) | BIT(STOPPING),
    [TR_STATE_RESTARTING] = BIT(STARTING) | BIT(STOPPING),
    [TR_STATE_TERMINATED] = 0,
};

/* ---- states ---- */

const char *tri_state_name(tr_state state)
{
    static const char *const names[] = {
        "NONE",    "CREATED", "STARTING",   "RUNNING",    "STOPPING",
        "STOPPED", "FAILED",  "RESTARTING", "TERMINATED",
    };
    return (unsigned)state < TRI_COUNT_OF(names) ? names[state] : "UNKNOWN";
}

bool tri_life_is_legal(tr_state from, tr_state to)
{
    return (unsigned)from < TRI_COUNT_OF(legal) &&
           (legal[from] & (UINT32_C(1) << to)) != 0;
}

void tri_life_publish(tri_worker *worker, tri_cell *cell, tr_state state)
{
    if (tri_life_is_watched(worker) && !tri_cell_is_zombie(cell)) {
        worker->sys->up->lifecycle(worker, cell, state);
    }
}

void tri_life_set(tri_worker *worker, tri_cell *cell, tr_state state)
{
    TRI_CHECK_SLOW(tri_cell_is_owned(cell));
    TRI_CHECK(tri_life_is_legal(tri_cell_life(cell), state));
    if (state == TR_STATE_RUNNING) {
        cell->attention &= (uint16_t)~TRI_ATTENTION_LIFE;
    } else {
        cell->attention |= TRI_ATTENTION_LIFE;
    }
    tri_life_set_several(cell, (uint32_t)state, TRI_STATE_BITS);
    if (TRI_UNLIKELY(tri_cell_is_virtual(cell))) {
        tri_virtual_ops_of(worker->sys)->life(worker, cell, state);
    }
    // stop.c publishes STOPPED when the name is free, rule 25 (order of an
    // end).
    if (TRI_UNLIKELY(tri_life_is_watched(worker)) &&
        state != TR_STATE_STOPPED) {
        tri_life_publish(worker, cell, state);
    }
}

bool tri_life_takes_children(tri_cell *cell)
{
    switch (tri_cell_life(cell)) {
    case TR_STATE_STOPPING:
    case TR_STATE_RESTARTING:
        return cell->stage < TRI_STAGE_AWAIT_CHILDREN;
    case TR_STATE_STOPPED:
    case TR_STATE_TERMINATED:
        return false;
    default:
        return true;
    }
}

tr_state(tr_state_of)(tr_from from, tr_ref ref)
{
    tr_system *sys = tri_from_system(from);
    tri_cell *cell = tri_ref_cell(ref);
    if (!tri_ref_is_here(sys, ref)) {
        return TR_STATE_TERMINATED;
    }
    // Acquire: the state first, then the id that it belongs to; pairs with
    // tri_life_set_several and tri_cell_free.
    tr_state life =
        (tr_state)atomic_load_explicit(&cell->life, memory_order_acquire);
    return atomic_load_explicit(&cell->id, memory_order_acquire) == ref.id &&
                   !tri_cell_is_zombie(cell)
               ? life
               : TR_STATE_TERMINATED;
}

/* ---- hooks ---- */

void tri_hook_begin(tr_ctx *ctx, tr_phase phase)
{
    TRI_CHECK(ctx->magic == TRI_CTX_MAGIC);
    TRI_CHECK(!ctx->parked);
    ctx->kind = TRI_TURN_HOOK;
    ctx->phase = (uint8_t)phase;
    ctx->msg = NULL;
    ctx->in_turn = true;
    // Relaxed: for observers. A hook has no message.
    atomic_store_explicit(&ctx->worker->handling, NULL, memory_order_relaxed);
}

tr_err tri_hook_run(tr_ctx *ctx, tr_phase phase, tri_hook_fn hook)
{
    if (hook == NULL) {
        return TR_OK;
    }
    tri_hook_begin(ctx, phase);
    tr_err err = hook(ctx, ctx->cell->state);
    if (err == TR_OK) {
        tri_turn_end(ctx);
    }
    return err;
}

void tri_hook_failed(tr_ctx *ctx, tr_err err)
{
    TRI_CHECK(err != TR_OK);
    tri_failure failure = {.err = err,
                           .phase = (tr_phase)ctx->phase,
                           .text = ctx->fail_text,
                           .site = ctx->fail_site};
    tr_system *sys = ctx->sys;
    sys->up->supervision(ctx->worker, ctx->cell, &failure, TR_STOP, false);
    tri_ext *ext = tri_cell_life(ctx->cell) == TR_STATE_STOPPING
                       ? tri_ext_need(ctx->worker, ctx->cell)
                       : NULL;
    // tr_join tells of it, unless the actor ends because of another failure.
    if (ext != NULL && ctx->cell->reason != TR_FAILED &&
        ext->failure.phase != TR_IN_STOP) {
        tri_failure_clear(ctx->worker, ctx->cell, TR_DEAD_FAILED);
        ext->failure = failure;
        ctx->fail_text = NULL;
    }
    tri_turn_end(ctx);
}

bool tri_failed_in_start(tri_cell *cell)
{
    tri_ext *ext = tri_ext_of(cell);
    // Relaxed: the caller owns the cell, or the actor is FAILED and its parent
    // decides. FAILED follows STARTING, perhaps before STOPPING: so it is known
    // without an extension, for which there was no memory.
    uint32_t history =
        atomic_load_explicit(&cell->history, memory_order_relaxed);
    while ((history & 15) == TR_STATE_STOPPING ||
           (history & 15) == TR_STATE_STOPPED) {
        history >>= TRI_STATE_BITS;
    }
    enum {
        FAILED_START = TR_STATE_STARTING << TRI_STATE_BITS | TR_STATE_FAILED
    };
    return (history & 0xff) == FAILED_START ||
           (ext != NULL && (history & 15) == TR_STATE_FAILED &&
            ext->failure.phase == TR_IN_START);
}

/* ---- signals ---- */

/* Signals that end the actor. */
enum { SIG_ENDS = TRI_SIG_STOP | TRI_SIG_KILL | TRI_SIG_FORCE };

/* Acts on TRI_SIG_TIMER: the stop deadline or the delay of a restart. */
static void timer_fired(tr_ctx *ctx)
{
    tri_cell *cell = ctx->cell;
    tr_state life = tri_cell_life(cell);
    if (cell->timer.due == 0 ||
        tri_timer_due(&cell->timer) > tri_clock(ctx->worker)) {
        return;  // the timer was disarmed or armed again after the signal
    }
    if (life == TR_STATE_RESTARTING && cell->stage == TRI_STAGE_DELAY) {
        tri_stage_set(cell, TRI_STAGE_START);
    } else if (life == TR_STATE_RESTARTING) {
        if (cell->stage == TRI_STAGE_AWAIT_CHILDREN) {
            tri_children_overdue(ctx);
        } else {
            tri_restart_give_up(ctx);
        }
    } else if (life == TR_STATE_STOPPING) {
        // Parked turns had until now to finish, rule 22 (tr_stop).
        tri_parked_cancel(ctx->worker, cell,
                          TRI_PARKED_MESSAGES | TRI_PARKED_HOOKS,
                          cell->reason == TR_KILLED ? TR_EKILLED : TR_ESTOPPED);
        tri_children_overdue(ctx);
    }
}

/* Acts on what the parent has decided about this actor, or its cohort. */
static void apply_decision(tr_ctx *ctx, uint32_t signals)
{
    TRI_CHECK(signals &
              (TRI_SIG_RESTART | TRI_SIG_RESUME | TRI_SIG_STOP_DECIDED));
    tr_state life = tri_cell_life(ctx->cell);
    if (signals & TRI_SIG_STOP_DECIDED) {
        if (life == TR_STATE_FAILED || life == TR_STATE_RUNNING ||
            life == TR_STATE_STARTING) {
            tri_stop_begin(ctx, TR_FAILED);
        }
    } else if (signals & TRI_SIG_RESTART) {
        // RESTART with RESUME comes from a parent that has restarted and kept
        // its children: it is for those that have failed, or whose cohort has.
        tri_cohort_stage cohort = tri_cohort_stage_of(ctx->cell);
        bool too = !(signals & TRI_SIG_RESUME) ||
                   cohort == TRI_COHORT_SUSPENDED ||
                   cohort == TRI_COHORT_STOPPING;
        if (life == TR_STATE_FAILED || (life == TR_STATE_RUNNING && too)) {
            tri_restart_begin(ctx);
        }
    } else if (life == TR_STATE_FAILED) {
        // RESUME may come from a parent that resumes after the failure of
        // this actor was escalated: rule 21 (spawning) holds all the same.
        if (tri_failed_in_start(ctx->cell)) {
            tri_stop_begin(ctx, TR_FAILED);
        } else {
            tri_life_resume(ctx);
        }
    }
}

/*
 * Holds the signals that end a FAILED actor until its parent has decided.
 * Returns the signals to act on now.
 */
static uint32_t hold_while_failed(tri_cell *cell, uint32_t signals)
{
    enum {
        DECISIONS = TRI_SIG_RESTART | TRI_SIG_RESUME | TRI_SIG_STOP_DECIDED
    };
    TRI_CHECK(tri_cell_life(cell) == TR_STATE_FAILED);
    signals &= ~(uint32_t)TRI_SIG_RESTART_ASKED;  // its supervisor decides
    cell->notice_back |= (signals & TRI_SIG_NOTICE_BACK) != 0;
    cell->stop_held |= (signals & TRI_SIG_STOP) != 0;
    cell->kill_held |= (signals & TRI_SIG_KILL) != 0;
    cell->force_held |= (signals & TRI_SIG_FORCE) != 0;
    signals &= ~(uint32_t)SIG_ENDS;
    if (!cell->notice_back) {
        return signals & ~(uint32_t)DECISIONS;
    }
    signals |= (cell->stop_held ? TRI_SIG_STOP : 0) |
               (cell->kill_held ? TRI_SIG_KILL : 0) |
               (cell->force_held ? TRI_SIG_FORCE : 0);
    cell->stop_held = cell->kill_held = cell->force_held = false;
    if (signals & SIG_ENDS) {  // do not restart it only to stop it
        signals &= ~(uint32_t)(TRI_SIG_RESTART | TRI_SIG_RESUME);
    }
    return signals;
}

/* Fails because a child could not be restarted, rule 41 (force). */
static void fail_for_lost_child(tr_ctx *ctx)
{
    tr_state life = tri_cell_life(ctx->cell);
    if (ctx->cell == ctx->sys->root ||
        (life != TR_STATE_RUNNING && life != TR_STATE_STARTING)) {
        return;
    }
    ctx->fail_text = strdup("a child could not be restarted: a turn of it "
                            "has not returned in time");
    ctx->phase = TR_IN_HANDLER;
    ctx->msg = NULL;
    tri_life_fail(ctx, TR_EFAILED);
}

/* True if a virtual actor has work and must not be deactivated. */
static bool is_busy(tri_cell *cell)
{
    tri_cell_assert_owned(cell);
    tri_ext *ext = tri_ext_of(cell);
    // Relaxed: mail that comes later goes to the next activation.
    return tri_cell_life(cell) != TR_STATE_RUNNING || cell->queue != NULL ||
           tri_mail_newest(atomic_load_explicit(
               &cell->mail, memory_order_relaxed)) != NULL ||
           (ext != NULL &&
            (ext->parked != NULL || ext->keep.kept != NULL ||
             ext->keep.stash != NULL || !tri_list_is_empty(&ext->waits.list) ||
             ext->watch.pending != NULL ||
             atomic_load_explicit(&ext->store_requests, memory_order_relaxed) >
                 0));
}

/*
 * Restarts the actor as tr_restart asks, unless it is to end; stops it if it is
 * never restarted.
 */
static void restart_as_asked(tr_ctx *ctx, uint32_t signals)
{
    tri_cell *cell = ctx->cell;
    if (tri_cell_life(cell) != TR_STATE_RUNNING || (signals & SIG_ENDS) != 0) {
        return;  // it starts, restarts or ends
    }
    if (!tri_restart_is_allowed(cell)) {
        tri_stop_begin(ctx, TR_STOPPED);
        return;
    }
    tri_ext *ext = tri_ext_need(ctx->worker, cell);
    if (ext != NULL) {
        tri_failure_clear(ctx->worker, cell, TR_DEAD_FAILED);
        ext->failure =
            (tri_failure){.err = TR_ERESTARTED, .phase = TR_IN_RESTART};
    }
    tri_restart_begin(ctx);
}

/* Acts on the signals that end the actor. */
static void handle_ends(tr_ctx *ctx, uint32_t signals)
{
    tri_cell *cell = ctx->cell;
    if (signals & TRI_SIG_KILL) {
        tri_stop_begin(ctx, TR_KILLED);
    } else if (signals & TRI_SIG_STOP) {
        tri_stop_begin(ctx, TR_STOPPED);
    } else if ((signals & TRI_SIG_IDLE) && !is_busy(cell)) {
        tri_stop_begin(ctx, TR_IDLE);
    }
    if (signals & TRI_SIG_FORCE) {
        tri_stop_begin(ctx, TR_KILLED);
        // If it was killed before, its post_stop may wait.
        tri_parked_cancel(ctx->worker, cell, TRI_PARKED_HOOKS, TR_ESTOPPED);
        cell->reason = TR_FORCED;
        // Otherwise its own time-out has forced the children, perhaps just
        // now: they have the rest of TRI_FORCE_GRACE.
        if (!cell->children_forced) {
            tri_children_overdue(ctx);
        }
    }
}

/* TRI_SIG_CHILDREN and _WAKE only bring the owner to its next step. */
void tri_life_handle_signals(tr_ctx *ctx, uint32_t signals)
{
    tri_cell *cell = ctx->cell;
    TRI_CHECK_SLOW(tri_cell_is_owned(cell));
    if (TRI_LIKELY(signals == TRI_SIG_STOP) &&
        tri_cell_life(cell) != TR_STATE_FAILED) {
        tri_stop_begin(ctx, TR_STOPPED);
        return;
    }
    if (tri_cell_life(cell) == TR_STATE_FAILED) {
        signals = hold_while_failed(cell, signals);
    }
    if (signals & TRI_SIG_CLOSING) {
        tri_parked_cancel(ctx->worker, cell,
                          TRI_PARKED_MESSAGES | TRI_PARKED_RUN |
                              TRI_PARKED_HOOKS,
                          TR_ECLOSED);
    }
    if (signals & TRI_SIG_ROOM) {
        tri_room_wake_if_low(ctx->worker, cell);
    }
    if (signals & TRI_SIG_COHORT) {
        tri_cohort_next(ctx);
    }
    if (signals & TRI_SIG_CHILD_LOST) {
        bool before = tri_cell_life(cell) == TR_STATE_FAILED;
        fail_for_lost_child(ctx);
        if (!before && tri_cell_life(cell) == TR_STATE_FAILED) {
            // The other signals wait until this failure is decided.
            signals = hold_while_failed(cell, signals);
        }
    }
    if (signals & TRI_SIG_TIMER) {
        timer_fired(ctx);
    }
    if (signals & (TRI_SIG_RESTART | TRI_SIG_RESUME | TRI_SIG_STOP_DECIDED)) {
        apply_decision(ctx, signals);
    }
    if (signals & TRI_SIG_RESTART_ASKED) {
        restart_as_asked(ctx, signals);
    }
    handle_ends(ctx, signals);
}

tri_step tri_life_step(tr_ctx *ctx)
{
    tri_cell *cell = ctx->cell;
    TRI_CHECK_SLOW(tri_cell_is_owned(cell));
    if ((cell->attention & TRI_ATTENTION_PARKED) &&
        tri_parked_count(cell, TRI_PARKED_HOOKS) > 0) {
        return TRI_STEP_WAIT;
    }
    switch (tri_cell_life(cell)) {
    case TR_STATE_CREATED:
        return tri_life_start(ctx);
    case TR_STATE_RUNNING:
        return TRI_STEP_RUNNING;
    case TR_STATE_STOPPING:
        return tri_stop_step(ctx);
    case TR_STATE_RESTARTING:
        return tri_restart_step(ctx);
    default:
        return TRI_STEP_WAIT;  // FAILED, or STARTING with a parked hook
    }
}
