/*
 * connections.c - a transport over streams: one connection to each other node.
 *
 * Invariants:
 * - A connection is in `all` until it is closed. `slots[i].open` is the one
 *   that leads to slot i, and is OPEN.
 * - A connection that this node has dialled is in `slots[i].dialled` of the
 *   slot that it leads to, until it is closed.
 */
#include "cluster/transport/connections.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "cluster/bus/arrival.h"
#include "cluster/bus/bus.h"
#include "cluster/membership/view.h"
#include "cluster/transport/connection.h"
#include "cluster/transport/packet.h"
#include "cluster/transport/wire.h"
#include "cluster/virtual/actor_id.h"
#include "core/cell/mem.h"
#include "core/system.h"
#include "system/io.h"
#include "system/system_log.h"
#include "troupe/observe.h"

#define GREETING_MAGIC UINT32_C(0x45505254)  // "TRPE"
#define GREETING_WAIT  TR_SECONDS(5)         // until both greetings have come
#define PING           TR_SECONDS(1)  // without writes, by who has dialled
#define REDIAL_FIRST   TR_MS(20)      // after a failure; then it doubles
#define REDIAL_MAX     TR_SECONDS(1)

enum {
    BACKLOG = 128,
    STRANGERS_MAX = 128,        // accepted connections without a greeting
    GREETING_MAX = 512,         // bytes
    WAITING_MAX = 1024 * 1024,  // bytes queued for one node
    READS_MAX = 2,  // of one connection in a turn, 64 KiB each: about 3 ms
};

/* The way to one slot. */
typedef struct way {
    tri_connection *open;     // or NULL
    tri_connection *dialled;  // by this node; NULL: none, or not yet
    tr_nanos redial_at;
    tr_nanos pause;  // until the next one, after a failure
} way;

typedef struct connections {
    tri_transport base;  // first
    tr_system *sys;
    tri_io *io;
    const char *ns;           // borrowed from the cluster
    tri_stream *listener;     // NULL: closed
    tri_waiter waiter;        // of the listener
    _Atomic(bool) is_called;  // the listener's waiter was
    bool is_armed;
    tri_node node;         // this one; incarnation 0: not known yet
    const tri_view *view;  // borrowed from the bus
    tri_list all;          // tri_connection.link
    uint32_t strangers;    // of those: accepted, without a greeting
    bool has_more;         // some connection has more to read now
    bool is_blocked;       // a frame is taken, or a stream accepted, later
    way slots[TRI_NODES_MAX];
} connections;

static connections *of(tri_transport *transport)
{
    TRI_CHECK(transport != NULL);
    return (connections *)(void *)transport;
}

static const tri_world_ops *ops_of(const connections *it)
{
    return it->sys->world->ops;
}

static bool is_stranger(const tri_connection *c)
{
    return !c->is_dialled && c->peer.slot == TRI_NODE_NONE;
}

/* ---- closing ---- */

/* Closes a connection. A failure makes the next dial wait. */
static void end(connections *it, tri_connection *c, tr_nanos now)
{
    TRI_CHECK(tri_link_is_linked(&c->link));
    if (c->peer.slot != TRI_NODE_NONE) {
        way *to = &it->slots[c->peer.slot];
        to->open = to->open == c ? NULL : to->open;
        if (to->dialled == c) {
            to->dialled = NULL;
            to->redial_at = now + to->pause;
            to->pause = to->pause * 2 < REDIAL_MAX ? to->pause * 2 : REDIAL_MAX;
        }
    }
    it->strangers -= is_stranger(c);
    tri_list_remove(&c->link);
    tri_connection_close(c);
}

static void end_all(connections *it, tr_nanos now)
{
    TRI_LIST_EACH_SAFE (link, &it->all) {
        end(it, tri_list_item(link, tri_connection, link), now);
    }
}

/* ---- greetings ---- */

static void greet(connections *it, tri_connection *c, tri_node to)
{
    TRI_CHECK(c->state == TRI_CONNECTION_GREETING);
    TRI_CHECK(it->node.incarnation != 0);
    tri_writer w = {.mem = &it->sys->mem};
    tri_write_u32(&w, GREETING_MAGIC);
    tri_write_u8(&w, TRI_WIRE_VERSION);
    tri_write_u32(&w, it->node.slot);
    tri_write_u64(&w, it->node.incarnation);
    tri_write_u32(&w, to.slot);
    tri_write_u64(&w, to.incarnation);
    tri_write_text(&w, it->ns);
    if (w.failed) {
        tri_connection_break(c, TR_ENOMEM);
    } else {
        tri_connection_put(c, w.bytes, w.size);
    }
    free(w.bytes);
}

