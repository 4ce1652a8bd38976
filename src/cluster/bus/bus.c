/*
 * bus.c - the actor of the bus: its turns, its timer, and notes to it.
 *
 * Invariant: each turn ends with tri_bus_end_turn, which lets every session
 * send what it has and sets the one timer to the first thing that is due. So
 * nothing waits for a turn that does not come.
 */
#include "cluster/bus/bus.h"

#include <stdlib.h>
#include <string.h>

#include "cluster/bus/arrival.h"
#include "cluster/bus/bus_view.h"
#include "cluster/bus/call.h"
#include "cluster/bus/hosted.h"
#include "cluster/bus/hosts.h"
#include "cluster/bus/incoming.h"
#include "cluster/bus/lane.h"
#include "cluster/bus/outgoing.h"
#include "cluster/bus/parcel.h"
#include "cluster/bus/peer.h"
#include "cluster/bus/relay.h"
#include "cluster/bus/remote_stop.h"
#include "cluster/bus/remote_watch.h"
#include "cluster/bus/request.h"
#include "cluster/bus/stopping.h"
#include "cluster/bus/turn_budget.h"
#include "cluster/transport/session.h"
#include "cluster/virtual/actor_id.h"
#include "cluster/virtual/catalog.h"
#include "cluster/virtual/names.h"
#include "cluster/virtual/shard.h"
#include "core/cell/cell.h"
#include "core/cell/message.h"
#include "core/life/spawn.h"
#include "core/mail/send.h"
#include "core/run/clock.h"
#include "core/run/user_timer.h"
#include "core/run/worker.h"
#include "core/system.h"
#include "system/system_log.h"
#include "troupe/observe.h"
#include "troupe/supervise.h"

TR_MESSAGE(Packet, (tr_bytes, bytes));
TR_MESSAGE(Tick);

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
    TRI_CHECK(v != NULL);
    return tri_cell_ref(bus->sys, &v->cell);
}

bool tri_bus_is_active(tri_bus *bus, tri_virtual *v)
{
    tri_shard *shard = tri_cluster_shard(bus->cluster, v);
    tri_lock_take(&shard->lock);
    bool active = tri_virtual_is_active(v);
    tri_lock_drop(&shard->lock);
    return active;
}

/* Parses a name of our namespace. Errors: TR_EINVAL, TR_EFOREIGN. */
static tr_err parse(tri_bus *bus, const char *text, tri_actor_id *id)
{
    const char *why;
    const char *ns = bus->cluster->ns;
    TR_TRY(tri_actor_id_parse(id, text, &why));
    return strlen(ns) + 2 == id->kind_at &&
                   memcmp(id->text, ns, strlen(ns)) == 0
               ? TR_OK
               : TR_EFOREIGN;
}

tri_virtual *tri_bus_record(tri_bus *bus, const char *text, tr_err *err)
{
    TRI_CHECK(text != NULL && err != NULL);
    tri_actor_id id;
    tri_virtual *v = NULL;
    *err = parse(bus, text, &id);
    if (*err == TR_OK) {
        *err =
            tri_names_hold(bus->cluster, (tr_from){.ctx = bus->ctx}, &id, &v);
    }
    return *err == TR_OK ? v : NULL;
}

tr_ref tri_bus_keep_ref(tri_bus *bus, const char *text, tr_err *err)
{
    TRI_CHECK(text != NULL && err != NULL);
    tri_actor_id id;
    tri_virtual *v = NULL;
    *err = parse(bus, text, &id);
    if (*err == TR_OK) {
        *err =
            tri_names_keep(bus->cluster, (tr_from){.ctx = bus->ctx}, &id, &v);
    }
    return *err == TR_OK ? tri_bus_ref(bus, v) : (tr_ref){0};
}

/* ---- the end of a turn ---- */

static void fire_timers(tri_bus *bus, tr_nanos now)
{
    tri_timer *timer;
    while ((timer = tri_wheel_expire(&bus->wheel, now)) != NULL) {
        tri_call_timeout(bus, tri_container_of(timer, tri_call, timer));
    }
}

/*
 * Tries again to send what there was no memory or room for. Returns true if
 * some of it is left.
 */
