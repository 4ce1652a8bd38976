/*
 * router.h - the plans by which living routers spawn their workers.
 *
 * Threads: any.
 */
#ifndef TRI_SYSTEM_ROUTER_H
#define TRI_SYSTEM_ROUTER_H

#include "base/list.h"
#include "base/lock.h"
#include "core/types.h"
#include "troupe/base.h"

/* Part of tri_layers. */
typedef struct tri_routers {
    tri_lock lock;   // a leaf, for the list
    tri_list plans;  // one for each living router
} tri_routers;

void tri_routers_init(tri_routers *routers);
/* Frees the plan of an actor that has ended, if it was a router. */
void tri_router_ended(tr_system *sys, tri_cell *cell);
void tri_routers_free(tr_system *sys);

#endif
