/*
 * 05_failure_is_returned.c - a system that ends because of a failure says so:
 * tr_system_run, tr_system_close and the report have its error and text.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <troupe/troupe.h>

TR_MESSAGE(Break);
TR_MESSAGE(Finish);

static tr_err on_break(tr_ctx *ctx, void *self, const Break *m)
{
    (void)self, (void)m;
    return tr_fail(ctx, TR_EUSER + 7, "the disk is on fire");
}

static tr_err on_finish(tr_ctx *ctx, void *self, const Finish *m)
{
    (void)self, (void)m;
    tr_system_terminate(tr_system_of(ctx));
    return TR_OK;
}

TR_ACTOR(keeper, void, TR_ON(Break, on_break), TR_ON(Finish, on_finish));

static void test_first_week_05_run_and_close_return_the_failure(void **state)
{
    (void)state;
    tr_system *sys;
    assert_int_equal(tr_system_open(&sys, .log_level = TR_LOG_ERROR + 1),
                     TR_OK);
    tr_ref a = tr_spawn(sys, keeper, .name = "a",
                        .supervision = TR_SUPERVISE(.on_failure = TR_ESCALATE));
    tr_tell(sys, a, Break);
    assert_int_equal(tr_system_run(sys), TR_EUSER + 7);
    assert_non_null(strstr(tr_error_text(sys), "/user/a"));
    assert_non_null(strstr(tr_error_text(sys), "the disk is on fire"));
    tr_close_report report = {.size = sizeof(report)};
    assert_int_equal(tr_system_close_report(sys, 0, &report), TR_EUSER + 7);
    assert_non_null(strstr(tr_error_text(NULL), "the disk is on fire"));
    assert_int_equal(report.failure, TR_EUSER + 7);
    assert_non_null(strstr(report.failure_text, "the disk is on fire"));
    assert_int_equal(report.forced, 0);
}

static void test_first_week_05_an_ordinary_end_is_a_success(void **state)
{
    (void)state;
    tr_system *sys;
    assert_int_equal(tr_system_open(&sys, .log_level = TR_LOG_ERROR + 1),
                     TR_OK);
    tr_tell(sys, tr_spawn(sys, keeper), Finish);
    assert_int_equal(tr_system_run(sys), TR_OK);
    tr_close_report report = {.size = sizeof(report)};
    assert_int_equal(tr_system_close_report(sys, 0, &report), TR_OK);
    assert_int_equal(report.failure, TR_OK);
    assert_string_equal(report.failure_text, "");
}

/* A report as it was in version 0.1.0 is filled as far as it goes. */
static void test_first_week_05_an_older_report_is_not_overrun(void **state)
{
    (void)state;
    tr_system *sys;
    assert_int_equal(tr_system_open(&sys, .log_level = TR_LOG_ERROR + 1),
                     TR_OK);
    struct {
        tr_close_report report;
    } caller;
    memset(&caller, 0x5a, sizeof(caller));
    caller.report.size = offsetof(tr_close_report, failure);
    assert_int_equal(tr_system_close_report(sys, 0, &caller.report), TR_OK);
    assert_int_equal(caller.report.stopped, 0);
    assert_int_equal(caller.report.size, offsetof(tr_close_report, failure));
    unsigned char first;
    memcpy(&first, &caller.report.failure, 1);
    assert_int_equal(first, 0x5a);
}

/* As the contract of tr_system_close says it. */
static int program(bool fails)
{
    tr_system *sys;
    TR_MUST(tr_system_open(&sys, .log_level = TR_LOG_ERROR + 1));
    tr_ref a = tr_spawn(sys, keeper, .name = "a",
                        .supervision = TR_SUPERVISE(.on_limit = TR_ESCALATE));
    for (int i = 0; i < 4; i++) {  // more often than max_restarts
        if (fails) tr_tell(sys, a, Break);
    }
    tr_tell(sys, a, Finish);
    (void)tr_system_run(sys);
    return tr_system_close(sys, 0) != TR_OK;
}

static void test_first_week_05_the_process_exits_with_it(void **state)
{
    (void)state;
    for (int fails = 0; fails < 2; fails++) {
        pid_t pid = fork();
        if (pid == 0) {
            _exit(program(fails));
        }
        int status;
        assert_true(pid > 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), fails);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_week_05_run_and_close_return_the_failure),
        cmocka_unit_test(test_first_week_05_the_process_exits_with_it),
        cmocka_unit_test(test_first_week_05_an_ordinary_end_is_a_success),
        cmocka_unit_test(test_first_week_05_an_older_report_is_not_overrun),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
