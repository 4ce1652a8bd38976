/*
 * activation_state_test.c - the steps between the states of an activation.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "cluster/virtual/activation_state.h"

static void test_AC1_AC3_steps_between_activation_states(void **state)
{
    enum { N = TRI_ACTIVATION_NONE, C, A, V, D, I };
    static const bool legal[6][6] = {
        [N] = {[C] = true},
        [C] = {[A] = true, [D] = true},
        [A] = {[V] = true, [D] = true},
        [V] = {[D] = true},
        [D] = {[I] = true},
    };
    (void)state;
    for (int from = N; from <= I; from++) {
        for (int to = N; to <= I; to++) {
            assert_int_equal(
                tri_activation_state_is_legal((tri_activation_state)from,
                                              (tri_activation_state)to),
                legal[from][to]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_AC1_AC3_steps_between_activation_states),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
