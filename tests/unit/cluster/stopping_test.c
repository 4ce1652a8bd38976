/*
 * stopping_test.c - shards whose actors are told to stop, some in each turn.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include "cluster/bus/turn_budget.h"
#include "support/mesh.h"

enum { NODES = 2, ACTORS = TRI_TURN_ACTORS + TRI_TURN_ACTORS / 2 };

TR_MESSAGE(Touch);

static mesh cloud;
static uint32_t active[NODES], touched;  // there is one run at a time

static uint32_t node_of(tr_ctx *ctx)
{
    return tr_system_of(ctx) == cloud.systems[0] ? 0 : 1;
}

static tr_err item_start(tr_ctx *ctx, void *self)
{
    (void)self;
    active[node_of(ctx)]++;
    return TR_OK;
}

static tr_err item_stop(tr_ctx *ctx, void *self, tr_reason reason)
{
    (void)self, (void)reason;
    active[node_of(ctx)]--;
    return TR_OK;
}

static tr_err on_touch(tr_ctx *ctx, void *self, const Touch *m)
{
    (void)ctx, (void)self, (void)m;
    touched++;
    return TR_OK;
}

TR_ACTOR(item, void, TR_HOOK(pre_start, item_start),
         TR_HOOK(post_stop, item_stop), TR_ON(Touch, on_touch));

static void touch_all(void)
{
    char name[16];
    for (uint32_t i = 0; i < ACTORS; i++) {
        snprintf(name, sizeof(name), "k%u", (unsigned)i);
        tr_tell_virtual(cloud.systems[0], "item", name, Touch);
    }
    tr_sim_advance(cloud.sim, TR_SECONDS(5));
}

static void move_all(uint32_t to)
{
    cloud.quiet = true;
    for (uint32_t i = 0; i < TRI_SHARDS; i++) {
        mesh_move(&cloud, i, to);
    }
    cloud.quiet = false;
    mesh_tell_all(&cloud);
    tr_sim_advance(cloud.sim, TR_SECONDS(5));
}

static void open_cloud(tr_placement placement)
{
    mesh_open(&cloud, 1, NODES, true);
    for (uint32_t i = 0; i < NODES; i++) {
        assert_int_equal(
            tr_host(cloud.systems[i], item, .placement = placement), TR_OK);
    }
    touched = active[0] = active[1] = 0;
    tr_sim_advance(cloud.sim, TR_SECONDS(1));
    move_all(0);
    touch_all();
    assert_int_equal(touched, ACTORS);
    assert_int_equal(active[0] + active[1], ACTORS);
}

/* More actors than a turn stops, so several turns share the work. */
static void test_all_actors_of_many_shards_move(void **state)
{
    (void)state;
    open_cloud(TR_PLACE_OWNER);
    assert_int_equal(active[0], ACTORS);
    move_all(1);
    assert_int_equal(active[0], 0);
    touch_all();
    assert_int_equal(touched, 2 * ACTORS);
    assert_int_equal(active[1], ACTORS);
    mesh_close(&cloud);
}

static void test_actors_that_are_placed_elsewhere_move_too(void **state)
{
    (void)state;
    open_cloud(TR_PLACE_RANDOM);
    move_all(1);
    assert_int_equal(active[0] + active[1], 0);
    touch_all();
    assert_int_equal(touched, 2 * ACTORS);
    assert_int_equal(active[0] + active[1], ACTORS);
    mesh_close(&cloud);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_actors_of_many_shards_move),
        cmocka_unit_test(test_actors_that_are_placed_elsewhere_move_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
