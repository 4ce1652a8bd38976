/*
 * sim_check.h - what must hold in every system, whatever the program does.
 *
 * Threads: on the stack that runs the world, between two steps.
 */
#ifndef TRI_SIM_SIM_CHECK_H
#define TRI_SIM_SIM_CHECK_H

#include "sim/sim.h"

/*
 * Looks at the systems in which something has happened since the last look,
 * or at all of them, and fails the run with what is wrong:
 *
 *     transition   an actor went from a state to one that cannot follow
 *     sequential   two turns of an actor are under way that exclude each other
 *     correlation  two requests of an actor have one number
 *     timeout      a wait is still going on although its time is over
 *     rest         nothing can run, but a message waits for an actor that could
 *     fifo         a message was handled after a later one of its sender
 *     mail         a message is in no mailbox, and was neither handled nor a
 *                  dead letter nor dropped as its actor's options say
 *     callback     one of tr_ask_then was called twice, or never
 *     liveness     since the faults ended a message has not been handled, or
 *                  a call waits whose request nobody has
 *     commit       two writers were told that they made one version of a state,
 *                  or one of an earlier epoch came behind one of a later
 *     catalog      more virtual actors are active than there are names
 */
void tri_sim_check(tr_sim *sim, bool all);
/*
 * Stands behind what each open system is told from now on. After every step,
 * however seldom there is a look: answers are made unknown there.
 */
void tri_sim_listen(tr_sim *sim);

#endif