static bool send_unsent(tri_bus *bus)
{
    // Acquire: pairs with tri_bus_host_kind.
    if (atomic_load_explicit(&bus->announce, memory_order_acquire)) {
        // Relaxed: a kind that comes meanwhile sets it again.
        atomic_store_explicit(&bus->announce, false, memory_order_relaxed);
        if (!tri_hosts_announce(bus)) {
            atomic_store_explicit(&bus->announce, true, memory_order_relaxed);
        }
    }
    bool answers = tri_request_send_unsent(bus);
    bool watches = tri_remote_watch_send_unsent(bus);
    bool lanes = tri_lane_retry(bus);
    bool relays = tri_relay_retry(bus);
    bool hosted = tri_hosted_retry(bus);
    return answers || watches || lanes || relays || hosted ||
           atomic_load_explicit(&bus->announce, memory_order_relaxed);
}

/* Lets all sessions send. Returns when the first of them is due again. */
static tr_nanos pump_sessions(tri_bus *bus, tr_nanos now)
{
    tr_nanos due = TR_FOREVER;
    for (uint32_t i = 0; bus->view != NULL && i < bus->view->slots; i++) {
        if (bus->peers[i] != NULL && bus->view->members[i].incarnation != 0) {
            tri_session *s = &bus->peers[i]->session;
            tri_session_pump(s, now);
            due = TRI_MIN(due, tri_session_due(s));
        }
    }
    return due;
}

static void receive(tri_bus *bus)
{
    if (tri_transport_has_turns(bus->transport)) {
        bus->transport->ops->receive(bus->transport, bus);
    }
}

/* Sends what the sessions have sent. Returns when that is to be done again. */
static tr_nanos flush(tri_bus *bus, tr_nanos now)
{
    return tri_transport_has_turns(bus->transport)
               ? bus->transport->ops->flush(bus->transport, now)
               : TR_FOREVER;
}

void tri_bus_end_turn(tri_bus *bus)
{
    TRI_CHECK(bus->ctx != NULL);
    tr_nanos now = tri_bus_now(bus);
    tri_bus_view_act(bus);
    receive(bus);
    fire_timers(bus, now);
    tri_hosts_review(bus);
    tr_nanos due =
        send_unsent(bus) || bus->is_fenced ? now + TRI_BUS_RETRY : TR_FOREVER;
    if (tri_stopping_go_on(bus) || bus->view_left > 0) {
        due = now;
    }
    due = TRI_MIN(due, tri_lane_expire(bus, now));
    due = TRI_MIN(due, pump_sessions(bus, now));
    due = TRI_MIN(due, flush(bus, now));
    due = TRI_MIN(due, tri_wheel_next(&bus->wheel));
    if (bus->has_timer && due < bus->timer_due) {
        bus->timer_due = due;
        tri_alarm_set(bus->ctx, due > now ? due - now : 1);
    }
    tri_turn_budget_end(bus);
    bus->ctx = NULL;
}

/* ---- the actor ---- */

/* Begins a turn. Makes the timer if there was no memory for it before. */
static tri_bus *begin_turn(tr_ctx *ctx, Bus *self)
{
    tri_bus *bus = self->bus;
    Tick tick = {};
    TRI_CHECK(bus->ctx == NULL);
    bus->ctx = ctx;
    tri_turn_budget_begin(bus);
    if (!bus->has_timer) {
        bus->has_timer = tri_alarm_new(ctx, &Tick_tr_type, &tick);
    }
    tri_lane_check_lease(bus);
    return bus;
}

/* Starts the actor. */
static tr_err bus_start(tr_ctx *ctx, Bus *self)
{
    self->bus->has_timer = false;  // it ended with an earlier incarnation
    self->bus->ctx = NULL;
    tri_bus *bus = begin_turn(ctx, self);
    bus->timer_due = TR_FOREVER;
    // Relaxed: our own turn.
    atomic_store_explicit(&bus->announce, true, memory_order_relaxed);
    tri_bus_end_turn(bus);
    return TR_OK;
}

static tr_err on_packet(tr_ctx *ctx, Bus *self, const Packet *m)
{
    tri_bus *bus = begin_turn(ctx, self);
    tri_bus_view_act(bus);
    tri_arrival_packet(bus, m->bytes);
    tri_bus_end_turn(bus);
    return TR_OK;
}

