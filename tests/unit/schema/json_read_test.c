/*
 * json_read_test.c - what the reader of JSON accepts, what it refuses, and the
 * texts of its errors.
 */
#include "schema_types.h"

#include <math.h>

#include "schema/json_read.h"

static Deposit read_deposit(const char *json)
{
    Deposit out;
    tri_codec_error error;
    tr_err err =
        tri_json_read(&Deposit_tr_type, &out, json, strlen(json), NULL, &error);

    if (err != TR_OK) fail_msg("%s: %s", json, error.text);
    return out;
}

static void expect_memo(const char *json, const char *memo)
{
    Deposit out = read_deposit(json);

    if (memo == NULL) {
        assert_null(out.memo);
    } else {
        assert_string_equal(out.memo, memo);
    }
    tr_drop(Deposit, &out);
}

static void test_accepts_any_order_space_and_escapes(void **state)
{
    (void)state;
    assert_int_equal(read_deposit("{}").cents, 0);
    assert_int_equal(read_deposit(" { } \n").cents, 0);
    assert_int_equal(read_deposit("{\"cents\":-0}").cents, 0);
    assert_int_equal(read_deposit("{ \"cents\" :\t5 , \"x\":{\"y\":[1,{},[],"
                                  "true,false,null,\"\\n\",-1.5e3]} }")
                         .cents,
                     5);
    assert_int_equal(read_deposit("{\"memo\":null,\"cents\":null}").cents, 0);
    expect_memo("{\"memo\":\"later\",\"cents\":1}", "later");
    expect_memo("{\"memo\":\"\"}", "");
    expect_memo("{\"m\\u0065mo\":\"\\u0041\\u00e4\\u20AC\\ud83d\\ude00\\/\"}",
                "A\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80/");
    expect_memo("{\"memo\":null}", NULL);
    // A key that continues after a zero byte is another key.
    expect_memo("{\"memo\\u0000\\u0000\\u0000\":5}", NULL);
}

static void test_reads_sequences(void **state)
{
    static const char json[] =
        "{\"lines\":[{\"text\":\"a\"},null,{}],\"weights\":[1,2e3,\"NaN\"],"
        "\"key\":[9],\"photo\":\"YWJj\",\"owner\":\"nobody\",\"parts\":"
        "[\"\",null,\"\\/\\/8=\"],\"ticks\":[{},{\"x\":1}],\"flags\":[true]}";
    Order out;

    (void)state;
    TR_MUST(tr_json_read(&Order_tr_type, &out, json, sizeof(json) - 1));
    assert_int_equal(out.lines.count, 3);
    assert_string_equal(out.lines.at[0].text, "a");
    assert_null(out.lines.at[1].text);
    assert_int_equal(out.weights.count, 3);
    assert_true(out.weights.at[1] == 2000);
    assert_true(isnan(out.weights.at[2]));
    assert_memory_equal(out.key, "\x09\0\0\0", 4);
    assert_int_equal(tr_blob_bytes(out.photo).size, 3);
    assert_int_equal(out.owner.cell, 0);
    assert_int_equal(out.parts.at[2].size, 2);
    assert_memory_equal(out.parts.at[2].at, "\xff\xff", 2);
    assert_int_equal(out.ticks.count, 2);
    assert_true(out.flags.at[0]);
    tr_drop(Order, &out);
}

static void expect_error_of(const tr_type *type, const char *json,
                            const tri_codec *codec, tr_err wanted,
                            const char *text)
{
    any_value out;
    tri_codec_error error;

    memset(&out, 0xee, sizeof(out));
    tr_err err = tri_json_read(type, &out, json, strlen(json), codec, &error);

    if (err == TR_OK) fail_msg("accepted: %s", json);
    assert_string_equal(error.text, text);
    assert_int_equal(err, wanted);
    assert_true(is_zero(&out, type->size));
}

