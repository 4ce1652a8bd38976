/*
 * run_queue.h - the private queues of a worker: its FIFO of runnable cells
 * (`local`) and its newborn cells, which it runs newest first.
 *
 * The worker uses both without atomic exchanges. A worker without work asks
 * another for some (TRI_REQUEST_SHARE) and is given cells through the ring
 * (steal.c). Only if the other does not answer, because its handler takes
 * long, does the thief enter the private queues itself.
 *
 * Invariant: one thread at a time is inside. The worker writes `busy`, then
 * reads `revoked`. A thief writes `revoked`, makes every thread of the process
 * pass a barrier (world.h), then reads `busy`. The worker needs no fence: it
 * passes the barrier either before its write to `busy`, and then reads
 * `revoked` as set, or after its read, and then the thief reads `busy` as set.
 * So one of them sees the other and stays out (tests/model/run_queue.pml). If
 * the world has no such barrier, the worker pays for a fence.
 *
 * Threads: the worker. "Inside" at the end of a comment: only for a thread that
 * is inside the queues: the worker after tri_run_queue_enter, or a thief
 * (take_private in steal.c).
 */
#ifndef TRI_CORE_RUN_RUN_QUEUE_H
#define TRI_CORE_RUN_RUN_QUEUE_H

#include <stdatomic.h>

#include "base/check.h"
#include "core/cell/cell.h"
#include "core/run/scheduler.h"
#include "core/run/worker.h"
#include "core/types.h"

/* Out-of-line part of tri_run_queue_enter: waits until the thief is out. */
void tri_run_queue_wait(tri_worker *worker);

/* Enters the private queues. Called by the worker only. */
static inline void tri_run_queue_enter(tri_worker *worker)
{
    // Relaxed: ordered by the barrier, see the file comment.
    atomic_store_explicit(&worker->busy, 1, memory_order_relaxed);
    if (TRI_UNLIKELY(worker->needs_fence)) {
        // Seq_cst: pairs with the fence in take_private.
        atomic_thread_fence(memory_order_seq_cst);
    } else {
        atomic_signal_fence(memory_order_seq_cst);
    }
    // Acquire: pairs with the end of take_private; sees what the thief did.
    if (TRI_UNLIKELY(atomic_load_explicit(&worker->revoked,
                                          memory_order_acquire) != 0)) {
        tri_run_queue_wait(worker);
    }
}

/* Leaves the private queues. Called by the worker only. */
static inline void tri_run_queue_leave(tri_worker *worker)
{
    // Release: pairs with the read of `busy` in take_private.
    atomic_store_explicit(&worker->busy, 0, memory_order_release);
}

/* Returns how many cells are in the private queues. A hint. Any thread. */
static inline uint32_t tri_run_queue_waiting(tri_worker *worker)
{
    // Relaxed, all: the two ends may be read at different moments.
    int32_t newborn = (int32_t)(atomic_load_explicit(&worker->newborn_bottom,
                                                     memory_order_relaxed) -
                                atomic_load_explicit(&worker->newborn_top,
                                                     memory_order_relaxed));
    return atomic_load_explicit(&worker->local_count, memory_order_relaxed) +
           (newborn > 0 ? (uint32_t)newborn : 0);
}

/* Changes the length of the FIFO. Inside. */
static inline void tri_local_count_add(tri_worker *worker, int32_t change)
{
    // Relaxed: one thread is inside; for others it is a hint.
    uint32_t count =
        atomic_load_explicit(&worker->local_count, memory_order_relaxed);
    TRI_CHECK_SLOW(change >= 0 || count >= (uint32_t)-change);
    atomic_store_explicit(&worker->local_count, count + (uint32_t)change,
                          memory_order_relaxed);
}

/* Appends a cell to the FIFO. Inside. */
static inline void tri_local_append(tri_worker *worker, tri_cell *cell)
{
    TRI_CHECK_SLOW(tri_cell_is_owned(cell));
    cell->run_next = NULL;
    *worker->local_end = cell;
    worker->local_end = &cell->run_next;
    tri_local_count_add(worker, 1);
}

