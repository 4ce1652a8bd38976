/*
 * worker.c - making and freeing workers; one step of a worker that a world
 * drives.
 *
 * Invariant: a worker is filled before it is published in sys->workers and in
 * its pool, and is freed only when the system closes.
 */
#include "core/run/worker.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/fiber.h"
#include "base/lock.h"
#include "base/wheel.h"
#include "base/world.h"
#include "core/cell/cache.h"
#include "core/cell/cell.h"
#include "core/cell/mem.h"
#include "core/cell/props.h"
#include "core/cell/tally.h"
#include "core/run/clock.h"
#include "core/run/scheduler.h"
#include "core/run/turn.h"
#include "core/system.h"

static _Thread_local tri_worker *current;

tri_worker *tri_worker_current(void)
{
    return current;
}

void tri_worker_set_current(tri_worker *worker)
{
    current = worker;
}

/* Fills a zeroed worker, all but its index. */
static void worker_init(tri_worker *worker, tr_system *sys, tri_pool *pool)
{
    const tri_world_ops *ops = sys->world->ops;
    worker->newborn_mask = TRI_NEWBORN_ROOM - 1;
    worker->local_end = &worker->local;
    worker->sys = sys;
    worker->pool = pool;
    worker->pool_bits = pool != NULL
                            ? (uint32_t)pool->index << TRI_CELL_POOL_SHIFT
                            : UINT32_MAX;
    worker->sends_left = TRI_BATCH_SENDS;
    worker->spin = TRI_SPIN;
    worker->needs_fence =
        ops->can_barrier == NULL || !ops->can_barrier(sys->world);
    worker->pinned_taken = true;  // tri_worker_pinned makes it for an actor
    tri_cache_init(&worker->cache, &sys->mem);
    uint32_t max = sys->options.max_parked;
    tri_fiber_pool_init(&worker->fibers, sys->options.stack_size,
                        max > TRI_FIBER_LIVE_MAX ? TRI_FIBER_LIVE_MAX : max,
                        &sys->fibers_live, tri_worker_loop, worker);
    worker->now = ops->mono(sys->world);
    tri_wheel_init(&worker->wheel, worker->now);
    // Relaxed: worker_add publishes it.
    atomic_store_explicit(&worker->wheel_next, TR_FOREVER,
                          memory_order_relaxed);
}

/* Gives the worker its index and publishes it; false: there are too many. */
static bool worker_add(tr_system *sys, tri_pool *pool, tri_worker *worker)
{
    tri_lock_take(&sys->pools_lock);
    // Relaxed: written under the lock.
    uint32_t index =
        atomic_load_explicit(&sys->worker_count, memory_order_relaxed);
    uint32_t place =
        pool != NULL ? atomic_load_explicit(&pool->count, memory_order_relaxed)
                     : 0;
    bool fits = index < TRI_WORKERS_MAX && place < TRI_POOL_WORKERS_MAX;
    if (fits) {
        worker->index = index;
        // Release, all: publish the worker to schedulers and thieves.
        atomic_store_explicit(&sys->workers[index], worker,
                              memory_order_release);
        atomic_store_explicit(&sys->worker_count, index + 1,
                              memory_order_release);
        if (pool != NULL) {
            atomic_store_explicit(&pool->workers[place], worker,
                                  memory_order_release);
            atomic_store_explicit(&pool->count, place + 1,
                                  memory_order_release);
        }
    }
    tri_lock_drop(&sys->pools_lock);
    return fits;
}

tri_worker *tri_worker_new(tr_system *sys, tri_pool *pool)
{
    TRI_CHECK(sys != NULL && (pool == NULL || pool->sys == sys));
    tri_worker *worker = NULL;
    if (!tri_mem_should_fail(&sys->mem)) {
        worker = aligned_alloc(128, (sizeof(*worker) + 127) / 128 * 128);
    }
    if (worker == NULL) {
        return NULL;
    }
    memset(worker, 0, sizeof(*worker));
    worker->newborn =
        tri_mem_calloc(&sys->mem, TRI_NEWBORN_ROOM * sizeof(*worker->newborn));
    if (worker->newborn == NULL) {
        free(worker);
        return NULL;
    }
    worker_init(worker, sys, pool);
    if (!worker_add(sys, pool, worker)) {
        free(worker->newborn);
        free(worker);
        return NULL;
    }
    return worker;
}

void tri_worker_step(tri_worker *worker, uint32_t index)
{
    TRI_CHECK(worker->stepping && worker->step_pick == NULL);
    tri_worker *outer = tri_worker_current();
    tri_fiber *loop = worker->loop_fiber;
    if (loop == NULL) {
        loop = tri_fiber_take(&worker->fibers);
        TRI_CHECK(loop != NULL);  // the first one was made at open
    }
    tri_clock(worker);
    worker->step_pick = tri_worker_pick(worker, index);
    worker->current = loop;
    worker->loop_fiber = NULL;
    tri_worker_set_current(worker);
    tri_fiber_thread_init(&worker->thread);
    tri_fiber_switch(&worker->thread, loop);
    tri_fiber_thread_fini(&worker->thread);
    tri_worker_set_current(outer);
}

void tri_worker_free(tri_worker *worker)
{
    TRI_CHECK(worker->thread_handle == NULL);
    TRI_CHECK(worker->held_asker == NULL && worker->handoff == NULL);
    if (worker->loop_fiber != NULL) {
        tri_fiber_give(&worker->fibers, worker->loop_fiber);
    }
    tri_props_forget_last(worker);
    tri_props_drop_now(worker);
    tri_tally_free(&worker->tally);
    tri_fiber_pool_fini(&worker->fibers);
    free(worker->newborn);
    free(worker);
}
