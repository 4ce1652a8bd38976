/*
 * join.c - waiting for an actor's end or start: the side of the target.
 *
 * A tri_join goes to the target as a system message, waits in its list, and
 * comes back to the waiter with the result. join_call.c has the waiter's side.
 *
 * Invariant: a tri_join has one owner: the lane, tri_ext.joins under ext->lock,
 * sys->results under results_lock, or the waiter. Each one is answered once; a
 * waiter that has ended never sees the answer, which is freed.
 */
#include "core/life/join.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/map.h"
#include "core/ask/wait.h"
#include "core/cell/behaviour.h"
#include "core/cell/cell.h"
#include "core/cell/ext.h"
#include "core/cell/heap.h"
#include "core/cell/mem.h"
#include "core/cell/props.h"
#include "core/cell/ref.h"
#include "core/mail/push.h"
#include "core/run/park.h"
#include "core/run/worker.h"
#include "core/system.h"
#include "schema/value.h"

void tri_join_free(tri_join *join)
{
    TRI_CHECK(join != NULL);
    if (join->state != NULL) {
        if (join->state_type != NULL && join->state_type->size != 0) {
            (tr_drop)(join->state_type, join->state);
        }
        free(join->state);
    }
    tri_heap_free(&join->heap);
    free(join->text);
    free(join);
}

/* Sends the answer to the waiter. Takes join. */
static void send_back(tri_worker *worker, tri_join *join)
{
    TRI_CHECK(!join->is_answer);
    tri_cell *waiter = tri_ref_cell(join->waiter);
    join->is_answer = true;
    // Relaxed: the waiter compares the id again.
    if (atomic_load_explicit(&waiter->id, memory_order_relaxed) !=
            join->waiter.id ||
        !tri_push_system(worker, waiter, &join->item)) {
        tri_join_free(join);
    }
}

/* Copies the state into the result, if the waiter wants it. */
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

/* Fills in how the actor ended, and its state. */
static void fill_result(tri_cell *cell, tri_join *join, tr_reason reason)
{
    tri_ext *ext = tri_ext_of(cell);
    TRI_CHECK(!join->for_start);
    join->reason = reason;
    join->state_size = tri_def_of(cell)->state_size;
    if (ext != NULL &&
        (reason == TR_FAILED || ext->failure.phase == TR_IN_STOP)) {
        join->err = ext->failure.err;
        join->phase = ext->failure.phase;
        join->text =
            ext->failure.text != NULL ? strdup(ext->failure.text) : NULL;
    }
    // An actor that never started has no state. Between two incarnations the
    // memory that the state points to has been released already.
    bool never_started = reason == TR_FAILED && join->phase == TR_IN_START &&
                         tri_cell_incarnation(cell) <= 1;
    bool released = ext != NULL && ext->heap.released;
    if (!never_started && !released) {
        copy_state(cell, join);
    }
}

/* Ends the wait that the answer belongs to. Takes join. */
static void answer_arrived(tri_worker *worker, tri_cell *cell, tri_join *join)
{
    TRI_CHECK(join->is_answer);
    tri_wait *wait = tri_wait_find(cell, join->correlation);
    if (wait == NULL || wait->done) {
        tri_join_free(join);
        return;
    }
    wait->join = join;
    tri_wait_done(worker, cell, wait, TR_OK);
}

/* Answers a join that has no result. Takes join. */
static void send_missing(tri_worker *worker, tri_join *join, tr_err err)
{
    TRI_CHECK(err != TR_OK);
    join->missing = true;
    join->err = err;
    send_back(worker, join);
}

/* Answers a join that arrives after the last step of its target. */
static void answer_terminated(tri_worker *worker, tri_cell *cell,
                              tri_join *join)
{
    TRI_CHECK(tri_cell_life(cell) == TR_STATE_TERMINATED);
    if (cell->props != NULL && cell->props->joinable) {
        send_missing(worker, join, TR_ENOENT);  // the waiter finds it kept
    } else {
        join->wants_state = false;
        fill_result(cell, join, (tr_reason)cell->reason);
        send_back(worker, join);
    }
}

