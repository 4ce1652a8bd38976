/*
 * shared_test.c - objects by name: made once, ended with their last user.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "base/shared.h"

static int freed;

static void on_free(tri_shared_object *object)
{
    freed++;
    free(object);
}

static tri_shared_object *made(const char *name)
{
    tri_shared_object *object = calloc(1, sizeof(*object));

    assert_non_null(object);
    object->name = name;
    object->free = on_free;
    return object;
}

static void test_a_name_has_one_object(void **state)
{
    tri_shared shared = {0};
    (void)state;

    freed = 0;
    tri_shared_object *a = tri_shared_hold(&shared, made("a"));
    tri_shared_object *b = tri_shared_hold(&shared, made("b"));
    assert_ptr_not_equal(a, b);
    assert_ptr_equal(tri_shared_hold(&shared, made("a")), a);
    assert_int_equal(freed, 1);
    tri_shared_drop(&shared, a);
    tri_shared_drop(&shared, b);
    assert_int_equal(freed, 2);
    tri_shared_drop(&shared, a);
    assert_int_equal(freed, 3);
    assert_null(shared.first);
}

static void test_a_table_may_keep_what_nobody_holds(void **state)
{
    tri_shared shared = {.keeps = true};
    (void)state;

    freed = 0;
    tri_shared_object *a = tri_shared_hold(&shared, made("a"));
    tri_shared_drop(&shared, a);
    assert_ptr_equal(tri_shared_hold(&shared, made("a")), a);
    assert_int_equal(freed, 1);
    tri_shared_fini(&shared);
    assert_int_equal(freed, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_name_has_one_object),
        cmocka_unit_test(test_a_table_may_keep_what_nobody_holds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
