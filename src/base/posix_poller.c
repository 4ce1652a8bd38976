/*
 * posix_poller.c - descriptors of the real world: an epoll instance with an
 * eventfd that wakes it and a timerfd as its alarm.
 *
 * A descriptor is armed for one event at a time; the socket of a stream is
 * registered once and reports every edge. An event loop of the program
 * may wait for the epoll descriptor itself, so a wake and a due alarm must make
 * it readable.
 */
#define _GNU_SOURCE  // epoll_pwait2

#include "base/posix_poller.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/posix_stream.h"
#include "base/world_posix.h"

#define POLL_BATCH 64  // events taken from the kernel in one call

/* Bit of a token that is the address of a stream; not for poller_add. */
#define STREAM_BIT (UINT64_C(1) << 63)
/* The token of the eventfd and the timerfd. */
#define WAKE_TOKEN UINT64_MAX

/* A wake-up of the poller frees the closed streams once there are so many. */
#define CLOSED_MAX 64

struct tri_poller {
    int epoll;
    int event;                       // eventfd: readable after poller_wake
    int alarm;                       // timerfd; -1 until the first poller_alarm
    bool has_nanos;                  // the kernel has epoll_pwait2 (Linux 5.11)
    _Atomic(uint32_t) added;         // streams; publishes them
    _Atomic(tri_stream *) closed;    // a stack: to be freed
    _Atomic(uint32_t) closed_count;  // since the last time it was emptied
};

/* ---- making and freeing ---- */

/* Adds the eventfd to the epoll instance. */
static tr_err add_wake_event(tri_poller *poller)
{
    // Not one-shot: poller_fd must stay readable until a poller_wait has taken
    // the wake.
    struct epoll_event event = {.events = EPOLLIN, .data = {.u64 = WAKE_TOKEN}};

    if (epoll_ctl(poller->epoll, EPOLL_CTL_ADD, poller->event, &event) != 0) {
        return tri_posix_err(errno);
    }
    return TR_OK;
}

static bool kernel_has_nanos(int epoll)
{
    struct epoll_event event;
    struct timespec now = {0};

    return epoll_pwait2(epoll, &event, 1, &now, NULL) >= 0;
}

/* ---- closed streams ---- */

void tri_posix_poller_free_later_again(tri_poller *poller, tri_stream *stream,
                                       tri_stream **next_closed)
{
    TRI_CHECK(stream != NULL);
    // Relaxed: a first guess. Release: pairs with free_closed.
    tri_stream *first =
        atomic_load_explicit(&poller->closed, memory_order_relaxed);
    do {
        *next_closed = first;
    } while (!atomic_compare_exchange_weak_explicit(
        &poller->closed, &first, stream, memory_order_release,
        memory_order_relaxed));
}

void tri_posix_poller_free_later(tri_poller *poller, tri_stream *stream,
                                 tri_stream **next_closed)
{
    tri_posix_poller_free_later_again(poller, stream, next_closed);
    // Relaxed: a count; the wake-up needs no other memory.
    if (atomic_fetch_add_explicit(&poller->closed_count, 1,
                                  memory_order_relaxed) +
            1 ==
        CLOSED_MAX) {
        tri_posix_poller_wake(poller);
    }
}

/* Called while no event is under way: before the kernel is asked for more. */
static void free_closed(tri_poller *poller, bool is_last)
{
    // Relaxed, both: counts and a first look. Acquire: pairs with
    // tri_posix_poller_free_later.
    if (atomic_load_explicit(&poller->closed, memory_order_relaxed) == NULL) {
        return;
    }
    atomic_store_explicit(&poller->closed_count, 0, memory_order_relaxed);
    tri_stream *stream =
        atomic_exchange_explicit(&poller->closed, NULL, memory_order_acquire);
    while (stream != NULL) {
        stream = tri_posix_stream_free(stream, is_last);
    }
}

void tri_posix_poller_free(tri_poller *poller)
{
    if (poller == NULL) {
        return;
    }
    free_closed(poller, true);
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

tr_err tri_posix_poller_new(tri_world *world, tri_poller **out)
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

    tr_err err =
        poller->event < 0 ? tri_posix_err(errno) : add_wake_event(poller);
    if (err != TR_OK) {
        tri_posix_poller_free(poller);
        return err;
    }
    poller->has_nanos = kernel_has_nanos(poller->epoll);
    *out = poller;
    return TR_OK;
}

/* Returns the tr_err for an errno of epoll_ctl. */
static tr_err add_err(int number)
{
    switch (number) {
    case EPERM:
        return TR_EINVAL;
    case ENOSPC:
        return TR_ELIMIT;
    default:
        return tri_posix_err(number);
    }
}

/*
 * Arms fd for one event, whether it was added before or not. Errors: TR_EINVAL
 * (fd is closed, or is a regular file, which epoll refuses because it is always
 * ready), TR_ENOMEM, TR_ELIMIT (the kernel's limit of watched descriptors).
 */
tr_err tri_posix_poller_add(tri_poller *poller, int fd, uint32_t events,
                            uint64_t token)
{
    TRI_CHECK(poller != NULL);
    TRI_CHECK((token & STREAM_BIT) == 0);
    struct epoll_event event = {.events = EPOLLONESHOT, .data = {.u64 = token}};

    if (events & TRI_FD_READ) {
        event.events |= EPOLLIN | EPOLLRDHUP;
    }
    if (events & TRI_FD_WRITE) {
        event.events |= EPOLLOUT;
    }
    // A descriptor is added once and armed many times, so try arming first.
    int result = epoll_ctl(poller->epoll, EPOLL_CTL_MOD, fd, &event);
    if (result != 0 && errno == ENOENT) {
        result = epoll_ctl(poller->epoll, EPOLL_CTL_ADD, fd, &event);
    }
    return result == 0 ? TR_OK : add_err(errno);
}

