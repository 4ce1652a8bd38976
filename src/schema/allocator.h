/*
 * allocator.h - allocates the pieces of a value.
 *
 * A value may belong to a caller, who ends it with tr_drop, to an actor's heap,
 * or to a test that makes the n-th allocation fail. A tri_allocator tells where
 * its pieces come from; NULL stands for malloc and free everywhere.
 *
 * Threads: those that its functions allow.
 */
#ifndef TRI_SCHEMA_ALLOCATOR_H
#define TRI_SCHEMA_ALLOCATOR_H

#include <stddef.h>
#include <stdlib.h>

#include "base/check.h"

typedef struct tri_allocator {
    /* Returns size (not 0) bytes, aligned for any field, or NULL. */
    void *(*alloc)(void *user, size_t size);
    /* Frees a piece. NULL: the owner frees all pieces at once, as a heap. */
    void (*release)(void *user, void *at);
    /* Allocates the body of a blob, which `free` ends. NULL: malloc. */
    void *(*alloc_shared)(void *user, size_t size);
    void *user;
} tri_allocator;

/* Allocates a piece. Returns NULL if memory is short. */
static inline void *tri_piece_alloc(const tri_allocator *mem, size_t size)
{
    TRI_CHECK_SLOW(size > 0);
    return mem == NULL ? malloc(size) : mem->alloc(mem->user, size);
}

/* Allocates the body of a blob. Returns NULL if memory is short. */
static inline void *tri_piece_alloc_shared(const tri_allocator *mem,
                                           size_t size)
{
    if (mem == NULL || mem->alloc_shared == NULL) return malloc(size);
    return mem->alloc_shared(mem->user, size);
}

/* Frees a piece; does nothing for NULL. */
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
