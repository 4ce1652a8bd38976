/*
 * bus.h - the bus: messages between the systems that share a namespace.
 *
 * The bus is an actor, /system/bus. Its state belongs to its turns, except
 * where said otherwise. docs/design/0011-bus.md explains the whole.
 *
 *   bus.c          the actor: its turns, its timer, notes to it
 *   bus_join.c     a system joins a namespace
 *   bus_view.c     acts on a new view: members and owners of shards
 *   arrival.c      packets that arrive
 *   peer.c         the other nodes: a session with each, frames that come
 *   hosts.c        which node hosts which kinds
 *   turn_budget.c  how much a turn may do
 *   stopping.c     shards whose actors are told to stop
 *   lane.c         the way to the actors of one shard
 *   deliver.c      delivers mail to the actors of shards that are open here
 *   relay.c        actors that the owner of their shard has placed elsewhere
 *   hosted.c       actors that the owner of their shard has placed here
 *   parcel.c       one message, marker, stop or watch on its way
 *   outgoing.c     writes messages that leave
 *   incoming.c     reads messages that come
 *   call.c         requests of this node that wait for an answer
 *   request.c      requests of other nodes that this node answers
 *   wire_type.c    types and values on the wire
 *   remote_watch.c watches of actors on other nodes
 *   remote_stop.c  stops of actors on other nodes
 *   node.c         addresses of nodes
 */
#ifndef TRI_CLUSTER_BUS_H
#define TRI_CLUSTER_BUS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "base/list.h"
#include "base/map.h"
#include "base/wheel.h"
#include "cluster/membership/view.h"
#include "cluster/transport/transport.h"
#include "cluster/virtual/cluster.h"
#include "cluster/virtual/kind.h"
#include "cluster/virtual/virtual.h"
#include "core/caller.h"
#include "core/run/context.h"
#include "core/types.h"
#include "troupe/base.h"
#include "troupe/macros.h"
#include "troupe/message.h"

#define TRI_BUS_RETRY TR_MS(50)  // until what could not be sent is tried again

struct tri_lane;
struct tri_parcel;
struct tri_peer;
struct tri_request;

typedef struct tri_bus tri_bus;

typedef struct tri_bus_counts {
    uint64_t sent, received;  // envelopes
    uint64_t passed;          // of those received
    uint64_t too_often;       // passed on more often than allowed
    uint64_t unknown;         // answers without a call
    uint64_t lost_streams;
    uint64_t damaged;  // packets
    uint64_t refused;  // envelopes that break the rules
} tri_bus_counts;

/* What the bus asks of the membership. Called in turns of the bus. */
typedef struct tri_bus_up {
    /* No actor of the shard is active here any more: move it to its next. */
    void (*handed_over)(void *user, uint32_t shard);
    /*
     * A host of some of its actors is dead: this node keeps the shard, in an
     * epoch above `epoch`, which that host may have known.
     */
    void (*raise_epoch)(void *user, uint32_t shard, uint64_t epoch);
    /* Another node has seen this revision: read the engine. */
    void (*refresh)(void *user, uint64_t revision);
    /*
     * True while the lease of this node lasts; of another incarnation only
     * after tri_bus_set_node. Any thread, until the memory of the system is
     * freed. NULL: always.
     */
    bool (*may_act)(void *user);
    /* This node hosts one more kind. Any thread; NULL: nobody asks. */
    void (*kinds_changed)(void *user);
} tri_bus_up;

struct tri_bus {
    tri_cluster *cluster;
    tr_system *sys;
    tri_transport *transport;  // borrowed
    const tri_bus_up *up;      // borrowed
    void *up_user;
    tr_ref self;
    tri_node node;  // this one
    char address[TRI_MEMBER_ADDRESS_MAX];
    tr_ctx *ctx;          // of the turn that runs; NULL between turns
    uint32_t frame_from;  // node whose frame is handled now; TRI_NODE_NONE
    bool closed;          // the actor has ended; under every shard's lock
    bool has_timer;       // there was memory for it
    tr_nanos timer_due;   // TR_FOREVER: not set

    _Atomic(tri_view *) next_view;          // owned: not acted on yet
    _Atomic(uint64_t) next_node;            // tri_bus_set_node; 0: nothing new
    bool is_fenced;                         // no lease: all lanes are closed
    tri_view *view;                         // held; NULL: none has come
    uint32_t view_at, view_left;            // bus_view.c: shards to act on
    tri_shard_owner owners[TRI_SHARDS];     // as in the view, acted on
    struct tri_lane *lanes;                 // of each shard
    tri_list waiting;                       // of tri_lane
    tri_list stopping;                      // of tri_lane: stopping.c
    struct tri_parcel *given_back;          // newest first: bus_view.c
    struct tri_peer *peers[TRI_NODES_MAX];  // made when first needed
    tri_map kinds;                          // hosts.h
    bool hosts_changed;                     // since tri_hosts_review
    tri_wheel wheel;                        // of calls
    tri_map calls;                          // correlation -> tri_call
    bool calls_lost;                        // some call is marked as lost
    tri_map requests;                       // id -> tri_request
    struct tri_request *unsent_answers;     // there was no memory for them
    tri_map relays;                         // record -> tri_relay: relay.c
    tri_map hosted;                         // record -> tri_hosted: hosted.c
    struct {
        tri_list relays;         // of tri_relay
        uint32_t count;          // of those
    } placed_on[TRI_NODES_MAX];  // relays that lead to each
    tri_list relays_nowhere;     // of tri_relay: they wait for a host
    tri_list hosted_untold;      // of tri_hosted: owner to be told
    tri_map watched;             // record -> tri_watched
    bool watch_news_unsent;      // of some of those
    _Atomic(bool) announce;      // not all nodes were told of all our kinds
    uint64_t next_number;        // for correlations and tokens
    tri_bus_counts counts;
    tr_nanos turn_began;                // turn_budget.c; 0: outside of turns
    uint32_t turn_budget;               // turn_budget.h
    _Atomic(uint64_t) turns, turn_max;  // for tr_metrics
};

