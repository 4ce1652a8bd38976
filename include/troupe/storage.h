/*
 * storage.h - stores for the state of actors, and what actors keep in them
 * beside it: events and reminders.
 *
 * A store keeps one value per actor, under its path or, for a virtual actor,
 * `namespace::kind/key`, with the epoch of the writer: a writer that has been
 * replaced cannot overwrite its successor (TR_EFENCED). Actors use it through
 * tr_spawn_options.storage, tr_host_options.storage and tr_persist; they never
 * get at the store itself. A key has at most 512 bytes. Nothing stored is no
 * error: the actor starts with its default state. A store retries nothing.
 *
 * Threads: any; one store may serve several systems.
 * Ownership: the caller owns what a constructor gives and closes it after the
 * systems that use it; with tr_storage_options.system that system owns it.
 */
#ifndef TROUPE_STORAGE_H
#define TROUPE_STORAGE_H

#include <troupe/actor.h>
#include <troupe/base.h>
#include <troupe/macros.h>

/* A field left zero takes the default named beside it. */
typedef struct tr_storage_options {
    size_t size;
    const void *world;  // tr_sim_world(sim); default: the real one
    char *text;         // why it failed and what to do; default: stderr
    size_t text_size;   // bytes at text; what is longer is cut
    tr_system *system;  // the store lives in its world and ends with it
} tr_storage_options;

/* What is asked of a store. */
typedef enum tr_store_call {
    TR_STORE_LOAD = 1,   // the state of a key
    TR_STORE_SAVE,       // replaces it
    TR_STORE_DELETE,     // removes it
    TR_STORE_FENCE,      // a new owner of a shard announces its epoch
    TR_STORE_APPEND,     // adds events behind those of a key
    TR_STORE_READ,       // events of a key
    TR_STORE_TRIM,       // drops old events of a key
    TR_STORE_REMIND,     // keeps a reminder
    TR_STORE_FORGET,     // removes it
    TR_STORE_REMINDERS,  // the reminders of a shard
} tr_store_call;

/* One call that a capturing store has seen; texts live as long as it does. */
typedef struct tr_captured {
    tr_store_call call;
    const char *key;
    const void *bytes;  // what was to be saved, appended or reminded of
    size_t size;
    uint64_t version;  // that the caller expected
    tr_err err;        // the answer
} tr_captured;

/* An event that is to be: TR_EVENT(Deposited, .cents = 5). */
typedef struct tr_event {
    const tr_type *type;
    const void *value;
} tr_event;

/* An event that is; all of it is borrowed until the handler returns. */
typedef struct tr_stored_event {
    uint64_t sequence;  // 1 is the first of its key
    const char *type;   // the name of its type
    tr_bytes stored;    // for tr_event_decode
} tr_stored_event;

typedef struct tr_event_page {
    const tr_stored_event *events;
    size_t count;
    uint64_t last;  // sequence of the newest one that is stored; 0: none
    bool more;      // go on with the one after events[count - 1]
} tr_event_page;

TR_BEGIN_DECLS

/* Keeps states as long as the store is open. Errors: TR_ENOMEM. */
TR_API TR_NODISCARD tr_err tr_storage_memory(tr_storage **out);
/*
 * Keeps states in an SQLite file, made if missing. Component troupe-sqlite.
 * An answered save has reached the disk. Several processes may use one file if
 * all name it by the same absolute path without links.
 * Errors: TR_ESTORAGE (no such folder, damaged, not ours, of a newer Troupe),
 * TR_ENOMEM, TR_ELIMIT (no more threads).
 */
TR_API TR_NODISCARD tr_err tr_storage_sqlite(tr_storage **out,
                                             const char *file);
/* As tr_storage_sqlite; NULL options means every default. */
TR_API TR_NODISCARD tr_err tr_storage_sqlite_with(
    tr_storage **out, const char *file, const tr_storage_options *options);
