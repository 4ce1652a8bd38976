/*
 * world_sim_test.c - virtual time, threads that are fibers, and what a seed
 * decides, without any actor: the systems here are a few lines each.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "sim/sim.h"

enum { ACTORS = 20, LOG_MAX = 4096 };

#define HOUR TR_MINUTES(60)

static tr_sim *sim_of(uint64_t seed)
{
    tr_sim *sim;

    assert_int_equal(tr_sim_new(&sim, seed), TR_OK);
    return sim;
}

static tri_world *world_of(tr_sim *sim)
{
    return (tri_world *)tr_sim_world(sim);
}

static uint32_t load(_Atomic(uint32_t) *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}

static void store(_Atomic(uint32_t) *word, uint32_t value)
{
    atomic_store_explicit(word, value, memory_order_relaxed);
}

/* ---- a system: counters that are runnable, and one timer ---- */

typedef struct toy {
    tri_driven driven;
    uint32_t queue[ACTORS];  // who is runnable
    uint32_t count;
    uint32_t left;   // steps until it rests
    uint64_t order;  // a hash of who ran when
    tr_nanos due;
    tr_nanos fired_at;
    uint32_t fired;
    uint32_t deepest;  // the highest index it was asked for
} toy;

static uint32_t toy_runnable(void *system)
{
    toy *it = system;

    return it->left > 0 ? it->count : 0;
}

static void toy_step(void *system, uint32_t index)
{
    toy *it = system;

    assert_true(index < it->count);
    it->deepest = index > it->deepest ? index : it->deepest;
    it->left--;
    uint32_t who = it->queue[index];
    it->order = tri_hash_mix(it->order ^ who);
    memmove(&it->queue[index], &it->queue[index + 1],
            (it->count - index - 1) * sizeof(it->queue[0]));
    it->queue[it->count - 1] = who;
}

static tr_nanos toy_next_due(void *system)
{
    return ((toy *)system)->due;
}

static void toy_fire(void *system, tr_nanos now)
{
    toy *it = system;

    if (now >= it->due) {
        it->fired_at = now;
        it->fired++;
        it->due = TR_FOREVER;
    }
}

static void toy_init(toy *it, uint32_t actors, uint32_t steps)
{
    *it = (toy){.count = actors, .left = steps, .due = TR_FOREVER};
    it->driven = (tri_driven){.system = it,
                              .runnable = toy_runnable,
                              .step = toy_step,
                              .next_due = toy_next_due,
                              .fire = toy_fire};
    for (uint32_t i = 0; i < actors; i++) {
        it->queue[i] = i;
    }
}

/* ---- time ---- */

static void test_time_passes_only_when_asked(void **state)
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
    tr_sim_advance(sim, 1);  // what is due at the end belongs to it
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

static void test_a_clock_may_run_at_its_own_rate(void **state)
{
    (void)state;
    tr_sim *sim = sim_of(1);
    tri_sim_node *node = tri_sim_node_of(world_of(sim));
    tri_rand rand;

    tri_rand_init(&rand, 7);
    for (int i = 0; i < 2000; i++) {
        int32_t rate = (int32_t)tri_rand_below(&rand, 400001) - 200000;
        tr_nanos before = tri_sim_local(node);
        tri_sim_set_rate(node, rate);
        assert_int_equal(tri_sim_local(node), before);

        tr_nanos local = before + 1 + (tr_nanos)tri_rand_below(&rand, HOUR);
        tr_nanos when = tri_sim_when(node, local);
        tr_sim_advance(sim, when - 1 - sim->now);
        assert_true(tri_sim_local(node) < local);
        tr_sim_advance(sim, 1);
        assert_true(tri_sim_local(node) >= local);
    }
    tr_sim_free(sim);
}

