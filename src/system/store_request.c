/*
 * store_request.c - sending a request to the store, and waiting for the
 * answer.
 *
 * Invariant: before it is sent the turn owns the request. Then turn and store
 * share it until one of them moves `state` away from SHARED. If the answer
 * comes first (DONE), the turn owns it again; if the turn is cut short first
 * (LEFT), the answer frees it.
 *
 * A store in memory answers inside of the call that sends (SENDING): then the
 * turn goes on without parking, and the answer need not wake it.
 */
#include "system/store_request.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/world.h"
#include "core/ask/error_text.h"
#include "core/ask/wait.h"
#include "core/caller.h"
#include "core/cell/behaviour.h"
#include "core/cell/cell.h"
#include "core/cell/cell_path.h"
#include "core/cell/ext.h"
#include "core/cell/mem.h"
#include "core/cell/message.h"
#include "core/cell/props.h"
#include "core/life/signal.h"
#include "core/mail/push.h"
#include "core/run/context.h"
#include "core/run/park.h"
#include "core/run/worker.h"
#include "core/system.h"
#include "core/up.h"
#include "storage/storage.h"
#include "storage/store_op.h"
#include "troupe/storage.h"
#include "troupe/system.h"

enum { SENDING, SHARED, LEFT, DONE };  // tri_store_request.state

typedef struct request_wait {
    tri_wait wait;  // first: cancel_request casts it back
    tri_store_request *request;
    bool left;  // the answer frees the request
} request_wait;

void tri_store_request_free(tri_store_request *request)
{
    if (request != NULL) {
        tri_store_op_fini(&request->op);
        for (uint32_t i = 0; i < request->op_count; i++) {
            tri_store_op_fini(&request->ops[i]);
        }
        free(request->ops);
        for (uint32_t i = 0; i < request->owned_count; i++) {
            free(request->owned[i]);
        }
        free(request->owned);
        free(request);
    }
}

/* The cancel function of the wait: the answer frees the request. */
static bool cancel_request(tri_wait *wait)
{
    request_wait *mine = (request_wait *)(void *)wait;
    uint32_t shared = SHARED;
    // Acquire and release: pairs with answered(); one side frees the request.
    mine->left = atomic_compare_exchange_strong_explicit(
        &mine->request->state, &shared, LEFT, memory_order_acq_rel,
        memory_order_acquire);
    return mine->left;
}

/*
 * Shows an answered write to a simulation (sim/sim_commit.c), which may turn
 * it into a lost answer.
 */
static void report_write(const tri_store_request *request, tri_store_op *op)
{
    const tri_up *up = request->sys->up;
    bool is_event = op->call == TR_STORE_APPEND;
    if (TRI_LIKELY(up->stored == NULL) ||
        (op->call != TR_STORE_SAVE && !is_event)) {
        return;
    }
    tri_written written = {
        .store = request->storage != NULL ? request->storage
                                          : request->cell->props->storage,
        .key = op->key.at,
        .key_size = op->key.size,
        .shard = op->shard,
        .is_event = is_event,
        .epoch = op->epoch,
        .before = op->number,
        .version = op->number + (is_event ? op->event_count : 1),
        .err = op->err};
    up->stored(request->sys, &written);
    if (written.err != op->err) {
        tri_store_fail(op, written.err, TRI_STORE_FAULT_UNAVAILABLE,
                       "the answer was lost");
    }
}

/* Ends a request whose turn was cancelled; the actor's end waits for it. */
static void finish_left(tri_worker *worker, tri_store_request *request)
{
    tri_cell *cell = request->cell;
    uint64_t id = request->cell_id;
    // Release: the last use of the extension, which may be freed after it.
    atomic_fetch_sub_explicit(&request->ext->store_requests, 1,
                              memory_order_acq_rel);
    tri_signal(worker, cell, id, TRI_SIG_WAKE);
    tri_store_request_free(request);
}

/* The store has answered, on any thread. */
static void answered(tri_store_op *op)
{
    tri_store_request *request = op->user;
    if (request->ops == NULL) {
        report_write(request, op);
    }
    uint32_t sending = SENDING;
    // Release: publishes the answer to is_answered. Acquire: pairs with the
    // same, if the turn has gone on to SHARED.
    if (atomic_compare_exchange_strong_explicit(&request->state, &sending, DONE,
                                                memory_order_acq_rel,
                                                memory_order_acquire)) {
        return;
    }
    tri_caller who = tri_enter((tr_from){.sys = request->sys});
    uint32_t shared = SHARED;
    // Acquire and release: pairs with cancel_request.
    if (atomic_compare_exchange_strong_explicit(&request->state, &shared, DONE,
                                                memory_order_acq_rel,
                                                memory_order_acquire)) {
        request->wait->err = TR_OK;
        request->wait->item.kind = TRI_ITEM_WAKE;
        bool taken =
            tri_push_system(who.worker, request->cell, &request->wait->item);
        TRI_CHECK(taken);  // the turn is parked, so its actor is alive
    } else {
        finish_left(who.worker, request);
    }
    tri_leave(&who);
}

