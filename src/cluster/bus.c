/*
 * bus.c - the bus itself: an actor, its peers, and what they say.
 *
 * Invariant: each turn ends with `settle`, which lets every session send what
 * it has and sets the one timer to the first thing that is due. So nothing
 * waits for a turn that does not come.
 */
#include "cluster/bus.h"

#include <stdio.h>

#include "base/log.h"
#include "cluster/node.h"
#include "system/layers.h"

TR_MESSAGE(Packet, (tr_bytes, bytes));
TR_MESSAGE(Tick);

enum { WHEEL_CALL, WHEEL_ROUTE };  // kinds of timers

typedef struct Bus {
    tri_bus *bus;
} Bus;

/* ---- small things ---- */

tr_nanos tri_bus_now(tri_bus *bus)
{
    return tri_clock(tri_bus_worker(bus));
}

tr_ref tri_bus_ref(tri_bus *bus, tri_virtual *v)
{
    return tri_cell_ref(bus->sys, &v->cell);
}

tri_writer tri_bus_item(tri_bus *bus, tri_item item)
{
    tri_writer w = {.mem = &bus->sys->mem};
    tri_write_u8(&w, (uint8_t)item);
    return w;
}

tr_err tri_bus_tell(tri_bus *bus, tri_worker *worker,
                    const tri_bus_note *note)
{
    tr_msg *msg = tri_msg_new(&worker->cache, &tri_bus_note_tr_type, note,
                              false);
    if (msg == NULL) {
        return TR_ENOMEM;
    }
    tri_actor_from who = {.sys = bus->sys, .worker = worker};
    tr_err err = tri_try_send(&who, bus->self, msg);
    if (err != TR_OK) {
        tri_msg_free(&worker->cache, msg);
    }
    return err == TR_OK ? TR_OK : TR_ECLOSED;
}

/* ---- kinds ---- */

static bool kind_is(const void *value, const void *key, size_t size)
{
    const tri_bus_kind *kind = value;
    return strlen(kind->name) == size && memcmp(kind->name, key, size) == 0;
}

bool tri_bus_kind_of(tri_bus *bus, const char *name, size_t size,
                     uint64_t *nodes, bool *stateless)
{
    tri_lock_take(&bus->kinds_lock);
    tri_bus_kind *kind = tri_map_get_bytes(&bus->kinds, name, size);
    *nodes = kind != NULL ? kind->nodes : 0;
    *stateless = kind != NULL && kind->stateless;
    tri_lock_drop(&bus->kinds_lock);
    return kind != NULL;
}

/* False: no memory. */
static bool note_kind(tri_bus *bus, uint32_t node, const char *name,
                      bool stateless)
{
    size_t size = strlen(name);
    tri_lock_take(&bus->kinds_lock);
    tri_bus_kind *kind = tri_map_get_bytes(&bus->kinds, name, size);
    if (kind == NULL) {
        kind = tri_mem_calloc(&bus->sys->mem, sizeof(*kind) + size + 1);
        if (kind != NULL) {
            memcpy(kind->name, name, size);
            if (tri_map_put_bytes(&bus->kinds, kind->name, size, kind) !=
                TR_OK) {
                free(kind);
                kind = NULL;
            }
        }
    }
    if (kind != NULL) {
        kind->nodes |= UINT64_C(1) << node;
        kind->stateless = stateless;
    }
    tri_lock_drop(&bus->kinds_lock);
    if (kind == NULL) {
        tri_logf(bus->sys, TR_LOG_ERROR, NULL, NULL,
                 "out of memory: kind %s of node %u is not known", name,
                 node);
    }
    return kind != NULL;
}

static void forget_kinds(tri_bus *bus, uint32_t node)
{
    tri_bus_kind *kind;
    tri_lock_take(&bus->kinds_lock);
    for (tri_map_iter it = tri_map_iter_begin(&bus->kinds);
         (kind = tri_map_iter_next(&bus->kinds, &it)) != NULL;) {
        kind->nodes &= ~(UINT64_C(1) << node);
    }
    tri_lock_drop(&bus->kinds_lock);
}

