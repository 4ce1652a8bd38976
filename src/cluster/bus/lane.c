/*
 * lane.c - the way to the actors of one shard.
 *
 *   state    event                                 next
 *   CLOSED   we own the shard, no marker           OPEN: deliver what waits
 *   CLOSED   another member owns it                REMOTE: send what waits
 *   REMOTE   new owner, no mail was sent           CLOSED, then as above
 *   REMOTE   new owner, mail was sent to the old   REMOTE still, marker sent
 *   REMOTE   its node is dead                      CLOSED, then as above
 *   OPEN     the view names the next owner         CLOSED, draining
 *   OPEN     the lease is lost                     CLOSED, until there is one
 *   CLOSED   draining, no actor is active          the membership moves it
 *   any      our marker has come, or we go on as   held mail behind the rest,
 *            another incarnation                   CLOSED, then as above
 *
 * A marker follows the mail that this node has sent, and goes where that mail
 * goes, to the owner of the shard, who answers at once: what comes from this
 * node after that is behind it in the owner's queue. While the marker is under
 * way, new mail of senders on this node is held; mail of other nodes, which
 * still comes through this one, goes the way it went before; if some did, one
 * more marker follows it.
 *
 * A node that has become the owner keeps what comes, and may have passed on
 * older mail of the same sender. So it holds everything until its own marker is
 * back, also markers of others, whose senders therefore do not begin another
 * way meanwhile. All that it had passed on comes back on the way of its marker,
 * from the same node as the marker: what came from that node goes first.
 *
 * A node passes a marker on to a node that has owned the shard in a later epoch
 * than itself, so it comes to the owner after finitely many steps. Only the
 * owner lets markers of others wait, for its own, which no other node lets
 * wait: a shard has one owner, and it moves on only after it was open.
 *
 * Invariant: mail that one sender has sent to one actor is, from the oldest to
 * the newest: in a mailbox, under way before our marker, in `first`, in
 * `first_held`, and pending in the record.
 */
#include "cluster/bus/lane.h"

#include <stdatomic.h>
#include <stddef.h>

#include "base/check.h"
#include "base/lock.h"
#include "cluster/bus/deliver.h"
#include "cluster/bus/hosted.h"
#include "cluster/bus/outgoing.h"
#include "cluster/bus/parcel.h"
#include "cluster/bus/peer.h"
#include "cluster/bus/relay.h"
#include "cluster/bus/stopping.h"
#include "cluster/virtual/activation.h"
#include "cluster/virtual/catalog.h"
#include "cluster/virtual/cluster.h"
#include "cluster/virtual/shard.h"
#include "system/reminders.h"

static tri_lane *lane_of(tri_bus *bus, uint32_t shard)
{
    TRI_CHECK(shard < TRI_SHARDS);
    return &bus->lanes[shard];
}

static uint32_t shard_of(tri_bus *bus, const tri_lane *lane)
{
    return (uint32_t)(lane - bus->lanes);
}

/* ---- the queues ---- */

static void append(tri_parcel **first, tri_parcel **last, tri_parcel *p)
{
    TRI_CHECK(p != NULL);
    p->next = NULL;
    if (*first == NULL) {
        *first = p;
    } else {
        (*last)->next = p;
    }
    *last = p;
}

static tri_parcel *pop(tri_lane *lane)
{
    tri_parcel *p = lane->first;
    if (p != NULL) {
        lane->first = p->next;
        p->next = NULL;
    }
    return p;
}

static void push_front(tri_lane *lane, tri_parcel *p)
{
    TRI_CHECK(p->next == NULL);
    if (lane->first == NULL) {
        lane->last = p;
    }
    p->next = lane->first;
    lane->first = p;
}

/* Keeps the list of lanes in which mail waits, the longest wait first. */
static void note_waiting(tri_bus *bus, tri_lane *lane)
{
    bool waits = lane->first != NULL || lane->first_held != NULL ||
                 lane->marker_unsent || lane->draining;
    if (waits && !tri_link_is_linked(&lane->link)) {
        lane->since = tri_bus_now(bus);
        tri_list_push_back(&bus->waiting, &lane->link);
    } else if (!waits && tri_link_is_linked(&lane->link)) {
        tri_list_remove(&lane->link);
    }
}

/* ---- going on ---- */

