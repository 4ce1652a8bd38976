/*
 * bus_flush.c - an actor has moved: a marker follows what was sent before.
 *
 * What is sent now must not go straight to the new place while older messages
 * are still on their way through the old one. So it waits until a marker that
 * was sent behind them has come to where they are (docs/design/0011).
 *
 * Invariant: a route that is FLUSHING has one marker under way, found by its
 * token, and a timer; in no circle of markers that wait for each other do all
 * of them wait.
 */
#include "cluster/bus_route.h"

/* How a marker is answered. */
enum {
    FLUSHED_ALL,   // what was before it is in a mailbox here, or nowhere
    FLUSHED_SINK,  // it waits here, and will be active here
    FLUSHED_JOIN,  // it waits here, and goes on when the way is clear
};

/* A marker has come to where the messages before it are. Takes p. */
static void answer_flush(tri_bus *bus, tri_parcel *p, uint64_t number,
                         uint8_t how)
{
    if (p->origin != bus->here) {
        tri_writer w = tri_bus_item(bus, TRI_ITEM_FLUSHED);
        tri_write_u64(&w, p->token);
        tri_write_u64(&w, number);
        tri_write_u8(&w, how);
        (void)tri_bus_put(bus, p->origin, &w, NULL);
    }
    tri_parcel_free(bus, p);
}

void tri_flush_here(tri_bus *bus, tri_parcel *p)
{
    tri_shard *shard = &bus->cluster->shards[p->v->shard];
    tri_lock_take(&shard->lock);
    uint64_t here = p->v->route != NULL ? p->v->route->here : 0;
    tri_lock_drop(&shard->lock);
    answer_flush(bus, p, here, FLUSHED_ALL);
}

/* It will be active here; not so of one that only gathers what is its own. */
static bool is_sink(tri_bus *bus, const tri_route *r)
{
    return r->next_place.node == bus->here &&
           r->next_place.number != TRI_NUMBER_NONE;
}

/*
 * Two nodes may follow their messages through each other, each holding the
 * other's marker: one must give way. It is the one that has heard of the
 * older place; of two that have heard of the same, the one where the actor
 * will not be; else the one with the larger number. So in no circle of such
 * waits do all of them wait. And both judge alike, so that never both give
 * way: each would send on, past the other's, what has come to it.
 */
static bool goes_first(tri_bus *bus, const tri_route *r, uint32_t node,
                       uint64_t number)
{
    if (r->next_place.number != number) {
        return r->next_place.number > number;
    }
    if (number != TRI_NUMBER_NONE &&
        (r->next_place.node == bus->here || r->next_place.node == node)) {
        return r->next_place.node == bus->here;
    }
    return bus->here < node;
}

/* What its origin sends here from now on waits behind the rest. Takes p. */
static void give_way(tri_bus *bus, tri_route *r, tri_parcel *p)
{
    answer_flush(bus, p, r->next_place.number,
                 is_sink(bus, r) ? FLUSHED_SINK : FLUSHED_JOIN);
}

/* We have heard of a newer place: whose marker need not wait any more? */
static void review_markers(tri_bus *bus, tri_route *r)
{
    tri_parcel **link = &r->first, *last = NULL;
    while (*link != NULL) {
        tri_parcel *p = *link;
        if (p->kind == TRI_PARCEL_FLUSH &&
            goes_first(bus, r, p->origin, p->number)) {
            *link = p->next;
            r->count--;
            give_way(bus, r, p);
        } else {
            last = p;
            link = &p->next;
        }
    }
    r->last_parcel = last;
}

void tri_flush_begin(tri_bus *bus, tri_route *r, tri_place place)
{
    r->next_place = place;
    review_markers(bus, r);
    if (r->state == TRI_ROUTE_FLUSHING) {
        return;  // the marker follows to wherever the messages go
    }
    tri_parcel *p = tri_mem_calloc(&bus->sys->mem, sizeof(*p));
    r->token = ++bus->next_number;
    if (p == NULL || tri_map_put(&bus->asked, r->token, r) != TR_OK) {
        r->token = 0;
        free(p);
        return;  // the old way still leads there
    }
    *p = (tri_parcel){.kind = TRI_PARCEL_FLUSH,
                      .v = r->v,
                      .origin = bus->here,
                      .token = r->token,
                      .number = place.number};
    tri_call_send(bus, r, p);
    r->state = TRI_ROUTE_FLUSHING;
    tri_route_pause(bus, r, TRI_FLUSH_WAIT);
}

