/*
 * crash_watchdog.h - calls back when a signal is about to end the thread, and
 * at regular intervals of real time, however busy the thread is.
 *
 * A simulation uses it to say which run crashed or hangs. Simulated time plays
 * no part in it.
 *
 * Callbacks run in a signal handler, on a stack of their own, so they work
 * even if the thread has used up its stack. They must not allocate, lock or
 * wait; they may call tri_log_part and tri_log_line.
 *
 * Threads: a watchdog watches the thread that started it, and that thread must
 * stop it.
 * Ownership: the caller owns the watchdog and ends it with
 * tri_crash_watchdog_stop.
 */
#ifndef TRI_BASE_CRASH_WATCHDOG_H
#define TRI_BASE_CRASH_WATCHDOG_H

#include "troupe/base.h"

typedef struct tri_crash_watchdog tri_crash_watchdog;

typedef struct tri_crash_watchdog_ops {
    /*
     * Called when SIGSEGV, SIGBUS, SIGFPE, SIGILL or SIGABRT is about to end
     * the thread, with the signal's name, or when a sanitizer is. When it
     * returns, the process ends as it would have without the watchdog.
     */
    void (*crash)(void *user, const char *what);
    /* Called once per `tick` of real time. */
    void (*tick)(void *user);
    void *user;
} tri_crash_watchdog_ops;

/*
 * Starts to watch the calling thread. Signals that the program or a sanitizer
 * handles keep their handler. Errors: TR_ENOMEM, TR_EEXIST (this thread has a
 * watchdog already).
 */
TR_NODISCARD tr_err tri_crash_watchdog_start(tri_crash_watchdog **out,
                                             const tri_crash_watchdog_ops *ops,
                                             tr_nanos tick);

/*
 * Stops the watchdog of the calling thread, frees it and restores the signal
 * handlers and the signal stack. Does nothing for NULL.
 */
void tri_crash_watchdog_stop(tri_crash_watchdog *watchdog);

#endif
