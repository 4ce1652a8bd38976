/*
 * ext.h - the extension of a cell: what few actors need, made on demand.
 *
 * The memory of an extension is used only for extensions until the system
 * closes, like that of a cell: a thread that walks the wait-for graph, writes
 * a path or sends late may read it after it has passed to another actor.
 *
 * Threads: the owner of the cell, except where a part names a lock or says
 * that other threads read it.
 */
#ifndef TRI_CORE_CELL_EXT_H
#define TRI_CORE_CELL_EXT_H

#include <stdatomic.h>

#include "base/list.h"
#include "base/lock.h"
#include "base/map.h"
#include "core/cell/cell.h"
#include "core/cell/heap.h"
#include "core/life/failure.h"
#include "core/types.h"

/* The children of an actor. Guarded by ext->lock, except where said. */
typedef struct tri_family {
    _Atomic(uint32_t) live;  // children; written under the lock
    tri_list children;       // tri_cell.sibling, in order of spawning
    tri_map names;           // name -> child
    bool closed;             // a spawn under this actor fails
} tri_family;

/* Both directions of death watch, in the extension of an actor. */
typedef struct tri_watches {
    tri_list watchers;  // tri_watch.link; guarded by ext->lock
    tri_map watching;   // target id -> tri_watching; the owner
    uint32_t foreign;   // of these, watches of nobody and of other systems
    tri_item *pending;  // TERMINATED and CHILD_ENDED items, not handled yet
    tri_item *pending_last;
} tri_watches;

/* The waits of an actor: wait.c. */
typedef struct tri_waits {
    tri_list list;         // tri_wait.link, newest first
    uint64_t correlation;  // of the newest wait
} tri_waits;

/* Messages that outlive their turn: keep.c. */
typedef struct tri_keep {
    tri_item *kept;                // by tr_keep, newest first
    tri_item *stash, *stash_last;  // by tr_stash, oldest first
    uint32_t stashed;              // length of the stash
} tri_keep;

enum { TRI_PRIORITIES = 8 };

/*
 * Urgent mail, detached and sorted into one queue for each priority:
 * mailbox.c. last[p] is valid while first[p] is not NULL.
 */
typedef struct tri_urgent {
    tri_item *first[TRI_PRIORITIES];  // oldest first
    tri_item *last[TRI_PRIORITIES];
} tri_urgent;

/* The memory of an incarnation: heap.c. */
typedef struct tri_heap {
    tri_list blocks;          // tri_heap_block.link
    size_t bytes;             // of all blocks
    uint32_t count;           // length of `blocks`
    bool released;            // the incarnation is over; its blocks are freed
    struct tri_slabs *slabs;  // NULL: none; slab.c
    tri_closer *closers;      // newest first
} tri_heap;

/* A copy of a state that holds its blobs; in the actor's heap. */
typedef struct tri_holding {
    struct tri_holding *next, **link;
    const tr_type *type;
    size_t reserved;  // for the alignment of the value
    char value[];
} tri_holding;

/* The stored state: src/system/persist.c. */
typedef struct tri_persisted {
    tri_heap_block *texts;  // heap blocks that the state points to
    tri_holding *holding;   // of the current state, or NULL
    tri_holding *holdings;  // all of the incarnation
    uint64_t version;       // of the state, or of the snapshot
} tri_persisted;

/* The events of an actor: src/system/sourcing.c. */
typedef struct tri_sourced {
    uint64_t sequence;  // of the newest event
    uint64_t chain;     // hash of that event from its store, or 0
    uint64_t snapshot;  // event at which the last snapshot was due
    bool emitting;      // the store has not answered for the last events
} tri_sourced;

/* The timers of an actor: user_timer.c. */
typedef struct tri_timers {
    tri_list list;                    // tri_user_timer.link, newest first
    uint64_t last_id;                 // of the newest timer
    tri_user_timer *receive_timeout;  // also in the list; or NULL
    tr_nanos receive_span;            // of tr_receive_timeout
} tri_timers;

/* The restarts of an actor, counted by its parent: supervise.c. */
typedef struct tri_restarts {
    uint32_t count;              // since the window began
    _Atomic(bool) is_forbidden;  // tri_restart_forbid; never cleared
    tr_nanos since;              // the beginning of the window
    tr_nanos backoff;            // the delay before the next start
} tri_restarts;

/* Restarts of siblings together: cohort.c. */
typedef struct tri_cohort {
    _Atomic(uint8_t) stage;  // tri_cohort_stage, of this member
    uint32_t restarts;       // of the children together, since `since`
    tr_nanos since;          // the beginning of the window
    tr_nanos backoff;        // the delay before the first child starts
} tri_cohort;

/*
 * The wait-for edge of the turn that is parked on another actor: deadlock.c.
 * Other threads walk along the edges, also after the extension has passed to
 * another actor: a reader compares seq before and after.
 */
