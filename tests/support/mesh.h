/*
 * mesh.h - several systems that are nodes of one cluster.
 *
 * Over the in-memory link, on threads or in a simulated world, or over the
 * simulated network, where links misbehave.
 */
#ifndef TEST_SUPPORT_MESH_H
#define TEST_SUPPORT_MESH_H

#include <troupe/troupe.h>

#include "cluster/bus.h"
#include "sim/sim_net.h"

enum { MESH_MAX = 8 };

typedef struct mesh {
    tri_transport base;  // over `net`
    tr_sim *sim;         // NULL: threads
    tri_sim_net *net;    // NULL: `link`
    tri_transport *link;
    uint32_t nodes;
    uint64_t life;              // of the next that joins
    const tri_bus_view *views;  // that it joins with, borrowed
    uint32_t view_count;
    tr_system *systems[MESH_MAX];
} mesh;

/* For systems that others open and join. net: over the simulated network. */
void mesh_init(mesh *m, tr_sim *sim, uint32_t nodes, bool net);
void mesh_fini(mesh *m);
/* sys is node `index` from now on. */
tr_err mesh_join(mesh *m, uint32_t index, tr_system *sys);
void mesh_leave(mesh *m, uint32_t index);
/* Opens all of them; seed 0: on threads. */
void mesh_open(mesh *m, uint64_t seed, uint32_t nodes, bool net);
void mesh_close(mesh *m);

#endif
