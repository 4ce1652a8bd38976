/*
 * binary_read_test.c - what the reader of the compact form accepts, what it
 * refuses, and the texts of its errors.
 */
#include "schema_types.h"

#include "schema/binary_read.h"

#define READ(T, out, text, codec, error)                                       \
    tri_binary_read(&T##_tr_type, out, text, sizeof(text) - 1, codec, error)

static void test_none_gives_zero_in_every_field(void **state)
{
    Order out;

    (void)state;
    memset(&out, 0xee, sizeof(out));
    TR_MUST(READ(Order, &out, "\x55\0\0\0\0\0\0\0\0\0\0", NULL, NULL));
    assert_true(is_zero(&out, sizeof(out)));
}

static void test_a_float_may_become_a_double(void **state)
{
    Numbers out;

    (void)state;
    // The item is a float of 4 bytes, the field `number` is a double.
    TR_MUST(READ(Numbers, &out, "\x5d\0\0\0\0\0\0\0\0\0\0\x23\x00\x00\x80\x3f",
                 NULL, NULL));
    assert_true(out.number == 1);
}

static void expect_error(const tr_type *type, const char *bytes, size_t size,
                         const tri_codec *codec, tr_err wanted,
                         const char *text)
{
    // A copy of exact size, so that a sanitizer sees a read beyond its end.
    char *copy = malloc(size > 0 ? size : 1);
    tri_codec_error error = {.at = 0};
    any_value out;

    assert_non_null(copy);
    memcpy(copy, bytes, size);
    memset(&out, 0xee, sizeof(out));
    tr_err err = tri_binary_read(type, &out, copy, size, codec, &error);
    free(copy);
    assert_string_equal(error.text, text);
    assert_int_equal(err, wanted);
    assert_true(is_zero(&out, type->size));
}

#define EXPECT_ERROR(T, bytes, codec, err, text)                               \
    expect_error(&T##_tr_type, bytes, sizeof(bytes) - 1, codec, err, text)

static void test_errors_name_the_field_and_the_byte(void **state)
{
    tri_codec strict = {.unknown = TRI_UNKNOWN_ERROR};

    (void)state;
    EXPECT_ERROR(Deposit, "", NULL, TR_EINVAL,
                 "the bytes end too early, at byte 0");
    EXPECT_ERROR(Deposit, "\x04", NULL, TR_EINVAL,
                 "expected a message, found bytes, at byte 1");
    EXPECT_ERROR(Deposit, "\x15\x02", NULL, TR_EINVAL,
                 "the bytes end too early, at byte 2");
    EXPECT_ERROR(Deposit,
                 "\x15\x02\x24"
                 "ab",
                 NULL, TR_EINVAL, "memo: the bytes end too early, at byte 5");
    EXPECT_ERROR(Deposit, "\x15\x01\x00", NULL, TR_EINVAL,
                 "cents: expected a signed number, found an unsigned number, "
                 "at byte 2");
    EXPECT_ERROR(Deposit,
                 "\x15\x02\x14"
                 "a\0",
                 NULL, TR_EINVAL, "memo: text holds a zero byte, at byte 3");
    EXPECT_ERROR(Deposit, "\x15\x02\x00\x00", NULL, TR_EINVAL,
                 "bytes after the end of the message, at byte 3");
    EXPECT_ERROR(Deposit, "\x1d\x02\x00\x00", &strict, TR_EINVAL,
                 "has more fields than the type, at byte 3");
    EXPECT_ERROR(Numbers, "\x0d\x11", NULL, TR_EINVAL,
                 "yes: the number does not fit, at byte 2");
    EXPECT_ERROR(Numbers, "\x15\x00\xca\x00\x01\0\0\0\0\0\0\0\0", NULL,
                 TR_EINVAL, "i8: the number does not fit, at byte 5");
    EXPECT_ERROR(Order, "\x1d\x00\x00\x0e\x1d\x00\x02\x00", NULL, TR_EINVAL,
                 "lines[0].price: expected a float, found a signed number, "
                 "at byte 7");
    EXPECT_ERROR(Order, "\x1d\x00\x00\xde\xff\xff\xff\x7f", NULL, TR_EINVAL,
                 "lines: the bytes end too early, at byte 8");
    EXPECT_ERROR(Order, "\x25\x00\x00\x00\x27\x44\x00\x00\x00", NULL, TR_EINVAL,
                 "weights: elements of another kind or size, at byte 5");
    EXPECT_ERROR(Order, "\x2d\x00\x00\x00\x00\x37\x31\x00\x00\x00\x00\x00",
                 NULL, TR_EINVAL,
                 "key: has 5 elements, room is for 4, at byte 7");
    EXPECT_ERROR(Order, "\x45\0\0\0\0\0\0\0\x17\x11\x02", NULL, TR_EINVAL,
                 "flags: the number does not fit, at byte 10");
    EXPECT_ERROR(Order, "\x3d\0\0\0\0\0\0\x0c/", NULL, TR_EINVAL,
                 "owner: names no actor, at byte 8");
}

static void test_limits_are_enforced(void **state)
{
    tri_codec small = {
        .limits = {.size = 20, .count = 1, .memory = 6, .depth = 0}};
    char deep[200];

    (void)state;
    EXPECT_ERROR(Deposit, "123456789012345678901", &small, TR_ELIMIT,
                 "more than 20 bytes, at byte 0");
    EXPECT_ERROR(Deposit,
                 "\x15\x02\x34"
                 "abcdef",
                 &small, TR_ELIMIT, "memo: the value is too large, at byte 9");
    EXPECT_ERROR(Order, "\x1d\x00\x00\x16\x00\x00", &small, TR_ELIMIT,
                 "lines: the value is too large, at byte 4");
    small.limits.memory = 0;
    EXPECT_ERROR(Order, "\x1d\x00\x00\x16\x00\x00", &small, TR_ELIMIT,
                 "lines: the value is too large, at byte 4");
    small.limits.depth = 1;
    EXPECT_ERROR(Book, "\x15\x00\x0e\x15\x00\x05", &small, TR_ELIMIT,
                 "orders[0].first: nested too deeply, at byte 6");
    // An unknown field with a message of one field, and so on, is skipped.
    memset(deep, 0x0d, sizeof(deep));
    memcpy(deep, "\x1d\x00\x00", 3);
    expect_error(&Deposit_tr_type, deep, sizeof(deep), NULL, TR_ELIMIT,
                 "nested too deeply, at byte 67");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_none_gives_zero_in_every_field),
        cmocka_unit_test(test_a_float_may_become_a_double),
        cmocka_unit_test(test_errors_name_the_field_and_the_byte),
        cmocka_unit_test(test_limits_are_enforced),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
