/*
 * bus_watch.c - stopping and watching actors that are on another node.
 *
 * A watch waits with the route here; there, the bus itself watches, once for
 * each node that asked. Exactly one notice comes back for each watch: of the
 * end, of the loss of the node, or that nobody is there (DW, X10).
 *
 * Invariant: a tri_watch that was taken is in r->watches until it is sent
 * back or its unwatch has come.
 */
#include "cluster/bus.h"

#include "base/log.h"
#include "system/layers.h"

/* ---- any thread: is it our concern? ---- */

static tri_bus *bus_for(tri_worker *worker, tri_virtual *v)
{
    tri_cluster *cluster = tri_cluster_of(worker->sys);
    tri_bus *bus = tri_bus_of(cluster);
    if (bus == NULL) {
        return NULL;
    }
    tri_shard *shard = &cluster->shards[v->shard];
    tri_lock_take(&shard->lock);
    bool ours = !bus->closed && !tri_virtual_is_active(v) &&
                !(v->kind != NULL && v->kind->workers > 0);
    tri_lock_drop(&shard->lock);
    return ours ? bus : NULL;
}

static bool tell(tri_worker *worker, tri_cell *cell, uint32_t what,
                 uint64_t number, void *extra)
{
    tri_virtual *v = tri_virtual_of(cell);
    tri_bus *bus = bus_for(worker, v);
    tri_bus_note note = {.what = what,
                         .record = (uint64_t)(uintptr_t)v,
                         .number = number,
                         .extra = (uint64_t)(uintptr_t)extra};
    tr_err err = bus != NULL ? tri_bus_tell(bus, worker, &note) : TR_OK;
    if (err == TR_ENOMEM && what == TRI_NOTE_SIGNAL) {
        tri_logf(bus->sys, TR_LOG_ERROR, NULL, NULL,
                 "out of memory: %s is not stopped", v->text);
    }
    return bus != NULL && err == TR_OK;
}

bool tri_bus_signal(tri_worker *worker, tri_cell *cell, uint32_t signal)
{
    return tell(worker, cell, TRI_NOTE_SIGNAL, signal, NULL);
}

bool tri_bus_poison(tri_worker *worker, tri_cell *cell, tr_msg *msg)
{
    bool taken = tell(worker, cell, TRI_NOTE_SIGNAL, TRI_CONTROL_POISON, NULL);
    if (taken) {
        tri_msg_free(&worker->cache, msg);
    }
    return taken;
}

bool tri_bus_watch(tri_worker *worker, tri_cell *cell, tri_watch *watch)
{
    return tell(worker, cell, TRI_NOTE_WATCH, 0, watch);
}

bool tri_bus_unwatch(tri_worker *worker, tri_cell *cell, tri_watching *watching)
{
    return tell(worker, cell, TRI_NOTE_UNWATCH, 0, watching);
}

/* ---- the watcher's node ---- */

static bool send_text(tri_bus *bus, uint32_t node, tri_item item,
                      tri_virtual *v, uint32_t reason)
{
    tri_writer w = tri_bus_item(bus, item);
    tri_write_u32(&w, reason);
    tri_write_text(&w, v->text);
    return tri_bus_put(bus, node, &w, NULL);
}

static void owe(tri_bus *bus, tri_route *r)
{
    r->watches_owed = bus->watches_owed = true;
}

void tri_watch_lost(tri_bus *bus, tri_route *r, tr_reason reason)
{
    while (r->watches != NULL) {
        tri_watch *watch = r->watches;
        r->watches = watch->next;
        watch->next = watch->prev = NULL;
        tri_watch_back(tri_bus_worker(bus), watch, reason);
    }
}

