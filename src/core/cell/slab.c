/*
 * slab.c - small blocks of tr_alloc, side by side in pages of one size.
 *
 * Invariant: a slab that has room is in tri_slabs.open of its actor, unless it
 * came with the memory of a joined actor; then it is only emptied.
 */
#include "core/cell/slab.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "core/cell/cell.h"
#include "core/cell/ext.h"
#include "core/cell/heap.h"
#include "core/cell/mem.h"
#include "core/cell/props.h"
#include "core/run/context.h"
#include "core/system.h"

#define SLAB_MAGIC UINT64_C(0x7472736c61623031)

enum { CLASSES = TRI_SLAB_MAX / TRI_SLAB_STEP, WORDS = 2, HEAD = 128 };

typedef struct slab {
    tri_heap_block block;  // in tri_heap.blocks; its `raw` is NULL
    tri_link open;         // in tri_slabs.open
    uint64_t magic;
    uint64_t free[WORDS];  // a bit for each block that is free
    uint32_t block_size;
    uint32_t count, used;  // blocks in all, and those that are not free
} slab;

/* The slabs with room, by size. A block of the actor's heap. */
struct tri_slabs {
    tri_list open[CLASSES];  // slab.open
};

_Static_assert(sizeof(slab) <= HEAD && HEAD % TRI_SLAB_STEP == 0, "head");
_Static_assert((TRI_SLAB_SIZE - HEAD) / TRI_SLAB_STEP <= 64 * WORDS, "bits");

/* ---- what AddressSanitizer knows, in a program that is built with it ---- */

#pragma weak __asan_poison_memory_region
#pragma weak __asan_unpoison_memory_region
void __asan_poison_memory_region(void const volatile *at, size_t size);
void __asan_unpoison_memory_region(void const volatile *at, size_t size);

static void forbid(void *at, size_t size)
{
    if (__asan_poison_memory_region != NULL) {
        __asan_poison_memory_region(at, size);
    }
}

static void allow(void *at, size_t size)
{
    if (__asan_unpoison_memory_region != NULL) {
        __asan_unpoison_memory_region(at, size);
    }
}

/* ---- one slab ---- */

static slab *slab_of(const void *memory)
{
    return (slab *)((uintptr_t)memory & ~(uintptr_t)(TRI_SLAB_SIZE - 1));
}

static void *block_at(slab *it, uint32_t index)
{
    TRI_CHECK(index < it->count);
    return (char *)it + HEAD + (size_t)index * it->block_size;
}

/* Returns a slab, whose blocks are all free; NULL without memory. */
static slab *slab_new(tr_ctx *ctx, tri_ext *ext, uint32_t block_size)
{
    tri_mem *mem = &ctx->sys->mem;
    const tri_props *props = ctx->cell->props;
    if ((props != NULL && props->heap_limit != 0 &&
         ext->heap.bytes + TRI_SLAB_SIZE > props->heap_limit) ||
        tri_mem_should_fail(mem)) {
        return NULL;
    }
    slab *it = aligned_alloc(TRI_SLAB_SIZE, TRI_SLAB_SIZE);
    if (it == NULL) {
        return NULL;
    }
    memset(it, 0, sizeof(*it));
    it->magic = SLAB_MAGIC;
    it->block_size = block_size;
    it->count = (TRI_SLAB_SIZE - HEAD) / block_size;
    for (uint32_t i = 0; i < it->count; i++) {
        it->free[i / 64] |= UINT64_C(1) << (i % 64);
    }
    it->block.size = TRI_SLAB_SIZE;
    tri_heap_link(ext, &it->block);
    forbid((char *)it + HEAD, TRI_SLAB_SIZE - HEAD);
    return it;
}

static void slab_free(tri_ext *ext, slab *it)
{
    TRI_CHECK(it->used == 0);
    if (tri_link_is_linked(&it->open)) {
        tri_list_remove(&it->open);
    }
    tri_heap_unlink(ext, &it->block);
    it->magic = 0;
    allow(it, TRI_SLAB_SIZE);
    free(it);
}

/* ---- the slabs of an actor ---- */

