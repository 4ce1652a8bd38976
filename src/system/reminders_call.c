/*
 * reminders_call.c - what is written about reminders, in turns of their owner.
 *
 * tr_remind and tr_forget run in turns of the actor that the reminder belongs
 * to, and so does what is written after its handler has returned. So all
 * writes are in order and pass the actor's fence. A handler that sets or
 * forgets its own reminder has the last word: from the moment that the change
 * is asked for, nothing is written for the one being delivered (`changing`),
 * and when the change is stored, it is `superseded`. If the change failed, it
 * is delivered again like any other; if that is not known, the store is read.
 */
#include "system/reminders_call.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/lock.h"
#include "core/ask/error_text.h"
#include "core/cell/behaviour.h"
#include "core/cell/cell.h"
#include "core/cell/ext.h"
#include "core/cell/mem.h"
#include "core/cell/message.h"
#include "core/cell/props.h"
#include "core/run/context.h"
#include "core/system.h"
#include "core/types.h"
#include "schema/codec.h"
#include "schema/stored.h"
#include "storage/store_op.h"
#include "system/reminders_book.h"
#include "system/reminders_delivery.h"
#include "system/store_request.h"
#include "system/stored_form.h"
#include "system/system_log.h"
#include "troupe/observe.h"
#include "troupe/storage.h"

/* The last time that a store takes, in the year 2262. */
#define DUE_MAX (TRI_STORE_NUMBER_MAX - TRI_STORE_EVENTS_MAX - 1)

/* ---- changes ---- */

/* Marks what is being delivered under this id. With the lock. */
static void supersede(tri_reminders *r, const tr_storage *storage,
                      const char *id, size_t size)
{
    tri_lock_assert_held(&r->lock);
    for (tri_reminder *e = r->fired; e != NULL; e = e->next) {
        if (e->book->storage == storage && tri_reminder_is(e, id, size)) {
            e->superseded = true;
        }
    }
}

/* Adds to or takes from `changing` of what is delivered under this id. */
static void count_change(tri_reminders *r, const tri_reminder_change *c,
                         bool begins)
{
    tri_lock_assert_held(&r->lock);
    for (tri_reminder *e = r->fired; e != NULL; e = e->next) {
        if (e->book->storage != c->storage ||
            !tri_reminder_is(e, c->id, c->id_size)) {
            continue;
        }
        if (begins) {
            e->changing++;
        } else if (e->changing > 0) {  // 0: it was fired since the beginning
            e->changing--;
        }
    }
}

static bool change_is(const tri_reminder_change *c, const tr_storage *storage,
                      const char *id, size_t size)
{
    return c->storage == storage && c->id_size == size &&
           memcmp(c->id, id, size) == 0;
}

void tri_reminders_take_change(tri_reminders *r, const tr_storage *storage,
                               const char *key, const char *name)
{
    char id[TRI_REMINDER_ID_MAX];
    size_t size =
        tri_reminder_id(id, tri_reminders_text(key), tri_reminders_text(name));
    tri_lock_take(&r->lock);
    supersede(r, storage, id, size);
    tri_reminder_change **at = &r->changes;
    while (*at != NULL && !change_is(*at, storage, id, size)) {
        at = &(*at)->next;
    }
    tri_reminder_change *found = *at;
    if (found != NULL) {
        *at = found->next;
    }
    tri_lock_drop(&r->lock);
    free(found);
}

/*
 * Makes the change that the request will cause, as its last piece, so that
 * nothing can fail once the store has answered. From now on nothing is written
 * for the reminders of that name that are being delivered.
 */
static tr_err change_new(tr_ctx *ctx, tri_store_request *request)
{
    TRI_CHECK(request->owned_count > 0);
    tri_reminders *r = tri_reminders_of(ctx->sys);
    size_t size = strlen(request->key) + 1 + strlen(request->name);
    tri_reminder_change *c = tri_mem_calloc(&ctx->sys->mem, sizeof(*c) + size);
    if (c == NULL) {
        return TR_ENOMEM;
    }
    request->owned[request->owned_count - 1] = c;
    c->storage = ctx->cell->props->storage;
    c->id_size = tri_reminder_id(c->id, tri_reminders_text(request->key),
                                 tri_reminders_text(request->name));
    if (r != NULL) {
        tri_lock_take(&r->lock);
        count_change(r, c, true);
        tri_lock_drop(&r->lock);
    }
    return TR_OK;
}

