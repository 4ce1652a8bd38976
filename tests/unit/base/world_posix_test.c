/*
 * world_posix_test.c - the real world fulfils world.h: time, random numbers,
 * threads, park and wake. posix_poller_test.c and posix_file_test.c have the
 * rest.
 */
#define _GNU_SOURCE  // affinity, thread names

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/world.h"
#include "unit/base/under_signals.h"

#define OPS(world) ((world)->ops)
#define SHORT_WAIT TR_MS(2)

static tri_world *world;

/* ---- time and random ---- */

static void test_mono_never_falls(void **state)
{
    (void)state;
    tr_nanos last = OPS(world)->mono(world);

    for (int i = 0; i < 1000; i++) {
        tr_nanos now = OPS(world)->mono(world);
        assert_true(now >= last);
        last = now;
    }
}

static void test_wall_is_after_2020(void **state)
{
    (void)state;
    assert_true(OPS(world)->wall(world) > TR_SECONDS(INT64_C(1577836800)));
}

static void test_random_uses_all_bits(void **state)
{
    (void)state;
    uint64_t ones = 0;
    uint64_t zeros = 0;

    for (int i = 0; i < 1000; i++) {
        uint64_t draw = OPS(world)->random(world);
        ones |= draw;
        zeros |= ~draw;
    }
    assert_true(ones == UINT64_MAX);
    assert_true(zeros == UINT64_MAX);
}

static void draw_one(void *arg)
{
    *(uint64_t *)arg = OPS(world)->random(world);
}

static void test_threads_draw_differently(void **state)
{
    (void)state;
    uint64_t draws[2];

    for (int i = 0; i < 2; i++) {
        tri_thread *thread;
        assert_int_equal(OPS(world)->thread_start(world, &thread, "draw",
                                                  draw_one, &draws[i]),
                         TR_OK);
        OPS(world)->thread_join(world, thread);
    }
    assert_true(draws[0] != draws[1]);
}

static void test_a_fork_draws_differently(void **state)
{
    (void)state;
    int ends[2];
    uint64_t theirs = 0;

    (void)OPS(world)->random(world);  // seeds the parent's generator
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        uint64_t draw = OPS(world)->random(world);
        _exit(write(ends[1], &draw, sizeof(draw)) != sizeof(draw));
    }
    uint64_t ours = OPS(world)->random(world);
    assert_int_equal(read(ends[0], &theirs, sizeof(theirs)), sizeof(theirs));
    assert_true(ours != theirs);
    assert_int_equal(waitpid(child, NULL, 0), child);
    close(ends[0]);
    close(ends[1]);
}

static void test_cpus_follow_the_affinity(void **state)
{
    (void)state;
    cpu_set_t before, one;

    assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
    assert_int_equal(OPS(world)->cpus(world), CPU_COUNT(&before));
    CPU_ZERO(&one);
    for (int i = 0; CPU_COUNT(&one) == 0; i++) {
        if (CPU_ISSET(i, &before)) {
            CPU_SET(i, &one);
        }
    }
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    assert_int_equal(OPS(world)->cpus(world), 1);
    assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
}

/* ---- threads ---- */

typedef struct self_view {
    char name[16];
    sigset_t mask;
} self_view;

static void look_at_self(void *arg)
{
    self_view *view = arg;

    pthread_getname_np(pthread_self(), view->name, sizeof(view->name));
    pthread_sigmask(SIG_SETMASK, NULL, &view->mask);
}

static void test_thread_has_name_and_no_signals(void **state)
{
    (void)state;
    self_view view;
    sigset_t before, after;
    tri_thread *thread;

    pthread_sigmask(SIG_SETMASK, NULL, &before);
    assert_int_equal(OPS(world)->thread_start(world, &thread,
                                              "a name that is too long",
                                              look_at_self, &view),
                     TR_OK);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    OPS(world)->thread_join(world, thread);

    assert_string_equal(view.name, "a name that is ");
    assert_true(sigismember(&view.mask, SIGTERM));
    assert_true(sigismember(&view.mask, SIGINT));
    assert_true(sigismember(&view.mask, SIGCHLD));
    assert_false(sigismember(&view.mask, SIGSEGV));
    assert_false(sigismember(&view.mask, SIGFPE));
    for (int i = 1; i < SIGRTMAX; i++) {
        assert_int_equal(sigismember(&before, i), sigismember(&after, i));
    }
}

/* Counts as fast as it can, then waits for the word to become 2. */
static void count_then_wait(void *arg)
{
    _Atomic(uint32_t) *word = arg;
    // Relaxed, here and below: the number publishes nothing else.
    while (atomic_load_explicit(word, memory_order_relaxed) == 0) {
    }
    while (atomic_load_explicit(word, memory_order_relaxed) == 1) {
        (void)OPS(world)->park(world, word, 1, TR_FOREVER);
    }
}

