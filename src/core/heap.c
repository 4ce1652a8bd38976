/*
 * heap.c - the memory an actor owns: heap, closers, scratch.
 *
 * Blocks are chained, so that stop and restart release whatever the actor
 * has not; closers run newest first.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/lifecycle.h"
#include "schema/pack.h"

_Static_assert(sizeof(tri_heap_block) % 16 == 0, "malloc's alignment");
_Static_assert(sizeof(tri_scratch) % 16 == 0, "malloc's alignment");

static TR_NORETURN void no_memory(tr_ctx *ctx, size_t size)
{
    (tr_panic)(ctx, "tr_alloc", "out of memory: %zu bytes", size);
}

static void block_link(tri_ext *ext, tri_heap_block *block)
{
    block->prev = NULL;
    block->next = ext->heap;
    if (ext->heap != NULL) {
        ext->heap->prev = block;
    }
    ext->heap = block;
    ext->heap_bytes += block->size;
}

static void block_unlink(tri_ext *ext, tri_heap_block *block)
{
    if (block->prev != NULL) {
        block->prev->next = block->next;
    } else {
        ext->heap = block->next;
    }
    if (block->next != NULL) {
        block->next->prev = block->prev;
    }
    ext->heap_bytes -= block->size;
}

void *tri_heap_alloc(tr_ctx *ctx, size_t size)
{
    tri_ext *ext = tri_ext_need(ctx->worker, ctx->cell);
    const tri_props *props = ctx->cell->props;
    if (ext == NULL || size > SIZE_MAX / 2 ||
        (props != NULL && props->heap_limit != 0 &&
         ext->heap_bytes + size > props->heap_limit)) {
        return NULL;
    }
    tri_heap_block *block =
        tri_mem_calloc(&ctx->sys->mem, sizeof(*block) + size);
    if (block == NULL) {
        return NULL;
    }
    block->size = size;
    block_link(ext, block);
    return block + 1;
}

void *tr_alloc(tr_ctx *ctx, size_t size)
{
    void *at = tri_heap_alloc(ctx, size);
    if (at == NULL) {
        no_memory(ctx, size);
    }
    return at;
}

void *tr_realloc(tr_ctx *ctx, void *old, size_t size)
{
    if (old == NULL) {
        return tr_alloc(ctx, size);
    }
    tri_heap_block *block = (tri_heap_block *)old - 1;
    void *at = tr_alloc(ctx, size);
    memcpy(at, old, block->size < size ? block->size : size);
    tr_free(ctx, old);
    return at;
}

void tr_free(tr_ctx *ctx, void *memory)
{
    if (memory != NULL) {
        tri_heap_block *block = (tri_heap_block *)memory - 1;
        block_unlink(tri_ext_of(ctx->cell), block);
        free(block);
    }
}

char *tr_dup(tr_ctx *ctx, const char *text)
{
    size_t size = strlen(text) + 1;
    return memcpy(tr_alloc(ctx, size), text, size);
}

void *tr_scratch(tr_ctx *ctx, size_t size)
{
    TRI_CHECK(ctx->in_turn);
    tri_scratch *block =
        size > SIZE_MAX / 2
            ? NULL
            : tri_mem_calloc(&ctx->sys->mem, sizeof(*block) + size);
    if (block == NULL) {
        no_memory(ctx, size);
    }
    block->next = ctx->scratch;
    ctx->scratch = block;
    ctx->flags |= TRI_CTX_SCRATCH;
    return block + 1;
}

void tri_scratch_free(tri_scratch *block)
{
    if (block->holds != NULL) {
        tri_pack_release(block->holds, block + 1);
    }
    free(block);
}

char *tr_textf(tr_ctx *ctx, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    size_t size = length < 0 ? 1 : (size_t)length + 1;
    char *text = tr_scratch(ctx, size);
    vsnprintf(text, size, format, again);
    va_end(again);
    return text;
}

void tr_on_end(tr_ctx *ctx, void (*end)(void *object), void *object)
{
    tri_ext *ext = tri_ext_need(ctx->worker, ctx->cell);
    tri_closer *closer =
        ext != NULL ? tri_mem_calloc(&ctx->sys->mem, sizeof(*closer)) : NULL;
    if (closer == NULL) {
        end(object);  // it is ours already: nothing may leak
        no_memory(ctx, sizeof(*closer));
    }
    *closer = (tri_closer){ext->closers, end, object};
    ext->closers = closer;
}

void tri_heap_release(tri_worker *worker, tri_cell *cell)
{
    (void)worker;
    tri_ext *ext = tri_ext_of(cell);
    while (ext->closers != NULL) {
        tri_closer *closer = ext->closers;
        ext->closers = closer->next;
        closer->close(closer->object);
        free(closer);
    }
    while (ext->holdings != NULL) {
        tri_holding *holding = ext->holdings;
        ext->holdings = holding->next;
        tri_pack_release(holding->type, holding->value);
    }
    tri_heap_free(tri_heap_take(cell));
}

tri_heap_block *tri_heap_take(tri_cell *cell)
{
    tri_ext *ext = tri_ext_of(cell);
    tri_heap_block *heap = ext != NULL ? ext->heap : NULL;
    if (heap != NULL) {
        ext->heap = NULL;
        ext->heap_bytes = 0;
    }
    return heap;
}

void tri_heap_adopt(tri_ext *ext, tri_heap_block *heap)
{
    while (heap != NULL) {
        tri_heap_block *next = heap->next;
        block_link(ext, heap);
        heap = next;
    }
}

void tri_heap_free(tri_heap_block *heap)
{
    while (heap != NULL) {
        tri_heap_block *next = heap->next;
        free(heap);
        heap = next;
    }
}

/* ---- what must not be kept ---- */

