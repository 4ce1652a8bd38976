/*
 * ask.c - requests: sending one, waiting for it, taking its reply.
 *
 * The asker keeps a tri_wait with a correlation number; the request carries
 * both its ref and that number, and so does the answer (answer.c, wait.c).
 * tr_ask has it on its own stack, which stays where it is while the turn is
 * parked. Who does not wait at once has it in memory (future.c, then.c).
 */
#include <string.h>

#include "core/ask.h"
#include "core/lifecycle.h"

/* ---- sending a request ---- */

tr_nanos tri_ask_deadline(tr_ctx *ctx, tr_nanos timeout, bool *is_long)
{
    tr_nanos deadline = TR_FOREVER;
    *is_long = true;
    if (timeout != TR_FOREVER) {
        tr_nanos span = timeout > 0 ? timeout : ctx->sys->options.ask_timeout;
        *is_long = span >= TRI_COARSE;
        // Never early; of a long span a little late.
        tri_world *world = ctx->sys->world;
        tr_nanos now = *is_long && world->ops->mono_coarse != NULL
                           ? world->ops->mono_coarse(world) + TRI_CLOCK_LAG
                           : tri_clock(ctx->worker);
        deadline = span >= TR_FOREVER - now ? TR_FOREVER : now + span;
    }
    // Whoever asked us does not wait longer than that.
    const tr_context *context = tri_ctx_context(ctx);
    if (TRI_UNLIKELY(context != NULL && context->deadline != 0 &&
                     context->deadline < deadline)) {
        *is_long = false;
        return context->deadline;
    }
    return deadline;
}

tr_err tri_undelivered_as(tr_ref to, tr_err err)
{
    // Whether it is just ending or has ended is a race: both are gone.
    return err == TR_ESTOPPED                            ? TR_EGONE
           : err == TR_EGONE && tri_ref_cell(to) == NULL ? TR_ENOENT
                                                         : err;
}

/*
 * As tri_try_send, for one who is not slowed down: he waits anyway. `parks`:
 * at once.
 */
static tr_err deliver(tr_ctx *ctx, tr_ref to, tr_msg *msg, bool parks)
{
    enum { SPECIAL = TRI_CELL_BOUNDED | TRI_CELL_TIGHT | TRI_CELL_VIRTUAL };
    tri_cell *cell = tri_ref_cell(to);
    // Relaxed: as in tri_try_send.
    if (TRI_UNLIKELY((to.cell >> 48) != ctx->sys->tag ||
                     (atomic_load_explicit(&cell->flags, memory_order_relaxed) &
                      SPECIAL) != 0)) {
        tri_actor_from who = {.sys = ctx->sys,
                              .worker = ctx->worker,
                              .ctx = NULL,
                              .sender = ctx->self};
        return tri_try_send(&who, to, msg);
    }
    uint32_t depth;
    msg->sender = ctx->self;
    if (parks && tri_hand_over(ctx->worker, cell, to.id, msg)) {
        return TR_OK;
    }
    TR_TRY(tri_push_user(ctx->worker, cell, to.id, msg, &depth));
    if (TRI_UNLIKELY(depth >= TRI_SOFT_GLANCE)) {
        tri_look_at_depth(ctx->worker, cell);
    }
    return TR_OK;
}

tr_err tri_ask_send(tr_ctx *ctx, tri_wait *wait, tr_nanos deadline,
                    bool is_long, const void *payload)
{
    const tr_context *context = tri_ctx_context(ctx);
    tr_msg *msg = TRI_LIKELY(context == NULL)
                      ? tri_ask_new(&ctx->worker->cache, wait->type, payload)
                      : tri_msg_new_with(&ctx->worker->cache, wait->type,
                                         payload, true, context);
    if (msg == NULL) {
        return TR_ENOMEM;
    }
    *tri_msg_ask(msg) =
        (tri_ask){.correlation = wait->correlation,
                  .deadline = deadline,
                  .site = wait->site,
                  .way = tri_wait_is_detached(wait) ? TRI_WAY_USER_LANE : 0,
                  .is_long = is_long};
    tri_count(&ctx->worker->count.asks);
    tr_err err = deliver(ctx, wait->target, msg, wait->kind == TRI_WAIT_REPLY);
    if (TRI_LIKELY(err == TR_OK)) {
        return TR_OK;
    }
    tri_msg_free(&ctx->worker->cache, msg);
    return tri_undelivered_as(wait->target, err);
}

/* ---- taking a reply ---- */

