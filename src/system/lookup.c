/*
 * lookup.c - the addresses of a name, asked for on a thread for blocking calls.
 */
#include "system/lookup.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/address.h"
#include "base/check.h"
#include "base/world.h"
#include "core/cell/mem.h"
#include "core/system.h"
#include "troupe/actor.h"

enum { ADDRESSES_MAX = 8 };  // of one name that are tried

/* The addresses of a name. Shared by the turn and the thread that asks. */
typedef struct lookup {
    _Atomic(uint32_t) holders;
    tri_world *world;
    tr_err err;
    uint32_t count;
    char name[TRI_STREAM_ADDRESS_MAX];
    char found[ADDRESSES_MAX][TRI_STREAM_ADDRESS_MAX];
} lookup;

static void lookup_drop(lookup *it)
{
    // Acquire and release: the last holder frees what both have written.
    if (atomic_fetch_sub_explicit(&it->holders, 1, memory_order_acq_rel) == 1) {
        free(it);
    }
}

static void lookup_ask(lookup *it)
{
    it->err = it->world->ops->resolve(it->world, it->name, it->found,
                                      ADDRESSES_MAX, &it->count);
}

static tr_err lookup_on_thread(void *arg)
{
    lookup_ask(arg);
    lookup_drop(arg);
    return TR_OK;
}

/* Asks on a thread for blocking calls. The turn may leave before the answer. */
static tr_err lookup_in_turn(tr_ctx *ctx, lookup *it)
{
    // Relaxed: the thread does not know it yet.
    atomic_store_explicit(&it->holders, 2, memory_order_relaxed);
    tr_err err = tr_blocking(ctx, lookup_on_thread, it);
    if (err == TR_ENOMEM || err == TR_ELIMIT) {
        lookup_drop(it);  // the thread's: the call has not begun
    }
    return err;
}

/* Looks a name up. The caller drops *out, which is NULL on an error. */
static tr_err lookup_new(tr_ctx *ctx, tr_system *sys, const char *name,
                         lookup **out)
{
    *out = NULL;
    lookup *it = tri_mem_calloc(&sys->mem, sizeof(*it));
    if (it == NULL) {
        return TR_ENOMEM;
    }
    // Relaxed: no other thread knows it yet.
    atomic_store_explicit(&it->holders, 1, memory_order_relaxed);
    it->world = sys->world;
    (void)snprintf(it->name, sizeof(it->name), "%s", name);
    tr_err err = TR_OK;
    if (ctx != NULL && sys->world->ops->has_threads) {
        err = lookup_in_turn(ctx, it);
    } else {
        lookup_ask(it);
    }
    if (err == TR_OK) {
        err = it->err;
    }
    if (err != TR_OK) {
        lookup_drop(it);
        return err;
    }
    *out = it;
    return TR_OK;
}

tr_err tri_lookup_each(tr_ctx *ctx, tr_system *sys, const char *address,
                       tri_address_fn fn, void *arg)
{
    tri_address parts;
    lookup *names;
    TRI_CHECK(address != NULL);
    tr_err err = fn(arg, address);
    if (err != TR_EINVAL || tri_address_split(address, &parts) != TR_OK ||
        parts.is_unix) {
        return err;
    }
    TR_TRY(lookup_new(ctx, sys, address, &names));
    for (uint32_t i = 0; i < names->count; i++) {
        err = fn(arg, names->found[i]);
        if (err == TR_OK) {
            break;
        }
    }
    lookup_drop(names);
    return err;
}
