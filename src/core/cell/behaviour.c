/*
 * behaviour.c - prepares definitions for dispatch; tr_become.
 *
 * The slots are an open hash table by schema, so that finding a handler mostly
 * reads one slot. Definitions of one type in two source files are two objects:
 * they are compared once and the slot remembers the second as its alias.
 *
 * Invariant: there is one behaviour for each definition and system, written
 * before sys->behaviours_lock is dropped and never changed after.
 */
#include "core/cell/behaviour.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/lock.h"
#include "base/map.h"
#include "core/cell/cache.h"
#include "core/cell/cell.h"
#include "core/cell/ext.h"
#include "core/cell/mem.h"
#include "core/cell/tally.h"
#include "core/life/failure.h"
#include "core/run/context.h"
#include "core/run/intercept.h"
#include "core/run/worker.h"
#include "core/system.h"
#include "schema/type_compare.h"

/* True if the types are equal field by field; then `type` becomes the alias. */
static __attribute__((noinline)) bool is_same_type(const tri_slot *slot,
                                                   const tr_type *type)
{
    if (!tri_type_same(slot->type, type)) {
        return false;
    }
    // Relaxed: types are constants, so a reader of any value is right.
    atomic_store_explicit(&((tri_slot *)(uintptr_t)slot)->alias, type,
                          memory_order_relaxed);
    return true;
}

const tri_slot *tri_behaviour_search(const tri_behaviour *behaviour,
                                     const tr_type *type)
{
    TRI_CHECK_SLOW(type != NULL);
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
        // Relaxed: see is_same_type.
        if (atomic_load_explicit(&((tri_slot *)(uintptr_t)slot)->alias,
                                 memory_order_relaxed) == type ||
            is_same_type(slot, type)) {
            return slot;
        }
    }
}

/* Puts a handler of a named type into a free slot. */
static void slot_add(tri_behaviour *made, const tr_handler *handler)
{
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

/* sys->behaviours_lock is held. */
static tri_behaviour *behaviour_new(tr_system *sys, const tr_actor_def *def)
{
    tri_lock_assert_held(&sys->behaviours_lock);
    uint32_t size = 4;
    while (size < 4 * def->handler_count + 1) {  // few collisions
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
    made->no_hooks = def->pre_start == NULL && def->post_start == NULL &&
                     def->on_run == NULL && def->pre_stop == NULL &&
                     def->post_stop == NULL;
    for (size_t n = 0; n < def->handler_count; n++) {
        const tr_handler *handler = &def->handlers[n];
        if (handler->fn == NULL) {
            tr_abort(def->name, "a handler of its tr_actor_def is NULL");
        }
        if (handler->type == NULL) {
            made->any = handler;
        } else {
            slot_add(made, handler);
        }
    }
    return made;
}

/* Finds the behaviour of the definition, or makes it; NULL without memory. */
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
    TRI_CHECK(def != NULL);
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

void(tr_become)(tr_ctx *ctx, const tr_actor_def *behaviour)
{
    TRI_CHECK(ctx->magic == TRI_CTX_MAGIC);
    if (behaviour == NULL) {
        tri_misuse(ctx, "tr_become", "the behaviour is NULL");
    }
    tri_cell *cell = ctx->cell;
    const tri_behaviour *next =
        tri_behaviour_get(ctx->sys, ctx->worker, behaviour);
    const tri_behaviour *now = tri_cell_behaviour(cell);
    if (next != NULL && now->plain != NULL) {
        next = tri_behaviour_wrap(ctx->sys, next, now->outer, now->inner);
    }
    tri_ext *ext = tri_ext_need(ctx->worker, cell);
    if (next == NULL || ext == NULL) {
        (tr_panic)(ctx, "tr_become", "out of memory");
    }
    if (ext->first == NULL) {
        ext->first = tri_cell_behaviour(cell);
    }
    tri_cell_become(cell, next);
}
