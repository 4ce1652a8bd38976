/*
 * watchman.c - asks some accounts, round after round, whether they answer.
 *
 * With this many accounts every node has some of them. So a round that began
 * after a node was killed ends when other nodes have taken over its accounts.
 */
#include "bank.h"

enum { WATCHED_MAX = 64 };

/* Returns true if all watched accounts have answered. */
static bool watch_round(tr_ctx *ctx, const Bank *bank)
{
    tr_future views[WATCHED_MAX];
    uint32_t count =
        bank->accounts < WATCHED_MAX ? bank->accounts : WATCHED_MAX;
    bool all = true;
    for (uint32_t i = 0; i < count; i++) {
        views[i] = tr_async(ctx, bank_account(ctx, i), TR_SECONDS(30), GetView);
    }
    for (uint32_t i = 0; i < count; i++) {
        View view;
        all &= tr_await(ctx, views[i], GetView, &view) == TR_OK;
    }
    return all;
}

static tr_err watchman_run(tr_ctx *ctx, Watchman *self)
{
    while (!tr_stopping(ctx)) {
        tr_nanos begun = tr_now(ctx);
        if (watch_round(ctx, self->bank)) {
            tr_tell(ctx, self->clerk, Round, .begun = begun,
                    .ended = tr_now(ctx));
        }
        TR_TRY(tr_sleep(ctx, self->bank->watch));
    }
    return TR_OK;
}

TR_ACTOR_PUBLIC(watchman, Watchman, TR_HOOK(on_run, watchman_run));
