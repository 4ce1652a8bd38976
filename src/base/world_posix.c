/*
 * world_posix.c - the real world on Linux: time, random numbers, threads and
 * waiting; and the table of its functions.
 *
 * The other files posix_*.c have the rest of the table: descriptors, streams,
 * datagrams, signals, processes, files. No other files ask the system for these things. Each function wraps
 * one system call: it repeats a call that a signal interrupted, completes a
 * short result and turns errno into a tr_err. It makes no other decisions.
 *
 * Invariant: the world itself has no state. State belongs to an object of the
 * caller (a thread, a poller, a file) or to one thread (the random generator),
 * so the world needs no lock and no release.
 */
#define _GNU_SOURCE  // sched_getaffinity, pthread_setname_np, gettid

#include "base/world_posix.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/lock.h"
#include "base/posix_address.h"
#include "base/posix_fault.h"
#include "base/posix_file.h"
#include "base/posix_poller.h"
#include "base/posix_process.h"
#include "base/posix_signal.h"
#include "base/posix_stream.h"
#include "base/posix_udp.h"
#include "base/rand.h"

#define NANOS_PER_SECOND TR_SECONDS(1)

#define THREAD_NAME_SIZE 16     // with its NUL; the kernel's TASK_COMM_LEN
#define CPU_COUNT_MAX    65536  // posix_cpus tries sets of up to this size

tr_err tri_posix_err(int number)
{
    switch (number) {
    case 0:
        return TR_OK;
    case ENOMEM:
        return TR_ENOMEM;
    case ENOENT:
    case ENOTDIR:
        return TR_ENOENT;
    case EEXIST:
        return TR_EEXIST;
    case EINVAL:
    case EISDIR:
    case ELOOP:
    case ENAMETOOLONG:
    case EBADF:
        return TR_EINVAL;
    case EMFILE:
    case ENFILE:
        return TR_ELIMIT;
    default:
        return TR_EIO;
    }
}

struct tri_thread {
    pthread_t id;
    _Atomic(pid_t) number;  // the kernel's thread id; 0 before it starts
    void (*fn)(void *arg);
    void *arg;
    char name[THREAD_NAME_SIZE];
};

/* ---- time ---- */

// Always inlined: sim/sim_stray.c recognises the system calls of this file by
// their address, which must lie in a function of the table below.
__attribute__((always_inline)) static inline tr_nanos clock_read(clockid_t id)
{
    struct timespec now;

    TRI_CHECK(clock_gettime(id, &now) == 0);
    return (tr_nanos)now.tv_sec * NANOS_PER_SECOND + now.tv_nsec;
}

tr_nanos tri_posix_mono(tri_world *world)
{
    (void)world;
    return clock_read(CLOCK_MONOTONIC);
}

static tr_nanos posix_mono_coarse(tri_world *world)
{
    (void)world;
    return clock_read(CLOCK_MONOTONIC_COARSE);
}

static tr_nanos posix_wall(tri_world *world)
{
    (void)world;
    return clock_read(CLOCK_REALTIME);
}

static tr_nanos posix_boottime(tri_world *world)
{
    (void)world;
    return clock_read(CLOCK_BOOTTIME);
}

tr_nanos tri_posix_deadline(tr_nanos timeout)
{
    tr_nanos now = clock_read(CLOCK_MONOTONIC);

    if (timeout <= 0) {
        return now;
    }
    return timeout > TR_FOREVER - now ? TR_FOREVER : now + timeout;
}

struct timespec tri_posix_timespec(tr_nanos nanos)
{
    return (struct timespec){.tv_sec = nanos / NANOS_PER_SECOND,
                             .tv_nsec = nanos % NANOS_PER_SECOND};
}

/* ---- random ---- */

/*
 * One generator per thread, which the kernel seeds at the thread's first draw.
 * Its numbers spread load and make names; they must not be used for secrets.
 */
typedef struct generator {
    bool seeded;
    tri_rand rand;
} generator;

static _Thread_local generator thread_generator;

static void fill_from_kernel(void *at, size_t size)
{
    ssize_t got;

    do {
        got = getrandom(at, size, 0);
    } while (got < 0 && errno == EINTR);
    // The kernel returns up to 256 bytes in one piece.
    TRI_CHECK(got == (ssize_t)size);
}

static void generator_seed(generator *it)
{
    fill_from_kernel(it->rand.word, sizeof(it->rand.word));
    it->rand.word[0] |= 1;  // a state of zeros would give only zeros
    it->seeded = true;
}

/* Runs in the child of a fork, which must not repeat the parent's draws. */
static void generator_forget(void)
{
    thread_generator.seeded = false;
}

__attribute__((constructor)) static void watch_forks(void)
{
    TRI_CHECK(pthread_atfork(NULL, NULL, generator_forget) == 0);
}

static uint64_t posix_random(tri_world *world)
{
    (void)world;
    if (!thread_generator.seeded) {
        generator_seed(&thread_generator);
    }
    return tri_rand_next(&thread_generator.rand);
}

/* ---- threads ---- */

