/*
 * bank.h - the messages and types that the parts of the demo bank share.
 *
 * The bank is a cluster of three nodes and a client. Each of the four is a
 * child process that the parent starts and ends (parent.c), or a simulated node
 * (simulated.c). The nodes share the accounts; the client has the tellers:
 *
 *   on each node:
 *   account/0 ...         virtual and persistent, each on one of the nodes
 *   /user/clerk           passes on figures and changes of members
 *
 *   on the client:
 *   /user/clerk           the same, and acknowledged transfers
 *   /user/watchman        asks some accounts of all nodes whether they answer
 *   /user/director        recovers, opens the branches, closes them
 *       branch-0 ...      supervises its tellers, which fail on purpose
 *           teller-0 ...  asks accounts to transfer, again and again
 *
 * Each of the four, a member, writes a stream of records. The process or
 * workload that outlives the members puts them into a ledger (ledger.h), which
 * checks every promise.
 */
#ifndef DEMO_BANK_H
#define DEMO_BANK_H

#include <troupe/troupe.h>

/* ---- accounts ---- */

enum {
    BANK_START_CENTS = 100000,
    BANK_SEQUENCE_BITS = 40,  // of an id; above them: the debtor's number
    BANK_ACCOUNTS_MAX = 1000000,
};

/* One account, as it is stored. */
TR_MESSAGE(View, (uint32_t, number), (int64_t, cents), (uint64_t, sent),
           (uint64_t, received), (int64_t, paid_out), (int64_t, paid_in),
           (uint32_t, owed));
TR_REQUEST(GetView, View);

/* Answered when the transfer is saved and so will be completed. */
TR_MESSAGE(Accepted, (uint64_t, id));
TR_REQUEST(Transfer, Accepted, (uint32_t, to), (int64_t, cents));

/* Credits a transfer; may be sent again: account.c says when and why. */
TR_MESSAGE(Credited, (uint64_t, id));
TR_REQUEST(Credit, Credited, (uint64_t, id), (int64_t, cents));
TR_MESSAGE(Owing, (bool, yes));
TR_REQUEST(IsOwed, Owing, (uint64_t, id));

/* Returns the ref of the account with this number, on whatever node it is. */
tr_ref bank_account(tr_from from, uint32_t number);
#define bank_account(from, number) __extension__(bank_account)(from, number)

static inline uint32_t bank_debtor(uint64_t id)
{
    return (uint32_t)(id >> BANK_SEQUENCE_BITS);
}

static inline uint64_t bank_sequence(uint64_t id)
{
    return id & ((UINT64_C(1) << BANK_SEQUENCE_BITS) - 1);
}

/* ---- the cluster ---- */

enum {
    BANK_NODES = 3,
    BANK_CLIENT = BANK_NODES,  // index of the client among the members
    BANK_MEMBERS,
};

#define BANK_LEASE TR_SECONDS(3)  // so a killed node is replaced after 5 s

/* ---- the records of a member ---- */

enum { BANK_ADDRESS_MAX = 32 };  // a longer address is cut

typedef enum RecordKind {
    RECORD_ACK = 1,  // a transfer was accepted, and its teller told
    RECORD_FIGURES,  // sums since the member began
    RECORD_UP,       // the member has joined the cluster
    RECORD_CHANGE,   // of a member of the cluster, as this one sees it
    RECORD_ROUND,    // the watchman's accounts have answered
    RECORD_VIEW,     // one account, while no transfer is under way
    RECORD_OPEN,     // all views are written; the tellers begin
    RECORD_CLOSED,   // no teller works any more
} RecordKind;

typedef struct Record {  // read by the same program, so raw bytes
    RecordKind kind;
    union {
        struct {
            uint64_t id;
            uint32_t to;
            int64_t cents;
            tr_nanos took;
        } ack;
        struct {
            uint64_t failures, restarts;
            uint64_t resumed;  // transfers that an account found unfinished
            uint64_t refused, unknown;
            uint64_t activations, active;
        } figures;
        struct {
            tr_member_change what;
            uint32_t slot;
            tr_nanos at;  // by tr_now
            char address[BANK_ADDRESS_MAX];
        } change;
        struct {
            tr_nanos begun, ended;  // by tr_now
        } round;
        View view;
        struct {
            uint32_t missing;  // tellers that were missing at the end
        } closed;
    };
} Record;

/* ---- the bank ---- */

/* The settings of a bank; constant while the member runs. */
typedef struct Bank {
    uint32_t accounts;
    uint32_t branches;
    uint32_t tellers;  // of each branch
    uint64_t seed;
    bool is_client;
    tr_nanos watch;   // the watchman's pause between two rounds
    tr_nanos think;   // a teller's pause between two transfers
    bool audit_only;  // no tellers: read every account, then end
    /* Writes some records, at most BANK_BATCH of them; may wait. */
    tr_err (*tell)(tr_ctx *ctx, const struct Bank *bank, const Record *records,
                   size_t count);
    /* Waits until the bank is to be closed. */
    tr_err (*wait_for_end)(tr_ctx *ctx, const struct Bank *bank);
    void *user;  // argument of both functions
} Bank;

enum { BANK_BATCH = 64 };  // a batch is one atomic write to a pipe

/* Lets the node host accounts on the store. */
tr_err bank_host_accounts(tr_system *sys, const Bank *bank, tr_storage *store);

/*
 * Makes the system a member: hosts accounts on the store, spawns the clerk and
 * joins the cluster. The client, which has no store, then gets its watchman and
 * its director. This is the node function of processes and of the simulation.
 */
tr_err bank_open(tr_system *sys, const Bank *bank, tr_storage *store);

/* Spawns a director that reads every account of an open bank and ends. */
tr_ref bank_audit(tr_system *sys, const Bank *bank);

/* ---- tellers ---- */

/* One transfer, as its teller saw it. */
TR_MESSAGE(Done, (uint64_t, id), (uint32_t, to), (int64_t, cents),
           (int64_t, took), (uint32_t, err));

typedef struct Branch {
    const Bank *bank;
    tr_ref clerk;
    uint32_t number;
} Branch;

TR_ACTOR_DECLARE(branch, Branch);

/* ---- the clerk ---- */

typedef struct Clerk {
    const Bank *bank;
    Record waiting[BANK_BATCH];
    size_t count;
    Record figures;
} Clerk;

TR_ACTOR_DECLARE(clerk, Clerk);

/* From the watchman: all of its accounts have answered. */
TR_MESSAGE(Round, (int64_t, begun), (int64_t, ended));
/* An account has started and found this many unfinished transfers. */
TR_MESSAGE(Resumed, (uint32_t, count));
/* From the director: one account, while no transfer is under way. */
TR_MESSAGE(Seen, (nested, View, view));
/* Answered when all earlier records, and then this one, are written. */
TR_REQUEST(Announce, tr_none, (uint32_t, kind), (uint32_t, missing));

/* ---- the watchman ---- */

typedef struct Watchman {
    const Bank *bank;
    tr_ref clerk;
} Watchman;

TR_ACTOR_DECLARE(watchman, Watchman);

/* ---- the director ---- */

typedef struct Director {
    const Bank *bank;
    tr_ref clerk;
} Director;

TR_ACTOR_DECLARE(director, Director);

#endif