/* Sends what waits to the owner, as far as there is room. */
static void send_waiting(tri_bus *bus, tri_lane *lane)
{
    TRI_CHECK(lane->state == TRI_LANE_REMOTE);
    tri_parcel *p;
    while ((p = pop(lane)) != NULL) {
        if (!tri_outgoing_send(bus, lane->to, p)) {
            push_front(lane, p);
            return;
        }
        lane->mail_sent = true;
        lane->passed_since = lane->token != 0;
    }
}

static void go_on(tri_bus *bus, tri_lane *lane)
{
    if (lane->state == TRI_LANE_OPEN) {
        tri_parcel *waiting = lane->first;
        lane->first = lane->last = NULL;
        tri_deliver_here(bus, waiting);
    } else if (lane->state == TRI_LANE_REMOTE) {
        send_waiting(bus, lane);
    }
    note_waiting(bus, lane);
}

/* Lets senders of this node begin actors of the shard, or not any more. */
static void set_open(tri_bus *bus, uint32_t shard, bool open)
{
    tri_shard *records = &bus->cluster->shards[shard];
    tri_lock_take(&records->lock);
    records->is_open = open;
    tri_lock_drop(&records->lock);
    tri_reminders_shard_changed(bus->sys, tri_bus_worker(bus), shard);
}

/*
 * Chooses the state of a lane, and goes on. What waits is delivered before
 * senders of this node may begin actors themselves.
 */
static void choose(tri_bus *bus, tri_lane *lane)
{
    uint32_t shard = shard_of(bus, lane);
    tri_node owner = tri_bus_owner(bus, shard);
    bool ours = tri_bus_owns(bus, shard);
    lane->state = TRI_LANE_CLOSED;
    lane->mail_sent = false;
    if (ours && !bus->is_fenced && lane->token == 0 && !lane->draining &&
        tri_list_is_empty(&lane->hosted)) {
        tri_stopping_finish(bus, shard);
        lane->state = TRI_LANE_OPEN;
        go_on(bus, lane);
        set_open(bus, shard, true);
    } else if (!ours && bus->view != NULL && tri_view_has(bus->view, owner) &&
               !tri_node_is(owner, bus->node)) {
        lane->state = TRI_LANE_REMOTE;
        lane->to = owner;
        go_on(bus, lane);
    } else {
        note_waiting(bus, lane);
    }
}

/* ---- mail ---- */

/*
 * True if the parcel has to wait until our marker has come: it is our own, or
 * this node owns the shard.
 */
static bool is_behind_marker(tri_bus *bus, const tri_lane *lane,
                             const tri_parcel *p)
{
    bool ours =
        p->kind != TRI_PARCEL_PASSED && tri_node_is(p->origin, bus->node);
    return lane->token != 0 && (ours || tri_bus_owns(bus, shard_of(bus, lane)));
}

void tri_lane_put(tri_bus *bus, uint32_t shard, tri_parcel *p)
{
    tri_lane *lane = lane_of(bus, shard);
    TRI_CHECK(p != NULL);
    if (is_behind_marker(bus, lane, p)) {
        p->via = bus->frame_from;
        append(&lane->first_held, &lane->last_held, p);
        note_waiting(bus, lane);
        return;
    }
    if (p->kind == TRI_PARCEL_FLUSH && tri_bus_owns(bus, shard)) {
        tri_parcel_answer_marker(bus, p);
        return;
    }
    append(&lane->first, &lane->last, p);
    go_on(bus, lane);
}

void tri_lane_put_back(tri_bus *bus, uint32_t shard, tri_parcel *p)
{
    tri_lane *lane = lane_of(bus, shard);
    push_front(lane, p);
    note_waiting(bus, lane);
}

void tri_lane_take_mail(tri_bus *bus, tri_virtual *v)
{
    tri_lane *lane = lane_of(bus, v->shard);
    for (;;) {
        bool open = lane->state == TRI_LANE_OPEN;
        tri_item *mail =
            tri_catalog_take_mail(bus->cluster, tri_bus_worker(bus), v, open);
        if (mail == NULL) {
            return;
        }
        tri_parcel *list = tri_parcel_from_mail(bus, v, mail);
        while (list != NULL) {
            tri_parcel *next = list->next;
            if (open) {  // all of it at once: see tri_deliver_here
                append(&lane->first, &lane->last, list);
            } else {
                tri_lane_put(bus, v->shard, list);
            }
            list = next;
        }
        go_on(bus, lane);
        if (!open) {
            return;  // later mail of the record tells the bus again
        }
    }
}

