/*
 * utf8_test.c - every character of Unicode is written and checked, and invalid
 * bytes are refused.
 */
#include "schema_types.h"

#include "schema/utf8.h"

static void test_every_character_has_its_size(void **state)
{
    (void)state;
    for (uint32_t code = 0; code <= 0x10ffff; code++) {
        char text[4] = "";
        if (code >= 0xd800 && code < 0xe000) continue;
        size_t size = tri_utf8_write(text, code);
        assert_int_equal(size, code < 0x80      ? 1
                               : code < 0x800   ? 2
                               : code < 0x10000 ? 3
                                                : 4);
        assert_int_equal(tri_utf8_size(text, size), size);
        // Cut off, it is not a character.
        if (size > 1) assert_int_equal(tri_utf8_size(text, size - 1), 0);
    }
}

static void test_invalid_bytes_are_refused(void **state)
{
    static const char *const wrong[] = {
        "\x80",              // a byte that only follows
        "\xc0\x80",          // longer than necessary
        "\xc1\xbf",          // the same
        "\xe0\x9f\xbf",      // the same
        "\xf0\x8f\xbf\xbf",  // the same
        "\xed\xa0\x80",      // a surrogate
        "\xf4\x90\x80\x80",  // above U+10FFFF
        "\xf5\x80\x80\x80",  // the same
        "\xc3(",             // the second byte does not follow
        "\xff",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(tri_utf8_size(wrong[i], strlen(wrong[i])), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_character_has_its_size),
        cmocka_unit_test(test_invalid_bytes_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
