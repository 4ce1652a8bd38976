/*
 * lane_test.c - the way to the actors of one shard, while the shard moves.
 */
#include "unit/cluster/numbered.h"

#include "cluster/virtual/virtual.h"
#include "core/cell/ref.h"

static void host_everywhere_as(tr_placement placement)
{
    for (uint32_t i = 0; i < NODES; i++) {
        assert_int_equal(
            tr_host(cloud.systems[i], numbered, .placement = placement), TR_OK);
    }
    tr_sim_advance(cloud.sim, TR_SECONDS(1));
}

static void host_everywhere(void)
{
    host_everywhere_as(TR_PLACE_OWNER);
}

/* Each node hears of each move at another time, and sends all the while. */
static void test_DI6_DI8_X30_mail_stays_in_order_while_a_shard_moves(
    void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3 * SEEDS; seed++) {
        set_up(seed);
        host_everywhere();
        cloud.quiet = true;
        for (uint32_t round = 0; round < 40; round++) {
            uint64_t random = tr_sim_random(cloud.sim, UINT64_MAX);
            mesh_move(&cloud, shard_of("a"), (uint32_t)(random % NODES));
            for (uint32_t i = 0; i < 4; i++) {
                uint32_t node = (uint32_t)tr_sim_random(cloud.sim, NODES);
                send_some(node, "a", 2);
                mesh_tell(&cloud, (uint32_t)tr_sim_random(cloud.sim, NODES));
                tr_sim_advance(cloud.sim,
                               (tr_nanos)tr_sim_random(cloud.sim, TR_MS(4)));
            }
        }
        cloud.quiet = false;
        mesh_tell_all(&cloud);
        tr_sim_advance(cloud.sim, TR_SECONDS(20));
        all_handled_in_order();
        mesh_close(&cloud);
    }
}

static void test_X34_an_activation_keeps_the_epoch_of_its_shard(void **state)
{
    (void)state;
    set_up(1);
    host_everywhere();
    State first = where(0, "a");
    for (uint32_t i = 0; i < 100; i++) {
        if (i != shard_of("a")) {
            mesh_move(&cloud, i, (i + 1) % NODES);
        }
    }
    tr_sim_advance(cloud.sim, TR_SECONDS(2));
    assert_int_equal(where(1, "a").epoch, first.epoch);
    uint32_t next = (first.node + 1) % NODES;
    mesh_move(&cloud, shard_of("a"), next);
    tr_sim_advance(cloud.sim, TR_SECONDS(2));
    State second = where(0, "a");
    assert_int_equal(second.node, next);
    assert_true(second.epoch > first.epoch);
    mesh_close(&cloud);
}

static uint64_t activations(void)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < NODES; i++) {
        tr_metrics_snapshot m = {.size = sizeof(m)};
        tr_metrics(cloud.systems[i], &m);
        sum += m.activations;
    }
    return sum;
}

/* Names the owner of "a" again: in the same view, a newer one, a new epoch. */
static void set_owner_again(uint32_t round)
{
    cloud.revision += round % 3 > 0;
    cloud.shards[shard_of("a")].epoch += round % 3 > 1;
    mesh_tell_all(&cloud);
}

/* Whether its owner hosts the actor or has placed it on another node. */
static void set_owner_of_placed(uint64_t seed, tr_placement placement)
{
    set_up(seed);
    host_everywhere_as(placement);
    State first = where(0, "a");
    for (uint32_t round = 0; round < 12; round++) {
        for (uint32_t i = 0; i < NODES; i++) {
            send_some(i, "a", 3);
        }
        set_owner_again(round);
        tr_sim_advance(cloud.sim, TR_MS(20));
    }
    tr_sim_advance(cloud.sim, TR_SECONDS(5));
    State last = where(1, "a");
    assert_int_equal(last.node, first.node);
    assert_int_equal(last.epoch, cloud.shards[shard_of("a")].epoch);
    assert_int_equal(activations(), 1);
    all_handled_in_order();
    mesh_close(&cloud);
}

static void test_DI4_an_owner_that_is_set_again_changes_nothing(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        set_owner_of_placed(seed, TR_PLACE_OWNER);
        set_owner_of_placed(seed, TR_PLACE_RANDOM);
    }
}

/* How many nodes have an activation of "a"; each is asked without a message. */
static uint32_t nodes_that_find(void)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < NODES; i++) {
        tri_virtual *v = tri_virtual_of(tri_ref_cell(key(i, "a")));
        count +=
            tri_bus_is_active(tri_bus_of(tri_cluster_of(cloud.systems[i])), v);
    }
    return count;
}

