/*
 * bus_view.c - acts on a new view: members that are dead, owners of shards.
 *
 * Nodes get views at different times, but all in the same order. A node takes
 * nothing from a peer whose view is newer than its own (bus.c). So what a peer
 * sends because it knows of a death arrives where the death is known, too.
 *
 * The members of a view are acted on at once, its shards some in each turn
 * (turn_budget.h). Each lane changes in one step, so every one of them is as in
 * this view or as in an earlier one, which other nodes have to cope with anyway.
 * Until all are as in this view, no packet is taken: a peer that has the view,
 * too, may have sent mail to the new owner of a shard, here, which must not go
 * to the old one.
 *
 * Invariant: a node that is not in bus->view has no session, no lane leads to
 * it, and no watch waits for it.
 */
#include "cluster/bus/bus_view.h"

#include <stdatomic.h>
#include <stddef.h>

#include "base/check.h"
#include "cluster/bus/call.h"
#include "cluster/bus/hosts.h"
#include "cluster/bus/lane.h"
#include "cluster/bus/parcel.h"
#include "cluster/bus/peer.h"
#include "cluster/bus/relay.h"
#include "cluster/bus/remote_watch.h"
#include "cluster/bus/turn_budget.h"
#include "cluster/membership/view.h"
#include "cluster/transport/session.h"
#include "cluster/transport/transport.h"
#include "cluster/virtual/shard.h"
#include "system/system_log.h"
#include "troupe/observe.h"

/* Puts parcels that a dead node has not got into their lanes again. */
static void take_back(tri_bus *bus)
{
    TRI_CHECK(bus->ctx != NULL);
    while (bus->given_back != NULL) {  // the newest first
        tri_parcel *p = bus->given_back;
        bus->given_back = p->next;
        p->next = NULL;
        if (!tri_relay_put_back(bus, p)) {
            tri_lane_put_back(bus, p->shard, p);
        }
    }
}

static void node_dead(tri_bus *bus, tri_node node)
{
    TRI_CHECK(node.slot < TRI_NODES_MAX && node.slot != bus->node.slot);
    tri_peer *peer = bus->peers[node.slot];
    tri_logf(bus->sys, TR_LOG_WARN, NULL, NULL, "node %u (%llu) is gone",
             node.slot, (unsigned long long)node.incarnation);
    tri_hosts_forget_node(bus, node.slot);
    tri_call_node_lost(bus, node);
    if (peer != NULL) {
        tri_peer_dead(peer, node.incarnation);
    }
    take_back(bus);
    tri_call_end_lost(bus);
    tri_relay_node_dead(bus, node);
    tri_lane_node_dead(bus, node);
    tri_remote_watch_node_dead(bus, node);
}

static void bury_dead(tri_bus *bus, const tri_view *before)
{
    for (uint32_t i = 0; before != NULL && i < before->slots; i++) {
        tri_node node = {.slot = i,
                         .incarnation = before->members[i].incarnation};
        if (node.incarnation != 0 && !tri_view_has(bus->view, node) &&
            i != bus->node.slot) {
            node_dead(bus, node);
        }
    }
}

static void set_owner(tri_bus *bus, uint32_t shard)
{
    const tri_shard_owner *owner = &bus->view->shards[shard];
    if (owner->epoch > bus->owners[shard].epoch) {
        tri_turn_budget_spend(bus, 1);
        tri_lane_set_owner(bus, shard, owner);
    } else {
        tri_lane_review(bus, shard);
    }
    if (tri_node_is(owner->node, bus->node)) {
        if (owner->next != TRI_NODE_NONE) {
            tri_lane_drain(bus, shard);
        } else {
            tri_lane_keep(bus, shard);
        }
    }
}

/* Acts on the owners of the shards that are left, within the turn's budget. */
static void set_owners(tri_bus *bus)
{
    TRI_CHECK(bus->view_left == 0 || bus->view != NULL);
    while (bus->view_left > 0 && tri_turn_budget_is_left(bus)) {
        uint32_t shard = bus->view_at;
        bus->view_at = (shard + 1) % TRI_SHARDS;
        bus->view_left--;
        set_owner(bus, shard);
    }
}

/* Ends what leads to other nodes, and begins anew as `node`. */
static void go_on_as(tri_bus *bus, tri_node node)
{
    tri_hosts_forget_node(bus, bus->node.slot);
    bus->node = node;
    for (uint32_t i = 0; i < TRI_NODES_MAX; i++) {
        tri_peer *peer = bus->peers[i];
        if (peer != NULL) {
            tri_call_node_lost(bus, tri_peer_node(peer));
        }
        if (peer != NULL && i != node.slot) {
            tri_session_restart(&peer->session, node.slot, node.incarnation);
        } else if (peer != NULL) {  // its slot is ours now: it is dead
            tri_peer_dead(peer, node.incarnation);
            tri_peer_free(peer);
            bus->peers[i] = NULL;
        }
    }
    take_back(bus);
    tri_call_end_lost(bus);
    tri_lane_restart(bus);  // sends: what was given back goes first
}

static void tell_transport(tri_bus *bus)
{
    if (tri_transport_has_turns(bus->transport)) {
        bus->transport->ops->members_changed(bus->transport, bus);
    }
}

/* Acts on the loss of the lease, or on another incarnation of this node. */
static void act_on_node(tri_bus *bus)
{
    // Acquire: pairs with tri_bus_set_node.
    uint64_t word =
        atomic_exchange_explicit(&bus->next_node, 0, memory_order_acquire);
    if (word == 0) {
        return;
    }
    tri_lane_close_all(bus);
    tri_node node = {.slot = (uint32_t)(word % TRI_NODES_MAX),
                     .incarnation = word / TRI_NODES_MAX};
    if (node.incarnation > bus->node.incarnation) {
        go_on_as(bus, node);
        tell_transport(bus);
    }
}

/* Takes a newer view, if there is one, and acts on its members. */
static void take_view(tri_bus *bus)
{
    // Acquire: pairs with tri_bus_set_view.
    tri_view *view =
        atomic_exchange_explicit(&bus->next_view, NULL, memory_order_acquire);
    if (view == NULL) {
        return;
    }
    tri_view *before = bus->view;
    if (before != NULL && view->revision <= before->revision) {
        tri_view_drop(view);
        return;
    }
    bus->view = view;
    if (!tri_view_has(view, bus->node)) {
        tri_lane_close_all(bus);  // the others take this node for dead
    }
    bury_dead(bus, before);
    bus->view_left = TRI_SHARDS;
    tri_view_drop(before);
    // Relaxed: our own turn. New members have to know what we host.
    atomic_store_explicit(&bus->announce, true, memory_order_relaxed);
    tell_transport(bus);
}

void tri_bus_view_act(tri_bus *bus)
{
    TRI_CHECK(bus->ctx != NULL);
    act_on_node(bus);
    take_view(bus);
    set_owners(bus);
}
