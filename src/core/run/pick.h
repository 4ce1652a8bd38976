/*
 * pick.h - which cell a worker runs next.
 *
 * Threads: the worker.
 */
#ifndef TRI_CORE_RUN_PICK_H
#define TRI_CORE_RUN_PICK_H

#include <stdatomic.h>

#include "base/check.h"
#include "core/cell/cell.h"
#include "core/run/run_queue.h"
#include "core/run/worker.h"
#include "core/types.h"

/* True if the worker must poll clock, inbox and requests before it picks. */
static inline bool tri_must_poll(tri_worker *worker)
{
    // Relaxed: hints; next_after_poll reads them again.
    return TRI_UNLIKELY(worker->tick % TRI_POLL_EVERY == 0) ||
           TRI_UNLIKELY(atomic_load_explicit(&worker->inbox,
                                             memory_order_relaxed) != NULL) ||
           TRI_UNLIKELY(atomic_load_explicit(&worker->requests,
                                             memory_order_relaxed) != 0);
}

/* Out-of-line part of tri_worker_next. May sleep. */
tri_cell *tri_worker_next_slow(tri_worker *worker);

/*
 * Returns the cell that the worker runs next; NULL: the loop must end. The
 * usual case is inline: the oldest cell of the FIFO.
 */
static inline tri_cell *tri_worker_next(tri_worker *worker)
{
    if (TRI_LIKELY(!tri_must_poll(worker)) &&
        TRI_LIKELY(worker->handoff == NULL) &&
        TRI_LIKELY(!tri_newborn_first(worker))) {
        tri_cell *cell = tri_local_pop(worker);
        if (TRI_LIKELY(cell != NULL)) {
            TRI_CHECK_SLOW(tri_cell_is_owned(cell));
            worker->runs_newborn = false;
            worker->tick++;
            return cell;
        }
    }
    return tri_worker_next_slow(worker);
}

#endif
