/*
 * posix_file_test.c - files of the real world: bytes, sizes, locks and maps.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/world.h"

#define OPS(world) ((world)->ops)

static tri_world *world;

#define PATH_SIZE 256

typedef struct folder {
    char path[PATH_SIZE];
    char file[PATH_SIZE + 8];
} folder;

static int open_folder(void **state)
{
    folder *it = calloc(1, sizeof(*it));
    const char *base = getenv("TMPDIR");

    if (it == NULL) {
        return -1;
    }
    snprintf(it->path, sizeof(it->path), "%s/troupe-XXXXXX",
             base == NULL ? P_tmpdir : base);
    if (mkdtemp(it->path) == NULL) {
        return -1;
    }
    snprintf(it->file, sizeof(it->file), "%s/data", it->path);
    *state = it;
    return 0;
}

static int close_folder(void **state)
{
    folder *it = *state;

    (void)unlink(it->file);
    int result = rmdir(it->path);  // fails if a test leaves a file
    free(it);
    return result;
}

static tri_file *open_new(const char *path)
{
    tri_file *file;

    assert_int_equal(
        OPS(world)->file_open(world, &file, path,
                              TRI_FILE_READ | TRI_FILE_WRITE | TRI_FILE_CREATE),
        TR_OK);
    assert_non_null(file);
    return file;
}

static uint64_t size_of(tri_file *file)
{
    uint64_t size;

    assert_int_equal(OPS(world)->file_size(file, &size), TR_OK);
    return size;
}

static void test_file_keeps_what_is_written(void **state)
{
    folder *it = *state;
    tri_file *file = open_new(it->file);
    char text[16] = {0};
    size_t done;

    assert_int_equal(OPS(world)->file_write(file, "hello", 5, 100), TR_OK);
    assert_int_equal(OPS(world)->file_sync(file), TR_OK);
    assert_int_equal(OPS(world)->file_sync(file), TR_OK);
    OPS(world)->file_close(file);

    assert_int_equal(
        OPS(world)->file_open(world, &file, it->file, TRI_FILE_READ), TR_OK);
    assert_int_equal(size_of(file), 105);
    assert_int_equal(OPS(world)->file_read(file, text, 16, 100, &done), TR_OK);
    assert_int_equal(done, 5);
    assert_string_equal(text, "hello");
    assert_int_equal(OPS(world)->file_read(file, text, 4, 0, &done), TR_OK);
    assert_int_equal(done, 4);
    assert_memory_equal(text, "\0\0\0\0", 4);
    assert_int_equal(OPS(world)->file_read(file, text, 4, 1000, &done), TR_OK);
    assert_int_equal(done, 0);
    assert_int_equal(OPS(world)->file_write(file, "x", 1, 0), TR_EINVAL);
    OPS(world)->file_close(file);
}

static void test_truncate_shrinks_and_grows(void **state)
{
    folder *it = *state;
    tri_file *file = open_new(it->file);
    char text[8];
    size_t done;

    assert_int_equal(OPS(world)->file_write(file, "abcdef", 6, 0), TR_OK);
    assert_int_equal(OPS(world)->file_truncate(file, 2), TR_OK);
    assert_int_equal(size_of(file), 2);
    assert_int_equal(OPS(world)->file_truncate(file, 4), TR_OK);
    assert_int_equal(OPS(world)->file_read(file, text, 8, 0, &done), TR_OK);
    assert_int_equal(done, 4);
    assert_memory_equal(text, "ab\0\0", 4);
    assert_int_equal(OPS(world)->file_truncate(file, UINT64_MAX), TR_EINVAL);
    assert_int_equal(OPS(world)->file_write(file, "x", 1, UINT64_MAX),
                     TR_EINVAL);
    assert_int_equal(OPS(world)->file_read(file, text, 1, UINT64_MAX, &done),
                     TR_EINVAL);
    OPS(world)->file_close(file);
}

static void test_open_returns_the_right_error(void **state)
{
    folder *it = *state;
    tri_file *file = open_new(it->file);
    char beyond[PATH_SIZE + 32];

    OPS(world)->file_close(file);
    assert_int_equal(OPS(world)->file_open(world, &file, it->file,
                                           TRI_FILE_READ | TRI_FILE_WRITE |
                                               TRI_FILE_CREATE |
                                               TRI_FILE_EXCLUSIVE),
                     TR_EEXIST);
    assert_null(file);
    snprintf(beyond, sizeof(beyond), "%s/more", it->path);
    assert_int_equal(OPS(world)->file_open(world, &file, beyond, TRI_FILE_READ),
                     TR_ENOENT);
    snprintf(beyond, sizeof(beyond), "%s/more", it->file);
    assert_int_equal(OPS(world)->file_open(world, &file, beyond, TRI_FILE_READ),
                     TR_ENOENT);
    assert_int_equal(
        OPS(world)->file_open(world, &file, it->path, TRI_FILE_WRITE),
        TR_EINVAL);
    assert_null(file);
}

static void test_file_is_removed(void **state)
{
    folder *it = *state;
    bool exists = true;

    assert_int_equal(OPS(world)->file_exists(world, it->file, &exists), TR_OK);
    assert_false(exists);
    OPS(world)->file_close(open_new(it->file));
    assert_int_equal(OPS(world)->file_exists(world, it->file, &exists), TR_OK);
    assert_true(exists);
    assert_int_equal(OPS(world)->file_remove(world, it->file, true), TR_OK);
    assert_int_equal(OPS(world)->file_exists(world, it->file, &exists), TR_OK);
    assert_false(exists);
    assert_int_equal(OPS(world)->file_remove(world, it->file, false),
                     TR_ENOENT);
}

static void test_delete_removes_the_file_on_close(void **state)
{
    folder *it = *state;
    tri_file *file;
    bool exists = true;

    assert_int_equal(OPS(world)->file_open(world, &file, it->file,
                                           TRI_FILE_READ | TRI_FILE_WRITE |
                                               TRI_FILE_CREATE |
                                               TRI_FILE_DELETE),
                     TR_OK);
    assert_int_equal(OPS(world)->file_write(file, "x", 1, 0), TR_OK);
    assert_int_equal(OPS(world)->file_sync(file), TR_OK);
    OPS(world)->file_close(file);
    assert_int_equal(OPS(world)->file_exists(world, it->file, &exists), TR_OK);
    assert_false(exists);
}

static void test_locks_exclude_within_a_process(void **state)
{
    folder *it = *state;
    const tri_world_ops *ops = OPS(world);
    tri_file *one = open_new(it->file);
    tri_file *two = open_new(it->file);

    assert_int_equal(ops->file_lock(one, 10, 5, TRI_LOCK_SHARED), TR_OK);
    assert_int_equal(ops->file_lock(two, 10, 5, TRI_LOCK_SHARED), TR_OK);
    assert_int_equal(ops->file_lock(two, 12, 1, TRI_LOCK_EXCLUSIVE), TR_EFULL);
    assert_int_equal(ops->file_lock(two, 15, 1, TRI_LOCK_EXCLUSIVE), TR_OK);
    assert_int_equal(ops->file_lock(one, 15, 1, TRI_LOCK_SHARED), TR_EFULL);
    assert_int_equal(ops->file_lock(one, 10, 5, TRI_LOCK_NONE), TR_OK);
    assert_int_equal(ops->file_lock(two, 10, 5, TRI_LOCK_EXCLUSIVE), TR_OK);
    assert_int_equal(ops->file_lock(one, 0, 0, TRI_LOCK_SHARED), TR_EINVAL);

    // Closing a third open of the file does not release the second's lock.
    ops->file_close(open_new(it->file));
    assert_int_equal(ops->file_lock(one, 10, 5, TRI_LOCK_SHARED), TR_EFULL);
    ops->file_close(two);
    assert_int_equal(ops->file_lock(one, 10, 5, TRI_LOCK_EXCLUSIVE), TR_OK);
    ops->file_close(one);
}

/* Opens the file in another process and returns what the lock answers there. */
static int lock_elsewhere(const char *path, int lock)
{
    int status;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        tri_file *file;
        if (OPS(world)->file_open(world, &file, path,
                                  TRI_FILE_READ | TRI_FILE_WRITE) != TR_OK) {
            _exit(255);
        }
        _exit((int)OPS(world)->file_lock(file, 0, 4, lock));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void test_locks_exclude_between_processes(void **state)
{
    folder *it = *state;
    tri_file *file = open_new(it->file);

    assert_int_equal(OPS(world)->file_lock(file, 0, 4, TRI_LOCK_SHARED), TR_OK);
    assert_int_equal(lock_elsewhere(it->file, TRI_LOCK_SHARED), TR_OK);
    assert_int_equal(lock_elsewhere(it->file, TRI_LOCK_EXCLUSIVE), TR_EFULL);
    assert_int_equal(OPS(world)->file_lock(file, 0, 4, TRI_LOCK_EXCLUSIVE),
                     TR_OK);
    assert_int_equal(lock_elsewhere(it->file, TRI_LOCK_SHARED), TR_EFULL);
    assert_int_equal(OPS(world)->file_lock(file, 0, 4, TRI_LOCK_NONE), TR_OK);
    assert_int_equal(lock_elsewhere(it->file, TRI_LOCK_EXCLUSIVE), TR_OK);
    OPS(world)->file_close(file);
}

static void test_maps_share_the_file(void **state)
{
    folder *it = *state;
    const tri_world_ops *ops = OPS(world);
    tri_file *one = open_new(it->file);
    tri_file *two = open_new(it->file);
    void *first;
    void *second;
    char text[4];
    size_t done;

    assert_int_equal(ops->file_map(one, 0, 4096, &first), TR_EINVAL);
    assert_null(first);
    assert_int_equal(ops->file_truncate(one, 3 * 32768), TR_OK);
    // An offset that is not a page boundary on any machine.
    assert_int_equal(ops->file_map(one, 32768 + 8, 1000, &first), TR_OK);
    assert_int_equal(ops->file_map(two, 32768, 32768, &second), TR_OK);
    memcpy(first, "abc", 4);
    assert_string_equal((char *)second + 8, "abc");
    assert_int_equal(ops->file_read(two, text, 4, 32768 + 8, &done), TR_OK);
    assert_string_equal(text, "abc");
    assert_int_equal(ops->file_map(two, 3 * 32768 - 1, 2, &second), TR_EINVAL);
    ops->file_unmap(one, first, 1000);
    ops->file_close(one);
    ops->file_close(two);
}

#define FILE_TEST(name)                                                        \
    cmocka_unit_test_setup_teardown(name, open_folder, close_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FILE_TEST(test_file_keeps_what_is_written),
        FILE_TEST(test_truncate_shrinks_and_grows),
        FILE_TEST(test_open_returns_the_right_error),
        FILE_TEST(test_file_is_removed),
        FILE_TEST(test_delete_removes_the_file_on_close),
        FILE_TEST(test_locks_exclude_within_a_process),
        FILE_TEST(test_locks_exclude_between_processes),
        FILE_TEST(test_maps_share_the_file),
    };

    world = tri_world_posix();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
