/*
 * hosted.c - actors that the owner of their shard has placed on this node.
 *
 *   ACTIVE    mail of the owner goes into the mailbox
 *   ENDED     the activation has ended; the owner was told. What it has not
 *             handled, and mail of the owner that comes meanwhile, waits
 *   CLEARED   the owner sends nothing more: what waits has gone back to it
 *
 * If the shard gets another owner, or this node has lost its lease, the
 * activation is stopped, and what it has not handled fails: one of the two
 * nodes is dead, and nobody takes what went through a dead node. What an owner
 * passes on after that waits for the end of the orphan.
 *
 * The activation keeps the epoch in which it began. A view with a higher one
 * may be the one in which this node is replaced; only the owner knows, and
 * confirms the activation in the new epoch (TRI_FRAME_HOSTED_CONFIRM).
 *
 * Invariant: the cell of a hosted actor has TRI_CELL_RELAYED, so senders of
 * this node do not push into its mailbox; their mail goes to the owner.
 */
#include "cluster/bus/hosted.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/map.h"
#include "cluster/bus/deliver.h"
#include "cluster/bus/hosts.h"
#include "cluster/bus/lane.h"
#include "cluster/bus/outgoing.h"
#include "cluster/bus/parcel.h"
#include "cluster/bus/peer.h"
#include "cluster/bus/relay.h"
#include "cluster/bus/turn_budget.h"
#include "cluster/transport/frame.h"
#include "cluster/virtual/activation.h"
#include "cluster/virtual/actor_id.h"
#include "cluster/virtual/catalog.h"
#include "cluster/virtual/names.h"
#include "cluster/virtual/virtual.h"
#include "core/cell/cell.h"
#include "core/cell/mem.h"
#include "core/life/signal.h"
#include "core/system.h"
#include "system/reminders.h"

typedef struct tri_hosted {
    tri_link of_shard;  // in the lane's hosted
    tri_link untold;    // in bus->hosted_untold: the owner is told once more
    tri_virtual *v;     // held
    tri_node owner;     // that has placed it here
    bool ended;
    bool orphaned;  // the owner is not the owner any more
    tri_parcel *first, **end;
} tri_hosted;

static uint64_t key_of(const tri_virtual *v)
{
    return (uint64_t)(uintptr_t)v;
}

static tri_hosted *find(tri_bus *bus, const tri_virtual *v)
{
    return tri_map_get(&bus->hosted, key_of(v));
}

static void set_relayed(tri_bus *bus, tri_virtual *v, bool relayed)
{
    tri_shard *shard = tri_cluster_shard(bus->cluster, v);
    tri_lock_take(&shard->lock);
    TRI_CHECK(v->relayed != relayed);
    v->relayed = relayed;
    tri_lock_drop(&shard->lock);
}

static tri_hosted *hosted_new(tri_bus *bus, tri_virtual *v, tri_node owner)
{
    tri_hosted *h = tri_mem_calloc(&bus->sys->mem, sizeof(*h));
    if (h == NULL || tri_map_put(&bus->hosted, key_of(v), h) != TR_OK) {
        free(h);
        return NULL;
    }
    h->v = v;
    h->owner = owner;
    h->end = &h->first;
    tri_list_push_back(&bus->lanes[v->shard].hosted, &h->of_shard);
    tri_link_init(&h->untold);
    tri_names_hold_record(bus->cluster, v);
    set_relayed(bus, v, true);
    return h;
}

/* Takes the actor out of the table; returns the parcels that wait. */
static tri_parcel *hosted_end(tri_bus *bus, tri_hosted *h)
{
    tri_parcel *list = h->first;
    uint32_t shard = h->v->shard;
    tri_map_remove(&bus->hosted, key_of(h->v));
    tri_list_remove(&h->of_shard);
    if (tri_link_is_linked(&h->untold)) {
        tri_list_remove(&h->untold);
    }
    set_relayed(bus, h->v, false);
    tri_names_release(bus->cluster, h->v);
    free(h);
    if (tri_list_is_empty(&bus->lanes[shard].hosted)) {
        tri_lane_review(bus, shard);  // it may have waited for this
    }
    return list;
}

static void add(tri_hosted *h, tri_parcel *p)
{
    TRI_CHECK(*h->end == NULL);
    p->next = NULL;
    *h->end = p;
    h->end = &p->next;
}

/* ---- mail ---- */

/* Delivers one parcel. What an activation that is ending refuses is kept. */
static void deliver(tri_bus *bus, tri_hosted *h, tri_parcel *p)
{
    tri_item *refused = tri_deliver_one(bus, h->v, p);
    tri_parcel *list =
        refused != NULL ? tri_parcel_from_mail(bus, h->v, refused) : NULL;
    for (tri_parcel *next; list != NULL; list = next) {
        next = list->next;
        add(h, list);
    }
}

