/*
 * future.c - futures: the halves of an ask.
 *
 * A future is the number of a wait that belongs to the turn that asked. It
 * ends with tr_await or with that turn, whichever comes first, so none is
 * left behind; a number of another turn or type is refused.
 */
#include <stdlib.h>

#include "core/ask.h"

#define NO_MEMORY UINT64_MAX  // id of a future that could not be made

tr_future(tr_async)(tr_ctx *ctx, tr_ref to, tr_nanos timeout,
                    const tr_type *type, const void *payload)
{
    tri_wait *wait = tri_mem_calloc(&ctx->sys->mem, sizeof(*wait));
    if (wait == NULL) {
        return (tr_future){NO_MEMORY};
    }
    wait->kind = TRI_WAIT_FUTURE;
    wait->target = to;
    wait->type = type;
    wait->owner = ctx;
    bool is_long;
    tr_nanos deadline = tri_ask_deadline(ctx, timeout, &is_long);
    if (tri_wait_begin(ctx, wait, deadline) != TR_OK) {
        free(wait);
        return (tr_future){NO_MEMORY};
    }
    ctx->flags |= TRI_CTX_FUTURES;
    tr_err err = tri_ask_send(ctx, wait, deadline, is_long, payload);
    if (err != TR_OK) {
        wait->done = true;
        wait->err = err;
    }
    return (tr_future){wait->correlation};
}

static void free_future(tr_ctx *ctx, tri_wait *wait)
{
    tri_wait_finish(ctx, wait);
    tri_ask_drop_reply(ctx, wait);
    free(wait);
}

void tri_futures_drop(tr_ctx *ctx)
{
    tri_ext *ext = tri_ext_of(ctx->cell);
    for (tri_wait *w = ext->waits, *next; w != NULL; w = next) {
        next = w->next;
        if (w->kind == TRI_WAIT_FUTURE && w->owner == ctx) {
            free_future(ctx, w);
        }
    }
}

tr_err(tr_await)(tr_ctx *ctx, tr_future future, const tr_type *type, void *out,
                 const char *site)
{
    tri_ask_zero_out(out, type);
    tri_wait *wait =
        future.id != 0 ? tri_wait_find(ctx->cell, future.id) : NULL;
    if (wait == NULL || wait->kind != TRI_WAIT_FUTURE || wait->owner != ctx ||
        wait->type->schema != type->schema) {
        return ctx->cancel != TR_OK     ? ctx->cancel
               : future.id == NO_MEMORY ? TR_ENOMEM
                                        : TR_EINVAL;
    }
    wait->site = site;
    tr_err err = wait->done ? wait->err : tri_edge_begin(ctx, wait);
    bool cycle = err == TR_EDEADLOCK;  // the text is there already
    if (!wait->done && err == TR_OK) {
        err = tri_park(ctx, wait);
        tri_edge_end(ctx, wait);
    }
    if (err == TR_OK && wait->reply != NULL) {
        err = tri_ask_take_reply(ctx, wait, out);
    } else if (!cycle) {
        tri_ask_say_why(ctx, wait, err,
                        err == TR_EDEADLOCK ? ctx->fail_text : NULL);
    }
    free_future(ctx, wait);
    return err;
}

static bool any_done(tr_ctx *ctx, const tr_future *futures, size_t count,
                     size_t *index)
{
    for (size_t i = 0; i < count; i++) {
        tri_wait *wait = tri_wait_find(ctx->cell, futures[i].id);
        if (wait != NULL && wait->owner == ctx && wait->done) {
            *index = i;
            return true;
        }
    }
    return false;
}

/* Rule 19: a wait for any of several is refused if all lead back to us. */
static bool all_close(tr_ctx *ctx, const tr_future *futures, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const tri_wait *wait = tri_wait_find(ctx->cell, futures[i].id);
        if (!tri_edge_would_close(ctx, wait)) {
            return false;
        }
    }
    return true;
}

tr_err tr_await_any(tr_ctx *ctx, const tr_future *futures, size_t count,
                    size_t *index)
{
    *index = 0;
    for (size_t i = 0; i < count; i++) {
        tri_wait *wait = tri_wait_find(ctx->cell, futures[i].id);
        if (wait == NULL || wait->owner != ctx ||
            wait->kind != TRI_WAIT_FUTURE) {
            *index = i;
            return ctx->cancel != TR_OK         ? ctx->cancel
                   : futures[i].id == NO_MEMORY ? TR_ENOMEM
                                                : TR_EINVAL;
        }
    }
    if (count == 0) {
        return TR_EINVAL;
    }
    if (!any_done(ctx, futures, count, index) &&
        all_close(ctx, futures, count)) {
        return TR_EDEADLOCK;
    }
    while (!any_done(ctx, futures, count, index)) {
        tri_wait either = {.kind = TRI_WAIT_OUTSIDE};
        for (size_t i = 0; i < count; i++) {
            tri_wait_find(ctx->cell, futures[i].id)->ctx = ctx;
        }
        tr_err err = tri_park(ctx, &either);
        for (size_t i = 0; i < count; i++) {
            tri_wait_find(ctx->cell, futures[i].id)->ctx = NULL;
        }
        TR_TRY(err);
    }
    return TR_OK;
}
