/*
 * err_test.c - names and texts of errors, and which prove non-delivery.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <limits.h>
#include <string.h>

#include "base/check.h"

typedef struct row {
    tr_err err;
    const char *name;
    const char *text;
} row;

#define ROW(name, number, text) {TR_##name, "TR_" #name, text},
static const row table[] = {TR_ERRORS(ROW)};
#undef ROW

static void test_every_code_has_a_name_and_a_text(void **state)
{
    (void)state;
    for (size_t i = 0; i < TRI_COUNT_OF(table); i++) {
        assert_string_equal(tr_errname(table[i].err), table[i].name);
        assert_string_equal(tr_strerror(table[i].err), table[i].text);
    }
    assert_string_equal(tr_errname(TR_EINVAL), "TR_EINVAL");
    assert_string_equal(tr_strerror(TR_OK), "no error");
}

static void test_unlisted_numbers_have_a_name_and_a_text(void **state)
{
    (void)state;
    const int numbers[] = {-1, INT_MIN, 999, 1001, INT_MAX};

    for (size_t i = 0; i < TRI_COUNT_OF(numbers); i++) {
        tr_err err = (tr_err)numbers[i];
        assert_true(strlen(tr_strerror(err)) > 0);
        assert_true(strlen(tr_errname(err)) > 0);
        assert_false(tr_undelivered(err));
    }
    assert_string_equal(tr_errname((tr_err)1001), "TR_EUSER+");
    assert_string_equal(tr_errname((tr_err)999), "TR_?");
    assert_string_equal(tr_errname((tr_err)-1), "TR_?");
}

static void test_undelivered_is_true_only_if_proven(void **state)
{
    (void)state;
    const tr_err proven[] = {TR_ENOENT,   TR_EFULL, TR_EUNHANDLED,
                             TR_EFOREIGN, TR_EGONE, TR_EUNREACHABLE};
    size_t count = 0;

    for (size_t i = 0; i < TRI_COUNT_OF(proven); i++) {
        assert_true(tr_undelivered(proven[i]));
    }
    for (size_t i = 0; i < TRI_COUNT_OF(table); i++) {
        count += tr_undelivered(table[i].err);
    }
    assert_int_equal(count, TRI_COUNT_OF(proven));
    assert_false(tr_undelivered(TR_OK));
}

static void test_version(void **state)
{
    (void)state;
    assert_string_equal(tr_version(), TR_VERSION);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_code_has_a_name_and_a_text),
        cmocka_unit_test(test_unlisted_numbers_have_a_name_and_a_text),
        cmocka_unit_test(test_undelivered_is_true_only_if_proven),
        cmocka_unit_test(test_version),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
