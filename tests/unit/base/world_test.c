/*
 * world_test.c - the world that an option stands for.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/world.h"

static void test_no_option_is_the_real_world(void **state)
{
    (void)state;
    assert_ptr_equal(tri_world_given(NULL, "here"), tri_world_posix());
    assert_true(tri_world_posix()->ops->has_threads);
}

static void test_an_option_is_the_world_it_points_to(void **state)
{
    static const tri_world_ops ops = {.name = "test"};
    tri_world world = {.magic = TRI_WORLD_MAGIC, .ops = &ops};

    (void)state;
    assert_ptr_equal(tri_world_given(&world, "here"), &world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_option_is_the_real_world),
        cmocka_unit_test(test_an_option_is_the_world_it_points_to),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
