/*
 * bank_sim.c - three banks under faults: no cent is made or lost.
 *
 * Each node is a bank. The balances are in memory that the check after every
 * step can read: balances and the money in transfer always add up. Accounts
 * fail and are restarted, handlers are slow, nodes are killed and boot again
 * with new accounts. Each bank begins twenty transfers per second.
 *
 * Covers TE3 and TE4.
 */
#include <inttypes.h>

#include <troupe/troupe.h>

enum {
    NODES = 3,
    ACCOUNTS = 10,
    TRANSFERS = 1200,
    START_CENTS = 1000,
    TRANSFERS_PER_SECOND = 20 * NODES,
};

TR_MESSAGE(Transfer, (uint32_t, to), (int64_t, cents));
TR_MESSAGE(Deposited);
TR_REQUEST(Deposit, Deposited, (int64_t, cents));

typedef struct branch {
    tr_ref accounts[ACCOUNTS];
    int64_t cents[ACCOUNTS];
    int64_t on_the_way;  // withdrawn and not yet deposited
} branch;

typedef struct bank {
    branch branches[NODES];
    uint64_t begun, done;
} bank;

typedef struct Account {
    bank *bank;
    uint32_t node, index;
} Account;

static tr_err on_transfer(tr_ctx *ctx, Account *self, const Transfer *m)
{
    branch *b = &self->bank->branches[self->node];

    if (b->cents[self->index] < m->cents) {
        return TR_OK;
    }
    if (TR_BUGGIFY(ctx, 0.01)) {
        return tr_fail(ctx, TR_EFAILED, "before the money was taken");
    }
    b->cents[self->index] -= m->cents;
    b->on_the_way += m->cents;
    if (TR_BUGGIFY(ctx, 0.05)) {
        TR_TRY(tr_sleep(ctx, TR_MS(200)));
    }
    // If the answer is lost, the money stays counted as in transfer.
    TR_TRY(tr_ask(ctx, b->accounts[m->to], NULL, TR_SECONDS(2), Deposit,
                  .cents = m->cents));
    self->bank->done++;
    return TR_OK;
}

static tr_err on_deposit(tr_ctx *ctx, const Account *self, const Deposit *m)
{
    branch *b = &self->bank->branches[self->node];

    if (TR_BUGGIFY(ctx, 0.01)) {
        return tr_fail(ctx, TR_EFAILED, "before the money was there");
    }
    b->on_the_way -= m->cents;
    b->cents[self->index] += m->cents;
    return tr_reply(ctx, m);
}

TR_ACTOR(account, Account, TR_ON(Transfer, on_transfer),
         TR_ON_INTERLEAVE(Deposit, on_deposit));

static tr_err node(tr_system *sys, uint32_t index, void *user)
{
    bank *it = user;
    branch *b = &it->branches[index];

    b->on_the_way = 0;
    for (uint32_t i = 0; i < ACCOUNTS; i++) {
        b->cents[i] = START_CENTS;
        b->accounts[i] =
            tr_spawn(sys, account,
                     TR_INIT(account, .bank = it, .node = index, .index = i));
    }
    return TR_OK;
}

static tr_err workload(tr_sim *sim, void *user)
{
    bank *it = user;

    it->begun = 0;
    it->done = 0;
    for (int i = 0; i < TRANSFERS; i++) {
        tr_sim_advance(sim, TR_SECONDS(1) / TRANSFERS_PER_SECOND);
        uint32_t n = (uint32_t)tr_sim_random(sim, NODES);
        uint32_t from = (uint32_t)tr_sim_random(sim, ACCOUNTS);
        uint32_t to = (uint32_t)tr_sim_random(sim, ACCOUNTS - 1);
        tr_system *sys = tr_sim_node(sim, n);
        if (sys == NULL) {
            continue;
        }
        it->begun++;
        tr_tell(sys, it->branches[n].accounts[from], Transfer,
                .to = to + (to >= from), .cents = 1);
    }
    return TR_OK;
}

static tr_err adds_up(tr_sim *sim, void *user)
{
    const bank *it = user;

    for (uint32_t n = 0; n < NODES; n++) {
        const branch *b = &it->branches[n];
        int64_t sum = b->on_the_way;
        if (tr_sim_node(sim, n) == NULL) {
            continue;
        }
        for (uint32_t i = 0; i < ACCOUNTS; i++) {
            sum += b->cents[i];
        }
        if (sum != ACCOUNTS * START_CENTS) {
            return tr_sim_fail(sim, "bank %" PRIu32 " holds %" PRId64, n, sum);
        }
    }
    return TR_OK;
}

static tr_err work_was_done(tr_sim *sim, void *user)
{
    const bank *it = user;

    if (it->done < it->begun / 4) {
        return tr_sim_fail(sim, "only %" PRIu64 " of %" PRIu64 " transfers",
                           it->done, it->begun);
    }
    return TR_OK;
}

int main(int argc, char **argv)
{
    bank it = {0};

    return tr_sim_main(
        argc, argv,
        TR_OPTIONS(tr_sim_options, .seed = 1, .nodes = NODES, .node = node,
                   .workload = workload, .invariant = adds_up,
                   .at_end = work_was_done, .user = &it,
                   .faults = TR_OPTIONS(
                       tr_faults, .node_kill = 0.0002, .node_pause = 0.0002,
                       .clock_skew = 0.0002, .early_wake = 0.01,
                       .pause_max = TR_SECONDS(3))));
}
