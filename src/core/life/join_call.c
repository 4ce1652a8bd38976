/*
 * join_call.c - tr_join and tr_started: the side of the waiter.
 *
 * An actor parks its turn until the tri_join comes back; an outside thread
 * waits with an outside box. If the target has ended already, a joinable one
 * has left its result in sys->results.
 *
 * Invariant: the waiter owns a tri_join before it is sent and after it came
 * back. If the waiter gives up first, the answer is freed where it arrives.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/lock.h"
#include "base/map.h"
#include "core/ask/error_text.h"
#include "core/ask/outside_box.h"
#include "core/ask/wait.h"
#include "core/caller.h"
#include "core/cell/cell.h"
#include "core/cell/cell_path.h"
#include "core/cell/ext.h"
#include "core/cell/heap.h"
#include "core/cell/mem.h"
#include "core/cell/message.h"
#include "core/cell/ref.h"
#include "core/life/family.h"
#include "core/life/force.h"
#include "core/life/join.h"
#include "core/mail/push.h"
#include "core/run/clock.h"
#include "core/run/context.h"
#include "core/run/park.h"
#include "core/run/waiting.h"
#include "core/run/worker.h"
#include "core/system.h"

/*
 * Copies a result to the caller: an actor, or an outside thread if ctx is NULL.
 * Takes join. Returns its error, if it has no result.
 */
static tr_err take_result(tr_system *sys, tr_ctx *ctx, tri_join *join,
                          tr_result *result, void *state)
{
    TRI_CHECK(join != NULL && result != NULL);
    tr_err err = TR_OK;
    if (join->missing || join->for_start) {
        err = join->err;
    }
    memset(result, 0, sizeof(*result));
    result->reason = join->reason;
    result->err = join->err;
    result->phase = join->phase;
    if (join->text != NULL) {
        strncpy(result->text, join->text, sizeof(result->text) - 1);
    }
    if (state != NULL && join->state != NULL) {
        memcpy(state, join->state, join->state_size);
        free(join->state);  // the caller owns what it points to
        join->state = NULL;
        tri_ext *ext = ctx != NULL ? tri_ext_of(ctx->cell) : NULL;
        if (ext != NULL) {
            tri_heap_adopt(ext, &join->heap);
        } else {
            tri_join_keep_heap(sys, &join->heap);
        }
    } else if (state != NULL) {
        memset(state, 0, join->state_size);
    }
    tri_join_free(join);
    return err;
}

/* Returns the result that a joinable actor has left, or NULL. */
static tri_join *take_kept(tr_system *sys, uint64_t id)
{
    tri_lock_take(&sys->results_lock);
    tri_join *join = tri_map_remove(&sys->results, id);
    tri_lock_drop(&sys->results_lock);
    return join;
}

/*
 * Returns the kept result in place of an answer that says that the target had
 * ended; else the answer. Takes join.
 */
static tri_join *prefer_kept(tr_system *sys, tri_join *join, bool for_start)
{
    TRI_CHECK(join != NULL);
    if (!join->missing || join->err != TR_ENOENT || for_start) {
        return join;
    }
    tri_join *kept = take_kept(sys, join->target_id);
    if (kept == NULL) {
        return join;
    }
    tri_join_free(join);
    return kept;
}

/* Returns NULL without memory. */
static tri_join *join_new(tr_system *sys, tr_ref waiter, uint64_t correlation,
                          tr_ref target, bool for_start, bool wants_state)
{
    tri_join *join = tri_mem_calloc(&sys->mem, sizeof(*join));
    if (join != NULL) {
        join->item.kind = TRI_ITEM_JOIN;
        join->for_start = for_start;
        join->waiter = waiter;
        join->correlation = correlation;
        join->target_id = target.id;
        join->wants_state = wants_state;
    }
    return join;
}

/* Sends the join to its target. Takes join on TR_OK. */
static tr_err join_send(tri_worker *worker, tr_ref target, tri_join *join)
{
    tr_system *sys = worker->sys;
    tri_cell *cell = tri_ref_cell(target);
    TRI_CHECK(!join->is_answer);
    if (!tri_ref_is_here(sys, target)) {
        return cell == NULL ? TR_ENOENT : TR_EFOREIGN;
    }
    // Acquire: pairs with tri_cell_free; sees what an actor that has ended did.
    // The target compares the id again.
    if (atomic_load_explicit(&cell->id, memory_order_acquire) != target.id ||
        tri_cell_is_zombie(cell) ||
        !tri_push_system(worker, cell, &join->item)) {
        return TR_ENOENT;
    }
    (void)tri_zombie_answer(worker, cell, target.id);
    return TR_OK;
}

