/*
 * mem.h - the memory of a system: chunks, large blocks, the budget.
 *
 * Messages, cells and extensions are blocks of a few size classes, which
 * workers cut from chunks (cache.h). Chunks are not unmapped before the system
 * closes.
 *
 * Threads: any, except tri_mem_init and tri_mem_fini.
 */
#ifndef TRI_CORE_CELL_MEM_H
#define TRI_CORE_CELL_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/lock.h"

/* Size classes 0 to 9 are those of messages. */
enum {
    TRI_CLASS_CELL = 10,
    TRI_CLASS_EXT = 11,
    TRI_CLASS_TINY = 12,   // 16 bytes: states of a few fields
    TRI_CLASS_SMALL = 13,  // 32 bytes
    TRI_CLASS_COUNT = 14,
    TRI_CLASS_STACK = 254,  // on a stack: never freed
    TRI_CLASS_BIG = 255,    // larger than any class: from malloc
    TRI_BLOCK_ALIGN = 32,
    TRI_CHUNK_HEADER = 64,  // keeps blocks aligned to cache lines
    TRI_SMALL_MAX = 8192,   // bytes of the largest message class
};

/* A free block. */
typedef struct tri_block {
    struct tri_block *next;  // in a magazine
    uint64_t next_mag;       // of the first block of a magazine in a depot: the
        // next magazine; above 48 bits the count of this one
} tri_block;

typedef struct tri_depot {  // full magazines of one class, of all workers
    tri_lock lock;
    tri_block *magazines;
} tri_depot;

typedef struct tri_chunk {  // header of mapped memory
    struct tri_chunk *next;
    size_t size;
} tri_chunk;

typedef struct tri_mem {
    tri_depot depot[TRI_CLASS_COUNT];
    tri_lock lock;  // guards chunks
    tri_chunk *chunks;
    _Atomic(size_t) mapped;    // bytes, for the budget and the metrics
    _Atomic(size_t) big;       // bytes outside the classes
    _Atomic(size_t) budget;    // limit of both in bytes; 0: no limit
    size_t chunk_size;         // bytes of a chunk, unless it is large
    _Atomic(int64_t) fail_at;  // counts down, 0 fails; < 0: never. For tests
} tri_mem;

/* `budget`: see tri_mem_limit, which sets it. */
void tri_mem_init(tri_mem *mem, size_t budget);
/*
 * Allows `budget` bytes more than are in use now; 0: no limit. Until the first
 * call there is no limit.
 */
void tri_mem_limit(tri_mem *mem, size_t budget);
void tri_mem_fini(tri_mem *mem);

/* Lets the n-th allocation from now on fail, once; n < 0: none. For tests. */
void tri_mem_fail_after(tri_mem *mem, int64_t n);

/* Counts an allocation; returns true if it must fail. */
bool tri_mem_should_fail(tri_mem *mem);

/*
 * Maps a chunk, which stays the system's, and returns it; its blocks begin
 * TRI_CHUNK_HEADER bytes behind it. NULL without memory or budget. may_be_large:
 * the caller will use a large one up.
 */
tri_chunk *tri_chunk_map(tri_mem *mem, bool may_be_large);

/* Blocks that are larger than any class, aligned to TRI_BLOCK_ALIGN. */
void *tri_big_alloc(tri_mem *mem, size_t size);
void tri_big_free(tri_mem *mem, void *at);

/* Returns zeroed memory for free(), or NULL; tests can let it fail. */
void *tri_mem_calloc(tri_mem *mem, size_t size);

#if !defined(NDEBUG) || defined(TRI_TORTURE)
#define TRI_FAULTS 1
#else
#define TRI_FAULTS 0
#endif

#endif
