/*
 * posix_signal.c - signals of the real world: one handler, which writes the
 * number of a signal to the pipe of each listener that has asked for it.
 *
 * Dispositions belong to the process, and a handler has no argument, so the
 * table below is shared by all systems. The system delivers a signal to any
 * thread that does not block it; threads of the library block them all.
 *
 * Invariant: the handler uses a descriptor only while `running` counts it; a
 * listener is closed after its set was cleared and `running` was seen as 0.
 */
#define _GNU_SOURCE  // pipe2, NSIG

#include "base/posix_signal.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/posix_stream.h"

enum {
    LISTENERS_MAX = 64,  // streams of signals in one process
    NUMBERS_MAX = 64,    // the greatest number of a signal
};

/* How often tri_posix_wait_signal reads its word while no signal arrives. */
#define SIGNAL_POLL TR_MS(50)

typedef struct listener {
    _Atomic(uint64_t) set;  // bit n - 1: signal n; 0: the place is free
    int fd;                 // of the pipe, to write
} listener;

/* What the process did with a signal before the first user of it came. */
typedef struct use {
    uint32_t count;
    bool is_taken;  // our handler is set
    struct sigaction before;
} use;

static struct signal_table {
    pthread_mutex_t mutex;  // guards uses, and who has a listener
    use uses[NUMBERS_MAX + 1];
    listener listeners[LISTENERS_MAX];
    _Atomic(uint32_t) running;  // handlers
    _Atomic(uint32_t) stops;    // SIGINT and SIGTERM that the handler has seen
    _Atomic(pid_t) process;     // a child of fork has its pipes, too
} signals = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static const int stop_numbers[2] = {SIGINT, SIGTERM};

static uint64_t bit_of(int number)
{
    TRI_CHECK(number > 0 && number <= NUMBERS_MAX);
    return UINT64_C(1) << (number - 1);
}

/* ---- the handler ---- */

/* Tells all listeners. In a signal handler, or in tri_posix_wait_signal. */
static void tell_listeners(int number)
{
    unsigned char byte = (unsigned char)number;
    // Relaxed: set before the first listener was.
    if (getpid() !=
        atomic_load_explicit(&signals.process, memory_order_relaxed)) {
        return;
    }
    // Sequentially consistent, here and at the sets: either this handler finds
    // the set cleared, or listener_end finds the handler running.
    atomic_fetch_add_explicit(&signals.running, 1, memory_order_seq_cst);
    for (int i = 0; i < LISTENERS_MAX; i++) {
        listener *it = &signals.listeners[i];
        uint64_t set = atomic_load_explicit(&it->set, memory_order_seq_cst);
        if (set & bit_of(number)) {
            // A full pipe has thousands of signals that were not taken yet.
            ssize_t put = write(it->fd, &byte, 1);
            (void)put;
        }
    }
    // Release: pairs with listener_end.
    atomic_fetch_sub_explicit(&signals.running, 1, memory_order_release);
}

static void on_signal(int number)
{
    int kept = errno;
    if (number == SIGINT || number == SIGTERM) {
        // Relaxed: only the number is read.
        atomic_fetch_add_explicit(&signals.stops, 1, memory_order_relaxed);
    }
    tell_listeners(number);
    errno = kept;
}

/* ---- dispositions ---- */

/*
 * Begins to use a signal. Sets our handler if `must`; otherwise only in place
 * of the default action, so that a handler of the program, and a signal that
 * it ignores, stay as they are. Returns false if there is no such signal.
 */
static bool use_begin(int number, bool must)
{
    use *it = &signals.uses[number];
    struct sigaction ours = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigfillset(&ours.sa_mask);
    if (it->count == 0 && sigaction(number, NULL, &it->before) != 0) {
        return false;
    }
    if (!it->is_taken && (must || it->before.sa_handler == SIG_DFL)) {
        if (sigaction(number, &ours, NULL) != 0) {
            return false;
        }
        it->is_taken = true;
    }
    it->count++;
    return true;
}

/* The last user puts the disposition back, unless the program has changed it. */
static void use_end(int number)
{
    use *it = &signals.uses[number];
    struct sigaction now;
    TRI_CHECK(it->count > 0);
    it->count--;
    if (it->count > 0 || !it->is_taken) {
        return;
    }
    it->is_taken = false;
    if (sigaction(number, NULL, &now) == 0 && now.sa_handler == on_signal) {
        (void)sigaction(number, &it->before, NULL);
    }
}

static void uses_end(uint64_t set)
{
    for (int number = 1; number <= NUMBERS_MAX; number++) {
        if (set & bit_of(number)) {
            use_end(number);
        }
    }
}

/* Uses all signals of the set, or none. */
static bool uses_begin(uint64_t set)
{
    uint64_t begun = 0;
    for (int number = 1; number <= NUMBERS_MAX; number++) {
        if (!(set & bit_of(number))) {
            continue;
        }
        if (!use_begin(number, true)) {
            uses_end(begun);
            return false;
        }
        begun |= bit_of(number);
    }
    return true;
}

/* ---- listeners ---- */

