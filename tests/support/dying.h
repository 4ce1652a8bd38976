/*
 * dying.h - for child processes that a test expects to abort.
 *
 * Where branches are counted (the preset coverage) an abort would lose the
 * counts of the child; dying_child saves them on the way. The process ends by
 * SIGABRT all the same.
 */
#ifndef TEST_SUPPORT_DYING_H
#define TEST_SUPPORT_DYING_H

#include <signal.h>
#include <stddef.h>

/* There when branches are counted. */
void __gcov_dump(void) __attribute__((weak));

static inline void dying_save(int signal_number)
{
    if (__gcov_dump != NULL) {
        __gcov_dump();
    }
    signal(signal_number, SIG_DFL);  // abort raises it again
}

/* In the child, before what aborts. */
static inline void dying_child(void)
{
    signal(SIGABRT, dying_save);
}

#endif