/* Logs why a peer is refused, and breaks its connection. */
static void refuse(connections *it, tri_connection *c, const char *why)
{
    char address[TRI_STREAM_ADDRESS_MAX];
    ops_of(it)->stream_address(c->stream, true, address);
    tri_logf(it->sys, TR_LOG_WARN, NULL, NULL,
             "a connection with %s is refused: %s", address, why);
    tri_connection_break(c, TR_EINVAL);
}

/* Reads a greeting. Returns NULL, or why it is refused. */
static const char *read_greeting(connections *it, tri_connection *c,
                                 tr_bytes frame, tri_node *from)
{
    tri_reader r = {.at = frame.at,
                    .end = (const unsigned char *)frame.at + frame.size};
    char ns[TRI_ACTOR_ID_MAX + 1];
    tri_node to;
    if (frame.size > GREETING_MAX || tri_read_u32(&r) != GREETING_MAGIC) {
        return "it is not a node of Troupe";
    }
    if (tri_read_u8(&r) != TRI_WIRE_VERSION) {
        return "it speaks another version";
    }
    from->slot = tri_read_u32(&r);
    from->incarnation = tri_read_u64(&r);
    to.slot = tri_read_u32(&r);
    to.incarnation = tri_read_u64(&r);
    tri_read_text(&r, ns, TRI_ACTOR_ID_MAX);
    if (r.failed || from->slot >= TRI_NODES_MAX || from->incarnation == 0) {
        return "its greeting is damaged";
    }
    if (strcmp(ns, it->ns) != 0) {
        return "it belongs to another namespace";
    }
    if (!tri_node_is(to, it->node)) {
        return "it means another incarnation of this node";
    }
    if (c->is_dialled ? !tri_node_is(*from, c->peer)
                      : from->incarnation <= it->node.incarnation) {
        return "it is not the node that was expected";
    }
    return NULL;
}

/* The greeting of a connection has come: it is open. */
static void on_greeting(connections *it, tri_bus *bus, tri_connection *c,
                        tr_bytes frame)
{
    TRI_CHECK(c->state == TRI_CONNECTION_GREETING);
    tri_node from;
    const char *why = read_greeting(it, c, frame, &from);
    if (why == NULL && !c->is_dialled) {
        const tri_connection *other = it->slots[from.slot].open;
        if (other != NULL && other->peer.incarnation > from.incarnation) {
            why = "a younger node has its slot";
        }
    }
    if (why != NULL) {
        refuse(it, c, why);
        return;
    }
    tri_connection_next(c);
    way *to = &it->slots[from.slot];
    if (to->open != NULL) {  // the other side has lost it already
        end(it, to->open, tri_bus_now(bus));
    }
    it->strangers -= is_stranger(c);
    c->peer = from;
    to->open = c;
    to->pause = REDIAL_FIRST;
    if (!c->is_dialled) {
        greet(it, c, from);
    }
    tri_connection_set_state(c, TRI_CONNECTION_OPEN, tri_bus_now(bus));
    tri_arrival_connected(bus, from.slot);
}

/* ---- receiving ---- */

/* Gives the bus the frames that have come. */
static void take_frames(connections *it, tri_bus *bus, tri_connection *c)
{
    tr_bytes frame;
    c->is_blocked = false;
    while (!c->is_blocked && tri_connection_peek(c, &frame)) {
        if (c->state == TRI_CONNECTION_GREETING) {
            on_greeting(it, bus, c, frame);
            continue;
        }
        switch (tri_arrival_take(bus, c->peer, frame.at, frame.size)) {
        case TRI_TAKEN:
            tri_connection_next(c);
            break;
        case TRI_TAKE_LATER:
            c->is_blocked = true;
            break;
        case TRI_TAKE_REFUSED:
            tri_connection_break(c, TR_EINVAL);
            break;
        }
    }
}

static void receive_from(connections *it, tri_bus *bus, tri_connection *c)
{
    if (c->is_dialled && c->state == TRI_CONNECTION_CONNECTING) {
        tri_connection_step(c, tri_bus_now(bus));
        if (c->state == TRI_CONNECTION_GREETING) {
            greet(it, c, c->peer);
        }
    }
    for (uint32_t i = 0; i < READS_MAX; i++) {
        take_frames(it, bus, c);
        if (c->is_blocked) {
            return;
        }
        tri_connection_read(c);
        if (!c->has_more) {
            return;
        }
    }
    take_frames(it, bus, c);
}

/* The waiter of the listener, on the poller's thread. */
static void on_dialled(tri_waiter *waiter)
{
    connections *it = tri_container_of(waiter, connections, waiter);
    // Release: pairs with accept_all.
    atomic_store_explicit(&it->is_called, true, memory_order_release);
    tri_bus_wake(it->sys);
}

