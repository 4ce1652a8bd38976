/*
 * runtime.h - the system, its workers, and the context of a turn.
 *
 * A tr_system owns groups (dispatchers); a group owns workers; a worker owns a
 * run queue, a cache of memory, a pool of stacks and a timer wheel. What the
 * layers above must hear of (dead letters, events, log lines) goes up through
 * `up`, a table they hand down when the system is opened.
 */
#ifndef TRI_CORE_RUNTIME_H
#define TRI_CORE_RUNTIME_H

#include <stdatomic.h>

#include "base/fiber.h"
#include "base/world.h"
#include "core/cell.h"
#include "core/tally.h"
#include "troupe/system.h"

#define TRI_SYSTEM_MAGIC UINT64_C(0x7379735472a1d001)
#define TRI_CTX_MAGIC    UINT64_C(0x6374785472a1d002)
#define TRI_PROBE_MAGIC  UINT64_C(0x7072625472a1d003)

enum {
    TRI_GROUPS_MAX = 64,
    TRI_GROUP_MAX = 256,      // workers of one group
    TRI_WORKERS_MAX = 1024,
#ifdef TRI_TORTURE
    TRI_RING = 4,
    TRI_FRESH = 4,
    TRI_FRESH_MANY = 2,
    TRI_OTHERS = 16,
    TRI_BATCH_MESSAGES = 1,   // user messages per activation
    TRI_BATCH_SENDS = 2,      // sends of one turn before it yields
#else
    TRI_RING = 256,           // runnable cells a worker offers to others
    TRI_FRESH = 256,          // room for spawned cells, at first
    TRI_FRESH_MANY = 256,     // so many of them come before the others,
    TRI_OTHERS = 1024,        // which then have one in so many picks
    TRI_BATCH_MESSAGES = 4096,
    TRI_BATCH_SENDS = 256,    // performance.md 3.3
#endif
    TRI_CLOCK_EVERY = 64,     // messages between two looks at the clock
    TRI_CLOCK_FIRST = 8,      // and before the first two of an activation
    TRI_ID_BLOCK = 1024,      // ids a worker takes at once
    TRI_DEFS_CACHED = 16,
    TRI_FAIR = 64,            // picks between two looks at the shared queue
    TRI_BURIED = 16384,       // new cells between two of the oldest
    TRI_LOOK_EVERY = 16,      // picks between two looks at the clock
#ifdef TRI_TORTURE
    TRI_TIME_EVERY = 16,
#else
    TRI_TIME_EVERY = 256,     // picks between two handlers that are timed
#endif
    TRI_STEAL_EVERY = 8,      // rounds of a search between two attempts
    TRI_STEAL_MAX = 256,      // cells taken at once from a stuck worker
    TRI_UNBOUND_MAX = 64,     // bound cells passed over to find another
};

/*
 * A library whose turns look after no failure and count nothing, to measure
 * what that costs: tools/turn_cost.py builds it, nobody else.
 */
#ifdef TRI_BARE_TURNS
enum { TRI_BARE = 1 };
#else
enum { TRI_BARE = 0 };
#endif

/* tri_worker.look: what others ask a worker to do when it picks. */
enum {
    TRI_LOOK_CLOCK = 1,  // read the clock: the monitor
    TRI_LOOK_SHARE = 2,  // offer what waits: one that has nothing to run
};

#define TRI_QUANTUM ((tr_nanos)200000)  // an activation may last this long
#define TRI_SPIN    ((tr_nanos)50000)   // an idle worker looks around, at most
#ifdef TRI_TORTURE
#define TRI_SHARE_EACH  ((tr_nanos)0)
#else
#define TRI_SHARE_EACH  ((tr_nanos)2000)    // activations this long are shared
#endif
#define TRI_SHARE_ROUND ((tr_nanos)100000)  // or when the last waits this long
#define TRI_ASKED_LATELY ((tr_nanos)1000000)  // else the two do not compare
#define TRI_SPIN_ASK ((tr_nanos)120000) // a thread outside: a worker's waking
#define TRI_REST    ((tr_nanos)80000)   // between two thefts from one handler
#define TRI_TIME_PAUSE ((tr_nanos)20000)  // of one that idles in between
#define TRI_LONE    ((tr_nanos)20000)   // a lone cell may be stolen after
#define TRI_WAKE_MIN UINT64_C(50000)    // as long as a wake-up takes
#define TRI_WAKE_MAX UINT64_C(10000000)
#define TRI_COARSE  TR_SECONDS(1)      // spans from here on may be 2 % late
#define TRI_MONITOR TR_MS(10)          // how often the monitor looks
#define TRI_TRIM_PAUSE TR_SECONDS(1)   // between two looks at spare stacks
#define TRI_STUCK   TR_MS(100)         // a handler this long may be forced

typedef enum tri_turn_kind {
    TRI_TURN_WRITE = 1,
    TRI_TURN_READ,
    TRI_TURN_INTERLEAVE,
    TRI_TURN_RUN,   // on_run
    TRI_TURN_HOOK,
} tri_turn_kind;

