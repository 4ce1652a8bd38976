/*
 * lifecycle.c - the eight states of an actor and the ways between them.
 *
 * The table `legal` is the whole truth about transitions; docs/semantics.md
 * and tests/unit/core/lifecycle_test.c follow it. Every function here runs on
 * the cell's own turn. A hook may park: then another fiber goes on with the
 * cell, finds the hook parked and waits. So `stage` is moved on before a hook
 * is called, never after, and a hook that panics or parks is never run twice.
 *
 * The order of an end (X1, X2): children, post_stop, STOPPED, drain, name and
 * id, event, tr_terminated to the watchers, TERMINATED.
 */
#include "core/lifecycle.h"

#include <stdlib.h>
#include <string.h>

#include "core/mailbox.h"
#include "schema/value.h"

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

/* cell->stage, while STOPPING and while RESTARTING. */
enum {
    STAGE_UNWIND,    // parked turns must return
    STAGE_FAMILY,    // pre_stop or pre_restart is done
    STAGE_CHILDREN,  // children must end
    STAGE_RELEASE,   // post_stop is done
    STAGE_DELAY,     // the delay before the next incarnation
    STAGE_START,     // ... is over
    STAGE_QUIET = 64,  // a bit: the hooks of this end have run already
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

static void tell_state(tri_worker *worker, tri_cell *cell, tr_state state)
{
    // Relaxed: a subscriber that comes now may miss this one.
    if (atomic_load_explicit(&worker->sys->watch_events,
                             memory_order_relaxed) & TRI_EVENT_LIFECYCLE) {
        worker->sys->up->lifecycle(worker, cell, state);
    }
}

void tri_life_set(tri_worker *worker, tri_cell *cell, tr_state state)
{
    tr_state before = tri_cell_life(cell);
    TRI_CHECK(tri_life_legal(before, state));
    // Release: whoever reads the state also sees what led to it.
    atomic_store_explicit(&cell->life, (uint8_t)state, memory_order_release);
    if (state == TR_STATE_RUNNING) {
        cell->slow &= (uint8_t)~TRI_SLOW_LIFE;
    } else {
        cell->slow |= TRI_SLOW_LIFE;
    }
    // Relaxed: for observers; only the owner writes.
    uint32_t history =
        atomic_load_explicit(&cell->history, memory_order_relaxed);
    atomic_store_explicit(&cell->history, history << 4 | (uint32_t)state,
                          memory_order_relaxed);
    if (TRI_UNLIKELY(tri_cell_is_virtual(cell))) {
        tri_virtual_ops_of(worker->sys)->life(worker, cell, state);
    }
    if (state != TR_STATE_STOPPED) {  // X1: told when the name is free
        tell_state(worker, cell, state);
    }
}

/* ---- hooks ---- */

static void hook_begin(tr_ctx *ctx, tr_phase phase)
{
    ctx->kind = TRI_TURN_HOOK;
    ctx->phase = (uint8_t)phase;
    ctx->msg = NULL;
    ctx->in_turn = true;
}

typedef tr_err (*plain_hook)(tr_ctx *ctx, void *self);

static tr_err run_hook(tr_ctx *ctx, tr_phase phase, plain_hook hook)
{
    if (hook == NULL) {
        return TR_OK;
    }
    hook_begin(ctx, phase);
    tr_err err = hook(ctx, ctx->cell->state);
    if (err == TR_OK) {
        tri_turn_end(ctx);
    }
    return err;
}

/* A hook of the end failed: the end goes on, the log tells. */
static void hook_failed(tr_ctx *ctx, tr_err err)
{
    tri_failure failure = {.err = err, .phase = (tr_phase)ctx->phase,
                           .text = ctx->fail_text, .site = ctx->fail_site};
    tr_system *sys = ctx->sys;
    sys->up->supervision(ctx->worker, ctx->cell, &failure, TR_STOP);
    tri_turn_end(ctx);
}

const tri_behaviour *tri_first_behaviour(tri_cell *cell)
{
    tri_ext *ext = tri_ext_of(cell);
    return ext != NULL && ext->first != NULL ? ext->first
                                             : tri_cell_behaviour(cell);
}

static const tr_actor_def *def_of(tri_cell *cell)
{
    return tri_first_behaviour(cell)->def;
}

/* ---- start ---- */

static uint32_t state_class(size_t size)
{
    return size <= 16   ? TRI_CLASS_TINY
           : size <= 32 ? TRI_CLASS_SMALL
                        : tri_class_of(size);
}

static void *state_alloc(tri_worker *worker, size_t size)
{
    uint32_t klass = state_class(size);
    return klass == TRI_CLASS_BIG ? tri_big_alloc(&worker->sys->mem, size)
                                  : tri_cache_alloc(&worker->cache, klass);
}

static void state_free(tri_worker *worker, tri_cell *cell)
{
    size_t size = def_of(cell)->state_size;
    if (cell->state == NULL) {
        return;
    }
    uint32_t klass = state_class(size);
    if (klass == TRI_CLASS_BIG) {
        tri_big_free(&worker->sys->mem, cell->state);
    } else {
        tri_cache_free(&worker->cache, klass, cell->state);
    }
    cell->state = NULL;
}

void tri_state_abandon(tri_worker *worker, tri_cell *cell)
{
    state_free(worker, cell);
}

static tr_err state_init(tri_worker *worker, tri_cell *cell)
{
    size_t size = def_of(cell)->state_size;
    if (size == 0) {
        return TR_OK;
    }
    if (cell->state == NULL) {
        cell->state = state_alloc(worker, size);
        if (cell->state == NULL) {
            return TR_ENOMEM;
        }
    }
    const tri_props *props = cell->props;
    if (props != NULL && props->init != NULL) {
        memcpy(cell->state, props->init, size);
    } else {
        memset(cell->state, 0, size);
    }
    return TR_OK;
}

/* on_run is a turn like any other; it just may last. */
static void begin_on_run(tr_ctx *ctx)
{
    const tr_actor_def *def = def_of(ctx->cell);
    ctx->kind = TRI_TURN_RUN;
    ctx->phase = TR_IN_RUN;
    ctx->msg = NULL;
    ctx->in_turn = true;
    tr_err err = def->on_run(ctx, ctx->cell->state);
    if (ctx->cancel != TR_OK && err == ctx->cancel) {
        err = TR_OK;  // rule 10: a normal end
    }
    if (err != TR_OK) {
        tri_life_fail(ctx, err);
    } else {
        tri_turn_end(ctx);
    }
}

static tri_step start(tr_ctx *ctx)
{
    tri_cell *cell = ctx->cell;
    tri_worker *worker = ctx->worker;
    const tr_actor_def *def = def_of(cell);
    bool again = tri_cell_incarnation(cell) > 0;

    tri_life_set(worker, cell, TR_STATE_STARTING);
    // Relaxed: only the owner writes.
    atomic_fetch_add_explicit(&cell->lives, 1, memory_order_relaxed);
    cell->stage = 0;
    ctx->phase = TR_IN_START;
    tr_err err = state_init(worker, cell);
    if (err == TR_OK && cell->props != NULL && cell->props->storage != NULL) {
        hook_begin(ctx, TR_IN_START);
        err = ctx->sys->up->load_state(ctx, cell->state);
        if (err == TR_OK) {
            tri_turn_end(ctx);
        }
    }
    if (err == TR_OK) {
        err = run_hook(ctx, TR_IN_START, def->pre_start);
    }
    if (tri_cell_life(cell) != TR_STATE_STARTING) {
        tri_turn_end(ctx);
        return TRI_STEP_AGAIN;  // stopped while the hook was parked
    }
    if (err != TR_OK) {
        tri_life_fail(ctx, err);
        return TRI_STEP_AGAIN;
    }
    tri_life_set(worker, cell, TR_STATE_RUNNING);
    err = run_hook(ctx, TR_IN_START, def->post_start);
    if (err == TR_OK && again) {
        err = run_hook(ctx, TR_IN_RESTART, def->post_restart);
    }
    if (err != TR_OK) {
        tri_life_fail(ctx, err);
        return TRI_STEP_AGAIN;
    }
    tri_join_started(worker, cell, TR_OK);
    if (def->on_run != NULL && tri_cell_life(cell) == TR_STATE_RUNNING) {
        begin_on_run(ctx);
    }
    return TRI_STEP_AGAIN;
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
            tri_dead(worker, tri_cell_ref(ctx->sys, cell), msg,
                     TR_DEAD_FAILED);
        }
        cell->notice.flags = 1;  // no details: supervise.c
        return;
    }
    tri_failure_clear(worker, cell, TR_DEAD_FAILED);
    ext->failure = (tri_failure){.err = err, .phase = (tr_phase)ctx->phase,
                                 .text = ctx->fail_text,
                                 .site = ctx->fail_site, .msg = msg};
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
        hook_failed(ctx, err);
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
    // Relaxed: a statistic.
    atomic_fetch_add_explicit(&worker->count.failures, 1,
                              memory_order_relaxed);
    cell->stage = 0;
    tri_life_set(worker, cell, TR_STATE_FAILED);
    tri_join_started(worker, cell, err);
    tri_cell *parent = tri_cell_parent(cell);
    cell->notice.kind = TRI_NODE_FAILURE;
    if (parent == NULL ||
        !tri_push_system(worker, parent, &cell->notice)) {
        tri_life_signals(ctx, TRI_SIG_DOOM | TRI_SIG_NOTED);  // SV3
    }
}

