/*
 * director.c - what the client does in order: recover, open, wait, close.
 *
 * All of it is one on_run in straight-line code; it waits often and holds no
 * thread. Before the branches open, the director asks every account for its
 * balance, again and again until no transfer is under way: this starts the
 * accounts that were lost with a transfer in their outbox. Then no money
 * moves, and the balances can be checked to the cent.
 */
#include "bank.h"

enum {
    AT_ONCE = 256,  // requests in flight
    LOOKS_MAX = 600,
    TRIES_MAX = 100,  // when an account cannot be loaded
};

#define LOOK_AGAIN TR_MS(50)

/* ---- reading every account ---- */

/*
 * Adds to *owed what these accounts owe; tells the clerk of them, if asked to.
 */
static tr_err look_at(tr_ctx *ctx, const Director *self, uint32_t first,
                      uint64_t *owed, bool tell)
{
    tr_future views[AT_ONCE];
    uint32_t left = self->bank->accounts - first;
    uint32_t count = left < AT_ONCE ? left : AT_ONCE;
    for (uint32_t i = 0; i < count; i++) {
        views[i] = tr_async(ctx, bank_account(ctx, first + i), TR_SECONDS(30),
                            GetView);
    }
    for (uint32_t i = 0; i < count; i++) {
        View view;
        tr_err err = tr_await(ctx, views[i], GetView, &view);
        for (int tries = 0; err != TR_OK && tries < TRIES_MAX; tries++) {
            TR_TRY(tr_sleep(ctx, LOOK_AGAIN));
            err = tr_ask(ctx, bank_account(ctx, first + i), &view,
                         TR_SECONDS(30), GetView);
        }
        TR_TRY(err);
        *owed += view.owed;
        if (tell) {
            tr_tell(ctx, self->clerk, Seen, .view = view);
        }
    }
    return TR_OK;
}

static tr_err look_at_all(tr_ctx *ctx, const Director *self, uint64_t *owed,
                          bool tell)
{
    *owed = 0;
    for (uint32_t i = 0; i < self->bank->accounts; i += AT_ONCE) {
        TR_TRY(look_at(ctx, self, i, owed, tell));
    }
    return TR_OK;
}

/*
 * Reads all accounts until a whole round finds no transfer under way; then
 * tells the clerk. If a transfer never arrives, the clerk is told too, so that
 * the ledger can report it.
 */
static tr_err recover(tr_ctx *ctx, const Director *self)
{
    uint64_t owed = 1;
    for (int i = 0; i < LOOKS_MAX && owed > 0; i++) {
        TR_TRY(look_at_all(ctx, self, &owed, false));
        if (owed > 0) {
            TR_TRY(tr_sleep(ctx, LOOK_AGAIN));
        }
    }
    return look_at_all(ctx, self, &owed, true);
}

/* ---- branches ---- */

static tr_err open_branches(tr_ctx *ctx, Director *self)
{
    for (uint32_t i = 0; i < self->bank->branches; i++) {
        tr_ref ref =
            tr_spawn(ctx, branch, .name = tr_textf(ctx, "branch-%u", i),
                     TR_INIT(branch, .bank = self->bank, .clerk = self->clerk,
                             .number = i));
        TR_TRY(tr_started(ctx, ref, TR_SECONDS(30)));
    }
    return TR_OK;
}

static uint32_t missing_tellers(tr_ctx *ctx, const Bank *bank, uint32_t number)
{
    uint32_t missing = 0;
    for (uint32_t i = 0; i < bank->tellers; i++) {
        const char *path = tr_textf(ctx, "branch-%u/teller-%u", number, i);
        missing += tr_ref_err(tr_lookup(ctx, path)) != TR_OK;
    }
    return missing;
}

static tr_err close_branches(tr_ctx *ctx, Director *self, uint32_t *missing)
{
    for (uint32_t i = 0; i < self->bank->branches; i++) {
        *missing += missing_tellers(ctx, self->bank, i);
        tr_ref ref = tr_child(ctx, tr_textf(ctx, "branch-%u", i));
        tr_stop(ctx, ref);
        tr_err err = tr_join(ctx, ref, TR_SECONDS(30), NULL, NULL);
        if (err != TR_OK && err != TR_ENOENT) {
            return err;
        }
    }
    return TR_OK;
}

/* ---- on_run ---- */

static tr_err announce(tr_ctx *ctx, const Director *self, RecordKind kind,
                       uint32_t missing)
{
    return tr_ask(ctx, self->clerk, NULL, TR_SECONDS(30), Announce,
                  .kind = kind, .missing = missing);
}

static tr_err director_run(tr_ctx *ctx, Director *self)
{
    uint32_t missing = 0;
    TR_TRY(recover(ctx, self));
    TR_TRY(announce(ctx, self, RECORD_OPEN, 0));
    if (!self->bank->audit_only) {
        TR_TRY(open_branches(ctx, self));
        TR_TRY(self->bank->wait_for_end(ctx, self->bank));
        TR_TRY(close_branches(ctx, self, &missing));
    }
    TR_TRY(announce(ctx, self, RECORD_CLOSED, missing));
    tr_stop(ctx, tr_self(ctx));
    return TR_OK;
}

TR_ACTOR_PUBLIC(director, Director, TR_HOOK(on_run, director_run));
