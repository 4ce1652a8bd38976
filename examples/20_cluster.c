/*
 * cluster - start it on three terminals: three nodes share one counter, which
 * is active on one of them. A node leaves after thirty seconds, or on Ctrl-C.
 */
#include <stdio.h>
#include <stdlib.h>

#include <troupe/troupe.h>

// [snippet: counter]
TR_STATE(Counter, (int64_t, count));
TR_MESSAGE(Counted, (int64_t, count), (uint32_t, slot));
TR_REQUEST(CountUp, Counted);

static tr_err on_count_up(tr_ctx *ctx, Counter *self, const CountUp *m)
{
    Counter next = {.count = self->count + 1};
    TR_OR_REFUSE(ctx, m, tr_persist(ctx, self, &next));
    return tr_reply(ctx, m, .count = self->count,
                    .slot = tr_cluster_self(tr_system_of(ctx)).slot);
}
TR_ACTOR(counter, Counter, TR_ON(CountUp, on_count_up));
// [end]

static tr_err visitor_run(tr_ctx *ctx, void *self)
{
    (void)self;
    for (int i = 0; i < 30; i++) {
        Counted c;
        tr_err err = tr_ask_virtual(ctx, "counter", "visits", &c, 0, CountUp);
        if (err == TR_OK)
            printf("%d, by node %u of %zu\n", (int)c.count, c.slot,
                   tr_cluster_members(tr_system_of(ctx), NULL, 0));
        else  // TR_EUNKNOWN: perhaps it was counted
            printf("%s: %s\n", tr_errname(err), tr_error_text(ctx));
        TR_TRY(tr_sleep(ctx, TR_SECONDS(1)));
    }
    tr_system_terminate(tr_system_of(ctx));
    return TR_OK;
}
TR_ACTOR(visitor, void, TR_HOOK(on_run, visitor_run));

int main(void)
{
    tr_system *sys;
    tr_storage *store;
    char file[512];
    setvbuf(stdout, NULL, _IOLBF, 0);
    snprintf(file, sizeof(file), "%s/.troupe-visits.db", getenv("HOME"));
    // [snippet: join]
    TR_MUST(tr_storage_sqlite(&store, file));  // shared by all nodes
    TR_MUST(tr_system_open(&sys, .ns = "visits"));
    TR_MUST(tr_host(sys, counter, .storage = store));
    TR_MUST(tr_cluster_join(sys));
    TR_MUST(tr_ref_err(tr_spawn(sys, visitor)));
    TR_MUST(tr_system_run(sys));       // until Ctrl-C, or the visitor is done
    TR_MUST(tr_system_close(sys, 0));  // leaves the cluster
    // [end]
    tr_storage_close(store);
}
