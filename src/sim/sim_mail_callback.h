/*
 * sim_mail_callback.h - checks that each callback of tr_ask_then is called
 * exactly once, unless its incarnation ends before.
 *
 * Threads: the one that runs the world.
 */
#ifndef TRI_SIM_SIM_MAIL_CALLBACK_H
#define TRI_SIM_SIM_MAIL_CALLBACK_H

#include "core/types.h"
#include "sim/sim_mail.h"

/* Enters the callbacks that are new in the cell's waits. */
void tri_sim_callbacks_read(tri_sim_mail *mail, tri_cell *cell);
/*
 * Fails the run for callbacks whose wait is over and that were not called.
 * After all cells were read.
 */
void tri_sim_callbacks_check(tri_sim_mail *mail);

#endif
