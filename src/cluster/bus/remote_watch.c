/*
 * remote_watch.c - watches of actors that are on other nodes.
 *
 * The watcher's node keeps the watch and sends a WATCH to the owner of the
 * actor's shard, in the lane, behind the mail that may begin the actor. There
 * the bus itself watches the actor, once for each node that asked, and answers
 * WATCHING. Exactly one notice comes back for each watch, rule 33
 * (tr_terminated): of the actor's end, of the death of its node, or that there
 * is no such actor. A WATCH whose answer may have been lost with a node is sent
 * again; watching twice is watching once.
 *
 * Invariant: a tri_watch that was taken is in tri_watched.watches until it is
 * sent back or its unwatch has come.
 */
#include "cluster/bus/remote_watch.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/list.h"
#include "base/map.h"
#include "cluster/bus/hosted.h"
#include "cluster/bus/hosts.h"
#include "cluster/bus/lane.h"
#include "cluster/bus/parcel.h"
#include "cluster/bus/peer.h"
#include "cluster/virtual/actor_id.h"
#include "cluster/virtual/names.h"
#include "cluster/virtual/virtual.h"
#include "core/cell/cell.h"
#include "core/cell/mem.h"
#include "core/cell/ref.h"
#include "core/mail/push.h"
#include "core/run/context.h"
#include "core/system.h"
#include "system/system_log.h"
#include "troupe/observe.h"

/* An actor that is watched from here, or from other nodes while it is here. */
typedef struct tri_watched {
    tri_virtual *v;      // held
    tri_list watches;    // of our actors, for an actor elsewhere
    tri_node at;         // that has answered WATCHING; TRI_NODE_NONE: none
    bool watch_unsent;   // our WATCH could not be sent
    tri_slots watchers;  // nodes that watch the actor here
    tri_slots untold;    // nodes to be told that it has ended,
    uint32_t reason;     // ... and why
} tri_watched;

/* ---- any thread ---- */

bool tri_remote_watch_add(tri_worker *worker, tri_cell *cell, tri_watch *watch)
{
    TRI_CHECK(watch != NULL);
    return tri_bus_tell_remote(worker, cell, TRI_NOTE_WATCH, 0, watch);
}

bool tri_remote_watch_remove(tri_worker *worker, tri_cell *cell,
                             tri_watching *watching)
{
    TRI_CHECK(watching != NULL);
    return tri_bus_tell_remote(worker, cell, TRI_NOTE_UNWATCH, 0, watching);
}

/* ---- the table ---- */

static uint64_t key_of(const tri_virtual *v)
{
    return (uint64_t)(uintptr_t)v;
}

static tri_watched *find(tri_bus *bus, const tri_virtual *v)
{
    return tri_map_get(&bus->watched, key_of(v));
}

/* Returns the entry of an actor, made on first use; NULL: no memory. */
static tri_watched *get(tri_bus *bus, tri_virtual *v)
{
    tri_watched *w = find(bus, v);
    if (w != NULL) {
        return w;
    }
    w = tri_mem_calloc(&bus->sys->mem, sizeof(*w));
    if (w == NULL || tri_map_put(&bus->watched, key_of(v), w) != TR_OK) {
        free(w);
        return NULL;
    }
    w->v = v;
    w->at.slot = TRI_NODE_NONE;
    tri_list_init(&w->watches);
    tri_names_hold_record(bus->cluster, v);
    return w;
}

static bool is_empty(const tri_slots *set)
{
    uint64_t any = 0;
    for (uint32_t i = 0; i < TRI_COUNT_OF(set->bits); i++) {
        any |= set->bits[i];
    }
    return any == 0;
}

/* Frees an entry that nobody needs any more. */
static void drop_if_unused(tri_bus *bus, tri_watched *w)
{
    if (tri_list_is_empty(&w->watches) && is_empty(&w->watchers) &&
        is_empty(&w->untold)) {
        tri_map_remove(&bus->watched, key_of(w->v));
        tri_names_release(bus->cluster, w->v);
        free(w);
    }
}