/* tr_ctx.flags: what the end of the turn must look after. */
enum {
    TRI_CTX_SCRATCH = 1,
    TRI_CTX_REPLIES = 2,   // reply messages whose text the turn borrows
    TRI_CTX_FUTURES = 4,
    TRI_CTX_MSG_GONE = 8,  // kept, stashed or forwarded: not ours any more
    TRI_CTX_CONTEXT = 16,  // `context` is set, and travels with what is sent
};

typedef struct tri_scratch {
    struct tri_scratch *next;
    const tr_type *holds;  // it is a value, whose blobs end with it; or NULL
} tri_scratch;

/* An actor's view of itself during a turn; lives on the turn's stack. */
struct tr_ctx {
    uint64_t magic;
    tr_system *sys;
    tri_worker *worker;
    tri_cell *cell;
    tr_msg *msg;       // being handled, or NULL
    tr_ref self;       // of the cell
    uint64_t quick_tag;  // the system's; none where each send looks closer
    uint8_t kind;      // tri_turn_kind
    uint8_t phase;     // tr_phase
    uint8_t flags;     // TRI_CTX_*
    bool ready;        // parked, and may go on
    bool parked;
    bool in_turn;      // user code is running: a panic has a boundary
    tr_err cancel;     // waits return this at once
    uint32_t budget;   // messages until the clock is read again
    tr_nanos started;  // of the activation; 0: not read yet
    tr_nanos timed;    // since then the handler runs; 0: it is not timed
    uint32_t timed_kind, timed_depth;  // tri_tally_sample
    tr_ctx *next;      // in ext->parked
    tri_fiber *fiber;
    tri_wait *wait;    // what it is parked on
    tri_scratch *scratch;
    tri_node *replies;
    const char *fail_site;
    char *fail_text;   // malloc'd: from tr_fail or tr_panic, until used
    tr_context context;  // of the turn, where TRI_CTX_CONTEXT
    tri_jump_buf jump;
};

#define TRI_NO_TAG UINT64_MAX  // no ref has it

/* From now on what is sent carries the context. */
static inline void tri_ctx_carry(tr_ctx *ctx, const tr_context *context)
{
    ctx->context = *context;
    ctx->flags |= TRI_CTX_CONTEXT;
    ctx->quick_tag = TRI_NO_TAG;
}

/* What the messages of this turn carry along, or NULL. */
static inline const tr_context *tri_ctx_context(const tr_ctx *ctx)
{
    return ctx != NULL && (ctx->flags & TRI_CTX_CONTEXT) ? &ctx->context
                                                         : NULL;
}

/* What the fiber that is switched to does first, for the one left behind. */
typedef enum tri_after {
    TRI_AFTER_NONE,
    TRI_AFTER_CONTINUE,  // go on with after_cell, whose turn has parked
    TRI_AFTER_REQUEUE,   // after_cell's turn has yielded
    TRI_AFTER_GIVE,      // after_fiber is spare
} tri_after;

typedef struct tri_counters {  // written by one worker, read by anybody
    _Atomic(uint64_t) spawned;
    _Atomic(uint64_t) ended;
    _Atomic(uint64_t) asks;
    _Atomic(uint64_t) parked_turns;  // now
    _Atomic(uint64_t) timers;
    _Atomic(uint64_t) deadlocks;
    _Atomic(uint64_t) steals;
    _Atomic(uint64_t) parks;
    _Atomic(uint64_t) failures;
    _Atomic(uint64_t) restarts;
    _Atomic(uint64_t) dropped;
} tri_counters;

/* One more; the worker's thread, or whoever holds the outside's lock. */
static inline void tri_count(_Atomic(uint64_t) *counter)
{
    // Relaxed: one writer; for others a statistic.
    atomic_store_explicit(
        counter, atomic_load_explicit(counter, memory_order_relaxed) + 1,
        memory_order_relaxed);
}

