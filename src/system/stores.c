/*
 * stores.c - the stores that a system uses.
 *
 * Each is held from its first use until the system is gone, so that none can
 * be closed while actors save in it. A system has few of them, so a list is
 * enough.
 *
 * For each it keeps which fences the system has raised (docs/design/0007-storage.md): a shard's fence
 * is raised once for each epoch, not for each load. Fences only rise, so what
 * is kept here stays true.
 */
#include "system/stores.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/lock.h"
#include "base/owner.h"
#include "base/world.h"
#include "core/cell/mem.h"
#include "core/system.h"
#include "core/up.h"
#include "storage/storage.h"
#include "system/layers.h"
#include "troupe/system.h"

typedef _Atomic(uint64_t) fence_epoch;

struct tri_used_store {
    struct tri_used_store *next;
    tr_storage *storage;
    _Atomic(fence_epoch *) fenced;  // by shard; NULL: none was raised
};

tr_err tri_store_use(tr_system *sys, tr_storage *storage, tri_used_store **out)
{
    TRI_CHECK(storage != NULL);
    tri_stores *stores = &tri_layers_of(sys)->stores;
    tr_err err = TR_OK;
    tri_lock_take(&stores->lock);
    tri_used_store *used = stores->used;
    while (used != NULL && used->storage != storage) {
        used = used->next;
    }
    if (used == NULL) {
        used = tri_mem_calloc(&sys->mem, sizeof(*used));
        if (used != NULL) {
            used->next = stores->used;
            used->storage = storage;
            stores->used = used;
            tri_storage_hold(storage);
        } else {
            err = TR_ENOMEM;
        }
    }
    tri_lock_drop(&stores->lock);
    if (out != NULL) {
        *out = used;
    }
    return err;
}

uint64_t tri_store_fenced(tri_used_store *used, uint32_t shard)
{
    TRI_CHECK(shard < TRI_STORE_SHARDS_MAX);
    // Acquire: pairs with need_fenced; sees the table cleared.
    fence_epoch *fenced =
        atomic_load_explicit(&used->fenced, memory_order_acquire);
    // Relaxed: the fence is in the store; nothing else depends on the number.
    return fenced != NULL
               ? atomic_load_explicit(&fenced[shard], memory_order_relaxed)
               : 0;
}

/* Returns the table of a store, made if there is none; NULL without memory. */
static fence_epoch *need_fenced(tr_system *sys, tri_used_store *used)
{
    tri_stores *stores = &tri_layers_of(sys)->stores;
    tri_lock_take(&stores->lock);
    // Relaxed: written under the lock.
    fence_epoch *fenced =
        atomic_load_explicit(&used->fenced, memory_order_relaxed);
    if (fenced == NULL) {
        fenced = tri_mem_calloc(&sys->mem, tri_virtual_ops_of(sys)->shards *
                                               sizeof(*fenced));
        // Release: pairs with tri_store_fenced.
        atomic_store_explicit(&used->fenced, fenced, memory_order_release);
    }
    tri_lock_drop(&stores->lock);
    return fenced;
}

void tri_store_set_fenced(tr_system *sys, tri_used_store *used, uint32_t shard,
                          uint64_t epoch)
{
    TRI_CHECK(shard < tri_virtual_ops_of(sys)->shards);
    fence_epoch *fenced = need_fenced(sys, used);
    if (fenced == NULL) {
        return;
    }
    // Relaxed, both: as in tri_store_fenced. The highest epoch stays.
    uint64_t known = atomic_load_explicit(&fenced[shard], memory_order_relaxed);
    while (known < epoch && !atomic_compare_exchange_weak_explicit(
                                &fenced[shard], &known, epoch,
                                memory_order_relaxed, memory_order_relaxed)) {
        // Another actor of the shard was first.
    }
}

void tri_stores_leave(tr_system *sys)
{
    tri_stores *stores = &tri_layers_of(sys)->stores;
    tri_lock_take(&stores->lock);
    for (tri_used_store *used = stores->used; used != NULL; used = used->next) {
        tri_storage_leave(used->storage);
    }
    tri_lock_drop(&stores->lock);
}

void tri_stores_free(tr_system *sys)
{
    tri_stores *stores = &tri_layers_of(sys)->stores;
    while (stores->used != NULL) {
        tri_used_store *used = stores->used;
        stores->used = used->next;
        tri_storage_drop(used->storage);
        // Relaxed: no other thread is left.
        free(atomic_load_explicit(&used->fenced, memory_order_relaxed));
        free(used);
    }
}

/* ---- what a store of the system calls: base/owner.h ---- */

static tri_world *owner_world(tri_owner *owner)
{
    return tri_container_of(owner, tr_system, owner)->world;
}

static tr_err owner_on_closed(tri_owner *owner, void (*fn)(void *arg),
                              void *arg)
{
    return tr_system_on_closed(tri_container_of(owner, tr_system, owner), fn,
                               arg);
}

const tri_owner_ops tri_system_owner = {
    .world = owner_world,
    .on_closed = owner_on_closed,
};

_Static_assert(offsetof(tr_system, owner) == 0,
               "tri_owner_of takes a tr_system for its owner");
