/*
 * storage.h - what a store does, without any knowledge of actors.
 *
 * A caller fills a tri_store_op, submits it, and gets it back with an answer
 * when `done` is called. Everything is asynchronous and in batches: a store
 * may take whatever is waiting and do it in one transaction. A batch is not
 * atomic; each operation has its own answer.
 *
 * Under a key lie three things that do not touch each other: the state, a row
 * of events, and reminders by name.
 *
 * Versions. The state's version counts its saves; 0 is "nothing stored". A
 * save says which version it replaces, and so does a delete. Events are
 * numbered from 1; an append says the number of the last one.
 *
 * Fences. Each key belongs to a shard, and the store keeps for each shard the
 * highest epoch that ever wrote (0 at first). A write with a lower one is
 * refused with TR_EFENCED. A higher one raises the fence; TR_STORE_FENCE does
 * nothing else, and a new owner waits for it before it loads. Check and write
 * are one transaction.
 *
 * Order. Operations on one key that are submitted by one thread are carried
 * out in that order if they are all writes. A read sees every write that was
 * done before the read was submitted.
 *
 * Answers (`err`, `fault`, and a text for a person):
 *
 *   TR_OK        done, and durable as far as the store promises
 *   TR_EFENCED   lower epoch, or another version is stored: somebody else
 *                writes here. Not done
 *   TR_ENOENT    a version was expected and nothing is stored. Not done
 *   TR_EINVAL    key, name or number is not allowed. Not done
 *   TR_ELIMIT    bytes beyond a limit below. Not done
 *   TR_ENOMEM    not done
 *   TR_EIO       reading or writing failed. Not done
 *   TR_ESTORAGE  locked for too long, damaged, closed. Not done
 *   TR_EUNKNOWN  done or not: load to learn which
 *
 * A load that finds nothing is TR_OK with `found` false. Nothing is retried.
 *
 * Threads: any. Ownership: the op, and all it points to, stays the caller's
 * and must not be touched from submit until done.
 */
#ifndef TRI_STORAGE_STORAGE_H
#define TRI_STORAGE_STORAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/world.h"
#include "troupe/storage.h"

#define TRI_STORE_KEY_MAX    512
#define TRI_STORE_NAME_MAX   128
#define TRI_STORE_BYTES_MAX  (UINT32_C(1) << 26)  // of one state or event
#define TRI_STORE_SHARDS_MAX UINT32_C(65536)
#define TRI_STORE_EVENTS_MAX 1024                 // in one append
#define TRI_STORE_ROWS_MAX   1024                 // in the answer to one read
#define TRI_STORE_ROWS_SIZE  (UINT32_C(1) << 22)  // no row is added beyond
#define TRI_STORE_NUMBER_MAX ((uint64_t)INT64_MAX)
#define TRI_STORE_TEXT_SIZE  160

/* The kinds of failure that a text begins with. */
typedef enum tri_store_fault {
    TRI_STORE_FAULT_NONE,
    TRI_STORE_FAULT_SERIALIZATION,  // what is stored cannot be read
    TRI_STORE_FAULT_IO,
    TRI_STORE_FAULT_UNAVAILABLE,  // perhaps later
    TRI_STORE_FAULT_NOT_FOUND,
    TRI_STORE_FAULT_OPERATION_FAILED,
} tri_store_fault;

typedef struct tri_store_bytes {
    const void *at;  // NULL only if size is 0
    size_t size;
} tri_store_bytes;

typedef struct tri_store_op tri_store_op;

/*
 * Called exactly once, on any thread, perhaps before submit returns; no lock
 * of the store is held. It should hand the op on and return: others wait
 * behind it. It may submit, which with a store in memory nests.
 */
typedef void (*tri_store_done_fn)(tri_store_op *op);

struct tri_store_op {
    tri_link link;  // the store's, until done

    /* The question. */
    tr_store_call call;
    uint32_t shard;
    uint64_t epoch;
    tri_store_bytes key;   // text; not for FENCE
    tri_store_bytes name;  // REMIND, FORGET; REMINDERS: of `after`
    /*
     * SAVE, DELETE  the version that is stored     READ   first number wanted
     * APPEND        number of the last event       TRIM   last one to drop
     * REMIND        when it is due, wall time      REMINDERS  due until
     */
    uint64_t number;
    tri_store_bytes bytes;          // SAVE, REMIND
    const tri_store_bytes *events;  // APPEND
    uint32_t event_count;
    uint32_t limit;  // READ, REMINDERS: rows; 0: TRI_STORE_ROWS_MAX
    /*
     * REMINDERS: only those behind (after, key, name). REMIND, FORGET: only
     * the one that is due then, if not 0; `found` says whether it was there.
     */
    uint64_t after;
    /*
     * READ: `chain` of the event before the first one wanted. APPEND: of the
     * last event. 0: not known, or the store has none.
     */
    uint64_t behind;