/* ---- frames ---- */

/* Sends a frame about an actor. Returns false without memory. */
static bool send_frame(tri_bus *bus, uint32_t slot, tri_frame_kind kind,
                       tri_virtual *v, uint32_t reason)
{
    tri_writer w = tri_peer_frame(bus, kind);
    tri_write_u32(&w, reason);
    tri_write_text(&w, v->text);
    return tri_peer_put_slot(bus, slot, &w);
}

/* Tells the nodes in w->untold of the end. Returns false if some are left. */
static bool tell_untold(tri_bus *bus, tri_watched *w)
{
    for (uint32_t i = 0; bus->view != NULL && i < bus->view->slots; i++) {
        if (tri_slots_has(&w->untold, i) &&
            send_frame(bus, i, TRI_FRAME_ENDED, w->v, w->reason)) {
            tri_slots_remove(&w->untold, i);
        }
    }
    return is_empty(&w->untold);
}

/* Sends our WATCH into the lane of the actor's shard. */
static void send_watch(tri_bus *bus, tri_watched *w)
{
    TRI_CHECK(w->v != NULL);
    tri_virtual *v = w->v;
    tri_parcel *p = tri_parcel_new(bus, TRI_PARCEL_WATCH, v, bus->node);
    w->at.slot = TRI_NODE_NONE;
    w->watch_unsent = p == NULL;
    if (p == NULL) {
        bus->watch_news_unsent = true;
        return;
    }
    tri_lane_put(bus, v->shard, p);  // may free w: it is not used any more
}

/* ---- the watcher's node ---- */

/* Sends all watches of an actor back with the reason. */
static void end_watches(tri_bus *bus, tri_watched *w, tr_reason reason)
{
    tri_link *link;
    w->at.slot = TRI_NODE_NONE;
    w->watch_unsent = false;
    while ((link = tri_list_pop_front(&w->watches)) != NULL) {
        tri_watch_send_back(tri_bus_worker(bus),
                            tri_list_item(link, tri_watch, link), reason);
    }
}

static void begin_watch(tri_bus *bus, tri_virtual *v, tri_watch *watch)
{
    TRI_CHECK(watch != NULL);
    tri_watched *w = get(bus, v);
    if (w == NULL) {
        tri_watch_send_back(tri_bus_worker(bus), watch, TR_NO_SUCH_ACTOR);
        return;
    }
    tri_list_push_front(&w->watches, &watch->link);
    tri_lane_take_mail(bus, v);  // mail that may begin the actor
    w = find(bus, v);
    if (w != NULL) {
        send_watch(bus, w);
    }
}

static void end_watch(tri_bus *bus, tri_virtual *v, tri_watching *watching)
{
    tri_watched *w = find(bus, v);
    if (w != NULL) {
        TRI_LIST_EACH_ITEM (watch, &w->watches, tri_watch, link) {
            if (watch == watching->watch &&
                watch->watcher.id == watching->watcher_id) {
                tri_list_remove(&watch->link);
                free(watch);
                break;
            }
        }
        if (tri_list_is_empty(&w->watches) && w->at.slot != TRI_NODE_NONE) {
            // Without memory that node tells us of the end, which is ignored.
            (void)send_frame(bus, w->at.slot, TRI_FRAME_UNWATCH, v, 0);
        }
        drop_if_unused(bus, w);
    }
    free(watching);
}

void tri_remote_watch_note(tri_bus *bus, const tri_bus_note *note)
{
    tri_virtual *v = (tri_virtual *)(uintptr_t)note->record;
    TRI_CHECK(note->extra != 0);
    if (note->what == TRI_NOTE_WATCH) {
        begin_watch(bus, v, (tri_watch *)(uintptr_t)note->extra);
    } else {
        TRI_CHECK(note->what == TRI_NOTE_UNWATCH);
        end_watch(bus, v, (tri_watching *)(uintptr_t)note->extra);
    }
}