/* ---- what a session asks of us ---- */

static tri_peer *peer_of(tri_session *s)
{
    return (tri_peer *)(void *)s;
}

static void on_send(tri_session *s, const tri_packet *packet)
{
    tri_bus *bus = peer_of(s)->bus;
    tri_writer w = {.mem = &bus->sys->mem};
    uint32_t times = TRI_BUGGIFY(bus->sys->world, 0.02) ? 2 : 1;
    tri_packet_write(&w, packet);
    for (; !w.failed && times > 0; times--) {  // else it is sent again
        bus->transport->ops->send(bus->transport, packet->from, packet->to,
                                  w.bytes, w.size);
    }
    free(w.bytes);
}

static void forget_types(tri_peer *peer)
{
    for (uint32_t i = 0; i < peer->in_count; i++) {
        free(peer->in_types[i].name);
        free(peer->in_types[i].table);
    }
    peer->in_count = 0;
}

static void write_hello(tri_bus *bus, tri_writer *w)
{
    tri_write_text(w, bus->cluster->ns);
    tri_write_text(w, bus->address);
    tri_lock_take(&bus->cluster->kinds_lock);
    uint32_t count = tri_map_count(&bus->cluster->kinds);
    tri_write_u32(w, count);
    for (tri_kind *kind = bus->cluster->first_kind; kind != NULL;
         kind = kind->next) {
        tri_write_text(w, kind->name);
        tri_write_u8(w, kind->workers > 0);
    }
    tri_lock_drop(&bus->cluster->kinds_lock);
}

static bool on_begin(tri_session *s)
{
    tri_peer *peer = peer_of(s);
    tri_map_fini(&peer->out_types);
    peer->out_count = 0;
    tri_writer w = tri_bus_item(peer->bus, TRI_ITEM_HELLO);
    write_hello(peer->bus, &w);
    // Without it there is no stream: types are counted from it on.
    return tri_bus_put(peer->bus, peer->node, &w, NULL);
}

static void on_done(tri_session *s, void *tag, bool received, bool sent)
{
    if (tag != NULL) {
        tri_parcel_done(peer_of(s)->bus, tag, received, sent);
    }
}

static void on_lost(tri_session *s, bool goodbye)
{
    tri_peer *peer = peer_of(s);
    tri_bus *bus = peer->bus;
    bus->counts.lost_streams++;
    if (goodbye || !peer->lost) {
        tri_logf(bus->sys, TR_LOG_WARN, NULL, NULL, "node %u %s", peer->node,
                 goodbye ? "has left" : "cannot be reached");
    }
    peer->lost = true;
    if (goodbye) {  // before anybody asks where to go now
        peer->hello_life = 0;
        bus->greet_owed &= ~(UINT64_C(1) << peer->node);
        forget_kinds(bus, peer->node);
        tri_directory_forget(&bus->cluster->directory, peer->node);
    }
    tri_call_lost(bus, peer->node);
    tri_route_lost(bus, peer->node);
}

/*
 * It is there, and no stream of ours leads to it: the last one was given up,
 * or was its earlier life's. It may not know what we host.
 */
static void greet_back(tri_bus *bus, tri_peer *peer)
{
    if (peer->session.next_number == 0) {
        bus->greet_owed |= UINT64_C(1) << peer->node;
    }
}

/*
 * What was lost is there again. Of a life that has not greeted, or has left,
 * we do not know what it hosts: it says hello first. One that has greeted
 * does not do it again, unless it has lost us, too.
 */
static void on_heard(tri_session *s, uint64_t life)
{
    tri_peer *peer = peer_of(s);
    if (peer->lost && peer->hello_life == life) {
        peer->lost = false;
        greet_back(peer->bus, peer);
        tri_logf(peer->bus->sys, TR_LOG_INFO, NULL, NULL,
                 "node %u is there again", peer->node);
    }
}

/* ---- what comes in ---- */

