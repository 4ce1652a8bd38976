/*
 * join.c - waiting for an actor's end, or for its start.
 *
 * A tri_join travels to the actor as a system node, waits in its list, and
 * travels back with the result. flags tell the two kinds and directions.
 */
#include <stdlib.h>
#include <string.h>

#include "core/lifecycle.h"
#include "core/mailbox.h"
#include "schema/value.h"

enum { JOIN_START = 1, JOIN_ANSWER = 2 };

void tri_join_abandon(tri_join *join)
{
    if (join->state != NULL) {
        if (join->state_type != NULL && join->state_type->size != 0) {
            (tr_drop)(join->state_type, join->state);
        }
        free(join->state);
    }
    tri_heap_free(join->heap);
    free(join->text);
    free(join);
}

static void send_back(tri_worker *worker, tri_join *join)
{
    tri_cell *waiter = tri_ref_cell(join->waiter);
    join->node.flags |= JOIN_ANSWER;
    // Relaxed: a glance; the waiter compares.
    if (atomic_load_explicit(&waiter->id, memory_order_relaxed) !=
            join->waiter.id ||
        !tri_push_system(worker, waiter, &join->node)) {
        tri_join_abandon(join);
    }
}

static void fill_result(tri_cell *cell, tri_join *join, tr_reason reason);

static void answer_arrived(tri_worker *worker, tri_cell *cell, tri_join *join)
{
    tri_ext *ext = tri_ext_of(cell);
    for (tri_wait *w = ext != NULL ? ext->waits : NULL; w != NULL;
         w = w->next) {
        if (w->correlation == join->correlation && !w->done) {
            w->join = join;
            tri_wait_done(worker, cell, w, TR_OK);
            return;
        }
    }
    tri_join_abandon(join);
}

void tri_join_arrived(tri_worker *worker, tri_cell *cell, tri_join *join)
{
    // Relaxed: we own the cell.
    uint64_t id = atomic_load_explicit(&cell->id, memory_order_relaxed);
    if (join->node.flags & JOIN_ANSWER) {
        if (join->waiter.id == id) {
            answer_arrived(worker, cell, join);
        } else {
            tri_join_abandon(join);
        }
        return;
    }
    tr_state life = tri_cell_life(cell);
    if (join->target_id != id) {
        join->err = TR_ENOENT;
        join->missing = true;
        send_back(worker, join);
        return;
    }
    if ((join->node.flags & JOIN_START) && life != TR_STATE_CREATED &&
        life != TR_STATE_STARTING && life != TR_STATE_RESTARTING) {
        tri_ext *ext = tri_ext_of(cell);
        join->err = life == TR_STATE_RUNNING                 ? TR_OK
                    : life == TR_STATE_FAILED && ext != NULL ? ext->failure.err
                                                             : TR_ESTOPPED;
        send_back(worker, join);
        return;
    }
    tri_ext *ext = tri_ext_need(worker, cell);
    if (life == TR_STATE_TERMINATED) {
        // The last moment: its results are ready, its state is gone.
        if (cell->props != NULL && cell->props->joinable) {
            join->missing = true;  // but kept: take_kept
            join->err = TR_ENOENT;
        } else {
            join->wants_state = false;
            fill_result(cell, join, (tr_reason)cell->reason);
        }
        send_back(worker, join);
        return;
    }
    if (ext == NULL) {
        join->missing = true;
        join->err = TR_ENOMEM;
        send_back(worker, join);
        return;
    }
    const tri_behaviour *first = tri_first_behaviour(cell);
    if (first != NULL) {
        join->state_size = first->def->state_size;  // if there will be none
    } else {
        join->reason = TR_STOPPED;  // of a probe, or a thread that asks
    }
    tri_lock_take(&ext->lock);
    bool zombie = tri_cell_is_zombie(cell);
    if (!zombie) {
        join->next = ext->joins;
        ext->joins = join;
    }
    tri_lock_drop(&ext->lock);
    if (zombie) {
        (void)tri_join_force(worker, join);
    }
}

void tri_join_started(tri_worker *worker, tri_cell *cell, tr_err err)
{
    tri_ext *ext = tri_ext_of(cell);
    if (ext == NULL) {
        return;
    }
    tri_lock_take(&ext->lock);
    // Of a zombie they are the forcer's.
    for (tri_join **link = tri_cell_is_zombie(cell) ? NULL : &ext->joins;
         link != NULL && *link != NULL;) {
        tri_join *join = *link;
        if (join->node.flags & JOIN_START) {
            *link = join->next;
            join->err = err;
            send_back(worker, join);
        } else {
            link = &join->next;
        }
    }
    tri_lock_drop(&ext->lock);
}

