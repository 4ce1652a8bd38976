/*
 * lifecycle.c - the eight states of an actor and the ways between them.
 *
 * The table `legal` is the whole truth about transitions; docs/semantics.md
 * and tests/unit/core/lifecycle_test.c follow it. How a life begins, begins
 * again and ends is in start.c, stop.c and drain.c; here are the states, the
 * hooks, failures, and what the signals of others make of a life.
 *
 * All of it runs on the cell's own turn. A hook may park: then another fiber
 * goes on with the cell, finds the hook parked and waits. So `stage` is moved
 * on before a hook is called, never after, and a hook that panics or parks is
 * never run twice.
 */
#include "core/lifecycle.h"

#include <stdlib.h>
#include <string.h>

#include "core/mailbox.h"

#define BIT(state) (UINT32_C(1) << TR_STATE_##state)

/* From each state, the states it may go to. */
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

/*
 * cell->stage, while FAILED. The parent may look at the cell as long as it
 * has the notice, so what it is told meanwhile waits here, too.
 */
enum {
    FAILED_NOTED = 1,  // the notice is back
    FAILED_STOP = 2,
    FAILED_KILL = 4,
    FAILED_FORCE = 8,
};

const char *tri_state_name(tr_state state)
{
    static const char *const names[] = {
        "NONE",    "CREATED", "STARTING",   "RUNNING",    "STOPPING",
        "STOPPED", "FAILED",  "RESTARTING", "TERMINATED",
    };
    return (unsigned)state < TRI_COUNT_OF(names) ? names[state] : "UNKNOWN";
}

bool tri_life_legal(tr_state from, tr_state to)
{
    return (unsigned)from < TRI_COUNT_OF(legal) &&
           (legal[from] & (UINT32_C(1) << to)) != 0;
}

void tri_life_tell(tri_worker *worker, tri_cell *cell, tr_state state)
{
    if (tri_life_is_watched(worker) && !tri_cell_is_zombie(cell)) {
        worker->sys->up->lifecycle(worker, cell, state);
    }
}

void tri_life_set(tri_worker *worker, tri_cell *cell, tr_state state)
{
    TRI_CHECK(tri_life_legal(tri_cell_life(cell), state));
    if (state == TR_STATE_RUNNING) {
        cell->slow &= (uint8_t)~TRI_SLOW_LIFE;
    } else {
        cell->slow |= TRI_SLOW_LIFE;
    }
    // Whoever reads the state also sees what led to it.
    tri_life_pass(cell, (uint32_t)state, TRI_STATE_BITS);
    if (TRI_UNLIKELY(tri_cell_is_virtual(cell))) {
        tri_virtual_ops_of(worker->sys)->life(worker, cell, state);
    }
    if (TRI_UNLIKELY(tri_life_is_watched(worker)) &&
        state != TR_STATE_STOPPED) {  // X1: told when the name is free
        tri_life_tell(worker, cell, state);
    }
}

/* ---- hooks ---- */

void tri_hook_begin(tr_ctx *ctx, tr_phase phase)
{
    ctx->kind = TRI_TURN_HOOK;
    ctx->phase = (uint8_t)phase;
    ctx->msg = NULL;
    ctx->in_turn = true;
}

typedef tr_err (*tri_plain_hook)(tr_ctx *ctx, void *self);

tr_err tri_hook_run(tr_ctx *ctx, tr_phase phase, tri_plain_hook hook)
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

/* A hook of the end failed: the end goes on, the log tells. */
void tri_hook_failed(tr_ctx *ctx, tr_err err)
{
    tri_failure failure = {.err = err,
                           .phase = (tr_phase)ctx->phase,
                           .text = ctx->fail_text,
                           .site = ctx->fail_site};
    tr_system *sys = ctx->sys;
    sys->up->supervision(ctx->worker, ctx->cell, &failure, TR_STOP);
    tri_turn_end(ctx);
}

/* Such an actor has never run: there is nothing to say good-bye to. */
bool tri_failed_to_start(tri_cell *cell)
{
    tri_ext *ext = tri_ext_of(cell);
    return cell->reason == TR_FAILED && tri_cell_incarnation(cell) == 1 &&
           ext != NULL && ext->failure.phase == TR_IN_START;
}

/* ---- failing ---- */

tr_err tri_blame(tr_err err)
{
    // Only the runtime may say that a request certainly did not run.
    return tr_undelivered(err) ? TR_EFAILED : err;
}

/* The asker hears at once; the message stays for the supervisor. */
static void answer_failed(tr_ctx *ctx, tr_msg *msg, tr_err err)
{
    if ((msg->node.flags & TRI_MSG_ASK) &&
        !(msg->node.flags & TRI_MSG_ANSWERED)) {
        tri_answer_copy(ctx->worker, msg, tri_blame(err), ctx->fail_text);
    }
}

