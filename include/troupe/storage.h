/*
 * storage.h - stores for states of actors, for their events and reminders.
 *
 * A store keeps one value per actor. The key is the actor's path or, for a
 * virtual actor, `namespace::kind/key`; it has at most 512 bytes. The value is
 * stored with the epoch of its writer, so that a writer that has been replaced
 * cannot overwrite what its successor wrote (TR_EFENCED). Actors use a store
 * through tr_spawn_options.storage, tr_host_options.storage and tr_persist;
 * they cannot call it directly. If nothing is stored yet, the state stays as
 * TR_INIT made it; that is not an error. A store does not retry.
 *
 * The ended-wait errors are those of actor.h: TR_ESTOPPED, TR_EKILLED,
 * TR_ERESTARTED, TR_ECLOSED and TR_ELIMIT.
 *
 * Threads: any. One store may serve several systems.
 * Ownership: the caller owns a store and closes it after the systems that use
 * it. With tr_storage_options.system that system owns the store.
 */
#ifndef TROUPE_STORAGE_H
#define TROUPE_STORAGE_H

#include <troupe/actor.h>
#include <troupe/base.h>
#include <troupe/macros.h>

/* A field that is zero takes the default named beside it. */
typedef struct tr_storage_options {
    size_t size;
    const void *world;  // tr_sim_world(sim); default: the real one
    char *text;         // gets why it failed; default: standard error
    size_t text_size;   // bytes at text; a longer text is cut
    tr_system *system;  // lives in its world and is closed with it
} tr_storage_options;

/* The requests to a store. */
typedef enum tr_store_call {
    TR_STORE_LOAD = 1,   // returns the state of a key
    TR_STORE_SAVE,       // replaces the state of a key
    TR_STORE_DELETE,     // removes the state and the events of a key
    TR_STORE_FENCE,      // a new owner of a shard announces its epoch
    TR_STORE_APPEND,     // adds events to those of a key
    TR_STORE_READ,       // returns events of a key
    TR_STORE_TRIM,       // deletes old events of a key
    TR_STORE_REMIND,     // stores a reminder
    TR_STORE_FORGET,     // removes a reminder
    TR_STORE_REMINDERS,  // returns the reminders of a shard
    TR_STORE_SCAN,       // returns keys that begin with a prefix
} tr_store_call;

/*
 * One request that a capturing store has seen. Texts live as long as the store.
 */
typedef struct tr_captured {
    tr_store_call call;
    const char *key;
    const void *bytes;  // what was to be saved, appended or reminded
    size_t size;
    uint64_t version;  // that the writer expected
    tr_err err;        // the answer
} tr_captured;

/* An event to be stored: TR_EVENT(Deposited, .cents = 5). */
typedef struct tr_event {
    const tr_type *type;
    const void *value;
} tr_event;

/* A stored event; borrowed until the handler returns. */
typedef struct tr_stored_event {
    uint64_t sequence;  // the first event of a key has 1
    const char *type;   // the name of its type
    tr_bytes stored;    // for tr_event_decode
} tr_stored_event;

typedef struct tr_event_page {
    const tr_stored_event *events;
    size_t count;
    uint64_t last;  // sequence of the newest stored event; 0: none
    bool more;      // continue after events[count - 1].sequence
} tr_event_page;

enum {
    TR_KEY_SIZE = 513,         // a key of a store and its NUL
    TR_SCAN_PAGE_SIZE = 2048,  // bytes of keys that one request fetches
};

/*
 * A walk over the keys of a kind: tr_scan_next. Begin with {.kind = "account"};
 * nothing has to be closed. To continue an earlier walk, set .key to the last key seen.
 */
typedef struct tr_scan {
    const char *kind;       // of the actors
    const char *prefix;     // only keys that begin with it; NULL: all
    char key[TR_KEY_SIZE];  // the key that was found; "" at first
    bool is_last;           // the rest is the library's
    uint32_t at, used;
    char page[TR_SCAN_PAGE_SIZE];
} tr_scan;

TR_BEGIN_DECLS

/*
 * Opens a store in memory: it keeps states for as long as it is open.
 * Errors: TR_ENOMEM.
 */
