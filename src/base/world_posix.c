/*
 * world_posix.c - the world as Linux gives it.
 *
 * With posix_poller.c and posix_file.c the only file that asks the system for
 * time, random numbers, threads, waiting, descriptors and files. Nothing is
 * decided here: each function is one system call, with the interruptions and
 * short results taken out of the caller's sight and errno turned into a
 * tr_err.
 *
 * Invariant: the world itself holds no state. What has state is made by the
 * caller (a thread, a poller, a file) or belongs to one thread (the random
 * generator), so there is nothing to lock and nothing to release.
 */
#define _GNU_SOURCE  // affinity, thread names

#include "base/world_posix.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/lock.h"

#define NANOS_PER_SECOND INT64_C(1000000000)

#define THREAD_NAME_SIZE 16     // with its zero; the kernel's TASK_COMM_LEN
#define CPU_COUNT_MAX    65536  // where the search for the set's size ends

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
    _Atomic(pid_t) number;  // the kernel's; 0: it has not begun
    void (*fn)(void *arg);
    void *arg;
    char name[THREAD_NAME_SIZE];
};

/* ---- time ---- */

// Inlined: sim/sim_stray.c tells this file's calls by where its table leads.
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

/* When a wait of `timeout` from now ends; TR_FOREVER stays TR_FOREVER. */
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
 * xoshiro256** (Blackman and Vigna, "Scrambled linear pseudorandom number
 * generators", 2018), one state per thread, seeded by the kernel at the
 * thread's first draw. It spreads load and names things; it keeps no secrets.
 */
typedef struct generator {
    bool seeded;
    uint64_t state[4];
} generator;

static _Thread_local generator own_generator;

static void fill_from_kernel(void *at, size_t size)
{
    ssize_t got;

    do {
        got = getrandom(at, size, 0);
    } while (got < 0 && errno == EINTR);
    // Up to 256 bytes come whole once the kernel's pool is ready.
    TRI_CHECK(got == (ssize_t)size);
}

static void generator_seed(generator *it)
{
    fill_from_kernel(it->state, sizeof(it->state));
    it->state[0] |= 1;  // a state of all zeros would stay so
    it->seeded = true;
}

/* In a fork's child: its one thread must not repeat the parent's draws. */
static void generator_forget(void)
{
    own_generator.seeded = false;
}

__attribute__((constructor)) static void watch_forks(void)
{
    TRI_CHECK(pthread_atfork(NULL, NULL, generator_forget) == 0);
}

static uint64_t rotate_left(uint64_t value, unsigned bits)
{
    return (value << bits) | (value >> (64 - bits));
}

static uint64_t posix_random(tri_world *world)
{
    (void)world;
    if (!own_generator.seeded) {
        generator_seed(&own_generator);
    }

    uint64_t *s = own_generator.state;
    uint64_t result = rotate_left(s[1] * 5, 7) * 9;
    uint64_t shifted = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= shifted;
    s[3] = rotate_left(s[3], 45);
    return result;
}

/* ---- threads ---- */

/* How many of `possible` CPUs this thread may run on; 0: the set is larger. */
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

    // Relaxed: a number that stands for itself.
    atomic_store_explicit(&thread->number, gettid(), memory_order_relaxed);
    // A missing name harms nobody.
    (void)pthread_setname_np(pthread_self(), thread->name);
    thread->fn(thread->arg);
    return NULL;
}

/*
 * What a library thread refuses to take: every signal that is meant for the
 * process, so that the program's own threads get it. Those that a thread
 * raises by its own instruction stay open.
 */
static void library_mask(sigset_t *mask)
{
    static const int own[] = {SIGSEGV, SIGBUS,  SIGFPE, SIGILL,
                              SIGTRAP, SIGABRT, SIGSYS};

    sigfillset(mask);
    for (size_t i = 0; i < TRI_COUNT_OF(own); i++) {
        sigdelset(mask, own[i]);
    }
}

static tr_err posix_thread_start(tri_world *world, tri_thread **out,
                                 const char *name, void (*fn)(void *arg),
                                 void *arg)
{
    (void)world;
    TRI_CHECK(out != NULL);
    TRI_CHECK(fn != NULL);
    *out = NULL;

    tri_thread *thread = calloc(1, sizeof(*thread));
    if (thread == NULL) {
        return TR_ENOMEM;
    }
    thread->fn = fn;
    thread->arg = arg;
    strncpy(thread->name, name, THREAD_NAME_SIZE - 1);

    // The new thread inherits the mask, so no signal reaches it in between.
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

/* The letter behind the name, which may hold any other, in proc(5)'s stat. */
static bool posix_thread_is_runnable(tri_world *world, tri_thread *thread)
{
    (void)world;
    char text[128];  // number, name of 15 bytes, letter: that is all we need
    // Relaxed: as in thread_main.
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
    // Acquire: sees what was written before the word was changed. It pairs
    // with the release of whoever changes the word and then calls wake.
    if (atomic_load_explicit(word, memory_order_acquire) != expected) {
        return true;
    }

    // FUTEX_WAIT_BITSET counts absolute time on the monotonic clock.
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

    // The word's memory may be gone already: its waiter can leave as soon as
    // it is changed. The kernel then answers EFAULT, or wakes somebody who
    // looks again; so the result tells nothing.
    (void)futex(word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, most, NULL);
}

static void posix_pause(tri_world *world)
{
    (void)world;
    TRI_CPU_RELAX();
}

/* Once per process is enough; asking again costs little. */
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

void tri_lock_yield(void)
{
    (void)sched_yield();
}

/* ---- signals ---- */

/* How soon a changed word is noticed while no signal comes. */
#define SIGNAL_LOOK TR_MS(50)

static void posix_wait_signal(tri_world *world, _Atomic(uint32_t) *word,
                              uint32_t expected)
{
    (void)world;
    sigset_t ends, before;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &ends, &before);
    struct timespec look = {.tv_nsec = SIGNAL_LOOK};
    // Acquire: pairs with whoever changes the word.
    while (atomic_load_explicit(word, memory_order_acquire) == expected &&
           sigtimedwait(&ends, NULL, &look) < 0) {
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static const tri_world_ops posix_ops = {
    .name = "posix",
    .has_threads = true,
    .mono = tri_posix_mono,
    .mono_coarse = posix_mono_coarse,
    .wall = posix_wall,
    .random = posix_random,
    .cpus = posix_cpus,
    .thread_start = posix_thread_start,
    .wait_signal = posix_wait_signal,
    .poller_alarm = tri_posix_poller_alarm,
    .thread_join = posix_thread_join,
    .thread_ran = posix_thread_ran,
    .thread_is_runnable = posix_thread_is_runnable,
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
    .file_exists = tri_posix_file_exists,
};

tri_world *tri_world_posix(void)
{
    // Without state there is nothing to write to; the type is not const only
    // because other worlds have some.
    static const tri_world world = {.magic = TRI_WORLD_MAGIC,
                                    .ops = &posix_ops};

    return (tri_world *)&world;
}

tri_world *tri_world_given(const void *option, const char *site)
{
    tri_world *world =
        option != NULL ? (tri_world *)(uintptr_t)option : tri_world_posix();
    if (world->magic != TRI_WORLD_MAGIC) {
        tr_abort(site, "the option .world is no world: give it "
                       "tr_sim_world(sim), not sim itself");
    }
    return world;
}