/*
 * Returns how many of `possible` CPUs this thread may run on, or 0 if the
 * kernel's set is larger than that.
 */
static uint32_t cpus_among(int possible)
{
    size_t size = CPU_ALLOC_SIZE(possible);
    cpu_set_t *set = CPU_ALLOC(possible);
    uint32_t count = 0;

    if (set == NULL) {
        return 0;
    }
    if (sched_getaffinity(0, size, set) == 0) {
        count = (uint32_t)CPU_COUNT_S(size, set);
    }
    CPU_FREE(set);
    return count;
}

static uint32_t posix_cpus(tri_world *world)
{
    (void)world;
    for (int possible = CPU_SETSIZE; possible <= CPU_COUNT_MAX; possible *= 2) {
        uint32_t count = cpus_among(possible);
        if (count > 0) {
            return count;
        }
    }
    return 1;
}

static void *thread_main(void *arg)
{
    tri_thread *thread = arg;

    // Relaxed: the number publishes nothing else. Pairs with
    // posix_thread_is_runnable.
    atomic_store_explicit(&thread->number, gettid(), memory_order_relaxed);
    // The name is for people; a thread without one works as well.
    (void)pthread_setname_np(pthread_self(), thread->name);
    thread->fn(thread->arg);
    tri_posix_fault_end();
    return NULL;
}

static void posix_watch_faults(tri_world *world,
                               void (*fn)(void *user, const void *address),
                               void *user)
{
    (void)world;
    if (fn != NULL) {
        tri_posix_fault_begin(fn, user);
    } else {
        tri_posix_fault_end();
    }
}

/*
 * Fills the signal mask of a library thread: it blocks every signal that is
 * sent to the process, so that the program's own threads get them. Signals
 * that an instruction of the thread itself raises stay unblocked.
 */
static void library_mask(sigset_t *mask)
{
    static const int raised[] = {SIGSEGV, SIGBUS,  SIGFPE, SIGILL,
                                 SIGTRAP, SIGABRT, SIGSYS};

    sigfillset(mask);
    for (size_t i = 0; i < TRI_COUNT_OF(raised); i++) {
        sigdelset(mask, raised[i]);
    }
}

static tr_err posix_thread_start(tri_world *world, tri_thread **out,
                                 const char *name, void (*fn)(void *arg),
                                 void *arg)
{
    (void)world;
    TRI_CHECK(out != NULL);
    TRI_CHECK(name != NULL);
    TRI_CHECK(fn != NULL);
    *out = NULL;

    tri_thread *thread = calloc(1, sizeof(*thread));
    if (thread == NULL) {
        return TR_ENOMEM;
    }
    thread->fn = fn;
    thread->arg = arg;
    strncpy(thread->name, name, THREAD_NAME_SIZE - 1);

    // The new thread inherits the mask, so it never takes such a signal.
    sigset_t mask, before;
    library_mask(&mask);
    TRI_CHECK(pthread_sigmask(SIG_SETMASK, &mask, &before) == 0);
    int number = pthread_create(&thread->id, NULL, thread_main, thread);
    TRI_CHECK(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);

    if (number != 0) {
        free(thread);
        return number == ENOMEM ? TR_ENOMEM : TR_ELIMIT;
    }
    *out = thread;
    return TR_OK;
}

static void posix_thread_join(tri_world *world, tri_thread *thread)
{
    (void)world;
    TRI_CHECK(thread != NULL);
    TRI_CHECK(pthread_join(thread->id, NULL) == 0);
    free(thread);
}

static tr_nanos posix_thread_ran(tri_world *world, tri_thread *thread)
{
    (void)world;
    clockid_t clock;
    TRI_CHECK(pthread_getcpuclockid(thread->id, &clock) == 0);
    return clock_read(clock);
}

/*
 * Reads the state letter from /proc/self/task/<id>/stat (proc(5)): the one
 * after the last ')', because the name in parentheses may contain any text.
 */
