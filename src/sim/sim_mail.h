/*
 * sim_mail.h - what becomes of every message and of every callback.
 *
 * Between two steps the mailboxes are read, and each message that is new gets
 * a number. When it is handled, or becomes a dead letter, the number is struck
 * off. What is in no mailbox any more and was not struck off has been lost.
 *
 * Nothing of this is in the way of a message in the real world, and none of
 * it changes the path of one here: handlers of a system that is looked at are
 * entered through a function of this file, which the tables of its behaviours
 * then name.
 *
 * Threads: on the stack that runs the world, between two steps; and inside
 * handlers.
 */
#ifndef TRI_SIM_SIM_MAIL_H
#define TRI_SIM_SIM_MAIL_H

#include "core/cell.h"
#include "sim/sim.h"

typedef struct tri_sim_mail tri_sim_mail;

/* The ledger of a system, made at the first call; NULL without memory. */
tri_sim_mail *tri_sim_mail_of(tr_sim *sim, const tri_sim_attached *it);

/* Numbers what is new in the cell's mailbox, and its new callbacks. */
void tri_sim_mail_read(tri_sim_mail *mail, tri_cell *cell);
/* After all cells were read: callbacks that went without a call. */
void tri_sim_mail_callbacks(tri_sim_mail *mail);
/*
 * Looks for messages that are nowhere: dear, so only when the system rests.
 * `last`, at the end: also for messages and calls that nobody will see to.
 */
void tri_sim_mail_rest(tri_sim_mail *mail, bool last);

/* Counts over the run, for tests. */
typedef struct tri_sim_mail_count {
    uint64_t read, handled, dead, dropped, callbacks;
} tri_sim_mail_count;
tri_sim_mail_count tri_sim_mail_counted(const tri_sim_mail *mail);

/*
 * The system has been closed and is freed now: what was in its mailboxes has
 * been handled or told. The next one at this address has a ledger of its own.
 */
void tri_sim_mail_end(tr_sim *sim, tr_system *sys);
void tri_sim_mail_free(tr_sim *sim);

#endif
