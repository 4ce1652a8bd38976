/*
 * reminders_call.c - what is written about reminders, in turns of their owner.
 *
 * tr_remind and tr_forget come from turns of the actor that the reminder
 * belongs to, and so does what is written behind its handler: all of them are
 * in order and pass its fence. A handler that sets or forgets its own reminder
 * has the last word: the one being delivered is `superseded` from the moment
 * that the change is asked for.
 */
#include <stdlib.h>
#include <string.h>

#include "core/mailbox.h"
#include "schema/stored.h"
#include "system/reminders.h"

/* The last time that a store takes, in the year 2262. */
#define DUE_MAX (TRI_STORE_NUMBER_MAX - TRI_STORE_EVENTS_MAX - 1)

/* Those of that name that are being delivered write nothing any more. */
static void supersede(tri_reminders *r, const tr_storage *storage,
                      const char *id, size_t size)
{
    for (tri_reminder *e = r->fired; e != NULL; e = e->next) {
        if (e->book->storage == storage && tri_reminder_is(e, id, size)) {
            e->superseded = true;
        }
    }
}

static bool change_is(const tri_reminder_change *c, const tr_storage *storage,
                      const char *id, size_t size)
{
    return c->storage == storage && c->id_size == size &&
           memcmp(c->id, id, size) == 0;
}

