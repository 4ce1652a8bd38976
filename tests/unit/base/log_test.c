/*
 * log_test.c - a record becomes exactly one well-formed line.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"

static void test_line_has_its_columns(void **state)
{
    (void)state;
    char line[128];
    tr_nanos at = TR_SECONDS(INT64_C(1767323045)) + 678901999;

    size_t length = tri_log_format(line, sizeof(line), TRI_LOG_WARN, at,
                                   "examples/bank.c:42", "/user/alice", "text");
    assert_string_equal(
        line, "2026-01-02T03:04:05.678901Z WARN  /user/alice bank.c:42 text\n");
    assert_int_equal(length, strlen(line));
}

static void test_missing_fields_are_a_dash(void **state)
{
    (void)state;
    char line[128];

    (void)tri_log_format(line, sizeof(line), 9, -1, NULL, NULL, NULL);
    assert_string_equal(line, "1970-01-01T00:00:00.000000Z ?     - - \n");
}

/* Every day of 292 years, against the C library's calendar. */
static void test_dates_agree_with_the_calendar(void **state)
{
    (void)state;
    for (int64_t day = 0; day < 106751; day++) {
        char line[128];
        char expected[64];
        struct tm parts;
        time_t seconds = (time_t)(day * 86400 + day % 86400);

        assert_non_null(gmtime_r(&seconds, &parts));
        strftime(expected, sizeof(expected), "%Y-%m-%dT%H:%M:%S", &parts);
        (void)tri_log_format(line, sizeof(line), TRI_LOG_INFO,
                             TR_SECONDS((int64_t)seconds), "a.c:1", "/a", "t");
        assert_memory_equal(line, expected, strlen(expected));
    }
}

static void test_text_cannot_forge_a_line(void **state)
{
    (void)state;
    char line[128];
    const char *text = "a\nb\rc\x1b[1md\x7f \xc3\xa9";

    (void)tri_log_format(line, sizeof(line), TRI_LOG_INFO, 0, "a.c:1", "/x",
                         text);
    assert_non_null(strstr(line, " a?b?c?[1md? \xc3\xa9\n"));
    assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
}

static void test_a_line_is_cut_to_any_buffer(void **state)
{
    (void)state;
    char whole[128];
    size_t full = tri_log_format(whole, sizeof(whole), TRI_LOG_ERROR, 0,
                                 "a.c:1", "/user/b", "some text");

    for (size_t size = 8; size <= full + 2; size++) {
        char line[128];
        memset(line, '#', sizeof(line));
        size_t length = tri_log_format(line, size, TRI_LOG_ERROR, 0, "a.c:1",
                                       "/user/b", "some text");
        assert_int_equal(length, strlen(line));
        assert_true(length < size);
        assert_int_equal(line[length - 1], '\n');
        assert_int_equal(line[size], '#');
        if (size <= full) {
            assert_memory_equal(line + length - 4, "...\n", 4);
        } else {
            assert_string_equal(line, whole);
        }
    }
}

static void test_write_goes_to_standard_error(void **state)
{
    (void)state;
    int ends[2];
    char text[256] = {0};
    int saved = dup(STDERR_FILENO);

    assert_true(saved >= 0);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
    errno = ENOENT;
    tri_log_write(TRI_LOG_DEBUG, 0, "a.c:1", "/a", "hello");
    int after = errno;
    assert_int_equal(dup2(saved, STDERR_FILENO), STDERR_FILENO);
    close(saved);
    close(ends[1]);

    assert_int_equal(after, ENOENT);
    assert_true(read(ends[0], text, sizeof(text) - 1) > 0);
    assert_string_equal(text,
                        "1970-01-01T00:00:00.000000Z DEBUG /a a.c:1 hello\n");
    close(ends[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_line_has_its_columns),
        cmocka_unit_test(test_missing_fields_are_a_dash),
        cmocka_unit_test(test_dates_agree_with_the_calendar),
        cmocka_unit_test(test_text_cannot_forge_a_line),
        cmocka_unit_test(test_a_line_is_cut_to_any_buffer),
        cmocka_unit_test(test_write_goes_to_standard_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
