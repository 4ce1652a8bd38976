/*
 * slab.h - small blocks of tr_alloc, side by side in pages of one size.
 *
 * A block from malloc has a header of 64 bytes in front of it, which is more
 * than a node of a list. An actor that has many blocks gets small ones from a
 * slab instead: an aligned page with a bit for each block. The slab itself is
 * a block of the actor's heap (heap.h), so it is moved and freed like any other.
 *
 * Invariant: the address of a block in a slab is a multiple of TRI_SLAB_STEP,
 * and that of a block from malloc never is; so an address tells which it is.
 *
 * Threads: the owner of the cell.
 */
#ifndef TRI_CORE_CELL_SLAB_H
#define TRI_CORE_CELL_SLAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/types.h"

enum {
    TRI_SLAB_STEP = 32,    // sizes of blocks are multiples of it
    TRI_SLAB_MAX = 256,    // bytes of the largest block
    TRI_SLAB_SIZE = 4096,  // bytes and alignment of a slab
    TRI_SLAB_FROM = 16,    // blocks from malloc that come first
};

/* True if the memory is in a slab, provided that it is from tr_alloc. */
static inline bool tri_slab_has(const void *memory)
{
    return (uintptr_t)memory % TRI_SLAB_STEP == 0;
}

/*
 * Returns zeroed memory of at most TRI_SLAB_MAX bytes from a slab; NULL if the
 * actor has few blocks, without memory, or above its heap limit: then malloc
 * decides.
 */
void *tri_slab_alloc(tr_ctx *ctx, tri_ext *ext, size_t size);
/*
 * Returns the size of a block, all of which may be read then; 0 if `memory` is
 * no block of this actor.
 */
size_t tri_slab_block_size(const tri_ext *ext, const void *memory);
/* Frees a block of this actor, and its slab if that is empty and not needed. */
void tri_slab_free(tri_ext *ext, void *memory);
/* A slab has become another actor's: nothing is taken from it any more. */
void tri_slab_adopted(tri_heap_block *block);

#endif
