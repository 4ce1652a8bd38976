/*
 * cell.h - the cell: the record of an actor, what a ref points to.
 *
 * The memory of a cell is used only for cells until the system closes, so a
 * sender with an old ref reads a cell, perhaps that of a later actor. The id
 * tells actors apart: each message carries the id of its target.
 *
 * `mail` is the user lane and `sys_mail` the system lane: stacks of items, the
 * newest on top, with a few bits beside the pointer.
 *
 *     mail      depth (16) | newest message (45) | CLOSED | PARKED | IDLE
 *     sys_mail  newest item (61)                 | CLOSED |   -    | SIGNAL
 *
 * Owner: a cell has no owner exactly while IDLE or PARKED is set in `mail`. The
 * thread that clears the bit owns the cell and schedules it; run queues pass
 * the ownership on; the worker that runs the cell releases it by setting a bit
 * again (docs/design/0006-scheduling.md).
 *
 * Threads: any thread may read and change the atomic fields as their comments
 * say; everything else belongs to the owner of the cell, except the sibling
 * link, which the lock of the parent's family guards.
 */
#ifndef TRI_CORE_CELL_CELL_H
#define TRI_CORE_CELL_CELL_H

#include <stdatomic.h>

#include "base/check.h"
#include "base/list.h"
#include "base/wheel.h"
#include "core/cell/cache.h"
#include "core/cell/mem.h"
#include "core/cell/message.h"
#include "core/types.h"

/* Bits of tri_cell.mail. */
#define TRI_MAIL_IDLE   ((uintptr_t)1)  // no owner; any mail claims the cell
#define TRI_MAIL_PARKED ((uintptr_t)2)  // no owner; system mail claims it
#define TRI_MAIL_CLOSED ((uintptr_t)4)  // user mail is refused
#define TRI_MAIL_BITS   ((uintptr_t)7)

/*
 * The top of the word counts the messages in it. One more than TRI_MAIL_MANY
 * goes on at TRI_MAIL_WRAP and counts a wrap in tri_cell.flags.
 */
#define TRI_MAIL_DEPTH_SHIFT 48
#define TRI_MAIL_MANY        ((uintptr_t)0xffff)
#define TRI_MAIL_WRAP        ((uintptr_t)0x8000)

#define TRI_MAIL_POINTER                                                       \
    ((((uintptr_t)1 << TRI_MAIL_DEPTH_SHIFT) - 1) & ~TRI_MAIL_BITS)

/* Bits of tri_cell.sys_mail. */
#define TRI_SYS_SIGNAL ((uintptr_t)1)  // tri_cell.signals has a new signal
#define TRI_SYS_CLOSED ((uintptr_t)4)  // system mail is refused
#define TRI_SYS_BITS   ((uintptr_t)7)

/*
 * tri_cell.flags. Fixed at spawn, except those that say otherwise. Bits 8 to
 * 15 hold the index of the pool.
 */
enum {
    TRI_CELL_OUTSIDE = 1,   // an outside box: scheduling wakes its thread
    TRI_CELL_BOUNDED = 2,   // senders must check the hard limit, or ZOMBIE
    TRI_CELL_SYSTEM = 4,    // belongs to the runtime: senders are not slowed
    TRI_CELL_PINNED = 8,    // `home` stays the same for the actor's life
    TRI_CELL_VIRTUAL = 16,  // has many activations: sys->virtuals
    TRI_CELL_URGENT = 32,   // urgent mail has been sent; set by the first
    TRI_CELL_ZOMBIE = 64,   // ended by force, in a handler still: force.c
    TRI_CELL_DEPTH_CHECKED = 128,  // each send checks the soft limit: send.h
    TRI_CELL_POOL_SHIFT = 8,
    TRI_CELL_AWAITS_CHILDREN = 1 << 16,  // stops or restarts: children end now
    TRI_CELL_NOTIFYING = 1 << 17,  // the forcer still notifies its watchers
    TRI_CELL_URGENT_PENDING = 1 << 18,  // urgent mail is in the user lane
    TRI_CELL_DROPS_OLD = 1 << 19,  // its mail waits in a backlog: backlog.h
    TRI_CELL_HOOKED = 1 << 20,   // has called tr_on_terminate; set by the owner
    TRI_CELL_MAIN = 1 << 21,     // its end is the end of the system
    TRI_CELL_RELAYED = 1 << 22,  // virtual: senders go to tri_virtual_ops.send
    TRI_CELL_WRAP_SHIFT = 23,    // above it: wraps of the depth in `mail`
};

#define TRI_CELL_WRAPS (UINT32_MAX << TRI_CELL_WRAP_SHIFT)

