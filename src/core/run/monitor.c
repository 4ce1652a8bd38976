/*
 * monitor.c - the thread that observes the workers from outside.
 *
 * Every TRI_MONITOR_PERIOD it compares each worker's count of batches with the
 * last one. A worker that has been in one batch since then is stuck: the
 * monitor asks it to read the clock, reports a handler that takes longer than
 * its limit, and ends an actor by force that should have ended (force.c). It
 * wakes a sleeping worker of the pool, which steals the queue of the stuck one,
 * and adds a worker if all of a pool are stuck. A thread that only waits for a
 * CPU is not stuck: one more thread would only compete with it.
 *
 * Invariant: the monitor_* fields of a worker are written by this thread
 * alone; everything else it reads is a hint.
 */
#include "core/run/monitor.h"

#include <stdatomic.h>

#include "base/check.h"
#include "base/world.h"
#include "core/cell/cell.h"
#include "core/cell/ext.h"
#include "core/life/force.h"
#include "core/run/pool.h"
#include "core/run/scheduler.h"
#include "core/run/steal.h"
#include "core/run/worker.h"
#include "core/system.h"
#include "troupe/system.h"

enum {
    MONITOR_IDLE_ROUNDS = 20,  // rounds without work, then a period of 100 ms
    SPARE_WORKERS_MAX = 64,    // workers that the monitor may add to a pool
};

/*
 * Ends the actor that the worker runs by force, if it was asked to end and its
 * handler has not returned in time. Rule 41 (force).
 */
static void force_if_due(tri_worker *worker, tr_nanos now)
{
    enum {
        ASKED = TRI_SIG_STOP | TRI_SIG_KILL | TRI_SIG_STOP_DECIDED |
                TRI_SIG_FORCE | TRI_SIG_RESTART | TRI_SIG_RESTART_ASKED,
        RESTART = TRI_SIG_RESTART | TRI_SIG_RESTART_ASKED
    };
    // Acquire: pairs with batch_begin. Relaxed: another actor may have the
    // cell by now; tri_force_stuck compares the id.
    tri_cell *cell =
        atomic_load_explicit(&worker->running, memory_order_acquire);
    if (cell == NULL || tri_cell_is_zombie(cell)) {
        return;
    }
    uint64_t id = atomic_load_explicit(&cell->id, memory_order_relaxed);
    uint64_t signals =
        atomic_load_explicit(&cell->signals, memory_order_relaxed);
    if (id != 0 && atomic_load_explicit(&worker->self_stopped,
                                        memory_order_relaxed) == id) {
        signals |= TRI_SIG_STOP;  // the actor has stopped itself
    }
    if ((signals & ASKED) == 0) {
        worker->monitor_stop_since = 0;
        return;
    }
    if (worker->monitor_stop_since == 0) {
        worker->monitor_stop_since = now;
    }
    tr_nanos waited = now - worker->monitor_stop_since;
    if ((signals & TRI_SIG_FORCE) && waited >= TRI_FORCE_GRACE) {
        waited = TR_FOREVER;
    }
    (void)tri_force_stuck(worker->sys, cell, id, waited,
                          (signals & ASKED & ~(uint64_t)RESTART) == 0);
}

/* Returns how long the handler that the worker runs may take. */
static tr_nanos handler_limit(tri_worker *worker)
{
    TRI_CHECK(!worker->is_outside);
    // Acquire: pairs with batch_begin, and with tri_ext_make. If the actor has
    // ended, its extension is still an extension, with an old limit.
    tri_cell *cell =
        atomic_load_explicit(&worker->running, memory_order_acquire);
    tri_ext *ext = cell != NULL
                       ? atomic_load_explicit(&cell->ext, memory_order_acquire)
                       : NULL;
    // Relaxed: fixed at spawn.
    tr_nanos own = ext != NULL ? atomic_load_explicit(&ext->handler_limit,
                                                      memory_order_relaxed)
                               : 0;
    return own != 0 ? own : worker->sys->options.handler_limit;
}

