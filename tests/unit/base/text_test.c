/*
 * text_test.c - the string builder stays within its buffer and counts the rest.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/text.h"

static void test_adds_formatted_text(void **state)
{
    (void)state;
    char buffer[32];
    tri_text text;

    memset(buffer, 'x', sizeof(buffer));
    tri_text_init(&text, buffer, sizeof(buffer));
    assert_string_equal(buffer, "");
    tri_text_add(&text, "%d apples", 3);
    tri_text_put(&text, " and pears", 4);
    tri_text_put(&text, NULL, 0);
    tri_text_add(&text, "%s", "");
    assert_string_equal(buffer, "3 apples and");
    assert_int_equal(tri_text_length(&text), 12);
    assert_int_equal(text.need, 12);
    assert_false(tri_text_is_cut(&text));
}

/* On the heap and of exact size, so that a sanitizer sees one byte too many. */
static void test_text_is_cut_to_any_buffer(void **state)
{
    (void)state;
    const char *whole = "alpha-42-beta-gamma";
    size_t length = strlen(whole);

    for (size_t size = 0; size <= length + 2; size++) {
        char *buffer = size > 0 ? malloc(size) : NULL;
        tri_text text;
        tri_text_init(&text, buffer, size);
        tri_text_put(&text, "alpha", 5);
        tri_text_add(&text, "-%d-", 42);
        tri_text_add(&text, "%s", "beta");
        tri_text_put(&text, "-gamma", 6);
        assert_int_equal(text.need, length);
        assert_int_equal(tri_text_is_cut(&text), size <= length);
        if (size > 0) {
            size_t kept = size <= length ? size - 1 : length;
            assert_int_equal(tri_text_length(&text), kept);
            assert_int_equal(strlen(buffer), kept);
            assert_memory_equal(buffer, whole, kept);
        }
        free(buffer);
    }
}

static void test_nothing_is_written_after_a_cut(void **state)
{
    (void)state;
    char buffer[8];
    tri_text text;

    tri_text_init(&text, buffer, sizeof(buffer));
    tri_text_add(&text, "%s", "0123456789");
    tri_text_put(&text, "z", 1);
    tri_text_add(&text, "%c", 'z');
    assert_string_equal(buffer, "0123456");
    assert_int_equal(text.need, 12);
    assert_true(tri_text_is_cut(&text));
}

static void test_put_adds_any_bytes(void **state)
{
    (void)state;
    char buffer[8];
    tri_text text;

    tri_text_init(&text, buffer, sizeof(buffer));
    tri_text_put(&text, "a\0b", 3);
    tri_text_add(&text, "%s", "c");
    assert_int_equal(tri_text_length(&text), 4);
    assert_memory_equal(buffer, "a\0bc", 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_adds_formatted_text),
        cmocka_unit_test(test_text_is_cut_to_any_buffer),
        cmocka_unit_test(test_nothing_is_written_after_a_cut),
        cmocka_unit_test(test_put_adds_any_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
