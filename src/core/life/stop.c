/*
 * stop.c - ends an actor, step by step or, if its life is simple, at once.
 *
 * The order is rule 25 (order of an end): children, post_stop, STOPPED, drain,
 * name, event, TERMINATED, joins, watchers, parent, id. lifecycle.c has the
 * stages. No function waits in its thread: a step that must wait returns
 * TRI_STEP_WAIT, and a signal brings the owner back.
 *
 * Invariant: an actor ends once. It leaves its parent's list under the parent's
 * lock; one that is not in that list any more was ended by force (force.c) and
 * notifies nobody.
 */
#include "core/life/stop.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/map.h"
#include "core/ask/answer.h"
#include "core/ask/deadlock.h"
#include "core/ask/then.h"
#include "core/cell/behaviour.h"
#include "core/cell/cell.h"
#include "core/cell/ext.h"
#include "core/cell/heap.h"
#include "core/cell/message.h"
#include "core/cell/props.h"
#include "core/cell/tally.h"
#include "core/life/child_end.h"
#include "core/life/cohort.h"
#include "core/life/failure.h"
#include "core/life/family.h"
#include "core/life/force.h"
#include "core/life/join.h"
#include "core/life/lifecycle.h"
#include "core/life/live_count.h"
#include "core/life/signal.h"
#include "core/life/start.h"
#include "core/life/watch.h"
#include "core/mail/drain.h"
#include "core/mail/keep.h"
#include "core/mail/mailbox.h"
#include "core/mail/room.h"
#include "core/run/attention.h"
#include "core/run/clock.h"
#include "core/run/context.h"
#include "core/run/handle.h"
#include "core/run/park.h"
#include "core/run/pool.h"
#include "core/run/timer.h"
#include "core/run/user_timer.h"
#include "core/run/worker.h"
#include "core/system.h"

/* ---- deadlines ---- */

tr_nanos tri_stop_timeout(tri_cell *cell)
{
    return cell->props != NULL && cell->props->stop_timeout > 0
               ? cell->props->stop_timeout
               : TRI_STOP_TIMEOUT;
}

void tri_deadline_disarm(tr_system *sys, tri_cell *cell)
{
    TRI_CHECK_SLOW(tri_cell_is_owned(cell));
    if (cell->timer.due != 0) {  // 0: not armed since the last disarm
        tri_disarm(sys, cell->wheel, &cell->timer);
        cell->timer.due = 0;
    }
}

void tri_deadline_arm(tr_ctx *ctx, tr_nanos span)
{
    TRI_CHECK(span > 0);
    tri_cell *cell = ctx->cell;
    tri_deadline_disarm(ctx->sys, cell);
    _Static_assert(TRI_WORKERS_MAX <= 1 << 10, "the width of tri_cell.wheel");
    cell->wheel = (uint16_t)ctx->worker->index;
    tri_arm(ctx->worker, &cell->timer, tri_clock(ctx->worker) + span,
            TRI_TIMER_CELL);
}

/* Arms the stop deadline, unless it runs: there is something to wait for. */
static void arm_stop(tr_ctx *ctx)
{
    TRI_CHECK(tri_cell_life(ctx->cell) == TR_STATE_STOPPING);
    if (ctx->cell->timer.due == 0) {
        tri_deadline_arm(ctx, ctx->cell->children_forced
                                  ? TRI_FORCE_GRACE
                                  : tri_stop_timeout(ctx->cell));
    }
}

void tri_children_overdue(tr_ctx *ctx)
{
    tri_cell *cell = ctx->cell;
    tri_cell_assert_owned(cell);
    if (cell->stage != TRI_STAGE_AWAIT_CHILDREN) {
        return;
    }
    if (cell->children_forced) {
        tri_force_children(ctx);
    } else {
        cell->children_forced = true;
        tri_children_signal(ctx, TRI_SIG_FORCE);
    }
    tri_deadline_arm(ctx, TRI_FORCE_GRACE);
}

