/*
 * scheduler.c - where a runnable cell is put, and which worker is woken.
 *
 * A cell goes to the FIFO of the worker that schedules it, if it may run
 * there. A cell with a `home`, because a turn of it is parked on a stack of
 * that worker, goes to the FIFO of that worker, through its inbox if another
 * thread schedules it. A cell of another pool goes to the shared queue of that
 * pool. What a worker runs next is decided in pick.c.
 *
 * Invariant: no wake-up is lost. A worker that goes to sleep (pick.c) writes
 * park_word, then reads inbox and shared queue; a thread that puts something
 * there writes it, then reads park_word (or `sleeping`). All are seq_cst, so
 * one of the two sees the other (tests/model/park.pml,
 * docs/design/0006-scheduling.md). Work in the private queues of a worker
 * needs no wake-up: that worker is awake.
 */
#include "core/run/scheduler.h"

#include <stdatomic.h>

#include "base/check.h"
#include "base/lock.h"
#include "base/world.h"
#include "core/ask/outside_box.h"
#include "core/ask/wait.h"
#include "core/cell/cell.h"
#include "core/run/run_queue.h"
#include "core/run/worker.h"
#include "core/system.h"

/* ---- shared queue of the pool ---- */

/* Appends a chain of count cells. */
static void shared_push(tri_pool *pool, tri_cell *first, tri_cell *last,
                        uint32_t count)
{
    TRI_CHECK(first != NULL && count > 0);
    last->run_next = NULL;
    tri_lock_take(&pool->lock);
    if (pool->last_cell != NULL) {
        pool->last_cell->run_next = first;
    } else {
        pool->first_cell = first;
    }
    pool->last_cell = last;
    // Seq_cst: before the caller reads `sleeping` (file comment).
    atomic_fetch_add_explicit(&pool->length, count, memory_order_seq_cst);
    tri_lock_drop(&pool->lock);
}

tri_cell *tri_pool_pop(tri_pool *pool)
{
    // Seq_cst: also the last read before a worker sleeps.
    if (atomic_load_explicit(&pool->length, memory_order_seq_cst) == 0) {
        return NULL;
    }
    tri_lock_take(&pool->lock);
    tri_cell *cell = pool->first_cell;
    TRI_CHECK((cell == NULL) == (pool->last_cell == NULL));
    if (cell != NULL) {
        pool->first_cell = cell->run_next;
        if (pool->first_cell == NULL) {
            pool->last_cell = NULL;
        }
        // Relaxed: the lock orders it.
        atomic_fetch_sub_explicit(&pool->length, 1, memory_order_relaxed);
    }
    tri_lock_drop(&pool->lock);
    return cell;
}

/* ---- inbox: cells bound to a worker, from other threads ---- */

static void inbox_push(tri_worker *worker, tri_cell *cell)
{
    TRI_CHECK(cell->home == worker->index);
    // Relaxed: confirmed by the exchange.
    tri_cell *seen = atomic_load_explicit(&worker->inbox, memory_order_relaxed);
    do {
        cell->run_next = seen;
        // Seq_cst: before the caller reads park_word.
    } while (!atomic_compare_exchange_weak_explicit(&worker->inbox, &seen, cell,
                                                    memory_order_seq_cst,
                                                    memory_order_relaxed));
}

void tri_worker_take_inbox(tri_worker *worker)
{
    // Seq_cst: also the last read before the worker sleeps.
    if (atomic_load_explicit(&worker->inbox, memory_order_seq_cst) == NULL) {
        return;
    }
    // Acquire: pairs with inbox_push.
    tri_cell *newest =
        atomic_exchange_explicit(&worker->inbox, NULL, memory_order_acq_rel);
    tri_cell *oldest = NULL;
    while (newest != NULL) {
        tri_cell *next = newest->run_next;
        newest->run_next = oldest;
        oldest = newest;
        newest = next;
    }
    while (oldest != NULL) {
        tri_cell *next = oldest->run_next;
        TRI_CHECK_SLOW(oldest->home == worker->index);
        tri_local_push(worker, oldest);
        oldest = next;
    }
}

/* ---- waking ---- */

bool tri_worker_wake(tri_worker *worker)
{
    bool woken = false;
    tri_world *world = worker->sys->world;
    // Seq_cst: after the write that the worker must find (file comment).
    if (atomic_load_explicit(&worker->park_word, memory_order_seq_cst) == 1 &&
        atomic_exchange_explicit(&worker->park_word, 0, memory_order_seq_cst) ==
            1) {
        world->ops->wake(world, &worker->park_word, 1);
        woken = true;
    }
    if (worker->stepping) {
        worker->sys->up->poll_ready(worker->sys);
    }
    return woken;
}

