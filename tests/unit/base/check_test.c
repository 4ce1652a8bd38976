/*
 * check_test.c - a failed check writes its condition and aborts.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"

static void fail_check(void)
{
    int apples = 3;

    TRI_CHECK(apples == 4);
}

static void fail_abort(void)
{
    tr_abort("orchard.c:7", "no apples");
}

static void pass_check(void)
{
    TRI_CHECK(true);
    _exit(EXIT_SUCCESS);
}

/* Runs fn in a child, gives what it wrote to stderr and how it ended. */
static int run_child(void (*fn)(void), char *out, size_t size)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct rlimit none = {0};
        setrlimit(RLIMIT_CORE, &none);
        signal(SIGABRT, SIG_DFL);
        dup2(ends[1], STDERR_FILENO);
        fn();
        _exit(EXIT_FAILURE);
    }
    close(ends[1]);
    size_t length = 0;
    ssize_t got;
    while ((got = read(ends[0], out + length, size - 1 - length)) > 0) {
        length += (size_t)got;
    }
    out[length] = '\0';
    close(ends[0]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void test_failed_check_names_condition_and_aborts(void **state)
{
    (void)state;
    char text[4096];
    int status = run_child(fail_check, text, sizeof(text));

    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
    assert_non_null(strstr(text, "check_test.c:"));
    assert_non_null(strstr(text, "check failed: apples == 4"));
}

static void test_abort_reports_site_and_text(void **state)
{
    (void)state;
    char text[4096];
    int status = run_child(fail_abort, text, sizeof(text));

    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
    assert_non_null(strstr(text, "orchard.c:7: no apples\n"));
}

static void test_passed_check_is_silent(void **state)
{
    (void)state;
    char text[4096];
    int status = run_child(pass_check, text, sizeof(text));

    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), EXIT_SUCCESS);
    assert_string_equal(text, "");
}

static void test_slow_check_evaluates_only_when_on(void **state)
{
    (void)state;
    int evaluated = 0;

    TRI_CHECK_SLOW(++evaluated > 0);
#ifdef TRI_SLOW_CHECKS
    assert_int_equal(evaluated, 1);
#else
    assert_int_equal(evaluated, 0);
#endif
}

static void test_min_max_and_container_of(void **state)
{
    (void)state;
    struct box {
        char pad[3];
        int inner;
    } box = {.inner = 5};
    int array[7];

    assert_ptr_equal(tri_container_of(&box.inner, struct box, inner), &box);
    assert_int_equal(TRI_COUNT_OF(array), 7);
    assert_int_equal(TRI_MIN(2, 3), 2);
    assert_int_equal(TRI_MAX(2, 3), 3);
    assert_true(TRI_MAX(UINT64_MAX, 1) == UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_failed_check_names_condition_and_aborts),
        cmocka_unit_test(test_abort_reports_site_and_text),
        cmocka_unit_test(test_passed_check_is_silent),
        cmocka_unit_test(test_slow_check_evaluates_only_when_on),
        cmocka_unit_test(test_min_max_and_container_of),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
