/*
 * cell.h - the actor cell: what a ref points to.
 *
 * Three cache lines, by who writes them: senders, the worker that runs the
 * actor, the family. What few actors need is in tri_ext, made on demand.
 *
 * The memory of a cell stays a cell for the system's life (mem.h). A sender
 * with a stale ref may read `id` and `flags` and push to `mail`; the message
 * carries the id it was meant for and is refused by whoever lives there now.
 * The cell of a virtual actor belongs to it for the system's life, with one
 * id: mail is CLOSED between two of its lives, and what is sent then goes to
 * sys->virtuals.
 *
 * mail: a stack of user messages, newest first, their number, three bits.
 *   IDLE    nobody runs or queues the cell; any push must schedule it
 *   PARKED  as IDLE, but only system mail schedules it
 *   CLOSED  takes no user mail any more
 * sys_mail: a stack of system nodes, and two bits.
 *   SIGNAL  `signals` is not zero
 *   CLOSED  the actor has ended: a push is refused
 *
 * Invariant: whoever clears IDLE or PARKED owns the cell until it sets one of
 * them again; ownership is what run queues hand on. `home` and all fields of
 * the owner's line are written by the owner only and published by that step.
 */
#ifndef TRI_CORE_CELL_H
#define TRI_CORE_CELL_H

#include <stdatomic.h>

#include "base/fiber.h"
#include "base/map.h"
#include "base/wheel.h"
#include "core/message.h"
#include "troupe/actor.h"

typedef struct tri_cell tri_cell;
typedef struct tri_ext tri_ext;
typedef struct tri_worker tri_worker;
typedef struct tri_group tri_group;

#define TRI_MAIL_IDLE   ((uintptr_t)1)
#define TRI_MAIL_PARKED ((uintptr_t)2)
#define TRI_MAIL_CLOSED ((uintptr_t)4)
#define TRI_MAIL_BITS   ((uintptr_t)7)

/* The top of the word counts the messages in it, up to TRI_MAIL_MANY. */
#define TRI_MAIL_DEPTH_SHIFT 48
#define TRI_MAIL_MANY        ((uintptr_t)0xffff)
#define TRI_MAIL_POINTER                                                       \
    ((((uintptr_t)1 << TRI_MAIL_DEPTH_SHIFT) - 1) & ~TRI_MAIL_BITS)

#define TRI_SYS_SIGNAL ((uintptr_t)1)
#define TRI_SYS_CLOSED ((uintptr_t)4)
#define TRI_SYS_BITS   ((uintptr_t)7)

/* tri_cell.flags, most of them set at spawn; the group is in bits 8 to 15. */
enum {
    TRI_CELL_OUTSIDE = 1,   // a promise or probe: scheduling wakes a thread
    TRI_CELL_BOUNDED = 2,   // hard mailbox limit
    TRI_CELL_SYSTEM = 4,    // the runtime's own: no back-pressure
    TRI_CELL_PINNED = 8,    // `home` is for life
    TRI_CELL_VIRTUAL = 16,  // lives again and again: sys->virtuals
    TRI_CELL_URGENT = 32,   // has been sent urgent mail
    TRI_CELL_TIGHT = 128,   // each send looks at the soft limit: tri_tighten
    TRI_CELL_GROUP_SHIFT = 8,
    TRI_CELL_ZOMBIE = 64,        // has ended for everybody else: force.c
    TRI_CELL_FAMILY = 1 << 16,   // ends or restarts, and waits for its children
    TRI_CELL_TELLING = 1 << 17,  // its watchers are being told of that
    TRI_CELL_RUSH = 1 << 18,     // urgent mail has come just now
};

