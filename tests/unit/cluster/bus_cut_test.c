/*
 * bus_cut_test.c - two nodes, a cut between them, and what is left after it.
 */
#include "pair.h"

enum { SEEDS = 4, NAMES = 8 };

TR_ACTOR(two, Counter, TR_ON(Get, on_get), TR_ON(Add, on_add));

/* ---- one side has lost the other ---- */

/*
 * Node 0 gives its stream up, node 1 has sent nothing and does not. It says
 * no hello again, so an answer of any kind must do.
 */
static void one_sided(uint64_t seed, uint32_t owner)
{
    int64_t count;
    set_up(seed);
    assert_int_equal(get(0, actor(0, "one", owner, 0), &count), TR_OK);
    tr_sim_advance(cloud.sim, TR_SECONDS(2));
    tri_sim_net_partition(cloud.net, 1, TR_SECONDS(20));
    assert_int_not_equal(get(0, actor(0, "one", owner, 0), &count), TR_OK);
    tr_sim_advance(cloud.sim, TR_SECONDS(30));
    assert_int_equal(tri_bus_count(cloud.systems[1]).lost_streams, 0);
    // The first that looks for a host may find out that it is there again.
    tr_err ignored = get(0, actor(0, "one", owner, 1), &count);
    (void)ignored;
    tr_sim_advance(cloud.sim, TR_SECONDS(2));
    assert_false(bus_of(0)->peers[1]->lost);
    for (int i = 0; i < NAMES; i++) {
        assert_int_equal(get(0, actor(0, "one", owner, i), &count), TR_OK);
    }
    mesh_close(&cloud);
}

static void test_X8_BU9_a_node_that_one_side_lost_is_found_again(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        one_sided(seed, 0);
        one_sided(seed, 1);
    }
}

/* Who has left is not back because something of it comes late. */
static void test_X8_BU9_goodbye_is_for_good(void **state)
{
    (void)state;
    set_up(1);
    tri_peer *peer = bus_of(0)->peers[1];
    assert_int_equal(peer->hello_life, peer->session.peer);
    uint64_t life = peer->hello_life;
    tr_system *leaving = cloud.systems[1];
    assert_int_equal(tr_system_close(leaving, 0), TR_OK);
    mesh_leave(&cloud, 1);
    tr_sim_advance(cloud.sim, TR_SECONDS(1));
    assert_true(peer->lost);
    peer->session.ops->heard(&peer->session, life);
    assert_true(peer->lost);
    mesh_close(&cloud);
}

/* ---- both queues are full ---- */

/*
 * In front of either queue is a question that the other must answer, which
 * needs room in the other queue.
 */
static void test_X53_BU11_full_queues_still_give_answers(void **state)
{
    enum { MAIL = TRI_SESSION_QUEUE + 500, BURST = 1000 };
    int64_t zeros, ones;
    (void)state;
    set_up(1);
    tr_ref to_one = actor(0, "one", 1, 0), to_zero = actor(1, "zero", 0, 0);
    assert_int_equal(get(0, to_one, &ones), TR_OK);
    assert_int_equal(get(1, to_zero, &zeros), TR_OK);
    tr_sim_advance(cloud.sim, TR_SECONDS(2));
    tri_sim_net_partition(cloud.net, 1, TR_SECONDS(3));
    tr_tell(cloud.systems[0], actor(0, "one", 1, 1), Add);
    tr_tell(cloud.systems[1], actor(1, "zero", 0, 1), Add);
    tr_sim_advance(cloud.sim, TR_MS(1));
    for (int i = 0; i < MAIL; i++) {
        tr_tell(cloud.systems[0], to_one, Add);
        tr_tell(cloud.systems[1], to_zero, Add);
        if (i % BURST == 0) {
            tr_sim_advance(cloud.sim, TR_MS(1));
        }
    }
    tr_sim_advance(cloud.sim, TR_MS(500));
    assert_true(tri_session_is_full(&bus_of(0)->peers[1]->session));
    assert_true(tri_session_is_full(&bus_of(1)->peers[0]->session));
    tr_sim_advance(cloud.sim, TR_SECONDS(60));
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(tri_bus_count(cloud.systems[i]).lost_streams, 0);
    }
    // All that was queued has come; the rest had no room.
    enum { QUEUED = TRI_SESSION_QUEUE - TRI_SESSION_RESERVE - 100 };
    assert_int_equal(get(0, to_one, &ones), TR_OK);
    assert_int_equal(get(1, to_zero, &zeros), TR_OK);
    assert_in_range(ones, QUEUED, MAIL);
    assert_in_range(zeros, QUEUED, MAIL);
    assert_int_equal(get(0, actor(0, "one", 1, 1), &ones), TR_OK);
    assert_int_equal(get(1, actor(1, "zero", 0, 1), &zeros), TR_OK);
    assert_int_equal(ones, 1);
    assert_int_equal(zeros, 1);
    mesh_close(&cloud);
}

