/*
 * sim_stray.h - calls of the real world that are made inside a simulated one.
 *
 * A program that asks the system for time, chance, threads, sockets or files
 * while it is simulated gets real ones: the seed does not decide them, and a
 * replay is another run. Such a call is let through, told once for each place
 * that makes it, and counted; or it fails the run.
 *
 * Threads: the watch is of the thread that runs the world; calls of others are
 * let through and not counted.
 */
#ifndef TRI_SIM_SIM_STRAY_H
#define TRI_SIM_SIM_STRAY_H

#include "sim/sim.h"

enum { TRI_SIM_STRAYS_MAX = 64 };  // places; further ones are only counted

/* One place that calls. */
struct tri_sim_stray {
    tri_sim_stray *next;
    const void *at;  // its return address
    uint64_t count;
    char name[];  // the call and its place
};

/*
 * Leads the calls of the process's objects through this file, from now on.
 * Returns how many were led by this call: 0 where nothing can be, as in a
 * static executable.
 */
uint32_t tri_sim_stray_lead(void);

/* Whose steps this thread makes from now on, NULL: nobody's. The one before. */
tr_sim *tri_sim_stray_watch(tr_sim *sim);

/* A call of `name` that returns to `at`; what a led call does first. */
void tri_sim_stray_note(const char *name, const void *at);

void tri_sim_strays_fini(tri_sim_strays *strays);

#endif
