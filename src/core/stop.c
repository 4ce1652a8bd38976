/*
 * stop.c - how a life ends.
 *
 * The order of an end (X1, X2): children, post_stop, STOPPED, drain, name and
 * id, event, tr_terminated to the watchers, TERMINATED. Nothing here waits in
 * its thread: each step returns, and a signal brings the next.
 */
#include "core/lifecycle.h"

#include <stdlib.h>

#include "core/mailbox.h"
#include "core/private.h"

/* ---- deadlines and the family ---- */

tr_nanos tri_stop_timeout(tri_cell *cell)
{
    return cell->props != NULL && cell->props->stop_timeout > 0
               ? cell->props->stop_timeout
               : TRI_STOP_TIMEOUT;
}

void tri_deadline_disarm(tr_system *sys, tri_cell *cell)
{
    if (cell->timer.due != 0) {  // else it was never armed
        tri_disarm(sys, cell->wheel, &cell->timer);
        cell->timer.due = 0;
    }
}

void tri_deadline_arm(tr_ctx *ctx, tr_nanos span)
{
    tri_cell *cell = ctx->cell;
    tri_deadline_disarm(ctx->sys, cell);
    cell->wheel = (uint16_t)ctx->worker->index;
    tri_arm(ctx->worker, &cell->timer, tri_clock(ctx->worker) + span,
            TRI_TIMER_CELL);
}

/* The next cell's lines, while this one is looked at; of none, nothing. */
static inline void fetch_ahead(const tri_cell *cell)
{
    if (cell == NULL) {
        return;
    }
    for (size_t at = 0; at < sizeof(*cell); at += TRI_CACHE_LINE) {
        __builtin_prefetch((const char *)cell + at, 1);
    }
}

/*
 * Sends a signal to every child, newest first (X44). Those that slept come
 * next, not behind all that waits: so a tree ends branch by branch, each cell
 * while it is still in the cache. Their time to stop has begun, so they are
 * not among the new ones, which the others are preferred to.
 */
void tri_children_signal(tr_ctx *ctx, uint32_t signal)
{
    tri_worker *worker = ctx->worker;
    tri_ext *ext = tri_ext_of(ctx->cell);
    if (ext == NULL) {
        return;
    }
    tri_cell *first = NULL, *last = NULL;
    uint32_t count = 0;
    tri_lock_take(&ext->lock);
    for (tri_cell *child = ext->last_child, *next; child != NULL;
         child = next) {
        next = child->sibling_prev;
        fetch_ahead(next);
        // Relaxed: linked children have not retired their id.
        uint64_t id = atomic_load_explicit(&child->id, memory_order_relaxed);
        if (!tri_signal_claim(child, id, signal)) {
            continue;
        }
        if (tri_schedules_here(worker, child)) {
            if (first == NULL) {
                first = child;
            } else {
                last->run_next = child;
            }
            last = child;
            count++;
        } else {
            tri_schedule(worker, child);
        }
    }
    tri_lock_drop(&ext->lock);
    if (count > 0) {
        tri_private_enter(worker);
        tri_own_prepend(worker, first, last, count);
        tri_private_leave(worker);
    }
}

/* From now on no child can be added, or again. */
void tri_family_close(tri_cell *cell, bool closed)
{
    tri_ext *ext = tri_ext_of(cell);
    if (ext != NULL) {
        tri_lock_take(&ext->lock);
        ext->closed = closed;
        tri_lock_drop(&ext->lock);
    }
}

void tri_family_awaited(tri_cell *cell, bool awaited)
{
    // Relaxed, all: only the owner writes this one. Children hear of it with
    // the signal to end, which releases; the parent looks after a while.
    bool before = atomic_load_explicit(&cell->flags, memory_order_relaxed) &
                  TRI_CELL_FAMILY;
    if (awaited && !before) {
        atomic_fetch_or_explicit(&cell->flags, TRI_CELL_FAMILY,
                                 memory_order_relaxed);
    } else if (!awaited && before) {
        atomic_fetch_and_explicit(&cell->flags, ~(uint32_t)TRI_CELL_FAMILY,
                                  memory_order_relaxed);
    }
}

uint32_t tri_children_live(tri_cell *cell)
{
    tri_ext *ext = tri_ext_of(cell);
    // Acquire: pairs with tri_children_count; what they did is seen.
    return ext == NULL ? 0
                       : atomic_load_explicit(&ext->live_children,
                                              memory_order_acquire);
}

