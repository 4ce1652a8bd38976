/*
 * sim_check.h - what must hold in every system, whatever the program does.
 *
 * Threads: on the stack that runs the world, between two steps.
 */
#ifndef TRI_SIM_SIM_CHECK_H
#define TRI_SIM_SIM_CHECK_H

#include "sim/sim.h"

/* Steps between two looks at all actors; timers are looked at each time. */
#define TRI_SIM_CHECK_EVERY UINT64_C(64)

/*
 * Looks at one system or at all, and fails the run with what is wrong:
 *
 *     transition   an actor went from a state to one that cannot follow
 *     sequential   two turns of an actor are under way that exclude each other
 *     correlation  two requests of an actor have one number
 *     timeout      a wait is still going on although its time is over
 *     rest         nothing can run, but a message waits for an actor that could
 *     catalog      more virtual actors are active than there are names
 */
void tri_sim_check(tr_sim *sim);

#endif
