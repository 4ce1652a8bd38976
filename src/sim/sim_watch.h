/*
 * sim_watch.h - which run it was that crashed, or hangs.
 *
 * Of a process that ends by a signal nothing is left but its last line. So
 * that line has the seed, the step, who was at work, and the command that
 * repeats it. A step that does not end is told in the same way.
 *
 * It only reads, and only in signal handlers: no run is another one for it.
 *
 * Threads: the one that runs the world.
 */
#ifndef TRI_SIM_SIM_WATCH_H
#define TRI_SIM_SIM_WATCH_H

#include "base/lookout.h"
#include "sim/sim_run.h"

enum {
    TRI_SIM_WATCH_TICK = 2,   // seconds of real time between two looks
    TRI_SIM_WATCH_TICKS = 5,  // within one step: it is told
    TRI_SIM_WATCH_REPLAY = 1024,
};

/* All zero before its first use. */
struct tri_sim_watch {
    tri_lookout *lookout;   // NULL: nobody watches
    _Atomic(tr_sim *) sim;  // of the run; NULL: between two
    uint64_t step;          // at the last look
    uint32_t ticks;         // looks that found that step
    bool told;              // of a crash: a sanitizer may abort after it
    char replay[TRI_SIM_WATCH_REPLAY];
};

/* Watches this thread; without effect if somebody does so already. */
void tri_sim_watch_start(tri_sim_watch *it);
void tri_sim_watch_stop(tri_sim_watch *it);

/* A run begins and ends. `it` may be NULL: then nothing happens. */
void tri_sim_watch_begin(tri_sim_watch *it, tr_sim *sim,
                         const tri_sim_plan *plan);
void tri_sim_watch_end(tri_sim_watch *it);

/* What the signal handlers do. */
void tri_sim_watch_crash(void *watch, const char *what);
void tri_sim_watch_tick(void *watch);

#endif
