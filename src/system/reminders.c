/*
 * reminders.c - the service that delivers reminders: messages of an actor to
 * itself that outlive the process (docs/design/0010-reminders.md).
 *
 * The store has the truth: due time, period and message of each reminder, by
 * key and name. The service, an actor at /system/reminders, reads those that
 * are due soon, and again every REFRESH, and has a timer for each. It is
 * notified of those that are set meanwhile.
 */
#include "system/reminders.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/lock.h"
#include "base/map.h"
#include "core/caller.h"
#include "core/cell/cell.h"
#include "core/cell/mem.h"
#include "core/life/spawn.h"
#include "core/run/context.h"
#include "core/run/user_timer.h"
#include "core/system.h"
#include "core/up.h"
#include "storage/store_op.h"
#include "system/layers.h"
#include "system/reminders_book.h"
#include "system/reminders_call.h"
#include "system/reminders_delivery.h"
#include "troupe/macros.h"
#include "troupe/supervise.h"

#define REFRESH     TR_MINUTES(5)  // half of what a read looks ahead
#define RESTART_MAX TR_MINUTES(1)  // delay between two starts of the service

TR_MESSAGE(Hosted, (uint64_t, storage), (const char *, key));
TR_MESSAGE(Refresh);
TR_MESSAGE(Shards);  // tri_reminders.changed has some

typedef struct Service {
    tri_reminders *r;
} Service;

/* ---- hosts ---- */

static void host_free(tri_reminder_host *h)
{
    if (h->book != NULL) {
        tri_reminder_book_free(h->book);
    }
    free(h);
}

/* Makes a host with all the memory that the service will need for it. */
static tri_reminder_host *host_new(tr_system *sys, const tr_actor_def *def,
                                   tr_storage *storage,
                                   const tr_serializer *serializer)
{
    tri_reminder_host *h = tri_mem_calloc(&sys->mem, sizeof(*h));
    tri_reminder_book *b =
        h != NULL ? tri_mem_calloc(&sys->mem, sizeof(*b)) : NULL;
    if (b == NULL) {
        free(h);
        return NULL;
    }
    b->storage = storage;
    tri_map_init(&b->entries, tri_reminder_is, NULL);
    *h = (tri_reminder_host){NULL, def, storage, serializer, b};
    return h;
}

/* Adds an offered host, or frees it if it is known. */
static void adopt_host(tri_reminders *r, tri_reminder_host *h)
{
    const tri_reminder_host *known = r->hosts;
    while (known != NULL &&
           (known->def != h->def || known->storage != h->storage)) {
        known = known->next;
    }
    if (known != NULL) {
        host_free(h);
        return;
    }
    tri_reminder_book *b = tri_reminders_book(r, h->storage);
    if (b == NULL) {
        b = h->book;
        b->next = r->books;
        r->books = b;
        h->book = NULL;
    }
    b->stale = true;
    h->next = r->hosts;
    r->hosts = h;
}

static void adopt_offered(tri_reminders *r)
{
    tri_lock_take(&r->lock);
    tri_reminder_host *h = r->offered;
    r->offered = NULL;
    tri_lock_drop(&r->lock);
    while (h != NULL) {
        tri_reminder_host *next = h->next;
        adopt_host(r, h);
        h = next;
    }
}

/* ---- reading the stores ---- */

/* Reads all books, or the stale ones. What fails is read again soon. */
static void refresh(tr_ctx *ctx, tri_reminders *r, bool all)
{
    tr_nanos again = 0;
    adopt_offered(r);
    tri_reminders_drop_shards(ctx, r, NULL);
    tri_reminders_check_postmen(ctx, r);
    for (tri_reminder_book *b = r->books; b != NULL; b = b->next) {
        if (!all && !b->stale) {
            continue;
        }
        b->stale = tri_reminders_read(ctx, r, b, NULL) != TR_OK;
        if (b->stale) {
            // A damaged shard stays damaged, so retries become less frequent.
            tr_nanos span = TRI_REMINDERS_RETRY
                            << TRI_MIN(b->failures, TRI_REMINDERS_DOUBLINGS);
            again = again == 0 || span < again ? span : again;
        }
        b->failures = b->stale ? b->failures + 1 : 0;
    }
    if (again > 0 && again < REFRESH) {
        (void)tri_after_try(ctx, again, &Retry_tr_type, &(Retry){});
    }
}

