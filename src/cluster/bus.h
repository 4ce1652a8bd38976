/*
 * bus.h - messages between the systems that share a namespace.
 *
 * The bus is an actor, /system/bus, and all below belongs to its turns,
 * except where it says otherwise. docs/design/0011-bus.md has the whole.
 *
 *   bus.c        the actor: its turns, time, how it is told (bus_peer.h)
 *   bus_join.c   its beginning and its end
 *   bus_peer.c   the other nodes, and what comes from them
 *   bus_kind.c   who hosts which kinds
 *   bus_route.c  where actors are: caching, sending (bus_route.h)
 *   bus_call.c   messages that go out (bus_call.h)
 *   bus_in.c     messages that come
 *   bus_answer.c requests are completed, ours and those that came
 *   bus_type.c   values on the wire: types, refs
 *   bus_watch.c  stopping and watching actors of other nodes
 */
#ifndef TRI_CLUSTER_BUS_H
#define TRI_CLUSTER_BUS_H

#include "base/wheel.h"
#include "cluster/catalog.h"
#include "cluster/link.h"
#include "cluster/session.h"

enum {
    TRI_TYPES_MAX = 4096,       // types one peer may declare
    TRI_KIND_NAMES_MAX = 4096,  // kinds one peer may host
    TRI_ROUTE_MAX = 1 << 16,    // messages that wait for one route
    TRI_CALLS_MAX = 1 << 20,    // requests without an answer
    TRI_NODE_NONE = UINT32_MAX,
};

/* Of no activation: whichever is there. Numbers begin above it. */
#define TRI_NUMBER_NONE UINT64_C(0)

#define TRI_ROUTE_RETRY TR_MS(50)       // an owner that cannot say yet
#define TRI_ROUTE_HOLD  TR_SECONDS(10)  // then the mail is given up
#define TRI_ASK_WAIT    TR_SECONDS(10)  // for an owner that says nothing
#define TRI_FLUSH_WAIT  TR_SECONDS(10)
#define TRI_HANDOVER    TR_SECONDS(1)  // for claims of a shard's actors
#define TRI_TTL_MAX_MS  (UINT32_C(24) * 60 * 60 * 1000)

typedef struct tri_bus tri_bus;

/* A type that a peer has declared, as texts. */
typedef struct tri_known_type {
    char *name;
    char *table;
    uint64_t schema;
} tri_known_type;

typedef struct tri_peer {
    tri_session session;  // first
    tri_bus *bus;
    uint32_t node;
    bool greeted;         // its HELLO has come
    bool refused;         // it is not of our namespace
    bool lost;            // the last stream was given up
    uint64_t hello_life;  // of its last HELLO; 0: none, or it has left
    tri_map out_types;    // schema -> number, of the present stream
    uint32_t out_count;
    tri_known_type *in_types;
    uint32_t in_count, in_room;
} tri_peer;

/* Where a kind is hosted: bits of nodes. */
typedef struct tri_bus_kind {
    uint64_t nodes;
    bool stateless;
    uint32_t turn;
    char name[];
} tri_bus_kind;

typedef enum tri_parcel_kind {
    TRI_PARCEL_MESSAGE = 1,  // of a sender of this node: msg
    TRI_PARCEL_PASSED,       // from another node: head, bytes
    TRI_PARCEL_FLUSH,        // the marker: origin, token
    TRI_PARCEL_CONTROL,      // stop, kill or poison: token is the signal
} tri_parcel_kind;

/* What waits for a route, or is on its way and not acknowledged. */
typedef struct tri_parcel {
    struct tri_parcel *next;
    uint8_t kind;
    uint8_t forwards;
    uint8_t returns;  // of MESSAGE: times it has come back
    tri_virtual *v;
    tr_msg *msg;           // owned; NULL once a call has it
    uint64_t call;         // correlation of its tri_call; 0: none
    uint32_t origin;       // node
    uint64_t token;        // of PASSED: when it came
    uint64_t number;       // of FLUSH: the place its origin has heard of
    tri_envelope *head;    // owned
    unsigned char *bytes;  // owned: the payload of head
    tri_known_type type;   // owned texts: of the payload
} tri_parcel;