struct tri_worker {
    /* ---- the worker's own ---- */
    tr_system *sys;
    tri_group *group;
    uint32_t index;        // in sys->workers
    uint32_t sends_left;   // of the running turn
    uint32_t group_bits;   // its group as in cell.flags; of no cell: outside
    tri_cache cache;
    tri_fiber_pool fibers;
    tri_fiber thread;      // the thread's own stack: never runs handlers
    tri_fiber *current;
    tri_fiber *resting;    // the loop that went back to the thread's stack
    tri_after after;
    tri_cell *after_cell;
    tri_fiber *after_fiber;
    tr_ctx *resuming;      // a parked turn that the loop goes on with
    tri_cell *hand;        // runs next: asked or answered just now; private.h
    tri_cell *unsettled;   // its turn waits for `hand`; still ours: turn.c
    uint32_t tick;
    uint32_t fresh_picks;
    uint32_t fresh_debt;   // so many of them come first: tri_fresh_first
    bool runs_fresh;       // the cell that runs was among them
    bool stepping;         // runs one activation at a time for a world
    bool apart;            // stepping, or it times the next handler: run()
    tr_nanos timed_at;     // when it last did so, being idle
    tr_nanos trimmed_at;   // when it last looked at its spare stacks
    tri_cell *step_pick;
    uint64_t id_next, id_end;
    tr_nanos now;          // the clock when it was last read
    tr_nanos spin;         // it looks around so long where none else is awake
    struct { const tr_actor_def *def; const tri_behaviour *behaviour; }
        defs[TRI_DEFS_CACHED];
    tri_props *last_props;  // of the latest spawn, one hold and last_count
    uint32_t last_count;
    tri_props *left_props;  // of the latest end, left_count holds
    uint32_t left_count;
    tri_thread *thread_handle;
    _Atomic(tri_cell *) running;  // and what it is handling, for observers
    _Atomic(const tr_type *) handling;
    _Atomic(uint64_t) stopped;    // the latest that has stopped itself: its id
    bool is_outside;       // the cache of threads that are not workers
    bool pinned_taken;        // of a pinned worker: it has an actor
    _Atomic(tr_nanos) monitor_since;  // the monitor's notes
    uint64_t monitor_progress;
    bool monitor_told;
    tr_nanos monitor_ran;     // of the processor, when it first seemed stuck;
                              // TR_FOREVER: it does not
    tr_nanos monitor_asked;   // since then it should have ended; 0: no
    tr_nanos backlog_since;   // more than one has been waiting; 0: no
    tr_nanos asked_at;        // for a share: the last request
    uint64_t asked_progress;
    struct { uint64_t progress; tr_nanos since; }
        seen[TRI_GROUP_MAX];  // of each victim: share.c

    /* ---- runnable cells of its own: private.h ---- */
    _Alignas(128) _Atomic(uint32_t) busy;  // the worker is in
    bool fences;                   // the world has no barrier
    _Atomic(uint32_t) own_count;
    tri_cell *own, **own_end;      // oldest first; where the next one goes
    _Atomic(uint32_t) fresh_top, fresh_bottom;
    tri_cell **fresh;              // spawned and not yet run
    uint32_t fresh_mask;           // its room, a power of two, less one
    /* ---- thieves take from head, the worker puts at tail ---- */
    _Alignas(128) _Atomic(uint32_t) head;
    _Alignas(128) _Atomic(uint32_t) tail;
    _Atomic(tri_cell *) ring[TRI_RING];
    /* ---- mail from other threads ---- */
    _Alignas(128) _Atomic(tri_cell *) inbox;
    _Alignas(128) _Atomic(uint32_t) park_word;  // 1: asleep
    _Atomic(uint32_t) look;      // requests to the worker: TRI_LOOK_*
    _Atomic(uint32_t) revoked;   // a thief is in, or waits for the barrier
    _Alignas(128) tri_counters count;
    tri_tally tally;
    _Atomic(uint64_t) progress;    // activations, for the monitor

    _Alignas(128) tri_lock wheel_lock;
    tri_wheel wheel;
    _Atomic(tr_nanos) wheel_next;
    tri_wait *asks, *asks_last;  // the worker's own; earliest deadline first
};

struct tri_group {
    tr_system *sys;
    char name[32];
    uint8_t index;
    uint32_t spares;              // workers the monitor has added
    tri_lock start_lock;
    _Atomic(bool) started;        // its threads run; on first use
    tr_dispatch_kind kind;
    _Atomic(uint32_t) count;      // workers; grows when all are stuck
    tri_worker *_Atomic workers[TRI_GROUP_MAX];
    _Atomic(uint32_t) sleeping;   // workers asleep
    _Atomic(uint32_t) searching;  // workers awake and looking for work
    _Atomic(uint64_t) wake_pause; // work must have waited this long, ns
    _Alignas(128) tri_lock lock;  // the shared queue
    tri_cell *first_cell, *last_cell;
    _Atomic(uint32_t) length;
};

/* tr_system.watch_events: kinds of events somebody listens to. */
enum { TRI_EVENT_LIFECYCLE = 1, TRI_EVENT_OTHER = 2 };

/* What the core tells the layers above. `worker` is never NULL. */
/* A write that a store has answered. */
typedef struct tri_written {
    const void *store;
    const char *key;  // no zero behind it
    size_t key_size;
    uint32_t shard;
    bool is_event;
    uint64_t epoch;
    uint64_t before, version;  // it makes the versions behind `before`
    tr_err err;                // the answer; may be changed to TR_EUNKNOWN
} tri_written;

