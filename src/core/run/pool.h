/*
 * pool.h - the pools of a system and the threads of their workers.
 *
 * Threads: any, except where said.
 */
#ifndef TRI_CORE_RUN_POOL_H
#define TRI_CORE_RUN_POOL_H

#include "core/types.h"
#include "troupe/system.h"

/*
 * Makes a pool with workers that have no threads yet; the system owns it. With
 * own_threads the caller calls tri_pool_start_own; else the threads are started
 * when the pool is first used.
 * Errors: TR_EINVAL (name too long), TR_EEXIST, TR_ELIMIT, TR_ENOMEM.
 */
tr_err tri_pool_new(tr_system *sys, const char *name, tr_dispatch_kind kind,
                    uint32_t threads, bool own_threads, tri_pool **out);

/*
 * Lets the program start the threads of the pool. Errors: TR_ENOMEM, those of
 * o->start; the threads that were started run on.
 */
tr_err tri_pool_start_own(tri_pool *pool, const tr_dispatcher_options *o);

/*
 * Makes a pool whose threads did not all start unknown, so that no actor is
 * spawned on it and its name is free. Those that were started run on.
 */
void tri_pool_give_up(tri_pool *pool);

/* Returns the pool with this name, or NULL. */
tri_pool *tri_pool_find(tr_system *sys, const char *name);

/*
 * Starts the threads of a pool, if they do not run yet. Those of a pinned pool
 * start one by one (tri_worker_pinned). Errors: those of thread_start.
 */
tr_err tri_workers_start(tr_system *sys, tri_pool *pool);

/* Stops the monitor and all workers, and joins their threads. At the close. */
void tri_workers_stop(tr_system *sys);

/* Returns a worker, with its thread, for one pinned actor; NULL: no memory. */
tri_worker *tri_worker_pinned(tr_system *sys);

/* Makes a pinned worker free for another actor. */
void tri_worker_release_pinned(tr_system *sys, tri_worker *worker);

/* Starts the thread of a worker. Errors: TR_ENOMEM, those of thread_start. */
tr_err tri_worker_start(tri_worker *worker);

#endif
