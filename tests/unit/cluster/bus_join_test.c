/*
 * bus_join_test.c - a system joins a namespace.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include <troupe/troupe.h>

#include "cluster/bus/bus.h"
#include "cluster/bus/bus_join.h"
#include "cluster/transport/link.h"

static void test_VA17_joining_checks_its_options(void **state)
{
    tr_system *sys;
    tri_transport *link;
    (void)state;
    assert_int_equal(tri_link_new(&link), TR_OK);
    assert_int_equal(tr_system_open(&sys, .ns = "shop"), TR_OK);
    static const tri_bus_up up;
    tri_bus_options o = {
        .transport = link, .up = &up, .node = {.slot = 0, .incarnation = 1}};
    tri_bus_options bad = o;
    bad.node.incarnation = 0;
    assert_int_equal(tri_bus_join(sys, &bad), TR_EINVAL);
    bad = o;
    bad.node.slot = TRI_NODES_MAX;
    assert_int_equal(tri_bus_join(sys, &bad), TR_EINVAL);
    bad = o;
    bad.address = "nowhere";
    assert_int_equal(tri_bus_join(sys, &bad), TR_EINVAL);
    assert_non_null(strstr(tr_error_text(sys), "port"));
    assert_int_equal(tri_bus_join(sys, &o), TR_OK);
    assert_int_equal(tri_bus_join(sys, &o), TR_EEXIST);
    assert_int_equal(tr_system_close(sys, 0), TR_OK);
    tri_link_free(link);
}

/* Until a view says so a node owns nothing, and its mail waits. */
static void test_DI6_X34_a_node_owns_what_a_view_says(void **state)
{
    static const tri_bus_up up;
    tr_system *sys;
    tri_transport *link;
    tr_sim *sim;
    (void)state;
    assert_int_equal(tri_link_new(&link), TR_OK);
    assert_int_equal(tr_sim_new(&sim, 1), TR_OK);
    assert_int_equal(
        tr_system_open(&sys, .ns = "shop", .world = tr_sim_world(sim)), TR_OK);
    tri_node here = {.slot = 3, .incarnation = 9};
    assert_int_equal(tri_bus_join(sys, &(tri_bus_options){.transport = link,
                                                          .up = &up,
                                                          .node = here}),
                     TR_OK);
    tri_cluster *cluster = tri_cluster_of(sys);
    tri_bus *bus = tri_bus_of(cluster);
    tr_sim_advance(sim, TR_SECONDS(1));
    assert_false(cluster->shards[7].is_open);
    tri_view *view = tri_view_new(10, 4);
    view->members[3].incarnation = 9;
    view->shards[7] =
        (tri_shard_owner){.node = here, .epoch = 5, .next = TRI_NODE_NONE};
    view->shards[8].node = (tri_node){.slot = 3, .incarnation = 8};  // earlier
    view->shards[8].epoch = 2;
    tri_bus_set_view(sys, view);
    tr_sim_advance(sim, TR_SECONDS(1));
    assert_true(cluster->shards[7].is_open);
    assert_int_equal(cluster->shards[7].epoch, 5);
    assert_false(cluster->shards[8].is_open);
    // An older view changes nothing.
    tri_bus_set_view(sys, tri_view_new(9, 0));
    tr_sim_advance(sim, TR_SECONDS(1));
    assert_int_equal(bus->view->revision, 10);
    assert_true(cluster->shards[7].is_open);
    // A view without this node takes everything away.
    tri_bus_set_view(sys, tri_view_new(11, 0));
    tr_sim_advance(sim, TR_SECONDS(1));
    assert_false(cluster->shards[7].is_open);
    assert_int_equal(tr_system_close(sys, 0), TR_OK);
    tri_link_free(link);
    tr_sim_free(sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_VA17_joining_checks_its_options),
        cmocka_unit_test(test_DI6_X34_a_node_owns_what_a_view_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
