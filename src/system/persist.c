/*
 * persist.c - state that survives: loading it at start, saving it in a turn.
 *
 * The state goes to the store as JSON under `namespace::kind/key`, where the
 * key of a plain actor is its path. A save says which version it replaces, so
 * a second writer is found out. *self changes only when the store has
 * answered yes (ST11, ST12).
 *
 * A question to the store outlives a turn that is cut short (rule 28): it is a
 * record from malloc, and the actor does not end before it is answered
 * (ext->stores).
 *
 * The text of the state lies in the actor's heap, in blocks chained through
 * ext->texts; a new state brings its own and the old ones are freed after.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schema/json.h"
#include "schema/value.h"
#include "storage/storage.h"
#include "system/layers.h"

/* ---- asking the store ---- */

enum { SHARED, LEFT, DONE };  // question.state

typedef struct question {
    tri_store_op op;
    tr_system *sys;
    tri_cell *cell;
    uint64_t cell_id;
    tri_ext *ext;             // valid while its `stores` counts us
    tri_wait *wait;           // valid unless LEFT
    _Atomic(uint32_t) state;
    char key[TRI_STORE_KEY_MAX + 1];
    char *json;
} question;

typedef struct question_wait {
    tri_wait wait;  // first: the cancel function gets it
    question *question;
} question_wait;

static void question_free(question *q)
{
    tri_store_op_fini(&q->op);
    free(q->json);
    free(q);
}

static bool leave_question(tri_wait *wait)
{
    question *q = ((question_wait *)(void *)wait)->question;
    uint32_t shared = SHARED;
    // Acquire and release: both sides agree on who frees the question.
    return atomic_compare_exchange_strong_explicit(
        &q->state, &shared, LEFT, memory_order_acq_rel, memory_order_acquire);
}

/* The store has answered; any thread. */
static void answered(tri_store_op *op)
{
    question *q = op->user;
    tri_actor_from who = tri_enter((tr_from){.sys = q->sys});
    uint32_t shared = SHARED;
    // Acquire and release: as leave_question.
    if (atomic_compare_exchange_strong_explicit(&q->state, &shared, DONE,
                                                memory_order_acq_rel,
                                                memory_order_acquire)) {
        q->wait->err = TR_OK;
        q->wait->node.kind = TRI_NODE_WAKE;
        bool taken = tri_push_system(who.worker, q->cell, &q->wait->node);
        TRI_CHECK(taken);  // the turn is parked, so its actor lives
    } else {
        // The turn has gone; its actor waits for us before it ends.
        // Release: after it the extension may go.
        tri_cell *cell = q->cell;
        uint64_t id = q->cell_id;
        atomic_fetch_sub_explicit(&q->ext->stores, 1, memory_order_acq_rel);
        tri_signal(who.worker, cell, id, TRI_SIG_CHILDREN);
        question_free(q);
    }
    tri_leave(&who);
}

static tr_err key_of(tr_ctx *ctx, char *out)
{
    tr_system *sys = ctx->sys;
    const char *space = sys->options.ns != NULL ? sys->options.ns : "local";
    const char *virtual_key = tr_key(ctx);
    const char *kind = tri_first_behaviour(ctx->cell)->def->name;
    if (virtual_key != NULL) {
        return tri_store_key(out, space, kind, virtual_key);
    }
    char path[TRI_PATH_MAX];
    tri_path_write(sys, ctx->cell, path, sizeof(path));
    return tri_store_key(out, space, kind, path);
}

