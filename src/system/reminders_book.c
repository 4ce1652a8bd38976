/*
 * reminders_book.c - reminders in memory, and reading them from the store.
 *
 * A book has the reminders of one store that are due within HORIZON, whose kind
 * is hosted here and whose shard this node owns, by id, each with a timer. To
 * read a store is to ask for all of these shards, SHARDS_AT_ONCE at a time.
 *
 * Invariant: a reminder in a book is the one that the store had at the last
 * read, or that was set since. One that is being delivered is in no book.
 */
#include "system/reminders_book.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/lock.h"
#include "base/map.h"
#include "core/cell/mem.h"
#include "core/run/user_timer.h"
#include "core/system.h"
#include "core/up.h"
#include "storage/store_op.h"
#include "system/layers.h"
#include "system/reminders.h"
#include "system/store_request.h"
#include "system/system_log.h"
#include "troupe/observe.h"
#include "troupe/storage.h"
#include "troupe/system.h"

enum {
    SHARDS_AT_ONCE = 512,  // operations of one request
    PLAIN_SHARD = 0,       // plain actors have none, and are stored here
};
#define HORIZON TR_MINUTES(10)

/* ---- in memory ---- */

tri_reminders *tri_reminders_of(tr_system *sys)
{
    // Acquire: pairs with need_service in reminders.c.
    return atomic_load_explicit(&tri_layers_of(sys)->reminders.reminders,
                                memory_order_acquire);
}

bool tri_reminder_is(const void *value, const void *id, size_t size)
{
    const tri_reminder *e = value;
    return e->id_size == size && memcmp(e->text, id, size) == 0;
}