typedef struct tri_up {
    /* Takes msg. */
    void (*dead_letter)(tri_worker *worker, tr_ref to, tr_msg *msg,
                        uint32_t reason);
    /* No record could be made. */
    void (*dead_letter_lost)(tr_system *sys, tr_ref to, const tr_type *type,
                             uint32_t reason);
    void (*lifecycle)(tri_worker *worker, tri_cell *cell, tr_state state);
    void (*unhandled)(tri_worker *worker, tri_cell *cell, tr_msg *msg);
    void (*supervision)(tri_worker *worker, tri_cell *child,
                        const tri_failure *failure, tr_directive directive);
    /* From the monitor's thread: the worker's handler does not return. */
    void (*stuck)(tri_worker *worker, tr_nanos since, tr_nanos lasts);
    void (*overload)(tri_worker *worker, tri_cell *cell, uint32_t depth);
    /* It ends now, although a turn of it has not returned. */
    void (*forced)(tri_worker *worker, tri_cell *cell, const char *path);
    void (*ended)(tri_worker *worker, tri_cell *cell);  // before it is told
    void (*released)(tri_worker *worker, tri_cell *cell);  // restart or end
    tr_err (*load_state)(tr_ctx *ctx, void *self);
    /* Before the actor hears of it; on any thread. NULL: nobody looks. */
    void (*stored)(tr_system *sys, tri_written *written);
} tri_up;

/* How many actors there are: spawned and not yet gone. Any thread. */
uint64_t tri_live_count(tr_system *sys);
/* From now on each end changes and wakes sys->last_word. */
void tri_live_await(tr_system *sys);

struct tr_metrics_snapshot;

/*
 * What src/cluster does for cells that are TRI_CELL_VIRTUAL. A system has
 * none before its first virtual actor.
 */
typedef struct tri_virtuals {
    const struct tri_virtual_ops *ops;
} tri_virtuals;

typedef struct tri_virtual_ops {
    /*
     * The cell's mailbox is closed. Takes msg on TR_OK.
     * Errors: TR_ENOENT (nobody hosts the kind), TR_ECLOSED, TR_ENOMEM.
     */
    tr_err (*send)(tri_worker *worker, tri_cell *cell, tr_msg *msg);
    void (*life)(tri_worker *worker, tri_cell *cell, tr_state state);
    /* Its stored state is there, or could not be had. */
    void (*loaded)(tri_worker *worker, tri_cell *cell);
    /* A message was handled that does not keep the actor active. */
    void (*quiet)(tri_cell *cell);
    uint32_t (*shard)(tri_cell *cell);  // whose fence its saves pass
    /* Writes the name of an actor; false: that one is gone. Any thread. */
    bool (*name)(tr_system *sys, tri_cell *cell, uint64_t id, char *buf,
                 size_t size);
    uint32_t shards;                    // how many there are
    /* A life has ended. Takes what is left in cell->queue. */
    void (*ended)(tri_worker *worker, tri_cell *cell);
    /*
     * Four calls for actors that may be on another node. Each says whether
     * it has taken care; if not, the actor is here or nowhere.
     */
    bool (*signal)(tri_worker *worker, tri_cell *cell, uint32_t signal);
    bool (*poison)(tri_worker *worker, tri_cell *cell, tr_msg *msg);  // takes
    bool (*watch)(tri_worker *worker, tri_cell *cell, tri_watch *watch);
    bool (*unwatch)(tri_worker *worker, tri_cell *cell,
                    tri_watching *watching);
    /* A reply that nobody waits for; takes it if it was for another node. */
    bool (*reply)(tri_worker *worker, tri_cell *cell, tr_msg *reply);
    /* From now on nothing is activated. The guardian of what is active. */
    tr_ref (*close)(tr_system *sys);
    void (*count)(tr_system *sys, struct tr_metrics_snapshot *out);
    /* Writes "; hosted here: a, b" as far as there is room. */
    void (*hosted)(tr_system *sys, char *out, size_t size);
    void (*free)(tr_system *sys);
} tri_virtual_ops;

struct tr_system {
    uint64_t magic;
    uint16_t tag;          // in every ref this system makes
    tri_world *world;
    tri_mem mem;
    const tri_up *up;
    tr_system_options options;
    tr_supervision supervision;       // default of all actors
    char *name;

    tri_group *groups[TRI_GROUPS_MAX];
    _Atomic(uint32_t) group_count;
    tri_worker *_Atomic workers[TRI_WORKERS_MAX];
    _Atomic(uint32_t) worker_count;
    tri_lock groups_lock;

    tri_lock outside_lock;
    tri_worker *outside;   // stands in for threads that are no workers

    _Atomic(uint64_t) next_id;
    _Atomic(uint32_t) fibers_live;
    tri_lock behaviours_lock;
    tri_map behaviours;
    const char *kinds[TRI_KINDS];  // names, by number; 0: all the others
    _Atomic(uint32_t) kind_count;

    _Atomic(bool) stopping_workers;
    _Atomic(uint32_t) monitor_word;
    tri_thread *monitor;
    _Atomic(uint32_t) last_awaited;   // the closing thread counts: spawn.c
    _Atomic(uint32_t) last_word;      // changes when it must count again
    _Atomic(uint32_t) watch_events;   // event kinds somebody listens to
    tri_lock zombies_lock;
    tri_cell *zombies;                // ended by force, still in a handler
    _Atomic(uint32_t) zombie_count;

