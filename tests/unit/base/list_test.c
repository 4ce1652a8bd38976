/*
 * list_test.c - list.h: the order of a list, and links that enter and leave it.
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
    return tri_list_item(link, item, link)->value;
}

/* Fills `list` with items of the values 0, 1, 2 and so on. */
static void fill(tri_list *list, item *items, int count)
{
    for (int i = 0; i < count; i++) {
        items[i] = (item){.value = i};
        tri_list_push_back(list, &items[i].link);
    }
}

static void check_empty(tri_list *list)
{
    assert_true(tri_list_is_empty(list));
    assert_null(tri_list_first(list));
    assert_null(tri_list_last(list));
    assert_null(tri_list_item(tri_list_first(list), item, link));
    assert_null(tri_list_pop_front(list));
    assert_null(tri_list_pop_back(list));
    TRI_LIST_EACH (link, list) {
        fail();
    }
    TRI_LIST_EACH_SAFE (link, list) {
        fail();
    }
    TRI_LIST_EACH_ITEM (it, list, item, link) {
        fail();
    }
    tri_list_check(list);
}

static void test_list_is_empty_at_first(void **state)
{
    (void)state;
    tri_list list;
    tri_list zero = {0};

    tri_list_init(&list);
    check_empty(&list);
    check_empty(&zero);
}

static void test_zero_list_can_be_used(void **state)
{
    (void)state;
    tri_list front = {0}, back = {0}, to = {0}, from = {0};
    item items[3] = {{.value = 0}, {.value = 1}, {.value = 2}};

    tri_list_push_front(&front, &items[0].link);
    tri_list_check(&front);
    tri_list_push_back(&back, &items[1].link);
    tri_list_check(&back);
    tri_list_push_back(&from, &items[2].link);
    tri_list_move(&to, &from);
    tri_list_check(&to);
    assert_int_equal(value_of(tri_list_pop_front(&front)), 0);
    assert_int_equal(value_of(tri_list_pop_front(&back)), 1);
    assert_int_equal(value_of(tri_list_pop_front(&to)), 2);
    check_empty(&front);
    check_empty(&back);
    check_empty(&to);
    check_empty(&from);
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
    fill(&list, items, 6);
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

static void test_walks_items_both_ways(void **state)
{
    (void)state;
    tri_list list = {0};
    item items[5];
    int expected = 0;

    fill(&list, items, 5);
    TRI_LIST_EACH_ITEM (it, &list, item, link) {
        assert_int_equal(it->value, expected++);
    }
    assert_int_equal(expected, 5);
    for (tri_link *link = tri_list_last(&list); link != NULL;
         link = tri_list_prev(&list, link)) {
        assert_int_equal(value_of(link), --expected);
    }
    assert_int_equal(expected, 0);
}

static void test_pops_from_both_ends(void **state)
{
    (void)state;
    tri_list list = {0};
    item items[3];

    fill(&list, items, 3);
    assert_int_equal(value_of(tri_list_pop_back(&list)), 2);
    assert_int_equal(value_of(tri_list_pop_front(&list)), 0);
    assert_int_equal(value_of(tri_list_pop_back(&list)), 1);
    check_empty(&list);
}

static void test_inserts_after_a_link(void **state)
{
    (void)state;
    tri_list list = {0};
    item items[3];
    item more[2] = {{.value = 10}, {.value = 20}};
    const int expected[] = {0, 10, 1, 2, 20};

    fill(&list, items, 3);
    tri_link_insert(&items[0].link, &more[0].link);
    tri_link_insert(&items[2].link, &more[1].link);
    tri_list_check(&list);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(value_of(tri_list_pop_front(&list)), expected[i]);
    }
}

static void test_moves_all_items_to_the_end(void **state)
{
    (void)state;
    tri_list to = {0}, from = {0};
    item items[2];
    item more[2] = {{.value = 2}, {.value = 3}};

    fill(&to, items, 2);
    tri_list_push_back(&from, &more[0].link);
    tri_list_push_back(&from, &more[1].link);
    tri_list_move(&to, &from);
    check_empty(&from);
    tri_list_move(&to, &from);
    tri_list_check(&to);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(value_of(tri_list_pop_front(&to)), i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_list_is_empty_at_first),
        cmocka_unit_test(test_zero_list_can_be_used),
        cmocka_unit_test(test_keeps_order),
        cmocka_unit_test(test_removed_link_is_free),
        cmocka_unit_test(test_removes_while_walking),
        cmocka_unit_test(test_walks_items_both_ways),
        cmocka_unit_test(test_pops_from_both_ends),
        cmocka_unit_test(test_inserts_after_a_link),
        cmocka_unit_test(test_moves_all_items_to_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
