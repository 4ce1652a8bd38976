/*
 * world_posix_test.c - the real world keeps the promises of world.h.
 */
#define _GNU_SOURCE  // affinity, thread names

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/world.h"

#define OPS(world) ((world)->ops)
#define SHORT_WAIT TR_MS(2)

static tri_world *world;

/* ---- time and random ---- */

static void test_mono_never_falls(void **state)
{
    (void)state;
    tr_nanos last = OPS(world)->mono(world);

    for (int i = 0; i < 1000; i++) {
        tr_nanos now = OPS(world)->mono(world);
        assert_true(now >= last);
        last = now;
    }
}

static void test_wall_is_after_2020(void **state)
{
    (void)state;
    assert_true(OPS(world)->wall(world) > TR_SECONDS(INT64_C(1577836800)));
}

static void test_random_uses_all_bits(void **state)
{
    (void)state;
    uint64_t ones = 0;
    uint64_t zeros = 0;

    for (int i = 0; i < 1000; i++) {
        uint64_t draw = OPS(world)->random(world);
        ones |= draw;
        zeros |= ~draw;
    }
    assert_true(ones == UINT64_MAX);
    assert_true(zeros == UINT64_MAX);
}

static void draw_one(void *arg)
{
    *(uint64_t *)arg = OPS(world)->random(world);
}

static void test_threads_draw_differently(void **state)
{
    (void)state;
    uint64_t draws[2];

    for (int i = 0; i < 2; i++) {
        tri_thread *thread;
        assert_int_equal(OPS(world)->thread_start(world, &thread, "draw",
                                                  draw_one, &draws[i]),
                         TR_OK);
        OPS(world)->thread_join(world, thread);
    }
    assert_true(draws[0] != draws[1]);
}

static void test_a_fork_draws_differently(void **state)
{
    (void)state;
    int ends[2];
    uint64_t theirs = 0;

    (void)OPS(world)->random(world);  // the parent's generator is seeded
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        uint64_t draw = OPS(world)->random(world);
        _exit(write(ends[1], &draw, sizeof(draw)) != sizeof(draw));
    }
    uint64_t ours = OPS(world)->random(world);
    assert_int_equal(read(ends[0], &theirs, sizeof(theirs)), sizeof(theirs));
    assert_true(ours != theirs);
    assert_int_equal(waitpid(child, NULL, 0), child);
    close(ends[0]);
    close(ends[1]);
}

static void test_cpus_follow_the_affinity(void **state)
{
    (void)state;
    cpu_set_t before, one;

    assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
    assert_int_equal(OPS(world)->cpus(world), CPU_COUNT(&before));
    CPU_ZERO(&one);
    for (int i = 0; CPU_COUNT(&one) == 0; i++) {
        if (CPU_ISSET(i, &before)) {
            CPU_SET(i, &one);
        }
    }
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    assert_int_equal(OPS(world)->cpus(world), 1);
    assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
}

/* ---- threads ---- */

typedef struct self_view {
    char name[16];
    sigset_t mask;
} self_view;

static void look_at_self(void *arg)
{
    self_view *view = arg;

    pthread_getname_np(pthread_self(), view->name, sizeof(view->name));
    pthread_sigmask(SIG_SETMASK, NULL, &view->mask);
}

static void test_thread_has_name_and_no_signals(void **state)
{
    (void)state;
    self_view view;
    sigset_t before, after;
    tri_thread *thread;

    pthread_sigmask(SIG_SETMASK, NULL, &before);
    assert_int_equal(OPS(world)->thread_start(world, &thread,
                                              "a name that is too long",
                                              look_at_self, &view),
                     TR_OK);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    OPS(world)->thread_join(world, thread);

    assert_string_equal(view.name, "a name that is ");
    assert_true(sigismember(&view.mask, SIGTERM));
    assert_true(sigismember(&view.mask, SIGINT));
    assert_true(sigismember(&view.mask, SIGCHLD));
    assert_false(sigismember(&view.mask, SIGSEGV));
    assert_false(sigismember(&view.mask, SIGFPE));
    for (int i = 1; i < SIGRTMAX; i++) {
        assert_int_equal(sigismember(&before, i), sigismember(&after, i));
    }
}