typedef enum tri_route_state {
    TRI_ROUTE_NONE,
    TRI_ROUTE_ASKING,  // the owner, or pausing before asking again
    TRI_ROUTE_REMOTE,
    TRI_ROUTE_FLUSHING,  // the marker is on its way through that node
} tri_route_state;

typedef struct tri_route {
    struct tri_route *next;  // in bus->routes
    tri_virtual *v;

    /* ---- under the lock of the shard ---- */
    uint64_t here;  // number of the activation here, or 0
    uint64_t last;  // the largest that was begun here or given back
    bool away;      // our messages may be under way elsewhere

    /* ---- the bus's own ---- */
    uint8_t state;
    bool only_look;        // the question must not place it
    tri_place place;       // of REMOTE: the cache
    tr_nanos at;           // when that was learnt
    tri_place next_place;  // of FLUSHING: where it is now
    uint64_t token;        // of the question or the marker
    tr_nanos since;        // the question failed for the first time; 0: no
    tri_timer timer;
    tri_parcel *first, *last_parcel;
    tri_parcel *last_back;  // of FLUSHING: the last that came back
    uint32_t count;
    tri_watch *watches;  // of ours, for an actor that is there
    uint64_t watchers;   // nodes that watch the one that is here
    uint64_t ended;      // nodes that must still hear of its end,
    uint32_t reason;     // ... and why it ended
    bool watches_owed;   // ended, or our watch, could not be sent
    bool claim_owed;     // to the present owner of its shard
} tri_route;

/* A request that was sent: the callback (BU5). */
typedef struct tri_call {
    tri_timer timer;  // first: found by it
    uint64_t correlation;
    tr_msg *msg;  // owned: it becomes an error, or is answered
    tri_virtual *v;
    uint32_t node;
    bool lost;  // with its node: it ends if it has been sent
    tr_nanos started, deadline;
} tri_call;

/* A request that came: whom to answer. */
typedef struct tri_heard {
    struct tri_heard *next;  // in bus->owed
    uint64_t id;
    uint64_t correlation;  // of the asker's node
    uint32_t node;
    tri_virtual *v;
    uint64_t told;  // the place that the asker believed in
    char sender[];  // the asker, or ""
} tri_heard;

typedef struct tri_bus_counts {
    uint64_t sent, received;  // envelopes
    uint64_t passed;          // of those received
    uint64_t too_often;       // passed on more than MS7 allows
    uint64_t unknown;         // answers without a call (BU3)
    uint64_t moved;           // caches that were corrected
    uint64_t races;           // claims that lost
    uint64_t lost_streams;
    uint64_t damaged;  // packets
    uint64_t refused;  // envelopes that break the rules
} tri_bus_counts;

struct tri_bus {
    tri_cluster *cluster;
    tr_system *sys;
    tri_transport *transport;
    tr_ref self;
    uint32_t here, nodes;
    uint64_t life;
    char address[300];
    tr_ctx *ctx;                           // of the turn
    bool closed;                           // its actor has ended
    bool has_bell;                         // there was memory for it
    tr_nanos timer_due;                    // of the bell; TR_FOREVER: not set
    tri_peer *peers[TRI_DIRECTORY_NODES];  // made on demand (BU9)
    tri_lock kinds_lock;                   // kinds: looked at by senders too
    tri_map kinds;
    tri_wheel wheel;
    tri_lock routes_lock;  // of the list
    tri_route *routes;
    tri_map asked;  // token -> tri_route
    tri_map calls, heard;
    bool calls_lost;         // some call is lost
    tri_heard *owed;         // answers there was no memory for
    bool watches_owed;       // some route has watches_owed
    _Atomic(bool) announce;  // not all have heard of all our kinds
    uint64_t greet_owed;     // nodes that are to get a hello from us
    uint64_t next_number;    // correlations and tokens (VA13)
    struct {
        uint64_t missing;  // whose claims we wait for, as the owner: with
                           // the shard's lock, for senders look at it
        tr_nanos until;
        bool owed;     // our claims are not all queued yet
    } *handover;       // of each shard
    bool claims_owed;  // of some shard
    tri_bus_counts counts;
};