bool tri_life_takes_children(tri_cell *cell)
{
    uint8_t stage = cell->stage & (uint8_t)~STAGE_QUIET;
    switch (tri_cell_life(cell)) {
    case TR_STATE_STOPPING:
    case TR_STATE_RESTARTING:
        return stage < STAGE_CHILDREN;
    case TR_STATE_STOPPED:
    case TR_STATE_TERMINATED:
        return false;
    default:
        return true;
    }
}

/* ---- stopping ---- */

static tr_nanos stop_timeout(tr_system *sys, tri_cell *cell)
{
    (void)sys;
    return cell->props != NULL && cell->props->stop_timeout > 0
               ? cell->props->stop_timeout
               : TRI_STOP_TIMEOUT;
}

static void disarm_deadline(tr_system *sys, tri_cell *cell)
{
    if (cell->timer.due != 0) {  // else it was never armed
        tri_disarm(sys, cell->wheel, &cell->timer);
        cell->timer.due = 0;
    }
}

static void arm_deadline(tr_ctx *ctx, tr_nanos span)
{
    tri_cell *cell = ctx->cell;
    disarm_deadline(ctx->sys, cell);
    cell->wheel = (uint16_t)ctx->worker->index;
    tri_arm(ctx->worker, &cell->timer, tri_clock(ctx->worker) + span,
            TRI_TIMER_CELL);
}