static tr_err on_refresh(tr_ctx *ctx, Service *self, const Refresh *m)
{
    (void)m;
    refresh(ctx, self->r, true);
    return TR_OK;
}

static tr_err on_retry(tr_ctx *ctx, Service *self, const Retry *m)
{
    (void)m;
    refresh(ctx, self->r, false);
    return TR_OK;
}

/* Takes the shards that have changed. */
static void take_changed(tri_reminders *r, uint64_t *bits)
{
    tri_lock_take(&r->lock);
    memcpy(bits, r->changed, sizeof(r->changed));
    memset(r->changed, 0, sizeof(r->changed));
    r->told_of_shards = false;
    tri_lock_drop(&r->lock);
}

/* Forgets the shards that have another owner, reads those that are ours. */
static tr_err on_shards(tr_ctx *ctx, Service *self, const Shards *m)
{
    (void)m;
    tri_reminders *r = self->r;
    uint64_t *bits = tr_scratch(ctx, sizeof(r->changed));
    take_changed(r, bits);
    tri_reminders_drop_shards(ctx, r, bits);
    for (tri_reminder_book *b = r->books; b != NULL; b = b->next) {
        b->stale |= tri_reminders_read(ctx, r, b, bits) != TR_OK;
    }
    refresh(ctx, r, false);  // what could not be read comes again
    return TR_OK;
}

void tri_reminders_shard_changed(tr_system *sys, tri_worker *worker,
                                 uint32_t shard)
{
    TRI_CHECK(shard < TRI_STORE_SHARDS_MAX);
    tri_reminders *r = tri_reminders_of(sys);
    if (r == NULL) {
        return;
    }
    tri_lock_take(&r->lock);
    r->changed[shard / 64] |= UINT64_C(1) << (shard % 64);
    bool tells = !r->told_of_shards;
    r->told_of_shards = true;
    tri_lock_drop(&r->lock);
    if (tells && !tri_reminders_send(sys, worker, r->service, &Shards_tr_type,
                                     &(Shards){})) {
        tri_lock_take(&r->lock);
        r->told_of_shards = false;  // the next change tells it, or a refresh
        tri_lock_drop(&r->lock);
    }
}

/*
 * Starts the service, also after a failure: the timers and postmen of the
 * incarnation before are gone.
 */
static tr_err begin(tr_ctx *ctx, Service *self)
{
    tri_reminders *r = self->r;
    while (r->fired != NULL) {
        tri_reminder *e = r->fired;
        tri_lock_take(&r->lock);
        r->fired = e->next;
        tri_lock_drop(&r->lock);
        free(e);
    }
    r->fired_count = 0;
    for (tri_reminder_book *b = r->books; b != NULL; b = b->next) {
        tri_reminder *e;
        b->stale = true;
        for (tri_map_iter it = tri_map_iter_begin(&b->entries);
             (e = tri_map_iter_next(&b->entries, &it)) != NULL;) {
            e->timer = (tr_timer){0};
        }
    }
    (void)tr_every(ctx, REFRESH, Refresh);
    refresh(ctx, r, false);
    return TR_OK;
}

/* ---- notices to the service ---- */

/* A plain actor has started: delivers what could not be while it was absent. */
static void deliver_to_returned(tr_ctx *ctx, tri_reminders *r,
                                tri_reminder_book *b, const char *key)
{
    tri_reminder *e;
    for (tri_map_iter it = tri_map_iter_begin(&b->entries);
         (e = tri_map_iter_next(&b->entries, &it)) != NULL;) {
        if (e->absent && strcmp(tri_reminder_key(e), key) == 0) {
            tri_reminder_arm(ctx, e, tri_reminder_left(r, e));
        }
    }
}

