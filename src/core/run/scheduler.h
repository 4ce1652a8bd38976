/*
 * scheduler.h - putting cells where they will be run, and waking workers.
 *
 * Threads: functions with a worker are for its thread, or for the holder of
 * outside_lock if it is sys->outside, except where said.
 */
#ifndef TRI_CORE_RUN_SCHEDULER_H
#define TRI_CORE_RUN_SCHEDULER_H

#include "core/types.h"

/*
 * Wakes a sleeping worker of the pool. If another worker polls for work, that
 * one will find it: then only with `force`. Any thread.
 */
void tri_pool_wake(tri_pool *pool, bool force);

/* Puts a cell that the caller owns where it will be run. */
void tri_schedule(tri_worker *worker, tri_cell *cell);

/*
 * As tri_schedule for a newborn cell: goes to the newborn cells of the worker,
 * if the cell may run there.
 */
void tri_schedule_newborn(tri_worker *worker, tri_cell *cell);

/* True if the cell may go to the newborn cells of this worker. */
bool tri_schedule_is_local(tri_worker *worker, tri_cell *cell);

/* Returns the number of cells that a driven worker could run now. */
uint32_t tri_worker_runnable(tri_worker *worker);

/* Takes the index-th of them, index < tri_worker_runnable. */
tri_cell *tri_worker_pick(tri_worker *worker, uint32_t index);

/* Wakes the worker; returns true if it was asleep. Any thread. */
bool tri_worker_wake(tri_worker *worker);

/*
 * True if all workers that may run the cell are asleep. cell may be NULL:
 * false. A hint. Any thread.
 */
bool tri_workers_are_asleep(tr_system *sys, const tri_cell *cell);

/* True if all workers of the pool sleep, except `but` of them. A hint. */
bool tri_pool_is_asleep(tri_pool *pool, uint32_t but);

/* Takes the oldest cell of the shared queue, or returns NULL. Any thread. */
tri_cell *tri_pool_pop(tri_pool *pool);

/* Moves the cells of the worker's inbox to its FIFO, oldest first. */
void tri_worker_take_inbox(tri_worker *worker);

/* Returns when the next timer or ask of the worker is due. */
tr_nanos tri_worker_due(tri_worker *worker);

#endif
