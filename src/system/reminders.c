/*
 * reminders.c - messages to oneself that outlive the process
 * (docs/design/0010).
 *
 * The store has the truth: due time, period and message of each reminder, by
 * key and name. An actor at /system/reminders, the service, reads those that
 * are due within HORIZON, twice in that time, and holds a timer for each. What
 * is set meanwhile it is told of. When one is due, a postman, a child of the
 * service, asks the actor with the message, and so learns how it ended.
 *
 * All writes are made in turns of the actor that the reminder belongs to, so
 * they are in order and pass its fence: tr_remind and tr_forget, and after its
 * handler tr_reminded, which forgets the reminder or sets its next time.
 *
 * Invariant: a reminder that is in memory is in `book.entries`, or on the list
 * `fired`, never in both under the same key and name unless it was set anew;
 * then the fired one is `superseded` and writes nothing any more. From the
 * answer of the store until the service has heard of it, a `change` says the
 * same of those that the service fires meanwhile.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/mailbox.h"
#include "schema/stored.h"
#include "system/reminders.h"
#include "troupe/cluster.h"

enum {
    FIRED_MAX = 256,    // postmen on their way
    ATTEMPTS_MAX = 10,  // doublings of the delay of a retry
};
#define REFRESH    TR_MINUTES(5)
#define RETRY      TR_SECONDS(1)
#define RETRY_MAX  TR_MINUTES(10)
#define BUSY_DELAY TR_MS(10)

TR_MESSAGE(Hosted, (uint64_t, storage), (const char *, key));
TR_MESSAGE(Refresh);
TR_MESSAGE(Retry);
TR_MESSAGE(Go);
TR_MESSAGE(Fired, (uint64_t, entry), (uint64_t, postman), (uint32_t, err));

typedef struct Service {
    tri_reminders *r;
} Service;

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

/* A message of the library's own; false: it was not sent. */
bool tri_reminders_post(tr_system *sys, tri_worker *worker, tr_ref to,
                        const tr_type *type, const void *payload)
{
    tr_msg *msg = tri_msg_new(&worker->cache, type, payload, false);
    tri_actor_from who = {.sys = sys, .worker = worker};
    if (msg != NULL && tri_try_send(&who, to, msg) != TR_OK) {
        tri_msg_free(&worker->cache, msg);
        msg = NULL;
    }
    return msg != NULL;
}

/* ---- hosts ---- */

static void book_free(tri_reminder_book *b)
{
    tri_reminder *e;
    for (tri_map_iter it = tri_map_iter_begin(&b->entries);
         (e = tri_map_iter_next(&b->entries, &it)) != NULL;) {
        free(e);
    }
    tri_map_fini(&b->entries);
    free(b);
}

static void host_free(tri_reminder_host *h)
{
    if (h->book != NULL) {
        book_free(h->book);
    }
    free(h);
}

/* With all the memory that the service will need for it. */
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

/* Takes one that was offered, unless it is known. */
static void take_host(tri_reminders *r, tri_reminder_host *h)
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

static void take_offered(tri_reminders *r)
{
    tri_lock_take(&r->lock);
    tri_reminder_host *h = r->offered;
    r->offered = NULL;
    tri_lock_drop(&r->lock);
    while (h != NULL) {
        tri_reminder_host *next = h->next;
        take_host(r, h);
        h = next;
    }
}

static void look_after_postmen(tr_ctx *ctx, tri_reminders *r);

