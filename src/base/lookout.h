/*
 * lookout.h - a thread that is told when a signal is about to end it, and that
 * looks at itself from time to time however busy it is.
 *
 * The real world's only: no simulated time has part in it. What is called is
 * called by a signal handler, on a stack of its own, so also when the stack of
 * the thread is used up. It may use nothing that allocates, locks or waits;
 * tri_log_part and tri_log_line may be used.
 *
 * Threads: a lookout is of the thread that started it.
 * Ownership: the caller owns a lookout.
 */
#ifndef TRI_BASE_LOOKOUT_H
#define TRI_BASE_LOOKOUT_H

#include "troupe/base.h"

typedef struct tri_lookout tri_lookout;

typedef struct tri_lookout_ops {
    /*
     * SIGSEGV, SIGBUS, SIGFPE, SIGILL or SIGABRT, by name, or a sanitizer ends
     * the thread; afterwards that takes its course.
     */
    void (*crash)(void *user, const char *what);
    /* Every `tick` of real time. */
    void (*tick)(void *user);
    void *user;
} tri_lookout_ops;

/*
 * Watches this thread from now on. Signals for which the program has a handler
 * are left alone, and so are those of sanitizers, which tell by themselves.
 * Errors: TR_ENOMEM, TR_EEXIST (this thread is watched already).
 */
TR_NODISCARD tr_err tri_lookout_start(tri_lookout **out,
                                      const tri_lookout_ops *ops,
                                      tr_nanos tick);
/* On the same thread. What it changed is as before. NULL is allowed. */
void tri_lookout_stop(tri_lookout *lookout);

#endif
