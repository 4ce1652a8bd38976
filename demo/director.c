/*
 * director.c - the bank's day: open, watch, close the doors, audit, report.
 *
 * The whole day is one on_run in straight-line code; it waits often and holds
 * no thread. Invariants that are checked at the end: the sum of all balances
 * is what it was, none is negative, every request was answered, something was
 * done in every second, and every teller that failed is back at work.
 */
#include <inttypes.h>
#include <stdio.h>

#include "bank.h"

typedef struct Day {
    tr_nanos start;
    uint64_t before;   // transfers at the last look
    uint32_t stalls;   // seconds without a transfer
    uint32_t missing;  // tellers that were not there at the end
    Counted counted;
    int64_t sum;
    uint32_t overdrawn;  // accounts below zero
    tr_metrics_snapshot metrics;
} Day;

/* ---- opening ---- */

typedef struct Vault {
    const Bank *bank;
} Vault;

static tr_err vault_start(tr_ctx *ctx, Vault *self)
{
    return bank_open_accounts(ctx, self->bank);
}

TR_ACTOR(vault, Vault, TR_HOOK(pre_start, vault_start));

static tr_err open_bank(tr_ctx *ctx, Director *self)
{
    tr_ref accounts = tr_spawn(ctx, vault, .name = "accounts",
                               TR_INIT(vault, .bank = self->bank));
    TR_TRY(tr_started(ctx, accounts, TR_SECONDS(30)));
    self->clerk = tr_spawn(ctx, clerk, .name = "clerk");
    for (uint32_t i = 0; i < self->bank->branches; i++) {
        TR_TRY(tr_ref_err(
            tr_spawn(ctx, branch, .name = tr_textf(ctx, "branch-%u", i),
                     TR_INIT(branch, .bank = self->bank, .clerk = self->clerk,
                             .number = i))));
    }
    return TR_OK;
}

/* ---- watching ---- */

static tr_err show_progress(tr_ctx *ctx, Director *self, Day *day)
{
    TR_TRY(tr_ask(ctx, self->clerk, &day->counted, TR_SECONDS(30), Count));
    day->metrics.size = sizeof(day->metrics);
    tr_metrics(tr_system_of(ctx), &day->metrics);
    uint64_t done = day->counted.transfers - day->before;
    day->before = day->counted.transfers;
    day->stalls += done == 0;
    printf("%s%4.0f s  %9" PRIu64 " transfers  %8" PRIu64 "/s"
           "  p50 %5.1f us  p99 %6.1f us  %4" PRIu64 " failures survived%s",
           self->bank->terminal ? "\r" : "",
           (double)(tr_now(ctx) - day->start) / 1e9, day->counted.transfers,
           done, (double)day->counted.p50 / 1e3, (double)day->counted.p99 / 1e3,
           day->metrics.failures, self->bank->terminal ? "" : "\n");
    fflush(stdout);
    return TR_OK;
}

static tr_err work_day(tr_ctx *ctx, Director *self, Day *day)
{
    const Bank *bank = self->bank;
    tr_nanos look = day->start + TR_SECONDS(1);
    while (tr_now(ctx) - day->start < bank->duration && !bank->asked_to_end()) {
        TR_TRY(tr_sleep(ctx, TR_MS(50)));
        if (tr_now(ctx) >= look) {
            look += TR_SECONDS(1);
            TR_TRY(show_progress(ctx, self, day));
        }
    }
    return TR_OK;
}

/* ---- closing ---- */

static uint32_t missing_tellers(tr_ctx *ctx, const Bank *bank, uint32_t number)
{
    uint32_t missing = 0;
    for (uint32_t i = 0; i < bank->tellers; i++) {
        const char *path = tr_textf(ctx, "branch-%u/teller-%u", number, i);
        missing += tr_ref_err(tr_lookup(ctx, path)) != TR_OK;
    }
    return missing;
}

/* No branch works after it, so no new transfer begins. */
static tr_err close_branches(tr_ctx *ctx, Director *self, Day *day)
{
    for (uint32_t i = 0; i < self->bank->branches; i++) {
        day->missing += missing_tellers(ctx, self->bank, i);
        tr_ref ref = tr_child(ctx, tr_textf(ctx, "branch-%u", i));
        tr_stop(ctx, ref);
        tr_err err = tr_join(ctx, ref, TR_SECONDS(30), NULL, NULL);
        if (err != TR_OK && err != TR_ENOENT) {
            return err;
        }
    }
    return TR_OK;
}

/*
 * An account that still waits for another answers when it is done. So after a
 * first round of questions nothing is on its way, and the second counts.
 */
static tr_err audit(tr_ctx *ctx, const Bank *bank, Day *day)
{
    for (uint32_t round = 0; round < 2; round++) {
        day->sum = 0;
        day->overdrawn = 0;
        for (uint32_t i = 0; i < bank->accounts; i++) {
            Balance b;
            TR_TRY(tr_ask(ctx, bank_account(bank, i), &b, TR_SECONDS(30),
                          GetBalance));
            day->sum += b.cents;
            day->overdrawn += b.cents < 0;
        }
    }
    return TR_OK;
}

/* ---- the report ---- */

static bool held(bool ok, const char *what)
{
    printf("  %-4s %s\n", ok ? "yes" : "NO", what);
    return ok;
}

static bool report(tr_ctx *ctx, const Bank *bank, const Day *day)
{
    const Counted *c = &day->counted;
    double seconds = (double)(tr_now(ctx) - day->start) / 1e9;
    int64_t money = (int64_t)bank->accounts * BANK_START_CENTS;
    printf("%s\ntransfers          %" PRIu64 ", %.0f/s\n"
           "time of a transfer p50 %.1f us, p99 %.1f us\n"
           "refused            %" PRIu64
           " (no money there, or two accounts waiting for each other)\n"
           "failures survived  %" PRIu64 ", restarts %" PRIu64 "\n"
           "money              %" PRId64 ".%02d of %" PRId64 ".%02d\n\n",
           bank->terminal ? "\n" : "", c->transfers,
           (double)c->transfers / seconds, (double)c->p50 / 1e3,
           (double)c->p99 / 1e3, c->refused, day->metrics.failures,
           day->metrics.restarts, day->sum / 100, (int)(day->sum % 100),
           money / 100, (int)(money % 100));
    bool right = held(day->sum == money, "money is conserved");
    right &= held(day->overdrawn == 0, "no account is overdrawn");
    right &= held(c->unanswered == 0, "every request was answered");
    right &= held(day->stalls == 0, "something was done in every second");
    right &= held(day->missing == 0, "every teller that failed is back");
    return right;
}

static tr_err director_run(tr_ctx *ctx, Director *self)
{
    Day day = {.start = tr_now(ctx)};
    TR_TRY(open_bank(ctx, self));
    printf("%u accounts, %u branches with %u tellers each\n",
           self->bank->accounts, self->bank->branches, self->bank->tellers);
    TR_TRY(work_day(ctx, self, &day));
    TR_TRY(close_branches(ctx, self, &day));
    TR_TRY(tr_ask(ctx, self->clerk, &day.counted, TR_SECONDS(30), Count));
    TR_TRY(audit(ctx, self->bank, &day));
    self->right = report(ctx, self->bank, &day);
    tr_stop(ctx, tr_self(ctx));
    return TR_OK;
}

TR_ACTOR_PUBLIC(director, Director, TR_HOOK(on_run, director_run));
