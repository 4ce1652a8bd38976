/*
 * mem_test.c - blocks that are free are hidden from AddressSanitizer's
 * programs, so that a message which is used after its handler is reported.
 *
 * In other builds nothing is hidden; what is checked there is that a block
 * comes back whole.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "core/mem.h"

#ifdef TRI_MEM_ASAN
int __asan_address_is_poisoned(void const volatile *at);
#define HIDDEN(at) (__asan_address_is_poisoned(at) != 0)
enum { HIDES = true };
#else
#define HIDDEN(at) ((void)(at), false)
enum { HIDES = false };
#endif

static void test_a_free_block_is_hidden_until_it_is_used_again(void **state)
{
    (void)state;
    tri_mem mem;
    tri_cache cache;
    tri_mem_init(&mem, 0);
    tri_cache_init(&cache, &mem);
    for (uint32_t klass = 0; klass < TRI_CLASS_COUNT; klass++) {
        size_t size = tri_class_size[klass];
        bool read_later = klass == TRI_CLASS_CELL || klass == TRI_CLASS_EXT;
        for (int round = 0; round < 2; round++) {
            char *at = tri_cache_alloc(&cache, klass);
            assert_non_null(at);
            memset(at, 7, size);  // all of it is ours
            assert_false(HIDDEN(at + size - 1));
            tri_cache_free(&cache, klass, at);
            if (size > sizeof(tri_block)) {
                assert_int_equal(HIDDEN(at + size - 1), HIDES && !read_later);
            }
        }
    }
    tri_cache_fini(&cache);
    tri_mem_fini(&mem);
}

/* Through the store, as between two threads. */
static void test_blocks_that_move_are_whole(void **state)
{
    enum { MANY = 3 * TRI_MAGAZINE };
    (void)state;
    tri_mem mem;
    tri_cache from, to;
    char *blocks[MANY];
    tri_mem_init(&mem, 0);
    tri_cache_init(&from, &mem);
    tri_cache_init(&to, &mem);
    for (int i = 0; i < MANY; i++) {
        blocks[i] = tri_cache_alloc(&from, 0);
    }
    for (int i = 0; i < MANY; i++) {
        tri_cache_free(&from, 0, blocks[i]);
    }
    for (int i = 0; i < MANY; i++) {
        blocks[i] = tri_cache_alloc(&to, 0);
        memset(blocks[i], 1, tri_class_size[0]);
    }
    for (int i = 0; i < MANY; i++) {
        tri_cache_free(&to, 0, blocks[i]);
    }
    tri_cache_fini(&from);
    tri_cache_fini(&to);
    tri_mem_fini(&mem);
}

/* Chunks get larger with the system; the budget is used up all the same. */
static void test_X27_a_budget_is_used_to_its_last_chunk(void **state)
{
    enum { BUDGET = 36 << 20, CHUNK = 256 << 10, CLASS = 3, OTHERS = 3 };
    (void)state;
    tri_mem mem;
    tri_cache cache;
    size_t bytes = 0;
    tri_mem_init(&mem, BUDGET);
    tri_cache_init(&cache, &mem);
    for (uint32_t klass = 0; klass < OTHERS; klass++) {
        assert_non_null(tri_cache_alloc(&cache, klass));
    }
    while (tri_cache_alloc(&cache, CLASS) != NULL) {
        bytes += tri_class_size[CLASS];
    }
    assert_true(bytes > BUDGET - (OTHERS + 2) * CHUNK);
    tri_mem_fini(&mem);

    // Others come to their first block when one has grown large.
    tri_mem_init(&mem, BUDGET);
    tri_cache_init(&cache, &mem);
    for (bytes = 0; bytes < BUDGET - 16 * CHUNK;
         bytes += tri_class_size[CLASS]) {
        assert_non_null(tri_cache_alloc(&cache, CLASS));
    }
    for (uint32_t klass = 0; klass < OTHERS; klass++) {
        assert_non_null(tri_cache_alloc(&cache, klass));
    }
    tri_mem_fini(&mem);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_X27_a_budget_is_used_to_its_last_chunk),
        cmocka_unit_test(test_a_free_block_is_hidden_until_it_is_used_again),
        cmocka_unit_test(test_blocks_that_move_are_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
