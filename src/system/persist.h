/*
 * persist.h - the stored state of an actor, and the memory it points to.
 *
 * Threads: a turn of the actor.
 */
#ifndef TRI_SYSTEM_PERSIST_H
#define TRI_SYSTEM_PERSIST_H

#include "core/cell/ext.h"
#include "core/cell/heap.h"
#include "schema/allocator.h"
#include "troupe/base.h"

/* The memory that one state points to: blocks of the actor's heap. */
typedef struct tri_texts {
    tr_ctx *ctx;
    tri_heap_block *first;
    tri_holding *holding;  // keeps the state's blobs, or NULL
} tri_texts;

/* Returns an allocator over the actor's heap that adds to the texts. */
tri_allocator tri_texts_allocator(tri_texts *texts);
/*
 * Takes over the blobs of *made; `texts` has the rest of the memory that *made
 * points to. The blobs are released by tri_texts_free or at the end of the
 * incarnation. Errors: TR_ENOMEM (the blobs are released).
 */
TR_NODISCARD tr_err tri_texts_hold(tri_texts *texts, const tr_type *type,
                                   void *made);
/* Frees the texts and releases the blobs. */
void tri_texts_free(tri_texts *texts);

/* Makes *made, which these texts belong to, the state; frees the old texts. */
void tri_state_take(tri_texts *texts, const tr_type *type, void *self,
                    const void *made);
/* Returns the schema of the actor's state, or NULL if it has none. */
const tr_type *tri_state_type(tr_ctx *ctx);
/*
 * Loads the state of an actor that starts. If nothing is stored yet, *self
 * stays as it is. Errors: TR_ENOMEM, TR_ESTORAGE, TR_EINVAL, TR_ELIMIT, the
 * store's, or any that end a wait early.
 */
tr_err tri_state_load(tr_ctx *ctx, void *self);

#endif
