/*
 * ask.c - requests: sending, waiting, answering, cancelling.
 *
 * The asker keeps a tri_wait with a correlation number; the request carries
 * both its ref and that number, and so does the answer. An answer whose number
 * is not known any more came too late. A request that must be answered with
 * an error becomes that answer: its own block is used, so it cannot fail.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/lifecycle.h"
#include "core/mailbox.h"
#include "schema/value.h"

/* ---- answering ---- */

static void send_answer(tri_worker *worker, tr_ref to, tr_msg *answer,
                        bool in_user_lane)
{
    tr_system *sys = worker->sys;
    tri_cell *cell = tri_ref_cell(to);
    answer->to_id = to.id;
    answer->node.kind = TRI_NODE_REPLY;
    if ((to.cell >> 48) == sys->tag) {
        // Relaxed: a glance; the receiver compares to_id.
        if (atomic_load_explicit(&cell->id, memory_order_relaxed) == to.id) {
            if (!in_user_lane) {
                tri_edge_answered(cell, tri_msg_ask(answer)->correlation);
            }
            if (in_user_lane
                    ? tri_push(worker, cell, to.id, answer) == TR_OK
                    : tri_push_reply(worker, cell, answer)) {
                return;
            }
        }
    }
    tri_dead(worker, to, answer, TR_DEAD_LATE);
}

void tri_answer_error(tri_worker *worker, tr_msg *msg, tr_err err,
                      const char *text)
{
    if (!(msg->node.flags & TRI_MSG_ASK) ||
        (msg->node.flags & (TRI_MSG_ANSWERED | TRI_MSG_ERROR))) {
        tri_msg_free(&worker->cache, msg);
        return;
    }
    tr_ref asker = msg->sender;
    bool in_user_lane = tri_msg_ask(msg)->in_user_lane;
    tri_msg_become_error(msg, err, text != NULL ? strdup(text) : NULL);
    send_answer(worker, asker, msg, in_user_lane);
}

void tri_answer_copy(tri_worker *worker, tr_msg *msg, tr_err err,
                     const char *text)
{
    tr_msg *answer = tri_msg_new_raw(&worker->cache, NULL,
                                     sizeof(tri_error_reply), true);
    if (answer == NULL) {
        return;  // the request itself will answer when it is freed
    }
    *tri_msg_ask(answer) = *tri_msg_ask(msg);
    tri_msg_become_error(answer, err, text != NULL ? strdup(text) : NULL);
    msg->node.flags |= TRI_MSG_ANSWERED;
    answer->sender = (tr_ref){0};
    send_answer(worker, msg->sender, answer, tri_msg_ask(msg)->in_user_lane);
}

tr_err (tr_reply)(tr_ctx *ctx, const void *m, const void *payload)
{
    tr_msg *msg = tri_msg_of(m);
    const tr_type *type = msg->node.type->reply;
    TRI_CHECK(type != NULL);
    if (!(msg->node.flags & TRI_MSG_ASK)) {
        return TR_OK;  // told, not asked: nobody waits (T10)
    }
    if (msg->node.flags & TRI_MSG_ANSWERED) {
        tri_error_set(ctx,
                      "%s has been answered already: by an earlier tr_reply, "
                      "or when its handler returned without tr_keep",
                      msg->node.type->name);
        return TR_EEXIST;
    }
    tr_msg *answer = tri_ask_new(&ctx->worker->cache, type, payload);
    if (answer == NULL) {
        return TR_ENOMEM;
    }
    const tri_ask *ask = tri_msg_ask(msg);
    *tri_msg_ask(answer) = *ask;
    answer->node.flags |= TRI_MSG_ANSWERED;  // is never answered itself
    answer->sender = tri_cell_ref(ctx->sys, ctx->cell);
    msg->node.flags |= TRI_MSG_ANSWERED;
    send_answer(ctx->worker, msg->sender, answer, ask->in_user_lane);
    return TR_OK;
}