/* Sends a signal to every child, newest first (X44). */
static void signal_children(tr_ctx *ctx, uint32_t signal)
{
    tri_ext *ext = tri_ext_of(ctx->cell);
    if (ext == NULL) {
        return;
    }
    tri_lock_take(&ext->lock);
    for (tri_cell *child = ext->last_child; child != NULL;
         child = child->sibling_prev) {
        // Relaxed: linked children have not retired their id.
        uint64_t id = atomic_load_explicit(&child->id, memory_order_relaxed);
        tri_signal(ctx->worker, child, id, signal);
    }
    tri_lock_drop(&ext->lock);
}

/* From now on no child can be added, or again. */
static void close_family(tri_cell *cell, bool closed)
{
    tri_ext *ext = tri_ext_of(cell);
    if (ext != NULL) {
        tri_lock_take(&ext->lock);
        ext->closed = closed;
        tri_lock_drop(&ext->lock);
    }
}

static uint32_t live_children(tri_cell *cell)
{
    tri_ext *ext = tri_ext_of(cell);
    // Acquire: pairs with child_ended; what ended children did is seen.
    return ext == NULL ? 0
                       : atomic_load_explicit(&ext->live_children,
                                              memory_order_acquire);
}

static void queue_append(tri_cell *cell, tri_node *list)
{
    tri_node **end = &cell->queue;
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = list;
}

/* The stop deadline runs as soon as there is something to wait for. */
static void arm_stop(tr_ctx *ctx)
{
    if (ctx->cell->timer.due == 0) {
        arm_deadline(ctx, stop_timeout(ctx->sys, ctx->cell));
    }
}

static void begin_stop(tr_ctx *ctx, tr_reason reason)
{
    tri_cell *cell = ctx->cell;
    tr_state life = tri_cell_life(cell);
    bool kill = reason == TR_KILLED;

    if (life == TR_STATE_STOPPING) {
        if (kill && cell->reason != TR_KILLED) {
            cell->reason = TR_KILLED;
            tri_cut_waits(ctx->worker, cell,
                          TRI_CUT_MESSAGES | TRI_CUT_RUN | TRI_CUT_HOOKS,
                          TR_EKILLED);
            if ((cell->stage & ~STAGE_QUIET) >= STAGE_CHILDREN) {
                signal_children(ctx, TRI_SIG_KILL);
            }
        }
        return;
    }
    if (life == TR_STATE_CREATED) {
        tri_life_set(ctx->worker, cell, TR_STATE_STARTING);
    }
    // The old incarnation has said good-bye, and may hold nothing any more.
    bool silent = life == TR_STATE_RESTARTING && cell->stage >= STAGE_RELEASE;
    cell->reason = (uint8_t)reason;
    cell->stage = STAGE_UNWIND | (silent ? STAGE_QUIET : 0);
    tri_life_set(ctx->worker, cell, TR_STATE_STOPPING);
    queue_append(cell, tri_close_user(cell));
    tri_room(ctx->worker, cell);
    disarm_deadline(ctx->sys, cell);  // of a restart
    if (cell->slow & TRI_SLOW_PARKED) {
        arm_stop(ctx);
    }
    if (kill) {
        tri_cut_waits(ctx->worker, cell,
                      TRI_CUT_MESSAGES | TRI_CUT_RUN | TRI_CUT_HOOKS,
                      TR_EKILLED);
    } else {
        tri_cut_waits(ctx->worker, cell, TRI_CUT_RUN, TR_ESTOPPED);
    }
}

