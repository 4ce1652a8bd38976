/*
 * question.c - asking the store, and waiting for what it says.
 *
 * Invariant: a question is owned by the turn, until it is asked; then by both
 * sides, until one of them moves `state` away from SHARED. If the answer comes
 * first (DONE) the turn owns it again, if the turn is cut short first (LEFT)
 * the answer frees it.
 *
 * A store in memory answers while it is asked (ASKING): then the turn goes on
 * without parking, and nobody has to wake it.
 */
#include "system/question.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ASKING, SHARED, LEFT, DONE };  // tri_question.state

typedef struct question_wait {
    tri_wait wait;  // first: the cancel function gets it
    tri_question *question;
} question_wait;

void tri_question_free(tri_question *q)
{
    if (q != NULL) {
        tri_store_op_fini(&q->op);
        for (uint32_t i = 0; i < q->op_count; i++) {
            tri_store_op_fini(&q->ops[i]);
        }
        free(q->ops);
        for (uint32_t i = 0; i < q->owned_count; i++) {
            free(q->owned[i]);
        }
        free(q->owned);
        free(q);
    }
}

static bool leave_question(tri_wait *wait)
{
    tri_question *q = ((question_wait *)(void *)wait)->question;
    uint32_t shared = SHARED;
    // Acquire and release: both sides agree on who frees the question.
    return atomic_compare_exchange_strong_explicit(
        &q->state, &shared, LEFT, memory_order_acq_rel, memory_order_acquire);
}

/*
 * A simulation looks at what was written (sim/sim_commit.c), and may lose the
 * answer.
 */
static void tell_stored(const tri_question *q, tri_store_op *op)
{
    const tri_up *up = q->sys->up;
    bool is_event = op->call == TR_STORE_APPEND;
    if (TRI_LIKELY(up->stored == NULL) ||
        (op->call != TR_STORE_SAVE && !is_event)) {
        return;
    }
    tri_written written = {
        .store = q->storage != NULL ? q->storage : q->cell->props->storage,
        .key = op->key.at,
        .key_size = op->key.size,
        .shard = op->shard,
        .is_event = is_event,
        .epoch = op->epoch,
        .before = op->number,
        .version = op->number + (is_event ? op->event_count : 1),
        .err = op->err};
    up->stored(q->sys, &written);
    if (written.err != op->err) {
        tri_store_fail(op, written.err, TRI_STORE_FAULT_UNAVAILABLE,
                       "the answer was lost");
    }
}

/* The store has answered; any thread. */
static void answered(tri_store_op *op)
{
    tri_question *q = op->user;
    if (q->ops == NULL) {
        tell_stored(q, op);
    }
    uint32_t asking = ASKING;
    // Release: the turn sees the answer. Acquire: it has let go.
    if (atomic_compare_exchange_strong_explicit(&q->state, &asking, DONE,
                                                memory_order_acq_rel,
                                                memory_order_acquire)) {
        return;
    }
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
        tri_question_free(q);
    }
    tri_leave(&who);
}

/* One of several has been answered; the last one is the answer. */
static void answered_one(tri_store_op *op)
{
    tri_question *q = op->user;
    tell_stored(q, op);
    // Acquire and release: the last one sees what the others were told.
    if (atomic_fetch_sub_explicit(&q->left, 1, memory_order_acq_rel) == 1) {
        answered(&q->op);
    }
}

tr_err tri_question_ops(tri_question *q, uint32_t count)
{
    TRI_CHECK(q->ops == NULL && count > 0);
    q->ops = tri_mem_calloc(&q->sys->mem, count * sizeof(*q->ops));
    if (q->ops == NULL) {
        return TR_ENOMEM;
    }
    q->op_count = count;
    // Relaxed: nobody else knows it yet.
    atomic_store_explicit(&q->left, count, memory_order_relaxed);
    for (uint32_t i = 0; i < count; i++) {
        q->ops[i].done = answered_one;
        q->ops[i].user = q;
    }
    return TR_OK;
}

/* The turn has asked. True: the answer is there, and wakes nobody. */
static bool is_answered(tri_question *q)
{
    uint32_t asking = ASKING;
    // Release: whoever answers from now on wakes us. Acquire: the answer.
    return !atomic_compare_exchange_strong_explicit(
        &q->state, &asking, SHARED, memory_order_acq_rel, memory_order_acquire);
}

static void submit(tr_storage *storage, tri_question *q)
{
    if (q->op_count == 0) {
        tri_storage_submit(storage, &q->op);
        return;
    }
    tri_list list;
    tri_list_init(&list);
    for (uint32_t i = 0; i < q->op_count; i++) {
        tri_list_push_back(&list, &q->ops[i].link);
    }
    tri_storage_submit_all(storage, &list);
}

