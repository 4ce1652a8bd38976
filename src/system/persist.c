/*
 * persist.c - state that survives: loading it at start, saving it in a turn.
 *
 * The state is stored under `namespace::kind/key` (store_request.h), as JSON
 * or in the form of its serializer (schema/stored.h). A save names the version
 * it replaces, so a second writer is detected. *self changes only when the
 * store has confirmed the save. The state of an actor with TR_APPLY is made of
 * events instead: sourcing.c.
 *
 * The text of a state is in the actor's heap, in blocks that are chained
 * through ext->stored.texts. A new state has its own; those of the old one are freed
 * after it. Its blobs are released through a copy of the struct as it was made
 * (tri_holding), whatever the actor writes into *self later. ext->stored.holdings
 * lists all of them, so that the end of the incarnation releases them even if
 * a turn that waits for the store never comes back.
 */
#include "system/persist.h"

#include <string.h>

#include "base/check.h"
#include "core/ask/error_text.h"
#include "core/caller.h"
#include "core/cell/behaviour.h"
#include "core/cell/cell.h"
#include "core/cell/ext.h"
#include "core/cell/heap.h"
#include "core/cell/mem.h"
#include "core/cell/props.h"
#include "core/run/context.h"
#include "core/system.h"
#include "core/types.h"
#include "core/up.h"
#include "schema/allocator.h"
#include "schema/codec.h"
#include "schema/pack.h"
#include "schema/stored.h"
#include "schema/value.h"
#include "storage/store_op.h"
#include "system/reminders.h"
#include "system/sourcing_replay.h"
#include "system/store_request.h"
#include "system/stored_form.h"
#include "system/stores.h"
#include "troupe/storage.h"

/* ---- text and blobs of the state ---- */

static void *text_alloc(void *user, size_t size)
{
    tri_texts *texts = user;
    void *at = tri_heap_alloc(texts->ctx, size);
    if (at != NULL) {
        tri_heap_block *block = (tri_heap_block *)at - 1;
        block->text_next = texts->first;
        texts->first = block;
    }
    return at;
}

tri_allocator tri_texts_allocator(tri_texts *texts)
{
    return (tri_allocator){.alloc = text_alloc, .user = texts};
}

tr_err tri_texts_hold(tri_texts *texts, const tr_type *type, void *made)
{
    TRI_CHECK(texts->holding == NULL);
    tri_ext *ext = tri_ext_of(texts->ctx->cell);
    if (!tri_pack_has_blobs(type)) {
        return TR_OK;
    }
    tri_holding *holding = text_alloc(texts, sizeof(*holding) + type->size);
    if (holding == NULL) {
        tri_pack_release(type, made);
        return TR_ENOMEM;
    }
    *holding = (tri_holding){.next = ext->stored.holdings,
                             .link = &ext->stored.holdings,
                             .type = type};
    memcpy(holding->value, made, type->size);
    if (ext->stored.holdings != NULL) {
        ext->stored.holdings->link = &holding->next;
    }
    ext->stored.holdings = holding;
    texts->holding = holding;
    return TR_OK;
}

static void holding_free(tri_holding *holding)
{
    *holding->link = holding->next;
    if (holding->next != NULL) {
        holding->next->link = holding->link;
    }
    tri_pack_release(holding->type, holding->value);
}

void tri_texts_free(tri_texts *texts)
{
    tri_heap_block *block = texts->first;
    if (texts->holding != NULL) {
        holding_free(texts->holding);  // its memory is one of the blocks
    }
    while (block != NULL) {
        tri_heap_block *next = block->text_next;
        tr_free(texts->ctx, block + 1);
        block = next;
    }
    *texts = (tri_texts){.ctx = texts->ctx};
}

void tri_state_take(tri_texts *texts, const tr_type *type, void *self,
                    const void *made)
{
    TRI_CHECK(self != NULL);
    tri_ext *ext = tri_ext_of(texts->ctx->cell);
    tri_texts old = {texts->ctx, ext->stored.texts, ext->stored.holding};
    memcpy(self, made, type->size);
    ext->stored.texts = texts->first;
    ext->stored.holding = texts->holding;
    tri_texts_free(&old);
}

