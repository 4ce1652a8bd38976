/*
 * steal.h - moving runnable cells from one worker of a pool to another.
 */
#ifndef TRI_CORE_RUN_STEAL_H
#define TRI_CORE_RUN_STEAL_H

#include "core/types.h"

/* Takes the oldest cell of the worker's ring, or returns NULL. Any thread. */
tri_cell *tri_ring_take(tri_worker *worker);

/* Answers TRI_REQUEST_SHARE: moves cells of this worker to the ring. */
void tri_share(tri_worker *worker);

/*
 * Takes cells of other workers of the pool and returns the first, or NULL; the
 * others go to the FIFO of the thief. From a worker that has been in one batch
 * for TRI_STEAL_AFTER even a single cell is taken. The thief has just read the
 * clock.
 */
tri_cell *tri_steal(tri_worker *thief);

/* Returns how many cells wait at this worker. A hint. Any thread. */
uint32_t tri_worker_waiting(tri_worker *worker);

#endif
