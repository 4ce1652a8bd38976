/*
 * sim_check.h - the invariants that hold in every simulated system, whatever
 * the program does.
 *
 * Threads: on the stack that runs the world, between two steps.
 */
#ifndef TRI_SIM_SIM_CHECK_H
#define TRI_SIM_SIM_CHECK_H

#include <stdbool.h>

#include "troupe/base.h"

/*
 * Checks the systems in which something has happened since the last call, or
 * all of them, and fails the run with the first invariant that is broken:
 *
 *     transition   an actor went from a state to one that cannot follow it
 *     sequential   two turns of an actor that exclude each other are under way
 *     correlation  two requests of an actor have the same number
 *     timeout      a wait goes on although its time is over
 *     rest         no actor runs, but a message waits for one that could
 *     fifo         a message was handled after a later one of its sender
 *     mail         a message is in no mailbox, and was neither handled, nor a
 *                  dead letter, nor dropped as its actor's options say
 *     callback     a callback of tr_ask_then was called twice, or never
 *     liveness     since the faults ended a message has not been handled, or
 *                  a call waits whose request nobody has
 *     commit       two writers made the same version of a state, or a version
 *                  of an earlier epoch came after one of a later (sim_commit.h)
 *     catalog      more virtual actors are active than there are names
 *
 * Aborts if a structure of the library contradicts itself: a cell or its
 * extension (tri_cell_check, tri_ext_check), a record, an activation or a
 * lane (tri_virtual_ops.check). Each call sees some cells and shards, the
 * next call the next ones; with `all` all of them.
 */
void tri_sim_check(tr_sim *sim, bool all);
/*
 * Hooks the ledgers (sim_mail.h) into systems that are new. Called after every
 * step, also where checks are rarer: the fault unknown_outcome strikes in a
 * hook.
 */
void tri_sim_check_hook(tr_sim *sim);

#endif