/* One of several operations was answered; the last one ends the request. */
static void op_answered(tri_store_op *op)
{
    tri_store_request *request = op->user;
    report_write(request, op);
    // Acquire and release: the last one sees the answers of the others.
    if (atomic_fetch_sub_explicit(&request->unanswered, 1,
                                  memory_order_acq_rel) == 1) {
        answered(&request->op);
    }
}

tr_err tri_store_request_ops(tri_store_request *request, uint32_t count)
{
    TRI_CHECK(request->ops == NULL);
    TRI_CHECK(count > 0);
    request->ops =
        tri_mem_calloc(&request->sys->mem, count * sizeof(*request->ops));
    if (request->ops == NULL) {
        return TR_ENOMEM;
    }
    request->op_count = count;
    // Relaxed: no other thread knows the request yet.
    atomic_store_explicit(&request->unanswered, count, memory_order_relaxed);
    for (uint32_t i = 0; i < count; i++) {
        request->ops[i].done = op_answered;
        request->ops[i].user = request;
    }
    return TR_OK;
}

/*
 * Ends SENDING. Returns true if the answer has come already; then the turn
 * must not park, because nothing would wake it.
 */
static bool is_answered(tri_store_request *request)
{
    uint32_t sending = SENDING;
    // Release: from now on the answer wakes the turn; pairs with answered().
    // Acquire: the answer, if it was first.
    return !atomic_compare_exchange_strong_explicit(
        &request->state, &sending, SHARED, memory_order_acq_rel,
        memory_order_acquire);
}

/* Hands the operations to the store, which may answer before this returns. */
static void submit(tr_storage *storage, tri_store_request *request)
{
    TRI_CHECK(storage != NULL);
    if (request->op_count == 0) {
        tri_storage_submit(storage, &request->op);
        return;
    }
    tri_list list;
    tri_list_init(&list);
    for (uint32_t i = 0; i < request->op_count; i++) {
        tri_list_push_back(&list, &request->ops[i].link);
    }
    tri_storage_submit_all(storage, &list);
}

tr_err tri_store_request_key(tr_ctx *ctx, char *out)
{
    TRI_CHECK(out != NULL);
    tr_system *sys = ctx->sys;
    const char *space = sys->options.ns != NULL ? sys->options.ns : "local";
    if (tri_cell_is_virtual(ctx->cell)) {
        // The name of a virtual actor is the key of its state.
        size_t size = strlen(ctx->cell->name);
        TRI_CHECK(size <= TRI_STORE_KEY_MAX);
        memcpy(out, ctx->cell->name, size + 1);
        return TR_OK;
    }
    const char *kind = tri_first_behaviour(ctx->cell)->def->name;
    char path[TRI_PATH_MAX];
    tri_path_write(sys, ctx->cell, path, sizeof(path));
    tr_err err = tri_store_key(out, space, kind, path);
    if (err != TR_OK) {
        tri_error_set(ctx, "%s::%s/%s is not a valid key of a store: %s", space,
                      kind, path,
                      err == TR_ELIMIT ? "too long" : "not allowed");
    }
    return err;
}

/* Returns a request that can own `pieces` buffers; NULL without memory. */
static tri_store_request *request_alloc(tri_mem *mem, uint32_t pieces)
{
    tri_store_request *request =
        tri_mem_should_fail(mem) ? NULL : malloc(sizeof(*request));
    if (request == NULL) {
        return NULL;
    }
    memset(request, 0, offsetof(tri_store_request, key));
    request->key[0] = '\0';
    if (pieces > 0) {
        request->owned = tri_mem_calloc(mem, pieces * sizeof(*request->owned));
        if (request->owned == NULL) {
            free(request);
            return NULL;
        }
    }
    request->owned_count = pieces;
    return request;
}

tr_err tri_store_request_bare(tr_ctx *ctx, tr_store_call call, uint32_t pieces,
                              tri_store_request **out)
{
    TRI_CHECK(out != NULL);
    *out = NULL;
    tri_store_request *request = request_alloc(&ctx->sys->mem, pieces);
    if (request == NULL) {
        return TR_ENOMEM;
    }
    request->sys = ctx->sys;
    request->cell = ctx->cell;
    // Relaxed: the turn owns the cell.
    request->cell_id =
        atomic_load_explicit(&ctx->cell->id, memory_order_relaxed);
    request->ext = tri_ext_of(ctx->cell);
    TRI_CHECK(request->ext != NULL);
    request->op.call = call;
    request->op.done = answered;
    request->op.user = request;
    *out = request;
    return TR_OK;
}

