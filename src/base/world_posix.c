/*
 * world_posix.c - the world as Linux gives it.
 *
 * The only file that asks the system for time, random numbers, threads,
 * waiting, descriptors and files. Nothing is decided here: each function is
 * one system call, with the interruptions and short results taken out of the
 * caller's sight and errno turned into a tr_err.
 *
 * Invariant: the world itself holds no state. What has state is made by the
 * caller (a thread, a poller, a file) or belongs to one thread (the random
 * generator), so there is nothing to lock and nothing to release.
 */
#define _GNU_SOURCE  // affinity, OFD locks, epoll_pwait2, thread names

#include "base/world.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/lock.h"

#define NANOS_PER_SECOND INT64_C(1000000000)
#define NANOS_PER_MS     INT64_C(1000000)

#define THREAD_NAME_SIZE 16     // with its zero; the kernel's TASK_COMM_LEN
#define CPU_COUNT_MAX    65536  // where the search for the set's size ends
#define POLL_BATCH       64     // events taken from the kernel at once
#define FILE_MODE        0644   // before the process's umask

/* The poller's own descriptor; poller_add refuses it as a token. */
#define WAKE_TOKEN UINT64_MAX

struct tri_thread {
    pthread_t id;
    void (*fn)(void *arg);
    void *arg;
    char name[THREAD_NAME_SIZE];
};

struct tri_poller {
    int epoll;
    int event;       // an eventfd: readable after poller_wake
    int alarm;       // a timerfd, or -1 until the first poller_alarm
    bool has_nanos;  // the kernel knows epoll_pwait2 (Linux 5.11)
};

struct tri_file {
    int fd;
    bool writable;
    // Whether the name is already safe on disk. Threads may share a file, so
    // it is atomic; to sync the directory twice is only slower.
    atomic_bool name_synced;
    char path[];
};

static tr_err err_of(int number)
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

/* ---- time ---- */

static tr_nanos clock_read(clockid_t id)
{
    struct timespec now;

    TRI_CHECK(clock_gettime(id, &now) == 0);
    return (tr_nanos)now.tv_sec * NANOS_PER_SECOND + now.tv_nsec;
}

static tr_nanos posix_mono(tri_world *world)
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
static tr_nanos deadline_after(tr_nanos timeout)
{
    tr_nanos now = clock_read(CLOCK_MONOTONIC);

    if (timeout <= 0) {
        return now;
    }
    return timeout > TR_FOREVER - now ? TR_FOREVER : now + timeout;
}