/* Sends the mail of a record to stateless workers on another node. */
static void mail_to_workers(tri_bus *bus, tri_virtual *v, tri_node node)
{
    tri_item *mail =
        tri_catalog_take_mail(bus->cluster, tri_bus_worker(bus), v, false);
    tri_parcel *list = mail != NULL ? tri_parcel_from_mail(bus, v, mail) : NULL;
    while (list != NULL) {
        tri_parcel *next = list->next;
        list->next = NULL;
        if (tri_node_is(node, bus->node)) {
            tri_incoming_to_worker(bus, list);
        } else if (!tri_outgoing_send(bus, node, list)) {
            tri_parcel_fail(bus, list, TR_EFULL, tr_strerror(TR_EFULL));
        }
        list = next;
    }
}

static void on_mail(tri_bus *bus, tri_virtual *v)
{
    tri_node node = tri_hosts_worker_node(bus, v->text, v->size);
    if (node.slot != TRI_NODE_NONE) {
        mail_to_workers(bus, v, node);
    } else {
        tri_lane_take_mail(bus, v);
    }
}

static tr_err on_note(tr_ctx *ctx, Bus *self, const tri_bus_note *m)
{
    tri_bus *bus = begin_turn(ctx, self);
    tri_virtual *v = (tri_virtual *)(uintptr_t)m->record;
    switch (m->what) {
    case TRI_NOTE_MAIL:
        on_mail(bus, v);
        break;
    case TRI_NOTE_HOSTED_ENDED:
        tri_hosted_ended(bus, v);
        break;
    case TRI_NOTE_REMINDER:
        tri_hosted_tell_reminder(bus, (uint32_t)m->number);
        break;
    case TRI_NOTE_SIGNAL:
        tri_remote_stop_note(bus, v, m->number);
        tri_names_release(bus->cluster, v);
        break;
    case TRI_NOTE_WATCH:
    case TRI_NOTE_UNWATCH:
        tri_remote_watch_note(bus, m);
        tri_names_release(bus->cluster, v);
        break;
    default:  // the end of the turn does the rest
        break;
    }
    tri_bus_end_turn(bus);
    return TR_OK;
}

static tr_err on_tick(tr_ctx *ctx, Bus *self, const Tick *m)
{
    tri_bus *bus = begin_turn(ctx, self);
    (void)m;
    bus->timer_due = TR_FOREVER;
    tri_bus_end_turn(bus);
    return TR_OK;
}

static tr_err on_terminated(tr_ctx *ctx, Bus *self, const tr_terminated *m)
{
    tri_bus *bus = begin_turn(ctx, self);
    tri_remote_watch_ended(bus, m->actor, m->reason);
    tri_bus_end_turn(bus);
    return TR_OK;
}

/* Closes the bus with the system: ends all mail, calls, watches, sessions. */
static tr_err bus_stop(tr_ctx *ctx, Bus *self, tr_reason reason)
{
    tri_bus *bus = self->bus;
    (void)reason;
    bus->ctx = ctx;  // not begin_turn: no timer is made any more
    for (uint32_t i = 0; i < TRI_SHARDS; i++) {
        tri_lock_take(&bus->cluster->shards[i].lock);
        bus->closed = true;
        tri_lock_drop(&bus->cluster->shards[i].lock);
    }
    tri_relay_free_all(bus);
    tri_lane_fail_all(bus);
    tri_call_close(bus);
    tri_remote_watch_close(bus);
    (void)pump_sessions(bus, tri_bus_now(bus));
    for (uint32_t i = 0; i < TRI_NODES_MAX; i++) {
        if (bus->peers[i] != NULL) {
            tri_session_fini(&bus->peers[i]->session);
        }
    }
    if (tri_transport_has_turns(bus->transport)) {
        (void)bus->transport->ops->flush(bus->transport, tri_bus_now(bus));
        bus->transport->ops->close(bus->transport);
    }
    bus->ctx = NULL;
    return TR_OK;
}

TR_ACTOR(bus_actor, Bus, TR_HOOK(pre_start, bus_start),
         TR_HOOK(post_stop, bus_stop), TR_ON(Packet, on_packet),
         TR_ON(tri_bus_note, on_note), TR_ON(Tick, on_tick),
         TR_ON(tr_terminated, on_terminated));