/* The store has refused the change: the reminder is as it was. */
static void change_failed(tr_ctx *ctx, const tri_store_request *request)
{
    TRI_CHECK(request->op.err != TR_OK);
    tri_reminders *r = tri_reminders_of(ctx->sys);
    if (r != NULL && request->op.err != TR_EUNKNOWN) {
        tri_lock_take(&r->lock);
        count_change(r, request->owned[request->owned_count - 1], false);
        tri_lock_drop(&r->lock);
    }
}

/*
 * The store has confirmed the change: notifies the service. Until it knows,
 * the change marks what it fires under that name as superseded. Without memory
 * for the message the service finds it at its next read of the store.
 */
static void publish(tr_ctx *ctx, tri_store_request *request,
                    const tr_type *type, const void *news)
{
    TRI_CHECK(request->op.err == TR_OK);
    tri_reminders *r = tri_reminders_of(ctx->sys);
    tri_reminder_change *c = request->owned[request->owned_count - 1];
    if (r == NULL) {
        return;
    }
    tri_lock_take(&r->lock);
    request->owned[request->owned_count - 1] = NULL;
    count_change(r, c, false);
    supersede(r, c->storage, c->id, c->id_size);
    c->next = r->changes;
    r->changes = c;
    tri_lock_drop(&r->lock);
    if (!tri_reminders_send(ctx->sys, ctx->worker, r->service, type, news)) {
        tri_reminders_take_change(r, ctx->cell->props->storage, request->key,
                                  request->name);
    }
}

/* ---- what an actor calls ---- */

static tr_err refuse(tr_ctx *ctx, const char *site, const char *why)
{
    tri_error_set(ctx, "tr_remind at %s: %s", site, why);
    tri_error_set_reason(ctx, why);
    return TR_EINVAL;
}

/* Makes a request about the reminder of that name. */
static tr_err named_request(tr_ctx *ctx, tr_store_call call, const char *name,
                            uint32_t pieces, tri_store_request **out)
{
    size_t size = name != NULL ? strlen(name) : 0;
    if (size == 0 || size > TRI_STORE_NAME_MAX) {
        return refuse(ctx, TR_HERE, "a name has 1 to 128 bytes");
    }
    if (tri_ext_need(ctx->worker, ctx->cell) == NULL) {
        return TR_ENOMEM;
    }
    TR_TRY(tri_store_request_new(ctx, call, pieces, out));
    memcpy((*out)->name, name, size + 1);
    (*out)->op.name = (tri_store_bytes){(*out)->name, size};
    return TR_OK;
}

/* As tri_store_request_result, but the state is not in doubt: no restart. */
static tr_err result_of(tr_ctx *ctx, const tri_store_request *request)
{
    if (request->op.err != TR_OK) {
        tri_error_set(ctx, "reminder %s of %s: %s", request->name, request->key,
                      request->op.text);
    }
    return request->op.err == TR_EIO ? TR_ESTORAGE : request->op.err;
}

static tr_err may_remind(tr_ctx *ctx, tr_nanos delay, tr_nanos period,
                         const tr_type *type, const char *site)
{
    const tr_handler *h =
        tri_reminders_taker(tri_first_behaviour(ctx->cell)->def, type->name);
    TR_TRY(tri_store_request_may_ask(ctx, "tr_remind", site));
    if (h == NULL || h->type->schema != type->schema) {
        return refuse(ctx, site, "no TR_ON_REMINDER takes this message");
    }
    if (delay < 0 || period < 0) {
        return refuse(ctx, site, "a negative delay or period");
    }
    uint64_t now = tri_reminders_wall(ctx->sys);
    uint64_t left = now < DUE_MAX ? DUE_MAX - now : 0;
    if ((uint64_t)delay > left || (uint64_t)period > left - (uint64_t)delay) {
        return refuse(ctx, site,
                      "too long a delay or period: it would come, or come "
                      "again, after the year 2262");
    }
    return TR_OK;
}