/* A shard gets another owner while nothing more can be queued for it. */
static void test_DI8_DI10_X53_claims_wait_for_room(void **state)
{
    int64_t count = 0;
    char text[64];
    (void)state;
    set_up(1);
    name("zero", 0, 0, text, sizeof(text));
    tr_ref ours = tr_virtual_named(cloud.systems[0], text);
    uint32_t shard = tri_shard_of(text, strlen(text));
    tr_tell(cloud.systems[0], ours, Add);
    assert_int_equal(get(0, ours, &count), TR_OK);
    for (int i = 0; i < NAMES; i++) {  // node 1 knows that 0 has many
        int64_t none;
        assert_int_equal(get(0, actor(0, "zero", 1, i), &none), TR_OK);
    }
    assert_int_equal(tr_host(cloud.systems[1], zero), TR_OK);
    tr_sim_advance(cloud.sim, TR_SECONDS(1));
    tri_sim_net_partition(cloud.net, 1, TR_SECONDS(2));
    tri_session *s = &bus_of(0)->peers[1]->session;
    unsigned char nothing[18] = {TRI_ITEM_FLUSHED};
    tr_err err;
    do {
        err = tri_session_put(s, nothing, sizeof(nothing), NULL, TR_SECONDS(2));
    } while (err == TR_OK);
    assert_int_equal(err, TR_ELIMIT);
    for (uint32_t i = 0; i < 2; i++) {
        tri_bus_shard(cloud.systems[i], shard, 1, 2);
    }
    tr_sim_advance(cloud.sim, TR_MS(500));
    assert_true(bus_of(0)->handover[shard].owed);
    tr_sim_advance(cloud.sim, TR_SECONDS(10));
    assert_false(bus_of(0)->handover[shard].owed);
    assert_false(bus_of(0)->claims_owed);
    assert_int_equal(tri_bus_count(cloud.systems[0]).lost_streams, 0);
    // The new owner has heard of the activation, and makes no second one.
    tr_ref there = tr_virtual_named(cloud.systems[1], text);
    assert_int_equal(get(1, there, &count), TR_OK);
    assert_int_equal(count, 1);
    mesh_close(&cloud);
}

/* ---- the start ---- */

/* The n-th allocation of a bus that starts fails: it is a bus all the same. */
static void test_BU11_X53_a_bus_starts_with_little_memory(void **state)
{
    enum { STARTS = 12 };
    (void)state;
    if (!TRI_FAULTS) {  // a release build has no hook for this
        skip();
    }
    for (int n = 0; n < STARTS; n++) {
        int64_t count;
        mesh_open(&cloud, 1, 2, true);
        tri_mem_fail_after(&cloud.systems[0]->mem, n);
        tr_sim_advance(cloud.sim, TR_MS(1));
        tri_mem_fail_after(&cloud.systems[0]->mem, -1);
        assert_int_equal(tr_host(cloud.systems[1], one), TR_OK);
        tr_sim_advance(cloud.sim, TR_SECONDS(1));
        assert_true(bus_of(0)->has_bell);
        assert_int_equal(get(0, actor(0, "one", 0, 0), &count), TR_OK);
        assert_int_equal(get(0, actor(0, "one", 1, 0), &count), TR_OK);
        mesh_close(&cloud);
    }
}

