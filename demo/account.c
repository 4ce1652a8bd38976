/*
 * account.c - an account, and where accounts live.
 *
 * Invariant: money leaves *self before the deposit is asked for, and comes
 * back only if the deposit has certainly not happened.
 */
#include <inttypes.h>

#include "bank.h"

TR_STATE(Account, (int64_t, cents));

static tr_err on_get_balance(tr_ctx *ctx, const Account *self,
                             const GetBalance *m)
{
    return tr_reply(ctx, m, .cents = self->cents);
}

static tr_err on_deposit(tr_ctx *ctx, Account *self, const Deposit *m)
{
    self->cents += m->cents;
    return tr_reply(ctx, m, .cents = self->cents);
}

/*
 * Waits for the other account. If that one is waiting for us, directly or by
 * way of others, the ask returns TR_EDEADLOCK at once and we undo.
 */
static tr_err on_transfer(tr_ctx *ctx, Account *self, const Transfer *m)
{
    if (m->cents > self->cents) {
        return tr_refuse(ctx, m, TR_EINVAL, "only %" PRId64 " there",
                         self->cents);
    }
    self->cents -= m->cents;
    tr_err err =
        tr_ask(ctx, m->to, NULL, TR_SECONDS(30), Deposit, .cents = m->cents);
    if (tr_undelivered(err)) {
        self->cents += m->cents;
    }
    TR_OR_REFUSE(ctx, m, err);
    return tr_reply(ctx, m, .cents = self->cents);
}

TR_ACTOR(account, Account, TR_ON(Deposit, on_deposit),
         TR_ON(Transfer, on_transfer), TR_ON_READ(GetBalance, on_get_balance));

tr_err bank_open_accounts(tr_ctx *ctx, const Bank *bank)
{
    for (uint32_t i = 0; i < bank->accounts; i++) {
        bank->refs[i] = tr_spawn(ctx, account, .name = tr_textf(ctx, "%u", i),
                                 TR_INIT(account, .cents = BANK_START_CENTS));
        TR_TRY(tr_ref_err(bank->refs[i]));
    }
    return TR_OK;
}

tr_ref bank_account(const Bank *bank, uint64_t number)
{
    return bank->refs[number % bank->accounts];
}
