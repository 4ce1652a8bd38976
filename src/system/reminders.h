/*
 * reminders.h - what the parts of the reminders share (docs/design/0010).
 *
 *     reminders.c       the service: hosts, delivering, its making and end
 *     reminders_book.c  what is in memory, and looking into the store
 *     reminders_call.c  in turns of the owner: tr_remind, tr_forget, and what
 *                       is written behind a handler
 *
 * Threads: hosts, books and their entries are the service's. What is fired
 * and what has changed lie under `lock`, since owners look at them, too.
 */
#ifndef TRI_SYSTEM_REMINDERS_H
#define TRI_SYSTEM_REMINDERS_H

#include <string.h>

#include "system/question.h"
#include "troupe/storage.h"

/* What the service is told. */
TR_MESSAGE(Due, (uint64_t, entry));
TR_MESSAGE(Set, (uint64_t, storage), (const char *, key), (const char *, name),
           (uint64_t, due), (tr_bytes, bytes));
TR_MESSAGE(Forgotten, (uint64_t, storage), (const char *, key),
           (const char *, name));

typedef struct tri_reminder_host {
    struct tri_reminder_host *next;
    const tr_actor_def *def;
    tr_storage *storage;
    const tr_serializer *serializer;
    struct tri_reminder_book *book;  // for the store, if it has none yet
} tri_reminder_host;

typedef struct tri_reminder_book {  // of one store
    struct tri_reminder_book *next;
    tr_storage *storage;
    uint64_t until;     // all that are due by then are in entries
    uint32_t failures;  // looks in a row that were not whole
    bool stale;         // it could not be read, or another kind is hosted
    tri_map entries;
} tri_reminder_book;

typedef struct tri_reminder {
    struct tri_reminder *next;  // on the list of those fired
    tri_reminder_book *book;
    uint64_t due;
    tr_timer timer;
    uint32_t attempts;
    bool absent;  // a plain actor that was not there
    bool ended;   // the postman has, seen while fired
    tr_ref sent;  // the postman, while fired
    /* ---- under `lock`, while fired ---- */
    uint64_t postman;  // its id; 0: it has not begun
    tri_cell *target;
    bool superseded;  // set anew or forgotten since
    bool settled;     // the store knows that it is done; due is the next
    size_t id_size, key_size, size;
    char text[];  // key, zero, name, zero, stored bytes
} tri_reminder;

/* Set anew or forgotten, and stored so; the service has not heard of it. */
typedef struct tri_reminder_change {
    struct tri_reminder_change *next;
    tr_storage *storage;
    size_t id_size;
    char id[];
} tri_reminder_change;

typedef struct tri_reminders {
    tr_system *sys;
    tr_ref service;
    tri_reminder_host *hosts;
    tri_reminder_book *books;
    uint32_t fired_count;
    tri_lock lock;               // a leaf: what follows
    tri_reminder_host *offered;  // not in hosts yet
    tri_reminder *fired;
    tri_reminder_change *changes;
} tri_reminders;

static inline const char *tri_reminder_key(const tri_reminder *e)
{
    return e->text;
}

static inline const char *tri_reminder_name(const tri_reminder *e)
{
    return e->text + e->key_size + 1;
}

static inline tri_store_bytes tri_reminder_bytes(const tri_reminder *e)
{
    return (tri_store_bytes){e->text + e->id_size + 1, e->size};
}

static inline uint64_t tri_reminders_wall(tr_system *sys)
{
    tr_nanos now = sys->world->ops->wall(sys->world);
    return now > 0 ? (uint64_t)now : 0;
}

static inline tri_reminders *tri_reminders_of(tr_system *sys)
{
    // Acquire: pairs with tri_reminders_host.
    return atomic_load_explicit(&tri_layers_of(sys)->reminders,
                                memory_order_acquire);
}

static inline tri_store_bytes tri_reminders_text(const char *text)
{
    return (tri_store_bytes){text, strlen(text)};
}

/* ---- reminders.c ---- */

/* A message of the library's own; false: it was not sent. */
bool tri_reminders_post(tr_system *sys, tri_worker *worker, tr_ref to,
                        const tr_type *type, const void *payload);

/* ---- reminders_book.c ---- */

/* Copies all; NULL: no memory. */
tri_reminder *tri_reminder_new(tri_reminders *r, tri_reminder_book *b,
                               tri_store_bytes key, tri_store_bytes name,
                               uint64_t due, tri_store_bytes bytes);
/* Takes it out of its book and frees it; NULL is fine. */
void tri_reminder_drop(tr_ctx *ctx, tri_reminder *e);
/* Its timer goes off after that time, at the earliest now. */
void tri_reminder_arm(tr_ctx *ctx, tri_reminder *e, tr_nanos span);
tr_nanos tri_reminder_left(tri_reminders *r, const tri_reminder *e);
/* Puts it into its book, or frees it if a newer one of that name is there. */
void tri_reminder_keep(tr_ctx *ctx, tri_reminder *e, tr_nanos span);

/* Writes what the map finds one by, of key and name; returns its size. */
size_t tri_reminder_id(char *out, tri_store_bytes key, tri_store_bytes name);
bool tri_reminder_is(const void *value, const void *id, size_t size);

/* The part of a key behind `namespace::`, or NULL if it is another's. */
const char *tri_reminders_kind(tri_reminders *r, const char *key, size_t size);
/* The handler of that actor for reminders of this type, or NULL. */
const tr_handler *tri_reminders_taker(const tr_actor_def *def,
                                      const char *type);
/* A host of the key's kind, which takes this type unless it is NULL. */
const tri_reminder_host *tri_reminders_host_of(tri_reminders *r,
                                               const tr_storage *storage,
                                               tri_store_bytes key,
                                               const char *type);
/* The store's book, or NULL. */
tri_reminder_book *tri_reminders_book(tri_reminders *r,
                                      const tr_storage *storage);
/* Reads what is due soon. Errors: the store's, TR_ENOMEM; ended (actor.h). */
TR_NODISCARD tr_err tri_reminders_read(tr_ctx *ctx, tri_reminders *r,
                                       tri_reminder_book *b);

/* ---- reminders_call.c ---- */

/* The service hears of a change: what it has fired until now is old. */
void tri_reminders_take_change(tri_reminders *r, const tr_storage *storage,
                               const char *key, const char *name);

#endif
