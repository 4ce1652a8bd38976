/*
 * sim_step_test.c - what a step runs, and what the seed decides.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/hash.h"
#include "base/world.h"
#include "sim/sim.h"
#include "sim/sim_node.h"
#include "support/toy_world.h"

/* ---- time ---- */

static void test_a_timer_fires_at_its_time(void **state)
{
    (void)state;
    tr_sim *sim = sim_of(1);
    tri_world *world = world_of(sim);
    toy it;

    toy_init(&it, 1, 0);
    it.due = TR_SECONDS(1) + TR_SECONDS(7);
    world->ops->attach(world, &it.driven);
    tr_sim_advance(sim, TR_SECONDS(7) - 1);
    assert_int_equal(it.fired, 0);
    tr_sim_advance(sim, 1);  // includes what is due at its end
    assert_int_equal(it.fired, 1);
    assert_int_equal(it.fired_at, TR_SECONDS(8));
    world->ops->detach(world, &it.driven);
    tr_sim_free(sim);
}

static void test_a_busy_program_cannot_stop_the_clock(void **state)
{
    (void)state;
    tr_sim *sim = sim_of(1);
    tri_world *world = world_of(sim);
    toy it;

    toy_init(&it, 3, UINT32_MAX);
    it.due = TR_SECONDS(1) + TR_MS(1);
    world->ops->attach(world, &it.driven);
    tr_sim_advance(sim, TR_MS(2));
    assert_int_equal(it.fired, 1);
    assert_true(tr_sim_now(sim) >= TR_SECONDS(1) + TR_MS(2));
    world->ops->detach(world, &it.driven);
    tr_sim_free(sim);
}

/* ---- what the seed decides ---- */

typedef struct outcome {
    uint64_t hash, steps, order;
} outcome;

static outcome scenario(uint64_t seed)
{
    tr_sim *sim = sim_of(seed);
    talk it = {.world = world_of(sim)};
    const tri_world_ops *ops = it.world->ops;
    toy one, two;
    tri_thread *threads[2];

    toy_init(&one, 20, 200);
    toy_init(&two, 3, 100);
    two.due = TR_SECONDS(3);
    ops->attach(it.world, &one.driven);
    ops->attach(&tri_sim_node_add(sim)->world, &two.driven);
    assert_int_equal(
        ops->thread_start(it.world, &threads[0], "ping", ping, &it), TR_OK);
    assert_int_equal(
        ops->thread_start(it.world, &threads[1], "pong", pong, &it), TR_OK);
    tr_sim_advance(sim, TR_SECONDS(10));
    for (int i = 0; i < 2; i++) {
        ops->thread_join(it.world, threads[i]);
    }
    assert_int_equal(one.deepest, TRI_SIM_WINDOW - 1);
    ops->detach(it.world, &one.driven);
    ops->detach(it.world, &two.driven);
    outcome result = {.hash = tr_sim_trace_hash(sim),
                      .steps = tr_sim_steps(sim),
                      .order = tri_hash_mix(one.order) ^ two.order};
    tr_sim_free(sim);
    return result;
}

static void test_a_seed_replays(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 50; seed++) {
        outcome first = scenario(seed);
        outcome again = scenario(seed);
        assert_int_equal(first.hash, again.hash);
        assert_int_equal(first.steps, again.steps);
        assert_int_equal(first.order, again.order);
    }
}

static void test_another_seed_is_another_run(void **state)
{
    (void)state;
    uint64_t seen[50];

    for (uint64_t seed = 0; seed < 50; seed++) {
        seen[seed] = scenario(seed).order;
        for (uint64_t i = 0; i < seed; i++) {
            assert_int_not_equal(seen[i], seen[seed]);
        }
    }
}

/* Compares with constants: compiler and machine must not matter. */
static void test_a_seed_has_the_same_hash_on_every_machine(void **state)
{
    (void)state;
    outcome it = scenario(42);

    assert_int_equal(it.steps, 502);
    assert_int_equal(it.hash, UINT64_C(0x930885b2a6ce1d69));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_timer_fires_at_its_time),
        cmocka_unit_test(test_a_busy_program_cannot_stop_the_clock),
        cmocka_unit_test(test_a_seed_replays),
        cmocka_unit_test(test_another_seed_is_another_run),
        cmocka_unit_test(test_a_seed_has_the_same_hash_on_every_machine),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
