/*
 * teller.c - tellers that fail on purpose, and the branches they work for.
 *
 * A teller works in on_run: it makes transfers in straight-line code, as fast
 * as they are answered. After a while it fails, in one of three ways, mostly in
 * the middle of a transfer. No code here handles the failure: the branch's
 * policy restarts the teller, and the account completes the transfer.
 */
#include "bank.h"

typedef struct Teller {
    const Bank *bank;
    tr_ref clerk;
    uint64_t random;
} Teller;

/* Returns random numbers that a simulated run repeats (xorshift64*). */
static uint64_t next_random(Teller *self)
{
    self->random ^= self->random >> 12;
    self->random ^= self->random << 25;
    self->random ^= self->random >> 27;
    return self->random * UINT64_C(0x2545f4914f6cdd1d);
}

/* ---- ways to fail ---- */

static void deep_down(tr_ctx *ctx)
{
    tr_panic(ctx, "a panic from deep down");  // leaves on_run from here
}

static uint32_t any_account(Teller *self)
{
    return (uint32_t)((next_random(self) >> 16) % self->bank->accounts);
}

/* Fails with a transfer under way whose answer no turn will await. */
static tr_err fail_somehow(tr_ctx *ctx, Teller *self)
{
    (void)tr_async(ctx, bank_account(ctx, any_account(self)), TR_SECONDS(30),
                   Transfer, .cents = 1, .to = any_account(self));
    uint64_t way = (next_random(self) >> 32) % 3;
    if (way == 0) {
        deep_down(ctx);
    }
    TR_ASSERT(ctx, way != 1);
    return tr_fail(ctx, TR_EUSER, "an error that was returned");
}

/* ---- work ---- */

static void transfer(tr_ctx *ctx, Teller *self)
{
    uint32_t from = any_account(self), to = any_account(self);
    if (from == to) {
        to = (to + 1) % self->bank->accounts;
    }
    int64_t cents = (int64_t)(1 + (next_random(self) >> 40) % 500);
    Accepted accepted;
    tr_nanos start = tr_now(ctx);
    tr_err err = tr_ask(ctx, bank_account(ctx, from), &accepted, TR_SECONDS(30),
                        Transfer, .to = to, .cents = cents);
    if (!tr_stopping(ctx)) {
        tr_tell(ctx, self->clerk, Done, .id = accepted.id, .to = to,
                .cents = cents, .took = tr_now(ctx) - start,
                .err = (uint32_t)err);
    }
}

static tr_err teller_run(tr_ctx *ctx, Teller *self)
{
    // Each incarnation uses other numbers; the state must not be 0.
    self->random += tr_incarnation(ctx) * UINT64_C(0x9e3779b97f4a7c15);
    self->random |= 1;
    tr_nanos life = TR_MS(500 + (next_random(self) >> 32) % 4000);
    tr_nanos end = tr_now(ctx) + life;
    while (!tr_stopping(ctx)) {
        transfer(ctx, self);
        if (tr_now(ctx) >= end) {
            return fail_somehow(ctx, self);
        }
        if (self->bank->think > 0) {
            TR_TRY(tr_sleep(ctx, self->bank->think));
        }
    }
    return TR_OK;
}

TR_ACTOR(teller, Teller, TR_HOOK(on_run, teller_run));

/* ---- branches ---- */

/* A teller may fail often; a branch fails after 20 failures in a second. */
static tr_err branch_start(tr_ctx *ctx, Branch *self)
{
    for (uint32_t i = 0; i < self->bank->tellers; i++) {
        uint64_t random = self->bank->seed * 1000003 + self->number * 1009 + i;
        tr_ref ref =
            tr_spawn(ctx, teller, .name = tr_textf(ctx, "teller-%u", i),
                     TR_INIT(teller, .bank = self->bank, .clerk = self->clerk,
                             .random = random),
                     .supervision = TR_SUPERVISE(.max_restarts = 20,
                                                 .within = TR_SECONDS(1),
                                                 .backoff_min = TR_MS(1),
                                                 .backoff_max = TR_MS(100)));
        TR_TRY(tr_ref_err(ref));
    }
    return TR_OK;
}

TR_ACTOR_PUBLIC(branch, Branch, TR_HOOK(pre_start, branch_start));
