/*
 * account.c - an account: a virtual, persistent actor that never loses a cent.
 *
 * A transfer changes two accounts, each with a save of its own, and the node
 * may be killed between any two instructions. So a transfer is done in three
 * saves, and from the state after each of them the rest can be completed:
 *
 *   1. The debtor saves: less money, and the transfer in `owed`, its outbox.
 *      Now the transfer is accepted: the teller is answered, and the transfer
 *      will be completed.
 *   2. The debtor sends a Credit request to the creditor. The creditor saves:
 *      more money, and the id in `credited`. If the id is in `credited`
 *      already, nothing changes and the answer is the same, so a Credit may be
 *      sent twice.
 *   3. When the creditor has answered, the debtor saves an outbox without the
 *      transfer.
 *
 * An account that starts with a transfer in its outbox, after a failure or on
 * another node, sends the Credit again. An account that gets no message does
 * not start; so the director asks every account before it opens (director.c).
 *
 * `credited` is short. When it is full the creditor asks the debtors which
 * transfers are still in their outboxes, and forgets the others. A Credit may
 * have waited so long that its id is forgotten already: a node was lost, and
 * the debtor's next activation has sent the Credit by another way. So the
 * creditor asks the debtor before it believes a Credit. This relies on reads
 * being as of the owner (rule 70 (clusters)): an activation that was replaced
 * would answer from an old outbox.
 *
 * There is no cycle of waits: IsOwed is answered from the saved state, even
 * while its account waits.
 *
 * Invariant: cents == BANK_START_CENTS + paid_in - paid_out, and the paid_out
 * of all accounts together is their paid_in plus what is still owed.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "bank.h"

enum {
    OWED_MAX = 8,       // transfers in the outbox of one account
    CREDITED_MAX = 16,  // ids in `credited`
    FAILS_ONE_IN = 2000,
};

#define CREDIT_TIMEOUT TR_SECONDS(10)
#define AGAIN_AFTER    TR_MS(200)

TR_MESSAGE(Owed, (uint64_t, id), (uint32_t, to), (int64_t, cents));
TR_STATE(Account, (int64_t, cents), (uint64_t, sent), (uint64_t, received),
         (int64_t, paid_out), (int64_t, paid_in), (list, Owed, owed),
         (fixed, uint64_t, credited, CREDITED_MAX));
TR_MESSAGE(SendAgain, (uint64_t, id));

tr_ref(bank_account)(tr_from from, uint32_t number)
{
    char key[12];
    char *at = key + sizeof(key);
    *--at = '\0';
    do {
        *--at = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    return tr_virtual(from, "account", at);
}

static uint32_t own_number(tr_ctx *ctx)
{
    return (uint32_t)strtoul(tr_key(ctx), NULL, 10);
}

/* ---- the debtor ---- */

/*
 * Returns a copy of `self` with one transfer more in its outbox; it lives until
 * the handler returns.
 */
static Account with_owed(tr_ctx *ctx, const Account *self, Owed more)
{
    Account next = *self;
    Owed *owed = tr_scratch(ctx, (self->owed.count + 1) * sizeof(*owed));
    for (size_t i = 0; i < self->owed.count; i++) {
        owed[i] = self->owed.at[i];
    }
    owed[self->owed.count] = more;
    next.owed.at = owed;
    next.owed.count++;
    return next;
}

static Account without_owed(tr_ctx *ctx, const Account *self, uint64_t id)
{
    Account next = *self;
    Owed *owed = tr_scratch(ctx, self->owed.count * sizeof(*owed));
    next.owed.count = 0;
    for (size_t i = 0; i < self->owed.count; i++) {
        if (self->owed.at[i].id != id) {
            owed[next.owed.count++] = self->owed.at[i];
        }
    }
    next.owed.at = owed;
    return next;
}

/* Returns the transfer in the outbox; NULL: it is settled. */
static const Owed *find_owed(const Account *self, uint64_t id)
{
    for (size_t i = 0; i < self->owed.count; i++) {
        if (self->owed.at[i].id == id) return &self->owed.at[i];
    }
    return NULL;
}

/*
 * Step 3: runs as a turn of its own when the creditor has answered. After an
 * error the transfer is sent again, this one alone: each one in the outbox has
 * its own request under way, or its own timer.
 */
static tr_err on_credited(tr_ctx *ctx, void *state, const void *reply,
                          tr_err err, void *user)
{
    Account *self = state;
    uint64_t id = *(uint64_t *)user;
    (void)reply;
    tr_free(ctx, user);
    if (err != TR_OK) {
        (void)tr_after(ctx, AGAIN_AFTER, SendAgain, .id = id);
        return TR_OK;
    }
    if (find_owed(self, id) == NULL) {
        return TR_OK;  // asked twice, answered twice
    }
    Account next = without_owed(ctx, self, id);
    return tr_persist(ctx, self,
                      &next);  // after an error the account starts again
}

static void ask_for_credit(tr_ctx *ctx, const Owed *owed)
{
    uint64_t *id = tr_alloc(ctx, sizeof(*id));
    *id = owed->id;
    tr_ask_then_with(ctx, bank_account(ctx, owed->to), CREDIT_TIMEOUT,
                     on_credited, id, Credit, .id = owed->id,
                     .cents = owed->cents);
}

static tr_err on_send_again(tr_ctx *ctx, Account *self, const SendAgain *m)
{
    const Owed *owed = find_owed(self, m->id);
    if (owed != NULL) {
        ask_for_credit(ctx, owed);
    }
    return TR_OK;
}

