/*
 * mem.h - blocks of a few fixed sizes, kept warm by the thread that uses them.
 *
 * Messages, cells and their extensions come from here. A block never changes
 * its class and never goes back to the operating system before the runtime
 * ends: a late sender may therefore touch a cell, or read the depth of a
 * message, that has just been freed; it sees an old or a new occupant, never
 * foreign memory.
 *
 * Each worker owns a tri_cache: two magazines per class, `hot` and `spare`.
 * Whole magazines move between the caches and the shared store, so a producer
 * and a consumer on two threads meet once per TRI_MAGAZINE blocks.
 *
 * Threads: a cache belongs to one thread (the outside cache to whoever holds
 * its lock); tri_mem is shared.
 */
#ifndef TRI_CORE_MEM_H
#define TRI_CORE_MEM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "base/lock.h"
#include "troupe/base.h"

enum {
    TRI_CLASS_CELL = 10,
    TRI_CLASS_EXT = 11,
    TRI_CLASS_TINY = 12,   // 16 bytes: states of a few fields
    TRI_CLASS_SMALL = 13,  // 32 bytes
    TRI_CLASS_COUNT = 14,
    TRI_CLASS_STACK = 254,  // not ours to free
    TRI_CLASS_BIG = 255,    // beyond the largest class: from malloc
#ifdef TRI_TORTURE
    TRI_MAGAZINE = 2,
#else
    TRI_MAGAZINE = 128,  // blocks moved at once; bench/README.md
#endif
    TRI_BLOCK_ALIGN = 32,
    TRI_SMALL_MAX = 8192,  // the largest message class
};

typedef struct tri_block {
    struct tri_block *next;  // in a magazine
    uint64_t next_mag;  // first block of the next magazine; above 48 bits the
                        // number of blocks in this one
} tri_block;

typedef struct tri_store {  // full magazines of one class
    tri_lock lock;
    tri_block *magazines;
} tri_store;

typedef struct tri_chunk {  // what was mapped, for the end
    struct tri_chunk *next;
    size_t size;
} tri_chunk;

typedef struct tri_mem {
    tri_store store[TRI_CLASS_COUNT];
    tri_lock lock;  // guards chunks
    tri_chunk *chunks;
    _Atomic(size_t) mapped;    // bytes, for the budget and the metrics
    _Atomic(size_t) big;       // bytes outside the classes
    size_t budget;             // 0: none
    _Atomic(int64_t) fail_at;  // tests: counts down, 0 fails; < 0: never
} tri_mem;

typedef struct tri_magazine {
    tri_block *head;
    uint32_t count;
} tri_magazine;

typedef struct tri_cache {
    tri_mem *mem;
    struct {
        tri_magazine hot;
        tri_magazine spare;
        char *fresh, *fresh_end;  // never used part of the last chunk
    } of[TRI_CLASS_COUNT];
} tri_cache;

extern const uint16_t tri_class_size[TRI_CLASS_COUNT];

void tri_mem_init(tri_mem *mem, size_t budget);
void tri_mem_fini(tri_mem *mem);
void tri_cache_init(tri_cache *cache, tri_mem *mem);
void tri_cache_fini(tri_cache *cache);  // gives its blocks to the store

/* Fails the n-th allocation from now on, once; n < 0 ends it. For tests. */
void tri_mem_fail_after(tri_mem *mem, int64_t n);
bool tri_mem_should_fail(tri_mem *mem);

void *tri_cache_refill(tri_cache *cache, uint32_t klass);
void tri_cache_spill(tri_cache *cache, uint32_t klass);

/* The class of a message of this many bytes, or TRI_CLASS_BIG. */
uint32_t tri_class_of(size_t size);

/* The same for sizes up to TRI_CLASS_QUICK, by a table of 32-byte steps. */
#define TRI_CLASS_QUICK ((size_t)512)
extern const uint8_t tri_class_step[TRI_CLASS_QUICK / 32 + 1];

static inline uint32_t tri_class_quick(size_t size)
{
    return tri_class_step[(size + 31) / 32];
}

/* Blocks outside the classes, aligned like the others, counted. */
void *tri_big_alloc(tri_mem *mem, size_t size);
void tri_big_free(tri_mem *mem, void *at);

/* Zeroed memory from malloc, counted by the fault hook. */
void *tri_mem_calloc(tri_mem *mem, size_t size);

#if !defined(NDEBUG) || defined(TRI_TORTURE)
#define TRI_FAULTS 1
#else
#define TRI_FAULTS 0
#endif

/*
 * AddressSanitizer is told which blocks are free: a message that is used after
 * its handler has returned is then reported where it is used. Cells and their
 * extensions are read after their end, by design (cell.h).
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

/* The newest block of a magazine of this class that is not empty. */
static inline tri_block *tri_magazine_take(tri_magazine *magazine,
                                           uint32_t klass)
{
    tri_block *block = magazine->head;
    magazine->head = block->next;
    magazine->count--;
    return tri_block_show(block, klass);
}

/* Contents are undefined, except that cells keep what they were. */
static inline void *tri_cache_alloc(tri_cache *cache, uint32_t klass)
{
    if (TRI_FAULTS && tri_mem_should_fail(cache->mem)) {
        return NULL;
    }
    tri_magazine *hot = &cache->of[klass].hot;
    if (TRI_UNLIKELY(hot->head == NULL)) {
        return tri_block_show(tri_cache_refill(cache, klass), klass);
    }
    return tri_magazine_take(hot, klass);
}

static inline void tri_cache_free(tri_cache *cache, uint32_t klass, void *at)
{
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
