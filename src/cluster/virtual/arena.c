/*
 * arena.c - memory that is handed out piece by piece and freed as a whole.
 *
 * Invariant: only the first block of the list has room that may be handed out,
 * and used <= size in every block. The lock is held for a few instructions
 * only: a new block is mapped before the lock is taken again, and unmapped if
 * another thread has added one in between.
 */
#include "cluster/virtual/arena.h"

#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "base/pages.h"

enum {
    FIRST_SIZE = 256 << 10,
    LARGE_SIZE = 8 << 20,  // all blocks after the first: with huge pages
    ALIGN = TRI_CACHE_LINE,
};

typedef struct tri_arena_block {
    struct tri_arena_block *next;
    size_t used, size;
} tri_arena_block;

_Static_assert(sizeof(tri_arena_block) <= ALIGN, "pieces begin behind it");

/* Takes a piece of the first block; NULL: it has no room. With the lock. */
static inline void *take_piece(tri_arena *arena, size_t size)
{
    TRI_CHECK_SLOW(tri_lock_is_held(&arena->lock));
    tri_arena_block *block = arena->blocks;
    if (block == NULL || block->size - block->used < size) {
        return NULL;
    }
    void *piece = (char *)block + block->used;
    block->used += size;
    return piece;
}

static tri_arena_block *map_block(size_t size)
{
    tri_arena_block *block = tri_pages_map(size);
    if (block != NULL) {
        if (size == LARGE_SIZE) {
            tri_pages_huge(block, size);
        }
        *block = (tri_arena_block){.used = ALIGN, .size = size};
    }
    return block;
}

/* Maps a block and takes the piece from it, or from another thread's block. */
static __attribute__((noinline)) void *take_from_new_block(tri_arena *arena,
                                                           size_t size,
                                                           bool first)
{
    tri_arena_block *block = map_block(first ? FIRST_SIZE : LARGE_SIZE);
    if (block == NULL) {
        return NULL;
    }
    tri_lock_take(&arena->lock);
    void *piece = take_piece(arena, size);  // another thread may have added one
    if (piece == NULL) {
        block->next = arena->blocks;
        arena->blocks = block;
        block = NULL;
        piece = take_piece(arena, size);
    }
    tri_lock_drop(&arena->lock);
    if (block != NULL) {
        tri_pages_unmap(block, block->size);
    }
    return piece;
}

void *tri_arena_alloc(tri_arena *arena, tri_mem *mem, size_t size)
{
    TRI_CHECK(arena != NULL && mem != NULL);
    TRI_CHECK(size > 0 && size <= FIRST_SIZE - ALIGN);
    if (tri_mem_should_fail(mem)) {
        return NULL;
    }
    tri_lock_take(&arena->lock);
    void *piece = take_piece(arena, size);
    bool first = arena->blocks == NULL;
    tri_lock_drop(&arena->lock);
    return piece != NULL ? piece : take_from_new_block(arena, size, first);
}

void *tri_arena_alloc_aligned(tri_arena *arena, tri_mem *mem, size_t size)
{
    void *piece =
        tri_arena_alloc(arena, mem, (size + ALIGN - 1) & ~(size_t)(ALIGN - 1));
    TRI_CHECK((uintptr_t)piece % ALIGN == 0);
    return piece;
}

void tri_arena_fini(tri_arena *arena)
{
    TRI_CHECK(arena != NULL);
    while (arena->blocks != NULL) {
        tri_arena_block *block = arena->blocks;
        TRI_CHECK(block->used <= block->size);
        arena->blocks = block->next;
        tri_pages_unmap(block, block->size);
    }
}