void tri_hosted_take(tri_bus *bus, tri_node owner, tri_parcel *p)
{
    tri_virtual *v = p->v;
    TRI_CHECK(v != NULL && p->relayed);
    if (!tri_node_is(tri_bus_owner(bus, v->shard), owner) ||
        !tri_view_has(bus->view, bus->node)) {
        p->relayed = false;
        tri_lane_put(bus, v->shard, p);  // to whoever is the owner now
        return;
    }
    tri_hosted *h = find(bus, v);
    if (h == NULL) {
        h = hosted_new(bus, v, owner);
    }
    if (h == NULL) {
        tri_parcel_fail(bus, p, TR_ENOMEM, "out of memory");
    } else if (h->ended || h->orphaned) {
        h->owner = owner;  // of what waits for the end of an orphan
        add(h, p);
    } else {
        deliver(bus, h, p);
        if (!tri_bus_is_active(bus, v)) {
            tri_hosted_ended(bus, v);  // it could not begin
        }
    }
}

/* ---- its end ---- */

static void fail_all(tri_bus *bus, tri_parcel *list)
{
    for (tri_parcel *next; list != NULL; list = next) {
        next = list->next;
        list->next = NULL;
        tri_parcel_fail(bus, list, TR_EUNREACHABLE,
                        "the owner of its shard is dead");
    }
}

/* Takes what the activation has left in its queue, in front of the rest. */
static void take_left(tri_bus *bus, tri_hosted *h)
{
    TRI_CHECK(h->ended);
    tri_item *left = tri_catalog_take_left(bus->cluster, h->v);
    tri_parcel *list =
        left != NULL ? tri_parcel_from_mail(bus, h->v, left) : NULL;
    if (list == NULL) {
        return;
    }
    tri_parcel *last = list;
    while (last->next != NULL) {
        last = last->next;
    }
    last->next = h->first;
    if (h->first == NULL) {
        h->end = &last->next;
    }
    h->first = list;
}

static void tell_owner(tri_bus *bus, tri_hosted *h)
{
    TRI_CHECK(h->ended && !h->orphaned);
    if (tri_node_is(h->owner, bus->node)) {
        tri_relay_host_ended(bus, h->v);  // may free h
        return;
    }
    tri_writer w = tri_peer_frame(bus, TRI_FRAME_HOSTED_ENDED);
    tri_write_text(&w, h->v->text);
    if (!tri_peer_put(bus, h->owner, &w, NULL)) {
        tri_list_push_back(&bus->hosted_untold, &h->untold);
    }
}

/*
 * Ends an orphan: what it has not handled fails; mail that an owner has passed
 * on since then begins the actor anew.
 */
static void end_orphan(tri_bus *bus, tri_hosted *h)
{
    TRI_CHECK(h->ended && h->orphaned);
    tri_item *left = tri_catalog_take_left(bus->cluster, h->v);
    if (left != NULL) {
        fail_all(bus, tri_parcel_from_mail(bus, h->v, left));
    }
    tri_node owner = h->owner;
    tri_parcel *list = hosted_end(bus, h);
    for (tri_parcel *next; list != NULL; list = next) {
        next = list->next;
        list->next = NULL;
        list->relayed = true;
        tri_hosted_take(bus, owner, list);
    }
}

void tri_hosted_ended(tri_bus *bus, tri_virtual *v)
{
    tri_hosted *h = find(bus, v);
    if (h == NULL || h->ended || tri_bus_is_active(bus, v)) {
        return;
    }
    h->ended = true;
    if (h->orphaned) {
        end_orphan(bus, h);
    } else {
        take_left(bus, h);
        tell_owner(bus, h);
    }
}

void tri_hosted_clear(tri_bus *bus, tri_virtual *v)
{
    tri_hosted *h = find(bus, v);
    if (h == NULL || !h->ended) {
        return;
    }
    tri_node owner = h->owner;
    bool here = tri_node_is(owner, bus->node);
    tri_names_hold_record(bus->cluster, v);
    tri_parcel *list = hosted_end(bus, h);
    for (tri_parcel *next; list != NULL; list = next) {
        next = list->next;
        list->next = NULL;
        list->relayed = true;
        if (here) {
            tri_relay_on_returned(bus, list);
        } else if (!tri_outgoing_send_back(bus, owner, list)) {
            tri_parcel_fail(bus, list, TR_EFULL, tr_strerror(TR_EFULL));
        }
    }
    if (here) {
        tri_relay_gone(bus, v);
    } else {
        tri_writer w = tri_peer_frame(bus, TRI_FRAME_HOSTED_GONE);
        tri_write_text(&w, v->text);
        // Without memory the owner holds mail until this node is gone.
        (void)tri_peer_put(bus, owner, &w, NULL);
    }
    tri_names_release(bus->cluster, v);
}

/*
 * Reads name and epoch of a frame of an owner. Returns the record, held, if
 * that owner has placed the actor here; else NULL.
 */
