/*
 * dying.h - for child processes that a test expects to abort.
 *
 * In the preset coverage an abort would lose the branch counts of the child;
 * dying_child makes it save them first. The process still ends by SIGABRT.
 */
#ifndef TEST_SUPPORT_DYING_H
#define TEST_SUPPORT_DYING_H

#include <signal.h>
#include <stddef.h>

/* Defined in the preset coverage. */
void __gcov_dump(void) __attribute__((weak));

static inline void dying_save(int signal_number)
{
    if (__gcov_dump != NULL) {
        __gcov_dump();
    }
    signal(signal_number, SIG_DFL);  // abort raises it again
}

/* Call it in the child, before the call that aborts. */
static inline void dying_child(void)
{
    signal(SIGABRT, dying_save);
}

#endif
