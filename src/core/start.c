/*
 * start.c - how a life begins, and begins again.
 *
 * A restart says good-bye to one incarnation and starts the next in the same
 * cell: pre_restart, children, post_stop, what the incarnation held, the
 * delay, then as at the first start and post_restart (X4, X51). Nothing
 * restarts over a live stack (rule 5).
 */
#include "core/lifecycle.h"

#include <string.h>

#include "core/mailbox.h"

static void *state_alloc(tri_worker *worker, uint32_t klass, size_t size)
{
    return klass == TRI_CLASS_BIG ? tri_big_alloc(&worker->sys->mem, size)
                                  : tri_cache_alloc(&worker->cache, klass);
}

void tri_state_free(tri_worker *worker, tri_cell *cell)
{
    if (cell->state == NULL) {
        return;
    }
    uint32_t klass = tri_first_behaviour(cell)->state_class;
    if (klass == TRI_CLASS_BIG) {
        tri_big_free(&worker->sys->mem, cell->state);
    } else {
        tri_cache_free(&worker->cache, klass, cell->state);
    }
    cell->state = NULL;
}

static tr_err state_init(tri_worker *worker, tri_cell *cell)
{
    const tri_behaviour *first = tri_first_behaviour(cell);
    size_t size = first->def->state_size;
    if (size == 0) {
        return TR_OK;
    }
    if (cell->state == NULL) {
        cell->state = state_alloc(worker, first->state_class, size);
        if (cell->state == NULL) {
            return TR_ENOMEM;
        }
    }
    const tri_props *props = cell->props;
    if (props != NULL && props->init != NULL) {
        tri_copy_payload(cell->state, props->init, size);
    } else {
        // A call costs more than what is small: no block is smaller.
        _Static_assert(sizeof(tri_block) == 16, "the smallest class");
        memset(cell->state, 0, sizeof(tri_block));
        if (size > sizeof(tri_block)) {
            memset(cell->state, 0, size);
        }
    }
    return TR_OK;
}

