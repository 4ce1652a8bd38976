/*
 * hosts.c - which nodes host which kinds of virtual actors.
 *
 * A node names all of its kinds in its HELLO, and each kind that it hosts later
 * in a frame of its own. What a node hosts is forgotten when it is dead.
 */
#include "cluster/bus/hosts.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/map.h"
#include "cluster/bus/peer.h"
#include "cluster/transport/frame.h"
#include "cluster/transport/session.h"
#include "cluster/transport/wire.h"
#include "cluster/virtual/cluster.h"
#include "cluster/virtual/kind.h"
#include "core/cell/mem.h"
#include "core/system.h"
#include "system/reminders.h"
#include "system/system_log.h"
#include "troupe/base.h"
#include "troupe/observe.h"

static bool kind_is(const void *value, const void *key, size_t size)
{
    const tri_hosted_kind *kind = value;
    return strlen(kind->name) == size && memcmp(kind->name, key, size) == 0;
}

void tri_hosts_init(tri_bus *bus)
{
    tri_map_init(&bus->kinds, kind_is, NULL);
}

void tri_hosts_fini(tri_bus *bus)
{
    tri_hosted_kind *kind;
    TRI_CHECK(bus->closed);
    for (tri_map_iter it = tri_map_iter_begin(&bus->kinds);
         (kind = tri_map_iter_next(&bus->kinds, &it)) != NULL;) {
        free(kind);
    }
    tri_map_fini(&bus->kinds);
}

bool tri_hosts_add(tri_bus *bus, uint32_t slot, const char *name,
                   bool stateless, uint8_t placement)
{
    size_t size = strlen(name);
    TRI_CHECK(slot < TRI_NODES_MAX);
    tri_hosted_kind *kind = tri_map_get_bytes(&bus->kinds, name, size);
    if (kind == NULL) {
        kind = tri_mem_calloc(&bus->sys->mem, sizeof(*kind) + size + 1);
        if (kind != NULL) {
            memcpy(kind->name, name, size);
            if (tri_map_put_bytes(&bus->kinds, kind->name, size, kind) !=
                TR_OK) {
                free(kind);
                kind = NULL;
            }
        }
    }
    if (kind != NULL) {
        bus->hosts_changed |= !tri_slots_has(&kind->nodes, slot);
        tri_slots_add(&kind->nodes, slot);
        kind->stateless = stateless;
        kind->placement = placement;
    }
    if (kind == NULL) {
        tri_logf(bus->sys, TR_LOG_ERROR, NULL, NULL,
                 "out of memory: kind %s of node %u is not known", name, slot);
    }
    return kind != NULL;
}

void tri_hosts_forget_node(tri_bus *bus, uint32_t slot)
{
    tri_hosted_kind *kind;
    TRI_CHECK(slot < TRI_NODES_MAX);
    for (tri_map_iter it = tri_map_iter_begin(&bus->kinds);
         (kind = tri_map_iter_next(&bus->kinds, &it)) != NULL;) {
        tri_slots_remove(&kind->nodes, slot);
    }
    bus->hosts_changed = true;
}

/* Returns the lowest slot of all members that host the kind. */
static uint32_t first_host(tri_bus *bus, const tri_hosted_kind *hosted)
{
    uint32_t first = 0;
    while (first < bus->view->slots &&
           (bus->view->members[first].incarnation == 0 ||
            !tri_slots_has(&hosted->nodes, first))) {
        first++;
    }
    return first;
}

static const tri_hosted_kind *hosts_of(tri_bus *bus, const tri_kind *kind)
{
    return tri_map_get_bytes(&bus->kinds, kind->name, strlen(kind->name));
}

tri_slots tri_hosts_reminding(tri_bus *bus, uint32_t owner)
{
    tri_slots slots = {{0}};
    for (tri_kind *kind = tri_kind_first(bus->cluster); kind != NULL;
         kind = kind->next) {
        const tri_hosted_kind *hosted = hosts_of(bus, kind);
        if (hosted != NULL && !hosted->stateless) {
            uint32_t slot = tri_slots_has(&hosted->nodes, owner)
                                ? owner
                                : first_host(bus, hosted);
            if (slot < bus->view->slots) {
                tri_slots_add(&slots, slot);
            }
        }
    }
    return slots;
}

/* Sets whether this node takes the place of that owner; returns a change. */
static bool set_reminds_for(tri_kind *kind, uint32_t slot, bool ours)
{
    uint64_t bit = UINT64_C(1) << slot % 64;
    if (tri_kind_reminds_for(kind, slot) == ours) {
        return false;
    }
    // Relaxed: as in tri_kind_reminds_for; only the bus writes.
    if (ours) {
        atomic_fetch_or_explicit(&kind->reminds_for[slot / 64], bit,
                                 memory_order_relaxed);
    } else {
        atomic_fetch_and_explicit(&kind->reminds_for[slot / 64], ~bit,
                                  memory_order_relaxed);
    }
    return true;
}

