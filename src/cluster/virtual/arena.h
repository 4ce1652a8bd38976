/*
 * arena.h - memory that is handed out piece by piece and freed as a whole.
 *
 * Records of virtual actors and their names live as long as the system, so
 * they need no free.
 *
 * Threads: any. Memory is mapped and unmapped without the lock.
 */
#ifndef TRI_CLUSTER_ARENA_H
#define TRI_CLUSTER_ARENA_H

#include <stddef.h>

#include "base/lock.h"
#include "core/cell/mem.h"

struct tri_arena_block;

/* All zero is empty. */
typedef struct tri_arena {
    tri_lock lock;
    struct tri_arena_block *blocks;  // the newest first; pieces come from it
} tri_arena;

/*
 * Returns `size` bytes, all zero, or NULL without memory. Pieces follow each
 * other without gaps, so they are not aligned.
 */
void *tri_arena_alloc(tri_arena *arena, tri_mem *mem, size_t size);
/*
 * As tri_arena_alloc, but aligned to a cache line. An arena is used with one of
 * the two functions only.
 */
void *tri_arena_alloc_aligned(tri_arena *arena, tri_mem *mem, size_t size);
/* Unmaps all of it. No other thread uses the arena. */
void tri_arena_fini(tri_arena *arena);

#endif
