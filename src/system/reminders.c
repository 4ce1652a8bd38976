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
#include "system/question.h"
#include "troupe/cluster.h"
#include "troupe/storage.h"

enum {
    SHARDS_AT_ONCE = 512,  // questions in one batch
    FIRED_MAX = 256,       // postmen on their way
    ATTEMPTS_MAX = 10,     // doublings of the delay of a retry
};
#define HORIZON    TR_MINUTES(10)
#define REFRESH    TR_MINUTES(5)
#define RETRY      TR_SECONDS(1)
#define RETRY_MAX  TR_MINUTES(10)
#define BUSY_DELAY TR_MS(10)

TR_MESSAGE(Hosted, (uint64_t, storage), (const char *, key));
TR_MESSAGE(Refresh);
TR_MESSAGE(Retry);
TR_MESSAGE(Due, (uint64_t, entry));
TR_MESSAGE(Set, (uint64_t, storage), (const char *, key),
           (const char *, name), (uint64_t, due), (tr_bytes, bytes));
TR_MESSAGE(Forgotten, (uint64_t, storage), (const char *, key),
           (const char *, name));
TR_MESSAGE(Go);
TR_MESSAGE(Fired, (uint64_t, entry), (uint32_t, err));

typedef struct host {
    struct host *next;
    const tr_actor_def *def;
    tr_storage *storage;
    const tr_serializer *serializer;
    struct book *book;  // for the store, if it has none yet
} host;

typedef struct book {  // of one store
    struct book *next;
    tr_storage *storage;
    uint64_t until;    // all that are due by then are in entries
    bool stale;        // it could not be read, or another kind is hosted
    tri_map entries;
} book;

typedef struct entry {
    struct entry *next;  // on the list of those fired
    book *book;
    uint64_t due;
    tr_timer timer;
    uint32_t attempts;
    bool absent;         // a plain actor that was not there
    tr_ref sent;         // the postman, while fired
    /* ---- under `lock`, while fired ---- */
    uint64_t postman;    // its id; 0: it has not begun
    tri_cell *target;
    bool superseded;     // set anew or forgotten since
    bool settled;        // the store knows that it is done; due is the next
    size_t id_size, key_size, size;
    char text[];         // key, zero, name, zero, stored bytes
} entry;

/* Set anew or forgotten, and stored so; the service has not heard of it. */
typedef struct change {
    struct change *next;
    tr_storage *storage;
    size_t id_size;
    char id[];
} change;

typedef struct tri_reminders {
    tr_system *sys;
    tr_ref service;
    host *hosts;
    book *books;
    uint32_t fired_count;
    tri_lock lock;   // a leaf: what follows
    host *offered;   // not in hosts yet
    entry *fired;
    change *changes;
} tri_reminders;

typedef struct Service {
    tri_reminders *r;
} Service;

typedef struct Postman {
    tri_reminders *r;
    entry *entry;
} Postman;

static const char *key_of(const entry *e)
{
    return e->text;
}

static const char *name_of(const entry *e)
{
    return e->text + e->key_size + 1;
}

static tri_store_bytes bytes_of(const entry *e)
{
    return (tri_store_bytes){e->text + e->id_size + 1, e->size};
}

static uint64_t wall(tr_system *sys)
{
    tr_nanos now = sys->world->ops->wall(sys->world);
    return now > 0 ? (uint64_t)now : 0;
}

static tri_reminders *reminders_of(tr_system *sys)
{
    // Acquire: pairs with tri_reminders_host.
    return atomic_load_explicit(&tri_layers_of(sys)->reminders,
                                memory_order_acquire);
}

static void warn(tri_reminders *r, const entry *e, const char *what,
                 const char *why)
{
    tri_logf(r->sys, TR_LOG_WARN, NULL, NULL, "reminder %s of %s %s: %s",
             name_of(e), key_of(e), what, why);
}