/* The service hears of a change: what it has fired until now is old. */
void tri_reminders_take_change(tri_reminders *r, const tr_storage *storage,
                               const char *key, const char *name)
{
    char id[TRI_STORE_KEY_MAX + 1 + TRI_STORE_NAME_MAX];
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

/* ---- what an actor calls ---- */

/*
 * A change that the question makes, its last piece, so that nothing can fail
 * once the store has answered. Those of the name that are being delivered
 * write nothing from now on.
 */
static tr_err change_new(tr_ctx *ctx, tri_question *q)
{
    tri_reminders *r = tri_reminders_of(ctx->sys);
    size_t size = strlen(q->key) + 1 + strlen(q->name);
    tri_reminder_change *c = tri_mem_calloc(&ctx->sys->mem, sizeof(*c) + size);
    if (c == NULL) {
        return TR_ENOMEM;
    }
    q->owned[q->owned_count - 1] = c;
    c->storage = ctx->cell->props->storage;
    c->id_size = tri_reminder_id(c->id, tri_reminders_text(q->key),
                                 tri_reminders_text(q->name));
    if (r != NULL) {
        tri_lock_take(&r->lock);
        supersede(r, c->storage, c->id, c->id_size);
        tri_lock_drop(&r->lock);
    }
    return TR_OK;
}

/*
 * The store has it: the service is told. Until it hears of it, whatever it
 * fires under that name is old. Without memory to tell it, it finds it at its
 * next look.
 */
static void publish(tr_ctx *ctx, tri_question *q, const tr_type *type,
                    const void *news)
{
    tri_reminders *r = tri_reminders_of(ctx->sys);
    tri_reminder_change *c = q->owned[q->owned_count - 1];
    if (r == NULL) {
        return;
    }
    tri_lock_take(&r->lock);
    q->owned[q->owned_count - 1] = NULL;
    supersede(r, c->storage, c->id, c->id_size);
    c->next = r->changes;
    r->changes = c;
    tri_lock_drop(&r->lock);
    if (!tri_reminders_post(ctx->sys, ctx->worker, r->service, type, news)) {
        tri_reminders_take_change(r, ctx->cell->props->storage, q->key,
                                  q->name);
    }
}

static tr_err refuse(tr_ctx *ctx, const char *site, const char *why)
{
    tri_error_set(ctx, "tr_remind at %s: %s", site, why);
    return TR_EINVAL;
}

/* A question about the reminder of that name. */
static tr_err name_question(tr_ctx *ctx, tr_store_call call, const char *name,
                            uint32_t pieces, tri_question **out)
{
    size_t size = name != NULL ? strlen(name) : 0;
    if (size == 0 || size > TRI_STORE_NAME_MAX) {
        return refuse(ctx, TR_HERE, "a name has 1 to 128 bytes");
    }
    if (tri_ext_need(ctx->worker, ctx->cell) == NULL) {
        return TR_ENOMEM;
    }
    TR_TRY(tri_question_new(ctx, call, pieces, out));
    memcpy((*out)->name, name, size + 1);
    (*out)->op.name = (tri_store_bytes){(*out)->name, size};
    return TR_OK;
}

/* As tri_question_result, but the state is not in doubt: no restart. */
static tr_err result_of(tr_ctx *ctx, const tri_question *q)
{
    if (q->op.err != TR_OK) {
        tri_error_set(ctx, "reminder %s of %s: %s", q->name, q->key,
                      q->op.text);
    }
    return q->op.err == TR_EIO ? TR_ESTORAGE : q->op.err;
}

static tr_err may_remind(tr_ctx *ctx, tr_nanos delay, tr_nanos period,
                         const tr_type *type, const char *site)
{
    const tr_handler *h =
        tri_reminders_taker(tri_first_behaviour(ctx->cell)->def, type->name);
    TR_TRY(tri_question_may_ask(ctx, "tr_remind", site));
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

tr_err(tr_remind)(tr_ctx *ctx, const char *name, tr_nanos delay,
                  tr_nanos period, const tr_type *type, const void *payload,
                  const char *site)
{
    tri_question *q;
    size_t size;
    TR_TRY(may_remind(ctx, delay, period, type, site));
    TR_TRY(name_question(ctx, TR_STORE_REMIND, name, 2, &q));
    tr_err err =
        tri_mem_should_fail(&ctx->sys->mem)
            ? TR_ENOMEM
            : tri_stored_make(tri_state_serializer(ctx), type, payload,
                              period > 0 ? (uint64_t)period : TRI_STORED_EVENT,
                              &q->owned[0], &size);
    if (err == TR_OK) {
        err = change_new(ctx, q);
    }
    if (err != TR_OK) {
        tri_question_free(q);
        return err;
    }
    q->op.bytes = (tri_store_bytes){q->owned[0], size};
    q->op.number = tri_reminders_wall(ctx->sys) + (uint64_t)delay;
    TR_TRY(tri_question_ask(ctx, q, site));
    err = result_of(ctx, q);
    if (err == TR_OK) {
        publish(
            ctx, q, &Set_tr_type,
            &(Set){.storage = (uint64_t)(uintptr_t)ctx->cell->props->storage,
                   .key = q->key,
                   .name = q->name,
                   .due = q->op.number,
                   .bytes = {q->owned[0], size}});
    }
    tri_question_free(q);
    return err;
}

tr_err tr_forget(tr_ctx *ctx, const char *name)
{
    tri_question *q;
    TR_TRY(tri_question_may_ask(ctx, "tr_forget", TR_HERE));
    TR_TRY(name_question(ctx, TR_STORE_FORGET, name, 1, &q));
    tr_err err = change_new(ctx, q);
    if (err != TR_OK) {
        tri_question_free(q);
        return err;
    }
    TR_TRY(tri_question_ask(ctx, q, TR_HERE));
    err = result_of(ctx, q);
    if (err == TR_OK) {
        publish(ctx, q, &Forgotten_tr_type,
                &(Forgotten){.storage =
                                 (uint64_t)(uintptr_t)ctx->cell->props->storage,
                             .key = q->key,
                             .name = q->name});
    }
    tri_question_free(q);
    return err;
}

/* ---- behind a handler ---- */

/* The one that this postman has brought to this actor; under the lock. */
static tri_reminder *find_fired(tri_reminders *r, uint64_t postman,
                                const tri_cell *target)
{
    tri_reminder *e = r->fired;
    while (e != NULL && (e->postman != postman || e->target != target)) {
        e = e->next;
    }
    return e;
}

/*
 * The next time on the grid; 0: it was for once. One beyond all that can be
 * stored, since the clock has leapt or another program wrote the period, is
 * the last that can be: it does not come again and again.
 */
static uint64_t next_due(tr_system *sys, uint64_t due, uint64_t period)
{
    uint64_t now = tri_reminders_wall(sys);
    if (period == 0) {
        return 0;
    }
    uint64_t steps = now < due ? 1 : (now - due) / period + 1;
    uint64_t left = due < DUE_MAX ? DUE_MAX - due : 0;
    return steps <= left / period ? due + steps * period : DUE_MAX;
}

/* Under the lock. */
static bool is_changed(const tri_reminders *r, const tri_reminder *e)
{
    const tri_reminder_change *c = r->changes;
    while (c != NULL && !change_is(c, e->book->storage, e->text, e->id_size)) {
        c = c->next;
    }
    return c != NULL;
}

/* Copies what the store has to be told; NULL: nothing, or no memory. */
static tri_question *settle_question(tr_ctx *ctx, tri_reminders *r,
                                     uint64_t sender, uint64_t *next)
{
    char name[TRI_STORE_NAME_MAX + 1] = "";
    void *copy = NULL;
    size_t size = 0;
    uint64_t due = 0;
    tri_codec_error error;
    tri_stored stored = {.number = 0};
    tri_lock_take(&r->lock);
    tri_reminder *e = find_fired(r, sender, ctx->cell);
    if (e != NULL && is_changed(r, e)) {
        e->superseded = true;
    }
    if (e != NULL && !e->superseded && !e->settled &&
        !tri_mem_should_fail(&ctx->sys->mem) &&
        (copy = malloc(e->size + 1)) != NULL) {
        memcpy(name, tri_reminder_name(e), strlen(tri_reminder_name(e)) + 1);
        size = e->size;
        due = e->due;
        memcpy(copy, tri_reminder_bytes(e).at, size);
        (void)!tri_stored_open(&stored, copy, size, &error);
        *next = next_due(ctx->sys, e->due, stored.number);
    }
    tri_lock_drop(&r->lock);
    tri_question *q;
    if (copy == NULL ||
        name_question(ctx, *next == 0 ? TR_STORE_FORGET : TR_STORE_REMIND, name,
                      1, &q) != TR_OK) {
        free(copy);
        return NULL;
    }
    q->owned[0] = copy;
    q->op.number = *next;
    q->op.after = due;  // unless another system has written it meanwhile
    if (*next != 0) {
        q->op.bytes = (tri_store_bytes){copy, size};
    }
    return q;
}

static void settle(tr_ctx *ctx, tri_reminders *r, uint64_t sender)
{
    uint64_t next = 0;
    tri_question *q = settle_question(ctx, r, sender, &next);
    if (q == NULL || tri_question_ask(ctx, q, "reminder") != TR_OK) {
        return;
    }
    tri_lock_take(&r->lock);
    tri_reminder *e = find_fired(r, sender, ctx->cell);
    if (e != NULL && q->op.err == TR_OK) {
        e->settled = true;
        e->due = next;
        e->superseded |= !q->op.found;  // another system's is the true one
    }
    tri_lock_drop(&r->lock);
    if (q->op.err != TR_OK) {
        tri_logf(ctx->sys, TR_LOG_WARN, NULL, NULL,
                 "reminder %s of %s comes again: %s", q->name, q->key,
                 q->op.text);
    }
    tri_question_free(q);
}

/* Kept is handled; put aside, or passed on, is not. */
static bool is_kept(const tri_ext *ext, const tri_node *node)
{
    const tri_node *at = ext != NULL ? ext->kept : NULL;
    while (at != NULL && at != node) {
        at = at->next;
    }
    return at != NULL;
}

tr_err tr_reminded(tr_ctx *ctx, const void *m, tr_err err)
{
    tri_reminders *r = tri_reminders_of(ctx->sys);
    tr_msg *msg = tri_msg_of(m);
    if (err != TR_OK || r == NULL ||
        ((ctx->flags & TRI_CTX_MSG_GONE) &&
         !is_kept(tri_ext_of(ctx->cell), &msg->node))) {
        return err;
    }
    if (msg->node.flags & TRI_MSG_ASK) {
        settle(ctx, r, msg->sender.id);
    }
    return TR_OK;
}