/* False: no memory. It may come again, and begins anew. */
static bool on_hello(tri_bus *bus, tri_peer *peer, tri_reader *r)
{
    bool noted = true;
    char ns[TRI_ID_MAX + 1], name[TRI_ID_MAX + 1], address[300];
    tri_read_text(r, ns, TRI_ID_MAX);
    tri_read_text(r, address, sizeof(address) - 1);
    uint32_t count = tri_read_u32(r);
    forget_types(peer);
    forget_kinds(bus, peer->node);
    peer->greeted = true;
    peer->lost = false;
    peer->hello_life = peer->session.in_life;
    peer->refused = r->failed || count > TRI_KIND_NAMES_MAX ||
                    strcmp(ns, bus->cluster->ns) != 0;
    if (peer->refused) {
        tri_logf(bus->sys, TR_LOG_ERROR, NULL, NULL,
                 "node %u (%s) is of namespace \"%s\", not \"%s\": refused",
                 peer->node, address, ns, bus->cluster->ns);
        return true;
    }
    greet_back(bus, peer);
    for (; count > 0 && !r->failed && noted; count--) {
        tri_read_text(r, name, TRI_ID_MAX);
        bool stateless = tri_read_u8(r) != 0;
        if (!r->failed) {
            noted = note_kind(bus, peer->node, name, stateless);
        }
    }
    return noted;
}

static bool on_kind_item(tri_bus *bus, tri_peer *peer, tri_reader *r)
{
    char name[TRI_ID_MAX + 1];
    tri_read_text(r, name, TRI_ID_MAX);
    bool stateless = tri_read_u8(r) != 0;
    return r->failed || note_kind(bus, peer->node, name, stateless);
}

static bool on_take(tri_session *s, tr_bytes item)
{
    tri_peer *peer = peer_of(s);
    tri_bus *bus = peer->bus;
    tri_reader r = {.at = item.at,
                    .end = (const unsigned char *)item.at + item.size};
    tri_item kind = (tri_item)tri_read_u8(&r);
    if (TRI_BUGGIFY(bus->sys->world, 0.01)) {
        return false;  // as if there were no memory: it comes again
    }
    if (kind == TRI_ITEM_HELLO) {
        return on_hello(bus, peer, &r);
    }
    if (peer->refused && kind != TRI_ITEM_MESSAGE) {
        return true;
    }
    switch (kind) {
    case TRI_ITEM_KIND:
        return on_kind_item(bus, peer, &r);
    case TRI_ITEM_TYPE:
        return tri_call_type(bus, peer, &r);
    case TRI_ITEM_MESSAGE:
        return tri_call_message(bus, peer, &r);
    case TRI_ITEM_PLACE:
        return tri_route_place(bus, peer, &r);
    case TRI_ITEM_PLACED:
        tri_route_placed(bus, peer, &r);
        break;
    case TRI_ITEM_CLAIM:
        return tri_route_claim(bus, peer, &r);
    case TRI_ITEM_CLAIMED:
        tri_route_claimed(bus, peer, &r);
        break;
    case TRI_ITEM_GONE:
        tri_route_gone(bus, peer, &r);
        break;
    case TRI_ITEM_MOVED:
        tri_route_moved(bus, peer, &r);
        break;
    case TRI_ITEM_FLUSH:
        return tri_route_flush(bus, peer, &r);
    case TRI_ITEM_FLUSHED:
        tri_route_flushed(bus, peer, &r);
        break;
    default:
        return tri_watch_item(bus, peer, kind, &r);
    }
    return true;
}

/* ---- peers ---- */

tri_peer *tri_bus_peer(tri_bus *bus, uint32_t node)
{
    static const tri_session_ops ops = {.send = on_send, .take = on_take,
                                        .done = on_done, .lost = on_lost,
                                        .begin = on_begin,
                                        .heard = on_heard};
    if (node >= bus->nodes || node == bus->here) {
        return NULL;
    }
    tri_peer *peer = bus->peers[node];
    if (peer == NULL) {
        peer = tri_mem_calloc(&bus->sys->mem, sizeof(*peer));
        if (peer != NULL) {
            tri_session_init(&peer->session, &ops, &bus->sys->mem, bus->here,
                             bus->life, node);
            tri_map_init(&peer->out_types, NULL, NULL);
            peer->bus = bus;
            peer->node = node;
            bus->peers[node] = peer;
        }
    }
    return peer;
}