bool tri_join_force(tri_worker *worker, tri_join *join)
{
    if (join->node.flags & JOIN_ANSWER) {
        return false;
    }
    join->reason = TR_FORCED;  // without its state, which is still in use
    join->err = join->node.flags & JOIN_START ? TR_ESTOPPED : TR_OK;
    send_back(worker, join);
    return true;
}

/* A joinable one leaves its result even so. */
static void keep_forced(tri_worker *worker, uint64_t id, size_t state_size)
{
    tr_system *sys = worker->sys;
    tri_join *kept = tri_mem_calloc(&sys->mem, sizeof(*kept));
    if (kept == NULL) {
        return;
    }
    kept->target_id = id;
    kept->state_size = state_size;
    kept->reason = TR_FORCED;
    tri_lock_take(&sys->results_lock);
    if (tri_map_get(&sys->results, id) != NULL ||
        tri_map_put(&sys->results, id, kept) != TR_OK) {
        tri_join_abandon(kept);
    }
    tri_lock_drop(&sys->results_lock);
}

void tri_joins_force(tri_worker *worker, tri_cell *cell)
{
    tri_ext *ext = tri_ext_of(cell);
    tri_join *join = ext->joins;
    ext->joins = NULL;
    if (join == NULL && cell->props != NULL && cell->props->joinable) {
        // Relaxed: it cannot end while we tell of it.
        keep_forced(worker,
                    atomic_load_explicit(&cell->id, memory_order_relaxed),
                    tri_def_of(cell)->state_size);
    }
    while (join != NULL) {
        tri_join *next = join->next;
        (void)tri_join_force(worker, join);
        join = next;
    }
}

static void copy_state(tri_cell *cell, tri_join *join)
{
    const tr_actor_def *def = tri_cell_behaviour(cell)->def;
    if (!join->wants_state || cell->state == NULL) {
        return;
    }
    join->state = calloc(1, def->state_size);
    if (join->state == NULL) {
        return;
    }
    join->state_type = def->state;
    if (def->state != NULL && def->state->size != 0) {
        if (tri_unpack_owned(def->state, join->state, cell->state) != TR_OK) {
            free(join->state);
            join->state = NULL;
        }
    } else {
        memcpy(join->state, cell->state, def->state_size);
    }
}

static void fill_result(tri_cell *cell, tri_join *join, tr_reason reason)
{
    tri_ext *ext = tri_ext_of(cell);
    join->reason = reason;
    join->state_size = tri_def_of(cell)->state_size;
    if (reason == TR_FAILED && ext != NULL) {
        join->err = ext->failure.err;
        join->phase = ext->failure.phase;
        join->text =
            ext->failure.text != NULL ? strdup(ext->failure.text) : NULL;
    }
    // K21: there is none when it never started, nor between two incarnations:
    // what the old one pointed to has been released, the next was not begun.
    bool never = reason == TR_FAILED && join->phase == TR_IN_START &&
                 tri_cell_incarnation(cell) <= 1;
    bool between = ext != NULL && ext->released;
    if (!never && !between) {
        copy_state(cell, join);
    }
}

/* The blocks live as long as the system does. Takes them. */
static void keep_heap(tr_system *sys, tri_heap_block *heap)
{
    tri_lock_take(&sys->results_lock);
    while (heap != NULL) {
        tri_heap_block *next = heap->next;
        heap->next = sys->handed;
        sys->handed = heap;
        heap = next;
    }
    tri_lock_drop(&sys->results_lock);
}

/* X51: what a state without a schema points to goes with it. */
static void hand_heap_over(tr_system *sys, tri_cell *cell, tri_join *joins)
{
    const tr_type *type = tri_cell_behaviour(cell)->def->state;
    if (cell->props == NULL || !cell->props->joinable ||
        (type != NULL && type->size != 0)) {
        return;  // those with one are copied as a whole
    }
    tri_join *heir = NULL;
    uint32_t heirs = 0;
    for (tri_join *join = joins; join != NULL; join = join->next) {
        if (join->state != NULL) {
            heir = join;
            heirs++;
        }
    }
    if (heirs == 1) {
        heir->heap = tri_heap_take(cell);
    } else if (heirs > 1) {
        keep_heap(sys, tri_heap_take(cell));
    }
}

