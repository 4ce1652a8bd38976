/*
 * pool.c - making pools, starting and stopping the threads of their workers.
 *
 * Invariant: pools and workers are only added while the system is open, under
 * pools_lock, and published by a release store of the count. So a reader needs
 * no lock.
 */
#include "core/run/pool.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/fiber.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/world.h"
#include "core/cell/cache.h"
#include "core/cell/cell_path.h"
#include "core/cell/mem.h"
#include "core/run/scheduler.h"
#include "core/run/worker.h"
#include "core/system.h"
#include "troupe/system.h"

#define OWN_POLL                                                               \
    TR_MS(10)  // if the wake-up of own_main is lost with its thread

/*
 * Explains a fault in the guard below the stack of the running turn; in a
 * signal handler.
 */
static void explain_fault(void *user, const void *address)
{
    const tri_worker *worker = user;
    const tri_fiber *fiber = worker->current;
    char path[TRI_PATH_MAX];

    if (fiber == NULL || !tri_fiber_guards(fiber, address)) {
        return;
    }
    // Relaxed, both: of this thread.
    tri_cell *cell =
        atomic_load_explicit(&worker->running, memory_order_relaxed);
    const tr_type *type =
        atomic_load_explicit(&worker->handling, memory_order_relaxed);
    if (cell == NULL) {
        return;
    }
    tri_path_write(worker->sys, cell, path, sizeof(path));
    tri_log_part("troupe: ");
    tri_log_part(path);
    tri_log_part(": stack overflow while handling ");
    tri_log_part(type != NULL ? type->name : "a hook");
    tri_log_line(": use less stack (large locals, deep recursion), or open "
                 "the system with a larger .stack_size");
}

/*
 * The thread of a worker. Its own stack only switches to the first fiber and
 * waits until the loop comes back to it.
 */
static void thread_main(void *arg)
{
    tri_worker *worker = arg;
    tri_world *world = worker->sys->world;
    tri_worker_set_current(worker);
    if (world->ops->watch_faults != NULL) {
        world->ops->watch_faults(world, explain_fault, worker);
    }
    tri_fiber_thread_init(&worker->thread);
    tri_fiber *first = tri_fiber_take(&worker->fibers);
    TRI_CHECK(first != NULL);  // tri_worker_start has taken it once
    worker->current = first;
    tri_fiber_switch(&worker->thread, first);
    tri_fiber_give(&worker->fibers, worker->loop_fiber);
    worker->loop_fiber = NULL;
    tri_fiber_thread_fini(&worker->thread);
    tri_cache_fini(&worker->cache);
    if (world->ops->watch_faults != NULL) {
        world->ops->watch_faults(world, NULL, NULL);
    }
    tri_worker_set_current(NULL);
}

/* Makes the first stack, because the thread could not report an error. */
static tr_err prepare_stack(tri_worker *worker)
{
    tri_fiber *first = tri_fiber_take(&worker->fibers);
    if (first == NULL) {
        return TR_ENOMEM;
    }
    tri_fiber_give(&worker->fibers, first);
    return TR_OK;
}

/* Runs a worker on a thread of the program. */
static void own_main(void *arg)
{
    tri_worker *worker = arg;
    tri_world *world = worker->sys->world;
    thread_main(worker);
    // Release: pairs with own_join, which then frees the worker. The world
    // outlives the system.
    atomic_store_explicit(&worker->own_thread, TRI_OWN_DONE,
                          memory_order_release);
    world->ops->wake(world, &worker->own_thread, 1);
}

/* Waits until the program's thread has left the worker. */
static void own_join(tri_worker *worker)
{
    tri_world *world = worker->sys->world;
    // Acquire: pairs with own_main.
    while (atomic_load_explicit(&worker->own_thread, memory_order_acquire) ==
           TRI_OWN_RUNS) {
        world->ops->park(world, &worker->own_thread, TRI_OWN_RUNS, OWN_POLL);
    }
}

tr_err tri_pool_start_own(tri_pool *pool, const tr_dispatcher_options *o)
{
    TRI_CHECK(pool->has_own_threads);
    // Acquire: pairs with tri_worker_new.
    uint32_t count = atomic_load_explicit(&pool->count, memory_order_acquire);
    for (uint32_t i = 0; i < count; i++) {
        tri_worker *worker =
            atomic_load_explicit(&pool->workers[i], memory_order_acquire);
        TR_TRY(prepare_stack(worker));
        // Relaxed: the program's start orders it before own_main.
        atomic_store_explicit(&worker->own_thread, TRI_OWN_RUNS,
                              memory_order_relaxed);
        tr_err err = o->start(o->start_user, own_main, worker);
        if (err != TR_OK) {
            atomic_store_explicit(&worker->own_thread, TRI_OWN_NONE,
                                  memory_order_relaxed);
            return err;
        }
    }
    return TR_OK;
}

