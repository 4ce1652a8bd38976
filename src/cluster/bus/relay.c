/*
 * relay.c - actors that the owner of their shard has placed on another node.
 *
 *   PLACED    mail goes to the host
 *   CLEARING  the activation has ended; the host sends back what is left, mail
 *             that comes meanwhile is held behind it
 *   LOST      the host is dead; mail is held until the epoch was raised above
 *             all that the host can have known, which fences what it still does
 *   NOWHERE   no member hosts the kind, or some have not told their kinds yet
 *
 * Each actor is in a list of its shard, and in one of its host, so that the
 * move of a shard and the death of a node cost what they concern.
 *
 * Invariant: mail of one sender to the actor is, from the oldest to the newest:
 * handled, with the host, in `returned`, in `held`.
 */
#include "cluster/bus/relay.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/map.h"
#include "cluster/bus/deliver.h"
#include "cluster/bus/hosted.h"
#include "cluster/bus/hosts.h"
#include "cluster/bus/lane.h"
#include "cluster/bus/outgoing.h"
#include "cluster/bus/parcel.h"
#include "cluster/bus/peer.h"
#include "cluster/bus/remote_watch.h"
#include "cluster/bus/turn_budget.h"
#include "cluster/transport/frame.h"
#include "cluster/virtual/actor_id.h"
#include "cluster/virtual/cluster.h"
#include "cluster/virtual/kind.h"
#include "cluster/virtual/names.h"
#include "cluster/virtual/virtual.h"
#include "core/cell/cell.h"
#include "core/cell/mem.h"
#include "core/system.h"
#include "troupe/cluster.h"

typedef enum relay_state { PLACED, CLEARING, LOST, NOWHERE } relay_state;

typedef struct tri_relay {
    tri_link of_shard;  // in the lane's relays
    tri_link of_host;   // in bus->placed_on; of NOWHERE: bus->relays_nowhere
    tri_virtual *v;     // held
    tri_node host;
    uint8_t state;
    uint64_t lost_epoch;  // of LOST: the host may have known this one
    tri_parcel *returned, **returned_end;
    tri_parcel *held, **held_end;
} tri_relay;

/* ---- the table ---- */

static uint64_t key_of(const tri_virtual *v)
{
    return (uint64_t)(uintptr_t)v;
}

static tri_relay *find(tri_bus *bus, const tri_virtual *v)
{
    return tri_map_get(&bus->relays, key_of(v));
}

static tri_relay *relay_new(tri_bus *bus, tri_virtual *v)
{
    tri_relay *r = tri_mem_calloc(&bus->sys->mem, sizeof(*r));
    if (r == NULL || tri_map_put(&bus->relays, key_of(v), r) != TR_OK) {
        free(r);
        return NULL;
    }
    r->v = v;
    r->state = NOWHERE;
    r->returned_end = &r->returned;
    r->held_end = &r->held;
    tri_names_hold_record(bus->cluster, v);
    tri_list_push_back(&bus->lanes[v->shard].relays, &r->of_shard);
    tri_link_init(&r->of_host);
    return r;
}

/* Places the actor on a host. */
static void set_host(tri_bus *bus, tri_relay *r, tri_node host)
{
    TRI_CHECK(r->state == NOWHERE && host.slot < TRI_NODES_MAX);
    if (tri_link_is_linked(&r->of_host)) {
        tri_list_remove(&r->of_host);  // it has waited for one
    }
    r->host = host;
    r->state = PLACED;
    bus->placed_on[host.slot].count++;
    tri_list_push_back(&bus->placed_on[host.slot].relays, &r->of_host);
}

/* Takes an actor out of the table; returns its mail, in order. */
static tri_parcel *relay_end(tri_bus *bus, tri_relay *r)
{
    tri_list_remove(&r->of_shard);
    *r->returned_end = r->held;
    tri_parcel *mail = r->returned;
    tri_map_remove(&bus->relays, key_of(r->v));
    if (tri_link_is_linked(&r->of_host)) {
        tri_list_remove(&r->of_host);
    }
    if (r->state != NOWHERE) {
        TRI_CHECK(bus->placed_on[r->host.slot].count > 0);
        bus->placed_on[r->host.slot].count--;
    }
    tri_names_release(bus->cluster, r->v);
    free(r);
    return mail;
}

static void hold(tri_relay *r, tri_parcel *p)
{
    TRI_CHECK(r->state != PLACED);
    TRI_CHECK(*r->held_end == NULL);
    p->next = NULL;
    *r->held_end = p;
    r->held_end = &p->next;
}

/* ---- choosing a host ---- */