/* ---- the beginning ---- */

/* A kill comes while the actor stops: its waits and its children end now. */
static void turn_stop_into_kill(tr_ctx *ctx)
{
    tri_cell *cell = ctx->cell;
    TRI_CHECK(tri_cell_life(cell) == TR_STATE_STOPPING);
    cell->reason = TR_KILLED;
    tri_parked_cancel(ctx->worker, cell,
                      TRI_PARKED_MESSAGES | TRI_PARKED_RUN | TRI_PARKED_HOOKS,
                      TR_EKILLED);
    if (cell->stage >= TRI_STAGE_AWAIT_CHILDREN) {
        tri_children_signal(ctx, TRI_SIG_KILL);
    }
}

/* Ends the waits of the actor and of its blocked senders. */
static void cut_waits_for_stop(tr_ctx *ctx, bool kill)
{
    tri_cell *cell = ctx->cell;
    TRI_CHECK_SLOW(tri_cell_life(cell) == TR_STATE_STOPPING);
    if (tri_ext_of(cell) == NULL) {
        return;  // then no turn and no sender waits
    }
    tri_room_wake(ctx->worker, cell);
    if (cell->attention & TRI_ATTENTION_PARKED) {
        arm_stop(ctx);
    }
    if (kill) {
        tri_parked_cancel(ctx->worker, cell,
                          TRI_PARKED_MESSAGES | TRI_PARKED_RUN |
                              TRI_PARKED_HOOKS,
                          TR_EKILLED);
    } else {
        tri_parked_cancel(ctx->worker, cell, TRI_PARKED_RUN, TR_ESTOPPED);
        tri_edge_cancel_family(ctx);
    }
}

void tri_stop_begin(tr_ctx *ctx, tr_reason reason)
{
    tri_cell *cell = ctx->cell;
    tr_state life = tri_cell_life(cell);
    bool kill = reason == TR_KILLED;
    tri_cell_assert_owned(cell);

    if (life == TR_STATE_STOPPING) {
        if (kill && cell->reason != TR_KILLED) {
            turn_stop_into_kill(ctx);
        }
        tri_edge_cancel_family(ctx);
        return;
    }
    if (life == TR_STATE_CREATED) {
        tri_life_set(ctx->worker, cell, TR_STATE_STARTING);
    }
    // The restart that is interrupted has called post_stop already.
    cell->skips_hooks =
        life == TR_STATE_RESTARTING && cell->stage >= TRI_STAGE_RELEASE;
    cell->reason = (uint8_t)reason & 0xf;
    tri_stage_set(cell, TRI_STAGE_UNWIND);
    tri_life_set(ctx->worker, cell, TR_STATE_STOPPING);
    tri_item *mail = tri_close_user(cell);
    if (mail != NULL) {
        tri_queue_append(cell, mail);
    }
    tri_deadline_disarm(ctx->sys, cell);  // of a restart
    tri_family_set_awaited(cell, false);
    cut_waits_for_stop(ctx, kill);
}

/* ---- release of an incarnation ---- */

/* Returns what the asker of a kept request gets when the actor ends. */
static tr_err kept_error(const tri_cell *cell)
{
    return cell->reason == TR_KILLED ? TR_EKILLED : TR_ESTOPPED;
}

/* Frees the messages that tr_keep kept; requests are answered with err. */
static void answer_kept(tri_worker *worker, tri_cell *cell, tr_err err)
{
    tri_ext *ext = tri_ext_of(cell);
    TRI_CHECK(ext != NULL);
    while (ext->keep.kept != NULL) {
        tr_msg *msg = tri_msg_from(ext->keep.kept);
        ext->keep.kept = ext->keep.kept->next;
        if ((msg->item.flags & TRI_MSG_ASK) &&
            !(msg->item.flags & TRI_MSG_ANSWERED)) {
            tri_answer_error(worker, msg, err, NULL);
        } else {
            tri_msg_free(&worker->cache, msg);
        }
    }
}

