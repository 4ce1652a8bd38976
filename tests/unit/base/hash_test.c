/*
 * hash_test.c - hashes never change and spread well.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* Orders of iteration and recorded seeds depend on these values. */
static void test_hashes_never_change(void **state)
{
    (void)state;
    assert_true(tri_hash_mix(0) == UINT64_C(0x6273572b6d60d96a));
    assert_true(tri_hash_mix(1) == UINT64_C(0x20033caa8f45c8c6));
    assert_true(tri_hash_bytes(NULL, 0) == UINT64_C(0x9187646e5f45bbba));
    assert_true(tri_hash_bytes("a", 1) == UINT64_C(0xa5abed7ce101d2e1));
    assert_true(tri_hash_bytes("/user/alice/1", 13) ==
                UINT64_C(0xda9a17625dbd16c8));
}

static void test_alignment_does_not_matter(void **state)
{
    (void)state;
    char buffer[64];
    const char *text = "the quick brown fox";
    uint64_t expected = tri_hash_bytes(text, strlen(text));

    for (size_t shift = 0; shift < 16; shift++) {
        memset(buffer, (int)shift + 1, sizeof(buffer));
        memcpy(buffer + shift, text, strlen(text));
        assert_true(tri_hash_bytes(buffer + shift, strlen(text)) == expected);
    }
}

static void test_length_and_zeros_change_the_hash(void **state)
{
    (void)state;
    const char zeros[32] = {0};
    uint64_t hashes[32];

    for (size_t i = 0; i < 32; i++) {
        hashes[i] = tri_hash_bytes(zeros, i);
    }
    qsort(hashes, 32, sizeof(hashes[0]), compare);
    for (size_t i = 1; i < 32; i++) {
        assert_true(hashes[i] != hashes[i - 1]);
    }
}

/* Like names of actors: no two alike, and low bits fill a table evenly. */
static void test_similar_names_spread(void **state)
{
    (void)state;
    enum { NAMES = 1 << 16, BUCKETS = 1 << 8 };
    uint64_t *hashes = calloc(NAMES, sizeof(*hashes));
    uint32_t low[BUCKETS] = {0};
    uint32_t high[BUCKETS] = {0};

    assert_non_null(hashes);
    for (int i = 0; i < NAMES; i++) {
        char name[32];
        int length = snprintf(name, sizeof(name), "/user/worker-%d", i);
        hashes[i] = tri_hash_bytes(name, (size_t)length);
        low[hashes[i] % BUCKETS]++;
        high[hashes[i] >> 56]++;
    }
    qsort(hashes, NAMES, sizeof(*hashes), compare);
    for (int i = 1; i < NAMES; i++) {
        assert_true(hashes[i] != hashes[i - 1]);
    }
    // 256 expected in each, standard deviation 16: allow six.
    for (int i = 0; i < BUCKETS; i++) {
        assert_in_range(low[i], 160, 352);
        assert_in_range(high[i], 160, 352);
    }
    free(hashes);
}

/* Each bit of the input turns each bit of the result about half the time. */
static void check_avalanche(uint64_t (*hash)(uint64_t x))
{
    enum { SAMPLES = 2048 };

    for (uint32_t in = 0; in < 64; in++) {
        uint32_t turned[64] = {0};
        for (uint64_t i = 0; i < SAMPLES; i++) {
            uint64_t x = i * i + i;  // few bits set, like ids
            uint64_t changed = hash(x) ^ hash(x ^ UINT64_C(1) << in);
            for (uint32_t out = 0; out < 64; out++) {
                turned[out] += changed >> out & 1;
            }
        }
        // 1024 expected, standard deviation 23: allow seven for 4096 pairs.
        for (uint32_t out = 0; out < 64; out++) {
            assert_in_range(turned[out], 864, 1184);
        }
    }
}

static uint64_t hash_of_two_words(uint64_t x)
{
    uint64_t words[2] = {x, 7};

    return tri_hash_bytes(words, sizeof(words));
}

static void test_every_bit_changes_the_hash(void **state)
{
    (void)state;
    check_avalanche(tri_hash_mix);
    check_avalanche(hash_of_two_words);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hashes_never_change),
        cmocka_unit_test(test_alignment_does_not_matter),
        cmocka_unit_test(test_length_and_zeros_change_the_hash),
        cmocka_unit_test(test_similar_names_spread),
        cmocka_unit_test(test_every_bit_changes_the_hash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
