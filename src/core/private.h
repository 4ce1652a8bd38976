/*
 * private.h - the runnable cells that only their worker sees.
 *
 * Two queues without limit: `own`, a FIFO, and `fresh`, spawned cells, newest
 * first. Their worker uses them without any exchange. A thief
 * asks (TRI_LOOK_SHARE) and is given some through the ring; only where the
 * worker does not come round to it, since a handler lasts, does a thief go in
 * himself.
 *
 * Who is in: the worker writes `busy`, then reads `revoked`. A thief writes
 * `revoked`, has every thread of the process pass a barrier (world.h), then
 * reads `busy`. The worker's two steps need no fence of their own: it passes
 * the barrier before its write to `busy`, then it will read `revoked`, or
 * after its read, then the thief reads `busy`. One of them sees the other and
 * stays out; tests/model/private.pml. Where a world has no such barrier the
 * worker pays for a fence.
 */
#ifndef TRI_CORE_PRIVATE_H
#define TRI_CORE_PRIVATE_H

#include "core/runtime.h"

/* Waits until the thief is out. */
void tri_private_wait(tri_worker *worker);

static inline void tri_private_enter(tri_worker *worker)
{
    // Relaxed: ordered by the barrier, see the file comment.
    atomic_store_explicit(&worker->busy, 1, memory_order_relaxed);
    if (TRI_UNLIKELY(worker->fences)) {
        // Seq_cst: pairs with the fence of tri_private_revoke.
        atomic_thread_fence(memory_order_seq_cst);
    } else {
        atomic_signal_fence(memory_order_seq_cst);
    }
    // Acquire: sees what the last thief did; pairs with his way out.
    if (TRI_UNLIKELY(atomic_load_explicit(&worker->revoked,
                                          memory_order_acquire) != 0)) {
        tri_private_wait(worker);
    }
}

static inline void tri_private_leave(tri_worker *worker)
{
    // Release: what we did, to the next thief.
    atomic_store_explicit(&worker->busy, 0, memory_order_release);
}

/* How many wait; a hint to all but the worker. */
static inline uint32_t tri_private_waiting(tri_worker *worker)
{
    // Relaxed, all; the two ends of fresh may be of different moments.
    int32_t fresh = (int32_t)(atomic_load_explicit(&worker->fresh_bottom,
                                                   memory_order_relaxed) -
                              atomic_load_explicit(&worker->fresh_top,
                                                   memory_order_relaxed));
    return atomic_load_explicit(&worker->own_count, memory_order_relaxed) +
           (fresh > 0 ? (uint32_t)fresh : 0);
}

static inline void tri_own_append(tri_worker *worker, tri_cell *cell)
{
    cell->run_next = NULL;
    *worker->own_end = cell;
    worker->own_end = &cell->run_next;
    // Relaxed: for others it is a hint.
    atomic_store_explicit(
        &worker->own_count,
        atomic_load_explicit(&worker->own_count, memory_order_relaxed) + 1,
        memory_order_relaxed);
}

/* A chain of count cells, in front of what waits. Whoever is in. */
static inline void tri_own_prepend(tri_worker *worker, tri_cell *first,
                                   tri_cell *last, uint32_t count)
{
    last->run_next = worker->own;
    if (worker->own == NULL) {
        worker->own_end = &last->run_next;
    }
    worker->own = first;
    // Relaxed: for others it is a hint.
    atomic_store_explicit(
        &worker->own_count,
        atomic_load_explicit(&worker->own_count, memory_order_relaxed) + count,
        memory_order_relaxed);
}

/* The oldest of the FIFO, or NULL. Whoever is in. */
static inline tri_cell *tri_own_take(tri_worker *worker)
{
    tri_cell *cell = worker->own;
    if (TRI_LIKELY(cell != NULL)) {
        worker->own = cell->run_next;
        if (worker->own != NULL) {
            __builtin_prefetch(worker->own->state, 1);
        } else {
            worker->own_end = &worker->own;
        }
        // Relaxed: for others it is a hint.
        atomic_store_explicit(
            &worker->own_count,
            atomic_load_explicit(&worker->own_count, memory_order_relaxed) - 1,
            memory_order_relaxed);
    }
    return cell;
}