static void record_failure(tr_ctx *ctx, tr_msg *msg, tr_err err)
{
    tri_cell *cell = ctx->cell;
    tri_worker *worker = ctx->worker;
    tri_ext *ext = tri_ext_need(worker, cell);
    if (ext == NULL) {
        if (msg != NULL) {
            tri_dead(worker, tri_cell_ref(ctx->sys, cell), msg, TR_DEAD_FAILED);
        }
        cell->notice.flags = 1;  // no details: supervise.c
        return;
    }
    tri_failure_clear(worker, cell, TR_DEAD_FAILED);
    ext->failure = (tri_failure){.err = err,
                                 .phase = (tr_phase)ctx->phase,
                                 .text = ctx->fail_text,
                                 .site = ctx->fail_site,
                                 .msg = msg};
    ctx->fail_text = NULL;
}

void tri_life_fail(tr_ctx *ctx, tr_err err)
{
    tri_cell *cell = ctx->cell;
    tri_worker *worker = ctx->worker;
    tr_state life = tri_cell_life(cell);
    tr_msg *msg = ctx->flags & TRI_CTX_MSG_GONE ? NULL : ctx->msg;
    bool ignored = ctx->cancel != TR_OK || life == TR_STATE_STOPPING ||
                   life == TR_STATE_RESTARTING || life == TR_STATE_FAILED;

    ctx->msg = NULL;
    if (msg != NULL && (msg->node.flags & TRI_MSG_TIMER)) {
        tri_user_timer_handled(worker, msg);
        msg = NULL;
    }
    if (msg != NULL && msg->node.klass == TRI_CLASS_STACK) {
        msg = NULL;  // it ends with its frame
    }
    if (msg != NULL) {
        answer_failed(ctx, msg, ctx->cancel != TR_OK ? ctx->cancel : err);
    }
    if (ctx->phase == TR_IN_STOP ||
        (ctx->phase == TR_IN_RESTART && life == TR_STATE_RESTARTING)) {
        tri_hook_failed(ctx, err);
        return;
    }
    if (ignored) {  // rules 4 and 5: the turn has unwound, that is all
        if (msg != NULL) {
            tri_dead(worker, tri_cell_ref(ctx->sys, cell), msg,
                     life == TR_STATE_RESTARTING ? TR_DEAD_RESTARTED
                                                 : TR_DEAD_STOPPING);
        }
        tri_turn_end(ctx);
        return;
    }
    record_failure(ctx, msg, err);
    tri_turn_end(ctx);
    tri_count(&worker->count.failures);
    tri_count(&tri_lives_of(worker, cell)->failures);
    cell->stage = 0;
    tri_life_set(worker, cell, TR_STATE_FAILED);
    tri_join_started(worker, cell, err);
    if (!tri_tell_parent(worker, cell)) {
        tri_life_signals(ctx, TRI_SIG_DOOM | TRI_SIG_NOTED);  // SV3
    }
}

bool tri_life_takes_children(tri_cell *cell)
{
    uint8_t stage = cell->stage & TRI_STAGE_OF;
    switch (tri_cell_life(cell)) {
    case TR_STATE_STOPPING:
    case TR_STATE_RESTARTING:
        return stage < TRI_STAGE_CHILDREN;
    case TR_STATE_STOPPED:
    case TR_STATE_TERMINATED:
        return false;
    default:
        return true;
    }
}

/* ---- signals ---- */

/* cell.timer has fired: what was it for? */
static void deadline(tr_ctx *ctx)
{
    tri_cell *cell = ctx->cell;
    tr_state life = tri_cell_life(cell);
    if (cell->timer.due == 0 ||
        tri_timer_due(&cell->timer) > tri_clock(ctx->worker)) {
        return;  // a signal of an earlier arming
    }
    if (life == TR_STATE_RESTARTING && cell->stage == TRI_STAGE_DELAY) {
        cell->stage = TRI_STAGE_START;
    } else if (life == TR_STATE_RESTARTING) {
        if ((cell->stage & TRI_STAGE_OF) == TRI_STAGE_CHILDREN) {
            tri_force_family(ctx);
        } else {
            tri_restart_give_up(ctx);
        }
    } else if (life == TR_STATE_STOPPING) {
        // Rule 3: the time of parked turns is over.
        tri_cut_waits(ctx->worker, cell, TRI_CUT_MESSAGES | TRI_CUT_HOOKS,
                      cell->reason == TR_KILLED ? TR_EKILLED : TR_ESTOPPED);
        tri_force_family(ctx);
    }
}

/* The parent has decided about our failure, or about a sibling's. */
static void decided(tr_ctx *ctx, uint32_t signals)
{
    tr_state life = tri_cell_life(ctx->cell);
    if (signals & TRI_SIG_DOOM) {
        if (life == TR_STATE_FAILED || life == TR_STATE_RUNNING ||
            life == TR_STATE_STARTING) {
            tri_stop_begin(ctx, TR_FAILED);
        }
    } else if (signals & TRI_SIG_RESTART) {
        // With RESUME: only if it has failed, or its siblings have.
        tri_group_stage group = tri_group_of(ctx->cell);
        bool too = !(signals & TRI_SIG_RESUME) ||
                   group == TRI_GROUP_SUSPENDED || group == TRI_GROUP_STOPPING;
        if (life == TR_STATE_FAILED || (life == TR_STATE_RUNNING && too)) {
            tri_restart_begin(ctx);
        }
    } else if (life == TR_STATE_FAILED) {
        tri_life_resume(ctx);
    }
}