void tri_life_release(tr_ctx *ctx, tr_err err)
{
    tri_worker *worker = ctx->worker;
    tri_cell *cell = ctx->cell;
    tri_ext *ext = tri_ext_of(cell);
    tri_cell_assert_owned(cell);
    TRI_CHECK(err != TR_OK);
    if (ext == NULL) {
        return;
    }
    tri_timers_cancel_all(worker, cell);
    tri_then_drop_all(worker, cell);
    answer_kept(worker, cell, err);
    tri_heap_release(cell);
    ext->heap.released = true;
    worker->sys->up->released(worker, cell);
}

/* ---- the end ---- */

/*
 * Processes the system mail that was in the lane when it closed: the watches
 * and joins among it are answered.
 */
static void process_last_mail(tr_ctx *ctx, tri_item *item)
{
    while (item != NULL) {
        tri_item *next = item->next;
        tri_system_item(ctx, item);
        item = next;
    }
}

static void close_system_lane(tr_ctx *ctx)
{
    process_last_mail(ctx, tri_close_system(ctx->cell));
}

/*
 * Frees what is left of an actor that has ended for everybody; the cell is
 * freed last.
 */
static void discard(tri_worker *worker, tri_cell *cell)
{
    TRI_CHECK(!tri_link_is_linked(&cell->sibling));
    tr_system *sys = worker->sys;
    tri_kind_lives *lives = tri_lives_of(worker, cell);
    tri_state_free(worker, cell);
    bool is_virtual = tri_cell_is_virtual(cell);
    if (!is_virtual && cell->name != NULL) {
        free((void *)(uintptr_t)cell->name);
        cell->name = NULL;
    }
    if (cell->props != NULL) {
        tri_props_drop_later(worker, cell->props);
        cell->props = NULL;
    }
    // Relaxed: fixed at spawn.
    if (atomic_load_explicit(&cell->flags, memory_order_relaxed) &
        TRI_CELL_PINNED) {
        tri_worker_release_pinned(sys, worker);
    }
    tri_ext_free(worker, cell);
    if (is_virtual) {
        tri_virtual_ops_of(sys)->ended(worker, cell);
    } else {
        tri_cell_free(&worker->cache, cell);
    }
    tri_count(&lives->ended);
    tri_live_count_out(worker);
}

/*
 * True if the extension holds nothing, apart from children and senders that
 * wait for room.
 */
static inline bool holds_nothing(tri_ext *ext)
{
    bool held =
        ext->parked != NULL || !tri_list_is_empty(&ext->watch.watchers) ||
        ext->watch.pending != NULL || ext->end != NULL || ext->joins != NULL ||
        !tri_list_is_empty(&ext->waits.list) || ext->keep.kept != NULL ||
        ext->keep.stash != NULL || !tri_list_is_empty(&ext->heap.blocks) ||
        ext->heap.closers != NULL || ext->stored.holdings != NULL ||
        !tri_list_is_empty(&ext->timers.list) ||
        ext->timers.receive_timeout != NULL || ext->failure.text != NULL ||
        ext->failure.msg != NULL;
    // Relaxed: written by the owner, or before what the owner has seen.
    return !held &&
           atomic_load_explicit(&ext->store_requests, memory_order_relaxed) ==
               0 &&
           tri_map_count(&ext->watch.watching) == 0;
}

/*
 * Closes the family of an actor that has no children and whose extension holds
 * nothing. Returns false, and changes nothing, if it has any of that.
 */
static bool close_if_empty(tri_cell *cell, tri_ext *ext)
{
    tri_lock_take(&ext->lock);  // the lists of a zombie belong to the forcer
    bool empty = !tri_cell_is_zombie(cell) &&
                 tri_list_is_empty(&ext->family.children) &&
                 tri_children_live(cell) == 0 && holds_nothing(ext);
    if (empty) {
        ext->family.closed = true;
    }
    tri_lock_drop(&ext->lock);
    return empty;
}

