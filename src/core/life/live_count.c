/*
 * live_count.c - the number of actors that live, for the shutdown.
 *
 * Each worker counts the spawns and ends on its own, so that two workers never
 * write the same cache line.
 *
 * Invariant: every end is counted. The closing thread sets live_awaited and passes
 * the barrier of run_queue.h before it counts; an end that did not see the
 * flag was counted before the barrier.
 */
#include "core/life/live_count.h"

#include <stdatomic.h>

#include "base/check.h"
#include "base/world.h"
#include "core/run/worker.h"
#include "core/system.h"

void tri_live_count_out(tri_worker *worker)
{
    TRI_CHECK_SLOW(!worker->is_outside);
    tr_system *sys = worker->sys;
    // Relaxed: one writer. Release: pairs with tri_live_count.
    uint64_t ended =
        atomic_load_explicit(&worker->count.ended, memory_order_relaxed);
    atomic_store_explicit(&worker->count.ended, ended + 1,
                          memory_order_release);
    if (worker->needs_fence) {
        // Seq_cst: pairs with the fence of tri_live_await.
        atomic_thread_fence(memory_order_seq_cst);
    } else {
        atomic_signal_fence(memory_order_seq_cst);
    }
    // Relaxed: ordered by the fence or by the barrier of tri_live_await.
    if (TRI_UNLIKELY(
            atomic_load_explicit(&sys->live_awaited, memory_order_relaxed))) {
        // Seq_cst: before the wake; pairs with wait_for_last in
        // src/system/system.c, which reads the word before it counts.
        atomic_fetch_add_explicit(&sys->live_word, 1, memory_order_seq_cst);
        sys->world->ops->wake(sys->world, &sys->live_word, UINT32_MAX);
    }
}

uint64_t tri_live_count(tr_system *sys)
{
    TRI_CHECK(sys->magic == TRI_SYSTEM_MAGIC);
    uint64_t ended = 0, spawned = 0;
    // Acquire, and for the workers below: pairs with tri_worker_new.
    uint32_t count =
        atomic_load_explicit(&sys->worker_count, memory_order_acquire);
    for (uint32_t i = 0; i < count; i++) {
        tri_worker *worker =
            atomic_load_explicit(&sys->workers[i], memory_order_acquire);
        // Acquire: pairs with tri_live_count_out. All ends are read before the
        // first spawn: if the sums are equal, all actors had ended by then.
        ended +=
            atomic_load_explicit(&worker->count.ended, memory_order_acquire);
    }
    for (uint32_t i = 0; i < count; i++) {
        tri_worker *worker =
            atomic_load_explicit(&sys->workers[i], memory_order_acquire);
        // Relaxed: the acquire of the ends came first.
        spawned +=
            atomic_load_explicit(&worker->count.spawned, memory_order_relaxed);
    }
    return spawned - ended;
}

void tri_live_await(tr_system *sys)
{
    tri_world *world = sys->world;
    TRI_CHECK(sys->magic == TRI_SYSTEM_MAGIC);
    // Seq_cst: before the fence or the barrier.
    atomic_store_explicit(&sys->live_awaited, 1, memory_order_seq_cst);
    if (world->ops->can_barrier != NULL && world->ops->can_barrier(world)) {
        world->ops->barrier(world);
    } else {
        // Seq_cst: pairs with the fence of tri_live_count_out.
        atomic_thread_fence(memory_order_seq_cst);
    }
}