static bool posix_thread_is_runnable(tri_world *world, tri_thread *thread)
{
    (void)world;
    char text[128];  // the path, then the line up to the letter and more
    // Relaxed: pairs with thread_main.
    int number =
        (int)atomic_load_explicit(&thread->number, memory_order_relaxed);
    if (number == 0) {
        return true;
    }
    snprintf(text, sizeof(text), "/proc/self/task/%d/stat", number);
    int fd = open(text, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    ssize_t size = read(fd, text, sizeof(text) - 1);
    (void)close(fd);
    text[size > 0 ? size : 0] = '\0';
    const char *name_end = strrchr(text, ')');
    return name_end != NULL && strncmp(name_end, ") R", 3) == 0;
}

/* ---- waiting ---- */

static long futex(_Atomic(uint32_t) *word, int op, uint32_t value,
                  const struct timespec *until)
{
    return syscall(SYS_futex, word, op, value, until, NULL,
                   FUTEX_BITSET_MATCH_ANY);
}

static bool posix_park(tri_world *world, _Atomic(uint32_t) *word,
                       uint32_t expected, tr_nanos timeout)
{
    (void)world;
    // Acquire: pairs with the release of the thread that changes the word
    // before it calls wake; sees what that thread wrote earlier.
    if (atomic_load_explicit(word, memory_order_acquire) != expected) {
        return true;
    }

    // FUTEX_WAIT_BITSET takes an absolute time of the monotonic clock.
    struct timespec at = {0};
    const struct timespec *until = NULL;
    if (timeout != TR_FOREVER) {
        at = tri_posix_timespec(tri_posix_deadline(timeout));
        until = &at;
    }
    for (;;) {
        long result = futex(word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG,
                            expected, until);
        if (result == 0 || errno == EAGAIN) {
            return true;
        }
        if (errno == ETIMEDOUT) {
            return false;
        }
        TRI_CHECK(errno == EINTR);
    }
}

static void posix_wake(tri_world *world, _Atomic(uint32_t) *word,
                       uint32_t count)
{
    (void)world;
    // The kernel reads the count as a signed number.
    uint32_t most = count > INT_MAX ? INT_MAX : count;

    // The result is ignored: the word's memory may be unmapped or reused
    // already, because its waiter may return as soon as the word changes. Then
    // the kernel returns EFAULT or wakes another waiter, which checks its word
    // again.
    (void)futex(word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, most, NULL);
}

static void posix_pause(tri_world *world)
{
    (void)world;
    TRI_CPU_RELAX();
}

/* Registers the process for barriers; registering again is harmless. */
static bool posix_can_barrier(tri_world *world)
{
    (void)world;
    return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0,
                   0) == 0;
}

static void posix_barrier(tri_world *world)
{
    (void)world;
    long rc = syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
    TRI_CHECK(rc == 0);
}

static void posix_yield(tri_world *world)
{
    (void)world;
    (void)sched_yield();
}

static const char *posix_environment(tri_world *world, const char *name)
{
    (void)world;
    return getenv(name);
}

static tri_shared *posix_shared(tri_world *world)
{
    static tri_shared shared;  // the process has one, like this world

    (void)world;
    return &shared;
}

static const tri_world_ops posix_ops = {
    .name = "posix",
    .has_threads = true,
    .mono = tri_posix_mono,
    .mono_coarse = posix_mono_coarse,
    .wall = posix_wall,
    .boottime = posix_boottime,
    .random = posix_random,
    .cpus = posix_cpus,
    .thread_start = posix_thread_start,
    .wait_signal = tri_posix_wait_signal,
    .poller_alarm = tri_posix_poller_alarm,
    .thread_join = posix_thread_join,
    .thread_ran = posix_thread_ran,
    .thread_is_runnable = posix_thread_is_runnable,
    .watch_faults = posix_watch_faults,
    .park = posix_park,
    .wake = posix_wake,
    .pause = posix_pause,
    .yield = posix_yield,
    .barrier = posix_barrier,
    .can_barrier = posix_can_barrier,
    .poller_new = tri_posix_poller_new,
    .poller_free = tri_posix_poller_free,
    .poller_add = tri_posix_poller_add,
    .poller_remove = tri_posix_poller_remove,
    .poller_wait = tri_posix_poller_wait,
    .poller_wake = tri_posix_poller_wake,
    .poller_fd = tri_posix_poller_fd,
    .resolve = tri_posix_resolve,
    .stream_listen = tri_posix_stream_listen,
    .stream_accept = tri_posix_stream_accept,
    .stream_connect = tri_posix_stream_connect,
    .stream_connected = tri_posix_stream_connected,
    .stream_read = tri_posix_stream_read,
    .stream_write = tri_posix_stream_write,
    .stream_shutdown = tri_posix_stream_shutdown,
    .stream_close = tri_posix_stream_close,
    .stream_address = tri_posix_stream_address,
    .stream_wait = tri_posix_stream_wait,
    .stream_cancel = tri_posix_stream_cancel,
    .udp_open = tri_posix_udp_open,
    .udp_send = tri_posix_udp_send,
    .udp_receive = tri_posix_udp_receive,
    .signals_open = tri_posix_signals_open,
    .signals_take = tri_posix_signals_take,
    .process_start = tri_posix_process_start,
    .process_status = tri_posix_process_status,
    .process_signal = tri_posix_process_signal,
    .file_open = tri_posix_file_open,
    .file_close = tri_posix_file_close,
    .file_read = tri_posix_file_read,
    .file_write = tri_posix_file_write,
    .file_sync = tri_posix_file_sync,
    .file_truncate = tri_posix_file_truncate,
    .file_size = tri_posix_file_size,
    .file_lock = tri_posix_file_lock,
    .file_map = tri_posix_file_map,
    .file_unmap = tri_posix_file_unmap,
    .file_remove = tri_posix_file_remove,
    .file_rename = tri_posix_file_rename,
    .file_exists = tri_posix_file_exists,
    .environment = posix_environment,
    .shared = posix_shared,
};

tri_world *tri_world_posix(void)
{
    // The pointer type is not const because other worlds have state; this one
    // has none, so nobody writes to it.
    static const tri_world world = {.magic = TRI_WORLD_MAGIC,
                                    .ops = &posix_ops};

    return (tri_world *)&world;
}
