/*
 * relay_test.c - actors that the owner of their shard places on another node.
 */
#include "unit/cluster/numbered.h"

/* Hosts the kind on these nodes (bits) only. */
static void host_on(uint32_t nodes, tr_placement placement)
{
    for (uint32_t i = 0; i < NODES; i++) {
        if (nodes >> i & 1) {
            assert_int_equal(tr_host(cloud.systems[i], numbered,
                                     .idle = TR_SECONDS(2),
                                     .placement = placement),
                             TR_OK);
        }
    }
    tr_sim_advance(cloud.sim, TR_SECONDS(1));
}

static void test_DI1_DI2_VA10_an_owner_without_the_kind_places_elsewhere(
    void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        set_up(seed);
        host_on(1 << 2, TR_PLACE_OWNER);
        for (uint32_t i = 0; i < 12; i++) {
            char name[16];
            snprintf(name, sizeof(name), "k%u", i);
            active = 0;
            assert_int_equal(where(i % NODES, name).node, 2);
        }
        mesh_close(&cloud);
    }
}

/* The activation ends now and then: by a stop, or because it is idle. */
static void test_DI3_DI7_X30_relayed_mail_stays_in_order(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 2 * SEEDS; seed++) {
        set_up(seed);
        host_on(6, TR_PLACE_RANDOM);
        for (uint32_t round = 0; round < 60; round++) {
            uint32_t node = (uint32_t)tr_sim_random(cloud.sim, NODES);
            send_some(node, "a", 3);
            if (tr_sim_random(cloud.sim, 4) == 0) {
                tr_stop(cloud.systems[node], key(node, "a"));
            }
            tr_sim_advance(
                cloud.sim,
                (tr_nanos)tr_sim_random(
                    cloud.sim, round % 10 == 0 ? TR_SECONDS(5) : TR_MS(3)));
        }
        tr_sim_advance(cloud.sim, TR_SECONDS(10));
        all_handled_in_order();
        mesh_close(&cloud);
    }
}

static void test_DI8_X30_relayed_mail_stays_in_order_while_a_shard_moves(
    void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 2 * SEEDS; seed++) {
        set_up(seed);
        host_on(1 << 1, TR_PLACE_OWNER);
        for (uint32_t round = 0; round < 30; round++) {
            uint32_t node = (uint32_t)tr_sim_random(cloud.sim, NODES);
            mesh_move(&cloud, shard_of("a"),
                      (uint32_t)tr_sim_random(cloud.sim, NODES));
            send_some(node, "a", 3);
            tr_sim_advance(cloud.sim,
                           (tr_nanos)tr_sim_random(cloud.sim, TR_MS(20)));
        }
        tr_sim_advance(cloud.sim, TR_SECONDS(20));
        all_handled_in_order();
        mesh_close(&cloud);
    }
}

static void test_DI9_VA11_VA12_a_kind_chooses_its_placement(void **state)
{
    uint32_t counts[NODES] = {0};
    char name[16];
    (void)state;
    set_up(1);
    host_on(7, TR_PLACE_LOCAL);
    for (uint32_t i = 0; i < 12; i++) {
        snprintf(name, sizeof(name), "k%u", i);
        active = 0;
        assert_int_equal(where(i % NODES, name).node, i % NODES);
    }
    mesh_close(&cloud);
    set_up(1);
    host_on(7, TR_PLACE_LEAST_LOADED);
    // The names of one owner: each owner counts what it has placed.
    for (uint32_t i = 0, placed = 0; placed < 12; i++) {
        snprintf(name, sizeof(name), "k%u", i);
        if (shard_of(name) % NODES == 0) {
            active = 0;
            counts[where(1, name).node]++;
            placed++;
        }
    }
    for (uint32_t i = 0; i < NODES; i++) {
        assert_int_equal(counts[i], 4);
    }
    mesh_close(&cloud);
}

