/*
 * start.c - starts an incarnation: the first one, and after each restart.
 *
 * The order: the state as TR_INIT made it, STARTING, the stored state,
 * pre_start, RUNNING, post_start, after a restart post_restart, and then the
 * actors that wait for the start are answered and on_run begins.
 *
 * Invariant: an actor without hooks, extension and store starts in one step
 * (start_fast); the states that it passes are the same.
 */
#include "core/life/start.h"

#include <stdatomic.h>
#include <string.h>

#include "base/check.h"
#include "core/cell/behaviour.h"
#include "core/cell/cache.h"
#include "core/cell/cell.h"
#include "core/cell/ext.h"
#include "core/cell/mem.h"
#include "core/cell/message.h"
#include "core/cell/props.h"
#include "core/life/cohort.h"
#include "core/life/failure.h"
#include "core/life/join.h"
#include "core/life/lifecycle.h"
#include "core/run/context.h"
#include "core/run/handle.h"
#include "core/run/worker.h"
#include "core/system.h"

static void *state_alloc(tri_worker *worker, uint32_t klass, size_t size)
{
    return klass == TRI_CLASS_BIG ? tri_big_alloc(&worker->sys->mem, size)
                                  : tri_cache_alloc(&worker->cache, klass);
}

void tri_state_free(tri_worker *worker, tri_cell *cell)
{
    TRI_CHECK_SLOW(tri_cell_is_owned(cell));
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

/* Sets the state to TR_INIT or zero; allocates it at the first start. */
static tr_err state_init(tri_worker *worker, tri_cell *cell)
{
    TRI_CHECK_SLOW(tri_cell_is_owned(cell));
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
        // Every block has 16 bytes at least; the compiler clears them without
        // a call, which is enough for most states.
        _Static_assert(sizeof(tri_block) == 16, "the smallest class");
        memset(cell->state, 0, sizeof(tri_block));
        if (size > sizeof(tri_block)) {
            memset(cell->state, 0, size);
        }
    }
    return TR_OK;
}

/* Calls on_run as a turn. It may park and return much later. */
static void begin_on_run(tr_ctx *ctx)
{
    const tr_actor_def *def = tri_def_of(ctx->cell);
    TRI_CHECK(def->on_run != NULL);
    ctx->kind = TRI_TURN_ON_RUN;
    ctx->phase = TR_IN_RUN;
    ctx->msg = NULL;
    ctx->in_turn = true;
    tr_err err = def->on_run(ctx, ctx->cell->state);
    if (ctx->cancel != TR_OK && err == ctx->cancel) {
        err = TR_OK;  // a normal end, rule 9 (on_run)
    }
    if (err != TR_OK) {
        tri_life_fail(ctx, err);
    } else {
        tri_turn_end(ctx);
    }
}

/* Calls post_start and post_restart of an actor that is RUNNING now. */
static tr_err run_post_hooks(tr_ctx *ctx, bool restarted)
{
    TRI_CHECK(tri_cell_life(ctx->cell) == TR_STATE_RUNNING);
    const tr_actor_def *def = tri_def_of(ctx->cell);
    tr_err err = tri_hook_run(ctx, TR_IN_START, def->post_start);
    if (err == TR_OK && restarted) {
        err = tri_hook_run(ctx, TR_IN_RESTART, def->post_restart);
    }
    return err;
}

/* Loads the stored state, if there is a store, and calls pre_start. */
static tr_err load_and_prepare(tr_ctx *ctx)
{
    tri_cell *cell = ctx->cell;
    TRI_CHECK(tri_cell_life(cell) == TR_STATE_STARTING);
    if (cell->props != NULL && cell->props->storage != NULL) {
        tri_hook_begin(ctx, TR_IN_START);
        TR_TRY(ctx->sys->up->load_state(ctx, cell->state));
        tri_turn_end(ctx);
    }
    return tri_hook_run(ctx, TR_IN_START, tri_def_of(cell)->pre_start);
}

/* Starts an incarnation step by step. err: from state_init. */
static tri_step start_in_steps(tr_ctx *ctx, tr_err err)
{
    tri_cell *cell = ctx->cell;
    tri_worker *worker = ctx->worker;
    bool restarted = tri_cell_incarnation(cell) > 0;

    tri_life_set(worker, cell, TR_STATE_STARTING);
    // Relaxed: only the owner writes.
    atomic_store_explicit(&cell->lives, tri_cell_incarnation(cell) + 1,
                          memory_order_relaxed);
    tri_stage_set(cell, TRI_STAGE_UNWIND);
    ctx->phase = TR_IN_START;
    if (tri_ext_of(cell) != NULL) {
        tri_ext_of(cell)->heap.released = false;
    }
    if (err == TR_OK) {
        err = load_and_prepare(ctx);
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
    err = run_post_hooks(ctx, restarted);
    if (err != TR_OK) {
        tri_life_fail(ctx, err);
        return TRI_STEP_AGAIN;
    }
    tri_join_started(worker, cell, TR_OK);
    if (tri_def_of(cell)->on_run != NULL &&
        tri_cell_life(cell) == TR_STATE_RUNNING) {
        begin_on_run(ctx);
    }
    return TRI_STEP_AGAIN;
}

/*
 * Starts an actor without hooks, extension and store, for the first time.
 * Returns false, and does nothing, for any other actor.
 */
static bool start_fast(tri_worker *worker, tri_cell *cell)
{
    if (tri_cell_life(cell) != TR_STATE_CREATED || tri_ext_of(cell) != NULL ||
        !tri_life_is_simple(worker, cell) ||
        (cell->props != NULL && cell->props->storage != NULL)) {
        return false;
    }
    // Relaxed: only the owner writes.
    atomic_store_explicit(&cell->lives, 1, memory_order_relaxed);
    cell->attention &= (uint16_t)~TRI_ATTENTION_LIFE;
    tri_life_set_several(cell,
                         TR_STATE_STARTING << TRI_STATE_BITS | TR_STATE_RUNNING,
                         2 * TRI_STATE_BITS);
    return true;
}

tri_step tri_life_start(tr_ctx *ctx)
{
    tri_worker *worker = ctx->worker;
    tri_cell *cell = ctx->cell;
    TRI_CHECK_SLOW(tri_cell_is_owned(cell));
    tr_err err = state_init(worker, cell);
    if (TRI_LIKELY(err == TR_OK) && start_fast(worker, cell)) {
        return TRI_STEP_RUNNING;
    }
    tri_step step = start_in_steps(ctx, err);
    tri_cohort_started(worker, cell);
    return step;
}
