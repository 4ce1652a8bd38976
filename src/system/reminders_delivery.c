/*
 * reminders_delivery.c - delivering reminders that are due.
 *
 * A postman, a child of the service, asks the actor with the reminder's
 * message and so learns how the handler ended. Until it reports, the reminder
 * is in the list `fired`. What failed is delivered again after a delay that
 * doubles.
 */
#include "system/reminders_delivery.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/lock.h"
#include "base/map.h"
#include "core/ask/ask.h"
#include "core/caller.h"
#include "core/cell/cell.h"
#include "core/cell/ext.h"
#include "core/cell/mem.h"
#include "core/cell/message.h"
#include "core/cell/ref.h"
#include "core/life/spawn.h"
#include "core/mail/send.h"
#include "core/run/context.h"
#include "core/run/user_timer.h"
#include "core/run/worker.h"
#include "core/system.h"
#include "core/up.h"
#include "schema/codec.h"
#include "schema/stored.h"
#include "storage/store_op.h"
#include "system/reminders_book.h"
#include "system/reminders_call.h"
#include "system/store_request.h"
#include "system/stored_form.h"
#include "system/system_log.h"
#include "troupe/observe.h"
#include "troupe/supervise.h"

enum { FIRED_MAX = 256 };  // postmen at the same time
#define RETRY_MAX  TR_MINUTES(10)
#define BUSY_DELAY TR_MS(10)  // after FIRED_MAX was reached

TR_MESSAGE(Go);

typedef struct Postman {
    tri_reminders *r;
    tri_reminder *entry;
} Postman;

static void warn(tri_reminders *r, const tri_reminder *e, const char *what,
                 const char *why)
{
    tri_logf(r->sys, TR_LOG_WARN, NULL, NULL, "reminder %s of %s %s: %s",
             tri_reminder_name(e), tri_reminder_key(e), what, why);
}

bool tri_reminders_send(tr_system *sys, tri_worker *worker, tr_ref to,
                        const tr_type *type, const void *payload)
{
    TRI_CHECK(worker != NULL);
    tr_msg *msg = tri_msg_new(&worker->cache, type, payload, false);
    tri_caller who = {.sys = sys, .worker = worker};
    if (msg != NULL && tri_try_send(&who, to, msg) != TR_OK) {
        tri_msg_free(&worker->cache, msg);
        msg = NULL;
    }
    return msg != NULL;
}

/* ---- the list of what is being delivered ---- */

static void fired_link(tri_reminders *r, tri_reminder *e)
{
    tri_lock_take(&r->lock);
    e->postman_id = 0;
    e->target = NULL;
    e->postman = TR_NOBODY;
    e->superseded = e->completed = e->postman_ended = e->ran_here = false;
    e->changing = 0;
    e->next = r->fired;
    r->fired = e;
    tri_lock_drop(&r->lock);
    r->fired_count++;
}

static void fired_unlink(tri_reminders *r, tri_reminder *e)
{
    TRI_CHECK(r->fired_count > 0);
    tri_lock_take(&r->lock);
    tri_reminder **at = &r->fired;
    while (*at != e) {
        at = &(*at)->next;
    }
    *at = e->next;
    tri_lock_drop(&r->lock);
    r->fired_count--;
}

/* ---- the postman ---- */

/*
 * Reads the message of a reminder into memory that the caller owns. Returns
 * NULL if it cannot be read, which is logged.
 */
static void *read_message(tri_reminders *r, const tri_reminder *e,
                          const tr_type **type)
{
    tri_codec_error error = {.at = 0};
    tri_store_bytes bytes = tri_reminder_bytes(e), key = {e->text, e->key_size};
    tri_stored stored;
    tr_err err = tri_stored_open(&stored, bytes.at, bytes.size, &error);
    const tri_reminder_host *h =
        err == TR_OK
            ? tri_reminders_host_of(r, e->book->storage, key, stored.type)
            : NULL;
    if (h == NULL) {
        warn(r, e, "cannot be delivered",
             err != TR_OK ? error.text : "no TR_ON_REMINDER takes its type");
        return NULL;
    }
    *type = tri_reminders_taker(h->def, stored.type)->type;
    void *value = tri_mem_calloc(&r->sys->mem, (*type)->size + 1);
    tri_stored_form form = tri_stored_form_of(r->sys, h->serializer);
    err = value != NULL
              ? tri_stored_read(&stored, &form, *type, value, NULL, &error)
              : TR_ENOMEM;
    if (err != TR_OK) {
        warn(r, e, "cannot be read",
             err == TR_ENOMEM ? "out of memory" : error.text);
        free(value);
        return NULL;
    }
    return value;
}

