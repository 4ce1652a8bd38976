/*
 * arena_test.c - memory that is handed out piece by piece, also to threads.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <string.h>

#include "cluster/virtual/arena.h"

enum { THREADS = 4, PIECES = 4000, SIZE = 192, ALIGN = 64 };

static tri_mem mem;
static tri_arena arena;

static bool is_filled_with(const unsigned char *piece, unsigned char value)
{
    for (size_t i = 0; i < SIZE; i++) {
        if (piece[i] != value) {
            return false;
        }
    }
    return true;
}

/* Fills many pieces with the thread's number, then looks at them again. */
static void *fill(void *user)
{
    unsigned char number = (unsigned char)(uintptr_t)user;
    unsigned char *pieces[PIECES];
    for (uint32_t i = 0; i < PIECES; i++) {
        pieces[i] = tri_arena_alloc_aligned(&arena, &mem, SIZE);
        if (pieces[i] == NULL || (uintptr_t)pieces[i] % ALIGN != 0 ||
            !is_filled_with(pieces[i], 0)) {
            return "a piece is missing, not aligned or not zero";
        }
        memset(pieces[i], number, SIZE);
    }
    for (uint32_t i = 0; i < PIECES; i++) {
        if (!is_filled_with(pieces[i], number)) {
            return "two threads have got the same bytes";
        }
    }
    return NULL;
}

/* Blocks of 256 KiB and 8 MiB are used up while all threads allocate. */
static void test_threads_get_different_pieces(void **state)
{
    pthread_t threads[THREADS];
    (void)state;
    tri_mem_fail_after(&mem, -1);
    for (uintptr_t i = 0; i < THREADS; i++) {
        assert_int_equal(
            pthread_create(&threads[i], NULL, fill, (void *)(i + 1)), 0);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        void *wrong;
        assert_int_equal(pthread_join(threads[i], &wrong), 0);
        assert_null(wrong);
    }
    tri_arena_fini(&arena);
    assert_null(arena.blocks);
}

static void test_without_memory_there_is_no_piece(void **state)
{
    (void)state;
    if (!TRI_FAULTS) {  // a release build has no hook for this
        skip();
    }
    tri_mem_fail_after(&mem, 0);
    assert_null(tri_arena_alloc(&arena, &mem, SIZE));
    tri_mem_fail_after(&mem, -1);
    assert_non_null(tri_arena_alloc(&arena, &mem, SIZE));
    tri_arena_fini(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads_get_different_pieces),
        cmocka_unit_test(test_without_memory_there_is_no_piece),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
