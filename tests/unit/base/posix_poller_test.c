/*
 * posix_poller_test.c - pollers of the real world report each readiness once,
 * and any thread can wake them.
 */
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/world.h"
#include "unit/base/under_signals.h"

#define OPS(world) ((world)->ops)
#define SHORT_WAIT TR_MS(2)

static tri_world *world;

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
    // The descriptor is still readable, but the event has disarmed it.
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

static void test_poller_ignores_removed_descriptors(void **state)
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

static void test_poller_refuses_regular_files(void **state)
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

static void test_poller_fd_is_readable_after_wake_and_events(void **state)
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
    if (count == 0) {  // the wake came first and filled the buffer
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

#define POLLER_TEST(name)                                                      \
    cmocka_unit_test_setup_teardown(name, open_piped, close_piped)

int main(void)
{
    const struct CMUnitTest tests[] = {
        POLLER_TEST(test_poller_reports_reading_once),
        POLLER_TEST(test_poller_reports_writing),
        POLLER_TEST(test_poller_reports_a_hang_up),
        POLLER_TEST(test_poller_reports_a_half_close_as_reading),
        POLLER_TEST(test_poller_ignores_removed_descriptors),
        POLLER_TEST(test_poller_refuses_regular_files),
        POLLER_TEST(test_poller_fd_is_readable_after_wake_and_events),
        POLLER_TEST(test_a_wake_does_not_hide_an_event),
        POLLER_TEST(test_another_thread_wakes_the_poller),
        cmocka_unit_test(test_signals_do_not_end_a_poller_wait),
    };

    world = tri_world_posix();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
