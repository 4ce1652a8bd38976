/*
 * failure.c - an actor fails: in a handler, a hook or on_run.
 *
 * A returned error, tr_fail and tr_panic arrive in tri_life_fail. The asker is
 * answered at once; message, text and place are kept for the supervisor; the
 * notice goes to the parent, which decides (supervise.c).
 *
 * Invariant: the message that failed has one owner: the turn, then
 * ext->failure, then the queue (retry) or the dead letters.
 */
#include "core/life/failure.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/fiber.h"
#include "core/ask/answer.h"
#include "core/ask/error_text.h"
#include "core/cell/behaviour.h"
#include "core/cell/cell.h"
#include "core/cell/cell_path.h"
#include "core/cell/ext.h"
#include "core/cell/mem.h"
#include "core/cell/message.h"
#include "core/life/family.h"
#include "core/life/join.h"
#include "core/life/lifecycle.h"
#include "core/life/supervise.h"
#include "core/mail/hard_limit.h"
#include "core/mail/send.h"
#include "core/run/context.h"
#include "core/run/handle.h"
#include "core/run/user_timer.h"
#include "core/run/worker.h"
#include "core/system.h"
#include "schema/print.h"

/* Keeps text and place of a failure in the context. */
static void set_fail_text(tr_ctx *ctx, const char *site, const char *format,
                          va_list args)
{
    TRI_CHECK(ctx->magic == TRI_CTX_MAGIC);
    char text[1024];
    vsnprintf(text, sizeof(text), format, args);
    tri_error_clear(ctx);
    ctx->fail_text = strdup(text);
    ctx->texts++;
    ctx->fail_site = site;
}

tr_err(tr_fail)(tr_ctx *ctx, tr_err err, const char *site, const char *format,
                ...)
{
    va_list args;
    va_start(args, format);
    set_fail_text(ctx, site, format, args);
    va_end(args);
    return err != TR_OK ? err : TR_EFAILED;
}

void(tr_panic)(tr_ctx *ctx, const char *site, const char *format, ...)
{
    TRI_CHECK(ctx->magic == TRI_CTX_MAGIC);
    va_list args;
    va_start(args, format);
    set_fail_text(ctx, site, format, args);
    va_end(args);
    if (!ctx->in_turn || ctx->parked) {
        tr_abort(site, "tr_panic outside a turn of its actor");
    }
    tri_jump_go(&ctx->jump);
}

void tri_misuse(tr_ctx *ctx, const char *call, const char *what)
{
    TRI_CHECK(call != NULL && what != NULL);
    if (ctx == NULL || !ctx->in_turn || ctx->parked) {
        tr_abort(call, what);
    }
    (tr_panic)(ctx, NULL, "%s: %s", call, what);
}

tr_err tri_user_err(tr_err err)
{
    return tr_undelivered(err) || err == TR_EDEADLOCK || err == TR_OK
               ? TR_EFAILED
               : err;
}

/* Answers the asker with a copy; the message stays for the supervisor. */
static void answer_failed(tr_ctx *ctx, tr_msg *msg, tr_err err)
{
    TRI_CHECK(err != TR_OK);
    if ((msg->item.flags & TRI_MSG_ASK) &&
        !(msg->item.flags & TRI_MSG_ANSWERED)) {
        tri_answer_error_borrow(ctx->worker, msg, tri_user_err(err),
                                ctx->fail_text);
    }
}

/* Moves message and text of the turn to the extension. Takes msg. */
static void record_failure(tr_ctx *ctx, tr_msg *msg, tr_err err)
{
    TRI_CHECK(ctx->msg == NULL);
    tri_cell *cell = ctx->cell;
    tri_worker *worker = ctx->worker;
    tri_ext *ext = tri_ext_need(worker, cell);
    if (ext == NULL) {  // the supervisor decides without details
        if (msg != NULL) {
            tri_dead(worker, tri_cell_ref(ctx->sys, cell), msg, TR_DEAD_FAILED);
        }
        return;
    }
    tri_failure_clear(worker, cell, TR_DEAD_FAILED);
    ext->failure = (tri_failure){.err = err,
                                 .phase = (tr_phase)ctx->phase,
                                 .text = ctx->fail_text,
                                 .site = ctx->fail_site,
                                 .msg = msg};
    ctx->fail_text = NULL;
}

/* Returns the message of the turn if the failure may keep it, or NULL. */
static tr_msg *take_failed_message(tr_ctx *ctx)
{
    tr_msg *msg = ctx->flags & TRI_CTX_MSG_TAKEN ? NULL : ctx->msg;
    ctx->msg = NULL;
    if (msg != NULL && (msg->item.flags & TRI_MSG_TIMER)) {
        tri_user_timer_handled(ctx->worker, msg);
        msg = NULL;
    }
    if (msg != NULL && msg->item.klass == TRI_CLASS_STACK) {
        msg = NULL;  // its memory ends with the frame that it lies in
    }
    return msg;
}

