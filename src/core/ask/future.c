/*
 * future.c - futures: tr_async sends a request, tr_await waits for its reply.
 *
 * A future is the correlation number of an allocated wait.
 *
 * Invariant: a future belongs to the turn that made it and ends with tr_await
 * or with that turn (rule 16 (futures)). A number of another turn or type is
 * refused.
 */
#include "core/ask/future.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/list.h"
#include "core/ask/ask.h"
#include "core/ask/deadlock.h"
#include "core/ask/wait.h"
#include "core/cell/ext.h"
#include "core/cell/mem.h"
#include "core/life/failure.h"
#include "core/run/context.h"
#include "core/run/park.h"
#include "core/run/waiting.h"
#include "core/system.h"

#define NO_MEMORY UINT64_MAX  // id of a future that could not be allocated

tr_future(tr_async)(tr_ctx *ctx, tr_ref to, tr_nanos timeout,
                    const tr_type *type, const void *payload)
{
    TRI_CHECK(ctx->magic == TRI_CTX_MAGIC);
    if (type == NULL) {
        tri_misuse(ctx, "tr_async", "the type is NULL");
    }
    tri_wait *wait = tri_mem_calloc(&ctx->sys->mem, sizeof(*wait));
    if (wait == NULL) {
        return (tr_future){NO_MEMORY};
    }
    wait->kind = TRI_WAIT_FUTURE;
    wait->call = "tr_await";
    wait->target = to;
    wait->type = type;
    wait->future.owner = ctx;
    bool is_long;
    tr_nanos deadline = tri_ask_deadline(ctx, wait, timeout, &is_long);
    bool over = deadline == 0;
    if (tri_wait_begin(ctx, wait, over ? TR_FOREVER : deadline) != TR_OK) {
        free(wait);
        return (tr_future){NO_MEMORY};
    }
    ctx->flags |= TRI_CTX_FUTURES;
    tr_err err = over ? TR_ETIMEDOUT
                      : tri_ask_send(ctx, wait, deadline, is_long, payload);
    if (err != TR_OK) {
        wait->done = true;
        wait->err = err;
    }
    return (tr_future){wait->correlation};
}

/* Ends the wait of a future; a reply to it is a dead letter. Takes wait. */
static void free_future(tr_ctx *ctx, tri_wait *wait)
{
    TRI_CHECK(wait->kind == TRI_WAIT_FUTURE);
    tri_wait_finish(ctx, wait);
    tri_ask_drop_reply(ctx, wait);
    free(wait);
}

void tri_futures_drop(tr_ctx *ctx)
{
    tri_ext *ext = tri_ext_of(ctx->cell);
    TRI_CHECK(ext != NULL);
    TRI_LIST_EACH_SAFE (link, &ext->waits.list) {
        tri_wait *w = tri_list_item(link, tri_wait, link);
        if (w->kind == TRI_WAIT_FUTURE && w->future.owner == ctx) {
            free_future(ctx, w);
        }
    }
}

/* Returns the error for a number that is no future of the turn. */
static tr_err no_future(const tr_ctx *ctx, tr_future future)
{
    return ctx->cancel != TR_OK     ? ctx->cancel
           : future.id == NO_MEMORY ? TR_ENOMEM
                                    : TR_EINVAL;
}

tr_err(tr_await)(tr_ctx *ctx, tr_future future, const tr_type *type, void *out,
                 const char *site)
{
    TRI_CHECK(ctx->magic == TRI_CTX_MAGIC);
    tri_ask_zero_out(out, type);
    tri_wait *wait =
        future.id != 0 ? tri_wait_find(ctx->cell, future.id) : NULL;
    if (wait == NULL || wait->kind != TRI_WAIT_FUTURE ||
        wait->future.owner != ctx || wait->type->schema != type->schema) {
        return no_future(ctx, future);
    }
    wait->site = site;
    wait->since = 0;  // the turn waits from now on, not since tr_async
    tr_err err = wait->done ? wait->err : tri_edge_begin(ctx, wait);
    bool cycle = err == TR_EDEADLOCK;  // the text is set already
    if (!wait->done && err == TR_OK) {
        err = tri_park(ctx, wait);
        tri_edge_end(ctx, wait);
    }
    if (err == TR_OK && wait->reply != NULL) {
        err = tri_ask_take_reply(ctx, wait, out);
    } else if (!cycle) {
        tri_ask_set_error(ctx, wait, err,
                          err == TR_EDEADLOCK ? ctx->fail_text : NULL);
    }
    free_future(ctx, wait);
    return err;
}