/* It has been found, or nobody is there. */
void tri_watch_place(tri_bus *bus, tri_route *r, bool found)
{
    if (r->watches == NULL) {
        return;
    }
    if (found && r->state == TRI_ROUTE_REMOTE) {
        owe(bus, r);  // behind the mail, which may have to begin it
        return;
    }
    while (found && r->watches != NULL) {  // it is here
        tri_watch *watch = r->watches;
        r->watches = watch->next;
        watch->next = NULL;
        if (!tri_push_system(tri_bus_worker(bus), &r->v->cell, &watch->node)) {
            tri_watch_back(tri_bus_worker(bus), watch, TR_NO_SUCH_ACTOR);
        }
    }
    tri_watch_lost(bus, r, TR_NO_SUCH_ACTOR);
}

static void begin_watch(tri_bus *bus, tri_virtual *v, tri_watch *watch)
{
    tri_route *r = tri_route_get(bus, v);
    if (r == NULL) {
        tri_watch_back(tri_bus_worker(bus), watch, TR_NO_SUCH_ACTOR);
        return;
    }
    watch->prev = NULL;
    watch->next = r->watches;
    r->watches = watch;
    tri_shard *shard = &bus->cluster->shards[v->shard];
    tri_lock_take(&shard->lock);
    bool here = tri_virtual_is_active(v);
    tri_lock_drop(&shard->lock);
    if (here || r->state == TRI_ROUTE_REMOTE) {
        uint8_t state = r->state;
        r->state = here ? TRI_ROUTE_NONE : state;
        tri_watch_place(bus, r, true);
        r->state = state;
    } else {
        tri_route_find(bus, r);
    }
}

static void end_watch(tri_bus *bus, tri_virtual *v, tri_watching *watching)
{
    tri_route *r = tri_route_get(bus, v);
    for (tri_watch **link = r != NULL ? &r->watches : NULL;
         link != NULL && *link != NULL; link = &(*link)->next) {
        if (*link == watching->watch &&
            (*link)->watcher.id == watching->watcher_id) {
            tri_watch *watch = *link;
            *link = watch->next;
            free(watch);
            break;
        }
    }
    if (r != NULL && r->watches == NULL && r->state == TRI_ROUTE_REMOTE) {
        // Without memory it will tell us, and nobody here waits for it.
        (void)send_text(bus, r->place.node, TRI_ITEM_UNWATCH, v, 0);
    }
    free(watching);
}

/* False: no memory. */
static bool control(tri_bus *bus, tri_virtual *v, uint64_t signal,
                    uint8_t forwards)
{
    tri_route *r = tri_route_get(bus, v);
    tri_parcel *p =
        r != NULL ? tri_mem_calloc(&bus->sys->mem, sizeof(*p)) : NULL;
    if (p != NULL) {
        *p = (tri_parcel){.kind = TRI_PARCEL_CONTROL,
                          .v = v,
                          .origin = bus->here,
                          .token = signal,
                          .forwards = forwards};
        tri_route_control(bus, r, p);
    }
    return r == NULL || p != NULL;
}

void tri_watch_note(tri_bus *bus, const tri_bus_note *note)
{
    tri_virtual *v = (tri_virtual *)(uintptr_t)note->record;
    switch (note->what) {
    case TRI_NOTE_SIGNAL:
        if (!control(bus, v, note->number, 0)) {
            tri_logf(bus->sys, TR_LOG_ERROR, NULL, NULL,
                     "out of memory: %s is not stopped", v->text);
        }
        break;
    case TRI_NOTE_WATCH:
        begin_watch(bus, v, (tri_watch *)(uintptr_t)note->extra);
        break;
    case TRI_NOTE_UNWATCH:
        end_watch(bus, v, (tri_watching *)(uintptr_t)note->extra);
        break;
    default:
        break;
    }
}

/* ---- the actor's node ---- */

/* False: no memory. */
static bool watched(tri_bus *bus, tri_peer *peer, tri_virtual *v)
{
    tri_route *r = tri_route_get(bus, v);
    tri_shard *shard = &bus->cluster->shards[v->shard];
    tri_lock_take(&shard->lock);
    bool here = r != NULL && tri_virtual_is_active(v);
    tri_lock_drop(&shard->lock);
    if (!here) {
        return send_text(bus, peer->node, TRI_ITEM_ENDED, v, TR_NO_SUCH_ACTOR);
    }
    if (tri_watch_ref(tri_bus_worker(bus), bus->sys, bus->ctx->cell,
                      tri_bus_ref(bus, v), false) != TR_OK) {
        return false;
    }
    r->watchers |= UINT64_C(1) << peer->node;
    return true;
}

