/*
 * peer_test.c - sessions with other nodes: made when a node is first needed,
 * and used for everything that follows.
 */
#include "unit/cluster/pair.h"

enum { SEEDS = 4, REQUESTS = 100 };

static uint32_t peers_of(uint32_t node)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < TRI_NODES_MAX; i++) {
        count += bus_of(node)->peers[i] != NULL;
    }
    return count;
}

static void join(uint32_t index)
{
    tr_system *sys;
    assert_int_equal(tr_system_open(&sys, .ns = "shop", .workers = 2,
                                    .log_level = TR_LOG_ERROR,
                                    .world = tr_sim_world(cloud.sim)),
                     TR_OK);
    assert_int_equal(mesh_join(&cloud, index, sys), TR_OK);
    tr_sim_advance(cloud.sim, TR_SECONDS(1));
}

/* A node alone has no session; each member that joins gets one. */
static void test_BU9_sessions_are_made_for_members(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        tr_sim *sim;
        assert_int_equal(tr_sim_new(&sim, seed), TR_OK);
        mesh_init(&cloud, sim, 3, true);
        join(0);
        assert_int_equal(peers_of(0), 0);
        join(1);
        assert_int_equal(peers_of(0), 1);
        assert_non_null(bus_of(0)->peers[1]);
        join(2);
        for (uint32_t i = 0; i < 3; i++) {
            assert_int_equal(peers_of(i), 2);
            assert_null(bus_of(i)->peers[i]);
        }
        mesh_close(&cloud);
    }
}

/* Requests and answers of both nodes, beside and after one another. */
static void ask_often(void)
{
    for (int i = 0; i < REQUESTS; i++) {
        int64_t count;
        uint32_t from = (uint32_t)i % 2;
        tr_ref to = actor(from, from == 0 ? "one" : "zero", 1 - from, i % 7);
        tr_tell(cloud.systems[from], to, Add);
        assert_int_equal(get(from, to, &count), TR_OK);
    }
}

static void test_BU9_a_session_is_used_again(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        set_up(seed);
        tri_peer *peers[2];
        uint32_t streams[2];
        uint64_t sent[2];
        for (uint32_t i = 0; i < 2; i++) {
            peers[i] = bus_of(i)->peers[1 - i];
            streams[i] = peers[i]->session.stream;
            sent[i] = peers[i]->session.next_number;
        }
        ask_often();
        for (uint32_t i = 0; i < 2; i++) {
            assert_ptr_equal(bus_of(i)->peers[1 - i], peers[i]);
            assert_int_equal(peers[i]->session.stream, streams[i]);
            // All of them went through it: messages, requests and answers.
            assert_true(peers[i]->session.next_number >=
                        sent[i] + REQUESTS + REQUESTS / 2);
            assert_int_equal(tri_bus_count(cloud.systems[i]).lost_streams, 0);
        }
        mesh_close(&cloud);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_BU9_sessions_are_made_for_members),
        cmocka_unit_test(test_BU9_a_session_is_used_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
