/*
 * store_op.h - one operation of a store: the request, the answer, and the rows
 * that an answer may carry.
 *
 * Three things are stored under a key, independent of each other: the state, a
 * sequence of events, and reminders by name.
 *
 * Versions. The version of the state counts its saves; 0 means that nothing is
 * stored. A save and a delete name the version that they replace. Events are
 * numbered from 1; an append names the number of the last event, and so does a
 * delete, which removes state and events together: either alone could not be
 * loaded. After a delete the versions and the numbers begin anew.
 *
 * Scans. The keys that have a state or events, in the order of their bytes.
 * Each page is a snapshot; a key that is saved or deleted between two pages
 * may be missed or found.
 *
 * Fences. Each key belongs to a shard, and the store keeps for each namespace
 * and shard the highest epoch that ever wrote to it, the fence (0 at first).
 * The namespace is the part of the key before "::"; two clusters that share a
 * store do not fence each other. A write with a lower epoch is refused with
 * TR_EFENCED; a higher one raises the fence. TR_STORE_FENCE raises it and does
 * nothing else: whoever loads waits for it first, so that no earlier owner
 * writes after the load. The check and the write are one transaction.
 * A write with epoch 0 comes from a plain actor, which has no epoch: the fence
 * is neither checked nor raised, and only versions guard the key.
 *
 * Order. Writes to one key that one thread submits are applied in the order in
 * which they were submitted. A read sees every write that was answered before
 * the read was submitted.
 *
 * Answers (`err`, `fault`, and `text` for a person):
 *
 *   TR_OK        done, and durable as far as the store promises
 *   TR_EFENCED   lower epoch, or another version is stored: another writer is
 *                active. Not done
 *   TR_ENOENT    a version was expected and nothing is stored. Not done
 *   TR_EINVAL    a key, name or number is not allowed. Not done
 *   TR_ELIMIT    more bytes than a limit below allows. Not done
 *   TR_ENOMEM    not done
 *   TR_EIO       reading or writing failed. Not done
 *   TR_ESTORAGE  locked for too long, damaged, or closed. Not done
 *   TR_EUNKNOWN  done or not done: load to find out
 *
 * A load that finds nothing answers TR_OK with `found` false. A store never
 * retries an operation.
 *
 * Threads: an op belongs to one thread at a time.
 * Ownership: the caller owns the op and all it points to, and touches neither
 * from the submit until `done` is called.
 */
#ifndef TRI_STORAGE_STORE_OP_H
#define TRI_STORAGE_STORE_OP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "troupe/base.h"
#include "troupe/storage.h"

#define TRI_STORE_KEY_MAX    512
#define TRI_STORE_NAME_MAX   128
#define TRI_STORE_BYTES_MAX  (UINT32_C(1) << 26)  // of one state or event
#define TRI_STORE_SHARDS_MAX UINT32_C(65536)
#define TRI_STORE_EVENTS_MAX 1024                 // in one append
#define TRI_STORE_ROWS_MAX   1024                 // in the answer to one read
#define TRI_STORE_ROWS_SIZE  (UINT32_C(1) << 22)  // then no row is added
#define TRI_STORE_NUMBER_MAX ((uint64_t)INT64_MAX)
#define TRI_STORE_TEXT_SIZE  160

/* The kind of a failure; `text` begins with its name. */
typedef enum tri_store_fault {
    TRI_STORE_FAULT_NONE,
    TRI_STORE_FAULT_SERIALIZATION,  // what is stored cannot be read
    TRI_STORE_FAULT_IO,
    TRI_STORE_FAULT_UNAVAILABLE,  // the same operation may work later
    TRI_STORE_FAULT_NOT_FOUND,
    TRI_STORE_FAULT_OPERATION_FAILED,
} tri_store_fault;

typedef struct tri_store_bytes {
    const void *at;  // NULL only if size is 0
    size_t size;
} tri_store_bytes;

typedef struct tri_store_op tri_store_op;

/*
 * Called exactly once for each op, on any thread, perhaps before the submit
 * returns, and without any lock of the store. Other answers wait for it, so it
 * should pass the op on and return. It may submit an op; with the store in
 * memory that call nests.
 */
typedef void (*tri_store_done_fn)(tri_store_op *op);

struct tri_store_op {
    tri_link link;  // the store's, from submit until done

    /* The request, filled in by the caller. */
    tr_store_call call;
    uint32_t shard;
    uint64_t epoch;
    tri_store_bytes key;   // text. FENCE: or "". SCAN: only keys after it
    tri_store_bytes name;  // REMIND, FORGET; REMINDERS: see `after`
    /*
     * SAVE, DELETE  the version that is stored
     * APPEND        the number of the last event
     * READ          the number of the first event wanted
     * TRIM          the number of the last event to drop
     * REMIND        when the reminder is due, wall time
     * REMINDERS     only reminders that are due at this time or before
     */
    uint64_t number;
    tri_store_bytes bytes;          // SAVE, REMIND; SCAN: the prefix
    const tri_store_bytes *events;  // APPEND
    uint32_t event_count;
    uint32_t limit;  // READ, REMINDERS, SCAN: rows; 0: TRI_STORE_ROWS_MAX
    /*
     * REMINDERS: list only the reminders after (after, key, name) in the order
     * of (due, key, name). REMIND, FORGET: if not 0, change the reminder only
     * if it is due at this time; `found` says whether it was. DELETE: the
     * number of the last event.
     */
    uint64_t after;
    /*
     * READ: `chain` of the event before the first one wanted. APPEND: `chain`
     * of the last event. 0: the caller does not know it, or the store has no
     * chain.
     */
    uint64_t behind;