/* Makes a request that sets the reminder; *size is that of its bytes. */
static tr_err remind_request(tr_ctx *ctx, const char *name, tr_nanos delay,
                             tr_nanos period, const tr_type *type,
                             const void *payload, tri_store_request **out)
{
    size_t size;
    TR_TRY(named_request(ctx, TR_STORE_REMIND, name, 2, out));
    tri_store_request *request = *out;
    tri_stored_form form = tri_state_form(ctx);
    tri_codec_error error = {.text = "out of memory"};
    tr_err err =
        tri_mem_should_fail(&ctx->sys->mem)
            ? TR_ENOMEM
            : tri_stored_make(&form, type, payload,
                              period > 0 ? (uint64_t)period : TRI_STORED_EVENT,
                              &request->owned[0], &size, &error);
    if (err != TR_OK) {
        tri_error_set(ctx, "a %s of %s cannot be written: %s", type->name,
                      request->key, error.text);
    }
    if (err == TR_OK) {
        err = change_new(ctx, request);
    }
    if (err != TR_OK) {
        tri_store_request_free(request);
        return err;
    }
    request->op.bytes = (tri_store_bytes){request->owned[0], size};
    request->op.number = tri_reminders_wall(ctx->sys) + (uint64_t)delay;
    return TR_OK;
}

tr_err(tr_remind)(tr_ctx *ctx, const char *name, tr_nanos delay,
                  tr_nanos period, const tr_type *type, const void *payload,
                  const char *site)
{
    TRI_CHECK(type != NULL);
    tri_store_request *request;
    TR_TRY(may_remind(ctx, delay, period, type, site));
    TR_TRY(remind_request(ctx, name, delay, period, type, payload, &request));
    TR_TRY(tri_store_request_ask(ctx, request, site));
    tr_err err = result_of(ctx, request);
    if (err == TR_OK) {
        tri_store_bytes bytes = request->op.bytes;
        publish(
            ctx, request, &Set_tr_type,
            &(Set){.storage = (uint64_t)(uintptr_t)ctx->cell->props->storage,
                   .key = request->key,
                   .name = request->name,
                   .due = request->op.number,
                   .shard = request->op.shard,
                   .bytes = {bytes.at, bytes.size}});
    } else {
        change_failed(ctx, request);
    }
    tri_store_request_free(request);
    return err;
}

tr_err tr_forget(tr_ctx *ctx, const char *name)
{
    tri_store_request *request;
    TR_TRY(tri_store_request_may_ask(ctx, "tr_forget", TR_HERE));
    TR_TRY(named_request(ctx, TR_STORE_FORGET, name, 1, &request));
    tr_err err = change_new(ctx, request);
    if (err != TR_OK) {
        tri_store_request_free(request);
        return err;
    }
    TR_TRY(tri_store_request_ask(ctx, request, TR_HERE));
    err = result_of(ctx, request);
    if (err == TR_OK) {
        publish(ctx, request, &Forgotten_tr_type,
                &(Forgotten){.storage =
                                 (uint64_t)(uintptr_t)ctx->cell->props->storage,
                             .key = request->key,
                             .name = request->name,
                             .shard = request->op.shard});
    } else {
        change_failed(ctx, request);
    }
    tri_store_request_free(request);
    return err;
}

/* ---- after a handler has returned ---- */

/* Finds what this postman has delivered to this actor. With the lock. */
static tri_reminder *find_fired(tri_reminders *r, uint64_t postman_id,
                                const tri_cell *target)
{
    tri_lock_assert_held(&r->lock);
    tri_reminder *e = r->fired;
    while (e != NULL && (e->postman_id != postman_id || e->target != target)) {
        e = e->next;
    }
    return e;
}

uint64_t tri_reminders_next(tr_system *sys, uint64_t due, uint64_t period)
{
    uint64_t now = tri_reminders_wall(sys);
    if (period == 0) {
        return 0;
    }
    uint64_t steps = now < due ? 1 : (now - due) / period + 1;
    uint64_t left = due < DUE_MAX ? DUE_MAX - due : 0;
    return steps <= left / period ? due + steps * period : DUE_MAX;
}

/* True if the reminder was changed and the service does not know yet. With
 * the lock. */
static bool is_changed(const tri_reminders *r, const tri_reminder *e)
{
    const tri_reminder_change *c = r->changes;
    while (c != NULL && !change_is(c, e->book->storage, e->text, e->id_size)) {
        c = c->next;
    }
    return c != NULL;
}

