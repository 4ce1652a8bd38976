/*
 * path_test.c - looking actors up by their paths, and what the error says
 * about a path that names nobody. guardian_test.c has the paths that exist.
 */
#include "support/stage.h"

#include <string.h>

static tr_err act_look(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)self;
    tr_ref ref = tr_lookup(ctx, arg);
    return tr_reply(ctx, m, .value = tr_ref_err(ref),
                    .text = tr_error_text(ctx));
}

/* GD: the path that was looked for is said as a whole. */
static void test_GD_a_path_that_leads_nowhere_is_named(void **state)
{
    static const char *const paths[][2] = {
        {"nobody", "no actor has the path ./nobody"},
        {"/user/nobody", "no actor has the path /user/nobody"},
        {"/temp/nobody", "no actor has the path /temp/nobody"},
        {"/nowhere/nobody", "no actor has the path /nowhere/nobody"},
        {"$zz", "no actor has the path ./$zz"},
        {"$12x", "no actor has the path ./$12x"},
    };
    stage it;
    Acted out;
    (void)state;
    stage_open(&it);
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        expect_ok(tr_ask(it.sys, it.one, &out, TR_SECONDS(5), Act,
                         .fn = (uint64_t)(uintptr_t)act_look,
                         .arg = (uint64_t)(uintptr_t)paths[i][0]));
        if (strstr(out.text, paths[i][1]) == NULL) {
            fail_msg("%s: %s", paths[i][0], out.text);
        }
        tr_drop(Acted, &out);
    }
    // From outside a relative path is one below /user.
    assert_int_equal(tr_lookup(it.sys, "nobody").cell, 0);
    assert_non_null(strstr(tr_error_text(it.sys), "/user/nobody"));
    assert_true(tr_ref_eq(tr_lookup(it.sys, "one"), it.one));
    stage_close(&it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_GD_a_path_that_leads_nowhere_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