static void accept_one(connections *it, tri_stream *stream, tr_nanos now)
{
    tri_connection *c = it->strangers < STRANGERS_MAX
                            ? tri_connection_new(it->sys, stream, false, now)
                            : NULL;
    if (c != NULL) {
        tri_list_push_back(&it->all, &c->link);
        it->strangers++;
    } else if (it->strangers >= STRANGERS_MAX) {
        ops_of(it)->stream_close(stream);
    }
}

static void accept_all(connections *it, tr_nanos now)
{
    // Acquire: pairs with on_dialled.
    if (it->listener == NULL ||
        (it->is_armed &&
         !atomic_load_explicit(&it->is_called, memory_order_acquire))) {
        return;
    }
    it->is_armed = false;
    for (uint32_t i = 0; i < BACKLOG; i++) {
        tri_stream *stream;
        tr_err err = ops_of(it)->stream_accept(it->listener, &stream);
        if (err == TR_OK) {
            accept_one(it, stream, now);
            continue;
        }
        // Relaxed: no waiter is armed.
        atomic_store_explicit(&it->is_called, false, memory_order_relaxed);
        if (err != TR_EWOULDBLOCK) {  // no descriptor is left: later
            it->is_blocked = true;
            return;
        }
        if (ops_of(it)->stream_wait(it->listener, TRI_FD_READ, &it->waiter) ==
            TRI_ARMED) {
            it->is_armed = true;
            return;
        }
    }
    it->has_more = true;  // more may wait in the queue
}

static void receive(tri_transport *transport, tri_bus *bus)
{
    connections *it = of(transport);
    tr_nanos now = tri_bus_now(bus);
    it->has_more = it->is_blocked = false;
    accept_all(it, now);
    // A greeting may end another connection, but never the one that it came
    // on: the next link is read after it.
    for (tri_link *link = tri_list_first(&it->all), *next; link != NULL;
         link = next) {
        tri_connection *c = tri_list_item(link, tri_connection, link);
        receive_from(it, bus, c);
        it->has_more |= c->has_more && !c->is_blocked;
        it->is_blocked |= c->is_blocked;
        next = tri_list_next(&it->all, link);
    }
}

/* ---- dialling ---- */

static void dial(connections *it, uint32_t slot, tr_nanos now)
{
    TRI_CHECK(slot < it->view->slots && it->slots[slot].dialled == NULL);
    const tri_member *member = &it->view->members[slot];
    way *to = &it->slots[slot];
    char address[TRI_MEMBER_ADDRESS_MAX + 8];
    tri_stream *stream;
    (void)snprintf(address, sizeof(address), "tcp://%s", member->address);
    to->redial_at = now + to->pause;
    if (ops_of(it)->stream_connect(it->io->poller, &stream, address) != TR_OK) {
        return;
    }
    tri_connection *c = tri_connection_new(it->sys, stream, true, now);
    if (c != NULL) {
        c->peer = (tri_node){slot, member->incarnation};
        to->dialled = c;
        tri_list_push_back(&it->all, &c->link);
    }
}

/* True if this node dials that member: it is older. */
static bool is_ours_to_dial(const connections *it, uint32_t slot)
{
    uint64_t incarnation = it->view->members[slot].incarnation;
    return incarnation != 0 && incarnation < it->node.incarnation;
}

/* Dials the members that are missing. Returns when it is to be done again. */
static tr_nanos dial_all(connections *it, tr_nanos now)
{
    tr_nanos due = TR_FOREVER;
    for (uint32_t i = 0; it->view != NULL && i < it->view->slots; i++) {
        way *to = &it->slots[i];
        if (!is_ours_to_dial(it, i) || to->dialled != NULL) {
            continue;
        }
        if (now >= to->redial_at) {
            dial(it, i, now);
        }
        if (to->dialled == NULL) {
            due = to->redial_at < due ? to->redial_at : due;
        }
    }
    return due;
}

/* True if the peer of a connection is no member any more. */
static bool is_gone(const connections *it, const tri_connection *c)
{
    return it->view != NULL && c->peer.slot != TRI_NODE_NONE &&
           c->peer.incarnation <= it->view->revision &&
           !tri_view_has(it->view, c->peer);
}

