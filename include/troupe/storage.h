/*
 * storage.h - stores for the state of actors.
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
 * systems that use it.
 */
#ifndef TROUPE_STORAGE_H
#define TROUPE_STORAGE_H

#include <troupe/base.h>

/* A field left zero takes the default named beside it. */
typedef struct tr_storage_options {
    size_t size;
    const void *world;  // tr_sim_world(sim); default: the real one
    char *text;         // why it failed and what to do; default: not told
    size_t text_size;   // bytes at text; what is longer is cut
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
    uint64_t version;   // that the caller expected
    tr_err err;         // the answer
} tr_captured;

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
TR_API TR_NODISCARD tr_err
tr_storage_sqlite_with(tr_storage **out, const char *file,
                       const tr_storage_options *options);
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
TR_API void tr_storage_fail_saves(tr_storage *capture, double p,
                                  uint64_t seed);

TR_END_DECLS

#endif
