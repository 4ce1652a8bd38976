/* bank.h - the protocol of a small bank, which the API tests talk to. */
#ifndef TROUPE_TEST_BANK_H
#define TROUPE_TEST_BANK_H

#include <troupe/troupe.h>

TR_MESSAGE(Balance, (int64_t, cents));
TR_REQUEST(Deposit, Balance, (int64_t, cents), (const char *, memo));
TR_REQUEST(Withdraw, Balance, (int64_t, cents));
TR_REQUEST(Transfer, Balance, (tr_ref, to), (int64_t, cents));
TR_REQUEST(GetBalance, Balance);
TR_PROTOCOL(AccountRef, Deposit, Withdraw, Transfer, GetBalance);

TR_STATE(Account, (int64_t, cents), (const char *, last_memo));
TR_ACTOR_DECLARE(account, Account);

tr_err bank_node(tr_system *sys, uint32_t index, void *user);

#endif
