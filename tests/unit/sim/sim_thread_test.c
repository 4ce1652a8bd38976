/*
 * sim_thread_test.c - threads of a simulated world: waiting, joining, being
 * killed and frozen.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/wheel.h"
#include "base/world.h"
#include "sim/sim.h"
#include "sim/sim_fault.h"
#include "sim/sim_node.h"
#include "sim/sim_thread.h"
#include "support/toy_world.h"

static void test_threads_take_turns(void **state)
{
    (void)state;
    tr_sim *sim = sim_of(3);
    talk it = {.world = world_of(sim)};
    tri_thread *one, *other;
    const tri_world_ops *ops = it.world->ops;

    assert_int_equal(ops->thread_start(it.world, &one, "ping", ping, &it),
                     TR_OK);
    assert_int_equal(ops->thread_start(it.world, &other, "pong", pong, &it),
                     TR_OK);
    ops->thread_join(it.world, one);
    ops->thread_join(it.world, other);
    assert_int_equal(it.turns, 100);
    assert_int_equal(load(&it.word), 200);
    assert_int_equal(tr_sim_now(sim), TR_SECONDS(1));
    tr_sim_free(sim);
}

static void wait_a_while(void *arg)
{
    talk *it = arg;

    it->answer = it->world->ops->park(it->world, &it->word, 0, TR_SECONDS(5));
    it->at = it->world->ops->mono(it->world);
}

static void test_a_wait_ends_by_timeout_or_by_a_wake(void **state)
{
    (void)state;
    tr_sim *sim = sim_of(3);
    talk it = {.world = world_of(sim), .answer = true};
    const tri_world_ops *ops = it.world->ops;
    tri_thread *thread;

    assert_int_equal(
        ops->thread_start(it.world, &thread, "waits", wait_a_while, &it),
        TR_OK);
    ops->thread_join(it.world, thread);
    assert_false(it.answer);
    assert_int_equal(it.at, TR_SECONDS(6));

    assert_int_equal(
        ops->thread_start(it.world, &thread, "waits", wait_a_while, &it),
        TR_OK);
    tr_sim_advance(sim, TR_SECONDS(2));
    ops->wake(it.world, &it.word, 1);
    ops->thread_join(it.world, thread);
    assert_true(it.answer);
    assert_int_equal(it.at, TR_SECONDS(8));
    assert_int_equal(tri_wheel_count(&sim->wheel), 0);
    tr_sim_free(sim);
}

static void test_main_waits_by_running_the_world(void **state)
{
    (void)state;
    tr_sim *sim = sim_of(3);
    talk it = {.world = world_of(sim)};
    const tri_world_ops *ops = it.world->ops;

    assert_false(ops->park(it.world, &it.word, 0, TR_MINUTES(3)));
    assert_int_equal(tr_sim_now(sim), TR_SECONDS(181));
    assert_true(ops->park(it.world, &it.word, 1, TR_FOREVER));
    assert_false(ops->park(it.world, &it.word, 0, 0));
    assert_int_equal(tr_sim_now(sim), TR_SECONDS(181));
    tr_sim_free(sim);
}

static void set_after_a_second(void *arg)
{
    talk *it = arg;
    tr_sim *sim = tri_sim_of(it->world);

    tr_sim_advance(sim, TR_SECONDS(1));
    store(&it->word, 1);
    it->world->ops->wake(it->world, &it->word, UINT32_MAX);
    it->world->ops->yield(it->world);
    it->turns++;
}

static void test_a_thread_wakes_main(void **state)
{
    (void)state;
    tr_sim *sim = sim_of(3);
    talk it = {.world = world_of(sim)};
    const tri_world_ops *ops = it.world->ops;
    tri_thread *thread;

    assert_int_equal(
        ops->thread_start(it.world, &thread, "sets", set_after_a_second, &it),
        TR_OK);
    assert_true(ops->park(it.world, &it.word, 0, TR_FOREVER));
    assert_int_equal(tr_sim_now(sim), TR_SECONDS(2));
    ops->thread_join(it.world, thread);
    assert_int_equal(it.turns, 1);
    tr_sim_free(sim);
}

static void nested(void *arg)
{
    talk *it = arg;
    tri_thread *thread;

    assert_int_equal(it->world->ops->thread_start(it->world, &thread, "inner",
                                                  set_after_a_second, it),
                     TR_OK);
    it->world->ops->thread_join(it->world, thread);
    it->turns++;
}

static void test_a_thread_joins_another(void **state)
{
    (void)state;
    tr_sim *sim = sim_of(3);
    talk it = {.world = world_of(sim)};
    tri_thread *thread;

    assert_int_equal(
        it.world->ops->thread_start(it.world, &thread, "outer", nested, &it),
        TR_OK);
    it.world->ops->thread_join(it.world, thread);
    assert_int_equal(it.turns, 2);
    tr_sim_free(sim);
}

static void wait_for_ever(void *arg)
{
    talk *it = arg;

    it->turns++;
    for (;;) {
        it->world->ops->park(it->world, &it->end, 0, TR_FOREVER);
    }
}

static void test_killing_a_node_ends_its_threads(void **state)
{
    (void)state;
    tr_sim *sim = sim_of(3);
    talk it = {.world = world_of(sim)};
    const tri_world_ops *ops = it.world->ops;
    tri_thread *threads[3];

    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 3; i++) {
            assert_int_equal(ops->thread_start(it.world, &threads[i], "waits",
                                               wait_for_ever, &it),
                             TR_OK);
        }
        if (round > 0) {
            tr_sim_advance(sim, TR_SECONDS(1));
        }
        tri_sim_threads_kill(tri_sim_node_of(it.world));
        for (int i = 0; i < 3; i++) {
            ops->thread_join(it.world, threads[i]);
        }
    }
    assert_int_equal(it.turns, 6);  // threads of the first round never began
    assert_int_equal(sim->thread_count, 0);
    // Stacks are reused.
    assert_int_equal(sim->fibers.mapped_count, 3);
    tr_sim_free(sim);
}

static void wait_then_count(void *arg)
{
    talk *it = arg;
    _Atomic(uint32_t) word = 0;

    (void)it->world->ops->park(it->world, &word, 0, TR_FOREVER);
    it->turns += 100;
}

/* A store's thread releases what it holds, but only after the run. */
static void test_ST16_frozen_library_threads_go_on_after_the_run(void **state)
{
    (void)state;
    tr_sim *sim = sim_of(3);
    talk it = {.world = world_of(sim)};
    const tri_world_ops *ops = it.world->ops;
    tri_thread *own, *users;

    assert_int_equal(ops->thread_start(it.world, &own, "tr-store-write",
                                       wait_then_count, &it),
                     TR_OK);
    assert_int_equal(
        ops->thread_start(it.world, &users, "outside", wait_then_count, &it),
        TR_OK);
    tr_sim_advance(sim, TR_SECONDS(1));
    tri_sim_threads_freeze(tri_sim_node_of(it.world));
    ops->thread_join(it.world, users);
    ops->thread_join(it.world, own);  // a frozen thread counts as ended
    tr_sim_advance(sim, TR_SECONDS(1));
    assert_int_equal(it.turns, 0);
    tri_sim_threads_unfreeze(sim);
    tr_sim_advance(sim, TR_SECONDS(1));
    assert_int_equal(it.turns, 100);
    // The program's thread stays frozen, with its stack, until the end.
    assert_int_equal(sim->thread_count, 1);
    tr_sim_free(sim);
    assert_int_equal(it.turns, 100);
}