/* The epoch is raised first, which fences what the dead host still writes. */
static void test_DI6_X8_a_dead_host_is_replaced_in_a_later_epoch(void **state)
{
    (void)state;
    set_up(1);
    host_on(6, TR_PLACE_OWNER);
    uint32_t nth = 0;
    char name[16];
    do {
        snprintf(name, sizeof(name), "k%u", nth++);
    } while (shard_of(name) % NODES != 0);  // node 0 is the owner
    State first = where(0, name);
    uint32_t host = first.node, other = 3 - host;
    assert_true(host == 1 || host == 2);
    tri_sim_net_partition(cloud.net, UINT64_C(1) << host, TR_SECONDS(60));
    mesh_dead(&cloud, host);
    active = 0;
    State second = where(0, name);
    assert_int_equal(second.node, other);
    assert_true(second.epoch > first.epoch);
    tr_sim_advance(cloud.sim, TR_SECONDS(61));
    mesh_rejoin(&cloud, host);  // ends what it still had
    tr_sim_advance(cloud.sim, TR_SECONDS(5));
    mesh_close(&cloud);
}

/* Writes a name that is in the shard; *nth counts those that were tried. */
static void name_in(uint32_t shard, uint32_t *nth, char *name, size_t size)
{
    do {
        snprintf(name, size, "k%u", (*nth)++);
    } while (shard_of(name) != shard);
}

/*
 * Mail for several actors of a shard is delivered together when the shard gets
 * an owner, and once more when their host is dead before it has got the mail.
 */
static void test_DI6_mail_that_a_dead_host_has_not_got_is_delivered_again(
    void **state)
{
    enum { ACTORS = 6, MANY = 3000 };
    char name[16];
    uint32_t nth = 0, shard = 1;
    (void)state;
    set_up(1);
    host_on(4, TR_PLACE_OWNER);
    mesh_dead(&cloud, 1);  // the owner: mail for the shard waits
    tri_sim_net_partition(cloud.net, UINT64_C(1) << 2, TR_SECONDS(60));
    for (uint32_t i = 0; i < ACTORS; i++) {
        name_in(shard, &nth, name, sizeof(name));
        send_some(0, name, i == 0 ? MANY : 1);
    }
    tr_sim_advance(cloud.sim, TR_SECONDS(1));
    mesh_move(&cloud, shard, 0);
    tr_sim_advance(cloud.sim, TR_SECONDS(1));
    assert_int_equal(tr_host(cloud.systems[0], numbered), TR_OK);
    mesh_dead(&cloud, 2);
    tr_sim_advance(cloud.sim, TR_SECONDS(5));
    assert_int_equal(active, ACTORS);  // all have got mail, now on node 0
    assert_true(handled[0] >= ACTORS && handled[0] <= sent[0]);
    mesh_close(&cloud);
}

static void test_VA9_a_kind_that_nobody_hosts_is_an_error(void **state)
{
    State answer;
    (void)state;
    set_up(1);
    tr_sim_advance(cloud.sim, TR_SECONDS(1));
    for (uint32_t i = 0; i < NODES; i++) {
        char name[16];
        snprintf(name, sizeof(name), "k%u", i);
        assert_int_equal(tr_ask(cloud.systems[0], key(0, name), &answer,
                                TR_SECONDS(20), Where),
                         TR_ENOENT);
    }
    mesh_close(&cloud);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            test_DI1_DI2_VA10_an_owner_without_the_kind_places_elsewhere),
        cmocka_unit_test(test_DI3_DI7_X30_relayed_mail_stays_in_order),
        cmocka_unit_test(
            test_DI8_X30_relayed_mail_stays_in_order_while_a_shard_moves),
        cmocka_unit_test(test_DI9_VA11_VA12_a_kind_chooses_its_placement),
        cmocka_unit_test(test_DI6_X8_a_dead_host_is_replaced_in_a_later_epoch),
        cmocka_unit_test(
            test_DI6_mail_that_a_dead_host_has_not_got_is_delivered_again),
        cmocka_unit_test(test_VA9_a_kind_that_nobody_hosts_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
