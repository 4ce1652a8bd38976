/*
 * bus_peer.c - the other nodes: a session with each, and what comes from it.
 *
 * Invariant: whoever has sent something has said hello on the same stream
 * before, with its namespace and what it hosts; types are counted from there.
 * An item there is no memory for is not taken, and so comes again.
 */
#include "cluster/bus_peer.h"

#include "base/log.h"
#include "system/layers.h"

/* ---- what a session asks of us ---- */

static tri_peer *peer_of(tri_session *s)
{
    return (tri_peer *)(void *)s;
}

static void on_send(tri_session *s, const tri_packet *packet)
{
    tri_bus *bus = peer_of(s)->bus;
    tri_writer w = {.mem = &bus->sys->mem};
    uint32_t times = TRI_BUGGIFY(bus->sys->world, 0.02) ? 2 : 1;
    tri_packet_write(&w, packet);
    for (; !w.failed && times > 0; times--) {  // else it is sent again
        bus->transport->ops->send(bus->transport, packet->from, packet->to,
                                  w.bytes, w.size);
    }
    free(w.bytes);
}

static void forget_types(tri_peer *peer)
{
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
    tri_lock_take(&bus->cluster->kinds_lock);
    uint32_t count = tri_map_count(&bus->cluster->kinds);
    tri_write_u32(w, count);
    for (tri_kind *kind = bus->cluster->first_kind; kind != NULL;
         kind = kind->next) {
        tri_write_text(w, kind->name);
        tri_write_u8(w, kind->workers > 0);
    }
    tri_lock_drop(&bus->cluster->kinds_lock);
}

static bool on_begin(tri_session *s)
{
    tri_peer *peer = peer_of(s);
    tri_map_fini(&peer->out_types);
    peer->out_count = 0;
    tri_writer w = tri_bus_item(peer->bus, TRI_ITEM_HELLO);
    write_hello(peer->bus, &w);
    // Without it there is no stream: types are counted from it on.
    return tri_bus_put(peer->bus, peer->node, &w, NULL);
}

static void on_done(tri_session *s, void *tag, bool received, bool sent)
{
    if (tag != NULL) {
        tri_parcel_done(peer_of(s)->bus, tag, received, sent);
    }
}

static void on_lost(tri_session *s, bool goodbye)
{
    tri_peer *peer = peer_of(s);
    tri_bus *bus = peer->bus;
    bus->counts.lost_streams++;
    if (goodbye || !peer->lost) {
        tri_logf(bus->sys, TR_LOG_WARN, NULL, NULL, "node %u %s", peer->node,
                 goodbye ? "has left" : "cannot be reached");
    }
    peer->lost = true;
    if (goodbye) {  // before anybody asks where to go now
        peer->hello_life = 0;
        bus->greet_owed &= ~(UINT64_C(1) << peer->node);
        tri_bus_kinds_forget(bus, peer->node);
        tri_directory_forget(&bus->cluster->directory, peer->node);
    }
    tri_call_lost(bus, peer->node);
    tri_route_lost(bus, peer->node, goodbye);
}

/*
 * It is there, and no stream of ours leads to it: the last one was given up,
 * or was its earlier life's. It may not know what we host.
 */
static void greet_back(tri_bus *bus, tri_peer *peer)
{
    if (peer->session.next_number == 0) {
        bus->greet_owed |= UINT64_C(1) << peer->node;
    }
}

/*
 * What was lost is there again. Of a life that has not greeted, or has left,
 * we do not know what it hosts: it says hello first. One that has greeted
 * does not do it again, unless it has lost us, too.
 */
static void on_heard(tri_session *s, uint64_t life)
{
    tri_peer *peer = peer_of(s);
    if (peer->lost && peer->hello_life == life) {
        peer->lost = false;
        greet_back(peer->bus, peer);
        tri_route_claim_again(peer->bus, peer->node);
        tri_logf(peer->bus->sys, TR_LOG_INFO, NULL, NULL,
                 "node %u is there again", peer->node);
    }
}

/* ---- what comes in ---- */

/* False: no memory. It may come again, and begins anew. */
static bool on_hello(tri_bus *bus, tri_peer *peer, tri_reader *r)
{
    bool noted = true;
    char ns[TRI_ID_MAX + 1], name[TRI_ID_MAX + 1], address[300];
    tri_read_text(r, ns, TRI_ID_MAX);
    tri_read_text(r, address, sizeof(address) - 1);
    uint32_t count = tri_read_u32(r);
    forget_types(peer);
    tri_bus_kinds_forget(bus, peer->node);
    peer->greeted = true;
    peer->lost = false;
    if (peer->hello_life == peer->session.in_life) {
        // In another stream: it has given up the last one, and with it what
        // we had asked for, or has been told that we were dead.
        tri_watch_again(bus, peer->node);
    } else {
        tri_watch_left(bus, peer->node);
    }
    tri_route_claim_again(bus, peer->node);  // or an earlier life got them
    peer->hello_life = peer->session.in_life;
    tri_directory_set_life(&bus->cluster->directory, peer->node,
                           peer->hello_life);
    peer->refused = r->failed || count > TRI_KIND_NAMES_MAX ||
                    strcmp(ns, bus->cluster->ns) != 0;
    if (peer->refused) {
        tri_logf(bus->sys, TR_LOG_ERROR, NULL, NULL,
                 "node %u (%s) is of namespace \"%s\", not \"%s\": refused",
                 peer->node, address, ns, bus->cluster->ns);
        return true;
    }
    greet_back(bus, peer);
    for (; count > 0 && !r->failed && noted; count--) {
        tri_read_text(r, name, TRI_ID_MAX);
        bool stateless = tri_read_u8(r) != 0;
        if (!r->failed) {
            noted = tri_bus_kind_note(bus, peer->node, name, stateless);
        }
    }
    peer->greeted = noted;  // else it may host what is asked for
    return noted;
}