/* ---- the first step ---- */

/* The stop deadline runs as soon as there is something to wait for. */
static void arm_stop(tr_ctx *ctx)
{
    if (ctx->cell->timer.due == 0) {
        tri_deadline_arm(ctx, ctx->cell->stage & TRI_STAGE_FORCED
                                  ? TRI_FORCE_GRACE
                                  : tri_stop_timeout(ctx->cell));
    }
}

void tri_force_family(tr_ctx *ctx)
{
    tri_cell *cell = ctx->cell;
    if ((cell->stage & TRI_STAGE_OF) != TRI_STAGE_CHILDREN) {
        return;
    }
    if (cell->stage & TRI_STAGE_FORCED) {
        tri_children_force(ctx);
    } else {
        cell->stage |= TRI_STAGE_FORCED;
        tri_children_signal(ctx, TRI_SIG_FORCE);
    }
    tri_deadline_arm(ctx, TRI_FORCE_GRACE);
}

void tri_stop_begin(tr_ctx *ctx, tr_reason reason)
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
            if ((cell->stage & TRI_STAGE_OF) >= TRI_STAGE_CHILDREN) {
                tri_children_signal(ctx, TRI_SIG_KILL);
            }
        }
        tri_edge_cut_family(ctx);
        return;
    }
    if (life == TR_STATE_CREATED) {
        tri_life_set(ctx->worker, cell, TR_STATE_STARTING);
    }
    // The old incarnation has said good-bye, and may hold nothing any more.
    bool silent = life == TR_STATE_RESTARTING &&
                  (cell->stage & TRI_STAGE_OF) >= TRI_STAGE_RELEASE;
    cell->reason = (uint8_t)reason;
    cell->stage = TRI_STAGE_UNWIND | (silent ? TRI_STAGE_QUIET : 0);
    tri_life_set(ctx->worker, cell, TR_STATE_STOPPING);
    tri_node *rest = tri_close_user(cell);
    if (rest != NULL) {
        tri_queue_append(cell, rest);
    }
    tri_deadline_disarm(ctx->sys, cell);  // of a restart
    tri_family_awaited(cell, false);
    if (tri_ext_of(cell) == NULL) {
        return;  // nobody waits, here or for room
    }
    tri_room(ctx->worker, cell);
    if (cell->slow & TRI_SLOW_PARKED) {
        arm_stop(ctx);
    }
    if (kill) {
        tri_cut_waits(ctx->worker, cell,
                      TRI_CUT_MESSAGES | TRI_CUT_RUN | TRI_CUT_HOOKS,
                      TR_EKILLED);
    } else {
        tri_cut_waits(ctx->worker, cell, TRI_CUT_RUN, TR_ESTOPPED);
        tri_edge_cut_family(ctx);
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
void tri_life_release(tr_ctx *ctx, tr_err err)
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
    ext->released = true;
    worker->sys->up->released(worker, cell);
}

/* ---- the end ---- */

/*
 * The extension of the parent, locked, in whose list we are; NULL: in none.
 * A parent may give us up at any time before.
 */
static inline tri_ext *lock_parent(tri_cell *cell)
{
    for (;;) {
        tri_cell *parent = tri_cell_parent(cell);
        if (parent == NULL || tri_cell_is_zombie(cell)) {
            return NULL;
        }
        // Acquire: pairs with tri_ext_need; gone only if we were given up.
        tri_ext *ext = atomic_load_explicit(&parent->ext, memory_order_acquire);
        if (ext == NULL) {
            continue;
        }
        tri_lock_take(&ext->lock);
        if (tri_cell_parent(cell) == parent && !tri_cell_is_zombie(cell)) {
            return ext;
        }
        tri_lock_drop(&ext->lock);  // we were given up meanwhile
    }
}

/* The name is free and the parent does not know us any more. */
static void leave_family(tri_cell *cell)
{
    tri_ext *ext = lock_parent(cell);
    if (ext != NULL) {
        tri_children_unlink(ext, cell);
        tri_lock_drop(&ext->lock);
    }
}

bool tri_tell_parent(tri_worker *worker, tri_cell *cell)
{
    tri_ext *ext = lock_parent(cell);
    if (ext == NULL) {
        return false;
    }
    cell->notice.kind = TRI_NODE_FAILURE;
    bool told = tri_push_system(worker, tri_cell_parent(cell), &cell->notice);
    tri_lock_drop(&ext->lock);
    return told;
}

