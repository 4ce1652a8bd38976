/*
 * storage.h - a store, without any knowledge of actors.
 *
 * A caller fills in a tri_store_op (store_op.h), submits it, and gets it back
 * with an answer when its `done` is called. All calls are asynchronous. A
 * store may take all operations that wait and carry them out in one
 * transaction; such a batch is not atomic, each operation has its own answer.
 *
 * Threads: any.
 */
#ifndef TRI_STORAGE_STORAGE_H
#define TRI_STORAGE_STORAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/world.h"
#include "storage/store_op.h"
#include "troupe/base.h"
#include "troupe/storage.h"

typedef struct tri_storage_ops {
    const char *name;
    /* Takes all ops out of the list. Each has passed tri_store_op_is_valid. */
    void (*submit)(tr_storage *storage, tri_list *ops);
    /* Answers all ops that were submitted, then frees the store. */
    void (*close)(tr_storage *storage);
} tri_storage_ops;

/* The first member of every store. */
struct tr_storage {
    uint64_t magic;  // TRI_STORAGE_MAGIC
    const tri_storage_ops *ops;
    _Atomic(uint32_t) users;  // systems, and stores in front of this one
    _Atomic(bool) left_open;  // set by tri_storage_leave
};

#define TRI_STORAGE_MAGIC UINT64_C(0x5452535430524530)

/* ---- for users of a store ---- */

/* Submits one op. */
void tri_storage_submit(tr_storage *storage, tri_store_op *op);
/* Submits all ops of the list, which is empty afterwards. */
void tri_storage_submit_all(tr_storage *storage, tri_list *ops);

/* Adds a user. A store that has users cannot be closed. */
void tri_storage_hold(tr_storage *storage);
/* Removes a user. */
void tri_storage_drop(tr_storage *storage);
/*
 * Keeps the store open for ever: tr_storage_close does nothing from now on.
 * For a system with an actor that never returned and may still save.
 */
void tri_storage_leave(tr_storage *storage);

/* ---- for implementations of a store ---- */

void tri_storage_init(tr_storage *storage, const tri_storage_ops *ops);

/*
 * Copies the options a user gave, with defaults filled in, to *own and returns
 * the world they name. Returns NULL, and logs it, if the options have the size
 * of another version.
 */
tri_world *tri_storage_options(tr_storage_options *own,
                               const tr_storage_options *given);
/*
 * Completes the opening of a store, whose result so far is `err` and `why`. On
 * success a store with tr_storage_options.system is made to close with that
 * system. On failure *out becomes NULL, and the reason, with `what` in front
 * unless that is NULL, is written to tr_storage_options.text or else to the
 * log. Returns the error for the caller of the opening.
 */
TR_NODISCARD tr_err tri_storage_opened(tr_storage **out,
                                       const tr_storage_options *options,
                                       tri_world *world, tr_err err,
                                       const char *what, const char *why);

#endif
