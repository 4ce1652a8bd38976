/*
 * heap.c - the memory of an actor: tr_alloc, tr_on_end, tr_scratch.
 *
 * Invariant: every block of the incarnation is in ext->heap.blocks, and
 * heap.bytes is the sum of their sizes, so a stop or restart frees whatever
 * the actor has not freed. Scratch blocks are in ctx->scratch until the turn
 * ends.
 */
#include "core/cell/heap.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "core/cell/behaviour.h"
#include "core/cell/cache.h"
#include "core/cell/cell.h"
#include "core/cell/ext.h"
#include "core/cell/mem.h"
#include "core/cell/message.h"
#include "core/cell/props.h"
#include "core/cell/slab.h"
#include "core/run/context.h"
#include "core/system.h"
#include "schema/field.h"
#include "schema/pack.h"

_Static_assert(sizeof(tri_heap_block) % 16 == 0, "malloc's alignment");
_Static_assert(sizeof(tri_scratch) % 16 == 0, "malloc's alignment");

static TR_NORETURN void no_memory(tr_ctx *ctx, size_t size)
{
    (tr_panic)(ctx, "tr_alloc", "out of memory: %zu bytes", size);
}

void tri_heap_link(tri_ext *ext, tri_heap_block *block)
{
    TRI_CHECK(!tri_link_is_linked(&block->link));
    tri_list_push_front(&ext->heap.blocks, &block->link);
    block->owner = ext;
    ext->heap.bytes += block->size;
    ext->heap.count++;
}

void tri_heap_unlink(tri_ext *ext, tri_heap_block *block)
{
    TRI_CHECK(tri_link_is_linked(&block->link));
    TRI_CHECK(ext->heap.bytes >= block->size);
    tri_list_remove(&block->link);
    block->owner = NULL;
    ext->heap.bytes -= block->size;
    ext->heap.count--;
}

static TR_NORETURN void not_ours(const char *call)
{
    tr_abort(call, "not memory of this actor: it was freed already, or is "
                   "not from tr_alloc, tr_realloc or tr_dup of this actor");
}

/* Returns the block of `memory`, which is not in a slab; else ends the process
 * if it is not the actor's. */
static tri_heap_block *block_of(tr_ctx *ctx, const char *call, void *memory)
{
    tri_heap_block *block = (tri_heap_block *)memory - 1;
    const tri_ext *ext = tri_ext_of(ctx->cell);
    if ((uintptr_t)memory % 16 != 0 || ext == NULL || block->owner != ext) {
        not_ours(call);
    }
    return block;
}

/* Returns the size of `memory`; ends the process if it is not the actor's. */
static size_t size_of(tr_ctx *ctx, const char *call, void *memory)
{
    if (!tri_slab_has(memory)) {
        return block_of(ctx, call, memory)->size;
    }
    const tri_ext *ext = tri_ext_of(ctx->cell);
    size_t size = ext != NULL ? tri_slab_block_size(ext, memory) : 0;
    if (size == 0) {
        not_ours(call);
    }
    return size;
}

void *tri_heap_alloc(tr_ctx *ctx, size_t size)
{
    TRI_CHECK(ctx->magic == TRI_CTX_MAGIC);
    tri_ext *ext = tri_ext_need(ctx->worker, ctx->cell);
    const tri_props *props = ctx->cell->props;
    if (ext == NULL || size > SIZE_MAX / 2 ||
        (props != NULL && props->heap_limit != 0 &&
         ext->heap.bytes + size > props->heap_limit)) {
        return NULL;
    }
    // Room to move the block by half a step: see the invariant of slab.h.
    char *raw = tri_mem_calloc(&ctx->sys->mem, sizeof(tri_heap_block) +
                                                   TRI_SLAB_STEP / 2 + size);
    if (raw == NULL) {
        return NULL;
    }
    tri_heap_block *block = (tri_heap_block *)(void *)raw;
    if (tri_slab_has(block + 1)) {
        block = (tri_heap_block *)(void *)(raw + TRI_SLAB_STEP / 2);
    }
    block->raw = raw;
    block->size = size;
    tri_heap_link(ext, block);
    return block + 1;
}

void *tr_alloc(tr_ctx *ctx, size_t size)
{
    tri_ext *ext = tri_ext_of(ctx->cell);
    void *at = ext != NULL && size <= TRI_SLAB_MAX
                   ? tri_slab_alloc(ctx, ext, size)
                   : NULL;
    if (at == NULL) {
        at = tri_heap_alloc(ctx, size);
    }
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
    TRI_CHECK(ctx->magic == TRI_CTX_MAGIC);
    size_t before = size_of(ctx, "tr_realloc", old);
    void *at = tr_alloc(ctx, size);
    memcpy(at, old, before < size ? before : size);
    tr_free(ctx, old);
    return at;
}

