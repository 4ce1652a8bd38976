/*
 * sim_tcp_test.c - simulated streams keep the contract of the real ones, and
 * every fault of theirs happens.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/world.h"
#include "sim/sim.h"
#include "sim/sim_fault.h"
#include "sim/sim_net.h"
#include "sim/sim_node.h"
#include "sim/sim_tcp.h"
#include "support/starve.h"
#include "support/streams.h"

#define ANY "tcp://127.0.0.1:0"

enum { SEEDS = 50 };

static tri_poller *poller_of(tri_sim_node *node)
{
    tri_poller *poller;

    assert_int_equal(node->world.ops->poller_new(&node->world, &poller), TR_OK);
    return poller;
}

/* The listener is on node 0, what connects is on node 1. */
static void stage_init(stage *it, uint64_t seed)
{
    *it = (stage){0};
    assert_int_equal(tr_sim_new(&it->sim, seed), TR_OK);
    assert_non_null(tri_sim_node_add(it->sim));
    it->world = &it->sim->nodes[0]->world;
    it->ops = it->world->ops;
    it->poller = poller_of(it->sim->nodes[0]);
    it->other = poller_of(it->sim->nodes[1]);
}

static void set_faults(stage *it, tr_faults faults)
{
    faults.size = sizeof(faults);
    tri_sim_set_faults(it->sim, &faults);
}

static void stage_fini(stage *it)
{
    stage_shut(it);
    it->ops->poller_free(it->poller);
    it->ops->poller_free(it->other);
    tr_sim_free(it->sim);
}

static void on_stage(void (*check)(stage *it))
{
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        stage it;
        stage_init(&it, seed);
        assert_int_equal(stage_open(&it, ANY, 4), TR_OK);
        check(&it);
        stage_fini(&it);
    }
}

static void test_streams_keep_the_contract(void **state)
{
    (void)state;
    on_stage(check_bytes_both_ways);
    on_stage(check_addresses);
    on_stage(check_back_pressure);
    on_stage(check_waiters);
    on_stage(check_reset);
    on_stage(check_refused);
}

static void test_bytes_survive_short_io_and_bad_links(void **state)
{
    (void)state;
    char sent[4096], got[4096];

    for (size_t i = 0; i < sizeof(sent); i++) {
        sent[i] = (char)(i * 7);
    }
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        stage it;
        stage_init(&it, seed);
        assert_int_equal(stage_open(&it, ANY, 4), TR_OK);
        set_faults(&it, (tr_faults){.short_io = 0.7, .delay = 0.3});
        assert_int_equal(stage_write_all(&it, it.client, sent, sizeof(sent)),
                         TR_OK);
        tri_sim_net_partition(it.sim->tcp->net, 1, TR_SECONDS(3));
        tri_sim_net_clog(it.sim->tcp->net, 1, 0, TR_SECONDS(5));
        assert_int_equal(stage_read_all(&it, it.server, got, sizeof(got)),
                         TR_OK);
        assert_memory_equal(sent, got, sizeof(sent));
        assert_true(tr_sim_now(it.sim) >= TR_SECONDS(4));
        stage_fini(&it);
    }
}

static void test_a_connection_may_be_refused(void **state)
{
    (void)state;
    stage it;

    stage_init(&it, 1);
    set_faults(&it, (tr_faults){.refuse = 1.0});
    assert_int_equal(stage_open(&it, ANY, 4), TR_EUNREACHABLE);
    stage_fini(&it);
}

/* The end that wrote sees a reset; the other one a reset, or nothing. */
static void test_a_connection_may_break_or_be_half_open(void **state)
{
    (void)state;
    uint32_t heard = 0, silent = 0;

    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        stage it;
        char text[4];
        size_t done;
        stage_init(&it, seed);
        assert_int_equal(stage_open(&it, ANY, 4), TR_OK);
        set_faults(&it, (tr_faults){.reset = 1.0});
        assert_int_equal(stage_write_all(&it, it.client, "x", 1), TR_ERESET);
        assert_int_equal(it.ops->stream_read(it.client, text, 4, &done),
                         TR_ERESET);
        set_faults(&it, (tr_faults){0});
        tr_sim_advance(it.sim, TR_SECONDS(60));
        tr_err err = it.ops->stream_read(it.server, text, 4, &done);
        heard += err == TR_ERESET;
        silent += err == TR_EWOULDBLOCK;
        if (err == TR_EWOULDBLOCK) {  // until it writes
            (void)stage_write_all(&it, it.server, "hello?", 6);
            assert_int_equal(stage_read(&it, it.server, text, 4, &done),
                             TR_ERESET);
        }
        stage_fini(&it);
    }
    assert_int_equal(heard + silent, SEEDS);
    assert_true(heard > 0 && silent > 0);
}

static void test_a_full_queue_makes_connections_wait(void **state)
{
    (void)state;
    stage it;
    tri_stream *more;

    stage_init(&it, 1);
    assert_int_equal(stage_open(&it, ANY, 1), TR_OK);
    tri_stream *first = it.client;
    assert_int_equal(it.ops->stream_connect(it.other, &it.client, it.at),
                     TR_OK);
    assert_int_equal(stage_connected(&it), TR_OK);  // it fills the queue
    assert_int_equal(it.ops->stream_connect(it.other, &more, it.at), TR_OK);
    tr_sim_advance(it.sim, TR_SECONDS(10));
    assert_int_equal(it.ops->stream_connected(more), TR_EWOULDBLOCK);
    it.ops->stream_close(it.server);
    assert_int_equal(stage_accept(&it), TR_OK);
    tr_sim_advance(it.sim, TR_SECONDS(3));
    assert_int_equal(it.ops->stream_connected(more), TR_OK);
    it.ops->stream_close(more);
    it.ops->stream_close(first);
    stage_fini(&it);
}