void tri_signal_parent(tri_worker *worker, tri_cell *cell, uint32_t signal)
{
    tri_ext *ext = lock_parent(cell);
    if (ext != NULL) {
        tri_cell *parent = tri_cell_parent(cell);
        // Relaxed: it lives while we are in its list.
        uint64_t id = atomic_load_explicit(&parent->id, memory_order_relaxed);
        tri_signal(worker, parent, id, signal);
        tri_lock_drop(&ext->lock);
    }
}

static void child_ended(tri_worker *worker, tri_cell *cell)
{
    tri_cell *parent = tri_cell_parent(cell);
    if (parent == NULL || tri_cell_is_zombie(cell)) {
        return;
    }
    // Relaxed: the parent lives until the step below.
    uint64_t id = atomic_load_explicit(&parent->id, memory_order_relaxed);
    tri_ext *ext = tri_ext_of(parent);
    if (tri_group_of(cell) != TRI_GROUP_NONE) {
        tri_signal(worker, parent, id, TRI_SIG_GROUP);
    }
    // After it the parent may end, so only its id is used; a stale signal is
    // refused.
    tri_lock_take(&ext->lock);
    bool last = tri_children_less(ext);
    tri_lock_drop(&ext->lock);
    if (last) {
        tri_signal(worker, parent, id, TRI_SIG_CHILDREN);
    }
}

/* X47: a Watch that came last is answered, an ask as well. */
static void last_mail(tr_ctx *ctx, tri_node *node)
{
    while (node != NULL) {
        tri_node *next = node->next;
        tri_system_node(ctx, node);
        node = next;
    }
}

static void close_system_lane(tr_ctx *ctx)
{
    last_mail(ctx, tri_close_system(ctx->cell));
}

/* Everybody knows of the end: what is left is given back, the cell last. */
static void discard(tri_worker *worker, tri_cell *cell)
{
    tr_system *sys = worker->sys;
    tri_kind_lives *lives = tri_lives_of(worker, cell);
    tri_state_free(worker, cell);
    bool is_virtual = tri_cell_is_virtual(cell);
    if (!is_virtual && cell->name != NULL) {
        free((void *)(uintptr_t)cell->name);
        cell->name = NULL;
    }
    if (cell->props != NULL) {
        tri_props_leave(worker, cell->props);
        cell->props = NULL;
    }
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
    tri_count(&lives->ended);
    tri_live_less(worker);
}

/* Is nothing in it but, perhaps, children, and senders that wait? */
static inline bool holds_nothing(tri_ext *ext)
{
    uintptr_t held = (uintptr_t)ext->parked | (uintptr_t)ext->watchers |
                     (uintptr_t)ext->pending | (uintptr_t)ext->joins |
                     (uintptr_t)ext->waits | (uintptr_t)ext->kept |
                     (uintptr_t)ext->stash | (uintptr_t)ext->heap |
                     (uintptr_t)ext->closers | (uintptr_t)ext->holdings |
                     (uintptr_t)ext->timers | (uintptr_t)ext->receive_timeout |
                     (uintptr_t)ext->failure.text | (uintptr_t)ext->failure.msg;
    // Relaxed: written by the owner, or before what the owner has seen.
    held |= atomic_load_explicit(&ext->stores, memory_order_relaxed);
    return held == 0 && tri_map_count(&ext->watching) == 0;
}

/* True: nor are there children, and there will be none. */
static bool has_had_its_time(tri_cell *cell, tri_ext *ext)
{
    tri_lock_take(&ext->lock);  // of a zombie the lists are the forcer's
    bool over = !tri_cell_is_zombie(cell) && ext->first_child == NULL &&
                tri_children_live(cell) == 0 && holds_nothing(ext);
    if (over) {
        ext->closed = true;
    }
    tri_lock_drop(&ext->lock);
    return over;
}

/* One like most that nobody joins, with no name, no mail and no children. */
static inline bool may_finish_plainly(tri_worker *worker, tri_cell *cell)
{
    enum { BUSY = TRI_SLOW_PARKED | TRI_SLOW_PENDING | TRI_SLOW_URGENT };
    tri_ext *ext = tri_ext_of(cell);
    return tri_life_is_plain(worker, cell) && cell->name == NULL &&
           cell->queue == NULL && cell->timer.due == 0 &&
           (cell->slow & BUSY) == 0 &&
           (cell->props == NULL || !cell->props->joinable) &&
           (ext == NULL || has_had_its_time(cell, ext));
}