static struct timespec timespec_of(tr_nanos nanos)
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
        at = timespec_of(deadline_after(timeout));
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
    return syscall(SYS_membarrier,
                   MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
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

/* ---- descriptors ---- */

static tr_err watch_wake(tri_poller *poller)
{
    // Not one-shot: it stays readable, and so does poller_fd, until a wait
    // has seen it.
    struct epoll_event event = {.events = EPOLLIN, .data = {.u64 = WAKE_TOKEN}};

    if (epoll_ctl(poller->epoll, EPOLL_CTL_ADD, poller->event, &event) != 0) {
        return err_of(errno);
    }
    return TR_OK;
}

static bool kernel_has_nanos(int epoll)
{
    struct epoll_event event;
    struct timespec now = {0};

    return epoll_pwait2(epoll, &event, 1, &now, NULL) >= 0;
}

static void posix_poller_free(tri_poller *poller)
{
    if (poller == NULL) {
        return;
    }
    if (poller->epoll >= 0) {
        close(poller->epoll);
    }
    if (poller->event >= 0) {
        close(poller->event);
    }
    if (poller->alarm >= 0) {
        close(poller->alarm);
    }
    free(poller);
}

static tr_err posix_poller_new(tri_world *world, tri_poller **out)
{
    (void)world;
    TRI_CHECK(out != NULL);
    *out = NULL;

    tri_poller *poller = calloc(1, sizeof(*poller));
    if (poller == NULL) {
        return TR_ENOMEM;
    }
    poller->event = -1;
    poller->alarm = -1;
    poller->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (poller->epoll >= 0) {
        poller->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    }

    tr_err err = poller->event < 0 ? err_of(errno) : watch_wake(poller);
    if (err != TR_OK) {
        posix_poller_free(poller);
        return err;
    }
    poller->has_nanos = kernel_has_nanos(poller->epoll);
    *out = poller;
    return TR_OK;
}

/*
 * Arms fd for one event; a descriptor that is known already is armed anew.
 * Errors: TR_EINVAL (closed, or never waits: a regular file is always
 * ready), TR_ENOMEM, TR_ELIMIT (the kernel's limit of watches).
 */
static tr_err posix_poller_add(tri_poller *poller, int fd, uint32_t events,
                               uint64_t token)
{
    TRI_CHECK(token != WAKE_TOKEN);
    struct epoll_event event = {.events = EPOLLONESHOT, .data = {.u64 = token}};

    if (events & TRI_FD_READ) {
        event.events |= EPOLLIN | EPOLLRDHUP;
    }
    if (events & TRI_FD_WRITE) {
        event.events |= EPOLLOUT;
    }
    // A descriptor is added once and armed often, so the second comes first.
    int result = epoll_ctl(poller->epoll, EPOLL_CTL_MOD, fd, &event);
    if (result != 0 && errno == ENOENT) {
        result = epoll_ctl(poller->epoll, EPOLL_CTL_ADD, fd, &event);
    }
    if (result == 0) {
        return TR_OK;
    }
    switch (errno) {
    case EPERM:
        return TR_EINVAL;
    case ENOSPC:
        return TR_ELIMIT;
    default:
        return err_of(errno);
    }
}

static void posix_poller_remove(tri_poller *poller, int fd)
{
    int result = epoll_ctl(poller->epoll, EPOLL_CTL_DEL, fd, NULL);

    // Closing a descriptor removes it too, so it may be unknown by now.
    TRI_CHECK(result == 0 || errno == ENOENT || errno == EBADF ||
              errno == EPERM);
}

static int wait_until(const tri_poller *poller, struct epoll_event *seen,
                      int max, tr_nanos deadline)
{
    tr_nanos left = TR_FOREVER;

    if (deadline != TR_FOREVER) {
        tr_nanos now = clock_read(CLOCK_MONOTONIC);
        left = deadline > now ? deadline - now : 0;
    }
    if (poller->has_nanos) {
        struct timespec span = timespec_of(left);
        return epoll_pwait2(poller->epoll, seen, max,
                            left == TR_FOREVER ? NULL : &span, NULL);
    }
    if (left == TR_FOREVER) {
        return epoll_wait(poller->epoll, seen, max, -1);
    }
    // Rounded up: to come back too early would be to spin.
    tr_nanos ms = left / NANOS_PER_MS + (left % NANOS_PER_MS != 0);
    return epoll_wait(poller->epoll, seen, max,
                      ms > INT_MAX ? INT_MAX : (int)ms);
}

/* The far end's shutdown is READ: reading then finds the end of the stream. */
static uint32_t events_of(uint32_t bits)
{
    uint32_t events = 0;

    if (bits & (EPOLLIN | EPOLLRDHUP)) {
        events |= TRI_FD_READ;
    }
    if (bits & EPOLLOUT) {
        events |= TRI_FD_WRITE;
    }
    if (bits & (EPOLLHUP | EPOLLERR)) {
        events |= TRI_FD_ERROR;
    }
    return events;
}

static void drain_wake(tri_poller *poller)
{
    uint64_t count;

    // Another waiter may have been quicker: then there is nothing to read.
    ssize_t got = read(poller->event, &count, sizeof(count));
    TRI_CHECK(got == (ssize_t)sizeof(count) || errno == EAGAIN ||
              errno == EINTR);
}

static uint32_t posix_poller_wait(tri_poller *poller, tri_fd_event *events,
                                  uint32_t max, tr_nanos timeout)
{
    TRI_CHECK(max > 0);
    struct epoll_event seen[POLL_BATCH];
    tr_nanos deadline =
        timeout == TR_FOREVER ? TR_FOREVER : deadline_after(timeout);
    int most = max < POLL_BATCH ? (int)max : POLL_BATCH;
    int count;

    do {
        count = wait_until(poller, seen, most, deadline);
    } while (count < 0 && errno == EINTR);
    TRI_CHECK(count >= 0);

    uint32_t stored = 0;
    for (int i = 0; i < count; i++) {
        if (seen[i].data.u64 == WAKE_TOKEN) {
            drain_wake(poller);
            continue;
        }
        events[stored].token = seen[i].data.u64;
        events[stored].events = events_of(seen[i].events);
        stored++;
    }
    return stored;
}

static void posix_poller_wake(tri_poller *poller)
{
    uint64_t one = 1;
    ssize_t put;

    do {
        put = write(poller->event, &one, sizeof(one));
    } while (put < 0 && errno == EINTR);
    // EAGAIN: the count is at its top, so it is readable, which is all we ask.
    TRI_CHECK(put == (ssize_t)sizeof(one) || errno == EAGAIN);
}

static int posix_poller_fd(tri_poller *poller)
{
    return poller->epoll;
}

/* ---- files ---- */

static int open_flags(uint32_t flags)
{
    int result = O_CLOEXEC;

    TRI_CHECK(flags & (TRI_FILE_READ | TRI_FILE_WRITE));
    if (!(flags & TRI_FILE_WRITE)) {
        result |= O_RDONLY;
    } else {
        // Also where only writing is asked for: locks and maps need both.
        result |= O_RDWR;
    }
    if (flags & TRI_FILE_CREATE) {
        result |= O_CREAT;
    }
    if (flags & TRI_FILE_EXCLUSIVE) {
        result |= O_EXCL;
    }
    return result;
}

/*
 * Syncs the directory of `path`, where a name was made or removed. A missing
 * directory is not an error: the name is surely gone.
 */
static tr_err sync_dir_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    size_t length = slash == NULL ? 0 : (size_t)(slash - path);
    char *dir;

    if (slash == NULL) {
        dir = strdup(".");
    } else {
        dir = strndup(path, length == 0 ? 1 : length);
    }
    if (dir == NULL) {
        return TR_ENOMEM;
    }
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int number = fd < 0 ? errno : 0;
    free(dir);
    if (fd < 0) {
        return number == ENOENT ? TR_OK : err_of(number);
    }
    tr_err err = fsync(fd) == 0 ? TR_OK : err_of(errno);
    close(fd);
    return err;
}

