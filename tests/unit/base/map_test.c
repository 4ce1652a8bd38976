/*
 * map_test.c - the hash map against a plain array, and without memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/rand.h"

/* Memory that counts what is out and refuses when told to. */
typedef struct meter {
    size_t bytes;
    uint32_t blocks;
    uint32_t asked;
    bool refuse;
} meter;

static void *meter_alloc(void *user, size_t size)
{
    meter *m = user;

    m->asked++;
    if (m->refuse) {
        return NULL;
    }
    m->blocks++;
    m->bytes += size;
    void *at = malloc(size);
    assert_non_null(at);
    memset(at, 0xa5, size);  // the map must not rely on zeros
    return at;
}

static void meter_free(void *user, void *at, size_t size)
{
    meter *m = user;

    assert_non_null(at);
    m->blocks--;
    m->bytes -= size;
    free(at);
}

typedef struct named {
    char name[24];
    size_t size;
} named;

static bool named_same(const void *value, const void *key, size_t size)
{
    const named *n = value;

    return n->size == size && memcmp(n->name, key, size) == 0;
}

static named name_number(uint32_t i)
{
    named n = {0};

    n.size = (size_t)snprintf(n.name, sizeof(n.name), "worker-%u", i);
    return n;
}

static void test_an_empty_map_finds_nothing(void **state)
{
    (void)state;
    tri_map map;

    tri_map_init(&map, NULL, NULL);
    assert_null(tri_map_get(&map, 0));
    assert_null(tri_map_remove(&map, 0));
    tri_map_iter iter = tri_map_iter_begin(&map);
    assert_null(tri_map_iter_next(&map, &iter));
    tri_map_trim(&map);
    tri_map_check(&map);
    assert_int_equal(tri_map_reserve(&map, 0), TR_OK);
    assert_int_equal(map.capacity, 0);
    tri_map_fini(&map);
}

static void test_put_get_remove(void **state)
{
    (void)state;
    tri_map map;
    int a, b;

    tri_map_init(&map, NULL, NULL);
    assert_int_equal(tri_map_put(&map, 0, &a), TR_OK);
    assert_int_equal(tri_map_put(&map, UINT64_MAX, &b), TR_OK);
    assert_int_equal(tri_map_put(&map, 0, &b), TR_EEXIST);
    assert_ptr_equal(tri_map_get(&map, 0), &a);
    assert_ptr_equal(tri_map_get(&map, UINT64_MAX), &b);
    assert_null(tri_map_get(&map, 1));
    assert_int_equal(tri_map_count(&map), 2);
    assert_ptr_equal(tri_map_remove(&map, 0), &a);
    assert_null(tri_map_remove(&map, 0));
    assert_null(tri_map_get(&map, 0));
    assert_int_equal(tri_map_count(&map), 1);
    tri_map_fini(&map);
    assert_int_equal(tri_map_count(&map), 0);
    assert_null(tri_map_get(&map, UINT64_MAX));
}

static void test_bytes_as_keys(void **state)
{
    (void)state;
    enum { NAMES = 1000 };
    static named names[NAMES];
    tri_map map;

    tri_map_init(&map, named_same, NULL);
    for (uint32_t i = 0; i < NAMES; i++) {
        names[i] = name_number(i);
        assert_int_equal(
            tri_map_put_bytes(&map, names[i].name, names[i].size, &names[i]),
            TR_OK);
    }
    tri_map_check(&map);
    for (uint32_t i = 0; i < NAMES; i++) {
        named key = name_number(i);
        assert_ptr_equal(tri_map_get_bytes(&map, key.name, key.size),
                         &names[i]);
        assert_int_equal(tri_map_put_bytes(&map, key.name, key.size, &key),
                         TR_EEXIST);
        if (i % 2 == 0) {
            assert_ptr_equal(tri_map_remove_bytes(&map, key.name, key.size),
                             &names[i]);
            assert_null(tri_map_get_bytes(&map, key.name, key.size));
        }
    }
    assert_int_equal(tri_map_count(&map), NAMES / 2);
    assert_null(tri_map_get_bytes(&map, "worker", 6));
    assert_null(tri_map_get_bytes(&map, NULL, 0));
    tri_map_check(&map);
    tri_map_fini(&map);
}

/* Keys whose whole hash is equal are told apart by the callback alone. */
static bool letter_same(const void *value, const void *key, size_t size)
{
    return size == 1 && *(const char *)value == *(const char *)key;
}

