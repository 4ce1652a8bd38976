/*
 * member_state_test.c - the table of a node's own membership: every state can
 * be left, and no state acts without a lease.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>

#include "cluster/membership/member_state.h"

static bool has_lease(tri_member_state state)
{
    return state >= TRI_MEMBER_JOINING && state <= TRI_MEMBER_REMOVING;
}

static void test_the_end_of_the_lease_ends_every_membership(void **state)
{
    static const tri_member_event ends[] = {TRI_MEMBER_LATE, TRI_MEMBER_LOST};
    (void)state;

    for (int i = 0; i < TRI_MEMBER_STATES; i++) {
        for (int k = 0; k < 2 && has_lease((tri_member_state)i); k++) {
            tri_member_step step =
                tri_member_next((tri_member_state)i, ends[k]);
            assert_false(has_lease(step.next));
            assert_true(step.action == TRI_MEMBER_FENCE ||
                        step.action == TRI_MEMBER_END);
        }
    }
}

static void test_only_a_commit_lengthens_the_lease(void **state)
{
    (void)state;
    for (int i = 0; i < TRI_MEMBER_STATES; i++) {
        for (int k = 0; k < TRI_MEMBER_EVENTS; k++) {
            tri_member_action action =
                tri_member_next((tri_member_state)i, (tri_member_event)k)
                    .action;
            if (action == TRI_MEMBER_EXTEND || action == TRI_MEMBER_RISE ||
                action == TRI_MEMBER_BEGIN) {
                assert_int_equal(k, TRI_MEMBER_YES);
            }
        }
    }
}

static void test_an_unknown_outcome_is_read_before_anything_else(void **state)
{
    (void)state;
    for (int i = TRI_MEMBER_CREATING; i < TRI_MEMBER_LEFT; i++) {
        tri_member_step step =
            tri_member_next((tri_member_state)i, TRI_MEMBER_UNKNOWN);
        assert_int_equal(step.next, i);
        assert_int_equal(step.action, TRI_MEMBER_READ);
    }
}

static void test_who_has_left_stays_away(void **state)
{
    (void)state;
    for (int k = 0; k < TRI_MEMBER_EVENTS; k++) {
        tri_member_step step =
            tri_member_next(TRI_MEMBER_LEFT, (tri_member_event)k);
        assert_int_equal(step.next, TRI_MEMBER_LEFT);
        assert_int_equal(step.action, TRI_MEMBER_NOTHING);
    }
}

/* A late answer to a CAS of the incarnation before means nothing. */
static void test_a_node_that_is_out_ignores_answers(void **state)
{
    (void)state;
    for (int k = TRI_MEMBER_YES; k <= TRI_MEMBER_LATE; k++) {
        tri_member_step step =
            tri_member_next(TRI_MEMBER_OUT, (tri_member_event)k);
        assert_int_equal(step.next, TRI_MEMBER_OUT);
        assert_int_equal(step.action, TRI_MEMBER_NOTHING);
    }
}

static void test_states_have_names(void **state)
{
    (void)state;
    for (int i = 0; i < TRI_MEMBER_STATES; i++) {
        assert_non_null(tri_member_state_name((tri_member_state)i));
    }
    assert_string_equal(tri_member_state_name(TRI_MEMBER_UP), "up");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_end_of_the_lease_ends_every_membership),
        cmocka_unit_test(test_only_a_commit_lengthens_the_lease),
        cmocka_unit_test(test_an_unknown_outcome_is_read_before_anything_else),
        cmocka_unit_test(test_who_has_left_stays_away),
        cmocka_unit_test(test_a_node_that_is_out_ignores_answers),
        cmocka_unit_test(test_states_have_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
