/*
 * behaviour.h - the handler table of a tr_actor_def, prepared once per system.
 *
 * Threads: a behaviour is written before it is published and never after,
 * except tri_slot.alias (atomic) and `wrapped` (sys->behaviours_lock). So any
 * thread may read it.
 */
#ifndef TRI_CORE_CELL_BEHAVIOUR_H
#define TRI_CORE_CELL_BEHAVIOUR_H

#include "base/check.h"
#include "core/cell/cell.h"
#include "core/cell/ext.h"
#include "core/run/worker.h"
#include "core/types.h"

/* A handler, found by the schema of a message. */
typedef struct tri_slot {
    uint64_t schema;
    const tr_type *type;             // as the definition names it
    _Atomic(const tr_type *) alias;  // an equal type of another source file
    tr_handler_fn fn;                // NULL: the slot is free
    uint32_t flags;                  // TR_READ_ONLY and the like
    uint32_t kind;                   // copy of tri_behaviour.kind
} tri_slot;

typedef struct tri_behaviour {
    const tr_actor_def *def;
    const tr_handler *any;  // TR_ON_ANY, or NULL
    bool interleaves;       // has TR_ON_READ or TR_ON_INTERLEAVE handlers
    bool no_hooks;          // has no hook of a first start or of an end
    struct tri_behaviour *wrapped;      // list of copies with interceptors
    const struct tri_behaviour *plain;  // the original of a copy, or NULL
    const tr_interceptor *const *outer, *const *inner;  // set in a copy
    tr_handler any_wrapped;  // TR_ON_ANY of a copy, around which they run
    uint32_t mask;           // number of slots, a power of two, minus one
    uint32_t kind;           // number of the definition's name: tally.h
    uint8_t state_class;     // size class of the states: cache.h
    tri_slot slots[];        // by tri_slot_index; a quarter full at most
} tri_behaviour;

/* Out-of-line part of tri_behaviour_find. */
const tri_slot *tri_behaviour_search(const tri_behaviour *behaviour,
                                     const tr_type *type);

/* Returns where the search for a schema begins, before the mask. */
static inline uint32_t tri_slot_index(uint64_t schema)
{
    return (uint32_t)((schema * UINT64_C(0x9e3779b97f4a7c15)) >> 40);
}

/* Returns the slot of the handler for the type, or NULL if there is none. */
static inline const tri_slot *tri_behaviour_find(const tri_behaviour *behaviour,
                                                 const tr_type *type)
{
    const tri_slot *slot =
        &behaviour->slots[tri_slot_index(type->schema) & behaviour->mask];
    return TRI_LIKELY(slot->type == type)
               ? slot
               : tri_behaviour_search(behaviour, type);
}

/* Out-of-line part of tri_behaviour_get. */
const tri_behaviour *tri_behaviour_fetch(struct tr_system *sys,
                                         tri_worker *worker,
                                         const tr_actor_def *def);

/* Frees all behaviours when the system closes. */
void tri_behaviours_free(struct tr_system *sys);

/* Returns the place of a definition in tri_worker.defs. */
static inline uint32_t tri_def_index(const tr_actor_def *def)
{
    return (uint32_t)((uintptr_t)def >> 4) % TRI_DEFS_CACHED;
}

/*
 * Returns the behaviour of a definition, made at the first call. NULL without
 * memory. The thread of the worker.
 */
static inline const tri_behaviour *tri_behaviour_get(tr_system *sys,
                                                     tri_worker *worker,
                                                     const tr_actor_def *def)
{
    uint32_t i = tri_def_index(def);
    return TRI_LIKELY(worker->defs[i].def == def)
               ? worker->defs[i].behaviour
               : tri_behaviour_fetch(sys, worker, def);
}

/* Returns the behaviour of the spawn: tr_become does not change the hooks. */
static inline const tri_behaviour *tri_first_behaviour(tri_cell *cell)
{
    tri_ext *ext = tri_ext_of(cell);
    return ext != NULL && ext->first != NULL ? ext->first
                                             : tri_cell_behaviour(cell);
}

/* Returns the definition with which the actor was spawned. */
static inline const tr_actor_def *tri_def_of(tri_cell *cell)
{
    return tri_first_behaviour(cell)->def;
}

#endif