/* The index-th oldest of the FIFO, or NULL. Whoever is in. */
static inline tri_cell *tri_own_remove(tri_worker *worker, uint32_t index)
{
    tri_cell **link = &worker->own;
    for (; index > 0 && *link != NULL; index--) {
        link = &(*link)->run_next;
    }
    tri_cell *cell = *link;
    if (cell != NULL) {
        *link = cell->run_next;
        if (cell->run_next == NULL) {
            worker->own_end = link;
        }
        // Relaxed: for others it is a hint.
        atomic_store_explicit(
            &worker->own_count,
            atomic_load_explicit(&worker->own_count, memory_order_relaxed) - 1,
            memory_order_relaxed);
    }
    return cell;
}

/* The oldest of the spawned, the root of the largest subtree, or NULL. */
static inline tri_cell *tri_fresh_oldest(tri_worker *worker)
{
    // Relaxed, all: whoever is in is alone.
    uint32_t top =
        atomic_load_explicit(&worker->fresh_top, memory_order_relaxed);
    if (top ==
        atomic_load_explicit(&worker->fresh_bottom, memory_order_relaxed)) {
        return NULL;
    }
    atomic_store_explicit(&worker->fresh_top, top + 1, memory_order_relaxed);
    return worker->fresh[top & worker->fresh_mask];
}

static inline tri_cell *tri_fresh_newest(tri_worker *worker)
{
    // Relaxed, all: whoever is in is alone.
    uint32_t bottom =
        atomic_load_explicit(&worker->fresh_bottom, memory_order_relaxed);
    if (bottom ==
        atomic_load_explicit(&worker->fresh_top, memory_order_relaxed)) {
        return NULL;
    }
    atomic_store_explicit(&worker->fresh_bottom, bottom - 1,
                          memory_order_relaxed);
    return worker->fresh[(bottom - 1) & worker->fresh_mask];
}

/* The worker's own steps. */

static inline void tri_own_push(tri_worker *worker, tri_cell *cell)
{
    tri_private_enter(worker);
    tri_own_append(worker, cell);
    tri_private_leave(worker);
}

static inline tri_cell *tri_own_pop(tri_worker *worker)
{
    // Relaxed: a thief only takes, nothing appears behind our back.
    if (TRI_UNLIKELY(atomic_load_explicit(&worker->own_count,
                                          memory_order_relaxed) == 0)) {
        return NULL;
    }
    tri_private_enter(worker);
    tri_cell *cell = tri_own_take(worker);
    tri_private_leave(worker);
    return cell;
}

/* Is more to be done than to pick one of our own? */
static inline bool tri_looks_around(tri_worker *worker)
{
    // Relaxed: hints; who looks around looks properly.
    return TRI_UNLIKELY(worker->tick % TRI_LOOK_EVERY == 0) ||
           TRI_UNLIKELY(atomic_load_explicit(&worker->inbox,
                                             memory_order_relaxed) != NULL) ||
           TRI_UNLIKELY(
               atomic_load_explicit(&worker->look, memory_order_relaxed) != 0);
}

/* Whether it is no thread's and of our group; a home may still bind it. */
static inline bool tri_runs_here(tri_worker *worker, tri_cell *cell)
{
    enum { WHERE = TRI_CELL_OUTSIDE | 0xff << TRI_CELL_GROUP_SHIFT };
    // Relaxed: fixed at spawn.
    return (atomic_load_explicit(&cell->flags, memory_order_relaxed) & WHERE) ==
           worker->group_bits;
}

/* tri_schedule where nothing is special about the cell, in line. */
static inline void tri_schedule_quick(tri_worker *worker, tri_cell *cell)
{
    if (TRI_LIKELY(cell->home == TRI_HOME_NONE &&
                   tri_runs_here(worker, cell))) {
        tri_own_push(worker, cell);
    } else {
        tri_schedule(worker, cell);
    }
}

/*
 * A cell that is to run here, next if that place is free: who asks waits for
 * the one he asked, who answers has what the other waited for in his cache. A
 * chain of such steps ends with the next look around (TRI_LOOK_EVERY): then
 * the cell queues behind the others. No thief sees it: no handler runs
 * meanwhile, unless the cell is bound to us.
 */