/* A watch looks the actor up on the node that would host it. */
static void expect_found_nowhere(void)
{
    assert_int_equal(nodes_that_find(), 0);
    for (uint32_t i = 0; i < NODES; i++) {
        tr_probe *probe;
        assert_int_equal(tr_probe_new(&probe, cloud.systems[i]), TR_OK);
        tr_probe_watch(probe, key(i, "a"));
        assert_int_equal(
            tr_expect(probe, TR_SECONDS(20), tr_terminated)->reason,
            TR_NO_SUCH_ACTOR);
        tr_probe_free(probe);
    }
}

static void test_DI5_a_lookup_finds_and_activates_nothing(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        tr_probe *probe;
        set_up(seed);
        host_everywhere();
        expect_found_nowhere();
        assert_int_equal(activations(), 0);
        uint32_t node = where(0, "a").node, other = (node + 1) % NODES;
        assert_int_equal(nodes_that_find(), 1);
        assert_int_equal(tr_probe_new(&probe, cloud.systems[other]), TR_OK);
        tr_probe_watch(probe, key(other, "a"));
        tr_expect_nothing(probe, TR_SECONDS(5));  // it is there
        tr_stop(cloud.systems[other], key(other, "a"));
        assert_int_equal(
            tr_expect(probe, TR_SECONDS(20), tr_terminated)->reason,
            TR_STOPPED);
        tr_probe_free(probe);
        tr_sim_advance(cloud.sim, TR_SECONDS(1));
        expect_found_nowhere();
        assert_int_equal(activations(), 1);
        mesh_close(&cloud);
    }
}

static uint64_t names(uint32_t node)
{
    return tri_cluster_of(cloud.systems[node])->names;
}

static void test_names_that_were_only_sent_to_are_forgotten(void **state)
{
    char name[32];
    (void)state;
    set_up(1);
    for (uint32_t i = 0; i < NODES; i++) {
        assert_int_equal(
            tr_host(cloud.systems[i], numbered, .idle = TR_SECONDS(5)), TR_OK);
    }
    tr_sim_advance(cloud.sim, TR_SECONDS(1));
    uint64_t before = names(0);
    for (uint32_t i = 0; i < 1000; i++) {
        snprintf(name, sizeof(name), "k%u", i);
        tr_tell_virtual(cloud.systems[0], "numbered", name, Number);
    }
    tr_sim_advance(cloud.sim, TR_MINUTES(2));
    assert_int_equal(names(0), before);
    assert_int_equal(names(1), 0);
    mesh_close(&cloud);
}

static void test_BU6_mail_waits_for_an_owner_and_is_given_up(void **state)
{
    (void)state;
    set_up(1);
    host_everywhere();
    uint32_t owner = where(0, "a").node, other = (owner + 1) % NODES;
    mesh_dead(&cloud, owner);
    tr_sim_advance(cloud.sim, TR_SECONDS(1));
    handled[other] = 0;
    active = 0;  // what the dead node had counts no more
    send_some(other, "a", 3);
    tr_sim_advance(cloud.sim, TR_SECONDS(10));
    assert_int_equal(handled[other], 0);
    mesh_move(&cloud, shard_of("a"), other);
    tr_sim_advance(cloud.sim, TR_SECONDS(1));
    assert_int_equal(handled[other], 3);
    // Nobody takes this one: it becomes a dead letter, its asker is told.
    State answer;
    tr_system *sys = cloud.systems[other];
    uint32_t gone = 0;
    char name[16];
    do {
        snprintf(name, sizeof(name), "x%u", gone++);
    } while (cloud.shards[shard_of(name)].node.slot != owner);
    tr_err err = tr_ask(sys, key(other, name), &answer, TR_SECONDS(60), Where);
    assert_int_equal(err, TR_EUNREACHABLE);
    assert_true(tr_undelivered(err));
    mesh_close(&cloud);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            test_DI6_DI8_X30_mail_stays_in_order_while_a_shard_moves),
        cmocka_unit_test(test_X34_an_activation_keeps_the_epoch_of_its_shard),
        cmocka_unit_test(test_DI4_an_owner_that_is_set_again_changes_nothing),
        cmocka_unit_test(test_DI5_a_lookup_finds_and_activates_nothing),
        cmocka_unit_test(test_names_that_were_only_sent_to_are_forgotten),
        cmocka_unit_test(test_BU6_mail_waits_for_an_owner_and_is_given_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