static tr_err on_hosted(tr_ctx *ctx, Service *self, const Hosted *m)
{
    tri_reminders *r = self->r;
    refresh(ctx, r, false);
    tri_reminder_book *b =
        tri_reminders_book(r, (tr_storage *)(uintptr_t)m->storage);
    if (m->key != NULL && b != NULL) {
        deliver_to_returned(ctx, r, b, m->key);
    }
    return TR_OK;
}

static tri_reminder *find(tri_reminder_book *b, const char *key,
                          const char *name)
{
    char id[TRI_REMINDER_ID_MAX];
    size_t size =
        tri_reminder_id(id, tri_reminders_text(key), tri_reminders_text(name));
    return tri_map_get_bytes(&b->entries, id, size);
}

/* True if this node delivers the reminder; else its owner is told. */
static bool is_ours(tr_ctx *ctx, tri_reminders *r, const char *key,
                    uint32_t shard)
{
    bool ours = tri_reminders_is_ours(r, tri_reminders_text(key), shard);
    if (!ours) {
        tri_virtual_ops_of(r->sys)->reminder_changed(ctx->worker, shard);
    }
    return ours;
}

static tr_err on_set(tr_ctx *ctx, Service *self, const Set *m)
{
    tri_reminders *r = self->r;
    tri_reminders_take_change(r, (tr_storage *)(uintptr_t)m->storage, m->key,
                              m->name);
    tri_reminder_book *b =
        tri_reminders_book(r, (tr_storage *)(uintptr_t)m->storage);
    if (b == NULL) {
        return TR_OK;  // it will be read when the store has a book
    }
    tri_reminder_drop(ctx, find(b, m->key, m->name));
    if (!is_ours(ctx, r, m->key, m->shard)) {
        return TR_OK;
    }
    tri_store_row row = {.number = m->due,
                         .key = tri_reminders_text(m->key),
                         .name = tri_reminders_text(m->name),
                         .bytes = {m->bytes.at, m->bytes.size}};
    tri_reminder *e =
        m->due > b->until ? NULL : tri_reminder_new(r, b, m->shard, &row);
    if (e != NULL) {
        tri_reminder_keep(ctx, e, tri_reminder_left(r, e));
    }
    return TR_OK;
}

static tr_err on_forgotten(tr_ctx *ctx, Service *self, const Forgotten *m)
{
    tr_storage *storage = (tr_storage *)(uintptr_t)m->storage;
    tri_reminders_take_change(self->r, storage, m->key, m->name);
    tri_reminder_book *b = tri_reminders_book(self->r, storage);
    if (b != NULL) {
        tri_reminder_drop(ctx, find(b, m->key, m->name));
    }
    (void)is_ours(ctx, self->r, m->key, m->shard);
    return TR_OK;
}

static tr_err on_due(tr_ctx *ctx, Service *self, const Due *m)
{
    tri_reminders_fire(ctx, self->r, (tri_reminder *)(uintptr_t)m->entry);
    return TR_OK;
}

static tr_err on_fired(tr_ctx *ctx, Service *self, const Fired *m)
{
    tri_reminders_fired(ctx, self->r, m);
    return TR_OK;
}

TR_ACTOR(reminders, Service, TR_ON(Hosted, on_hosted),
         TR_ON(Refresh, on_refresh), TR_ON(Due, on_due), TR_ON(Set, on_set),
         TR_ON(Forgotten, on_forgotten), TR_ON(Fired, on_fired),
         TR_ON(Retry, on_retry), TR_ON(Shards, on_shards),
         TR_HOOK(pre_start, begin));

/* ---- making and ending the service ---- */