    tri_lock boxes_lock;
    struct tri_mailbox *boxes;     // threads that wait, and probes
    _Atomic(uint32_t) dead;        // abandoned
    tri_lock results_lock;
    tri_map results;       // of joinable actors that have ended: tri_join
    tri_heap_block *handed;  // under results_lock: heaps of joined states
    tri_driven driven;
    tri_worker *driven_worker;  // where a world or tr_poll drives us
    _Atomic(uintptr_t) driver;  // the thread that does, for tr_poll: poll.c
    _Atomic(bool) driving;
    tri_cell *root, *user, *system;
    uint64_t root_id, user_id, system_id;
    struct tri_pollfd *pollfd;  // of tr_poll_fd
    _Atomic(uint32_t) terminating;
    void *layers;          // the system layer's own part
    _Atomic(struct tri_io *) io;  // descriptors and blocking calls
    char *ns;                     // owned copy of options.ns, or NULL
    tri_lock virtuals_lock;       // for making it
    _Atomic(tri_virtuals *) virtuals;
};

static inline void tri_ctx_carry_nothing(tr_ctx *ctx)
{
    ctx->flags &= (uint8_t)~TRI_CTX_CONTEXT;
    ctx->quick_tag = ctx->sys->tag;
}

static inline uint32_t tri_def_index(const tr_actor_def *def)
{
    return (uint32_t)((uintptr_t)def >> 4) % TRI_DEFS_CACHED;
}

/* The behaviour of a definition, interned; NULL without memory. */
static inline const tri_behaviour *
tri_behaviour_get(tr_system *sys, tri_worker *worker, const tr_actor_def *def)
{
    uint32_t i = tri_def_index(def);
    return TRI_LIKELY(worker->defs[i].def == def)
               ? worker->defs[i].behaviour
               : tri_behaviour_fetch(sys, worker, def);
}

/* NULL if there are none. Whoever has a virtual cell need not ask. */
static inline const tri_virtual_ops *tri_virtual_ops_of(tr_system *sys)
{
    // Acquire: pairs with the store that made them known.
    tri_virtuals *virtuals =
        atomic_load_explicit(&sys->virtuals, memory_order_acquire);
    return virtuals != NULL ? virtuals->ops : NULL;
}

/* The ref of a cell that the caller knows to be alive. */
static inline tr_ref tri_cell_ref(const tr_system *sys, const tri_cell *cell)
{
    // Relaxed: the id of a living actor does not change.
    return (tr_ref){
        (uint64_t)(uintptr_t)cell | (uint64_t)sys->tag << 48,
        atomic_load_explicit(&((tri_cell *)(uintptr_t)cell)->id,
                             memory_order_relaxed)};
}

/* The worker this thread is, or NULL. */
tri_worker *tri_worker_current(void);
void tri_worker_set_current(tri_worker *worker);

/* ---- who acts (tr_from) ---- */

/*
 * The worker whose cache and queues the caller may use. For threads that are
 * no workers it is sys->outside, locked; tri_leave unlocks it.
 */
typedef struct tri_actor_from {
    tr_system *sys;
    tri_worker *worker;
    tr_ctx *ctx;       // NULL outside
    tr_ref sender;
    bool locked;
} tri_actor_from;

/* tri_enter where it is no context. */
tri_actor_from tri_enter_outside(tr_from from);

static inline tri_actor_from tri_enter(tr_from from)
{
    tr_ctx *ctx = from.ctx;
    if (TRI_UNLIKELY(ctx->magic != TRI_CTX_MAGIC)) {
        return tri_enter_outside(from);
    }
    return (tri_actor_from){.sys = ctx->sys, .worker = ctx->worker,
                            .ctx = ctx,
                            .sender = tri_cell_ref(ctx->sys, ctx->cell)};
}

static inline void tri_leave(tri_actor_from *who)
{
    if (who->locked) {
        tri_lock_drop(&who->sys->outside_lock);
    }
}

/* ---- scheduler.c ---- */

tr_err tri_group_new(tr_system *sys, const char *name, tr_dispatch_kind kind,
                     uint32_t threads, tri_group **out);
tri_group *tri_group_find(tr_system *sys, const char *name);
tr_err tri_workers_start(tr_system *sys, tri_group *group);
void tri_workers_stop(tr_system *sys);
tri_worker *tri_worker_new(tr_system *sys, tri_group *group);
void tri_worker_free(tri_worker *worker);
/* A worker of its own for a pinned actor. */
tri_worker *tri_worker_pinned(tr_system *sys);
void tri_worker_unpin(tr_system *sys, tri_worker *worker);
void tri_monitor_main(void *sys);
/* Wakes a sleeper; not while another searches, unless even so. */
void tri_group_wake(tri_group *group, bool even_so);