/*
 * In a PostgreSQL database (12 or newer), in its schema `troupe`, made if
 * missing. Component troupe-postgres. conninfo is libpq's: "host=db
 * dbname=shop user=shop", "postgresql://shop@db/shop", or "" to take all from
 * the environment (PGHOST and so on). An answered save is as durable as a
 * commit of that server. Many processes and machines may use one database.
 *
 * A lost connection is made again. What was on its way then is TR_EUNKNOWN,
 * because it may have been saved; what comes meanwhile waits, 5 s at most,
 * then it is TR_ESTORAGE. Two connections, each with a thread.
 * Errors: TR_ESTORAGE (no server, refused, not ours, of a newer Troupe),
 * TR_EINVAL (a simulated world), TR_ENOMEM, TR_ELIMIT (no more threads).
 */
TR_API TR_NODISCARD tr_err tr_storage_postgres(tr_storage **out,
                                               const char *conninfo);
/* As tr_storage_postgres; NULL options means every default. */
TR_API TR_NODISCARD tr_err tr_storage_postgres_with(
    tr_storage **out, const char *conninfo, const tr_storage_options *options);
/*
 * Takes storage; NULL is allowed. No system may use it any more (a check).
 * Waits until everything that was asked for has been answered.
 */
TR_API void tr_storage_close(tr_storage *storage);

/* ---- for tests ---- */

/*
 * Passes all calls on to `inner`, which it borrows until it is closed, and
 * remembers them in the order of their answers. All must have been answered
 * when it is closed (a check). Errors: TR_ENOMEM.
 */
TR_API TR_NODISCARD tr_err tr_storage_capture(tr_storage **out,
                                              tr_storage *inner);
/* How many calls were answered so far. */
TR_API size_t tr_storage_captured_count(tr_storage *capture);
/* The call with this index, from 0. False: there is none. */
TR_API bool tr_storage_captured(tr_storage *capture, size_t index,
                                tr_captured *out);
/*
 * The nth call from now (1: the next one; 0: none) is answered with err and
 * does not reach the inner store. TR_EUNKNOWN is the exception: the call is
 * carried out, and its caller is not told.
 */
TR_API void tr_storage_fail_nth(tr_storage *capture, uint64_t nth, tr_err err);
/* Each save fails with probability p, as the seed decides: TR_ESTORAGE. */
TR_API void tr_storage_fail_saves(tr_storage *capture, double p, uint64_t seed);

/*
 * ---- event sourcing ----
 *
 * An actor with TR_APPLY and a storage does not save its state: it stores what
 * happened, and the state follows. At each start, activation and restart the
 * state is its TR_INIT, or the newest snapshot, and every event after it,
 * applied in order. An event that cannot be read, or that the actor has no
 * TR_APPLY for, fails the start: the text names actor, type and sequence.
 */

/*
 * Stores the events, all or none of them, waits until they are durable, and
 * only then lets *self be what they make of it. They are applied once, to a
 * copy, before they are stored. Text and lists are copied into the actor's
 * heap. Emitting while another turn of the actor emits is TR_EWOULDBLOCK.
 * Errors: TR_ESTORAGE, TR_EFENCED, TR_EUNKNOWN (the actor reloads before its
 * next message), TR_EINVAL (no TR_APPLY takes it, or self is not the state),
 * TR_ELIMIT (more than 1024 at once), TR_ENOMEM; ended. *self is unchanged.
 */
TR_API TR_NODISCARD tr_err tr_emit(tr_ctx *ctx, void *self,
                                   const tr_event *events, size_t count,
                                   const char *site);
/* The sequence number of the last event in the state; 0: none. */
TR_API uint64_t tr_sequence(tr_ctx *ctx);
/*
 * Reads events of an actor of that kind, in the store of this one, from the
 * sequence number `first` on: the raw material of projections. key is that of
 * a virtual actor or the path of a plain one; kind NULL: this actor's own.
 * Waits. Errors: TR_ESTORAGE, TR_EINVAL, TR_ELIMIT, TR_ENOMEM; ended.
 */