bool tri_relay_is_needed(tri_bus *bus, tri_virtual *v)
{
    if (find(bus, v) != NULL) {
        return true;
    }
    // Under one lock with what senders of this node decide (is_elsewhere): they
    // do not wait until bus->kinds has a kind that was hosted just now.
    tri_shard *shard = tri_cluster_shard(bus->cluster, v);
    tri_lock_take(&shard->lock);
    const tri_kind *kind = tri_kind_of(bus->cluster, v);
    bool is_needed = kind == NULL || kind->placement != TR_PLACE_OWNER;
    v->placed |= is_needed;
    tri_lock_drop(&shard->lock);
    return is_needed;
}

/* Returns the number of the member that a placement prefers: lowest wins. */
static uint64_t preference(tri_bus *bus, const tri_hosted_kind *kind,
                           uint32_t slot, uint32_t sender)
{
    switch (kind->placement) {
    case TR_PLACE_LOCAL:
        return slot != sender;
    case TR_PLACE_RANDOM:
        return tri_hash_mix(bus->next_number + slot);
    default:
        return bus->placed_on[slot].count;
    }
}

/* Chooses a host for mail of that sender. Errors: TR_ENOENT, TR_EWOULDBLOCK. */
static tr_err choose_host(tri_bus *bus, tri_relay *r, uint32_t sender)
{
    TRI_CHECK(bus->view != NULL && r->state == NOWHERE);
    const tri_hosted_kind *kind = tri_hosts_find(bus, r->v->text);
    tri_node best = {.slot = TRI_NODE_NONE};
    uint64_t lowest = UINT64_MAX;
    bool all_known = true;
    bus->next_number++;
    for (uint32_t i = 0; i < bus->view->slots; i++) {
        uint64_t incarnation = bus->view->members[i].incarnation;
        if (incarnation == 0) {
            continue;
        }
        all_known = all_known && tri_hosts_has_told(bus, i);
        if (kind != NULL && tri_slots_has(&kind->nodes, i)) {
            uint64_t p = preference(bus, kind, i, sender);
            if (best.slot == TRI_NODE_NONE || p < lowest) {
                lowest = p;
                best = (tri_node){.slot = i, .incarnation = incarnation};
            }
        }
    }
    if (best.slot == TRI_NODE_NONE) {
        return all_known ? TR_ENOENT : TR_EWOULDBLOCK;
    }
    set_host(bus, r, best);
    return TR_OK;
}

/* ---- mail ---- */

static uint32_t sender_of(tri_bus *bus, const tri_parcel *p)
{
    return p->kind == TRI_PARCEL_PASSED ? p->head->sender_node : bus->node.slot;
}

static void pass_on(tri_bus *bus, tri_relay *r, tri_parcel *p)
{
    TRI_CHECK(r->state == PLACED);
    p->relayed = true;
    if (tri_node_is(r->host, bus->node)) {
        tri_hosted_take(bus, bus->node, p);
    } else if (!tri_outgoing_send(bus, r->host, p)) {
        tri_parcel_fail(bus, p, TR_EFULL, tr_strerror(TR_EFULL));
    }
}

/* Fails what nobody can host. */
static void fail_all(tri_bus *bus, tri_parcel *list, tr_err err,
                     const char *why)
{
    for (tri_parcel *next; list != NULL; list = next) {
        next = list->next;
        list->next = NULL;
        if (list->kind == TRI_PARCEL_WATCH) {
            tri_remote_watch_here(bus, list);  // there is no such actor
        } else {
            tri_parcel_fail(bus, list, err, why);
        }
    }
}

/* Places the actor, if that is possible, and passes its mail on. */
static void place(tri_bus *bus, tri_relay *r)
{
    TRI_CHECK(r->state == NOWHERE);
    bool has_message = false;
    for (tri_parcel *p = r->held; p != NULL && !has_message; p = p->next) {
        has_message = p->msg != NULL || p->kind == TRI_PARCEL_PASSED;
    }
    tr_err err = has_message && r->held != NULL
                     ? choose_host(bus, r, sender_of(bus, r->held))
                     : TR_ENOENT;
    if (err == TR_EWOULDBLOCK) {
        if (!tri_link_is_linked(&r->of_host)) {
            tri_list_push_back(&bus->relays_nowhere, &r->of_host);
        }
        return;
    }
    if (err == TR_ENOENT) {  // or there is nothing that begins the actor
        fail_all(bus, relay_end(bus, r), TR_ENOENT, "no node hosts its kind");
        return;
    }
    tri_parcel *list = r->held;
    r->held = NULL;
    r->held_end = &r->held;
    tri_relay_send(bus, r->v, list);  // may free r
}

