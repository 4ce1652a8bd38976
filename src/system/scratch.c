/*
 * scratch.c - scratch memory of a turn that fails instead of panicking, and
 * that can be given back before the turn ends: a replay frees it page by page.
 */
#include "system/scratch.h"

#include <string.h>

#include "base/check.h"
#include "core/cell/heap.h"
#include "core/cell/mem.h"
#include "core/run/context.h"
#include "core/system.h"
#include "schema/allocator.h"
#include "schema/pack.h"
#include "troupe/message.h"

void *tri_scratch_alloc(tr_ctx *ctx, size_t size)
{
    TRI_CHECK(ctx->magic == TRI_CTX_MAGIC);
    tri_scratch *block = tri_mem_calloc(&ctx->sys->mem, sizeof(*block) + size);
    if (block == NULL) {
        return NULL;
    }
    block->next = ctx->scratch;
    ctx->scratch = block;
    ctx->flags |= TRI_CTX_SCRATCH;
    return block + 1;
}

static void *alloc(void *user, size_t size)
{
    return tri_scratch_alloc(user, size);
}

tri_allocator tri_scratch_allocator(tr_ctx *ctx)
{
    return (tri_allocator){.alloc = alloc, .user = ctx};
}

tr_err tri_scratch_hold(tr_ctx *ctx, const tr_type *type, void *value)
{
    TRI_CHECK(value != NULL);
    if (!tri_pack_has_blobs(type)) {
        return TR_OK;
    }
    void *copy = tri_scratch_alloc(ctx, type->size);
    if (copy == NULL) {
        tri_pack_release(type, value);
        return TR_ENOMEM;
    }
    memcpy(copy, value, type->size);
    ctx->scratch->holds = type;
    return TR_OK;
}

void tri_scratch_rewind(tr_ctx *ctx, const tri_scratch *mark)
{
    while (ctx->scratch != mark) {
        TRI_CHECK(ctx->scratch != NULL);  // the mark is part of the list
        tri_scratch *next = ctx->scratch->next;
        tri_scratch_free(ctx->scratch);
        ctx->scratch = next;
    }
}
