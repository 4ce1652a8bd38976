/*
 * stores.h - the stores that a system uses.
 *
 * Threads: any.
 */
#ifndef TRI_SYSTEM_STORES_H
#define TRI_SYSTEM_STORES_H

#include "base/lock.h"
#include "base/owner.h"
#include "troupe/base.h"

/* Part of tri_layers. */
typedef struct tri_stores {
    tri_lock lock;  // a leaf, for the list
    struct tri_used_store *used;
} tri_stores;

/*
 * Holds the store until the system is gone: it cannot be closed before.
 * Errors: TR_ENOMEM.
 */
TR_NODISCARD tr_err tri_store_use(tr_system *sys, tr_storage *storage);
/*
 * Marks the stores of a system that is left in memory because a handler never
 * returned: closing them then leaves them open, too.
 */
void tri_stores_leave(tr_system *sys);
void tri_stores_free(tr_system *sys);

/* What a store that belongs to a system calls there. */
extern const tri_owner_ops tri_system_owner;

#endif