/*
 * It leaves its family, closes its lane and is counted out in one go. False:
 * it cannot, nothing has happened. `states`: as tri_life_pass.
 */
static bool finish_plainly(tr_ctx *ctx, uint32_t states, uint32_t bits)
{
    tri_cell *cell = ctx->cell;
    tri_worker *worker = ctx->worker;
    if (tri_ext_of(cell) != NULL) {
        worker->sys->up->released(worker, cell);
    }
    tri_ext *family = lock_parent(cell);
    if (family == NULL) {
        return false;
    }
    // Relaxed: a glance; what comes later is found below. Its parent may have
    // put it into a group while it was in the list.
    if (atomic_load_explicit(&cell->sys_mail, memory_order_relaxed) != 0 ||
        tri_group_of(cell) != TRI_GROUP_NONE) {
        tri_lock_drop(&family->lock);
        return false;
    }
    tri_cell *parent = tri_cell_parent(cell);
    // Relaxed: it lives while we are counted.
    uint64_t id = atomic_load_explicit(&parent->id, memory_order_relaxed);
    tri_siblings_leave(family, cell);
    tri_life_pass(cell, states, bits);
    tri_node *late = tri_close_system(cell);
    if (TRI_UNLIKELY(late != NULL)) {
        tri_lock_drop(&family->lock);
        last_mail(ctx, late);
        worker->sys->up->ended(worker, cell);
        tri_joins_tell(worker, cell);
        tri_watchers_tell(worker, cell, (tr_reason)cell->reason);
        child_ended(worker, cell);
    } else {
        // The locks of the layers above are below this one.
        worker->sys->up->ended(worker, cell);
        bool last = tri_children_less(family);
        tri_lock_drop(&family->lock);
        if (last) {  // it may have ended: only its id is used
            tri_signal(worker, parent, id, TRI_SIG_CHILDREN);
        }
    }
    discard(worker, cell);
    return true;
}

static tri_step finish(tr_ctx *ctx)
{
    tri_cell *cell = ctx->cell;
    tri_worker *worker = ctx->worker;
    tr_system *sys = ctx->sys;
    tr_reason reason = (tr_reason)cell->reason;

    tri_deadline_disarm(sys, cell);
    tri_life_set(worker, cell, TR_STATE_STOPPED);
    bool extended = tri_ext_of(cell) != NULL;
    if (extended || (cell->props != NULL && cell->props->joinable)) {
        tri_joins_prepare(worker, cell, reason);
    }
    if (extended) {
        tri_life_release(ctx, reason == TR_KILLED ? TR_EKILLED : TR_ESTOPPED);
        tri_unwatch_all(worker, cell);
    }
    tri_drain(ctx);
    tri_room(worker, cell);
    leave_family(cell);
    bool zombie = tri_cell_is_zombie(cell);  // from here on it is known
    if (zombie) {
        tri_force_done(sys, cell);
    }
    tri_life_tell(worker, cell, TR_STATE_STOPPED);
    tri_life_set(worker, cell, TR_STATE_TERMINATED);
    close_system_lane(ctx);
    tri_failure_clear(worker, cell, TR_DEAD_FAILED);
    if (!zombie) {
        sys->up->ended(worker, cell);
    }
    tri_joins_tell(worker, cell);
    tri_watchers_tell(worker, cell, reason);
    child_ended(worker, cell);
    discard(worker, cell);
    return TRI_STEP_ENDED;
}

void tri_post_stop(tr_ctx *ctx, tr_reason reason)
{
    tri_cell *cell = ctx->cell;
    const tr_actor_def *def = tri_def_of(cell);
    if (def->post_stop == NULL || tri_cell_incarnation(cell) == 0 ||
        (def->state_size > 0 && cell->state == NULL)) {
        return;
    }
    if (tri_cell_life(cell) == TR_STATE_STOPPING) {
        arm_stop(ctx);
    }
    tri_hook_begin(ctx, TR_IN_STOP);
    tr_err err = def->post_stop(ctx, cell->state, reason);
    if (err != TR_OK) {
        tri_hook_failed(ctx, err);
    } else {
        tri_turn_end(ctx);
    }
}

