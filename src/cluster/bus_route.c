/*
 * bus_route.c - the way to an actor: finding it, sending, arriving.
 *
 * A route is made for a record when the bus first has to do with it, and
 * stays. Mail of one sender keeps its order because it is taken from the
 * record in order, waits in one queue, leaves through one session, and is
 * held back while a marker follows what went another way.
 *
 * Invariant: parcels wait only in a route that is ASKING or FLUSHING; each of
 * these ends by an answer, by its timer, or by the loss of the node.
 */
#include "cluster/bus_route.h"

/* ---- making and finding them ---- */

tri_route *tri_route_new(tri_bus *bus, tri_virtual *v)
{
    tri_route *r = tri_mem_calloc(&bus->sys->mem, sizeof(*r));
    if (r != NULL) {
        r->v = v;
        v->route = r;
        tri_lock_take(&bus->routes_lock);
        r->next = bus->routes;
        bus->routes = r;
        tri_lock_drop(&bus->routes_lock);
    }
    return r;
}

tri_route *tri_route_first(tri_bus *bus)
{
    tri_lock_take(&bus->routes_lock);
    tri_route *first = bus->routes;
    tri_lock_drop(&bus->routes_lock);
    return first;
}

/* What stands behind a name here is several workers: no route is needed. */
static bool is_front(tri_virtual *v)
{
    // Acquire: pairs with settle_form.
    return atomic_load_explicit(&v->form, memory_order_acquire) ==
           TRI_FORM_FRONT;
}

tri_route *tri_route_get(tri_bus *bus, tri_virtual *v)
{
    tri_shard *shard = &bus->cluster->shards[v->shard];
    tri_lock_take(&shard->lock);
    tri_route *r = is_front(v)        ? NULL
                   : v->route != NULL ? v->route
                                      : tri_route_new(bus, v);
    tri_lock_drop(&shard->lock);
    return r;
}

tri_virtual *tri_bus_record(tri_bus *bus, const char *text, tr_err *err)
{
    tri_actor_id id;
    tri_virtual *v;
    const char *why;
    const char *ns = bus->cluster->ns;
    *err = tri_id_parse(&id, text, &why);
    if (*err == TR_OK && (strlen(ns) + 2 != id.kind_at ||
                          memcmp(id.text, ns, strlen(ns)) != 0)) {
        *err = TR_EFOREIGN;  // VA8
    }
    if (*err == TR_OK) {
        *err =
            tri_virtual_get(bus->cluster, (tr_from){.ctx = bus->ctx}, &id, &v);
    }
    return *err == TR_OK ? v : NULL;
}

/* ---- sending ---- */

/* Whether something of ours may be under way to another node. */
void tri_route_set_away(tri_bus *bus, tri_route *r, bool away)
{
    tri_shard *shard = &bus->cluster->shards[r->v->shard];
    if (r->away != away) {
        tri_lock_take(&shard->lock);
        r->away = away;
        tri_lock_drop(&shard->lock);
    }
}

void tri_route_set_remote(tri_bus *bus, tri_route *r, tri_place place)
{
    r->state = TRI_ROUTE_REMOTE;
    r->place = place;
    r->at = tri_bus_now(bus);
    r->since = 0;
}

static void control_here(tri_bus *bus, tri_parcel *p)
{
    tri_worker *worker = tri_bus_worker(bus);
    tri_cell *cell = &p->v->cell;
    // Relaxed: it never changes.
    uint64_t id = atomic_load_explicit(&cell->id, memory_order_relaxed);
    tr_none nothing = {};
    tr_msg *msg =
        p->token == TRI_CONTROL_POISON
            ? tri_msg_new(&worker->cache, &tr_none_tr_type, &nothing, false)
            : NULL;
    if (msg == NULL) {
        tri_signal(worker, cell, id,
                   p->token == TRI_CONTROL_POISON ? TRI_SIG_STOP
                                                  : (uint32_t)p->token);
    } else {
        msg->node.kind = TRI_NODE_POISON;
        msg->sender = (tr_ref){0};
        if (tri_push(worker, cell, id, msg) != TR_OK) {
            tri_msg_free(&worker->cache, msg);  // it is ending already
        }
    }
    tri_parcel_free(bus, p);
}

/* What the activation has left goes in front of what waits. */
static void older_first(tri_bus *bus, tri_route *r)
{
    tri_parcel *first = r->first, *last = r->last_parcel;
    r->first = r->last_parcel = NULL;
    tri_route_refill(bus, r);
    if (r->first == NULL) {
        r->first = first;
        r->last_parcel = last;
    } else if (first != NULL) {
        r->last_parcel->next = first;
        r->last_parcel = last;
    }
}