void tri_joins_prepare(tri_worker *worker, tri_cell *cell, tr_reason reason)
{
    tri_join_started(worker, cell, TR_ESTOPPED);
    tri_ext *ext = tri_ext_of(cell);
    if (ext != NULL) {
        tri_lock_take(&ext->lock);
    }
    bool zombie = tri_cell_is_zombie(cell);
    for (tri_join *join = ext != NULL && !zombie ? ext->joins : NULL;
         join != NULL; join = join->next) {
        fill_result(cell, join, reason);
    }
    if (ext != NULL && !zombie) {
        hand_heap_over(worker->sys, cell, ext->joins);
    }
    if (!zombie && cell->props != NULL && cell->props->joinable &&
        (ext == NULL || ext->joins == NULL)) {
        tri_join *kept = calloc(1, sizeof(*kept));
        if (kept != NULL) {
            kept->wants_state = true;
            // Relaxed: we own the cell.
            kept->target_id =
                atomic_load_explicit(&cell->id, memory_order_relaxed);
            fill_result(cell, kept, reason);
            hand_heap_over(worker->sys, cell, kept);
            tri_lock_take(&worker->sys->results_lock);
            if (tri_map_put(&worker->sys->results, kept->target_id, kept) !=
                TR_OK) {
                tri_join_abandon(kept);
            }
            tri_lock_drop(&worker->sys->results_lock);
        }
    }
    if (ext != NULL) {
        tri_lock_drop(&ext->lock);
    }
}

void tri_joins_tell(tri_worker *worker, tri_cell *cell)
{
    tri_ext *ext = tri_ext_of(cell);
    while (ext != NULL && ext->joins != NULL) {
        tri_join *join = ext->joins;
        ext->joins = join->next;
        send_back(worker, join);
    }
}

void tri_results_free(tr_system *sys)
{
    tri_join *join;
    for (tri_map_iter it = tri_map_iter_begin(&sys->results);
         (join = tri_map_iter_next(&sys->results, &it)) != NULL;) {
        tri_join_abandon(join);
    }
    tri_map_fini(&sys->results);
    tri_heap_free(sys->handed);
    sys->handed = NULL;
}

/* ---- the waiter's side ---- */

/* Hands a result over, to an actor or, ctx NULL, a thread. Takes join. */
static tr_err take_result(tr_system *sys, tr_ctx *ctx, tri_join *join,
                          tr_result *result, void *state)
{
    tr_err err = TR_OK;
    if (join->missing || (join->node.flags & JOIN_START)) {
        err = join->err;
    }
    if (result != NULL) {
        memset(result, 0, sizeof(*result));
        result->reason = join->reason;
        result->err = join->err;
        result->phase = join->phase;
        if (join->text != NULL) {
            strncpy(result->text, join->text, sizeof(result->text) - 1);
        }
    }
    if (state != NULL && join->state != NULL) {
        memcpy(state, join->state, join->state_size);
        free(join->state);  // what it points to is the caller's now
        join->state = NULL;
        tri_ext *ext = ctx != NULL ? tri_ext_of(ctx->cell) : NULL;
        if (ext != NULL) {
            tri_heap_adopt(ext, join->heap);
        } else {
            keep_heap(sys, join->heap);
        }
        join->heap = NULL;
    } else if (state != NULL) {
        memset(state, 0, join->state_size);
    }
    tri_join_abandon(join);
    return err;
}

static tri_join *take_kept(tr_system *sys, uint64_t id)
{
    tri_lock_take(&sys->results_lock);
    tri_join *join = tri_map_remove(&sys->results, id);
    tri_lock_drop(&sys->results_lock);
    return join;
}

/* Its target had ended: the result it left, if it did. Takes join. */
static tri_join *rather_kept(tr_system *sys, tri_join *join, uint8_t flags)
{
    if (!join->missing || join->err != TR_ENOENT || (flags & JOIN_START)) {
        return join;
    }
    tri_join *kept = take_kept(sys, join->target_id);
    if (kept == NULL) {
        return join;
    }
    tri_join_abandon(join);
    return kept;
}

