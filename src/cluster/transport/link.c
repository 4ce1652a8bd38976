/*
 * link.c - a transport between systems of one process.
 *
 * Invariant: `users` counts the threads that deliver to the slot's system.
 * tri_link_attach takes the system out and waits until users is 0, so a system
 * that was detached is not touched any more and may be closed. Packets are
 * delivered without the lock.
 */
#include "cluster/transport/link.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/lock.h"
#include "cluster/bus/bus.h"
#include "cluster/membership/view.h"

/* Where the packets of one node go. */
typedef struct slot {
    tri_lock lock;
    tr_system *sys;  // NULL: packets are dropped
    uint32_t users;
} slot;

typedef struct memory_link {
    tri_transport base;  // first
    slot slots[TRI_NODES_MAX];
} memory_link;

static slot *slot_of(tri_transport *transport, uint32_t node)
{
    TRI_CHECK(transport != NULL);
    TRI_CHECK(node < TRI_NODES_MAX);
    return &((memory_link *)(void *)transport)->slots[node];
}

static void carry(tri_transport *transport, uint32_t from, uint32_t to,
                  const void *bytes, size_t size)
{
    (void)from;
    slot *at = slot_of(transport, to);
    tri_lock_take(&at->lock);
    tr_system *sys = at->sys;
    at->users += sys != NULL;
    tri_lock_drop(&at->lock);
    if (sys == NULL) {
        return;
    }
    tri_bus_receive(sys, bytes, size);
    tri_lock_take(&at->lock);
    TRI_CHECK(at->users > 0);
    at->users--;
    tri_lock_drop(&at->lock);
}

tr_err tri_link_new(tri_transport **out)
{
    static const tri_transport_ops ops = {.send = carry};
    memory_link *link = calloc(1, sizeof(*link));
    *out = NULL;
    if (link == NULL) {
        return TR_ENOMEM;
    }
    link->base.ops = &ops;
    *out = &link->base;
    return TR_OK;
}

void tri_link_free(tri_transport *link)
{
    free(link);
}

void tri_link_attach(tri_transport *transport, uint32_t node, tr_system *sys)
{
    slot *at = slot_of(transport, node);
    tri_lock_take(&at->lock);
    at->sys = NULL;
    while (at->users > 0) {
        tri_lock_drop(&at->lock);
        tri_lock_yield();
        tri_lock_take(&at->lock);
    }
    at->sys = sys;
    tri_lock_drop(&at->lock);
}
