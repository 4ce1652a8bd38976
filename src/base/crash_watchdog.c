/*
 * crash_watchdog.c - handlers for fatal signals, and a timer signal per thread.
 *
 * The kernel delivers a signal that an instruction raised to the thread that
 * executed it, and the timer signal to the thread that created the timer. So
 * each handler finds the watchdog of its thread in a thread-local variable;
 * threads share nothing, and a thread without a watchdog finds NULL.
 *
 * Invariant: only default handlers are replaced, and at the end only handlers
 * that are still ours are reset to the default.
 */
#define _GNU_SOURCE  // SIGEV_THREAD_ID
#include "base/crash_watchdog.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/world_posix.h"

#define STACK_SIZE  ((size_t)64 * 1024)
#define STACK_LEAST ((size_t)16 * 1024)  // a smaller signal stack is replaced

/* This many real-time signals are tried for the timer, from SIGRTMAX down. */
enum { TICK_SIGNALS = 8 };

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

/* Registers a callback for the end of the process. NULL without a sanitizer. */
extern void __sanitizer_set_death_callback(void (*callback)(void))
    __attribute__((weak));

static const struct {
    int number;
    const char *name;
} fatal[] = {{SIGSEGV, "SIGSEGV"},
             {SIGBUS, "SIGBUS"},
             {SIGFPE, "SIGFPE"},
             {SIGILL, "SIGILL"},
             {SIGABRT, "SIGABRT"}};

struct tri_crash_watchdog {
    tri_crash_watchdog_ops ops;
    bool replaced[TRI_COUNT_OF(fatal)];  // the signal has our handler
    bool has_stack;                      // `stack` is the signal stack
    int tick_signal;                     // 0: there is no timer
    timer_t timer;
    stack_t stack_before;
    char stack[STACK_SIZE];
};

/* The watchdog of this thread, or NULL. Handlers only read it. */
static _Thread_local tri_crash_watchdog *thread_watchdog;

/* ---- fatal signals ---- */

static void on_fatal_signal(int number, siginfo_t *info, void *context)
{
    int saved = errno;
    const tri_crash_watchdog *it = thread_watchdog;

    (void)context;
    for (size_t i = 0; it != NULL && i < TRI_COUNT_OF(fatal); i++) {
        if (fatal[i].number == number) {
            it->ops.crash(it->ops.user, fatal[i].name);
        }
    }
    errno = saved;
    // The kernel has restored the default handler (SA_RESETHAND). A failed
    // instruction runs again and now ends the process; a signal that was sent
    // (si_code <= 0) must be sent again.
    if (info->si_code <= 0) {
        (void)raise(number);
    }
}

static void on_sanitizer_report(void)
{
    const tri_crash_watchdog *it = thread_watchdog;

    if (it != NULL) {
        it->ops.crash(it->ops.user, "a sanitizer's report");
    }
}

static bool has_default_handler(int number)
{
    struct sigaction now;

    return sigaction(number, NULL, &now) == 0 &&
           (now.sa_flags & SA_SIGINFO) == 0 && now.sa_handler == SIG_DFL;
}

static void install_fatal_handlers(tri_crash_watchdog *it)
{
    struct sigaction action = {.sa_sigaction = on_fatal_signal,
                               .sa_flags =
                                   SA_SIGINFO | SA_ONSTACK | SA_RESETHAND};

    for (size_t i = 0; i < TRI_COUNT_OF(fatal); i++) {
        it->replaced[i] = has_default_handler(fatal[i].number) &&
                          sigaction(fatal[i].number, &action, NULL) == 0;
    }
    if (__sanitizer_set_death_callback != NULL) {
        __sanitizer_set_death_callback(on_sanitizer_report);
    }
}

