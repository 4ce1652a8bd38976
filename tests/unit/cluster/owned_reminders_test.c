/*
 * owned_reminders_test.c - in a cluster, the owner of a shard delivers the
 * reminders of its actors.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "support/mesh.h"

enum { NODES = 3, ACTORS = 20 };

#define SOON TR_SECONDS(10)

TR_MESSAGE(Done);
TR_REQUEST(Arm, Done, (int64_t, delay), (int64_t, period));
TR_REQUEST(Disarm, Done);
TR_MESSAGE(Bill, (uint32_t, number));

TR_STATE(Debtor, (int64_t, bills));

static mesh cloud;
static tr_storage *store;
static uint32_t runs[ACTORS], run_on[NODES];
static tr_nanos handler_takes;

static uint32_t node_of(tr_ctx *ctx)
{
    uint32_t i = 0;
    while (i < NODES && cloud.systems[i] != tr_system_of(ctx)) {
        i++;
    }
    return i;
}

static tr_err on_arm(tr_ctx *ctx, Debtor *self, const Arm *m)
{
    uint32_t number = 0;
    (void)self;
    (void)sscanf(tr_key(ctx), "k%u", &number);
    TR_OR_REFUSE(
        ctx, m,
        tr_remind(ctx, "bill", m->delay, m->period, Bill, .number = number));
    return tr_reply(ctx, m);
}

static tr_err on_disarm(tr_ctx *ctx, Debtor *self, const Disarm *m)
{
    (void)self;
    TR_OR_REFUSE(ctx, m, tr_forget(ctx, "bill"));
    return tr_reply(ctx, m);
}

static tr_err on_bill(tr_ctx *ctx, Debtor *self, const Bill *m)
{
    (void)self;
    assert_true(m->number < ACTORS);
    runs[m->number]++;
    run_on[node_of(ctx)]++;
    return handler_takes > 0 ? tr_sleep(ctx, handler_takes) : TR_OK;
}

TR_ACTOR(debtor, Debtor, TR_ON(Arm, on_arm), TR_ON(Disarm, on_disarm),
         TR_ON_REMINDER(Bill, on_bill));

/* ---- the stage ---- */

static void set_up(uint64_t seed, uint32_t nodes, tr_placement placement)
{
    memset(runs, 0, sizeof(runs));
    memset(run_on, 0, sizeof(run_on));
    handler_takes = 0;
    TR_MUST(tr_storage_memory(&store));
    mesh_open(&cloud, seed, NODES, true);
    for (uint32_t i = 0; i < NODES; i++) {
        if (nodes >> i & 1) {
            TR_MUST(tr_host(cloud.systems[i], debtor, .storage = store,
                            .idle = TR_SECONDS(2), .placement = placement));
        }
    }
    tr_sim_advance(cloud.sim, TR_SECONDS(1));
}

static void tear_down(void)
{
    mesh_close(&cloud);
    tr_storage_close(store);
}

static const char *name_of(uint32_t number)
{
    static char name[16];
    snprintf(name, sizeof(name), "k%u", number);
    return name;
}

static uint32_t shard_of(uint32_t number)
{
    char text[64];
    snprintf(text, sizeof(text), "shop::debtor/%s", name_of(number));
    return tri_shard_of(text, strlen(text));
}

static void arm(uint32_t from, uint32_t number, tr_nanos delay, tr_nanos period)
{
    Done done;
    assert_int_equal(tr_ask_virtual(cloud.systems[from], "debtor",
                                    name_of(number), &done, TR_SECONDS(20), Arm,
                                    .delay = delay, .period = period),
                     TR_OK);
}

static void arm_all(tr_nanos delay, tr_nanos period)
{
    for (uint32_t i = 0; i < ACTORS; i++) {
        arm(i % NODES, i, delay, period);
    }
}

static uint32_t run_count(void)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < ACTORS; i++) {
        count += runs[i];
    }
    return count;
}

static void each_ran(uint32_t times)
{
    for (uint32_t i = 0; i < ACTORS; i++) {
        assert_int_equal(runs[i], times);
    }
}

/* ---- tests ---- */

static void test_20_reminders_on_three_nodes_run_20_times(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        set_up(seed, 7, TR_PLACE_OWNER);
        arm_all(SOON, 0);
        tr_sim_advance(cloud.sim, TR_SECONDS(30));
        each_ran(1);
        tr_sim_advance(cloud.sim, TR_MINUTES(30));
        assert_int_equal(run_count(), 20);
        tear_down();
    }
}

