/*
 * worker.h - workers, the pools they belong to, and the limits of both.
 *
 * A pool belongs to a dispatcher and has workers. A worker has run queues, a
 * cache of memory, a pool of fibers and a timer wheel. sys->outside is one more
 * worker, without a thread: outside threads use it under sys->outside_lock.
 *
 * Invariant: while a worker's thread runs, only that thread changes the fields
 * that are not atomic, except the monitor_* fields (the monitor), pinned_taken
 * (under pools_lock), the private queues (run_queue.h) and the wheel (under
 * wheel_lock).
 */
#ifndef TRI_CORE_RUN_WORKER_H
#define TRI_CORE_RUN_WORKER_H

#include <stdatomic.h>

#include "base/fiber.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/wheel.h"
#include "base/world.h"
#include "core/cell/cache.h"
#include "core/cell/tally.h"
#include "core/types.h"
#include "troupe/system.h"

enum {
    TRI_POOLS_MAX = 64,
    TRI_POOL_WORKERS_MAX = 256,  // of one pool
    TRI_WORKERS_MAX = 1024,      // of all pools
#ifdef TRI_TORTURE
    TRI_RING_SIZE = 4,
    TRI_NEWBORN_ROOM = 4,
    TRI_SPAWN_BURST = 2,
    TRI_OLD_EVERY = 16,
    TRI_BATCH_MESSAGES = 1,
    TRI_BATCH_SENDS = 2,
    TRI_SAMPLE_EVERY = 16,
#else
    TRI_RING_SIZE = 256,        // runnable cells a worker offers to others
    TRI_NEWBORN_ROOM = 256,     // room for newborn cells, at first
    TRI_SPAWN_BURST = 256,      // above this many newborn cells, run them first
    TRI_OLD_EVERY = 1024,       // ... but still pick an older cell this often
    TRI_BATCH_MESSAGES = 4096,  // user messages of a batch, at most
    TRI_BATCH_SENDS = 256,      // sends of a turn before it yields
    TRI_SAMPLE_EVERY = 256,     // picks between two handlers that are timed
#endif
    TRI_CLOCK_EVERY = 64,      // messages between two reads of the clock
    TRI_CLOCK_FIRST = 8,       // messages before each of the first two reads
    TRI_ID_BLOCK = 1024,       // ids a worker takes at once
    TRI_DEFS_CACHED = 16,      // places in tri_worker.defs
    TRI_SHARED_EVERY = 64,     // picks between two from the shared queue first
    TRI_OLDEST_EVERY = 16384,  // newborn picks between two of the oldest
    TRI_POLL_EVERY = 16,       // picks between two polls of clock and requests
    TRI_STEAL_EVERY = 8,       // rounds of a search between two steals
    TRI_STEAL_MAX = 256,       // cells taken at once from a stuck worker
    TRI_UNBOUND_MAX = 64,      // cells with a home that a share passes over
};

/* tri_worker.requests: what other threads ask a worker to do when it picks. */
enum {
    TRI_REQUEST_CLOCK = 1,  // read the clock; from the monitor
    TRI_REQUEST_SHARE = 2,  // offer cells; from a worker that has none
};

#define TRI_QUANTUM ((tr_nanos)200000)  // a batch ends after this time
#define TRI_SPIN    ((tr_nanos)50000)   // an idle worker polls this long
#ifdef TRI_TORTURE
#define TRI_SHARE_BATCH_MIN ((tr_nanos)0)
#else
#define TRI_SHARE_BATCH_MIN ((tr_nanos)2000)  // share if batches take longer
#endif
#define TRI_SHARE_WAIT_MIN ((tr_nanos)100000)   // ... or cells wait longer
#define TRI_SHARE_SPAN_MAX ((tr_nanos)1000000)  // longest span to measure them
#define TRI_SPIN_OUTSIDE   ((tr_nanos)120000)  // an outside thread polls so long
#define TRI_STEAL_AFTER    ((tr_nanos)20000)   // a batch this long is stuck
#define TRI_STEAL_PAUSE    ((tr_nanos)80000)   // before the next steal from it
#define TRI_SAMPLE_PAUSE                                                       \
    ((tr_nanos)20000)  // between two samples of an idle worker