/* Tells those who must still hear of the end. False: not all. */
static bool tell_ended(tri_bus *bus, tri_route *r)
{
    for (uint32_t i = 0; i < bus->nodes; i++) {
        uint64_t node = UINT64_C(1) << i;
        if ((r->ended & node) &&
            send_text(bus, i, TRI_ITEM_ENDED, r->v, r->reason)) {
            r->ended &= ~node;
        }
    }
    return r->ended == 0;
}

void tri_watch_ended(tri_bus *bus, tr_ref actor, uint32_t reason)
{
    tri_virtual *v = tri_virtual_of(tri_ref_cell(actor));
    tri_route *r = tri_route_get(bus, v);
    if (r == NULL) {
        return;
    }
    r->ended |= r->watchers;
    r->reason = reason;
    r->watchers = 0;
    if (!tell_ended(bus, r)) {
        owe(bus, r);
    }
}

void tri_watch_left(tri_bus *bus, uint32_t node)
{
    for (tri_route *r = tri_route_first(bus); r != NULL; r = r->next) {
        r->watchers &= ~(UINT64_C(1) << node);
        r->ended &= ~(UINT64_C(1) << node);
    }
}

void tri_watch_again(tri_bus *bus, uint32_t node)
{
    for (tri_route *r = tri_route_first(bus); r != NULL; r = r->next) {
        if (r->watches != NULL && r->state == TRI_ROUTE_REMOTE &&
            r->place.node == node) {
            owe(bus, r);
        }
    }
}

bool tri_watch_owed(tri_bus *bus)
{
    if (!bus->watches_owed) {
        return false;
    }
    bus->watches_owed = false;
    for (tri_route *r = tri_route_first(bus); r != NULL; r = r->next) {
        if (r->watches_owed) {
            r->watches_owed = false;
            bool watch = r->watches != NULL && r->state == TRI_ROUTE_REMOTE;
            if (!tell_ended(bus, r) ||
                (watch &&
                 !send_text(bus, r->place.node, TRI_ITEM_WATCH, r->v, 0))) {
                owe(bus, r);
            }
        }
    }
    return bus->watches_owed;
}

static bool on_control(tri_bus *bus, tri_reader *reader)
{
    char text[TRI_ID_MAX + 1];
    tr_err err;
    (void)tri_read_u32(reader);
    uint64_t signal = tri_read_u64(reader);
    uint8_t forwards = tri_read_u8(reader);
    tri_read_text(reader, text, TRI_ID_MAX);
    tri_virtual *v = reader->failed ? NULL : tri_bus_record(bus, text, &err);
    if (v == NULL || (signal != TRI_SIG_STOP && signal != TRI_SIG_KILL &&
                      signal != TRI_CONTROL_POISON)) {
        return true;
    }
    return control(bus, v, signal, forwards);
}

bool tri_watch_item(tri_bus *bus, tri_peer *peer, tri_item item,
                    tri_reader *reader)
{
    char text[TRI_ID_MAX + 1];
    tr_err err;
    if (item == TRI_ITEM_CONTROL) {
        return on_control(bus, reader);
    }
    uint32_t reason = tri_read_u32(reader);
    tri_read_text(reader, text, TRI_ID_MAX);
    tri_virtual *v = reader->failed ? NULL : tri_bus_record(bus, text, &err);
    tri_route *r = v != NULL ? tri_route_get(bus, v) : NULL;
    if (r == NULL) {
        return true;
    }
    if (item == TRI_ITEM_WATCH) {
        return watched(bus, peer, v);
    }
    if (item == TRI_ITEM_UNWATCH) {
        r->watchers &= ~(UINT64_C(1) << peer->node);
    } else if (item == TRI_ITEM_ENDED) {
        tri_watch_lost(bus, r, (tr_reason)reason);
    }
    return true;
}