    /* The answer. */
    tr_err err;
    tri_store_fault fault;
    bool found;        // something is, or for DELETE and FORGET was, stored
    bool more;         // rows were left out
    uint64_t version;  // of the state, or of the last event; FENCE: the epoch
    /*
     * READ: of the last event given, APPEND: of the last one added: a number
     * that depends on it and on all events before it. 0: see `behind`.
     */
    uint64_t chain;
    void *out;        // LOAD: the state. READ, REMINDERS: tri_store_row_next
    size_t out_size;  //   The caller's; tri_store_op_fini frees it
    char text[TRI_STORE_TEXT_SIZE];  // "" if TR_OK

    tri_store_done_fn done;
    void *user;  // the caller's
};

typedef struct tri_storage_ops {
    const char *name;
    /* Takes the ops out of the list; all have passed tri_store_op_is_valid. */
    void (*submit)(tr_storage *storage, tri_list *ops);
    /* Answers everything that was submitted and frees the store. */
    void (*close)(tr_storage *storage);
} tri_storage_ops;

/* The first member of every store. */
struct tr_storage {
    uint64_t magic;  // TRI_STORAGE_MAGIC
    const tri_storage_ops *ops;
    _Atomic(uint32_t) users;  // systems, and stores around this one
    _Atomic(bool) left;       // one of them never ended
};

#define TRI_STORAGE_MAGIC UINT64_C(0x5452535430524530)

/* ---- for those who use a store ---- */

void tri_storage_submit(tr_storage *storage, tri_store_op *op);
/* All of the list, which is empty afterwards. */
void tri_storage_submit_all(tr_storage *storage, tri_list *ops);

/* A store that is held cannot be closed. */
void tri_storage_hold(tr_storage *storage);
void tri_storage_drop(tr_storage *storage);
/* Who holds it will never let go: closing it does nothing from now on. */
void tri_storage_leave(tr_storage *storage);

/* Frees what the answer holds; the op can then be used again. */
void tri_store_op_fini(tri_store_op *op);

/*
 * Writes `space::type/key` with a zero. Neither space nor type may be empty
 * or contain ':' or '/', so no two triples give the same text.
 * Errors: TR_EINVAL; TR_ELIMIT (longer than TRI_STORE_KEY_MAX).
 */
TR_NODISCARD tr_err tri_store_key(char out[TRI_STORE_KEY_MAX + 1],
                                  const char *space, const char *type,
                                  const char *key);

/* One event, or one reminder; borrowed from the op. */
typedef struct tri_store_row {
    uint64_t number;            // the event's, or when the reminder is due
    tri_store_bytes key, name;  // of a reminder
    tri_store_bytes bytes;
} tri_store_row;

/* Walks an answer's rows; *at begins as 0. False: that was the last one. */
bool tri_store_row_next(const tri_store_op *op, size_t *at, tri_store_row *row);

/* ---- for those who make one ---- */

void tri_storage_init(tr_storage *storage, const tri_storage_ops *ops);

/*
 * The options with what they leave open, and the world they mean. NULL if they
 * are of another version, which is in the log then.
 */
tri_world *tri_storage_options(tr_storage_options *own,
                               const tr_storage_options *given);
/*
 * Ends the opening of a store, which went as `err` and `why` say: hands *out
 * over to the system of the options, which closes it at its end, or says why
 * it cannot be opened, where the options say or else to the log. `what` is put
 * in front, unless NULL. On an error *out is NULL; returns what the caller of
 * the opening gets to see.
 */
TR_NODISCARD tr_err tri_storage_opened(tr_storage **out,
                                       const tr_storage_options *options,
                                       tri_world *world, tr_err err,
                                       const char *what, const char *why);

/* Whether the question is well formed; if not, the answer says why. */
bool tri_store_op_is_valid(tri_store_op *op);

/* Sets the answer to a failure: "Io(text)", "NotFound(key)" and so on. */
void tri_store_fail(tri_store_op *op, tr_err err, tri_store_fault fault,
                    const char *format, ...) TR_PRINTF(4, 5);
/* Gives the op back. It belongs to the caller again and must not be used. */
void tri_store_done(tri_store_op *op);

/* Whether a write with the op's epoch may pass the fence; else it fails. */
bool tri_store_passes(tri_store_op *op, uint64_t fence);
/* Whether `stored` is the version it expects (0: nothing); else it fails. */
bool tri_store_matches(tri_store_op *op, uint64_t stored);

/* Sets the state that a load gives, as a copy. False: no memory; it failed. */
bool tri_store_give(tri_store_op *op, const void *bytes, size_t size,
                    uint64_t version);
/* How many rows the answer may have. */
uint32_t tri_store_limit(const tri_store_op *op);
/* Adds a row to the answer. False: it is full (`more` is set) or failed. */
bool tri_store_add_row(tri_store_op *op, const tri_store_row *row);

#endif
