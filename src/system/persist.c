/*
 * persist.c - state that survives: loading it at start, saving it in a turn.
 *
 * The state goes to the store under `namespace::kind/key` (question.h), as
 * JSON or in the form that its serializer writes (schema/stored.h). A save
 * says which version it replaces, so a second writer is found out. *self
 * changes only when the store has answered yes (ST11, ST12). The state of an
 * actor with TR_APPLY is made of events instead: sourcing.c.
 *
 * The text of the state lies in the actor's heap, in blocks chained through
 * ext->texts; a new state brings its own and the old ones are freed after. So
 * it is with its blobs: beside the state a copy of the struct is kept as it
 * was made (tri_holding), whatever the actor writes into *self later on. All
 * holdings are in a list of the incarnation, which ends them, should a turn
 * that waits for the store never come back.
 */
#include <stdlib.h>
#include <string.h>

#include "schema/pack.h"
#include "schema/stored.h"
#include "schema/value.h"
#include "system/question.h"

/* ---- text of the state ---- */

static void *text_alloc(void *user, size_t size)
{
    tri_texts *t = user;
    void *at = tri_heap_alloc(t->ctx, size);
    if (at != NULL) {
        tri_heap_block *block = (tri_heap_block *)at - 1;
        block->text_next = t->first;
        t->first = block;
    }
    return at;
}

tri_allocator tri_texts_allocator(tri_texts *texts)
{
    return (tri_allocator){.alloc = text_alloc, .user = texts};
}

tr_err tri_texts_hold(tri_texts *texts, const tr_type *type, void *made)
{
    tri_ext *ext = tri_ext_of(texts->ctx->cell);
    if (!tri_pack_has_blobs(type)) {
        return TR_OK;
    }
    tri_holding *holding = text_alloc(texts, sizeof(*holding) + type->size);
    if (holding == NULL) {
        tri_pack_release(type, made);
        return TR_ENOMEM;
    }
    *holding = (tri_holding){
        .next = ext->holdings, .link = &ext->holdings, .type = type};
    memcpy(holding->value, made, type->size);
    if (ext->holdings != NULL) {
        ext->holdings->link = &holding->next;
    }
    ext->holdings = holding;
    texts->holding = holding;
    return TR_OK;
}

static void drop_held(tri_holding *holding)
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
        drop_held(texts->holding);  // is itself one of the blocks
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
    tri_ext *ext = tri_ext_of(texts->ctx->cell);
    tri_texts old = {texts->ctx, ext->texts, ext->holding};
    memcpy(self, made, type->size);
    ext->texts = texts->first;
    ext->holding = texts->holding;
    tri_texts_free(&old);
}

const tr_type *tri_state_type(tr_ctx *ctx)
{
    const tr_type *type = tri_first_behaviour(ctx->cell)->def->state;
    return type != NULL && type->size > 0 ? type : NULL;
}

const tr_serializer *tri_state_serializer(tr_ctx *ctx)
{
    const tri_props *props = ctx->cell->props;
    return props != NULL && props->serializer != NULL ? props->serializer
                                                      : &tr_serializer_json;
}

/* ---- loading ---- */

/* Through *made, since a state that is read in part is none. */
static tr_err decode(tr_ctx *ctx, const tr_type *type, void *self, void *made,
                     const tri_question *q)
{
    tri_texts pieces = {.ctx = ctx};
    tri_allocator mem = tri_texts_allocator(&pieces);
    tri_codec_error error = {.at = 0};
    tri_stored stored;
    tr_err err = tri_stored_open(&stored, q->op.out, q->op.out_size, &error);
    if (err == TR_OK) {
        err = tri_stored_read(&stored, tri_state_serializer(ctx), type, made,
                              &mem, &error);
    }
    if (err == TR_OK) {
        err = tri_texts_hold(&pieces, type, made);
    }
    if (err != TR_OK) {
        tri_texts_free(&pieces);
        return tr_fail(ctx, err == TR_ENOMEM ? err : TR_ESTORAGE,
                       "stored state of %s, a %s: %s", q->key, type->name,
                       error.text);
    }
    tri_state_take(&pieces, type, self, made);
    return TR_OK;
}

