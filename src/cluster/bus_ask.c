/*
 * bus_ask.c - where is it? Asking the owner of its shard.
 *
 * Invariant: a route that is ASKING has a timer after which it asks again,
 * and may have a question under way, found by its token. Once a question has
 * failed it asks for TRI_ROUTE_HOLD in all; then its mail is given up.
 */
#include "cluster/bus_route.h"

enum { WHEEL_ROUTE = 1 };

void tri_route_pause(tri_bus *bus, tri_route *r, tr_nanos span)
{
    tri_wheel_arm(&bus->wheel, &r->timer, tri_bus_now(bus) + span, WHEEL_ROUTE);
}

void tri_route_forget(tri_bus *bus, tri_route *r)
{
    if (r->token != 0) {
        tri_map_remove(&bus->asked, r->token);
        r->token = 0;
    }
    tri_wheel_cancel(&bus->wheel, &r->timer);
}

/* Not now: again a little later, but not for ever. */
void tri_route_ask_later(tri_bus *bus, tri_route *r)
{
    tr_nanos now = tri_bus_now(bus);
    tri_route_forget(bus, r);
    if (r->since == 0) {
        r->since = now;
    }
    if (now - r->since >= TRI_ROUTE_HOLD) {
        r->since = 0;
        r->state = TRI_ROUTE_NONE;
        tri_route_fail(bus, r, TR_EUNREACHABLE, "nobody could say where it is");
        tri_route_go(bus, r);  // what has come since
        return;
    }
    r->state = TRI_ROUTE_ASKING;
    tri_route_pause(bus, r, TRI_ROUTE_RETRY);
}

/*
 * A place is used once: whoever gives it back does not begin it as well. Mail
 * that was sent to it may still be on its way, and its owner may give the
 * next one to another node. False: it was used before, perhaps by a sender
 * just now, or an activation is here.
 */
static bool use_place(tri_bus *bus, tri_route *r, uint64_t number)
{
    tri_shard *shard = &bus->cluster->shards[r->v->shard];
    tri_lock_take(&shard->lock);
    bool unused = number > r->last && !tri_virtual_is_active(r->v);
    if (unused) {
        r->last = number;
    }
    tri_lock_drop(&shard->lock);
    return unused;
}

