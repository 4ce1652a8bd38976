/*
 * pages_test.c - mapping, discarding and guarding pages.
 *
 * A child process makes the faulty access; the signal that ends it is checked.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/pages.h"

/* The signal that a child dies of when it writes there; 0: none. */
static int signal_of_touch(volatile char *at)
{
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);  // without the sanitizer's handler
        setrlimit(RLIMIT_CORE, &(struct rlimit){0});
        *at = 1;
        _exit(0);
    }
    int status = 0;

    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static bool is_all(const char *at, size_t size, char value)
{
    for (size_t i = 0; i < size; i++) {
        if (at[i] != value) {
            return false;
        }
    }
    return true;
}

static void test_page_size_is_a_power_of_two(void **state)
{
    (void)state;
    assert_true(tri_page_size() >= 4096);
    assert_int_equal(tri_page_size() & (tri_page_size() - 1), 0);
}

static void test_map_is_aligned_zero_and_writable(void **state)
{
    (void)state;
    size_t size = 16 * tri_page_size();
    char *at = tri_pages_map(size);

    assert_non_null(at);
    assert_int_equal((uintptr_t)at % tri_page_size(), 0);
    assert_true(is_all(at, size, 0));
    memset(at, 7, size);
    assert_true(is_all(at, size, 7));
    tri_pages_unmap(at, size);
}

static void test_map_refused_gives_null(void **state)
{
    (void)state;
    assert_null(tri_pages_map(SIZE_MAX / 2));
    assert_null(tri_pages_map(SIZE_MAX));
}

static void test_size_is_rounded_up(void **state)
{
    (void)state;
    char *at = tri_pages_map(1);

    assert_non_null(at);
    at[tri_page_size() - 1] = 1;
    tri_pages_unmap(at, 1);
    assert_int_equal(signal_of_touch(at), SIGSEGV);
}

static void test_unmapped_part_faults_and_the_rest_stays(void **state)
{
    (void)state;
    size_t page = tri_page_size();
    char *at = tri_pages_map(3 * page);

    assert_non_null(at);
    memset(at, 5, 3 * page);
    tri_pages_unmap(at + page, page);
    assert_int_equal(signal_of_touch(at + page), SIGSEGV);
    assert_true(is_all(at, page, 5));
    assert_true(is_all(at + 2 * page, page, 5));
    tri_pages_unmap(at, page);
    tri_pages_unmap(at + 2 * page, page);
}

static void test_huge_keeps_the_contents(void **state)
{
    (void)state;
    size_t size = (size_t)4 << 20;
    char *at = tri_pages_map(size);

    assert_non_null(at);
    at[0] = 3;
    tri_pages_huge(at, size);
    at[size - 1] = 4;
    assert_int_equal(at[0], 3);
    assert_int_equal(at[size / 2], 0);
    tri_pages_unmap(at, size);
}

static void test_discard_keeps_the_range(void **state)
{
    (void)state;
    size_t page = tri_page_size();
    char *at = tri_pages_map(3 * page);

    assert_non_null(at);
    memset(at, 9, 3 * page);
    tri_pages_discard(at + page, page);
    assert_true(is_all(at, page, 9));
    assert_true(is_all(at + page, page, 0));
    assert_true(is_all(at + 2 * page, page, 9));
    at[page] = 1;
    tri_pages_unmap(at, 3 * page);
}

static void test_guard_faults_and_its_neighbours_do_not(void **state)
{
    (void)state;
    size_t page = tri_page_size();
    char *at = tri_pages_map(4 * page);

    assert_non_null(at);
    memset(at, 9, 4 * page);
    assert_true(tri_pages_guard(at + page, 2 * page));
    assert_int_equal(signal_of_touch(at + page - 1), 0);
    assert_int_equal(signal_of_touch(at + page), SIGSEGV);
    assert_int_equal(signal_of_touch(at + 3 * page - 1), SIGSEGV);
    assert_int_equal(signal_of_touch(at + 3 * page), 0);

    tri_pages_discard(at, 4 * page);
    assert_int_equal(signal_of_touch(at + page), SIGSEGV);
    tri_pages_unmap(at, 4 * page);
}

/* Locked memory takes the other way, that of older kernels: mprotect. */
static void test_locked_memory_can_be_guarded(void **state)
{
    (void)state;
    size_t page = tri_page_size();
    char *at = tri_pages_map(2 * page);

    assert_non_null(at);
    if (mlock(at, 2 * page) != 0) {
        tri_pages_unmap(at, 2 * page);
        skip();  // this system does not allow mlock
    }
    assert_true(tri_pages_guard(at, page));
    assert_int_equal(signal_of_touch(at), SIGSEGV);
    assert_int_equal(signal_of_touch(at + page), 0);
    tri_pages_unmap(at, 2 * page);
}

static void test_guards_go_with_the_mapping(void **state)
{
    (void)state;
    size_t size = 4 * tri_page_size();

    // The kernel maps the same addresses again; they must be usable.
    for (int i = 0; i < 1000; i++) {
        char *at = tri_pages_map(size);

        assert_non_null(at);
        memset(at, 1, size);
        assert_true(tri_pages_guard(at, size));
        tri_pages_unmap(at, size);
    }
}

static void test_guarding_nothing_mapped_is_refused(void **state)
{
    (void)state;
    size_t page = tri_page_size();
    char *at = tri_pages_map(page);

    assert_non_null(at);
    tri_pages_unmap(at, page);
    assert_false(tri_pages_guard(at, page));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_page_size_is_a_power_of_two),
        cmocka_unit_test(test_map_is_aligned_zero_and_writable),
        cmocka_unit_test(test_map_refused_gives_null),
        cmocka_unit_test(test_size_is_rounded_up),
        cmocka_unit_test(test_unmapped_part_faults_and_the_rest_stays),
        cmocka_unit_test(test_huge_keeps_the_contents),
        cmocka_unit_test(test_discard_keeps_the_range),
        cmocka_unit_test(test_guard_faults_and_its_neighbours_do_not),
        cmocka_unit_test(test_locked_memory_can_be_guarded),
        cmocka_unit_test(test_guards_go_with_the_mapping),
        cmocka_unit_test(test_guarding_nothing_mapped_is_refused),
    };

    return cmocka_run_group_tests_name("base/pages", tests, NULL, NULL);
}
