/*
 * reminders_book.c - reminders in memory, and looking into the store.
 *
 * A book has those of one store that are due within HORIZON and whose kind is
 * hosted here, by key and name, each with a timer. Looking is asking all
 * shards of the store, SHARDS_AT_ONCE at a time.
 *
 * Invariant: a reminder in a book is the one that the store had at the last
 * look, or that was set since; one that is being delivered is in none.
 */
#include <stdlib.h>
#include <string.h>

#include "system/reminders.h"

enum { SHARDS_AT_ONCE = 512 };  // questions in one batch
#define HORIZON TR_MINUTES(10)

/* ---- what is in memory ---- */

bool tri_reminder_is(const void *value, const void *id, size_t size)
{
    const tri_reminder *e = value;
    return e->id_size == size && memcmp(e->text, id, size) == 0;
}

tri_reminder *tri_reminder_new(tri_reminders *r, tri_reminder_book *b,
                               tri_store_bytes key, tri_store_bytes name,
                               uint64_t due, tri_store_bytes bytes)
{
    size_t id_size = key.size + 1 + name.size;
    tri_reminder *e =
        tri_mem_calloc(&r->sys->mem, sizeof(*e) + id_size + 2 + bytes.size);
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
size_t tri_reminder_id(char *out, tri_store_bytes key, tri_store_bytes name)
{
    memcpy(out, key.at, key.size);
    out[key.size] = '\0';
    memcpy(out + key.size + 1, name.at, name.size);
    return key.size + 1 + name.size;
}

void tri_reminder_drop(tr_ctx *ctx, tri_reminder *e)
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
void tri_reminder_arm(tr_ctx *ctx, tri_reminder *e, tr_nanos span)
{
    if (e->timer.id != 0) {
        tr_cancel(ctx, e->timer);
    }
    e->timer = tri_after_try(ctx, span > 0 ? span : 1, &Due_tr_type,
                             &(Due){.entry = (uint64_t)(uintptr_t)e});
}

tr_nanos tri_reminder_left(tri_reminders *r, const tri_reminder *e)
{
    uint64_t now = tri_reminders_wall(r->sys);
    return e->due > now ? (tr_nanos)(e->due - now) : 0;
}

/* Puts it into its book, unless a newer one of that name is there. */
void tri_reminder_keep(tr_ctx *ctx, tri_reminder *e, tr_nanos span)
{
    tri_reminder_book *b = e->book;
    if (e->due > b->until && e->attempts == 0) {
        free(e);  // a later look will find it
    } else if (tri_map_get_bytes(&b->entries, e->text, e->id_size) != NULL ||
               tri_map_put_bytes(&b->entries, e->text, e->id_size, e) !=
                   TR_OK) {
        free(e);
    } else {
        tri_reminder_arm(ctx, e, span);
    }
}

static bool is_fired(tri_reminders *r, const tri_reminder_book *b,
                     const char *id, size_t size)
{
    bool found = false;
    tri_lock_take(&r->lock);
    for (tri_reminder *e = r->fired; e != NULL && !found; e = e->next) {
        found = e->book == b && !e->superseded && tri_reminder_is(e, id, size);
    }
    tri_lock_drop(&r->lock);
    return found;
}

/* The part of a key behind `namespace::`, or NULL if it is another's. */
const char *tri_reminders_kind(tri_reminders *r, const char *key, size_t size)
{
    const char *ns = r->sys->options.ns != NULL ? r->sys->options.ns : "local";
    size_t length = strlen(ns);
    return size > length + 2 && memcmp(key, ns, length) == 0 &&
                   memcmp(key + length, "::", 2) == 0
               ? key + length + 2
               : NULL;
}

const tr_handler *tri_reminders_taker(const tr_actor_def *def, const char *type)
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
const tri_reminder_host *tri_reminders_host_of(tri_reminders *r,
                                               const tr_storage *storage,
                                               tri_store_bytes key,
                                               const char *type)
{
    const char *kind = tri_reminders_kind(r, key.at, key.size);
    size_t left =
        kind != NULL ? key.size - (size_t)(kind - (const char *)key.at) : 0;
    for (const tri_reminder_host *h = r->hosts; h != NULL && kind != NULL;
         h = h->next) {
        size_t length = strlen(h->def->name);
        if (h->storage == storage && left > length && kind[length] == '/' &&
            memcmp(kind, h->def->name, length) == 0 &&
            (type == NULL || tri_reminders_taker(h->def, type) != NULL)) {
            return h;
        }
    }
    return NULL;
}

/* ---- looking into the store ---- */

static void take_row(tr_ctx *ctx, tri_reminders *r, tri_reminder_book *b,
                     const tri_store_row *row)
{
    char id[TRI_STORE_KEY_MAX + 1 + TRI_STORE_NAME_MAX];
    size_t size = tri_reminder_id(id, row->key, row->name);
    tri_reminder *old = tri_map_get_bytes(&b->entries, id, size);
    if (tri_reminders_host_of(r, b->storage, row->key, NULL) == NULL ||
        is_fired(r, b, id, size)) {
        return;
    }
    if (old != NULL && old->due == row->number) {
        if (old->timer.id == 0) {
            tri_reminder_arm(ctx, old, tri_reminder_left(r, old));
        }
        return;
    }
    tri_reminder_drop(ctx, old);
    tri_reminder *e =
        tri_reminder_new(r, b, row->key, row->name, row->number, row->bytes);
    if (e != NULL) {
        tri_reminder_keep(ctx, e, tri_reminder_left(r, e));
    }
}

/* Takes the rows of an answer. True: there are more, behind *last. */
static bool take_rows(tr_ctx *ctx, tri_reminders *r, tri_reminder_book *b,
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
static tr_err read_rest(tr_ctx *ctx, tri_reminders *r, tri_reminder_book *b,
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

/* *some: at least one shard could be read. */
static tr_err read_shards(tr_ctx *ctx, tri_reminders *r, tri_reminder_book *b,
                          uint32_t first, uint32_t count, uint64_t until,
                          bool *some)
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
    for (uint32_t i = 0; i < count; i++) {
        tri_store_row last;
        tr_err one = q->ops[i].err;
        *some |= one == TR_OK;
        if (one != TR_OK) {
            err = err == TR_OK ? fail_read(r, &q->ops[i]) : err;
        } else if (take_rows(ctx, r, b, &q->ops[i], &last)) {
            place at;
            place_set(&at, &last);
            one = read_rest(ctx, r, b, first + i, until, &at);
        }
        // What is damaged in one shard is no reason to miss the others.
        err = err == TR_OK ? one : err;
    }
    tri_question_free(q);
    return err;
}

tr_err tri_reminders_read(tr_ctx *ctx, tri_reminders *r, tri_reminder_book *b)
{
    const tri_virtual_ops *ops = tri_virtual_ops_of(r->sys);
    uint32_t shards = ops != NULL ? ops->shards : 1;
    uint64_t until = tri_reminders_wall(r->sys) + HORIZON;
    b->until = until > b->until ? until : b->until;  // what is set meanwhile
    tr_err err = TR_OK;
    bool some = true;  // else the store cannot be reached: enough is known
    for (uint32_t at = 0; at < shards && some; at += SHARDS_AT_ONCE) {
        uint32_t left = shards - at;
        some = false;
        tr_err one = read_shards(ctx, r, b, at,
                                 left < SHARDS_AT_ONCE ? left : SHARDS_AT_ONCE,
                                 until, &some);
        err = err == TR_OK ? one : err;
    }
    return err;
}

tri_reminder_book *tri_reminders_book(tri_reminders *r,
                                      const tr_storage *storage)
{
    tri_reminder_book *b = r->books;
    while (b != NULL && b->storage != storage) {
        b = b->next;
    }
    return b;
}
