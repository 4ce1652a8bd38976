/*
 * stores.h - the stores that a system uses.
 *
 * Threads: any.
 */
#ifndef TRI_SYSTEM_STORES_H
#define TRI_SYSTEM_STORES_H

#include <stdint.h>

#include "base/lock.h"
#include "base/owner.h"
#include "troupe/base.h"

/* Part of tri_layers. */
typedef struct tri_stores {
    tri_lock lock;  // a leaf, for the list
    struct tri_used_store *used;
} tri_stores;

/* A store that the system uses; it stays until the system is gone. */
typedef struct tri_used_store tri_used_store;

/*
 * Holds the store until the system is gone: it cannot be closed before. Sets
 * *out, if out is not NULL. Errors: TR_ENOMEM.
 */
TR_NODISCARD tr_err tri_store_use(tr_system *sys, tr_storage *storage,
                                  tri_used_store **out);

/*
 * Returns the highest epoch whose fence this system has raised in the store for
 * that shard of its namespace; 0: none. A load in that epoch need not wait for
 * the fence again.
 */
uint64_t tri_store_fenced(tri_used_store *used, uint32_t shard);
/*
 * Notes that the fence was raised. Without memory nothing is noted, and the
 * next load raises it again.
 */
void tri_store_set_fenced(tr_system *sys, tri_used_store *used, uint32_t shard,
                          uint64_t epoch);
/*
 * Marks the stores of a system that is left in memory because a handler never
 * returned: closing them then leaves them open, too.
 */
void tri_stores_leave(tr_system *sys);
void tri_stores_free(tr_system *sys);

/* What a store that belongs to a system calls there. */
extern const tri_owner_ops tri_system_owner;

#endif