static int open_uninterrupted(const char *path, int flags)
{
    int fd;

    do {
        fd = open(path, flags, FILE_MODE);
    } while (fd < 0 && errno == EINTR);
    return fd;
}

static tr_err posix_file_open(tri_world *world, tri_file **out,
                              const char *path, uint32_t flags)
{
    (void)world;
    TRI_CHECK(out != NULL);
    TRI_CHECK(path != NULL);
    *out = NULL;

    size_t size = strlen(path) + 1;
    tri_file *file = calloc(1, sizeof(*file) + size);
    if (file == NULL) {
        return TR_ENOMEM;
    }
    file->fd = open_uninterrupted(path, open_flags(flags));
    if (file->fd < 0) {
        tr_err err = err_of(errno);
        free(file);
        return err;
    }
    file->writable = (flags & TRI_FILE_WRITE) != 0;
    memcpy(file->path, path, size);
    if (flags & TRI_FILE_DELETE) {
        // At once rather than at close: so it is gone after a crash, too.
        (void)unlink(path);
    }
    // A name that is there before us, or already gone, needs no sync.
    atomic_init(&file->name_synced, (flags & TRI_FILE_CREATE) == 0 ||
                                        (flags & TRI_FILE_DELETE) != 0);
    *out = file;
    return TR_OK;
}

static void posix_file_close(tri_file *file)
{
    if (file == NULL) {
        return;
    }
    // Linux frees the descriptor whatever close answers, even on EINTR.
    (void)close(file->fd);
    free(file);
}

static bool range_fits(uint64_t offset, uint64_t size)
{
    return offset <= INT64_MAX && size <= INT64_MAX - offset;
}