/* Counts as fast as it can, then waits for the word to become 2. */
static void count_then_wait(void *arg)
{
    _Atomic(uint32_t) *word = arg;
    // Relaxed, here and below: only the number counts.
    while (atomic_load_explicit(word, memory_order_relaxed) == 0) {
    }
    while (atomic_load_explicit(word, memory_order_relaxed) == 1) {
        (void)OPS(world)->park(world, word, 1, TR_FOREVER);
    }
}

static void test_a_thread_that_computes_is_no_thread_that_waits(void **state)
{
    (void)state;
    _Atomic(uint32_t) word = 0;
    tri_thread *thread;
    assert_int_equal(OPS(world)->thread_start(world, &thread, "a) S odd (name",
                                              count_then_wait, &word),
                     TR_OK);
    tr_nanos first = OPS(world)->thread_ran(world, thread);
    while (OPS(world)->thread_ran(world, thread) < first + TR_MS(2)) {
        assert_true(OPS(world)->thread_is_runnable(world, thread));
    }
    atomic_store_explicit(&word, 1, memory_order_relaxed);
    while (OPS(world)->thread_is_runnable(world, thread)) {
        OPS(world)->yield(world);
    }
    atomic_store_explicit(&word, 2, memory_order_relaxed);
    OPS(world)->wake(world, &word, 1);
    OPS(world)->thread_join(world, thread);
}

/* ---- park and wake ---- */

static void test_park_sees_an_earlier_change(void **state)
{
    (void)state;
    _Atomic(uint32_t) word = 1;

    assert_true(OPS(world)->park(world, &word, 0, TR_FOREVER));
    assert_true(OPS(world)->park(world, &word, 0, 0));
}

static void test_park_ends_with_its_time(void **state)
{
    (void)state;
    _Atomic(uint32_t) word = 7;
    tr_nanos begin = OPS(world)->mono(world);

    assert_false(OPS(world)->park(world, &word, 7, SHORT_WAIT));
    assert_true(OPS(world)->mono(world) - begin >= SHORT_WAIT);
    assert_false(OPS(world)->park(world, &word, 7, 0));
}

static void test_a_wake_is_not_stored(void **state)
{
    (void)state;
    _Atomic(uint32_t) word = 0;

    OPS(world)->wake(world, &word, UINT32_MAX);
    assert_false(OPS(world)->park(world, &word, 0, SHORT_WAIT));
}

/* Two threads hand a turn to and fro; `plain` is guarded by the word alone. */
#define TURNS 2000

typedef struct ping_pong {
    _Atomic(uint32_t) word;
    uint32_t plain;
} ping_pong;

static void take_turns(ping_pong *game, uint32_t parity)
{
    for (uint32_t turn = parity; turn < TURNS; turn += 2) {
        uint32_t seen;
        while ((seen = atomic_load_explicit(&game->word,
                                            memory_order_acquire)) != turn) {
            (void)OPS(world)->park(world, &game->word, seen, TR_FOREVER);
        }
        assert_int_equal(game->plain, turn);
        game->plain++;
        atomic_store_explicit(&game->word, turn + 1, memory_order_release);
        OPS(world)->wake(world, &game->word, 1);
    }
}

static void take_odd_turns(void *arg)
{
    take_turns(arg, 1);
}

static void test_two_threads_take_turns(void **state)
{
    (void)state;
    ping_pong game = {0};
    tri_thread *thread;

    assert_int_equal(
        OPS(world)->thread_start(world, &thread, "odd", take_odd_turns, &game),
        TR_OK);
    take_turns(&game, 0);
    OPS(world)->thread_join(world, thread);
    assert_int_equal(game.plain, TURNS);
}

typedef struct gate {
    _Atomic(uint32_t) open;
    _Atomic(uint32_t) passed;
} gate;

static void wait_at_gate(void *arg)
{
    gate *it = arg;

    while (atomic_load_explicit(&it->open, memory_order_acquire) == 0) {
        (void)OPS(world)->park(world, &it->open, 0, TR_FOREVER);
    }
    atomic_fetch_add_explicit(&it->passed, 1, memory_order_relaxed);
}