/* ---- markers ---- */

/* Sends our marker behind the mail that went to lane->marker_to. */
static void send_marker(tri_bus *bus, tri_lane *lane)
{
    TRI_CHECK(lane->token != 0);
    tri_parcel *p =
        tri_parcel_marker(bus, shard_of(bus, lane), bus->node, lane->token, 0);
    lane->marker_unsent =
        p == NULL || !tri_outgoing_send(bus, lane->marker_to, p);
    if (lane->marker_unsent && p != NULL) {
        tri_parcel_free(bus, p);
    }
    note_waiting(bus, lane);
}

/*
 * Sends a marker if mail was sent to a node that is not the owner any more.
 * Returns false if there is no need to.
 */
static bool begin_marker(tri_bus *bus, tri_lane *lane)
{
    if (lane->state != TRI_LANE_REMOTE || !lane->mail_sent ||
        !tri_view_has(bus->view, lane->to) ||
        tri_node_is(lane->to, tri_bus_owner(bus, shard_of(bus, lane)))) {
        return false;
    }
    lane->token = ++bus->next_number;
    lane->marker_to = lane->to;
    lane->passed_since = false;
    send_marker(bus, lane);
    return true;
}

/* Appends what is held: first what came from the node `via`, then the rest. */
static void take_held(tri_lane *lane, uint32_t via)
{
    TRI_CHECK(lane->token == 0);
    tri_parcel *rest = NULL, *rest_last = NULL, *next;
    for (tri_parcel *p = lane->first_held; p != NULL; p = next) {
        next = p->next;
        if (via != TRI_NODE_NONE && p->via == via) {
            append(&lane->first, &lane->last, p);
        } else {
            append(&rest, &rest_last, p);
        }
    }
    lane->first_held = lane->last_held = NULL;
    for (tri_parcel *p = rest; p != NULL; p = next) {
        next = p->next;
        append(&lane->first, &lane->last, p);
    }
}

/*
 * Everything that this node had sent before its marker has arrived, or has
 * ended. The marker came from the node bus->frame_from, if it came at all.
 */
static void marker_has_come(tri_bus *bus, tri_lane *lane)
{
    TRI_CHECK(lane->token != 0);
    lane->token = 0;
    lane->marker_unsent = false;
    if (tri_node_is(lane->marker_to, lane->to) && !lane->passed_since) {
        lane->mail_sent = false;
    }
    if (begin_marker(bus, lane)) {
        return;  // mail of other nodes was passed on behind the marker
    }
    take_held(lane, bus->frame_from);
    choose(bus, lane);
    // What went before the marker is with the owner, perhaps not handled yet.
    lane->mail_sent |= lane->state == TRI_LANE_REMOTE;
}

bool tri_lane_on_marker(tri_bus *bus, tri_peer *peer, tri_reader *r)
{
    (void)peer;
    uint32_t shard = tri_read_u32(r);
    tri_node origin = {.slot = tri_read_u32(r)};
    origin.incarnation = tri_read_u64(r);
    uint64_t token = tri_read_u64(r);
    uint8_t forwards = tri_read_u8(r);
    (void)tri_read_u8(r);
    if (r->failed || shard >= TRI_SHARDS || token == 0) {
        return true;
    }
    tri_lane *lane = lane_of(bus, shard);
    if (tri_node_is(origin, bus->node)) {  // our mail has come back
        if (lane->token == token) {
            marker_has_come(bus, lane);
        }
        return true;
    }
    tri_parcel *p = tri_parcel_marker(bus, shard, origin, token, forwards);
    if (p != NULL) {
        tri_lane_put(bus, shard, p);
    }
    return p != NULL;
}

void tri_lane_on_flushed(tri_bus *bus, tri_reader *r)
{
    uint32_t shard = tri_read_u32(r);
    uint64_t token = tri_read_u64(r);
    if (!r->failed && shard < TRI_SHARDS && token != 0 &&
        lane_of(bus, shard)->token == token) {
        marker_has_come(bus, lane_of(bus, shard));
    }
}

