/*
 * child.h - runs a function in a process of its own, whose limits and signals
 * it may change.
 */
#ifndef TROUPE_HOSTILE_CHILD_H
#define TROUPE_HOSTILE_CHILD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <troupe/troupe.h>

/* For the child: ends it with a report if the condition is false. */
#define MUST_BE(cond)                                                          \
    do {                                                                       \
        if (!(cond)) {                                                         \
            fprintf(stderr, "%s: not so: %s\n", TR_HERE, #cond);               \
            _exit(1);                                                          \
        }                                                                      \
    } while (0)

static inline pid_t child_begin(void (*fn)(void))
{
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        alarm(120);  // a hang is a failure
        fn();
        _exit(0);
    }
    return pid;
}

static inline void child_end(pid_t pid)
{
    int status;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFSIGNALED(status)) {
        fail_msg("ended by signal %d", WTERMSIG(status));
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

static inline void in_child(void (*fn)(void))
{
    child_end(child_begin(fn));
}

/* Drops the rights of root, for which some limits do not count. */
static inline void become_nobody(void)
{
    if (getuid() == 0) {
        MUST_BE(setgid(65534) == 0 && setuid(65534) == 0);
    }
}

#endif