/* What a membership says of a shard. */
typedef struct tri_bus_view {
    uint32_t shard, owner;
    uint64_t epoch;
} tri_bus_view;

typedef struct tri_bus_options {
    tri_transport *transport;  // borrowed until the system is closed
    uint32_t node;             // its number, below nodes
    uint32_t nodes;
    uint64_t life;              // its incarnation, larger than in earlier ones
    const char *address;        // host:port; NULL: none
    const tri_bus_view *views;  // borrowed for the call: what has changed
    uint32_t view_count;        // ... since epoch 1
} tri_bus_options;

/* ---- any thread, not in a turn ---- */

/*
 * Makes the system a node, before its first activation. Shard s belongs to
 * node s % nodes, with epoch 1, unless a view says otherwise. Errors:
 * TR_EINVAL (tr_error_text), TR_EEXIST, TR_ENOMEM, TR_ECLOSED.
 */
TR_NODISCARD tr_err tri_bus_join(tr_system *sys,
                                 const tri_bus_options *options);
/* A packet has come. Bytes are copied. */
void tri_bus_receive(tr_system *sys, const void *bytes, size_t size);
/* A view: the shard has this owner. Older epochs are ignored. */
void tri_bus_shard(tr_system *sys, uint32_t shard, uint32_t owner,
                   uint64_t epoch);
/* The node will not come back in this life: its places are free. */
void tri_bus_dead(tr_system *sys, uint32_t node);
/* For tests; not while the bus is at work. */
tri_bus_counts tri_bus_count(tr_system *sys);

/* ---- any thread, with the shard's lock ---- */

/* May an activation begin here, now? Then its place is registered. */
bool tri_bus_begin_here(tri_cluster *cluster, tri_virtual *v);
/* The record has mail for the bus. Errors: TR_ENOMEM, TR_ECLOSED. */
tr_err tri_bus_look(tri_cluster *cluster, tri_worker *worker, tri_virtual *v);
/* It could not begin: its place is given back, if it has one. */
void tri_bus_back_out(tri_cluster *cluster, tri_worker *worker, tri_virtual *v);
/* Its activation is over. */
void tri_bus_gone(tri_cluster *cluster, tri_worker *worker, tri_virtual *v);

/* ---- of tri_virtual_ops ---- */

bool tri_bus_signal(tri_worker *worker, tri_cell *cell, uint32_t signal);
bool tri_bus_poison(tri_worker *worker, tri_cell *cell, tr_msg *msg);
bool tri_bus_watch(tri_worker *worker, tri_cell *cell, tri_watch *watch);
bool tri_bus_unwatch(tri_worker *worker, tri_cell *cell,
                     tri_watching *watching);
bool tri_bus_reply(tri_worker *worker, tri_cell *cell, tr_msg *reply);

/* With the system's end. */
void tri_bus_free(tri_cluster *cluster);
/* A kind more is hosted here: the others hear of it. */
void tri_bus_host(tri_cluster *cluster, tri_worker *worker,
                  const tri_kind *kind);

static inline tri_bus *tri_bus_of(tri_cluster *cluster)
{
    // Acquire: pairs with tri_bus_join.
    return atomic_load_explicit(&cluster->bus, memory_order_acquire);
}

/* ---- between the files of the bus ---- */

/* In the place of a signal: after the mail. */
#define TRI_CONTROL_POISON UINT64_C(0x10000)

/* What actors tell the bus. */
TR_MESSAGE(tri_bus_note, (uint32_t, what), (uint64_t, record),
           (uint64_t, number), (uint64_t, extra));