/* ---- restarting ---- */

static void begin_restart(tr_ctx *ctx)
{
    tri_cell *cell = ctx->cell;
    cell->stage = STAGE_UNWIND;
    tri_life_set(ctx->worker, cell, TR_STATE_RESTARTING);
    // Relaxed: a statistic.
    atomic_fetch_add_explicit(&ctx->worker->count.restarts, 1,
                              memory_order_relaxed);
    tri_cut_waits(ctx->worker, cell,
                  TRI_CUT_MESSAGES | TRI_CUT_RUN | TRI_CUT_HOOKS,
                  TR_ERESTARTED);
    arm_deadline(ctx, stop_timeout(ctx->sys, cell));
}

static void resume(tr_ctx *ctx)
{
    tri_cell *cell = ctx->cell;
    tri_failure_clear(ctx->worker, cell, TR_DEAD_FAILED);
    tri_life_set(ctx->worker, cell, TR_STATE_RUNNING);
    // Whose failure was escalated to us goes on as well.
    signal_children(ctx, TRI_SIG_RESUME);
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
    if (life == TR_STATE_RESTARTING && cell->stage == STAGE_DELAY) {
        cell->stage = STAGE_START;
    } else if (life == TR_STATE_RESTARTING) {
        begin_stop(ctx, TR_FORCED);  // rule 5
    } else if (life == TR_STATE_STOPPING) {
        // Rule 3: the time of parked turns is over.
        tri_cut_waits(ctx->worker, cell, TRI_CUT_MESSAGES | TRI_CUT_HOOKS,
                      cell->reason == TR_KILLED ? TR_EKILLED : TR_ESTOPPED);
        if ((cell->stage & ~STAGE_QUIET) == STAGE_CHILDREN) {
            signal_children(ctx, TRI_SIG_FORCE);
            tri_children_give_up(ctx);
        }
    }
}

/* The parent has decided about our failure, or about a sibling's. */
static void decided(tr_ctx *ctx, uint32_t signals)
{
    tr_state life = tri_cell_life(ctx->cell);
    if (signals & TRI_SIG_DOOM) {
        if (life == TR_STATE_FAILED || life == TR_STATE_RUNNING ||
            life == TR_STATE_STARTING) {
            begin_stop(ctx, TR_FAILED);
        }
    } else if (signals & TRI_SIG_RESTART) {
        // With RESUME: only if it has failed.
        if (life == TR_STATE_FAILED ||
            (life == TR_STATE_RUNNING && !(signals & TRI_SIG_RESUME))) {
            begin_restart(ctx);
        }
    } else if (life == TR_STATE_FAILED) {
        resume(ctx);
    }
}

