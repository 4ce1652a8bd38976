/*
 * stored_keys.c - deleting what is stored under a key, and listing the keys of
 * a kind.
 *
 * An actor deletes its own state as it saves it: with the version and the
 * number of the last event that it knows. A delete by name reads both first,
 * and again if an actor has written in between.
 *
 * A call from outside waits on a word of its own stack frame; a call in a
 * handler parks the turn, as every store request does.
 */
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/lock.h"
#include "base/world.h"
#include "core/ask/error_text.h"
#include "core/caller.h"
#include "core/cell/cell.h"
#include "core/cell/ext.h"
#include "core/cell/props.h"
#include "core/run/context.h"
#include "core/run/park.h"
#include "core/run/worker.h"
#include "core/system.h"
#include "core/up.h"
#include "storage/storage.h"
#include "storage/store_op.h"
#include "system/persist.h"
#include "system/store_request.h"
#include "system/stores.h"
#include "troupe/storage.h"

enum {
    DELETE_TRIES = 16,  // then the actor of that name writes all the time
    SCAN_ROWS = 64,     // as many short keys as a page of tr_scan takes
};

_Static_assert(TR_KEY_SIZE == TRI_STORE_KEY_MAX + 1, "a key and its NUL");

/* ---- one operation, from anywhere ---- */

typedef struct outside_ask {
    tr_system *sys;
    _Atomic(uint32_t) word;  // WAITING, ANSWERED, LEFT
} outside_ask;

/* LEFT: the thread of the store has made its last use of the system. */
enum { WAITING, ANSWERED, LEFT };

static void answer_outside(tri_store_op *op)
{
    outside_ask *it = op->user;
    tr_system *sys = it->sys;
    // Relaxed: the waiter goes on only after LEFT.
    atomic_store_explicit(&it->word, ANSWERED, memory_order_relaxed);
    sys->world->ops->wake(sys->world, &it->word, 1);
    sys->up->poll_ready(sys);  // the thread may be in tr_poll
    // Release: pairs with the acquire in ask_outside. The waiter may close the
    // system now, and its frame may be gone.
    atomic_store_explicit(&it->word, LEFT, memory_order_release);
}

static tr_err ask_outside(tr_system *sys, tr_storage *storage, tri_store_op *op)
{
    outside_ask it = {.sys = sys};
    tri_worker *worker = tri_worker_current();
    if (worker != NULL && worker->sys == sys) {
        return TR_EWOULDBLOCK;  // rule 19 (outside calls in a handler)
    }
    op->done = answer_outside;
    op->user = &it;
    tri_storage_submit(storage, op);
    uint32_t now;
    // Acquire: pairs with the release in answer_outside.
    while ((now = atomic_load_explicit(&it.word, memory_order_acquire)) !=
           LEFT) {
        if (now == WAITING) {
            sys->up->wait(sys, &it.word, WAITING, TR_FOREVER);
        } else {
            tri_lock_yield();  // a few instructions are missing
        }
    }
    return TR_OK;
}

/* Copies bytes that the request must keep; the request frees them. */
static tr_err keep_bytes(tri_store_request *request, uint32_t piece,
                         tri_store_bytes from, tri_store_bytes *out)
{
    char *copy = malloc(from.size + 1);
    if (copy == NULL) {
        return TR_ENOMEM;
    }
    if (from.size > 0) {
        memcpy(copy, from.at, from.size);
    }
    request->owned[piece] = copy;
    *out = (tri_store_bytes){copy, from.size};
    return TR_OK;
}

/* Makes a request that outlives the turn, if the turn is cut short. */
static tr_err request_of(tr_ctx *ctx, tr_storage *storage,
                         const tri_store_op *op, tri_store_request **out)
{
    if (tri_ext_need(ctx->worker, ctx->cell) == NULL) {
        return TR_ENOMEM;
    }
    TR_TRY(tri_store_request_bare(ctx, op->call, 2, out));
    tri_store_request *request = *out;
    request->storage = storage;
    request->op.number = op->number;
    request->op.after = op->after;
    request->op.limit = op->limit;
    tr_err err = keep_bytes(request, 0, op->key, &request->op.key);
    if (err == TR_OK) {
        err = keep_bytes(request, 1, op->bytes, &request->op.bytes);
    }
    if (err != TR_OK) {
        tri_store_request_free(request);
    }
    return err;
}

