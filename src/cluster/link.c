/*
 * link.c - systems of one process that are nodes for each other.
 *
 * Invariant: a system is entered only under the lock of its place, and
 * tri_link_attach takes that lock, so a system that was detached is not
 * touched any more and may be closed.
 */
#include "cluster/link.h"

#include <stdlib.h>

#include "base/lock.h"
#include "cluster/bus.h"

typedef struct place {
    tri_lock lock;
    tr_system *sys;
} place;

typedef struct memory_link {
    tri_transport base;  // first
    place places[TRI_DIRECTORY_NODES];
} memory_link;

static void carry(tri_transport *transport, uint32_t from, uint32_t to,
                  const void *bytes, size_t size)
{
    memory_link *link = (memory_link *)(void *)transport;
    (void)from;
    TRI_CHECK(to < TRI_DIRECTORY_NODES);
    place *at = &link->places[to];
    tri_lock_take(&at->lock);
    if (at->sys != NULL) {
        tri_bus_receive(at->sys, bytes, size);
    }
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
    memory_link *link = (memory_link *)(void *)transport;
    TRI_CHECK(node < TRI_DIRECTORY_NODES);
    tri_lock_take(&link->places[node].lock);
    link->places[node].sys = sys;
    tri_lock_drop(&link->places[node].lock);
}