/* Puts a chain of count cells in front of the FIFO. Inside. */
static inline void tri_local_prepend(tri_worker *worker, tri_cell *first,
                                     tri_cell *last, uint32_t count)
{
    TRI_CHECK_SLOW(first != NULL && count > 0);
    last->run_next = worker->local;
    if (worker->local == NULL) {
        worker->local_end = &last->run_next;
    }
    worker->local = first;
    tri_local_count_add(worker, (int32_t)count);
}

/* Takes the oldest cell of the FIFO, or returns NULL. Inside. */
static inline tri_cell *tri_local_take(tri_worker *worker)
{
    tri_cell *cell = worker->local;
    if (TRI_LIKELY(cell != NULL)) {
        TRI_CHECK_SLOW(tri_cell_is_owned(cell));
        worker->local = cell->run_next;
        if (worker->local != NULL) {
            __builtin_prefetch(worker->local->state, 1);
        } else {
            worker->local_end = &worker->local;
        }
        tri_local_count_add(worker, -1);
    }
    return cell;
}

/* Takes the index-th oldest cell of the FIFO, or returns NULL. Inside. */
static inline tri_cell *tri_local_remove(tri_worker *worker, uint32_t index)
{
    tri_cell **link = &worker->local;
    for (; index > 0 && *link != NULL; index--) {
        link = &(*link)->run_next;
    }
    tri_cell *cell = *link;
    if (cell != NULL) {
        *link = cell->run_next;
        if (cell->run_next == NULL) {
            worker->local_end = link;
        }
        tri_local_count_add(worker, -1);
    }
    return cell;
}

/*
 * Takes the oldest newborn cell, or returns NULL. It is the highest in the tree
 * of spawns, so it brings a thief the most work. Inside.
 */
static inline tri_cell *tri_newborn_oldest(tri_worker *worker)
{
    // Relaxed, all: one thread is inside.
    uint32_t top =
        atomic_load_explicit(&worker->newborn_top, memory_order_relaxed);
    if (top ==
        atomic_load_explicit(&worker->newborn_bottom, memory_order_relaxed)) {
        return NULL;
    }
    atomic_store_explicit(&worker->newborn_top, top + 1, memory_order_relaxed);
    TRI_CHECK_SLOW(worker->newborn[top & worker->newborn_mask] != NULL);
    return worker->newborn[top & worker->newborn_mask];
}

/* Takes the newest newborn cell, or returns NULL. Inside. */
static inline tri_cell *tri_newborn_newest(tri_worker *worker)
{
    // Relaxed, all: one thread is inside.
    uint32_t bottom =
        atomic_load_explicit(&worker->newborn_bottom, memory_order_relaxed);
    if (bottom ==
        atomic_load_explicit(&worker->newborn_top, memory_order_relaxed)) {
        return NULL;
    }
    atomic_store_explicit(&worker->newborn_bottom, bottom - 1,
                          memory_order_relaxed);
    TRI_CHECK_SLOW(worker->newborn[(bottom - 1) & worker->newborn_mask]);
    return worker->newborn[(bottom - 1) & worker->newborn_mask];
}

/* ---- the worker's operations ---- */

/* Appends a cell to the FIFO. */
static inline void tri_local_push(tri_worker *worker, tri_cell *cell)
{
    tri_run_queue_enter(worker);
    tri_local_append(worker, cell);
    tri_run_queue_leave(worker);
}

/* Takes the oldest cell of the FIFO, or returns NULL. */
static inline tri_cell *tri_local_pop(tri_worker *worker)
{
    // Relaxed: other threads only take, so 0 stays 0.
    if (TRI_UNLIKELY(atomic_load_explicit(&worker->local_count,
                                          memory_order_relaxed) == 0)) {
        return NULL;
    }
    tri_run_queue_enter(worker);
    tri_cell *cell = tri_local_take(worker);
    tri_run_queue_leave(worker);
    return cell;
}

/*
 * True if the cell belongs to the worker's pool and is not the cell of an
 * outside box. Does not check cell->home.
 */
static inline bool tri_worker_may_run(tri_worker *worker, tri_cell *cell)
{
    enum { WHERE = TRI_CELL_OUTSIDE | 0xff << TRI_CELL_POOL_SHIFT };
    // Relaxed: fixed at spawn.
    return (atomic_load_explicit(&cell->flags, memory_order_relaxed) & WHERE) ==
           worker->pool_bits;
}