/* tri_cell.signals: requests that never need memory. */
enum {
    TRI_SIG_STOP = 1,
    TRI_SIG_KILL = 2,
    TRI_SIG_RESTART = 4,  // the parent has decided
    TRI_SIG_RESUME = 8,
    TRI_SIG_DOOM = 16,      // the parent has decided: stop
    TRI_SIG_CHILDREN = 32,  // the last child has ended
    TRI_SIG_TIMER = 64,     // cell.timer has fired
    TRI_SIG_FORCE = 128,
    TRI_SIG_CHILD_LOST = 256,  // a child could not be restarted (rule 5)
    TRI_SIG_ROOM = 512,        // senders wait for room
    TRI_SIG_CLOSING = 1024,    // shutdown: waits end with TR_ECLOSED
    TRI_SIG_WAKE = 2048,       // a parked turn has become ready
    TRI_SIG_NOTED = 4096,      // the notice of a failure is back: lifecycle.c
    TRI_SIG_IDLE = 8192,       // end, if nothing is going on
    TRI_SIG_GROUP = 16384,     // a group restart goes on: supervise.c
};

/* tri_cell.slow: why the fast path of a turn must look closer. */
enum {
    TRI_SLOW_LIFE = 1,      // not RUNNING
    TRI_SLOW_PARKED = 2,    // turns are parked
    TRI_SLOW_PENDING = 4,   // tr_terminated and the like wait in ext
    TRI_SLOW_URGENT = 8,    // priority lanes are not empty
    TRI_SLOW_BLOCKED = 16,  // senders wait for room
    TRI_SLOW_BOUNDED = 32,  // messages are counted
    TRI_SLOW_TIMEOUT = 64,  // a receive timeout is to be pushed back
    TRI_SLOW_STOP = 128,    // it has stopped itself
};

enum { TRI_HOME_NONE = 0xffff };

struct tri_cell {
    /* ---- written by senders ---- */
    tri_cell *run_next;  // in a run queue; shares its place with tri_block
    tri_timer timer;     // stop deadline or restart delay; under a wheel's lock
    _Atomic(uintptr_t) mail;
    _Atomic(uint64_t) id;       // 0 when free
    _Atomic(uint64_t) signals;  // TRI_SIG_* below, the id's low 48 bits above
    _Atomic(uint32_t) flags;
    uint16_t wheel;  // worker whose wheel holds `timer`
    uint8_t stage;   // progress of start, stop, restart: lifecycle.c
    uint8_t reason;  // tr_reason, once it is ending

    /* ---- written by the owner ---- */
    _Atomic(uintptr_t) sys_mail;  // (and by senders of system mail)
    _Atomic(const struct tri_behaviour *) current;  // tri_cell_behaviour
    void *state;
    tri_node *queue;           // detached user mail, oldest first
    _Atomic(uint32_t) queued;  // length of queue
    _Atomic(uint8_t) life;     // tr_state
    uint8_t slow;              // TRI_SLOW_*
    uint16_t home;             // index of the worker it is bound to
    _Atomic(tri_ext *) ext;
    const char *name;           // owned; NULL: named after the id
    _Atomic(uint64_t) handled;  // user messages; relaxed, for observers

    /* ---- family; the parent's lock guards the sibling links ---- */
    _Atomic(tri_cell *) parent;  // changes only if the parent gives it up
    tri_cell *sibling_next, *sibling_prev;
    struct tri_props *props;
    tri_node notice;            // tells the parent of a failure
    _Atomic(uint32_t) lives;    // starts so far: tri_cell_incarnation
    _Atomic(uint32_t) history;  // last eight states, 4 bits each
};

enum { TRI_STATE_BITS = 4 };  // of tri_cell.history, for each state

#define TRI_SIG_BITS 16
#define TRI_SIG_MASK ((UINT64_C(1) << TRI_SIG_BITS) - 1)

/* Spawn options as they are kept: copied, shared by incarnations. */
typedef struct tri_props {
    _Atomic(uint32_t) holds;
    tr_supervision supervision;
    bool has_supervision;
    bool joinable;
    bool auto_stop;
    tr_restart_type restart;
    tr_drain drain;
    tr_ref drain_to;
    tr_nanos stop_timeout;
    uint32_t mailbox_limit;
    uint32_t soft_limit;
    tr_overflow overflow;
    bool is_bare;  // nothing was set but the first state
    size_t heap_limit;
    tr_storage *storage;
    const tr_serializer *serializer;  // of what is stored, or NULL
    size_t init_size;
    unsigned char *init;  // behind the struct
} tri_props;