/* While the parent has the notice nothing moves; returns what may be done. */
static uint32_t while_failed(tri_cell *cell, uint32_t signals)
{
    enum { ENDS = TRI_SIG_STOP | TRI_SIG_KILL | TRI_SIG_FORCE,
           DECISIONS = TRI_SIG_RESTART | TRI_SIG_RESUME | TRI_SIG_DOOM };
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

/* Rule 29: what keeps a virtual actor from being deactivated. */
static bool is_busy(tri_cell *cell)
{
    tri_ext *ext = tri_ext_of(cell);
    // Relaxed: what comes later goes to the next life.
    return tri_cell_life(cell) != TR_STATE_RUNNING || cell->queue != NULL ||
           tri_mail_newest(atomic_load_explicit(&cell->mail,
                                                memory_order_relaxed)) !=
               NULL ||
           (ext != NULL &&
            (ext->parked != NULL || ext->kept != NULL || ext->stash != NULL ||
             ext->waits != NULL || ext->pending != NULL ||
             atomic_load_explicit(&ext->stores, memory_order_relaxed) > 0));
}

void tri_life_signals(tr_ctx *ctx, uint32_t signals)
{
    tri_cell *cell = ctx->cell;
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
    if (signals & TRI_SIG_TIMER) {
        deadline(ctx);
    }
    if (signals & (TRI_SIG_RESTART | TRI_SIG_RESUME | TRI_SIG_DOOM)) {
        decided(ctx, signals);
    }
    if (signals & TRI_SIG_KILL) {
        begin_stop(ctx, TR_KILLED);
    } else if (signals & TRI_SIG_STOP) {
        begin_stop(ctx, TR_STOPPED);
    } else if ((signals & TRI_SIG_IDLE) && !is_busy(cell)) {
        begin_stop(ctx, TR_IDLE);
    }
    if (signals & TRI_SIG_FORCE) {
        begin_stop(ctx, TR_KILLED);
        cell->reason = TR_FORCED;
        signal_children(ctx, TRI_SIG_FORCE);
    }
}

/* ---- what an incarnation leaves behind ---- */

static void answer_kept(tri_worker *worker, tri_cell *cell, tr_err err)
{
    tri_ext *ext = tri_ext_of(cell);
    while (ext->kept != NULL) {
        tr_msg *msg = tri_msg_from(ext->kept);
        ext->kept = ext->kept->next;
        if ((msg->node.flags & TRI_MSG_ASK) &&
            !(msg->node.flags & TRI_MSG_ANSWERED)) {
            tri_answer_error(worker, msg, err, NULL);
        } else {
            tri_msg_free(&worker->cache, msg);
        }
    }
}

/* Rule 14: what ends with an incarnation. */
static void release(tr_ctx *ctx, tr_err err)
{
    tri_worker *worker = ctx->worker;
    tri_cell *cell = ctx->cell;
    tri_ext *ext = tri_ext_of(cell);
    if (ext == NULL) {
        return;
    }
    tri_timers_cancel_all(worker, cell);
    tri_waits_drop(worker, cell);
    answer_kept(worker, cell, err);
    tri_heap_release(worker, cell);
    worker->sys->up->released(worker, cell);
}

/* Stashed mail goes back in front, oldest first. */
void tri_unstash(tri_cell *cell)
{
    tri_ext *ext = tri_ext_of(cell);
    if (ext == NULL || ext->stash == NULL) {
        return;
    }
    ext->stash_last->next = cell->queue;
    cell->queue = ext->stash;
    tri_count_again(cell, (int32_t)ext->stashed);
    // Relaxed: for observers.
    atomic_fetch_add_explicit(&cell->queued, ext->stashed,
                              memory_order_relaxed);
    ext->stash = NULL;
    ext->stash_last = NULL;
    ext->stashed = 0;
}

static void queue_dead(tri_worker *worker, tri_cell *cell, uint32_t reason)
{
    tr_ref self = tri_cell_ref(worker->sys, cell);
    while (cell->queue != NULL) {
        tri_node *node = cell->queue;
        cell->queue = node->next;
        if (tri_is_counted(node)) {
            tri_count_again(cell, -1);
        }
        tri_drain_node(worker, self, node, reason);
    }
    // Relaxed: for observers.
    atomic_store_explicit(&cell->queued, 0, memory_order_relaxed);
}

void tri_drain_node(tri_worker *worker, tr_ref self, tri_node *node,
                    uint32_t reason)
{
    tr_msg *msg = tri_msg_from(node);
    if (node->kind == TRI_NODE_TERMINATED) {
        free(node);
    } else if (node->kind == TRI_NODE_WAKE) {
        tri_wait *wait = (tri_wait *)(void *)node;
        tri_wait_unlink(wait->cell, wait);
        free(wait);
    } else if (node->flags & TRI_MSG_TIMER) {
        if (tri_user_timer_arrived(worker, msg)) {
            tri_user_timer_handled(worker, msg);
        }
    } else if (node->kind == TRI_NODE_POISON) {
        tri_msg_free(&worker->cache, msg);
    } else {
        tri_dead(worker, (tr_ref){self.cell, msg->to_id}, msg, reason);
    }
}

static void redirect_queue(tr_ctx *ctx, tr_ref target)
{
    tri_cell *cell = ctx->cell;
    tri_node *node = cell->queue;
    cell->queue = NULL;
    tr_ref self = tri_cell_ref(ctx->sys, cell);
    while (node != NULL) {
        tri_node *next = node->next;
        tr_msg *msg = tri_msg_from(node);
        if (node->kind != TRI_NODE_USER || (node->flags & TRI_MSG_TIMER)) {
            tri_drain_node(ctx->worker, self, node, TR_DEAD_DRAINED);
        } else {
            tri_actor_from who = {.sys = ctx->sys, .worker = ctx->worker,
                                  .sender = msg->sender};
            tri_send(&who, target, msg);
        }
        node = next;
    }
}

static void gather_queue(tri_cell *cell)
{
    tri_ext *ext = tri_ext_of(cell);
    tri_unstash(cell);
    if (ext == NULL) {
        return;
    }
    for (int p = 1; p < TRI_PRIORITIES; p++) {
        queue_append(cell, ext->urgent[p]);
        ext->urgent[p] = NULL;
    }
}

static bool failed_to_start(tri_cell *cell);

/* AC13: whoever called an actor that could not start hears why. */
static void start_failed(tr_ctx *ctx, tr_msg *msg)
{
    tri_ext *ext = tri_ext_of(ctx->cell);
    if (msg->node.flags & TRI_MSG_ASK) {
        tri_answer_error(ctx->worker, msg, ext->failure.err,
                         ext->failure.text);
    } else {
        tri_dead(ctx->worker, tri_cell_ref(ctx->sys, ctx->cell), msg,
                 TR_DEAD_FAILED);
    }
}

/* X30: what a virtual actor has not handled waits for its next life. */
static void drain_virtual(tr_ctx *ctx)
{
    tri_cell *cell = ctx->cell;
    tri_ext *ext = tri_ext_of(cell);
    tr_ref self = tri_cell_ref(ctx->sys, cell);
    bool failed = failed_to_start(cell);
    tri_node *rest = NULL, **last = &rest;

    tri_unstash(cell);
    for (int p = 1; ext != NULL && p < TRI_PRIORITIES; p++) {
        if (ext->urgent[p] != NULL) {
            ext->urgent_last[p]->next = cell->queue;
            cell->queue = ext->urgent[p];
            ext->urgent[p] = NULL;
        }
    }
    for (tri_node *node = cell->queue, *next; node != NULL; node = next) {
        next = node->next;
        if (node->kind != TRI_NODE_USER || (node->flags & TRI_MSG_TIMER)) {
            tri_drain_node(ctx->worker, self, node, TR_DEAD_DRAINED);
        } else if (failed) {
            start_failed(ctx, tri_msg_from(node));
        } else {
            *last = node;
            last = &node->next;
        }
    }
    *last = NULL;
    cell->queue = rest;
}

static void drain(tr_ctx *ctx)
{
    tri_cell *cell = ctx->cell;
    if (tri_cell_is_virtual(cell)) {
        drain_virtual(ctx);
        return;
    }
    tri_worker *worker = ctx->worker;
    const tri_props *props = cell->props;
    tr_drain how = props != NULL ? props->drain : TR_DRAIN_DEAD_LETTERS;

    gather_queue(cell);
    if (how == TR_DRAIN_REDIRECT && props->drain_to.cell != 0) {
        redirect_queue(ctx, props->drain_to);
    } else if (how == TR_DRAIN_DROP) {
        tr_ref self = tri_cell_ref(ctx->sys, cell);
        while (cell->queue != NULL) {
            tri_node *node = cell->queue;
            cell->queue = node->next;
            if (node->kind == TRI_NODE_USER && !(node->flags & TRI_MSG_TIMER)) {
                tri_answer_error(worker, tri_msg_from(node), TR_ESTOPPED,
                                 NULL);
            } else {
                tri_drain_node(worker, self, node, TR_DEAD_DRAINED);
            }
        }
    } else {
        queue_dead(worker, cell, TR_DEAD_DRAINED);
    }
}

/* ---- the end ---- */

/* The name is free and the parent does not know us any more. */
static void leave_family(tri_cell *cell)
{
    for (;;) {
        tri_cell *parent = tri_cell_parent(cell);
        if (parent == NULL) {
            return;
        }
        // Acquire: pairs with tri_ext_need; gone only if we were given up.
        tri_ext *ext = atomic_load_explicit(&parent->ext,
                                            memory_order_acquire);
        if (ext == NULL) {
            continue;
        }
        tri_lock_take(&ext->lock);
        if (tri_cell_parent(cell) != parent) {
            tri_lock_drop(&ext->lock);
            continue;  // we were given up meanwhile
        }
        tri_children_unlink(ext, cell);
        tri_lock_drop(&ext->lock);
        return;
    }
}

static void child_ended(tri_worker *worker, tri_cell *cell)
{
    tri_cell *parent = tri_cell_parent(cell);
    if (parent == NULL) {
        return;
    }
    // Relaxed: the parent lives until the step below.
    uint64_t id = atomic_load_explicit(&parent->id, memory_order_relaxed);
    tri_ext *ext = tri_ext_of(parent);
    // Release: our end is seen by live_children. After it the parent may
    // end, so only its id is used; a stale signal is refused.
    if (atomic_fetch_sub_explicit(&ext->live_children, 1,
                                  memory_order_acq_rel) == 1) {
        tri_signal(worker, parent, id, TRI_SIG_CHILDREN);
    }
}

/* X47: a Watch that came last is answered, an ask as well. */
static void close_system_lane(tr_ctx *ctx)
{
    tri_node *node = tri_close_system(ctx->cell);
    while (node != NULL) {
        tri_node *next = node->next;
        tri_system_node(ctx, node);
        node = next;
    }
}

static tri_step finish(tr_ctx *ctx)
{
    tri_cell *cell = ctx->cell;
    tri_worker *worker = ctx->worker;
    tr_system *sys = ctx->sys;
    tr_reason reason = (tr_reason)cell->reason;

    disarm_deadline(sys, cell);
    tri_life_set(worker, cell, TR_STATE_STOPPED);
    tri_joins_prepare(worker, cell, reason);
    release(ctx, reason == TR_KILLED ? TR_EKILLED : TR_ESTOPPED);
    tri_unwatch_all(worker, cell);
    drain(ctx);
    tri_room(worker, cell);
    leave_family(cell);
    tell_state(worker, cell, TR_STATE_STOPPED);
    tri_life_set(worker, cell, TR_STATE_TERMINATED);
    close_system_lane(ctx);
    tri_failure_clear(worker, cell, TR_DEAD_FAILED);
    sys->up->ended(worker, cell);
    tri_joins_tell(worker, cell);
    tri_watchers_tell(worker, cell, reason);
    child_ended(worker, cell);
    state_free(worker, cell);
    bool is_virtual = tri_cell_is_virtual(cell);
    if (!is_virtual) {
        free((void *)(uintptr_t)cell->name);
        cell->name = NULL;
    }
    tri_props_drop(cell->props);
    cell->props = NULL;
    // Relaxed: fixed at spawn.
    if (atomic_load_explicit(&cell->flags, memory_order_relaxed) &
        TRI_CELL_PINNED) {
        tri_worker_unpin(sys, worker);
    }
    tri_ext_free(worker, cell);
    if (is_virtual) {
        tri_virtual_ops_of(sys)->ended(worker, cell);
    } else {
        tri_cell_free(&worker->cache, cell);
    }
    // Relaxed: a statistic. Seq_cst: tr_system_close waits for zero.
    atomic_fetch_add_explicit(&worker->count.ended, 1, memory_order_relaxed);
    tri_live_less(sys);
    return TRI_STEP_ENDED;
}

static void post_stop(tr_ctx *ctx, tr_reason reason)
{
    tri_cell *cell = ctx->cell;
    const tr_actor_def *def = def_of(cell);
    if (def->post_stop == NULL || tri_cell_incarnation(cell) == 0 ||
        (def->state_size > 0 && cell->state == NULL)) {
        return;
    }
    if (tri_cell_life(cell) == TR_STATE_STOPPING) {
        arm_stop(ctx);
    }
    hook_begin(ctx, TR_IN_STOP);
    tr_err err = def->post_stop(ctx, cell->state, reason);
    if (err != TR_OK) {
        hook_failed(ctx, err);
    } else {
        tri_turn_end(ctx);
    }
}

/* Such an actor has never run: there is nothing to say good-bye to. */
static bool failed_to_start(tri_cell *cell)
{
    tri_ext *ext = tri_ext_of(cell);
    return cell->reason == TR_FAILED && tri_cell_incarnation(cell) == 1 &&
           ext != NULL && ext->failure.phase == TR_IN_START;
}

/* Rule 28: a successor must not load under a write of ours. */
static bool waits_for_store(tri_cell *cell)
{
    tri_ext *ext = tri_ext_of(cell);
    // Acquire: pairs with the answer that counts itself out.
    return ext != NULL &&
           atomic_load_explicit(&ext->stores, memory_order_acquire) > 0;
}

static tri_step stop_step(tr_ctx *ctx)
{
    tri_cell *cell = ctx->cell;
    const tr_actor_def *def = def_of(cell);
    bool hard = cell->reason == TR_KILLED || cell->reason == TR_FORCED;
    uint8_t silent = cell->stage & STAGE_QUIET;

    switch (cell->stage & ~STAGE_QUIET) {
    case STAGE_UNWIND:
        if (tri_parked_count(cell, TRI_CUT_MESSAGES | TRI_CUT_RUN) > 0) {
            return TRI_STEP_WAIT;
        }
        cell->stage = STAGE_FAMILY | silent;
        if (!hard && !silent && tri_cell_incarnation(cell) > 0 &&
            !failed_to_start(cell)) {
            if (def->pre_stop != NULL) {
                arm_stop(ctx);
            }
            tr_err err = run_hook(ctx, TR_IN_STOP, def->pre_stop);
            if (err != TR_OK) {
                hook_failed(ctx, err);
            }
        }
        return TRI_STEP_AGAIN;
    case STAGE_FAMILY:
        cell->stage = STAGE_CHILDREN | silent;
        close_family(cell, true);
        signal_children(ctx, cell->reason == TR_KILLED   ? TRI_SIG_KILL
                             : cell->reason == TR_FORCED ? TRI_SIG_FORCE
                                                         : TRI_SIG_STOP);
        return TRI_STEP_AGAIN;
    case STAGE_CHILDREN:
        if (live_children(cell) > 0) {
            arm_stop(ctx);
            return TRI_STEP_WAIT;
        }
        cell->stage = STAGE_RELEASE;
        if (!silent) {
            post_stop(ctx, (tr_reason)cell->reason);
        }
        return TRI_STEP_AGAIN;
    default:
        return waits_for_store(cell) ? TRI_STEP_WAIT : finish(ctx);
    }
}

static tri_step restart_step(tr_ctx *ctx)
{
    tri_cell *cell = ctx->cell;
    const tr_actor_def *def = def_of(cell);
    tri_ext *ext = tri_ext_of(cell);
    bool keep = tri_supervision_of(ctx->sys, cell)->keep_children;

    switch (cell->stage) {
    case STAGE_UNWIND:
        if (tri_parked_count(cell, TRI_CUT_MESSAGES | TRI_CUT_RUN) > 0) {
            return TRI_STEP_WAIT;
        }
        cell->stage = STAGE_FAMILY;
        if (def->pre_restart != NULL) {
            tri_failure_view view;
            tri_failure_show(ctx->sys, cell, &view);
            hook_begin(ctx, TR_IN_RESTART);
            tr_err err = def->pre_restart(ctx, cell->state, &view.failure);
            if (err != TR_OK) {
                hook_failed(ctx, err);
            } else {
                tri_turn_end(ctx);
            }
        }
        return TRI_STEP_AGAIN;
    case STAGE_FAMILY:
        cell->stage = STAGE_CHILDREN;
        if (!keep) {
            close_family(cell, true);
            signal_children(ctx, TRI_SIG_STOP);
        }
        return TRI_STEP_AGAIN;
    case STAGE_CHILDREN:
        if (!keep && live_children(cell) > 0) {
            return TRI_STEP_WAIT;
        }
        cell->stage = STAGE_RELEASE;
        post_stop(ctx, TR_RESTARTING);
        return TRI_STEP_AGAIN;
    case STAGE_RELEASE:
        if (waits_for_store(cell)) {
            return TRI_STEP_WAIT;
        }
        release(ctx, TR_ERESTARTED);
        if (keep) {
            tri_unwatch_all_but_children(ctx->worker, cell);
        } else {
            tri_unwatch_all(ctx->worker, cell);
        }
        tri_unstash(cell);
        if (tri_supervision_of(ctx->sys, cell)->clear_mailbox) {
            tri_detach(cell);
            gather_queue(cell);
            queue_dead(ctx->worker, cell, TR_DEAD_RESTARTED);
        }
        tri_failure_retry(ctx, cell);
        tri_cell_become(cell, tri_first_behaviour(cell));
        cell->stage = STAGE_DELAY;
        if (ext != NULL && ext->backoff > 0) {
            arm_deadline(ctx, ext->backoff);
            ext->backoff = 0;
            return TRI_STEP_WAIT;
        }
        cell->stage = STAGE_START;
        return TRI_STEP_AGAIN;
    case STAGE_DELAY:
        return TRI_STEP_WAIT;
    default:
        disarm_deadline(ctx->sys, cell);
        close_family(cell, false);
        if (keep) {  // whose failure was escalated to us begins anew as well
            signal_children(ctx, TRI_SIG_RESTART | TRI_SIG_RESUME);
        }
        return start(ctx);
    }
}

tri_step tri_life_step(tr_ctx *ctx)
{
    tri_cell *cell = ctx->cell;
    if (tri_parked_count(cell, TRI_CUT_HOOKS) > 0) {
        return TRI_STEP_WAIT;
    }
    switch (tri_cell_life(cell)) {
    case TR_STATE_CREATED:
        return start(ctx);
    case TR_STATE_RUNNING:
        return TRI_STEP_RUNNING;
    case TR_STATE_STOPPING:
        return stop_step(ctx);
    case TR_STATE_RESTARTING:
        return restart_step(ctx);
    default:
        return TRI_STEP_WAIT;  // FAILED; STARTING in a parked hook
    }
}
