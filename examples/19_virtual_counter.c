/*
 * virtual counter - one counter for each visitor.
 *
 * The number of visitors is unlimited, so the program keeps no refs of their
 * counters: it sends to them by name, and a name is forgotten when its counter
 * is deactivated. The counts are in the store.
 */
#include <stdio.h>

#include <troupe/troupe.h>

TR_MESSAGE(Count, (int64_t, visits));
TR_MESSAGE(Visit);
TR_REQUEST(HowMany, Count);

TR_STATE(Counter, (int64_t, visits));

// [snippet: counter]
static tr_err on_visit(tr_ctx *ctx, Counter *self, const Visit *m)
{
    (void)m;
    Counter next = {.visits = self->visits + 1};
    return tr_persist(ctx, self, &next);
}

static tr_err on_how_many(tr_ctx *ctx, Counter *self, const HowMany *m)
{
    return tr_reply(ctx, m, .visits = self->visits);
}

TR_ACTOR(counter, Counter, TR_ON(Visit, on_visit), TR_ON(HowMany, on_how_many));
// [end]

static void show(tr_system *sys)
{
    tr_metrics_snapshot m = {.size = sizeof(m)};
    tr_metrics(sys, &m);
    printf("%llu names, %llu active, %llu activations\n",
           (unsigned long long)m.virtual_names,
           (unsigned long long)m.virtual_active,
           (unsigned long long)m.activations);
}

int main(void)
{
    tr_sim *sim;
    tr_system *sys;
    tr_storage *store;
    Count count;

    TR_MUST(tr_sim_new(&sim, 1));
    TR_MUST(tr_storage_memory(&store));
    TR_MUST(tr_system_open(&sys, .world = tr_sim_world(sim), .ns = "shop"));
    TR_MUST(tr_host(sys, counter, .storage = store, .idle = TR_MINUTES(1)));

    // [snippet: by-name]
    for (int i = 0; i < 1000; i++) {
        char who[32];
        snprintf(who, sizeof(who), "visitor-%d", i % 400);
        tr_tell_virtual(sys, "counter", who, Visit);
    }
    TR_MUST(tr_ask_virtual(sys, "counter", "visitor-7", &count, 0, HowMany));
    // [end]
    printf("visitor-7 was here %lld times\n", (long long)count.visits);
    tr_sim_advance(sim, TR_SECONDS(1));
    show(sys);

    tr_sim_advance(sim, TR_MINUTES(5));  // all are deactivated and forgotten
    show(sys);
    tr_tell_virtual(sys, "counter", "visitor-7", Visit);
    TR_MUST(tr_ask_virtual(sys, "counter", "visitor-7", &count, 0, HowMany));
    printf("visitor-7 was here %lld times\n", (long long)count.visits);
    show(sys);

    tr_err err = tr_system_close(sys, 0);
    tr_storage_close(store);
    tr_sim_free(sim);
    return err != TR_OK;
}
