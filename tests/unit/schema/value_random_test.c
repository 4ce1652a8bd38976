/*
 * value_random_test.c - random values repeat with their seed, and a lack of
 * memory leaves nothing behind.
 */
#include "schema_types.h"

#include "schema/value.h"
#include "schema/value_random.h"

static void test_a_seed_gives_the_same_values(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        for (size_t t = 0; t < ALL_TYPES; t++) {
            const tr_type *type = all_types[t];
            tri_rand first, second;
            any_value a, b;
            tri_rand_init(&first, seed);
            tri_rand_init(&second, seed);
            TR_MUST(tri_value_random(type, &first, &a, NULL, NULL));
            TR_MUST(tri_value_random(type, &second, &b, NULL, NULL));
            assert_true(tri_value_equal(type, &a, &b));
            (tr_drop)(type, &a);
            (tr_drop)(type, &b);
        }
    }
}

static void test_no_memory_leaves_nothing_behind(void **state)
{
    (void)state;
    for (unsigned n = 1;; n++) {
        failing f = {.fail_at = n};
        tri_allocator mem = failing_mem(&f);
        tri_rand rand;
        tri_rand_init(&rand, 22);
        Book out;
        tr_err err = tri_value_random(&Book_tr_type, &rand, &out, NULL, &mem);
        if (err == TR_OK) {
            assert_true(n > 3);
            tri_value_release(&Book_tr_type, &out, &mem);
            assert_int_equal(f.live, 0);
            return;
        }
        assert_int_equal(err, TR_ENOMEM);
        assert_true(is_zero(&out, sizeof(out)));
        assert_int_equal(f.live, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_seed_gives_the_same_values),
        cmocka_unit_test(test_no_memory_leaves_nothing_behind),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
