/*
 * mem.c - the chunks, large blocks and budget of a system.
 *
 * Invariant: `mapped` is the sum of the sizes of all chunks, `big` that of all
 * large blocks. Both only grow past the budget by what several threads take at
 * the same moment.
 *
 * A system that has grown large maps chunks of a huge page: page faults for
 * each 4 KiB took half the time of a million spawns.
 */
#include "core/cell/mem.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/lock.h"
#include "base/pages.h"
#include "core/cell/cache.h"

enum {
    CHUNK_SIZE = 256 * 1024,
    CHUNK_SMALL = 16 * 1024,  // least; holds a block of the largest class
    CHUNKS_IN_BUDGET = 32,    // least: each worker needs some, one per class
    LARGE_FROM = 32 << 20,    // mapped bytes above which chunks are large
    CHUNK_LARGE = 2 << 20,
};

void tri_mem_init(tri_mem *mem, size_t budget)
{
    memset(mem, 0, sizeof(*mem));
    mem->chunk_size =
        budget == 0
            ? CHUNK_SIZE
            : TRI_MAX(CHUNK_SMALL,
                      TRI_MIN(CHUNK_SIZE, budget / CHUNKS_IN_BUDGET /
                                              CHUNK_SMALL * CHUNK_SMALL));
    // Relaxed: no other thread knows mem yet.
    atomic_store_explicit(&mem->fail_at, -1, memory_order_relaxed);
}

/* Returns the bytes that count against the budget. */
static size_t bytes_used(tri_mem *mem)
{
    // Relaxed, both: statistics; the budget is a soft limit.
    return atomic_load_explicit(&mem->mapped, memory_order_relaxed) +
           atomic_load_explicit(&mem->big, memory_order_relaxed);
}

/* Returns how many bytes more the budget allows. */
static size_t bytes_left(tri_mem *mem)
{
    // Relaxed: a limit that is seen late is harmless; see tri_mem_limit.
    size_t budget = atomic_load_explicit(&mem->budget, memory_order_relaxed);
    size_t used = bytes_used(mem);
    return budget == 0 ? SIZE_MAX : budget > used ? budget - used : 0;
}

void tri_mem_limit(tri_mem *mem, size_t budget)
{
    TRI_CHECK(mem->chunk_size != 0);
    size_t used = bytes_used(mem);
    // Relaxed: pairs with bytes_left, whose readers need no order.
    atomic_store_explicit(&mem->budget,
                          budget == 0                ? 0
                          : budget > SIZE_MAX - used ? SIZE_MAX
                                                     : used + budget,
                          memory_order_relaxed);
}

void tri_mem_fini(tri_mem *mem)
{
    tri_chunk *chunk = mem->chunks;
    while (chunk != NULL) {
        tri_chunk *next = chunk->next;
        size_t size = chunk->size;
        tri_chunk_show(chunk, size);  // other memory may be mapped there
        tri_pages_unmap(chunk, size);
        chunk = next;
    }
    mem->chunks = NULL;
}

void tri_mem_fail_after(tri_mem *mem, int64_t n)
{
    // Relaxed: a counter of the tests.
    atomic_store_explicit(&mem->fail_at, n, memory_order_relaxed);
}

bool tri_mem_should_fail(tri_mem *mem)
{
    // Relaxed: as above.
    if (atomic_load_explicit(&mem->fail_at, memory_order_relaxed) < 0) {
        return false;
    }
    return atomic_fetch_sub_explicit(&mem->fail_at, 1, memory_order_relaxed) ==
           0;
}

void *tri_mem_calloc(tri_mem *mem, size_t size)
{
    return tri_mem_should_fail(mem) ? NULL : calloc(1, size);
}

tri_chunk *tri_chunk_map(tri_mem *mem, bool may_be_large)
{
    TRI_CHECK(mem->chunk_size != 0);
    // Relaxed: a statistic.
    size_t mapped = atomic_load_explicit(&mem->mapped, memory_order_relaxed);
    size_t room = bytes_left(mem);
    bool large = may_be_large && mapped >= LARGE_FROM && room >= CHUNK_LARGE;
    size_t size = large ? CHUNK_LARGE : mem->chunk_size;
    tri_chunk *chunk = room >= size ? tri_pages_map(size) : NULL;
    if (chunk == NULL && large) {
        size = mem->chunk_size;
        chunk = tri_pages_map(size);
    }
    if (chunk == NULL) {
        return NULL;
    }
    if (size == CHUNK_LARGE) {
        tri_pages_huge(chunk, size);
    }
    _Static_assert(sizeof(tri_chunk) <= TRI_CHUNK_HEADER, "chunk header");
    atomic_fetch_add_explicit(&mem->mapped, size, memory_order_relaxed);
    chunk->size = size;
    tri_lock_take(&mem->lock);
    chunk->next = mem->chunks;
    mem->chunks = chunk;
    tri_lock_drop(&mem->lock);
    return chunk;
}

/* The size is stored in front, in a prefix as long as the alignment. */
void *tri_big_alloc(tri_mem *mem, size_t size)
{
    if (size > SIZE_MAX / 2 || tri_mem_should_fail(mem)) {
        return NULL;
    }
    size_t total =
        (size + 2 * TRI_BLOCK_ALIGN - 1) / TRI_BLOCK_ALIGN * TRI_BLOCK_ALIGN;
    if (total > bytes_left(mem)) {
        return NULL;
    }
    char *at = aligned_alloc(TRI_BLOCK_ALIGN, total);
    if (at == NULL) {
        return NULL;
    }
    *(size_t *)(void *)at = total;
    // Relaxed: a statistic.
    atomic_fetch_add_explicit(&mem->big, total, memory_order_relaxed);
    return at + TRI_BLOCK_ALIGN;
}

void tri_big_free(tri_mem *mem, void *at)
{
    TRI_CHECK(at != NULL && (uintptr_t)at % TRI_BLOCK_ALIGN == 0);
    char *start = (char *)at - TRI_BLOCK_ALIGN;
    size_t total = *(size_t *)(void *)start;
    // Relaxed: a statistic.
    atomic_fetch_sub_explicit(&mem->big, total, memory_order_relaxed);
    free(start);
}