bool tri_bus_put(tri_bus *bus, uint32_t node, tri_writer *w, void *tag)
{
    tri_peer *peer = tri_bus_peer(bus, node);
    bool put = peer != NULL && !w->failed &&
               tri_session_put(&peer->session, w->bytes, w->size, tag,
                               tri_bus_now(bus)) == TR_OK;
    free(w->bytes);
    w->bytes = NULL;
    return put;
}

bool tri_bus_put_mail(tri_bus *bus, uint32_t node, tri_writer *w, void *tag)
{
    tri_peer *peer = tri_bus_peer(bus, node);
    if (peer != NULL && tri_session_is_full(&peer->session)) {
        free(w->bytes);
        w->bytes = NULL;
        return false;
    }
    return tri_bus_put(bus, node, w, tag);
}

bool tri_bus_greet(tri_bus *bus, uint32_t node)
{
    tri_writer w = tri_bus_item(bus, TRI_ITEM_FLUSHED);
    tri_write_u64(&w, 0);
    tri_write_u64(&w, 0);
    tri_write_u8(&w, 0);
    return tri_bus_put(bus, node, &w, NULL);
}

/* ---- time ---- */

static void fire(tri_bus *bus, tr_nanos now)
{
    tri_timer *timer;
    while ((timer = tri_wheel_expire(&bus->wheel, now)) != NULL) {
        if (tri_timer_kind(timer) == WHEEL_CALL) {
            tri_call_timer(bus, (tri_call *)(void *)timer);
        } else {
            tri_route_timer(bus,
                            tri_container_of(timer, tri_route, timer));
        }
    }
}

/*
 * All nodes hear of all that is hosted here, each of each kind once: what one
 * of them has no room for is no reason to tell the others again. False: no
 * memory or no room, not all.
 */
static bool announce(tri_bus *bus)
{
    bool all = true;
    tri_lock_take(&bus->cluster->kinds_lock);
    tri_kind *kind = bus->cluster->first_kind;  // none is taken away
    tri_lock_drop(&bus->cluster->kinds_lock);
    for (; kind != NULL; kind = kind->next) {
        all = note_kind(bus, bus->here, kind->name, kind->workers > 0) && all;
        for (uint32_t i = 0; i < bus->nodes; i++) {
            if (i == bus->here || (kind->told >> i & 1)) {
                continue;
            }
            tri_writer w = tri_bus_item(bus, TRI_ITEM_KIND);
            tri_write_text(&w, kind->name);
            tri_write_u8(&w, kind->workers > 0);
            if (tri_bus_put(bus, i, &w, NULL)) {
                kind->told |= UINT64_C(1) << i;
            } else {
                all = false;
            }
        }
    }
    return all;
}

/* False: not all that are owed it. */
static bool greet_owed(tri_bus *bus)
{
    for (uint32_t i = 0; bus->greet_owed != 0 && i < bus->nodes; i++) {
        if ((bus->greet_owed >> i & 1) && tri_bus_greet(bus, i)) {
            bus->greet_owed &= ~(UINT64_C(1) << i);
        }
    }
    return bus->greet_owed == 0;
}

/* What there was no memory for, once more. True: some is left. */
static bool try_again(tri_bus *bus)
{
    bool greetings = !greet_owed(bus);
    // Acquire: pairs with tri_bus_host.
    if (atomic_load_explicit(&bus->announce, memory_order_acquire)) {
        // Relaxed: a kind that comes meanwhile sets it anew.
        atomic_store_explicit(&bus->announce, false, memory_order_relaxed);
        if (!announce(bus)) {
            atomic_store_explicit(&bus->announce, true,
                                  memory_order_relaxed);
        }
    }
    bool answers = tri_call_owed(bus), watches = tri_watch_owed(bus);
    bool claims = tri_route_claims_owed(bus);
    return greetings || answers || watches || claims ||
           atomic_load_explicit(&bus->announce, memory_order_relaxed);
}