static void test_wake_all_wakes_all(void **state)
{
    (void)state;
    gate it = {0};
    tri_thread *threads[4];

    for (int i = 0; i < 4; i++) {
        assert_int_equal(OPS(world)->thread_start(world, &threads[i], "gate",
                                                  wait_at_gate, &it),
                         TR_OK);
    }
    OPS(world)->yield(world);
    OPS(world)->pause(world);
    atomic_store_explicit(&it.open, 1, memory_order_release);
    OPS(world)->wake(world, &it.open, UINT32_MAX);
    for (int i = 0; i < 4; i++) {
        OPS(world)->thread_join(world, threads[i]);
    }
    assert_int_equal(it.passed, 4);
}

static void ignore_signal(int number)
{
    (void)number;
}

/* Signals arrive all the time while `wait` runs. */
static void under_signals(void (*wait)(void))
{
    struct sigaction action = {.sa_handler = ignore_signal};
    struct sigaction before;
    struct itimerval often = {.it_interval = {.tv_usec = 500},
                              .it_value = {.tv_usec = 500}};
    struct itimerval never = {0};

    assert_int_equal(sigaction(SIGALRM, &action, &before), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
    wait();
    assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
    assert_int_equal(sigaction(SIGALRM, &before, NULL), 0);
}

static void park_a_while(void)
{
    _Atomic(uint32_t) word = 0;

    assert_false(OPS(world)->park(world, &word, 0, TR_MS(20)));
}

static void test_signals_do_not_end_a_park(void **state)
{
    (void)state;
    under_signals(park_a_while);
}

/* ---- poller ---- */

typedef struct piped {
    tri_poller *poller;
    int reader;
    int writer;
} piped;

static int open_piped(void **state)
{
    piped *it = calloc(1, sizeof(*it));
    int ends[2];

    if (it == NULL || pipe(ends) != 0 ||
        OPS(world)->poller_new(world, &it->poller) != TR_OK) {
        return -1;
    }
    it->reader = ends[0];
    it->writer = ends[1];
    *state = it;
    return 0;
}

static int close_piped(void **state)
{
    piped *it = *state;

    close(it->reader);
    if (it->writer >= 0) {
        close(it->writer);
    }
    OPS(world)->poller_free(it->poller);
    free(it);
    return 0;
}

static uint32_t wait_one(piped *it, tri_fd_event *event, tr_nanos timeout)
{
    memset(event, 0, sizeof(*event));
    return OPS(world)->poller_wait(it->poller, event, 1, timeout);
}

static void test_poller_reports_reading_once(void **state)
{
    piped *it = *state;
    tri_fd_event event;

    assert_int_equal(
        OPS(world)->poller_add(it->poller, it->reader, TRI_FD_READ, 11), TR_OK);
    assert_int_equal(wait_one(it, &event, 0), 0);
    assert_int_equal(write(it->writer, "x", 1), 1);
    assert_int_equal(wait_one(it, &event, TR_FOREVER), 1);
    assert_int_equal(event.token, 11);
    assert_int_equal(event.events, TRI_FD_READ);
    // Still readable, but the event has disarmed it.
    assert_int_equal(wait_one(it, &event, SHORT_WAIT), 0);

    assert_int_equal(
        OPS(world)->poller_add(it->poller, it->reader, TRI_FD_READ, 12), TR_OK);
    assert_int_equal(wait_one(it, &event, TR_FOREVER), 1);
    assert_int_equal(event.token, 12);
}

static void test_poller_reports_writing(void **state)
{
    piped *it = *state;
    tri_fd_event event;
    static const char block[4096];

    assert_int_equal(
        OPS(world)->poller_add(it->poller, it->writer, TRI_FD_WRITE, 1), TR_OK);
    assert_int_equal(wait_one(it, &event, TR_FOREVER), 1);
    assert_int_equal(event.events, TRI_FD_WRITE);

    assert_int_equal(fcntl(it->writer, F_SETFL, O_NONBLOCK), 0);
    while (write(it->writer, block, sizeof(block)) > 0) {
    }
    assert_int_equal(
        OPS(world)->poller_add(it->poller, it->writer, TRI_FD_WRITE, 1), TR_OK);
    assert_int_equal(wait_one(it, &event, SHORT_WAIT), 0);
}

static void test_poller_reports_a_hang_up(void **state)
{
    piped *it = *state;
    tri_fd_event event;

    assert_int_equal(
        OPS(world)->poller_add(it->poller, it->reader, TRI_FD_READ, 5), TR_OK);
    close(it->writer);
    it->writer = -1;
    assert_int_equal(wait_one(it, &event, TR_FOREVER), 1);
    assert_int_equal(event.token, 5);
    assert_true(event.events & TRI_FD_ERROR);
    assert_int_equal(wait_one(it, &event, 0), 0);
}

static void test_poller_reports_a_half_close_as_reading(void **state)
{
    piped *it = *state;
    tri_fd_event event;
    int ends[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    assert_int_equal(
        OPS(world)->poller_add(it->poller, ends[0], TRI_FD_READ, 6), TR_OK);
    assert_int_equal(shutdown(ends[1], SHUT_WR), 0);
    assert_int_equal(wait_one(it, &event, TR_FOREVER), 1);
    assert_int_equal(event.events, TRI_FD_READ);
    close(ends[0]);
    close(ends[1]);
}

static void test_poller_forgets_what_is_removed(void **state)
{
    piped *it = *state;
    tri_fd_event event;

    assert_int_equal(
        OPS(world)->poller_add(it->poller, it->reader, TRI_FD_READ, 1), TR_OK);
    OPS(world)->poller_remove(it->poller, it->reader);
    OPS(world)->poller_remove(it->poller, it->reader);
    assert_int_equal(write(it->writer, "x", 1), 1);
    assert_int_equal(wait_one(it, &event, SHORT_WAIT), 0);
}

static void test_poller_refuses_what_never_waits(void **state)
{
    piped *it = *state;
    FILE *file = tmpfile();

    assert_non_null(file);
    assert_int_equal(
        OPS(world)->poller_add(it->poller, fileno(file), TRI_FD_READ, 1),
        TR_EINVAL);
    fclose(file);
    assert_int_equal(OPS(world)->poller_add(it->poller, -1, TRI_FD_READ, 1),
                     TR_EINVAL);
}

static bool is_readable(int fd)
{
    struct pollfd request = {.fd = fd, .events = POLLIN};

    return poll(&request, 1, 0) == 1;
}

static void test_poller_fd_tells_of_wake_and_events(void **state)
{
    piped *it = *state;
    tri_fd_event event;
    int fd = OPS(world)->poller_fd(it->poller);

    assert_false(is_readable(fd));
    OPS(world)->poller_wake(it->poller);
    assert_true(is_readable(fd));
    assert_int_equal(wait_one(it, &event, TR_FOREVER), 0);
    assert_false(is_readable(fd));

    assert_int_equal(
        OPS(world)->poller_add(it->poller, it->reader, TRI_FD_READ, 3), TR_OK);
    assert_int_equal(write(it->writer, "x", 1), 1);
    assert_true(is_readable(fd));
    assert_int_equal(wait_one(it, &event, TR_FOREVER), 1);
    assert_false(is_readable(fd));
}

static void test_a_wake_does_not_hide_an_event(void **state)
{
    piped *it = *state;
    tri_fd_event event;

    assert_int_equal(
        OPS(world)->poller_add(it->poller, it->reader, TRI_FD_READ, 3), TR_OK);
    OPS(world)->poller_wake(it->poller);
    OPS(world)->poller_wake(it->poller);
    assert_int_equal(write(it->writer, "x", 1), 1);

    uint32_t count = wait_one(it, &event, TR_FOREVER);
    if (count == 0) {  // the wake came first and took the one place
        count = wait_one(it, &event, TR_FOREVER);
    }
    assert_int_equal(count, 1);
    assert_int_equal(event.token, 3);
}

static void wake_poller(void *arg)
{
    piped *it = arg;

    OPS(world)->poller_wake(it->poller);
}

static void test_another_thread_wakes_the_poller(void **state)
{
    piped *it = *state;
    tri_fd_event event;
    tri_thread *thread;

    assert_int_equal(
        OPS(world)->thread_start(world, &thread, "waker", wake_poller, it),
        TR_OK);
    assert_int_equal(wait_one(it, &event, TR_FOREVER), 0);
    OPS(world)->thread_join(world, thread);
}

static void wait_a_while(void)
{
    tri_poller *poller;
    tri_fd_event event;
    tr_nanos begin = OPS(world)->mono(world);

    assert_int_equal(OPS(world)->poller_new(world, &poller), TR_OK);
    assert_int_equal(OPS(world)->poller_wait(poller, &event, 1, TR_MS(20)), 0);
    assert_true(OPS(world)->mono(world) - begin >= TR_MS(20));
    OPS(world)->poller_free(poller);
}

static void test_signals_do_not_end_a_poller_wait(void **state)
{
    (void)state;
    under_signals(wait_a_while);
}

/* ---- files ---- */

#define PATH_SIZE 256

typedef struct folder {
    char path[PATH_SIZE];
    char file[PATH_SIZE + 8];
} folder;

static int open_folder(void **state)
{
    folder *it = calloc(1, sizeof(*it));
    const char *base = getenv("TMPDIR");

    if (it == NULL) {
        return -1;
    }
    snprintf(it->path, sizeof(it->path), "%s/troupe-XXXXXX",
             base == NULL ? P_tmpdir : base);
    if (mkdtemp(it->path) == NULL) {
        return -1;
    }
    snprintf(it->file, sizeof(it->file), "%s/data", it->path);
    *state = it;
    return 0;
}

static int close_folder(void **state)
{
    folder *it = *state;

    (void)unlink(it->file);
    int result = rmdir(it->path);  // fails if a test leaves something
    free(it);
    return result;
}

static tri_file *open_new(const char *path)
{
    tri_file *file;

    assert_int_equal(
        OPS(world)->file_open(world, &file, path,
                              TRI_FILE_READ | TRI_FILE_WRITE | TRI_FILE_CREATE),
        TR_OK);
    assert_non_null(file);
    return file;
}

static uint64_t size_of(tri_file *file)
{
    uint64_t size;

    assert_int_equal(OPS(world)->file_size(file, &size), TR_OK);
    return size;
}

static void test_file_keeps_what_is_written(void **state)
{
    folder *it = *state;
    tri_file *file = open_new(it->file);
    char text[16] = {0};
    size_t done;

    assert_int_equal(OPS(world)->file_write(file, "hello", 5, 100), TR_OK);
    assert_int_equal(OPS(world)->file_sync(file), TR_OK);
    assert_int_equal(OPS(world)->file_sync(file), TR_OK);
    OPS(world)->file_close(file);

    assert_int_equal(
        OPS(world)->file_open(world, &file, it->file, TRI_FILE_READ), TR_OK);
    assert_int_equal(size_of(file), 105);
    assert_int_equal(OPS(world)->file_read(file, text, 16, 100, &done), TR_OK);
    assert_int_equal(done, 5);
    assert_string_equal(text, "hello");
    assert_int_equal(OPS(world)->file_read(file, text, 4, 0, &done), TR_OK);
    assert_int_equal(done, 4);
    assert_memory_equal(text, "\0\0\0\0", 4);
    assert_int_equal(OPS(world)->file_read(file, text, 4, 1000, &done), TR_OK);
    assert_int_equal(done, 0);
    assert_int_equal(OPS(world)->file_write(file, "x", 1, 0), TR_EINVAL);
    OPS(world)->file_close(file);
}

static void test_file_is_cut_and_grown(void **state)
{
    folder *it = *state;
    tri_file *file = open_new(it->file);
    char text[8];
    size_t done;

    assert_int_equal(OPS(world)->file_write(file, "abcdef", 6, 0), TR_OK);
    assert_int_equal(OPS(world)->file_truncate(file, 2), TR_OK);
    assert_int_equal(size_of(file), 2);
    assert_int_equal(OPS(world)->file_truncate(file, 4), TR_OK);
    assert_int_equal(OPS(world)->file_read(file, text, 8, 0, &done), TR_OK);
    assert_int_equal(done, 4);
    assert_memory_equal(text, "ab\0\0", 4);
    assert_int_equal(OPS(world)->file_truncate(file, UINT64_MAX), TR_EINVAL);
    assert_int_equal(OPS(world)->file_write(file, "x", 1, UINT64_MAX),
                     TR_EINVAL);
    assert_int_equal(OPS(world)->file_read(file, text, 1, UINT64_MAX, &done),
                     TR_EINVAL);
    OPS(world)->file_close(file);
}

static void test_file_open_says_what_is_wrong(void **state)
{
    folder *it = *state;
    tri_file *file = open_new(it->file);
    char beyond[PATH_SIZE + 32];

    OPS(world)->file_close(file);
    assert_int_equal(OPS(world)->file_open(world, &file, it->file,
                                           TRI_FILE_READ | TRI_FILE_WRITE |
                                               TRI_FILE_CREATE |
                                               TRI_FILE_EXCLUSIVE),
                     TR_EEXIST);
    assert_null(file);
    snprintf(beyond, sizeof(beyond), "%s/more", it->path);
    assert_int_equal(OPS(world)->file_open(world, &file, beyond, TRI_FILE_READ),
                     TR_ENOENT);
    snprintf(beyond, sizeof(beyond), "%s/more", it->file);
    assert_int_equal(OPS(world)->file_open(world, &file, beyond, TRI_FILE_READ),
                     TR_ENOENT);
    assert_int_equal(
        OPS(world)->file_open(world, &file, it->path, TRI_FILE_WRITE),
        TR_EINVAL);
    assert_null(file);
}

static void test_file_is_removed(void **state)
{
    folder *it = *state;
    bool exists = true;

    assert_int_equal(OPS(world)->file_exists(world, it->file, &exists), TR_OK);
    assert_false(exists);
    OPS(world)->file_close(open_new(it->file));
    assert_int_equal(OPS(world)->file_exists(world, it->file, &exists), TR_OK);
    assert_true(exists);
    assert_int_equal(OPS(world)->file_remove(world, it->file, true), TR_OK);
    assert_int_equal(OPS(world)->file_exists(world, it->file, &exists), TR_OK);
    assert_false(exists);
    assert_int_equal(OPS(world)->file_remove(world, it->file, false),
                     TR_ENOENT);
}

static void test_file_is_gone_when_closed(void **state)
{
    folder *it = *state;
    tri_file *file;
    bool exists = true;

    assert_int_equal(OPS(world)->file_open(world, &file, it->file,
                                           TRI_FILE_READ | TRI_FILE_WRITE |
                                               TRI_FILE_CREATE |
                                               TRI_FILE_DELETE),
                     TR_OK);
    assert_int_equal(OPS(world)->file_write(file, "x", 1, 0), TR_OK);
    assert_int_equal(OPS(world)->file_sync(file), TR_OK);
    OPS(world)->file_close(file);
    assert_int_equal(OPS(world)->file_exists(world, it->file, &exists), TR_OK);
    assert_false(exists);
}

static void test_locks_exclude_within_a_process(void **state)
{
    folder *it = *state;
    const tri_world_ops *ops = OPS(world);
    tri_file *one = open_new(it->file);
    tri_file *two = open_new(it->file);

    assert_int_equal(ops->file_lock(one, 10, 5, TRI_LOCK_SHARED), TR_OK);
    assert_int_equal(ops->file_lock(two, 10, 5, TRI_LOCK_SHARED), TR_OK);
    assert_int_equal(ops->file_lock(two, 12, 1, TRI_LOCK_EXCLUSIVE), TR_EFULL);
    assert_int_equal(ops->file_lock(two, 15, 1, TRI_LOCK_EXCLUSIVE), TR_OK);
    assert_int_equal(ops->file_lock(one, 15, 1, TRI_LOCK_SHARED), TR_EFULL);
    assert_int_equal(ops->file_lock(one, 10, 5, TRI_LOCK_NONE), TR_OK);
    assert_int_equal(ops->file_lock(two, 10, 5, TRI_LOCK_EXCLUSIVE), TR_OK);
    assert_int_equal(ops->file_lock(one, 0, 0, TRI_LOCK_SHARED), TR_EINVAL);

    // Closing a third open of the file takes no lock from the second.
    ops->file_close(open_new(it->file));
    assert_int_equal(ops->file_lock(one, 10, 5, TRI_LOCK_SHARED), TR_EFULL);
    ops->file_close(two);
    assert_int_equal(ops->file_lock(one, 10, 5, TRI_LOCK_EXCLUSIVE), TR_OK);
    ops->file_close(one);
}

/* Opens the file in another process and returns what the lock answers there. */
static int lock_elsewhere(const char *path, int lock)
{
    int status;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        tri_file *file;
        if (OPS(world)->file_open(world, &file, path,
                                  TRI_FILE_READ | TRI_FILE_WRITE) != TR_OK) {
            _exit(255);
        }
        _exit((int)OPS(world)->file_lock(file, 0, 4, lock));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void test_locks_exclude_between_processes(void **state)
{
    folder *it = *state;
    tri_file *file = open_new(it->file);

    assert_int_equal(OPS(world)->file_lock(file, 0, 4, TRI_LOCK_SHARED), TR_OK);
    assert_int_equal(lock_elsewhere(it->file, TRI_LOCK_SHARED), TR_OK);
    assert_int_equal(lock_elsewhere(it->file, TRI_LOCK_EXCLUSIVE), TR_EFULL);
    assert_int_equal(OPS(world)->file_lock(file, 0, 4, TRI_LOCK_EXCLUSIVE),
                     TR_OK);
    assert_int_equal(lock_elsewhere(it->file, TRI_LOCK_SHARED), TR_EFULL);
    assert_int_equal(OPS(world)->file_lock(file, 0, 4, TRI_LOCK_NONE), TR_OK);
    assert_int_equal(lock_elsewhere(it->file, TRI_LOCK_EXCLUSIVE), TR_OK);
    OPS(world)->file_close(file);
}

static void test_maps_share_the_file(void **state)
{
    folder *it = *state;
    const tri_world_ops *ops = OPS(world);
    tri_file *one = open_new(it->file);
    tri_file *two = open_new(it->file);
    void *first;
    void *second;
    char text[4];
    size_t done;

    assert_int_equal(ops->file_map(one, 0, 4096, &first), TR_EINVAL);
    assert_null(first);
    assert_int_equal(ops->file_truncate(one, 3 * 32768), TR_OK);
    // An offset that is a page's on no machine.
    assert_int_equal(ops->file_map(one, 32768 + 8, 1000, &first), TR_OK);
    assert_int_equal(ops->file_map(two, 32768, 32768, &second), TR_OK);
    memcpy(first, "abc", 4);
    assert_string_equal((char *)second + 8, "abc");
    assert_int_equal(ops->file_read(two, text, 4, 32768 + 8, &done), TR_OK);
    assert_string_equal(text, "abc");
    assert_int_equal(ops->file_map(two, 3 * 32768 - 1, 2, &second), TR_EINVAL);
    ops->file_unmap(one, first, 1000);
    ops->file_close(one);
    ops->file_close(two);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mono_never_falls),
        cmocka_unit_test(test_wall_is_after_2020),
        cmocka_unit_test(test_random_uses_all_bits),
        cmocka_unit_test(test_threads_draw_differently),
        cmocka_unit_test(test_a_fork_draws_differently),
        cmocka_unit_test(test_cpus_follow_the_affinity),
        cmocka_unit_test(test_thread_has_name_and_no_signals),
        cmocka_unit_test(test_a_thread_that_computes_is_no_thread_that_waits),
        cmocka_unit_test(test_park_sees_an_earlier_change),
        cmocka_unit_test(test_park_ends_with_its_time),
        cmocka_unit_test(test_a_wake_is_not_stored),
        cmocka_unit_test(test_two_threads_take_turns),
        cmocka_unit_test(test_wake_all_wakes_all),
        cmocka_unit_test(test_signals_do_not_end_a_park),
#define POLLER_TEST(name)                                                      \
    cmocka_unit_test_setup_teardown(name, open_piped, close_piped)
        POLLER_TEST(test_poller_reports_reading_once),
        POLLER_TEST(test_poller_reports_writing),
        POLLER_TEST(test_poller_reports_a_hang_up),
        POLLER_TEST(test_poller_reports_a_half_close_as_reading),
        POLLER_TEST(test_poller_forgets_what_is_removed),
        POLLER_TEST(test_poller_refuses_what_never_waits),
        POLLER_TEST(test_poller_fd_tells_of_wake_and_events),
        POLLER_TEST(test_a_wake_does_not_hide_an_event),
        POLLER_TEST(test_another_thread_wakes_the_poller),
        cmocka_unit_test(test_signals_do_not_end_a_poller_wait),
#define FILE_TEST(name)                                                        \
    cmocka_unit_test_setup_teardown(name, open_folder, close_folder)
        FILE_TEST(test_file_keeps_what_is_written),
        FILE_TEST(test_file_is_cut_and_grown),
        FILE_TEST(test_file_open_says_what_is_wrong),
        FILE_TEST(test_file_is_removed),
        FILE_TEST(test_file_is_gone_when_closed),
        FILE_TEST(test_locks_exclude_within_a_process),
        FILE_TEST(test_locks_exclude_between_processes),
        FILE_TEST(test_maps_share_the_file),
    };

    world = tri_world_posix();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