/* Puts a cell the caller owns where it will be run. */
void tri_schedule(tri_worker *worker, tri_cell *cell);
/* The newest first, where nothing else decides: bound, or stepped. */
void tri_schedule_fresh(tri_worker *worker, tri_cell *cell);
/* Whether nothing binds it elsewhere: it may go among this worker's own. */
bool tri_schedules_here(tri_worker *worker, tri_cell *cell);
uint32_t tri_worker_runnable(tri_worker *worker);
tri_cell *tri_worker_pick(tri_worker *worker, uint32_t index);
void tri_worker_fire(tri_worker *worker, tr_nanos now);
bool tri_worker_wake(tri_worker *worker);  // true: it was asleep
/* Those who run the cell are all asleep, or only just waking; a hint. */
bool tri_is_asleep(tr_system *sys, const tri_cell *cell);
/* When the worker must look at the clock next; its own thread. */
tr_nanos tri_worker_due(tri_worker *worker);
tr_nanos tri_clock(tri_worker *worker);
/* At most TRI_CLOCK_LAG behind. */
static inline tr_nanos tri_clock_coarse(tri_worker *worker)
{
    tri_world *world = worker->sys->world;
    return world->ops->mono_coarse != NULL ? world->ops->mono_coarse(world)
                                           : tri_clock(worker);
}
/* Makes tr_poll_fd readable. */
void tri_poll_ready(tr_system *sys);

/* ---- turn.c ---- */

void tri_loop(void *worker);  // entry of every pool fiber
/* Looks after what a turn has left; not after its message. */
void tri_turn_end(tr_ctx *ctx);
/* Runs the handler for msg, which it takes; the same without memory. */
void tri_handle(tr_ctx *ctx, tr_msg *msg);
enum { TRI_STACK_PAYLOAD = 64 };
void tri_handle_on_stack(tr_ctx *ctx, const tr_type *type,
                         const void *payload, size_t size);
/* Gives up the cell whose turn waits for what has run in vain. */
void tri_settle_now(tri_worker *worker);
static inline void tri_settle(tri_worker *worker)
{
    if (worker->unsettled != NULL) {
        tri_settle_now(worker);
    }
}

/* ---- attention.c ---- */

void tri_system_node(tr_ctx *ctx, tri_node *node);

/* ---- park.c ---- */

/* True where the turn may be parked. */
static inline bool tri_can_park(const tr_ctx *ctx)
{
    return ctx->in_turn;  // the outside worker runs no actors
}
/* Parks the turn until wait->done; returns wait->err or why it was cut. */
tr_err tri_park(tr_ctx *ctx, tri_wait *wait);
void tri_yield(tr_ctx *ctx);
/* Makes the turn parked on wait ready. Owner of the cell only. */
void tri_wait_done(tri_worker *worker, tri_cell *cell, tri_wait *wait,
                   tr_err err);
/* Cuts all parked turns for which `which` is set short. */
enum { TRI_CUT_MESSAGES = 1, TRI_CUT_RUN = 2, TRI_CUT_HOOKS = 4 };
void tri_cut_waits(tri_worker *worker, tri_cell *cell, uint32_t which,
                   tr_err err);
uint32_t tri_parked_count(tri_cell *cell, uint32_t which);

/* ---- mailbox.c ---- */

/*
 * Takes msg on TR_OK; else the caller still owns it.
 * Errors: TR_EGONE (no such actor), TR_ESTOPPED.
 */
tr_err tri_push(tri_worker *worker, tri_cell *cell, uint64_t id, tr_msg *msg);
/* Takes node on true. */
bool tri_push_system(tri_worker *worker, tri_cell *cell, tri_node *node);
/* The same for an answer, which may find its turn at once. */
bool tri_push_reply(tri_worker *worker, tri_cell *cell, tr_msg *reply);
void tri_signal(tri_worker *worker, tri_cell *cell, uint64_t id,
                uint32_t signal);
/* tr_poison, also of the actors of the library, which it spares. */
void tri_poison_any(tr_system *sys, tr_ref ref);
/* Sends with all the policies; takes msg on every path. */
void tri_send(tri_actor_from *who, tr_ref to, tr_msg *msg);
tr_err tri_try_send(tri_actor_from *who, tr_ref to, tr_msg *msg);
uint32_t tri_depth(tri_cell *cell);
/* Detaches user mail into the queue; true if there is any. */
bool tri_detach(tri_cell *cell);
void tri_dead(tri_worker *worker, tr_ref to, tr_msg *msg, uint32_t reason);
/* Tells senders that wait for room; the other: if there is some now. */
void tri_room(tri_worker *worker, tri_cell *cell);
void tri_room_if_low(tri_worker *worker, tri_cell *cell);
/*
 * Mail beside a parked turn is moved to the queue as it comes, so pushes do
 * not see how much waits: with a deep queue each of them is to look, until no
 * turn is parked any more.
 */
void tri_tighten(tri_cell *cell);
void tri_loosen(tri_worker *worker, tri_cell *cell);
/* Before each message of a bounded mailbox: drops what is too much. */
void tri_bounded_trim(tri_worker *worker, tri_cell *cell);

/* ---- answer.c ---- */

void tri_answer_error(tri_worker *worker, tr_msg *msg, tr_err err,
                      const char *text);
