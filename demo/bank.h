/*
 * bank.h - what the parts of the demo bank say to each other.
 *
 *   /user/director        opens the bank, shows progress, audits, reports
 *       accounts          owns the accounts: accounts/0, accounts/1, ...
 *       clerk             counts transfers and their times
 *       branch-0 ...      supervises its tellers, which fail on purpose
 *           teller-0 ...  asks accounts to transfer, again and again
 *
 * Where an account lives is known to account.c alone: today it is an actor in
 * memory.
 */
#ifndef DEMO_BANK_H
#define DEMO_BANK_H

#include <troupe/troupe.h>

/* ---- accounts ---- */

TR_MESSAGE(Balance, (int64_t, cents));
TR_REQUEST(GetBalance, Balance);
TR_REQUEST(Deposit, Balance, (int64_t, cents));
TR_REQUEST(Transfer, Balance, (tr_ref, to), (int64_t, cents));

enum { BANK_START_CENTS = 100000 };

/* What everybody knows; it does not change once the director has begun. */
typedef struct Bank {
    uint32_t accounts;
    uint32_t branches;
    uint32_t tellers;  // of each branch
    uint64_t seed;
    tr_nanos duration;  // TR_FOREVER: until asked
    tr_nanos think;     // a teller's pause between two transfers
    bool terminal;      // the progress line may be overwritten
    bool (*asked_to_end)(void);
    tr_ref *refs;  // of the accounts
} Bank;

/* Spawns all accounts below ctx's actor and fills bank->refs. */
tr_err bank_open_accounts(tr_ctx *ctx, const Bank *bank);
/* The account with this number. */
tr_ref bank_account(const Bank *bank, uint64_t number);

/* ---- tellers ---- */

/* One transfer, as its teller saw it. */
TR_MESSAGE(Done, (int64_t, nanos), (uint32_t, err));

typedef struct Branch {
    const Bank *bank;
    tr_ref clerk;
    uint32_t number;
} Branch;

TR_ACTOR_DECLARE(branch, Branch);

/* ---- the clerk ---- */

enum { BANK_BUCKETS = 64 * 16 };

typedef struct Sums {  // plain numbers: a copy is a snapshot
    uint64_t transfers;
    uint64_t refused;     // not enough money there, or a circle of waits
    uint64_t unanswered;  // must stay 0
    uint64_t buckets[BANK_BUCKETS];  // of the times of transfers
} Sums;

typedef struct Clerk {
    Sums sums;
} Clerk;

TR_ACTOR_DECLARE(clerk, Clerk);

TR_MESSAGE(Counted, (uint64_t, transfers), (uint64_t, refused),
           (uint64_t, unanswered), (int64_t, p50), (int64_t, p99));
TR_REQUEST(Count, Counted);

/* ---- the director ---- */

typedef struct Director {
    const Bank *bank;
    tr_ref clerk;
    bool right;  // every invariant held
} Director;

TR_ACTOR_DECLARE(director, Director);

#endif