static tri_join *join_new(tr_system *sys, tr_ref waiter, uint64_t correlation,
                          tr_ref target, uint8_t flags, bool wants_state)
{
    tri_join *join = tri_mem_calloc(&sys->mem, sizeof(*join));
    if (join != NULL) {
        join->node.kind = TRI_NODE_JOIN;
        join->node.flags = flags;
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
    if ((target.cell >> 48) != sys->tag) {
        return cell == NULL ? TR_ENOENT : TR_EFOREIGN;
    }
    // Acquire: one that is gone has done all it ever did; the target compares.
    if (atomic_load_explicit(&cell->id, memory_order_acquire) != target.id ||
        tri_cell_is_zombie(cell) ||
        !tri_push_system(worker, cell, &join->node)) {
        return TR_ENOENT;
    }
    (void)tri_force_late(worker, cell, target.id);
    return TR_OK;
}

static tr_err join_inside(tr_ctx *ctx, tr_ref ref, tr_nanos timeout,
                          uint8_t flags, tr_result *result, void *state)
{
    if (!tri_can_park(ctx)) {
        return TR_EWOULDBLOCK;
    }
    if (tri_is_ancestor(tri_ref_cell(ref), ctx->cell)) {
        tri_error_set(ctx, "joining oneself or an ancestor");
        return TR_EDEADLOCK;  // rule 20
    }
    tri_wait wait = {
        .kind = TRI_WAIT_OUTSIDE, .target = ref, .site = "tr_join"};
    tr_nanos now = tri_clock(ctx->worker);
    tr_nanos span = timeout > 0 ? timeout : ctx->sys->options.ask_timeout;
    TR_TRY(tri_wait_begin(ctx, &wait,
                          span >= TR_FOREVER - now ? TR_FOREVER : now + span));
    tri_join *join = join_new(ctx->sys, tri_cell_ref(ctx->sys, ctx->cell),
                              wait.correlation, ref, flags, state != NULL);
    tr_err err = join != NULL ? join_send(ctx->worker, ref, join) : TR_ENOMEM;
    if (err != TR_OK) {
        free(join);
    } else {
        err = tri_park(ctx, &wait);
    }
    tri_wait_finish(ctx, &wait);
    if (wait.join != NULL && err != TR_OK) {
        tri_join_abandon(wait.join);
        wait.join = NULL;
    }
    if (err == TR_ENOENT && !(flags & JOIN_START)) {
        wait.join = take_kept(ctx->sys, ref.id);
        err = wait.join != NULL ? TR_OK : err;
    }
    if (err != TR_OK) {
        return err;
    }
    return take_result(ctx->sys, ctx, rather_kept(ctx->sys, wait.join, flags),
                       result, state);
}

static tr_err join_outside(tr_from from, tr_ref ref, tr_nanos timeout,
                           uint8_t flags, tr_result *result, void *state)
{
    tri_actor_from who = tri_enter(from);
    tr_system *sys = who.sys;
    tri_leave(&who);
    if (tri_worker_current() != NULL && tri_worker_current()->sys == sys) {
        return TR_EWOULDBLOCK;  // rule 22
    }
    tri_mailbox box;
    TR_TRY(tri_mailbox_open(&box, sys));
    tr_nanos deadline =
        tri_deadline_outside(sys, timeout, sys->options.ask_timeout);
    tri_join *join = join_new(sys, tri_cell_ref(sys, box.cell), 0, ref, flags,
                              state != NULL);
    tr_err err = TR_ENOMEM;
    if (join != NULL) {
        who = tri_enter(from);
        err = join_send(who.worker, ref, join);
        tri_leave(&who);
        if (err != TR_OK) {
            free(join);
        }
    }
    tri_join *back = NULL;
    if (err == TR_OK) {
        back = (tri_join *)(void *)tri_mailbox_wait(&box, deadline);
        err = back != NULL ? TR_OK : TR_ETIMEDOUT;
    } else if (err == TR_ENOENT && !(flags & JOIN_START)) {
        back = take_kept(sys, ref.id);
        err = back != NULL ? TR_OK : err;
    }
    tri_mailbox_close(&box);
    return err == TR_OK ? take_result(sys, NULL, rather_kept(sys, back, flags),
                                      result, state)
                        : err;
}

static tr_err join_any(tr_from from, tr_ref ref, tr_nanos timeout,
                       uint8_t flags, tr_result *result, void *state)
{
    if (result != NULL) {
        memset(result, 0, sizeof(*result));
    }
    return tri_from_is_ctx(from)
               ? join_inside(from.ctx, ref, timeout, flags, result, state)
               : join_outside(from, ref, timeout, flags, result, state);
}

tr_err(tr_join)(tr_from from, tr_ref ref, tr_nanos timeout, tr_result *result,
                void *state)
{
    return join_any(from, ref, timeout, 0, result, state);
}

tr_err(tr_started)(tr_from from, tr_ref ref, tr_nanos timeout)
{
    if (tr_ref_err(ref) != TR_OK) {
        return tr_ref_err(ref);
    }
    return join_any(from, ref, timeout, JOIN_START, NULL, NULL);
}