/* Returns the list of slabs with room for blocks of that size. */
static tri_list *open_of(struct tri_slabs *slabs, uint32_t block_size)
{
    TRI_CHECK(block_size >= TRI_SLAB_STEP && block_size <= TRI_SLAB_MAX);
    return &slabs->open[block_size / TRI_SLAB_STEP - 1];
}

/* Returns a slab with room, or NULL. */
static slab *slab_with_room(tr_ctx *ctx, tri_ext *ext, uint32_t block_size)
{
    if (ext->heap.slabs == NULL) {
        ext->heap.slabs = tri_heap_alloc(ctx, sizeof(*ext->heap.slabs));
    }
    if (ext->heap.slabs == NULL) {
        return NULL;
    }
    tri_list *open = open_of(ext->heap.slabs, block_size);
    if (!tri_list_is_empty(open)) {
        return tri_list_item(tri_list_first(open), slab, open);
    }
    slab *it = slab_new(ctx, ext, block_size);
    if (it != NULL) {
        tri_list_push_front(open, &it->open);
    }
    return it;
}

void *tri_slab_alloc(tr_ctx *ctx, tri_ext *ext, size_t size)
{
    TRI_CHECK(size <= TRI_SLAB_MAX);
    if (ext->heap.slabs == NULL && ext->heap.count < TRI_SLAB_FROM) {
        return NULL;
    }
    uint32_t block_size =
        size == 0 ? TRI_SLAB_STEP
                  : (uint32_t)((size + TRI_SLAB_STEP - 1) & -TRI_SLAB_STEP);
    slab *it = slab_with_room(ctx, ext, block_size);
    if (it == NULL) {
        return NULL;
    }
    uint32_t word = it->free[0] != 0 ? 0 : 1;
    uint32_t bit = (uint32_t)__builtin_ctzll(it->free[word]);
    it->free[word] &= it->free[word] - 1;
    if (++it->used == it->count) {
        tri_list_remove(&it->open);
    }
    void *memory = block_at(it, word * 64 + bit);
    allow(memory, size);
    return memset(memory, 0, size);
}

/* Returns the number of a block, or UINT32_MAX if there is none. */
static uint32_t index_of(const tri_ext *ext, const void *memory)
{
    const slab *it = slab_of(memory);
    size_t offset = (uintptr_t)memory % TRI_SLAB_SIZE;
    if (it->magic != SLAB_MAGIC || it->block.owner != ext || offset < HEAD ||
        (offset - HEAD) % it->block_size != 0) {
        return UINT32_MAX;
    }
    uint32_t index = (uint32_t)((offset - HEAD) / it->block_size);
    bool is_used =
        index < it->count && (it->free[index / 64] >> (index % 64) & 1) == 0;
    return is_used ? index : UINT32_MAX;
}

size_t tri_slab_block_size(const tri_ext *ext, const void *memory)
{
    TRI_CHECK(tri_slab_has(memory));
    if (index_of(ext, memory) == UINT32_MAX) {
        return 0;
    }
    allow((void *)(uintptr_t)memory, slab_of(memory)->block_size);
    return slab_of(memory)->block_size;
}

void tri_slab_free(tri_ext *ext, void *memory)
{
    slab *it = slab_of(memory);
    uint32_t index = index_of(ext, memory);
    TRI_CHECK(index != UINT32_MAX);
    it->free[index / 64] |= UINT64_C(1) << (index % 64);
    it->used--;
    forbid(memory, it->block_size);
    tri_list *open = ext->heap.slabs != NULL
                         ? open_of(ext->heap.slabs, it->block_size)
                         : NULL;
    if (open != NULL && !tri_link_is_linked(&it->open)) {
        tri_list_push_back(open, &it->open);
    }
    // One slab stays: the next block of this size is likely to come.
    bool is_last = open != NULL && tri_list_first(open) == tri_list_last(open);
    if (it->used == 0 && !is_last) {
        slab_free(ext, it);
    }
}

void tri_slab_adopted(tri_heap_block *block)
{
    slab *it = tri_container_of(block, slab, block);
    TRI_CHECK(it->magic == SLAB_MAGIC);
    tri_link_init(&it->open);
}