TR_API TR_NODISCARD tr_err tr_storage_memory(tr_storage **out);
/*
 * Opens a store in an SQLite file, which is created if it does not exist.
 * Component troupe-sqlite. When a save has been answered it has reached the
 * disk. Several processes may use one file if all of them name it by the same
 * absolute path without symbolic links. file is the name of a file: "", and
 * names that begin with ':', which SQLite does not keep in a file, are refused.
 * Errors: TR_EINVAL (not the name of a file), TR_ESTORAGE (no such folder, damaged, not a file of Troupe, or of a
 * newer Troupe), TR_ENOMEM, TR_ELIMIT (no more threads).
 */
TR_API TR_NODISCARD tr_err tr_storage_sqlite(tr_storage **out,
                                             const char *file);
/*
 * Opens a store as tr_storage_sqlite does, with options; NULL means all
 * defaults.
 */
TR_API TR_NODISCARD tr_err tr_storage_sqlite_with(
    tr_storage **out, const char *file, const tr_storage_options *options);
/*
 * Opens a store in a PostgreSQL database (12 or newer), in its schema `troupe`,
 * which is created if it does not exist. Component troupe-postgres. conninfo is
 * that of libpq: "host=db dbname=shop user=shop", "postgresql://shop@db/shop",
 * or "" to take everything from the environment (PGHOST and so on). When a save
 * has been answered it is as durable as a commit of that server. Many processes
 * and machines may use one database. The store has two connections, each with a
 * thread.
 *
 * A lost connection is made again. Requests that had been sent get TR_EUNKNOWN,
 * because they may have been carried out. Requests that come meanwhile wait for
 * at most 5 s and then get TR_ESTORAGE.
 * Errors: TR_ESTORAGE (no server, refused, not a schema of Troupe, or of a
 * newer Troupe), TR_EINVAL (a simulated world), TR_ENOMEM, TR_ELIMIT (no more
 * threads).
 */
TR_API TR_NODISCARD tr_err tr_storage_postgres(tr_storage **out,
                                               const char *conninfo);
/*
 * Opens a store as tr_storage_postgres does, with options; NULL means all
 * defaults.
 */
TR_API TR_NODISCARD tr_err tr_storage_postgres_with(
    tr_storage **out, const char *conninfo, const tr_storage_options *options);
/*
 * Closes a store; NULL is allowed. No system may use it any more (a check).
 * Waits until all requests have been answered.
 */
TR_API void tr_storage_close(tr_storage *storage);

/*
 * ---- a store of one's own ----
 *
 * A table of functions makes a store of any database. The store calls them on
 * a thread of its own, one after the other, so they may block. Each returns
 * when its work is as durable as the store promises. Such a store keeps
 * states; actors with TR_APPLY or TR_ON_REMINDER need another one.
 *
 * The contract, which tr_storage_contract tests:
 *
 *   versions  The version of a state counts its saves. A save is done only if
 *             request.version is stored (0: nothing is); the new version is
 *             request.version + 1. A remove is done only if request.version is
 *             stored, and then nothing is; if it is 0, nothing is to do.
 *   fences    For each request.fence, which stands for a namespace and a
 *             shard, the store keeps the highest epoch that a save, a remove or
 *             a fence call has named. A lower one is refused, unless it is 0:
 *             then the fence is neither checked nor raised. A fence call raises
 *             it and does nothing else.
 *   together  Check and write are one step, also for other processes. A write
 *             that is refused changes nothing, not even the fence.
 *   errors    TR_EFENCED: lower epoch, or another version is stored.
 *             TR_ENOENT: a version was named and nothing is stored. TR_EUNKNOWN:
 *             done or not done. TR_ESTORAGE, TR_EIO, TR_ENOMEM: not done.
 *   scans     Keys in the order of their bytes.
 */
typedef struct tr_store_request {
    const char *key;     // 1 to 512 bytes; scan: only keys after it, or ""
    uint64_t version;    // save, remove: that must be stored
    uint32_t shard;      // save, remove, fence: of the key, below 65536
    uint64_t epoch;      // save, remove, fence
    tr_bytes state;      // save: the state, any bytes
    const char *prefix;  // scan: only keys that begin with it
    uint32_t limit;      // scan: more keys than this are not used
    uint64_t fence;      // save, remove, fence: which fence; below 2^63
} tr_store_request;