static void test_keys_with_equal_hashes(void **state)
{
    (void)state;
    tri_map map;
    char letters[] = "ab";

    tri_map_init(&map, letter_same, NULL);
    assert_int_equal(tri_map_put_bytes(&map, "a", 1, &letters[0]), TR_OK);
    // The value's key is "b", but it is stored under the hash of "a".
    letters[0] = 'b';
    assert_null(tri_map_get_bytes(&map, "a", 1));
    assert_int_equal(tri_map_put_bytes(&map, "a", 1, &letters[1]), TR_OK);
    letters[1] = 'a';
    assert_ptr_equal(tri_map_get_bytes(&map, "a", 1), &letters[1]);
    assert_int_equal(tri_map_count(&map), 2);
    tri_map_check(&map);
    tri_map_fini(&map);
}

/* Few keys, so that each is put and removed often and runs wrap around. */
static void run_against_array(uint64_t seed, uint32_t keys, uint32_t steps)
{
    void **model = calloc(keys, sizeof(*model));
    char *values = calloc(keys, 1);
    uint32_t count = 0;
    meter m = {0};
    const tri_map_memory memory = {meter_alloc, meter_free, &m};
    tri_map map;
    tri_rand rand;

    assert_non_null(model);
    assert_non_null(values);
    tri_rand_init(&rand, seed);
    tri_map_init(&map, NULL, &memory);
    for (uint32_t step = 0; step < steps; step++) {
        uint64_t key = tri_rand_below(&rand, keys);
        m.refuse = tri_rand_chance(&rand, 0.1);
        switch (tri_rand_below(&rand, 5)) {
        case 0:
        case 1: {
            tr_err err = tri_map_put(&map, key, &values[key]);
            if (model[key] != NULL) {
                assert_int_equal(err, TR_EEXIST);
            } else if (err == TR_OK) {
                model[key] = &values[key];
                count++;
            } else {
                assert_int_equal(err, TR_ENOMEM);
                assert_true(m.refuse);
            }
            break;
        }
        case 2:
            assert_ptr_equal(tri_map_remove(&map, key), model[key]);
            count -= model[key] != NULL;
            model[key] = NULL;
            break;
        case 3:
            assert_ptr_equal(tri_map_get(&map, key), model[key]);
            break;
        default:
            if (tri_rand_below(&rand, 64) == 0) {
                tri_map_trim(&map);
            }
        }
        assert_int_equal(tri_map_count(&map), count);
        if (step % 64 == 0) {
            tri_map_check(&map);
            for (uint64_t i = 0; i < keys; i++) {
                assert_ptr_equal(tri_map_get(&map, i), model[i]);
            }
        }
    }
    tri_map_fini(&map);
    assert_int_equal(m.blocks, 0);
    assert_int_equal(m.bytes, 0);
    free(model);
    free(values);
}

static void test_random_operations_against_array(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        run_against_array(seed, 12, 10000);
        run_against_array(seed, 200, 10000);
    }
}

static void test_no_memory_changes_nothing(void **state)
{
    (void)state;
    meter m = {.refuse = true};
    const tri_map_memory memory = {meter_alloc, meter_free, &m};
    tri_map map;
    int values[64];
    uint32_t refused = 0;

    tri_map_init(&map, NULL, &memory);
    for (uint64_t i = 0; i < TRI_COUNT_OF(values); i++) {
        m.refuse = true;
        tr_err err = tri_map_put(&map, i, &values[i]);
        if (err != TR_OK) {
            assert_int_equal(err, TR_ENOMEM);
            assert_int_equal(tri_map_count(&map), i);
            assert_null(tri_map_get(&map, i));
            tri_map_check(&map);
            refused++;
            m.refuse = false;
            assert_int_equal(tri_map_put(&map, i, &values[i]), TR_OK);
        }
        for (uint64_t j = 0; j <= i; j++) {
            assert_ptr_equal(tri_map_get(&map, j), &values[j]);
        }
    }
    assert_int_equal(refused, 5);  // tables of 8, 16, 32, 64 and 128
    tri_map_fini(&map);
    assert_int_equal(m.blocks, 0);
}

static void test_reserve_and_remove_leave_room(void **state)
{
    (void)state;
    meter m = {0};
    const tri_map_memory memory = {meter_alloc, meter_free, &m};
    tri_map map;
    int values[100];

    tri_map_init(&map, NULL, &memory);
    assert_int_equal(tri_map_reserve(&map, 100), TR_OK);
    m.refuse = true;
    for (uint64_t i = 0; i < 100; i++) {
        assert_int_equal(tri_map_put(&map, i * i, &values[i]), TR_OK);
    }
    for (uint64_t i = 0; i < 100; i++) {
        assert_ptr_equal(tri_map_remove(&map, i * i), &values[i]);
        assert_int_equal(tri_map_put(&map, i * i + 100000, &values[i]), TR_OK);
    }
    assert_int_equal(m.asked, 1);
    assert_int_equal(tri_map_reserve(&map, TRI_MAP_COUNT_MAX + 1), TR_ENOMEM);
    assert_int_equal(m.asked, 1);
    tri_map_fini(&map);
}

