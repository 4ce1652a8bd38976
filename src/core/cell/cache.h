/*
 * cache.h - blocks of a few size classes, from caches of the workers.
 *
 * A block keeps its class and is not unmapped before the system closes, so a
 * late sender may read a cell that has just been freed: it finds that cell or a
 * later one.
 *
 * Each worker has a tri_cache: two magazines per class, `hot` and `spare`.
 * Whole magazines move between the caches and the store of the class, so a
 * producer and a consumer on two threads share a lock once per TRI_MAGAZINE
 * blocks.
 *
 * Threads: a cache belongs to one thread; the cache of sys->outside to the
 * holder of outside_lock.
 */
#ifndef TRI_CORE_CELL_CACHE_H
#define TRI_CORE_CELL_CACHE_H

#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "core/cell/mem.h"

enum {
#ifdef TRI_TORTURE
    TRI_MAGAZINE = 2,
#else
    TRI_MAGAZINE = 128,  // blocks moved at once; bench/README.md
#endif
};

typedef struct tri_magazine {
    tri_block *head;
    uint32_t count;
} tri_magazine;

typedef struct tri_cache {
    tri_mem *mem;
    struct {
        tri_magazine hot;
        tri_magazine spare;
        char *unused, *unused_end;  // part of the last chunk
    } of[TRI_CLASS_COUNT];
} tri_cache;

extern const uint16_t tri_class_size[TRI_CLASS_COUNT];

/* Returns the class of a message of this many bytes, or TRI_CLASS_BIG. */
uint32_t tri_class_of(size_t size);

/* tri_class_of for sizes up to TRI_CLASS_TABLE_MAX, by a table. */
#define TRI_CLASS_TABLE_MAX ((size_t)512)
extern const uint8_t tri_class_step[TRI_CLASS_TABLE_MAX / 32 + 1];

static inline uint32_t tri_class_by_table(size_t size)
{
    TRI_CHECK_SLOW(size <= TRI_CLASS_TABLE_MAX);
    return tri_class_step[(size + 31) / 32];
}

void tri_cache_init(tri_cache *cache, tri_mem *mem);
void tri_cache_fini(tri_cache *cache);  // moves its blocks to the store

/* Out-of-line part of tri_cache_alloc: `hot` is empty. NULL without memory. */
void *tri_cache_refill(tri_cache *cache, uint32_t klass);

/* Out-of-line part of tri_cache_free: `hot` is full. */
void tri_cache_spill(tri_cache *cache, uint32_t klass);

/*
 * Poisons free blocks for AddressSanitizer, so that it reports the use of a
 * message after its handler has returned. Cells and extensions are read after
 * their end by design (cell.h).
 */
#if defined(__SANITIZE_ADDRESS__)
#define TRI_MEM_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TRI_MEM_ASAN 1
#endif
#endif
#ifdef TRI_MEM_ASAN
void __asan_poison_memory_region(void const volatile *at, size_t size);
void __asan_unpoison_memory_region(void const volatile *at, size_t size);

static inline void tri_block_hide(tri_block *block, uint32_t klass)
{
    if (klass != TRI_CLASS_CELL && klass != TRI_CLASS_EXT) {
        __asan_poison_memory_region(block + 1,
                                    tri_class_size[klass] - sizeof(*block));
    }
}

static inline void *tri_block_show(void *block, uint32_t klass)
{
    if (block != NULL) {
        __asan_unpoison_memory_region(block, tri_class_size[klass]);
    }
    return block;
}

static inline void tri_chunk_show(void *chunk, size_t size)
{
    __asan_unpoison_memory_region(chunk, size);
}
#else
static inline void tri_block_hide(tri_block *block, uint32_t klass)
{
    (void)block, (void)klass;
}

static inline void *tri_block_show(void *block, uint32_t klass)
{
    (void)klass;
    return block;
}

static inline void tri_chunk_show(void *chunk, size_t size)
{
    (void)chunk, (void)size;
}
#endif

/* Takes the newest block of a magazine, which must not be empty. */
static inline tri_block *tri_magazine_take(tri_magazine *magazine,
                                           uint32_t klass)
{
    TRI_CHECK_SLOW(magazine->head != NULL && magazine->count > 0);
    tri_block *block = magazine->head;
    magazine->head = block->next;
    magazine->count--;
    return tri_block_show(block, klass);
}

/*
 * Returns a block of the class, or NULL without memory. Its contents are
 * undefined, except that cells and extensions keep what they were.
 */
static inline void *tri_cache_alloc(tri_cache *cache, uint32_t klass)
{
    TRI_CHECK_SLOW(klass < TRI_CLASS_COUNT);
    if (TRI_FAULTS && tri_mem_should_fail(cache->mem)) {
        return NULL;
    }
    tri_magazine *hot = &cache->of[klass].hot;
    if (TRI_UNLIKELY(hot->head == NULL)) {
        return tri_block_show(tri_cache_refill(cache, klass), klass);
    }
    return tri_magazine_take(hot, klass);
}

/* Takes back a block of the class; of any cache. */
static inline void tri_cache_free(tri_cache *cache, uint32_t klass, void *at)
{
    TRI_CHECK_SLOW(at != NULL && klass < TRI_CLASS_COUNT);
    tri_magazine *hot = &cache->of[klass].hot;
    tri_block *block = at;

    block->next = hot->head;
    hot->head = block;
    tri_block_hide(block, klass);
    if (TRI_UNLIKELY(++hot->count >= TRI_MAGAZINE)) {
        tri_cache_spill(cache, klass);
    }
}

#endif
