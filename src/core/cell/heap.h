/*
 * heap.h - the memory of an actor: its heap, what to close at its end, and
 * scratch memory of a turn.
 *
 * Threads: the owner of the cell.
 */
#ifndef TRI_CORE_CELL_HEAP_H
#define TRI_CORE_CELL_HEAP_H

#include "base/list.h"
#include "core/types.h"

/* In front of each block from malloc, and at the beginning of a slab. */
typedef struct tri_heap_block {
    tri_link link;  // in tri_heap.blocks
    size_t size;
    struct tri_heap_block *text_next;  // in tri_persisted.texts
    const tri_ext *owner;  // the actor's; NULL: freed, or in no heap
    void *raw;             // what malloc has returned; NULL: a slab (slab.h)
} tri_heap_block;

/* A call of tr_on_end. */
typedef struct tri_closer {
    struct tri_closer *next;
    void (*close)(void *object);
    void *object;
} tri_closer;

/*
 * As tr_on_end, but returns false without memory; the object then stays the
 * caller's.
 */
bool tri_closer_add(tr_ctx *ctx, void (*close)(void *object), void *object);
/* Takes the newest closer of the object back. False: there is none. */
bool tri_closer_remove(tri_cell *cell, const void *object);

/*
 * As tr_alloc, but returns NULL without memory, or above the heap limit. The
 * memory has a tri_heap_block in front of it.
 */
void *tri_heap_alloc(tr_ctx *ctx, size_t size);

/* Adds a block to the actor's heap, or takes it out. */
void tri_heap_link(tri_ext *ext, tri_heap_block *block);
void tri_heap_unlink(tri_ext *ext, tri_heap_block *block);

/*
 * Aborts if the state points into the message, which is about to be freed.
 * In debug builds, after each handler.
 */
void tri_state_check(tr_ctx *ctx, const tr_msg *msg);

/* Frees one block of tr_scratch. */
void tri_scratch_free(tri_scratch *block);

/*
 * Runs the closers, newest first, and frees all blocks: the incarnation is
 * over. The cell has an extension.
 */
void tri_heap_release(tri_cell *cell);

/* Moves all blocks to the end of *out, so that they outlive the actor. */
void tri_heap_take(tri_cell *cell, tri_list *out);

/* Moves the blocks into the actor's heap. */
void tri_heap_adopt(tri_ext *ext, tri_list *blocks);

/* Frees the blocks of the list. */
void tri_heap_free(tri_list *blocks);

#endif