tr_err tri_worker_start(tri_worker *worker)
{
    tr_system *sys = worker->sys;
    TRI_CHECK(worker->thread_handle == NULL && !worker->stepping);
    TR_TRY(prepare_stack(worker));
    char name[32];
    snprintf(name, sizeof(name), "tr-%.8s-%u",
             worker->pool != NULL ? worker->pool->name : "pin", worker->index);
    return sys->world->ops->thread_start(sys->world, &worker->thread_handle,
                                         name, thread_main, worker);
}

/* True if the pool is known by this name. */
static bool is_named(tri_pool *pool, const char *name)
{
    // Relaxed: a spawn at the same moment may come before the failure.
    return strcmp(pool->name, name) == 0 &&
           !atomic_load_explicit(&pool->is_given_up, memory_order_relaxed);
}

/* Gives the pool its index and publishes it. Errors: TR_EEXIST, TR_ELIMIT. */
static tr_err pool_add(tr_system *sys, tri_pool *pool)
{
    tri_lock_take(&sys->pools_lock);
    uint32_t count =
        atomic_load_explicit(&sys->pool_count, memory_order_relaxed);
    tr_err err = count < TRI_POOLS_MAX ? TR_OK : TR_ELIMIT;
    for (uint32_t i = 0; i < count; i++) {
        if (is_named(sys->pools[i], pool->name)) {
            err = TR_EEXIST;
        }
    }
    if (err == TR_OK) {
        pool->index = (uint8_t)count;
        sys->pools[count] = pool;
        // Release: publishes the pool to tri_pool_find.
        atomic_store_explicit(&sys->pool_count, count + 1,
                              memory_order_release);
    }
    tri_lock_drop(&sys->pools_lock);
    return err;
}

tr_err tri_pool_new(tr_system *sys, const char *name, tr_dispatch_kind kind,
                    uint32_t threads, bool own_threads, tri_pool **out)
{
    TRI_CHECK(sys != NULL && name != NULL);
    *out = NULL;
    if (strlen(name) >= sizeof((*out)->name)) {
        return TR_EINVAL;
    }
    tri_pool *pool = NULL;
    if (!tri_mem_should_fail(&sys->mem)) {
        pool = aligned_alloc(128, (sizeof(*pool) + 127) / 128 * 128);
    }
    if (pool == NULL) {
        return TR_ENOMEM;
    }
    memset(pool, 0, sizeof(*pool));
    pool->sys = sys;
    pool->kind = kind;
    pool->has_own_threads = own_threads;
    // Relaxed: pool_add publishes it. The program starts its own threads.
    atomic_store_explicit(&pool->started, own_threads, memory_order_relaxed);
    memcpy(pool->name, name, strlen(name) + 1);
    // Relaxed: pool_add publishes it.
    atomic_store_explicit(&pool->wake_pause, TRI_WAKE_PAUSE_MIN,
                          memory_order_relaxed);

    tr_err err = pool_add(sys, pool);
    if (err != TR_OK) {
        free(pool);
        return err;
    }
    *out = pool;
    for (uint32_t i = 0; i < threads; i++) {
        if (tri_worker_new(sys, pool) == NULL) {
            return i > 0 ? TR_OK : TR_ENOMEM;
        }
    }
    return TR_OK;
}

void tri_pool_give_up(tri_pool *pool)
{
    TRI_CHECK(pool->sys != NULL);
    // Relaxed: is_named reads nothing else after it.
    atomic_store_explicit(&pool->is_given_up, true, memory_order_relaxed);
}

tri_pool *tri_pool_find(tr_system *sys, const char *name)
{
    // Acquire: pairs with tri_pool_new.
    uint32_t count =
        atomic_load_explicit(&sys->pool_count, memory_order_acquire);
    for (uint32_t i = 0; i < count; i++) {
        if (is_named(sys->pools[i], name)) {
            return sys->pools[i];
        }
    }
    return NULL;
}

/* Waits until no other thread starts threads of the pool, and begins to. */
static void starting_begin(tri_pool *pool)
{
    tri_world *world = pool->sys->world;
    uint32_t none = 0;
    // Acquire: pairs with starting_end; sees which threads run already.
    while (!atomic_compare_exchange_strong_explicit(&pool->starting, &none, 1,
                                                    memory_order_acquire,
                                                    memory_order_relaxed)) {
        (void)world->ops->park(world, &pool->starting, 1, TR_FOREVER);
        none = 0;
    }
}

