/*
 * posix_lookout.c - signals that end a thread, and a timer that looks at it.
 *
 * A signal of a thread's own instruction is handled by that thread, and the
 * timer is directed at it, so that the handlers find theirs in a
 * thread-local: nothing is shared, and other threads' signals find none.
 *
 * Invariant: only handlers that stood at the default are replaced, and only
 * those that are still ours are put back.
 */
#define _GNU_SOURCE  // timers that are directed at a thread
#include "base/lookout.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/world_posix.h"

#define STACK_SIZE  ((size_t)64 * 1024)
#define STACK_LEAST ((size_t)16 * 1024)  // of another's that we may use

/* Real-time signals that are tried for the timer, from the last one down. */
enum { TICK_SIGNALS = 8 };

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

/* There where a sanitizer is: its way to be told before it ends a process. */
extern void __sanitizer_set_death_callback(void (*callback)(void))
    __attribute__((weak));

static const struct {
    int number;
    const char *name;
} deadly[] = {{SIGSEGV, "SIGSEGV"},
              {SIGBUS, "SIGBUS"},
              {SIGFPE, "SIGFPE"},
              {SIGILL, "SIGILL"},
              {SIGABRT, "SIGABRT"}};

struct tri_lookout {
    tri_lookout_ops ops;
    bool is_ours[TRI_COUNT_OF(deadly)];  // the handler
    bool has_stack;
    int tick_signal;  // 0: there is no timer
    timer_t timer;
    stack_t stack_before;
    char stack[STACK_SIZE];
};

/* Of this thread; the handlers only read it. */
static _Thread_local tri_lookout *lookout_here;

/* ---- what ends the thread ---- */

static void on_deadly(int number, siginfo_t *info, void *context)
{
    int saved = errno;
    const tri_lookout *it = lookout_here;

    (void)context;
    for (size_t i = 0; it != NULL && i < TRI_COUNT_OF(deadly); i++) {
        if (deadly[i].number == number) {
            it->ops.crash(it->ops.user, deadly[i].name);
        }
    }
    errno = saved;
    // The default is set again (SA_RESETHAND): the instruction that failed
    // fails once more. What somebody sent must be sent once more.
    if (info->si_code <= 0) {
        (void)raise(number);
    }
}

static void on_sanitizer(void)
{
    const tri_lookout *it = lookout_here;

    if (it != NULL) {
        it->ops.crash(it->ops.user, "a sanitizer's report");
    }
}

static bool is_default(int number)
{
    struct sigaction now;

    return sigaction(number, NULL, &now) == 0 &&
           (now.sa_flags & SA_SIGINFO) == 0 && now.sa_handler == SIG_DFL;
}

static void take_deadly(tri_lookout *it)
{
    struct sigaction action = {.sa_sigaction = on_deadly,
                               .sa_flags =
                                   SA_SIGINFO | SA_ONSTACK | SA_RESETHAND};

    for (size_t i = 0; i < TRI_COUNT_OF(deadly); i++) {
        it->is_ours[i] = is_default(deadly[i].number) &&
                         sigaction(deadly[i].number, &action, NULL) == 0;
    }
    if (__sanitizer_set_death_callback != NULL) {
        __sanitizer_set_death_callback(on_sanitizer);
    }
}

/* To the default, unless the program has put its own handler there. */
static void give_back(int number, void (*ours)(int, siginfo_t *, void *))
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
    const tri_lookout *it = lookout_here;

    (void)number;
    (void)context;
    if (it != NULL && info->si_code == SI_TIMER) {
        it->ops.tick(it->ops.user);
    }
    errno = saved;
}

/* False: the signal is somebody's, or may not be sent by timers. */
static bool make_timer(tri_lookout *it, int number)
{
    struct sigaction action = {.sa_sigaction = on_tick,
                               .sa_flags =
                                   SA_SIGINFO | SA_ONSTACK | SA_RESTART};
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID,
                             .sigev_signo = number};

    event.sigev_notify_thread_id = gettid();
    if (!is_default(number) || sigaction(number, &action, NULL) != 0) {
        return false;
    }
    if (timer_create(CLOCK_MONOTONIC, &event, &it->timer) != 0) {
        give_back(number, on_tick);
        return false;
    }
    it->tick_signal = number;
    return true;
}

/* Without one, nothing is said of a thread that hangs. */
static void take_timer(tri_lookout *it, tr_nanos tick)
{
    bool made = false;

    for (int i = 0; !made && i < TICK_SIGNALS; i++) {
        made = make_timer(it, SIGRTMAX - i);
    }
    if (!made) {
        return;
    }
    struct itimerspec every = {.it_interval = tri_posix_timespec(tick),
                               .it_value = tri_posix_timespec(tick)};
    (void)timer_settime(it->timer, 0, &every, NULL);
}

/* A signal that has been sent already must not end the process. */
static void drop_timer(tri_lookout *it)
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
        // Taken, and gone.
    }
    give_back(it->tick_signal, on_tick);
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
}

/* ---- the whole ---- */

/* Threads of actors have little stack, or none left when they crash. */
static void take_stack(tri_lookout *it)
{
    stack_t own = {.ss_sp = it->stack, .ss_size = sizeof(it->stack)};

    if (sigaltstack(NULL, &it->stack_before) == 0 &&
        ((it->stack_before.ss_flags & SS_DISABLE) != 0 ||
         it->stack_before.ss_size < STACK_LEAST)) {
        it->has_stack = sigaltstack(&own, NULL) == 0;
    }
}

static void give_stack_back(tri_lookout *it)
{
    stack_t now;

    if (it->has_stack && sigaltstack(NULL, &now) == 0 &&
        now.ss_sp == it->stack) {
        (void)sigaltstack(&it->stack_before, NULL);
    }
}

tr_err tri_lookout_start(tri_lookout **out, const tri_lookout_ops *ops,
                         tr_nanos tick)
{
    *out = NULL;
    if (lookout_here != NULL) {
        return TR_EEXIST;
    }
    tri_lookout *it = calloc(1, sizeof(*it));
    if (it == NULL) {
        return TR_ENOMEM;
    }
    it->ops = *ops;
    lookout_here = it;
    take_stack(it);
    take_deadly(it);
    take_timer(it, tick);
    *out = it;
    return TR_OK;
}

void tri_lookout_stop(tri_lookout *it)
{
    if (it == NULL) {
        return;
    }
    TRI_CHECK(lookout_here == it);
    drop_timer(it);
    if (__sanitizer_set_death_callback != NULL) {
        __sanitizer_set_death_callback(NULL);
    }
    for (size_t i = 0; i < TRI_COUNT_OF(deadly); i++) {
        if (it->is_ours[i]) {
            give_back(deadly[i].number, on_deadly);
        }
    }
    give_stack_back(it);
    lookout_here = NULL;
    free(it);
}
