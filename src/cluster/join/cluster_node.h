/*
 * cluster_node.h - a system as a node: its membership, transport and bus.
 *
 * The membership (membership.h) says who lives and who owns which shard; the
 * bus (bus.h) carries messages by that; the transport (connections.h) connects
 * the nodes. The node makes them, passes news between them, and ends them.
 *
 * Threads: any, except where said.
 * Ownership: the cluster owns its node.
 */
#ifndef TRI_CLUSTER_JOIN_CLUSTER_NODE_H
#define TRI_CLUSTER_JOIN_CLUSTER_NODE_H

#include <stdbool.h>

#include "base/lock.h"
#include "cluster/membership/membership.h"
#include "cluster/membership/view.h"
#include "cluster/transport/transport.h"
#include "cluster/virtual/cluster.h"
#include "troupe/base.h"

typedef struct tri_cluster_node {
    tr_system *sys;
    tri_cluster *cluster;
    tri_membership *membership;
    tri_transport *transport;
    tr_nanos lease;
    tri_view *told;   // whose members were published; the membership's thread
    tri_lock lock;    // a leaf, for the next two
    tri_node self;    // incarnation 0: not a member now
    bool has_bus;     // the bus is told of news
    tri_node of_bus;  // as the bus was told; the membership's thread
} tri_cluster_node;

typedef struct tri_cluster_node_options {
    tr_engine *engine;
    const char *listen;     // "tcp://host:port"
    const char *advertise;  // "host:port"; NULL: where it listens
    bool is_client;
    tr_nanos lease, timeout;
} tri_cluster_node_options;

/* Returns the node of a system; NULL: it has not joined. */
tri_cluster_node *tri_cluster_node_of(tr_system *sys);

/*
 * Makes the cluster's system a node; waits until it is up. Not in a handler.
 * Errors, with a text: as tr_cluster_join.
 */
TR_NODISCARD tr_err tri_cluster_node_open(tri_cluster *cluster,
                                          const tri_cluster_node_options *o);
/* Copies the incarnation that this node is now. */
tri_node tri_cluster_node_self(tri_cluster_node *it);

/* ---- functions of tri_virtual_ops ---- */

void tri_cluster_node_hand_over(tr_system *sys, tr_nanos deadline);
void tri_cluster_node_leave(tr_system *sys, tr_nanos deadline);

/* ---- the end of the system: no other thread uses it any more ---- */

/* Ends the membership, before the bus is freed. */
void tri_cluster_node_stop(tri_cluster *cluster);
/* Frees the node, after the bus. */
void tri_cluster_node_free(tri_cluster *cluster);

#endif