/* ---- owners ---- */

void tri_lane_set_owner(tri_bus *bus, uint32_t shard,
                        const tri_shard_owner *owner)
{
    tri_lane *lane = lane_of(bus, shard);
    tri_node before = tri_bus_owner(bus, shard);
    TRI_CHECK(owner->epoch > bus->owners[shard].epoch);
    bus->owners[shard] = *owner;
    // Only the owner knows which activations are still its own. The others
    // keep their epoch until the owner has confirmed them (hosted.h).
    bool raised = tri_node_is(before, owner->node);
    bool confirmed =
        (raised && tri_bus_owns(bus, shard)) ||
        tri_fence_is_broken(&bus->cluster->fence_break, TRI_FENCE_BREAK_EPOCH);
    tri_activation_set_epoch(bus->cluster, shard, owner->node.slot,
                             owner->epoch, confirmed);
    bus->hosts_changed = true;
    if (raised) {
        tri_relay_epoch_raised(bus, shard);
        return;
    }
    tri_relay_shard_lost(bus, shard);
    tri_hosted_owner_changed(bus, shard);
    lane->draining = false;
    tri_stopping_finish(bus, shard);  // before the next owner places some here
    if (lane->state == TRI_LANE_OPEN) {
        set_open(bus, shard, false);
    }
    if (lane->token == 0 || tri_bus_owns(bus, shard)) {
        (void)begin_marker(bus, lane);  // behind all that was passed on
    }
    if (lane->state == TRI_LANE_REMOTE && lane->mail_sent &&
        tri_view_has(bus->view, lane->to) && !tri_bus_owns(bus, shard)) {
        return;  // mail keeps to its way until our marker has come
    }
    choose(bus, lane);  // an owner keeps what comes, also its own mail
}

void tri_lane_review(tri_bus *bus, uint32_t shard)
{
    TRI_CHECK(shard < TRI_SHARDS);
    tri_lane *lane = lane_of(bus, shard);
    tri_node owner = tri_bus_owner(bus, shard);
    if (lane->state == TRI_LANE_CLOSED && !lane->draining &&
        bus->view != NULL && tri_view_has(bus->view, owner)) {
        choose(bus, lane);
    }
}

/* Gives the shard away if none of its actors is active any more. */
static void hand_over_if_empty(tri_bus *bus, uint32_t shard)
{
    tri_shard *records = &bus->cluster->shards[shard];
    // Relaxed: an activation that ends tells the bus after it has counted.
    if (atomic_load_explicit(&records->active, memory_order_relaxed) == 0 &&
        tri_list_is_empty(&bus->lanes[shard].relays) &&
        !bus->lanes[shard].drained) {
        bus->lanes[shard].drained = true;
        bus->up->handed_over(bus->up_user, shard);
    }
}

void tri_lane_drain(tri_bus *bus, uint32_t shard)
{
    tri_lane *lane = lane_of(bus, shard);
    if (lane->draining || lane->state != TRI_LANE_OPEN) {
        lane->drained = false;  // in a newer view: tell it again
        return;
    }
    lane->draining = true;
    lane->drained = false;
    lane->state = TRI_LANE_CLOSED;
    set_open(bus, shard, false);
    tri_stopping_add(bus, shard);
    note_waiting(bus, lane);
    hand_over_if_empty(bus, shard);
}

void tri_lane_keep(tri_bus *bus, uint32_t shard)
{
    tri_lane *lane = lane_of(bus, shard);
    if (lane->draining) {
        lane->draining = false;
        choose(bus, lane);
    }
}

void tri_lane_node_dead(tri_bus *bus, tri_node node)
{
    TRI_CHECK(!tri_view_has(bus->view, node));
    for (uint32_t i = 0; i < TRI_SHARDS; i++) {
        tri_lane *lane = &bus->lanes[i];
        if (lane->state == TRI_LANE_REMOTE && tri_node_is(lane->to, node)) {
            choose(bus, lane);
        }
        if (lane->token != 0 && tri_node_is(lane->marker_to, node)) {
            marker_has_come(bus, lane);  // what it had is lost with it
        } else if (lane->token != 0) {
            // The marker may have been lost with a node it was passed on to.
            lane->token = ++bus->next_number;
            send_marker(bus, lane);
        }
    }
}