/* What the end of a delivery has to write. */
typedef struct completion {
    char name[TRI_STORE_NAME_MAX + 1];
    void *bytes;  // owned; NULL: nothing to write, or no memory
    size_t size;
    uint64_t due;   // of what was delivered
    uint64_t next;  // 0: it is over
} completion;

/* Copies what was delivered by this postman, under the lock. */
static completion copy_fired(tr_ctx *ctx, tri_reminders *r, uint64_t postman_id)
{
    completion it = {.bytes = NULL};
    tri_codec_error error;
    tri_stored stored = {.number = 0};
    tri_lock_take(&r->lock);
    tri_reminder *e = find_fired(r, postman_id, ctx->cell);
    if (e != NULL) {
        e->ran_here = true;
        e->superseded |= is_changed(r, e);
    }
    if (e != NULL && !e->superseded && !e->completed && e->changing == 0 &&
        !tri_mem_should_fail(&ctx->sys->mem) &&
        (it.bytes = malloc(e->size + 1)) != NULL) {
        memcpy(it.name, tri_reminder_name(e), strlen(tri_reminder_name(e)) + 1);
        memcpy(it.bytes, tri_reminder_bytes(e).at, e->size);
        it.size = e->size;
        it.due = e->due;
        (void)!tri_stored_open(&stored, it.bytes, it.size, &error);
        it.next = tri_reminders_next(ctx->sys, e->due, stored.number);
    }
    tri_lock_drop(&r->lock);
    return it;
}

/* Makes the request that completes a delivery; NULL: there is none to make. */
static tri_store_request *completion_request(tr_ctx *ctx, tri_reminders *r,
                                             uint64_t postman_id,
                                             uint64_t *next)
{
    completion it = copy_fired(ctx, r, postman_id);
    tri_store_request *request;
    if (it.bytes == NULL ||
        named_request(ctx, it.next == 0 ? TR_STORE_FORGET : TR_STORE_REMIND,
                      it.name, 1, &request) != TR_OK) {
        free(it.bytes);
        return NULL;
    }
    request->owned[0] = it.bytes;
    request->op.number = it.next;
    request->op.after = it.due;  // refused if another system has written since
    if (it.next != 0) {
        request->op.bytes = (tri_store_bytes){it.bytes, it.size};
    }
    *next = it.next;
    return request;
}

/* Writes that the reminder was handled: it is forgotten, or set again. */
static void complete(tr_ctx *ctx, tri_reminders *r, uint64_t postman_id)
{
    uint64_t next = 0;
    tri_store_request *request = completion_request(ctx, r, postman_id, &next);
    if (request == NULL ||
        tri_store_request_ask(ctx, request, "reminder") != TR_OK) {
        return;
    }
    tri_lock_take(&r->lock);
    tri_reminder *e = find_fired(r, postman_id, ctx->cell);
    if (e != NULL && request->op.err == TR_OK) {
        e->completed = true;
        e->due = next;
        e->superseded |= !request->op.found;  // another system has written it
    }
    tri_lock_drop(&r->lock);
    if (request->op.err != TR_OK) {
        tri_logf(ctx->sys, TR_LOG_WARN, NULL, NULL,
                 "reminder %s of %s comes again: %s", request->name,
                 request->key, request->op.text);
    }
    tri_store_request_free(request);
}

/* A message that was kept counts as handled; one stashed or forwarded not. */
static bool is_kept(const tri_ext *ext, const tri_item *item)
{
    const tri_item *at = ext != NULL ? ext->keep.kept : NULL;
    while (at != NULL && at != item) {
        at = at->next;
    }
    return at != NULL;
}

tr_err tr_reminded(tr_ctx *ctx, const void *m, tr_err err)
{
    TRI_CHECK(m != NULL);
    tri_reminders *r = tri_reminders_of(ctx->sys);
    tr_msg *msg = tri_msg_of(m);
    if (err != TR_OK || r == NULL ||
        ((ctx->flags & TRI_CTX_MSG_TAKEN) &&
         !is_kept(tri_ext_of(ctx->cell), &msg->item))) {
        return err;
    }
    if (msg->item.flags & TRI_MSG_ASK) {
        complete(ctx, r, msg->sender.id);
    }
    return TR_OK;
}