tr_err tri_posix_poller_add_stream(tri_poller *poller, int fd,
                                   tri_stream *stream)
{
    TRI_CHECK(stream != NULL);
    struct epoll_event event = {
        .events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
        .data = {.u64 = STREAM_BIT | (uint64_t)(uintptr_t)stream}};

    // Release: pairs with tri_posix_poller_wait, which gets the stream's
    // address from the kernel.
    atomic_fetch_add_explicit(&poller->added, 1, memory_order_release);
    int result = epoll_ctl(poller->epoll, EPOLL_CTL_ADD, fd, &event);
    return result == 0 ? TR_OK : add_err(errno);
}

void tri_posix_poller_remove(tri_poller *poller, int fd)
{
    TRI_CHECK(poller != NULL);
    int result = epoll_ctl(poller->epoll, EPOLL_CTL_DEL, fd, NULL);

    // Closing a descriptor removes it as well, so it may be unknown here.
    TRI_CHECK(result == 0 || errno == ENOENT || errno == EBADF ||
              errno == EPERM);
}

/* Waits for events until `deadline`; returns the result of epoll. */
static int wait_until(const tri_poller *poller, struct epoll_event *seen,
                      int max, tr_nanos deadline)
{
    tr_nanos left = TR_FOREVER;

    if (deadline != TR_FOREVER) {
        tr_nanos now = tri_posix_mono(NULL);
        left = deadline > now ? deadline - now : 0;
    }
    if (poller->has_nanos) {
        struct timespec span = tri_posix_timespec(left);
        return epoll_pwait2(poller->epoll, seen, max,
                            left == TR_FOREVER ? NULL : &span, NULL);
    }
    if (left == TR_FOREVER) {
        return epoll_wait(poller->epoll, seen, max, -1);
    }
    // Rounded up: a wait that returns early makes the caller spin.
    tr_nanos ms = left / TR_MS(1) + (left % TR_MS(1) != 0);
    return epoll_wait(poller->epoll, seen, max,
                      ms > INT_MAX ? INT_MAX : (int)ms);
}

/*
 * Returns the TRI_FD_* of epoll's event bits. A peer that has shut down its
 * side is TRI_FD_READ: a read then finds the end of the stream.
 */
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

    // EAGAIN: another waiter has taken the wake.
    ssize_t got = read(poller->event, &count, sizeof(count));
    TRI_CHECK(got == (ssize_t)sizeof(count) || errno == EAGAIN ||
              errno == EINTR);
}

/* Stores an event of the kernel, unless this file or a stream takes it. */
static uint32_t take_event(tri_poller *poller, const struct epoll_event *seen,
                           tri_fd_event *out)
{
    uint64_t token = seen->data.u64;

    if (token == WAKE_TOKEN) {
        drain_wake(poller);
        return 0;
    }
    if (token & STREAM_BIT) {
        tri_posix_stream_ready((tri_stream *)(uintptr_t)(token & ~STREAM_BIT),
                               seen->events);
        return 0;
    }
    out->token = token;
    out->events = events_of(seen->events);
    return 1;
}

uint32_t tri_posix_poller_wait(tri_poller *poller, tri_fd_event *events,
                               uint32_t max, tr_nanos timeout)
{
    TRI_CHECK(poller != NULL);
    TRI_CHECK(events != NULL);
    TRI_CHECK(max > 0);
    struct epoll_event seen[POLL_BATCH];
    tr_nanos deadline =
        timeout == TR_FOREVER ? TR_FOREVER : tri_posix_deadline(timeout);
    int most = max < POLL_BATCH ? (int)max : POLL_BATCH;
    int count;

    free_closed(poller, false);
    do {
        count = wait_until(poller, seen, most, deadline);
    } while (count < 0 && errno == EINTR);
    TRI_CHECK(count >= 0);

    // Acquire: pairs with tri_posix_poller_add_stream.
    (void)atomic_load_explicit(&poller->added, memory_order_acquire);
    uint32_t stored = 0;
    for (int i = 0; i < count; i++) {
        stored += take_event(poller, &seen[i], &events[stored]);
    }
    return stored;
}

void tri_posix_poller_wake(tri_poller *poller)
{
    uint64_t one = 1;
    ssize_t put;

    do {
        put = write(poller->event, &one, sizeof(one));
    } while (put < 0 && errno == EINTR);
    // EAGAIN: the count is at its maximum, so the eventfd is readable already.
    TRI_CHECK(put == (ssize_t)sizeof(one) || errno == EAGAIN);
}

int tri_posix_poller_fd(tri_poller *poller)
{
    return poller->epoll;
}

/* ---- alarm ---- */

/* Creates the timerfd. Returns false if the system refuses. */
static bool alarm_open(tri_poller *poller)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = WAKE_TOKEN};
    poller->alarm = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
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

void tri_posix_poller_alarm(tri_poller *poller, tr_nanos due)
{
    if (poller->alarm < 0 && (due == TR_FOREVER || !alarm_open(poller))) {
        return;  // without an alarm the caller polls by its own clock
    }
    struct itimerspec when = {0};
    if (due != TR_FOREVER) {
        tr_nanos at = due > 0 ? due : 1;
        when.it_value.tv_sec = at / TR_SECONDS(1);
        when.it_value.tv_nsec = at % TR_SECONDS(1);
    }
    int result = timerfd_settime(poller->alarm, TFD_TIMER_ABSTIME, &when, NULL);
    TRI_CHECK(result == 0);
}