void tri_bus_settle(tri_bus *bus)
{
    tr_nanos now = tri_bus_now(bus);
    fire(bus, now);
    tr_nanos due = try_again(bus) ? now + TRI_ROUTE_RETRY : TR_FOREVER;
    tr_nanos next_fire = tri_wheel_next(&bus->wheel);
    due = next_fire < due ? next_fire : due;
    for (uint32_t i = 0; i < bus->nodes; i++) {
        if (bus->peers[i] != NULL) {
            tri_session_pump(&bus->peers[i]->session, now);
        }
    }
    // A stream that has ended may have put something into another.
    for (uint32_t i = 0; i < bus->nodes; i++) {
        tri_session *s = bus->peers[i] != NULL ? &bus->peers[i]->session
                                               : NULL;
        if (s != NULL) {
            tri_session_pump(s, now);
            tr_nanos next = tri_session_next(s);
            due = next < due ? next : due;
        }
    }
    if (bus->has_bell && due < bus->timer_due) {
        bus->timer_due = due;
        tri_bell_set(bus->ctx, due > now ? due - now : 1);
    }
    bus->ctx = NULL;
}

/* ---- the actor ---- */

/* Where there was no memory for the bell, the next turn makes it. */
static tri_bus *enter(tr_ctx *ctx, Bus *self)
{
    tri_bus *bus = self->bus;
    Tick tick = {};
    bus->ctx = ctx;
    if (!bus->has_bell) {
        bus->has_bell = tri_bell_try(ctx, &Tick_tr_type, &tick);
    }
    return bus;
}

/* Says hello to all: who asks first then knows who hosts what. */
static tr_err bus_start(tr_ctx *ctx, Bus *self)
{
    self->bus->has_bell = false;  // an earlier life's has ended with it
    tri_bus *bus = enter(ctx, self);
    bus->timer_due = TR_FOREVER;
    tri_lock_take(&bus->cluster->kinds_lock);
    tri_kind *kind = bus->cluster->first_kind;
    tri_lock_drop(&bus->cluster->kinds_lock);
    bool all = true;
    for (; kind != NULL; kind = kind->next) {
        all = note_kind(bus, bus->here, kind->name, kind->workers > 0) && all;
    }
    if (!all) {
        // Relaxed: our own turn.
        atomic_store_explicit(&bus->announce, true, memory_order_relaxed);
    }
    for (uint32_t i = 0; i < bus->nodes; i++) {
        if (i != bus->here) {
            bus->greet_owed |= UINT64_C(1) << i;
        }
    }
    tri_bus_settle(bus);
    return TR_OK;
}

static tr_err on_packet(tr_ctx *ctx, Bus *self, const Packet *m)
{
    tri_bus *bus = enter(ctx, self);
    tri_packet packet;
    tri_peer *peer = NULL;
    if (tri_packet_read(&packet, m->bytes.at, m->bytes.size) &&
        packet.to == bus->here) {
        peer = tri_bus_peer(bus, packet.from);
    }
    if (peer != NULL) {
        tri_session_packet(&peer->session, &packet, tri_bus_now(bus));
    } else {
        bus->counts.damaged++;
    }
    tri_bus_settle(bus);
    return TR_OK;
}

/*
 * What waits for it must not reach its next life: that would begin an
 * activation at a place which is free now, and may be given to another node.
 */
static void on_dead(tri_bus *bus, uint32_t node)
{
    if (node < bus->nodes && bus->peers[node] != NULL) {
        tri_session_leave(&bus->peers[node]->session);  // on_lost
        return;
    }
    forget_kinds(bus, node);
    tri_directory_forget(&bus->cluster->directory, node);
    tri_route_lost(bus, node);
}