typedef struct tri_edge {
    _Atomic(uint64_t) cell;  // the target's ref, in two halves
    _Atomic(uint64_t) id;
    _Atomic(uint64_t) seq;       // odd while an edge exists
    _Atomic(uint64_t) wait;      // correlation of the wait of this edge
    _Atomic(uint64_t) answered;  // correlation of the last answered wait
    _Atomic(bool) reads;         // the request may run beside readers
    _Atomic(bool) writer;        // the turn could have changed the state
    _Atomic(const char *) site;
} tri_edge;

/*
 * What the oldest parked turn waits for, for observers: waiting.c. They read
 * it also after the extension has passed to another actor.
 */
typedef struct tri_waiting {
    _Atomic(uint32_t) seq;       // odd while it is being written
    _Atomic(const char *) call;  // "tr_ask"; NULL: no turn waits
    _Atomic(const tr_type *) handling;
    _Atomic(const tr_type *) type;  // of the request, or NULL
    _Atomic(uint64_t) cell;         // the target's ref, in two halves
    _Atomic(uint64_t) id;
    _Atomic(const char *) site;
    _Atomic(tr_nanos) since;
} tri_waiting;

/*
 * The limits of a mailbox and the senders that wait for room in it: room.c.
 * The first four fields are not cleared for the next actor while a late
 * sender still uses them: tri_ext_make waits until the list is empty.
 */
typedef struct tri_room {
    tri_lock lock;     // guards all up to `counted`
    tri_list waiting;  // tri_wait.room.link, oldest first
    uint32_t count;    // length of `waiting`
    bool closed;       // the mailbox is closed: senders must not wait

    /* The backlog of TR_OVERFLOW_DROP_OLD, under the lock: backlog.c. */
    tri_item *oldest, *newest;  // newest is valid if oldest is not NULL
    _Atomic(uint32_t) backlog;  // length of the backlog
    uint32_t droppable;         // of these, counted by the hard limit

    _Atomic(uint32_t) counted;     // messages that the hard limit counts
    _Atomic(uint32_t) limit;       // hard limit, copied from the props
    _Atomic(uint32_t) soft_limit;  // copied likewise; 0: the system's
    _Atomic(uint8_t) overflow;     // tr_overflow
} tri_room;

/* Each part belongs to the source that its comment names. */
struct tri_ext {
    tri_family family;
    tri_watches watch;
    tri_join *joins;             // waits for the end; guarded by `lock`
    const tri_behaviour *first;  // of the spawn; NULL before tr_become
    tr_ctx *parked;              // parked turns, oldest first: park.h
    tri_waits waits;
    tri_keep keep;
    tri_urgent urgent;
    tri_heap heap;
    tri_persisted stored;
    tri_sourced sourced;
    _Atomic(uint32_t) store_requests;  // not answered yet by the store
    tri_timers timers;
    tri_failure failure;
    tri_child_end *end;  // for the parent: child_end.c; or NULL
    tri_restarts restarts;
    tri_cohort cohort;
    char own_name[24];  // what tr_name returns for an actor without a name

    /* tri_ext_make clears everything above at once, the rest by field. */
    tri_edge edge;
    tri_waiting waiting;
    tri_lock lock;  // guards family, watch.watchers and joins
    tri_room room;
    _Atomic(tr_nanos) handler_limit;  // for the monitor; 0: the system's
    _Atomic(uint32_t) handles;        // of tr_handle_hold: auto_stop.h
};

/*
 * Returns the extension, or NULL. Once made it stays the same for the actor's
 * life.
 */
static inline tri_ext *tri_ext_of(tri_cell *cell)
{
    // Acquire: pairs with tri_ext_make; a sender may have made it just now.
    return atomic_load_explicit(&cell->ext, memory_order_acquire);
}

/*
 * Makes the extension if there is none, and returns it; if another thread
 * makes one at the same time, returns that one. NULL without memory.
 */
tri_ext *tri_ext_make(tri_worker *worker, tri_cell *cell);

/* Gives the extension back, if there is one; the actor has ended. */
void tri_ext_drop(tri_worker *worker, tri_cell *cell);

/*
 * Checks the invariants of an extension, as tri_cell_check does, and aborts if
 * one does not hold.
 */
void tri_ext_check(const tri_ext *ext);

/* Returns the extension, made now if need be; NULL without memory. */
static inline tri_ext *tri_ext_need(tri_worker *worker, tri_cell *cell)
{
    tri_ext *ext = tri_ext_of(cell);
    return ext != NULL ? ext : tri_ext_make(worker, cell);
}

/* Inline part of tri_ext_drop: most actors have no extension. */
static inline void tri_ext_free(tri_worker *worker, tri_cell *cell)
{
    // Relaxed: an extension that a late sender makes is left to tri_cell_new.
    if (atomic_load_explicit(&cell->ext, memory_order_relaxed) != NULL) {
        tri_ext_drop(worker, cell);
    }
}

#endif
