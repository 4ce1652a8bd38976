/*
 * owner.h - what a store may ask of the system that owns it.
 *
 * A store that is opened with tr_storage_options.system lives in the world of
 * that system and is closed when the system has closed. The storage layer is
 * below the system layer and calls nothing of it, so every tr_system begins
 * with a tri_owner: the system layer fills it in when it opens a system, and
 * the storage layer calls through its table.
 *
 * Threads: any.
 */
#ifndef TRI_BASE_OWNER_H
#define TRI_BASE_OWNER_H

#include "base/check.h"
#include "base/world.h"

typedef struct tri_owner tri_owner;

typedef struct tri_owner_ops {
    /* Returns the world that the owner lives in. */
    tri_world *(*world)(tri_owner *owner);
    /*
     * Has fn(arg) called after the owner has closed; see tr_system_on_closed.
     * Errors: TR_ENOMEM.
     */
    tr_err (*on_closed)(tri_owner *owner, void (*fn)(void *arg), void *arg);
} tri_owner_ops;

/* The first member of every tr_system. */
struct tri_owner {
    uint64_t magic;  // TRI_OWNER_MAGIC while the system is open
    const tri_owner_ops *ops;
};

#define TRI_OWNER_MAGIC UINT64_C(0x6f776e5472a1d005)

/* Returns the owner in which a tr_system begins. */
static inline tri_owner *tri_owner_of(tr_system *sys)
{
    tri_owner *owner = (tri_owner *)(void *)sys;

    TRI_CHECK(owner->magic == TRI_OWNER_MAGIC);
    return owner;
}

#endif