void tri_pool_wake(tri_pool *pool, bool force)
{
    // Seq_cst, both: after shared_push; pair with worker_sleep and search. A
    // worker that is still searching reads the length once more before it
    // sleeps, and wakes another if more is left.
    if (atomic_load_explicit(&pool->sleeping, memory_order_seq_cst) == 0 ||
        (!force &&
         atomic_load_explicit(&pool->searching, memory_order_seq_cst) != 0)) {
        return;
    }
    uint32_t count = atomic_load_explicit(&pool->count, memory_order_acquire);
    TRI_CHECK(count <= TRI_POOL_WORKERS_MAX);
    for (uint32_t i = 0; i < count; i++) {
        tri_worker *worker =
            atomic_load_explicit(&pool->workers[i], memory_order_acquire);
        if (tri_worker_wake(worker)) {
            return;
        }
    }
}

/* ---- scheduling ---- */

/* Returns the pool whose workers may run the cell. */
static tri_pool *pool_of(tr_system *sys, const tri_cell *cell)
{
    // Relaxed: fixed at spawn.
    uint32_t flags = atomic_load_explicit(&((tri_cell *)(uintptr_t)cell)->flags,
                                          memory_order_relaxed);
    uint32_t index = (flags >> TRI_CELL_POOL_SHIFT) & 0xff;
    TRI_CHECK(index < TRI_POOLS_MAX && sys->pools[index] != NULL);
    return sys->pools[index];
}

/* Schedules an outside box, or a cell of another worker or pool. */
static __attribute__((noinline)) void schedule_elsewhere(tri_worker *worker,
                                                         tri_cell *cell)
{
    tr_system *sys = worker->sys;
    // Relaxed: fixed at spawn.
    uint32_t flags = atomic_load_explicit(&cell->flags, memory_order_relaxed);
    if (flags & TRI_CELL_OUTSIDE) {
        tri_outside_wake(worker, cell);
        return;
    }
    if (cell->home != TRI_HOME_NONE) {
        // Acquire: the worker was published by tri_worker_new.
        tri_worker *home = atomic_load_explicit(&sys->workers[cell->home],
                                                memory_order_acquire);
        TRI_CHECK(home != NULL);
        inbox_push(home, cell);
        tri_worker_wake(home);
        return;
    }
    tri_pool *pool = pool_of(sys, cell);
    shared_push(pool, cell, cell, 1);
    tri_pool_wake(pool, false);
    if (sys->driven_worker != NULL && pool == sys->driven_worker->pool) {
        tri_worker_wake(sys->driven_worker);
    }
}

void tri_schedule(tri_worker *worker, tri_cell *cell)
{
    TRI_CHECK_SLOW(tri_cell_is_owned(cell));
    if (TRI_LIKELY(cell->home == TRI_HOME_NONE
                       ? tri_worker_may_run(worker, cell)
                       : cell->home == worker->index)) {
        tri_local_push(worker, cell);
    } else {
        schedule_elsewhere(worker, cell);
    }
}

bool tri_schedule_is_local(tri_worker *worker, tri_cell *cell)
{
    return cell->home == TRI_HOME_NONE && !worker->stepping &&
           tri_worker_may_run(worker, cell);
}

void tri_schedule_newborn(tri_worker *worker, tri_cell *cell)
{
    TRI_CHECK_SLOW(tri_cell_is_owned(cell));
    if (tri_schedule_is_local(worker, cell)) {
        tri_newborn_push(worker, cell);
    } else {
        tri_schedule(worker, cell);
    }
}

/* ---- when a worker is due, and which ones sleep ---- */

tr_nanos tri_worker_due(tri_worker *worker)
{
    // Relaxed: only this worker arms timers in its wheel.
    tr_nanos due =
        atomic_load_explicit(&worker->wheel_next, memory_order_relaxed);
    tr_nanos ask_due = tri_asks_due(worker);
    return ask_due < due ? ask_due : due;
}

bool tri_pool_is_asleep(tri_pool *pool, uint32_t but)
{
    // Relaxed: hints.
    return atomic_load_explicit(&pool->sleeping, memory_order_relaxed) + but >=
           atomic_load_explicit(&pool->count, memory_order_relaxed);
}

bool tri_workers_are_asleep(tr_system *sys, const tri_cell *cell)
{
    return cell != NULL && tri_pool_is_asleep(pool_of(sys, cell), 0);
}

/* ---- a driven worker ---- */

uint32_t tri_worker_runnable(tri_worker *worker)
{
    TRI_CHECK(worker->stepping);
    // Relaxed: the worker's own count.
    uint32_t local =
        atomic_load_explicit(&worker->local_count, memory_order_relaxed);
    if (local > 0 && TRI_BUGGIFY(worker->sys->world, 0.02)) {
        return local;  // cells from other threads are seen later
    }
    tri_worker_take_inbox(worker);
    tri_cell *cell;
    while ((cell = tri_pool_pop(worker->pool)) != NULL) {
        tri_local_push(worker, cell);
    }
    // Relaxed: as above.
    return atomic_load_explicit(&worker->local_count, memory_order_relaxed);
}

tri_cell *tri_worker_pick(tri_worker *worker, uint32_t index)
{
    TRI_CHECK(worker->stepping);
    tri_cell *cell = tri_local_remove(worker, index);
    TRI_CHECK(cell != NULL);
    return cell;
}
