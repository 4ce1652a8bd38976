/*
 * tally_test.c - histograms and numbers of kinds: every value has a bucket,
 * and kinds beyond the last number are counted together.
 */
#include "support/stage.h"

#include <stdio.h>

#include "base/lock.h"
#include "core/cell/tally.h"
#include "support/core.h"

static void test_PA5_bounds_of_time_buckets_grow(void **state)
{
    (void)state;
    assert_int_equal(tri_time_bucket(0), 0);
    assert_int_equal(tri_time_bucket(TR_FOREVER), TR_TIME_BUCKETS - 1);
    for (uint32_t i = 1; i < TR_TIME_BUCKETS; i++) {
        assert_true(tr_time_bound(i) > tr_time_bound(i - 1));
        // A bound belongs to its bucket, the next value to the next bucket.
        assert_int_equal(tri_time_bucket(tr_time_bound(i - 1)), i - 1);
        assert_int_equal(tri_time_bucket(tr_time_bound(i - 1) + 1), i);
    }
}

static void test_PA5_bounds_of_depth_buckets_grow(void **state)
{
    (void)state;
    assert_int_equal(tri_depth_bucket(0), 0);
    assert_int_equal(tri_depth_bucket(UINT64_MAX), TR_DEPTH_BUCKETS - 1);
    for (uint32_t i = 1; i < TR_DEPTH_BUCKETS; i++) {
        assert_true(tr_depth_bound(i) > tr_depth_bound(i - 1));
        assert_int_equal(tri_depth_bucket(tr_depth_bound(i - 1)), i - 1);
        assert_int_equal(tri_depth_bucket(tr_depth_bound(i - 1) + 1), i);
    }
}

static void test_PA5_a_name_keeps_its_number(void **state)
{
    static char names[TRI_KINDS][16];  // outlive the system
    stage it;
    (void)state;
    stage_open(&it);
    tri_lock_take(&it.sys->behaviours_lock);
    uint32_t first = tri_kind_number(it.sys, "first");
    assert_in_range(first, 1, TRI_KINDS - 1);
    assert_int_equal(tri_kind_number(it.sys, "first"), first);
    for (uint32_t i = 0; i < TRI_KINDS; i++) {
        snprintf(names[i], sizeof(names[i]), "kind %u", i);
        (void)tri_kind_number(it.sys, names[i]);
    }
    // All numbers are taken: a new name shares number 0.
    assert_int_equal(tri_kind_number(it.sys, "one too many"), 0);
    assert_int_equal(tri_kind_number(it.sys, "first"), first);
    tri_lock_drop(&it.sys->behaviours_lock);
    stage_close(&it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_PA5_bounds_of_time_buckets_grow),
        cmocka_unit_test(test_PA5_bounds_of_depth_buckets_grow),
        cmocka_unit_test(test_PA5_a_name_keeps_its_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