/* Joins from a turn, which parks. */
static tr_err join_inside(tr_ctx *ctx, tr_ref ref, tr_nanos timeout,
                          bool for_start, tr_result *result, void *state)
{
    TRI_CHECK(ctx->magic == TRI_CTX_MAGIC);
    if (!tri_can_park(ctx)) {
        return TR_EWOULDBLOCK;
    }
    if (tri_is_ancestor(tri_ref_cell(ref), ctx->cell)) {
        tri_error_set(ctx, "joining oneself or an ancestor");
        return TR_EDEADLOCK;  // rule 18 (cycles)
    }
    tri_wait wait = {.kind = TRI_WAIT_OUTSIDE,
                     .call = for_start ? "tr_started" : "tr_join",
                     .target = ref,
                     .site = tri_site_take(ctx)};
    tr_nanos now = tri_clock(ctx->worker);
    tr_nanos span = timeout != 0 ? timeout : ctx->sys->options.ask_timeout;
    TR_TRY(tri_wait_begin(ctx, &wait,
                          span >= TR_FOREVER - now ? TR_FOREVER : now + span));
    tri_join *join = join_new(ctx->sys, tri_cell_ref(ctx->sys, ctx->cell),
                              wait.correlation, ref, for_start, state != NULL);
    tr_err err = join != NULL ? join_send(ctx->worker, ref, join) : TR_ENOMEM;
    if (err != TR_OK) {
        free(join);
    } else {
        err = tri_park(ctx, &wait);
    }
    tri_wait_finish(ctx, &wait);
    if (wait.join != NULL && err != TR_OK) {
        tri_join_free(wait.join);
        wait.join = NULL;
    }
    if (err == TR_ENOENT && !for_start) {
        wait.join = take_kept(ctx->sys, ref.id);
        err = wait.join != NULL ? TR_OK : err;
    }
    if (err != TR_OK) {
        return err;
    }
    return take_result(ctx->sys, ctx,
                       prefer_kept(ctx->sys, wait.join, for_start), result,
                       state);
}

/*
 * Returns the answer to a join, or NULL when the time is over. Others may have
 * found the box by its path under /temp: their mail becomes dead letters.
 */
static tri_join *await_answer(tri_outside_box *box, tr_nanos deadline)
{
    tr_ref self = tri_cell_ref(box->sys, box->cell);
    for (;;) {
        tri_item *item = tri_outside_box_wait(box, deadline);
        if (item == NULL || item->kind == TRI_ITEM_JOIN) {
            return (tri_join *)(void *)item;
        }
        tri_caller caller = tri_enter_system(box->sys, self);
        tri_outside_box_drop(caller.worker, self, item);
        tri_leave(&caller);
    }
}

/* Joins from a thread that is not a worker, which waits. */
static tr_err join_outside(tr_from from, tr_ref ref, tr_nanos timeout,
                           bool for_start, tr_result *result, void *state)
{
    tr_system *sys = tri_from_system(from);
    if (tri_worker_current() != NULL) {
        return TR_EWOULDBLOCK;  // rule 19 (outside calls in a handler)
    }
    tri_outside_box box;
    TR_TRY(tri_outside_box_open(&box, sys));
    tr_nanos deadline =
        tri_deadline_outside(sys, timeout, sys->options.ask_timeout);
    tri_join *join = join_new(sys, tri_cell_ref(sys, box.cell), 0, ref,
                              for_start, state != NULL);
    tr_err err = TR_ENOMEM;
    if (join != NULL) {
        tri_caller caller = tri_enter(from);
        err = join_send(caller.worker, ref, join);
        tri_leave(&caller);
        if (err != TR_OK) {
            free(join);
        }
    }
    tri_join *back = NULL;
    if (err == TR_OK) {
        back = await_answer(&box, deadline);
        err = back != NULL ? TR_OK : TR_ETIMEDOUT;
    } else if (err == TR_ENOENT && !for_start) {
        back = take_kept(sys, ref.id);
        err = back != NULL ? TR_OK : err;
    }
    tri_outside_box_close(&box);
    return err == TR_OK
               ? take_result(sys, NULL, prefer_kept(sys, back, for_start),
                             result, state)
               : err;
}

/* Sets the error text of a call that failed; `text`: of the actor's failure. */
static void set_text(tr_from from, tr_ref ref, bool for_start, tr_err err,
                     const char *text)
{
    char path[TRI_PATH_MAX];
    TRI_CHECK(err != TR_OK);
    tri_from_system(from)->up->ref_path(from, ref, path, sizeof(path));
    tri_error_set(tri_from_is_ctx(from) ? from.ctx : NULL, "%s of %s: %s%s%s",
                  for_start ? "tr_started" : "tr_join", path, tr_strerror(err),
                  text[0] != '\0' ? ": " : "", text);
}

static tr_err join_any(tr_from from, tr_ref ref, tr_nanos timeout,
                       bool for_start, tr_result *result, void *state)
{
    tr_result local = {0};
    if (result != NULL) {
        memset(result, 0, sizeof(*result));
    }
    tr_err err =
        timeout < 0 ? TR_ETIMEDOUT  // rule 60 (time-outs below zero)
        : tri_from_is_ctx(from)
            ? join_inside(from.ctx, ref, timeout, for_start, &local, state)
            : join_outside(from, ref, timeout, for_start, &local, state);
    if (result != NULL) {
        *result = local;
    }
    if (err != TR_OK && err != TR_EDEADLOCK) {  // a cycle has its own text
        set_text(from, ref, for_start, err, for_start ? local.text : "");
    }
    return err;
}

tr_err(tr_join)(tr_from from, tr_ref ref, tr_nanos timeout, tr_result *result,
                void *state)
{
    return join_any(from, ref, timeout, false, result, state);
}

tr_err(tr_started)(tr_from from, tr_ref ref, tr_nanos timeout)
{
    if (tr_ref_err(ref) != TR_OK) {
        set_text(from, ref, true, tr_ref_err(ref), "");
        return tr_ref_err(ref);
    }
    return join_any(from, ref, timeout, true, NULL, NULL);
}