static void test_trim_gives_memory_back(void **state)
{
    (void)state;
    meter m = {0};
    const tri_map_memory memory = {meter_alloc, meter_free, &m};
    tri_map map;
    int value;

    tri_map_init(&map, NULL, &memory);
    for (uint64_t i = 0; i < 1000; i++) {
        assert_int_equal(tri_map_put(&map, i, &value), TR_OK);
    }
    size_t full = m.bytes;
    tri_map_trim(&map);
    assert_int_equal(m.bytes, full);
    for (uint64_t i = 10; i < 1000; i++) {
        assert_ptr_equal(tri_map_remove(&map, i), &value);
    }
    assert_int_equal(m.bytes, full);
    m.refuse = true;
    tri_map_trim(&map);
    assert_int_equal(m.bytes, full);
    m.refuse = false;
    tri_map_trim(&map);
    assert_true(m.bytes < full / 32);
    tri_map_check(&map);
    for (uint64_t i = 0; i < 10; i++) {
        assert_ptr_equal(tri_map_remove(&map, i), &value);
    }
    tri_map_trim(&map);
    assert_int_equal(m.bytes, 0);
    tri_map_fini(&map);
}

/* Removes some of what it visits; each must be visited exactly once. */
static void test_a_walk_may_remove_values_it_has_returned(void **state)
{
    (void)state;
    enum { COUNT = 48 };  // the most a table of 64 holds: long runs
    tri_rand rand;

    tri_rand_init(&rand, 5);
    for (int round = 0; round < 500; round++) {
        char values[COUNT];
        uint8_t seen[COUNT] = {0};
        uint32_t kept = 0;
        uint64_t base = tri_rand_next(&rand);
        tri_map map;
        tri_map_init(&map, NULL, NULL);
        for (uint64_t i = 0; i < COUNT; i++) {
            assert_int_equal(tri_map_put(&map, base + i, &values[i]), TR_OK);
        }
        tri_map_iter iter = tri_map_iter_begin(&map);
        char *value;
        while ((value = tri_map_iter_next(&map, &iter)) != NULL) {
            size_t i = (size_t)(value - values);
            assert_true(iter.key == base + i);
            seen[i]++;
            if (tri_rand_below(&rand, 2) == 0) {
                assert_ptr_equal(tri_map_remove(&map, iter.key), value);
            } else {
                kept++;
            }
        }
        for (size_t i = 0; i < COUNT; i++) {
            assert_int_equal(seen[i], 1);
        }
        assert_int_equal(tri_map_count(&map), kept);
        tri_map_check(&map);
        tri_map_fini(&map);
    }
}

/* Two maps with values at other addresses give the same order of keys. */
static void test_order_does_not_depend_on_addresses(void **state)
{
    (void)state;
    enum { COUNT = 500 };
    static char up[COUNT], down[COUNT];
    tri_map a, b;

    tri_map_init(&a, NULL, NULL);
    tri_map_init(&b, NULL, NULL);
    for (uint64_t i = 0; i < COUNT; i++) {
        assert_int_equal(tri_map_put(&a, i * 17, &up[i]), TR_OK);
        assert_int_equal(tri_map_put(&b, i * 17, &down[COUNT - 1 - i]), TR_OK);
    }
    tri_map_iter in_a = tri_map_iter_begin(&a);
    tri_map_iter in_b = tri_map_iter_begin(&b);
    while (tri_map_iter_next(&a, &in_a) != NULL) {
        assert_non_null(tri_map_iter_next(&b, &in_b));
        assert_true(in_a.key == in_b.key);
    }
    assert_null(tri_map_iter_next(&b, &in_b));
    tri_map_fini(&a);
    tri_map_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_empty_map_finds_nothing),
        cmocka_unit_test(test_put_get_remove),
        cmocka_unit_test(test_bytes_as_keys),
        cmocka_unit_test(test_keys_with_equal_hashes),
        cmocka_unit_test(test_random_operations_against_array),
        cmocka_unit_test(test_no_memory_changes_nothing),
        cmocka_unit_test(test_reserve_and_remove_leave_room),
        cmocka_unit_test(test_trim_gives_memory_back),
        cmocka_unit_test(test_a_walk_may_remove_values_it_has_returned),
        cmocka_unit_test(test_order_does_not_depend_on_addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
