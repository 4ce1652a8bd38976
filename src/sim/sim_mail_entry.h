/*
 * sim_mail_entry.h - the entries of a ledger: messages that were seen in a
 * mailbox and not handled yet.
 *
 * Threads: the one that runs the world.
 * Ownership: the ledger owns its entries; an entry borrows message and cell.
 */
#ifndef TRI_SIM_SIM_MAIL_ENTRY_H
#define TRI_SIM_SIM_MAIL_ENTRY_H

#include <stdbool.h>
#include <stdint.h>

#include "core/types.h"
#include "troupe/base.h"

typedef struct tri_sim_entry {
    tr_msg *msg;  // the key: its block stays the same until it is freed
    tri_cell *cell;
    uint64_t to_id, from_id;
    uint64_t number;  // within its pair of sender and receiver
    tr_nanos at;      // when it was first seen
    uint32_t audit;   // number of the last audit that found it in a mailbox
    bool urgent;
    bool may_vanish;  // its actor is virtual, or its options say drop
} tri_sim_entry;

struct tri_sim_mail;

/* Enters the messages that are new in the cell's mailbox. */
void tri_sim_entries_read(struct tri_sim_mail *mail, tri_cell *cell);

/* Removes the entry of a message, if it has one. */
void tri_sim_entry_remove(struct tri_sim_mail *mail, const tr_msg *msg);
/*
 * Removes the entry of a message whose handler is entered, and checks that no
 * later message of its sender was handled before. `flags`: of the handler.
 */
void tri_sim_entry_handled(struct tri_sim_mail *mail, const tr_msg *msg,
                           uint32_t flags);

/*
 * Removes an entry whose message is in no mailbox. Fails the run, unless the
 * message may vanish.
 */
void tri_sim_entry_missed(struct tri_sim_mail *mail, tri_sim_entry *it);
/* Reports the message that tri_sim_entries_read found to be freed, if any. */
void tri_sim_entries_report_lost(struct tri_sim_mail *mail);

#endif