/* A handler found by the schema of a message. */
typedef struct tri_slot {
    uint64_t schema;
    const tr_type *type;             // the behaviour's own description
    _Atomic(const tr_type *) alias;  // another file's, found equal
    tr_handler_fn fn;
    uint32_t flags;
    uint32_t kind;  // the behaviour's
} tri_slot;

/* A tr_actor_def made ready once per system. */
typedef struct tri_behaviour {
    const tr_actor_def *def;
    const tr_handler *any;  // TR_ON_ANY, or NULL
    bool interleaves;       // has READ or INTERLEAVE handlers
    bool plain_life;        // no hooks of the first start, nor of the end
    struct tri_behaviour *wrapped;      // this one behind interceptors
    const struct tri_behaviour *plain;  // of a wrapped one: intercept.c
    const tr_interceptor *const *outer, *const *inner;
    tr_handler any_wrapped;
    uint32_t mask;
    uint32_t kind;        // number of its name: tally.h
    uint8_t state_class;  // of its states' memory: mem.h
    tri_slot slots[];
} tri_behaviour;

/* The target's half of a watch; it is the notice, too, when the time comes. */
typedef struct tri_watch {
    tri_node node;
    struct tri_watch *next, *prev;  // in the target's list
    tr_ref watcher;
    tr_ref target;
    uint64_t key;  // of the watcher's half
    uint32_t reason;
} tri_watch;

/* The watcher's half, and the message that ends the watch. */
typedef struct tri_watching {
    tri_node node;
    tr_ref target;
    tri_watch *watch;  // valid until it comes back as TERMINATED
    uint64_t watcher_id;
    bool in_order;
} tri_watching;

/* Who waits for the end, from outside or inside. */
typedef struct tri_join {
    tri_node node;
    struct tri_join *next;
    tr_ref waiter;  // an actor or a promise
    uint64_t correlation;
    uint64_t target_id;
    bool wants_state;
    bool missing;  // there was no such actor
    tr_reason reason;
    tr_err err;
    tr_phase phase;
    char *text;
    const tr_type *state_type;
    void *state;  // malloc'd copy, or NULL
    size_t state_size;
    struct tri_heap_block *heap;  // that a plain state points to; owned
} tri_join;

/* A request on its way, or any other thing a turn can wait for. */
typedef struct tri_wait {
    tri_node node;                 // TRI_NODE_WAKE
    struct tri_wait *next, *prev;  // in ext->waits
    tri_timer timer;
    tri_fiber *fiber;  // kept ready for the one that parks
    tri_cell *cell;    // whose wait it is
    tr_ctx *ctx;       // the turn that is parked on it, or NULL
    tr_ctx *owner;     // the turn that made this future
    uint64_t correlation;
    tr_msg *reply;          // owned until taken
    struct tri_join *join;  // of tr_join and tr_started: owned until taken
    tr_err err;
    uint8_t kind;  // tri_wait_kind
    bool done;
    bool woken;        // of THEN and PIPE: the end is in the mailbox
    bool orphan;       // nobody waits any more; freed with its notice
    bool has_edge;     // deadlock.c
    bool linked;       // in the target's list of blocked senders
    bool listed;       // in its worker's list of asks
    bool has_context;  // of THEN and PIPE: a tr_context is behind it
    uint16_t wheel;    // worker whose wheel holds the timer
    tr_then_fn then;   // TRI_WAIT_THEN
    tr_ref target;
    const tr_type *type;
    const char *site;
    /* Cuts the wait short; false: its wake-up is under way. NULL: can be. */
    bool (*cancel)(struct tri_wait *wait);
    tri_ext *room;  // TRI_WAIT_ROOM: whose list we are in
    struct tri_wait *blocked_next, *blocked_prev;  // or in worker->asks
    tr_nanos deadline;  // TRI_WAIT_REPLY, where listed
} tri_wait;

