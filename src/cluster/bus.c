/*
 * bus.c - the bus itself: an actor, its turns, and how it is told.
 *
 * Invariant: each turn ends with tri_bus_settle, which lets every session send
 * what it has and sets the one timer to the first thing that is due. So
 * nothing waits for a turn that does not come.
 */
#include "cluster/bus_peer.h"

#include "base/log.h"
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

tr_err tri_bus_tell(tri_bus *bus, tri_worker *worker, const tri_bus_note *note)
{
    tr_msg *msg =
        tri_msg_new(&worker->cache, &tri_bus_note_tr_type, note, false);
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

/* ---- time ---- */

static void fire(tri_bus *bus, tr_nanos now)
{
    tri_timer *timer;
    while ((timer = tri_wheel_expire(&bus->wheel, now)) != NULL) {
        if (tri_timer_kind(timer) == WHEEL_CALL) {
            tri_call_timer(bus, (tri_call *)(void *)timer);
        } else {
            tri_route_timer(bus, tri_container_of(timer, tri_route, timer));
        }
    }
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
        if (!tri_bus_announce(bus)) {
            atomic_store_explicit(&bus->announce, true, memory_order_relaxed);
        }
    }
    bool answers = tri_call_owed(bus), watches = tri_watch_owed(bus);
    bool claims = tri_route_claims_owed(bus);
    return greetings || answers || watches || claims ||
           atomic_load_explicit(&bus->announce, memory_order_relaxed);
}

void tri_bus_settle(tri_bus *bus)
{
    tr_nanos now = tri_bus_now(bus), due = TR_FOREVER;
    fire(bus, now);
    tri_call_end_lost(bus);
    bool again = try_again(bus);
    for (uint32_t i = 0; i < bus->nodes; i++) {
        if (bus->peers[i] != NULL) {
            tri_session_pump(&bus->peers[i]->session, now);
        }
    }
    // A stream that has ended may have put something into another.
    for (uint32_t i = 0; i < bus->nodes; i++) {
        tri_session *s = bus->peers[i] != NULL ? &bus->peers[i]->session : NULL;
        if (s != NULL) {
            tri_session_pump(s, now);
            tr_nanos next = tri_session_next(s);
            due = next < due ? next : due;
        }
    }
    tri_call_end_lost(bus);
    // That may also have left something to do, or to wait for.
    if (again || bus->owed != NULL || bus->watches_owed || bus->claims_owed ||
        bus->greet_owed != 0) {
        due = now + TRI_ROUTE_RETRY < due ? now + TRI_ROUTE_RETRY : due;
    }
    tr_nanos next_fire = tri_wheel_next(&bus->wheel);
    due = next_fire < due ? next_fire : due;
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
        bool stateless = kind->workers > 0;
        all = tri_bus_kind_note(bus, bus->here, kind->name, stateless) && all;
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
    tri_bus_kinds_forget(bus, node);
    tri_directory_forget(&bus->cluster->directory, node);
    tri_route_lost(bus, node, true);
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
        tri_node *mail =
            tri_catalog_take(cluster, tri_bus_worker(bus), r->v, false);
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

tr_ref tri_bus_spawn(tri_actor_from *who, tri_bus *bus)
{
    // Without memory for its start it begins again, for as long as it takes.
    tr_supervision policy = {.size = sizeof(policy),
                             .max_restarts = UINT32_MAX,
                             .backoff_min = TRI_ROUTE_RETRY,
                             .backoff_max = TR_SECONDS(1)};
    tr_spawn_options options = {.size = sizeof(options),
                                .name = "bus",
                                .init = &(Bus){.bus = bus},
                                .init_size = sizeof(Bus),
                                .supervision = &policy};
    return tri_spawn_under(who, who->sys->system, &bus_actor, &options,
                           TRI_CELL_SYSTEM);
}

/* ---- telling it ---- */

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
                 &(tri_bus_note){.what = TRI_NOTE_SHARD,
                                 .record = shard,
                                 .number = owner,
                                 .extra = epoch});
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
                     "out of memory: other nodes hear of %s later", kind->name);
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
