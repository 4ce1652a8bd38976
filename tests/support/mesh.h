/*
 * mesh.h - several systems that are nodes of one cluster.
 *
 * They are connected by the in-memory link, on threads or in a simulated
 * world, or by the simulated network, whose links have faults. The mesh plays
 * the membership: it has the newest view, and a test decides when each node is
 * told of it.
 */
#ifndef TEST_SUPPORT_MESH_H
#define TEST_SUPPORT_MESH_H

#include <troupe/troupe.h>

#include "base/lock.h"
#include "cluster/bus/bus.h"
#include "cluster/bus/bus_join.h"
#include "cluster/membership/view.h"
#include "cluster/transport/link.h"
#include "sim/sim_net.h"

enum { MESH_MAX = 8 };

struct mesh;

/* What a node's bus calls. */
typedef struct mesh_node {
    struct mesh *mesh;
    uint32_t index;
    _Atomic(bool) has_no_lease;  // set by a test
} mesh_node;

typedef struct mesh {
    tri_transport base;  // over `net`
    tr_sim *sim;         // NULL: threads
    tri_sim_net *net;    // NULL: `link`
    tri_transport *link;
    uint32_t nodes;
    bool quiet;  // a new view is told by mesh_tell only
    tr_system *systems[MESH_MAX];
    mesh_node each[MESH_MAX];
    tri_lock lock;  // guards the rest
    uint64_t revision;
    uint64_t incarnations[MESH_MAX];  // of members; 0: none
    tri_shard_owner shards[TRI_SHARDS];
} mesh;

/* For systems that the caller opens. net: over the simulated network. */
void mesh_init(mesh *m, tr_sim *sim, uint32_t nodes, bool net);
void mesh_fini(mesh *m);
/*
 * Makes sys node `index`, a new incarnation. It gets the shards that nobody
 * owns and whose number is `index` modulo the number of nodes.
 */
tr_err mesh_join(mesh *m, uint32_t index, tr_system *sys);
/* Takes the system out; nobody is told of it. */
void mesh_leave(mesh *m, uint32_t index);
/* The node is not a member any more; its shards have no owner. */
void mesh_dead(mesh *m, uint32_t index);
/* The node, which was taken for dead, goes on as another incarnation. */
void mesh_rejoin(mesh *m, uint32_t index);
/*
 * Gives a shard to a node: at once if it has no owner, else its owner is asked
 * to hand it over.
 */
void mesh_move(mesh *m, uint32_t shard, uint32_t to);
/* Tells a node, or all, of the newest view. */
void mesh_tell(mesh *m, uint32_t index);
void mesh_tell_all(mesh *m);
/* Opens all systems and joins them; seed 0: on threads. */
void mesh_open(mesh *m, uint64_t seed, uint32_t nodes, bool net);
/* Checks the invariants of all nodes; on threads it does nothing. */
void mesh_check(mesh *m);
void mesh_close(mesh *m);

#endif
