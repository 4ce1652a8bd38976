/*
 * under_signals.h - runs a wait while signals interrupt it.
 */
#ifndef TEST_BASE_UNDER_SIGNALS_H
#define TEST_BASE_UNDER_SIGNALS_H

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/time.h>

#include <cmocka.h>

static inline void ignore_signal(int number)
{
    (void)number;
}

/* Runs `wait` while a signal arrives every half millisecond. */
static inline void under_signals(void (*wait)(void))
{
    struct sigaction action = {.sa_handler = ignore_signal};
    struct sigaction before;
    struct itimerval often = {.it_interval = {.tv_usec = 500},
                              .it_value = {.tv_usec = 500}};
    struct itimerval never = {0};

    assert_int_equal(sigaction(SIGALRM, &action, &before), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
    wait();
    assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
    assert_int_equal(sigaction(SIGALRM, &before, NULL), 0);
}

#endif
