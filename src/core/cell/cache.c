/*
 * cache.c - size classes, and magazines of blocks.
 *
 * Invariant: a block is in exactly one place: in use, in a magazine of a
 * cache, in a depot, or in the unused part of a chunk. Unused memory is
 * given out by a moving pointer, so a page is first touched when it is needed.
 */
#include "core/cell/cache.h"

#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "base/lock.h"
#include "core/cell/mem.h"

const uint16_t tri_class_size[TRI_CLASS_COUNT] = {
    64,  96, 128, 192, 256, 512, 1024, 2048, 4096, TRI_SMALL_MAX,
    192,  // TRI_CLASS_CELL: struct tri_cell, asserted in cell.c
    832,  // TRI_CLASS_EXT: struct tri_ext, asserted in ext.c
    16,  32,
};

const uint8_t tri_class_step[TRI_CLASS_TABLE_MAX / 32 + 1] = {
    0, 0, 0, 1, 2, 3, 3, 4, 4, 5, 5, 5, 5, 5, 5, 5, 5,
};

enum { MAGAZINE_COUNT = 48 };  // first bit of the count in next_mag

void tri_cache_init(tri_cache *cache, tri_mem *mem)
{
    TRI_CHECK(mem != NULL);
    memset(cache, 0, sizeof(*cache));
    cache->mem = mem;
}

/* Moves a magazine, which may be empty, to a depot. */
static void depot_put(tri_depot *depot, tri_magazine *magazine)
{
    if (magazine->head == NULL) {
        return;
    }
    TRI_CHECK(magazine->count > 0);
    uint64_t count = (uint64_t)magazine->count << MAGAZINE_COUNT;
    tri_lock_take(&depot->lock);
    magazine->head->next_mag = count | (uintptr_t)depot->magazines;
    depot->magazines = magazine->head;
    tri_lock_drop(&depot->lock);
    *magazine = (tri_magazine){0};
}

/* Takes a magazine from a depot; false if there is none. */
static bool depot_get(tri_depot *depot, tri_magazine *magazine)
{
    TRI_CHECK(magazine->head == NULL);
    tri_lock_take(&depot->lock);
    tri_block *first = depot->magazines;
    if (first != NULL) {
        uint64_t next = first->next_mag;
        depot->magazines =
            (tri_block *)(uintptr_t)(next & ((1ull << MAGAZINE_COUNT) - 1));
        *magazine = (tri_magazine){.head = first,
                                   .count = (uint32_t)(next >> MAGAZINE_COUNT)};
    }
    tri_lock_drop(&depot->lock);
    return first != NULL;
}

void tri_cache_fini(tri_cache *cache)
{
    for (uint32_t k = 0; k < TRI_CLASS_COUNT; k++) {
        depot_put(&cache->mem->depot[k], &cache->of[k].hot);
        depot_put(&cache->mem->depot[k], &cache->of[k].spare);
        // The unused part of its chunk stays unused until the system closes.
    }
}

/* Takes a chunk for the class; false without memory or budget. */
static bool chunk_take(tri_cache *cache, uint32_t klass)
{
    TRI_CHECK(cache->of[klass].unused == cache->of[klass].unused_end);
    // Large only for a class that has used up a chunk: else most is unused.
    tri_chunk *chunk =
        tri_chunk_map(cache->mem, cache->of[klass].unused_end != NULL);
    if (chunk == NULL) {
        return false;
    }
    size_t count = (chunk->size - TRI_CHUNK_HEADER) / tri_class_size[klass];
    cache->of[klass].unused = (char *)chunk + TRI_CHUNK_HEADER;
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
    } else if (!depot_get(&cache->mem->depot[klass], hot)) {
        if (cache->of[klass].unused == cache->of[klass].unused_end &&
            !chunk_take(cache, klass)) {
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

    depot_put(&cache->mem->depot[klass], spare);
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