tr_err tri_store_request_new(tr_ctx *ctx, tr_store_call call, uint32_t pieces,
                             tri_store_request **out)
{
    TR_TRY(tri_store_request_bare(ctx, call, pieces, out));
    tri_store_request *request = *out;
    tr_err err = tri_store_request_key(ctx, request->key);
    if (err != TR_OK) {
        tri_store_request_free(request);
        *out = NULL;
        return err;
    }
    request->op.key = (tri_store_bytes){request->key, strlen(request->key)};
    if (tri_cell_is_virtual(ctx->cell)) {
        const tri_virtual_ops *ops = tri_virtual_ops_of(ctx->sys);
        request->op.epoch = ops->epoch(ctx);
        request->op.shard = ops->shard(ctx->cell);
    }
    return TR_OK;
}

/* Submits the request. Returns true if it was answered before this returns. */
static bool send_request(tr_ctx *ctx, tri_store_request *request)
{
    // Relaxed: only this turn and the answer count it.
    atomic_fetch_add_explicit(&request->ext->store_requests, 1,
                              memory_order_relaxed);
    // A simulation now and then parks although the answer comes at once.
    bool parks = TRI_BUGGIFY(ctx->sys->world, 0.5);
    // Relaxed: no other thread knows the request yet.
    atomic_store_explicit(&request->state, parks ? SHARED : SENDING,
                          memory_order_relaxed);
    submit(request->storage != NULL ? request->storage
                                    : ctx->cell->props->storage,
           request);
    return !parks && is_answered(request);
}

/* True if it is a write of a virtual actor whose node has lost its lease. */
static bool lacks_lease(tr_ctx *ctx, const tri_store_request *request)
{
    return tri_cell_is_virtual(ctx->cell) &&
           !tri_store_op_is_read(&request->op) &&
           !tri_virtual_ops_of(ctx->sys)->has_lease(ctx->sys);
}

tr_err tri_store_request_ask(tr_ctx *ctx, tri_store_request *request,
                             const char *site)
{
    TRI_CHECK(request->cell == ctx->cell);
    if (ctx->cancel != TR_OK) {  // a turn that was cut waits for nothing
        tri_store_request_free(request);
        return ctx->cancel;
    }
    if (lacks_lease(ctx, request)) {
        tri_store_fail(&request->op, TR_EFENCED,
                       TRI_STORE_FAULT_OPERATION_FAILED,
                       "this node has lost its lease");
        return TR_OK;  // the request is answered
    }
    tri_ext *ext = request->ext;
    request_wait wait = {.wait = {.kind = TRI_WAIT_OUTSIDE,
                                  .cancel = cancel_request,
                                  .call = "a call of its store",
                                  .site = site},
                         .request = request};
    request->wait = &wait.wait;
    tr_err err = tri_wait_begin(ctx, &wait.wait, TR_FOREVER);
    if (err != TR_OK) {
        tri_store_request_free(request);
        return err;
    }
    bool at_once = send_request(ctx, request);
    wait.wait.done = at_once;
    err = tri_park(ctx, &wait.wait);
    tri_wait_finish(ctx, &wait.wait);
    if (wait.left) {
        return err;  // the answer may have freed the request already
    }
    // Acquire: pairs with answered(); the turn owns the request again.
    TRI_CHECK(atomic_load_explicit(&request->state, memory_order_acquire) ==
              DONE);
    // Relaxed: the answer has been taken.
    atomic_fetch_sub_explicit(&ext->store_requests, 1, memory_order_relaxed);
    if (err != TR_OK) {
        tri_store_request_free(request);
    } else if (at_once && --ctx->worker->sends_left == 0) {
        tri_yield(ctx);  // as after many sends: other actors wait, too
    }
    return err;
}

tr_err tri_store_request_result(tr_ctx *ctx, const tri_store_request *request,
                                const char *what)
{
    TRI_CHECK(request->cell == ctx->cell);
    tr_err err = request->op.err;
    if (err != TR_OK) {
        tri_error_set(ctx, "%s %s: %s", what, request->key, request->op.text);
    }
    err = err == TR_ENOENT ? TR_EFENCED : err;
    if (err == TR_EUNKNOWN) {
        tri_signal(ctx->worker, ctx->cell, request->cell_id, TRI_SIG_RESTART);
    }
    if (err == TR_EFENCED && tri_cell_is_virtual(ctx->cell)) {
        // Another activation has won: this one ends, and its mail is sent on
        // to where the actor is by then.
        tri_signal(ctx->worker, ctx->cell, request->cell_id, TRI_SIG_STOP);
    }
    return err == TR_EIO ? TR_ESTORAGE : err;
}

tr_err tri_store_request_may_ask(tr_ctx *ctx, const char *call,
                                 const char *site)
{
    TRI_CHECK(ctx->magic == TRI_CTX_MAGIC);
    const tri_props *props = ctx->cell->props;
    if (props == NULL || props->storage == NULL) {
        tri_error_set(ctx,
                      "%s at %s: this actor has no storage; give it "
                      "one with .storage at tr_spawn or tr_host",
                      call, site);
        tri_error_set_reason(ctx, "this actor has no storage");
        return TR_ESTORAGE;
    }
    if (!tri_can_park(ctx)) {
        return TR_EWOULDBLOCK;
    }
    return ctx->cancel;
}
