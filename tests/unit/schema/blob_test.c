/*
 * blob_test.c - blobs count their holders and refuse a size without memory.
 */
#include "schema_types.h"

#include "schema/blob.h"

static void test_the_last_drop_frees_the_body(void **state)
{
    tr_blob blob;

    (void)state;
    TR_MUST(tr_blob_new(NULL, &blob, "abc", 3));
    assert_int_equal(tri_blob_holds(blob), 1);
    tr_blob other = tr_blob_hold(blob);
    assert_int_equal(tri_blob_holds(blob), 2);
    tr_blob_drop(blob);
    assert_int_equal(tri_blob_holds(other), 1);
    assert_memory_equal(tr_blob_bytes(other).at, "abc", 3);
    tr_blob_drop(other);
}

static void test_no_blob_differs_from_an_empty_one(void **state)
{
    tr_blob none = {NULL};
    tr_blob empty;

    (void)state;
    tr_blob_drop(tr_blob_hold(none));
    assert_int_equal(tr_blob_bytes(none).size, 0);
    TR_MUST(tr_blob_new(NULL, &empty, NULL, 0));
    assert_non_null(empty.body);
    assert_int_equal(tr_blob_bytes(empty).size, 0);
    tr_blob_drop(empty);
}

static void test_no_memory_is_an_error(void **state)
{
    failing f = {.fail_at = 1};
    tri_allocator mem = failing_mem(&f);
    tr_blob blob;
    void *bytes;

    (void)state;
    assert_int_equal(tri_blob_make(&blob, 10, &bytes, &mem), TR_ENOMEM);
    assert_null(blob.body);
    assert_int_equal(tri_blob_make(&blob, SIZE_MAX, &bytes, NULL), TR_ENOMEM);
    assert_null(blob.body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_last_drop_frees_the_body),
        cmocka_unit_test(test_no_blob_differs_from_an_empty_one),
        cmocka_unit_test(test_no_memory_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