/* Where a function puts its answer. */
typedef struct tr_store_answer tr_store_answer;

typedef tr_err tr_store_fn(void *user, const tr_store_request *request,
                           tr_store_answer *answer);

/* All functions but close are needed. */
typedef struct tr_store_ops {
    size_t size;
    const char *name;   // for error texts
    tr_store_fn *load;  // tr_store_answer_state, or nothing if none is stored
    tr_store_fn *save;
    tr_store_fn *remove;
    tr_store_fn *fence;
    tr_store_fn *scan;          // tr_store_answer_key for each key
    void (*close)(void *user);  // called last; NULL: nothing to do
} tr_store_ops;

/*
 * Opens a store that consists of these functions, which get `user`. The table
 * is copied; options may be NULL.
 * Errors: TR_EINVAL (a function is missing), TR_ENOMEM, TR_ELIMIT (no more
 * threads).
 */
TR_API TR_NODISCARD tr_err tr_storage_own(tr_storage **out,
                                          const tr_store_ops *ops, void *user,
                                          const tr_storage_options *options);
/* Answers a load. The bytes are copied. version is not 0. */
TR_API void tr_store_answer_state(tr_store_answer *answer, uint64_t version,
                                  const void *bytes, size_t size);
/*
 * Adds a key to the answer of a scan. Returns false if the answer is full: the
 * function then returns TR_OK.
 */
TR_API bool tr_store_answer_key(tr_store_answer *answer, const char *key);
/* Says why the function fails; tr_error_text shows it. */
TR_API void tr_store_answer_text(tr_store_answer *answer, const char *format,
                                 ...) TR_PRINTF(2, 3);

/* How tr_storage_contract gets at the store that it tests. */
typedef struct tr_contract_options {
    size_t size;
    /* Opens the store; it is closed with tr_storage_close. */
    tr_err (*open)(tr_storage **out, void *user);
    void *user;
    bool is_durable;   // what is stored is there after closing and opening
    char *text;        // gets what is wrong; default: standard error
    size_t text_size;  // bytes at text; a longer text is cut
} tr_contract_options;

/*
 * Tests whether a store keeps the contract above, as a part of its own tests.
 * It writes keys that begin with "contract" and leaves some behind, and it
 * raises fences: it needs a store for itself, empty at first. Blocks.
 * Errors: TR_EFAILED (the text says which rule is broken, and how), TR_EINVAL
 * (no .open); or the error of .open.
 */
TR_API TR_NODISCARD tr_err
tr_storage_contract(const tr_contract_options *options);

/* ---- for tests ---- */

/*
 * Opens a store that passes all requests on to `inner` and records them in the
 * order of their answers. It borrows `inner` until it is closed. All requests
 * must have been answered by then (a check).
 * Errors: TR_ENOMEM.
 */
TR_API TR_NODISCARD tr_err tr_storage_capture(tr_storage **out,
                                              tr_storage *inner);
/* Returns how many requests have been answered so far. */
TR_API size_t tr_storage_captured_count(tr_storage *capture);
/*
 * Fills in *out with the request of this index, the first is 0. Returns false
 * if there is none.
 */
TR_API bool tr_storage_captured(tr_storage *capture, size_t index,
                                tr_captured *out);
/*
 * Makes the nth request from now fail with err; 1 is the next request, 0 ends
 * this. The request does not reach the inner store, except with TR_EUNKNOWN:
 * then it is carried out, but its caller gets TR_EUNKNOWN.
 */
TR_API void tr_storage_fail_nth(tr_storage *capture, uint64_t nth, tr_err err);
/*
 * Makes each save fail with TR_ESTORAGE with probability p, as the seed
 * decides.
 */
TR_API void tr_storage_fail_saves(tr_storage *capture, double p, uint64_t seed);

/* ---- deleting and listing what is stored ---- */