tr_err tri_question_key(tr_ctx *ctx, char *out)
{
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
        tri_error_set(ctx, "%s::%s/%s is no key of a store: %s", space, kind,
                      path, err == TR_ELIMIT ? "too long" : "not allowed");
    }
    return err;
}

tr_err tri_question_new(tr_ctx *ctx, tr_store_call call, uint32_t pieces,
                        tri_question **out)
{
    tri_mem *mem = &ctx->sys->mem;
    tri_question *q = tri_mem_should_fail(mem) ? NULL : malloc(sizeof(*q));
    *out = NULL;
    if (q != NULL) {
        memset(q, 0, offsetof(tri_question, key));
        q->key[0] = '\0';
    }
    if (q == NULL ||
        (pieces > 0 && (q->owned = tri_mem_calloc(
                            mem, pieces * sizeof(*q->owned))) == NULL)) {
        free(q);
        return TR_ENOMEM;
    }
    q->owned_count = pieces;
    tr_err err = tri_question_key(ctx, q->key);
    if (err != TR_OK) {
        tri_question_free(q);
        return err;
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
    *out = q;
    return TR_OK;
}

tr_err tri_question_ask(tr_ctx *ctx, tri_question *q, const char *site)
{
    if (ctx->cancel != TR_OK) {  // such a turn waits for nothing any more
        tri_question_free(q);
        return ctx->cancel;
    }
    tri_ext *ext = tri_ext_of(ctx->cell);
    question_wait wait = {.wait = {.kind = TRI_WAIT_OUTSIDE,
                                   .cancel = leave_question,
                                   .site = site},
                          .question = q};
    q->wait = &wait.wait;
    tr_err err = tri_wait_begin(ctx, &wait.wait, TR_FOREVER);
    if (err != TR_OK) {
        tri_question_free(q);
        return err;
    }
    // Relaxed: only this turn and the answer count it.
    atomic_fetch_add_explicit(&ext->stores, 1, memory_order_relaxed);
    // Relaxed: nobody else knows it yet. A simulation parks now and then
    // although the answer comes at once.
    bool parks = TRI_BUGGIFY(ctx->sys->world, 0.5);
    atomic_store_explicit(&q->state, parks ? SHARED : ASKING,
                          memory_order_relaxed);
    submit(q->storage != NULL ? q->storage : ctx->cell->props->storage, q);
    wait.wait.done = !parks && is_answered(q);
    bool at_once = wait.wait.done;
    err = tri_park(ctx, &wait.wait);
    tri_wait_finish(ctx, &wait.wait);
    // Acquire: as `answered`; DONE means that the question is ours.
    if (atomic_load_explicit(&q->state, memory_order_acquire) != DONE) {
        return err;
    }
    // Relaxed: the answer has been taken.
    atomic_fetch_sub_explicit(&ext->stores, 1, memory_order_relaxed);
    if (err != TR_OK) {
        tri_question_free(q);
    } else if (at_once && --ctx->worker->sends_left == 0) {
        tri_yield(ctx);  // as after a send: others wait, too
    }
    return err;
}

tr_err tri_question_result(tr_ctx *ctx, const tri_question *q, const char *what)
{
    tr_err err = q->op.err;
    if (err != TR_OK) {
        tri_error_set(ctx, "%s %s: %s", what, q->key, q->op.text);
    }
    if (err == TR_EUNKNOWN) {
        tri_signal(ctx->worker, ctx->cell, q->cell_id, TRI_SIG_RESTART);
    }
    // Relaxed: fixed at birth.
    if (err == TR_EFENCED &&
        (atomic_load_explicit(&ctx->cell->flags, memory_order_relaxed) &
         TRI_CELL_VIRTUAL)) {
        // Another activation has won (X31): this one ends, and what waits
        // for it is sent on to where the actor is by then.
        tri_signal(ctx->worker, ctx->cell, q->cell_id, TRI_SIG_STOP);
    }
    return err == TR_EIO ? TR_ESTORAGE : err;
}

tr_err tri_question_may_ask(tr_ctx *ctx, const char *call, const char *site)
{
    const tri_props *props = ctx->cell->props;
    if (props == NULL || props->storage == NULL) {
        tri_error_set(ctx,
                      "%s at %s: this actor has no storage; give it "
                      "one with .storage at tr_spawn or tr_host",
                      call, site);
        return TR_ESTORAGE;
    }
    if (!tri_can_park(ctx)) {
        return TR_EWOULDBLOCK;
    }
    return ctx->cancel;
}