/* Rule 28: a successor must not load under a write of ours. */
bool tri_waits_for_store(tri_cell *cell)
{
    tri_ext *ext = tri_ext_of(cell);
    // Acquire: pairs with the answer that counts itself out.
    return ext != NULL &&
           atomic_load_explicit(&ext->stores, memory_order_acquire) > 0;
}

static tri_step one_step(tr_ctx *ctx)
{
    tri_cell *cell = ctx->cell;
    const tr_actor_def *def = tri_def_of(cell);
    bool hard = cell->reason == TR_KILLED || cell->reason == TR_FORCED;
    uint8_t silent = cell->stage & TRI_STAGE_QUIET;

    switch (cell->stage & TRI_STAGE_OF) {
    case TRI_STAGE_UNWIND:
        if (tri_parked_count(cell, TRI_CUT_MESSAGES | TRI_CUT_RUN) > 0) {
            return TRI_STEP_WAIT;
        }
        cell->stage = TRI_STAGE_FAMILY | silent;
        if (!hard && !silent && tri_cell_incarnation(cell) > 0 &&
            !tri_failed_to_start(cell)) {
            if (def->pre_stop != NULL) {
                arm_stop(ctx);
            }
            tr_err err = tri_hook_run(ctx, TR_IN_STOP, def->pre_stop);
            if (err != TR_OK) {
                tri_hook_failed(ctx, err);
            }
        }
        return TRI_STEP_AGAIN;
    case TRI_STAGE_FAMILY:
        cell->stage =
            (uint8_t)(TRI_STAGE_CHILDREN | silent |
                      (cell->reason == TR_FORCED ? TRI_STAGE_FORCED : 0));
        if (cell->reason == TR_FORCED) {
            tri_deadline_disarm(ctx->sys, cell);  // theirs is shorter
        }
        tri_family_close(cell, true);
        if (tri_children_live(cell) > 0) {
            tri_drain_requests(ctx);  // they may wait for the answer
            tri_family_awaited(cell, true);
        }
        tri_children_signal(ctx, cell->reason == TR_KILLED   ? TRI_SIG_KILL
                                 : cell->reason == TR_FORCED ? TRI_SIG_FORCE
                                                             : TRI_SIG_STOP);
        return TRI_STEP_AGAIN;
    case TRI_STAGE_CHILDREN:
        if (tri_children_live(cell) > 0) {
            arm_stop(ctx);
            return TRI_STEP_WAIT;
        }
        tri_family_awaited(cell, false);
        cell->stage = TRI_STAGE_RELEASE;
        if (!silent) {
            tri_post_stop(ctx, (tr_reason)cell->reason);
        }
        return TRI_STEP_AGAIN;
    default:
        return tri_waits_for_store(cell) ? TRI_STEP_WAIT : finish(ctx);
    }
}

bool tri_stop_plainly(tr_ctx *ctx)
{
    enum {
        ENDS = (TR_STATE_STOPPING << TRI_STATE_BITS | TR_STATE_STOPPED)
                   << TRI_STATE_BITS |
               TR_STATE_TERMINATED
    };
    tri_cell *cell = ctx->cell;
    if (tri_cell_life(cell) != TR_STATE_RUNNING ||
        !may_finish_plainly(ctx->worker, cell)) {
        return false;
    }
    tri_node *rest = tri_close_user(cell);
    if (rest != NULL) {
        tri_queue_append(cell, rest);
        return false;
    }
    cell->reason = TR_STOPPED;
    return finish_plainly(ctx, ENDS, 3 * TRI_STATE_BITS);
}

tri_step tri_stop_step(tr_ctx *ctx)
{
    if (ctx->cell->stage == TRI_STAGE_UNWIND &&
        may_finish_plainly(ctx->worker, ctx->cell) &&
        finish_plainly(ctx,
                       TR_STATE_STOPPED << TRI_STATE_BITS | TR_STATE_TERMINATED,
                       2 * TRI_STATE_BITS)) {
        return TRI_STEP_ENDED;
    }
    for (;;) {
        tri_step step = one_step(ctx);
        // What others ask for meanwhile comes first. Relaxed: a glance.
        if (step != TRI_STEP_AGAIN ||
            atomic_load_explicit(&ctx->cell->sys_mail, memory_order_relaxed) !=
                0 ||
            (ctx->cell->slow & TRI_SLOW_PARKED)) {
            return step;
        }
    }
}