typedef struct range {
    uintptr_t first, end;
} range;

static range range_of(const tr_msg *msg)
{
    uintptr_t first = (uintptr_t)msg;
    size_t size = msg->node.klass < TRI_CLASS_COUNT
                      ? tri_class_size[msg->node.klass]
                      : sizeof(*msg) + msg->node.type->size;
    return (range){first, first + size};
}

static const tr_field *find_borrowed(const tr_type *type, const char *value,
                                     range message);

static bool is_borrowed(const tr_field *field, const char *at, range message)
{
    uintptr_t points_to;
    tr_field optional;
    switch (field->kind) {
    case TR_KIND_NESTED:
        return find_borrowed(field->type, at, message) != NULL;
    case TR_KIND_OPTIONAL:
        optional = tri_field_element(field);
        return tri_optional_has(&optional, at) &&
               is_borrowed(&optional, at, message);
    case TR_KIND_TEXT:
    case TR_KIND_BYTES:
    case TR_KIND_LIST:
    case TR_KIND_ARRAY:  // all of them begin with the pointer
        memcpy(&points_to, at, sizeof(points_to));
        return points_to >= message.first && points_to < message.end;
    default:
        return false;
    }
}

/* The first field that points into the message, or NULL. */
static const tr_field *find_borrowed(const tr_type *type, const char *value,
                                     range message)
{
    for (uint32_t i = 0; i < type->field_count; i++) {
        const tr_field *field = &type->fields[i];
        if (is_borrowed(field, value + field->offset, message)) {
            return field;
        }
    }
    return NULL;
}

void tri_state_check(tr_ctx *ctx, const tr_msg *msg)
{
    const tr_actor_def *def = tri_cell_behaviour(ctx->cell)->def;
    if (def->state == NULL || def->state->var_count == 0 ||
        ctx->cell->state == NULL) {
        return;
    }
    const tr_field *field =
        find_borrowed(def->state, ctx->cell->state, range_of(msg));
    if (field != NULL) {
        char text[256];
        snprintf(text, sizeof(text),
                 "%s.%s points into the %s that has just been handled: "
                 "tr_dup copies it",
                 def->state->name, field->name, msg->node.type->name);
        tr_abort(def->name, text);
    }
}