enum {
    TRI_NOTE_NOTHING,  // only settle
    TRI_NOTE_LOOK,
    TRI_NOTE_GONE,
    TRI_NOTE_SIGNAL,
    TRI_NOTE_WATCH,
    TRI_NOTE_UNWATCH,
    TRI_NOTE_KIND,
    TRI_NOTE_SHARD,
    TRI_NOTE_DEAD,
};
tr_err tri_bus_tell(tri_bus *bus, tri_worker *worker, const tri_bus_note *note);

static inline tri_worker *tri_bus_worker(tri_bus *bus)
{
    return bus->ctx->worker;
}
/*
 * At the end of each turn: sends, sets the bell, and leaves the turn. It
 * needs no memory.
 */
void tri_bus_settle(tri_bus *bus);
tr_nanos tri_bus_now(tri_bus *bus);
tr_ref tri_bus_ref(tri_bus *bus, tri_virtual *v);
/* NULL: out of memory, or this node itself. */
tri_peer *tri_bus_peer(tri_bus *bus, uint32_t node);
/* Queues an item; takes the writer. False: it could not, nothing is told. */
bool tri_bus_put(tri_bus *bus, uint32_t node, tri_writer *w, void *tag);
/* The same, of what is no answer: it leaves the reserve alone. */
bool tri_bus_put_mail(tri_bus *bus, uint32_t node, tri_writer *w, void *tag);
tri_writer tri_bus_item(tri_bus *bus, tri_item item);
/* Queues an item that says nothing new: it opens the stream. */
bool tri_bus_greet(tri_bus *bus, uint32_t node);
/* Copies what is known of a kind; false: nothing. Any thread. */
bool tri_bus_kind_of(tri_bus *bus, const char *name, size_t size,
                     uint64_t *nodes, bool *stateless);

/* bus_route.c and its neighbours: bus_route.h */
tri_route *tri_route_get(tri_bus *bus, tri_virtual *v);  // NULL: no memory
/* Routes are added in front, and stay. */
tri_route *tri_route_first(tri_bus *bus);
void tri_route_go(tri_bus *bus, tri_route *r);
void tri_route_add(tri_bus *bus, tri_route *r, tri_parcel *p);  // takes p
void tri_route_looked(tri_bus *bus, tri_virtual *v);
/* From another node; takes p. */
void tri_route_arrived(tri_bus *bus, tri_route *r, tri_parcel *p);
/* After all mail that waits; takes p. */
void tri_route_control(tri_bus *bus, tri_route *r, tri_parcel *p);
/* Looks where it is, for those who watch. */
void tri_route_find(tri_bus *bus, tri_route *r);
void tri_route_timer(tri_bus *bus, tri_route *r);
void tri_route_learn(tri_bus *bus, tri_virtual *v, tri_place place);
/*
 * Tells a node where the actor is; loser: the number of its own activation,
 * which has lost against that one, or 0. False: it could not.
 */
bool tri_route_tell(tri_bus *bus, uint32_t to, const char *text,
                    tri_place place, uint64_t loser);
bool tri_route_place(tri_bus *bus, tri_peer *peer, tri_reader *r);
void tri_route_placed(tri_bus *bus, tri_peer *peer, tri_reader *r);
bool tri_route_claim(tri_bus *bus, tri_peer *peer, tri_reader *r);
void tri_route_claimed(tri_bus *bus, tri_peer *peer, tri_reader *r);
void tri_route_unregister(tri_bus *bus, tri_virtual *v, uint64_t number);
void tri_route_gone(tri_bus *bus, tri_peer *peer, tri_reader *r);
void tri_route_moved(tri_bus *bus, tri_peer *peer, tri_reader *r);
bool tri_route_flush(tri_bus *bus, tri_peer *peer, tri_reader *r);
void tri_route_flushed(tri_bus *bus, tri_peer *peer, tri_reader *r);
void tri_route_shard(tri_bus *bus, uint32_t shard, uint32_t owner,
                     uint64_t epoch);
