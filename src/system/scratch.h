/*
 * scratch.h - scratch memory of a turn that fails instead of panicking, and
 * that can be given back before the turn ends.
 *
 * Threads: the turn itself.
 */
#ifndef TRI_SYSTEM_SCRATCH_H
#define TRI_SYSTEM_SCRATCH_H

#include <stddef.h>

#include "core/types.h"
#include "schema/allocator.h"
#include "troupe/base.h"

/* Allocates zeroed scratch; NULL without memory. */
void *tri_scratch_alloc(tr_ctx *ctx, size_t size);
/* Returns an allocator over the turn's scratch. */
tri_allocator tri_scratch_allocator(tr_ctx *ctx);
/*
 * Makes scratch release the blobs of a value that was read into it. The
 * value's other memory is older scratch, and so is freed later.
 * Errors: TR_ENOMEM; then the blobs are released already.
 */
TR_NODISCARD tr_err tri_scratch_hold(tr_ctx *ctx, const tr_type *type,
                                     void *value);
/* Frees all scratch that is newer than `mark`, an earlier ctx->scratch. */
void tri_scratch_rewind(tr_ctx *ctx, const tri_scratch *mark);

#endif