static void test_a_fast_clock_fires_early(void **state)
{
    (void)state;
    tr_sim *sim = sim_of(1);
    tri_world *world = world_of(sim);
    toy it;

    tri_sim_set_rate(tri_sim_node_of(world), 100000);
    toy_init(&it, 1, 0);
    it.due = TR_SECONDS(1) + TR_SECONDS(11);
    world->ops->attach(world, &it.driven);
    tr_sim_advance(sim, TR_SECONDS(10));
    assert_int_equal(it.fired, 1);
    assert_int_equal(it.fired_at, TR_SECONDS(12));
    world->ops->detach(world, &it.driven);
    tr_sim_free(sim);
}

/* ---- threads ---- */

typedef struct talk {
    tri_world *world;
    _Atomic(uint32_t) word;
    _Atomic(uint32_t) end;
    uint32_t turns;
    tr_nanos at;
    bool answer;
} talk;

static void ping(void *arg)
{
    talk *it = arg;

    for (uint32_t i = 0; i < 100; i++) {
        while (load(&it->word) % 2 != 0) {
            it->world->ops->park(it->world, &it->word, load(&it->word),
                                 TR_FOREVER);
        }
        it->turns++;
        store(&it->word, load(&it->word) + 1);
        it->world->ops->wake(it->world, &it->word, 1);
    }
}

static void pong(void *arg)
{
    talk *it = arg;

    for (uint32_t i = 0; i < 100; i++) {
        while (load(&it->word) % 2 == 0) {
            it->world->ops->park(it->world, &it->word, load(&it->word),
                                 TR_FOREVER);
        }
        store(&it->word, load(&it->word) + 1);
        it->world->ops->wake(it->world, &it->word, 1);
    }
}

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

static void test_a_wait_ends_by_time_or_by_a_wake(void **state)
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

static void test_a_killed_thread_is_gone(void **state)
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
        tri_sim_kill_threads(tri_sim_node_of(it.world));
        for (int i = 0; i < 3; i++) {
            ops->thread_join(it.world, threads[i]);
        }
    }
    assert_int_equal(it.turns, 6);  // those of the first round never began
    assert_int_equal(sim->thread_count, 0);
    // Their stacks are used again.
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

/* A store's thread frees what it holds, and does so after the run only. */
static void test_ST16_a_thread_of_the_library_is_let_go_on(void **state)
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
    tri_sim_bury_threads(tri_sim_node_of(it.world));
    ops->thread_join(it.world, users);
    ops->thread_join(it.world, own);  // to others it has ended
    tr_sim_advance(sim, TR_SECONDS(1));
    assert_int_equal(it.turns, 0);
    tri_sim_exhume_threads(sim);
    tr_sim_advance(sim, TR_SECONDS(1));
    assert_int_equal(it.turns, 100);
    // The program's stands still until the world ends: it has its stack.
    assert_int_equal(sim->thread_count, 1);
    tr_sim_free(sim);
    assert_int_equal(it.turns, 100);
}

static void test_free_ends_threads_that_wait(void **state)
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

static void test_there_is_a_limit_of_threads(void **state)
{
    (void)state;
    tr_sim *sim = sim_of(3);
    talk it = {.world = world_of(sim)};
    tri_thread *thread;

    // Starting them all would map as many stacks: the count is enough here.
    sim->thread_count = TRI_SIM_THREADS_MAX;
    assert_int_equal(it.world->ops->thread_start(it.world, &thread, "one",
                                                 wait_for_ever, &it),
                     TR_ELIMIT);
    assert_null(thread);
    sim->thread_count = 0;
    tr_sim_free(sim);
}

static void test_a_paused_node_stands_still(void **state)
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
    tri_sim_pause(node, TR_SECONDS(60));
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

static void test_wakes_come_early_when_wanted(void **state)
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