/* Our own WATCH has come to this node, where the shard is now. */
static void watch_here(tri_bus *bus, tri_virtual *v)
{
    TRI_CHECK(v != NULL);
    tri_watched *w = find(bus, v);
    bool active = tri_bus_is_active(bus, v);
    if (w == NULL) {
        return;
    }
    while (active && !tri_list_is_empty(&w->watches)) {
        tri_watch *watch =
            tri_list_item(tri_list_pop_front(&w->watches), tri_watch, link);
        if (!tri_push_system(tri_bus_worker(bus), &v->cell, &watch->item)) {
            tri_watch_send_back(tri_bus_worker(bus), watch, TR_NO_SUCH_ACTOR);
        }
    }
    end_watches(bus, w, TR_NO_SUCH_ACTOR);
    drop_if_unused(bus, w);
}

/* ---- the actor's node ---- */

/* Watches an actor here for another node. Returns false without memory. */
static bool watch_for(tri_bus *bus, uint32_t slot, tri_virtual *v)
{
    tri_watched *w = get(bus, v);
    if (w == NULL) {
        return false;
    }
    bool watched = tri_watch_ref(tri_bus_worker(bus), bus->sys, bus->ctx->cell,
                                 tri_bus_ref(bus, v), false) == TR_OK;
    if (watched) {
        tri_slots_add(&w->watchers, slot);
        (void)send_frame(bus, slot, TRI_FRAME_WATCHING, v, 0);
    }
    drop_if_unused(bus, w);
    return watched;
}

void tri_remote_watch_here(tri_bus *bus, tri_parcel *p)
{
    TRI_CHECK(p->kind == TRI_PARCEL_WATCH);
    tri_virtual *v = p->v;
    if (tri_node_is(p->origin, bus->node)) {
        watch_here(bus, v);
    } else if (bus->view != NULL && tri_view_has(bus->view, p->origin)) {
        bool active = tri_bus_is_active(bus, v);
        if (active && !watch_for(bus, p->origin.slot, v)) {
            tri_logf(bus->sys, TR_LOG_ERROR, NULL, NULL,
                     "out of memory: %s is not watched for node %u", v->text,
                     p->origin.slot);
            active = false;
        }
        if (!active) {
            (void)send_frame(bus, p->origin.slot, TRI_FRAME_ENDED, v,
                             TR_NO_SUCH_ACTOR);
        }
    }
    tri_parcel_free(bus, p);
}

void tri_remote_watch_ended(tri_bus *bus, tr_ref actor, uint32_t reason)
{
    TRI_CHECK(tri_cell_is_virtual(tri_ref_cell(actor)));
    tri_watched *w = find(bus, tri_virtual_of(tri_ref_cell(actor)));
    if (w == NULL) {
        return;
    }
    for (uint32_t i = 0; i < TRI_COUNT_OF(w->untold.bits); i++) {
        w->untold.bits[i] |= w->watchers.bits[i];
        w->watchers.bits[i] = 0;
    }
    w->reason = reason;
    if (!tell_untold(bus, w)) {
        bus->watch_news_unsent = true;
    }
    drop_if_unused(bus, w);
}

/* ---- both ---- */

void tri_remote_watch_node_dead(tri_bus *bus, tri_node node)
{
    TRI_CHECK(node.slot < TRI_NODES_MAX);
    tri_watched *w;
    for (tri_map_iter it = tri_map_iter_begin(&bus->watched);
         (w = tri_map_iter_next(&bus->watched, &it)) != NULL;) {
        tri_slots_remove(&w->watchers, node.slot);
        tri_slots_remove(&w->untold, node.slot);
        if (tri_node_is(w->at, node)) {
            end_watches(bus, w, TR_NODE_DOWN);
        } else if (w->at.slot == TRI_NODE_NONE &&
                   !tri_list_is_empty(&w->watches)) {
            w->watch_unsent = bus->watch_news_unsent = true;
        }
        drop_if_unused(bus, w);
    }
}