/* Checks one worker; returns true if it is stuck. *busy: it is awake. */
static bool check_worker(tri_worker *worker, tr_nanos now, bool *busy)
{
    // Relaxed, all: hints; after an old value the next round is right.
    uint64_t progress =
        atomic_load_explicit(&worker->progress, memory_order_relaxed);
    tr_nanos since =
        atomic_load_explicit(&worker->monitor_since, memory_order_relaxed);
    bool asleep =
        atomic_load_explicit(&worker->park_word, memory_order_relaxed) == 1;
    if (asleep || progress != worker->monitor_progress || since == 0) {
        worker->monitor_progress = progress;
        worker->monitor_reported = false;
        worker->monitor_stop_since = 0;
        worker->monitor_ran = TR_FOREVER;
        atomic_store_explicit(&worker->monitor_since, asleep ? 0 : now,
                              memory_order_relaxed);
        *busy |= !asleep;
        return false;
    }
    *busy = true;
    atomic_fetch_or_explicit(&worker->requests, TRI_REQUEST_CLOCK,
                             memory_order_relaxed);
    if (!worker->monitor_reported && now - since >= handler_limit(worker)) {
        worker->monitor_reported = true;
        worker->sys->up->stuck(worker, since, now - since);
    }
    if (now - since >= TRI_FORCE_AFTER) {
        force_if_due(worker, now);
    }
    return now - since >= TRI_MONITOR_PERIOD;
}

/*
 * True if the thread is runnable but has not had TRI_MONITOR_PERIOD of CPU time
 * since it seemed stuck: then it lacks a CPU.
 */
static bool lacks_cpu(tri_worker *worker)
{
    tri_world *world = worker->sys->world;
    if (world->ops->thread_is_runnable == NULL ||
        !world->ops->thread_is_runnable(world, worker->thread_handle)) {
        return false;
    }
    tr_nanos ran = world->ops->thread_ran(world, worker->thread_handle);
    worker->monitor_ran = TRI_MIN(worker->monitor_ran, ran);
    return ran - worker->monitor_ran < TRI_MONITOR_PERIOD;
}

/* True if all workers of the pool only lack a CPU. */
static bool all_lack_cpu(tri_pool *pool, uint32_t count)
{
    TRI_CHECK(count <= TRI_POOL_WORKERS_MAX);
    bool all = true;
    for (uint32_t i = 0; i < count; i++) {
        // Acquire: pairs with tri_worker_new.
        tri_worker *worker =
            atomic_load_explicit(&pool->workers[i], memory_order_acquire);
        // A worker whose thread could not be started never works.
        all &= worker->thread_handle == NULL || lacks_cpu(worker);
    }
    return all;
}

/* Checks the workers of a pool; wakes or adds one if some are stuck. */
static void check_pool(tri_pool *pool, tr_nanos now, bool *busy)
{
    uint32_t count = atomic_load_explicit(&pool->count, memory_order_acquire);
    TRI_CHECK(count <= TRI_POOL_WORKERS_MAX);
    uint32_t stuck = 0;
    // Relaxed: a hint.
    bool work = atomic_load_explicit(&pool->length, memory_order_relaxed) != 0;
    for (uint32_t i = 0; i < count; i++) {
        tri_worker *worker =
            atomic_load_explicit(&pool->workers[i], memory_order_acquire);
        // Acquire: pairs with tri_workers_start.
        if (!atomic_load_explicit(&pool->started, memory_order_acquire)) {
            continue;
        }
        if (check_worker(worker, now, busy)) {
            stuck++;
            work |= tri_worker_waiting(worker) != 0;
        }
    }
    if (stuck == 0 || !work || pool->kind == TR_DISPATCH_PINNED ||
        pool->kind == TR_DISPATCH_CONCURRENT) {
        return;
    }
    if (stuck < count) {
        tri_pool_wake(pool, true);
        return;
    }
    if (!pool->has_own_threads && count < TRI_POOL_WORKERS_MAX &&
        pool->spares < SPARE_WORKERS_MAX && !all_lack_cpu(pool, count)) {
        tri_worker *worker = tri_worker_new(pool->sys, pool);
        if (worker != NULL) {
            pool->spares++;
            (void)tri_worker_start(worker);  // if it fails, it never works
        }
    }
}

void tri_monitor_main(void *arg)
{
    tr_system *sys = arg;
    tri_world *world = sys->world;
    uint32_t idle = 0;
    TRI_CHECK(sys->magic == TRI_SYSTEM_MAGIC);
    // Seq_cst: pairs with tri_workers_stop.
    while (atomic_load_explicit(&sys->monitor_word, memory_order_seq_cst) ==
           0) {
        world->ops->park(world, &sys->monitor_word, 0,
                         idle > MONITOR_IDLE_ROUNDS ? 10 * TRI_MONITOR_PERIOD
                                                    : TRI_MONITOR_PERIOD);
        bool busy = false;
        tr_nanos now = world->ops->mono(world);
        uint32_t pools =
            atomic_load_explicit(&sys->pool_count, memory_order_acquire);
        for (uint32_t i = 0; i < pools; i++) {
            check_pool(sys->pools[i], now, &busy);
        }
        idle = busy ? 0 : idle + 1;
    }
}
