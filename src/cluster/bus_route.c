/*
 * bus_route.c - where actors are: asking, caching, moving, sending.
 *
 * A route is made for a record when the bus first has to do with it, and
 * stays. Mail of one sender keeps its order because it is taken from the
 * record in order, waits in one queue, leaves through one session, and is
 * held back while a marker follows what went another way.
 *
 * Invariant: parcels wait only in a route that is ASKING or FLUSHING; each of
 * these ends by an answer, by its timer, or by the loss of the node.
 */
#include "cluster/bus.h"

#include "base/log.h"
#include "system/layers.h"

enum { WHEEL_ROUTE = 1 };

/* ---- routes ---- */

static tri_route *route_new(tri_bus *bus, tri_virtual *v)
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
    tri_route *r = is_front(v)          ? NULL
                   : v->route != NULL ? v->route
                                        : route_new(bus, v);
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
        *err = tri_virtual_get(bus->cluster, (tr_from){.ctx = bus->ctx}, &id,
                               &v);
    }
    return *err == TR_OK ? v : NULL;
}

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

void tri_parcel_fail(tri_bus *bus, tri_parcel *p, tr_err err,
                     const char *text)
{
    if (p->kind == TRI_PARCEL_MESSAGE && p->msg != NULL) {
        tri_dead(tri_bus_worker(bus), tri_bus_ref(bus, p->v), p->msg,
                 tri_bus_reason(err));
        p->msg = NULL;
    } else if (p->kind == TRI_PARCEL_PASSED) {
        tri_call_refuse(bus, p->head, p->v, p->type.name, err, text);
    }
    tri_parcel_free(bus, p);
}