/* Returns the plain or virtual actor that the reminder belongs to. */
static tr_ref target_of(tr_ctx *ctx, tri_reminders *r, const tri_reminder *e)
{
    const char *kind = tri_reminders_kind(r, tri_reminder_key(e), e->key_size);
    const char *rest = strchr(kind, '/') + 1;  // tri_reminders_host_of found it
    if (*rest == '/') {
        return tr_lookup(ctx, rest);
    }
    return r->sys->virtual_named((tr_from){.ctx = ctx}, tri_reminder_key(e));
}

static tr_err deliver(tr_ctx *ctx, tri_reminders *r, tri_reminder *e)
{
    const tr_type *type;
    void *value = read_message(r, e, &type);
    if (value == NULL) {
        return TR_ESCHEMA;
    }
    tr_ref to = target_of(ctx, r, e);
    tri_lock_take(&r->lock);
    e->postman_id = tr_self(ctx).id;
    e->target = tri_ref_cell(to);
    tri_lock_drop(&r->lock);
    tr_err err =
        tri_ask_inside(ctx, to, NULL, TR_FOREVER, type, value, "reminder");
    (tr_drop)(type, value);
    free(value);
    return err == TR_ENOREPLY ? TR_OK : err;  // the handler has returned
}

/*
 * Makes the request that writes that the reminder was handled on another node:
 * only if it is still the one that was delivered, and with the epoch of the
 * shard as its fence. NULL: there is nothing to write, or no memory.
 */
static tri_store_request *completion_request(tr_ctx *ctx, tri_reminders *r,
                                             const tri_reminder *e)
{
    const tri_virtual_ops *ops = tri_virtual_ops_of(r->sys);
    const char *kind = tri_reminders_kind(r, tri_reminder_key(e), e->key_size);
    uint64_t epoch =
        ops != NULL ? ops->reminds(r->sys, e->shard, kind, strcspn(kind, "/"))
                    : 0;
    tri_codec_error error;
    tri_stored stored = {.number = 0};
    tri_store_bytes bytes = tri_reminder_bytes(e);
    tri_store_request *request;
    if (epoch == 0 || tri_ext_need(ctx->worker, ctx->cell) == NULL ||
        tri_stored_open(&stored, bytes.at, bytes.size, &error) != TR_OK ||
        tri_store_request_bare(ctx, TR_STORE_FORGET, 1, &request) != TR_OK) {
        return NULL;
    }
    request->owned[0] = tri_mem_calloc(&r->sys->mem, bytes.size + 1);
    if (request->owned[0] == NULL) {
        tri_store_request_free(request);
        return NULL;
    }
    // Copies: the request may outlive the turn, and then the entry.
    memcpy(request->owned[0], bytes.at, bytes.size);
    memcpy(request->key, tri_reminder_key(e), e->key_size + 1);
    memcpy(request->name, tri_reminder_name(e), e->id_size - e->key_size);
    uint64_t next = tri_reminders_next(r->sys, e->due, stored.number);
    request->storage = e->book->storage;
    request->op.call = next == 0 ? TR_STORE_FORGET : TR_STORE_REMIND;
    request->op.key = (tri_store_bytes){request->key, e->key_size};
    request->op.name = tri_reminders_text(request->name);
    request->op.shard = e->shard;
    request->op.epoch = epoch;
    request->op.number = next;
    request->op.after = e->due;
    if (next != 0) {
        request->op.bytes = (tri_store_bytes){request->owned[0], bytes.size};
    }
    return request;
}

/*
 * Writes that the reminder was handled, unless the turn of its handler, on this
 * node, has done so or has said that it must come again.
 */
static void complete(tr_ctx *ctx, tri_reminders *r, tri_reminder *e)
{
    tri_lock_take(&r->lock);
    bool elsewhere = !e->ran_here && !e->superseded && e->changing == 0;
    tri_lock_drop(&r->lock);
    tri_store_request *request =
        elsewhere ? completion_request(ctx, r, e) : NULL;
    // The entry stays while this postman has not reported.
    if (request == NULL ||
        tri_store_request_ask(ctx, request, "reminder") != TR_OK) {
        return;
    }
    if (request->op.err != TR_OK) {
        warn(r, e, "comes again", request->op.text);
    } else {
        tri_lock_take(&r->lock);
        e->completed = true;
        e->due = request->op.number;
        e->superseded |= !request->op.found;  // it was set anew, or forgotten
        tri_lock_drop(&r->lock);
    }
    tri_store_request_free(request);
}

static tr_err on_go(tr_ctx *ctx, Postman *self, const Go *m)
{
    (void)m;
    tr_err err = deliver(ctx, self->r, self->entry);
    if (err == TR_OK) {
        complete(ctx, self->r, self->entry);
    }
    tr_tell(ctx, self->r->service, Fired,
            .entry = (uint64_t)(uintptr_t)self->entry,
            .postman = tr_self(ctx).id, .err = (uint32_t)err);
    tr_stop(ctx, tr_self(ctx));
    return TR_OK;
}