TR_API TR_NODISCARD tr_err tr_events_read(tr_ctx *ctx, const char *kind,
                                          const char *key, uint64_t first,
                                          tr_event_page *out);
/*
 * Fills *out, whose text and blobs live until the handler returns.
 * Errors: TR_EINVAL (another type, or not readable: tr_error_text),
 * TR_ELIMIT, TR_ENOMEM.
 */
TR_API TR_NODISCARD tr_err tr_event_decode(tr_ctx *ctx,
                                           const tr_stored_event *event,
                                           const tr_type *type, void *out);

/*
 * ---- reminders ----
 *
 * A reminder is a message to oneself that outlives the process. When it is due
 * it comes as an ordinary message, to a handler of TR_ON_REMINDER; a virtual
 * actor is activated for it, a plain one gets it while it lives. One that was
 * due while nobody was there comes as soon as the kind is hosted, or the actor
 * has started. It comes at least once: it is over, or set to its next time,
 * when the handler has returned TR_OK and that is stored; a handler that fails
 * gets it again, after 1 s at first and at most after 10 min.
 */

/*
 * Sets the reminder of this name, in place of one that had it: due after
 * delay, then after each period (0: once), counted from when it was first due,
 * without drift; of several that were missed one comes. Time is that of the
 * wall clock, up to the year 2262: a delay, or a delay and a period, that ends
 * later is refused. Waits until it is stored. name: 1 to 128 bytes.
 * Errors: TR_EINVAL (no TR_ON_REMINDER takes it, name, delay or period),
 * TR_ESTORAGE, TR_EFENCED, TR_EUNKNOWN (set it again), TR_ENOMEM; ended.
 */
TR_API TR_NODISCARD tr_err tr_remind(tr_ctx *ctx, const char *name,
                                     tr_nanos delay, tr_nanos period,
                                     const tr_type *type, const void *payload,
                                     const char *site);
/*
 * Removes it; TR_OK if there is none. A message of it that is in the mailbox
 * already still comes. Errors: as tr_remind.
 */
TR_API TR_NODISCARD tr_err tr_forget(tr_ctx *ctx, const char *name);

TR_END_DECLS

#ifndef __cplusplus

/* tr_remind(ctx, "bill", TR_MINUTES(60), 0, SendBill, .to = "ann") */
#define tr_remind(ctx, name, delay, period, ...)                               \
    TR_REMIND_(ctx, name, delay, period, __VA_ARGS__, )
#define TR_REMIND_(ctx, name, delay, period, T, ...)                           \
    (tr_remind)(TR_CTX(ctx), (name), (delay), (period), &T##_tr_type,          \
                &(const T){__VA_ARGS__}, TR_HERE)
/* tr_emit(ctx, self, Deposited, .cents = 5) */
#define tr_emit(ctx, self, ...)                                                \
    (tr_emit)(TR_CTX(ctx), (self), &(const tr_event)TR_EVENT_(__VA_ARGS__, ),  \
              1, TR_HERE)
/* tr_emit_all(ctx, self, TR_EVENT(A, .x = 1), TR_EVENT(B)): all or none. */
#define tr_emit_all(ctx, self, ...)                                            \
    (tr_emit)(TR_CTX(ctx), (self), (const tr_event[]){__VA_ARGS__},            \
              sizeof((const tr_event[]){__VA_ARGS__}) / sizeof(tr_event),      \
              TR_HERE)
#define TR_EVENT(...) TR_EVENT_(__VA_ARGS__, )
#define TR_EVENT_(E, ...)                                                      \
    {                                                                          \
        &E##_tr_type, &(const E)                                               \
        {                                                                      \
            __VA_ARGS__                                                        \
        }                                                                      \
    }
#define tr_event_decode(ctx, event, E, out)                                    \
    (tr_event_decode)(TR_CTX(ctx), (event), &E##_tr_type,                      \
                      _Generic((out), E *: (out)))

#endif /* !__cplusplus */
#endif