static void test_a_partition_outlasts_a_connection_attempt(void **state)
{
    (void)state;
    stage it;

    stage_init(&it, 1);
    assert_non_null(tri_sim_tcp_need(it.sim));
    tri_sim_net_partition(it.sim->tcp->net, 1, TR_FOREVER);
    assert_int_equal(stage_open(&it, ANY, 4), TR_ETIMEDOUT);
    stage_fini(&it);
}

/* What a killed node had ends in a reset or in silence, as the seed says. */
static void test_a_killed_node_resets_or_falls_silent(void **state)
{
    (void)state;
    uint32_t heard = 0, silent = 0;

    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        stage it;
        char text[4];
        size_t done;
        bell never = {.waiter = {.fn = bell_ring}};
        stage_init(&it, seed);
        assert_int_equal(stage_open(&it, ANY, 4), TR_OK);
        assert_int_equal(
            it.ops->stream_wait(it.server, TRI_FD_READ, &never.waiter),
            TRI_ARMED);
        tri_sim_tcp_kill(it.sim->nodes[0]);
        tr_sim_advance(it.sim, TR_SECONDS(60));
        tr_err err = it.ops->stream_read(it.client, text, 4, &done);
        heard += err == TR_ERESET;
        silent += err == TR_EWOULDBLOCK;
        // The dead process hears nothing; its memory is freed later.
        assert_int_equal(never.rung, 0);
        assert_true(
            it.ops->stream_cancel(it.server, TRI_FD_READ, &never.waiter));
        assert_int_equal(it.ops->stream_read(it.server, text, 4, &done),
                         TR_ECLOSED);
        // Its address is free for the next process.
        tri_stream *next;
        assert_int_equal(it.ops->stream_listen(it.poller, &next, it.at, 4),
                         TR_OK);
        it.ops->stream_close(next);
        stage_fini(&it);
    }
    assert_int_equal(heard + silent, SEEDS);
    assert_true(heard > 0 && silent > 0);
}

static void test_names_of_nodes_are_addresses(void **state)
{
    (void)state;
    stage it;
    char out[2][TRI_STREAM_ADDRESS_MAX];
    uint32_t count;

    stage_init(&it, 1);
    assert_int_equal(stage_open(&it, "tcp://node-0:7000", 4), TR_OK);
    assert_string_equal(it.at, "tcp://node-0:7000");
    tri_stream *none;
    assert_int_equal(it.ops->stream_listen(it.poller, &none, it.at, 4),
                     TR_EEXIST);
    assert_int_equal(
        it.ops->stream_listen(it.other, &none, "tcp://node-0:1", 4), TR_EINVAL);
    assert_int_equal(
        it.ops->resolve(it.world, "tcp://localhost:9", out, 2, &count), TR_OK);
    assert_int_equal(count, 1);
    assert_string_equal(out[0], "tcp://127.0.0.1:9");
    assert_int_equal(
        it.ops->resolve(it.world, "tcp://node-1:9", out, 2, &count), TR_OK);
    assert_int_equal(
        it.ops->resolve(it.world, "tcp://node-2:9", out, 2, &count), TR_ENOENT);
    assert_int_equal(
        it.ops->resolve(it.world, "tcp://elsewhere:9", out, 2, &count),
        TR_ENOENT);
    stage_fini(&it);
}

/* Streams that are left open are freed with their world. */
static void test_a_world_frees_open_streams(void **state)
{
    (void)state;
    stage it;

    stage_init(&it, 1);
    assert_int_equal(stage_open(&it, ANY, 4), TR_OK);
    assert_int_equal(stage_write_all(&it, it.client, "flying", 6), TR_OK);
    it.client = it.server = it.listener = NULL;
    stage_fini(&it);
}

static void test_every_allocation_may_fail(void **state)
{
    (void)state;
    bool failed = true;

    for (int n = 0; failed; n++) {
        stage it;
        char text[4];
        stage_init(&it, 1);
        starve_arm(n);
        tr_err err = stage_open(&it, ANY, 4);
        if (err == TR_OK) {
            err = stage_write_all(&it, it.client, "four", 4);
        }
        if (err == TR_OK) {
            err = stage_read_all(&it, it.server, text, 4);
        }
        failed = starve_end();
        // Without memory for the other end a connection is refused.
        assert_true(failed ? err == TR_ENOMEM || err == TR_EUNREACHABLE
                           : err == TR_OK);
        stage_fini(&it);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_streams_keep_the_contract),
        cmocka_unit_test(test_bytes_survive_short_io_and_bad_links),
        cmocka_unit_test(test_a_connection_may_be_refused),
        cmocka_unit_test(test_a_connection_may_break_or_be_half_open),
        cmocka_unit_test(test_a_full_queue_makes_connections_wait),
        cmocka_unit_test(test_a_partition_outlasts_a_connection_attempt),
        cmocka_unit_test(test_a_killed_node_resets_or_falls_silent),
        cmocka_unit_test(test_names_of_nodes_are_addresses),
        cmocka_unit_test(test_a_world_frees_open_streams),
        cmocka_unit_test(test_every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