typedef enum tri_wait_kind {
    TRI_WAIT_REPLY = 1,  // on the stack of tr_ask
    TRI_WAIT_FUTURE,     // tr_async: ends with its turn
    TRI_WAIT_THEN,       // tr_ask_then: ends with the incarnation
    TRI_WAIT_PIPE,       // tr_ask_pipe
    TRI_WAIT_SLEEP,
    TRI_WAIT_ROOM,     // a full mailbox
    TRI_WAIT_OUTSIDE,  // descriptor, blocking call, join, store
} tri_wait_kind;

typedef struct tri_heap_block {
    struct tri_heap_block *next, *prev;
    size_t size;
    struct tri_heap_block *text_next;  // of the stored state: persist.c
} tri_heap_block;

/* A state as it was made, for the blobs in it; in the actor's heap. */
typedef struct tri_holding {
    struct tri_holding *next, **link;
    const tr_type *type;
    size_t reserved;  // for the alignment of the value
    char value[];
} tri_holding;

typedef struct tri_closer {
    struct tri_closer *next;
    void (*close)(void *object);
    void *object;
} tri_closer;

/* A timer of tr_after, tr_every, tr_receive_timeout. Owns its message. */
typedef struct tri_user_timer {
    tri_timer timer;
    struct tri_user_timer *next, *prev;
    tri_cell *cell;
    uint64_t cell_id;
    uint64_t id;
    tr_nanos every;  // 0: once
    tr_msg *msg;     // TRI_MSG_TIMER; its sender.cell points back here
    uint16_t wheel;
    bool in_flight;  // msg is in the mailbox
    bool cancelled;  // free it when msg comes out
    bool once_more;  // was due while in flight
} tri_user_timer;

typedef struct tri_failure {
    tr_err err;
    tr_phase phase;
    char *text;  // malloc'd or NULL
    const char *site;
    tr_msg *msg;  // the message that failed, or NULL; owned
} tri_failure;

/* Where an actor is that is restarted together with its siblings (X44). */
typedef enum tri_group_stage {
    TRI_GROUP_NONE,
    TRI_GROUP_SUSPENDED,  // runs nothing, and waits to be stopped
    TRI_GROUP_STOPPING,   // its parent has let it
    TRI_GROUP_STOPPED,    // and waits to be started
    TRI_GROUP_STARTING,   // its parent has let it
} tri_group_stage;

enum { TRI_PRIORITIES = 8 };

struct tri_ext {
    _Atomic(uint32_t) live_children;  // under the lock; the owner looks
    tri_cell *first_child, *last_child;
    tri_map names;
    bool closed;  // takes no children any more

    const tri_behaviour *first;        // before the first tr_become, or NULL
    tr_ctx *parked;                    // turns that wait, oldest first
    tri_watch *watchers;               // under the lock, as joins: force.c
    tri_map watching;                  // target id -> tri_watching
    tri_node *pending, *pending_last;  // TERMINATED waiting for their turn
    tri_join *joins;

    tri_wait *waits;
    uint64_t correlation;
    uint64_t timer_id;

    tri_node *kept;  // tr_msg
    tri_node *stash, *stash_last;
    uint32_t stashed;
    tri_node *urgent[TRI_PRIORITIES];  // oldest first
    tri_node *urgent_last[TRI_PRIORITIES];

    tri_heap_block *heap;
    size_t heap_bytes;
    bool released;  // the heap is gone, and the state's sense
    tri_closer *closers;
    tri_heap_block *texts;     // of the stored state
    tri_holding *holding;      // of the stored state, or NULL
    tri_holding *holdings;     // all there are; end with the heap
    uint64_t version;          // of the stored state, or snapshot
    uint64_t sequence;         // of the newest event: sourcing.c
    uint64_t chain;            // of it, as its store says, or 0
    uint64_t snapshot;         // the event that the last one was due at
    bool emitting;             // events are on their way to the store
    _Atomic(uint32_t) stores;  // questions the store has not answered
    tri_user_timer *timers;
    tri_user_timer *receive_timeout;
    tr_nanos receive_span;