/* Sends a message, or a request that its asker then awaits there. Takes msg. */
void tri_pass_on(tr_ctx *ctx, tr_msg *msg, tr_ref to);
/* Answers with a value, outside of a turn; takes msg, which is freed. */
void tri_answer_value(tri_worker *worker, tr_msg *msg, tr_ref from,
                      const void *payload);

/* ---- wait.c ---- */

/* A TRI_NODE_WAKE has come. */
void tri_wait_woken(tr_ctx *ctx, tri_wait *wait);
void tri_reply_arrived(tri_worker *worker, tri_cell *cell, tr_msg *reply);
/* The same where somebody waits for it; takes it on true. */
bool tri_reply_awaited(tri_worker *worker, tri_cell *cell, tr_msg *reply);
/* Around a wait of the running turn that is not an ask. */
tr_err tri_wait_begin(tr_ctx *ctx, tri_wait *wait, tr_nanos deadline);
void tri_wait_finish(tr_ctx *ctx, tri_wait *wait);
void tri_wait_link(tri_cell *cell, tri_wait *wait);
void tri_wait_unlink(tri_cell *cell, tri_wait *wait);
void tri_wait_timed_out(tri_worker *worker, tri_wait *wait);
/* Times out the asks of the usual span that are due. */
void tri_asks_fire(tri_worker *worker, tr_nanos now);

/* ---- ask.c, future.c, then.c ---- */

tr_err tri_ask_inside(tr_ctx *ctx, tr_ref to, void *out, tr_nanos timeout,
                      const tr_type *type, const void *payload,
                      const char *site);
void tri_futures_drop(tr_ctx *ctx);
/* A reply that came through the user lane: tr_ask_then, tr_ask_pipe. */
void tri_reply_in_order(tr_ctx *ctx, tr_msg *reply);
/* Runs a callback or pipe whose wait is over; takes both. */
void tri_then_turn(tr_ctx *ctx, tri_wait *wait, tr_msg *reply);
void tri_waits_drop(tri_worker *worker, tri_cell *cell);

/* ---- error_text.c ---- */

enum { TRI_ADVICE_MAX = 256 };

/*
 * What to do about an error of a request, as "; do this", or "". Static, or
 * in the room of size bytes, TRI_ADVICE_MAX being enough.
 */
const char *tri_advice(tr_system *sys, tr_err err, tr_ref to, char *room,
                       size_t size);