/* As tri_schedule; the usual case is inline. */
static inline void tri_schedule_inline(tri_worker *worker, tri_cell *cell)
{
    if (TRI_LIKELY(cell->home == TRI_HOME_NONE &&
                   tri_worker_may_run(worker, cell))) {
        tri_local_push(worker, cell);
    } else {
        tri_schedule(worker, cell);
    }
}

/*
 * Makes a cell that may run here the next one, if the hand-off slot is free;
 * else appends it to the FIFO. For an actor that was just asked or answered:
 * the asker waits for the first, and the data of the second is in the cache.
 * A chain of hand-offs ends at the next poll (TRI_POLL_EVERY): then the cell
 * goes to the FIFO. Thieves do not see the slot, so no handler may run before
 * it is emptied, unless only this worker may run the cell.
 */
static inline void tri_handoff_put(tri_worker *worker, tri_cell *cell)
{
    TRI_CHECK_SLOW(tri_cell_is_owned(cell));
    if (worker->handoff == NULL && !worker->stepping) {
        worker->handoff = cell;
    } else {
        tri_local_push(worker, cell);
    }
}

/* Moves the cell in the hand-off slot, if any, to the FIFO. */
static inline void tri_handoff_return(tri_worker *worker)
{
    if (worker->handoff != NULL) {
        tri_local_push(worker, worker->handoff);
        worker->handoff = NULL;
    }
}

/* Returns the number of newborn cells. */
static inline uint32_t tri_newborn_count(tri_worker *worker)
{
    // Relaxed: other threads only take.
    return atomic_load_explicit(&worker->newborn_bottom, memory_order_relaxed) -
           atomic_load_explicit(&worker->newborn_top, memory_order_relaxed);
}

/*
 * True in a burst of spawns: at least TRI_SPAWN_BURST newborn cells wait, and
 * newborn_ahead of them must run before older cells, with all that they spawn.
 * So an actor that spawns in a loop waits for its children, and no other cell
 * does.
 */
static inline bool tri_newborn_first(tri_worker *worker)
{
    return TRI_UNLIKELY(tri_newborn_count(worker) >= TRI_SPAWN_BURST) &&
           worker->newborn_ahead > 0;
}

/*
 * Doubles the room for newborn cells; without memory moves the oldest to the
 * FIFO. Inside.
 */
void tri_newborn_grow(tri_worker *worker);

/* Adds a newborn cell. */
static inline void tri_newborn_push(tri_worker *worker, tri_cell *cell)
{
    TRI_CHECK_SLOW(tri_cell_is_owned(cell) && !worker->stepping);
    tri_run_queue_enter(worker);
    if (TRI_UNLIKELY(tri_newborn_count(worker) > worker->newborn_mask)) {
        tri_newborn_grow(worker);
    }
    // Relaxed, all: one thread is inside.
    uint32_t bottom =
        atomic_load_explicit(&worker->newborn_bottom, memory_order_relaxed);
    worker->newborn[bottom & worker->newborn_mask] = cell;
    if (TRI_UNLIKELY(tri_newborn_count(worker) >= TRI_SPAWN_BURST) &&
        (!worker->runs_newborn || worker->newborn_ahead > 0)) {
        worker->newborn_ahead++;
    }
    atomic_store_explicit(&worker->newborn_bottom, bottom + 1,
                          memory_order_relaxed);
    tri_run_queue_leave(worker);
}

/* Takes the newest newborn cell, or the oldest; NULL if there is none. */
static inline tri_cell *tri_newborn_pop(tri_worker *worker, bool oldest)
{
    // Relaxed: other threads only take.
    if (atomic_load_explicit(&worker->newborn_bottom, memory_order_relaxed) ==
        atomic_load_explicit(&worker->newborn_top, memory_order_relaxed)) {
        return NULL;
    }
    tri_run_queue_enter(worker);
    tri_cell *cell =
        oldest ? tri_newborn_oldest(worker) : tri_newborn_newest(worker);
    tri_run_queue_leave(worker);
    return cell;
}

#endif