static void test_errors_of_syntax_name_the_byte(void **state)
{
    const tr_type *d = &Deposit_tr_type;
    const tr_type *n = &Numbers_tr_type;

    (void)state;
    expect_error_of(d, "", NULL, TR_EINVAL, "expected an object, at byte 0");
    expect_error_of(d, "null", NULL, TR_EINVAL,
                    "expected an object, at byte 0");
    expect_error_of(d, "{\"cents\":1}x", NULL, TR_EINVAL,
                    "more text after the value, at byte 11");
    expect_error_of(d, "{\"cents\":1,\"cents\":1}", NULL, TR_EINVAL,
                    "cents: is there twice, at byte 11");
    expect_error_of(d, "{\"cents\":1,}", NULL, TR_EINVAL,
                    "expected a string, at byte 11");
    expect_error_of(d, "{\"cents\" 1}", NULL, TR_EINVAL,
                    "expected ':', at byte 9");
    expect_error_of(n, "{\"yes\":1}", NULL, TR_EINVAL,
                    "yes: expected true or false, at byte 7");
}

static void test_errors_of_numbers_name_the_field(void **state)
{
    const tr_type *d = &Deposit_tr_type;
    const tr_type *n = &Numbers_tr_type;

    (void)state;
    expect_error_of(d, "{\"cents\":\"1\"}", NULL, TR_EINVAL,
                    "cents: expected a number, at byte 9");
    expect_error_of(d, "{\"cents\":1.0}", NULL, TR_EINVAL,
                    "cents: expected a whole number, at byte 9");
    expect_error_of(d, "{\"cents\":9223372036854775808}", NULL, TR_EINVAL,
                    "cents: the number does not fit, at byte 9");
    expect_error_of(d, "{\"cents\":01}", NULL, TR_EINVAL,
                    "cents: number with a leading zero, at byte 9");
    expect_error_of(n, "{\"u8\":-1}", NULL, TR_EINVAL,
                    "u8: the number does not fit, at byte 6");
    expect_error_of(n, "{\"single\":1e39}", NULL, TR_EINVAL,
                    "single: the number does not fit, at byte 10");
    expect_error_of(n, "{\"number\":1e309}", NULL, TR_EINVAL,
                    "number: the number does not fit, at byte 10");
    expect_error_of(n, "{\"number\":.5}", NULL, TR_EINVAL,
                    "number: expected a number, at byte 10");
    expect_error_of(n, "{\"number\":1.}", NULL, TR_EINVAL,
                    "number: no digits after the point, at byte 10");
    expect_error_of(n, "{\"number\":1e}", NULL, TR_EINVAL,
                    "number: no digits in the exponent, at byte 10");
}

static void test_errors_of_strings_name_the_field(void **state)
{
    const tr_type *d = &Deposit_tr_type;

    (void)state;
    expect_error_of(d, "{\"memo\":\"a", NULL, TR_EINVAL,
                    "memo: string without an end, at byte 10");
    expect_error_of(d, "{\"memo\":\"\\u0000\"}", NULL, TR_EINVAL,
                    "memo: text holds a zero byte, at byte 9");
    expect_error_of(d, "{\"memo\":\"\\ud800x\"}", NULL, TR_EINVAL,
                    "memo: no such escape, at byte 9");
    expect_error_of(d, "{\"memo\":\"\\udc00\"}", NULL, TR_EINVAL,
                    "memo: no such escape, at byte 9");
    expect_error_of(d, "{\"memo\":\"\xff\"}", NULL, TR_EINVAL,
                    "memo: text is not UTF-8, at byte 9");
    expect_error_of(d, "{\"memo\":\"\n\"}", NULL, TR_EINVAL,
                    "memo: control character in a string, at byte 9");
    expect_error_of(d, "{\"memo\":5}", NULL, TR_EINVAL,
                    "memo: expected a string, at byte 8");
}

