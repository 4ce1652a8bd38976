/*
 * worker.h - workers and the groups they belong to, and their limits.
 *
 * A group (a dispatcher) owns workers; a worker owns a run queue, a cache of
 * memory, a pool of stacks and a timer wheel. For threads that are no workers
 * there is one more, tr_system.outside, with a lock in place of a thread.
 *
 * Invariant: from its start to its end what is not atomic in a worker is
 * changed by its thread alone, except for the monitor's notes (worker.c),
 * pinned_taken (under groups_lock), the private queues (one at a time:
 * private.h) and the wheel (wheel_lock).
 */
#ifndef TRI_CORE_WORKER_H
#define TRI_CORE_WORKER_H

#include <stdatomic.h>

#include "base/fiber.h"
#include "base/world.h"
#include "core/cell.h"
#include "core/tally.h"
#include "troupe/system.h"

enum {
    TRI_GROUPS_MAX = 64,
    TRI_GROUP_MAX = 256,  // workers of one group
    TRI_WORKERS_MAX = 1024,
#ifdef TRI_TORTURE
    TRI_RING = 4,
    TRI_FRESH = 4,
    TRI_FRESH_MANY = 2,
    TRI_OTHERS = 16,
    TRI_BATCH_MESSAGES = 1,  // user messages per activation
    TRI_BATCH_SENDS = 2,     // sends of one turn before it yields
#else
    TRI_RING = 256,        // runnable cells a worker offers to others
    TRI_FRESH = 256,       // room for spawned cells, at first
    TRI_FRESH_MANY = 256,  // so many of them come before the others,
    TRI_OTHERS = 1024,     // which then have one in so many picks
    TRI_BATCH_MESSAGES = 4096,
    TRI_BATCH_SENDS = 256,  // performance.md 3.3
#endif
    TRI_CLOCK_EVERY = 64,  // messages between two looks at the clock
    TRI_CLOCK_FIRST = 8,   // and before the first two of an activation
    TRI_ID_BLOCK = 1024,   // ids a worker takes at once
    TRI_DEFS_CACHED = 16,
    TRI_FAIR = 64,        // picks between two looks at the shared queue
    TRI_BURIED = 16384,   // new cells between two of the oldest
    TRI_LOOK_EVERY = 16,  // picks between two looks at the clock
#ifdef TRI_TORTURE
    TRI_TIME_EVERY = 16,
#else
    TRI_TIME_EVERY = 256,  // picks between two handlers that are timed
#endif
    TRI_STEAL_EVERY = 8,   // rounds of a search between two attempts
    TRI_STEAL_MAX = 256,   // cells taken at once from a stuck worker
    TRI_UNBOUND_MAX = 64,  // bound cells passed over to find another
};

/* tri_worker.look: what others ask a worker to do when it picks. */
enum {
    TRI_LOOK_CLOCK = 1,  // read the clock: the monitor
    TRI_LOOK_SHARE = 2,  // offer what waits: one that has nothing to run
};

