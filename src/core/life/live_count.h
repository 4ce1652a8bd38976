/*
 * live_count.h - the number of actors that live, for the shutdown.
 */
#ifndef TRI_CORE_LIFE_LIVE_COUNT_H
#define TRI_CORE_LIFE_LIVE_COUNT_H

#include "core/types.h"

/*
 * Returns the number of actors that were spawned and are not freed yet. Exact
 * only after tri_live_await, if it returns 0. Any thread.
 */
uint64_t tri_live_count(tr_system *sys);

/*
 * Makes each end from now on change and wake sys->live_word. For the thread
 * that closes the system, before it counts.
 */
void tri_live_await(tr_system *sys);

/*
 * Counts an actor that has ended; wakes the thread in tri_live_await's loop.
 * For the thread of the worker.
 */
void tri_live_count_out(tri_worker *worker);

#endif
