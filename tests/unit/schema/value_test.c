/*
 * value_test.c - copying, comparing and releasing values that own their pieces.
 */
#include "schema_types.h"

#include <math.h>

#include "schema/blob.h"
#include "schema/value.h"
#include "schema/value_random.h"

static void test_a_copy_does_not_use_the_original(void **state)
{
    tri_rand rand;
    tri_rand_init(&rand, 5);

    (void)state;
    for (int round = 0; round < 200; round++) {
        for (size_t t = 0; t < ALL_TYPES; t++) {
            const tr_type *type = all_types[t];
            tri_rand again = rand;
            any_value a, b, c;
            TR_MUST(tri_value_random(type, &rand, &a, NULL, NULL));
            TR_MUST(tri_unpack_owned(type, &b, &a));
            assert_true(tri_value_equal(type, &a, &b));
            (tr_drop)(type, &a);
            assert_true(is_zero(&a, type->size));
            // The same seed gives the same value.
            TR_MUST(tri_value_random(type, &again, &c, NULL, NULL));
            assert_true(tri_value_equal(type, &b, &c));
            (tr_drop)(type, &b);
            (tr_drop)(type, &c);
        }
    }
}

static void test_equal_finds_each_difference(void **state)
{
    Numbers a = {.number = NAN};
    Numbers b = {.number = -NAN};

    (void)state;
    assert_true(tri_value_equal(&Numbers_tr_type, &a, &b));
    a.number = 0.0;
    b.number = -0.0;
    assert_false(tri_value_equal(&Numbers_tr_type, &a, &b));
    b.number = 0.0;
    a.single = NAN;
    assert_false(tri_value_equal(&Numbers_tr_type, &a, &b));
    b.single = NAN;
    assert_true(tri_value_equal(&Numbers_tr_type, &a, &b));
    b.paint = GREEN;
    assert_false(tri_value_equal(&Numbers_tr_type, &a, &b));

    Deposit none = {1, NULL};
    Deposit empty = {1, ""};
    assert_false(tri_value_equal(&Deposit_tr_type, &none, &empty));
    assert_true(tri_value_equal(&Deposit_tr_type, &none, &none));

    Line lines[2] = {{.text = "a"}, {.text = "b"}};
    Line other[2] = {{.text = "a"}, {.text = "c"}};
    Order x = {.lines = {lines, 2}};
    Order y = {.lines = {other, 2}};
    assert_false(tri_value_equal(&Order_tr_type, &x, &y));
    y.lines.count = 1;
    assert_false(tri_value_equal(&Order_tr_type, &x, &y));
    x.lines.count = 1;
    assert_true(tri_value_equal(&Order_tr_type, &x, &y));
}

/* Fails the n-th allocation for every n. */
static void test_a_copy_without_memory_leaves_nothing_behind(void **state)
{
    tri_rand rand;
    tri_rand_init(&rand, 21);
    Book in;

    (void)state;
    do {
        TR_MUST(tri_value_random(&Book_tr_type, &rand, &in, NULL, NULL));
        if (in.orders.count == 4) break;
        tr_drop(Book, &in);
    } while (true);
    for (unsigned n = 1;; n++) {
        failing f = {.fail_at = n};
        tri_allocator mem = failing_mem(&f);
        Book out;
        tr_err err = tri_value_copy(&Book_tr_type, &out, &in, &mem);
        if (err == TR_OK) {
            assert_true(n > 10);
            tri_value_release(&Book_tr_type, &out, &mem);
            assert_int_equal(f.live, 0);
            break;
        }
        assert_int_equal(err, TR_ENOMEM);
        assert_true(is_zero(&out, sizeof(out)));
        assert_int_equal(f.live, 0);
    }
    tr_drop(Book, &in);
}

typedef struct arena {
    char room[4096];
    size_t used;
} arena;

static void *arena_alloc(void *user, size_t size)
{
    arena *a = user;
    char *at = a->room + a->used;

    a->used += (size + 15) & ~(size_t)15;
    return a->used > sizeof(a->room) ? NULL : at;
}

static void test_copies_into_a_heap_without_release(void **state)
{
    static arena heap;
    tri_allocator mem = {.alloc = arena_alloc, .user = &heap};
    Line lines[2] = {{.text = "a"}, {.text = "b", .data = {"xyz", 3}}};
    Order in = {.id = 1, .lines = {lines, 2}};
    Order out;

    (void)state;
    TR_MUST(tri_value_copy(&Order_tr_type, &out, &in, &mem));
    assert_true(tri_value_equal(&Order_tr_type, &in, &out));
    assert_true((const char *)out.lines.at >= heap.room);
    assert_true((const char *)out.lines.at < heap.room + heap.used);
    tri_value_release(&Order_tr_type, &out, &mem);
    assert_true(is_zero(&out, sizeof(out)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_copy_does_not_use_the_original),
        cmocka_unit_test(test_equal_finds_each_difference),
        cmocka_unit_test(test_a_copy_without_memory_leaves_nothing_behind),
        cmocka_unit_test(test_copies_into_a_heap_without_release),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