/* One that is for the activation here, whatever the route says. */
static bool deliver_here(tri_bus *bus, tri_route *r, tri_parcel *p)
{
    tr_err err = TR_OK;
    char text[TRI_SHOWN_MAX];
    tri_shard *shard = &bus->cluster->shards[r->v->shard];
    tri_lock_take(&shard->lock);
    bool active = tri_virtual_is_active(r->v);
    tri_lock_drop(&shard->lock);
    if (!active) {
        return false;
    }
    if (p->kind == TRI_PARCEL_FLUSH) {
        tri_flush_here(bus, p);
        return true;
    }
    if (p->kind == TRI_PARCEL_CONTROL) {
        control_here(bus, p);
        return true;
    }
    tr_msg *msg = p->kind == TRI_PARCEL_PASSED
                      ? tri_call_decode(bus, p, &err, text, sizeof(text))
                      : p->msg;
    if (msg == NULL) {
        tri_parcel_fail(bus, p, err, text);
        return true;
    }
    p->msg = msg;
    if (tri_catalog_push(bus->cluster, tri_bus_worker(bus), r->v, msg) !=
        TR_OK) {
        p->kind = TRI_PARCEL_MESSAGE;  // it has ended just now
        older_first(bus, r);
        return false;
    }
    p->msg = NULL;
    tri_parcel_free(bus, p);
    return true;
}

void tri_route_refill(tri_bus *bus, tri_route *r)
{
    if (r->state == TRI_ROUTE_FLUSHING) {
        return;  // ours are behind those that come back with the marker
    }
    tri_node *mail = tri_catalog_take(bus->cluster, tri_bus_worker(bus), r->v,
                                      r->first != NULL);
    while (mail != NULL) {
        tri_node *next = mail->next;
        tri_parcel *p = tri_parcel_of(bus, r->v, mail);
        if (p != NULL) {
            tri_route_add(bus, r, p);
        } else {
            tri_dead(tri_bus_worker(bus), tri_bus_ref(bus, r->v),
                     tri_msg_from(mail), TR_DEAD_NO_MEMORY);
        }
        mail = next;
    }
}

void tri_route_go(tri_bus *bus, tri_route *r)
{
    enum { ROUNDS = 8 };  // without an answer from elsewhere: far fewer
    for (uint32_t round = 0; round < ROUNDS; round++) {
        while (r->first != NULL && r->state != TRI_ROUTE_ASKING &&
               r->state != TRI_ROUTE_FLUSHING) {
            tri_parcel *p = tri_route_next(r);
            tri_parcel *behind = r->first;
            if (deliver_here(bus, r, p)) {
                continue;
            }
            if (r->first != behind) {  // older mail has come in front
                tri_route_put_before(r, p, behind);
                continue;
            }
            if (r->state == TRI_ROUTE_REMOTE) {
                tri_route_set_away(bus, r, true);
                tri_call_send(bus, r, p);
                continue;
            }
            p->next = r->first;  // back in front: it waits for an answer
            r->first = p;
            r->count++;
            if (r->last_parcel == NULL) {
                r->last_parcel = p;
            }
            bool only_flush = p->kind == TRI_PARCEL_FLUSH && p->next == NULL;
            if (only_flush) {
                tri_flush_here(bus, tri_route_next(r));  // nothing is before it
                continue;
            }
            tri_route_ask(bus, r);
        }
        if (r->first != NULL) {
            return;
        }
        tri_route_refill(bus, r);
        if (r->first == NULL) {
            return;
        }
    }
    tri_route_ask_later(bus, r);
}

/* ---- what happens to them ---- */

bool tri_route_is_here(tri_bus *bus, tri_route *r)
{
    tri_shard *shard = &bus->cluster->shards[r->v->shard];
    tri_lock_take(&shard->lock);
    bool active = tri_virtual_is_active(r->v);
    tri_lock_drop(&shard->lock);
    return active;
}

/*
 * One of ours, passed on until it is here again: it is sent anew, but not for
 * ever, since whoever passes it on may know no better the next time. False:
 * that is its end, and p was taken.
 */
static bool come_home(tri_bus *bus, tri_parcel *p)
{
    tri_envelope *head = p->head;
    head->forwards = 0;
    if (++head->returns > TRI_RETURNS_MAX) {
        bus->counts.too_often++;
        tri_parcel_fail(bus, p, TR_ELIMIT, "it was passed on too often");
        return false;
    }
    if (head->direction == TRI_REQUEST && !tri_call_home(bus, p)) {
        tri_parcel_free(bus, p);  // its asker waits no more
        return false;
    }
    return true;
}

/* All of ours is to come home first, for that place or none yet. */
static void follow_home(tri_bus *bus, tri_route *r, uint64_t number)
{
    tri_place home = {.node = bus->here, .number = number, .life = bus->life};
    tri_flush_begin(bus, r, home);
}

/* The cache is as good as wrong: the owner is asked again. */
static void forget_place(tri_bus *bus, tri_route *r)
{
    if (r->away) {
        follow_home(bus, r, TRI_NUMBER_NONE);
    } else {
        r->state = TRI_ROUTE_NONE;
    }
}

