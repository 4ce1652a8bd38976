/*
 * bus_join.c - makes a system a node of a namespace.
 *
 * Invariant: a system has its bus from tri_bus_join on, before its first
 * activation, until its memory is freed. The actor of the bus ends earlier;
 * then `closed` is set.
 */
#include "cluster/bus/bus_join.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/map.h"
#include "base/wheel.h"
#include "base/world.h"
#include "cluster/bus/bus.h"
#include "cluster/bus/hosts.h"
#include "cluster/bus/lane.h"
#include "cluster/bus/node.h"
#include "cluster/virtual/cluster.h"
#include "cluster/virtual/shard.h"
#include "core/ask/error_text.h"
#include "core/caller.h"
#include "core/cell/mem.h"
#include "core/system.h"
#include "troupe/message.h"

static tr_err refuse(const char *why)
{
    tri_error_set(NULL, "cannot join: %s", why);
    return TR_EINVAL;
}

/* Closes all shards, before any other thread sees the bus. */
static void close_shards(tri_cluster *cluster)
{
    TRI_CHECK(tri_bus_of(cluster) == NULL);
    for (uint32_t i = 0; i < TRI_SHARDS; i++) {
        tri_lock_take(&cluster->shards[i].lock);
        cluster->shards[i].is_open = false;
        tri_lock_drop(&cluster->shards[i].lock);
    }
}

static tri_bus *bus_new(tri_cluster *cluster, const tri_bus_options *o)
{
    tr_system *sys = cluster->sys;
    TRI_CHECK(o->node.incarnation != 0 && o->node.slot < TRI_NODES_MAX);
    tri_bus *bus = tri_mem_calloc(&sys->mem, sizeof(*bus));
    tri_lane *lanes =
        bus != NULL ? tri_mem_calloc(&sys->mem, TRI_SHARDS * sizeof(*lanes))
                    : NULL;
    if (lanes == NULL) {
        free(bus);
        return NULL;
    }
    bus->lanes = lanes;
    for (uint32_t i = 0; i < TRI_SHARDS; i++) {
        bus->owners[i].node.slot = TRI_NODE_NONE;
        lanes[i].to.slot = lanes[i].marker_to.slot = TRI_NODE_NONE;
        tri_link_init(&lanes[i].link);
        tri_link_init(&lanes[i].stopping);
        tri_list_init(&lanes[i].relays);
        tri_list_init(&lanes[i].hosted);
    }
    for (uint32_t i = 0; i < TRI_NODES_MAX; i++) {
        tri_list_init(&bus->placed_on[i].relays);
    }
    tri_list_init(&bus->waiting);
    tri_list_init(&bus->stopping);
    tri_list_init(&bus->relays_nowhere);
    tri_list_init(&bus->hosted_untold);
    bus->cluster = cluster;
    bus->sys = sys;
    bus->transport = o->transport;
    bus->up = o->up;
    bus->up_user = o->up_user;
    bus->node = o->node;
    // An answer to an earlier incarnation may come to this one. Numbers begin
    // far from those of other incarnations, so that it matches nothing.
    bus->next_number = tri_hash_mix(o->node.incarnation);
    bus->frame_from = TRI_NODE_NONE;
    bus->timer_due = TR_FOREVER;
    snprintf(bus->address, sizeof(bus->address), "%s",
             o->address != NULL ? o->address : "");
    tri_hosts_init(bus);
    tri_map_init(&bus->calls, NULL, NULL);
    tri_map_init(&bus->requests, NULL, NULL);
    tri_map_init(&bus->watched, NULL, NULL);
    tri_map_init(&bus->relays, NULL, NULL);
    tri_map_init(&bus->hosted, NULL, NULL);
    tri_wheel_init(&bus->wheel, sys->world->ops->mono(sys->world));
    return bus;
}

static tr_err join(tri_caller *who, const tri_bus_options *o)
{
    tri_cluster *cluster;
    TR_TRY(tri_cluster_get(who, &cluster));
    // Relaxed: joining comes before any use.
    if (atomic_load_explicit(&cluster->activations, memory_order_relaxed) > 0) {
        return refuse("virtual actors have been active already");
    }
    if (tri_bus_of(cluster) != NULL) {
        return TR_EEXIST;
    }
    tri_bus *bus = bus_new(cluster, o);
    if (bus == NULL) {
        return TR_ENOMEM;
    }
    close_shards(cluster);
    bus->self = tri_bus_spawn(who, bus);
    if (bus->self.cell == 0) {
        tr_err err = tr_ref_err(bus->self);
        free(bus->lanes);
        free(bus);
        return err == TR_ESTOPPED ? TR_ECLOSED : err;
    }
    // Release: publishes the bus; pairs with tri_bus_of.
    atomic_store_explicit(&cluster->bus, bus, memory_order_release);
    return TR_OK;
}

tr_err tri_bus_join(tr_system *sys, const tri_bus_options *o)
{
    TRI_CHECK(sys->magic == TRI_SYSTEM_MAGIC);
    tri_node_id id;
    const char *why;
    if (o->transport == NULL || o->up == NULL || o->node.incarnation == 0 ||
        o->node.slot >= TRI_NODES_MAX) {
        return refuse("no transport, no membership, or no such node");
    }
    if (o->address != NULL && tri_node_parse(&id, o->address, &why) != TR_OK) {
        return refuse(why);
    }
    tri_caller who = tri_enter((tr_from){.sys = sys});
    tr_err err = join(&who, o);
    tri_leave(&who);
    return err;
}