/* While the parent has the notice nothing moves; returns what may be done. */
static uint32_t while_failed(tri_cell *cell, uint32_t signals)
{
    enum {
        ENDS = TRI_SIG_STOP | TRI_SIG_KILL | TRI_SIG_FORCE,
        DECISIONS = TRI_SIG_RESTART | TRI_SIG_RESUME | TRI_SIG_DOOM
    };
    cell->stage |= (signals & TRI_SIG_NOTED ? FAILED_NOTED : 0) |
                   (signals & TRI_SIG_STOP ? FAILED_STOP : 0) |
                   (signals & TRI_SIG_KILL ? FAILED_KILL : 0) |
                   (signals & TRI_SIG_FORCE ? FAILED_FORCE : 0);
    signals &= ~(uint32_t)ENDS;
    if (!(cell->stage & FAILED_NOTED)) {
        return signals & ~(uint32_t)DECISIONS;
    }
    signals |= (cell->stage & FAILED_STOP ? TRI_SIG_STOP : 0) |
               (cell->stage & FAILED_KILL ? TRI_SIG_KILL : 0) |
               (cell->stage & FAILED_FORCE ? TRI_SIG_FORCE : 0);
    cell->stage = FAILED_NOTED;
    if (signals & ENDS) {  // it is not restarted to be stopped
        signals &= ~(uint32_t)(TRI_SIG_RESTART | TRI_SIG_RESUME);
    }
    return signals;
}

/* Rule 5: what a child could not do becomes our failure. */
static void child_lost(tr_ctx *ctx)
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

/* Rule 29: what keeps a virtual actor from being deactivated. */
static bool is_busy(tri_cell *cell)
{
    tri_ext *ext = tri_ext_of(cell);
    // Relaxed: what comes later goes to the next life.
    return tri_cell_life(cell) != TR_STATE_RUNNING || cell->queue != NULL ||
           tri_mail_newest(atomic_load_explicit(
               &cell->mail, memory_order_relaxed)) != NULL ||
           (ext != NULL &&
            (ext->parked != NULL || ext->kept != NULL || ext->stash != NULL ||
             ext->waits != NULL || ext->pending != NULL ||
             atomic_load_explicit(&ext->stores, memory_order_relaxed) > 0));
}

void tri_life_signals(tr_ctx *ctx, uint32_t signals)
{
    tri_cell *cell = ctx->cell;
    if (TRI_LIKELY(signals == TRI_SIG_STOP) &&
        tri_cell_life(cell) != TR_STATE_FAILED) {
        tri_stop_begin(ctx, TR_STOPPED);
        return;
    }
    if (tri_cell_life(cell) == TR_STATE_FAILED) {
        signals = while_failed(cell, signals);
    }
    if (signals & TRI_SIG_CLOSING) {
        tri_cut_waits(ctx->worker, cell,
                      TRI_CUT_MESSAGES | TRI_CUT_RUN | TRI_CUT_HOOKS,
                      TR_ECLOSED);
    }
    if (signals & TRI_SIG_ROOM) {
        tri_room_if_low(ctx->worker, cell);
    }
    if (signals & TRI_SIG_GROUP) {
        tri_group_next(ctx);
    }
    if (signals & TRI_SIG_CHILD_LOST) {
        bool before = tri_cell_life(cell) == TR_STATE_FAILED;
        child_lost(ctx);
        if (!before && tri_cell_life(cell) == TR_STATE_FAILED) {
            // The rest waits until the notice of this failure is back.
            signals = while_failed(cell, signals);
        }
    }
    if (signals & TRI_SIG_TIMER) {
        deadline(ctx);
    }
    if (signals & (TRI_SIG_RESTART | TRI_SIG_RESUME | TRI_SIG_DOOM)) {
        decided(ctx, signals);
    }
    if (signals & TRI_SIG_KILL) {
        tri_stop_begin(ctx, TR_KILLED);
    } else if (signals & TRI_SIG_STOP) {
        tri_stop_begin(ctx, TR_STOPPED);
    } else if ((signals & TRI_SIG_IDLE) && !is_busy(cell)) {
        tri_stop_begin(ctx, TR_IDLE);
    }
    if (signals & TRI_SIG_FORCE) {
        tri_stop_begin(ctx, TR_KILLED);
        if (cell->reason != TR_FORCED || !(cell->stage & TRI_STAGE_FORCED)) {
            cell->reason = TR_FORCED;
            tri_force_family(ctx);
        }
    }
}

tri_step tri_life_step(tr_ctx *ctx)
{
    tri_cell *cell = ctx->cell;
    if ((cell->slow & TRI_SLOW_PARKED) &&
        tri_parked_count(cell, TRI_CUT_HOOKS) > 0) {
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
        return TRI_STEP_WAIT;  // FAILED; STARTING in a parked hook
    }
}
