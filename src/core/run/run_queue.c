/*
 * run_queue.c - the rare steps of the private queues: growing, and waiting for
 * a thief.
 *
 * Invariant: as in run_queue.h.
 */
#include "core/run/run_queue.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/world.h"
#include "core/cell/mem.h"
#include "core/run/worker.h"
#include "core/system.h"

void tri_newborn_grow(tri_worker *worker)
{
    TRI_CHECK(tri_newborn_count(worker) == worker->newborn_mask + 1);
    uint32_t room = (worker->newborn_mask + 1) * 2;
    tri_cell **more = tri_mem_calloc(&worker->sys->mem, room * sizeof(*more));
    if (more == NULL) {
        tri_local_append(worker, tri_newborn_oldest(worker));
        return;
    }
    // Relaxed: one thread is inside.
    uint32_t top =
        atomic_load_explicit(&worker->newborn_top, memory_order_relaxed);
    for (uint32_t i = 0; i <= worker->newborn_mask; i++) {
        more[(top + i) & (room - 1)] =
            worker->newborn[(top + i) & worker->newborn_mask];
    }
    free(worker->newborn);
    worker->newborn = more;
    worker->newborn_mask = room - 1;
}

void tri_run_queue_wait(tri_worker *worker)
{
    tri_world *world = worker->sys->world;
    TRI_CHECK(world->ops->pause != NULL);
    do {
        // Release: as tri_run_queue_leave.
        atomic_store_explicit(&worker->busy, 0, memory_order_release);
        // Acquire: as tri_run_queue_enter. A thief takes TRI_STEAL_MAX cells
        // at most, so it is out soon.
        while (atomic_load_explicit(&worker->revoked, memory_order_acquire) !=
               0) {
            world->ops->pause(world);
        }
        // Seq_cst: the write comes before the read, with or without a barrier.
        atomic_store_explicit(&worker->busy, 1, memory_order_seq_cst);
    } while (atomic_load_explicit(&worker->revoked, memory_order_seq_cst) != 0);
}
