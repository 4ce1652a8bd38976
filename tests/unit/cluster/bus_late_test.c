/*
 * bus_late_test.c - what two nodes owe each other after a cut between them.
 *
 * A cut lasts for longer than a stream does, so what was under way is given
 * up, often by one of them alone. Afterwards both must come to the same view:
 * no actor is active twice, and who watches one is told of its end.
 */
#include "pair.h"

enum { NAMES = 8 };

#define CUT TR_SECONDS(30)

static void cut(void)
{
    tr_sim_advance(cloud.sim, TR_SECONDS(2));
    tri_sim_net_partition(cloud.net, 1, CUT);
}

/* ---- tests ---- */

/* Also by who sends, where it decides by itself that an actor begins here. */
static void test_X8_DI6_a_lost_node_is_given_no_new_actors(void **state)
{
    int64_t count;
    (void)state;
    set_up(1);
    assert_int_equal(tr_host(cloud.systems[1], zero), TR_OK);
    cut();
    assert_int_not_equal(get(0, actor(0, "one", 0, 0), &count), TR_OK);
    assert_true(bus_of(0)->peers[1]->lost);
    for (int i = 0; i < NAMES; i++) {
        assert_int_equal(get(0, actor(0, "zero", 0, i), &count), TR_OK);
    }
    mesh_close(&cloud);
}

/* A shard has a new owner, who does not get the claims of its actors. */
static void test_DI8_DI10_X53_claims_of_a_lost_stream_are_made_again(
    void **state)
{
    char text[64];
    int64_t count;
    (void)state;
    set_up(1);
    name("one", 0, 0, text, sizeof(text));
    tr_ref here = tr_virtual_named(cloud.systems[1], text);
    tr_tell(cloud.systems[1], here, Add);
    assert_int_equal(get(1, here, &count), TR_OK);
    assert_int_equal(count, 1);
    assert_int_equal(tr_host(cloud.systems[0], one), TR_OK);
    cut();
    for (uint32_t i = 0; i < 2; i++) {
        tri_bus_shard(cloud.systems[i], tri_shard_of(text, strlen(text)), 0, 2);
    }
    tr_sim_advance(cloud.sim, CUT + TR_SECONDS(1));
    assert_int_equal(tri_bus_count(cloud.systems[1]).lost_streams, 1);
    // They speak again, of something else: who looks for a host greets it.
    tr_err ignored = get(1, actor(1, "zero", 1, 0), &count);
    (void)ignored;
    tr_sim_advance(cloud.sim, TR_SECONDS(1));
    tr_ref there = tr_virtual_named(cloud.systems[0], text);
    assert_int_equal(get(0, there, &count), TR_OK);
    assert_int_equal(count, 1);  // it is the one that was there
    mesh_close(&cloud);
}

/* Its new owner has begun another meanwhile: one of the two ends. */
static void test_DI8_DI10_X31_of_two_after_a_cut_one_ends(void **state)
{
    char text[64];
    int64_t count;
    (void)state;
    set_up(1);
    name("one", 0, 0, text, sizeof(text));
    tr_ref here = tr_virtual_named(cloud.systems[1], text);
    assert_int_equal(get(1, here, &count), TR_OK);
    assert_int_equal(tr_host(cloud.systems[0], one), TR_OK);
    cut();
    for (uint32_t i = 0; i < 2; i++) {
        tri_bus_shard(cloud.systems[i], tri_shard_of(text, strlen(text)), 0, 2);
    }
    tr_sim_advance(cloud.sim, TR_SECONDS(2));
    tr_ref there = tr_virtual_named(cloud.systems[0], text);
    tr_tell(cloud.systems[0], there, Add);
    tr_sim_advance(cloud.sim, CUT);
    assert_int_equal(get(1, actor(1, "zero", 0, 0), &count), TR_OK);
    tr_sim_advance(cloud.sim, TR_SECONDS(1));
    assert_int_equal(get(1, here, &count), TR_OK);
    assert_int_equal(count, 1);
    mesh_close(&cloud);
}

/* ---- watches ---- */

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

/* Node 0 watches an actor of node 1, which loses it; node 0 notices nothing. */
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
    assert_int_equal(tri_bus_count(cloud.systems[0]).lost_streams, 0);
    assert_true(tri_bus_count(cloud.systems[1]).lost_streams > 0);
    assert_int_equal(notices, 0);
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
static void test_X10_AC7_a_watch_does_not_pass_mail(void **state)
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

/* Whoever watches the name of several workers finds nobody. */
static void test_X10_AC14_a_watch_of_workers_elsewhere(void **state)
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

/* What was never sent may be tried again. */
static void test_X8_BU6_what_was_never_sent_is_no_riddle(void **state)
{
    int64_t count;
    (void)state;
    set_up(1);
    tr_ref there = actor(0, "one", 0, 0);
    assert_int_equal(get(0, there, &count), TR_OK);
    cut();
    assert_int_equal(get(0, there, &count), TR_EUNKNOWN);
    assert_int_equal(get(0, there, &count), TR_EUNREACHABLE);
    mesh_close(&cloud);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_X8_DI6_a_lost_node_is_given_no_new_actors),
        cmocka_unit_test(
            test_DI8_DI10_X53_claims_of_a_lost_stream_are_made_again),
        cmocka_unit_test(test_DI8_DI10_X31_of_two_after_a_cut_one_ends),
        cmocka_unit_test(test_DW10_X10_a_watch_outlives_a_cut),
        cmocka_unit_test(test_DW10_X10_an_end_in_a_cut_is_told_after_it),
        cmocka_unit_test(test_X10_AC7_a_watch_does_not_pass_mail),
        cmocka_unit_test(test_X10_AC14_a_watch_of_workers_elsewhere),
        cmocka_unit_test(test_X8_BU6_what_was_never_sent_is_no_riddle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
