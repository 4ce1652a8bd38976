/*
 * sim_stray.h - stray calls: calls of the operating system that are made
 * inside a simulated world.
 *
 * A program that asks the operating system for time, random numbers, threads,
 * sockets or files while it is simulated gets real ones: the seed does not
 * decide them, and a replay is another run. A stray call is let through,
 * reported once for each place that makes it, and counted; or it fails the
 * run.
 *
 * Threads: only calls of the thread that runs the world are counted.
 */
#ifndef TRI_SIM_SIM_STRAY_H
#define TRI_SIM_SIM_STRAY_H

#include <stdint.h>

#include "troupe/base.h"

enum { TRI_SIM_STRAYS_MAX = 64 };  // places listed; more are only counted

/* One place that makes stray calls. */
typedef struct tri_sim_stray {
    struct tri_sim_stray *next;
    const void *at;  // its return address
    uint64_t count;
    char name[];  // the call and its place
} tri_sim_stray;

/* All places, in the order they were met. Embedded in tr_sim. */
typedef struct tri_sim_strays {
    tri_sim_stray *first, *last;
    uint32_t count;
    uint64_t unlisted;  // calls from places beyond TRI_SIM_STRAYS_MAX
} tri_sim_strays;

/*
 * Redirects the system calls of all objects of the process to sim_stray.c,
 * from now on. Returns how many slots this call redirected: 0 where there are
 * none, as in a static executable.
 */
uint32_t tri_sim_stray_redirect(void);

/*
 * Sets the world whose steps this thread makes from now on; NULL: none.
 * Returns the one before.
 */
tr_sim *tri_sim_stray_set_world(tr_sim *sim);

/* Counts and reports a call of `name` that returns to `at`. */
void tri_sim_stray_note(const char *name, const void *at);

void tri_sim_strays_fini(tri_sim_strays *strays);

#endif