static tr_err service_new(tri_caller *who, tri_reminders **out)
{
    tr_system *sys = who->sys;
    tri_reminders *r = tri_mem_calloc(&sys->mem, sizeof(*r));
    if (r == NULL) {
        return TR_ENOMEM;
    }
    r->sys = sys;
    tri_lock_init(&r->lock);
    // It is spawned once, so a start that fails is tried again without limit.
    tr_supervision policy = {.size = sizeof(policy),
                             .max_restarts = UINT32_MAX,
                             .backoff_min = TRI_REMINDERS_RETRY,
                             .backoff_max = RESTART_MAX};
    tr_spawn_options options = {.size = sizeof(options),
                                .name = "reminders",
                                .init = &(Service){r},
                                .init_size = sizeof(Service),
                                .supervision = &policy};
    r->service = tri_spawn_under(who, sys->system, &reminders, &options,
                                 TRI_CELL_SYSTEM);
    if (r->service.cell == 0) {
        tr_err err = (tr_err)r->service.id;
        free(r);
        return err == TR_ESTOPPED ? TR_ECLOSED : err;
    }
    *out = r;
    return TR_OK;
}

static bool has_reminders(const tr_actor_def *def)
{
    for (size_t i = 0; i < def->handler_count; i++) {
        if (def->handlers[i].flags & TR_REMINDER) {
            return true;
        }
    }
    return false;
}

/*
 * Returns the service, made if there is none. If several threads make it, its
 * name decides: one of them can spawn it.
 */
static tr_err need_service(tri_caller *who, tri_reminders **out)
{
    tri_reminders_slot *slot = &tri_layers_of(who->sys)->reminders;
    *out = tri_reminders_of(who->sys);
    if (*out != NULL) {
        return TR_OK;
    }
    tr_err err = service_new(who, out);
    if (err == TR_OK) {
        // Release: pairs with tri_reminders_of.
        atomic_store_explicit(&slot->reminders, *out, memory_order_release);
    } else if (err == TR_EEXIST) {
        while ((*out = tri_reminders_of(who->sys)) == NULL) {
            tri_lock_yield();  // a few instructions are missing
        }
        err = TR_OK;
    }
    return err;
}

tr_err tri_reminders_host(tri_caller *who, const tr_actor_def *def,
                          tr_storage *storage, const tr_serializer *serializer,
                          const char *key)
{
    TRI_CHECK(storage != NULL);
    if (!has_reminders(def)) {
        return TR_OK;
    }
    tri_reminders *r;
    TR_TRY(need_service(who, &r));
    tri_reminder_host *h = host_new(who->sys, def, storage, serializer);
    if (h == NULL) {
        return TR_ENOMEM;
    }
    TRI_CHECK(r != NULL);
    tri_lock_take(&r->lock);
    h->next = r->offered;
    r->offered = h;
    tri_lock_drop(&r->lock);
    // If this cannot be sent, the service finds the host at its next refresh.
    (void)tri_reminders_send(
        who->sys, who->worker, r->service, &Hosted_tr_type,
        &(Hosted){.storage = (uint64_t)(uintptr_t)storage, .key = key});
    return TR_OK;
}

void tri_reminders_free(tr_system *sys)
{
    tri_reminders *r = tri_reminders_of(sys);
    if (r == NULL) {
        return;
    }
    adopt_offered(r);
    while (r->hosts != NULL) {
        tri_reminder_host *next = r->hosts->next;
        host_free(r->hosts);
        r->hosts = next;
    }
    while (r->books != NULL) {
        tri_reminder_book *next = r->books->next;
        tri_reminder_book_free(r->books);
        r->books = next;
    }
    while (r->fired != NULL) {
        tri_reminder *next = r->fired->next;
        free(r->fired);
        r->fired = next;
    }
    while (r->changes != NULL) {
        tri_reminder_change *next = r->changes->next;
        free(r->changes);
        r->changes = next;
    }
    free(r);
}