static tr_err posix_file_read(tri_file *file, void *at, size_t size,
                              uint64_t offset, size_t *done)
{
    size_t have = 0;

    *done = 0;
    if (!range_fits(offset, size)) {
        return TR_EINVAL;
    }
    while (have < size) {
        ssize_t got = pread(file->fd, (char *)at + have, size - have,
                            (off_t)(offset + have));
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return err_of(errno);
        }
        if (got == 0) {
            break;
        }
        have += (size_t)got;
    }
    *done = have;
    return TR_OK;
}

static tr_err posix_file_write(tri_file *file, const void *at, size_t size,
                               uint64_t offset)
{
    size_t have = 0;

    if (!range_fits(offset, size)) {
        return TR_EINVAL;
    }
    while (have < size) {
        ssize_t put = pwrite(file->fd, (const char *)at + have, size - have,
                             (off_t)(offset + have));
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put < 0) {
            return err_of(errno);
        }
        if (put == 0) {
            return TR_EIO;  // no progress and no reason
        }
        have += (size_t)put;
    }
    return TR_OK;
}

/* If this open may have made the name, the first call makes that durable. */
static tr_err posix_file_sync(tri_file *file)
{
    int result;

    do {
        result = fdatasync(file->fd);
    } while (result != 0 && errno == EINTR);
    if (result != 0) {
        return err_of(errno);
    }
    // Relaxed: it guards no memory.
    if (atomic_load_explicit(&file->name_synced, memory_order_relaxed)) {
        return TR_OK;
    }
    tr_err err = sync_dir_of(file->path);
    if (err == TR_OK) {
        atomic_store_explicit(&file->name_synced, true, memory_order_relaxed);
    }
    return err;
}

static tr_err posix_file_truncate(tri_file *file, uint64_t size)
{
    int result;

    if (size > INT64_MAX) {
        return TR_EINVAL;
    }
    do {
        result = ftruncate(file->fd, (off_t)size);
    } while (result != 0 && errno == EINTR);
    return result == 0 ? TR_OK : err_of(errno);
}

static tr_err posix_file_size(tri_file *file, uint64_t *out)
{
    struct stat status;

    *out = 0;
    if (fstat(file->fd, &status) != 0) {
        return err_of(errno);
    }
    *out = (uint64_t)status.st_size;
    return TR_OK;
}

/*
 * Locks belong to the open file (F_OFD_SETLK), not to the process: two opens
 * in one process exclude each other, and closing one leaves the other's.
 */
static tr_err posix_file_lock(tri_file *file, uint64_t offset, uint64_t size,
                              int lock)
{
    static const short kinds[] = {[TRI_LOCK_NONE] = F_UNLCK,
                                  [TRI_LOCK_SHARED] = F_RDLCK,
                                  [TRI_LOCK_EXCLUSIVE] = F_WRLCK};
    int result;

    TRI_CHECK(lock >= TRI_LOCK_NONE && lock <= TRI_LOCK_EXCLUSIVE);
    // Zero would mean "to the end of the file" to the kernel.
    if (size == 0 || !range_fits(offset, size)) {
        return TR_EINVAL;
    }
    struct flock range = {.l_type = kinds[lock],
                          .l_whence = SEEK_SET,
                          .l_start = (off_t)offset,
                          .l_len = (off_t)size};
    do {
        result = fcntl(file->fd, F_OFD_SETLK, &range);
    } while (result != 0 && errno == EINTR);
    if (result == 0) {
        return TR_OK;
    }
    return errno == EAGAIN || errno == EACCES ? TR_EFULL : err_of(errno);
}

static size_t page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/*
 * Any offset will do: the kernel wants whole pages (4 to 64 KiB), so the map
 * begins at the page below. Errors: TR_EINVAL (not all inside the file: a
 * touch beyond its end would be a SIGBUS), TR_ENOMEM, TR_EIO.
 */