static tr_err on_note(tr_ctx *ctx, Bus *self, const tri_bus_note *m)
{
    tri_bus *bus = enter(ctx, self);
    tri_virtual *v = (tri_virtual *)(uintptr_t)m->record;
    switch (m->what) {
    case TRI_NOTE_LOOK:
        tri_route_looked(bus, v);
        break;
    case TRI_NOTE_GONE:
        tri_route_unregister(bus, v, m->number);
        break;
    case TRI_NOTE_KIND:
        break;  // try_again announces it
    case TRI_NOTE_SHARD:
        tri_route_shard(bus, (uint32_t)m->record, (uint32_t)m->number,
                        m->extra);
        break;
    case TRI_NOTE_DEAD:
        on_dead(bus, (uint32_t)m->number);
        break;
    default:
        tri_watch_note(bus, m);
    }
    tri_bus_settle(bus);
    return TR_OK;
}

static tr_err on_tick(tr_ctx *ctx, Bus *self, const Tick *m)
{
    tri_bus *bus = enter(ctx, self);
    (void)m;
    bus->timer_due = TR_FOREVER;
    tri_bus_settle(bus);
    return TR_OK;
}

static tr_err on_terminated(tr_ctx *ctx, Bus *self, const tr_terminated *m)
{
    tri_bus *bus = enter(ctx, self);
    tri_watch_ended(bus, m->actor, m->reason);
    tri_bus_settle(bus);
    return TR_OK;
}

/* The system closes: nothing is left that nobody would hear of. */
static tr_err bus_stop(tr_ctx *ctx, Bus *self, tr_reason reason)
{
    tri_bus *bus = self->bus;
    (void)reason;
    bus->ctx = ctx;  // no bell is made any more
    tri_cluster *cluster = bus->cluster;
    for (uint32_t i = 0; i < TRI_SHARDS; i++) {
        tri_lock_take(&cluster->shards[i].lock);
        bus->closed = true;
        tri_lock_drop(&cluster->shards[i].lock);
    }
    tri_route *next;
    for (tri_route *r = bus->routes; r != NULL; r = next) {
        next = r->next;
        tri_node *mail = tri_catalog_take(cluster, tri_bus_worker(bus), r->v,
                                          false);
        while (mail != NULL) {
            tri_node *rest = mail->next;
            tri_dead(tri_bus_worker(bus), tri_bus_ref(bus, r->v),
                     tri_msg_from(mail), TR_DEAD_CLOSED);
            mail = rest;
        }
        while (r->first != NULL) {
            tri_parcel *p = r->first;
            r->first = p->next;
            tri_parcel_fail(bus, p, TR_ECLOSED, "the system is closing");
        }
        r->last_parcel = NULL;
        tri_watch_lost(bus, r, TR_NODE_DOWN);
    }
    tri_call_close(bus);
    for (uint32_t i = 0; i < bus->nodes; i++) {
        if (bus->peers[i] != NULL) {
            tri_session_pump(&bus->peers[i]->session, tri_bus_now(bus));
            tri_session_fini(&bus->peers[i]->session);
            tri_session_bye(&bus->peers[i]->session);
        }
    }
    bus->ctx = NULL;
    return TR_OK;
}

TR_ACTOR(bus_actor, Bus, TR_HOOK(pre_start, bus_start),
         TR_HOOK(post_stop, bus_stop), TR_ON(Packet, on_packet),
         TR_ON(tri_bus_note, on_note), TR_ON(Tick, on_tick),
         TR_ON(tr_terminated, on_terminated));

/* ---- joining and leaving ---- */

static tr_err refuse(const char *why)
{
    tri_error_set(NULL, "cannot join: %s", why);
    return TR_EINVAL;
}

static void set_owners(tri_cluster *cluster, const tri_bus_options *o)
{
    cluster->here = o->node;
    for (uint32_t i = 0; i < TRI_SHARDS; i++) {
        cluster->directory.shards[i].owner = i % o->nodes;
    }
}

