/*
 * posix_stream_test.c - streams of the real world, over loopback and Unix
 * sockets.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/world.h"
#include "support/starve.h"
#include "support/streams.h"

#define LOOPBACK "tcp://127.0.0.1:0"

static void stage_init(stage *it)
{
    *it = (stage){.world = tri_world_posix(), .ops = tri_world_posix()->ops};
    assert_int_equal(it->ops->poller_new(it->world, &it->poller), TR_OK);
    it->other = it->poller;
}

static void stage_fini(stage *it)
{
    stage_shut(it);
    it->ops->poller_free(it->poller);
}

static void on_stage(void (*check)(stage *it))
{
    stage it;

    stage_init(&it);
    assert_int_equal(stage_open(&it, LOOPBACK, 4), TR_OK);
    check(&it);
    stage_fini(&it);
}

static void test_streams_carry_bytes_both_ways(void **state)
{
    (void)state;
    on_stage(check_bytes_both_ways);
}

static void test_streams_know_their_addresses(void **state)
{
    (void)state;
    on_stage(check_addresses);
}

static void test_a_full_stream_waits_for_its_reader(void **state)
{
    (void)state;
    on_stage(check_back_pressure);
}

static void test_a_waiter_is_called_once(void **state)
{
    (void)state;
    on_stage(check_waiters);
}

static void test_unread_bytes_reset_the_connection(void **state)
{
    (void)state;
    on_stage(check_reset);
}

static void test_nobody_listening_is_unreachable(void **state)
{
    (void)state;
    on_stage(check_refused);
}

static void test_streams_of_ipv6(void **state)
{
    (void)state;
    stage it;

    stage_init(&it);
    if (stage_open(&it, "tcp://[::1]:0", 4) == TR_OK) {
        check_bytes_both_ways(&it);
        check_addresses(&it);
    }
    stage_fini(&it);
}

static void test_streams_of_unix_sockets(void **state)
{
    (void)state;
    char path[] = "/tmp/troupe-stream-XXXXXX", at[TRI_STREAM_ADDRESS_MAX];
    stage it;

    assert_non_null(mkdtemp(path));
    (void)snprintf(at, sizeof(at), "unix:%s/socket", path);
    stage_init(&it);
    assert_int_equal(stage_open(&it, at, 4), TR_OK);
    check_bytes_both_ways(&it);
    it.ops->stream_address(it.client, true, it.at);
    assert_string_equal(it.at, at);
    check_refused(&it);
    stage_fini(&it);
    assert_int_equal(unlink(at + 5), 0);
    assert_int_equal(rmdir(path), 0);
}

static void test_an_address_in_use_is_refused(void **state)
{
    (void)state;
    stage it;
    tri_stream *again;

    stage_init(&it);
    assert_int_equal(stage_open(&it, LOOPBACK, 4), TR_OK);
    assert_int_equal(it.ops->stream_listen(it.poller, &again, it.at, 4),
                     TR_EEXIST);
    assert_int_equal(
        it.ops->stream_listen(it.poller, &again, "tcp://nobody:1", 4),
        TR_EINVAL);
    assert_null(again);
    stage_fini(&it);
}

/* Closes its stream, as a transport does that has read the end. */
typedef struct closer {
    tri_waiter waiter;
    stage *stage;
    uint32_t rung;
} closer;

static void close_it(tri_waiter *waiter)
{
    closer *it = tri_container_of(waiter, closer, waiter);

    it->rung++;
    it->stage->ops->stream_close(it->stage->server);
    it->stage->server = NULL;
}

static void test_a_waiter_may_close_its_stream(void **state)
{
    (void)state;
    stage it;
    char text[4];
    size_t done;

    stage_init(&it);
    assert_int_equal(stage_open(&it, LOOPBACK, 4), TR_OK);
    closer mine = {.waiter = {.fn = close_it}, .stage = &it};
    assert_int_equal(it.ops->stream_read(it.server, text, 4, &done),
                     TR_EWOULDBLOCK);
    assert_int_equal(it.ops->stream_wait(it.server, TRI_FD_READ, &mine.waiter),
                     TRI_ARMED);
    it.ops->stream_close(it.client);
    it.client = NULL;
    for (int i = 0; mine.rung == 0; i++) {
        assert_true(i < PUMPS_MAX);
        stage_pump(&it);
    }
    stage_pump(&it);  // frees it
    assert_int_equal(mine.rung, 1);
    stage_fini(&it);
}

/* Many are closed while nobody is in the poller, which is woken for them. */
static void test_closed_streams_are_freed_by_the_poller(void **state)
{
    (void)state;
    stage it;
    tri_fd_event event;

    stage_init(&it);
    for (int i = 0; i < 200; i++) {
        assert_int_equal(
            it.ops->stream_listen(it.poller, &it.listener, LOOPBACK, 4), TR_OK);
        stage_shut(&it);
    }
    assert_int_equal(it.ops->poller_wait(it.poller, &event, 1, TR_FOREVER), 0);
    stage_fini(&it);
}

static void test_no_descriptor_is_left_is_a_limit(void **state)
{
    (void)state;
    struct rlimit before, low;
    stage it;
    tri_stream *none;

    stage_init(&it);
    assert_int_equal(stage_open(&it, LOOPBACK, 4), TR_OK);
    it.ops->stream_close(it.server);
    it.ops->stream_close(it.client);
    it.server = NULL;
    assert_int_equal(it.ops->stream_connect(it.other, &it.client, it.at),
                     TR_OK);
    assert_int_equal(stage_connected(&it), TR_OK);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    low = before;
    low.rlim_cur = 3;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    assert_int_equal(it.ops->stream_connect(it.other, &none, it.at), TR_ELIMIT);
    assert_int_equal(stage_accept(&it), TR_ELIMIT);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    // The connection is still there: no edge is needed to see it.
    assert_int_equal(stage_accept(&it), TR_OK);
    stage_fini(&it);
}

static void test_every_allocation_may_fail(void **state)
{
    (void)state;
    stage it;
    bool failed = true;

    stage_init(&it);
    for (int n = 0; failed; n++) {
        starve_arm(n);
        tr_err err = stage_open(&it, LOOPBACK, 4);
        failed = starve_end();
        assert_int_equal(err, failed ? TR_ENOMEM : TR_OK);
        stage_shut(&it);
    }
    stage_fini(&it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_streams_carry_bytes_both_ways),
        cmocka_unit_test(test_streams_know_their_addresses),
        cmocka_unit_test(test_a_full_stream_waits_for_its_reader),
        cmocka_unit_test(test_a_waiter_is_called_once),
        cmocka_unit_test(test_unread_bytes_reset_the_connection),
        cmocka_unit_test(test_nobody_listening_is_unreachable),
        cmocka_unit_test(test_streams_of_ipv6),
        cmocka_unit_test(test_streams_of_unix_sockets),
        cmocka_unit_test(test_an_address_in_use_is_refused),
        cmocka_unit_test(test_a_waiter_may_close_its_stream),
        cmocka_unit_test(test_closed_streams_are_freed_by_the_poller),
        cmocka_unit_test(test_no_descriptor_is_left_is_a_limit),
        cmocka_unit_test(test_every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
