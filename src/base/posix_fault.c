/*
 * posix_fault.c - one handler for SIGSEGV and SIGBUS, which finds the callback
 * of its thread in a thread-local variable.
 *
 * Invariant: only default handlers are replaced. The handler stays for the
 * life of the process: a thread without a callback dies as by default.
 */
#define _GNU_SOURCE
#include "base/posix_fault.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include "base/check.h"

#define STACK_SIZE ((size_t)64 * 1024)

typedef struct fault_watch {
    void (*fn)(void *user, const void *address);
    void *user;
    stack_t before;          // the thread had this one
    char stack[STACK_SIZE];  // the handler runs on it
} fault_watch;

/* The watch of this thread, or NULL. The handler only reads it. */
static _Thread_local fault_watch *thread_watch;

static void on_fault(int number, siginfo_t *info, void *context)
{
    int saved = errno;
    const fault_watch *it = thread_watch;

    (void)context;
    if (it != NULL && info->si_code > 0) {
        it->fn(it->user, info->si_addr);
    }
    errno = saved;
    // The kernel has restored the default handler (SA_RESETHAND). A failed
    // instruction runs again and now ends the process; a signal that was sent
    // (si_code <= 0) must be sent again.
    if (info->si_code <= 0) {
        (void)raise(number);
    }
}

static void install(int number)
{
    struct sigaction now;
    struct sigaction action = {.sa_sigaction = on_fault,
                               .sa_flags =
                                   SA_SIGINFO | SA_ONSTACK | SA_RESETHAND};

    if (sigaction(number, NULL, &now) == 0 &&
        (now.sa_flags & SA_SIGINFO) == 0 && now.sa_handler == SIG_DFL) {
        (void)sigaction(number, &action, NULL);
    }
}

void tri_posix_fault_begin(void (*fn)(void *user, const void *address),
                           void *user)
{
    TRI_CHECK(fn != NULL);
    TRI_CHECK(thread_watch == NULL);
    fault_watch *it = calloc(1, sizeof(*it));
    if (it == NULL) {
        return;  // faults are not explained
    }
    stack_t own = {.ss_sp = it->stack, .ss_size = sizeof(it->stack)};
    it->fn = fn;
    it->user = user;
    if (sigaltstack(&own, &it->before) != 0) {
        free(it);
        return;
    }
    thread_watch = it;
    install(SIGSEGV);
    install(SIGBUS);
}

void tri_posix_fault_end(void)
{
    fault_watch *it = thread_watch;

    if (it == NULL) {
        return;
    }
    thread_watch = NULL;
    (void)sigaltstack(&it->before, NULL);
    free(it);
}
