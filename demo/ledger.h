/*
 * ledger.h - what the bank promised, and whether it was kept.
 *
 * The ledger outlives the members whose records it reads. It notes each
 * transfer that a teller was told is accepted. Whenever a client has read every
 * account, the ledger compares.
 *
 * Threads: one at a time.
 */
#ifndef DEMO_LEDGER_H
#define DEMO_LEDGER_H

#include "bank.h"

enum { LEDGER_BUCKETS = 64 * 16 };  // of times: 16 for each power of two

/* What the ledger knows of one account. */
typedef struct Entry {
    uint64_t sent;  // highest sequence number that was acknowledged
    uint64_t received;
    int64_t paid_out, paid_in;
} Entry;

/* The result of the last reading of all accounts. */
typedef struct Audit {
    uint32_t seen;  // accounts
    int64_t cents;  // sum of all accounts
    uint64_t owed;  // transfers still under way
    uint64_t sent, received;
    uint32_t overdrawn;  // accounts below zero
    uint32_t wrong;      // accounts whose own sums are wrong
    uint32_t short_of;   // accounts that lack an acknowledged transfer
} Audit;

/* Figures of one running member, or of all those that have ended. */
typedef struct Figures {
    uint64_t failures, restarts, resumed, refused, unknown, activations;
    uint64_t active;
} Figures;

typedef struct Ledger {
    uint32_t accounts;
    Entry *entries;
    uint64_t acknowledged;
    uint64_t buckets[LEDGER_BUCKETS];
    Figures now[BANK_MEMBERS], before;
    Audit audit;
    uint32_t audits;  // complete readings of all accounts
    uint32_t bad_audits;
    uint32_t missing;   // tellers that were missing when a client closed
    bool open, closed;  // state of the running client
    bool up[BANK_MEMBERS];
    tr_nanos round_begun, round_ended;  // of the watchman's last round
} Ledger;

void ledger_init(Ledger *ledger, uint32_t accounts);
void ledger_fini(Ledger *ledger);
/* Begins with another incarnation of a member. */
void ledger_next(Ledger *ledger, uint32_t member);
/* Prepares for another reading of all accounts by the same client. */
void ledger_look_again(Ledger *ledger);
void ledger_take(Ledger *ledger, uint32_t member, const Record *record);

/* Returns true if the last reading covered all accounts and found no error. */
bool ledger_audit_held(const Ledger *ledger);
int64_t ledger_money(const Ledger *ledger);  // what all accounts must have
Figures ledger_figures(const Ledger *ledger);
/* Returns the time that this percentage of the transfers did not exceed. */
tr_nanos ledger_percentile(const Ledger *ledger, uint32_t percent);

#endif
