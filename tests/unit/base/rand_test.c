/*
 * rand_test.c - seeded numbers repeat, stay in range and are not biased.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rand.h"

/* A seed that failed must replay in every later version. */
static void test_numbers_of_a_seed_never_change(void **state)
{
    (void)state;
    tri_rand rand;

    tri_rand_init(&rand, 42);
    assert_true(tri_rand_next(&rand) == UINT64_C(0xdbf6457be1495794));
    assert_true(tri_rand_next(&rand) == UINT64_C(0x6a9fc2bb1242e90c));
    assert_true(tri_rand_next(&rand) == UINT64_C(0xb48a4425ed3305b9));
}

static void test_neighbouring_seeds_differ(void **state)
{
    (void)state;
    uint32_t turned = 0;

    for (uint64_t seed = 0; seed < 256; seed++) {
        tri_rand a, b;
        tri_rand_init(&a, seed);
        tri_rand_init(&b, seed + 1);
        uint64_t differ = tri_rand_next(&a) ^ tri_rand_next(&b);
        turned += (uint32_t)__builtin_popcountll(differ);
    }
    // 8192 expected, standard deviation 64.
    assert_in_range(turned, 7800, 8584);
}

static void test_below_is_uniform_and_in_range(void **state)
{
    (void)state;
    tri_rand rand;
    uint32_t seen[6] = {0};

    tri_rand_init(&rand, 1);
    for (int i = 0; i < 60000; i++) {
        uint64_t drawn = tri_rand_below(&rand, 6);
        assert_true(drawn < 6);
        seen[drawn]++;
    }
    // 10000 expected, standard deviation 91.
    for (int i = 0; i < 6; i++) {
        assert_in_range(seen[i], 9450, 10550);
    }
    for (int i = 0; i < 100; i++) {
        assert_int_equal(tri_rand_below(&rand, 1), 0);
    }
}

/* A plain remainder would give the lower half of this range twice as often. */
static void test_below_is_not_biased(void **state)
{
    (void)state;
    tri_rand rand;
    uint64_t limit = (UINT64_C(3) << 62);
    uint32_t lower = 0;

    tri_rand_init(&rand, 2);
    for (int i = 0; i < 30000; i++) {
        lower += tri_rand_below(&rand, limit) < UINT64_C(1) << 62;
    }
    // One third, 10000, is expected; drawn % limit would give 15000.
    assert_in_range(lower, 9500, 10500);
}

static void test_chance_has_its_probability(void **state)
{
    (void)state;
    tri_rand rand;
    uint32_t hits = 0;

    tri_rand_init(&rand, 3);
    for (int i = 0; i < 40000; i++) {
        assert_false(tri_rand_chance(&rand, 0.0));
        assert_false(tri_rand_chance(&rand, -1.0));
        assert_true(tri_rand_chance(&rand, 1.0));
        assert_true(tri_rand_chance(&rand, 2.0));
        hits += tri_rand_chance(&rand, 0.25);
    }
    // 10000 expected, standard deviation 87.
    assert_in_range(hits, 9450, 10550);
}

static void test_chance_always_draws_once(void **state)
{
    (void)state;
    const double chances[] = {-1.0, 0.0, 0.5, 1.0};

    for (size_t i = 0; i < TRI_COUNT_OF(chances); i++) {
        tri_rand a, b;
        tri_rand_init(&a, 4);
        tri_rand_init(&b, 4);
        (void)tri_rand_chance(&a, chances[i]);
        (void)tri_rand_next(&b);
        assert_true(tri_rand_next(&a) == tri_rand_next(&b));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_of_a_seed_never_change),
        cmocka_unit_test(test_neighbouring_seeds_differ),
        cmocka_unit_test(test_below_is_uniform_and_in_range),
        cmocka_unit_test(test_below_is_not_biased),
        cmocka_unit_test(test_chance_has_its_probability),
        cmocka_unit_test(test_chance_always_draws_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
