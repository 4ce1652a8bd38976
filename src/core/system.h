/*
 * system.h - tr_system: everything that belongs to one actor system.
 *
 * The system layer opens and closes it (src/system/system.c); the core and the
 * layers above keep their parts in it. There is no other global state.
 *
 * Threads: fields without a remark are written before the first worker starts
 * and after the last one has ended. Atomic fields may be read by any thread.
 * ARCHITECTURE.md has the order of the locks.
 */
#ifndef TRI_CORE_SYSTEM_H
#define TRI_CORE_SYSTEM_H

#include <stdatomic.h>

#include "base/list.h"
#include "base/lock.h"
#include "base/map.h"
#include "base/owner.h"
#include "base/world.h"
#include "core/cell/cell.h"
#include "core/cell/mem.h"
#include "core/cell/tally.h"
#include "core/run/worker.h"
#include "core/types.h"
#include "core/up.h"
#include "troupe/system.h"

#define TRI_SYSTEM_MAGIC UINT64_C(0x7379735472a1d001)

/* tr_system.watch_events: kinds of events that have a subscriber. */
enum { TRI_EVENT_LIFECYCLE = 1, TRI_EVENT_OTHER = 2 };

struct tr_system {
    tri_owner owner;  // first: a store finds it here
    uint64_t magic;
    uint16_t tag;  // in every ref that this system makes
    tri_world *world;
    tri_mem mem;
    const tri_up *up;
    tr_system_options options;
    _Atomic(int) log_level;  // options.log_level, or that of tr_log_level_set
    tr_supervision supervision;  // for actors without a policy of their own
    char *name;

    tri_pool *pools[TRI_POOLS_MAX];
    _Atomic(uint32_t) pool_count;
    tri_worker *_Atomic workers[TRI_WORKERS_MAX];
    _Atomic(uint32_t) worker_count;
    tri_lock pools_lock;  // guards adding pools and workers

    tri_lock outside_lock;
    tri_worker *outside;  // for threads that are not workers: caller.h

    _Atomic(uint64_t) next_id;      // first id of the next block: tri_id_next
    _Atomic(uint32_t) fibers_live;  // stacks, for observers
    tri_lock behaviours_lock;       // guards behaviours and kinds
    tri_map behaviours;             // tr_actor_def -> tri_behaviour
    const char *kinds[TRI_KINDS];   // names by number; 0: all other kinds
    _Atomic(uint32_t) kind_count;

    _Atomic(bool) stopping_workers;
    _Atomic(uint32_t) monitor_word;  // 1: the monitor must end
    tri_thread *monitor;
    _Atomic(uint32_t) live_awaited;  // 1: each end wakes live_word
    _Atomic(uint32_t) live_word;     // counts those ends: live_count.c
    _Atomic(uint32_t) watch_events;  // TRI_EVENT_* that have a subscriber
    tri_lock zombies_lock;
    tri_list zombies;  // tri_cell.sibling; actors that were ended by force
    _Atomic(uint32_t) zombie_count;

    tri_lock boxes_lock;
    tri_list boxes;  // tri_outside_box.link: threads that wait, and probes
    tri_lock results_lock;
    tri_map results;        // id -> tri_join: results kept for a later join
    tri_list joined_heaps;  // tri_heap_block.link: memory of joined states
    tri_driven driven;
    tri_worker *driven_worker;  // the only one, if a world or tr_poll drives
    _Atomic(uintptr_t) driver;  // the thread that calls tr_poll: poll.c
    _Atomic(bool) driving;      // a thread is in tr_poll
    tri_cell *root, *user, *system, *temp;
    uint64_t root_id, user_id, system_id, temp_id;
    struct tri_pollfd *pollfd;      // of tr_poll_fd
    _Atomic(uint32_t) terminating;  // 1: the shutdown has begun
    void *layers;                   // the system layer's part: layers.h
    _Atomic(struct tri_io *) io;    // descriptors and blocking calls
    char *ns;                       // owned copy of options.ns, or NULL
    _Atomic(tri_virtuals *) virtuals;
    tri_virtual_named *virtual_named;  // names a first virtual actor, too
};

/*
 * Returns the functions for virtual actors, or NULL before the first virtual
 * actor of the system. Never NULL for a caller that has a virtual cell.
 */
static inline const tri_virtual_ops *tri_virtual_ops_of(tr_system *sys)
{
    TRI_CHECK_SLOW(sys->magic == TRI_SYSTEM_MAGIC);
    // Acquire: pairs with the store in src/cluster that publishes them.
    tri_virtuals *virtuals =
        atomic_load_explicit(&sys->virtuals, memory_order_acquire);
    return virtuals != NULL ? virtuals->ops : NULL;
}

/* Returns the ref of a cell that the caller knows to be alive. */
static inline tr_ref tri_cell_ref(const tr_system *sys, const tri_cell *cell)
{
    TRI_CHECK_SLOW((uint64_t)(uintptr_t)cell >> 48 == 0);
    // Relaxed: the id of a living actor does not change.
    return (tr_ref){(uint64_t)(uintptr_t)cell | (uint64_t)sys->tag << 48,
                    atomic_load_explicit(&((tri_cell *)(uintptr_t)cell)->id,
                                         memory_order_relaxed)};
}

/* True if the ref is of an actor of this system, living or not. */
static inline bool tri_ref_is_here(const tr_system *sys, tr_ref ref)
{
    return ref.cell >> 48 == sys->tag;
}

#endif
