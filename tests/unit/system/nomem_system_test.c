/*
 * nomem_system_test.c - memory that is not there, the other half.
 *
 * The scenario of out_of_memory_test.c again with the parts it leaves out: routers,
 * topics, blocking calls, joins, stores.
 */
#include <stdatomic.h>

#include "support/stage.h"

#include "support/core.h"

TR_MESSAGE(Parcel, (const char *, text), (tr_ref, back));

static tr_err on_parcel(tr_ctx *ctx, puppet *self, const Parcel *m)
{
    (void)self;
    tr_tell(ctx, m->back, Note, .value = 1);
    return TR_OK;
}

TR_ACTOR(parcels, puppet, TR_ON(Parcel, on_parcel));

TR_STATE(Kept, (int64_t, value), (const char *, text));
TR_REQUEST(Keep, tr_none, (int64_t, value));

static tr_err on_keep(tr_ctx *ctx, Kept *self, const Keep *m)
{
    Kept next = {.value = m->value, .text = "kept"};
    TR_OR_REFUSE(ctx, m, tr_persist(ctx, self, &next));
    return tr_reply(ctx, m);
}

TR_ACTOR(keepers, Kept, TR_ON(Keep, on_keep));

static tr_err nothing_blocking(void *arg)
{
    (void)arg;
    return TR_OK;
}

static tr_err then_nothing(tr_ctx *ctx, void *self, const void *reply,
                           tr_err err)
{
    (void)ctx;
    (void)self;
    (void)reply;
    (void)err;
    return TR_OK;
}

static void close_nothing(void *object)
{
    (void)object;
}

static tr_err act_other_half(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    stage *it = self->stage;
    (void)arg;
    if (tr_ref_eq(tr_self(ctx), it->three)) {
        return tr_reply(ctx, m, .value = 1);
    }
    tr_on_end(ctx, close_nothing, NULL);
    (void)tr_scratch(ctx, 5000);
    if (tr_topic_join(ctx, "news") == TR_OK) {
        tr_topic_publish(ctx, "news", Note, .value = 1);
        tr_topic_leave(ctx, "news");
    }
    (void)!tr_blocking(ctx, nothing_blocking, NULL);
    tr_ask_then(ctx, it->two, 0, then_nothing, Act,
                .fn = (uint64_t)(uintptr_t)act_nothing);
    tr_ref child = tr_spawn(ctx, puppets, TR_INIT(puppets, .stage = it));
    tr_watch_in_order(ctx, child);
    (void)!tr_started(ctx, child, TR_SECONDS(1));
    tr_stop(ctx, child);
    tr_result result;
    (void)!tr_join(ctx, child, TR_SECONDS(5), &result, NULL);
    tr_tell(ctx, it->three, Stranger, .value = 1);
    tr_become(ctx, self, puppets);
    (void)!tr_on_terminate(ctx);
    tr_forward(ctx, it->three, m);
    return TR_OK;
}

static void other_half(stage *it, tr_storage *store)
{
    tr_probe *probe;
    tr_ref r = tr_router(it->sys, parcels, .name = "router", .count = 3,
                         .routing = TR_BROADCAST);
    tr_tell(it->sys, r, Parcel, .text = "a", .back = it->two);
    tr_tell(it->sys, r, tr_resize, .count = 10);
    if (tr_probe_new(&probe, it->sys) == TR_OK) {
        tr_probe_free(probe);  // its own calls end the process instead
    }
    (void)!tr_dispatcher_add(it->sys, "more", .threads = 2);
    (void)stage_spawn(it, .dispatcher = "pinned");
    (void)tr_top_level(it->sys, puppets, .name = "top",
                       TR_INIT(puppets, .stage = it));
    (void)!tr_on_event(it->sys, tr_unhandled, NULL, NULL);
    tr_ref keeper = tr_spawn(it->sys, keepers, .name = "keeper",
                             .storage = store, .joinable = true,
                             .supervision = TR_SUPERVISE(.max_restarts = 9));
    (void)!stage_ask_for(it, it->one, act_other_half, NULL, TR_SECONDS(20));
    (void)!tr_ask(it->sys, keeper, NULL, TR_SECONDS(5), Keep, .value = 5);
    tr_tell_urgent(it->sys, it->two, 4, Note, .value = 1);
    stage_pass(it, TR_SECONDS(2));
    tr_stop(it->sys, keeper);
    stage_pass(it, TR_SECONDS(1));
    Kept last = {0};
    if (tr_join(it->sys, keeper, TR_SECONDS(1), NULL, &last) == TR_OK) {
        tr_drop(Kept, &last);
    }
    tr_stop(it->sys, r);
    stage_pass(it, TR_SECONDS(2));
}

static void test_rule_27_the_nth_allocation_fails_in_the_system_layer(
    void **state)
{
    enum { ALL = 5000 };
    int64_t n = 0;
    bool reached = TRI_FAULTS;
    (void)state;
    for (; reached; n++) {
        stage it;
        tr_storage *store;
        expect_ok(tr_storage_memory(&store));
        stage_open(&it);
        tri_mem_fail_after(&it.sys->mem, n);
        other_half(&it, store);
        // Relaxed: one thread.
        reached = atomic_load_explicit(&it.sys->mem.fail_at,
                                       memory_order_relaxed) < 0;
        tri_mem_fail_after(&it.sys->mem, -1);
        stage_close(&it);
        tr_storage_close(store);
        assert_true(n < ALL);
    }
    assert_true(!TRI_FAULTS || n > 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            test_rule_27_the_nth_allocation_fails_in_the_system_layer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
