/*
 * cmocka.h - the part of cmocka that our unit tests use, for a cross build.
 *
 * Debian's cmocka is installed for the native architecture only; a second
 * architecture would need its own package lists. The tests use asserts and the
 * runner, so this header defines those under the same names. A failed assert
 * prints both values and ends the program with status 1.
 *
 * Threads: asserts may be used from any thread.
 */
#ifndef TRI_TESTS_CROSS_CMOCKA_H
#define TRI_TESTS_CROSS_CMOCKA_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void (*CMUnitTestFunction)(void **state);
typedef int (*CMFixtureFunction)(void **state);

struct CMUnitTest {
    const char *name;
    CMUnitTestFunction test_func;
    CMFixtureFunction setup_func;
    CMFixtureFunction teardown_func;
    void *initial_state;
};

#define cmocka_unit_test(f)                                  {#f, f, NULL, NULL, NULL}
#define cmocka_unit_test_setup(f, s)                         {#f, f, s, NULL, NULL}
#define cmocka_unit_test_teardown(f, t)                      {#f, f, NULL, t, NULL}
#define cmocka_unit_test_setup_teardown(f, s, t)             {#f, f, s, t, NULL}
#define cmocka_unit_test_prestate(f, p)                      {#f, f, NULL, NULL, p}
#define cmocka_unit_test_prestate_setup_teardown(f, s, t, p) {#f, f, s, t, p}

#define cmocka_run_group_tests(tests, setup, teardown)                         \
    cross_run(#tests, tests, sizeof(tests) / sizeof((tests)[0]), setup,        \
              teardown)
#define cmocka_run_group_tests_name(name, tests, setup, teardown)              \
    cross_run(name, tests, sizeof(tests) / sizeof((tests)[0]), setup, teardown)

#define print_message    printf
#define print_error(...) fprintf(stderr, __VA_ARGS__)

__attribute__((noreturn, format(printf, 3, 4))) static inline void cross_fail(
    const char *file, int line, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fflush(stdout);
    fprintf(stderr, "%s:%d: ", file, line);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

/* A skipped test ends its function; the runner counts it as passed. */
#define skip()                                                                 \
    do {                                                                       \
        print_message("skipped\n");                                            \
        return;                                                                \
    } while (0)
#define fail()            cross_fail(__FILE__, __LINE__, "failed")
#define _fail(file, line) cross_fail((file), (line), "failed")
#define fail_msg(...)     cross_fail(__FILE__, __LINE__, __VA_ARGS__)

static inline void cross_true(int is, const char *text, const char *file,
                              int line)
{
    if (!is) {
        cross_fail(file, line, "wanted %s", text);
    }
}

static inline void cross_equal(uint64_t a, uint64_t b, int same,
                               const char *file, int line)
{
    if ((a == b) != same) {
        cross_fail(file, line, "%#llx %s %#llx", (unsigned long long)a,
                   same ? "!=" : "==", (unsigned long long)b);
    }
}

static inline void cross_string(const char *a, const char *b, int same,
                                const char *file, int line)
{
    if ((strcmp(a, b) == 0) != same) {
        cross_fail(file, line, "\"%s\" %s \"%s\"", a, same ? "!=" : "==", b);
    }
}

static inline void cross_memory(const void *a, const void *b, size_t size,
                                int same, const char *file, int line)
{
    if ((memcmp(a, b, size) == 0) != same) {
        cross_fail(file, line, "%zu bytes %s", size, same ? "differ" : "agree");
    }
}

static inline void cross_range(uint64_t value, uint64_t low, uint64_t high,
                               int within, const char *file, int line)
{
    if ((value >= low && value <= high) != within) {
        cross_fail(file, line, "%llu %s %llu to %llu",
                   (unsigned long long)value, within ? "is not in" : "is in",
                   (unsigned long long)low, (unsigned long long)high);
    }
}

#define CROSS_INT(x) ((uint64_t)(x))
#define CROSS_PTR(x) ((uint64_t)(uintptr_t)(x))
#define CROSS_HERE   __FILE__, __LINE__

#define assert_true(c)     cross_true(!!(c), #c, CROSS_HERE)
#define assert_false(c)    cross_true(!(c), "not " #c, CROSS_HERE)
#define assert_null(p)     cross_true((p) == NULL, #p " == NULL", CROSS_HERE)
#define assert_non_null(p) cross_true((p) != NULL, #p " != NULL", CROSS_HERE)
#define assert_int_equal(a, b)                                                 \
    cross_equal(CROSS_INT(a), CROSS_INT(b), 1, CROSS_HERE)
#define assert_int_not_equal(a, b)                                             \
    cross_equal(CROSS_INT(a), CROSS_INT(b), 0, CROSS_HERE)
#define assert_ptr_equal(a, b)                                                 \
    cross_equal(CROSS_PTR(a), CROSS_PTR(b), 1, CROSS_HERE)
#define assert_ptr_not_equal(a, b)                                             \
    cross_equal(CROSS_PTR(a), CROSS_PTR(b), 0, CROSS_HERE)
#define assert_string_equal(a, b)        cross_string(a, b, 1, CROSS_HERE)
#define assert_string_not_equal(a, b)    cross_string(a, b, 0, CROSS_HERE)
#define assert_memory_equal(a, b, n)     cross_memory(a, b, n, 1, CROSS_HERE)
#define assert_memory_not_equal(a, b, n) cross_memory(a, b, n, 0, CROSS_HERE)
#define assert_in_range(x, low, high)                                          \
    cross_range(CROSS_INT(x), CROSS_INT(low), CROSS_INT(high), 1, CROSS_HERE)
#define assert_not_in_range(x, low, high)                                      \
    cross_range(CROSS_INT(x), CROSS_INT(low), CROSS_INT(high), 0, CROSS_HERE)

static inline int cross_fixture(CMFixtureFunction fixture, void **state)
{
    return fixture == NULL ? 0 : fixture(state);
}

/* Runs all tests in order; returns 0, or does not return. */
static inline int cross_run(const char *group, const struct CMUnitTest *tests,
                            size_t count, CMFixtureFunction setup,
                            CMFixtureFunction teardown)
{
    void *shared = NULL;
    if (cross_fixture(setup, &shared) != 0) {
        cross_fail(group, 0, "setup failed");
    }
    for (size_t i = 0; i < count; i++) {
        void *state = tests[i].initial_state ? tests[i].initial_state : shared;
        printf("[ RUN ] %s\n", tests[i].name);
        fflush(stdout);
        if (cross_fixture(tests[i].setup_func, &state) != 0) {
            cross_fail(tests[i].name, 0, "setup failed");
        }
        tests[i].test_func(&state);
        if (cross_fixture(tests[i].teardown_func, &state) != 0) {
            cross_fail(tests[i].name, 0, "teardown failed");
        }
    }
    if (cross_fixture(teardown, &shared) != 0) {
        cross_fail(group, 0, "teardown failed");
    }
    printf("%zu tests passed\n", count);
    return 0;
}

#endif
