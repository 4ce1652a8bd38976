/*
 * reminder - a stored message of an actor to itself.
 *
 * Notice: tr_remind returns when the reminder is stored. The program ends, and
 * no process runs for a while. The next one opens the store and hosts the kind
 * again, and the reminder that was missed comes at once and activates its
 * actor. A reminder is done when its handler has returned TR_OK, so it comes at
 * least once. The example runs on virtual time: an hour takes no real time.
 */
#include <inttypes.h>
#include <stdio.h>

#include <troupe/troupe.h>

TR_REQUEST(Rent, tr_none, (int64_t, cents));
TR_REQUEST(MoveOut, tr_none);
TR_MESSAGE(PayRent, (int64_t, cents));
TR_STATE(Tenant, (int64_t, paid));

// [snippet: remind]
static tr_err on_rent(tr_ctx *ctx, Tenant *self, const Rent *m)
{
    (void)self;
    TR_TRY(tr_remind(ctx, "rent", TR_MINUTES(30), TR_MINUTES(30), PayRent,
                     .cents = m->cents));
    return tr_reply(ctx, m);
}

static tr_err on_pay(tr_ctx *ctx, Tenant *self, const PayRent *m)
{
    Tenant next = {.paid = self->paid + m->cents};
    TR_TRY(tr_persist(ctx, self, &next));
    printf("%s has paid %" PRId64 " cents so far\n", tr_key(ctx), self->paid);
    return TR_OK;
}
// [end]

static tr_err on_move_out(tr_ctx *ctx, Tenant *self, const MoveOut *m)
{
    (void)self;
    TR_TRY(tr_forget(ctx, "rent"));
    return tr_reply(ctx, m);
}

TR_ACTOR(tenant, Tenant, TR_ON(Rent, on_rent), TR_ON(MoveOut, on_move_out),
         TR_ON_REMINDER(PayRent, on_pay));

static tr_system *begin(tr_sim *sim, tr_storage *store)
{
    tr_system *sys;
    TR_MUST(tr_system_open(&sys, .world = tr_sim_world(sim)));
    TR_MUST(tr_host(sys, tenant, .storage = store));
    return sys;
}

int main(void)
{
    tr_sim *sim;
    tr_storage *store;
    TR_MUST(tr_sim_new(&sim, 1));
    TR_MUST(tr_storage_memory(&store));

    puts("first life: 45 minutes");
    tr_system *sys = begin(sim, store);
    TR_MUST(tr_ask(sys, tr_virtual(sys, "tenant", "ann"), NULL, TR_SECONDS(5),
                   Rent, .cents = 700));
    tr_sim_advance(sim, TR_MINUTES(45));
    TR_MUST(tr_system_close(sys, 0));

    puts("nobody is there: 30 minutes");
    tr_sim_advance(sim, TR_MINUTES(30));

    puts("second life: 16 minutes");
    sys = begin(sim, store);
    tr_sim_advance(sim, TR_MINUTES(16));
    TR_MUST(tr_ask(sys, tr_virtual(sys, "tenant", "ann"), NULL, TR_SECONDS(5),
                   MoveOut));
    puts("moved out: another hour");
    tr_sim_advance(sim, TR_MINUTES(60));
    TR_MUST(tr_system_close(sys, 0));

    tr_storage_close(store);
    tr_sim_free(sim);
    return 0;
}
