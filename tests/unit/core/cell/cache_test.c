/*
 * cache_test.c - blocks of the size classes: free blocks, and blocks that move
 * between the caches of two workers.
 */
#include "support/stage.h"

#include <string.h>

#include "core/cell/cache.h"
#include "core/cell/mem.h"

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
            memset(at, 7, size);  // the whole block is writable
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

/* Blocks go through the store from one cache to the other. */
static void test_blocks_that_move_between_caches_stay_whole(void **state)
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_free_block_is_hidden_until_it_is_used_again),
        cmocka_unit_test(test_blocks_that_move_between_caches_stay_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