tr_ref tri_bus_spawn(tri_caller *who, tri_bus *bus)
{
    TRI_CHECK(tri_bus_of(bus->cluster) == NULL);
    // Without memory for its start it is restarted until there is some.
    tr_supervision policy = {.size = sizeof(policy),
                             .max_restarts = UINT32_MAX,
                             .backoff_min = TRI_BUS_RETRY,
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

tr_err tri_bus_tell(tri_bus *bus, tri_worker *worker, const tri_bus_note *note)
{
    TRI_CHECK(bus != NULL && worker != NULL);
    tr_msg *msg =
        tri_msg_new(&worker->cache, &tri_bus_note_tr_type, note, false);
    if (msg == NULL) {
        return TR_ENOMEM;
    }
    tri_caller who = {.sys = bus->sys, .worker = worker};
    tr_err err = tri_try_send(&who, bus->self, msg);
    if (err != TR_OK) {
        tri_msg_free(&worker->cache, msg);
    }
    return err == TR_OK ? TR_OK : TR_ECLOSED;
}

/*
 * Returns the bus if notes about the actor are for it, and holds the record for
 * the note; else NULL.
 */
static tri_bus *bus_for(tri_worker *worker, tri_virtual *v)
{
    tri_cluster *cluster = tri_cluster_of(worker->sys);
    tri_bus *bus = tri_bus_of(cluster);
    if (bus == NULL) {
        return NULL;
    }
    tri_shard *shard = tri_cluster_shard(cluster, v);
    tri_lock_take(&shard->lock);
    bool ours = !bus->closed && !tri_virtual_is_active(v) &&
                !(v->kind != NULL && v->kind->workers > 0);
    v->holds += ours;
    tri_lock_drop(&shard->lock);
    return ours ? bus : NULL;
}

bool tri_bus_tell_remote(tri_worker *worker, tri_cell *cell, uint32_t what,
                         uint64_t number, void *extra)
{
    TRI_CHECK(tri_cell_is_virtual(cell));
    tri_virtual *v = tri_virtual_of(cell);
    tri_bus *bus = bus_for(worker, v);  // holds the record
    tri_bus_note note = {.what = what,
                         .record = (uint64_t)(uintptr_t)v,
                         .number = number,
                         .extra = (uint64_t)(uintptr_t)extra};
    tr_err err = bus != NULL ? tri_bus_tell(bus, worker, &note) : TR_OK;
    if (err == TR_ENOMEM && what == TRI_NOTE_SIGNAL) {
        tri_logf(bus->sys, TR_LOG_ERROR, NULL, NULL,
                 "out of memory: %s is not stopped", v->text);
    }
    if (bus != NULL && err != TR_OK) {
        tri_names_release(bus->cluster, v);
    }
    return bus != NULL && err == TR_OK;
}

/* Sends the bus a message from a thread outside of the system. */
static void tell_outside(tr_system *sys, const tr_type *type,
                         const void *payload)
{
    tri_cluster *cluster = tri_cluster_of(sys);
    tri_bus *bus = cluster != NULL ? tri_bus_of(cluster) : NULL;
    if (bus == NULL) {
        return;
    }
    tri_caller who = tri_enter((tr_from){.sys = sys});
    tr_msg *msg = tri_msg_new(&who.worker->cache, type, payload, false);
    if (msg != NULL && tri_try_send(&who, bus->self, msg) != TR_OK) {
        tri_msg_free(&who.worker->cache, msg);
    }
    tri_leave(&who);
}

void tri_bus_receive(tr_system *sys, const void *bytes, size_t size)
{
    TRI_CHECK(sys->magic == TRI_SYSTEM_MAGIC);
    tell_outside(sys, &Packet_tr_type, &(Packet){.bytes = {bytes, size}});
}

void tri_bus_set_view(tr_system *sys, tri_view *view)
{
    TRI_CHECK(sys->magic == TRI_SYSTEM_MAGIC);
    tri_cluster *cluster = tri_cluster_of(sys);
    tri_bus *bus = cluster != NULL ? tri_bus_of(cluster) : NULL;
    TRI_CHECK(bus != NULL && view != NULL);
    // Release: publishes the view; pairs with tri_bus_view_act. Acquire: of
    // two views that nobody has acted on the older one is freed here.
    tri_view_drop(
        atomic_exchange_explicit(&bus->next_view, view, memory_order_acq_rel));
    tri_bus_wake(sys);
}

void tri_bus_wake(tr_system *sys)
{
    tell_outside(sys, &tri_bus_note_tr_type,
                 &(tri_bus_note){.what = TRI_NOTE_NOTHING});
}

void tri_bus_set_node(tr_system *sys, tri_node node)
{
    TRI_CHECK(sys->magic == TRI_SYSTEM_MAGIC);
    TRI_CHECK(node.slot < TRI_NODES_MAX);
    tri_cluster *cluster = tri_cluster_of(sys);
    tri_bus *bus = cluster != NULL ? tri_bus_of(cluster) : NULL;
    TRI_CHECK(bus != NULL);
    // A lost lease is incarnation 0 in any slot but 0, so that it is not 0.
    uint64_t word = node.incarnation * TRI_NODES_MAX +
                    (node.incarnation != 0 ? node.slot : 1);
    // Release: pairs with act_on_node. Of two that the bus has not acted on
    // the newer one counts: both close all lanes.
    atomic_store_explicit(&bus->next_node, word, memory_order_release);
    tri_bus_wake(sys);
}

tri_bus_counts tri_bus_count(tr_system *sys)
{
    tri_bus *bus = tri_bus_of(tri_cluster_of(sys));
    TRI_CHECK(bus != NULL);
    return bus->counts;
}

void tri_bus_host_kind(tri_cluster *cluster, tri_worker *worker,
                       const tri_kind *kind)
{
    tri_bus *bus = tri_bus_of(cluster);
    if (bus != NULL) {
        // Release: publishes the kind; pairs with send_unsent.
        atomic_store_explicit(&bus->announce, true, memory_order_release);
        tri_bus_note note = {.what = TRI_NOTE_NOTHING};
        if (tri_bus_tell(bus, worker, &note) == TR_ENOMEM) {
            tri_logf(bus->sys, TR_LOG_ERROR, NULL, NULL,
                     "out of memory: other nodes hear of %s later", kind->name);
        }
        if (bus->up->kinds_changed != NULL) {
            bus->up->kinds_changed(bus->up_user);
        }
    }
}

tr_err tri_bus_mail_waits(tri_cluster *cluster, tri_worker *worker,
                          tri_virtual *v)
{
    tri_bus *bus = tri_bus_of(cluster);
    TRI_CHECK(bus != NULL && !v->with_bus);
    tri_lock_assert_held(&tri_cluster_shard(cluster, v)->lock);
    tri_bus_note note = {.what = TRI_NOTE_MAIL,
                         .record = (uint64_t)(uintptr_t)v};
    return bus->closed ? TR_ECLOSED : tri_bus_tell(bus, worker, &note);
}

void tri_bus_reminder_changed(tri_worker *worker, uint32_t shard)
{
    tri_bus *bus = tri_bus_of(tri_cluster_of(worker->sys));
    TRI_CHECK(shard < TRI_SHARDS);
    if (bus != NULL) {
        tri_bus_note note = {.what = TRI_NOTE_REMINDER, .number = shard};
        // Without memory the owner finds it at its next read of the store.
        (void)tri_bus_tell(bus, worker, &note);
    }
}

void tri_bus_hosted_ended(tri_cluster *cluster, tri_worker *worker,
                          tri_virtual *v)
{
    tri_bus *bus = tri_bus_of(cluster);
    TRI_CHECK(bus != NULL);
    tri_bus_note note = {.what = TRI_NOTE_HOSTED_ENDED,
                         .record = (uint64_t)(uintptr_t)v};
    if (tri_bus_tell(bus, worker, &note) == TR_ENOMEM) {
        tri_logf(bus->sys, TR_LOG_ERROR, NULL, NULL,
                 "out of memory: mail for %s waits", v->text);
    }
}

/* ---- its end ---- */

/* A system that was abandoned still has calls, watches and mail. */
void tri_bus_free(tri_cluster *cluster)
{
    tri_bus *bus = tri_bus_of(cluster);
    if (bus == NULL) {
        return;
    }
    tr_ctx ctx = {.magic = TRI_CTX_MAGIC,
                  .sys = bus->sys,
                  .fast_tag = TRI_NO_TAG,
                  .worker = bus->sys->outside};
    bus->ctx = &ctx;
    bus->closed = true;
    tri_call_free_all(bus);
    tri_request_free_all(bus);
    for (uint32_t i = 0; i < TRI_NODES_MAX; i++) {
        tri_peer_free(bus->peers[i]);
    }
    tri_relay_free_all(bus);
    tri_hosted_free_all(bus);
    tri_lane_fail_all(bus);
    tri_remote_watch_free_all(bus);
    tri_hosts_fini(bus);
    tri_view_drop(bus->view);
    // Relaxed, both: no other thread is left.
    tri_view_drop(atomic_load_explicit(&bus->next_view, memory_order_relaxed));
    free(bus->lanes);
    free(bus);
    atomic_store_explicit(&cluster->bus, NULL, memory_order_relaxed);
}