const tr_type *tri_state_type(tr_ctx *ctx)
{
    const tr_type *type = tri_first_behaviour(ctx->cell)->def->state;
    return type != NULL && type->size > 0 ? type : NULL;
}

/* ---- loading ---- */

/* Reads into *made first: a state that was read in part is not used. */
static tr_err decode(tr_ctx *ctx, const tr_type *type, void *self, void *made,
                     const tri_store_request *request)
{
    tri_texts pieces = {.ctx = ctx};
    tri_allocator mem = tri_texts_allocator(&pieces);
    tri_codec_error error = {.at = 0};
    tri_stored_form form = tri_state_form(ctx);
    tri_stored stored;
    tr_err err =
        tri_stored_open(&stored, request->op.out, request->op.out_size, &error);
    if (err == TR_OK) {
        err = tri_stored_read(&stored, &form, type, made, &mem, &error);
    }
    if (err == TR_OK) {
        err = tri_texts_hold(&pieces, type, made);
    }
    if (err != TR_OK) {
        tri_texts_free(&pieces);
        return tr_fail(ctx, err == TR_ENOMEM ? err : TR_ESTORAGE,
                       "stored state of %s, a %s: %s", request->key, type->name,
                       error.text);
    }
    tri_state_take(&pieces, type, self, made);
    return TR_OK;
}

static tr_err load(tr_ctx *ctx, const tr_type *type, void *self)
{
    tri_ext *ext = tri_ext_of(ctx->cell);
    tri_store_request *request;
    void *made = tr_scratch(ctx, type->size);  // may panic: before the request
    TR_TRY(tri_store_request_new(ctx, TR_STORE_LOAD, 0, &request));
    TR_TRY(tri_store_request_ask(ctx, request, "load"));
    tr_err err = request->op.err;
    if (err != TR_OK) {
        (void)tr_fail(ctx, err, "loading %s: %s", request->key,
                      request->op.text);
    } else {
        ext->stored.version = request->op.found ? request->op.version : 0;
        if (request->op.found) {
            err = decode(ctx, type, self, made, request);
        }
    }
    tri_store_request_free(request);
    return err;
}

/*
 * Raises the fence of the actor's shard, unless this system has done so in this
 * epoch. Then no earlier activation can write after the load that follows.
 * Errors: as load; TR_EFENCED (the shard has another owner by now).
 */
static tr_err raise_fence(tr_ctx *ctx, tri_used_store *store)
{
    const tri_virtual_ops *ops = tri_virtual_ops_of(ctx->sys);
    uint64_t epoch = ops->load_fence(ctx);
    uint32_t shard = ops->shard(ctx->cell);
    tri_store_request *request;
    if (epoch <= tri_store_fenced(store, shard)) {
        return TR_OK;
    }
    TR_TRY(tri_store_request_new(ctx, TR_STORE_FENCE, 0, &request));
    request->op.epoch = epoch;
    TR_TRY(tri_store_request_ask(ctx, request, "load"));
    tr_err err = request->op.err;
    if (err == TR_OK) {
        tri_store_set_fenced(ctx->sys, store, shard, epoch);
    } else {
        (void)tr_fail(ctx, err, "loading %s: %s", request->key,
                      request->op.text);
    }
    tri_store_request_free(request);
    return err;
}

/* Lets the reminders of a plain actor that has started find the actor. */
static tr_err host_reminders(tr_ctx *ctx, const tr_actor_def *def)
{
    char key[TRI_STORE_KEY_MAX + 1];
    tri_caller who = {.sys = ctx->sys, .worker = ctx->worker};
    TR_TRY(tri_store_request_key(ctx, key));
    return tri_reminders_host(&who, def, ctx->cell->props->storage,
                              ctx->cell->props->serializer, key);
}

