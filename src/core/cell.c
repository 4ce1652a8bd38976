/*
 * cell.c - cells, their extensions, and behaviours made ready for dispatch.
 */
#include "core/cell.h"

#include <stdlib.h>
#include <string.h>

#include "core/mailbox.h"
#include "schema/same.h"

_Static_assert(sizeof(tri_cell) == 192, "three cache lines: mem.c");
_Static_assert(offsetof(tri_cell, sys_mail) == 64, "the owner's line");
_Static_assert(offsetof(tri_cell, parent) == 128, "the family's line");
_Static_assert(sizeof(tri_ext) <= 768, "TRI_CLASS_EXT in mem.c");
_Static_assert(offsetof(tri_cell, mail) >= sizeof(tri_block),
               "a free cell keeps what stale senders look at");

static inline __attribute__((always_inline)) void reset(tri_cell *cell)
{
    cell->run_next = NULL;
    cell->timer = (tri_timer){0};
    cell->wheel = 0;
    cell->stage = 0;
    cell->reason = 0;
    tri_cell_become(cell, NULL);
    cell->state = NULL;
    cell->queue = NULL;
    cell->slow = TRI_SLOW_LIFE;
    cell->home = TRI_HOME_NONE;
    cell->sibling_next = NULL;
    cell->sibling_prev = NULL;
    cell->notice = (tri_node){.kind = TRI_NODE_FAILURE};
    // Relaxed, all: the ref is not known to anybody yet; stale senders may
    // read them and are told apart by the id.
    atomic_store_explicit(&cell->parent, NULL, memory_order_relaxed);
    atomic_store_explicit(&cell->lives, 0, memory_order_relaxed);
    atomic_store_explicit(&cell->queued, 0, memory_order_relaxed);
    atomic_store_explicit(&cell->handled, 0, memory_order_relaxed);
    atomic_store_explicit(&cell->life, TR_STATE_CREATED, memory_order_relaxed);
    atomic_store_explicit(&cell->history, TR_STATE_CREATED,
                          memory_order_relaxed);
}

void tri_cell_reset(tri_cell *cell)
{
    reset(cell);
}

tri_cell *tri_cell_new(tr_system *sys, tri_cache *cache, uint64_t id)
{
    tri_cell *cell = tri_cache_alloc(cache, TRI_CLASS_CELL);
    if (cell == NULL) {
        return NULL;
    }
    (void)sys;
    reset(cell);
    cell->name = NULL;
    cell->props = NULL;
    // Relaxed, all: as in reset.
    atomic_store_explicit(&cell->flags, 0, memory_order_relaxed);
    // A late sender may have made one for the dead. Relaxed: a glance. One
    // that is made after it is the new actor's, as after the exchange.
    if (atomic_load_explicit(&cell->ext, memory_order_relaxed) != NULL) {
        tri_ext *left =
            atomic_exchange_explicit(&cell->ext, NULL, memory_order_acquire);
        if (left != NULL) {
            tri_cache_free(cache, TRI_CLASS_EXT, left);
        }
    }
    atomic_store_explicit(&cell->signals, id << TRI_SIG_BITS,
                          memory_order_relaxed);
    atomic_store_explicit(&cell->sys_mail, 0, memory_order_relaxed);
    // Release: whoever finds another id here sees the end of the one before.
    atomic_store_explicit(&cell->id, id, memory_order_release);
    // Release: opens the mailbox of the new actor after all of the above.
    atomic_store_explicit(&cell->mail, 0, memory_order_release);
    return cell;
}

tri_ext *tri_ext_make(tri_worker *worker, tri_cell *cell)
{
    tri_ext *ext = NULL;
    tri_ext *made = tri_cache_alloc(&worker->cache, TRI_CLASS_EXT);
    if (made == NULL) {
        return NULL;
    }
    // A walker of the wait-for graph may still look at the former owner's
    // edge: the four atomics are stored, the rest is cleared around them.
    uint64_t seq = atomic_load_explicit(&made->edge_seq, memory_order_relaxed);
    // Whoever writes a path may look for a child of the former family still.
    tri_lock_take(&made->lock);
    memset(made, 0, offsetof(tri_ext, edge_cell));
    tri_lock_drop(&made->lock);
    atomic_store_explicit(&made->edge_seq, (seq | 1) + 1, memory_order_relaxed);
    atomic_store_explicit(&made->handles, 0, memory_order_relaxed);
    atomic_store_explicit(&made->bounded, 0, memory_order_relaxed);
    atomic_store_explicit(&made->limit, 0, memory_order_relaxed);
    atomic_store_explicit(&made->soft_limit, 0, memory_order_relaxed);
    tri_lock_take(&made->blocked_lock);
    while (made->blocked != NULL) {  // a late sender is about to leave
        tri_lock_drop(&made->blocked_lock);
        tri_lock_yield();
        tri_lock_take(&made->blocked_lock);
    }
    made->no_room = false;
    tri_lock_drop(&made->blocked_lock);
    tri_map_init(&made->watching, NULL, NULL);
    tri_map_init(&made->names, tri_name_is, NULL);
    // Release: publishes the cleared extension. Acquire: the other's.
    if (!atomic_compare_exchange_strong_explicit(&cell->ext, &ext, made,
                                                 memory_order_acq_rel,
                                                 memory_order_acquire)) {
        tri_cache_free(&worker->cache, TRI_CLASS_EXT, made);
        return ext;
    }
    return made;
}

