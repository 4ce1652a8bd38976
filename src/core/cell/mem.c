/*
 * mem.c - size classes, magazines, chunks.
 *
 * Invariant: a block is in exactly one place: in use, in a magazine of a
 * cache, in the store, or in the unused part of a chunk. Unused memory is
 * given out by a moving pointer, so a page is first touched when it is needed.
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

const uint16_t tri_class_size[TRI_CLASS_COUNT] = {
    64,  96, 128, 192, 256, 512, 1024, 2048, 4096, TRI_SMALL_MAX,
    192,  // TRI_CLASS_CELL: struct tri_cell, asserted in cell.c
    832,  // TRI_CLASS_EXT: struct tri_ext, asserted in ext.c
    16,  32,
};

const uint8_t tri_class_step[TRI_CLASS_TABLE_MAX / 32 + 1] = {
    0, 0, 0, 1, 2, 3, 3, 4, 4, 5, 5, 5, 5, 5, 5, 5, 5,
};

enum {
    CHUNK_SIZE = 256 * 1024,
    CHUNK_SMALL = 16 * 1024,  // least; holds a block of the largest class
    CHUNKS_IN_BUDGET = 32,    // least: each worker needs some, one per class
    LARGE_FROM = 32 << 20,    // mapped bytes above which chunks are large
    CHUNK_LARGE = 2 << 20,
    CHUNK_HEADER = 64,    // keeps blocks aligned to cache lines
    MAGAZINE_COUNT = 48,  // first bit of the count in tri_block.next_mag
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

void tri_cache_init(tri_cache *cache, tri_mem *mem)
{
    TRI_CHECK(mem != NULL);
    memset(cache, 0, sizeof(*cache));
    cache->mem = mem;
}

/* Moves a magazine, which may be empty, to the store. */
static void store_put(tri_store *store, tri_magazine *magazine)
{
    if (magazine->head == NULL) {
        return;
    }
    TRI_CHECK(magazine->count > 0);
    uint64_t count = (uint64_t)magazine->count << MAGAZINE_COUNT;
    tri_lock_take(&store->lock);
    magazine->head->next_mag = count | (uintptr_t)store->magazines;
    store->magazines = magazine->head;
    tri_lock_drop(&store->lock);
    *magazine = (tri_magazine){0};
}

/* Takes a magazine from the store; false if there is none. */
static bool store_get(tri_store *store, tri_magazine *magazine)
{
    TRI_CHECK(magazine->head == NULL);
    tri_lock_take(&store->lock);
    tri_block *first = store->magazines;
    if (first != NULL) {
        uint64_t next = first->next_mag;
        store->magazines =
            (tri_block *)(uintptr_t)(next & ((1ull << MAGAZINE_COUNT) - 1));
        *magazine = (tri_magazine){.head = first,
                                   .count = (uint32_t)(next >> MAGAZINE_COUNT)};
    }
    tri_lock_drop(&store->lock);
    return first != NULL;
}

void tri_cache_fini(tri_cache *cache)
{
    for (uint32_t k = 0; k < TRI_CLASS_COUNT; k++) {
        store_put(&cache->mem->store[k], &cache->of[k].hot);
        store_put(&cache->mem->store[k], &cache->of[k].spare);
        // The unused part of its chunk stays unused until the system closes.
    }
}

/* Maps a chunk for the class; false without memory or budget. */
static bool chunk_new(tri_cache *cache, uint32_t klass)
{
    tri_mem *mem = cache->mem;
    TRI_CHECK(cache->of[klass].unused == cache->of[klass].unused_end);
    // Relaxed: a statistic.
    size_t mapped = atomic_load_explicit(&mem->mapped, memory_order_relaxed);
    size_t room = bytes_left(mem);
    // Large only for a class that has used up a chunk: else most is unused.
    bool large = mapped >= LARGE_FROM && room >= CHUNK_LARGE &&
                 cache->of[klass].unused_end != NULL;
    size_t size = large ? CHUNK_LARGE : mem->chunk_size;
    tri_chunk *chunk = room >= size ? tri_pages_map(size) : NULL;
    if (chunk == NULL && large) {
        size = mem->chunk_size;
        chunk = tri_pages_map(size);
    }
    if (chunk == NULL) {
        return false;
    }
    if (size == CHUNK_LARGE) {
        tri_pages_huge(chunk, size);
    }
    _Static_assert(sizeof(tri_chunk) <= CHUNK_HEADER, "chunk header");
    atomic_fetch_add_explicit(&mem->mapped, size, memory_order_relaxed);
    chunk->size = size;
    tri_lock_take(&mem->lock);
    chunk->next = mem->chunks;
    mem->chunks = chunk;
    tri_lock_drop(&mem->lock);
    size_t count = (size - CHUNK_HEADER) / tri_class_size[klass];
    cache->of[klass].unused = (char *)chunk + CHUNK_HEADER;
    cache->of[klass].unused_end =
        cache->of[klass].unused + count * tri_class_size[klass];
    return true;
}

void *tri_cache_refill(tri_cache *cache, uint32_t klass)
{
    TRI_CHECK(klass < TRI_CLASS_COUNT);
    tri_magazine *hot = &cache->of[klass].hot;
    tri_magazine *spare = &cache->of[klass].spare;

    if (spare->head != NULL) {
        *hot = *spare;
        *spare = (tri_magazine){0};
    } else if (!store_get(&cache->mem->store[klass], hot)) {
        if (cache->of[klass].unused == cache->of[klass].unused_end &&
            !chunk_new(cache, klass)) {
            return NULL;
        }
        void *at = cache->of[klass].unused;
        cache->of[klass].unused += tri_class_size[klass];
        return at;
    }
    tri_block *block = hot->head;
    hot->head = block->next;
    hot->count--;
    return block;
}

void tri_cache_spill(tri_cache *cache, uint32_t klass)
{
    TRI_CHECK(klass < TRI_CLASS_COUNT);
    tri_magazine *hot = &cache->of[klass].hot;
    tri_magazine *spare = &cache->of[klass].spare;

    store_put(&cache->mem->store[klass], spare);
    *spare = *hot;
    *hot = (tri_magazine){0};
}

uint32_t tri_class_of(size_t size)
{
    for (uint32_t k = 0; k < TRI_CLASS_CELL; k++) {
        if (size <= tri_class_size[k]) {
            return k;
        }
    }
    return TRI_CLASS_BIG;
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
