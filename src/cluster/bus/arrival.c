/*
 * arrival.c - packets that arrive: whether they are taken, and by which session.
 */
#include "cluster/bus/arrival.h"

#include <stddef.h>

#include "base/check.h"
#include "cluster/bus/bus.h"
#include "cluster/bus/peer.h"
#include "cluster/membership/view.h"
#include "cluster/transport/packet.h"
#include "cluster/transport/session.h"

/*
 * A packet may be taken if its sender is a member, our view is as new as the
 * sender's and was acted on for all shards, and we have our lease. If not, the
 * packet comes again later.
 */
static tri_taken may_take(tri_bus *bus, const tri_packet *packet)
{
    uint64_t revision = bus->view != NULL ? bus->view->revision : 0;
    tri_node from = {.slot = packet->from, .incarnation = packet->incarnation};
    if (packet->revision > revision) {
        bus->up->refresh(bus->up_user, packet->revision);
        return TRI_TAKE_LATER;
    }
    if (bus->is_fenced || bus->view_left > 0) {
        return TRI_TAKE_LATER;
    }
    return bus->view != NULL && tri_view_has(bus->view, from)
               ? TRI_TAKEN
               : TRI_TAKE_REFUSED;
}

/* Takes a packet, from whoever it names as its sender. */
static tri_taken take_packet(tri_bus *bus, const tri_packet *packet)
{
    tri_taken taken = may_take(bus, packet);
    if (taken != TRI_TAKEN) {
        return taken;
    }
    tri_peer *peer = tri_peer_get(bus, packet->from);
    return peer != NULL &&
                   tri_session_receive(&peer->session, packet, tri_bus_now(bus))
               ? TRI_TAKEN
               : TRI_TAKE_LATER;
}

tri_taken tri_arrival_take(tri_bus *bus, tri_node from, const void *bytes,
                           size_t size)
{
    tri_packet packet;
    TRI_CHECK(bus->ctx != NULL);
    if (!tri_packet_read(&packet, bytes, size) || packet.to != bus->node.slot ||
        packet.from != from.slot || packet.incarnation != from.incarnation) {
        bus->counts.damaged++;
        return TRI_TAKE_REFUSED;
    }
    return take_packet(bus, &packet);
}

void tri_arrival_connected(tri_bus *bus, uint32_t slot)
{
    TRI_CHECK(bus->ctx != NULL && slot < TRI_NODES_MAX);
    tri_peer *peer = bus->peers[slot];
    if (peer != NULL) {
        tri_session_reconnected(&peer->session, tri_bus_now(bus));
    }
}

void tri_arrival_packet(tri_bus *bus, tr_bytes bytes)
{
    tri_packet packet;
    TRI_CHECK(bus->ctx != NULL);
    if (!tri_packet_read(&packet, bytes.at, bytes.size) ||
        packet.to != bus->node.slot) {
        bus->counts.damaged++;
    } else {
        (void)take_packet(bus, &packet);  // what is left comes again
    }
}