static void test_freeing_the_world_ends_waiting_threads(void **state)
{
    (void)state;
    tr_sim *sim = sim_of(3);
    talk it = {.world = world_of(sim)};
    tri_thread *thread;

    assert_int_equal(it.world->ops->thread_start(it.world, &thread, "waits",
                                                 wait_for_ever, &it),
                     TR_OK);
    tr_sim_advance(sim, TR_SECONDS(1));
    tr_sim_free(sim);
    assert_int_equal(it.turns, 1);
}

static void test_too_many_threads_are_refused(void **state)
{
    (void)state;
    tr_sim *sim = sim_of(3);
    talk it = {.world = world_of(sim)};
    tri_thread *thread;

    // Starting so many would map a stack for each: set the count instead.
    sim->thread_count = TRI_SIM_THREADS_MAX;
    assert_int_equal(it.world->ops->thread_start(it.world, &thread, "one",
                                                 wait_for_ever, &it),
                     TR_ELIMIT);
    assert_null(thread);
    sim->thread_count = 0;
    tr_sim_free(sim);
}

static void test_the_fault_early_wake_ends_a_wait_early(void **state)
{
    (void)state;
    tr_sim *sim = sim_of(3);
    talk it = {.world = world_of(sim)};
    const tri_world_ops *ops = it.world->ops;
    tr_faults faults = {.size = sizeof(faults), .early_wake = 1.0};
    tri_thread *thread;

    tri_sim_set_faults(sim, &faults);
    assert_int_equal(
        ops->thread_start(it.world, &thread, "waits", wait_a_while, &it),
        TR_OK);
    ops->thread_join(it.world, thread);
    assert_true(it.answer);
    assert_int_equal(it.at, TR_SECONDS(1));
    assert_int_equal(sim->faults[TRI_FAULT_early_wake].fired, 1);
    tr_sim_free(sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads_take_turns),
        cmocka_unit_test(test_a_wait_ends_by_timeout_or_by_a_wake),
        cmocka_unit_test(test_main_waits_by_running_the_world),
        cmocka_unit_test(test_a_thread_wakes_main),
        cmocka_unit_test(test_a_thread_joins_another),
        cmocka_unit_test(test_killing_a_node_ends_its_threads),
        cmocka_unit_test(test_ST16_frozen_library_threads_go_on_after_the_run),
        cmocka_unit_test(test_freeing_the_world_ends_waiting_threads),
        cmocka_unit_test(test_too_many_threads_are_refused),
        cmocka_unit_test(test_the_fault_early_wake_ends_a_wait_early),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