/* Reviews one kind; returns true if something has changed. */
static bool review_kind(tri_bus *bus, tri_kind *kind)
{
    const tri_hosted_kind *hosted = hosts_of(bus, kind);
    bool changed = false;
    bool first = hosted != NULL && !hosted->stateless &&
                 first_host(bus, hosted) == bus->node.slot &&
                 tri_view_has(bus->view, bus->node);
    for (uint32_t i = 0; i < bus->view->slots; i++) {
        bool lacks = first && bus->view->members[i].incarnation != 0 &&
                     tri_hosts_has_told(bus, i) &&
                     !tri_slots_has(&hosted->nodes, i);
        changed |= set_reminds_for(kind, i, lacks);
    }
    return changed;
}

void tri_hosts_review(tri_bus *bus)
{
    TRI_CHECK(bus->ctx != NULL);
    bool changed = false;
    if (!bus->hosts_changed || bus->view == NULL) {
        return;
    }
    bus->hosts_changed = false;
    for (tri_kind *kind = tri_kind_first(bus->cluster); kind != NULL;
         kind = kind->next) {
        changed |= review_kind(bus, kind);
    }
    for (uint32_t i = 0; changed && i < TRI_SHARDS; i++) {
        tri_reminders_shard_changed(bus->sys, tri_bus_worker(bus), i);
    }
}

const tri_hosted_kind *tri_hosts_find(tri_bus *bus, const char *text)
{
    size_t at = strlen(bus->cluster->ns) + 2;
    return strlen(text) <= at  // another node has sent it: not a name
               ? NULL
               : tri_map_get_bytes(&bus->kinds, text + at,
                                   strcspn(text + at, "/"));
}

bool tri_hosts_has_told(tri_bus *bus, uint32_t slot)
{
    return slot == bus->node.slot ||
           (bus->peers[slot] != NULL && bus->peers[slot]->greeted);
}

tri_node tri_hosts_worker_node(tri_bus *bus, const char *text, size_t size)
{
    tri_node best = {.slot = TRI_NODE_NONE};
    uint64_t highest = 0;
    const tri_hosted_kind *kind = tri_hosts_find(bus, text);
    if (kind == NULL || !kind->stateless || bus->view == NULL) {
        return best;
    }
    for (uint32_t i = 0; i < bus->view->slots; i++) {
        uint64_t weight = tri_hash_mix(tri_hash_bytes(text, size) + i);
        if (tri_slots_has(&kind->nodes, i) && weight >= highest &&
            bus->view->members[i].incarnation != 0) {
            highest = weight;
            best.slot = i;
            best.incarnation = bus->view->members[i].incarnation;
        }
    }
    return best;
}

/* Tells a peer of the kinds that were added since it was told last. */
static bool announce_to(tri_bus *bus, tri_peer *peer, tri_kind *first)
{
    tri_kind *told = peer->announced;
    if (first == NULL && peer->session.next_number == 0) {
        // Greets: a node that hosts nothing says so in its HELLO.
        tri_writer w = tri_peer_frame(bus, TRI_FRAME_FLUSHED);
        tri_write_u32(&w, 0);
        tri_write_u64(&w, 0);
        return tri_peer_put_slot(bus, peer->node, &w);
    }
    for (tri_kind *kind = first; kind != NULL && kind != told;
         kind = kind->next) {
        tri_writer w = tri_peer_frame(bus, TRI_FRAME_KIND);
        tri_write_text(&w, kind->name);
        tri_write_u8(&w, kind->workers > 0);
        tri_write_u8(&w, kind->placement);
        if (!tri_peer_put_slot(bus, peer->node, &w)) {
            return false;  // all of them again: naming one twice is harmless
        }
    }
    peer->announced = first;
    return true;
}

bool tri_hosts_announce(tri_bus *bus)
{
    bool all = true;
    tri_kind *first = tri_kind_first(bus->cluster);
    for (tri_kind *kind = first; kind != NULL; kind = kind->next) {
        bool stateless = kind->workers > 0;
        all = tri_hosts_add(bus, bus->node.slot, kind->name, stateless,
                            kind->placement) &&
              all;
    }
    for (uint32_t i = 0; bus->view != NULL && i < bus->view->slots; i++) {
        tri_peer *peer = bus->view->members[i].incarnation != 0
                             ? tri_peer_get(bus, i)
                             : NULL;
        all = (peer == NULL || announce_to(bus, peer, first)) && all;
    }
    return all;
}