/* Passes one parcel on, or holds it. The actor may be in the table or not. */
static void send_one(tri_bus *bus, tri_virtual *v, tri_parcel *p)
{
    tri_relay *r = find(bus, v);
    if (r == NULL) {
        r = relay_new(bus, v);
    }
    p->next = NULL;
    if (r == NULL) {
        fail_all(bus, p, TR_ENOMEM, "out of memory");
    } else if (r->state == PLACED) {
        pass_on(bus, r, p);  // may free r
    } else {
        hold(r, p);
    }
}

void tri_relay_send(tri_bus *bus, tri_virtual *v, tri_parcel *list)
{
    tri_names_hold_record(bus->cluster, v);
    for (tri_parcel *next; list != NULL; list = next) {
        next = list->next;
        send_one(bus, v, list);
    }
    tri_relay *r = find(bus, v);
    if (r != NULL && r->state == NOWHERE) {
        place(bus, r);
    }
    tri_names_release(bus->cluster, v);
}

bool tri_relay_put_back(tri_bus *bus, tri_parcel *p)
{
    tri_relay *r = p->v != NULL && p->relayed ? find(bus, p->v) : NULL;
    if (r == NULL) {
        p->relayed = false;
        return false;
    }
    p->next = r->returned;
    r->returned = p;
    if (p->next == NULL) {
        r->returned_end = &p->next;
    }
    return true;
}

/* ---- the end of an activation ---- */

static bool tell_host(tri_bus *bus, const tri_relay *r, tri_frame_kind kind)
{
    TRI_CHECK(!tri_node_is(r->host, bus->node));
    tri_writer w = tri_peer_frame(bus, kind);
    tri_write_text(&w, r->v->text);
    tri_write_u64(&w, bus->owners[r->v->shard].epoch);
    return tri_peer_put(bus, r->host, &w, NULL);
}

/* Reads the actor of a frame of its host; NULL: it is not placed there. */
static tri_relay *relay_of(tri_bus *bus, tri_node host, tri_reader *reader)
{
    char text[TRI_ACTOR_ID_MAX + 1];
    tr_err err;
    tri_read_text(reader, text, TRI_ACTOR_ID_MAX);
    tri_virtual *v = reader->failed ? NULL : tri_bus_record(bus, text, &err);
    tri_relay *r = v != NULL ? find(bus, v) : NULL;
    if (v != NULL) {
        tri_names_release(bus->cluster, v);
    }
    return r != NULL && tri_node_is(r->host, host) ? r : NULL;
}

void tri_relay_host_ended(tri_bus *bus, tri_virtual *v)
{
    tri_relay *r = find(bus, v);
    if (r != NULL && r->state == PLACED && tri_node_is(r->host, bus->node)) {
        r->state = CLEARING;
        tri_hosted_clear(bus, v);
    }
}

void tri_relay_on_ended(tri_bus *bus, tri_peer *peer, tri_reader *reader)
{
    tri_relay *r = relay_of(bus, tri_peer_node(peer), reader);
    if (r != NULL && r->state == PLACED) {
        r->state = CLEARING;
        // Without memory the host asks again.
        if (!tell_host(bus, r, TRI_FRAME_HOSTED_CLEAR)) {
            r->state = PLACED;
        }
    }
}

void tri_relay_on_returned(tri_bus *bus, tri_parcel *p)
{
    TRI_CHECK(p->v != NULL);
    tri_relay *r = find(bus, p->v);
    p->relayed = false;
    if (r == NULL || r->state != CLEARING) {
        tri_lane_put(bus, p->shard, p);  // this node is not the owner any more
        return;
    }
    p->next = NULL;
    *r->returned_end = p;
    r->returned_end = &p->next;
}

/* Delivers mail of an actor that is placed nowhere now. Takes the list. */
static void deliver_again(tri_bus *bus, uint32_t shard, tri_parcel *list)
{
    if (list != NULL && bus->lanes[shard].state == TRI_LANE_OPEN) {
        tri_deliver_here(bus, list);
        return;
    }
    tri_parcel *reversed = NULL;
    for (tri_parcel *next; list != NULL; list = next) {
        next = list->next;
        list->next = reversed;
        reversed = list;
    }
    for (tri_parcel *next; reversed != NULL; reversed = next) {
        next = reversed->next;
        reversed->next = NULL;
        tri_lane_put_back(bus, shard, reversed);
    }
}

void tri_relay_gone(tri_bus *bus, tri_virtual *v)
{
    tri_relay *r = find(bus, v);
    if (r != NULL && r->state == CLEARING) {
        uint32_t shard = v->shard;
        deliver_again(bus, shard, relay_end(bus, r));
    }
}