/*
 * True if the actor can end in one step: a simple life, not joinable, without
 * a name, mail, a deadline, children, or anything else in its extension.
 */
static inline bool may_finish_fast(tri_worker *worker, tri_cell *cell)
{
    enum {
        BUSY = TRI_ATTENTION_PARKED | TRI_ATTENTION_TERMINATED |
               TRI_ATTENTION_URGENT
    };
    tri_ext *ext = tri_ext_of(cell);
    return tri_life_is_simple(worker, cell) && cell->name == NULL &&
           cell->queue == NULL && cell->timer.due == 0 &&
           (cell->attention & BUSY) == 0 &&
           (cell->props == NULL || !cell->props->joinable) &&
           (ext == NULL || close_if_empty(cell, ext));
}

/* System mail came during finish_fast: the actor ends as `finish` does. */
static void finish_late(tr_ctx *ctx, tri_item *late)
{
    tri_cell *cell = ctx->cell;
    tri_worker *worker = ctx->worker;
    TRI_CHECK(tri_cell_life(cell) == TR_STATE_TERMINATED);
    process_last_mail(ctx, late);
    worker->sys->up->ended(worker, cell);
    tri_joins_answer(worker, cell);
    tri_watchers_notify(worker, cell, (tr_reason)cell->reason);
    tri_child_ended(worker, cell);
}

/*
 * Leaves the family, closes the system lane and ends the actor in one step.
 * Returns false if that is not possible; `finish` must do it then. `states` and
 * `bits`: as tri_life_set_several.
 */
static bool finish_fast(tr_ctx *ctx, uint32_t states, uint32_t bits)
{
    tri_cell *cell = ctx->cell;
    tri_worker *worker = ctx->worker;
    TRI_CHECK_SLOW(tri_cell_is_owned(cell));
    if (tri_ext_of(cell) != NULL) {
        worker->sys->up->released(worker, cell);
    }
    tri_ext *family = tri_parent_lock(cell);
    if (family == NULL) {
        return false;
    }
    // Relaxed: mail that comes later is found when the lane closes. The parent
    // may have put the actor into a cohort while it was in the list.
    if (atomic_load_explicit(&cell->sys_mail, memory_order_relaxed) != 0 ||
        tri_cohort_stage_of(cell) != TRI_COHORT_NONE) {
        tri_lock_drop(&family->lock);
        return false;
    }
    tri_cell *parent = tri_cell_parent(cell);
    // Relaxed: the parent lives while it counts this child.
    uint64_t id = atomic_load_explicit(&parent->id, memory_order_relaxed);
    tri_list_remove(&cell->sibling);
    tri_life_set_several(cell, states, bits);
    tri_item *late = tri_close_system(cell);
    if (TRI_UNLIKELY(late != NULL)) {
        tri_lock_drop(&family->lock);
        finish_late(ctx, late);
    } else {
        // The locks that `ended` takes come after the family's in the order.
        worker->sys->up->ended(worker, cell);
        bool last = tri_children_count_out(family);
        tri_lock_drop(&family->lock);
        if (last) {  // the parent may have ended: only its id is used
            tri_signal(worker, parent, id, TRI_SIG_CHILDREN);
        }
    }
    discard(worker, cell);
    return true;
}

/*
 * Tries to end an actor that is STOPPING in one step. Returns false if that is
 * not possible; it goes on step by step then.
 */
static bool try_finish_fast(tr_ctx *ctx)
{
    enum { STATES = TR_STATE_STOPPED << TRI_STATE_BITS | TR_STATE_TERMINATED };
    return may_finish_fast(ctx->worker, ctx->cell) &&
           finish_fast(ctx, STATES, 2 * TRI_STATE_BITS);
}

