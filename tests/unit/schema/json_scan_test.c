/*
 * json_scan_test.c - tokens of JSON: what is taken, and where the input stands
 * afterwards.
 */
#include "schema_types.h"

#include "schema/json_scan.h"

static tri_json_input input_of(const char *text)
{
    tri_json_input in = {.start = text, .at = text, .end = text + strlen(text)};

    tri_decoding_init(&in.run, NULL, NULL);
    return in;
}

static void test_peek_skips_only_white_space(void **state)
{
    tri_json_input in = input_of(" \t\r\n{x");

    (void)state;
    assert_int_equal(tri_json_peek(&in), '{');
    assert_int_equal(tri_json_left(&in), 2);
    TR_MUST(tri_json_take_mark(&in, '{', NULL));
    assert_int_equal(tri_json_take_mark(&in, '}', NULL), TR_EINVAL);
    assert_int_equal(tri_json_left(&in), 1);
    in = input_of("  ");
    assert_int_equal(tri_json_peek(&in), '\0');
    assert_int_equal(tri_json_left(&in), 0);
}

static void test_words_are_taken_whole(void **state)
{
    tri_json_input in = input_of("nul");

    (void)state;
    assert_false(tri_json_take_word(&in, "null", 4));
    assert_int_equal(tri_json_left(&in), 3);
    in = input_of("null,");
    assert_true(tri_json_take_word(&in, "null", 4));
    assert_int_equal(tri_json_peek(&in), ',');
}

static void test_strings_are_unescaped(void **state)
{
    tri_json_input in = input_of("\"a\\n\\u00e4\\ud83d\\ude00\" ");
    tri_json_span string;
    char out[32] = "";

    (void)state;
    TR_MUST(tri_json_take_string(&in, &string, NULL));
    assert_true(string.escaped);
    assert_int_equal(*in.at, ' ');
    assert_int_equal(tri_json_unescape(out, string), 8);
    assert_string_equal(out, "a\n\xc3\xa4\xf0\x9f\x98\x80");
    in = input_of("\"\"");
    TR_MUST(tri_json_take_string(&in, &string, NULL));
    assert_int_equal(string.size, 0);
    assert_false(string.escaped);
}

static void expect_number(const char *text, size_t size, bool is_whole)
{
    tri_json_input in = input_of(text);
    tri_json_span number;
    bool whole;

    TR_MUST(tri_json_take_number(&in, &number, &whole, NULL));
    assert_int_equal(number.size, size);
    assert_int_equal(whole, is_whole);
}

static void test_numbers_end_at_the_first_other_character(void **state)
{
    tri_json_input in;
    tri_json_span number;
    bool whole;
    char digits[500];

    (void)state;
    expect_number("0", 1, true);
    expect_number("-12,", 3, true);
    expect_number("1.50]", 4, false);
    expect_number("1e+5 ", 4, false);
    memset(digits, '1', sizeof(digits) - 1);
    digits[sizeof(digits) - 1] = '\0';
    in = input_of(digits);
    assert_int_equal(tri_json_take_number(&in, &number, &whole, NULL),
                     TR_ELIMIT);
}

static void test_values_are_skipped_whole(void **state)
{
    tri_json_input in =
        input_of("{\"a\":[1,{},[],null,true,false,\"]\"],\"b\":{}}!");

    (void)state;
    TR_MUST(tri_json_skip_value(&in, 0, NULL));
    assert_int_equal(*in.at, '!');
    in = input_of("[1,]");
    assert_int_equal(tri_json_skip_value(&in, 0, NULL), TR_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_peek_skips_only_white_space),
        cmocka_unit_test(test_words_are_taken_whole),
        cmocka_unit_test(test_strings_are_unescaped),
        cmocka_unit_test(test_numbers_end_at_the_first_other_character),
        cmocka_unit_test(test_values_are_skipped_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