/* Goes to FAILED and sends the notice; without a parent the actor stops. */
static void become_failed(tr_ctx *ctx, tr_err err)
{
    tri_cell *cell = ctx->cell;
    tri_worker *worker = ctx->worker;
    tri_count(&worker->count.failures);
    tri_count(&tri_lives_of(worker, cell)->failures);
    cell->notice_back = false;
    cell->stop_held = cell->kill_held = cell->force_held = false;
    tri_life_set(worker, cell, TR_STATE_FAILED);
    tri_join_started(worker, cell, err);
    if (!tri_parent_send_failure(worker, cell)) {
        tri_life_handle_signals(ctx,
                                TRI_SIG_STOP_DECIDED | TRI_SIG_NOTICE_BACK);
    }
}

void tri_life_fail(tr_ctx *ctx, tr_err err)
{
    tri_cell *cell = ctx->cell;
    tri_worker *worker = ctx->worker;
    tr_state life = tri_cell_life(cell);
    tri_cell_assert_owned(cell);
    bool ignored = ctx->cancel != TR_OK || life == TR_STATE_STOPPING ||
                   life == TR_STATE_RESTARTING || life == TR_STATE_FAILED;

    tr_msg *msg = take_failed_message(ctx);
    if (msg != NULL) {
        answer_failed(ctx, msg, ctx->cancel != TR_OK ? ctx->cancel : err);
    }
    if (ctx->phase == TR_IN_STOP ||
        (ctx->phase == TR_IN_RESTART && life == TR_STATE_RESTARTING)) {
        tri_hook_failed(ctx, err);
        return;
    }
    if (ignored) {
        if (msg != NULL) {
            tri_dead(worker, tri_cell_ref(ctx->sys, cell), msg,
                     life == TR_STATE_RESTARTING ? TR_DEAD_RESTARTED
                                                 : TR_DEAD_STOPPING);
        }
        tri_turn_end(ctx);
        return;
    }
    record_failure(ctx, msg, err);
    tri_turn_end(ctx);
    become_failed(ctx, err);
}

void tri_life_resume(tr_ctx *ctx)
{
    tri_cell *cell = ctx->cell;
    TRI_CHECK(tri_cell_life(cell) == TR_STATE_FAILED);
    tri_failure_clear(ctx->worker, cell, TR_DEAD_FAILED);
    tri_life_set(ctx->worker, cell, TR_STATE_RUNNING);
    // Children whose failure was escalated to this actor go on as well.
    tri_children_signal(ctx, TRI_SIG_RESUME);
}

void tri_failure_show(tr_system *sys, tri_cell *cell, tri_failure_view *view)
{
    TRI_CHECK(sys->magic == TRI_SYSTEM_MAGIC);
    tri_ext *ext = tri_ext_of(cell);
    tri_failure none = {.err = TR_ENOMEM, .phase = TR_IN_HANDLER};
    tri_failure *f = ext != NULL ? &ext->failure : &none;

    tri_path_write(sys, cell, view->path, sizeof(view->path));
    view->failure = (tr_failure){.child = tri_cell_ref(sys, cell),
                                 .incarnation = tri_cell_incarnation(cell),
                                 .err = f->err,
                                 .phase = f->phase,
                                 .text = f->text,
                                 .site = f->site,
                                 .path = view->path};
    if (f->msg != NULL && f->msg->item.type != NULL) {
        tri_print(f->msg->item.type, f->msg->payload, view->message,
                  sizeof(view->message), NULL);
        view->failure.message = view->message;
    }
    const tr_type *state = tri_cell_behaviour(cell)->def->state;
    if (cell->state != NULL && state != NULL && state->size != 0) {
        tri_print(state, cell->state, view->state, sizeof(view->state), NULL);
        view->failure.state = view->state;
    }
}

void tri_failure_drop_message(tri_worker *worker, tri_cell *cell,
                              uint32_t reason)
{
    TRI_CHECK_SLOW(tri_cell_is_owned(cell));
    tri_ext *ext = tri_ext_of(cell);
    if (ext != NULL && ext->failure.msg != NULL) {
        tri_dead(worker, tri_cell_ref(worker->sys, cell), ext->failure.msg,
                 reason);
        ext->failure.msg = NULL;
    }
}

void tri_failure_clear(tri_worker *worker, tri_cell *cell, uint32_t reason)
{
    tri_ext *ext = tri_ext_of(cell);
    if (ext == NULL) {
        return;
    }
    tri_failure_drop_message(worker, cell, reason);
    free(ext->failure.text);
    tr_phase phase = ext->failure.phase;
    tr_err err = ext->failure.err;
    ext->failure = (tri_failure){.err = err, .phase = phase};
}

void tri_failure_retry(tr_ctx *ctx, tri_cell *cell)
{
    tri_cell_assert_owned(cell);
    tri_ext *ext = tri_ext_of(cell);
    if (ext == NULL) {
        return;
    }
    tr_msg *msg = ext->failure.msg;
    if (msg != NULL && tri_supervision_of(ctx->sys, cell)->retry_message &&
        !msg->item.again && !(msg->item.flags & TRI_MSG_ASK)) {
        ext->failure.msg = NULL;
        msg->item.again = true;
        msg->item.next = cell->queue;
        cell->queue = &msg->item;
        tri_hard_limit_add(cell, 1);
        // Relaxed: for observers.
        atomic_fetch_add_explicit(&cell->queued, 1, memory_order_relaxed);
    }
    tri_failure_clear(ctx->worker, cell, TR_DEAD_FAILED);
    ext->failure = (tri_failure){0};
}
