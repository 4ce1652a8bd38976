/*
 * props.h - the options of a spawn as they are kept: copied, counted, shared
 * by actors that were spawned alike.
 *
 * Threads: props do not change after tri_props_new; any thread may read them.
 * The functions with a worker are for the thread of that worker.
 */
#ifndef TRI_CORE_CELL_PROPS_H
#define TRI_CORE_CELL_PROPS_H

#include <stdatomic.h>

#include "base/check.h"
#include "core/run/worker.h"
#include "core/types.h"

typedef struct tri_props {
    _Atomic(uint32_t) holds;  // reference count
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
    bool all_default;  // no option was set, except init
    size_t heap_limit;
    tr_storage *storage;
    const tr_serializer *serializer;  // of the stored state, or NULL
    tr_priority_fn priority;          // of a message, or NULL
    size_t init_size;
    unsigned char *init;  // first state, after the struct, or NULL
    const tr_type
        *init_type;  // its texts are copied behind it; NULL: it has none
} tri_props;

/* ---- the first state ---- */

/*
 * Returns the schema of a first state that may point elsewhere, or NULL if a
 * copy of its bytes is a copy of the state.
 */
const tr_type *tri_init_type(const tr_actor_def *def,
                             const tr_spawn_options *o);
/*
 * Returns the bytes that a copy of the first state needs, with all that it
 * points to; 0 without TR_INIT, SIZE_MAX if it is too large. Its size must be
 * that of the definition's state.
 */
size_t tri_init_size(const tr_actor_def *def, const tr_spawn_options *o);
/*
 * Copies the first state to `to`, which has tri_init_size bytes and is aligned
 * for any type. tri_pack_release with tri_init_type ends the copy.
 */
void tri_init_copy(const tr_actor_def *def, const tr_spawn_options *o,
                   void *to);
/* True if the props were made for a first state that is equal to this one. */
bool tri_init_equals(const tri_props *props, const tr_actor_def *def,
                     const tr_spawn_options *o);

/* ---- props ---- */

/* Gives up one hold; the last one frees the props. NULL is allowed. */
void tri_props_drop(tri_props *props);

/*
 * As tri_props_drop, but collects holds on the same props and gives them up
 * together: so the cores do not share one counter while many actors end.
 */
void tri_props_drop_later(tri_worker *worker, tri_props *props);

/* Gives up what tri_props_drop_later has collected. */
void tri_props_drop_now(tri_worker *worker);

/* Gives up the worker's holds on the props of its latest spawn. */
void tri_props_forget_last(tri_worker *worker);

/* True unless the options name a store and the state has no schema. */
bool tri_storable(const tr_actor_def *def, const tr_spawn_options *o);

/*
 * Makes *out, with one hold for the caller. Errors: TR_EINVAL, TR_ENOMEM.
 */
tr_err tri_props_new(tr_system *sys, tri_cell *parent, const tr_actor_def *def,
                     const tr_spawn_options *o, tri_props **out);

/* Holds that a worker takes at once, for spawns with the same options. */
enum { TRI_PROPS_HOLDS = 256 };

/* Returns worker->last_props with one hold for another actor. */
static inline tri_props *tri_props_hold_last(tri_worker *worker)
{
    TRI_CHECK_SLOW(worker->last_props != NULL);
    if (TRI_UNLIKELY(worker->last_count == 0)) {
        // Relaxed: the worker has a hold already.
        atomic_fetch_add_explicit(&worker->last_props->holds, TRI_PROPS_HOLDS,
                                  memory_order_relaxed);
        worker->last_count = TRI_PROPS_HOLDS;
    }
    worker->last_count--;
    return worker->last_props;
}

/* True if no option is set, except perhaps init: so are most spawns. */
static inline bool tri_options_are_default(const tr_spawn_options *o)
{
    uint64_t set = (uintptr_t)o->name | (uintptr_t)o->supervision |
                   (uintptr_t)o->dispatcher | o->heap_limit |
                   (uint64_t)o->stop_timeout | o->drain_to.cell |
                   o->drain_to.id | (uintptr_t)o->storage |
                   (uintptr_t)o->serializer | (uintptr_t)o->interceptors |
                   (uint64_t)o->handler_limit | (uintptr_t)o->priority;
    uint32_t small = (uint32_t)o->restart | o->soft_limit | o->mailbox_limit |
                     (uint32_t)o->overflow | (uint32_t)o->drain |
                     (uint32_t)o->inherit_supervision | (uint32_t)o->joinable |
                     (uint32_t)o->auto_stop | (uint32_t)o->ends_system;
    _Static_assert(TR_PERMANENT == 0 && TR_OVERFLOW_FAIL == 0 &&
                       TR_DRAIN_DEAD_LETTERS == 0,
                   "an option that is not set is the default");
    return (set | small) == 0;
}

/*
 * Checks the options and sets *out to props with one hold for the caller:
 * those of the worker's latest spawn if they are the same, else new ones; NULL
 * if no props are needed. Errors: as tri_props_new.
 */
tr_err tri_props_share(tri_worker *worker, tri_cell *parent,
                       const tr_actor_def *def, const tr_spawn_options *o,
                       tri_props **out);

#endif