/* Reads all of them, or those that must be; what fails is read again soon. */
static void refresh(tr_ctx *ctx, tri_reminders *r, bool all)
{
    tr_nanos again = 0;
    take_offered(r);
    look_after_postmen(ctx, r);
    for (tri_reminder_book *b = r->books; b != NULL; b = b->next) {
        if (!all && !b->stale) {
            continue;
        }
        b->stale = tri_reminders_read(ctx, r, b) != TR_OK;
        if (b->stale) {
            // A shard that is damaged stays so: less and less often.
            tr_nanos span = RETRY << TRI_MIN(b->failures, ATTEMPTS_MAX);
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

/* Also after a failure: timers and postmen of the last one are gone. */
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

/* ---- what the service is told ---- */

/* A plain actor is back: what could not be delivered is due again. */
static void back_again(tr_ctx *ctx, tri_reminders *r, tri_reminder_book *b,
                       const char *key)
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
        back_again(ctx, r, b, m->key);
    }
    return TR_OK;
}

static tri_reminder *find(tri_reminder_book *b, const char *key,
                          const char *name)
{
    char id[TRI_STORE_KEY_MAX + 1 + TRI_STORE_NAME_MAX];
    size_t size =
        tri_reminder_id(id, tri_reminders_text(key), tri_reminders_text(name));
    return tri_map_get_bytes(&b->entries, id, size);
}

static tr_err on_set(tr_ctx *ctx, Service *self, const Set *m)
{
    tri_reminders *r = self->r;
    tri_reminders_take_change(r, (tr_storage *)(uintptr_t)m->storage, m->key,
                              m->name);
    tri_reminder_book *b =
        tri_reminders_book(r, (tr_storage *)(uintptr_t)m->storage);
    if (b == NULL) {
        return TR_OK;  // to be read when there is one
    }
    tri_reminder_drop(ctx, find(b, m->key, m->name));
    tri_reminder *e =
        m->due > b->until
            ? NULL
            : tri_reminder_new(r, b, tri_reminders_text(m->key),
                               tri_reminders_text(m->name), m->due,
                               (tri_store_bytes){m->bytes.at, m->bytes.size});
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
    return TR_OK;
}

/* ---- delivering ---- */

static void fired_link(tri_reminders *r, tri_reminder *e)
{
    tri_lock_take(&r->lock);
    e->postman = 0;
    e->target = NULL;
    e->sent = TR_NOBODY;
    e->superseded = e->settled = e->ended = false;
    e->next = r->fired;
    r->fired = e;
    tri_lock_drop(&r->lock);
    r->fired_count++;
}

static void fired_unlink(tri_reminders *r, tri_reminder *e)
{
    tri_lock_take(&r->lock);
    tri_reminder **at = &r->fired;
    while (*at != e) {
        at = &(*at)->next;
    }
    *at = e->next;
    tri_lock_drop(&r->lock);
    r->fired_count--;
}

/* Reads the message; NULL: it cannot be, and that was said. */
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
    err = value != NULL ? tri_stored_read(&stored, h->serializer, *type, value,
                                          NULL, &error)
                        : TR_ENOMEM;
    if (err != TR_OK) {
        warn(r, e, "cannot be read",
             err == TR_ENOMEM ? "out of memory" : error.text);
        free(value);
        return NULL;
    }
    return value;
}

static tr_ref target_of(tr_ctx *ctx, tri_reminders *r, const tri_reminder *e)
{
    const char *kind = tri_reminders_kind(r, tri_reminder_key(e), e->key_size);
    const char *rest = strchr(kind, '/') + 1;  // host_of has seen it
    return *rest == '/' ? tr_lookup(ctx, rest)
                        : tr_virtual_named(ctx, tri_reminder_key(e));
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
    e->postman = tr_self(ctx).id;
    e->target = tri_ref_cell(to);
    tri_lock_drop(&r->lock);
    tr_err err =
        tri_ask_inside(ctx, to, NULL, TR_FOREVER, type, value, "reminder");
    (tr_drop)(type, value);
    free(value);
    return err == TR_ENOREPLY ? TR_OK : err;  // the handler has returned
}

static tr_err on_go(tr_ctx *ctx, Postman *self, const Go *m)
{
    (void)m;
    tr_err err = deliver(ctx, self->r, self->entry);
    tr_tell(ctx, self->r->service, Fired,
            .entry = (uint64_t)(uintptr_t)self->entry,
            .postman = tr_self(ctx).id, .err = (uint32_t)err);
    tr_stop(ctx, tr_self(ctx));
    return TR_OK;
}

TR_ACTOR(postman, Postman, TR_ON(Go, on_go));

static tr_nanos retry_span(const tri_reminder *e)
{
    uint32_t doublings =
        e->attempts < ATTEMPTS_MAX ? e->attempts : ATTEMPTS_MAX;
    tr_nanos span = RETRY << doublings;
    return span < RETRY_MAX ? span : RETRY_MAX;
}

/* It could not be delivered, or was not stored as done: once more. */
static void again(tr_ctx *ctx, tri_reminder *e)
{
    tr_nanos span = retry_span(e);
    e->attempts++;
    tri_reminder_keep(ctx, e, span);
}

static tr_err on_due(tr_ctx *ctx, Service *self, const Due *m)
{
    tri_reminders *r = self->r;
    tri_reminder *e = (tri_reminder *)(uintptr_t)m->entry;
    tr_nanos left = tri_reminder_left(r, e);
    e->timer = (tr_timer){0};
    if (left > 0 || r->fired_count >= FIRED_MAX) {
        tri_reminder_arm(
            ctx, e, left > 0 ? left : BUSY_DELAY);  // the clock was set back
        return TR_OK;
    }
    (void)tri_map_remove_bytes(&e->book->entries, e->text, e->id_size);
    fired_link(r, e);
    tri_actor_from who = {.sys = r->sys, .worker = ctx->worker};
    tr_spawn_options options = {.size = sizeof(options),
                                .init = &(Postman){r, e},
                                .init_size = sizeof(Postman)};
    tr_ref made =
        tri_spawn_under(&who, ctx->cell, &postman, &options, TRI_CELL_SYSTEM);
    if (made.cell == 0 ||
        !tri_reminders_post(r->sys, ctx->worker, made, &Go_tr_type, &(Go){})) {
        tr_stop(ctx, made);
        fired_unlink(r, e);
        again(ctx, e);
    } else {
        e->sent = made;
    }
    return TR_OK;
}