static void test_errors_in_sequences_name_the_element(void **state)
{
    const tr_type *o = &Order_tr_type;

    (void)state;
    expect_error_of(o, "{\"lines\":[{},{\"price\":true}]}", NULL, TR_EINVAL,
                    "lines[1].price: expected a number, at byte 22");
    expect_error_of(o, "{\"first\":{\"data\":\"YWJ\"}}", NULL, TR_EINVAL,
                    "first.data: expected base64, at byte 18");
    expect_error_of(o, "{\"key\":[1,2,3,4,5]}", NULL, TR_EINVAL,
                    "key: more than 4 elements, at byte 16");
    expect_error_of(o, "{\"key\":[256]}", NULL, TR_EINVAL,
                    "key[0]: the number does not fit, at byte 8");
    expect_error_of(o, "{\"owner\":\"/user/a\"}", NULL, TR_EINVAL,
                    "owner: names no actor, at byte 10");
}

static void test_limits_are_enforced(void **state)
{
    tri_codec strict = {.unknown = TRI_UNKNOWN_ERROR};
    tri_codec small = {
        .limits = {.size = 40, .count = 2, .memory = 600, .depth = 1}};
    char deep[300];

    (void)state;
    expect_error_of(&Deposit_tr_type, "{\"cents\":1,\"x\":2}", &strict,
                    TR_EINVAL, "no field \"x\", at byte 11");
    expect_error_of(&Deposit_tr_type,
                    "{\"cents\":1}                              ", &small,
                    TR_ELIMIT, "more than 40 bytes, at byte 0");
    expect_error_of(&Order_tr_type, "{\"weights\":[1,2,3]}", &small, TR_ELIMIT,
                    "weights: the value is too large, at byte 16");
    small.limits.count = 0;
    small.limits.memory = 5;
    expect_error_of(&Deposit_tr_type, "{\"memo\":\"abcde\"}", &small, TR_ELIMIT,
                    "memo: the value is too large, at byte 15");
    expect_error_of(&Book_tr_type, "{\"orders\":[{\"first\":{}}]}", &small,
                    TR_ELIMIT, "orders: the value is too large, at byte 11");
    small.limits.memory = 0;
    expect_error_of(&Book_tr_type, "{\"orders\":[{\"first\":{}}]}", &small,
                    TR_ELIMIT,
                    "orders[0].first: nested too deeply, "
                    "at byte 20");
    // The limit of nesting also holds for skipped values.
    strcpy(deep, "{\"x\":");
    memset(deep + 5, '[', 200);
    deep[205] = '\0';
    expect_error_of(&Deposit_tr_type, deep, NULL, TR_ELIMIT,
                    "nested too deeply, at byte 69");
    strcpy(deep, "{\"cents\":");
    memset(deep + 9, '9', 280);
    deep[289] = '\0';
    expect_error_of(&Deposit_tr_type, deep, NULL, TR_EINVAL,
                    "cents: the number does not fit, at byte 9");
}

/* Reads a ref of the form "/<digit>". */
static bool ref_from_text(void *user, const char *text, size_t size,
                          tr_ref *out)
{
    (void)user;
    if (size != 2 || text[0] != '/') return false;
    *out = (tr_ref){1, (uint64_t)(text[1] - '0')};
    return true;
}

static void test_reads_refs_from_paths(void **state)
{
    tri_ref_codec refs = {.from_text = ref_from_text};
    tri_codec codec = {.refs = &refs};
    static const char json[] = "{\"owner\":\"/7\"}";
    Order out;

    (void)state;
    TR_MUST(tri_json_read(&Order_tr_type, &out, json, sizeof(json) - 1, &codec,
                          NULL));
    assert_int_equal(out.owner.id, 7);
    tr_drop(Order, &out);
    expect_error_of(&Order_tr_type, "{\"owner\":\"7\"}", &codec, TR_EINVAL,
                    "owner: names no actor, at byte 10");
    expect_error_of(&Order_tr_type, json, NULL, TR_EINVAL,
                    "owner: names no actor, at byte 10");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accepts_any_order_space_and_escapes),
        cmocka_unit_test(test_reads_sequences),
        cmocka_unit_test(test_errors_of_syntax_name_the_byte),
        cmocka_unit_test(test_errors_of_numbers_name_the_field),
        cmocka_unit_test(test_errors_of_strings_name_the_field),
        cmocka_unit_test(test_errors_in_sequences_name_the_element),
        cmocka_unit_test(test_limits_are_enforced),
        cmocka_unit_test(test_reads_refs_from_paths),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