void tri_route_arrived(tri_bus *bus, tri_route *r, tri_parcel *p)
{
    uint64_t number = p->head->place;
    if (p->head->sender_node == bus->here && !come_home(bus, p)) {
        return;
    }
    tri_route_refill(bus, r);  // what an activation here has left is older
    if (r->state == TRI_ROUTE_FLUSHING && number > r->place.number &&
        number > r->next_place.number && tri_route_granted(bus, r, p->head)) {
        // News of a place, as good as any: whoever has heard of no more than
        // that goes through us. If we gave way, this one would leave again,
        // and those behind it on the same way might find us waiting anew.
        follow_home(bus, r, number);
    }
    bool granted =
        r->first == NULL &&
        (r->state == TRI_ROUTE_NONE ||
         (r->state == TRI_ROUTE_REMOTE && r->place.number < number)) &&
        tri_route_granted(bus, r, p->head);
    if (granted && r->state == TRI_ROUTE_REMOTE && r->away) {
        // What our own senders have sent away comes back first.
        follow_home(bus, r, number);
        granted = false;
    }
    if (!granted && r->state == TRI_ROUTE_REMOTE &&
        p->head->sender_node == bus->here && !tri_route_is_here(bus, r)) {
        // Two caches lead to each other: once all is home, ask the owner.
        follow_home(bus, r, TRI_NUMBER_NONE);
    } else if (!granted && r->state == TRI_ROUTE_REMOTE &&
               r->place.number < number && !tri_route_is_here(bus, r)) {
        // It was here and has ended; what we know of is older still.
        forget_place(bus, r);
    }
    if (r->state == TRI_ROUTE_FLUSHING && (p->head->through >> bus->here & 1)) {
        tri_route_add_back(bus, r, p);
    } else {
        tri_route_add(bus, r, p);
    }
    if (granted) {
        r->state = TRI_ROUTE_NONE;
        tri_route_begin(bus, r, number);
    }
    tri_route_go(bus, r);
}

void tri_route_control(tri_bus *bus, tri_route *r, tri_parcel *p)
{
    tri_route_refill(bus, r);
    tri_route_add(bus, r, p);
    tri_route_go(bus, r);
}

void tri_route_find(tri_bus *bus, tri_route *r)
{
    if (r->state == TRI_ROUTE_NONE) {
        tri_route_ask(bus, r);
        tri_route_go(bus, r);
    }
}

void tri_route_looked(tri_bus *bus, tri_virtual *v)
{
    tri_route *r = tri_route_get(bus, v);
    if (r != NULL) {
        if (r->state == TRI_ROUTE_REMOTE &&
            r->place.number != TRI_NUMBER_NONE && r->watches == NULL &&
            TRI_BUGGIFY(bus->sys->world, 0.05)) {
            forget_place(bus, r);
        }
        tri_route_refill(bus, r);
        tri_route_go(bus, r);
        return;
    }
    tri_node *mail =
        tri_catalog_take(bus->cluster, tri_bus_worker(bus), v, false);
    while (mail != NULL) {
        tri_node *next = mail->next;
        tri_dead(tri_bus_worker(bus), tri_bus_ref(bus, v), tri_msg_from(mail),
                 TR_DEAD_NO_MEMORY);
        mail = next;
    }
}

void tri_route_timer(tri_bus *bus, tri_route *r)
{
    if (r->state == TRI_ROUTE_FLUSHING) {
        tri_flush_end(bus, r);
    } else if (r->state == TRI_ROUTE_ASKING && r->token != 0) {
        // The owner has given us up, and its answer with us: its stream to
        // us has ended, ours to it has not, so nothing else tells us.
        tri_route_ask_later(bus, r);
    } else if (r->state == TRI_ROUTE_ASKING) {
        r->state = TRI_ROUTE_NONE;
        if (r->first != NULL) {
            tri_route_go(bus, r);
        } else if (r->watches != NULL) {
            tri_route_ask(bus, r);
        } else {
            r->since = 0;  // who asked does not want to know any more
        }
    }
}

void tri_route_lost(tri_bus *bus, uint32_t node, bool left)
{
    if (left) {
        tri_watch_left(bus, node);
    }
    for (tri_route *r = tri_route_first(bus); r != NULL; r = r->next) {
        if (r->state == TRI_ROUTE_FLUSHING && r->place.node == node) {
            tri_flush_end(bus, r);
        } else if (r->state == TRI_ROUTE_REMOTE && r->place.node == node) {
            r->state = TRI_ROUTE_NONE;  // the next message asks again
            tri_watch_lost(bus, r, TR_NODE_DOWN);
        } else if (r->state == TRI_ROUTE_ASKING && r->token != 0 &&
                   tri_shard_owner(&bus->cluster->directory, r->v->shard,
                                   NULL) == node) {
            tri_route_ask_later(bus, r);
        }
    }
}