/* Adds a join to the list of its target. Takes join. */
static void add_join(tri_worker *worker, tri_cell *cell, tri_ext *ext,
                     tri_join *join)
{
    TRI_CHECK(join->next == NULL);
    const tri_behaviour *first = tri_first_behaviour(cell);
    if (first != NULL) {
        join->state_size = first->def->state_size;  // if there will be none
    } else {
        join->reason = TR_STOPPED;  // a probe, or a thread that asks
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

/* True if the actor will start: a join for the start must wait. */
static bool is_before_start(tr_state life)
{
    return life == TR_STATE_CREATED || life == TR_STATE_STARTING ||
           life == TR_STATE_RESTARTING;
}

/* Returns the answer to a join for the start that is over. */
static tr_err start_result(tri_cell *cell, tr_state life)
{
    TRI_CHECK(!is_before_start(life));
    tri_ext *ext = tri_ext_of(cell);
    return life == TR_STATE_RUNNING                 ? TR_OK
           : life == TR_STATE_FAILED && ext != NULL ? ext->failure.err
                                                    : TR_ESTOPPED;
}

void tri_join_arrived(tri_worker *worker, tri_cell *cell, tri_join *join)
{
    tri_cell_assert_owned(cell);
    // Relaxed: the caller owns the cell.
    uint64_t id = atomic_load_explicit(&cell->id, memory_order_relaxed);
    if (join->is_answer) {
        if (join->waiter.id == id) {
            answer_arrived(worker, cell, join);
        } else {
            tri_join_free(join);
        }
        return;
    }
    tr_state life = tri_cell_life(cell);
    if (join->target_id != id) {
        send_missing(worker, join, TR_ENOENT);
        return;
    }
    if (join->for_start && !is_before_start(life)) {
        join->err = start_result(cell, life);
        send_back(worker, join);
        return;
    }
    tri_ext *ext = tri_ext_need(worker, cell);
    if (life == TR_STATE_TERMINATED) {
        answer_terminated(worker, cell, join);
    } else if (ext == NULL) {
        send_missing(worker, join, TR_ENOMEM);
    } else {
        add_join(worker, cell, ext, join);
    }
}

void tri_join_started(tri_worker *worker, tri_cell *cell, tr_err err)
{
    tri_cell_assert_owned(cell);
    tri_ext *ext = tri_ext_of(cell);
    if (ext == NULL) {
        return;
    }
    tri_lock_take(&ext->lock);
    // The joins of a zombie belong to its forcer.
    for (tri_join **link = tri_cell_is_zombie(cell) ? NULL : &ext->joins;
         link != NULL && *link != NULL;) {
        tri_join *join = *link;
        if (join->for_start) {
            *link = join->next;
            join->err = err;
            if (err != TR_OK && ext->failure.text != NULL) {
                join->text = strdup(ext->failure.text);
            }
            send_back(worker, join);
        } else {
            link = &join->next;
        }
    }
    tri_lock_drop(&ext->lock);
}

bool tri_join_force(tri_worker *worker, tri_join *join)
{
    if (join->is_answer) {
        return false;
    }
    join->reason = TR_FORCED;  // without the state, which is still in use
    join->err = join->for_start ? TR_ESTOPPED : TR_OK;
    send_back(worker, join);
    return true;
}

/* Keeps the result of a joinable actor that was forced; it has no state. */
static void keep_forced(tri_worker *worker, uint64_t id, size_t state_size)
{
    TRI_CHECK(id != 0);
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
        tri_join_free(kept);
    }
    tri_lock_drop(&sys->results_lock);
}

void tri_joins_force(tri_worker *worker, tri_cell *cell)
{
    TRI_CHECK(tri_cell_is_zombie(cell));
    tri_ext *ext = tri_ext_of(cell);
    tri_join *join = ext->joins;
    ext->joins = NULL;
    if (join == NULL && cell->props != NULL && cell->props->joinable) {
        // Relaxed: the owner waits for the forcer before it frees the id.
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

void tri_join_keep_heap(tr_system *sys, tri_list *blocks)
{
    TRI_CHECK(sys->magic == TRI_SYSTEM_MAGIC);
    tri_lock_take(&sys->results_lock);
    tri_list_move(&sys->joined_heaps, blocks);
    tri_lock_drop(&sys->results_lock);
}

/*
 * Moves the heap of a joinable actor whose state has no schema to the join that
 * gets the state, or to the system if several get it. A state with a schema was
 * copied with everything that it points to.
 */
static void move_heap(tr_system *sys, tri_cell *cell, tri_join *joins)
{
    const tr_type *type = tri_cell_behaviour(cell)->def->state;
    if (cell->props == NULL || !cell->props->joinable ||
        (type != NULL && type->size != 0)) {
        return;
    }
    tri_join *receiver = NULL;
    uint32_t receivers = 0;
    for (tri_join *join = joins; join != NULL; join = join->next) {
        if (join->state != NULL) {
            receiver = join;
            receivers++;
        }
    }
    if (receivers == 1) {
        tri_heap_take(cell, &receiver->heap);
    } else if (receivers > 1) {
        tri_list blocks = {};
        tri_heap_take(cell, &blocks);
        tri_join_keep_heap(sys, &blocks);
    }
}

/* Keeps the result of a joinable actor that nobody joins yet. */
static void keep_result(tri_worker *worker, tri_cell *cell, tr_reason reason)
{
    TRI_CHECK(cell->props->joinable);
    tri_join *kept = calloc(1, sizeof(*kept));
    if (kept == NULL) {
        return;
    }
    kept->wants_state = true;
    // Relaxed: the caller owns the cell.
    kept->target_id = atomic_load_explicit(&cell->id, memory_order_relaxed);
    fill_result(cell, kept, reason);
    move_heap(worker->sys, cell, kept);
    tri_lock_take(&worker->sys->results_lock);
    if (tri_map_put(&worker->sys->results, kept->target_id, kept) != TR_OK) {
        tri_join_free(kept);
    }
    tri_lock_drop(&worker->sys->results_lock);
}

void tri_joins_prepare(tri_worker *worker, tri_cell *cell, tr_reason reason)
{
    TRI_CHECK(tri_cell_life(cell) == TR_STATE_STOPPED);
    tri_join_started(worker, cell, TR_ESTOPPED);
    tri_ext *ext = tri_ext_of(cell);
    if (ext != NULL) {
        tri_lock_take(&ext->lock);
    }
    bool zombie = tri_cell_is_zombie(cell);  // its forcer has answered
    for (tri_join *join = ext != NULL && !zombie ? ext->joins : NULL;
         join != NULL; join = join->next) {
        fill_result(cell, join, reason);
    }
    if (ext != NULL && !zombie) {
        move_heap(worker->sys, cell, ext->joins);
    }
    if (!zombie && cell->props != NULL && cell->props->joinable &&
        (ext == NULL || ext->joins == NULL)) {
        keep_result(worker, cell, reason);
    }
    if (ext != NULL) {
        tri_lock_drop(&ext->lock);
    }
}

void tri_joins_answer(tri_worker *worker, tri_cell *cell)
{
    TRI_CHECK_SLOW(tri_cell_is_owned(cell));
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
        tri_join_free(join);
    }
    tri_map_fini(&sys->results);
    tri_heap_free(&sys->joined_heaps);
}