tr_err tri_state_load(tr_ctx *ctx, void *self)
{
    TRI_CHECK(ctx->cell->props->storage != NULL);
    const tr_type *type = tri_state_type(ctx);
    const tr_actor_def *def = tri_first_behaviour(ctx->cell)->def;
    TRI_CHECK(type != NULL);  // tri_storable
    tri_used_store *store;
    TR_TRY(tri_store_use(ctx->sys, ctx->cell->props->storage, &store));
    tri_ext *ext = tri_ext_need(ctx->worker, ctx->cell);
    if (ext == NULL) {
        return TR_ENOMEM;
    }
    ext->stored.texts = NULL;  // those of an earlier incarnation are freed
    ext->stored.holding = NULL;
    tr_err err =
        tri_cell_is_virtual(ctx->cell) ? raise_fence(ctx, store) : TR_OK;
    if (err == TR_OK) {
        err = def->applier_count > 0 ? tri_events_load(ctx, type, self)
                                     : load(ctx, type, self);
    }
    if (tri_cell_is_virtual(ctx->cell)) {
        tri_virtual_ops_of(ctx->sys)->loaded(ctx->worker, ctx->cell);
    }
    TR_TRY(err);
    return tri_cell_is_virtual(ctx->cell) ? TR_OK : host_reminders(ctx, def);
}

/* ---- saving ---- */

/* Makes a request that saves *next in place of the stored version. */
static tr_err save_request(tr_ctx *ctx, const tr_type *type, const void *next,
                           tri_store_request **out)
{
    size_t size;
    tri_stored_form form = tri_state_form(ctx);
    tri_codec_error error = {.text = "out of memory"};
    TR_TRY(tri_store_request_new(ctx, TR_STORE_SAVE, 1, out));
    tri_store_request *request = *out;
    tr_err err = tri_mem_should_fail(&ctx->sys->mem)
                     ? TR_ENOMEM
                     : tri_stored_make(&form, type, next, TRI_STORED_STATE,
                                       &request->owned[0], &size, &error);
    if (err != TR_OK) {
        tri_error_set(ctx, "%s of %s cannot be written: %s", type->name,
                      request->key, error.text);
        tri_store_request_free(request);
        return err;
    }
    request->op.bytes = (tri_store_bytes){request->owned[0], size};
    request->op.number = tri_ext_of(ctx->cell)->stored.version;
    return TR_OK;
}

/*
 * Saves *next. tr_persist calls it last: once the store has the new state,
 * nothing may fail that would keep *self as it was.
 */
static tr_err save(tr_ctx *ctx, const tr_type *type, const void *next,
                   const char *site)
{
    tri_store_request *request;
    TR_TRY(save_request(ctx, type, next, &request));
    TR_TRY(tri_store_request_ask(ctx, request, site));
    tr_err err = tri_store_request_result(ctx, request, "saving");
    if (err == TR_OK) {
        tri_ext_of(ctx->cell)->stored.version = request->op.version;
    }
    tri_store_request_free(request);
    return err;
}

tr_err(tr_persist)(tr_ctx *ctx, void *self, const void *next, const char *site)
{
    const tr_type *type = tri_state_type(ctx);
    TR_TRY(tri_store_request_may_ask(ctx, "tr_persist", site));
    if (type == NULL || tri_first_behaviour(ctx->cell)->def->applier_count) {
        const char *why = type == NULL ? "the state has no schema: TR_STATE"
                                       : "the state is made of events: tr_emit";
        tri_error_set(ctx, "tr_persist at %s: %s", site, why);
        tri_error_set_reason(ctx, why);
        return TR_ESTORAGE;
    }
    // The copy is made first: after the save nothing may fail any more.
    tri_texts pieces = {.ctx = ctx};
    tri_allocator mem = tri_texts_allocator(&pieces);
    tri_ext *ext = tri_ext_need(ctx->worker, ctx->cell);
    void *made = tr_scratch(ctx, type->size);
    tr_err err =
        ext == NULL ? TR_ENOMEM : tri_value_copy(type, made, next, &mem);
    if (err == TR_OK) {
        err = tri_texts_hold(&pieces, type, made);
    }
    if (err == TR_OK) {
        err = save(ctx, type, next, site);
    }
    if (err != TR_OK) {
        tri_texts_free(&pieces);
        return err;
    }
    tri_state_take(&pieces, type, self, made);
    return TR_OK;
}