void tri_relay_on_gone(tri_bus *bus, tri_peer *peer, tri_reader *reader)
{
    tri_relay *r = relay_of(bus, tri_peer_node(peer), reader);
    if (r != NULL) {
        tri_relay_gone(bus, r->v);
    }
}

/* ---- shards and nodes ---- */

uint32_t tri_relay_drain(tri_bus *bus, uint32_t shard)
{
    TRI_CHECK(shard < TRI_SHARDS);
    uint32_t told = 0;
    TRI_LIST_EACH_SAFE (link, &bus->lanes[shard].relays) {
        tri_relay *r = tri_list_item(link, tri_relay, of_shard);
        told++;
        if (r->state == NOWHERE) {
            deliver_again(bus, shard, relay_end(bus, r));
        } else if (r->state == PLACED) {
            tri_parcel *p =
                tri_parcel_new(bus, TRI_PARCEL_CONTROL, r->v, bus->node);
            if (p != NULL) {  // else the drain asks again
                p->token = TRI_SIG_STOP;
                pass_on(bus, r, p);
            }
        }
    }
    return told;
}

void tri_relay_node_dead(tri_bus *bus, tri_node node)
{
    TRI_CHECK(node.incarnation != 0 && node.slot < TRI_NODES_MAX);
    uint64_t asked[TRI_SHARDS / 64] = {0};
    TRI_LIST_EACH_ITEM (r, &bus->placed_on[node.slot].relays, tri_relay,
                        of_host) {
        uint32_t shard = r->v->shard;
        uint64_t bit = UINT64_C(1) << shard % 64;
        if (!tri_node_is(r->host, node)) {
            continue;
        }
        // That of the view, which the host may have had while it lived.
        r->lost_epoch = bus->view->shards[shard].epoch;
        r->state = LOST;
        if ((asked[shard / 64] & bit) == 0) {
            asked[shard / 64] |= bit;
            bus->up->raise_epoch(bus->up_user, shard, r->lost_epoch);
        }
    }
}

/* Appends a list to one that ends at `end`; returns where it ends now. */
static tri_parcel **append(tri_parcel **end, tri_parcel *list)
{
    TRI_CHECK(*end == NULL);
    *end = list;
    while (*end != NULL) {
        end = &(*end)->next;
    }
    return end;
}

void tri_relay_epoch_raised(tri_bus *bus, uint32_t shard)
{
    TRI_CHECK(shard < TRI_SHARDS);
    tri_parcel *lost = NULL, **lost_end = &lost;
    TRI_LIST_EACH_SAFE (link, &bus->lanes[shard].relays) {
        tri_relay *r = tri_list_item(link, tri_relay, of_shard);
        tri_turn_budget_spend(bus, 1);
        if (r->state == LOST && bus->owners[shard].epoch > r->lost_epoch) {
            lost_end = append(lost_end, relay_end(bus, r));
        } else if (r->state == PLACED && tri_bus_owns(bus, shard) &&
                   !tri_node_is(r->host, bus->node)) {
            // Without memory its next write is refused, and it ends.
            (void)tell_host(bus, r, TRI_FRAME_HOSTED_CONFIRM);
        }
    }
    deliver_again(bus, shard, lost);  // places them: not while walking the list
}

void tri_relay_shard_lost(tri_bus *bus, uint32_t shard)
{
    TRI_CHECK(shard < TRI_SHARDS);
    tri_parcel *mail = NULL, **end = &mail;
    tri_link *link;
    while ((link = tri_list_first(&bus->lanes[shard].relays)) != NULL) {
        tri_relay *r = tri_list_item(link, tri_relay, of_shard);
        tri_turn_budget_spend(bus, 1);
        end = append(end, relay_end(bus, r));
    }
    deliver_again(bus, shard, mail);
}

bool tri_relay_retry(tri_bus *bus)
{
    tri_list waiting;
    tri_link *link;
    tri_list_init(&waiting);
    tri_list_move(&waiting, &bus->relays_nowhere);
    while ((link = tri_list_pop_front(&waiting)) != NULL) {
        place(bus, tri_list_item(link, tri_relay, of_host));
    }
    return !tri_list_is_empty(&bus->relays_nowhere);
}

void tri_relay_free_all(tri_bus *bus)
{
    tri_relay *r;
    TRI_CHECK(bus->closed);
    for (tri_map_iter it = tri_map_iter_begin(&bus->relays);
         (r = tri_map_iter_next(&bus->relays, &it)) != NULL;) {
        fail_all(bus, relay_end(bus, r), TR_ECLOSED, "the system is closing");
    }
    tri_map_fini(&bus->relays);
}