/* Signals that an instruction raises, or that nobody can take. */
static uint64_t forbidden_set(void)
{
    return bit_of(SIGKILL) | bit_of(SIGSTOP) | bit_of(SIGSEGV) |
           bit_of(SIGBUS) | bit_of(SIGFPE) | bit_of(SIGILL) | bit_of(SIGTRAP) |
           bit_of(SIGABRT) | bit_of(SIGSYS);
}

/* Begins to listen. Takes fd on TR_OK. With the mutex. */
static tr_err listener_begin(uint64_t set, int fd, listener **out)
{
    for (int i = 0; i < LISTENERS_MAX; i++) {
        listener *it = &signals.listeners[i];
        // Relaxed: with the mutex.
        if (atomic_load_explicit(&it->set, memory_order_relaxed) != 0) {
            continue;
        }
        if (!uses_begin(set)) {
            return TR_EINVAL;
        }
        it->fd = fd;
        // Relaxed: published by the next store, and a pid does not change.
        atomic_store_explicit(&signals.process, getpid(), memory_order_relaxed);
        // Sequentially consistent: publishes fd; pairs with tell_listeners.
        atomic_store_explicit(&it->set, set, memory_order_seq_cst);
        *out = it;
        return TR_OK;
    }
    return TR_ELIMIT;
}

/* The `end` of a stream of signals. */
static bool listener_end(void *data, bool is_last)
{
    listener *it = data;
    (void)is_last;
    pthread_mutex_lock(&signals.mutex);
    int fd = it->fd;
    // Sequentially consistent, both: see tell_listeners.
    uint64_t set = atomic_exchange_explicit(&it->set, 0, memory_order_seq_cst);
    while (atomic_load_explicit(&signals.running, memory_order_seq_cst) > 0) {
        (void)sched_yield();
    }
    uses_end(set);
    pthread_mutex_unlock(&signals.mutex);
    (void)close(fd);
    return true;
}

/* Makes the stream of the pipe, and listens. Takes both descriptors. */
static tr_err open_pipe(tri_poller *poller, tri_stream **out, uint64_t set,
                        const int fds[2])
{
    listener *it = NULL;
    tr_err err = tri_posix_stream_new(poller, fds[0], 0, out);
    if (err == TR_OK) {
        tri_posix_stream_set_pipe(*out);
        pthread_mutex_lock(&signals.mutex);
        err = listener_begin(set, fds[1], &it);
        pthread_mutex_unlock(&signals.mutex);
    }
    if (err == TR_OK) {
        tri_posix_stream_set_end(*out, listener_end, it);
        return TR_OK;
    }
    (void)close(fds[1]);
    tri_posix_stream_close(*out);
    *out = NULL;
    return err;
}

tr_err tri_posix_signals_open(tri_poller *poller, tri_stream **out,
                              uint64_t set)
{
    TRI_CHECK(out != NULL);
    int fds[2];

    *out = NULL;
    if (set == 0 || (set & forbidden_set())) {
        return TR_EINVAL;
    }
    if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0) {
        return tri_posix_stream_err(errno);
    }
    return open_pipe(poller, out, set, fds);
}

tr_err tri_posix_signals_take(tri_stream *signals_of, int *number)
{
    TRI_CHECK(number != NULL);
    unsigned char byte = 0;
    size_t done;

    *number = 0;
    TR_TRY(tri_posix_stream_read(signals_of, &byte, 1, &done));
    TRI_CHECK(done == 1);  // the other side of the pipe is open
    *number = byte;
    return TR_OK;
}

/* ---- SIGINT and SIGTERM, in a thread that blocks ---- */

static void stops_begin(void)
{
    pthread_mutex_lock(&signals.mutex);
    for (int i = 0; i < 2; i++) {
        TRI_CHECK(use_begin(stop_numbers[i], false));
    }
    pthread_mutex_unlock(&signals.mutex);
}

static void stops_end(void)
{
    pthread_mutex_lock(&signals.mutex);
    for (int i = 0; i < 2; i++) {
        use_end(stop_numbers[i]);
    }
    pthread_mutex_unlock(&signals.mutex);
}

void tri_posix_wait_signal(tri_world *world, _Atomic(uint32_t) *word,
                           uint32_t expected)
{
    (void)world;
    sigset_t stop, before;
    int number = -1;
    sigemptyset(&stop);
    sigaddset(&stop, SIGINT);
    sigaddset(&stop, SIGTERM);
    // Relaxed, both: the handler publishes nothing else.
    uint32_t stops = atomic_load_explicit(&signals.stops, memory_order_relaxed);
    stops_begin();
    pthread_sigmask(SIG_BLOCK, &stop, &before);
    struct timespec poll = {.tv_nsec = SIGNAL_POLL};
    // Acquire: pairs with the release of the thread that changes the word.
    while (atomic_load_explicit(word, memory_order_acquire) == expected &&
           atomic_load_explicit(&signals.stops, memory_order_relaxed) ==
               stops &&
           number < 0) {
        number = sigtimedwait(&stop, NULL, &poll);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (number > 0) {
        tell_listeners(number);
    }
    stops_end();
}
