/*
 * sim_net_test.c - messages between simulated nodes, and every fault of
 * links.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "sim/sim.h"
#include "sim/sim_fault.h"
#include "sim/sim_net.h"

enum { NODES = 3, MESSAGES = 200, SEEN_MAX = 1000 };

typedef struct mail {
    uint32_t number;
    char text[28];
} mail;

typedef struct post {
    tr_sim *sim;
    tri_sim_net *net;
    uint32_t count;
    mail seen[SEEN_MAX];
    tr_nanos at[SEEN_MAX];
    uint32_t to[SEEN_MAX];
    bool forgets;  // the receiver calls tri_sim_net_forget on delivery
} post;

static void receive(void *user, uint32_t from, uint32_t to, const void *bytes,
                    size_t size)
{
    post *it = user;

    (void)from;
    assert_int_equal(size, sizeof(mail));
    assert_true(it->count < SEEN_MAX);
    memcpy(&it->seen[it->count], bytes, size);
    it->at[it->count] = tr_sim_now(it->sim);
    it->to[it->count] = to;
    it->count++;
    if (it->forgets) {
        tri_sim_net_forget(it->net, to);
    }
}

static void post_init(post *it, uint64_t seed, tr_faults faults)
{
    *it = (post){0};
    faults.size = sizeof(faults);
    assert_int_equal(tr_sim_new(&it->sim, seed), TR_OK);
    tri_sim_set_faults(it->sim, &faults);
    assert_int_equal(tri_sim_net_new(&it->net, it->sim, NODES, receive, it),
                     TR_OK);
}

static void post_fini(post *it)
{
    tri_sim_net_free(it->net);
    tr_sim_free(it->sim);
}

static void send(post *it, uint32_t from, uint32_t to, uint32_t number)
{
    mail m = {.number = number, .text = "text"};

    assert_int_equal(tri_sim_net_send(it->net, from, to, &m, sizeof(m)), TR_OK);
}

static void send_many(post *it)
{
    for (uint32_t i = 0; i < MESSAGES; i++) {
        send(it, 0, 1, i);
    }
}

static void test_messages_arrive_in_order_and_late(void **state)
{
    (void)state;
    post it;

    post_init(&it, 1, (tr_faults){0});
    send_many(&it);
    assert_int_equal(it.count, 0);
    assert_int_equal(tri_sim_net_in_flight(it.net), MESSAGES);
    tr_sim_advance(it.sim, TR_SECONDS(1));
    assert_int_equal(it.count, MESSAGES);
    assert_int_equal(tri_sim_net_in_flight(it.net), 0);
    for (uint32_t i = 0; i < MESSAGES; i++) {
        assert_int_equal(it.seen[i].number, i);
        assert_int_equal(it.to[i], 1);
        assert_true(it.at[i] >= TR_SECONDS(1) + 100000);
    }
    post_fini(&it);
}

static void test_latency_is_drawn_from_its_range(void **state)
{
    (void)state;
    post it;
    tri_sim_latency latency = {.least = TR_MS(10), .most = TR_MS(20)};
    tr_nanos least = TR_FOREVER, most = 0;

    post_init(&it, 1, (tr_faults){0});
    tri_sim_net_latency(it.net, &latency);
    for (uint32_t i = 0; i < MESSAGES; i++) {
        tr_nanos before = tr_sim_now(it.sim);
        send(&it, 0, 1, i);
        tr_sim_advance(it.sim, TR_SECONDS(1));
        tr_nanos took = it.at[i] - before;
        least = took < least ? took : least;
        most = took > most ? took : most;
    }
    assert_in_range(least, TR_MS(10), TR_MS(11));
    assert_in_range(most, TR_MS(19), TR_MS(20) + 8);
    post_fini(&it);
}

static void test_dropped_messages_do_not_arrive(void **state)
{
    (void)state;
    post it;

    post_init(&it, 1, (tr_faults){.drop = 0.25});
    send_many(&it);
    tr_sim_advance(it.sim, TR_SECONDS(1));
    assert_in_range(it.count, MESSAGES / 2, MESSAGES - 20);
    assert_int_equal(it.count + it.sim->faults[TRI_FAULT_drop].fired, MESSAGES);
    post_fini(&it);
}

static void test_duplicated_messages_arrive_twice(void **state)
{
    (void)state;
    post it;

    post_init(&it, 1, (tr_faults){.duplicate = 0.25});
    send_many(&it);
    tr_sim_advance(it.sim, TR_SECONDS(1));
    assert_int_equal(it.count,
                     MESSAGES + it.sim->faults[TRI_FAULT_duplicate].fired);
    assert_true(it.count > MESSAGES + 20);
    post_fini(&it);
}

static void test_reorder_and_delay_change_the_order(void **state)
{
    (void)state;
    post it;
    uint32_t behind = 0;

    post_init(
        &it, 1,
        (tr_faults){.reorder = 0.2, .delay = 0.2, .delay_max = TR_SECONDS(5)});
    send_many(&it);
    tr_sim_advance(it.sim, TR_SECONDS(6));
    assert_int_equal(it.count, MESSAGES);
    for (uint32_t i = 1; i < MESSAGES; i++) {
        behind += it.seen[i].number < it.seen[i - 1].number;
    }
    assert_true(behind > 5);
    assert_true(it.at[MESSAGES - 1] > TR_SECONDS(2));
    assert_true(it.sim->faults[TRI_FAULT_reorder].fired > 0);
    assert_true(it.sim->faults[TRI_FAULT_delay].fired > 0);
    post_fini(&it);
}

static void test_bit_flips(void **state)
{
    (void)state;
    post it;
    mail sent = {.number = 0, .text = "text"};

    post_init(&it, 1, (tr_faults){.bit_flip = 1.0});
    assert_int_equal(tri_sim_net_send(it.net, 0, 1, &sent, sizeof(sent)),
                     TR_OK);
    tr_sim_advance(it.sim, TR_SECONDS(1));
    int flipped = 0;
    for (size_t i = 0; i < sizeof(sent); i++) {
        unsigned char a = ((unsigned char *)&sent)[i];
        unsigned char b = ((unsigned char *)&it.seen[0])[i];
        flipped += __builtin_popcount((unsigned)(a ^ b));
    }
    assert_int_equal(flipped, 1);
    post_fini(&it);
}

static void test_a_cut_is_one_way_and_loses(void **state)
{
    (void)state;
    post it;

    post_init(&it, 1, (tr_faults){0});
    send(&it, 0, 1, 1);  // in flight when the link is cut
    tri_sim_net_cut(it.net, 0, 1, TR_SECONDS(10));
    send(&it, 0, 1, 2);
    send(&it, 1, 0, 3);
    tr_sim_advance(it.sim, TR_SECONDS(10));
    assert_int_equal(it.count, 1);
    assert_int_equal(it.seen[0].number, 3);
    send(&it, 0, 1, 4);
    tr_sim_advance(it.sim, TR_SECONDS(1));
    assert_int_equal(it.count, 2);
    assert_int_equal(it.seen[1].number, 4);
    post_fini(&it);
}

static void test_a_partition_has_two_sides(void **state)
{
    (void)state;
    post it;

    post_init(&it, 1, (tr_faults){0});
    tri_sim_net_partition(it.net, 1, TR_FOREVER);  // {0} and {1, 2}
    send(&it, 0, 1, 1);
    send(&it, 1, 0, 2);
    send(&it, 2, 0, 3);
    send(&it, 1, 2, 4);
    tr_sim_advance(it.sim, TR_SECONDS(1));
    assert_int_equal(it.count, 1);
    assert_int_equal(it.seen[0].number, 4);
    tri_sim_net_heal(it.net);
    send(&it, 0, 1, 5);
    tr_sim_advance(it.sim, TR_SECONDS(1));
    assert_int_equal(it.count, 2);
    post_fini(&it);
}

static void test_a_clog_holds_and_keeps_the_order(void **state)
{
    (void)state;
    post it;

    post_init(&it, 1, (tr_faults){0});
    for (uint32_t i = 0; i < 100; i++) {
        send(&it, 0, 1, i);
    }
    tri_sim_net_clog(it.net, 0, 1, TR_SECONDS(5));
    tr_sim_advance(it.sim, TR_SECONDS(5) - TR_MS(1));
    assert_int_equal(it.count, 0);
    // Some of these arrive just before the clog ends, some just after.
    for (uint32_t i = 100; i < MESSAGES; i++) {
        send(&it, 0, 1, i);
    }
    tr_sim_advance(it.sim, TR_SECONDS(1));
    assert_int_equal(it.count, MESSAGES);
    for (uint32_t i = 0; i < MESSAGES; i++) {
        assert_int_equal(it.seen[i].number, i);
    }
    tri_sim_net_clog(it.net, 0, 1, TR_FOREVER);
    send(&it, 0, 1, 7);
    tr_sim_advance(it.sim, TR_SECONDS(100));
    assert_int_equal(it.count, MESSAGES);
    tri_sim_net_heal(it.net);
    tr_sim_advance(it.sim, 0);
    assert_int_equal(it.count, MESSAGES + 1);
    post_fini(&it);
}

static void test_a_slow_link_is_slow(void **state)
{
    (void)state;
    post it;

    post_init(&it, 1, (tr_faults){0});
    tri_sim_net_slow(it.net, 0, 1, TR_SECONDS(1), 1000);
    send(&it, 0, 1, 1);
    send(&it, 2, 1, 2);
    tr_sim_advance(it.sim, TR_SECONDS(20));
    assert_int_equal(it.seen[0].number, 2);
    assert_true(it.at[1] - TR_SECONDS(1) >= TR_MS(100));
    post_fini(&it);
}

static void test_a_killed_node_receives_nothing(void **state)
{
    (void)state;
    post it;

    post_init(&it, 1, (tr_faults){0});
    send_many(&it);
    send(&it, 1, 0, 1000);
    tri_sim_net_forget(it.net, 1);
    tr_sim_advance(it.sim, TR_SECONDS(1));
    assert_int_equal(it.count, 1);
    it.forgets = true;  // tri_sim_net_forget during a delivery
    send_many(&it);
    tr_sim_advance(it.sim, TR_SECONDS(1));
    assert_int_equal(it.count, 2);
    assert_int_equal(tri_sim_net_in_flight(it.net), 0);
    post_fini(&it);
}

static void test_link_faults_strike_and_end(void **state)
{
    (void)state;
    post it;

    post_init(&it, 1,
              (tr_faults){.partition = 0.02,
                          .half_open = 0.02,
                          .slow_link = 0.02,
                          .clog = 0.02,
                          .one_way = 0.02,
                          .swizzle = 0.02,
                          .pause_max = TR_MS(50)});
    for (uint32_t i = 0; i < 900; i++) {
        send(&it, i % NODES, (i + 1) % NODES, i);
        tri_sim_net_trouble(it.net);
        tr_sim_advance(it.sim, TR_MS(1));
    }
    for (tri_sim_fault f = TRI_FAULT_partition; f <= TRI_FAULT_clog; f++) {
        assert_true(it.sim->faults[f].fired > 0);
    }
    assert_true(it.sim->faults[TRI_FAULT_one_way].fired > 0);
    assert_true(it.sim->faults[TRI_FAULT_swizzle].fired > 0);
    assert_true(it.sim->faults[TRI_EVENT_latency_tail].fired > 0);
    uint32_t before = it.count;
    assert_in_range(before, 100, 899);
    it.sim->calm = true;
    tri_sim_net_heal(it.net);
    tr_sim_advance(it.sim, TR_SECONDS(1));
    before = it.count;
    for (uint32_t i = 0; i < 50; i++) {
        send(&it, i % NODES, (i + 1) % NODES, i);
    }
    tr_sim_advance(it.sim, TR_SECONDS(1));
    assert_int_equal(it.count, before + 50);
    post_fini(&it);
}

static uint64_t hash_of(uint64_t seed)
{
    post it;

    post_init(&it, seed, (tr_faults){.drop = 0.1, .reorder = 0.1});
    send_many(&it);
    tr_sim_advance(it.sim, TR_SECONDS(1));
    uint64_t hash = tr_sim_trace_hash(it.sim);
    post_fini(&it);
    return hash;
}

static void test_a_seed_replays(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        assert_int_equal(hash_of(seed), hash_of(seed));
        assert_int_not_equal(hash_of(seed), hash_of(seed + 1));
    }
}

static void test_limits_are_refused_with_an_error(void **state)
{
    (void)state;
    post it;
    tri_sim_net *none;

    post_init(&it, 1, (tr_faults){0});
    assert_int_equal(tri_sim_net_send(it.net, 0, 1, NULL, SIZE_MAX), TR_EINVAL);
    assert_int_equal(
        tri_sim_net_new(&none, it.sim, TRI_SIM_NODES_MAX + 1, receive, &it),
        TR_EINVAL);
    assert_null(none);
    post_fini(&it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages_arrive_in_order_and_late),
        cmocka_unit_test(test_latency_is_drawn_from_its_range),
        cmocka_unit_test(test_dropped_messages_do_not_arrive),
        cmocka_unit_test(test_duplicated_messages_arrive_twice),
        cmocka_unit_test(test_reorder_and_delay_change_the_order),
        cmocka_unit_test(test_bit_flips),
        cmocka_unit_test(test_a_cut_is_one_way_and_loses),
        cmocka_unit_test(test_a_partition_has_two_sides),
        cmocka_unit_test(test_a_clog_holds_and_keeps_the_order),
        cmocka_unit_test(test_a_slow_link_is_slow),
        cmocka_unit_test(test_a_killed_node_receives_nothing),
        cmocka_unit_test(test_link_faults_strike_and_end),
        cmocka_unit_test(test_a_seed_replays),
        cmocka_unit_test(test_limits_are_refused_with_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