/* Ends the actor after post_stop: rule 25 (order of an end). */
static tri_step finish(tr_ctx *ctx)
{
    tri_cell *cell = ctx->cell;
    tri_worker *worker = ctx->worker;
    tr_system *sys = ctx->sys;
    tr_reason reason = (tr_reason)cell->reason;

    TRI_CHECK(tri_children_live(cell) == 0);
    TRI_CHECK(!tri_waits_for_store(cell));
    tri_deadline_disarm(sys, cell);
    if (try_finish_fast(ctx)) {  // its children have ended meanwhile
        return TRI_STEP_ENDED;
    }
    tri_life_set(worker, cell, TR_STATE_STOPPED);
    bool extended = tri_ext_of(cell) != NULL;
    if (extended || (cell->props != NULL && cell->props->joinable)) {
        tri_joins_prepare(worker, cell, reason);
    }
    if (extended) {
        tri_life_release(ctx, kept_error(cell));
        tri_unwatch_all(worker, cell);
        tri_child_ends_free(cell, tri_ext_of(cell));
    }
    tri_drain(ctx);
    tri_room_wake(worker, cell);
    tri_family_leave(cell);
    // Outside of the parent's list it cannot become a zombie any more.
    bool zombie = tri_cell_is_zombie(cell);
    if (zombie) {
        tri_zombie_leave(sys, cell);
    }
    tri_life_publish(worker, cell, TR_STATE_STOPPED);
    tri_life_set(worker, cell, TR_STATE_TERMINATED);
    close_system_lane(ctx);
    tri_failure_drop_message(worker, cell, TR_DEAD_FAILED);
    if (!zombie) {
        sys->up->ended(worker, cell);
    }
    tri_joins_answer(worker, cell);
    tri_watchers_notify(worker, cell, reason);
    tri_child_ended(worker, cell);
    tri_failure_clear(worker, cell, TR_DEAD_FAILED);
    discard(worker, cell);
    return TRI_STEP_ENDED;
}

/* ---- the steps ---- */

void tri_post_stop(tr_ctx *ctx, tr_reason reason)
{
    tri_cell *cell = ctx->cell;
    const tr_actor_def *def = tri_def_of(cell);
    TRI_CHECK(cell->stage == TRI_STAGE_RELEASE);
    if (def->post_stop == NULL || tri_cell_incarnation(cell) == 0 ||
        !tri_has_state(cell)) {
        return;
    }
    if (tri_cell_life(cell) == TR_STATE_STOPPING) {
        arm_stop(ctx);
    }
    tri_hook_begin(ctx, TR_IN_STOP);
    if (reason == TR_FORCED) {
        ctx->cancel = TR_ESTOPPED;  // rule 41 (force): its time is over
    }
    tr_err err = def->post_stop(ctx, cell->state, reason);
    if (err != TR_OK) {
        tri_hook_failed(ctx, err);
    } else {
        tri_turn_end(ctx);
    }
}

bool tri_waits_for_store(tri_cell *cell)
{
    tri_ext *ext = tri_ext_of(cell);
    // Acquire: pairs with the decrement in src/system/store_request.c.
    return ext != NULL &&
           atomic_load_explicit(&ext->store_requests, memory_order_acquire) > 0;
}

static tri_step unwind(tr_ctx *ctx)
{
    tri_cell *cell = ctx->cell;
    const tr_actor_def *def = tri_def_of(cell);
    bool killed = cell->reason == TR_KILLED || cell->reason == TR_FORCED;
    if (tri_parked_count(cell, TRI_PARKED_MESSAGES | TRI_PARKED_RUN) > 0) {
        return TRI_STEP_WAIT;
    }
    tri_stage_set(cell, TRI_STAGE_STOP_CHILDREN);
    if (!killed && !cell->skips_hooks && tri_cell_incarnation(cell) > 0 &&
        !tri_failed_in_start(cell)) {
        if (def->pre_stop != NULL) {
            arm_stop(ctx);
        }
        tr_err err = tri_hook_run(ctx, TR_IN_STOP, def->pre_stop);
        if (err != TR_OK) {
            tri_hook_failed(ctx, err);
        }
    }
    return TRI_STEP_AGAIN;
}