static tr_err posix_file_map(tri_file *file, uint64_t offset, size_t size,
                             void **out)
{
    uint64_t end;

    *out = NULL;
    tr_err err = posix_file_size(file, &end);
    if (err != TR_OK) {
        return err;
    }
    if (size == 0 || offset > end || size > end - offset) {
        return TR_EINVAL;
    }
    size_t lead = (size_t)(offset % page_size());
    int access = PROT_READ | (file->writable ? PROT_WRITE : 0);
    char *base = mmap(NULL, size + lead, access, MAP_SHARED, file->fd,
                      (off_t)(offset - lead));
    if (base == MAP_FAILED) {
        return err_of(errno);
    }
    *out = base + lead;
    return TR_OK;
}

static void posix_file_unmap(tri_file *file, void *at, size_t size)
{
    (void)file;
    size_t lead = (uintptr_t)at % page_size();

    TRI_CHECK(munmap((char *)at - lead, size + lead) == 0);
}

static tr_err posix_file_remove(tri_world *world, const char *path,
                                bool sync_dir)
{
    (void)world;
    if (unlink(path) != 0) {
        return err_of(errno);
    }
    return sync_dir ? sync_dir_of(path) : TR_OK;
}

static tr_err posix_file_exists(tri_world *world, const char *path, bool *out)
{
    (void)world;
    struct stat status;

    *out = stat(path, &status) == 0;
    if (*out || errno == ENOENT || errno == ENOTDIR) {
        return TR_OK;
    }
    return err_of(errno);
}

/* ---- the world ---- */

/* ---- an alarm in the poller ---- */

static bool alarm_open(tri_poller *poller)
{
    struct epoll_event event = {.events = EPOLLIN,
                                .data.u64 = WAKE_TOKEN};
    poller->alarm = timerfd_create(CLOCK_MONOTONIC,
                                   TFD_CLOEXEC | TFD_NONBLOCK);
    if (poller->alarm < 0) {
        return false;
    }
    if (epoll_ctl(poller->epoll, EPOLL_CTL_ADD, poller->alarm, &event) != 0) {
        close(poller->alarm);
        poller->alarm = -1;
        return false;
    }
    return true;
}

static void posix_poller_alarm(tri_poller *poller, tr_nanos due)
{
    if (poller->alarm < 0 && (due == TR_FOREVER || !alarm_open(poller))) {
        return;  // without one the caller polls by its own clock
    }
    struct itimerspec when = {0};
    if (due != TR_FOREVER) {
        tr_nanos at = due > 0 ? due : 1;
        when.it_value.tv_sec = at / TR_SECONDS(1);
        when.it_value.tv_nsec = at % TR_SECONDS(1);
    }
    int result = timerfd_settime(poller->alarm, TFD_TIMER_ABSTIME, &when,
                                 NULL);
    TRI_CHECK(result == 0);
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
    .mono = posix_mono,
    .mono_coarse = posix_mono_coarse,
    .wall = posix_wall,
    .random = posix_random,
    .cpus = posix_cpus,
    .thread_start = posix_thread_start,
    .wait_signal = posix_wait_signal,
    .poller_alarm = posix_poller_alarm,
    .thread_join = posix_thread_join,
    .park = posix_park,
    .wake = posix_wake,
    .pause = posix_pause,
    .yield = posix_yield,
    .barrier = posix_barrier,
    .can_barrier = posix_can_barrier,
    .poller_new = posix_poller_new,
    .poller_free = posix_poller_free,
    .poller_add = posix_poller_add,
    .poller_remove = posix_poller_remove,
    .poller_wait = posix_poller_wait,
    .poller_wake = posix_poller_wake,
    .poller_fd = posix_poller_fd,
    .file_open = posix_file_open,
    .file_close = posix_file_close,
    .file_read = posix_file_read,
    .file_write = posix_file_write,
    .file_sync = posix_file_sync,
    .file_truncate = posix_file_truncate,
    .file_size = posix_file_size,
    .file_lock = posix_file_lock,
    .file_map = posix_file_map,
    .file_unmap = posix_file_unmap,
    .file_remove = posix_file_remove,
    .file_exists = posix_file_exists,
};

tri_world *tri_world_posix(void)
{
    // Without state there is nothing to write to; the type is not const only
    // because other worlds have some.
    static const tri_world world = {.magic = TRI_WORLD_MAGIC,
                                    .ops = &posix_ops};

    return (tri_world *)&world;
}