static void starting_end(tri_pool *pool)
{
    tri_world *world = pool->sys->world;
    // Release: pairs with starting_begin.
    uint32_t was =
        atomic_exchange_explicit(&pool->starting, 0, memory_order_release);
    TRI_CHECK(was == 1);
    world->ops->wake(world, &pool->starting, UINT32_MAX);
}

tr_err tri_workers_start(tr_system *sys, tri_pool *pool)
{
    TRI_CHECK(pool != NULL && pool->sys == sys);
    // Acquire: pairs with the store below.
    if (pool->kind == TR_DISPATCH_PINNED ||
        atomic_load_explicit(&pool->started, memory_order_acquire)) {
        return TR_OK;
    }
    tr_err err = TR_OK;
    starting_begin(pool);
    // Acquire: pairs with tri_worker_new.
    uint32_t count = atomic_load_explicit(&pool->count, memory_order_acquire);
    for (uint32_t i = 0; i < count && err == TR_OK; i++) {
        tri_worker *worker =
            atomic_load_explicit(&pool->workers[i], memory_order_acquire);
        if (worker->thread_handle == NULL) {
            err = tri_worker_start(worker);
        }
    }
    // Release: publishes thread_handle to the monitor.
    atomic_store_explicit(&pool->started, err == TR_OK, memory_order_release);
    starting_end(pool);
    return err;
}

void tri_worker_release_pinned(tr_system *sys, tri_worker *worker)
{
    tri_lock_take(&sys->pools_lock);
    TRI_CHECK(worker->pinned_taken);
    worker->pinned_taken = false;
    tri_lock_drop(&sys->pools_lock);
}

tri_worker *tri_worker_pinned(tr_system *sys)
{
    tri_pool *pool = tri_pool_find(sys, "pinned");
    TRI_CHECK(pool != NULL && pool->kind == TR_DISPATCH_PINNED);
    tri_worker *worker = NULL;
    // Takes a worker whose actor has ended, if there is one.
    tri_lock_take(&sys->pools_lock);
    uint32_t count = atomic_load_explicit(&pool->count, memory_order_relaxed);
    for (uint32_t i = 0; i < count && worker == NULL; i++) {
        tri_worker *w =
            atomic_load_explicit(&pool->workers[i], memory_order_relaxed);
        if (!w->pinned_taken) {
            w->pinned_taken = true;
            worker = w;
        }
    }
    tri_lock_drop(&sys->pools_lock);
    if (worker == NULL) {
        worker = tri_worker_new(sys, pool);
        if (worker == NULL) {
            return NULL;
        }
    }
    if (worker->thread_handle == NULL && tri_worker_start(worker) != TR_OK) {
        tri_worker_release_pinned(sys, worker);
        return NULL;
    }
    return worker;
}

/* True if a thread of the program runs the worker. */
static bool is_own(tri_worker *worker)
{
    // Relaxed: set before the system is closed.
    return atomic_load_explicit(&worker->own_thread, memory_order_relaxed) ==
           TRI_OWN_RUNS;
}

void tri_workers_stop(tr_system *sys)
{
    tri_world *world = sys->world;
    if (sys->monitor != NULL) {
        // Seq_cst: before the wake-up; the monitor reads it after.
        atomic_store_explicit(&sys->monitor_word, 1, memory_order_seq_cst);
        world->ops->wake(world, &sys->monitor_word, 1);
        world->ops->thread_join(world, sys->monitor);
        sys->monitor = NULL;
    }
    // Seq_cst: pairs with must_leave; the wake-ups follow.
    atomic_store_explicit(&sys->stopping_workers, true, memory_order_seq_cst);
    uint32_t count =
        atomic_load_explicit(&sys->worker_count, memory_order_acquire);
    for (uint32_t i = 0; i < count; i++) {
        tri_worker *worker =
            atomic_load_explicit(&sys->workers[i], memory_order_acquire);
        if (worker->thread_handle != NULL || is_own(worker)) {
            tri_worker_wake(worker);
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        tri_worker *worker =
            atomic_load_explicit(&sys->workers[i], memory_order_acquire);
        if (worker->thread_handle != NULL) {
            world->ops->thread_join(world, worker->thread_handle);
            worker->thread_handle = NULL;
        }
        own_join(worker);
    }
}