static tr_err ask_inside(tr_ctx *ctx, tr_storage *storage, tri_store_op *op)
{
    tri_store_request *request;
    if (!tri_can_park(ctx)) {
        return TR_EWOULDBLOCK;
    }
    TR_TRY(ctx->cancel);
    TR_TRY(request_of(ctx, storage, op, &request));
    TR_TRY(tri_store_request_ask(ctx, request, TR_HERE));
    tri_store_bytes key = op->key, bytes = op->bytes;
    *op = request->op;  // the answer, with what it holds
    op->key = key;
    op->bytes = bytes;
    request->op.out = NULL;
    tri_store_request_free(request);
    return TR_OK;
}

/*
 * Carries out the op and waits for it. Errors: those of the wait, then those
 * of the store; the error text is set for the latter. tri_store_op_fini frees
 * the answer.
 */
static tr_err ask_store(tr_from from, tr_storage *storage, tri_store_op *op,
                        const char *what)
{
    tr_system *sys = tri_from_system(from);
    tr_ctx *ctx = tri_from_is_ctx(from) ? from.ctx : NULL;
    TR_TRY(tri_store_use(sys, storage, NULL));
    TR_TRY(ctx != NULL ? ask_inside(ctx, storage, op)
                       : ask_outside(sys, storage, op));
    if (op->err == TR_OK) {
        return TR_OK;
    }
    tr_err err = op->err == TR_EIO ? TR_ESTORAGE : op->err;
    tri_error_set(ctx, "%s %.*s: %s", what, (int)op->key.size,
                  (const char *)op->key.at, op->text);
    tri_store_op_fini(op);
    return err;
}

/* ---- names ---- */

/* Writes `namespace::kind/text`; the text may be empty. */
static tr_err write_key(tr_from from, const char *kind, const char *text,
                        char out[TR_KEY_SIZE])
{
    const char *ns = tri_from_system(from)->options.ns;
    bool is_empty = text[0] == '\0';
    tr_err err = kind == NULL ? TR_EINVAL
                              : tri_store_key(out, ns != NULL ? ns : "local",
                                              kind, is_empty ? "-" : text);
    if (err != TR_OK) {
        tri_error_set(tri_from_is_ctx(from) ? from.ctx : NULL,
                      "%s/%s is not a valid key of a store",
                      kind != NULL ? kind : "", text);
    } else if (is_empty) {
        out[strlen(out) - 1] = '\0';
    }
    return err;
}

static tri_store_bytes bytes_of(const char *text)
{
    return (tri_store_bytes){text, strlen(text)};
}

/* ---- deleting ---- */

/* Returns the state that the actor begins with, in scratch memory. */
static void *first_state(tr_ctx *ctx, const tr_type *type)
{
    const tri_props *props = ctx->cell->props;
    void *made = tr_scratch(ctx, type->size);
    if (props != NULL && props->init != NULL) {
        memcpy(made, props->init, type->size);
    }
    return made;
}

static tr_err may_delete(tr_ctx *ctx, const void *self)
{
    TR_TRY(tri_store_request_may_ask(ctx, "tr_delete_state", TR_HERE));
    if (self != ctx->cell->state) {
        tri_error_set(ctx, "tr_delete_state: self is not the actor's state");
        return TR_EINVAL;
    }
    if (tri_ext_need(ctx->worker, ctx->cell) == NULL) {
        return TR_ENOMEM;
    }
    return tri_ext_of(ctx->cell)->sourced.emitting ? TR_EWOULDBLOCK : TR_OK;
}

tr_err tr_delete_state(tr_ctx *ctx, void *self)
{
    tri_store_request *request;
    TR_TRY(may_delete(ctx, self));
    const tr_type *type = tri_state_type(ctx);
    TRI_CHECK(type != NULL);               // tri_storable
    void *first = first_state(ctx, type);  // may panic: before the request
    tri_ext *ext = tri_ext_of(ctx->cell);
    TR_TRY(tri_store_request_new(ctx, TR_STORE_DELETE, 0, &request));
    request->op.number = ext->stored.version;
    request->op.after = ext->sourced.sequence;
    ext->sourced.emitting = true;
    tr_err err = tri_store_request_ask(ctx, request, "tr_delete_state");
    ext->sourced.emitting = false;
    TR_TRY(err);
    err = tri_store_request_result(ctx, request, "deleting");
    tri_store_request_free(request);
    if (err == TR_OK) {
        tri_texts none = {.ctx = ctx};
        ext->stored.version = 0;
        ext->sourced.sequence = ext->sourced.chain = ext->sourced.snapshot = 0;
        tri_state_take(&none, type, self, first);
    }
    return err;
}

