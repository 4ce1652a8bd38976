/*
 * binary_write_test.c - the exact bytes of values in the compact form.
 */
#include "schema_types.h"

#include "schema/binary_write.h"

static void expect_bytes(const tr_type *type, const void *value,
                         const char *bytes, size_t size)
{
    unsigned char buf[256];

    assert_int_equal(tri_binary_write(type, value, buf, sizeof(buf), NULL),
                     size);
    assert_memory_equal(buf, bytes, size);
    // A smaller buffer gives the same length and is not overrun.
    for (size_t room = 0; room < size; room++) {
        unsigned char *small = malloc(room > 0 ? room : 1);
        assert_non_null(small);
        assert_int_equal(tri_binary_write(type, value, small, room, NULL),
                         size);
        free(small);
    }
}

#define EXPECT_BYTES(T, value, text)                                           \
    expect_bytes(&T##_tr_type, value, text, sizeof(text) - 1)

static void test_writes_integers_and_text(void **state)
{
    (void)state;
    EXPECT_BYTES(Empty, NULL, "\x05");
    // Two fields: 200 as zigzag in one byte after the head; text of 4 bytes.
    EXPECT_BYTES(Deposit, (&(Deposit){100, "rent"}),
                 "\x15"
                 "\xc2\xc8"
                 "\x24rent");
    EXPECT_BYTES(Deposit, (&(Deposit){-1, NULL}),
                 "\x15"
                 "\x0a"
                 "\x00");
    EXPECT_BYTES(Deposit, (&(Deposit){0, ""}),
                 "\x15"
                 "\x02"
                 "\x04");
    EXPECT_BYTES(Deposit, (&(Deposit){INT64_MIN, NULL}),
                 "\x15"
                 "\xfa\xff\xff\xff\xff\xff\xff\xff\xff"
                 "\x00");
}

static void test_writes_numbers_of_each_width(void **state)
{
    (void)state;
    EXPECT_BYTES(Numbers,
                 (&(Numbers){.yes = true,
                             .u8 = 23,
                             .u16 = 24,
                             .u32 = 256,
                             .single = 1,
                             .number = 1}),
                 "\x65"
                 "\x09"
                 "\x02\x02\x02\x02"
                 "\xb9"
                 "\xc1\x18"
                 "\xc9\x00\x01"
                 "\x01"
                 "\x23\x00\x00\x80\x3f"
                 "\x43\x00\x00\x00\x00\x00\x00\xf0\x3f"
                 "\x01");
}

static void test_writes_sequences(void **state)
{
    static const Line lines[1];
    static const double weight = 1;
    static const bool flags[] = {true, false};
    Order order = {.id = 200,
                   .lines = {lines, 1},
                   .weights = {&weight, 1},
                   .key = {1, 2, 3, 4},
                   .flags = {flags, 2}};

    (void)state;
    EXPECT_BYTES(Order, &order,
                 "\x55"
                 "\xc1\xc8"
                 "\x1d\x00\x43\0\0\0\0\0\0\0\0\x00"
                 "\x0e"
                 "\x1d\x00\x43\0\0\0\0\0\0\0\0\x00"
                 "\x4f\x48\0\0\0\0\0\0\xf0\x3f"
                 "\x2f\x31\x01\x02\x03\x04"
                 "\x00"
                 "\x00"
                 "\x1f\x11\x01\x00"
                 "\x00"
                 "\x00");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_writes_integers_and_text),
        cmocka_unit_test(test_writes_numbers_of_each_width),
        cmocka_unit_test(test_writes_sequences),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