static tri_bus *bus_new(tri_cluster *cluster, const tri_bus_options *o)
{
    tr_system *sys = cluster->sys;
    tri_bus *bus = tri_mem_calloc(&sys->mem, sizeof(*bus));
    if (bus == NULL) {
        return NULL;
    }
    bus->handover = tri_mem_calloc(&sys->mem,
                                   TRI_SHARDS * sizeof(*bus->handover));
    if (bus->handover == NULL) {
        free(bus);
        return NULL;
    }
    bus->cluster = cluster;
    bus->sys = sys;
    bus->transport = o->transport;
    bus->here = o->node;
    bus->nodes = o->nodes;
    bus->life = o->life;
    bus->timer_due = TR_FOREVER;
    snprintf(bus->address, sizeof(bus->address), "%s",
             o->address != NULL ? o->address : "");
    tri_map_init(&bus->kinds, kind_is, NULL);
    tri_map_init(&bus->asked, NULL, NULL);
    tri_map_init(&bus->calls, NULL, NULL);
    tri_map_init(&bus->heard, NULL, NULL);
    tri_wheel_init(&bus->wheel, sys->world->ops->mono(sys->world));
    return bus;
}

static tr_err join(tri_actor_from *who, const tri_bus_options *o)
{
    tri_cluster *cluster;
    TR_TRY(tri_cluster_get(who, &cluster));
    // Relaxed: a look before anybody uses it.
    if (atomic_load_explicit(&cluster->activations, memory_order_relaxed) >
        0) {
        return refuse("virtual actors have been active already");
    }
    if (tri_bus_of(cluster) != NULL) {
        return TR_EEXIST;
    }
    tri_bus *bus = bus_new(cluster, o);
    if (bus == NULL) {
        return TR_ENOMEM;
    }
    set_owners(cluster, o);
    // Without memory for its start it begins again, for as long as it takes.
    tr_supervision policy = {.size = sizeof(policy),
                             .max_restarts = UINT32_MAX,
                             .backoff_min = TRI_ROUTE_RETRY,
                             .backoff_max = TR_SECONDS(1)};
    tr_spawn_options options = {.size = sizeof(options), .name = "bus",
                                .init = &(Bus){.bus = bus},
                                .init_size = sizeof(Bus),
                                .supervision = &policy};
    bus->self = tri_spawn_under(who, who->sys->system, &bus_actor, &options,
                                TRI_CELL_SYSTEM);
    if (bus->self.cell == 0) {
        tr_err err = tr_ref_err(bus->self);
        free(bus->handover);
        free(bus);
        return err == TR_ESTOPPED ? TR_ECLOSED : err;
    }
    // Release: publishes it; pairs with tri_bus_of.
    atomic_store_explicit(&cluster->bus, bus, memory_order_release);
    return TR_OK;
}

tr_err tri_bus_join(tr_system *sys, const tri_bus_options *o)
{
    TRI_CHECK(sys->magic == TRI_SYSTEM_MAGIC);
    tri_node_id id;
    const char *why;
    if (o->transport == NULL || o->life == 0 || o->nodes == 0 ||
        o->nodes > TRI_DIRECTORY_NODES || o->node >= o->nodes) {
        return refuse("no transport, no incarnation, or no such node");
    }
    if (o->address != NULL &&
        tri_node_parse(&id, o->address, &why) != TR_OK) {
        return refuse(why);
    }
    tri_actor_from who = tri_enter((tr_from){.sys = sys});
    tr_err err = join(&who, o);
    tri_leave(&who);
    return err;
}

/* Tells the bus from outside. */
static void tell_outside(tr_system *sys, const tr_type *type,
                         const void *payload)
{
    tri_cluster *cluster = tri_cluster_of(sys);
    tri_bus *bus = cluster != NULL ? tri_bus_of(cluster) : NULL;
    if (bus == NULL) {
        return;
    }
    tri_actor_from who = tri_enter((tr_from){.sys = sys});
    tr_msg *msg = tri_msg_new(&who.worker->cache, type, payload, false);
    if (msg != NULL && tri_try_send(&who, bus->self, msg) != TR_OK) {
        tri_msg_free(&who.worker->cache, msg);
    }
    tri_leave(&who);
}

void tri_bus_receive(tr_system *sys, const void *bytes, size_t size)
{
    tell_outside(sys, &Packet_tr_type, &(Packet){.bytes = {bytes, size}});
}