/* The number itself: it must not depend on compiler or machine. */
static void test_a_seed_is_the_same_everywhere(void **state)
{
    (void)state;
    outcome it = scenario(42);

    assert_int_equal(it.steps, 502);
    assert_int_equal(it.hash, UINT64_C(0x930885b2a6ce1d69));
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

typedef struct lines {
    uint32_t count;
    char first[TRI_SIM_LINE_MAX];
} lines;

static void keep_line(void *user, const char *line)
{
    lines *it = user;

    if (it->count++ == 0) {
        strncpy(it->first, line, sizeof(it->first) - 1);
    }
}

static void test_the_trace_is_in_columns(void **state)
{
    (void)state;
    tr_sim *sim = sim_of(1);
    tri_world *world = world_of(sim);
    lines it = {0};
    toy busy;

    toy_init(&busy, 1, 5);
    world->ops->attach(world, &busy.driven);
    tr_sim_on_trace(sim, keep_line, &it);
    tr_sim_advance(sim, TR_SECONDS(1));
    assert_string_equal(it.first,
                        "         1     1.000000000    0 -                 "
                        "       step     -                -");
    assert_int_equal(it.count, tr_sim_steps(sim));
    world->ops->detach(world, &busy.driven);
    tr_sim_free(sim);
}

static void test_there_are_no_descriptors(void **state)
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

static void test_sites_are_listed_and_counted(void **state)
{
    (void)state;
    tr_sim *sim = sim_of(1);
    tr_sim_count counts[4];
    char copy[] = "a.c:1";

    for (int i = 0; i < 1000; i++) {
        (void)tri_sim_buggify(sim, 0.5, i % 2 ? "a.c:1" : copy);
        (void)tri_sim_buggify(sim, 0.0, "b.c:2");
    }
    assert_int_equal(tr_sim_sites(sim, counts, 4), 2);
    assert_string_equal(counts[0].name, "a.c:1");
    assert_int_equal(counts[0].reached, 1000);
    assert_in_range(counts[0].fired, 400, 600);
    assert_int_equal(counts[1].reached, 1000);
    assert_int_equal(counts[1].fired, 0);

    sim->calm = true;
    assert_false(tri_sim_buggify(sim, 1.0, "a.c:1"));
    assert_int_equal(tr_sim_sites(sim, counts, 1), 2);
    tr_sim_free(sim);
}

static void test_fault_classes_are_listed(void **state)
{
    (void)state;
    tr_sim *sim = sim_of(1);
    tr_sim_count counts[TRI_SIM_COUNTERS];

    assert_int_equal(tr_sim_faults(sim, counts, TRI_SIM_COUNTERS),
                     TRI_SIM_COUNTERS);
    assert_string_equal(counts[TRI_FAULT_torn_write].name, "torn_write");
    tr_sim_free(sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_time_passes_only_when_asked),
        cmocka_unit_test(test_a_timer_fires_at_its_time),
        cmocka_unit_test(test_a_busy_program_cannot_stop_the_clock),
        cmocka_unit_test(test_a_clock_may_run_at_its_own_rate),
        cmocka_unit_test(test_a_fast_clock_fires_early),
        cmocka_unit_test(test_threads_take_turns),
        cmocka_unit_test(test_a_wait_ends_by_time_or_by_a_wake),
        cmocka_unit_test(test_main_waits_by_running_the_world),
        cmocka_unit_test(test_a_thread_wakes_main),
        cmocka_unit_test(test_a_thread_joins_another),
        cmocka_unit_test(test_a_killed_thread_is_gone),
        cmocka_unit_test(test_free_ends_threads_that_wait),
        cmocka_unit_test(test_ST16_a_thread_of_the_library_is_let_go_on),
        cmocka_unit_test(test_there_is_a_limit_of_threads),
        cmocka_unit_test(test_a_paused_node_stands_still),
        cmocka_unit_test(test_wakes_come_early_when_wanted),
        cmocka_unit_test(test_a_seed_replays),
        cmocka_unit_test(test_another_seed_is_another_run),
        cmocka_unit_test(test_a_seed_is_the_same_everywhere),
        cmocka_unit_test(test_numbers_come_from_the_seed),
        cmocka_unit_test(test_the_trace_is_in_columns),
        cmocka_unit_test(test_there_are_no_descriptors),
        cmocka_unit_test(test_sites_are_listed_and_counted),
        cmocka_unit_test(test_fault_classes_are_listed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