/* Returns true if one of the futures is done; *index gets the first. */
static bool any_done(tr_ctx *ctx, const tr_future *futures, size_t count,
                     size_t *index)
{
    for (size_t i = 0; i < count; i++) {
        tri_wait *wait = tri_wait_find(ctx->cell, futures[i].id);
        if (wait != NULL && wait->future.owner == ctx && wait->done) {
            *index = i;
            return true;
        }
    }
    return false;
}

/* Returns true if each of the waits would close a cycle (rule 18 (cycles)). */
static bool all_close(tr_ctx *ctx, const tr_future *futures, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const tri_wait *wait = tri_wait_find(ctx->cell, futures[i].id);
        TRI_CHECK(wait != NULL);
        if (!tri_edge_would_close(ctx, wait)) {
            return false;
        }
    }
    return true;
}

/* Checks that all numbers are futures of the turn; *index gets the first not. */
static tr_err check_futures(tr_ctx *ctx, const tr_future *futures, size_t count,
                            size_t *index)
{
    for (size_t i = 0; i < count; i++) {
        const tri_wait *wait = tri_wait_find(ctx->cell, futures[i].id);
        if (wait == NULL || wait->future.owner != ctx ||
            wait->kind != TRI_WAIT_FUTURE) {
            *index = i;
            return no_future(ctx, futures[i]);
        }
    }
    return TR_OK;
}

/* Parks until one of the futures that are not done wakes the turn. */
static tr_err park_on(tr_ctx *ctx, const tr_future *futures, size_t count,
                      const char *call)
{
    tri_wait either = {
        .kind = TRI_WAIT_OUTSIDE, .call = call, .site = tri_site_take(ctx)};
    TRI_CHECK(count > 0);
    for (size_t i = 0; i < count; i++) {
        tri_wait_find(ctx->cell, futures[i].id)->ctx = ctx;
    }
    tr_err err = tri_park(ctx, &either);
    for (size_t i = 0; i < count; i++) {
        tri_wait_find(ctx->cell, futures[i].id)->ctx = NULL;
    }
    return err;
}

tr_err(tr_await_any)(tr_ctx *ctx, const tr_future *futures, size_t count,
                     size_t *index)
{
    TRI_CHECK(ctx->magic == TRI_CTX_MAGIC);
    *index = 0;
    TR_TRY(check_futures(ctx, futures, count, index));
    if (count == 0) {
        return TR_EINVAL;
    }
    if (!any_done(ctx, futures, count, index) &&
        all_close(ctx, futures, count)) {
        return TR_EDEADLOCK;
    }
    while (!any_done(ctx, futures, count, index)) {
        TR_TRY(park_on(ctx, futures, count, "tr_await_any"));
    }
    return TR_OK;
}

tr_err(tr_await_all)(tr_ctx *ctx, const tr_future *futures, size_t count)
{
    size_t unused;
    TRI_CHECK(ctx->magic == TRI_CTX_MAGIC);
    TR_TRY(check_futures(ctx, futures, count, &unused));
    for (size_t i = 0; i < count; i++) {
        tri_wait *wait = tri_wait_find(ctx->cell, futures[i].id);
        if (!wait->done && tri_edge_would_close(ctx, wait)) {
            return TR_EDEADLOCK;
        }
    }
    for (size_t i = 0; i < count; i++) {
        while (!tri_wait_find(ctx->cell, futures[i].id)->done) {
            TR_TRY(park_on(ctx, &futures[i], 1, "tr_await_all"));
        }
    }
    return TR_OK;
}