static question *question_new(tr_ctx *ctx, tr_store_call call)
{
    question *q = tri_mem_calloc(&ctx->sys->mem, sizeof(*q));
    if (q == NULL || key_of(ctx, q->key) != TR_OK) {
        free(q);
        return NULL;
    }
    q->sys = ctx->sys;
    q->cell = ctx->cell;
    // Relaxed: we own the cell.
    q->cell_id = atomic_load_explicit(&ctx->cell->id, memory_order_relaxed);
    q->ext = tri_ext_of(ctx->cell);
    q->op.call = call;
    q->op.key = (tri_store_bytes){q->key, strlen(q->key)};
    q->op.epoch = tr_epoch(ctx);
    // Relaxed: fixed at birth.
    if (atomic_load_explicit(&ctx->cell->flags, memory_order_relaxed) &
        TRI_CELL_VIRTUAL) {
        q->op.shard = tri_virtual_ops_of(ctx->sys)->shard(ctx->cell);
    }
    q->op.done = answered;
    q->op.user = q;
    return q;
}

/* Asks and parks. TR_OK: q is answered and ours; else it is not ours. */
static tr_err ask_store(tr_ctx *ctx, question *q, const char *site)
{
    tri_ext *ext = tri_ext_of(ctx->cell);
    question_wait wait = {.wait = {.kind = TRI_WAIT_OUTSIDE,
                                   .cancel = leave_question, .site = site},
                          .question = q};
    q->wait = &wait.wait;
    tr_err err = tri_wait_begin(ctx, &wait.wait, TR_FOREVER);
    if (err != TR_OK) {
        question_free(q);
        return err;
    }
    // Relaxed: only this turn and the answer count it.
    atomic_fetch_add_explicit(&ext->stores, 1, memory_order_relaxed);
    tri_storage_submit(ctx->cell->props->storage, &q->op);
    err = tri_park(ctx, &wait.wait);
    if (err == TR_ELIMIT && leave_question(&wait.wait)) {
        tri_wait_finish(ctx, &wait.wait);
        return err;
    }
    tri_wait_finish(ctx, &wait.wait);
    // Acquire: as `answered`; DONE means that the question is ours.
    if (atomic_load_explicit(&q->state, memory_order_acquire) != DONE) {
        return err;
    }
    atomic_fetch_sub_explicit(&ext->stores, 1, memory_order_relaxed);
    if (err != TR_OK) {
        question_free(q);
    }
    return err;
}

/* ---- text of the state ---- */

typedef struct texts {
    tr_ctx *ctx;
    tri_heap_block *first;
} texts;

static void *text_alloc(void *user, size_t size)
{
    texts *t = user;
    void *at = tri_heap_alloc(t->ctx, size);
    if (at != NULL) {
        tri_heap_block *block = (tri_heap_block *)at - 1;
        block->text_next = t->first;
        t->first = block;
    }
    return at;
}

static void texts_free(tr_ctx *ctx, tri_heap_block *block)
{
    while (block != NULL) {
        tri_heap_block *next = block->text_next;
        tr_free(ctx, block + 1);
        block = next;
    }
}

/* The state is `made` now, with these texts; the old ones go. */
static void take_state(tr_ctx *ctx, const tr_type *type, void *self,
                       const void *made, tri_heap_block *first)
{
    tri_ext *ext = tri_ext_of(ctx->cell);
    tri_heap_block *old = ext->texts;
    memcpy(self, made, type->size);
    ext->texts = first;
    texts_free(ctx, old);
}

/* ---- loading ---- */

static const tr_type *stored_type(tr_ctx *ctx)
{
    const tr_type *type = tri_first_behaviour(ctx->cell)->def->state;
    return type != NULL && type->size > 0 ? type : NULL;
}

static tr_err decode(tr_ctx *ctx, const tr_type *type, void *self,
                     const tri_store_op *op)
{
    texts pieces = {.ctx = ctx};
    tri_allocator mem = {.alloc = text_alloc, .user = &pieces};
    tri_codec codec = {.mem = &mem};
    tri_codec_error error;
    void *made = tr_scratch(ctx, type->size);
    tr_err err = tri_json_read(type, made, op->out, op->out_size, &codec,
                               &error);
    if (err != TR_OK) {
        texts_free(ctx, pieces.first);
        return tr_fail(ctx, TR_ESTORAGE, "stored state of %s: %s", type->name,
                       error.text);
    }
    take_state(ctx, type, self, made, pieces.first);
    return TR_OK;
}