bool tri_remote_watch_send_unsent(tri_bus *bus)
{
    if (!bus->watch_news_unsent) {
        return false;
    }
    bus->watch_news_unsent = false;
    tri_watched *w;
    for (tri_map_iter it = tri_map_iter_begin(&bus->watched);
         (w = tri_map_iter_next(&bus->watched, &it)) != NULL;) {
        if (!tell_untold(bus, w)) {
            bus->watch_news_unsent = true;
        }
        if (w->watch_unsent) {
            send_watch(bus, w);
        } else {
            drop_if_unused(bus, w);
        }
    }
    return bus->watch_news_unsent;
}

/* A WATCH of another node goes into the lane, as mail does. */
static bool on_watch(tri_bus *bus, tri_peer *peer, tri_reader *reader)
{
    char text[TRI_ACTOR_ID_MAX + 1];
    tr_err err;
    (void)tri_read_u32(reader);
    tri_node origin = {.slot = tri_read_u32(reader)};
    origin.incarnation = tri_read_u64(reader);
    (void)tri_read_u64(reader);
    uint8_t forwards = tri_read_u8(reader);
    bool relayed = tri_read_u8(reader) != 0;
    tri_read_text(reader, text, TRI_ACTOR_ID_MAX);
    tri_virtual *v = reader->failed ? NULL : tri_bus_record(bus, text, &err);
    if (v == NULL) {
        return true;
    }
    tri_parcel *p = tri_parcel_new(bus, TRI_PARCEL_WATCH, v, origin);
    if (p != NULL) {
        p->forwards = forwards;
        p->relayed = relayed;
        if (relayed) {
            tri_hosted_take(bus, tri_peer_node(peer), p);
        } else {
            tri_lane_put(bus, v->shard, p);
        }
    }
    tri_names_release(bus->cluster, v);
    return p != NULL;
}

bool tri_remote_watch_on_frame(tri_bus *bus, tri_peer *peer,
                               tri_frame_kind kind, tri_reader *reader)
{
    char text[TRI_ACTOR_ID_MAX + 1];
    tr_err err;
    if (kind == TRI_FRAME_WATCH) {
        return on_watch(bus, peer, reader);
    }
    uint32_t reason = tri_read_u32(reader);
    tri_read_text(reader, text, TRI_ACTOR_ID_MAX);
    tri_virtual *v = reader->failed ? NULL : tri_bus_record(bus, text, &err);
    if (v == NULL) {
        return true;
    }
    tri_watched *w = find(bus, v);
    if (w != NULL && kind == TRI_FRAME_WATCHING) {
        w->at = tri_peer_node(peer);
    } else if (w != NULL && kind == TRI_FRAME_UNWATCH) {
        tri_slots_remove(&w->watchers, peer->node);
        drop_if_unused(bus, w);
    } else if (w != NULL && kind == TRI_FRAME_ENDED) {
        end_watches(bus, w, (tr_reason)reason);
        drop_if_unused(bus, w);
    }
    tri_names_release(bus->cluster, v);
    return true;
}

void tri_remote_watch_close(tri_bus *bus)
{
    tri_watched *w;
    for (tri_map_iter it = tri_map_iter_begin(&bus->watched);
         (w = tri_map_iter_next(&bus->watched, &it)) != NULL;) {
        end_watches(bus, w, TR_NODE_DOWN);
    }
}

void tri_remote_watch_free_all(tri_bus *bus)
{
    tri_watched *w;
    TRI_CHECK(bus->closed);
    for (tri_map_iter it = tri_map_iter_begin(&bus->watched);
         (w = tri_map_iter_next(&bus->watched, &it)) != NULL;) {
        tri_link *link;
        while ((link = tri_list_pop_front(&w->watches)) != NULL) {
            free(tri_list_item(link, tri_watch, link));
        }
        free(w);
    }
    tri_map_fini(&bus->watched);
}