#define TRI_WAKE_PAUSE_MIN UINT64_C(50000)  // about the time of a wake-up
#define TRI_WAKE_PAUSE_MAX UINT64_C(10000000)
#define TRI_LONG_SPAN      TR_SECONDS(1)  // spans from here on may be 2 % late
#define TRI_MONITOR_PERIOD TR_MS(10)      // of the monitor's rounds
#define TRI_TRIM_PAUSE     TR_SECONDS(1)  // between two trims of spare stacks
#define TRI_FORCE_AFTER    TR_MS(100)     // a handler this long may be forced

/* Why the worker has switched to another fiber, which acts on it first. */
typedef enum tri_switch {
    TRI_SWITCH_NONE,
    TRI_SWITCH_PARKED,   // a turn of switch_cell has parked: the batch goes on
    TRI_SWITCH_YIELDED,  // a turn of switch_cell has yielded: it queues again
    TRI_SWITCH_RESUMED,  // switch_fiber is spare: it has resumed a turn
} tri_switch;

/* Statistics; one worker writes, any thread reads. */
typedef struct tri_counters {
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

/* Adds one. The worker's thread, or the holder of outside_lock. */
static inline void tri_count(_Atomic(uint64_t) *counter)
{
    // Relaxed: one writer; for readers a statistic.
    atomic_store_explicit(
        counter, atomic_load_explicit(counter, memory_order_relaxed) + 1,
        memory_order_relaxed);
}

struct tri_worker {
    /* ---- fields of the worker's thread ---- */
    tr_system *sys;
    tri_pool *pool;       // NULL: sys->outside
    uint32_t index;       // in sys->workers
    uint32_t sends_left;  // of the running turn before it yields
    uint32_t pool_bits;   // the pool as in tri_cell.flags; outside: no pool
    tri_cache cache;
    tri_fiber_pool fibers;
    tri_fiber thread;        // the thread's own stack: never runs handlers
    tri_fiber *current;      // the running fiber
    tri_fiber *loop_fiber;   // has returned to the thread's stack, or NULL
    tri_switch last_switch;  // with one of the next two
    tri_cell *switch_cell;
    tri_fiber *switch_fiber;
    tr_ctx *resuming;      // a parked turn that the loop switches to next
    tri_cell *handoff;     // hand-off slot: runs next; run_queue.h
    tri_cell *held_asker;  // its turn waits for `handoff`; still owned: turn.c
    uint32_t tick;         // counts picks
    uint32_t newborn_picks;
    uint32_t newborn_ahead;  // newborn cells that come before older ones
    bool runs_newborn;       // the running cell was newborn
    bool stepping;           // driven: runs one batch for each step
    bool special_batch;      // stepping, or the next handler is timed
    tr_nanos sampled_at;     // when the idle worker last timed a handler
    tr_nanos trimmed_at;     // when spare stacks were last trimmed
    tri_cell *step_pick;     // the cell of the current step
    uint64_t id_next, id_end;
    tr_nanos now;   // the clock when it was last read
    tr_nanos spin;  // how long to poll if no other worker is awake
    struct {
        const tr_actor_def *def;
        const tri_behaviour *behaviour;
    } defs[TRI_DEFS_CACHED];
    tri_props *last_props;  // of the latest spawn; last_count + 1 holds
    uint32_t last_count;
    tri_props *dropped_props;  // of the latest end; dropped_count holds
    uint32_t dropped_count;
    tri_thread *thread_handle;
    _Atomic(uint32_t) own_thread;  // tri_own_thread, of a thread of the program
    _Atomic(tri_cell *) running;   // the cell of the batch, for observers
    _Atomic(const tr_type *) handling;  // type of its message, for observers
    _Atomic(uint64_t) self_stopped;     // actor that stopped itself last
    bool is_outside;                    // the worker is sys->outside
    bool pinned_taken;                  // a pinned worker has its actor
    _Atomic(tr_nanos) monitor_since;    // when the batch was first seen
    uint64_t monitor_progress;          // `progress` at that time
    bool monitor_reported;              // the long handler has been reported
    tr_nanos monitor_ran;               // CPU time when it first seemed stuck;
                                        // TR_FOREVER: it does not
    tr_nanos monitor_stop_since;        // when a stop was first seen; 0: none
    tr_nanos backlog_since;             // since then two cells wait; 0: fewer
    tr_nanos share_asked_at;            // the last TRI_REQUEST_SHARE
    uint64_t share_asked_progress;
    struct {
        uint64_t progress;
        tr_nanos since;
    } seen[TRI_POOL_WORKERS_MAX];  // of the pool's other workers: steal.c

    /* ---- private queues: run_queue.h ---- */
    _Alignas(128) _Atomic(uint32_t) busy;  // the worker is inside
    bool needs_fence;                      // the world has no barrier
    _Atomic(uint32_t) local_count;
    tri_cell *local, **local_end;  // FIFO; where the next cell is appended
    _Atomic(uint32_t) newborn_top, newborn_bottom;
    tri_cell **newborn;     // ring of newborn cells, from top to bottom
    uint32_t newborn_mask;  // its size, a power of two, minus one
    /* ---- the ring: any thread takes at head, the worker puts at tail ---- */
    _Alignas(128) _Atomic(uint32_t) head;
    _Alignas(128) _Atomic(uint32_t) tail;
    _Atomic(tri_cell *) ring[TRI_RING_SIZE];
    /* ---- written by other threads ---- */
    _Alignas(128) _Atomic(tri_cell *) inbox;    // cells bound to the worker
    _Alignas(128) _Atomic(uint32_t) park_word;  // 1: asleep
    _Atomic(uint32_t) requests;                 // TRI_REQUEST_*
    _Atomic(uint32_t) revoked;  // a thief is inside, or about to enter
    _Alignas(128) tri_counters count;
    tri_tally tally;
    _Atomic(uint64_t) progress;  // counts batches

    _Alignas(128) tri_lock wheel_lock;
    tri_wheel wheel;
    _Atomic(tr_nanos) wheel_next;  // when the wheel is due, or a bit earlier
    tri_list asks;  // tri_wait.ask.link: asks of the usual span, by deadline
};

/* tri_worker.own_thread. */
enum tri_own_thread { TRI_OWN_NONE, TRI_OWN_RUNS, TRI_OWN_DONE };

struct tri_pool {
    tr_system *sys;
    char name[32];
    uint8_t index;               // in sys->pools
    uint32_t spares;             // workers that the monitor has added
    _Atomic(uint32_t) starting;  // 1 while a thread starts the threads
    _Atomic(bool) started;       // the threads run; at the first use
    bool has_own_threads;        // tr_dispatcher_options.start
    _Atomic(bool) is_given_up;   // its threads did not start; not found by name
    tr_dispatch_kind kind;
    _Atomic(uint32_t) count;  // of workers; grows if all are stuck
    tri_worker *_Atomic workers[TRI_POOL_WORKERS_MAX];
    _Atomic(uint32_t) sleeping;    // workers asleep
    _Atomic(uint32_t) searching;   // workers that poll for work
    _Atomic(uint64_t) wake_pause;  // ns that work waits before a wake-up
    _Alignas(128) tri_lock lock;   // guards the shared queue
    tri_cell *first_cell, *last_cell;
    _Atomic(uint32_t) length;  // of the shared queue
};

/*
 * Makes a worker of the pool, without a thread, and publishes it. NULL without
 * memory or if there are too many. pool may be NULL: sys->outside.
 */
tri_worker *tri_worker_new(tr_system *sys, tri_pool *pool);

/* Frees a worker whose thread has ended, when the system closes. */
void tri_worker_free(tri_worker *worker);

/* Returns the worker of the calling thread, or NULL. */
tri_worker *tri_worker_current(void);

/* Makes `worker` the worker of the calling thread; NULL: none. */
void tri_worker_set_current(tri_worker *worker);

/*
 * Runs one batch of a driven worker on the calling thread, for the index-th
 * cell of its FIFO.
 */
void tri_worker_step(tri_worker *worker, uint32_t index);

#endif
