/*
 * list_test.c - order and unlinking of the intrusive list.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/list.h"

typedef struct item {
    int value;
    tri_link link;
} item;

static int value_of(tri_link *link)
{
    return tri_container_of(link, item, link)->value;
}

static void test_empty(void **state)
{
    (void)state;
    tri_list list;

    tri_list_init(&list);
    assert_true(tri_list_is_empty(&list));
    assert_null(tri_list_first(&list));
    assert_null(tri_list_last(&list));
    assert_null(tri_list_pop_front(&list));
    TRI_LIST_EACH (link, &list) {
        fail();
    }
    TRI_LIST_EACH_SAFE (link, &list) {
        fail();
    }
    tri_list_check(&list);
}

static void test_keeps_order(void **state)
{
    (void)state;
    tri_list list;
    item items[4] = {{.value = 0}, {.value = 1}, {.value = 2}, {.value = 3}};
    int expected = 0;

    tri_list_init(&list);
    tri_list_push_back(&list, &items[2].link);
    tri_list_push_front(&list, &items[1].link);
    tri_list_push_back(&list, &items[3].link);
    tri_list_push_front(&list, &items[0].link);
    tri_list_check(&list);
    TRI_LIST_EACH (link, &list) {
        assert_int_equal(value_of(link), expected++);
    }
    assert_int_equal(expected, 4);
    assert_int_equal(value_of(tri_list_first(&list)), 0);
    assert_int_equal(value_of(tri_list_last(&list)), 3);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(value_of(tri_list_pop_front(&list)), i);
        tri_list_check(&list);
    }
    assert_true(tri_list_is_empty(&list));
}

static void test_removed_link_is_free(void **state)
{
    (void)state;
    tri_list list;
    item items[3] = {{.value = 0}, {.value = 1}, {.value = 2}};

    tri_list_init(&list);
    for (int i = 0; i < 3; i++) {
        assert_false(tri_link_is_linked(&items[i].link));
        tri_list_push_back(&list, &items[i].link);
        assert_true(tri_link_is_linked(&items[i].link));
    }
    tri_list_remove(&items[1].link);
    assert_false(tri_link_is_linked(&items[1].link));
    tri_list_check(&list);
    tri_list_push_back(&list, &items[1].link);
    assert_int_equal(value_of(tri_list_pop_front(&list)), 0);
    assert_int_equal(value_of(tri_list_pop_front(&list)), 2);
    assert_int_equal(value_of(tri_list_pop_front(&list)), 1);
}

static void test_removes_while_walking(void **state)
{
    (void)state;
    tri_list list;
    item items[6];
    int seen = 0;

    tri_list_init(&list);
    for (int i = 0; i < 6; i++) {
        items[i] = (item){.value = i};
        tri_list_push_back(&list, &items[i].link);
    }
    TRI_LIST_EACH_SAFE (link, &list) {
        assert_int_equal(value_of(link), seen++);
        if (value_of(link) % 2 == 0) {
            tri_list_remove(link);
        }
    }
    assert_int_equal(seen, 6);
    for (int i = 1; i < 6; i += 2) {
        assert_int_equal(value_of(tri_list_pop_front(&list)), i);
    }
    assert_true(tri_list_is_empty(&list));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_keeps_order),
        cmocka_unit_test(test_removed_link_is_free),
        cmocka_unit_test(test_removes_while_walking),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