static void members_changed(tri_transport *transport, tri_bus *bus)
{
    TRI_CHECK(bus->node.incarnation != 0);
    connections *it = of(transport);
    tr_nanos now = tri_bus_now(bus);
    it->view = bus->view;
    if (!tri_node_is(it->node, bus->node)) {
        it->node = bus->node;
        end_all(it, now);
        for (uint32_t i = 0; i < TRI_NODES_MAX; i++) {
            it->slots[i] = (way){.pause = REDIAL_FIRST};
        }
    }
    TRI_LIST_EACH_SAFE (link, &it->all) {
        tri_connection *c = tri_list_item(link, tri_connection, link);
        if (is_gone(it, c)) {
            it->slots[c->peer.slot].pause = REDIAL_FIRST;
            end(it, c, now);
        }
    }
}

/* ---- sending ---- */

static void put(tri_transport *transport, uint32_t from, uint32_t to,
                const void *bytes, size_t size)
{
    connections *it = of(transport);
    TRI_CHECK(from == it->node.slot && to < TRI_NODES_MAX);
    if (it->slots[to].open != NULL) {  // else it is sent when there is one
        tri_connection_put(it->slots[to].open, bytes, size);
    }
}

static bool has_room(tri_transport *transport, uint32_t to)
{
    TRI_CHECK(to < TRI_NODES_MAX);
    const tri_connection *c = of(transport)->slots[to].open;
    return c != NULL && tri_connection_waiting(c) < WAITING_MAX;
}

/* Writes, pings, and gives up what takes too long. Returns when it is due. */
static tr_nanos flush_one(tri_connection *c, tr_nanos now)
{
    tr_nanos due = TR_FOREVER;
    if (c->state == TRI_CONNECTION_OPEN && c->is_dialled) {
        if (now - c->written >= PING && tri_connection_waiting(c) == 0) {
            tri_connection_put(c, NULL, 0);
        }
        due = (now - c->written >= PING ? now : c->written) + PING;
    }
    tri_connection_write(c, now);
    if (c->state < TRI_CONNECTION_OPEN) {
        if (now - c->since >= GREETING_WAIT) {
            tri_connection_break(c, TR_ETIMEDOUT);
        }
        due = c->since + GREETING_WAIT;
    }
    return due;
}

static tr_nanos flush(tri_transport *transport, tr_nanos now)
{
    connections *it = of(transport);
    tr_nanos due = it->has_more     ? now
                   : it->is_blocked ? now + TRI_BUS_RETRY
                                    : TR_FOREVER;
    TRI_LIST_EACH_SAFE (link, &it->all) {
        tri_connection *c = tri_list_item(link, tri_connection, link);
        tr_nanos at = flush_one(c, now);
        if (c->state == TRI_CONNECTION_BROKEN) {
            end(it, c, now);
        } else {
            due = at < due ? at : due;
        }
    }
    tr_nanos again = dial_all(it, now);
    return again < due ? again : due;
}

/* ---- opening and closing ---- */

static void close_all(tri_transport *transport)
{
    connections *it = of(transport);
    end_all(it, 0);
    it->view = NULL;
    if (it->listener != NULL) {
        if (it->is_armed) {
            // If its call is on its way it only wakes a bus that has ended.
            (void)ops_of(it)->stream_cancel(it->listener, TRI_FD_READ,
                                            &it->waiter);
        }
        ops_of(it)->stream_close(it->listener);
        it->listener = NULL;
    }
}

static const tri_transport_ops connections_ops = {
    .send = put,
    .receive = receive,
    .flush = flush,
    .has_room = has_room,
    .members_changed = members_changed,
    .close = close_all,
};

tr_err tri_connections_open(tri_transport **out, tr_system *sys, const char *ns,
                            const char *address,
                            char bound[TRI_STREAM_ADDRESS_MAX])
{
    TRI_CHECK(sys->magic == TRI_SYSTEM_MAGIC);
    *out = NULL;
    connections *it = tri_mem_calloc(&sys->mem, sizeof(*it));
    if (it == NULL) {
        return TR_ENOMEM;
    }
    it->base.ops = &connections_ops;
    it->sys = sys;
    it->ns = ns;
    it->waiter.fn = on_dialled;
    tri_list_init(&it->all);
    for (uint32_t i = 0; i < TRI_NODES_MAX; i++) {
        it->slots[i].pause = REDIAL_FIRST;
    }
    tr_err err = tri_io_need(sys, &it->io);
    if (err == TR_OK) {
        err = tri_io_watch(it->io);
    }
    if (err == TR_OK) {
        err = ops_of(it)->stream_listen(it->io->poller, &it->listener, address,
                                        BACKLOG);
    }
    if (err != TR_OK) {
        free(it);
        return err;
    }
    ops_of(it)->stream_address(it->listener, false, bound);
    *out = &it->base;
    return TR_OK;
}

void tri_connections_free(tri_transport *transport)
{
    if (transport != NULL) {
        close_all(transport);
        free(of(transport));
    }
}
