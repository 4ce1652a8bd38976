/*
 * posix_poller.c - the real world's descriptors: epoll, and a way to wake it.
 *
 * A descriptor is armed for one event. The poller itself is a descriptor
 * that a foreign event loop may wait for, so what is due in it (a wake, the
 * alarm) makes it readable.
 */
#define _GNU_SOURCE  // epoll_pwait2

#include "base/world_posix.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/check.h"

#define POLL_BATCH 64  // events taken from the kernel at once

/* The poller's own descriptor; poller_add refuses it as a token. */
#define WAKE_TOKEN UINT64_MAX

struct tri_poller {
    int epoll;
    int event;       // an eventfd: readable after poller_wake
    int alarm;       // a timerfd, or -1 until the first poller_alarm
    bool has_nanos;  // the kernel knows epoll_pwait2 (Linux 5.11)
};

static tr_err watch_wake(tri_poller *poller)
{
    // Not one-shot: it stays readable, and so does poller_fd, until a wait
    // has seen it.
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

void tri_posix_poller_free(tri_poller *poller)
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

    tr_err err = poller->event < 0 ? tri_posix_err(errno) : watch_wake(poller);
    if (err != TR_OK) {
        tri_posix_poller_free(poller);
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
tr_err tri_posix_poller_add(tri_poller *poller, int fd, uint32_t events,
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
        return tri_posix_err(errno);
    }
}

void tri_posix_poller_remove(tri_poller *poller, int fd)
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
    // Rounded up: to come back too early would be to spin.
    tr_nanos ms = left / TR_MS(1) + (left % TR_MS(1) != 0);
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

uint32_t tri_posix_poller_wait(tri_poller *poller, tri_fd_event *events,
                               uint32_t max, tr_nanos timeout)
{
    TRI_CHECK(max > 0);
    struct epoll_event seen[POLL_BATCH];
    tr_nanos deadline =
        timeout == TR_FOREVER ? TR_FOREVER : tri_posix_deadline(timeout);
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

void tri_posix_poller_wake(tri_poller *poller)
{
    uint64_t one = 1;
    ssize_t put;

    do {
        put = write(poller->event, &one, sizeof(one));
    } while (put < 0 && errno == EINTR);
    // EAGAIN: the count is at its top, so it is readable, which is all we ask.
    TRI_CHECK(put == (ssize_t)sizeof(one) || errno == EAGAIN);
}

int tri_posix_poller_fd(tri_poller *poller)
{
    return poller->epoll;
}

/* ---- an alarm in the poller ---- */

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
        return;  // without one the caller polls by its own clock
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