static void test_thread_is_runnable_while_it_computes(void **state)
{
    (void)state;
    _Atomic(uint32_t) word = 0;
    tri_thread *thread;
    assert_int_equal(OPS(world)->thread_start(world, &thread, "a) S odd (name",
                                              count_then_wait, &word),
                     TR_OK);
    tr_nanos first = OPS(world)->thread_ran(world, thread);
    while (OPS(world)->thread_ran(world, thread) < first + TR_MS(2)) {
        assert_true(OPS(world)->thread_is_runnable(world, thread));
    }
    atomic_store_explicit(&word, 1, memory_order_relaxed);
    while (OPS(world)->thread_is_runnable(world, thread)) {
        OPS(world)->yield(world);
    }
    atomic_store_explicit(&word, 2, memory_order_relaxed);
    OPS(world)->wake(world, &word, 1);
    OPS(world)->thread_join(world, thread);
}

/* ---- park and wake ---- */

static void test_park_sees_an_earlier_change(void **state)
{
    (void)state;
    _Atomic(uint32_t) word = 1;

    assert_true(OPS(world)->park(world, &word, 0, TR_FOREVER));
    assert_true(OPS(world)->park(world, &word, 0, 0));
}

static void test_park_ends_with_its_time(void **state)
{
    (void)state;
    _Atomic(uint32_t) word = 7;
    tr_nanos begin = OPS(world)->mono(world);

    assert_false(OPS(world)->park(world, &word, 7, SHORT_WAIT));
    assert_true(OPS(world)->mono(world) - begin >= SHORT_WAIT);
    assert_false(OPS(world)->park(world, &word, 7, 0));
}

static void test_a_wake_without_a_waiter_has_no_effect(void **state)
{
    (void)state;
    _Atomic(uint32_t) word = 0;

    OPS(world)->wake(world, &word, UINT32_MAX);
    assert_false(OPS(world)->park(world, &word, 0, SHORT_WAIT));
}

/* Two threads hand a turn to and fro; `plain` is guarded by the word alone. */
#define TURNS 2000

typedef struct ping_pong {
    _Atomic(uint32_t) word;
    uint32_t plain;
} ping_pong;

static void take_turns(ping_pong *game, uint32_t parity)
{
    for (uint32_t turn = parity; turn < TURNS; turn += 2) {
        uint32_t seen;
        while ((seen = atomic_load_explicit(&game->word,
                                            memory_order_acquire)) != turn) {
            (void)OPS(world)->park(world, &game->word, seen, TR_FOREVER);
        }
        assert_int_equal(game->plain, turn);
        game->plain++;
        atomic_store_explicit(&game->word, turn + 1, memory_order_release);
        OPS(world)->wake(world, &game->word, 1);
    }
}

static void take_odd_turns(void *arg)
{
    take_turns(arg, 1);
}

static void test_two_threads_take_turns(void **state)
{
    (void)state;
    ping_pong game = {0};
    tri_thread *thread;

    assert_int_equal(
        OPS(world)->thread_start(world, &thread, "odd", take_odd_turns, &game),
        TR_OK);
    take_turns(&game, 0);
    OPS(world)->thread_join(world, thread);
    assert_int_equal(game.plain, TURNS);
}

typedef struct gate {
    _Atomic(uint32_t) open;
    _Atomic(uint32_t) passed;
} gate;

static void wait_at_gate(void *arg)
{
    gate *it = arg;

    while (atomic_load_explicit(&it->open, memory_order_acquire) == 0) {
        (void)OPS(world)->park(world, &it->open, 0, TR_FOREVER);
    }
    atomic_fetch_add_explicit(&it->passed, 1, memory_order_relaxed);
}

static void test_wake_all_wakes_all(void **state)
{
    (void)state;
    gate it = {0};
    tri_thread *threads[4];

    for (int i = 0; i < 4; i++) {
        assert_int_equal(OPS(world)->thread_start(world, &threads[i], "gate",
                                                  wait_at_gate, &it),
                         TR_OK);
    }
    OPS(world)->yield(world);
    OPS(world)->pause(world);
    atomic_store_explicit(&it.open, 1, memory_order_release);
    OPS(world)->wake(world, &it.open, UINT32_MAX);
    for (int i = 0; i < 4; i++) {
        OPS(world)->thread_join(world, threads[i]);
    }
    assert_int_equal(it.passed, 4);
}

static void park_a_while(void)
{
    _Atomic(uint32_t) word = 0;

    assert_false(OPS(world)->park(world, &word, 0, TR_MS(20)));
}

static void test_signals_do_not_end_a_park(void **state)
{
    (void)state;
    under_signals(park_a_while);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mono_never_falls),
        cmocka_unit_test(test_wall_is_after_2020),
        cmocka_unit_test(test_random_uses_all_bits),
        cmocka_unit_test(test_threads_draw_differently),
        cmocka_unit_test(test_a_fork_draws_differently),
        cmocka_unit_test(test_cpus_follow_the_affinity),
        cmocka_unit_test(test_thread_has_name_and_no_signals),
        cmocka_unit_test(test_thread_is_runnable_while_it_computes),
        cmocka_unit_test(test_park_sees_an_earlier_change),
        cmocka_unit_test(test_park_ends_with_its_time),
        cmocka_unit_test(test_a_wake_without_a_waiter_has_no_effect),
        cmocka_unit_test(test_two_threads_take_turns),
        cmocka_unit_test(test_wake_all_wakes_all),
        cmocka_unit_test(test_signals_do_not_end_a_park),
    };

    world = tri_world_posix();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