/* Returns the bus of a cluster, or NULL if there are no other nodes. */
static inline tri_bus *tri_bus_of(tri_cluster *cluster)
{
    // Acquire: pairs with tri_bus_join.
    return atomic_load_explicit(&cluster->bus, memory_order_acquire);
}

/* Returns the owner of a shard; slot TRI_NODE_NONE: nobody. */
static inline tri_node tri_bus_owner(const tri_bus *bus, uint32_t shard)
{
    TRI_CHECK(shard < TRI_SHARDS);
    return bus->owners[shard].node;
}

/* True if this node owns the shard, and is a member. */
static inline bool tri_bus_owns(const tri_bus *bus, uint32_t shard)
{
    return tri_node_is(tri_bus_owner(bus, shard), bus->node) &&
           bus->view != NULL && tri_view_has(bus->view, bus->node);
}

/* True while this node may act for its actors. Any thread. */
static inline bool tri_bus_has_lease(tri_bus *bus)
{
    return bus->up->may_act == NULL || bus->up->may_act(bus->up_user) ||
           tri_fence_is_broken(&bus->cluster->fence_break,
                               TRI_FENCE_BREAK_LEASE);
}

static inline tri_worker *tri_bus_worker(tri_bus *bus)
{
    TRI_CHECK(bus->ctx != NULL);
    return bus->ctx->worker;
}

/* ---- any thread, without locks ---- */

/* Delivers a packet that a transport has carried here; copies the bytes. */
void tri_bus_receive(tr_system *sys, const void *bytes, size_t size);
/* Gives the bus a newer view; takes the caller's hold. */
void tri_bus_set_view(tr_system *sys, tri_view *view);
/*
 * Tells the bus that this node has lost its lease (incarnation 0), or goes on
 * as another incarnation, perhaps in another slot. Called by one thread.
 */
void tri_bus_set_node(tr_system *sys, tri_node node);
/*
 * Lets the bus have a turn, in which its transport acts. Any thread. Without
 * memory for the note the transport gets a later turn.
 */
void tri_bus_wake(tr_system *sys);
/* Tells the bus that this system hosts one more kind. */
void tri_bus_host_kind(tri_cluster *cluster, tri_worker *worker,
                       const tri_kind *kind);
/* Returns the counters, for tests; not while the bus runs. */
tri_bus_counts tri_bus_count(tr_system *sys);
/* Frees the bus with the system; no other thread uses it any more. */
void tri_bus_free(tri_cluster *cluster);

/* ---- notes to the bus ---- */

/* What other threads tell the bus. */
TR_MESSAGE(tri_bus_note, (uint32_t, what), (uint64_t, record),
           (uint64_t, number), (uint64_t, extra));
enum {
    TRI_NOTE_NOTHING,  // only runs the end of a turn
    TRI_NOTE_MAIL,     // the record has pending mail for the bus
    TRI_NOTE_SIGNAL,   // remote_stop.h
    TRI_NOTE_WATCH,    // remote_watch.h
    TRI_NOTE_UNWATCH,
    TRI_NOTE_HOSTED_ENDED,  // hosted.h
    TRI_NOTE_REMINDER,      // of an actor whose shard another node owns
};

/* Sends the bus a note. Any thread. Errors: TR_ENOMEM, TR_ECLOSED. */
tr_err tri_bus_tell(tri_bus *bus, tri_worker *worker, const tri_bus_note *note);
/*
 * Sends a note about an actor unless it is active here, has stateless workers,
 * or there is no bus; returns whether it did. Any thread, without locks.
 */
bool tri_bus_tell_remote(tri_worker *worker, tri_cell *cell, uint32_t what,
                         uint64_t number, void *extra);
/*
 * Tells the bus that the record has pending mail. With the shard's lock.
 * Errors: TR_ENOMEM, TR_ECLOSED.
 */
tr_err tri_bus_mail_waits(tri_cluster *cluster, tri_worker *worker,
                          tri_virtual *v);

/* Tells the owner of the shard that a reminder was changed on this node. */
void tri_bus_reminder_changed(tri_worker *worker, uint32_t shard);
/* Tells the bus that a relayed activation has ended. Without locks. */
void tri_bus_hosted_ended(tri_cluster *cluster, tri_worker *worker,
                          tri_virtual *v);

/* ---- in turns of the bus ---- */

/*
 * Ends a turn: fires timers, lets the sessions send, sets the timer, and
 * leaves the context. Needs no memory.
 */
void tri_bus_end_turn(tri_bus *bus);
/* Starts the actor, before the bus is published; an error in the ref's id. */
tr_ref tri_bus_spawn(tri_caller *who, tri_bus *bus);
tr_nanos tri_bus_now(tri_bus *bus);
tr_ref tri_bus_ref(tri_bus *bus, tri_virtual *v);
/*
 * Returns the record of a name in our namespace, held for the caller; NULL,
 * with *err, if the text is not one or there is no room.
 */
tri_virtual *tri_bus_record(tri_bus *bus, const char *text, tr_err *err);
/* As tri_bus_record, but keeps the name and returns its ref; or nobody. */
tr_ref tri_bus_keep_ref(tri_bus *bus, const char *text, tr_err *err);
/* True if the record is active here. Takes the shard's lock. */
bool tri_bus_is_active(tri_bus *bus, tri_virtual *v);

#endif