    char own_name[24];  // what tr_name gave, without a name
    tri_failure failure;
    uint32_t restarts;  // in the window
    tr_nanos window_start;
    uint32_t group_restarts;  // of its children, as a group
    tr_nanos group_start;
    tr_nanos backoff;
    tr_nanos group_backoff;  // of the first of its children to start
    _Atomic(uint8_t) group;  // tri_group_stage, as one of a group

    /* The wait-for edge of the turn that is parked on another actor. */
    _Atomic(uint64_t) edge_cell;
    _Atomic(uint64_t) edge_id;
    _Atomic(uint64_t) edge_seq;       // odd: an edge exists
    _Atomic(uint64_t) edge_wait;      // number of the wait it is for
    _Atomic(uint64_t) edge_answered;  // the same: it has been answered
    _Atomic(bool) edge_reads;         // the request runs beside readers
    _Atomic(const char *) edge_site;
    _Atomic(bool) edge_writer;  // the turn could have changed the state
    tri_lock lock;              // children, names; never cleared
    tri_lock blocked_lock;      // never cleared: late senders take it
    tri_wait *blocked;          // under it: senders waiting for room
    tri_wait *blocked_last;
    uint32_t blocked_count;
    bool no_room;               // under it: nobody may wait here
    _Atomic(uint32_t) bounded;  // messages inside, where TRI_CELL_BOUNDED
    _Atomic(uint32_t) limit;    // copies of the props, for senders
    _Atomic(uint32_t) soft_limit;
    _Atomic(uint8_t) overflow;
    _Atomic(tr_nanos) handler_limit;  // for the monitor; 0: the system's

    _Atomic(uint32_t) handles;  // AUTO_STOP
};

static inline uintptr_t tri_ref_pointer(tr_ref ref)
{
    return (uintptr_t)(ref.cell & UINT64_C(0xffffffffffff));
}

/* The newest message in a word of mail. */
static inline tri_node *tri_mail_newest(uintptr_t mail)
{
    return (tri_node *)(mail & TRI_MAIL_POINTER);
}

static inline uint32_t tri_mail_depth(uintptr_t mail)
{
    return (uint32_t)(mail >> TRI_MAIL_DEPTH_SHIFT);
}

static inline tri_cell *tri_ref_cell(tr_ref ref)
{
    return (tri_cell *)tri_ref_pointer(ref);
}

static inline tri_cell *tri_cell_of_notice(tri_node *node)
{
    return tri_container_of(node, tri_cell, notice);
}

/* For the owner: no other thread replaces it while the actor lives. */
static inline tri_ext *tri_ext_of(tri_cell *cell)
{
    // Acquire: pairs with tri_ext_make; a sender may have made it just now.
    return atomic_load_explicit(&cell->ext, memory_order_acquire);
}

/* tri_ext_need and tri_ext_free, where there was none, and was one. */
tri_ext *tri_ext_make(tri_worker *worker, tri_cell *cell);
void tri_ext_drop(tri_worker *worker, tri_cell *cell);

/* The cell's extension, made now if need be; NULL without memory. */
static inline tri_ext *tri_ext_need(tri_worker *worker, tri_cell *cell)
{
    tri_ext *ext = tri_ext_of(cell);
    return ext != NULL ? ext : tri_ext_make(worker, cell);
}

static inline void tri_ext_free(tri_worker *worker, tri_cell *cell)
{
    // Relaxed: a glance; what comes later is for tri_cell_new.
    if (atomic_load_explicit(&cell->ext, memory_order_relaxed) != NULL) {
        tri_ext_drop(worker, cell);
    }
}

/*
 * A cell with a new id, owned by the caller (neither IDLE nor PARKED), state
 * CREATED. NULL without memory.
 */