/*
 * Deletes what this actor has stored, its state or its events and snapshot,
 * waits until that is durable, and then makes *self what TR_INIT made it. The
 * actor goes on, and may store again. Reminders stay (tr_forget). On error
 * *self is unchanged; after TR_EUNKNOWN the actor restarts before its next
 * message.
 * Errors: TR_ESTORAGE, TR_EFENCED (another writer has replaced this one),
 * TR_EUNKNOWN, TR_EINVAL (self is not the state), TR_EWOULDBLOCK (another turn
 * of the actor is emitting), TR_ENOMEM; or an ended-wait error.
 */
TR_API TR_NODISCARD tr_err tr_delete_state(tr_ctx *ctx, void *self);
/*
 * Deletes what the actor of this kind and key has stored in a store. The key
 * of a plain actor is its path. No actor need exist; one that does gets
 * TR_EFENCED when it writes again, and a virtual actor ends then. Waits.
 * Errors: TR_ENOENT (nothing is stored), TR_EINVAL and TR_ELIMIT (not a key),
 * TR_EFENCED (the actor writes all the time), TR_ESTORAGE, TR_EUNKNOWN,
 * TR_EWOULDBLOCK, TR_ENOMEM; or an ended-wait error.
 */
TR_API TR_NODISCARD tr_err tr_delete_state_of(tr_from from, tr_storage *storage,
                                              const char *kind,
                                              const char *key);
/*
 * Sets scan->key to the next key of scan->kind, in the order of bytes, for
 * which a state or events are stored. A key that is stored or deleted during
 * the walk may be found or not; no key is found twice. Waits.
 * Errors: TR_ENOENT (there is no further key), TR_EINVAL and TR_ELIMIT (kind,
 * prefix or key), TR_ESTORAGE, TR_EWOULDBLOCK, TR_ENOMEM; or an ended-wait
 * error.
 */
TR_API TR_NODISCARD tr_err tr_scan_next(tr_from from, tr_storage *storage,
                                        tr_scan *scan);

/*
 * ---- event sourcing ----
 *
 * An actor with TR_APPLY and a storage does not save its state. It stores
 * events, and its state follows from them: at each start, activation and
 * restart the state is that of TR_INIT or of the newest snapshot, with every
 * later event applied in order. An event that cannot be read, or for which the
 * actor has no TR_APPLY, fails the start; the text names the actor, the type
 * and the sequence number.
 */

/*
 * Stores the events, all or none of them, waits until they are durable, and
 * then changes *self as they say. The events are applied once, to a copy of the
 * state, before they are stored. Text and lists are copied into the actor's
 * heap. On error *self is unchanged. After TR_EUNKNOWN (they may or may not
 * have been stored) the actor restarts, and so loads its state, before its next
 * message.
 * Errors: TR_ESTORAGE, TR_EFENCED, TR_EUNKNOWN, TR_EINVAL (no TR_APPLY takes an
 * event, self is not the state, or an event has a field that cannot be stored,
 * as in tr_persist), TR_ELIMIT (more than 1024 at once),
 * TR_EWOULDBLOCK (another turn of the actor is emitting), TR_ENOMEM; or an
 * ended-wait error.
 */
TR_API TR_NODISCARD tr_err tr_emit(tr_ctx *ctx, void *self,
                                   const tr_event *events, size_t count,
                                   const char *site);
/*
 * Returns the sequence number of the last event in the state; 0 if there is
 * none.
 */
TR_API uint64_t tr_sequence(tr_ctx *ctx);
/*
 * Reads events from the store of this actor, beginning with the sequence number
 * `first`, to build projections. kind and key name the actor whose events are
 * read; the key of a plain actor is its path. kind NULL means this actor
 * itself. Waits.
 * Errors: TR_ESTORAGE, TR_EINVAL, TR_ELIMIT (a key that is too long),
 * TR_ENOMEM; or an ended-wait error.
 */
TR_API TR_NODISCARD tr_err tr_events_read(tr_ctx *ctx, const char *kind,
                                          const char *key, uint64_t first,
                                          tr_event_page *out);