void tri_lane_close_all(tri_bus *bus)
{
    for (uint32_t i = 0; i < TRI_SHARDS; i++) {
        tri_lane *lane = &bus->lanes[i];
        if (lane->state == TRI_LANE_OPEN || lane->draining) {
            lane->state = TRI_LANE_CLOSED;
            lane->draining = false;
            set_open(bus, i, false);
            tri_stopping_add(bus, i);
            note_waiting(bus, lane);
        }
    }
    tri_hosted_orphan_all(bus);
}

void tri_lane_check_lease(tri_bus *bus)
{
    TRI_CHECK(bus->ctx != NULL);
    bool has_lease = tri_bus_has_lease(bus);
    if (!has_lease && !bus->is_fenced) {
        bus->is_fenced = true;
        tri_lane_close_all(bus);
        return;
    }
    // Acquire: pairs with tri_bus_set_node. The lease may be that of another
    // incarnation, which the bus has not become yet.
    if (!has_lease || !bus->is_fenced ||
        atomic_load_explicit(&bus->next_node, memory_order_acquire) != 0) {
        return;
    }
    bus->is_fenced = false;
    if (bus->view != NULL && tri_view_has(bus->view, bus->node)) {
        bus->view_left = TRI_SHARDS;  // the end of this turn opens them
    }
}

void tri_lane_restart(tri_bus *bus)
{
    for (uint32_t i = 0; i < TRI_SHARDS; i++) {
        tri_lane *lane = &bus->lanes[i];
        TRI_CHECK(lane->state != TRI_LANE_OPEN);
        lane->mail_sent = false;
        if (lane->token != 0) {
            marker_has_come(bus, lane);
        }
    }
}

/* ---- time ---- */

bool tri_lane_retry(tri_bus *bus)
{
    bool left = false;
    TRI_LIST_EACH_SAFE (link, &bus->waiting) {
        tri_lane *lane = tri_list_item(link, tri_lane, link);
        if (lane->marker_unsent) {
            send_marker(bus, lane);
        }
        if (lane->draining) {
            hand_over_if_empty(bus, shard_of(bus, lane));
        }
        go_on(bus, lane);
        left = left || lane->marker_unsent ||
               (lane->draining && !lane->drained) ||
               (lane->state == TRI_LANE_REMOTE && lane->first != NULL);
    }
    return left;
}

/* Fails all mail that waits; markers and watches stay. */
static void fail(tri_bus *bus, tri_lane *lane, tr_err err, const char *why)
{
    tri_parcel *lists[] = {lane->first, lane->first_held}, *next;
    lane->first = lane->last = lane->first_held = lane->last_held = NULL;
    for (uint32_t i = 0; i < TRI_COUNT_OF(lists); i++) {
        for (tri_parcel *p = lists[i]; p != NULL; p = next) {
            next = p->next;
            p->next = NULL;
            if (!bus->closed &&
                (p->kind == TRI_PARCEL_FLUSH || p->kind == TRI_PARCEL_WATCH)) {
                append(&lane->first, &lane->last, p);
            } else {
                tri_parcel_fail(bus, p, err, why);
            }
        }
    }
}

tr_nanos tri_lane_expire(tri_bus *bus, tr_nanos now)
{
    tri_link *link;
    while ((link = tri_list_first(&bus->waiting)) != NULL) {
        tri_lane *lane = tri_list_item(link, tri_lane, link);
        if (now - lane->since < TRI_LANE_WAIT) {
            return lane->since + TRI_LANE_WAIT;
        }
        tri_list_remove(&lane->link);
        fail(bus, lane, TR_EUNREACHABLE, "no node could take it");
        if (lane->token != 0) {  // the answer may be lost
            lane->token = ++bus->next_number;
            send_marker(bus, lane);
        }
        note_waiting(bus, lane);
    }
    return TR_FOREVER;
}

void tri_lane_fail_all(tri_bus *bus)
{
    TRI_CHECK(bus->closed);
    for (uint32_t i = 0; i < TRI_SHARDS; i++) {
        bus->lanes[i].draining = bus->lanes[i].marker_unsent = false;
        fail(bus, &bus->lanes[i], TR_ECLOSED, "the system is closing");
        note_waiting(bus, &bus->lanes[i]);
    }
}
