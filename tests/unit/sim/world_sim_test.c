/*
 * world_sim_test.c - time and random numbers of a simulated world, and its
 * pollers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/world.h"
#include "support/toy_world.h"

#define HOUR TR_MINUTES(60)

static void test_time_passes_only_by_advancing(void **state)
{
    (void)state;
    tr_sim *sim = sim_of(1);
    tri_world *world = world_of(sim);

    assert_int_equal(world->ops->mono(world), TR_SECONDS(1));
    assert_int_equal(world->ops->wall(world),
                     INT64_C(1767225601) * TR_SECONDS(1));
    assert_false(world->ops->has_threads);
    assert_int_equal(world->ops->cpus(world), 1);
    tr_sim_advance(sim, HOUR);
    assert_int_equal(world->ops->mono(world), TR_SECONDS(1) + HOUR);
    tr_sim_advance(sim, 0);
    assert_int_equal(tr_sim_now(sim), TR_SECONDS(1) + HOUR);
    tr_sim_free(sim);
}

static void test_numbers_come_from_the_seed(void **state)
{
    (void)state;
    tr_sim *one = sim_of(5), *same = sim_of(5), *other = sim_of(6);
    tri_world *a = world_of(one), *b = world_of(same), *c = world_of(other);

    for (int i = 0; i < 100; i++) {
        uint64_t drawn = a->ops->random(a);
        assert_int_equal(drawn, b->ops->random(b));
        assert_int_not_equal(drawn, c->ops->random(c));
        assert_true(tr_sim_random(one, 10) < 10);
    }
    tr_sim_free(one);
    tr_sim_free(same);
    tr_sim_free(other);
}

static void test_pollers_refuse_descriptors_and_wait(void **state)
{
    (void)state;
    tr_sim *sim = sim_of(1);
    tri_world *world = world_of(sim);
    tri_poller *poller;
    tri_fd_event event;

    assert_int_equal(world->ops->poller_new(world, &poller), TR_OK);
    assert_int_equal(world->ops->poller_add(poller, 0, TRI_FD_READ, 1),
                     TR_EINVAL);
    assert_int_equal(world->ops->poller_wait(poller, &event, 1, TR_SECONDS(1)),
                     0);
    assert_int_equal(tr_sim_now(sim), TR_SECONDS(2));
    world->ops->poller_wake(poller);
    assert_int_equal(world->ops->poller_wait(poller, &event, 1, TR_FOREVER), 0);
    assert_int_equal(world->ops->poller_fd(poller), -1);
    world->ops->poller_remove(poller, 0);
    world->ops->poller_free(poller);
    tr_sim_free(sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_time_passes_only_by_advancing),
        cmocka_unit_test(test_numbers_come_from_the_seed),
        cmocka_unit_test(test_pollers_refuse_descriptors_and_wait),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
