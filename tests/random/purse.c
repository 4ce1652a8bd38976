/*
 * purse.c - virtual actors with a stored state, as a part of random programs.
 *
 * Each deposit adds one and is answered with the new sum. So no two answers of
 * one purse are equal, however often it was deactivated, stopped, killed or
 * restarted in between, and the sum at the end is the number of confirmed
 * deposits and of some whose outcome is unknown: rules 44 to 48 (stored state).
 */
#include "purse.h"

#include <troupe/cluster.h>
#include <troupe/storage.h>

TR_MESSAGE(Sum, (uint32_t, sum));
TR_REQUEST(Deposit, Sum);
TR_REQUEST(Count, Sum);
TR_STATE(Purse, (uint32_t, sum));

static tr_err on_deposit(tr_ctx *ctx, Purse *self, const Deposit *m)
{
    Purse next = {.sum = self->sum + 1};

    TR_OR_REFUSE(ctx, m, tr_persist(ctx, self, &next));
    return tr_reply(ctx, m, .sum = self->sum);
}

static tr_err on_count(tr_ctx *ctx, Purse *self, const Count *m)
{
    return tr_reply(ctx, m, .sum = self->sum);
}

TR_ACTOR(purse, Purse, TR_ON(Deposit, on_deposit), TR_ON(Count, on_count));

void purses_open(trial *t, bool fails)
{
    TR_MUST(tr_storage_memory(&t->memory));
    TR_MUST(tr_storage_capture(&t->store, t->memory));
    if (fails) {
        tr_storage_fail_saves(t->store, 0.2, t->plan->seed);
    }
    // The sweeper wakes often; in a simulation that costs steps.
    tr_nanos idle = t->sim != NULL ? TR_SECONDS(1) : TR_MS(10);
    TR_MUST(tr_host(t->sys, purse, .storage = t->store, .idle = idle,
                    .max_active = 2));
}

void purses_close(trial *t)
{
    tr_storage_close(t->store);
    tr_storage_close(t->memory);
}

static tr_ref purse_of(turn *t, uint32_t index)
{
    const char key[] = {'a', (char)('0' + index), '\0'};

    return tr_virtual(t->from, "purse", key);
}

void step_DEPOSIT(turn *t, const step *s)
{
    uint32_t index = s->arg % PURSES;
    purse_notes *p = &t->trial->purses[index];
    Sum sum;

    atomic_fetch_add(&p->begun, 1);
    tr_err err =
        tr_ask(t->from, purse_of(t, index), &sum, step_span(t, s), Deposit);
    if (err != TR_OK) {
        // TR_ESTORAGE: the store has refused.
        atomic_fetch_add(&p->not_run,
                         tr_undelivered(err) || err == TR_ESTORAGE);
        return;
    }
    atomic_fetch_add(&p->confirmed, 1);
    if (sum.sum < SUMS && atomic_exchange(&p->seen[sum.sum], true)) {
        broken("rule 45 (saving)", "two deposits got the sum %u", sum.sum);
    }
}

void step_STOP_PURSE(turn *t, const step *s)
{
    tr_ref ref = purse_of(t, s->arg % PURSES);

    if (s->arg / PURSES % 2 == 0) {
        tr_stop(t->from, ref);
    } else {
        tr_kill(t->from, ref);
    }
}

void purses_at_rest(trial *t)
{
    turn main = {.trial = t, .from.sys = t->sys};

    for (uint32_t i = 0; i < PURSES; i++) {
        purse_notes *p = &t->purses[i];
        Sum sum;
        // Deposits may still be under way.
        uint32_t least = atomic_load(&p->confirmed);
        uint32_t not_run = atomic_load(&p->not_run);
        if (tr_ask(t->sys, purse_of(&main, i), &sum, TR_SECONDS(5), Count) !=
            TR_OK) {
            continue;
        }
        uint32_t most = atomic_load(&p->begun) - not_run;
        if (sum.sum < least || sum.sum > most) {
            broken("rule 45 (saving)",
                   "purse %u: at least %u and at most %u deposits, the sum is "
                   "%u",
                   i, least, most, sum.sum);
        }
    }
}
