/*
 * peer.c - the other nodes: a session with each, and the frames that come.
 *
 * Invariant: the first frame of a stream is a HELLO with the namespace and the
 * kinds of its sender; message types are counted from there. A frame that there
 * is no memory for is not taken, and so comes again.
 */
#include "cluster/bus/peer.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/world.h"
#include "cluster/bus/hosted.h"
#include "cluster/bus/hosts.h"
#include "cluster/bus/incoming.h"
#include "cluster/bus/lane.h"
#include "cluster/bus/parcel.h"
#include "cluster/bus/relay.h"
#include "cluster/bus/remote_stop.h"
#include "cluster/bus/remote_watch.h"
#include "cluster/bus/wire_type.h"
#include "cluster/transport/packet.h"
#include "cluster/transport/transport.h"
#include "cluster/virtual/actor_id.h"
#include "cluster/virtual/cluster.h"
#include "cluster/virtual/kind.h"
#include "core/cell/mem.h"
#include "core/system.h"
#include "system/system_log.h"
#include "troupe/base.h"
#include "troupe/message.h"
#include "troupe/observe.h"

enum { KINDS_MAX = 4096 };  // kinds one peer may host

/* ---- what the session calls ---- */

static tri_peer *peer_of(tri_session *s)
{
    TRI_CHECK(((tri_peer *)(void *)s)->bus != NULL);
    return (tri_peer *)(void *)s;
}

static void on_send(tri_session *s, const tri_packet *packet)
{
    tri_bus *bus = peer_of(s)->bus;
    tri_writer w = {.mem = &bus->sys->mem};
    uint32_t times = TRI_BUGGIFY(bus->sys->world, 0.02) ? 2 : 1;
    tri_packet stamped = *packet;
    stamped.revision = bus->view != NULL ? bus->view->revision : 0;
    tri_packet_write(&w, &stamped);
    for (; !w.failed && times > 0; times--) {  // without memory it is repeated
        bus->transport->ops->send(bus->transport, packet->from, packet->to,
                                  w.bytes, w.size);
    }
    free(w.bytes);
}

/* Frames wait in the session while the connection is full, or missing. */
static bool on_has_room(tri_session *s)
{
    tri_transport *transport = peer_of(s)->bus->transport;
    return !tri_transport_has_turns(transport) ||
           transport->ops->has_room(transport, s->there);
}

static void forget_types(tri_peer *peer)
{
    TRI_CHECK(peer->in_count <= peer->in_room);
    for (uint32_t i = 0; i < peer->in_count; i++) {
        free(peer->in_types[i].name);
        free(peer->in_types[i].table);
    }
    peer->in_count = 0;
}

static void write_hello(tri_bus *bus, tri_writer *w)
{
    tri_write_text(w, bus->cluster->ns);
    tri_write_text(w, bus->address);
    tri_kind *first = tri_kind_first(bus->cluster);
    uint32_t count = 0;
    for (tri_kind *kind = first; kind != NULL; kind = kind->next) {
        count++;
    }
    tri_write_u32(w, count);
    for (tri_kind *kind = first; kind != NULL; kind = kind->next) {
        tri_write_text(w, kind->name);
        tri_write_u8(w, kind->workers > 0);
        tri_write_u8(w, kind->placement);
    }
}

static bool on_begin(tri_session *s)
{
    tri_peer *peer = peer_of(s);
    TRI_CHECK(s->next_number != 0);
    tri_map_fini(&peer->out_types);
    peer->out_count = 0;
    peer->announced = tri_kind_first(peer->bus->cluster);
    tri_writer w = tri_peer_frame(peer->bus, TRI_FRAME_HELLO);
    write_hello(peer->bus, &w);
    // Without the HELLO there is no stream: types are counted from there.
    return tri_peer_put_slot(peer->bus, peer->node, &w);
}

static void on_done(tri_session *s, void *tag, bool received, bool sent)
{
    if (tag != NULL) {
        tri_parcel_done(peer_of(s)->bus, tag, received, sent);
    }
}

static void on_lost(tri_session *s)
{
    tri_peer *peer = peer_of(s);
    peer->bus->counts.lost_streams++;
    peer->announced = NULL;
}

/* ---- frames that come ---- */

/*
 * Handles the first frame of a stream. Returns false without memory: then it
 * comes again, and everything below is done again.
 */
static bool on_hello(tri_bus *bus, tri_peer *peer, tri_reader *r)
{
    bool noted = true;
    char ns[TRI_ACTOR_ID_MAX + 1], name[TRI_ACTOR_ID_MAX + 1];
    char address[TRI_MEMBER_ADDRESS_MAX];
    tri_read_text(r, ns, TRI_ACTOR_ID_MAX);
    tri_read_text(r, address, sizeof(address) - 1);
    uint32_t count = tri_read_u32(r);
    forget_types(peer);
    tri_hosts_forget_node(bus, peer->node);
    peer->refused =
        r->failed || count > KINDS_MAX || strcmp(ns, bus->cluster->ns) != 0;
    if (peer->refused) {
        tri_logf(
            bus->sys, TR_LOG_ERROR, NULL, NULL,
            "node %u (%s) belongs to namespace \"%s\", not \"%s\": refused",
            peer->node, address, ns, bus->cluster->ns);
        return true;
    }
    for (; count > 0 && !r->failed && noted; count--) {
        tri_read_text(r, name, TRI_ACTOR_ID_MAX);
        bool stateless = tri_read_u8(r) != 0;
        uint8_t placement = tri_read_u8(r);
        if (!r->failed) {
            noted = tri_hosts_add(bus, peer->node, name, stateless, placement);
        }
    }
    peer->greeted = noted;
    bus->hosts_changed = true;
    return noted;
}