/*
 * Decodes a stored event into *out. Text and blobs in it live until the handler
 * returns.
 * Errors: TR_EINVAL (another type, or not readable: tr_error_text says why),
 * TR_ELIMIT, TR_ENOMEM.
 */
TR_API TR_NODISCARD tr_err tr_event_decode(tr_ctx *ctx,
                                           const tr_stored_event *event,
                                           const tr_type *type, void *out);

/*
 * ---- reminders ----
 *
 * A reminder is a message of an actor to itself that is stored and so outlives
 * the process. When it is due it comes as an ordinary message, to a handler of
 * TR_ON_REMINDER. A virtual actor is activated for it; a plain actor gets it
 * while it lives. A reminder that was due while no process ran comes as soon as
 * its kind is hosted or its actor has started. A reminder comes at least once:
 * it is removed, or set to its next time, only after its handler has returned
 * TR_OK and this has been stored. After a failed handler it comes again, first
 * after 1 s, later at most 10 min apart. If the handler has set or forgotten
 * the reminder of this name itself, that holds, even if the handler fails
 * afterwards; if setting it failed, the reminder is as it was and comes again.
 */

/*
 * Sets the reminder of this name, replacing an earlier one of the name. It is
 * due after delay, and then after every period (0: only once). Periods are
 * counted from the first due time, so they do not drift; of several that were
 * missed only one comes. Times are those of the wall clock, up to the year
 * 2262: a delay, or a delay and a period, that ends later is refused. Waits
 * until the reminder is stored. name has 1 to 128 bytes.
 * Errors: TR_EINVAL (no TR_ON_REMINDER takes the type; the name, delay or
 * period; or a field that cannot be stored, as in tr_persist), TR_ESTORAGE, TR_EFENCED, TR_EUNKNOWN (it may or may not be set: set
 * it again), TR_ENOMEM; or an ended-wait error.
 */
TR_API TR_NODISCARD tr_err tr_remind(tr_ctx *ctx, const char *name,
                                     tr_nanos delay, tr_nanos period,
                                     const tr_type *type, const void *payload,
                                     const char *site);
/*
 * Removes a reminder; it is not an error if there is none. A message of it that
 * is in the mailbox already still comes.
 * Errors: those of tr_remind.
 */
TR_API TR_NODISCARD tr_err tr_forget(tr_ctx *ctx, const char *name);

TR_END_DECLS

#ifndef __cplusplus

/*
 * Called as tr_remind(ctx, "bill", TR_MINUTES(60), 0, SendBill, .to = "ann").
 */
#define tr_remind(ctx, name, delay, period, ...)                               \
    TR_REMIND_(ctx, name, delay, period, __VA_ARGS__, )
#define TR_REMIND_(ctx, name, delay, period, T, ...)                           \
    (tr_remind)(TR_CTX(ctx), (name), (delay), (period), &T##_tr_type,          \
                &(const T){__VA_ARGS__}, TR_HERE)
/* Called as tr_emit(ctx, self, Deposited, .cents = 5). */
#define tr_emit(ctx, self, ...)                                                \
    (tr_emit)(TR_CTX(ctx), (self), &(const tr_event)TR_EVENT_(__VA_ARGS__, ),  \
              1, TR_HERE)
/*
 * Stores several events, all or none of them, as tr_emit does: tr_emit_all(ctx,
 * self, TR_EVENT(A, .x = 1), TR_EVENT(B)).
 */
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
/* Called as tr_storage_contract(.open = open_mine, .is_durable = true). */
#define tr_storage_contract(...)                                               \
    (tr_storage_contract)(TR_OPTIONS(tr_contract_options, __VA_ARGS__))
#define tr_delete_state_of(from, storage, kind, key)                           \
    __extension__(tr_delete_state_of)((from), (storage), (kind), (key))
#define tr_scan_next(from, storage, scan)                                      \
    __extension__(tr_scan_next)((from), (storage), (scan))
#define tr_event_decode(ctx, event, E, out)                                    \
    (tr_event_decode)(TR_CTX(ctx), (event), &E##_tr_type,                      \
                      _Generic((out), E *: (out)))

#endif /* !__cplusplus */
#endif
