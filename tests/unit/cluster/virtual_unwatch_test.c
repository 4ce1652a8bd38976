/*
 * virtual_unwatch_test.c - watching and unwatching a virtual actor through
 * several activations.
 */
#include <stdatomic.h>

#include "support/stage.h"

typedef struct Inert {
    int unused;
} Inert;

static tr_err watched_act(tr_ctx *ctx, Inert *self, const Act *m)
{
    (void)self;
    return tr_reply(ctx, m, .value = 1);
}

TR_ACTOR(inert, Inert, TR_ON(Act, watched_act));

static tr_err act_watch_and_not(tr_ctx *ctx, puppet *self, const Act *m,
                                void *arg)
{
    const tr_ref *ref = arg;
    (void)self;
    tr_watch(ctx, *ref);
    tr_unwatch(ctx, *ref);
    tr_watch_in_order(ctx, *ref);
    return tr_reply(ctx, m, .value = 1);
}

/* DW2, DW22: a watch that was taken back is gone in each of its lives. */
static void test_DW2_DW22_virtual_actors_are_unwatched(void **state)
{
    stage it;
    tr_system_options options = {.size = sizeof(options), .ns = "test"};
    (void)state;
    stage_open_seed(&it, 1, &options);
    expect_ok(tr_host(it.sys, inert, .idle = TR_SECONDS(1)));
    tr_ref ref = tr_virtual(it.sys, "inert", "a");
    for (int life = 1; life <= 3; life++) {
        expect_ok(stage_ask(&it, ref, act_nothing, NULL));
        expect_ok(stage_ask(&it, it.one, act_watch_and_not, &ref));
        expect_ok(stage_ask(&it, it.two, act_watch_and_not, &ref));
        stage_pass(&it, TR_SECONDS(10));
        assert_int_equal(atomic_load(&it.note_count), 2 * life);
    }
    stage_close(&it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_DW2_DW22_virtual_actors_are_unwatched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
