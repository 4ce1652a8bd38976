/*
 * bus_peer.h - what the files of the bus itself ask of each other.
 *
 * Threads: the turns of the bus, except where said.
 */
#ifndef TRI_CLUSTER_BUS_PEER_H
#define TRI_CLUSTER_BUS_PEER_H

#include "cluster/bus.h"

/* ---- bus.c ---- */

/* Begins the actor; of nobody on an error. Before the bus is known. */
tr_ref tri_bus_spawn(tri_actor_from *who, tri_bus *bus);

/* ---- bus_kind.c ---- */

void tri_bus_kinds_init(tri_bus *bus);
/* The node hosts that kind. False: no memory. */
bool tri_bus_kind_note(tri_bus *bus, uint32_t node, const char *name,
                       bool stateless);
/* The node hosts nothing, for all that is known. */
void tri_bus_kinds_forget(tri_bus *bus, uint32_t node);
/*
 * All nodes hear of all that is hosted here, each of each kind once: what one
 * of them has no room for is no reason to tell the others again. False: no
 * memory or no room, not all.
 */
bool tri_bus_announce(tri_bus *bus);

/* ---- bus_peer.c ---- */

/* Or NULL. With the system's end. */
void tri_bus_peer_free(tri_peer *peer);

#endif