void tri_bus_shard(tr_system *sys, uint32_t shard, uint32_t owner,
                   uint64_t epoch)
{
    tell_outside(sys, &tri_bus_note_tr_type,
                 &(tri_bus_note){.what = TRI_NOTE_SHARD, .record = shard,
                                 .number = owner, .extra = epoch});
}

void tri_bus_dead(tr_system *sys, uint32_t node)
{
    tell_outside(sys, &tri_bus_note_tr_type,
                 &(tri_bus_note){.what = TRI_NOTE_DEAD, .number = node});
}

tri_bus_counts tri_bus_count(tr_system *sys)
{
    return tri_bus_of(tri_cluster_of(sys))->counts;
}

void tri_bus_host(tri_cluster *cluster, tri_worker *worker,
                  const tri_kind *kind)
{
    tri_bus *bus = tri_bus_of(cluster);
    if (bus != NULL) {
        // Release: the kind is there; pairs with try_again.
        atomic_store_explicit(&bus->announce, true, memory_order_release);
        tri_bus_note note = {.what = TRI_NOTE_KIND};
        if (tri_bus_tell(bus, worker, &note) == TR_ENOMEM) {
            tri_logf(bus->sys, TR_LOG_ERROR, NULL, NULL,
                     "out of memory: other nodes hear of %s later",
                     kind->name);
        }
    }
}

tr_err tri_bus_look(tri_cluster *cluster, tri_worker *worker, tri_virtual *v)
{
    tri_bus *bus = tri_bus_of(cluster);
    tri_bus_note note = {.what = TRI_NOTE_LOOK,
                         .record = (uint64_t)(uintptr_t)v};
    return bus->closed ? TR_ECLOSED : tri_bus_tell(bus, worker, &note);
}

/* ---- the end ---- */

static void peer_free(tri_peer *peer)
{
    if (peer != NULL) {
        tri_session_fini(&peer->session);
        tri_map_fini(&peer->out_types);
        forget_types(peer);
        free(peer->in_types);
        free(peer);
    }
}

/* A system that was abandoned leaves all of it behind. */
void tri_bus_free(tri_cluster *cluster)
{
    tri_bus *bus = tri_bus_of(cluster);
    if (bus == NULL) {
        return;
    }
    tr_ctx ctx = {.magic = TRI_CTX_MAGIC, .sys = bus->sys,
                  .quick_tag = TRI_NO_TAG,
                  .worker = bus->sys->outside};
    bus->ctx = &ctx;
    bus->closed = true;
    void *value;
    for (tri_map_iter it = tri_map_iter_begin(&bus->calls);
         (value = tri_map_iter_next(&bus->calls, &it)) != NULL;) {
        tri_msg_free(&ctx.worker->cache, ((tri_call *)value)->msg);
        free(value);
    }
    tri_map_fini(&bus->calls);
    for (tri_map_iter it = tri_map_iter_begin(&bus->heard);
         (value = tri_map_iter_next(&bus->heard, &it)) != NULL;) {
        free(value);
    }
    tri_map_fini(&bus->heard);
    while (bus->owed != NULL) {
        tri_heard *next = bus->owed->next;
        free(bus->owed);
        bus->owed = next;
    }
    for (uint32_t i = 0; i < TRI_DIRECTORY_NODES; i++) {
        peer_free(bus->peers[i]);
    }
    while (bus->routes != NULL) {
        tri_route *r = bus->routes;
        bus->routes = r->next;
        while (r->first != NULL) {
            tri_parcel *p = r->first;
            r->first = p->next;
            tri_parcel_free(bus, p);
        }
        while (r->watches != NULL) {
            tri_watch *watch = r->watches;
            r->watches = watch->next;
            free(watch);
        }
        r->v->route = NULL;
        free(r);
    }
    for (tri_map_iter it = tri_map_iter_begin(&bus->kinds);
         (value = tri_map_iter_next(&bus->kinds, &it)) != NULL;) {
        free(value);
    }
    tri_map_fini(&bus->kinds);
    tri_map_fini(&bus->asked);
    free(bus->handover);
    free(bus);
    // Relaxed: nobody else is there any more.
    atomic_store_explicit(&cluster->bus, NULL, memory_order_relaxed);
}