void tr_free(tr_ctx *ctx, void *memory)
{
    if (memory == NULL) {
        return;
    }
    if (tri_slab_has(memory)) {
        (void)size_of(ctx, "tr_free", memory);
        tri_slab_free(tri_ext_of(ctx->cell), memory);
        return;
    }
    tri_heap_block *block = block_of(ctx, "tr_free", memory);
    tri_heap_unlink(tri_ext_of(ctx->cell), block);
    free(block->raw);
}

char *tr_dup(tr_ctx *ctx, const char *text)
{
    TRI_CHECK(text != NULL);
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

bool tri_closer_add(tr_ctx *ctx, void (*close)(void *object), void *object)
{
    TRI_CHECK(ctx->magic == TRI_CTX_MAGIC && close != NULL);
    tri_ext *ext = tri_ext_need(ctx->worker, ctx->cell);
    tri_closer *closer =
        ext != NULL ? tri_mem_calloc(&ctx->sys->mem, sizeof(*closer)) : NULL;
    if (closer == NULL) {
        return false;
    }
    *closer = (tri_closer){ext->heap.closers, close, object};
    ext->heap.closers = closer;
    return true;
}

bool tri_closer_remove(tri_cell *cell, const void *object)
{
    tri_cell_assert_owned(cell);
    tri_ext *ext = tri_ext_of(cell);
    tri_closer **link = ext != NULL ? &ext->heap.closers : NULL;
    while (link != NULL && *link != NULL) {
        tri_closer *closer = *link;
        if (closer->object == object) {
            *link = closer->next;
            free(closer);
            return true;
        }
        link = &closer->next;
    }
    return false;
}

void tr_on_end(tr_ctx *ctx, void (*end)(void *object), void *object)
{
    if (!tri_closer_add(ctx, end, object)) {
        end(object);  // the call has taken the object on every path
        no_memory(ctx, sizeof(tri_closer));
    }
}

static void run_closers(tri_ext *ext)
{
    while (ext->heap.closers != NULL) {
        tri_closer *closer = ext->heap.closers;
        ext->heap.closers = closer->next;
        closer->close(closer->object);
        free(closer);
    }
}

void tri_heap_release(tri_cell *cell)
{
    tri_ext *ext = tri_ext_of(cell);
    TRI_CHECK(ext != NULL);
    TRI_CHECK_SLOW(tri_cell_is_owned(cell));
    run_closers(ext);
    while (ext->stored.holdings != NULL) {
        tri_holding *holding = ext->stored.holdings;
        ext->stored.holdings = holding->next;
        tri_pack_release(holding->type, holding->value);
    }
    tri_list blocks = {};
    tri_heap_take(cell, &blocks);
    tri_heap_free(&blocks);
}

void tri_heap_take(tri_cell *cell, tri_list *out)
{
    tri_ext *ext = tri_ext_of(cell);
    if (ext != NULL) {
        tri_list_move(out, &ext->heap.blocks);
        ext->heap.bytes = 0;
        ext->heap.count = 0;
        ext->heap.slabs = NULL;
    }
}

void tri_heap_adopt(tri_ext *ext, tri_list *blocks)
{
    tri_link *link;
    while ((link = tri_list_pop_front(blocks)) != NULL) {
        tri_heap_block *block = tri_list_item(link, tri_heap_block, link);
        tri_heap_link(ext, block);
        if (block->raw == NULL) {
            tri_slab_adopted(block);
        }
    }
}

void tri_heap_free(tri_list *blocks)
{
    tri_link *link;
    while ((link = tri_list_pop_front(blocks)) != NULL) {
        tri_heap_block *block = tri_list_item(link, tri_heap_block, link);
        free(block->raw != NULL ? block->raw : block);
    }
}

/* ---- the check that a state does not point into a message ---- */

/* The memory of a message. */
typedef struct range {
    uintptr_t first, end;
} range;

static range range_of(const tr_msg *msg)
{
    uintptr_t first = (uintptr_t)msg;
    size_t size = msg->item.klass < TRI_CLASS_COUNT
                      ? tri_class_size[msg->item.klass]
                      : sizeof(*msg) + msg->item.type->size;
    return (range){first, first + size};
}

static const tr_field *find_borrowed(const tr_type *type, const char *value,
                                     range message);

/* True if the field at `at` points into the message. */
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
    case TR_KIND_ARRAY:  // the value begins with the pointer
        memcpy(&points_to, at, sizeof(points_to));
        return points_to >= message.first && points_to < message.end;
    default:
        return false;
    }
}

/* Returns the first field that points into the message, or NULL. */
static const tr_field *find_borrowed(const tr_type *type, const char *value,
                                     range message)
{
    TRI_CHECK(type != NULL);
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
                 def->state->name, field->name, msg->item.type->name);
        tr_abort(def->name, text);
    }
}
