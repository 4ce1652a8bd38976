/*
 * sim_mail_hook.h - the hooks of a ledger in its system: handlers, dead
 * letters, answers and stores pass through them.
 *
 * Threads: the one that runs the world.
 */
#ifndef TRI_SIM_SIM_MAIL_HOOK_H
#define TRI_SIM_SIM_MAIL_HOOK_H

#include "sim/sim_mail.h"

/* Puts the ledger's functions into the table that the core calls. */
void tri_sim_mail_hook(tri_sim_mail *mail);
/* Puts everything back as it was. */
void tri_sim_mail_unhook(tri_sim_mail *mail);

#endif