void tri_ask_say_why(tr_ctx *ctx, const tri_wait *wait, tr_err err,
                     const char *text)
{
    char path[TRI_PATH_MAX], room[TRI_ADVICE_MAX];
    tr_ref_path(ctx, wait->target, path, sizeof(path));
    tri_cell *cell = tri_ref_cell(wait->target);
    bool here = (wait->target.cell >> 48) == ctx->sys->tag;
    bool more = text != NULL && strcmp(text, tr_strerror(err)) != 0;
    tri_error_set(ctx, "%s of %s at %s: %s%s%s%s (target %s, %u queued)",
                  wait->type != NULL ? wait->type->name : "wait", path,
                  wait->site != NULL ? wait->site : "?", tr_strerror(err),
                  more ? ": " : "", more ? text : "",
                  tri_advice(ctx->sys, err, wait->target, room, sizeof(room)),
                  here ? tri_state_name(tri_cell_life(cell)) : "gone",
                  here ? tri_depth(cell) : 0);
}

tr_err tri_ask_take_reply(tr_ctx *ctx, tri_wait *wait, void *out)
{
    tr_msg *reply = wait->reply;
    wait->reply = NULL;
    if (reply->node.flags & TRI_MSG_ERROR) {
        tri_error_reply *error = (tri_error_reply *)(void *)reply->payload;
        tr_err err = error->err;
        tri_ask_say_why(ctx, wait, err, error->text);
        tri_msg_free(&ctx->worker->cache, reply);
        return err;
    }
    const tr_type *type = reply->node.type;
    if (wait->type->reply->schema != type->schema) {
        tri_msg_free(&ctx->worker->cache, reply);
        return TR_ESCHEMA;
    }
    if (out != NULL && type->size > 0) {
        tri_copy_payload(out, reply->payload, type->size);
    }
    if (type->var_count > 0) {  // rule 17: its text lives with the turn
        reply->node.next = ctx->replies;
        ctx->replies = &reply->node;
        ctx->flags |= TRI_CTX_REPLIES;
    } else {
        tri_msg_free(&ctx->worker->cache, reply);
    }
    return TR_OK;
}

void tri_ask_drop_reply(tr_ctx *ctx, tri_wait *wait)
{
    if (wait->reply != NULL) {
        tri_dead(ctx->worker, tri_cell_ref(ctx->sys, ctx->cell), wait->reply,
                 TR_DEAD_LATE);
        wait->reply = NULL;
    }
}

void tri_ask_zero_out(void *out, const tr_type *type)
{
    if (out != NULL && type->reply != NULL) {
        memset(out, 0, type->reply->size);
    }
}

/* In pieces: for the whole the compiler takes a string instruction, slow. */
static inline void wait_clear(tri_wait *wait)
{
    enum { PIECE = 64, REST = sizeof(*wait) % PIECE };
    _Static_assert(sizeof(*wait) / PIECE == 3, "as many pieces as below");
    char *at = (char *)wait;
    memset(at, 0, PIECE);
    memset(at + PIECE, 0, PIECE);
    memset(at + 2 * PIECE, 0, PIECE);
    memset(at + 3 * PIECE, 0, REST);
}

static inline __attribute__((always_inline)) tr_err
ask(tr_ctx *ctx, tr_ref to, void *out, tr_nanos timeout, const tr_type *type,
    const void *payload, const char *site)
{
    if (!tri_can_park(ctx)) {
        return TR_EWOULDBLOCK;
    }
    if (ctx->cancel != TR_OK) {
        return ctx->cancel;
    }
    tri_wait wait;
    wait_clear(&wait);
    wait.kind = TRI_WAIT_REPLY;
    wait.target = to;
    wait.type = type;
    wait.site = site;
    bool is_long;
    tr_nanos deadline = tri_ask_deadline(ctx, timeout, &is_long);
    TR_TRY(tri_wait_begin(ctx, &wait, deadline));
    tr_err err = tri_edge_begin(ctx, &wait);
    if (err == TR_OK) {
        err = tri_ask_send(ctx, &wait, deadline, is_long, payload);
        if (err == TR_OK) {
            err = tri_park(ctx, &wait);
        }
        if (wait.reply == NULL && err != TR_OK) {
            // Of a cycle its finder has left the text.
            tri_ask_say_why(ctx, &wait, err,
                            err == TR_EDEADLOCK ? ctx->fail_text : NULL);
        }
        tri_edge_end(ctx, &wait);
    }
    tri_wait_finish(ctx, &wait);
    if (err == TR_OK && wait.reply != NULL) {
        return tri_ask_take_reply(ctx, &wait, out);
    }
    tri_ask_drop_reply(ctx, &wait);
    return err;
}

tr_err tri_ask_inside(tr_ctx *ctx, tr_ref to, void *out, tr_nanos timeout,
                      const tr_type *type, const void *payload,
                      const char *site)
{
    tr_err err = ask(ctx, to, out, timeout, type, payload, site);
    if (TRI_UNLIKELY(err != TR_OK)) {
        tri_ask_zero_out(out, type);
    }
    return err;
}
