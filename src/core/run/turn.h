/*
 * turn.h - the loop of a worker, and steps that it shares with others.
 *
 * Threads: the worker.
 */
#ifndef TRI_CORE_RUN_TURN_H
#define TRI_CORE_RUN_TURN_H

#include <stdatomic.h>

#include "base/check.h"
#include "core/cell/cell.h"
#include "core/cell/ext.h"
#include "core/mail/hard_limit.h"
#include "core/run/worker.h"
#include "core/types.h"

/* Runs cells until the system closes. The entry of every fiber. */
void tri_worker_loop(void *worker);

/* Out-of-line part of tri_asker_release. */
void tri_asker_release_now(tri_worker *worker);

/* Releases worker->held_asker, if any: no answer has come for it. */
static inline void tri_asker_release(tri_worker *worker)
{
    if (worker->held_asker != NULL) {
        tri_asker_release_now(worker);
    }
}

/* Counts a message that the owner has taken out of the queue. */
static inline void tri_queue_taken(tri_cell *cell, const tri_item *item)
{
    TRI_CHECK_SLOW(tri_cell_is_owned(cell));
    // Relaxed: for observers; only the owner writes.
    atomic_store_explicit(
        &cell->queued,
        atomic_load_explicit(&cell->queued, memory_order_relaxed) - 1,
        memory_order_relaxed);
    if (TRI_UNLIKELY(cell->attention & TRI_ATTENTION_BOUNDED) &&
        tri_is_counted(item)) {
        // Relaxed: only the number counts.
        atomic_fetch_sub_explicit(&tri_ext_of(cell)->room.counted, 1,
                                  memory_order_relaxed);
    }
}

#endif
