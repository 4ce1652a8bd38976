/*
 * signal.h - signals: stop, kill, restart and the like, as bits of
 * cell->signals; and tr_stop, tr_kill and tr_poison, which send them.
 *
 * Threads: any that may use the worker of the call, except where said.
 */
#ifndef TRI_CORE_LIFE_SIGNAL_H
#define TRI_CORE_LIFE_SIGNAL_H

#include "core/types.h"

/* Sets a signal (TRI_SIG_*, cell.h) of the actor with this id, and wakes the actor. */
void tri_signal(tri_worker *worker, tri_cell *cell, uint64_t id,
                uint32_t signal);

/*
 * Sets a signal like tri_signal. Returns true if the cell slept and is the
 * caller's now, who schedules it.
 */
bool tri_signal_claim(tri_cell *cell, uint64_t id, uint32_t signal);

/* Returns the signals that are set, and clears them. The cell's owner. */
uint32_t tri_signals_take(tri_cell *cell);

/*
 * As tr_poison, but also for actors of the library (TRI_CELL_SYSTEM), which
 * tr_poison ignores. Any thread.
 */
void tri_poison_any(tr_system *sys, tr_ref ref);

#endif
