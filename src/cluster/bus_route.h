/*
 * bus_route.h - between the files that make up the routes of a bus.
 *
 *   bus_route.c   routes, sending along them, what arrives
 *   bus_parcel.c  what waits in their queues
 *   bus_ask.c     asking the owner where an actor is
 *   bus_place.c   being the owner: placing
 *   bus_view.c    owners change
 *   bus_flush.c   actors move: order is kept by markers
 *
 * Threads: all of it belongs to the bus's turns, except where it says
 * otherwise.
 */
#ifndef TRI_CLUSTER_BUS_ROUTE_H
#define TRI_CLUSTER_BUS_ROUTE_H

#include "base/log.h"
#include "cluster/bus.h"
#include "system/layers.h"

/* ---- bus_route.c ---- */

/* NULL: no memory. Any thread, with the shard's lock. */
tri_route *tri_route_new(tri_bus *bus, tri_virtual *v);
/* Is an activation in the catalog? */
bool tri_route_is_here(tri_bus *bus, tri_route *r);
/* Whether something of ours may be under way to another node. */
void tri_route_set_away(tri_bus *bus, tri_route *r, bool away);
void tri_route_set_remote(tri_bus *bus, tri_route *r, tri_place place);
/* Takes what the record has, unless older mail is still to come back. */
void tri_route_refill(tri_bus *bus, tri_route *r);

/* ---- bus_parcel.c ---- */

/* NULL: no memory, and the node is still the caller's. */
tri_parcel *tri_parcel_of(tri_bus *bus, tri_virtual *v, tri_node *node);
/* In front of what has come since the marker left; takes p. */
void tri_route_add_back(tri_bus *bus, tri_route *r, tri_parcel *p);
/* The caller owns it; NULL: none. */
tri_parcel *tri_route_next(tri_route *r);
/* Takes p; behind is in the queue, or NULL. */
void tri_route_put_before(tri_route *r, tri_parcel *p, tri_parcel *behind);
/* All that waits, mail and watches, ends with the error. */
void tri_route_fail(tri_bus *bus, tri_route *r, tr_err err, const char *text);
/* Is there a message? Other things are for whoever is active. */
bool tri_route_needs_place(const tri_route *r);

/* ---- bus_place.c ---- */

/* Nodes that host its kind and can be reached, as far as we know. */
uint64_t tri_bus_hosts(tri_bus *bus, const char *text, bool *stateless);
/*
 * The owner's answer. Errors: TR_EFENCED (we are not the owner), TR_ENOENT,
 * TR_EWOULDBLOCK (ask again), TR_ENOMEM.
 */
tr_err tri_bus_decide(tri_bus *bus, const char *text, size_t size,
                      bool only_look, tri_decision *out);

/* ---- bus_ask.c ---- */

void tri_route_pause(tri_bus *bus, tri_route *r, tr_nanos span);
/* No answer to it is waited for any more, nor its timer. */
void tri_route_forget(tri_bus *bus, tri_route *r);
void tri_route_ask(tri_bus *bus, tri_route *r);
/* Not now: again a little later, but not for ever. */
void tri_route_ask_later(tri_bus *bus, tri_route *r);
/*
 * With the mail of the route: it is to be active here. Without any the place
 * is given back. A place that was used before changes nothing: the mail stays,
 * and the caller goes on with the route.
 */
void tri_route_begin(tri_bus *bus, tri_route *r, uint64_t number);
/* Was the sender told that this activation is to begin here, in this life? */
bool tri_route_granted(tri_bus *bus, tri_route *r, const tri_envelope *head);

/* ---- bus_flush.c ---- */

/* What we send goes through r's node no longer, but to this place. */
void tri_flush_begin(tri_bus *bus, tri_route *r, tri_place place);
void tri_flush_end(tri_bus *bus, tri_route *r);
/* A marker, and all before it is here or nowhere. Takes p. */
void tri_flush_here(tri_bus *bus, tri_parcel *p);

#endif
