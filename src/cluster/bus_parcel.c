/*
 * bus_parcel.c - what waits for a route or is on its way, and its end.
 *
 * Invariant: a parcel has one owner: the queue of a route, a session until it
 * is acknowledged, or whoever just took it from one of these. It ends by being
 * delivered, or in tri_parcel_fail, where a message becomes a dead letter or
 * an error for its asker: never without either.
 */
#include "cluster/bus_route.h"

/* ---- parcels ---- */

void tri_parcel_free(tri_bus *bus, tri_parcel *p)
{
    if (p->msg != NULL) {
        tri_msg_free(&tri_bus_worker(bus)->cache, p->msg);
    }
    free(p->head);
    free(p->bytes);
    free(p->type.name);
    free(p->type.table);
    free(p);
}

uint32_t tri_bus_reason(tr_err err)
{
    switch (err) {
    case TR_EUNREACHABLE:
        return TR_DEAD_UNREACHABLE;
    case TR_EUNKNOWN:
        return TR_DEAD_UNKNOWN;
    case TR_ECLOSED:
        return TR_DEAD_CLOSED;
    case TR_ENOMEM:
        return TR_DEAD_NO_MEMORY;
    case TR_ELIMIT:
    case TR_EFULL:
        return TR_DEAD_FULL;
    case TR_ETIMEDOUT:
        return TR_DEAD_EXPIRED;
    case TR_EFOREIGN:
        return TR_DEAD_FOREIGN;
    case TR_EUNHANDLED:
    case TR_ESCHEMA:
        return TR_DEAD_UNHANDLED;
    default:
        return TR_DEAD_NO_SUCH_ACTOR;
    }
}

void tri_parcel_fail(tri_bus *bus, tri_parcel *p, tr_err err, const char *text)
{
    if (p->kind == TRI_PARCEL_MESSAGE && p->msg != NULL) {
        tri_dead(tri_bus_worker(bus), tri_bus_ref(bus, p->v), p->msg,
                 tri_bus_reason(err));
        p->msg = NULL;
    } else if (p->kind == TRI_PARCEL_PASSED) {
        tri_call_refuse_later(bus, p->head, p->v, p->type.name, err, text);
    }
    tri_parcel_free(bus, p);
}

void tri_parcel_done(tri_bus *bus, tri_parcel *p, bool received, bool sent)
{
    if (!received && !sent && !bus->closed) {
        tri_call_undo(bus, p);
    }
    if (received || p->call != 0 || bus->closed) {
        // A call hears of the loss of its node by itself.
        if (bus->closed && !received && p->call == 0) {
            tri_parcel_fail(bus, p, TR_ECLOSED, "the system is closing");
            return;
        }
        tri_parcel_free(bus, p);
        return;
    }
    tri_parcel_fail(bus, p, sent ? TR_EUNKNOWN : TR_EUNREACHABLE,
                    "the node was lost");
}

tri_parcel *tri_parcel_of(tri_bus *bus, tri_virtual *v, tri_node *node)
{
    tri_parcel *p = tri_mem_calloc(&bus->sys->mem, sizeof(*p));
    if (p != NULL) {
        p->kind = TRI_PARCEL_MESSAGE;
        p->v = v;
        p->msg = tri_msg_from(node);
        p->origin = bus->here;
    }
    return p;
}

/* ---- the queue of a route ---- */

void tri_route_add(tri_bus *bus, tri_route *r, tri_parcel *p)
{
    if (r->count >= TRI_ROUTE_MAX) {
        tri_parcel_fail(bus, p, TR_EFULL, "too many wait for its place");
        return;
    }
    p->next = NULL;
    if (r->first == NULL) {
        r->first = p;
    } else {
        r->last_parcel->next = p;
    }
    r->last_parcel = p;
    r->count++;
}

/*
 * One that has been here before, or may have been: it left before the marker
 * did, so it is older than all that has come for the first time since. By the
 * same rule what was in a mailbox elsewhere is older than what was not yet:
 * its sender cannot have sent anything past it.
 */
void tri_route_add_back(tri_bus *bus, tri_route *r, tri_parcel *p)
{
    if (r->count >= TRI_ROUTE_MAX || r->last_back == r->last_parcel) {
        tri_parcel *last = r->count < TRI_ROUTE_MAX ? p : r->last_back;
        tri_route_add(bus, r, p);
        r->last_back = last;
        return;
    }
    tri_parcel **link = r->last_back != NULL ? &r->last_back->next : &r->first;
    p->next = *link;
    *link = p;
    r->last_back = p;
    r->count++;
}

tri_parcel *tri_route_next(tri_route *r)
{
    tri_parcel *p = r->first;
    if (p != NULL) {
        r->first = p->next;
        r->count--;
        if (r->first == NULL) {
            r->last_parcel = NULL;
        }
    }
    return p;
}

void tri_route_put_before(tri_route *r, tri_parcel *p, tri_parcel *behind)
{
    tri_parcel **link = &r->first;
    while (*link != behind) {
        link = &(*link)->next;
    }
    p->next = behind;
    *link = p;
    r->count++;
    if (behind == NULL) {
        r->last_parcel = p;
    }
}

void tri_route_fail(tri_bus *bus, tri_route *r, tr_err err, const char *text)
{
    tri_parcel *p;
    while ((p = tri_route_next(r)) != NULL) {
        tri_parcel_fail(bus, p, err, text);
    }
    if (r->watches != NULL && r->state != TRI_ROUTE_REMOTE) {
        tri_watch_lost(bus, r,
                       err == TR_ENOENT ? TR_NO_SUCH_ACTOR : TR_NODE_DOWN);
    }
}

/* Is there a message? Other things are for whoever is active. */
bool tri_route_needs_place(const tri_route *r)
{
    for (const tri_parcel *p = r->first; p != NULL; p = p->next) {
        if (p->kind == TRI_PARCEL_MESSAGE || p->kind == TRI_PARCEL_PASSED) {
            return true;
        }
    }
    return false;
}