void tri_ext_drop(tri_worker *worker, tri_cell *cell)
{
    // Acquire: as tri_ext_make.
    tri_ext *ext =
        atomic_exchange_explicit(&cell->ext, NULL, memory_order_acquire);
    if (ext != NULL) {
        TRI_CHECK(ext->parked == NULL);
        tri_room_close(worker, ext);
        tri_map_fini(&ext->watching);
        tri_map_fini(&ext->names);
        tri_cache_free(&worker->cache, TRI_CLASS_EXT, ext);
    }
}

/* ---- behaviours ---- */

static __attribute__((noinline)) bool same_type(const tri_slot *slot,
                                                const tr_type *type)
{
    if (!tri_type_same(slot->type, type)) {
        return false;
    }
    // Relaxed: both are constants for the program's life.
    atomic_store_explicit(&((tri_slot *)(uintptr_t)slot)->alias, type,
                          memory_order_relaxed);
    return true;
}

const tri_slot *tri_behaviour_search(const tri_behaviour *behaviour,
                                     const tr_type *type)
{
    uint32_t i = tri_slot_index(type->schema);
    for (;; i++) {
        const tri_slot *slot = &behaviour->slots[i & behaviour->mask];
        if (slot->fn == NULL) {
            return NULL;
        }
        if (TRI_LIKELY(slot->type == type)) {
            return slot;
        }
        if (slot->schema != type->schema) {
            continue;
        }
        // Relaxed: see same_type.
        if (atomic_load_explicit(&((tri_slot *)(uintptr_t)slot)->alias,
                                 memory_order_relaxed) == type ||
            same_type(slot, type)) {
            return slot;
        }
    }
}

static tri_behaviour *behaviour_new(tr_system *sys, const tr_actor_def *def)
{
    uint32_t size = 4;
    while (size < 4 * def->handler_count + 1) {  // mostly one look
        size *= 2;
    }
    tri_behaviour *made = tri_mem_calloc(
        &sys->mem, sizeof(*made) + size * sizeof(made->slots[0]));
    if (made == NULL) {
        return NULL;
    }
    made->def = def;
    made->mask = size - 1;
    made->kind = tri_kind_number(sys, def->name);
    made->state_class =
        (uint8_t)(def->state_size <= 16   ? TRI_CLASS_TINY
                  : def->state_size <= 32 ? TRI_CLASS_SMALL
                                          : tri_class_of(def->state_size));
    made->plain_life = def->pre_start == NULL && def->post_start == NULL &&
                       def->on_run == NULL && def->pre_stop == NULL &&
                       def->post_stop == NULL;
    for (size_t n = 0; n < def->handler_count; n++) {
        const tr_handler *handler = &def->handlers[n];
        if (handler->type == NULL) {
            made->any = handler;
            continue;
        }
        uint32_t i = tri_slot_index(handler->type->schema);
        while (made->slots[i & made->mask].fn != NULL) {
            i++;
        }
        tri_slot *slot = &made->slots[i & made->mask];
        slot->schema = handler->type->schema;
        slot->type = handler->type;
        slot->fn = handler->fn;
        slot->flags = handler->flags;
        slot->kind = made->kind;
        made->interleaves |=
            (handler->flags & (TR_READ_ONLY | TR_ALWAYS_INTERLEAVE)) != 0;
    }
    return made;
}

static const tri_behaviour *behaviour_intern(tr_system *sys,
                                             const tr_actor_def *def)
{
    uint64_t key = (uint64_t)(uintptr_t)def;
    tri_lock_take(&sys->behaviours_lock);
    tri_behaviour *found = tri_map_get(&sys->behaviours, key);
    if (found == NULL) {
        found = behaviour_new(sys, def);
        if (found != NULL &&
            tri_map_put(&sys->behaviours, key, found) != TR_OK) {
            free(found);
            found = NULL;
        }
    }
    tri_lock_drop(&sys->behaviours_lock);
    return found;
}

const tri_behaviour *tri_behaviour_fetch(tr_system *sys, tri_worker *worker,
                                         const tr_actor_def *def)
{
    const tri_behaviour *found = behaviour_intern(sys, def);
    if (found != NULL) {
        uint32_t i = tri_def_index(def);
        worker->defs[i].def = def;
        worker->defs[i].behaviour = found;
    }
    return found;
}

void tri_behaviours_free(tr_system *sys)
{
    tri_behaviour *behaviour;
    for (tri_map_iter it = tri_map_iter_begin(&sys->behaviours);
         (behaviour = tri_map_iter_next(&sys->behaviours, &it)) != NULL;) {
        while (behaviour->wrapped != NULL) {
            tri_behaviour *next = behaviour->wrapped->wrapped;
            free(behaviour->wrapped);
            behaviour->wrapped = next;
        }
        free(behaviour);
    }
    tri_map_fini(&sys->behaviours);
}
