/*
 * stores.c - which stores a system uses.
 *
 * Each is held from its first use until the system is gone, so that none can
 * be closed under the actors that save in it. A system has few of them: a
 * list will do.
 */
#include <stdlib.h>

#include "storage/storage.h"
#include "system/layers.h"

typedef struct tri_used_store {
    struct tri_used_store *next;
    tr_storage *storage;
} tri_used_store;

tr_err tri_store_use(tr_system *sys, tr_storage *storage)
{
    tri_layers *layers = tri_layers_of(sys);
    tr_err err = TR_OK;
    tri_lock_take(&layers->stores_lock);
    tri_used_store *used = layers->stores;
    while (used != NULL && used->storage != storage) {
        used = used->next;
    }
    if (used == NULL) {
        used = tri_mem_calloc(&sys->mem, sizeof(*used));
        if (used != NULL) {
            *used = (tri_used_store){layers->stores, storage};
            layers->stores = used;
            tri_storage_hold(storage);
        } else {
            err = TR_ENOMEM;
        }
    }
    tri_lock_drop(&layers->stores_lock);
    return err;
}

void tri_stores_leave(tr_system *sys)
{
    tri_layers *layers = tri_layers_of(sys);
    tri_lock_take(&layers->stores_lock);
    for (tri_used_store *used = layers->stores; used != NULL;
         used = used->next) {
        tri_storage_leave(used->storage);
    }
    tri_lock_drop(&layers->stores_lock);
}

void tri_stores_free(tr_system *sys)
{
    tri_layers *layers = tri_layers_of(sys);
    while (layers->stores != NULL) {
        tri_used_store *used = layers->stores;
        layers->stores = used->next;
        tri_storage_drop(used->storage);
        free(used);
    }
}
