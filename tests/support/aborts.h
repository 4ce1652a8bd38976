/*
 * aborts.h - runs a function in a child process that it is expected to abort.
 *
 * For tests with one thread: the child has a copy of the memory of the test.
 */
#ifndef TEST_SUPPORT_ABORTS_H
#define TEST_SUPPORT_ABORTS_H

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/dying.h"

/* Calls fn(arg) in a child process; returns true if that ends by SIGABRT. */
static inline bool aborts(void (*fn)(void *arg), void *arg)
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        (void)freopen("/dev/null", "w", stderr);
        dying_child();
        fn(arg);
        _exit(0);
    }
    int status = 0;
    return child > 0 && waitpid(child, &status, 0) == child &&
           WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

#endif