/* It has been delivered, or not; either way nobody else has it any more. */
static void delivered(tr_ctx *ctx, tri_reminders *r, tri_reminder *e,
                      tr_err err)
{
    fired_unlink(r, e);
    e->absent = tr_undelivered(err);
    if (e->superseded && e->settled) {
        // Another system has written it: what it is now the store knows.
        e->book->stale = true;
        (void)tri_after_try(ctx, RETRY, &Retry_tr_type, &(Retry){});
        free(e);
    } else if (e->superseded || (e->settled && e->due == 0)) {
        free(e);
    } else if (e->settled) {
        e->attempts = 0;
        tri_reminder_keep(ctx, e, tri_reminder_left(r, e));
    } else {
        if (err != TR_OK && !e->absent) {
            warn(r, e, "comes again, its handler failed", tr_strerror(err));
        }
        again(ctx, e);
    }
}

/* Of a postman that is still awaited; the entry of any other may be gone. */
static tr_err on_fired(tr_ctx *ctx, Service *self, const Fired *m)
{
    tri_reminder *e = self->r->fired;  // only the service changes the list
    while (e != NULL &&
           ((uint64_t)(uintptr_t)e != m->entry || e->sent.id != m->postman)) {
        e = e->next;
    }
    if (e != NULL) {
        delivered(ctx, self->r, e, (tr_err)m->err);
    }
    return TR_OK;
}

/*
 * One that ended without a word, for want of memory, has delivered nothing.
 * But its word may lie in the mailbox still: what is said here in its place
 * comes behind that, and then finds nobody awaited.
 */
static void look_after_postmen(tr_ctx *ctx, tri_reminders *r)
{
    // Only the service changes the list.
    for (tri_reminder *e = r->fired; e != NULL; e = e->next) {
        if (!e->ended && tr_state_of(ctx, e->sent) == TR_STATE_TERMINATED) {
            // Without memory to say it: at the next look.
            e->ended = tri_reminders_post(
                r->sys, ctx->worker, r->service, &Fired_tr_type,
                &(Fired){.entry = (uint64_t)(uintptr_t)e,
                         .postman = e->sent.id,
                         .err = (uint32_t)TR_ENOMEM});
        }
    }
}

TR_ACTOR(reminders, Service, TR_ON(Hosted, on_hosted),
         TR_ON(Refresh, on_refresh), TR_ON(Due, on_due), TR_ON(Set, on_set),
         TR_ON(Forgotten, on_forgotten), TR_ON(Fired, on_fired),
         TR_ON(Retry, on_retry), TR_HOOK(pre_start, begin));

/* ---- making and ending the service ---- */

static tr_err make(tri_actor_from *who, tri_reminders **out)
{
    tr_system *sys = who->sys;
    tri_reminders *r = tri_mem_calloc(&sys->mem, sizeof(*r));
    if (r == NULL) {
        return TR_ENOMEM;
    }
    r->sys = sys;
    tri_lock_init(&r->lock);
    // It is made once: without memory it begins again, for as long as it
    // takes.
    tr_supervision policy = {.size = sizeof(policy),
                             .max_restarts = UINT32_MAX,
                             .backoff_min = RETRY,
                             .backoff_max = TR_MINUTES(1)};
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

tr_err tri_reminders_host(tri_actor_from *who, const tr_actor_def *def,
                          tr_storage *storage, const tr_serializer *serializer,
                          const char *key)
{
    tri_layers *layers = tri_layers_of(who->sys);
    tr_err err = TR_OK;
    if (!has_reminders(def)) {
        return TR_OK;
    }
    tri_lock_take(&layers->reminders_lock);
    tri_reminders *r = tri_reminders_of(who->sys);
    if (r == NULL && (err = make(who, &r)) == TR_OK) {
        // Release: pairs with reminders_of.
        atomic_store_explicit(&layers->reminders, r, memory_order_release);
    }
    tri_lock_drop(&layers->reminders_lock);
    if (err != TR_OK) {
        return err;
    }
    tri_reminder_host *h = host_new(who->sys, def, storage, serializer);
    if (h == NULL) {
        return TR_ENOMEM;
    }
    tri_lock_take(&r->lock);
    h->next = r->offered;
    r->offered = h;
    tri_lock_drop(&r->lock);
    // If that cannot be sent the service sees it at its next look.
    (void)tri_reminders_post(
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
    take_offered(r);
    while (r->hosts != NULL) {
        tri_reminder_host *next = r->hosts->next;
        host_free(r->hosts);
        r->hosts = next;
    }
    while (r->books != NULL) {
        tri_reminder_book *next = r->books->next;
        book_free(r->books);
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