/* on_run is a turn like any other; it just may last. */
static void begin_on_run(tr_ctx *ctx)
{
    const tr_actor_def *def = tri_def_of(ctx->cell);
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

/* err: whether there is a first state. */
static tri_step begin(tr_ctx *ctx, tr_err err)
{
    tri_cell *cell = ctx->cell;
    tri_worker *worker = ctx->worker;
    const tr_actor_def *def = tri_def_of(cell);
    bool again = tri_cell_incarnation(cell) > 0;

    tri_life_set(worker, cell, TR_STATE_STARTING);
    // Relaxed: only the owner writes.
    atomic_store_explicit(&cell->lives, tri_cell_incarnation(cell) + 1,
                          memory_order_relaxed);
    cell->stage = 0;
    ctx->phase = TR_IN_START;
    if (tri_ext_of(cell) != NULL) {
        tri_ext_of(cell)->released = false;
    }
    if (err == TR_OK && cell->props != NULL && cell->props->storage != NULL) {
        tri_hook_begin(ctx, TR_IN_START);
        err = ctx->sys->up->load_state(ctx, cell->state);
        if (err == TR_OK) {
            tri_turn_end(ctx);
        }
    }
    if (err == TR_OK) {
        err = tri_hook_run(ctx, TR_IN_START, def->pre_start);
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
    err = tri_hook_run(ctx, TR_IN_START, def->post_start);
    if (err == TR_OK && again) {
        err = tri_hook_run(ctx, TR_IN_RESTART, def->post_restart);
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

/* The first start of an actor without hooks, which is all of it. */
static bool begin_plainly(tri_worker *worker, tri_cell *cell)
{
    if (tri_cell_life(cell) != TR_STATE_CREATED || tri_ext_of(cell) != NULL ||
        !tri_life_is_plain(worker, cell) ||
        (cell->props != NULL && cell->props->storage != NULL)) {
        return false;
    }
    // Relaxed: only the owner writes.
    atomic_store_explicit(&cell->lives, 1, memory_order_relaxed);
    cell->slow &= (uint8_t)~TRI_SLOW_LIFE;
    tri_life_pass(cell, TR_STATE_STARTING << TRI_STATE_BITS | TR_STATE_RUNNING,
                  2 * TRI_STATE_BITS);
    return true;
}

tri_step tri_life_start(tr_ctx *ctx)
{
    tri_worker *worker = ctx->worker;
    tri_cell *cell = ctx->cell;
    tr_err err = state_init(worker, cell);
    if (TRI_LIKELY(err == TR_OK) && begin_plainly(worker, cell)) {
        return TRI_STEP_RUNNING;
    }
    tri_step step = begin(ctx, err);
    tri_group_started(worker, cell);
    return step;
}

/* ---- restarting ---- */

/* X44: not before the siblings that are younger. */
static bool may_stop(tr_ctx *ctx)
{
    tri_cell *cell = ctx->cell;
    if (tri_group_of(cell) == TRI_GROUP_SUSPENDED) {
        tri_deadline_disarm(ctx->sys, cell);  // it is not us who take long
        return false;
    }
    if (cell->timer.due == 0) {
        tri_deadline_arm(ctx, tri_stop_timeout(cell));
    }
    return true;
}

void tri_restart_begin(tr_ctx *ctx)
{
    tri_cell *cell = ctx->cell;
    cell->stage = TRI_STAGE_UNWIND;
    tri_life_set(ctx->worker, cell, TR_STATE_RESTARTING);
    tri_count(&ctx->worker->count.restarts);
    tri_count(&tri_lives_of(ctx->worker, cell)->restarts);
    tri_cut_waits(ctx->worker, cell,
                  TRI_CUT_MESSAGES | TRI_CUT_RUN | TRI_CUT_HOOKS,
                  TR_ERESTARTED);
    tri_deadline_arm(ctx, tri_stop_timeout(cell));
}

static bool has_deaf_turns(tri_cell *cell)
{
    tri_ext *ext = tri_ext_of(cell);
    const tr_ctx *c = ext != NULL ? ext->parked : NULL;
    while (c != NULL && c->ready) {
        c = c->next;
    }
    return c != NULL;
}

void tri_restart_give_up(tr_ctx *ctx)
{
    tri_cell *cell = ctx->cell;
    char text[] = "a turn has not returned in time: it cannot be restarted";
    tri_failure failure = {
        .err = TR_ETIMEDOUT, .phase = TR_IN_RESTART, .text = text};
    ctx->sys->up->supervision(ctx->worker, cell, &failure, TR_ESCALATE);
    tri_cut_waits(ctx->worker, cell,
                  TRI_CUT_MESSAGES | TRI_CUT_RUN | TRI_CUT_HOOKS, TR_EKILLED);
    tri_stop_begin(ctx, TR_FORCED);
    if (!has_deaf_turns(cell) || !tri_force_self(ctx, TRI_SIG_CHILD_LOST)) {
        tri_signal_parent(ctx->worker, cell, TRI_SIG_CHILD_LOST);
    }
}

void tri_life_resume(tr_ctx *ctx)
{
    tri_cell *cell = ctx->cell;
    tri_failure_clear(ctx->worker, cell, TR_DEAD_FAILED);
    tri_life_set(ctx->worker, cell, TR_STATE_RUNNING);
    // Whose failure was escalated to us goes on as well.
    tri_children_signal(ctx, TRI_SIG_RESUME);
}

tri_step tri_restart_step(tr_ctx *ctx)
{
    tri_cell *cell = ctx->cell;
    const tr_actor_def *def = tri_def_of(cell);
    tri_ext *ext = tri_ext_of(cell);
    bool keep = tri_supervision_of(ctx->sys, cell)->keep_children;

    switch (cell->stage & TRI_STAGE_OF) {
    case TRI_STAGE_UNWIND:
        if (tri_parked_count(cell, TRI_CUT_MESSAGES | TRI_CUT_RUN) > 0) {
            return TRI_STEP_WAIT;
        }
        if (!may_stop(ctx)) {
            return TRI_STEP_WAIT;
        }
        cell->stage = TRI_STAGE_FAMILY;
        if (def->pre_restart != NULL) {
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
    case TRI_STAGE_FAMILY:
        cell->stage = TRI_STAGE_CHILDREN;
        if (!keep) {
            tri_family_close(cell, true);
            tri_family_awaited(cell, tri_children_live(cell) > 0);
            tri_children_signal(ctx, TRI_SIG_STOP);
        }
        return TRI_STEP_AGAIN;
    case TRI_STAGE_CHILDREN:
        if (!keep && tri_children_live(cell) > 0) {
            return TRI_STEP_WAIT;
        }
        tri_family_awaited(cell, false);
        cell->stage = TRI_STAGE_RELEASE;
        tri_post_stop(ctx, TR_RESTARTING);
        return TRI_STEP_AGAIN;
    case TRI_STAGE_RELEASE:
        if (tri_waits_for_store(cell)) {
            return TRI_STEP_WAIT;
        }
        tri_life_release(ctx, TR_ERESTARTED);
        if (keep) {
            tri_unwatch_all_but_children(ctx->worker, cell);
        } else {
            tri_unwatch_all(ctx->worker, cell);
        }
        tri_unstash(cell);
        if (tri_supervision_of(ctx->sys, cell)->clear_mailbox) {
            tri_detach(cell);
            tri_queue_gather(cell);
            tri_queue_dead(ctx->worker, cell, TR_DEAD_RESTARTED);
        }
        tri_failure_retry(ctx, cell);
        tri_cell_become(cell, tri_first_behaviour(cell));
        cell->stage = TRI_STAGE_GROUP;
        tri_deadline_disarm(ctx->sys, cell);
        tri_group_reached(ctx->worker, cell, TRI_GROUP_STOPPED);
        return TRI_STEP_AGAIN;
    case TRI_STAGE_GROUP:
        if (tri_group_of(cell) == TRI_GROUP_STOPPED) {
            return TRI_STEP_WAIT;
        }
        cell->stage = TRI_STAGE_DELAY;
        if (ext != NULL && ext->backoff > 0) {
            tri_deadline_arm(ctx, ext->backoff);
            ext->backoff = 0;
            return TRI_STEP_WAIT;
        }
        cell->stage = TRI_STAGE_START;
        return TRI_STEP_AGAIN;
    case TRI_STAGE_DELAY:
        return TRI_STEP_WAIT;
    default:
        tri_deadline_disarm(ctx->sys, cell);
        tri_family_close(cell, false);
        if (keep) {  // whose failure was escalated to us begins anew as well
            tri_children_signal(ctx, TRI_SIG_RESTART | TRI_SIG_RESUME);
        }
        return tri_life_start(ctx);
    }
}
