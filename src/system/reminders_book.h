/*
 * reminders_book.h - reminders in memory: those that are due soon, those that
 * are being delivered, and those that were changed just now.
 *
 * Threads: turns of the service, except for what is under `lock`: owners use
 * that, too.
 */
#ifndef TRI_SYSTEM_REMINDERS_BOOK_H
#define TRI_SYSTEM_REMINDERS_BOOK_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/lock.h"
#include "base/map.h"
#include "base/world.h"
#include "core/system.h"
#include "core/types.h"
#include "storage/store_op.h"
#include "troupe/base.h"
#include "troupe/macros.h"
#include "troupe/message.h"

/* A timer of the service: an entry is due. */
TR_MESSAGE(Due, (uint64_t, entry));

/* A kind whose reminders in a store this system delivers. Has no actors. */
typedef struct tri_reminder_host {
    struct tri_reminder_host *next;
    const tr_actor_def *def;
    tr_storage *storage;
    const tr_serializer *serializer;
    struct tri_reminder_book *book;  // for the store, if it has none yet
} tri_reminder_host;

/* The reminders of one store that are due soon. */
typedef struct tri_reminder_book {
    struct tri_reminder_book *next;
    tr_storage *storage;
    uint64_t until;     // everything due by then is in entries
    uint32_t failures;  // reads in a row that were not complete
    bool stale;         // must be read again: a read failed, or a new host
    tri_map entries;    // by id: key, zero, name
} tri_reminder_book;

typedef struct tri_reminder {
    struct tri_reminder *next;  // in tri_reminders.fired
    tri_reminder_book *book;
    uint64_t due;    // wall time; 0: never again
    uint32_t shard;  // of its actor
    tr_timer timer;  // id 0: none
    uint32_t attempts;
    bool absent;         // its actor, a plain one, was not there
    bool postman_ended;  // noticed while fired
    tr_ref postman;      // while fired
    /* ---- under `lock`, while fired ---- */
    uint64_t postman_id;  // 0: it has not begun
    tri_cell *target;
    uint32_t changing;  // changes of it that are not known to be stored or not
    bool superseded;  // set anew or forgotten since: nothing is written for it
    bool completed;   // the store knows that it was handled; due is the next
    bool ran_here;    // its handler has run on this node
    size_t id_size, key_size, size;
    char text[];  // key, zero, name, zero, stored bytes
} tri_reminder;

/* Set anew or forgotten, and stored so, but the service does not know yet. */
typedef struct tri_reminder_change {
    struct tri_reminder_change *next;
    tr_storage *storage;
    size_t id_size;
    char id[];
} tri_reminder_change;

/*
 * All reminders of a system.
 *
 * Invariant: a reminder in memory is in an entry of a book or in `fired`. One
 * key and name may be in both only if the reminder was set anew; then the
 * fired one is `superseded`. From the answer of the store until the service
 * has been notified, a `change` marks those as superseded that the service
 * fires meanwhile.
 */
typedef struct tri_reminders {
    tr_system *sys;
    tr_ref service;
    tri_reminder_host *hosts;
    tri_reminder_book *books;
    uint32_t fired_count;
    tri_lock lock;               // a leaf, for the rest
    tri_reminder_host *offered;  // not in hosts yet
    tri_reminder *fired;         // being delivered; only the service changes it
    tri_reminder_change *changes;
    uint64_t changed[TRI_STORE_SHARDS_MAX / 64];  // bits: shards to be read
    bool told_of_shards;                          // a Shards is on its way
} tri_reminders;

/* What identifies a reminder within its store: key, zero, name. */
enum { TRI_REMINDER_ID_MAX = TRI_STORE_KEY_MAX + 1 + TRI_STORE_NAME_MAX };

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

static inline tri_store_bytes tri_reminders_text(const char *text)
{
    return (tri_store_bytes){text, strlen(text)};
}

/* Returns the reminders of the system, or NULL if it has no hosts. */
tri_reminders *tri_reminders_of(tr_system *sys);

/* Makes a reminder, with copies of everything; NULL without memory. */
tri_reminder *tri_reminder_new(tri_reminders *r, tri_reminder_book *b,
                               uint32_t shard, const tri_store_row *row);
/* Takes a reminder out of its book and frees it. NULL is allowed. */
void tri_reminder_drop(tr_ctx *ctx, tri_reminder *e);
/*
 * Sets the timer to fire after `span`, at least one nanosecond. Without memory
 * the reminder has no timer until the store is read again.
 */
void tri_reminder_arm(tr_ctx *ctx, tri_reminder *e, tr_nanos span);
/* Returns the time until the reminder is due, or 0. */
tr_nanos tri_reminder_left(tri_reminders *r, const tri_reminder *e);
/*
 * Puts a reminder into its book, with a timer. Frees it if a newer one with
 * its id is there, or if a later read of the store will find it.
 */
void tri_reminder_keep(tr_ctx *ctx, tri_reminder *e, tr_nanos span);

/* Writes the id to out, which has TRI_REMINDER_ID_MAX bytes. Returns its size. */
size_t tri_reminder_id(char *out, tri_store_bytes key, tri_store_bytes name);
/* Compares the id; value is a tri_reminder. */
bool tri_reminder_is(const void *value, const void *id, size_t size);

/* Returns the part of a key after `namespace::`, or NULL if that differs. */
const char *tri_reminders_kind(tri_reminders *r, const char *key, size_t size);
/*
 * True if this node delivers the reminders of the key: those of plain actors,
 * which are where they were spawned, and of virtual actors whose shard it owns.
 */
bool tri_reminders_is_ours(tri_reminders *r, tri_store_bytes key,
                           uint32_t shard);
/* Returns the handler of the definition for reminders of the type, or NULL. */
const tr_handler *tri_reminders_taker(const tr_actor_def *def,
                                      const char *type);
/* Returns a host of the key's kind that takes the type, if it is not NULL. */
const tri_reminder_host *tri_reminders_host_of(tri_reminders *r,
                                               const tr_storage *storage,
                                               tri_store_bytes key,
                                               const char *type);
/* Returns the store's book, or NULL. */
tri_reminder_book *tri_reminders_book(tri_reminders *r,
                                      const tr_storage *storage);
/*
 * Reads from the store what is due soon, into its book: the shards in `bits`,
 * NULL: all, as far as they are ours.
 * Errors: the store's, TR_ENOMEM, or any that end a wait early.
 */
TR_NODISCARD tr_err tri_reminders_read(tr_ctx *ctx, tri_reminders *r,
                                       tri_reminder_book *b,
                                       const uint64_t *bits);
/*
 * Drops the reminders of virtual actors in the shards in `bits`, which may be
 * NULL, and those that are not ours.
 */
void tri_reminders_drop_shards(tr_ctx *ctx, tri_reminders *r,
                               const uint64_t *bits);
void tri_reminder_book_free(tri_reminder_book *b);

#endif