#define TRI_QUANTUM ((tr_nanos)200000)  // an activation may last this long
#define TRI_SPIN    ((tr_nanos)50000)   // an idle worker looks around, at most
#ifdef TRI_TORTURE
#define TRI_SHARE_EACH ((tr_nanos)0)
#else
#define TRI_SHARE_EACH ((tr_nanos)2000)  // activations this long are shared
#endif
#define TRI_SHARE_ROUND  ((tr_nanos)100000)  // or when the last waits this long
#define TRI_ASKED_LATELY ((tr_nanos)1000000)  // else the two do not compare
#define TRI_SPIN_ASK     ((tr_nanos)120000)  // a thread outside: a worker's waking
#define TRI_REST         ((tr_nanos)80000)  // between two thefts from one handler
#define TRI_TIME_PAUSE   ((tr_nanos)20000)  // of one that idles in between
#define TRI_LONE         ((tr_nanos)20000)  // a lone cell may be stolen after
#define TRI_WAKE_MIN     UINT64_C(50000)    // as long as a wake-up takes
#define TRI_WAKE_MAX     UINT64_C(10000000)
#define TRI_COARSE       TR_SECONDS(1)  // spans from here on may be 2 % late
#define TRI_MONITOR      TR_MS(10)      // how often the monitor looks
#define TRI_TRIM_PAUSE   TR_SECONDS(1)  // between two looks at spare stacks
#define TRI_STUCK        TR_MS(100)     // a handler this long may be forced

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
    uint32_t index;       // in sys->workers
    uint32_t sends_left;  // of the running turn
    uint32_t group_bits;  // its group as in cell.flags; of no cell: outside
    tri_cache cache;
    tri_fiber_pool fibers;
    tri_fiber thread;  // the thread's own stack: never runs handlers
    tri_fiber *current;
    tri_fiber *resting;  // the loop that went back to the thread's stack
    tri_after after;
    tri_cell *after_cell;
    tri_fiber *after_fiber;
    tr_ctx *resuming;     // a parked turn that the loop goes on with
    tri_cell *hand;       // runs next: asked or answered just now; private.h
    tri_cell *unsettled;  // its turn waits for `hand`; still ours: turn.c
    uint32_t tick;
    uint32_t fresh_picks;
    uint32_t fresh_debt;  // so many of them come first: tri_fresh_first
    bool runs_fresh;      // the cell that runs was among them
    bool stepping;        // runs one activation at a time for a world
    bool apart;           // stepping, or it times the next handler: run()
    tr_nanos timed_at;    // when it last did so, being idle
    tr_nanos trimmed_at;  // when it last looked at its spare stacks
    tri_cell *step_pick;
    uint64_t id_next, id_end;
    tr_nanos now;   // the clock when it was last read
    tr_nanos spin;  // it looks around so long where none else is awake
    struct {
        const tr_actor_def *def;
        const tri_behaviour *behaviour;
    } defs[TRI_DEFS_CACHED];
    tri_props *last_props;  // of the latest spawn, one hold and last_count
    uint32_t last_count;
    tri_props *left_props;  // of the latest end, left_count holds
    uint32_t left_count;
    tri_thread *thread_handle;
    _Atomic(tri_cell *) running;  // and what it is handling, for observers
    _Atomic(const tr_type *) handling;
    _Atomic(uint64_t) stopped;  // the latest that has stopped itself: its id
    bool is_outside;            // the cache of threads that are not workers
    bool pinned_taken;          // of a pinned worker: it has an actor
    _Atomic(tr_nanos) monitor_since;  // the monitor's notes
    uint64_t monitor_progress;
    bool monitor_told;
    tr_nanos monitor_ran;    // of the processor, when it first seemed stuck;
                             // TR_FOREVER: it does not
    tr_nanos monitor_asked;  // since then it should have ended; 0: no
    tr_nanos backlog_since;  // more than one has been waiting; 0: no
    tr_nanos asked_at;       // for a share: the last request
    uint64_t asked_progress;
    struct {
        uint64_t progress;
        tr_nanos since;
    } seen[TRI_GROUP_MAX];  // of each victim: share.c

    /* ---- runnable cells of its own: private.h ---- */
    _Alignas(128) _Atomic(uint32_t) busy;  // the worker is in
    bool fences;                           // the world has no barrier
    _Atomic(uint32_t) own_count;
    tri_cell *own, **own_end;  // oldest first; where the next one goes
    _Atomic(uint32_t) fresh_top, fresh_bottom;
    tri_cell **fresh;     // spawned and not yet run
    uint32_t fresh_mask;  // its room, a power of two, less one
    /* ---- thieves take from head, the worker puts at tail ---- */
    _Alignas(128) _Atomic(uint32_t) head;
    _Alignas(128) _Atomic(uint32_t) tail;
    _Atomic(tri_cell *) ring[TRI_RING];
    /* ---- mail from other threads ---- */
    _Alignas(128) _Atomic(tri_cell *) inbox;
    _Alignas(128) _Atomic(uint32_t) park_word;  // 1: asleep
    _Atomic(uint32_t) look;     // requests to the worker: TRI_LOOK_*
    _Atomic(uint32_t) revoked;  // a thief is in, or waits for the barrier
    _Alignas(128) tri_counters count;
    tri_tally tally;
    _Atomic(uint64_t) progress;  // activations, for the monitor

    _Alignas(128) tri_lock wheel_lock;
    tri_wheel wheel;
    _Atomic(tr_nanos) wheel_next;
    tri_wait *asks, *asks_last;  // the worker's own; earliest deadline first
};

struct tri_group {
    tr_system *sys;
    char name[32];
    uint8_t index;
    uint32_t spares;  // workers the monitor has added
    tri_lock start_lock;
    _Atomic(bool) started;  // its threads run; on first use
    tr_dispatch_kind kind;
    _Atomic(uint32_t) count;  // workers; grows when all are stuck
    tri_worker *_Atomic workers[TRI_GROUP_MAX];
    _Atomic(uint32_t) sleeping;    // workers asleep
    _Atomic(uint32_t) searching;   // workers awake and looking for work
    _Atomic(uint64_t) wake_pause;  // work must have waited this long, ns
    _Alignas(128) tri_lock lock;   // the shared queue
    tri_cell *first_cell, *last_cell;
    _Atomic(uint32_t) length;
};

#endif