/* A message of the library's own; false: it was not sent. */
static bool post(tr_system *sys, tri_worker *worker, tr_ref to,
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

/* ---- what is in memory ---- */

static bool entry_is(const void *value, const void *id, size_t size)
{
    const entry *e = value;
    return e->id_size == size && memcmp(e->text, id, size) == 0;
}

static entry *entry_new(tri_reminders *r, book *b, tri_store_bytes key,
                        tri_store_bytes name, uint64_t due,
                        tri_store_bytes bytes)
{
    size_t id_size = key.size + 1 + name.size;
    entry *e = tri_mem_calloc(&r->sys->mem,
                              sizeof(*e) + id_size + 2 + bytes.size);
    if (e != NULL) {
        e->book = b;
        e->due = due;
        e->id_size = id_size;
        e->key_size = key.size;
        e->size = bytes.size;
        memcpy(e->text, key.at, key.size);
        memcpy(e->text + key.size + 1, name.at, name.size);
        if (bytes.size > 0) {
            memcpy(e->text + id_size + 1, bytes.at, bytes.size);
        }
    }
    return e;
}

/* Writes what the map finds an entry by; returns its size. */
static size_t id_of(char *out, tri_store_bytes key, tri_store_bytes name)
{
    memcpy(out, key.at, key.size);
    out[key.size] = '\0';
    memcpy(out + key.size + 1, name.at, name.size);
    return key.size + 1 + name.size;
}

static void entry_drop(tr_ctx *ctx, entry *e)
{
    if (e != NULL) {
        (void)tri_map_remove_bytes(&e->book->entries, e->text, e->id_size);
        if (e->timer.id != 0) {
            tr_cancel(ctx, e->timer);
        }
        free(e);
    }
}

/*
 * Its timer goes off after that time, at the earliest now. Without memory the
 * next look into the store arms it.
 */
static void arm(tr_ctx *ctx, entry *e, tr_nanos span)
{
    if (e->timer.id != 0) {
        tr_cancel(ctx, e->timer);
    }
    e->timer = tri_after_try(ctx, span > 0 ? span : 1, &Due_tr_type,
                             &(Due){.entry = (uint64_t)(uintptr_t)e});
}

static tr_nanos time_left(tri_reminders *r, const entry *e)
{
    uint64_t now = wall(r->sys);
    return e->due > now ? (tr_nanos)(e->due - now) : 0;
}

/* Puts it into its book, unless a newer one of that name is there. */
static void keep(tr_ctx *ctx, entry *e, tr_nanos span)
{
    book *b = e->book;
    if (e->due > b->until && e->attempts == 0) {
        free(e);  // a later look will find it
    } else if (tri_map_get_bytes(&b->entries, e->text, e->id_size) != NULL ||
               tri_map_put_bytes(&b->entries, e->text, e->id_size, e) !=
                   TR_OK) {
        free(e);
    } else {
        arm(ctx, e, span);
    }
}

static bool is_fired(tri_reminders *r, const book *b, const char *id,
                     size_t size)
{
    bool found = false;
    tri_lock_take(&r->lock);
    for (entry *e = r->fired; e != NULL && !found; e = e->next) {
        found = e->book == b && !e->superseded && entry_is(e, id, size);
    }
    tri_lock_drop(&r->lock);
    return found;
}

/* ---- hosts ---- */

static void book_free(book *b)
{
    entry *e;
    for (tri_map_iter it = tri_map_iter_begin(&b->entries);
         (e = tri_map_iter_next(&b->entries, &it)) != NULL;) {
        free(e);
    }
    tri_map_fini(&b->entries);
    free(b);
}

static void host_free(host *h)
{
    if (h->book != NULL) {
        book_free(h->book);
    }
    free(h);
}

/* With all the memory that the service will need for it. */
static host *host_new(tr_system *sys, const tr_actor_def *def,
                      tr_storage *storage, const tr_serializer *serializer)
{
    host *h = tri_mem_calloc(&sys->mem, sizeof(*h));
    book *b = h != NULL ? tri_mem_calloc(&sys->mem, sizeof(*b)) : NULL;
    if (b == NULL) {
        free(h);
        return NULL;
    }
    b->storage = storage;
    tri_map_init(&b->entries, entry_is, NULL);
    *h = (host){NULL, def, storage, serializer, b};
    return h;
}

/* The part of a key behind `namespace::`, or NULL if it is another's. */
static const char *kind_in(tri_reminders *r, const char *key, size_t size)
{
    const char *ns = r->sys->options.ns != NULL ? r->sys->options.ns : "local";
    size_t length = strlen(ns);
    return size > length + 2 && memcmp(key, ns, length) == 0 &&
                   memcmp(key + length, "::", 2) == 0
               ? key + length + 2
               : NULL;
}

static const tr_handler *taker(const tr_actor_def *def, const char *type)
{
    for (size_t i = 0; i < def->handler_count; i++) {
        const tr_handler *h = &def->handlers[i];
        if ((h->flags & TR_REMINDER) && strcmp(h->type->name, type) == 0) {
            return h;
        }
    }
    return NULL;
}

/* A host of the key's kind, which takes this type unless it is NULL. */
static const host *host_of(tri_reminders *r, const tr_storage *storage,
                           tri_store_bytes key, const char *type)
{
    const char *kind = kind_in(r, key.at, key.size);
    size_t left = kind != NULL
                      ? key.size - (size_t)(kind - (const char *)key.at)
                      : 0;
    for (const host *h = r->hosts; h != NULL && kind != NULL; h = h->next) {
        size_t length = strlen(h->def->name);
        if (h->storage == storage && left > length &&
            kind[length] == '/' && memcmp(kind, h->def->name, length) == 0 &&
            (type == NULL || taker(h->def, type) != NULL)) {
            return h;
        }
    }
    return NULL;
}

/* ---- looking into the store ---- */

static void take_row(tr_ctx *ctx, tri_reminders *r, book *b,
                     const tri_store_row *row)
{
    char id[TRI_STORE_KEY_MAX + 1 + TRI_STORE_NAME_MAX];
    size_t size = id_of(id, row->key, row->name);
    entry *old = tri_map_get_bytes(&b->entries, id, size);
    if (host_of(r, b->storage, row->key, NULL) == NULL ||
        is_fired(r, b, id, size)) {
        return;
    }
    if (old != NULL && old->due == row->number) {
        if (old->timer.id == 0) {
            arm(ctx, old, time_left(r, old));
        }
        return;
    }
    entry_drop(ctx, old);
    entry *e = entry_new(r, b, row->key, row->name, row->number, row->bytes);
    if (e != NULL) {
        keep(ctx, e, time_left(r, e));
    }
}

/* Takes the rows of an answer. True: there are more, behind *last. */
static bool take_rows(tr_ctx *ctx, tri_reminders *r, book *b,
                      const tri_store_op *op, tri_store_row *last)
{
    tri_store_row row;
    for (size_t at = 0; tri_store_row_next(op, &at, &row);) {
        take_row(ctx, r, b, &row);
        *last = row;
    }
    return op->more;
}

static tr_err fail_read(tri_reminders *r, const tri_store_op *op)
{
    tri_logf(r->sys, TR_LOG_WARN, NULL, NULL, "reading reminders: %s",
             op->text);
    return op->err;
}

/* Where a look into a shard goes on. */
typedef struct place {
    uint64_t number;
    size_t key_size, name_size;
    char key[TRI_STORE_KEY_MAX], name[TRI_STORE_NAME_MAX];
} place;

static void place_set(place *at, const tri_store_row *last)
{
    at->number = last->number;
    at->key_size = last->key.size;
    at->name_size = last->name.size;
    memcpy(at->key, last->key.at, last->key.size);
    memcpy(at->name, last->name.at, last->name.size);
}

/* The rows of one shard behind that place. */
static tr_err read_rest(tr_ctx *ctx, tri_reminders *r, book *b,
                        uint32_t shard, uint64_t until, place *at)
{
    for (bool more = true; more;) {
        tri_question *q;
        tri_store_row last;
        TR_TRY(tri_question_new(ctx, TR_STORE_REMINDERS, 0, &q));
        q->storage = b->storage;
        q->op.shard = shard;
        q->op.number = until;
        q->op.after = at->number;
        memcpy(q->key, at->key, at->key_size);
        memcpy(q->name, at->name, at->name_size);
        q->op.key = (tri_store_bytes){q->key, at->key_size};
        q->op.name = (tri_store_bytes){q->name, at->name_size};
        TR_TRY(tri_question_ask(ctx, q, "reminders"));
        tr_err err = q->op.err == TR_OK ? TR_OK : fail_read(r, &q->op);
        more = err == TR_OK && take_rows(ctx, r, b, &q->op, &last);
        if (more) {
            place_set(at, &last);
        }
        tri_question_free(q);
        TR_TRY(err);
    }
    return TR_OK;
}

static tr_err read_shards(tr_ctx *ctx, tri_reminders *r, book *b,
                          uint32_t first, uint32_t count, uint64_t until)
{
    tri_question *q;
    TR_TRY(tri_question_new(ctx, TR_STORE_REMINDERS, 0, &q));
    tr_err err = tri_question_ops(q, count);
    if (err != TR_OK) {
        tri_question_free(q);
        return err;
    }
    q->storage = b->storage;
    for (uint32_t i = 0; i < count; i++) {
        q->ops[i].call = TR_STORE_REMINDERS;
        q->ops[i].shard = first + i;
        q->ops[i].number = until;
    }
    TR_TRY(tri_question_ask(ctx, q, "reminders"));
    for (uint32_t i = 0; i < count && err == TR_OK; i++) {
        tri_store_row last;
        err = q->ops[i].err;
        if (err != TR_OK) {
            (void)fail_read(r, &q->ops[i]);
        } else if (take_rows(ctx, r, b, &q->ops[i], &last)) {
            place at;
            place_set(&at, &last);
            err = read_rest(ctx, r, b, first + i, until, &at);
        }
    }
    tri_question_free(q);
    return err;
}

static tr_err read_book(tr_ctx *ctx, tri_reminders *r, book *b)
{
    const tri_virtual_ops *ops = tri_virtual_ops_of(r->sys);
    uint32_t shards = ops != NULL ? ops->shards : 1;
    uint64_t until = wall(r->sys) + HORIZON;
    b->until = until > b->until ? until : b->until;  // what is set meanwhile
    for (uint32_t at = 0; at < shards; at += SHARDS_AT_ONCE) {
        uint32_t left = shards - at;
        TR_TRY(read_shards(ctx, r, b, at,
                           left < SHARDS_AT_ONCE ? left : SHARDS_AT_ONCE,
                           until));
    }
    return TR_OK;
}

static book *book_of(tri_reminders *r, const tr_storage *storage)
{
    book *b = r->books;
    while (b != NULL && b->storage != storage) {
        b = b->next;
    }
    return b;
}

/* Takes one that was offered, unless it is known. */
static void take_host(tri_reminders *r, host *h)
{
    const host *known = r->hosts;
    while (known != NULL &&
           (known->def != h->def || known->storage != h->storage)) {
        known = known->next;
    }
    if (known != NULL) {
        host_free(h);
        return;
    }
    book *b = book_of(r, h->storage);
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
    host *h = r->offered;
    r->offered = NULL;
    tri_lock_drop(&r->lock);
    while (h != NULL) {
        host *next = h->next;
        take_host(r, h);
        h = next;
    }
}

static void look_after_postmen(tr_ctx *ctx, tri_reminders *r);

/* Reads all of them, or those that must be; what fails is read again soon. */
static void refresh(tr_ctx *ctx, tri_reminders *r, bool all)
{
    bool failed = false;
    take_offered(r);
    look_after_postmen(ctx, r);
    for (book *b = r->books; b != NULL; b = b->next) {
        if (all || b->stale) {
            b->stale = read_book(ctx, r, b) != TR_OK;
            failed |= b->stale;
        }
    }
    if (failed) {
        (void)tri_after_try(ctx, RETRY, &Retry_tr_type, &(Retry){});
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
        entry *e = r->fired;
        tri_lock_take(&r->lock);
        r->fired = e->next;
        tri_lock_drop(&r->lock);
        free(e);
    }
    r->fired_count = 0;
    for (book *b = r->books; b != NULL; b = b->next) {
        entry *e;
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
static void back_again(tr_ctx *ctx, tri_reminders *r, book *b,
                       const char *key)
{
    entry *e;
    for (tri_map_iter it = tri_map_iter_begin(&b->entries);
         (e = tri_map_iter_next(&b->entries, &it)) != NULL;) {
        if (e->absent && strcmp(key_of(e), key) == 0) {
            arm(ctx, e, time_left(r, e));
        }
    }
}

static tr_err on_hosted(tr_ctx *ctx, Service *self, const Hosted *m)
{
    tri_reminders *r = self->r;
    refresh(ctx, r, false);
    book *b = book_of(r, (tr_storage *)(uintptr_t)m->storage);
    if (m->key != NULL && b != NULL) {
        back_again(ctx, r, b, m->key);
    }
    return TR_OK;
}

static tri_store_bytes text_bytes(const char *text)
{
    return (tri_store_bytes){text, strlen(text)};
}

static entry *find(book *b, const char *key, const char *name)
{
    char id[TRI_STORE_KEY_MAX + 1 + TRI_STORE_NAME_MAX];
    size_t size = id_of(id, text_bytes(key), text_bytes(name));
    return tri_map_get_bytes(&b->entries, id, size);
}

/* Those of that name that are being delivered write nothing any more. */
static void supersede(tri_reminders *r, const tr_storage *storage,
                      const char *id, size_t size)
{
    for (entry *e = r->fired; e != NULL; e = e->next) {
        if (e->book->storage == storage && entry_is(e, id, size)) {
            e->superseded = true;
        }
    }
}

static bool change_is(const change *c, const tr_storage *storage,
                      const char *id, size_t size)
{
    return c->storage == storage && c->id_size == size &&
           memcmp(c->id, id, size) == 0;
}

/* The service hears of a change: what it has fired until now is old. */
static void take_change(tri_reminders *r, const tr_storage *storage,
                        const char *key, const char *name)
{
    char id[TRI_STORE_KEY_MAX + 1 + TRI_STORE_NAME_MAX];
    size_t size = id_of(id, text_bytes(key), text_bytes(name));
    tri_lock_take(&r->lock);
    supersede(r, storage, id, size);
    change **at = &r->changes;
    while (*at != NULL && !change_is(*at, storage, id, size)) {
        at = &(*at)->next;
    }
    change *found = *at;
    if (found != NULL) {
        *at = found->next;
    }
    tri_lock_drop(&r->lock);
    free(found);
}

static tr_err on_set(tr_ctx *ctx, Service *self, const Set *m)
{
    tri_reminders *r = self->r;
    take_change(r, (tr_storage *)(uintptr_t)m->storage, m->key, m->name);
    book *b = book_of(r, (tr_storage *)(uintptr_t)m->storage);
    if (b == NULL) {
        return TR_OK;  // to be read when there is one
    }
    entry_drop(ctx, find(b, m->key, m->name));
    entry *e = m->due > b->until
                   ? NULL
                   : entry_new(r, b, text_bytes(m->key), text_bytes(m->name),
                               m->due,
                               (tri_store_bytes){m->bytes.at, m->bytes.size});
    if (e != NULL) {
        keep(ctx, e, time_left(r, e));
    }
    return TR_OK;
}

static tr_err on_forgotten(tr_ctx *ctx, Service *self, const Forgotten *m)
{
    tr_storage *storage = (tr_storage *)(uintptr_t)m->storage;
    take_change(self->r, storage, m->key, m->name);
    book *b = book_of(self->r, storage);
    if (b != NULL) {
        entry_drop(ctx, find(b, m->key, m->name));
    }
    return TR_OK;
}

/* ---- delivering ---- */

static void fired_link(tri_reminders *r, entry *e)
{
    tri_lock_take(&r->lock);
    e->postman = 0;
    e->target = NULL;
    e->sent = TR_NOBODY;
    e->superseded = e->settled = false;
    e->next = r->fired;
    r->fired = e;
    tri_lock_drop(&r->lock);
    r->fired_count++;
}

static void fired_unlink(tri_reminders *r, entry *e)
{
    tri_lock_take(&r->lock);
    entry **at = &r->fired;
    while (*at != e) {
        at = &(*at)->next;
    }
    *at = e->next;
    tri_lock_drop(&r->lock);
    r->fired_count--;
}

/* The one that this postman has brought to this actor; under the lock. */
static entry *find_fired(tri_reminders *r, uint64_t postman,
                         const tri_cell *target)
{
    entry *e = r->fired;
    while (e != NULL && (e->postman != postman || e->target != target)) {
        e = e->next;
    }
    return e;
}

/* Reads the message; NULL: it cannot be, and that was said. */
static void *read_message(tri_reminders *r, const entry *e,
                          const tr_type **type)
{
    tri_codec_error error = {.at = 0};
    tri_store_bytes bytes = bytes_of(e), key = {e->text, e->key_size};
    tri_stored stored;
    tr_err err = tri_stored_open(&stored, bytes.at, bytes.size, &error);
    const host *h = err == TR_OK
                        ? host_of(r, e->book->storage, key, stored.type)
                        : NULL;
    if (h == NULL) {
        warn(r, e, "cannot be delivered",
             err != TR_OK ? error.text : "no TR_ON_REMINDER takes its type");
        return NULL;
    }
    *type = taker(h->def, stored.type)->type;
    void *value = tri_mem_calloc(&r->sys->mem, (*type)->size + 1);
    err = value != NULL ? tri_stored_read(&stored, h->serializer, *type,
                                          value, NULL, &error)
                        : TR_ENOMEM;
    if (err != TR_OK) {
        warn(r, e, "cannot be read",
             err == TR_ENOMEM ? "out of memory" : error.text);
        free(value);
        return NULL;
    }
    return value;
}

static tr_ref target_of(tr_ctx *ctx, tri_reminders *r, const entry *e)
{
    const char *kind = kind_in(r, key_of(e), e->key_size);
    const char *rest = strchr(kind, '/') + 1;  // host_of has seen it
    return *rest == '/' ? tr_lookup(ctx, rest)
                        : tr_virtual_named(ctx, key_of(e));
}

static tr_err deliver(tr_ctx *ctx, tri_reminders *r, entry *e)
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
            .entry = (uint64_t)(uintptr_t)self->entry, .err = (uint32_t)err);
    tr_stop(ctx, tr_self(ctx));
    return TR_OK;
}

TR_ACTOR(postman, Postman, TR_ON(Go, on_go));

static tr_nanos retry_span(const entry *e)
{
    uint32_t doublings =
        e->attempts < ATTEMPTS_MAX ? e->attempts : ATTEMPTS_MAX;
    tr_nanos span = RETRY << doublings;
    return span < RETRY_MAX ? span : RETRY_MAX;
}

/* It could not be delivered, or was not stored as done: once more. */
static void again(tr_ctx *ctx, entry *e)
{
    tr_nanos span = retry_span(e);
    e->attempts++;
    keep(ctx, e, span);
}

static tr_err on_due(tr_ctx *ctx, Service *self, const Due *m)
{
    tri_reminders *r = self->r;
    entry *e = (entry *)(uintptr_t)m->entry;
    tr_nanos left = time_left(r, e);
    e->timer = (tr_timer){0};
    if (left > 0 || r->fired_count >= FIRED_MAX) {
        arm(ctx, e, left > 0 ? left : BUSY_DELAY);  // the clock was set back
        return TR_OK;
    }
    (void)tri_map_remove_bytes(&e->book->entries, e->text, e->id_size);
    fired_link(r, e);
    tri_actor_from who = {.sys = r->sys, .worker = ctx->worker};
    tr_spawn_options options = {.size = sizeof(options),
                                .init = &(Postman){r, e},
                                .init_size = sizeof(Postman)};
    tr_ref made = tri_spawn_under(&who, ctx->cell, &postman, &options,
                                  TRI_CELL_SYSTEM);
    if (made.cell == 0 ||
        !post(r->sys, ctx->worker, made, &Go_tr_type, &(Go){})) {
        tr_stop(ctx, made);
        fired_unlink(r, e);
        again(ctx, e);
    } else {
        e->sent = made;
    }
    return TR_OK;
}

/* It has been delivered, or not; either way nobody else has it any more. */
static void delivered(tr_ctx *ctx, tri_reminders *r, entry *e, tr_err err)
{
    fired_unlink(r, e);
    e->absent = tr_undelivered(err);
    if (e->superseded || (e->settled && e->due == 0)) {
        free(e);
    } else if (e->settled) {
        e->attempts = 0;
        keep(ctx, e, time_left(r, e));
    } else {
        if (err != TR_OK && !e->absent) {
            warn(r, e, "comes again, its handler failed", tr_strerror(err));
        }
        again(ctx, e);
    }
}

static tr_err on_fired(tr_ctx *ctx, Service *self, const Fired *m)
{
    delivered(ctx, self->r, (entry *)(uintptr_t)m->entry, (tr_err)m->err);
    return TR_OK;
}

/* One that ended without a word, for want of memory, has delivered nothing. */
static void look_after_postmen(tr_ctx *ctx, tri_reminders *r)
{
    // Only the service changes the list.
    for (entry *e = r->fired, *next; e != NULL; e = next) {
        next = e->next;
        if (tr_state_of(ctx, e->sent) == TR_STATE_TERMINATED) {
            delivered(ctx, r, e, TR_ENOMEM);
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
    tr_spawn_options options = {.size = sizeof(options), .name = "reminders",
                                .init = &(Service){r},
                                .init_size = sizeof(Service)};
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
                          tr_storage *storage,
                          const tr_serializer *serializer, const char *key)
{
    tri_layers *layers = tri_layers_of(who->sys);
    tr_err err = TR_OK;
    if (!has_reminders(def)) {
        return TR_OK;
    }
    tri_lock_take(&layers->reminders_lock);
    tri_reminders *r = reminders_of(who->sys);
    if (r == NULL && (err = make(who, &r)) == TR_OK) {
        // Release: pairs with reminders_of.
        atomic_store_explicit(&layers->reminders, r, memory_order_release);
    }
    tri_lock_drop(&layers->reminders_lock);
    if (err != TR_OK) {
        return err;
    }
    host *h = host_new(who->sys, def, storage, serializer);
    if (h == NULL) {
        return TR_ENOMEM;
    }
    tri_lock_take(&r->lock);
    h->next = r->offered;
    r->offered = h;
    tri_lock_drop(&r->lock);
    // If that cannot be sent the service sees it at its next look.
    (void)post(who->sys, who->worker, r->service, &Hosted_tr_type,
               &(Hosted){.storage = (uint64_t)(uintptr_t)storage,
                         .key = key});
    return TR_OK;
}

void tri_reminders_free(tr_system *sys)
{
    tri_reminders *r = reminders_of(sys);
    if (r == NULL) {
        return;
    }
    take_offered(r);
    while (r->hosts != NULL) {
        host *next = r->hosts->next;
        host_free(r->hosts);
        r->hosts = next;
    }
    while (r->books != NULL) {
        book *next = r->books->next;
        book_free(r->books);
        r->books = next;
    }
    while (r->fired != NULL) {
        entry *next = r->fired->next;
        free(r->fired);
        r->fired = next;
    }
    while (r->changes != NULL) {
        change *next = r->changes->next;
        free(r->changes);
        r->changes = next;
    }
    free(r);
}

/* ---- what an actor calls ---- */

/*
 * A change that the question makes, its last piece, so that nothing can fail
 * once the store has answered. Those of the name that are being delivered
 * write nothing from now on.
 */
static tr_err change_new(tr_ctx *ctx, tri_question *q)
{
    tri_reminders *r = reminders_of(ctx->sys);
    size_t size = strlen(q->key) + 1 + strlen(q->name);
    change *c = tri_mem_calloc(&ctx->sys->mem, sizeof(*c) + size);
    if (c == NULL) {
        return TR_ENOMEM;
    }
    q->owned[q->owned_count - 1] = c;
    c->storage = ctx->cell->props->storage;
    c->id_size = id_of(c->id, text_bytes(q->key), text_bytes(q->name));
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
    tri_reminders *r = reminders_of(ctx->sys);
    change *c = q->owned[q->owned_count - 1];
    if (r == NULL) {
        return;
    }
    tri_lock_take(&r->lock);
    q->owned[q->owned_count - 1] = NULL;
    supersede(r, c->storage, c->id, c->id_size);
    c->next = r->changes;
    r->changes = c;
    tri_lock_drop(&r->lock);
    if (!post(ctx->sys, ctx->worker, r->service, type, news)) {
        take_change(r, ctx->cell->props->storage, q->key, q->name);
    }
}

static tr_err refuse(tr_ctx *ctx, const char *site, const char *why)
{
    tri_error_set(ctx, "tr_remind at %s: %s", site, why);
    return TR_EINVAL;
}

/* A question about the reminder of that name. */
static tr_err name_question(tr_ctx *ctx, tr_store_call call,
                            const char *name, uint32_t pieces,
                            tri_question **out)
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
        taker(tri_first_behaviour(ctx->cell)->def, type->name);
    TR_TRY(tri_question_may_ask(ctx, "tr_remind", site));
    if (h == NULL || h->type->schema != type->schema) {
        return refuse(ctx, site, "no TR_ON_REMINDER takes this message");
    }
    if (delay < 0 || period < 0 ||
        (uint64_t)delay > TRI_STORE_NUMBER_MAX - wall(ctx->sys)) {
        return refuse(ctx, site, "a negative or too long delay or period");
    }
    return TR_OK;
}

tr_err (tr_remind)(tr_ctx *ctx, const char *name, tr_nanos delay,
                   tr_nanos period, const tr_type *type, const void *payload,
                   const char *site)
{
    tri_question *q;
    size_t size;
    TR_TRY(may_remind(ctx, delay, period, type, site));
    TR_TRY(name_question(ctx, TR_STORE_REMIND, name, 2, &q));
    tr_err err = tri_mem_should_fail(&ctx->sys->mem)
                     ? TR_ENOMEM
                     : tri_stored_make(tri_state_serializer(ctx), type,
                                       payload,
                                       period > 0 ? (uint64_t)period
                                                  : TRI_STORED_EVENT,
                                       &q->owned[0], &size);
    if (err == TR_OK) {
        err = change_new(ctx, q);
    }
    if (err != TR_OK) {
        tri_question_free(q);
        return err;
    }
    q->op.bytes = (tri_store_bytes){q->owned[0], size};
    q->op.number = wall(ctx->sys) + (uint64_t)delay;
    TR_TRY(tri_question_ask(ctx, q, site));
    err = result_of(ctx, q);
    if (err == TR_OK) {
        publish(ctx, q, &Set_tr_type,
                &(Set){.storage =
                           (uint64_t)(uintptr_t)ctx->cell->props->storage,
                       .key = q->key, .name = q->name, .due = q->op.number,
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
                &(Forgotten){.storage = (uint64_t)(uintptr_t)
                                 ctx->cell->props->storage,
                             .key = q->key, .name = q->name});
    }
    tri_question_free(q);
    return err;
}

/* ---- behind a handler ---- */

/* The next time on the grid; 0: it was for once. */
static uint64_t next_due(tr_system *sys, uint64_t due, uint64_t period)
{
    uint64_t now = wall(sys);
    if (period == 0) {
        return 0;
    }
    return due + (now < due ? 1 : (now - due) / period + 1) * period;
}

/* Under the lock. */
static bool is_changed(const tri_reminders *r, const entry *e)
{
    const change *c = r->changes;
    while (c != NULL &&
           !change_is(c, e->book->storage, e->text, e->id_size)) {
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
    tri_codec_error error;
    tri_stored stored = {.number = 0};
    tri_lock_take(&r->lock);
    entry *e = find_fired(r, sender, ctx->cell);
    if (e != NULL && is_changed(r, e)) {
        e->superseded = true;
    }
    if (e != NULL && !e->superseded && !e->settled &&
        !tri_mem_should_fail(&ctx->sys->mem) &&
        (copy = malloc(e->size + 1)) != NULL) {
        memcpy(name, name_of(e), strlen(name_of(e)) + 1);
        size = e->size;
        memcpy(copy, bytes_of(e).at, size);
        (void)!tri_stored_open(&stored, copy, size, &error);
        *next = next_due(ctx->sys, e->due, stored.number);
    }
    tri_lock_drop(&r->lock);
    tri_question *q;
    if (copy == NULL ||
        name_question(ctx, *next == 0 ? TR_STORE_FORGET : TR_STORE_REMIND,
                      name, 1, &q) != TR_OK) {
        free(copy);
        return NULL;
    }
    q->owned[0] = copy;
    q->op.number = *next;
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
    entry *e = find_fired(r, sender, ctx->cell);
    if (e != NULL && q->op.err == TR_OK) {
        e->settled = true;
        e->due = next;
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
    tri_reminders *r = reminders_of(ctx->sys);
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