static tri_virtual *named_by_owner(tri_bus *bus, tri_peer *peer,
                                   tri_reader *reader, uint64_t *epoch)
{
    char text[TRI_ACTOR_ID_MAX + 1];
    tr_err err;
    tri_read_text(reader, text, TRI_ACTOR_ID_MAX);
    *epoch = tri_read_u64(reader);
    tri_virtual *v = reader->failed ? NULL : tri_bus_record(bus, text, &err);
    if (v == NULL) {
        return NULL;
    }
    const tri_hosted *h = find(bus, v);
    if (h != NULL && !h->orphaned &&
        tri_node_is(h->owner, tri_peer_node(peer))) {
        return v;
    }
    tri_names_release(bus->cluster, v);
    return NULL;
}

void tri_hosted_on_clear(tri_bus *bus, tri_peer *peer, tri_reader *reader)
{
    uint64_t epoch;
    tri_virtual *v = named_by_owner(bus, peer, reader, &epoch);
    if (v != NULL) {
        tri_hosted_clear(bus, v);
        tri_names_release(bus->cluster, v);
    }
}

void tri_hosted_on_confirm(tri_bus *bus, tri_peer *peer, tri_reader *reader)
{
    uint64_t epoch;
    tri_virtual *v = named_by_owner(bus, peer, reader, &epoch);
    TRI_CHECK(bus->ctx != NULL);
    if (v != NULL) {
        tri_activation_confirm(bus->cluster, v, epoch);
        tri_names_release(bus->cluster, v);
    }
}

/* ---- shards ---- */

/* Stops the activation. What waits for it was passed on by a dead owner. */
static void orphan(tri_bus *bus, tri_hosted *h)
{
    TRI_CHECK(find(bus, h->v) == h);
    if (h->orphaned) {
        return;
    }
    h->orphaned = true;
    if (h->ended) {
        fail_all(bus, hosted_end(bus, h));
        return;
    }
    // Relaxed: the entry holds the record, so it does not change.
    tri_signal(tri_bus_worker(bus), &h->v->cell,
               atomic_load_explicit(&h->v->cell.id, memory_order_relaxed),
               TRI_SIG_STOP);
}

void tri_hosted_orphan_all(tri_bus *bus)
{
    TRI_CHECK(bus->ctx != NULL);
    tri_hosted *h;
    for (tri_map_iter it = tri_map_iter_begin(&bus->hosted);
         (h = tri_map_iter_next(&bus->hosted, &it)) != NULL;) {
        orphan(bus, h);
    }
}

void tri_hosted_owner_changed(tri_bus *bus, uint32_t shard)
{
    TRI_CHECK(shard < TRI_SHARDS);
    tri_node owner = tri_bus_owner(bus, shard);
    TRI_LIST_EACH_SAFE (link, &bus->lanes[shard].hosted) {
        tri_hosted *h = tri_list_item(link, tri_hosted, of_shard);
        tri_turn_budget_spend(bus, 1);
        if (!tri_node_is(h->owner, owner)) {
            orphan(bus, h);
        }
    }
}

void tri_hosted_tell_reminder(tri_bus *bus, uint32_t shard)
{
    tri_node owner = tri_bus_owner(bus, shard);
    if (bus->view == NULL || !tri_view_has(bus->view, owner)) {
        return;  // whoever becomes the owner reads them
    }
    tri_slots slots = tri_hosts_reminding(bus, owner.slot);
    for (uint32_t i = 0; i < bus->view->slots; i++) {
        if (!tri_slots_has(&slots, i) || i == bus->node.slot) {
            continue;
        }
        tri_writer w = tri_peer_frame(bus, TRI_FRAME_REMINDER);
        tri_write_u32(&w, shard);
        // Without memory that node finds it at its next read of the store.
        (void)tri_peer_put_slot(bus, i, &w);
    }
}

void tri_hosted_on_reminder(tri_bus *bus, tri_reader *reader)
{
    uint32_t shard = tri_read_u32(reader);
    if (!reader->failed && shard < TRI_SHARDS) {
        tri_reminders_shard_changed(bus->sys, tri_bus_worker(bus), shard);
    }
}

bool tri_hosted_retry(tri_bus *bus)
{
    tri_list untold;
    tri_link *link;
    tri_list_init(&untold);
    tri_list_move(&untold, &bus->hosted_untold);
    while ((link = tri_list_pop_front(&untold)) != NULL) {
        tell_owner(bus, tri_list_item(link, tri_hosted, untold));
    }
    return !tri_list_is_empty(&bus->hosted_untold);
}

void tri_hosted_free_all(tri_bus *bus)
{
    tri_hosted *h;
    TRI_CHECK(bus->closed);
    for (tri_map_iter it = tri_map_iter_begin(&bus->hosted);
         (h = tri_map_iter_next(&bus->hosted, &it)) != NULL;) {
        for (tri_parcel *p = h->first, *next; p != NULL; p = next) {
            next = p->next;
            tri_parcel_free(bus, p);
        }
        free(h);
    }
    tri_map_fini(&bus->hosted);
}