static tri_step stop_children(tr_ctx *ctx)
{
    tri_cell *cell = ctx->cell;
    tri_stage_set(cell, TRI_STAGE_AWAIT_CHILDREN);
    cell->children_forced = cell->reason == TR_FORCED;
    if (cell->reason == TR_FORCED) {
        // The actor's own deadline is longer than that of forced children.
        tri_deadline_disarm(ctx->sys, cell);
    }
    tri_family_close(cell, true);
    if (tri_children_live(cell) > 0) {
        // A child may wait for the answer.
        tri_drain_requests(ctx);
        tri_kept_refuse_family(ctx, kept_error(cell));
        tri_family_set_awaited(cell, true);
    }
    tri_children_signal(ctx, cell->reason == TR_KILLED   ? TRI_SIG_KILL
                             : cell->reason == TR_FORCED ? TRI_SIG_FORCE
                                                         : TRI_SIG_STOP);
    return TRI_STEP_AGAIN;
}

static tri_step one_step(tr_ctx *ctx)
{
    tri_cell *cell = ctx->cell;
    switch (cell->stage) {
    case TRI_STAGE_UNWIND:
        return unwind(ctx);
    case TRI_STAGE_STOP_CHILDREN:
        return stop_children(ctx);
    case TRI_STAGE_AWAIT_CHILDREN:
        if (tri_children_live(cell) > 0) {
            arm_stop(ctx);
            return TRI_STEP_WAIT;
        }
        tri_family_set_awaited(cell, false);
        tri_stage_set(cell, TRI_STAGE_RELEASE);
        if (!cell->skips_hooks) {
            tri_post_stop(ctx, (tr_reason)cell->reason);
        }
        return TRI_STEP_AGAIN;
    default:
        TRI_CHECK(cell->stage == TRI_STAGE_RELEASE);
        return tri_waits_for_store(cell) ? TRI_STEP_WAIT : finish(ctx);
    }
}

bool tri_stop_fast(tr_ctx *ctx)
{
    enum {
        STATES = (TR_STATE_STOPPING << TRI_STATE_BITS | TR_STATE_STOPPED)
                     << TRI_STATE_BITS |
                 TR_STATE_TERMINATED
    };
    tri_cell *cell = ctx->cell;
    TRI_CHECK_SLOW(tri_cell_is_owned(cell));
    if (tri_cell_life(cell) != TR_STATE_RUNNING ||
        !may_finish_fast(ctx->worker, cell)) {
        return false;
    }
    tri_item *mail = tri_close_user(cell);
    if (mail != NULL) {
        tri_queue_append(cell, mail);
        return false;
    }
    cell->reason = TR_STOPPED;
    return finish_fast(ctx, STATES, 3 * TRI_STATE_BITS);
}

tri_step tri_stop_step(tr_ctx *ctx)
{
    TRI_CHECK_SLOW(tri_cell_life(ctx->cell) == TR_STATE_STOPPING);
    if (ctx->cell->stage == TRI_STAGE_UNWIND && !ctx->cell->skips_hooks &&
        try_finish_fast(ctx)) {
        return TRI_STEP_ENDED;
    }
    for (;;) {
        tri_step step = one_step(ctx);
        // System mail comes before the next step. Relaxed: tri_system_take
        // acquires it.
        if (step != TRI_STEP_AGAIN ||
            atomic_load_explicit(&ctx->cell->sys_mail, memory_order_relaxed) !=
                0 ||
            (ctx->cell->attention & TRI_ATTENTION_PARKED)) {
            return step;
        }
    }
}