static tr_err load(tr_ctx *ctx, const tr_type *type, void *self)
{
    tri_ext *ext = tri_ext_of(ctx->cell);
    tri_question *q;
    void *made = tr_scratch(ctx, type->size);  // may panic: before there is q
    TR_TRY(tri_question_new(ctx, TR_STORE_LOAD, 0, &q));
    TR_TRY(tri_question_ask(ctx, q, "load"));
    tr_err err = q->op.err;
    if (err != TR_OK) {
        (void)tr_fail(ctx, err, "loading %s: %s", q->key, q->op.text);
    } else {
        ext->version = q->op.found ? q->op.version : 0;
        if (q->op.found) {
            err = decode(ctx, type, self, made, q);
        }
    }
    tri_question_free(q);
    return err;
}

/* A plain actor is here: its reminders find it from now on. */
static tr_err host_reminders(tr_ctx *ctx, const tr_actor_def *def)
{
    char key[TRI_STORE_KEY_MAX + 1];
    tri_actor_from who = {.sys = ctx->sys, .worker = ctx->worker};
    TR_TRY(tri_question_key(ctx, key));
    return tri_reminders_host(&who, def, ctx->cell->props->storage,
                              ctx->cell->props->serializer, key);
}

tr_err tri_state_load(tr_ctx *ctx, void *self)
{
    const tr_type *type = tri_state_type(ctx);
    const tr_actor_def *def = tri_first_behaviour(ctx->cell)->def;
    TRI_CHECK(type != NULL);  // tri_storable
    TR_TRY(tri_store_use(ctx->sys, ctx->cell->props->storage));
    tri_ext *ext = tri_ext_need(ctx->worker, ctx->cell);
    if (ext == NULL) {
        return TR_ENOMEM;
    }
    ext->texts = NULL;  // those of an earlier incarnation are gone
    ext->holding = NULL;
    tr_err err = def->applier_count > 0 ? tri_events_load(ctx, type, self)
                                        : load(ctx, type, self);
    if (tri_cell_is_virtual(ctx->cell)) {
        tri_virtual_ops_of(ctx->sys)->loaded(ctx->worker, ctx->cell);
    }
    TR_TRY(err);
    return tr_key(ctx) == NULL ? host_reminders(ctx, def) : TR_OK;
}

/* ---- saving ---- */

/* A question that saves *next, in place of the version that is stored. */
static tr_err save_question(tr_ctx *ctx, const tr_type *type, const void *next,
                            tri_question **out)
{
    size_t size;
    TR_TRY(tri_question_new(ctx, TR_STORE_SAVE, 1, out));
    tri_question *q = *out;
    tr_err err = tri_mem_should_fail(&ctx->sys->mem)
                     ? TR_ENOMEM
                     : tri_stored_make(tri_state_serializer(ctx), type, next,
                                       TRI_STORED_STATE, &q->owned[0], &size);
    if (err != TR_OK) {
        tri_error_set(ctx, "%s of %s cannot be written: %s", type->name, q->key,
                      tr_strerror(err));
        tri_question_free(q);
        return err;
    }
    q->op.bytes = (tri_store_bytes){q->owned[0], size};
    q->op.number = tri_ext_of(ctx->cell)->version;
    return TR_OK;
}

tr_err(tr_persist)(tr_ctx *ctx, void *self, const void *next, const char *site)
{
    const tr_type *type = tri_state_type(ctx);
    TR_TRY(tri_question_may_ask(ctx, "tr_persist", site));
    if (type == NULL || tri_first_behaviour(ctx->cell)->def->applier_count) {
        tri_error_set(ctx, "tr_persist at %s: %s", site,
                      type == NULL ? "the state has no schema: TR_STATE"
                                   : "the state is made of events: tr_emit");
        return TR_ESTORAGE;
    }
    // The copy first: after the save nothing may fail any more.
    tri_texts pieces = {.ctx = ctx};
    tri_allocator mem = tri_texts_allocator(&pieces);
    tri_ext *ext = tri_ext_need(ctx->worker, ctx->cell);
    void *made = tr_scratch(ctx, type->size);
    tri_question *q;
    tr_err err =
        ext == NULL ? TR_ENOMEM : tri_value_copy(type, made, next, &mem);
    if (err == TR_OK) {
        err = tri_texts_hold(&pieces, type, made);
    }
    if (err == TR_OK) {
        err = save_question(ctx, type, next, &q);
    }
    if (err == TR_OK) {
        err = tri_question_ask(ctx, q, site);
        if (err == TR_OK) {
            err = tri_question_result(ctx, q, "saving");
            if (err == TR_OK) {
                ext->version = q->op.version;
            }
            tri_question_free(q);
        }
    }
    if (err != TR_OK) {
        tri_texts_free(&pieces);
        return err;
    }
    tri_state_take(&pieces, type, self, made);
    return TR_OK;
}