static bool on_kind(tri_bus *bus, tri_peer *peer, tri_reader *r)
{
    char name[TRI_ACTOR_ID_MAX + 1];
    tri_read_text(r, name, TRI_ACTOR_ID_MAX);
    bool stateless = tri_read_u8(r) != 0;
    uint8_t placement = tri_read_u8(r);
    return r->failed ||
           tri_hosts_add(bus, peer->node, name, stateless, placement);
}

/* Handles a frame after the first. Returns false if it cannot be taken now. */
static bool dispatch(tri_bus *bus, tri_peer *peer, tri_frame_kind kind,
                     tri_reader *r)
{
    switch (kind) {
    case TRI_FRAME_KIND:
        return on_kind(bus, peer, r);
    case TRI_FRAME_TYPE:
        return tri_wire_type_on_declaration(bus, peer, r);
    case TRI_FRAME_MESSAGE:
    case TRI_FRAME_RELAYED:
    case TRI_FRAME_RETURNED:
        return tri_incoming_message(bus, peer, kind, r);
    case TRI_FRAME_HOSTED_ENDED:
        tri_relay_on_ended(bus, peer, r);
        break;
    case TRI_FRAME_HOSTED_CLEAR:
        tri_hosted_on_clear(bus, peer, r);
        break;
    case TRI_FRAME_REMINDER:
        tri_hosted_on_reminder(bus, r);
        break;
    case TRI_FRAME_HOSTED_CONFIRM:
        tri_hosted_on_confirm(bus, peer, r);
        break;
    case TRI_FRAME_HOSTED_GONE:
        tri_relay_on_gone(bus, peer, r);
        break;
    case TRI_FRAME_FLUSH:
        return tri_lane_on_marker(bus, peer, r);
    case TRI_FRAME_FLUSHED:
        tri_lane_on_flushed(bus, r);
        break;
    case TRI_FRAME_CONTROL:
        return tri_remote_stop_on_frame(bus, peer, r);
    default:
        return tri_remote_watch_on_frame(bus, peer, kind, r);
    }
    return true;
}

static bool on_take(tri_session *s, tr_bytes frame)
{
    tri_peer *peer = peer_of(s);
    tri_bus *bus = peer->bus;
    tri_reader r = {.at = frame.at,
                    .end = (const unsigned char *)frame.at + frame.size};
    tri_frame_kind kind = (tri_frame_kind)tri_read_u8(&r);
    if (TRI_BUGGIFY(bus->sys->world, 0.01)) {
        return false;  // as if there were no memory: it comes again
    }
    if (kind == TRI_FRAME_HELLO) {
        return on_hello(bus, peer, &r);
    }
    bus->frame_from = peer->node;
    bool taken = (peer->refused && kind != TRI_FRAME_MESSAGE) ||
                 dispatch(bus, peer, kind, &r);
    bus->frame_from = TRI_NODE_NONE;
    return taken;
}

/* ---- peers ---- */

tri_peer *tri_peer_get(tri_bus *bus, uint32_t node)
{
    static const tri_session_ops ops = {.send = on_send,
                                        .take = on_take,
                                        .done = on_done,
                                        .lost = on_lost,
                                        .begin = on_begin,
                                        .has_room = on_has_room};
    TRI_CHECK(bus != NULL);
    if (node >= TRI_NODES_MAX || node == bus->node.slot) {
        return NULL;
    }
    tri_peer *peer = bus->peers[node];
    if (peer == NULL) {
        peer = tri_mem_calloc(&bus->sys->mem, sizeof(*peer));
        if (peer != NULL) {
            tri_session_init(&peer->session, &ops, &bus->sys->mem,
                             bus->node.slot, bus->node.incarnation, node);
            peer->session.is_connected_way =
                tri_transport_has_turns(bus->transport);
            tri_map_init(&peer->out_types, NULL, NULL);
            peer->bus = bus;
            peer->node = node;
            bus->peers[node] = peer;
        }
    }
    return peer;
}

tri_writer tri_peer_frame(tri_bus *bus, tri_frame_kind kind)
{
    TRI_CHECK(kind >= TRI_FRAME_HELLO && kind <= TRI_FRAME_ENDED);
    tri_writer w = {.mem = &bus->sys->mem};
    tri_write_u8(&w, (uint8_t)kind);
    return w;
}

bool tri_peer_put_slot(tri_bus *bus, uint32_t slot, tri_writer *w)
{
    tri_node node = {.slot = slot};
    if (bus->view != NULL && slot < bus->view->slots) {
        node.incarnation = bus->view->members[slot].incarnation;
    }
    return tri_peer_put(bus, node, w, NULL);
}

bool tri_peer_put(tri_bus *bus, tri_node node, tri_writer *w, void *tag)
{
    bool known = bus->view != NULL && tri_view_has(bus->view, node);
    tri_peer *peer = known ? tri_peer_get(bus, node.slot) : NULL;
    bool put = peer != NULL && !w->failed &&
               tri_session_put(&peer->session, w->bytes, w->size, tag) == TR_OK;
    free(w->bytes);
    w->bytes = NULL;
    // A frame for a node that is dead has nowhere to go.
    return put || (!known && tag == NULL);
}

tri_node tri_peer_node(const tri_peer *peer)
{
    return (tri_node){.slot = peer->node,
                      .incarnation = peer->session.in_incarnation};
}

void tri_peer_dead(tri_peer *peer, uint64_t incarnation)
{
    tri_session_peer_gone(&peer->session, incarnation);
    peer->refused = peer->greeted = false;
}

void tri_peer_free(tri_peer *peer)
{
    if (peer != NULL) {
        tri_session_fini(&peer->session);
        tri_map_fini(&peer->out_types);
        forget_types(peer);
        free(peer->in_types);
        free(peer);
    }
}