void tri_route_begin(tri_bus *bus, tri_route *r, uint64_t number)
{
    tri_cluster *cluster = bus->cluster;
    tri_shard *shard = &cluster->shards[r->v->shard];
    tri_node *mail = NULL, **end = &mail;
    tri_parcel *p, *behind = NULL, **behind_end = &behind;
    char text[TRI_SHOWN_MAX];
    tr_err err;
    if (!use_place(bus, r, number)) {
        return;
    }
    while ((p = tri_route_next(r)) != NULL) {
        if (p->kind == TRI_PARCEL_CONTROL && mail == NULL) {
            tri_parcel_free(bus, p);  // nobody was there
            continue;
        }
        if (p->kind == TRI_PARCEL_FLUSH || p->kind == TRI_PARCEL_CONTROL) {
            p->next = NULL;
            *behind_end = p;
            behind_end = &p->next;
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
        r->here = number;
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
    while (behind != NULL) {  // all before them is in the mailbox
        p = behind;
        behind = p->next;
        tri_route_add(bus, r, p);
    }
}

/* Was the sender told that this activation is to begin here, in this life? */
bool tri_route_granted(tri_bus *bus, tri_route *r, const tri_envelope *head)
{
    tri_cluster *cluster = bus->cluster;
    tri_shard *shard = &cluster->shards[r->v->shard];
    uint64_t epoch;
    (void)tri_shard_owner(&cluster->directory, r->v->shard, &epoch);
    tri_lock_take(&shard->lock);
    bool granted = head->target_node == bus->here && head->place > r->last &&
                   head->place_life == bus->life &&
                   head->place >> 32 == epoch && !tri_virtual_is_active(r->v) &&
                   tri_kind_of(cluster, r->v) != NULL;
    tri_lock_drop(&shard->lock);
    return granted;
}

/*
 * The newest activation that those who wait were told of and that is to begin
 * here; 0: none. The owner gave it out later than its answer to us.
 */
static uint64_t newest_grant(tri_bus *bus, tri_route *r, uint64_t answered)
{
    uint64_t newest = 0;
    for (tri_parcel *p = r->away ? NULL : r->first; p != NULL; p = p->next) {
        if (p->kind == TRI_PARCEL_PASSED && p->head->place > answered &&
            p->head->place > newest && tri_route_granted(bus, r, p->head)) {
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
    tri_route_forget(bus, r);
    r->state = TRI_ROUTE_NONE;
    if (err == TR_ENOENT) {
        r->since = 0;
        tri_watch_place(bus, r, false);
        if (!r->only_look || !tri_route_needs_place(r)) {
            tri_route_fail(bus, r, TR_ENOENT, "no node hosts its kind");
        }
        return;
    }
    if (err != TR_OK) {
        tri_route_ask_later(bus, r);
        return;
    }
    uint64_t number = decision->place.number;
    uint64_t newer = newest_grant(bus, r, number);
    tri_lock_take(&shard->lock);  // a sender may just have begun one
    uint64_t here = r->here, last = r->last;
    tri_lock_drop(&shard->lock);
    if (newer != 0) {
        r->since = 0;
        tri_route_begin(bus, r, newer);
    } else if (decision->place.node != bus->here) {
        tri_route_set_remote(bus, r, decision->place);
    } else if (number > last && decision->place.life == bus->life) {
        r->since = 0;
        tri_route_begin(bus, r, number);
    } else if (here == number) {
        r->since = 0;  // it is here, and has begun meanwhile
    } else {
        tri_route_unregister(bus, r->v, number);  // it was, and nobody said
        tri_route_ask_later(bus, r);
        return;
    }
    tri_watch_place(bus, r, true);
}

/* Its kind has stateless workers, on these nodes: any of them will do. */
static void to_workers(tri_bus *bus, tri_route *r, uint64_t nodes)
{
    uint32_t node = 0, nth = (uint32_t)(bus->next_number++ % 64);
    tri_parcel *p;
    tri_watch_place(bus, r, false);  // watching the name finds nobody
    if ((nodes >> bus->here & 1) == 0) {
        while (!(nodes >> node & 1) || nth-- > 0) {
            node = (node + 1) % 64;
        }
        tri_route_set_remote(bus, r, (tri_place){.node = node});
        return;
    }
    r->since = 0;
    while ((p = tri_route_next(r)) != NULL) {
        if (p->kind == TRI_PARCEL_FLUSH) {
            tri_flush_here(bus, p);
        } else if (p->kind == TRI_PARCEL_CONTROL) {
            tri_parcel_free(bus, p);  // so does stopping it
        } else {
            tri_call_to_worker(bus, p);
        }
    }
}

void tri_route_ask(tri_bus *bus, tri_route *r)
{
    tri_virtual *v = r->v;
    uint32_t owner = tri_shard_owner(&bus->cluster->directory, v->shard, NULL);
    bool stateless;
    uint64_t nodes = tri_bus_hosts(bus, v->text, &stateless);
    if (stateless && nodes != 0) {
        to_workers(bus, r, nodes);
        return;
    }
    r->only_look = !tri_route_needs_place(r);
    if (owner == bus->here) {
        tri_decision decision;
        tr_err err =
            tri_bus_decide(bus, v->text, v->size, r->only_look, &decision);
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
        tri_route_ask_later(bus, r);
    } else if (!tri_bus_put_mail(bus, owner, &w, NULL)) {
        tri_route_ask_later(bus, r);
    } else {
        tri_route_pause(bus, r, TRI_ASK_WAIT);
    }
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
    decision.place.life = tri_read_u64(reader);
    tri_route *r = reader->failed ? NULL : tri_map_get(&bus->asked, token);
    if (r != NULL && r->state == TRI_ROUTE_ASKING) {
        answer(bus, r, err, &decision);
        tri_route_go(bus, r);
    }
}