TR_ACTOR(postman, Postman, TR_ON(Go, on_go));

/* ---- the service's side ---- */

static tr_nanos retry_span(const tri_reminder *e)
{
    uint32_t doublings = e->attempts < TRI_REMINDERS_DOUBLINGS
                             ? e->attempts
                             : TRI_REMINDERS_DOUBLINGS;
    tr_nanos span = TRI_REMINDERS_RETRY << doublings;
    return span < RETRY_MAX ? span : RETRY_MAX;
}

/* Delivers it again later: that failed, or was not stored as handled. */
static void deliver_again(tr_ctx *ctx, tri_reminder *e)
{
    tr_nanos span = retry_span(e);
    e->attempts++;
    tri_reminder_keep(ctx, e, span);
}

void tri_reminders_fire(tr_ctx *ctx, tri_reminders *r, tri_reminder *e)
{
    TRI_CHECK(e != NULL);
    tr_nanos left = tri_reminder_left(r, e);
    e->timer = (tr_timer){0};
    if (!tri_reminders_is_ours(r, (tri_store_bytes){e->text, e->key_size},
                               e->shard)) {
        tri_reminder_drop(ctx, e);  // its owner delivers it
        return;
    }
    if (left > 0 || r->fired_count >= FIRED_MAX) {
        // Time is left if the clock was set back.
        tri_reminder_arm(ctx, e, left > 0 ? left : BUSY_DELAY);
        return;
    }
    (void)tri_map_remove_bytes(&e->book->entries, e->text, e->id_size);
    fired_link(r, e);
    tri_caller who = {.sys = r->sys, .worker = ctx->worker};
    tr_spawn_options options = {.size = sizeof(options),
                                .init = &(Postman){r, e},
                                .init_size = sizeof(Postman)};
    tr_ref made =
        tri_spawn_under(&who, ctx->cell, &postman, &options, TRI_CELL_SYSTEM);
    if (made.cell == 0 ||
        !tri_reminders_send(r->sys, ctx->worker, made, &Go_tr_type, &(Go){})) {
        tr_stop(ctx, made);
        fired_unlink(r, e);
        deliver_again(ctx, e);
    } else {
        e->postman = made;
    }
}

/* Ends a delivery. The postman has reported, so only the service has it. */
static void delivered(tr_ctx *ctx, tri_reminders *r, tri_reminder *e,
                      tr_err err)
{
    fired_unlink(r, e);
    e->absent = tr_undelivered(err);
    if (!tri_reminders_is_ours(r, (tri_store_bytes){e->text, e->key_size},
                               e->shard)) {
        free(e);  // its owner reads it, if it was not stored as handled
    } else if (e->changing > 0 || (e->superseded && e->completed)) {
        // It is not known whether a change was stored, or another system has
        // written it: only the store knows what it is now.
        e->book->stale = true;
        (void)tri_after_try(ctx, TRI_REMINDERS_RETRY, &Retry_tr_type,
                            &(Retry){});
        free(e);
    } else if (e->superseded || (e->completed && e->due == 0)) {
        free(e);
    } else if (e->completed) {
        e->attempts = 0;
        tri_reminder_keep(ctx, e, tri_reminder_left(r, e));
    } else {
        if (err != TR_OK && !e->absent) {
            warn(r, e, "comes again, its handler failed", tr_strerror(err));
        }
        deliver_again(ctx, e);
    }
}

void tri_reminders_fired(tr_ctx *ctx, tri_reminders *r, const Fired *m)
{
    // The entry of a postman that is not awaited may be freed: only its
    // address is compared. Without the lock: only the service changes the list.
    tri_reminder *e = r->fired;
    while (e != NULL && ((uint64_t)(uintptr_t)e != m->entry ||
                         e->postman.id != m->postman)) {
        e = e->next;
    }
    if (e != NULL) {
        delivered(ctx, r, e, (tr_err)m->err);
    }
}

void tri_reminders_check_postmen(tr_ctx *ctx, tri_reminders *r)
{
    // Without the lock: only the service changes the list.
    for (tri_reminder *e = r->fired; e != NULL; e = e->next) {
        if (!e->postman_ended &&
            tr_state_of(ctx, e->postman) == TR_STATE_TERMINATED) {
            // If its own report is in the mailbox still, this one comes after
            // it and is ignored. Without memory it is sent at the next check.
            e->postman_ended = tri_reminders_send(
                r->sys, ctx->worker, r->service, &Fired_tr_type,
                &(Fired){.entry = (uint64_t)(uintptr_t)e,
                         .postman = e->postman.id,
                         .err = (uint32_t)TR_ENOMEM});
        }
    }
}
