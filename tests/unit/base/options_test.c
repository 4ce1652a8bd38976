/*
 * options_test.c - options of callers with older, newer and wrong structs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/options.h"

typedef struct first_options {  // as first released
    size_t size;
    uint64_t limit;
} first_options;

typedef struct our_options {  // as in this version
    size_t size;
    uint64_t limit;
    void *user;
} our_options;

typedef struct next_options {  // as a later version has it
    size_t size;
    uint64_t limit;
    void *user;
    uint64_t extra;
    char tail;
} next_options;

#define FIRST_SIZE TRI_SIZE_THROUGH(our_options, limit)

static bool copy(our_options *out, const void *src)
{
    memset(out, 0xa5, sizeof(*out));
    return tri_options_copy(out, sizeof(*out), FIRST_SIZE, src);
}

static void assert_defaults(const our_options *options)
{
    assert_int_equal(options->size, sizeof(*options));
    assert_int_equal(options->limit, 0);
    assert_null(options->user);
}

static void test_size_through_ends_after_the_member(void **state)
{
    (void)state;
    assert_int_equal(FIRST_SIZE, sizeof(first_options));
    assert_int_equal(TRI_SIZE_THROUGH(next_options, tail),
                     offsetof(next_options, tail) + 1);
}

static void test_null_is_all_defaults(void **state)
{
    (void)state;
    our_options out;

    assert_true(copy(&out, NULL));
    assert_defaults(&out);
}

static void test_same_version(void **state)
{
    (void)state;
    our_options out;
    our_options in = {.size = sizeof(in), .limit = 7, .user = &out};

    assert_true(copy(&out, &in));
    assert_int_equal(out.size, sizeof(out));
    assert_int_equal(out.limit, 7);
    assert_ptr_equal(out.user, &out);
}

static void test_older_caller(void **state)
{
    (void)state;
    our_options out;
    first_options in = {.size = sizeof(in), .limit = 7};

    assert_true(copy(&out, &in));
    assert_int_equal(out.size, sizeof(out));
    assert_int_equal(out.limit, 7);
    assert_null(out.user);
}

static void test_PA9_newer_caller_with_known_fields_only(void **state)
{
    (void)state;
    our_options out;
    next_options in;

    memset(&in, 0, sizeof(in));
    in.size = sizeof(in);
    in.limit = 7;
    in.user = &in;
    assert_true(copy(&out, &in));
    assert_int_equal(out.size, sizeof(out));
    assert_int_equal(out.limit, 7);
    assert_ptr_equal(out.user, &in);
}

static void test_PA9_newer_caller_with_unknown_field_is_refused(void **state)
{
    (void)state;
    our_options out;
    next_options in;

    memset(&in, 0, sizeof(in));
    in.size = sizeof(in);
    in.limit = 7;
    in.extra = UINT64_C(1) << 63;
    assert_false(copy(&out, &in));
    assert_defaults(&out);

    in.extra = 0;
    in.tail = 1;
    assert_false(copy(&out, &in));
    assert_defaults(&out);
}

static void test_too_small_is_refused(void **state)
{
    (void)state;
    our_options out;
    our_options in = {.size = 0, .limit = 7};

    assert_false(copy(&out, &in));
    assert_defaults(&out);
    in.size = FIRST_SIZE - 1;
    assert_false(copy(&out, &in));
    in.size = FIRST_SIZE;
    assert_true(copy(&out, &in));
    assert_int_equal(out.limit, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_size_through_ends_after_the_member),
        cmocka_unit_test(test_null_is_all_defaults),
        cmocka_unit_test(test_same_version),
        cmocka_unit_test(test_older_caller),
        cmocka_unit_test(test_PA9_newer_caller_with_known_fields_only),
        cmocka_unit_test(test_PA9_newer_caller_with_unknown_field_is_refused),
        cmocka_unit_test(test_too_small_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