/* tri_cell.signals: requests to an actor that need no memory. */
enum {
    TRI_SIG_STOP = 1,
    TRI_SIG_KILL = 2,
    TRI_SIG_RESTART = 4,        // the parent has decided: restart
    TRI_SIG_RESUME = 8,         // the parent has decided: resume
    TRI_SIG_STOP_DECIDED = 16,  // the parent has decided: stop
    TRI_SIG_CHILDREN = 32,      // the last child has ended
    TRI_SIG_TIMER = 64,         // cell.timer has fired
    TRI_SIG_FORCE = 128,
    TRI_SIG_CHILD_LOST = 256,    // a child could not be restarted
    TRI_SIG_ROOM = 512,          // senders wait for room
    TRI_SIG_CLOSING = 1024,      // shutdown: waits end with TR_ECLOSED
    TRI_SIG_WAKE = 2048,         // a turn is ready, or the store has answered
    TRI_SIG_NOTICE_BACK = 4096,  // the parent has decided: supervise.c
    TRI_SIG_IDLE = 8192,         // a virtual actor ends if it is idle
    TRI_SIG_COHORT = 16384,      // a cohort restart goes on: cohort.c
    TRI_SIG_RESTART_ASKED = 32768,  // tr_restart
};

/*
 * tri_cell.attention: what the owner must do before the next message. It is 0
 * for most cells; then a batch handles messages without calling tri_attention.
 */
enum {
    TRI_ATTENTION_LIFE = 1,        // the actor is not RUNNING
    TRI_ATTENTION_PARKED = 2,      // turns are parked
    TRI_ATTENTION_TERMINATED = 4,  // notices wait in ext->watch
    TRI_ATTENTION_URGENT = 8,      // ext->urgent is not empty
    TRI_ATTENTION_SENDERS = 16,    // senders wait for room
    TRI_ATTENTION_BOUNDED = 32,    // a hard limit counts the messages
    TRI_ATTENTION_TIMEOUT = 64,    // each message restarts a receive timeout
    TRI_ATTENTION_STOP = 128,      // the actor has stopped itself
    TRI_ATTENTION_LEASE = 256,     // each message needs the node's lease
};

enum { TRI_HOME_NONE = 0xffff };

struct tri_cell {
    /* ---- written by senders ---- */
    tri_cell *run_next;  // in a run queue; tri_block.next of a free cell
    tri_timer timer;     // stop deadline or restart delay; under a wheel's lock
    _Atomic(uintptr_t) mail;
    _Atomic(uint64_t) id;       // 0 when free
    _Atomic(uint64_t) signals;  // TRI_SIG_*; above them 48 bits of the id
    _Atomic(uint32_t) flags;
    /* The owner's, up to sys_mail. The flags are explained in lifecycle.c. */
    uint16_t wheel : 10;       // worker whose wheel holds `timer`
    bool children_forced : 1;  // STOPPING, RESTARTING: TRI_SIG_FORCE was sent
    bool skips_hooks : 1;      // STOPPING: the incarnation was over already
    bool notice_back : 1;      // FAILED: the parent has decided
    bool stop_held : 1;        // FAILED: signals that came before that
    bool kill_held : 1;
    bool force_held : 1;
    uint8_t stage : 4;   // tri_stage, while STOPPING or RESTARTING: lifecycle.c
    uint8_t reason : 4;  // tr_reason, once it is ending
    _Atomic(uint8_t) life;  // tr_state

    /* ---- written by the owner ---- */
    _Atomic(uintptr_t) sys_mail;  // also by senders of system mail
    _Atomic(const struct tri_behaviour *) current;  // tri_cell_behaviour
    void *state;
    tri_item *queue;           // detached user mail, oldest first
    _Atomic(uint32_t) queued;  // length of queue and of ext->urgent
    uint16_t attention;        // TRI_ATTENTION_*
    uint16_t home;             // index of the only worker that may run it
    _Atomic(tri_ext *) ext;
    const char *name;           // owned; NULL: the path shows the id
    _Atomic(uint64_t) handled;  // user messages, for observers

    /* ---- family ---- */
    _Atomic(tri_cell *) parent;  // changes under the lock of the old parent
    tri_link sibling;            // in tri_family.children, or sys->zombies
    struct tri_props *props;
    tri_item notice;            // the system message about a failure
    _Atomic(uint32_t) lives;    // number of starts: tri_cell_incarnation
    _Atomic(uint32_t) history;  // last eight states, the newest lowest
};

enum { TRI_STATE_BITS = 4 };  // bits of a state in tri_cell.history

#define TRI_SIG_BITS 16  // bits of the signals in tri_cell.signals
#define TRI_SIG_MASK ((UINT64_C(1) << TRI_SIG_BITS) - 1)

/* Returns the newest message in a value of tri_cell.mail, or NULL. */
static inline tri_item *tri_mail_newest(uintptr_t mail)
{
    return (tri_item *)(mail & TRI_MAIL_POINTER);
}

/* Returns the number of messages in a value of tri_cell.mail. */
static inline uint32_t tri_mail_depth(uintptr_t mail)
{
    return (uint32_t)(mail >> TRI_MAIL_DEPTH_SHIFT);
}

/* Returns how many user messages wait; an estimate. Any thread. */
uint32_t tri_depth(tri_cell *cell);