void tri_answer_value(tri_worker *worker, tr_msg *msg, tr_ref from,
                      const void *payload)
{
    const tri_ask *ask = tri_msg_ask(msg);
    tr_msg *answer =
        tri_msg_new(&worker->cache, msg->node.type->reply, payload, true);
    if (answer == NULL) {
        tri_answer_error(worker, msg, TR_ENOMEM, NULL);
        return;
    }
    *tri_msg_ask(answer) = *ask;
    answer->node.flags |= TRI_MSG_ANSWERED;
    answer->sender = from;
    send_answer(worker, msg->sender, answer, ask->in_user_lane);
    tri_msg_free(&worker->cache, msg);
}

tr_err tr_refuse(tr_ctx *ctx, const void *m, tr_err err, const char *format,
                 ...)
{
    tr_msg *msg = tri_msg_of(m);
    if (!(msg->node.flags & TRI_MSG_ASK) ||
        (msg->node.flags & TRI_MSG_ANSWERED)) {
        return TR_OK;
    }
    char text[TRI_SHOWN_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    tri_answer_copy(ctx->worker, msg, tri_blame(err), text);
    return TR_OK;
}

/* ---- error texts ---- */

static _Thread_local char outside_text[1024];
static _Thread_local uint64_t outside_texts;  // how many there were

void tri_error_set(tr_ctx *ctx, const char *format, ...)
{
    char text[sizeof(outside_text)];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (ctx == NULL) {
        memcpy(outside_text, text, sizeof(text));
        outside_texts++;
        return;
    }
    free(ctx->fail_text);
    ctx->fail_text = strdup(text);
}

uint64_t tr_error_mark(void)
{
    return outside_texts;
}

void tr_must_fail(const char *site, tr_err err, uint64_t mark)
{
    char text[sizeof(outside_text) + 64];
    bool more = outside_texts != mark;
    snprintf(text, sizeof(text), "%s: %s", tr_errname(err),
             more ? outside_text : tr_strerror(err));
    tr_abort(site, text);
}

/* The kinds of virtual actors that this system hosts, after what is there. */
static const char *name_kinds(tr_system *sys, char *room, size_t size)
{
    static const char none[] = "; nobody hosts its kind: tr_host comes first";
    TRI_CHECK(size > sizeof(none));
    memcpy(room, none, sizeof(none));
    // There are virtual actors, so there is somebody who knows of them.
    tri_virtual_ops_of(sys)->hosted(sys, room + sizeof(none) - 1,
                                    size - sizeof(none) + 1);
    return room;
}

const char *tri_advice(tr_system *sys, tr_err err, tr_ref to, char *room,
                       size_t size)
{
    bool here = (to.cell >> 48) == sys->tag;
    switch ((int)err) {
    case TR_ENOREPLY:
        return "; its handler must tr_reply, tr_refuse, tr_keep, tr_stash or "
               "tr_forward";
    case TR_EUNHANDLED:
        return "; its present behaviour has no TR_ON for it";
    case TR_ENOENT:
        return here && tri_ref_cell(to) != NULL &&
                       tri_cell_is_virtual(tri_ref_cell(to))
                   ? name_kinds(sys, room, size)
               : to.cell == 0
                   ? "; tr_ref_err says why the ref is of nobody"
                   : "";
    case TR_EGONE:
        return "; it has ended: tr_watch tells when";
    case TR_EFOREIGN:
        return "; or to one that was closed since";
    default:
        return "";
    }
}

const char *(tr_error_text)(tr_from from)
{
    if (*(const uint64_t *)(const void *)from.ctx == TRI_CTX_MAGIC) {
        return from.ctx->fail_text != NULL ? from.ctx->fail_text : "";
    }
    return outside_text;
}

/* ---- waits ---- */

void tri_wait_link(tri_cell *cell, tri_wait *wait)
{
    tri_ext *ext = tri_ext_of(cell);
    wait->prev = NULL;
    wait->next = ext->waits;
    if (ext->waits != NULL) {
        ext->waits->prev = wait;
    }
    ext->waits = wait;
}

void tri_wait_unlink(tri_cell *cell, tri_wait *wait)
{
    tri_ext *ext = tri_ext_of(cell);
    if (wait->prev != NULL) {
        wait->prev->next = wait->next;
    } else {
        ext->waits = wait->next;
    }
    if (wait->next != NULL) {
        wait->next->prev = wait->prev;
    }
}

static bool is_detached(const tri_wait *wait)
{
    return wait->kind == TRI_WAIT_THEN || wait->kind == TRI_WAIT_PIPE;
}

/*
 * Most asks have the system's time limit, begin and end on one worker and are
 * answered long before: in the order of their deadlines a list will do, and
 * the wheel and its lock are left alone.
 */
static void asks_append(tri_worker *worker, tri_wait *wait, tr_nanos deadline)
{
    wait->deadline = deadline;
    wait->listed = true;
    wait->blocked_next = NULL;
    wait->blocked_prev = worker->asks_last;
    if (worker->asks_last != NULL) {
        worker->asks_last->blocked_next = wait;
    } else {
        worker->asks = wait;
    }
    worker->asks_last = wait;
}

static void asks_remove(tri_worker *worker, tri_wait *wait)
{
    wait->listed = false;
    if (wait->blocked_prev != NULL) {
        wait->blocked_prev->blocked_next = wait->blocked_next;
    } else {
        worker->asks = wait->blocked_next;
    }
    if (wait->blocked_next != NULL) {
        wait->blocked_next->blocked_prev = wait->blocked_prev;
    } else {
        worker->asks_last = wait->blocked_prev;
    }
}

void tri_asks_fire(tri_worker *worker, tr_nanos now)
{
    while (worker->asks != NULL && worker->asks->deadline <= now) {
        tri_wait *wait = worker->asks;
        asks_remove(worker, wait);
        tri_wait_timed_out(worker, wait);
    }
}

static void arm_wait(tr_ctx *ctx, tri_wait *wait, tr_nanos deadline)
{
    tri_worker *worker = ctx->worker;
    wait->wheel = (uint16_t)worker->index;
    if (deadline == TR_FOREVER) {
        return;
    }
    if (wait->kind == TRI_WAIT_REPLY &&
        (worker->asks_last == NULL ||
         worker->asks_last->deadline <= deadline)) {
        asks_append(worker, wait, deadline);
    } else {
        tri_arm(worker, &wait->timer, deadline, TRI_TIMER_WAIT);
    }
}

/* On the worker that armed it; of the wheel: under its lock. */
void tri_wait_timed_out(tri_worker *worker, tri_wait *wait)
{
    tri_cell *cell = wait->cell;
    if (is_detached(wait)) {
        // Its actor may be anywhere: tell it by mail.
        wait->node.kind = TRI_NODE_WAKE;
        bool taken = tri_push_system(worker, cell, &wait->node);
        TRI_CHECK(taken);  // tri_waits_drop disarms first
        return;
    }
    // The turn is bound to this worker and not running.
    if (wait->cancel != NULL && !wait->done && !wait->cancel(wait)) {
        return;  // what it waits for has just come
    }
    if (!wait->done) {
        wait->done = true;
        wait->err = wait->kind == TRI_WAIT_SLEEP ? TR_OK : TR_ETIMEDOUT;
    }
    if (wait->ctx != NULL && wait->ctx->parked) {
        wait->ctx->ready = true;
    }
    // Relaxed: the turn keeps the actor alive.
    uint64_t id = atomic_load_explicit(&cell->id, memory_order_relaxed);
    tri_signal(worker, cell, id, TRI_SIG_WAKE);
}

tr_err tri_wait_begin(tr_ctx *ctx, tri_wait *wait, tr_nanos deadline)
{
    tri_ext *ext = tri_ext_of(ctx->cell);
    if (ext == NULL && (ext = tri_ext_need(ctx->worker, ctx->cell)) == NULL) {
        return TR_ENOMEM;
    }
    if (wait->kind != TRI_WAIT_FUTURE) {
        // Now: once somebody knows of the wait it must be able to park.
        wait->fiber = tri_fiber_take(&ctx->worker->fibers);
        if (wait->fiber == NULL) {
            return TR_ELIMIT;
        }
    }
    wait->cell = ctx->cell;
    wait->correlation = ++ext->correlation;
    tri_wait_link(ctx->cell, wait);
    arm_wait(ctx, wait, deadline);
    return TR_OK;
}

void tri_wait_finish(tr_ctx *ctx, tri_wait *wait)
{
    if (wait->fiber != NULL) {  // it did not come to parking
        tri_fiber_give(&ctx->worker->fibers, wait->fiber);
        wait->fiber = NULL;
    }
    if (wait->listed) {
        TRI_CHECK(wait->wheel == ctx->worker->index);
        asks_remove(ctx->worker, wait);
    } else if (wait->timer.due != 0) {  // else it was never armed
        tri_disarm(ctx->sys, wait->wheel, &wait->timer);
    }
    tri_wait_unlink(ctx->cell, wait);
}

static tri_wait *find_wait(tri_cell *cell, uint64_t correlation)
{
    tri_ext *ext = tri_ext_of(cell);
    for (tri_wait *w = ext != NULL ? ext->waits : NULL; w != NULL;
         w = w->next) {
        if (w->correlation == correlation) {
            return w;
        }
    }
    return NULL;
}

bool tri_reply_awaited(tri_worker *worker, tri_cell *cell, tr_msg *reply)
{
    // Relaxed: we own the cell.
    uint64_t id = atomic_load_explicit(&cell->id, memory_order_relaxed);
    tri_wait *wait = reply->to_id == id
                         ? find_wait(cell, tri_msg_ask(reply)->correlation)
                         : NULL;
    if (wait == NULL || wait->done) {
        return false;
    }
    wait->reply = reply;
    tri_wait_done(worker, cell, wait, TR_OK);
    return true;
}

void tri_reply_arrived(tri_worker *worker, tri_cell *cell, tr_msg *reply)
{
    if (TRI_LIKELY(tri_reply_awaited(worker, cell, reply))) {
        return;
    }
    const tri_virtual_ops *ops = tri_virtual_ops_of(worker->sys);
    if (ops == NULL || !ops->reply(worker, cell, reply)) {
        tri_dead(worker, (tr_ref){tri_cell_ref(worker->sys, cell).cell,
                                  reply->to_id},
                 reply, TR_DEAD_LATE);
    }
}

void tri_wait_woken(tr_ctx *ctx, tri_wait *wait)
{
    if (!is_detached(wait)) {
        tri_wait_done(ctx->worker, ctx->cell, wait, wait->err);
    } else if (wait->orphan) {
        tri_wait_unlink(ctx->cell, wait);
        free(wait);
    } else {
        // User code waits for its turn, behind the mail that is there.
        wait->woken = true;
        wait->node.next = NULL;
        tri_detach(ctx->cell);
        tri_node **end = &ctx->cell->queue;
        while (*end != NULL) {
            end = &(*end)->next;
        }
        *end = &wait->node;
        // Relaxed: for observers.
        atomic_fetch_add_explicit(&ctx->cell->queued, 1,
                                  memory_order_relaxed);
    }
}

/* ---- sending a request ---- */

/* The end of a request's time; *is_long: as in tri_ask. */
static tr_nanos deadline_of(tr_ctx *ctx, tr_nanos timeout, bool *is_long)
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
    return err == TR_ESTOPPED                              ? TR_EGONE
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
                     (atomic_load_explicit(&cell->flags,
                                           memory_order_relaxed) &
                      SPECIAL) != 0)) {
        tri_actor_from who = {.sys = ctx->sys, .worker = ctx->worker,
                              .ctx = NULL, .sender = ctx->self};
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

/* Sends the request that wait is for. */
static tr_err send_request(tr_ctx *ctx, tri_wait *wait, tr_nanos deadline,
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
    *tri_msg_ask(msg) = (tri_ask){.correlation = wait->correlation,
                                  .deadline = deadline,
                                  .site = wait->site,
                                  .in_user_lane = is_detached(wait),
                                  .is_long = is_long};
    tri_count(&ctx->worker->count.asks);
    tr_err err =
        deliver(ctx, wait->target, msg, wait->kind == TRI_WAIT_REPLY);
    if (TRI_LIKELY(err == TR_OK)) {
        return TR_OK;
    }
    tri_msg_free(&ctx->worker->cache, msg);
    return tri_undelivered_as(wait->target, err);
}

/* ---- taking a reply ---- */

static void say_why(tr_ctx *ctx, const tri_wait *wait, tr_err err,
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

/* Moves what a reply holds to *out. Takes the reply. */
static tr_err take_reply(tr_ctx *ctx, tri_wait *wait, void *out)
{
    tr_msg *reply = wait->reply;
    wait->reply = NULL;
    if (reply->node.flags & TRI_MSG_ERROR) {
        tri_error_reply *error = (tri_error_reply *)(void *)reply->payload;
        tr_err err = error->err;
        say_why(ctx, wait, err, error->text);
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

static void drop_reply(tr_ctx *ctx, tri_wait *wait)
{
    if (wait->reply != NULL) {
        tri_dead(ctx->worker, tri_cell_ref(ctx->sys, ctx->cell), wait->reply,
                 TR_DEAD_LATE);
        wait->reply = NULL;
    }
}

static void zero_out(void *out, const tr_type *type)
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
    tr_nanos deadline = deadline_of(ctx, timeout, &is_long);
    TR_TRY(tri_wait_begin(ctx, &wait, deadline));
    tr_err err = tri_edge_begin(ctx, &wait);
    if (err == TR_OK) {
        err = send_request(ctx, &wait, deadline, is_long, payload);
        if (err == TR_OK) {
            err = tri_park(ctx, &wait);
        }
        if (wait.reply == NULL && err != TR_OK) {
            say_why(ctx, &wait, err, NULL);
        }
        tri_edge_end(ctx, &wait);
    }
    tri_wait_finish(ctx, &wait);
    if (err == TR_OK && wait.reply != NULL) {
        return take_reply(ctx, &wait, out);
    }
    drop_reply(ctx, &wait);
    return err;
}

tr_err tri_ask_inside(tr_ctx *ctx, tr_ref to, void *out, tr_nanos timeout,
                      const tr_type *type, const void *payload,
                      const char *site)
{
    tr_err err = ask(ctx, to, out, timeout, type, payload, site);
    if (TRI_UNLIKELY(err != TR_OK)) {
        zero_out(out, type);
    }
    return err;
}

/* ---- futures: the halves of an ask ---- */

#define NO_MEMORY UINT64_MAX  // id of a future that could not be made

tr_future (tr_async)(tr_ctx *ctx, tr_ref to, tr_nanos timeout,
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
    tr_nanos deadline = deadline_of(ctx, timeout, &is_long);
    if (tri_wait_begin(ctx, wait, deadline) != TR_OK) {
        free(wait);
        return (tr_future){NO_MEMORY};
    }
    ctx->flags |= TRI_CTX_FUTURES;
    tr_err err = send_request(ctx, wait, deadline, is_long, payload);
    if (err != TR_OK) {
        wait->done = true;
        wait->err = err;
    }
    return (tr_future){wait->correlation};
}

static void free_future(tr_ctx *ctx, tri_wait *wait)
{
    tri_wait_finish(ctx, wait);
    drop_reply(ctx, wait);
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

tr_err (tr_await)(tr_ctx *ctx, tr_future future, const tr_type *type,
                  void *out, const char *site)
{
    zero_out(out, type);
    tri_wait *wait = future.id != 0 ? find_wait(ctx->cell, future.id) : NULL;
    if (wait == NULL || wait->kind != TRI_WAIT_FUTURE || wait->owner != ctx ||
        wait->type->schema != type->schema) {
        return ctx->cancel != TR_OK        ? ctx->cancel
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
        err = take_reply(ctx, wait, out);
    } else if (!cycle) {
        say_why(ctx, wait, err, NULL);
    }
    free_future(ctx, wait);
    return err;
}

static bool any_done(tr_ctx *ctx, const tr_future *futures, size_t count,
                     size_t *index)
{
    for (size_t i = 0; i < count; i++) {
        tri_wait *wait = find_wait(ctx->cell, futures[i].id);
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
        if (!tri_edge_would_close(ctx, find_wait(ctx->cell, futures[i].id))) {
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
        tri_wait *wait = find_wait(ctx->cell, futures[i].id);
        if (wait == NULL || wait->owner != ctx ||
            wait->kind != TRI_WAIT_FUTURE) {
            *index = i;
            return ctx->cancel != TR_OK               ? ctx->cancel
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
            find_wait(ctx->cell, futures[i].id)->ctx = ctx;
        }
        tr_err err = tri_park(ctx, &either);
        for (size_t i = 0; i < count; i++) {
            find_wait(ctx->cell, futures[i].id)->ctx = NULL;
        }
        TR_TRY(err);
    }
    return TR_OK;
}

/* ---- callbacks and pipes ---- */

static void ask_later(tr_ctx *ctx, uint8_t kind, tr_ref to, tr_nanos timeout,
                      tr_then_fn then, const tr_type *type,
                      const void *payload)
{
    const tr_context *context = tri_ctx_context(ctx);
    tri_wait *wait = tri_mem_calloc(
        &ctx->sys->mem,
        sizeof(*wait) + (context != NULL ? sizeof(*context) : 0));
    if (wait == NULL || tri_ext_need(ctx->worker, ctx->cell) == NULL) {
        free(wait);
        (tr_panic)(ctx, type->name, "out of memory for a request");
    }
    if (context != NULL) {
        wait->has_context = true;
        memcpy(wait + 1, context, sizeof(*context));
    }
    wait->kind = kind;
    wait->then = then;
    wait->target = to;
    wait->type = type;
    wait->cell = ctx->cell;
    wait->correlation = ++tri_ext_of(ctx->cell)->correlation;
    tri_wait_link(ctx->cell, wait);
    bool is_long;
    tr_nanos deadline = deadline_of(ctx, timeout, &is_long);
    tr_err err = send_request(ctx, wait, deadline, is_long, payload);
    if (err == TR_OK) {
        arm_wait(ctx, wait, deadline);
        return;
    }
    // The answer comes as a turn of its own all the same.
    wait->err = err;
    wait->node.kind = TRI_NODE_WAKE;
    bool taken = tri_push_system(ctx->worker, ctx->cell, &wait->node);
    TRI_CHECK(taken);
    wait->woken = true;
}

void (tr_ask_then)(tr_ctx *ctx, tr_ref to, tr_nanos timeout, tr_then_fn then,
                   const tr_type *type, const void *payload)
{
    ask_later(ctx, TRI_WAIT_THEN, to, timeout, then, type, payload);
}

void (tr_ask_pipe)(tr_ctx *ctx, tr_ref to, tr_nanos timeout,
                   const tr_type *type, const void *payload)
{
    ask_later(ctx, TRI_WAIT_PIPE, to, timeout, NULL, type, payload);
}

static void pipe_turn(tr_ctx *ctx, tri_wait *wait, tr_msg *reply, tr_err err,
                      const char *text)
{
    tr_msg *msg = reply;
    if (err != TR_OK) {
        tr_ask_failed failed = {.to = wait->target, .err = (uint32_t)err,
                                .text = text};
        msg = tri_msg_new(&ctx->worker->cache, &tr_ask_failed_tr_type,
                          &failed, false);
        if (msg == NULL) {
            tri_handle_on_stack(ctx, &tr_ask_failed_tr_type, &failed,
                                sizeof(failed));
            return;
        }
        msg->sender = wait->target;
    }
    // Relaxed: we own the cell.
    msg->to_id = atomic_load_explicit(&ctx->cell->id, memory_order_relaxed);
    msg->node.kind = TRI_NODE_USER;
    msg->node.flags |= TRI_MSG_ANSWERED;  // a reply is not answered
    tri_handle(ctx, msg);
}

static void then_turn(tr_ctx *ctx, tr_then_fn then, tr_msg *reply, tr_err err)
{
    tri_cell *cell = ctx->cell;
    ctx->kind = TRI_TURN_WRITE;
    ctx->phase = TR_IN_HANDLER;
    ctx->msg = NULL;
    ctx->in_turn = true;
    if (reply != NULL) {  // freed with the turn, whatever happens
        reply->node.next = ctx->replies;
        ctx->replies = &reply->node;
        ctx->flags |= TRI_CTX_REPLIES;
    }
    tr_err result = then(ctx, cell->state,
                         err == TR_OK ? reply->payload : NULL, err);
    if (result != TR_OK) {
        tri_life_fail(ctx, result);
    } else {
        tri_turn_end(ctx);
    }
}

/* The wait is over: as a turn. Takes wait and reply. */
void tri_then_turn(tr_ctx *ctx, tri_wait *wait, tr_msg *reply)
{
    if (wait->orphan) {  // of an earlier incarnation
        tri_wait_unlink(ctx->cell, wait);
        free(wait);
        return;
    }
    tr_err err = wait->err != TR_OK ? wait->err
                 : reply == NULL    ? TR_ETIMEDOUT
                                    : TR_OK;
    char text[TRI_SHOWN_MAX] = "";
    if (reply != NULL && (reply->node.flags & TRI_MSG_ERROR)) {
        tri_error_reply *error = (tri_error_reply *)(void *)reply->payload;
        err = error->err;
        snprintf(text, sizeof(text), "%s",
                 error->text != NULL ? error->text : tr_strerror(err));
        tri_msg_free(&ctx->worker->cache, reply);
        reply = NULL;
    } else if (err != TR_OK) {
        snprintf(text, sizeof(text), "%s", tr_strerror(err));
    }
    tri_wait done = *wait;
    if (wait->has_context) {  // the turn goes on where it asked
        tr_context context;
        memcpy(&context, wait + 1, sizeof(context));
        tri_ctx_carry(ctx, &context);
    }
    tri_wait_unlink(ctx->cell, wait);
    free(wait);
    if (done.kind == TRI_WAIT_THEN) {
        then_turn(ctx, done.then, reply, err);
    } else {
        pipe_turn(ctx, &done, reply, err, text);
    }
}

void tri_reply_in_order(tr_ctx *ctx, tr_msg *reply)
{
    tri_worker *worker = ctx->worker;
    tri_wait *wait = find_wait(ctx->cell, tri_msg_ask(reply)->correlation);
    if (wait == NULL || wait->woken) {
        tri_dead(worker, tri_cell_ref(ctx->sys, ctx->cell), reply,
                 TR_DEAD_LATE);
        return;
    }
    if (!tri_disarm_was_armed(ctx->sys, wait) &&
        wait->timer.due != 0) {
        // It timed out just now: the notice is on its way, and it wins.
        tri_dead(worker, tri_cell_ref(ctx->sys, ctx->cell), reply,
                 TR_DEAD_LATE);
        return;
    }
    tri_then_turn(ctx, wait, reply);
}

/* The incarnation ends: nobody waits for these any more. */
void tri_waits_drop(tri_worker *worker, tri_cell *cell)
{
    tri_ext *ext = tri_ext_of(cell);
    for (tri_wait *w = ext->waits, *next; w != NULL; w = next) {
        next = w->next;
        if (!is_detached(w)) {
            continue;
        }
        bool armed = tri_disarm_was_armed(worker->sys, w);
        if (armed || (w->timer.due == 0 && !w->woken)) {
            tri_wait_unlink(cell, w);
            free(w);
        } else {
            w->orphan = true;  // freed when its notice comes out
        }
    }
}