void tri_error_set(tr_ctx *ctx, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- lifecycle.c ---- */

/* Works on what keeps the cell from being simply RUNNING. */
typedef enum tri_step {
    TRI_STEP_AGAIN,    // something has changed: look at everything again
    TRI_STEP_RUNNING,  // user mail may run
    TRI_STEP_WAIT,     // for system mail
    TRI_STEP_ENDED,    // the cell is not ours any more
} tri_step;
tri_step tri_life_step(tr_ctx *ctx);
void tri_life_signals(tr_ctx *ctx, uint32_t signals);
void tri_life_set(tri_worker *worker, tri_cell *cell, tr_state state);
void tri_life_fail(tr_ctx *ctx, tr_err err);
const char *tri_state_name(tr_state state);
bool tri_life_legal(tr_state from, tr_state to);

/* ---- supervise.c ---- */

void tri_supervise(tr_ctx *parent, tri_cell *child);

/* ---- watch.c ---- */

void tri_watch_arrived(tri_worker *worker, tri_cell *cell, tri_watch *watch);
void tri_unwatch_arrived(tri_worker *worker, tri_cell *cell,
                         tri_watching *watching);
bool tri_terminated_arrived(tri_worker *worker, tri_cell *cell,
                            tri_watch *watch);
/* Runs the handler for the first pending tr_terminated. */
void tri_terminated_turn(tr_ctx *ctx);
void tri_terminated_in_order(tr_ctx *ctx, tri_watch *watch);
void tri_join_arrived(tri_worker *worker, tri_cell *cell, tri_join *join);
void tri_watchers_tell(tri_worker *worker, tri_cell *cell, tr_reason reason);
/* Tells the watcher; takes watch. */
void tri_watch_back(tri_worker *worker, tri_watch *watch, tr_reason reason);
/*
 * On behalf of another actor: it is asked to watch, or not to any more. What
 * nobody is there to hear is left out. Errors: TR_ENOMEM.
 */
tr_err tri_watch_request(tri_worker *worker, tr_system *sys, tr_ref watcher,
                         tr_ref target, bool on);
void tri_watch_requested(tr_ctx *ctx, tri_watch *request);
void tri_unwatch_ref(tri_worker *worker, tri_cell *watcher, tr_ref target);
tr_err tri_watch_ref(tri_worker *worker, tr_system *sys, tri_cell *watcher,
                     tr_ref target, bool in_order);

/* ---- force.c ---- */

/*
 * Ends an actor whose handler does not return, if it is still that one and
 * has had its time to stop. From the monitor's thread. escalate: its parent
 * fails as well (rule 5).
 */
bool tri_force_stuck(tr_system *sys, tri_cell *cell, uint64_t id,
                     tr_nanos waited, bool escalate);
/*
 * After a system node was pushed: true if that was to a zombie; then it has
 * been answered.
 */
bool tri_force_late(tri_worker *worker, tri_cell *cell, uint64_t id);

/* ---- heap.c, timer.c ---- */

void *tri_heap_alloc(tr_ctx *ctx, size_t size);  // NULL without memory
/* Rule 30: the state must not point into a message that is about to end. */
void tri_state_check(tr_ctx *ctx, const tr_msg *msg);
void tri_receive_timeout_touch(tr_ctx *ctx, tr_msg *msg);
void tri_results_free(tr_system *sys);
void tri_scratch_free(tri_scratch *block);
void tri_heap_release(tri_worker *worker, tri_cell *cell);
void tri_timers_cancel_all(tri_worker *worker, tri_cell *cell);
/* As tr_after, but {0} instead of a panic without memory. */
tr_timer tri_after_try(tr_ctx *ctx, tr_nanos span, const tr_type *type,
                       const void *payload);
/*
 * A timer of the running actor that is set by hand, again and again, without
 * memory; it has one at most. False: no memory.
 */
bool tri_bell_try(tr_ctx *ctx, const tr_type *type, const void *payload);
/* It rings once, after span; TR_FOREVER: not any more. */
void tri_bell_set(tr_ctx *ctx, tr_nanos span);
void tri_user_timer_fire(tri_worker *worker, tri_user_timer *timer);
/* The timer's message came out of the mailbox; true: hand it to the actor. */
bool tri_user_timer_arrived(tri_worker *worker, tr_msg *msg);
void tri_user_timer_handled(tri_worker *worker, tr_msg *msg);
void tri_arm(tri_worker *worker, tri_timer *timer, tr_nanos due, uint32_t kind);
void tri_wheel_noted(tri_worker *worker);  // with its lock: after arming
void tri_disarm(tr_system *sys, uint16_t wheel, tri_timer *timer);
/* Disarms; false: it had fired, or never been armed. */
bool tri_disarm_was_armed(tr_system *sys, tri_wait *wait);
enum { TRI_TIMER_CELL, TRI_TIMER_WAIT, TRI_TIMER_USER };

/* ---- spawn.c ---- */

/* A cell under parent; nobody with the error inside on failure. */
tr_ref tri_spawn_under(tri_actor_from *who, tri_cell *parent,
                       const tr_actor_def *def,
                       const tr_spawn_options *options, uint32_t flags);
void tri_props_drop(tri_props *props);
/*
 * The same, a little later: ends of actors alike, on several cores, do not
 * meet in one counter. The other: now.
 */
void tri_props_leave(tri_worker *worker, tri_props *props);
void tri_props_flush(tri_worker *worker);
/* Those of its latest spawn are not the worker's any more. */
void tri_props_forget(tri_worker *worker);
bool tri_supervision_fill(tr_supervision *policy);
/* Whether its state has a schema, if it is to be stored. */
bool tri_storable(const tr_actor_def *def, const tr_spawn_options *o);
/*
 * Options as they are kept; the caller owns *out, which may be NULL.
 * Errors: TR_EINVAL, TR_ENOMEM.
 */
tr_err tri_props_new(tr_system *sys, tri_cell *parent,
                     const tr_actor_def *def, const tr_spawn_options *o,
                     tri_props **out);
/* Errors: TR_ENOMEM, TR_ESTOPPED, TR_EEXIST. */
tr_err tri_children_link(tri_worker *worker, tri_cell *parent,
                         tri_cell *child);
uint64_t tri_id_next(tri_worker *worker);

/* ---- outside.c: promises of threads that are no actors ---- */

/* An outside thread's mailbox. On its stack, or in a probe. */
typedef struct tri_mailbox {
    tri_cell *cell;
    tr_system *sys;
    _Atomic(uint32_t) word;  // 1: the cell has been handed back
    const tri_cell *awaited;  // whom it waits for, perhaps; a hint, or NULL
    struct tri_mailbox *next, *prev;  // in sys->boxes
} tri_mailbox;

/* A dead system sends the threads that wait in it away, and waits for it. */
void tri_boxes_drive_out(tr_system *sys);

void tri_outside_wake(tri_worker *worker, tri_cell *cell);
tr_err tri_mailbox_open(tri_mailbox *box, tr_system *sys);
void tri_mailbox_close(tri_mailbox *box);
/* The next user message or system node, or NULL when the time is over. */
tri_node *tri_mailbox_wait(tri_mailbox *box, tr_nanos deadline);
tr_nanos tri_deadline_outside(tr_system *sys, tr_nanos timeout,
                              tr_nanos standard);
/* Runs the system on this thread where it has no workers of its own. */
bool tri_drive(tr_system *sys, tr_nanos budget);
/* Waits while *word is `expected`; a driver drives. May return early. */
void tri_drive_or_park(tr_system *sys, _Atomic(uint32_t) *word,
                       uint32_t expected, tr_nanos timeout);
/* Runs one activation of a stepped worker on the calling thread. */
void tri_worker_step(tri_worker *worker, uint32_t index);

#endif