void tri_parcel_done(tri_bus *bus, tri_parcel *p, bool received, bool sent)
{
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

static tri_parcel *parcel_of(tri_bus *bus, tri_virtual *v, tri_node *node)
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
static void add_back(tri_bus *bus, tri_route *r, tri_parcel *p)
{
    if (r->count >= TRI_ROUTE_MAX || r->last_back == r->last_parcel) {
        tri_parcel *last = r->count < TRI_ROUTE_MAX ? p : r->last_back;
        tri_route_add(bus, r, p);
        r->last_back = last;
        return;
    }
    tri_parcel **link = r->last_back != NULL ? &r->last_back->next
                                             : &r->first;
    p->next = *link;
    *link = p;
    r->last_back = p;
    r->count++;
}

static tri_parcel *next_parcel(tri_route *r)
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

static void fail_all(tri_bus *bus, tri_route *r, tr_err err,
                     const char *text)
{
    tri_parcel *p;
    while ((p = next_parcel(r)) != NULL) {
        tri_parcel_fail(bus, p, err, text);
    }
    if (r->watches != NULL && r->state != TRI_ROUTE_REMOTE) {
        tri_watch_lost(bus, r, err == TR_ENOENT ? TR_NO_SUCH_ACTOR
                                                : TR_NODE_DOWN);
    }
}

static void begin_flush(tri_bus *bus, tri_route *r, uint32_t node,
                        uint64_t number);

/* ---- placing ---- */

static const char *kind_text(tri_bus *bus, tri_virtual *v, size_t *size)
{
    size_t at = strlen(bus->cluster->ns) + 2;
    *size = v->key_at - 1u - at;
    return v->text + at;
}

/* Nodes that host its kind and can be reached, as far as we know. */
static uint64_t hosts_of(tri_bus *bus, const char *text, bool *stateless)
{
    uint64_t nodes;
    size_t at = strlen(bus->cluster->ns) + 2;
    size_t size = strcspn(text + at, "/");
    (void)tri_bus_kind_of(bus, text + at, size, &nodes, stateless);
    for (uint32_t i = 0; i < bus->nodes; i++) {
        if (bus->peers[i] != NULL && bus->peers[i]->lost) {
            nodes &= ~(UINT64_C(1) << i);
        }
    }
    return nodes;
}

/* Somebody may still tell us that it hosts a kind. */
static bool all_have_greeted(tri_bus *bus)
{
    for (uint32_t i = 0; i < bus->nodes; i++) {
        if (i != bus->here &&
            (bus->peers[i] == NULL ||
             (!bus->peers[i]->greeted && !bus->peers[i]->lost))) {
            return false;
        }
    }
    return true;
}

static bool is_handover(tri_bus *bus, uint32_t shard)
{
    if (bus->handover[shard].missing != 0 &&
        tri_bus_now(bus) >= bus->handover[shard].until) {
        bus->handover[shard].missing = 0;
    }
    return bus->handover[shard].missing != 0;
}

/*
 * The owner's answer. Errors: TR_EFENCED (we are not the owner), TR_ENOENT,
 * TR_EWOULDBLOCK (ask again), TR_ENOMEM.
 */
static tr_err decide(tri_bus *bus, const char *text, size_t size,
                     bool only_look, tri_decision *out)
{
    tri_directory *directory = &bus->cluster->directory;
    uint32_t shard = tri_shard_of(text, size);
    *out = (tri_decision){0};
    if (tri_shard_owner(directory, shard, NULL) != bus->here) {
        return TR_EFENCED;
    }
    if (tri_directory_lookup(directory, text, size, &out->place)) {
        out->kind = TRI_PLACE_ALREADY;
        return TR_OK;
    }
    if (is_handover(bus, shard)) {
        return TR_EWOULDBLOCK;
    }
    if (only_look) {
        return TR_ENOENT;
    }
    bool stateless;
    uint64_t nodes = hosts_of(bus, text, &stateless);
    if (nodes == 0) {
        return all_have_greeted(bus) ? TR_ENOENT : TR_EWOULDBLOCK;
    }
    return tri_directory_assign(directory, text, size, nodes, TRI_NODE_NONE,
                                out);
}

bool tri_bus_begin_here(tri_cluster *cluster, tri_virtual *v)
{
    tri_bus *bus = tri_bus_of(cluster);
    tri_kind *kind = tri_kind_of(cluster, v);
    tri_decision decision;
    uint64_t nodes;
    bool stateless;
    size_t size;
    if (kind != NULL && kind->workers > 0) {
        return true;
    }
    // What the bus has not done yet comes first; and a hand-over is its own.
    if (kind == NULL || v->handed || bus->closed ||
        tri_shard_owner(&cluster->directory, v->shard, NULL) != bus->here ||
        bus->handover[v->shard].missing != 0) {
        return false;
    }
    const char *name = kind_text(bus, v, &size);
    tri_route *r = v->route != NULL ? v->route : route_new(bus, v);
    // What was sent to another node comes back first.
    if (r == NULL || r->away ||
        !tri_bus_kind_of(bus, name, size, &nodes, &stateless) ||
        nodes == 0 ||
        tri_directory_assign(&cluster->directory, v->text, v->size, nodes,
                             TRI_NODE_NONE, &decision) != TR_OK) {
        return false;
    }
    if (decision.place.node != bus->here ||
        decision.place.number <= r->last) {
        return false;
    }
    r->here = r->last = decision.place.number;
    return true;
}

void tri_bus_gone(tri_cluster *cluster, tri_worker *worker, tri_virtual *v)
{
    tri_bus *bus = tri_bus_of(cluster);
    tri_route *r = v->route;
    TRI_CHECK(r != NULL);
    tri_place place = {.node = bus->here, .number = r->here};
    r->here = 0;
    if (tri_shard_owner(&cluster->directory, v->shard, NULL) == bus->here) {
        (void)tri_directory_unregister(&cluster->directory, v->text, v->size,
                                       place);
        return;
    }
    tri_bus_note note = {.what = TRI_NOTE_GONE,
                         .record = (uint64_t)(uintptr_t)v,
                         .number = place.number};
    // If that is impossible the owner hears of it when it sends us mail.
    (void)tri_bus_tell(bus, worker, &note);
}

void tri_route_unregister(tri_bus *bus, tri_virtual *v, uint64_t number)
{
    uint32_t owner =
        tri_shard_owner(&bus->cluster->directory, v->shard, NULL);
    if (owner == bus->here) {
        (void)tri_directory_unregister(
            &bus->cluster->directory, v->text, v->size,
            (tri_place){.node = bus->here, .number = number});
        return;
    }
    tri_writer w = tri_bus_item(bus, TRI_ITEM_GONE);
    tri_write_u64(&w, number);
    tri_write_text(&w, v->text);
    (void)tri_bus_put(bus, owner, &w, NULL);
}

void tri_route_gone(tri_bus *bus, tri_peer *peer, tri_reader *r)
{
    char text[TRI_ID_MAX + 1];
    uint64_t number = tri_read_u64(r);
    tri_read_text(r, text, TRI_ID_MAX);
    if (!r->failed) {
        (void)tri_directory_unregister(
            &bus->cluster->directory, text, strlen(text),
            (tri_place){.node = peer->node, .number = number});
    }
}

/* ---- asking ---- */

static void pause_route(tri_bus *bus, tri_route *r, tr_nanos span)
{
    tri_wheel_arm(&bus->wheel, &r->timer, tri_bus_now(bus) + span,
                  WHEEL_ROUTE);
}

static void forget_question(tri_bus *bus, tri_route *r)
{
    if (r->token != 0) {
        tri_map_remove(&bus->asked, r->token);
        r->token = 0;
    }
    tri_wheel_cancel(&bus->wheel, &r->timer);
}

/* Not now: again a little later, but not for ever. */
static void ask_later(tri_bus *bus, tri_route *r)
{
    tr_nanos now = tri_bus_now(bus);
    forget_question(bus, r);
    if (r->since == 0) {
        r->since = now;
    }
    if (now - r->since >= TRI_ROUTE_HOLD) {
        r->since = 0;
        r->state = TRI_ROUTE_NONE;
        fail_all(bus, r, TR_EUNREACHABLE, "nobody could say where it is");
        tri_route_go(bus, r);  // what has come since
        return;
    }
    r->state = TRI_ROUTE_ASKING;
    pause_route(bus, r, TRI_ROUTE_RETRY);
}

/* With the mail of the route: it is to be active here. */
static void begin_here(tri_bus *bus, tri_route *r, uint64_t number)
{
    tri_cluster *cluster = bus->cluster;
    tri_shard *shard = &cluster->shards[r->v->shard];
    tri_node *mail = NULL, **end = &mail;
    tri_parcel *p, *flushes = NULL;
    char text[TRI_SHOWN_MAX];
    tr_err err;
    while ((p = next_parcel(r)) != NULL) {
        if (p->kind == TRI_PARCEL_FLUSH) {
            p->next = flushes;
            flushes = p;
            continue;
        }
        if (p->kind == TRI_PARCEL_CONTROL) {
            tri_parcel_free(bus, p);  // nobody was there
            continue;
        }
        tr_msg *msg = p->msg;
        if (p->kind == TRI_PARCEL_PASSED) {
            msg = tri_call_decode(bus, p, &err, text, sizeof(text));
            if (msg == NULL) {
                tri_parcel_fail(bus, p, err, text);
                continue;
            }
        }
        p->msg = NULL;
        tri_parcel_free(bus, p);
        *end = &msg->node;
        msg->node.next = NULL;
        end = &msg->node.next;
    }
    if (mail == NULL) {
        tri_route_unregister(bus, r->v, number);
    } else {
        tri_lock_take(&shard->lock);
        r->here = r->last = number;
        tri_lock_drop(&shard->lock);
        err = tri_catalog_begin(cluster, tri_bus_worker(bus), r->v, mail);
        if (err != TR_OK) {
            tri_route_unregister(bus, r->v, number);
        }
        while (err != TR_OK && mail != NULL) {
            tri_node *next = mail->next;
            tri_dead(tri_bus_worker(bus), tri_bus_ref(bus, r->v),
                     tri_msg_from(mail), tri_bus_reason(err));
            mail = next;
        }
    }
    while (flushes != NULL) {  // all before them is in the mailbox
        p = flushes;
        flushes = p->next;
        tri_route_add(bus, r, p);
    }
}

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

static void flushed_here(tri_bus *bus, tri_parcel *p)
{
    tri_shard *shard = &bus->cluster->shards[p->v->shard];
    tri_lock_take(&shard->lock);
    uint64_t here = p->v->route != NULL ? p->v->route->here : 0;
    tri_lock_drop(&shard->lock);
    answer_flush(bus, p, here, FLUSHED_ALL);
}

/* Whether something of ours may be under way to another node. */
static void set_away(tri_bus *bus, tri_route *r, bool away)
{
    tri_shard *shard = &bus->cluster->shards[r->v->shard];
    if (r->away != away) {
        tri_lock_take(&shard->lock);
        r->away = away;
        tri_lock_drop(&shard->lock);
    }
}

static void set_remote(tri_bus *bus, tri_route *r, uint32_t node,
                       uint64_t number)
{
    r->state = TRI_ROUTE_REMOTE;
    r->node = node;
    r->number = number;
    r->at = tri_bus_now(bus);
    r->since = 0;
}

/* Is there a message? Other things are for whoever is active. */
static bool needs_place(const tri_route *r)
{
    for (const tri_parcel *p = r->first; p != NULL; p = p->next) {
        if (p->kind == TRI_PARCEL_MESSAGE || p->kind == TRI_PARCEL_PASSED) {
            return true;
        }
    }
    return false;
}

static bool is_granted(tri_bus *bus, tri_route *r, const tri_envelope *head);

/*
 * The newest activation that those who wait were told of and that is to begin
 * here; 0: none. The owner gave it out later than its answer to us.
 */
static uint64_t newest_grant(tri_bus *bus, tri_route *r, uint64_t answered)
{
    uint64_t newest = 0;
    for (tri_parcel *p = r->away ? NULL : r->first; p != NULL; p = p->next) {
        if (p->kind == TRI_PARCEL_PASSED && p->head->place > answered &&
            p->head->place > newest && is_granted(bus, r, p->head)) {
            newest = p->head->place;
        }
    }
    return newest;
}

/* The answer to the question where it is. */
static void answer(tri_bus *bus, tri_route *r, tr_err err,
                   const tri_decision *decision)
{
    tri_shard *shard = &bus->cluster->shards[r->v->shard];
    forget_question(bus, r);
    r->state = TRI_ROUTE_NONE;
    if (err == TR_ENOENT) {
        r->since = 0;
        tri_watch_place(bus, r, false);
        if (!r->only_look || !needs_place(r)) {
            fail_all(bus, r, TR_ENOENT, "no node hosts its kind");
        }
        return;
    }
    if (err != TR_OK) {
        ask_later(bus, r);
        return;
    }
    uint64_t number = decision->place.number;
    uint64_t newer = newest_grant(bus, r, number);
    tri_lock_take(&shard->lock);  // a sender may just have begun one
    uint64_t here = r->here, last = r->last;
    tri_lock_drop(&shard->lock);
    if (newer != 0) {
        r->since = 0;
        begin_here(bus, r, newer);
    } else if (decision->place.node != bus->here) {
        set_remote(bus, r, decision->place.node, number);
    } else if (number > last) {
        r->since = 0;
        begin_here(bus, r, number);
    } else if (here == number) {
        r->since = 0;  // it is here, and has begun meanwhile
    } else {
        tri_route_unregister(bus, r->v, number);  // it was, and nobody said
        ask_later(bus, r);
        return;
    }
    tri_watch_place(bus, r, true);
}

static void ask(tri_bus *bus, tri_route *r)
{
    tri_virtual *v = r->v;
    uint32_t owner =
        tri_shard_owner(&bus->cluster->directory, v->shard, NULL);
    bool stateless;
    uint64_t nodes = hosts_of(bus, v->text, &stateless);
    if (stateless && nodes != 0) {  // any of them will do
        uint32_t node = 0, nth = (uint32_t)(bus->next_number++ % 64);
        while (!(nodes >> node & 1) || nth-- > 0) {
            node = (node + 1) % 64;
        }
        set_remote(bus, r, node, 0);
        return;
    }
    r->only_look = !needs_place(r);
    if (owner == bus->here) {
        tri_decision decision;
        tr_err err = decide(bus, v->text, v->size, r->only_look, &decision);
        answer(bus, r, err, &decision);
        return;
    }
    r->state = TRI_ROUTE_ASKING;
    r->token = ++bus->next_number;
    tri_writer w = tri_bus_item(bus, TRI_ITEM_PLACE);
    tri_write_u64(&w, r->token);
    tri_write_u8(&w, r->only_look);
    tri_write_text(&w, v->text);
    if (tri_map_put(&bus->asked, r->token, r) != TR_OK) {
        r->token = 0;
        free(w.bytes);
        ask_later(bus, r);
    } else if (!tri_bus_put(bus, owner, &w, NULL)) {
        ask_later(bus, r);
    }
}

void tri_route_place(tri_bus *bus, tri_peer *peer, tri_reader *r)
{
    char text[TRI_ID_MAX + 1];
    tri_decision decision = {0};
    uint64_t token = tri_read_u64(r);
    bool only_look = tri_read_u8(r) != 0;
    tri_read_text(r, text, TRI_ID_MAX);
    tr_err err = r->failed ? TR_EINVAL
                           : decide(bus, text, strlen(text), only_look,
                                    &decision);
    tri_writer w = tri_bus_item(bus, TRI_ITEM_PLACED);
    tri_write_u64(&w, token);
    tri_write_u32(&w, (uint32_t)err);
    tri_write_u8(&w, (uint8_t)decision.kind);
    tri_write_u32(&w, decision.place.node);
    tri_write_u64(&w, decision.place.number);
    (void)tri_bus_put(bus, peer->node, &w, NULL);
}

void tri_route_placed(tri_bus *bus, tri_peer *peer, tri_reader *reader)
{
    tri_decision decision = {0};
    (void)peer;
    uint64_t token = tri_read_u64(reader);
    tr_err err = (tr_err)tri_read_u32(reader);
    decision.kind = (tri_placement)tri_read_u8(reader);
    decision.place.node = tri_read_u32(reader);
    decision.place.number = tri_read_u64(reader);
    tri_route *r = reader->failed ? NULL : tri_map_get(&bus->asked, token);
    if (r != NULL && r->state == TRI_ROUTE_ASKING) {
        answer(bus, r, err, &decision);
        tri_route_go(bus, r);
    }
}

/* ---- sending ---- */

static void control_here(tri_bus *bus, tri_parcel *p)
{
    tri_worker *worker = tri_bus_worker(bus);
    tri_cell *cell = &p->v->cell;
    // Relaxed: it never changes.
    uint64_t id = atomic_load_explicit(&cell->id, memory_order_relaxed);
    tr_none nothing = {};
    tr_msg *msg = p->token == TRI_CONTROL_POISON
                      ? tri_msg_new(&worker->cache, &tr_none_tr_type,
                                    &nothing, false)
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

static void refill(tri_bus *bus, tri_route *r);

/* What the activation has left goes in front of what waits. */
static void older_first(tri_bus *bus, tri_route *r)
{
    tri_parcel *first = r->first, *last = r->last_parcel;
    r->first = r->last_parcel = NULL;
    refill(bus, r);
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
        flushed_here(bus, p);
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

static void refill(tri_bus *bus, tri_route *r)
{
    if (r->state == TRI_ROUTE_FLUSHING) {
        return;  // ours are behind those that come back with the marker
    }
    tri_node *mail =
        tri_catalog_take(bus->cluster, tri_bus_worker(bus), r->v,
                         r->first != NULL);
    while (mail != NULL) {
        tri_node *next = mail->next;
        tri_parcel *p = parcel_of(bus, r->v, mail);
        if (p != NULL) {
            tri_route_add(bus, r, p);
        } else {
            tri_dead(tri_bus_worker(bus), tri_bus_ref(bus, r->v),
                     tri_msg_from(mail), TR_DEAD_NO_MEMORY);
        }
        mail = next;
    }
}

static void put_before(tri_route *r, tri_parcel *p, tri_parcel *behind)
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

void tri_route_go(tri_bus *bus, tri_route *r)
{
    enum { ROUNDS = 8 };  // without an answer from elsewhere: far fewer
    for (uint32_t round = 0; round < ROUNDS; round++) {
        while (r->first != NULL && r->state != TRI_ROUTE_ASKING &&
               r->state != TRI_ROUTE_FLUSHING) {
            tri_parcel *p = next_parcel(r);
            tri_parcel *behind = r->first;
            if (deliver_here(bus, r, p)) {
                continue;
            }
            if (r->first != behind) {  // older mail has come in front
                put_before(r, p, behind);
                continue;
            }
            if (r->state == TRI_ROUTE_REMOTE) {
                set_away(bus, r, true);
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
                flushed_here(bus, next_parcel(r));  // nothing is before it
                continue;
            }
            ask(bus, r);
        }
        if (r->first != NULL) {
            return;
        }
        refill(bus, r);
        if (r->first == NULL) {
            return;
        }
    }
    ask_later(bus, r);
}

/* Was the sender told that this very activation is to begin here? */
static bool is_granted(tri_bus *bus, tri_route *r, const tri_envelope *head)
{
    tri_cluster *cluster = bus->cluster;
    tri_shard *shard = &cluster->shards[r->v->shard];
    uint64_t epoch;
    (void)tri_shard_owner(&cluster->directory, r->v->shard, &epoch);
    tri_lock_take(&shard->lock);
    bool granted = head->target_node == bus->here && head->place > r->last &&
                   head->place >> 32 == epoch &&
                   !tri_virtual_is_active(r->v) &&
                   tri_kind_of(cluster, r->v) != NULL;
    tri_lock_drop(&shard->lock);
    return granted;
}

static bool is_here(tri_bus *bus, tri_route *r)
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

void tri_route_arrived(tri_bus *bus, tri_route *r, tri_parcel *p)
{
    uint64_t number = p->head->place;
    if (p->head->sender_node == bus->here && !come_home(bus, p)) {
        return;
    }
    refill(bus, r);  // what an activation here has left is older
    bool granted =
        r->first == NULL &&
        (r->state == TRI_ROUTE_NONE ||
         (r->state == TRI_ROUTE_REMOTE && r->number < number)) &&
        is_granted(bus, r, p->head);
    if (granted && r->state == TRI_ROUTE_REMOTE && r->away) {
        // What our own senders have sent away comes back first.
        begin_flush(bus, r, bus->here, number);
        granted = false;
    }
    if (!granted && r->state == TRI_ROUTE_REMOTE &&
        p->head->sender_node == bus->here && !is_here(bus, r)) {
        // Two caches lead to each other: once all is home, ask the owner.
        begin_flush(bus, r, bus->here, TRI_NUMBER_NONE);
    }
    if (r->state == TRI_ROUTE_FLUSHING &&
        (p->head->through >> bus->here & 1)) {
        add_back(bus, r, p);
    } else {
        tri_route_add(bus, r, p);
    }
    if (granted) {
        r->state = TRI_ROUTE_NONE;
        begin_here(bus, r, number);
    }
    tri_route_go(bus, r);
}

void tri_route_control(tri_bus *bus, tri_route *r, tri_parcel *p)
{
    refill(bus, r);
    tri_route_add(bus, r, p);
    tri_route_go(bus, r);
}

void tri_route_find(tri_bus *bus, tri_route *r)
{
    if (r->state == TRI_ROUTE_NONE) {
        ask(bus, r);
        tri_route_go(bus, r);
    }
}

void tri_route_looked(tri_bus *bus, tri_virtual *v)
{
    tri_route *r = tri_route_get(bus, v);
    if (r != NULL) {
        refill(bus, r);
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

/* ---- moving ---- */

static void end_flush(tri_bus *bus, tri_route *r)
{
    forget_question(bus, r);
    r->last_back = NULL;
    set_remote(bus, r, r->next_node, r->next_number);
    if (r->next_node == bus->here) {
        r->state = TRI_ROUTE_NONE;
        set_away(bus, r, false);
    }
    tri_watch_place(bus, r, true);  // for those who watch since then
    tri_route_go(bus, r);
}

/* It will be active here; not so of one that only gathers what is its own. */
static bool is_sink(tri_bus *bus, const tri_route *r)
{
    return r->next_node == bus->here && r->next_number != TRI_NUMBER_NONE;
}

/*
 * Two nodes may follow their messages through each other, each holding the
 * other's marker: one must give way. It is the one that has heard of the
 * older place; of two that have heard of the same, the one where the actor
 * will not be; else the one with the larger number. So in no circle of such
 * waits do all of them wait.
 */
static bool goes_first(tri_bus *bus, const tri_route *r, const tri_parcel *p)
{
    if (r->next_number != p->number) {
        return r->next_number > p->number;
    }
    return is_sink(bus, r) || bus->here < p->origin;
}

/* What its origin sends here from now on waits behind the rest. Takes p. */
static void give_way(tri_bus *bus, tri_route *r, tri_parcel *p)
{
    answer_flush(bus, p, r->next_number,
                 is_sink(bus, r) ? FLUSHED_SINK : FLUSHED_JOIN);
}

/* We have heard of a newer place: whose marker need not wait any more? */
static void review_markers(tri_bus *bus, tri_route *r)
{
    tri_parcel **link = &r->first, *last = NULL;
    while (*link != NULL) {
        tri_parcel *p = *link;
        if (p->kind == TRI_PARCEL_FLUSH && goes_first(bus, r, p)) {
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

/* What we send goes through `node` no longer. */
static void begin_flush(tri_bus *bus, tri_route *r, uint32_t node,
                        uint64_t number)
{
    r->next_node = node;
    r->next_number = number;
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
    *p = (tri_parcel){.kind = TRI_PARCEL_FLUSH, .v = r->v,
                      .origin = bus->here, .token = r->token,
                      .number = number};
    tri_call_send(bus, r, p);
    r->state = TRI_ROUTE_FLUSHING;
    pause_route(bus, r, TRI_FLUSH_WAIT);
}

void tri_route_learn(tri_bus *bus, tri_virtual *v, uint32_t node,
                     uint64_t number)
{
    tri_route *r = tri_route_get(bus, v);
    if (r == NULL || node >= bus->nodes ||
        (r->state != TRI_ROUTE_REMOTE && r->state != TRI_ROUTE_FLUSHING)) {
        return;
    }
    if (number <= r->number ||
        (r->state == TRI_ROUTE_FLUSHING && number <= r->next_number)) {
        return;  // older than what we know (DI11)
    }
    bus->counts.moved++;
    if (!r->away) {
        set_remote(bus, r, node, number);
    } else {
        begin_flush(bus, r, node, number);
    }
}

static void send_moved(tri_bus *bus, uint32_t to, const char *text,
                       uint32_t node, uint64_t number, bool lost)
{
    tri_writer w = tri_bus_item(bus, TRI_ITEM_MOVED);
    tri_write_u32(&w, node);
    tri_write_u64(&w, number);
    tri_write_u8(&w, lost);
    tri_write_text(&w, text);
    (void)tri_bus_put(bus, to, &w, NULL);
}

/* Another activation of it was first: ours ends, its mail goes there. */
static void lose(tri_bus *bus, tri_virtual *v, uint64_t number)
{
    tri_shard *shard = &bus->cluster->shards[v->shard];
    tri_route *r = tri_route_get(bus, v);
    tri_lock_take(&shard->lock);
    bool ours = r != NULL && r->here != 0 && r->here != number &&
                tri_virtual_is_active(v);
    tri_lock_drop(&shard->lock);
    if (ours) {
        bus->counts.races++;
        // Relaxed: it never changes.
        tri_signal(tri_bus_worker(bus), &v->cell,
                   atomic_load_explicit(&v->cell.id, memory_order_relaxed),
                   TRI_SIG_STOP);
    }
}

void tri_route_moved(tri_bus *bus, tri_peer *peer, tri_reader *reader)
{
    char text[TRI_ID_MAX + 1];
    tr_err err;
    (void)peer;
    uint32_t node = tri_read_u32(reader);
    uint64_t number = tri_read_u64(reader);
    bool lost = tri_read_u8(reader) != 0;
    tri_read_text(reader, text, TRI_ID_MAX);
    tri_virtual *v =
        reader->failed ? NULL : tri_bus_record(bus, text, &err);
    if (v != NULL && lost) {
        lose(bus, v, number);
    } else if (v != NULL) {
        tri_route_learn(bus, v, node, number);
    }
}

void tri_route_flush(tri_bus *bus, tri_peer *peer, tri_reader *reader)
{
    char text[TRI_ID_MAX + 1];
    tr_err err;
    (void)peer;
    uint32_t origin = tri_read_u32(reader);
    uint64_t token = tri_read_u64(reader);
    uint8_t forwards = tri_read_u8(reader);
    tri_read_text(reader, text, TRI_ID_MAX);
    uint64_t number = tri_read_u64(reader);
    tri_virtual *v =
        reader->failed ? NULL : tri_bus_record(bus, text, &err);
    tri_route *r = v != NULL ? tri_route_get(bus, v) : NULL;
    tri_parcel *p =
        r != NULL ? tri_mem_calloc(&bus->sys->mem, sizeof(*p)) : NULL;
    if (p == NULL || origin >= bus->nodes) {
        free(p);
        return;  // its origin goes on when it has waited enough
    }
    *p = (tri_parcel){.kind = TRI_PARCEL_FLUSH, .v = v, .origin = origin,
                      .token = token, .number = number,
                      .forwards = forwards};
    if (origin == bus->here) {  // our own: all before it has come home
        tri_parcel_free(bus, p);
        if (r->state == TRI_ROUTE_FLUSHING && r->token == token) {
            r->next_node = bus->here;
            end_flush(bus, r);
        }
        return;
    }
    if (r->state == TRI_ROUTE_FLUSHING && goes_first(bus, r, p)) {
        give_way(bus, r, p);
        return;
    }
    refill(bus, r);
    tri_route_add(bus, r, p);
    tri_route_go(bus, r);
}

void tri_route_flushed(tri_bus *bus, tri_peer *peer, tri_reader *reader)
{
    uint64_t token = tri_read_u64(reader);
    uint64_t number = tri_read_u64(reader);
    uint8_t how = tri_read_u8(reader);
    tri_route *r =
        token != 0 && !reader->failed ? tri_map_get(&bus->asked, token)
                                      : NULL;
    if (r == NULL || r->state != TRI_ROUTE_FLUSHING) {
        return;
    }
    if (how != FLUSHED_ALL && r->next_number > number) {
        // We know more since the marker left: another, that says so.
        forget_question(bus, r);
        r->state = TRI_ROUTE_REMOTE;
        begin_flush(bus, r, r->next_node, r->next_number);
        tri_route_go(bus, r);  // without memory there is none
        return;
    }
    if (how == FLUSHED_JOIN) {  // through that node, wherever it leads
        r->next_node = peer->node;
        r->next_number = TRI_NUMBER_NONE;
    } else if (number != 0) {  // where the messages are, whatever we heard
        r->next_node = peer->node;
        r->next_number = number;
    }
    end_flush(bus, r);
}

void tri_route_timer(tri_bus *bus, tri_route *r)
{
    if (r->state == TRI_ROUTE_FLUSHING) {
        end_flush(bus, r);
    } else if (r->state == TRI_ROUTE_ASKING) {
        r->state = TRI_ROUTE_NONE;
        if (r->first != NULL) {
            tri_route_go(bus, r);
        } else if (r->watches != NULL) {
            ask(bus, r);
        }
    }
}

/* ---- views ---- */

static void claim(tri_bus *bus, uint32_t owner, uint64_t epoch,
                  tri_virtual *v, uint64_t number)
{
    tri_decision decision;
    if (owner == bus->here) {
        tri_place place = {.node = bus->here, .number = number};
        if (tri_directory_register(&bus->cluster->directory, v->text,
                                   v->size, place, &decision) == TR_OK &&
            decision.kind == TRI_PLACE_RACE) {
            lose(bus, v, decision.place.number);
        }
        return;
    }
    tri_writer w = tri_bus_item(bus, TRI_ITEM_CLAIM);
    tri_write_u64(&w, number);
    tri_write_u64(&w, epoch);
    tri_write_text(&w, v->text);
    (void)tri_bus_put(bus, owner, &w, NULL);
}

/* What claims to us was told that we are the owner, perhaps before us. */
static void believe(tri_bus *bus, uint32_t shard, uint64_t epoch)
{
    uint64_t known;
    (void)tri_shard_owner(&bus->cluster->directory, shard, &known);
    if (epoch > known) {
        tri_route_shard(bus, shard, bus->here, epoch);
    }
}

void tri_route_claim(tri_bus *bus, tri_peer *peer, tri_reader *r)
{
    char text[TRI_ID_MAX + 1];
    tri_decision decision;
    uint64_t number = tri_read_u64(r);
    uint64_t epoch = tri_read_u64(r);
    tri_read_text(r, text, TRI_ID_MAX);
    if (r->failed) {
        return;
    }
    uint32_t shard = tri_shard_of(text, strlen(text));
    tri_place place = {.node = peer->node, .number = number};
    believe(bus, shard, epoch);
    if (tri_shard_owner(&bus->cluster->directory, shard, NULL) !=
        bus->here) {
        return;  // of an older view: it claims to the next owner, too
    }
    if (tri_directory_register(&bus->cluster->directory, text, strlen(text),
                               place, &decision) == TR_OK &&
        decision.kind == TRI_PLACE_RACE) {
        send_moved(bus, peer->node, text, decision.place.node,
                   decision.place.number, true);
    }
}

void tri_route_claimed(tri_bus *bus, tri_peer *peer, tri_reader *r)
{
    uint32_t shard = tri_read_u32(r);
    uint64_t epoch = tri_read_u64(r), known;
    if (!r->failed && shard < TRI_SHARDS) {
        believe(bus, shard, epoch);
        (void)tri_shard_owner(&bus->cluster->directory, shard, &known);
        if (epoch == known) {
            bus->handover[shard].missing &= ~(UINT64_C(1) << peer->node);
        }
    }
}

/* Whom the new owner waits for: all that it can reach. */
static uint64_t reachable(tri_bus *bus)
{
    uint64_t nodes = 0;
    for (uint32_t i = 0; i < bus->nodes; i++) {
        if (i != bus->here &&
            (bus->peers[i] == NULL || !bus->peers[i]->lost)) {
            nodes |= UINT64_C(1) << i;
        }
    }
    return nodes;
}

void tri_route_shard(tri_bus *bus, uint32_t shard, uint32_t owner,
                     uint64_t epoch)
{
    TRI_CHECK(shard < TRI_SHARDS && owner < bus->nodes);
    tri_shard *records = &bus->cluster->shards[shard];
    tri_lock_take(&records->lock);
    bool newer = tri_shard_set(&bus->cluster->directory, shard, owner, epoch);
    if (newer) {
        bus->handover[shard].missing =
            owner == bus->here ? reachable(bus) : 0;
        bus->handover[shard].until = tri_bus_now(bus) + TRI_HANDOVER;
    }
    tri_lock_drop(&records->lock);
    if (!newer) {
        return;
    }
    tri_lock_take(&bus->routes_lock);
    tri_route *first = bus->routes;
    tri_lock_drop(&bus->routes_lock);
    // Routes are added in front and stay.
    for (tri_route *r = first; r != NULL; r = r->next) {
        if (r->v->shard != shard) {
            continue;
        }
        tri_lock_take(&records->lock);
        uint64_t here = tri_virtual_is_active(r->v) ? r->here : 0;
        tri_lock_drop(&records->lock);
        if (here != 0) {
            claim(bus, owner, epoch, r->v, here);
        }
        if (r->state == TRI_ROUTE_ASKING) {
            ask_later(bus, r);
        }
    }
    if (owner != bus->here) {
        tri_writer w = tri_bus_item(bus, TRI_ITEM_CLAIMED);
        tri_write_u32(&w, shard);
        tri_write_u64(&w, epoch);
        (void)tri_bus_put(bus, owner, &w, NULL);
    }
}

void tri_route_lost(tri_bus *bus, uint32_t node)
{
    tri_lock_take(&bus->routes_lock);
    tri_route *first = bus->routes;
    tri_lock_drop(&bus->routes_lock);
    for (tri_route *r = first; r != NULL; r = r->next) {
        r->watchers &= ~(UINT64_C(1) << node);
        if (r->state == TRI_ROUTE_FLUSHING && r->node == node) {
            end_flush(bus, r);
        } else if (r->state == TRI_ROUTE_REMOTE && r->node == node) {
            r->state = TRI_ROUTE_NONE;  // the next message asks again
            tri_watch_lost(bus, r, TR_NODE_DOWN);
        } else if (r->state == TRI_ROUTE_ASKING && r->token != 0 &&
                   tri_shard_owner(&bus->cluster->directory, r->v->shard,
                                   NULL) == node) {
            ask_later(bus, r);
        }
    }
}
