/*
 * base64_test.c - base64 is written with padding and read strictly.
 */
#include "schema_types.h"

#include "schema/base64.h"

static void expect_text(const char *bytes, size_t size, const char *text)
{
    char out[5] = "";
    size_t found = 0;
    char back[4] = "";

    tri_base64_group(out, (const unsigned char *)bytes, size);
    assert_string_equal(out, text);
    assert_int_equal(tri_base64_length(size), 4);
    assert_true(tri_base64_size(text, 4, &found));
    assert_int_equal(found, size);
    tri_base64_read(back, text, 4);
    assert_memory_equal(back, bytes, size);
}

static void test_writes_and_reads_groups(void **state)
{
    (void)state;
    expect_text("f", 1, "Zg==");
    expect_text("fo", 2, "Zm8=");
    expect_text("foo", 3, "Zm9v");
    expect_text("\xff\xff\xff", 3, "////");
    expect_text("\xfb\xef\xbe", 3, "++++");
}

static void test_refuses_what_has_another_text(void **state)
{
    static const char *const wrong[] = {
        "Z",    "Zg",    "Zg=",  "Zg===", "Zh==",
        "Zm9=", "Zg==Z", "Z g=", "Z=g=",  "===="};
    size_t size;

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        if (tri_base64_size(wrong[i], strlen(wrong[i]), &size)) {
            fail_msg("accepted: %s", wrong[i]);
        }
    }
}

static void test_accepts_the_escaped_slash_of_json(void **state)
{
    char back[2];
    size_t size;

    (void)state;
    assert_true(tri_base64_size("\\/\\/8=", 6, &size));
    assert_int_equal(size, 2);
    tri_base64_read(back, "\\/\\/8=", 6);
    assert_memory_equal(back, "\xff\xff", 2);
    assert_true(tri_base64_size("", 0, &size));
    assert_int_equal(size, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_writes_and_reads_groups),
        cmocka_unit_test(test_refuses_what_has_another_text),
        cmocka_unit_test(test_accepts_the_escaped_slash_of_json),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
