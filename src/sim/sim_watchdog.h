/*
 * sim_watchdog.h - reports which run crashed, or hangs.
 *
 * A process that a signal ends leaves nothing but its last line. So that line
 * has the seed, the step, what was running, and the command that repeats the
 * run. A step that does not end is reported in the same way.
 *
 * The watchdog only reads, and only in signal handlers: it changes no run.
 *
 * Threads: the one that runs the world.
 */
#ifndef TRI_SIM_SIM_WATCHDOG_H
#define TRI_SIM_SIM_WATCHDOG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/crash_watchdog.h"
#include "sim/sim_plan.h"
#include "troupe/base.h"

enum {
    TRI_SIM_WATCHDOG_TICK = 2,   // seconds of real time between two ticks
    TRI_SIM_WATCHDOG_TICKS = 5,  // in one step: it is reported as hanging
    TRI_SIM_WATCHDOG_REPLAY = 1024,
};

/* All zero before its first use. */
typedef struct tri_sim_watchdog {
    tri_crash_watchdog *watchdog;  // NULL: not started
    _Atomic(tr_sim *) sim;         // of the run; NULL: between two runs
    uint64_t step;                 // at the last tick
    uint32_t ticks;                // that found the same step
    bool reported;                 // a crash; a sanitizer may abort after it
    char replay[TRI_SIM_WATCHDOG_REPLAY];
} tri_sim_watchdog;

/* Watches this thread; does nothing if something else watches it already. */
void tri_sim_watchdog_start(tri_sim_watchdog *it);
void tri_sim_watchdog_stop(tri_sim_watchdog *it);

/* Called when a run begins and ends; `it` may be NULL. */
void tri_sim_watchdog_begin(tri_sim_watchdog *it, tr_sim *sim,
                            const tri_sim_plan *plan);
void tri_sim_watchdog_end(tri_sim_watchdog *it);

/* The functions that the signal handlers call. */
void tri_sim_watchdog_crash(void *watchdog, const char *what);
void tri_sim_watchdog_tick(void *watchdog);

#endif
