/*
 * sim_node_test.c - the clock of a node, and its pauses.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rand.h"
#include "base/world.h"
#include "sim/sim.h"
#include "sim/sim_node.h"
#include "support/toy_world.h"

#define HOUR TR_MINUTES(60)

static void test_a_node_clock_runs_at_its_own_rate(void **state)
{
    (void)state;
    tr_sim *sim = sim_of(1);
    tri_sim_node *node = tri_sim_node_of(world_of(sim));
    tri_rand rand;

    tri_rand_init(&rand, 7);
    for (int i = 0; i < 2000; i++) {
        int32_t rate = (int32_t)tri_rand_below(&rand, 400001) - 200000;
        tr_nanos before = tri_sim_node_time(node);
        tri_sim_node_set_rate(node, rate);
        assert_int_equal(tri_sim_node_time(node), before);

        tr_nanos local = before + 1 + (tr_nanos)tri_rand_below(&rand, HOUR);
        tr_nanos when = tri_sim_node_when(node, local);
        tr_sim_advance(sim, when - 1 - sim->now);
        assert_true(tri_sim_node_time(node) < local);
        tr_sim_advance(sim, 1);
        assert_true(tri_sim_node_time(node) >= local);
    }
    tr_sim_free(sim);
}

static void test_a_fast_node_clock_fires_timers_early(void **state)
{
    (void)state;
    tr_sim *sim = sim_of(1);
    tri_world *world = world_of(sim);
    toy it;

    tri_sim_node_set_rate(tri_sim_node_of(world), 100000);
    toy_init(&it, 1, 0);
    it.due = TR_SECONDS(1) + TR_SECONDS(11);
    world->ops->attach(world, &it.driven);
    tr_sim_advance(sim, TR_SECONDS(10));
    assert_int_equal(it.fired, 1);
    assert_int_equal(it.fired_at, TR_SECONDS(12));
    world->ops->detach(world, &it.driven);
    tr_sim_free(sim);
}

static void wait_a_while(void *arg)
{
    talk *it = arg;

    it->answer = it->world->ops->park(it->world, &it->word, 0, TR_SECONDS(5));
    it->at = it->world->ops->mono(it->world);
}

static void test_a_paused_node_runs_nothing(void **state)
{
    (void)state;
    tr_sim *sim = sim_of(3);
    tri_sim_node *node = tri_sim_node_add(sim);
    talk it = {.world = &node->world, .answer = true};
    toy busy;
    tri_thread *thread;

    toy_init(&busy, 2, 10);
    busy.due = TR_SECONDS(2);
    it.world->ops->attach(it.world, &busy.driven);
    assert_int_equal(it.world->ops->thread_start(it.world, &thread, "waits",
                                                 wait_a_while, &it),
                     TR_OK);
    tri_sim_node_pause(node, TR_SECONDS(60));
    tr_sim_advance(sim, TR_SECONDS(59));
    assert_int_equal(busy.left, 10);
    assert_int_equal(busy.fired, 0);
    assert_int_equal(it.at, 0);
    tr_sim_advance(sim, TR_SECONDS(7));
    assert_int_equal(busy.left, 0);
    assert_int_equal(busy.fired_at, TR_SECONDS(61));
    assert_int_equal(it.at, TR_SECONDS(66));
    it.world->ops->thread_join(it.world, thread);
    it.world->ops->detach(it.world, &busy.driven);
    tr_sim_free(sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_node_clock_runs_at_its_own_rate),
        cmocka_unit_test(test_a_fast_node_clock_fires_timers_early),
        cmocka_unit_test(test_a_paused_node_runs_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
