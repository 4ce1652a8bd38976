/*
 * ledger.h - what was promised by the nodes, and whether it was kept.
 *
 * The ledger lives longer than the nodes that tell it records. It notes each
 * transfer that a teller was told is accepted; whenever a node, new or last,
 * has looked at every account, it compares.
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

/* What the last look at all accounts has shown. */
typedef struct Audit {
    uint32_t seen;  // accounts
    int64_t cents;  // of all
    uint64_t owed;  // transfers still on their way
    uint64_t sent, received;
    uint32_t overdrawn;  // accounts below zero
    uint32_t wrong;      // accounts whose own sums do not add up
    uint32_t short_of;   // accounts that lack an acknowledged transfer
} Audit;

/* Figures of the node that runs, and the sum of those that have ended. */
typedef struct Figures {
    uint64_t failures, restarts, resumed, refused, unknown, activations;
    uint64_t active;
} Figures;

typedef struct Ledger {
    uint32_t accounts;
    Entry *entries;
    uint64_t acknowledged;
    uint64_t buckets[LEDGER_BUCKETS];
    Figures now, before;
    Audit audit;
    uint32_t audits;  // that were complete
    uint32_t bad_audits;
    uint32_t missing;   // tellers that were not there when a node closed
    bool open, closed;  // the node that runs
} Ledger;

void ledger_init(Ledger *ledger, uint32_t accounts);
void ledger_fini(Ledger *ledger);
/* Another node begins. */
void ledger_next_node(Ledger *ledger);
/* The same node will look at all accounts once more. */
void ledger_look_again(Ledger *ledger);
void ledger_take(Ledger *ledger, const Record *record);

/* Adds another bank's: sums, but no entries. */
void ledger_add(Ledger *ledger, const Ledger *other);

/* True if the last look was at all accounts, and nothing was wrong. */
bool ledger_audit_held(const Ledger *ledger);
int64_t ledger_money(const Ledger *ledger);  // that there must be
Figures ledger_figures(const Ledger *ledger);
/* The time below which so many percent of the transfers were. */
tr_nanos ledger_percentile(const Ledger *ledger, uint32_t percent);

#endif