tri_reminder *tri_reminder_new(tri_reminders *r, tri_reminder_book *b,
                               uint32_t shard, const tri_store_row *row)
{
    tri_store_bytes key = row->key, name = row->name, bytes = row->bytes;
    TRI_CHECK(key.size <= TRI_STORE_KEY_MAX);
    TRI_CHECK(name.size <= TRI_STORE_NAME_MAX);
    size_t id_size = key.size + 1 + name.size;
    tri_reminder *e =
        tri_mem_calloc(&r->sys->mem, sizeof(*e) + id_size + 2 + bytes.size);
    if (e != NULL) {
        e->book = b;
        e->due = row->number;
        e->shard = shard;
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

size_t tri_reminder_id(char *out, tri_store_bytes key, tri_store_bytes name)
{
    TRI_CHECK(key.size <= TRI_STORE_KEY_MAX);
    TRI_CHECK(name.size <= TRI_STORE_NAME_MAX);
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

void tri_reminder_arm(tr_ctx *ctx, tri_reminder *e, tr_nanos span)
{
    TRI_CHECK(e != NULL);
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

void tri_reminder_keep(tr_ctx *ctx, tri_reminder *e, tr_nanos span)
{
    TRI_CHECK(e->book != NULL);
    tri_reminder_book *b = e->book;
    if (e->due > b->until && e->attempts == 0) {
        free(e);  // a later read will find it
    } else if (tri_map_get_bytes(&b->entries, e->text, e->id_size) != NULL ||
               tri_map_put_bytes(&b->entries, e->text, e->id_size, e) !=
                   TR_OK) {
        free(e);
    } else {
        tri_reminder_arm(ctx, e, span);
    }
}

void tri_reminder_book_free(tri_reminder_book *b)
{
    TRI_CHECK(b != NULL);
    tri_reminder *e;
    for (tri_map_iter it = tri_map_iter_begin(&b->entries);
         (e = tri_map_iter_next(&b->entries, &it)) != NULL;) {
        free(e);
    }
    tri_map_fini(&b->entries);
    free(b);
}

/* True if a reminder with this id is being delivered and not superseded. */
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

const char *tri_reminders_kind(tri_reminders *r, const char *key, size_t size)
{
    const char *ns = r->sys->options.ns != NULL ? r->sys->options.ns : "local";
    size_t length = strlen(ns);
    return size > length + 2 && memcmp(key, ns, length) == 0 &&
                   memcmp(key + length, "::", 2) == 0
               ? key + length + 2
               : NULL;
}

/* True if the key is that of a plain actor, whose name is its path. */
static bool is_plain(tri_reminders *r, tri_store_bytes key)
{
    const char *kind = tri_reminders_kind(r, key.at, key.size);
    const char *end = (const char *)key.at + key.size;
    const char *slash =
        kind != NULL ? memchr(kind, '/', (size_t)(end - kind)) : NULL;
    return slash != NULL && slash + 1 < end && slash[1] == '/';
}

bool tri_reminders_is_ours(tri_reminders *r, tri_store_bytes key,
                           uint32_t shard)
{
    const tri_virtual_ops *ops = tri_virtual_ops_of(r->sys);
    TRI_CHECK(key.size > 0);
    const char *kind = tri_reminders_kind(r, key.at, key.size);
    if (ops == NULL || kind == NULL || is_plain(r, key)) {
        return true;
    }
    size_t left = key.size - (size_t)(kind - (const char *)key.at);
    const char *slash = memchr(kind, '/', left);
    size_t size = slash != NULL ? (size_t)(slash - kind) : left;
    return ops->reminds(r->sys, shard, kind, size) != 0;
}

static bool has_bit(const uint64_t *bits, uint32_t shard)
{
    return (bits[shard / 64] >> (shard % 64) & 1) != 0;
}

void tri_reminders_drop_shards(tr_ctx *ctx, tri_reminders *r,
                               const uint64_t *bits)
{
    TRI_CHECK(r != NULL);
    tri_reminder *e;
    for (tri_reminder_book *b = r->books; b != NULL; b = b->next) {
        for (tri_map_iter it = tri_map_iter_begin(&b->entries);
             (e = tri_map_iter_next(&b->entries, &it)) != NULL;) {
            tri_store_bytes key = {e->text, e->key_size};
            if (!is_plain(r, key) &&
                ((bits != NULL && has_bit(bits, e->shard)) ||
                 !tri_reminders_is_ours(r, key, e->shard))) {
                tri_reminder_drop(ctx, e);
            }
        }
    }
}

const tr_handler *tri_reminders_taker(const tr_actor_def *def, const char *type)
{
    TRI_CHECK(type != NULL);
    for (size_t i = 0; i < def->handler_count; i++) {
        const tr_handler *h = &def->handlers[i];
        if ((h->flags & TR_REMINDER) && strcmp(h->type->name, type) == 0) {
            return h;
        }
    }
    return NULL;
}

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

tri_reminder_book *tri_reminders_book(tri_reminders *r,
                                      const tr_storage *storage)
{
    tri_reminder_book *b = r->books;
    while (b != NULL && b->storage != storage) {
        b = b->next;
    }
    return b;
}

/* ---- reading the store ---- */

/* Takes a row into the book, unless it is there, in delivery, or not hosted. */
static void take_row(tr_ctx *ctx, tri_reminders *r, tri_reminder_book *b,
                     uint32_t shard, const tri_store_row *row)
{
    char id[TRI_REMINDER_ID_MAX];
    size_t size = tri_reminder_id(id, row->key, row->name);
    tri_reminder *old = tri_map_get_bytes(&b->entries, id, size);
    if (tri_reminders_host_of(r, b->storage, row->key, NULL) == NULL ||
        !tri_reminders_is_ours(r, row->key, shard) ||
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
    tri_reminder *e = tri_reminder_new(r, b, shard, row);
    if (e != NULL) {
        tri_reminder_keep(ctx, e, tri_reminder_left(r, e));
    }
}

/* Takes the rows of an answer. Returns true if there are more, behind *last. */
static bool take_rows(tr_ctx *ctx, tri_reminders *r, tri_reminder_book *b,
                      const tri_store_op *op, tri_store_row *last)
{
    TRI_CHECK(op->err == TR_OK);
    tri_store_row row;
    for (size_t at = 0; tri_store_row_next(op, &at, &row);) {
        take_row(ctx, r, b, op->shard, &row);
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

/* The row behind which reading a shard continues. */
typedef struct position {
    uint64_t number;
    size_t key_size, name_size;
    char key[TRI_STORE_KEY_MAX], name[TRI_STORE_NAME_MAX];
} position;

static void position_set(position *at, const tri_store_row *last)
{
    TRI_CHECK(last->key.size <= TRI_STORE_KEY_MAX);
    TRI_CHECK(last->name.size <= TRI_STORE_NAME_MAX);
    at->number = last->number;
    at->key_size = last->key.size;
    at->name_size = last->name.size;
    memcpy(at->key, last->key.at, last->key.size);
    memcpy(at->name, last->name.at, last->name.size);
}

/* Makes a request for the rows of a shard behind *at. */
static tr_err rest_request(tr_ctx *ctx, const tri_reminder_book *b,
                           uint32_t shard, uint64_t until, const position *at,
                           tri_store_request **out)
{
    TR_TRY(tri_store_request_new(ctx, TR_STORE_REMINDERS, 0, out));
    tri_store_request *request = *out;
    request->storage = b->storage;
    request->op.shard = shard;
    request->op.number = until;
    request->op.after = at->number;
    memcpy(request->key, at->key, at->key_size);
    memcpy(request->name, at->name, at->name_size);
    request->op.key = (tri_store_bytes){request->key, at->key_size};
    request->op.name = (tri_store_bytes){request->name, at->name_size};
    return TR_OK;
}

/* Reads the rows of one shard behind *at. */
static tr_err read_rest(tr_ctx *ctx, tri_reminders *r, tri_reminder_book *b,
                        uint32_t shard, uint64_t until, position *at)
{
    for (bool more = true; more;) {
        tri_store_request *request;
        tri_store_row last;
        TR_TRY(rest_request(ctx, b, shard, until, at, &request));
        TR_TRY(tri_store_request_ask(ctx, request, "reminders"));
        tr_err err =
            request->op.err == TR_OK ? TR_OK : fail_read(r, &request->op);
        more = err == TR_OK && take_rows(ctx, r, b, &request->op, &last);
        if (more) {
            position_set(at, &last);
        }
        tri_store_request_free(request);
        TR_TRY(err);
    }
    return TR_OK;
}

/* Makes a request for the first rows of these shards. */
static tr_err shards_request(tr_ctx *ctx, const tri_reminder_book *b,
                             const uint32_t *shards, uint32_t count,
                             uint64_t until, tri_store_request **out)
{
    TR_TRY(tri_store_request_new(ctx, TR_STORE_REMINDERS, 0, out));
    tri_store_request *request = *out;
    tr_err err = tri_store_request_ops(request, count);
    if (err != TR_OK) {
        tri_store_request_free(request);
        return err;
    }
    request->storage = b->storage;
    for (uint32_t i = 0; i < count; i++) {
        request->ops[i].call = TR_STORE_REMINDERS;
        request->ops[i].shard = shards[i];
        request->ops[i].number = until;
    }
    return TR_OK;
}

/* Reads these shards. Sets *some if at least one could be read. */
static tr_err read_shards(tr_ctx *ctx, tri_reminders *r, tri_reminder_book *b,
                          const uint32_t *shards, uint32_t count,
                          uint64_t until, bool *some)
{
    tri_store_request *request;
    tr_err err = TR_OK;
    TR_TRY(shards_request(ctx, b, shards, count, until, &request));
    TR_TRY(tri_store_request_ask(ctx, request, "reminders"));
    for (uint32_t i = 0; i < count; i++) {
        const tri_store_op *op = &request->ops[i];
        tri_store_row last;
        tr_err one = op->err;
        *some |= one == TR_OK;
        if (one != TR_OK) {
            err = err == TR_OK ? fail_read(r, op) : err;
        } else if (take_rows(ctx, r, b, op, &last)) {
            position at;
            position_set(&at, &last);
            one = read_rest(ctx, r, b, shards[i], until, &at);
        }
        // One damaged shard is no reason to miss the others.
        err = err == TR_OK ? one : err;
    }
    tri_store_request_free(request);
    return err;
}

/*
 * Lists the next shards to be read, from *at on: those in `bits` that this node
 * owns, and the one of plain actors. Returns how many.
 */
static uint32_t next_shards(tri_reminders *r, const uint64_t *bits,
                            uint32_t *at, uint32_t out[SHARDS_AT_ONCE])
{
    const tri_virtual_ops *ops = tri_virtual_ops_of(r->sys);
    uint32_t shards = ops != NULL ? ops->shards : 1, count = 0;
    for (; *at < shards && count < SHARDS_AT_ONCE; ++*at) {
        if ((bits == NULL || has_bit(bits, *at)) &&
            (ops == NULL || *at == PLAIN_SHARD ||
             ops->reminds(r->sys, *at, NULL, 0) != 0)) {
            out[count++] = *at;
        }
    }
    return count;
}

tr_err tri_reminders_read(tr_ctx *ctx, tri_reminders *r, tri_reminder_book *b,
                          const uint64_t *bits)
{
    uint32_t shards[SHARDS_AT_ONCE], at = 0, count;
    uint64_t until = tri_reminders_wall(r->sys) + HORIZON;
    b->until =
        until > b->until ? until : b->until;  // for what is set meanwhile
    tr_err err = TR_OK;
    bool some = true;  // false: the store cannot be reached, so give up
    while (some && (count = next_shards(r, bits, &at, shards)) > 0) {
        some = false;
        tr_err one = read_shards(ctx, r, b, shards, count, until, &some);
        err = err == TR_OK ? one : err;
    }
    return err;
}