tri_cell *tri_cell_new(struct tr_system *sys, tri_cache *cache, uint64_t id);
/* Gives the memory back; mail and sys_mail are CLOSED. */
static inline void tri_cell_free(tri_cache *cache, tri_cell *cell)
{
    // Relaxed: both lanes are CLOSED; stale senders only compare.
    TRI_CHECK(atomic_load_explicit(&cell->mail, memory_order_relaxed) &
              TRI_MAIL_CLOSED);
    // Release: as tri_cell_new; pairs with tr_join and tr_state_of.
    atomic_store_explicit(&cell->id, 0, memory_order_release);
    atomic_store_explicit(&cell->signals, 0, memory_order_relaxed);
    tri_cache_free(cache, TRI_CLASS_CELL, cell);
}

/*
 * All that a life begins with; not the name, the props, the extension, nor
 * the words that senders look at (id, flags, signals, mail, sys_mail).
 */
void tri_cell_reset(tri_cell *cell);

/* Ended by force: for everybody but its own turn it is not there. */
static inline bool tri_cell_is_zombie(tri_cell *cell)
{
    // Acquire: pairs with become_zombie, for what it has taken.
    return (atomic_load_explicit(&cell->flags, memory_order_acquire) &
            TRI_CELL_ZOMBIE) != 0;
}

static inline bool tri_cell_is_virtual(tri_cell *cell)
{
    // Relaxed: fixed before the ref existed.
    return (atomic_load_explicit(&cell->flags, memory_order_relaxed) &
            TRI_CELL_VIRTUAL) != 0;
}

static inline const struct tri_behaviour *tri_cell_behaviour(tri_cell *cell)
{
    // Relaxed: behaviours live as long as the system and never change.
    return atomic_load_explicit(&cell->current, memory_order_relaxed);
}

static inline void tri_cell_become(tri_cell *cell,
                                   const struct tri_behaviour *behaviour)
{
    // Relaxed: as above; others only peek at it.
    atomic_store_explicit(&cell->current, behaviour, memory_order_relaxed);
}

static inline tri_cell *tri_cell_parent(tri_cell *cell)
{
    // Relaxed: set at birth; a new one is only taken under its lock.
    return atomic_load_explicit(&cell->parent, memory_order_relaxed);
}

/* 0 before the first start; the owner counts, others look. */
static inline uint32_t tri_cell_incarnation(tri_cell *cell)
{
    // Relaxed: a number for people.
    return atomic_load_explicit(&cell->lives, memory_order_relaxed);
}

static inline tr_state tri_cell_life(tri_cell *cell)
{
    // Relaxed: a look from outside is old the moment it is taken.
    return (tr_state)atomic_load_explicit(&cell->life, memory_order_relaxed);
}

/* For the map of names: value is a tri_cell. */
bool tri_name_is(const void *value, const void *key, size_t size);

const tri_slot *tri_behaviour_search(const tri_behaviour *behaviour,
                                     const tr_type *type);

static inline uint32_t tri_slot_index(uint64_t schema)
{
    return (uint32_t)((schema * UINT64_C(0x9e3779b97f4a7c15)) >> 40);
}

/* The handler's slot, or NULL. */
static inline const tri_slot *tri_behaviour_find(const tri_behaviour *behaviour,
                                                 const tr_type *type)
{
    const tri_slot *slot =
        &behaviour->slots[tri_slot_index(type->schema) & behaviour->mask];
    return TRI_LIKELY(slot->type == type)
               ? slot
               : tri_behaviour_search(behaviour, type);
}
/* Interned by definition; NULL without memory. See tri_behaviour_get. */
const tri_behaviour *tri_behaviour_fetch(struct tr_system *sys,
                                         tri_worker *worker,
                                         const tr_actor_def *def);
/*
 * The same behaviour with interceptors around its handlers; either list may
 * be NULL. NULL without memory.
 */
const tri_behaviour *tri_behaviour_wrap(struct tr_system *sys,
                                        const tri_behaviour *plain,
                                        const tr_interceptor *const *outer,
                                        const tr_interceptor *const *inner);
void tri_behaviours_free(struct tr_system *sys);

#endif
