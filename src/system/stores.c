/*
 * stores.c - the stores that a system uses.
 *
 * Each is held from its first use until the system is gone, so that none can
 * be closed while actors save in it. A system has few of them, so a list is
 * enough.
 */
#include "system/stores.h"

#include <stddef.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/lock.h"
#include "base/owner.h"
#include "base/world.h"
#include "core/cell/mem.h"
#include "core/system.h"
#include "storage/storage.h"
#include "system/layers.h"
#include "troupe/system.h"

typedef struct tri_used_store {
    struct tri_used_store *next;
    tr_storage *storage;
} tri_used_store;

tr_err tri_store_use(tr_system *sys, tr_storage *storage)
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
            *used = (tri_used_store){stores->used, storage};
            stores->used = used;
            tri_storage_hold(storage);
        } else {
            err = TR_ENOMEM;
        }
    }
    tri_lock_drop(&stores->lock);
    return err;
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
