/*
 * event sourcing - an account that stores what happened, not its balance.
 *
 * Notice: handlers decide which events happen, TR_APPLY functions change the
 * state. tr_emit returns when the events are durable, all or none of them;
 * *self then has their effects. The same functions rebuild the state at each
 * start, from the newest snapshot and the events after it. Another actor reads
 * the events to answer a question that was unknown when they were stored.
 */
#include <inttypes.h>
#include <stdio.h>

#include <troupe/troupe.h>

/* ---- what happens ---- */

TR_MESSAGE(Deposited, (int64_t, cents), (const char *, memo));
TR_MESSAGE(Withdrawn, (int64_t, cents), (const char *, memo));
TR_MESSAGE(FeeTaken, (int64_t, cents));

// [snippet: events]
TR_STATE(Account, (int64_t, cents), (const char *, last_memo));

static void deposited(Account *self, const Deposited *e)
{
    self->cents += e->cents;
    self->last_memo = e->memo;  // the runtime copies it
}

static void withdrawn(Account *self, const Withdrawn *e)
{
    self->cents -= e->cents;
    self->last_memo = e->memo;
}

static void fee_taken(Account *self, const FeeTaken *e)
{
    self->cents -= e->cents;
}
// [end]

/* ---- the account ---- */

TR_MESSAGE(Balance, (int64_t, cents), (const char *, memo), (uint64_t, events));
TR_REQUEST(Deposit, Balance, (int64_t, cents), (const char *, memo));
TR_REQUEST(Withdraw, Balance, (int64_t, cents), (const char *, memo));
TR_REQUEST(GetBalance, Balance);

enum { FEE = 25 };

static tr_err on_deposit(tr_ctx *ctx, Account *self, const Deposit *m)
{
    TR_TRY(tr_emit(ctx, self, Deposited, .cents = m->cents, .memo = m->memo));
    return tr_reply(ctx, m, .cents = self->cents);
}

// [snippet: emit]
static tr_err on_withdraw(tr_ctx *ctx, Account *self, const Withdraw *m)
{
    if (self->cents < m->cents + FEE)
        return tr_refuse(ctx, m, TR_EUSER, "only %" PRId64 " cents are left",
                         self->cents);
    TR_TRY(tr_emit_all(ctx, self,
                       TR_EVENT(Withdrawn, .cents = m->cents, .memo = m->memo),
                       TR_EVENT(FeeTaken, .cents = FEE)));
    return tr_reply(ctx, m, .cents = self->cents);
}
// [end]

static tr_err on_balance(tr_ctx *ctx, const Account *self, const GetBalance *m)
{
    return tr_reply(ctx, m, .cents = self->cents, .memo = self->last_memo,
                    .events = tr_sequence(ctx));
}

TR_ACTOR(account, Account, TR_ON(Deposit, on_deposit),
         TR_ON(Withdraw, on_withdraw), TR_ON_READ(GetBalance, on_balance),
         TR_APPLY(Deposited, deposited), TR_APPLY(Withdrawn, withdrawn),
         TR_APPLY(FeeTaken, fee_taken), TR_SNAPSHOT_EVERY(3));

/* ---- a projection: what the bank has earned ---- */

TR_MESSAGE(Earned, (int64_t, cents));
TR_REQUEST(GetEarned, Earned, (const char *, key));
TR_STATE(Nothing, (bool, unused));

static tr_err on_earned(tr_ctx *ctx, Nothing *self, const GetEarned *m)
{
    tr_event_page page = {.more = true};
    int64_t cents = 0;
    (void)self;
    for (uint64_t next = 1; page.more;) {
        TR_TRY(tr_events_read(ctx, "account", m->key, next, &page));
        for (size_t i = 0; i < page.count; i++) {
            FeeTaken fee;
            next = page.events[i].sequence + 1;
            if (tr_event_decode(ctx, &page.events[i], FeeTaken, &fee) == TR_OK)
                cents += fee.cents;
        }
    }
    return tr_reply(ctx, m, .cents = cents);
}

TR_ACTOR(auditor, Nothing, TR_ON(GetEarned, on_earned));

/* ---- two runs of one program ---- */

static void show(tr_system *sys, tr_ref ref)
{
    Balance b;
    TR_MUST(tr_ask(sys, ref, &b, TR_SECONDS(30), GetBalance));
    printf("%" PRId64 " cents after %" PRIu64 " events, last: %s\n", b.cents,
           b.events, b.memo ? b.memo : "nothing");
    tr_drop(Balance, &b);
}

static void first_life(tr_system *sys, tr_ref ref)
{
    show(sys, ref);
    TR_MUST(tr_ask(sys, ref, NULL, TR_SECONDS(30), Deposit, .cents = 5000,
                   .memo = "salary"));
    TR_MUST(tr_ask(sys, ref, NULL, TR_SECONDS(30), Withdraw, .cents = 1200,
                   .memo = "rent"));
    tr_err err = tr_ask(sys, ref, NULL, TR_SECONDS(30), Withdraw,
                        .cents = 100000, .memo = "yacht");
    printf("yacht: %s\n", err == TR_EUSER ? "refused" : "bought");
    show(sys, ref);
}

static void second_life(tr_system *sys, tr_ref ref, tr_storage *store)
{
    Earned earned;
    show(sys, ref);
    TR_MUST(tr_ask(sys, ref, NULL, TR_SECONDS(30), Withdraw, .cents = 300,
                   .memo = "shoes"));
    show(sys, ref);
    tr_ref audit = tr_spawn(sys, auditor, .name = "audit", .storage = store);
    TR_MUST(tr_ask(sys, audit, &earned, TR_SECONDS(30), GetEarned,
                   .key = "/user/alice"));
    printf("the bank has earned %" PRId64 " cents\n", earned.cents);
}

int main(void)
{
    tr_storage *store;
    TR_MUST(tr_storage_memory(&store));
    for (int life = 1; life <= 2; life++) {
        tr_system *sys;
        TR_MUST(tr_system_open(&sys));
        tr_ref ref = tr_spawn(sys, account, .name = "alice", .storage = store);
        printf("life %d\n", life);
        if (life == 1)
            first_life(sys, ref);
        else
            second_life(sys, ref, store);
        TR_MUST(tr_system_close(sys, 0));
    }
    tr_storage_close(store);
    return 0;
}
