/*
 * sqlite_file_name_test.c - the store in SQLite takes only names of files.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <troupe/troupe.h>

static void test_names_that_are_no_files_are_refused(void **state)
{
    static const char *const names[] = {"", ":memory:", ":mine:", NULL};
    char text[128];
    tr_storage_options options = {
        .size = sizeof(options), .text = text, .text_size = sizeof(text)};

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        tr_storage *store = (tr_storage *)&options;
        text[0] = '\0';
        assert_int_equal(tr_storage_sqlite_with(&store, names[i], &options),
                         TR_EINVAL);
        assert_null(store);
        assert_non_null(strstr(text, "tr_storage_memory"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_that_are_no_files_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