/* Resets a signal to the default, if `ours` is still its handler. */
static void reset_handler(int number, void (*ours)(int, siginfo_t *, void *))
{
    struct sigaction now;
    struct sigaction action = {.sa_handler = SIG_DFL};

    if (sigaction(number, NULL, &now) == 0 &&
        (now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == ours) {
        (void)sigaction(number, &action, NULL);
    }
}

/* ---- the timer ---- */

static void on_tick(int number, siginfo_t *info, void *context)
{
    int saved = errno;
    const tri_crash_watchdog *it = thread_watchdog;

    (void)number;
    (void)context;
    if (it != NULL && info->si_code == SI_TIMER) {
        it->ops.tick(it->ops.user);
    }
    errno = saved;
}

/*
 * Creates the timer with this signal. Returns false if the program handles the
 * signal, or if timers cannot send it.
 */
static bool create_timer(tri_crash_watchdog *it, int number)
{
    struct sigaction action = {.sa_sigaction = on_tick,
                               .sa_flags =
                                   SA_SIGINFO | SA_ONSTACK | SA_RESTART};
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID,
                             .sigev_signo = number};

    event.sigev_notify_thread_id = gettid();
    if (!has_default_handler(number) || sigaction(number, &action, NULL) != 0) {
        return false;
    }
    if (timer_create(CLOCK_MONOTONIC, &event, &it->timer) != 0) {
        reset_handler(number, on_tick);
        return false;
    }
    it->tick_signal = number;
    return true;
}

/* Starts the timer. If none can be created, `tick` is never called. */
static void start_timer(tri_crash_watchdog *it, tr_nanos tick)
{
    bool created = false;

    for (int i = 0; !created && i < TICK_SIGNALS; i++) {
        created = create_timer(it, SIGRTMAX - i);
    }
    if (!created) {
        return;
    }
    struct itimerspec every = {.it_interval = tri_posix_timespec(tick),
                               .it_value = tri_posix_timespec(tick)};
    (void)timer_settime(it->timer, 0, &every, NULL);
}

/*
 * Deletes the timer and takes a tick signal that is already pending, which
 * would end the process once the handler is reset.
 */
static void stop_timer(tri_crash_watchdog *it)
{
    sigset_t set, before;

    if (it->tick_signal == 0) {
        return;
    }
    sigemptyset(&set);
    sigaddset(&set, it->tick_signal);
    (void)sigprocmask(SIG_BLOCK, &set, &before);
    (void)timer_delete(it->timer);
    while (sigtimedwait(&set, NULL, &(struct timespec){0}) > 0) {
        // Discard it.
    }
    reset_handler(it->tick_signal, on_tick);
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
}

/* ---- signal stack ---- */

/*
 * Gives the thread a signal stack, unless it has a large one: a worker thread
 * has a small stack, which may be used up when it crashes.
 */
static void install_stack(tri_crash_watchdog *it)
{
    stack_t own = {.ss_sp = it->stack, .ss_size = sizeof(it->stack)};

    if (sigaltstack(NULL, &it->stack_before) == 0 &&
        ((it->stack_before.ss_flags & SS_DISABLE) != 0 ||
         it->stack_before.ss_size < STACK_LEAST)) {
        it->has_stack = sigaltstack(&own, NULL) == 0;
    }
}

static void restore_stack(tri_crash_watchdog *it)
{
    stack_t now;

    if (it->has_stack && sigaltstack(NULL, &now) == 0 &&
        now.ss_sp == it->stack) {
        (void)sigaltstack(&it->stack_before, NULL);
    }
}

/* ---- start and stop ---- */

tr_err tri_crash_watchdog_start(tri_crash_watchdog **out,
                                const tri_crash_watchdog_ops *ops,
                                tr_nanos tick)
{
    TRI_CHECK(out != NULL);
    TRI_CHECK(ops->crash != NULL);
    TRI_CHECK(ops->tick != NULL);
    TRI_CHECK(tick > 0);
    *out = NULL;
    if (thread_watchdog != NULL) {
        return TR_EEXIST;
    }
    tri_crash_watchdog *it = calloc(1, sizeof(*it));
    if (it == NULL) {
        return TR_ENOMEM;
    }
    it->ops = *ops;
    thread_watchdog = it;
    install_stack(it);
    install_fatal_handlers(it);
    start_timer(it, tick);
    *out = it;
    return TR_OK;
}

void tri_crash_watchdog_stop(tri_crash_watchdog *it)
{
    if (it == NULL) {
        return;
    }
    TRI_CHECK(thread_watchdog == it);
    stop_timer(it);
    if (__sanitizer_set_death_callback != NULL) {
        __sanitizer_set_death_callback(NULL);
    }
    for (size_t i = 0; i < TRI_COUNT_OF(fatal); i++) {
        if (it->replaced[i]) {
            reset_handler(fatal[i].number, on_fatal_signal);
        }
    }
    restore_stack(it);
    thread_watchdog = NULL;
    free(it);
}