static inline void tri_hand_to(tri_worker *worker, tri_cell *cell)
{
    if (worker->hand == NULL && !worker->stepping) {
        worker->hand = cell;
    } else {
        tri_own_push(worker, cell);
    }
}

/* It does not run next after all. */
static inline void tri_hand_back(tri_worker *worker)
{
    if (worker->hand != NULL) {
        tri_own_push(worker, worker->hand);
        worker->hand = NULL;
    }
}

/* How many new cells wait; the worker. */
static inline uint32_t tri_fresh_count(tri_worker *worker)
{
    // Relaxed: a thief only takes.
    return atomic_load_explicit(&worker->fresh_bottom, memory_order_relaxed) -
           atomic_load_explicit(&worker->fresh_top, memory_order_relaxed);
}

/*
 * Do new cells come before the others? Where they are many, and one of the
 * others has made more of them: as many have to run first, and all that these
 * make. So whoever spawns in a loop waits for them, and nobody else does.
 */
static inline bool tri_fresh_first(tri_worker *worker)
{
    return TRI_UNLIKELY(tri_fresh_count(worker) >= TRI_FRESH_MANY) &&
           worker->fresh_debt > 0;
}

/* The rest of tri_worker_next. May sleep. */
tri_cell *tri_next_other(tri_worker *worker);

/*
 * What the worker runs next; NULL: it must leave. The usual case is in line:
 * the oldest of our own, nothing special to do.
 */
static inline tri_cell *tri_worker_next(tri_worker *worker)
{
    if (TRI_LIKELY(!tri_looks_around(worker)) &&
        TRI_LIKELY(worker->hand == NULL) &&
        TRI_LIKELY(!tri_fresh_first(worker))) {
        tri_cell *cell = tri_own_pop(worker);
        if (TRI_LIKELY(cell != NULL)) {
            worker->runs_fresh = false;
            worker->tick++;
            return cell;
        }
    }
    return tri_next_other(worker);
}

/* Makes room for more; without memory the oldest goes to the FIFO. */
void tri_fresh_grow(tri_worker *worker);

static inline void tri_fresh_push(tri_worker *worker, tri_cell *cell)
{
    tri_private_enter(worker);
    if (TRI_UNLIKELY(tri_fresh_count(worker) > worker->fresh_mask)) {
        tri_fresh_grow(worker);
    }
    // Relaxed, all: we are in.
    uint32_t bottom =
        atomic_load_explicit(&worker->fresh_bottom, memory_order_relaxed);
    worker->fresh[bottom & worker->fresh_mask] = cell;
    if (TRI_UNLIKELY(tri_fresh_count(worker) >= TRI_FRESH_MANY) &&
        (!worker->runs_fresh || worker->fresh_debt > 0)) {
        worker->fresh_debt++;
    }
    atomic_store_explicit(&worker->fresh_bottom, bottom + 1,
                          memory_order_relaxed);
    tri_private_leave(worker);
}

static inline tri_cell *tri_fresh_pop(tri_worker *worker, bool oldest)
{
    // Relaxed: as in tri_own_pop.
    if (atomic_load_explicit(&worker->fresh_bottom, memory_order_relaxed) ==
        atomic_load_explicit(&worker->fresh_top, memory_order_relaxed)) {
        return NULL;
    }
    tri_private_enter(worker);
    tri_cell *cell =
        oldest ? tri_fresh_oldest(worker) : tri_fresh_newest(worker);
    tri_private_leave(worker);
    return cell;
}

/* ---- share.c ---- */

/* The oldest cell the worker offers in its ring, or NULL. Any thread. */
tri_cell *tri_ring_take(tri_worker *worker);
/* Somebody has asked: some of what waits goes to the ring. The worker. */
void tri_share(tri_worker *worker);
/*
 * Something to run from another worker of the group, or NULL. The thief has
 * just read the clock: from a worker that has been in one activation for
 * TRI_LONE even a lone cell is taken.
 */
tri_cell *tri_steal(tri_worker *thief);
/* How many cells wait at this worker; a hint. Any thread. */
uint32_t tri_worker_waiting(tri_worker *worker);

#endif
