/*
 * view.h - what a node knows of the cluster as of one revision of the engine.
 *
 * A view lists the members and the owner of every shard. Views are totally
 * ordered by their revision, because every change of either is a commit of the
 * engine. A view is built once and never changes after it was published.
 *
 * Threads: any; a view that is being built belongs to its builder.
 * Ownership: shared, with tri_view_hold and tri_view_drop.
 */
#ifndef TRI_CLUSTER_VIEW_H
#define TRI_CLUSTER_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "cluster/virtual/shard.h"

enum {
    TRI_NODES_MAX = 1024,  // slots: numbers of nodes are below this
    TRI_NODE_NONE = UINT32_MAX,
    TRI_MEMBER_ADDRESS_MAX = 300,  // bytes, with the NUL
    TRI_MEMBER_KINDS_MAX = 1024,   // bytes of the list of kinds
};

/* One incarnation of a node; the next one in its slot is another node. */
typedef struct tri_node {
    uint32_t slot;
    uint64_t incarnation;  // revision of the engine when it joined
} tri_node;

typedef struct tri_member {
    uint64_t incarnation;  // 0: nobody has the slot
    bool is_leaving;       // gets no more shards
    bool is_client;        // never owns a shard
    char address[TRI_MEMBER_ADDRESS_MAX];
    char kinds[TRI_MEMBER_KINDS_MAX];  // that it hosts
} tri_member;

/* Who owns a shard. */
typedef struct tri_shard_owner {
    tri_node node;   // slot TRI_NODE_NONE: nobody, or a node that is dead
    uint64_t epoch;  // one more for each change of the owner
    uint32_t next;   // slot that the owner shall give it to; TRI_NODE_NONE
} tri_shard_owner;

typedef struct tri_view {
    _Atomic(uint32_t) holds;
    uint64_t revision;
    uint32_t slots;  // members[slot] is valid below this
    tri_shard_owner shards[TRI_SHARDS];
    tri_member members[];
} tri_view;

/*
 * Makes a view without members and owners that has room for that many slots;
 * the caller holds it. Returns NULL without memory.
 */
tri_view *tri_view_new(uint64_t revision, uint32_t slots);
tri_view *tri_view_hold(tri_view *view);
/* Frees the view with its last holder; NULL is fine. */
void tri_view_drop(tri_view *view);

/* True if this incarnation is a member. */
bool tri_view_has(const tri_view *view, tri_node node);
static inline bool tri_node_is(tri_node a, tri_node b)
{
    return a.slot == b.slot && a.incarnation == b.incarnation;
}

#endif