/* Runs after each start: the first one, after a failure, or on another node. */
static tr_err account_started(tr_ctx *ctx, Account *self)
{
    if (self->owed.count == 0) {
        return TR_OK;
    }
    tr_tell(ctx, tr_lookup(ctx, "/user/clerk"), Resumed,
            .count = (uint32_t)self->owed.count);
    for (size_t i = 0; i < self->owed.count; i++) {
        ask_for_credit(ctx, &self->owed.at[i]);
    }
    return TR_OK;
}

/*
 * Fails at the worst moment: the money is taken, and the creditor does not know
 * yet. One in FAILS_ONE_IN transfers fails here; in a simulation more of them
 * do, or sleep long enough for the node to be killed.
 */
static tr_err worst_moment(tr_ctx *ctx, uint64_t id)
{
    uint64_t mixed = id * UINT64_C(0x9e3779b97f4a7c15) >> 32;
    bool fails = mixed % FAILS_ONE_IN == 0;
    fails |= TR_BUGGIFY(ctx, 0.005);
    TR_ASSERT(ctx, !fails);
    return TR_BUGGIFY(ctx, 0.02) ? tr_sleep(ctx, TR_MS(300)) : TR_OK;
}

static tr_err on_transfer(tr_ctx *ctx, Account *self, const Transfer *m)
{
    uint64_t number = own_number(ctx);
    if (m->cents <= 0 || m->cents > self->cents || m->to == number) {
        return tr_refuse(ctx, m, TR_EINVAL,
                         "%" PRId64 " of %" PRId64 " cents to %" PRIu32,
                         m->cents, self->cents, m->to);
    }
    if (self->owed.count == OWED_MAX) {
        return tr_refuse(ctx, m, TR_EINVAL, "%d transfers are on their way",
                         OWED_MAX);
    }
    Owed owed = {.id = number << BANK_SEQUENCE_BITS | (self->sent + 1),
                 .to = m->to,
                 .cents = m->cents};
    Account next = with_owed(ctx, self, owed);
    next.cents -= m->cents;
    next.paid_out += m->cents;
    next.sent++;
    TR_TRY(tr_persist(ctx, self, &next));  // step 1
    TR_TRY(worst_moment(ctx, owed.id));
    ask_for_credit(ctx, &owed);  // step 2
    return tr_reply(ctx, m, .id = owed.id);
}

/* Runs even while this account waits: *self is always what is saved. */
static tr_err on_is_owed(tr_ctx *ctx, const Account *self, const IsOwed *m)
{
    return tr_reply(ctx, m, .yes = find_owed(self, m->id) != NULL);
}

/* ---- the creditor ---- */

static uint64_t *slot_with(Account *self, uint64_t id)
{
    for (int i = 0; i < CREDITED_MAX; i++) {
        if (self->credited[i] == id) return &self->credited[i];
    }
    return NULL;
}

static bool must_forget(tr_ctx *ctx, Account *self)
{
    return slot_with(self, 0) == NULL || TR_BUGGIFY(ctx, 0.2);
}

/* Frees the slots of transfers that are no longer in an outbox. */
static void forget_settled(tr_ctx *ctx, Account *next)
{
    for (int i = 0; i < CREDITED_MAX; i++) {
        uint64_t id = next->credited[i];
        Owing owing;
        if (id != 0 &&
            tr_ask(ctx, bank_account(ctx, bank_debtor(id)), &owing,
                   CREDIT_TIMEOUT, IsOwed, .id = id) == TR_OK &&
            !owing.yes) {
            next->credited[i] = 0;
        }
    }
}

static tr_err on_credit(tr_ctx *ctx, Account *self, const Credit *m)
{
    if (slot_with(self, m->id) != NULL) {
        return tr_reply(ctx, m, .id = m->id);
    }
    Owing owing;
    TR_OR_REFUSE(ctx, m,
                 tr_ask(ctx, bank_account(ctx, bank_debtor(m->id)), &owing,
                        CREDIT_TIMEOUT, IsOwed, .id = m->id));
    if (!owing.yes) {
        return tr_reply(ctx, m, .id = m->id);  // credited long ago
    }
    Account next = *self;
    if (must_forget(ctx, &next)) {
        forget_settled(ctx, &next);
    }
    uint64_t *slot = slot_with(&next, 0);
    if (slot == NULL) {
        return tr_refuse(ctx, m, TR_EINVAL, "%d credits are not settled",
                         CREDITED_MAX);
    }
    *slot = m->id;
    next.cents += m->cents;
    next.paid_in += m->cents;
    next.received++;
    TR_TRY(tr_persist(ctx, self, &next));
    TR_TRY(worst_moment(ctx, m->id + 1));
    return tr_reply(ctx, m, .id = m->id);
}

/* ---- both ---- */

static tr_err on_get_view(tr_ctx *ctx, const Account *self, const GetView *m)
{
    return tr_reply(ctx, m, .number = own_number(ctx), .cents = self->cents,
                    .sent = self->sent, .received = self->received,
                    .paid_out = self->paid_out, .paid_in = self->paid_in,
                    .owed = (uint32_t)self->owed.count);
}

TR_ACTOR(account, Account, TR_HOOK(post_start, account_started),
         TR_ON(Transfer, on_transfer), TR_ON(Credit, on_credit),
         TR_ON(SendAgain, on_send_again), TR_ON_INTERLEAVE(IsOwed, on_is_owed),
         TR_ON_READ(GetView, on_get_view));

tr_err bank_host_accounts(tr_system *sys, const Bank *bank, tr_storage *store)
{
    // A quarter of the accounts is in the memory of a node, at most.
    return tr_host(
        sys, account, .storage = store,
        .max_active = bank->accounts < 400 ? 100 : bank->accounts / 4,
        .spawn = TR_OPTIONS(tr_spawn_options,
                            TR_INIT(account, .cents = BANK_START_CENTS)));
}