static bool on_kind_item(tri_bus *bus, tri_peer *peer, tri_reader *r)
{
    char name[TRI_ID_MAX + 1];
    tri_read_text(r, name, TRI_ID_MAX);
    bool stateless = tri_read_u8(r) != 0;
    return r->failed || tri_bus_kind_note(bus, peer->node, name, stateless);
}

static bool on_take(tri_session *s, tr_bytes item)
{
    tri_peer *peer = peer_of(s);
    tri_bus *bus = peer->bus;
    tri_reader r = {.at = item.at,
                    .end = (const unsigned char *)item.at + item.size};
    tri_item kind = (tri_item)tri_read_u8(&r);
    if (TRI_BUGGIFY(bus->sys->world, 0.01)) {
        return false;  // as if there were no memory: it comes again
    }
    if (kind == TRI_ITEM_HELLO) {
        return on_hello(bus, peer, &r);
    }
    if (peer->refused && kind != TRI_ITEM_MESSAGE) {
        return true;
    }
    switch (kind) {
    case TRI_ITEM_KIND:
        return on_kind_item(bus, peer, &r);
    case TRI_ITEM_TYPE:
        return tri_call_type(bus, peer, &r);
    case TRI_ITEM_MESSAGE:
        return tri_call_message(bus, peer, &r);
    case TRI_ITEM_PLACE:
        return tri_route_place(bus, peer, &r);
    case TRI_ITEM_PLACED:
        tri_route_placed(bus, peer, &r);
        break;
    case TRI_ITEM_CLAIM:
        return tri_route_claim(bus, peer, &r);
    case TRI_ITEM_CLAIMED:
        tri_route_claimed(bus, peer, &r);
        break;
    case TRI_ITEM_GONE:
        tri_route_gone(bus, peer, &r);
        break;
    case TRI_ITEM_MOVED:
        tri_route_moved(bus, peer, &r);
        break;
    case TRI_ITEM_FLUSH:
        return tri_route_flush(bus, peer, &r);
    case TRI_ITEM_FLUSHED:
        tri_route_flushed(bus, peer, &r);
        break;
    default:
        return tri_watch_item(bus, peer, kind, &r);
    }
    return true;
}

/* ---- peers ---- */

tri_peer *tri_bus_peer(tri_bus *bus, uint32_t node)
{
    static const tri_session_ops ops = {.send = on_send,
                                        .take = on_take,
                                        .done = on_done,
                                        .lost = on_lost,
                                        .begin = on_begin,
                                        .heard = on_heard};
    if (node >= bus->nodes || node == bus->here) {
        return NULL;
    }
    tri_peer *peer = bus->peers[node];
    if (peer == NULL) {
        peer = tri_mem_calloc(&bus->sys->mem, sizeof(*peer));
        if (peer != NULL) {
            tri_session_init(&peer->session, &ops, &bus->sys->mem, bus->here,
                             bus->life, node);
            tri_map_init(&peer->out_types, NULL, NULL);
            peer->bus = bus;
            peer->node = node;
            bus->peers[node] = peer;
        }
    }
    return peer;
}

bool tri_bus_put(tri_bus *bus, uint32_t node, tri_writer *w, void *tag)
{
    tri_peer *peer = tri_bus_peer(bus, node);
    bool put = peer != NULL && !w->failed &&
               tri_session_put(&peer->session, w->bytes, w->size, tag,
                               tri_bus_now(bus)) == TR_OK;
    free(w->bytes);
    w->bytes = NULL;
    return put;
}

bool tri_bus_put_mail(tri_bus *bus, uint32_t node, tri_writer *w, void *tag)
{
    tri_peer *peer = tri_bus_peer(bus, node);
    if (peer != NULL && tri_session_is_full(&peer->session)) {
        free(w->bytes);
        w->bytes = NULL;
        return false;
    }
    return tri_bus_put(bus, node, w, tag);
}

bool tri_bus_greet(tri_bus *bus, uint32_t node)
{
    tri_writer w = tri_bus_item(bus, TRI_ITEM_FLUSHED);
    tri_write_u64(&w, 0);
    tri_write_u64(&w, 0);
    tri_write_u8(&w, 0);
    return tri_bus_put(bus, node, &w, NULL);
}

void tri_bus_peer_free(tri_peer *peer)
{
    if (peer != NULL) {
        tri_session_fini(&peer->session);
        tri_map_fini(&peer->out_types);
        forget_types(peer);
        free(peer->in_types);
        free(peer);
    }
}
