/*
 * json_write_test.c - the exact JSON of values.
 */
#include "schema_types.h"

#include <math.h>

#include "schema/json_write.h"

static void expect_json(const tr_type *type, const void *value,
                        const char *text)
{
    char buf[1024];
    size_t length = tr_json_write(type, value, buf, sizeof(buf));

    assert_string_equal(buf, text);
    assert_int_equal(length, strlen(text));
    // Without a buffer, and with one too small, the length is the same.
    assert_int_equal(tr_json_write(type, value, NULL, 0), length);
    char small[4];
    assert_int_equal(tr_json_write(type, value, small, 4), length);
    assert_memory_equal(small, text, length < 3 ? length : 3);
    assert_int_equal(small[length < 3 ? length : 3], 0);
}

static void test_writes_numbers_and_text(void **state)
{
    (void)state;
    expect_json(&Empty_tr_type, NULL, "{}");
    expect_json(&Deposit_tr_type, &(Deposit){100, "rent"},
                "{\"cents\":100,\"memo\":\"rent\"}");
    expect_json(&Deposit_tr_type, &(Deposit){INT64_MIN, NULL},
                "{\"cents\":-9223372036854775808,\"memo\":null}");
    expect_json(&Deposit_tr_type, &(Deposit){0, "\"\\/\b\f\n\r\t\x01\x7f"},
                "{\"cents\":0,\"memo\":\"\\\"\\\\/\\b\\f\\n\\r\\t\\u0001"
                "\x7f\"}");
    expect_json(&Deposit_tr_type, &(Deposit){0, "\xc3\xa4\xf0\x9f\x98\x80"},
                "{\"cents\":0,\"memo\":\"\xc3\xa4\xf0\x9f\x98\x80\"}");
    expect_json(&Deposit_tr_type, &(Deposit){0, "a\xff\xc3"},
                "{\"cents\":0,\"memo\":\"a\xef\xbf\xbd\xef\xbf\xbd\"}");
    expect_json(&Numbers_tr_type,
                &(Numbers){true, -128, -32768, INT32_MIN, INT64_MAX, 255, 65535,
                           UINT32_MAX, UINT64_MAX, 0.1f, -2.5, GREEN},
                "{\"yes\":true,\"i8\":-128,\"i16\":-32768,\"i32\":-2147483648,"
                "\"i64\":9223372036854775807,\"u8\":255,\"u16\":65535,"
                "\"u32\":4294967295,\"u64\":18446744073709551615,"
                "\"single\":0.1,\"number\":-2.5,\"paint\":7}");
}

static void test_writes_sequences(void **state)
{
    static const Line lines[] = {{"a", 1.5, {NULL, 0}}, {NULL, 0, {"\0", 1}}};
    static const double weights[] = {0.5, NAN, INFINITY, -INFINITY};
    static const bool flags[] = {true, false};
    static const tr_bytes parts[] = {{"ab", 2}, {"abc", 3}};
    static const Empty ticks[2];
    Order order = {.id = 7,
                   .first = {"f", 2, {"xyz!", 4}},
                   .lines = {lines, 2},
                   .weights = {weights, 4},
                   .key = {1, 2, 3, 255},
                   .flags = {flags, 2},
                   .parts = {parts, 2},
                   .ticks = {ticks, 2}};

    (void)state;
    TR_MUST(tr_blob_new(NULL, &order.photo, "", 0));
    expect_json(&Order_tr_type, &order,
                "{\"id\":7,\"first\":{\"text\":\"f\",\"price\":2,\"data\":"
                "\"eHl6IQ==\"},\"lines\":[{\"text\":\"a\",\"price\":1.5,"
                "\"data\":\"\"},{\"text\":null,\"price\":0,\"data\":\"AA==\"}"
                "],\"weights\":[0.5,\"NaN\",\"Infinity\",\"-Infinity\"],"
                "\"key\":[1,2,3,255],\"photo\":\"\",\"owner\":null,"
                "\"flags\":[true,false],\"parts\":[\"YWI=\",\"YWJj\"],"
                "\"ticks\":[{},{}]}");
    tr_blob_drop(order.photo);
    expect_json(&Blobs_tr_type, &(Blobs){.rest = 1},
                "{\"one\":null,\"more\":[],\"rest\":1}");
}

/* Writes a ref as "/<id>". */
static size_t ref_to_text(void *user, tr_ref ref, char *buf, size_t size)
{
    (void)user;
    return (size_t)snprintf(buf, size, "/%llu", (unsigned long long)ref.id);
}

static void test_writes_refs_as_paths(void **state)
{
    tri_ref_codec refs = {.to_text = ref_to_text};
    tri_codec codec = {.refs = &refs};
    Order in = {.owner = {1, 7}};
    char buf[512];

    (void)state;
    tri_json_write(&Order_tr_type, &in, buf, sizeof(buf), &codec);
    assert_non_null(strstr(buf, "\"owner\":\"/7\""));
    tri_json_write(&Order_tr_type, &in, buf, sizeof(buf), NULL);
    assert_non_null(strstr(buf, "\"owner\":null"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_writes_numbers_and_text),
        cmocka_unit_test(test_writes_sequences),
        cmocka_unit_test(test_writes_refs_as_paths),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