/* Reads the version and the last event of the key, then deletes these. */
static tr_err delete_once(tr_from from, tr_storage *storage, const char *text,
                          bool *found)
{
    tri_store_op load = {.call = TR_STORE_LOAD, .key = bytes_of(text)};
    tri_store_op read = {
        .call = TR_STORE_READ, .key = bytes_of(text), .number = 1, .limit = 1};
    TR_TRY(ask_store(from, storage, &load, "loading"));
    tri_store_op_fini(&load);
    TR_TRY(ask_store(from, storage, &read, "reading events of"));
    tri_store_op_fini(&read);
    tri_store_op op = {.call = TR_STORE_DELETE,
                       .key = bytes_of(text),
                       .number = load.found ? load.version : 0,
                       .after = read.version};
    TR_TRY(ask_store(from, storage, &op, "deleting"));
    *found = op.found;
    return TR_OK;
}

tr_err(tr_delete_state_of)(tr_from from, tr_storage *storage, const char *kind,
                           const char *key)
{
    char text[TR_KEY_SIZE];
    bool found = false;
    tr_err err = TR_EFENCED;
    TRI_CHECK(storage != NULL);
    TR_TRY(key == NULL || key[0] == '\0' ? TR_EINVAL
                                         : write_key(from, kind, key, text));
    for (int i = 0; i < DELETE_TRIES && (err == TR_EFENCED || err == TR_ENOENT);
         i++) {
        err = delete_once(from, storage, text, &found);
    }
    return err == TR_OK && !found ? TR_ENOENT : err;
}

/* ---- listing ---- */

/* Moves the next key of the page to scan->key. Returns false at its end. */
static bool take_key(tr_scan *scan)
{
    if (scan->at >= scan->used) {
        return false;
    }
    size_t size = strlen(scan->page + scan->at) + 1;
    TRI_CHECK(size <= sizeof(scan->key) && size <= scan->used - scan->at);
    memcpy(scan->key, scan->page + scan->at, size);
    scan->at += (uint32_t)size;
    return true;
}

/* Fills the page with the keys of the answer, without their first `skip`. */
static void fill_page(tr_scan *scan, const tri_store_op *op, size_t skip)
{
    tri_store_row row;
    bool fits = true;
    scan->at = scan->used = 0;
    for (size_t at = 0; fits && tri_store_row_next(op, &at, &row);) {
        TRI_CHECK(row.key.size >= skip && row.key.size <= TRI_STORE_KEY_MAX);
        size_t size = row.key.size - skip;
        fits = size + 1 <= sizeof(scan->page) - scan->used;
        if (fits) {
            memcpy(scan->page + scan->used, (const char *)row.key.at + skip,
                   size);
            scan->page[scan->used + size] = '\0';
            scan->used += (uint32_t)size + 1;
        }
    }
    scan->is_last = fits && !op->more;
}

tr_err(tr_scan_next)(tr_from from, tr_storage *storage, tr_scan *scan)
{
    char prefix[TR_KEY_SIZE], after[TR_KEY_SIZE], kind[TR_KEY_SIZE];
    TRI_CHECK(storage != NULL);
    TRI_CHECK(scan != NULL);
    if (take_key(scan)) {
        return TR_OK;
    }
    if (scan->is_last) {
        return TR_ENOENT;
    }
    TR_TRY(write_key(from, scan->kind, "", kind));
    TR_TRY(write_key(from, scan->kind, scan->prefix != NULL ? scan->prefix : "",
                     prefix));
    TR_TRY(write_key(from, scan->kind, scan->key, after));
    tri_store_op op = {.call = TR_STORE_SCAN,
                       .key = bytes_of(after),
                       .bytes = bytes_of(prefix),
                       .limit = SCAN_ROWS};
    TR_TRY(ask_store(from, storage, &op, "listing keys after"));
    fill_page(scan, &op, strlen(kind));
    tri_store_op_fini(&op);
    return take_key(scan) ? TR_OK : TR_ENOENT;
}