    /* The answer, filled in by the store. */
    tr_err err;
    tri_store_fault fault;
    bool found;        // it is stored; DELETE, FORGET: it was stored
    bool more;         // rows were left out
    uint64_t version;  // of the state, or of the last event; FENCE: the epoch
    /*
     * A checksum of an event and all events before it. READ: of the last event
     * in the answer. APPEND: of the last event that was added. 0: the store
     * has no chain.
     */
    uint64_t chain;
    void *out;        // LOAD: the state. The lists: tri_store_row_next
    size_t out_size;  // of out, which tri_store_op_fini frees
    char text[TRI_STORE_TEXT_SIZE];  // "" if TR_OK

    tri_store_done_fn done;
    void *user;  // the caller's
};

/* ---- for callers of a store ---- */

/* Frees what the answer holds; the caller may then use the op again. */
void tri_store_op_fini(tri_store_op *op);

/*
 * Writes `space::type/key` and a terminating zero. Neither space nor type may
 * be empty or contain ':' or '/', so that different triples give different
 * texts. Errors: TR_EINVAL; TR_ELIMIT (longer than TRI_STORE_KEY_MAX).
 */
TR_NODISCARD tr_err tri_store_key(char out[TRI_STORE_KEY_MAX + 1],
                                  const char *space, const char *type,
                                  const char *key);

/* One event, one reminder, or one key; borrowed from the op. */
typedef struct tri_store_row {
    uint64_t number;            // the event's, or when the reminder is due
    tri_store_bytes key, name;  // of a reminder; SCAN: the key
    tri_store_bytes bytes;
} tri_store_row;

/*
 * Reads the next row of an answer; *at starts as 0. Returns false after the
 * last row.
 */
bool tri_store_row_next(const tri_store_op *op, size_t *at, tri_store_row *row);

/* ---- for implementations of a store ---- */

/* Clears the answer, before the store carries out the request. */
void tri_store_op_begin(tri_store_op *op);
/* Returns whether the request is well formed; if not, the op fails. */
bool tri_store_op_is_valid(tri_store_op *op);
/* Returns whether the operation only reads. */
bool tri_store_op_is_read(const tri_store_op *op);
/* Returns whether the operation is a write without an epoch. */
bool tri_store_op_is_unfenced(const tri_store_op *op);

/* Makes the answer a failure; its text becomes "Io(text)" and so on. */
void tri_store_fail(tri_store_op *op, tr_err err, tri_store_fault fault,
                    const char *format, ...) TR_PRINTF(4, 5);
/* Makes the answer TR_ENOMEM. */
void tri_store_fail_no_memory(tri_store_op *op);
/* Gives the op back to its caller. The store must not touch it afterwards. */
void tri_store_done(tri_store_op *op);

/*
 * Returns the number of the fence that checks the op, below 2^63: made of the
 * key's namespace and the shard. Two namespaces get the same numbers with a
 * probability of 2^-47.
 */
uint64_t tri_store_fence_of(const tri_store_op *op);
/* Returns whether the op's epoch passes the fence; if not, the op fails. */
bool tri_store_check_epoch(tri_store_op *op, uint64_t fence);
/*
 * Returns whether `stored` (0: nothing) is the version that the op expects; if
 * not, the op fails.
 */
bool tri_store_check_version(tri_store_op *op, uint64_t stored);

/*
 * Returns whether `stored` (0: none) is the last event that a delete expects;
 * if not, the op fails.
 */
bool tri_store_check_last(tri_store_op *op, uint64_t stored);
/*
 * Writes the first text, in the order of bytes, that comes after all texts
 * with the prefix of a scan. Returns its size, which is not 0.
 */
size_t tri_store_scan_end(const tri_store_op *op, char out[TRI_STORE_KEY_MAX]);

/*
 * Answers a load with a copy of the state. Returns false if there is no
 * memory; the op has failed then.
 */
bool tri_store_set_state(tri_store_op *op, const void *bytes, size_t size,
                         uint64_t version);
/* Returns how many rows the answer may have. */
uint32_t tri_store_row_limit(const tri_store_op *op);
/* Compares by bytes; a text that continues the other one is greater. */
int tri_store_compare(tri_store_bytes a, tri_store_bytes b);
/* Compares by (number, key, name), the order in which reminders are listed. */
int tri_store_compare_rows(const tri_store_row *a, const tri_store_row *b);
/* Sorts the rows and adds copies of those to the answer that fit. */
void tri_store_add_sorted(tri_store_op *op, tri_store_row *rows, size_t count);
/*
 * Adds a copy of a row to the answer. Returns false if the answer is full
 * (`more` is set then) or the op has failed.
 */
bool tri_store_add_row(tri_store_op *op, const tri_store_row *row);

#endif
