/*
 * hosts.h - which nodes host which kinds of virtual actors.
 *
 * Threads: the turns of the bus, except where said.
 */
#ifndef TRI_CLUSTER_HOSTS_H
#define TRI_CLUSTER_HOSTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cluster/bus/bus.h"
#include "cluster/membership/view.h"

/* A set of slots. */
typedef struct tri_slots {
    uint64_t bits[TRI_NODES_MAX / 64];
} tri_slots;

static inline bool tri_slots_has(const tri_slots *set, uint32_t slot)
{
    return slot < TRI_NODES_MAX && (set->bits[slot / 64] >> slot % 64 & 1);
}

static inline void tri_slots_add(tri_slots *set, uint32_t slot)
{
    TRI_CHECK(slot < TRI_NODES_MAX);
    set->bits[slot / 64] |= UINT64_C(1) << slot % 64;
}

static inline void tri_slots_remove(tri_slots *set, uint32_t slot)
{
    TRI_CHECK(slot < TRI_NODES_MAX);
    set->bits[slot / 64] &= ~(UINT64_C(1) << slot % 64);
}

typedef struct tri_hosted_kind {
    tri_slots nodes;  // that host it
    bool stateless;
    uint8_t placement;  // tr_placement
    char name[];
} tri_hosted_kind;

void tri_hosts_init(tri_bus *bus);
void tri_hosts_fini(tri_bus *bus);
/*
 * Returns a member that hosts the stateless kind of an actor, always the same
 * one for a name while the members stay; slot TRI_NODE_NONE if there is none or
 * the kind is not stateless.
 */
tri_node tri_hosts_worker_node(tri_bus *bus, const char *text, size_t size);
/* Returns what is known of the kind of an actor, or NULL. */
const tri_hosted_kind *tri_hosts_find(tri_bus *bus, const char *text);
/* True if the node has told which kinds it hosts. */
bool tri_hosts_has_told(tri_bus *bus, uint32_t slot);
/* Notes that the node hosts the kind. Returns false without memory. */
bool tri_hosts_add(tri_bus *bus, uint32_t slot, const char *name,
                   bool stateless, uint8_t placement);
/*
 * Finds out, if hosts or owners have changed, for which owners this node
 * delivers reminders: of kinds that they do not host and of which this node is
 * the first host.
 */
void tri_hosts_review(tri_bus *bus);
/*
 * Returns the slots of the members that deliver reminders of kinds hosted here
 * in shards of that owner: itself, or who takes its place.
 */
tri_slots tri_hosts_reminding(tri_bus *bus, uint32_t owner);
/* Forgets what the node hosts. */
void tri_hosts_forget_node(tri_bus *bus, uint32_t slot);
/*
 * Tells all members which kinds this one hosts, each of each kind once. Returns
 * false if some could not be told: no memory or no room in a queue.
 */
bool tri_hosts_announce(tri_bus *bus);

#endif