/* The node may not have got our claims: they are made once more. */
void tri_route_claim_again(tri_bus *bus, uint32_t owner);
/* Claims that could not be sent, once more. True: some are left. */
bool tri_route_claims_owed(tri_bus *bus);
/* Our stream to it has ended; left: its life has, too. */
void tri_route_lost(tri_bus *bus, uint32_t node, bool left);
void tri_parcel_done(tri_bus *bus, tri_parcel *p, bool received, bool sent);
/* What a dead letter says of an error. */
uint32_t tri_bus_reason(tr_err err);
/* Takes p: it cannot be delivered. */
void tri_parcel_fail(tri_bus *bus, tri_parcel *p, tr_err err, const char *text);
void tri_parcel_free(tri_bus *bus, tri_parcel *p);
/* The record of a text of our namespace; NULL: none, and *err. */
tri_virtual *tri_bus_record(tri_bus *bus, const char *text, tr_err *err);

/* bus_type.c, bus_in.c */
/*
 * Of items that came: false is out of memory, and it is sent again.
 */
bool tri_call_type(tri_bus *bus, tri_peer *peer, tri_reader *r);
bool tri_call_message(tri_bus *bus, tri_peer *peer, tri_reader *r);
/* To one of the stateless workers behind its name; takes p, a message. */
void tri_call_to_worker(tri_bus *bus, tri_parcel *p);
/* A message of ours from one that came; NULL and *err, text of size bytes. */
tr_msg *tri_call_decode(tri_bus *bus, tri_parcel *p, tr_err *err, char *text,
                        size_t size);

/* bus_call.c */
/* Sends a parcel to r's node; takes p. */
void tri_call_send(tri_bus *bus, tri_route *r, tri_parcel *p);
/*
 * A request of ours has come back, for the actor is here now: it is a message
 * again, and answered as one. False: its asker waits no more.
 */
bool tri_call_home(tri_bus *bus, tri_parcel *p);
/*
 * It was not sent after all: the parcel has its message again, if its asker
 * still waits.
 */
void tri_call_undo(tri_bus *bus, tri_parcel *p);

/* bus_answer.c */
void tri_call_timer(tri_bus *bus, tri_call *call);
/* The stream to the node has ended; what was not sent is undone next. */
void tri_call_lost(tri_bus *bus, uint32_t node);
/* Those that are lost, and were sent. */
void tri_call_end_lost(tri_bus *bus);
void tri_call_close(tri_bus *bus);
/* Answers there was no memory for, as errors. True: some are left. */
bool tri_call_owed(tri_bus *bus);
/*
 * An error for a request that came, or a dead letter. False: the error could
 * not be sent.
 */
bool tri_call_refuse(tri_bus *bus, const tri_envelope *head, tri_virtual *v,
                     const char *type, tr_err err, const char *text);
/* The same for one that was taken: the error may be sent later. */
void tri_call_refuse_later(tri_bus *bus, const tri_envelope *head,
                           tri_virtual *v, const char *type, tr_err err,
                           const char *text);

/* bus_watch.c */
void tri_watch_note(tri_bus *bus, const tri_bus_note *note);
bool tri_watch_item(tri_bus *bus, tri_peer *peer, tri_item item, tri_reader *r);
/* Notices there was no memory for. True: some are left. */
bool tri_watch_owed(tri_bus *bus);
void tri_watch_place(tri_bus *bus, tri_route *r, bool found);
void tri_watch_ended(tri_bus *bus, tr_ref actor, uint32_t reason);
void tri_watch_lost(tri_bus *bus, tri_route *r, tr_reason reason);
/* The node's life is over: it watches nothing. */
void tri_watch_left(tri_bus *bus, uint32_t node);
/* The node may have forgotten what we watch there: it is told again. */
void tri_watch_again(tri_bus *bus, uint32_t node);

#endif
