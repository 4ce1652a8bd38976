/*
 * view_test.c - views of the cluster: members by slot and incarnation.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "cluster/membership/view.h"

static void test_a_new_view_has_no_members_and_no_owners(void **state)
{
    (void)state;
    tri_view *view = tri_view_new(7, 3);
    assert_non_null(view);
    assert_int_equal(view->revision, 7);
    for (uint32_t i = 0; i < TRI_SHARDS; i++) {
        assert_int_equal(view->shards[i].node.slot, TRI_NODE_NONE);
        assert_int_equal(view->shards[i].next, TRI_NODE_NONE);
    }
    assert_false(tri_view_has(view, (tri_node){.slot = 0, .incarnation = 1}));
    assert_false(tri_view_has(view, (tri_node){.slot = 0, .incarnation = 0}));
    tri_view_drop(view);
}

static void test_a_member_is_one_incarnation_of_a_slot(void **state)
{
    (void)state;
    tri_view *view = tri_view_new(9, 2);
    view->members[1].incarnation = 5;
    assert_true(tri_view_has(view, (tri_node){.slot = 1, .incarnation = 5}));
    assert_false(tri_view_has(view, (tri_node){.slot = 1, .incarnation = 4}));
    assert_false(tri_view_has(view, (tri_node){.slot = 2, .incarnation = 5}));
    tri_view_drop(view);
}

static void test_the_last_holder_frees_a_view(void **state)
{
    (void)state;
    tri_view *view = tri_view_new(1, 0);
    assert_ptr_equal(tri_view_hold(view), view);
    tri_view_drop(view);
    assert_int_equal(view->revision, 1);  // ASan: still there
    tri_view_drop(view);
    tri_view_drop(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_new_view_has_no_members_and_no_owners),
        cmocka_unit_test(test_a_member_is_one_incarnation_of_a_slot),
        cmocka_unit_test(test_the_last_holder_frees_a_view),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
