/*
 * crash_watchdog_test.c - the watchdog ticks while its thread spins, and stop
 * restores the signal handlers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/crash_watchdog.h"
#include "base/fiber.h"

typedef struct seen {
    atomic_uint ticks;
    atomic_bool on_other_stack;
} seen;

static void on_crash(void *user, const char *what)
{
    (void)user;
    (void)what;
}

static void on_tick(void *user)
{
    seen *it = user;
    stack_t now;

    (void)sigaltstack(NULL, &now);
    atomic_store(&it->on_other_stack, (now.ss_flags & SS_ONSTACK) != 0);
    atomic_fetch_add(&it->ticks, 1);
}

static void watch_until_ticks(seen *it, uint32_t ticks)
{
    tri_crash_watchdog_ops watcher = {
        .crash = on_crash, .tick = on_tick, .user = it};
    tri_crash_watchdog *watch, *second;

    assert_int_equal(tri_crash_watchdog_start(&watch, &watcher, TR_MS(1)),
                     TR_OK);
    assert_int_equal(tri_crash_watchdog_start(&second, &watcher, TR_MS(1)),
                     TR_EEXIST);
    assert_null(second);
    while (atomic_load(&it->ticks) < ticks) {
        // A thread that never waits.
    }
    tri_crash_watchdog_stop(watch);
}

static void test_TE5_ticks_while_the_thread_spins(void **state)
{
    (void)state;
    seen it = {0};

    for (uint32_t round = 1; round <= 20; round++) {
        watch_until_ticks(&it, atomic_load(&it.ticks) + 3);
    }
    // The thread sanitizer calls handlers later, on a stack of its choice.
    assert_true(atomic_load(&it.on_other_stack) || TRI_FIBER_TSAN);
    // No tick is left pending: it would end the process.
    uint32_t before = atomic_load(&it.ticks);
    sigset_t pending;
    assert_int_equal(sigpending(&pending), 0);
    assert_int_equal(atomic_load(&it.ticks), before);
}

static void ignore(int number)
{
    (void)number;
}

static void test_TE5_stop_restores_the_handlers(void **state)
{
    (void)state;
    static const int fatal[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    struct sigaction before[5], now;
    tri_crash_watchdog_ops watcher = {
        .crash = on_crash, .tick = on_tick, .user = &(seen){0}};
    tri_crash_watchdog *watch;

    signal(SIGBUS, ignore);  // before the start
    signal(SIGFPE, SIG_DFL);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(sigaction(fatal[i], NULL, &before[i]), 0);
    }
    assert_int_equal(
        tri_crash_watchdog_start(&watch, &watcher, TR_SECONDS(100)), TR_OK);
    assert_int_equal(sigaction(SIGBUS, NULL, &now), 0);
    assert_ptr_equal(now.sa_handler, ignore);
    assert_int_equal(sigaction(SIGFPE, NULL, &now), 0);
    assert_ptr_not_equal(now.sa_handler, SIG_DFL);
    signal(SIGABRT, ignore);  // while the watchdog runs
    tri_crash_watchdog_stop(watch);
    assert_int_equal(sigaction(SIGABRT, NULL, &now), 0);
    assert_ptr_equal(now.sa_handler, ignore);
    signal(SIGABRT, SIG_DFL);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(sigaction(fatal[i], NULL, &now), 0);
        assert_ptr_equal(now.sa_handler, before[i].sa_handler);
    }
    signal(SIGBUS, SIG_DFL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_TE5_ticks_while_the_thread_spins),
        cmocka_unit_test(test_TE5_stop_restores_the_handlers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
