/*
 * sim_mail_audit.h - searches a system for messages of the ledger that are in
 * no mailbox, and for messages and calls that will never be served.
 *
 * Threads: the one that runs the world, between two steps.
 */
#ifndef TRI_SIM_SIM_MAIL_AUDIT_H
#define TRI_SIM_SIM_MAIL_AUDIT_H

#include <stdbool.h>

#include "sim/sim_mail.h"

/*
 * Fails the run for lost messages. It walks all mailboxes, so it is called
 * only when the system is idle. `last`, at the end of the run: also for
 * messages that wait since the faults ended, and for calls whose request
 * no actor has.
 */
void tri_sim_mail_audit(tri_sim_mail *mail, bool last);

#endif