void tri_flush_end(tri_bus *bus, tri_route *r)
{
    tri_route_forget(bus, r);
    r->last_back = NULL;
    tri_route_set_remote(bus, r, r->next_place);
    if (r->next_place.node != bus->here) {
        tri_watch_place(bus, r, true);  // for those who watch since then
        tri_route_go(bus, r);
        return;
    }
    r->state = TRI_ROUTE_NONE;
    tri_route_set_away(bus, r, false);
    tri_route_go(bus, r);
    if (r->state == TRI_ROUTE_NONE && r->watches != NULL) {
        if (tri_route_is_here(bus, r)) {
            tri_watch_place(bus, r, true);
        } else {
            tri_route_find(bus, r);  // we have gathered: it is elsewhere
        }
    }
}

void tri_route_learn(tri_bus *bus, tri_virtual *v, tri_place place)
{
    tri_route *r = tri_route_get(bus, v);
    if (r == NULL || place.node >= bus->nodes ||
        (r->state != TRI_ROUTE_REMOTE && r->state != TRI_ROUTE_FLUSHING)) {
        return;
    }
    if (place.number <= r->place.number ||
        (r->state == TRI_ROUTE_FLUSHING &&
         place.number <= r->next_place.number)) {
        return;  // older than what we know (DI11)
    }
    bus->counts.moved++;
    if (!r->away && r->state == TRI_ROUTE_REMOTE) {
        tri_route_set_remote(bus, r, place);
    } else {
        tri_flush_begin(bus, r, place);
    }
}

bool tri_route_flush(tri_bus *bus, tri_peer *peer, tri_reader *reader)
{
    char text[TRI_ID_MAX + 1];
    tr_err err;
    (void)peer;
    uint32_t origin = tri_read_u32(reader);
    uint64_t token = tri_read_u64(reader);
    uint8_t forwards = tri_read_u8(reader);
    tri_read_text(reader, text, TRI_ID_MAX);
    uint64_t number = tri_read_u64(reader);
    tri_virtual *v = reader->failed ? NULL : tri_bus_record(bus, text, &err);
    tri_route *r = v != NULL ? tri_route_get(bus, v) : NULL;
    tri_parcel *p =
        r != NULL ? tri_mem_calloc(&bus->sys->mem, sizeof(*p)) : NULL;
    if (p == NULL || origin >= bus->nodes) {
        free(p);
        return r == NULL || origin >= bus->nodes;  // else: no memory
    }
    *p = (tri_parcel){.kind = TRI_PARCEL_FLUSH,
                      .v = v,
                      .origin = origin,
                      .token = token,
                      .number = number,
                      .forwards = forwards};
    if (origin == bus->here) {  // our own: all before it has come home
        tri_parcel_free(bus, p);
        if (r->state == TRI_ROUTE_FLUSHING && r->token == token) {
            r->next_place.node = bus->here;
            tri_flush_end(bus, r);
        }
        return true;
    }
    if (r->state == TRI_ROUTE_FLUSHING && goes_first(bus, r, origin, number)) {
        give_way(bus, r, p);
        return true;
    }
    tri_route_refill(bus, r);
    tri_route_add(bus, r, p);
    tri_route_go(bus, r);
    return true;
}

void tri_route_flushed(tri_bus *bus, tri_peer *peer, tri_reader *reader)
{
    uint64_t token = tri_read_u64(reader);
    uint64_t number = tri_read_u64(reader);
    uint8_t how = tri_read_u8(reader);
    tri_route *r =
        token != 0 && !reader->failed ? tri_map_get(&bus->asked, token) : NULL;
    if (r == NULL || r->state != TRI_ROUTE_FLUSHING) {
        return;
    }
    if (how != FLUSHED_ALL && goes_first(bus, r, peer->node, number)) {
        // We know more since the marker left: another, that says so.
        tri_route_forget(bus, r);
        r->state = TRI_ROUTE_REMOTE;
        tri_flush_begin(bus, r, r->next_place);
        tri_route_go(bus, r);  // without memory there is none
        return;
    }
    if (how == FLUSHED_JOIN) {  // through that node, wherever it leads
        r->next_place =
            (tri_place){.node = peer->node, .number = TRI_NUMBER_NONE};
    } else if (number != 0) {  // where the messages are, whatever we heard
        r->next_place = (tri_place){.node = peer->node,
                                    .number = number,
                                    .life = peer->session.in_life};
    }
    tri_flush_end(bus, r);
}