/* It hosts nothing yet, so no kind that is told makes up for it. */
static void test_BU9_X53_a_greeting_without_memory_is_repeated(void **state)
{
    enum { STARTS = 12 };
    (void)state;
    if (!TRI_FAULTS) {  // a release build has no hook for this
        skip();
    }
    for (int n = 0; n < STARTS; n++) {
        mesh_open(&cloud, 1, 2, true);
        tri_sim_net_partition(cloud.net, 1, TR_SECONDS(2));
        tri_mem_fail_after(&cloud.systems[0]->mem, n);
        tr_sim_advance(cloud.sim, TR_MS(1));
        tri_mem_fail_after(&cloud.systems[0]->mem, -1);
        tr_sim_advance(cloud.sim, TR_SECONDS(1));
        assert_non_null(bus_of(0)->peers[1]);
        assert_int_not_equal(bus_of(0)->peers[1]->session.next_number, 0);
        tr_sim_advance(cloud.sim, TR_SECONDS(8));
        assert_non_null(bus_of(1)->peers[0]);
        assert_true(bus_of(1)->peers[0]->greeted);
        mesh_close(&cloud);
    }
}

/*
 * Of a greeting that could be taken in part only it is not known what that
 * node hosts: who asks waits until it comes again.
 */
static void test_BU9_X53_half_a_greeting_is_none(void **state)
{
    enum { TIMES = 24 };
    (void)state;
    if (!TRI_FAULTS) {  // a release build has no hook for this
        skip();
    }
    for (int n = 0; n < TIMES; n++) {
        tr_dead_info letters[4] = {0};
        tr_ref refs[NAMES];
        mesh_open(&cloud, 1, 2, true);
        assert_int_equal(tr_host(cloud.systems[1], one), TR_OK);
        for (int i = 0; i < NAMES; i++) {
            refs[i] = actor(0, "one", 0, i);
        }
        while (bus_of(0)->peers[1] == NULL ||
               bus_of(0)->peers[1]->session.in_life == 0) {
            tr_sim_advance(cloud.sim, TR_MS(1) / 10);
        }
        tri_mem_fail_after(&cloud.systems[0]->mem, n);
        for (int i = 0; i < NAMES; i++) {
            tr_sim_advance(cloud.sim, TR_MS(5));
            tr_tell(cloud.systems[0], refs[i], Add);
        }
        tri_mem_fail_after(&cloud.systems[0]->mem, -1);
        tr_sim_advance(cloud.sim, TR_SECONDS(5));
        uint32_t dead = tr_dead_letters(cloud.systems[0], letters, 4);
        for (uint32_t i = 0; i < dead; i++) {
            assert_int_not_equal(letters[i].reason, TR_DEAD_NO_SUCH_ACTOR);
        }
        mesh_close(&cloud);
    }
}

static void join_late(uint32_t node)
{
    tr_system *sys;
    TR_MUST(tr_system_open(&sys, .ns = "shop", .log_level = TR_LOG_ERROR,
                           .world = tr_sim_world(cloud.sim)));
    TR_MUST(mesh_join(&cloud, node, sys));
}

/* Node 0 has given up to greet it, and has nothing to say to it. */
static void test_BU9_who_comes_late_hears_what_is_hosted(void **state)
{
    (void)state;
    for (uint32_t owner = 0; owner < 2; owner++) {
        tr_sim *sim;
        int64_t count;
        TR_MUST(tr_sim_new(&sim, 1));
        mesh_init(&cloud, sim, 2, true);
        join_late(0);
        assert_int_equal(tr_host(cloud.systems[0], zero), TR_OK);
        tr_sim_advance(sim, TR_SECONDS(60));
        assert_true(bus_of(0)->peers[1]->lost);
        join_late(1);
        tr_sim_advance(sim, TR_SECONDS(1));
        assert_int_equal(get(1, actor(1, "zero", owner, 0), &count), TR_OK);
        mesh_close(&cloud);
    }
}