/* Returns the cell that the notice of failure is part of: the failed child. */
static inline tri_cell *tri_cell_of_notice(tri_item *item)
{
    TRI_CHECK(item->kind == TRI_ITEM_FAILURE);
    return tri_container_of(item, tri_cell, notice);
}

/* True if the cell has an owner; the caller must know that it is the one. */
static inline bool tri_cell_is_owned(tri_cell *cell)
{
    // Relaxed: no other thread sets the bits while the caller owns the cell.
    return (atomic_load_explicit(&cell->mail, memory_order_relaxed) &
            (TRI_MAIL_IDLE | TRI_MAIL_PARKED)) == 0;
}

/*
 * Checks that the cell has an owner. It cannot see which thread that is. On
 * the fast path: TRI_CHECK_SLOW(tri_cell_is_owned(cell)).
 */
static inline void tri_cell_assert_owned(tri_cell *cell)
{
    TRI_CHECK(tri_cell_is_owned(cell));
}

/*
 * Makes a cell with this id, in state CREATED, and returns it; the caller owns
 * it. Returns NULL without memory.
 */
tri_cell *tri_cell_new(tri_cache *cache, uint64_t id);

/* Gives the memory back. Both lanes must be CLOSED. */
static inline void tri_cell_free(tri_cache *cache, tri_cell *cell)
{
    // Relaxed: both lanes are CLOSED; senders with old refs only compare.
    TRI_CHECK(atomic_load_explicit(&cell->mail, memory_order_relaxed) &
              TRI_MAIL_CLOSED);
    TRI_CHECK(atomic_load_explicit(&cell->sys_mail, memory_order_relaxed) &
              TRI_SYS_CLOSED);
    TRI_CHECK(!tri_link_is_linked(&cell->sibling));
    // Release: as tri_cell_new; pairs with tr_join and tr_state_of.
    atomic_store_explicit(&cell->id, 0, memory_order_release);
    atomic_store_explicit(&cell->signals, 0, memory_order_relaxed);
    tri_cache_free(cache, TRI_CLASS_CELL, cell);
}

/*
 * Sets the fields that are the same at the beginning of every life. Leaves
 * the name, the props, the extension and the words that senders read (id,
 * flags, signals, mail, sys_mail) as they are. The caller owns the cell.
 */
void tri_cell_reset(tri_cell *cell);

/*
 * Checks the invariants of the cell of an actor that has not ended, and that
 * `attention` agrees with the extension; aborts if one does not hold. For an
 * observer that no other thread disturbs, between two steps of a simulation.
 * Takes no lock.
 */
void tri_cell_check(const tri_cell *cell);

/* True if the actor was ended by force; its turn has not returned yet. */
static inline bool tri_cell_is_zombie(tri_cell *cell)
{
    // Acquire: pairs with become_zombie; sees which lists it has emptied.
    return (atomic_load_explicit(&cell->flags, memory_order_acquire) &
            TRI_CELL_ZOMBIE) != 0;
}

static inline bool tri_cell_is_virtual(tri_cell *cell)
{
    // Relaxed: fixed before the ref was known.
    return (atomic_load_explicit(&cell->flags, memory_order_relaxed) &
            TRI_CELL_VIRTUAL) != 0;
}

/* Returns the behaviour that finds the handler of the next message. The owner. */
static inline const struct tri_behaviour *tri_cell_behaviour(tri_cell *cell)
{
    // Relaxed: only the owner writes it.
    return atomic_load_explicit(&cell->current, memory_order_relaxed);
}

/*
 * Returns the behaviour, for a thread that does not own the cell; NULL before
 * the spawn. Behaviours live as long as the system and never change.
 */
static inline const struct tri_behaviour *tri_cell_behaviour_peek(
    tri_cell *cell)
{
    // Acquire: pairs with tri_cell_become; sees all of the behaviour.
    return atomic_load_explicit(&cell->current, memory_order_acquire);
}

/* Lets `behaviour` handle the messages from now on. Only for the owner. */
static inline void tri_cell_become(tri_cell *cell,
                                   const struct tri_behaviour *behaviour)
{
    // Release: pairs with tri_cell_behaviour_peek.
    atomic_store_explicit(&cell->current, behaviour, memory_order_release);
}

/* Returns the parent, or NULL if the cell is the root. */
static inline tri_cell *tri_cell_parent(tri_cell *cell)
{
    // Relaxed: set before the ref was known; it changes only under a lock.
    return atomic_load_explicit(&cell->parent, memory_order_relaxed);
}

/* Returns the number of the incarnation; 0 before the first start. */
static inline uint32_t tri_cell_incarnation(tri_cell *cell)
{
    // Relaxed: the owner counts; for others it is a statistic.
    return atomic_load_explicit(&cell->lives, memory_order_relaxed);
}

/* Returns the state of the actor's life. */
static inline tr_state tri_cell_life(tri_cell *cell)
{
    // Relaxed: for other threads the state may have changed already.
    return (tr_state)atomic_load_explicit(&cell->life, memory_order_relaxed);
}

#endif