tr_err tri_state_load(tr_ctx *ctx, void *self)
{
    const tr_type *type = stored_type(ctx);
    if (type == NULL) {
        return tr_fail(ctx, TR_EINVAL,
                       "a stored state needs TR_STATE, not a plain struct");
    }
    tri_ext *ext = tri_ext_need(ctx->worker, ctx->cell);
    question *q = ext != NULL ? question_new(ctx, TR_STORE_LOAD) : NULL;
    if (q == NULL) {
        return TR_ENOMEM;
    }
    ext->texts = NULL;  // those of an earlier incarnation are gone
    TR_TRY(ask_store(ctx, q, "load"));
    tr_err err = q->op.err;
    if (err != TR_OK) {
        (void)tr_fail(ctx, err, "loading %s: %s", q->key, q->op.text);
    } else {
        ext->version = q->op.found ? q->op.version : 0;
        if (q->op.found) {
            err = decode(ctx, type, self, &q->op);
        }
    }
    question_free(q);
    return err;
}

/* ---- saving ---- */

static char *encode(tr_ctx *ctx, const tr_type *type, const void *value,
                    size_t *size)
{
    size_t length = tri_json_write(type, value, NULL, 0, NULL);
    char *json = tri_mem_should_fail(&ctx->sys->mem) ? NULL
                                                     : malloc(length + 1);
    if (json != NULL) {
        *size = tri_json_write(type, value, json, length + 1, NULL);
    }
    return json;
}

static tr_err saved(tr_ctx *ctx, question *q)
{
    tri_ext *ext = tri_ext_of(ctx->cell);
    tr_err err = q->op.err;
    if (err == TR_OK) {
        ext->version = q->op.version;
    } else {
        tri_error_set(ctx, "saving %s: %s", q->key, q->op.text);
    }
    if (err == TR_EUNKNOWN) {
        // Rule 28: a restart, which loads, before the next turn.
        tri_signal(ctx->worker, ctx->cell, q->cell_id, TRI_SIG_RESTART);
    }
    return err == TR_EIO ? TR_ESTORAGE : err;
}

tr_err (tr_persist)(tr_ctx *ctx, void *self, const void *next,
                    const char *site)
{
    const tr_type *type = stored_type(ctx);
    const tri_props *props = ctx->cell->props;
    if (type == NULL || props == NULL || props->storage == NULL) {
        tri_error_set(ctx, "tr_persist at %s: this actor has no storage",
                      site);
        return TR_ESTORAGE;
    }
    if (!tri_can_park(ctx)) {
        return TR_EWOULDBLOCK;
    }
    if (ctx->cancel != TR_OK) {
        return ctx->cancel;
    }
    // The copy first: after the save nothing may fail any more.
    texts pieces = {.ctx = ctx};
    tri_allocator mem = {.alloc = text_alloc, .user = &pieces};
    tri_ext *ext = tri_ext_need(ctx->worker, ctx->cell);
    void *made = tr_scratch(ctx, type->size);
    tr_err err = ext == NULL ? TR_ENOMEM
                             : tri_value_copy(type, made, next, &mem);
    question *q = err == TR_OK ? question_new(ctx, TR_STORE_SAVE) : NULL;
    size_t size = 0;
    if (q == NULL || (q->json = encode(ctx, type, next, &size)) == NULL) {
        if (q != NULL) {
            question_free(q);
        }
        texts_free(ctx, pieces.first);
        return TR_ENOMEM;
    }
    q->op.bytes = (tri_store_bytes){q->json, size};
    q->op.number = ext->version;
    err = ask_store(ctx, q, site);
    if (err == TR_OK) {
        err = saved(ctx, q);
        question_free(q);
    }
    if (err != TR_OK) {
        texts_free(ctx, pieces.first);
        return err;
    }
    take_state(ctx, type, self, made, pieces.first);
    return TR_OK;
}
