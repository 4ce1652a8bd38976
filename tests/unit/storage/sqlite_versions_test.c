/*
 * sqlite_versions_test.c - the cache of stored versions may lose a key, but a
 * version that it finds is the one that was put last.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"
#include "storage/sqlite_versions.h"

#define KEYS  5000
#define STEPS 200000

typedef struct key_text {
    char text[64];
} key_text;

static tri_store_bytes key_of(key_text *it, uint32_t number)
{
    int size = snprintf(it->text, sizeof(it->text), "a::b/%u", number);

    return (tri_store_bytes){it->text, (size_t)size};
}

static void test_a_version_is_found_until_the_cache_is_cleared(void **state)
{
    tri_versions versions;
    tri_store_bytes key = {"a::b/c", 6}, part = {"a::b/", 5};
    uint64_t version = 7;

    (void)state;
    tri_versions_init(&versions, 64);
    assert_false(tri_versions_get(&versions, key, &version));
    tri_versions_put(&versions, key, 3);
    assert_true(tri_versions_get(&versions, key, &version));
    assert_int_equal(version, 3);
    assert_false(tri_versions_get(&versions, part, &version));
    tri_versions_put(&versions, key, 0);  // deleted: known to be absent
    assert_true(tri_versions_get(&versions, key, &version));
    assert_int_equal(version, 0);
    tri_versions_clear(&versions);
    assert_false(tri_versions_get(&versions, key, &version));
    tri_versions_put(&versions, key, 1);
    assert_true(tri_versions_get(&versions, key, &version));
    tri_versions_fini(&versions);
}

static void test_long_and_empty_keys_are_not_kept(void **state)
{
    char text[300];
    tri_versions versions;
    uint64_t version;

    (void)state;
    memset(text, 'k', sizeof(text));
    tri_versions_init(&versions, 64);
    for (size_t size = 0; size <= sizeof(text); size++) {
        tri_store_bytes key = {text, size};
        tri_versions_put(&versions, key, size);
        bool found = tri_versions_get(&versions, key, &version);
        assert_true(found == (size > 0 && size <= 55));
        assert_true(!found || version == size);
    }
    tri_versions_fini(&versions);
}

/* Compares the cache with an array of all versions. Small caches evict. */
static void compare_with_all(uint32_t max)
{
    static uint64_t all[KEYS];  // version + 1; 0: never put
    tri_versions versions;
    uint64_t dice = max, hits = 0, version;
    key_text text;

    memset(all, 0, sizeof(all));
    tri_versions_init(&versions, max);
    for (uint32_t i = 0; i < STEPS; i++) {
        dice = tri_hash_mix(dice);
        uint32_t number = (uint32_t)(dice % KEYS) % (1 + i / 16 % KEYS);
        tri_store_bytes key = key_of(&text, number);
        if (dice >> 32 & 1) {
            tri_versions_put(&versions, key, i);
            all[number] = i + UINT64_C(1);
        } else if (tri_versions_get(&versions, key, &version)) {
            assert_int_equal(version + 1, all[number]);
            hits++;
        }
    }
    assert_true(hits > 0);
    assert_true(versions.current.capacity <= (max < 4 ? 4 : max));
    tri_versions_fini(&versions);
}

static void test_the_version_that_is_found_was_put_last(void **state)
{
    (void)state;
    compare_with_all(0);
    compare_with_all(8);
    compare_with_all(1024);
    compare_with_all(3000);  // 2048: grows once
    compare_with_all(1 << 20);
}

static void test_most_keys_are_found_below_the_limit(void **state)
{
    tri_versions versions;
    uint32_t found = 0;
    uint64_t version;
    key_text text;

    (void)state;
    tri_versions_init(&versions, 1 << 20);
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < KEYS; i++) {
            tri_versions_put(&versions, key_of(&text, i), i);
        }
    }
    for (uint32_t i = 0; i < KEYS; i++) {
        found += tri_versions_get(&versions, key_of(&text, i), &version);
    }
    assert_true(found > KEYS * 9 / 10);
    assert_true(versions.current.capacity <= KEYS * 4);
    tri_versions_fini(&versions);
}

static void test_offers_are_ignored_after_the_table_has_changed(void **state)
{
    tri_versions versions;
    tri_store_bytes key = {"a::b/c", 6};
    uint64_t version = 0;

    (void)state;
    tri_versions_init(&versions, 64);
    uint64_t before = tri_versions_stamp(&versions);
    tri_versions_offer(&versions, before, key, 1);
    assert_true(tri_versions_get(&versions, key, &version));
    assert_int_equal(version, 1);

    // A fold writes version 2; snapshots from before and during it have 1.
    tri_versions_begin(&versions);
    uint64_t during = tri_versions_stamp(&versions);
    tri_versions_put(&versions, key, 2);
    tri_versions_offer(&versions, before, key, 1);
    tri_versions_offer(&versions, during, key, 1);
    tri_versions_end(&versions);
    tri_versions_offer(&versions, before, key, 1);
    tri_versions_offer(&versions, during, key, 1);
    assert_true(tri_versions_get(&versions, key, &version));
    assert_int_equal(version, 2);

    before = tri_versions_stamp(&versions);
    tri_versions_clear(&versions);
    tri_versions_offer(&versions, before, key, 2);
    assert_false(tri_versions_get(&versions, key, &version));
    tri_versions_fini(&versions);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_version_is_found_until_the_cache_is_cleared),
        cmocka_unit_test(test_long_and_empty_keys_are_not_kept),
        cmocka_unit_test(test_the_version_that_is_found_was_put_last),
        cmocka_unit_test(test_most_keys_are_found_below_the_limit),
        cmocka_unit_test(test_offers_are_ignored_after_the_table_has_changed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