/* The news was lost with its stream; whatever comes from there brings it. */
static void test_BU9_X8_a_kind_of_a_cut_is_told_after_it(void **state)
{
    uint64_t nodes;
    bool stateless;
    int64_t count;
    (void)state;
    set_up(1);
    tri_bus *late = bus_of(1);
    tr_ref known = actor(1, "zero", 0, 0);
    assert_int_equal(get(1, known, &count), TR_OK);
    tri_sim_net_partition(cloud.net, 1, TR_SECONDS(20));
    assert_int_equal(tr_host(cloud.systems[0], two), TR_OK);
    tr_sim_advance(cloud.sim, TR_SECONDS(30));
    assert_int_equal(tri_bus_count(cloud.systems[0]).lost_streams, 1);
    assert_false(tri_bus_kind_of(late, "two", 3, &nodes, &stateless));
    tr_tell(cloud.systems[1], known, Add);  // nobody answers that
    tr_sim_advance(cloud.sim, TR_SECONDS(1));
    assert_true(tri_bus_kind_of(late, "two", 3, &nodes, &stateless));
    assert_int_equal(get(1, actor(1, "two", 1, 0), &count), TR_OK);
    mesh_close(&cloud);
}

/* ---- kinds ---- */

/* One peer has no room: the others are not told again and again. */
static void test_BU9_X53_each_node_is_told_once_of_a_kind(void **state)
{
    (void)state;
    uint64_t nodes;
    bool stateless;
    mesh_open(&cloud, 1, 3, true);
    tr_sim_advance(cloud.sim, TR_SECONDS(1));
    tr_system *sys = cloud.systems[0];
    tri_bus *bus = tri_bus_of(tri_cluster_of(sys));
    tri_session *full = &bus->peers[1]->session;
    tri_session *other = &bus->peers[2]->session;
    tri_sim_net_partition(cloud.net, UINT64_C(1) << 1, TR_SECONDS(8));
    tri_writer w = tri_bus_item(bus, TRI_ITEM_FLUSHED);  // says nothing
    tri_write_u64(&w, 0);
    tri_write_u64(&w, 0);
    tri_write_u8(&w, 0);
    while (tri_session_put(full, w.bytes, w.size, NULL,
                           sys->world->ops->mono(sys->world)) == TR_OK) {
        // Until it is full.
    }
    free(w.bytes);
    uint64_t before = other->next_number;
    assert_int_equal(tr_host(sys, zero), TR_OK);
    tr_sim_advance(cloud.sim, TR_SECONDS(4));
    assert_int_equal(other->next_number - before, 1);
    // And the one that had no room hears of it as well.
    tri_bus *late = tri_bus_of(tri_cluster_of(cloud.systems[1]));
    assert_false(tri_bus_kind_of(late, "zero", 4, &nodes, &stateless));
    tr_sim_advance(cloud.sim, TR_MINUTES(5));
    assert_true(tri_bus_kind_of(late, "zero", 4, &nodes, &stateless));
    assert_int_equal(nodes, 1);
    mesh_close(&cloud);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_X8_BU9_a_node_that_one_side_lost_is_found_again),
        cmocka_unit_test(test_X8_BU9_goodbye_is_for_good),
        cmocka_unit_test(test_X53_BU11_full_queues_still_give_answers),
        cmocka_unit_test(test_DI8_DI10_X53_claims_wait_for_room),
        cmocka_unit_test(test_BU9_X53_each_node_is_told_once_of_a_kind),
        cmocka_unit_test(test_BU11_X53_a_bus_starts_with_little_memory),
        cmocka_unit_test(test_BU9_X53_a_greeting_without_memory_is_repeated),
        cmocka_unit_test(test_BU9_X53_half_a_greeting_is_none),
        cmocka_unit_test(test_BU9_who_comes_late_hears_what_is_hosted),
        cmocka_unit_test(test_BU9_X8_a_kind_of_a_cut_is_told_after_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
