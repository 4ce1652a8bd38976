/*
 * allocator.h - where a value's pieces come from.
 *
 * Values are made for different owners: for a caller who ends them with
 * tr_drop, for an actor's heap, for a test that lets the n-th allocation fail.
 * A tri_allocator names it. NULL stands for malloc and free everywhere.
 *
 * Threads: as its user's.
 */
#ifndef TRI_SCHEMA_ALLOCATOR_H
#define TRI_SCHEMA_ALLOCATOR_H

#include <stddef.h>
#include <stdlib.h>

typedef struct tri_allocator {
    /* Returns size bytes aligned for any field, or NULL. size is not 0. */
    void *(*alloc)(void *user, size_t size);
    /* Gives one back. NULL: the owner frees all at once, as a heap does. */
    void (*release)(void *user, void *at);
    /* For the bodies of blobs, which end with free. NULL: malloc. */
    void *(*alloc_shared)(void *user, size_t size);
    void *user;
} tri_allocator;

static inline void *tri_piece_alloc(const tri_allocator *mem, size_t size)
{
    return mem == NULL ? malloc(size) : mem->alloc(mem->user, size);
}

static inline void *tri_piece_alloc_shared(const tri_allocator *mem,
                                           size_t size)
{
    if (mem == NULL || mem->alloc_shared == NULL) return malloc(size);
    return mem->alloc_shared(mem->user, size);
}

static inline void tri_piece_release(const tri_allocator *mem, const void *at)
{
    if (at == NULL) return;
    if (mem == NULL) {
        free((void *)at);
    } else if (mem->release != NULL) {
        mem->release(mem->user, (void *)at);
    }
}

#endif