/* The actors are on other nodes than the owners that deliver. */
static void test_reminders_of_actors_elsewhere_run_once(void **state)
{
    (void)state;
    set_up(1, 7, TR_PLACE_RANDOM);
    arm_all(SOON, 0);
    tr_sim_advance(cloud.sim, TR_SECONDS(30));
    each_ran(1);
    tr_sim_advance(cloud.sim, TR_MINUTES(30));
    each_ran(1);
    tear_down();
}

/* Node 0 owns a third of the shards and does not host the kind. */
static void test_reminders_of_a_kind_that_the_owner_does_not_host(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        set_up(seed, 6, TR_PLACE_OWNER);
        arm_all(SOON, 0);
        tr_sim_advance(cloud.sim, TR_SECONDS(30));
        each_ran(1);
        tr_sim_advance(cloud.sim, TR_MINUTES(30));
        each_ran(1);
        tear_down();
    }
}

static void test_a_period_runs_once_for_each_time(void **state)
{
    (void)state;
    set_up(1, 7, TR_PLACE_RANDOM);
    arm_all(SOON, TR_SECONDS(60));
    tr_sim_advance(cloud.sim, TR_SECONDS(10 + 4 * 60 + 30));
    each_ran(5);
    tear_down();
}

static void test_a_reminder_that_was_forgotten_elsewhere_does_not_run(
    void **state)
{
    Done done;
    (void)state;
    set_up(1, 7, TR_PLACE_RANDOM);
    arm_all(SOON, 0);
    for (uint32_t i = 0; i < ACTORS; i++) {
        assert_int_equal(tr_ask_virtual(cloud.systems[0], "debtor", name_of(i),
                                        &done, TR_SECONDS(20), Disarm),
                         TR_OK);
    }
    tr_sim_advance(cloud.sim, TR_MINUTES(30));
    assert_int_equal(run_count(), 0);
    tear_down();
}

/* A shard that moves takes its reminders with it. */
static void test_a_new_owner_delivers(void **state)
{
    (void)state;
    set_up(1, 7, TR_PLACE_OWNER);
    arm_all(SOON, 0);
    for (uint32_t i = 0; i < ACTORS; i++) {
        mesh_move(&cloud, shard_of(i), 1);
    }
    tr_sim_advance(cloud.sim, TR_MINUTES(10));
    each_ran(1);
    assert_int_equal(run_on[1], ACTORS);
    tear_down();
}

/* The handlers run when their node dies: nothing says that they are done. */
static void test_a_reminder_of_a_node_that_dies_runs_on_the_next_owner(
    void **state)
{
    uint32_t number = 0;
    (void)state;
    set_up(1, 7, TR_PLACE_OWNER);
    handler_takes = TR_MINUTES(1);
    while (shard_of(number) % NODES != 0) {
        number++;
    }
    arm(1, number, SOON, 0);
    tr_sim_advance(cloud.sim, TR_SECONDS(20));
    assert_int_equal(run_on[0], 1);
    tri_sim_net_partition(cloud.net, UINT64_C(1) << 0, TR_MINUTES(60));
    mesh_dead(&cloud, 0);
    cloud.each[0].has_no_lease = true;
    mesh_move(&cloud, shard_of(number), 2);
    handler_takes = 0;
    tr_sim_advance(cloud.sim, TR_SECONDS(10));
    assert_int_equal(run_on[2], 1);
    tr_sim_advance(cloud.sim, TR_MINUTES(30));
    assert_int_equal(runs[number], 2);
    tear_down();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_20_reminders_on_three_nodes_run_20_times),
        cmocka_unit_test(test_reminders_of_actors_elsewhere_run_once),
        cmocka_unit_test(test_reminders_of_a_kind_that_the_owner_does_not_host),
        cmocka_unit_test(test_a_period_runs_once_for_each_time),
        cmocka_unit_test(
            test_a_reminder_that_was_forgotten_elsewhere_does_not_run),
        cmocka_unit_test(test_a_new_owner_delivers),
        cmocka_unit_test(
            test_a_reminder_of_a_node_that_dies_runs_on_the_next_owner),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
