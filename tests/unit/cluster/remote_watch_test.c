/*
 * remote_watch_test.c - watches of actors on another node, through cuts.
 */
#include "unit/cluster/pair.h"

#define CUT TR_SECONDS(30)

static void cut(void)
{
    tr_sim_advance(cloud.sim, TR_SECONDS(2));
    tri_sim_net_partition(cloud.net, 1, CUT);
}

static uint32_t notices;  // there is one run at a time

TR_MESSAGE(Watch, (tr_ref, actor), (bool, tell));

static tr_err on_watch(tr_ctx *ctx, void *self, const Watch *m)
{
    (void)self;
    if (m->tell) {
        tr_tell(ctx, m->actor, Add);
    }
    tr_watch(ctx, m->actor);
    return TR_OK;
}

static tr_err on_terminated(tr_ctx *ctx, void *self, const tr_terminated *m)
{
    (void)ctx, (void)self, (void)m;
    notices++;
    return TR_OK;
}

TR_ACTOR(guard, void, TR_ON(Watch, on_watch),
         TR_ON(tr_terminated, on_terminated));

/* Node 0 watches an actor of node 1 while no packet comes through. */
static tr_ref watched_over_a_cut(bool ends)
{
    int64_t count;
    set_up(1);
    notices = 0;
    tr_ref there = actor(0, "one", 1, 0), here = actor(1, "one", 1, 0);
    assert_int_equal(get(0, there, &count), TR_OK);
    tr_tell(cloud.systems[0], tr_spawn(cloud.systems[0], guard), Watch,
            .actor = there);
    cut();
    if (ends) {
        tr_stop(cloud.systems[1], here);
    }
    assert_int_not_equal(get(1, actor(1, "zero", 0, 0), &count), TR_OK);
    tr_sim_advance(cloud.sim, CUT);
    assert_int_equal(notices, ends ? 1 : 0);  // a cut loses nothing
    return here;
}

static void test_DW10_X10_a_watch_outlives_a_cut(void **state)
{
    (void)state;
    tr_ref here = watched_over_a_cut(false);
    tr_stop(cloud.systems[1], here);
    tr_sim_advance(cloud.sim, TR_SECONDS(15));
    assert_int_equal(notices, 1);
    mesh_close(&cloud);
}

static void test_DW10_X10_an_end_in_a_cut_is_told_after_it(void **state)
{
    int64_t count;
    (void)state;
    (void)watched_over_a_cut(true);
    assert_int_equal(get(1, actor(1, "zero", 0, 0), &count), TR_OK);
    tr_sim_advance(cloud.sim, TR_SECONDS(1));
    assert_int_equal(notices, 1);
    mesh_close(&cloud);
}

/* A watch behind a message finds the actor that the message begins. */
static void test_X10_AC7_a_watch_stays_behind_earlier_mail(void **state)
{
    (void)state;
    set_up(1);
    for (uint32_t owner = 0; owner < 2; owner++) {
        notices = 0;
        tr_ref there = actor(0, "one", owner, 0);
        tr_ref who = tr_spawn(cloud.systems[0], guard);
        tr_tell(cloud.systems[0], who, Watch, .actor = there, .tell = true);
        tr_sim_advance(cloud.sim, TR_SECONDS(5));
        assert_int_equal(notices, 0);
        tr_stop(cloud.systems[1], actor(1, "one", owner, 0));
        tr_sim_advance(cloud.sim, TR_SECONDS(5));
        assert_int_equal(notices, 1);
    }
    mesh_close(&cloud);
}

TR_ACTOR(pool, Counter, TR_ON(Add, on_add));

/* A name with several workers has no one actor to watch. */
static void test_X10_AC14_a_watch_of_remote_workers_finds_no_actor(void **state)
{
    (void)state;
    set_up(1);
    assert_int_equal(tr_host(cloud.systems[1], pool, .workers = 2), TR_OK);
    tr_sim_advance(cloud.sim, TR_SECONDS(1));
    for (uint32_t owner = 0; owner < 2; owner++) {
        notices = 0;
        tr_tell(cloud.systems[0], tr_spawn(cloud.systems[0], guard), Watch,
                .actor = actor(0, "pool", owner, 0));
        tr_sim_advance(cloud.sim, TR_SECONDS(5));
        assert_int_equal(notices, 1);
    }
    mesh_close(&cloud);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_DW10_X10_a_watch_outlives_a_cut),
        cmocka_unit_test(test_DW10_X10_an_end_in_a_cut_is_told_after_it),
        cmocka_unit_test(test_X10_AC7_a_watch_stays_behind_earlier_mail),
        cmocka_unit_test(
            test_X10_AC14_a_watch_of_remote_workers_finds_no_actor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
