/*
 * spawn.c - makes actors: checks the options, makes the cell, schedules it.
 *
 * Threads: any, with the caller's worker.
 *
 * Invariant: a spawn returns a ref whose actor will start, or a ref with an
 * error; then nothing is left behind. The name is taken and the child is in the
 * parent's list before the call returns. No user code runs in a spawn.
 */
#include "core/life/spawn.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/options.h"
#include "core/ask/error_text.h"
#include "core/caller.h"
#include "core/cell/behaviour.h"
#include "core/cell/cell.h"
#include "core/cell/ext.h"
#include "core/cell/mem.h"
#include "core/cell/props.h"
#include "core/life/auto_stop.h"
#include "core/life/child_end.h"
#include "core/life/family.h"
#include "core/life/lifecycle.h"
#include "core/life/supervise.h"
#include "core/mail/soft_limit.h"
#include "core/run/context.h"
#include "core/run/intercept.h"
#include "core/run/pool.h"
#include "core/run/scheduler.h"
#include "core/run/worker.h"
#include "core/system.h"
#include "troupe/system.h"

uint64_t tri_id_next(tri_worker *worker)
{
    TRI_CHECK_SLOW(worker->id_next <= worker->id_end);
    if (worker->id_next == worker->id_end) {
        // Relaxed: the ids must only be unique.
        worker->id_next = atomic_fetch_add_explicit(
            &worker->sys->next_id, TRI_ID_BLOCK, memory_order_relaxed);
        worker->id_end = worker->id_next + TRI_ID_BLOCK;
    }
    return worker->id_next++;
}

/* Returns a ref that holds an error. */
static tr_ref error_ref(tr_err err)
{
    return (tr_ref){0, (uint64_t)err};
}

/*
 * Chooses the pool of the dispatcher in the options, and for a pinned one the
 * worker. Errors: TR_ENOENT, TR_ELIMIT (no worker is free).
 */
static tr_err choose_pool(tr_system *sys, tri_cell *cell,
                          const tr_spawn_options *o, uint32_t *flags)
{
    TRI_CHECK(cell->home == TRI_HOME_NONE);
    const char *name = o->dispatcher;
    if (name == NULL) {
        return TR_OK;  // pool 0
    }
    tri_pool *pool = tri_pool_find(sys, name);
    if (pool == NULL) {
        return TR_ENOENT;
    }
    if (sys->driven_worker != NULL) {
        return TR_OK;  // one thread runs everything
    }
    TR_TRY(tri_workers_start(sys, pool));  // on the first use of the pool
    *flags |= (uint32_t)pool->index << TRI_CELL_POOL_SHIFT;
    if (pool->kind == TR_DISPATCH_PINNED) {
        tri_worker *worker = tri_worker_pinned(sys);
        if (worker == NULL) {
            return TR_ELIMIT;
        }
        cell->home = (uint16_t)worker->index;
        *flags |= TRI_CELL_PINNED;
    }
    return TR_OK;
}

/* Frees a cell that was not scheduled and whose ref is not known. */
static void discard(tri_worker *worker, tri_cell *cell)
{
    TRI_CHECK(!tri_link_is_linked(&cell->sibling));
    // Acquire: pairs with tri_worker_new.
    if (cell->home != TRI_HOME_NONE) {
        tri_worker_release_pinned(
            worker->sys, atomic_load_explicit(&worker->sys->workers[cell->home],
                                              memory_order_acquire));
    }
    free((void *)(uintptr_t)cell->name);
    tri_props_drop(cell->props);
    // Relaxed: no thread knows the ref.
    atomic_store_explicit(&cell->mail, TRI_MAIL_CLOSED, memory_order_relaxed);
    atomic_store_explicit(&cell->sys_mail, TRI_SYS_CLOSED,
                          memory_order_relaxed);
    tri_ext_free(worker, cell);
    tri_cell_free(&worker->cache, cell);
}

/*
 * True if the actor that the worker spawned last had the same first state and
 * no other options: the two can share their props. Only for first states that
 * point nowhere; tri_props_share compares the others.
 */
static inline bool same_props(const tri_props *props, const tr_actor_def *def,
                              const tr_spawn_options *o)
{
    return props != NULL && props->all_default && props->init_type == NULL &&
           o->init_size == def->state_size &&
           props->init_size == o->init_size &&
           (def->state == NULL || def->state->var_count == 0) &&
           memcmp(props->init, o->init, o->init_size) == 0;
}

/* Fast path of prepare_options: no option is set but the first state. */
static inline tr_err prepare_first_state(tri_worker *worker, tri_cell *parent,
                                         tri_cell *cell,
                                         const tr_actor_def *def,
                                         const tr_spawn_options *o)
{
    TRI_CHECK_SLOW(cell->props == NULL);
    if (o->init == NULL) {
        return TR_OK;
    }
    if (same_props(worker->last_props, def, o)) {
        cell->props = tri_props_hold_last(worker);
        return TR_OK;
    }
    return tri_props_share(worker, parent, def, o, &cell->props);
}

/*
 * True if an actor with these options has the same path in the next run, by
 * which a store finds its state again: no part of the path is a number that
 * the system has chosen. parent is NULL above the root.
 */
static bool has_lasting_path(tri_cell *parent, const tr_spawn_options *o)
{
    bool lasts = o->name != NULL;
    for (tri_cell *up; lasts && parent != NULL && !tri_cell_is_virtual(parent);
         parent = up) {
        up = tri_cell_parent(parent);
        lasts = up == NULL || parent->name != NULL;  // the root has no name
    }
    return lasts;
}

/* Sets name, props, pool, limits and handles of the cell. */
static __attribute__((noinline)) tr_err prepare_options(
    tri_caller *caller, tri_cell *parent, tri_cell *cell,
    const tr_actor_def *def, const tr_spawn_options *o, uint32_t *flags)
{
    tri_worker *worker = caller->worker;
    if (o->name != NULL) {
        cell->name =
            tri_mem_should_fail(&caller->sys->mem) ? NULL : strdup(o->name);
        if (cell->name == NULL) {
            return TR_ENOMEM;
        }
    }
    TRI_CHECK(cell->props == NULL);
    if (o->storage != NULL && !has_lasting_path(parent, o)) {
        return TR_EINVAL;
    }
    TR_TRY(tri_props_share(worker, parent, def, o, &cell->props));
    TR_TRY(choose_pool(caller->sys, cell, o, flags));
    if (o->ends_system) {
        *flags |= TRI_CELL_MAIN;
    }
    if (o->mailbox_limit != 0) {
        *flags |= TRI_CELL_BOUNDED;
        *flags |= o->overflow == TR_OVERFLOW_DROP_OLD ? TRI_CELL_DROPS_OLD : 0;
        cell->attention |= TRI_ATTENTION_BOUNDED;
    }
    if (o->priority != NULL) {
        // No sender may go around the lane, where the owner sorts the mail.
        *flags |= TRI_CELL_BOUNDED | TRI_CELL_URGENT;
        cell->attention |= TRI_ATTENTION_BOUNDED;
    }
    if (o->mailbox_limit != 0 || o->priority != NULL || o->soft_limit != 0 ||
        o->auto_stop || o->handler_limit != 0) {
        tri_ext *ext = tri_ext_need(worker, cell);
        if (ext == NULL) {
            return TR_ENOMEM;
        }
        // Relaxed, all: the ref is not known yet.
        atomic_store_explicit(&ext->room.limit, o->mailbox_limit,
                              memory_order_relaxed);
        atomic_store_explicit(&ext->room.soft_limit, o->soft_limit,
                              memory_order_relaxed);
        atomic_store_explicit(&ext->room.overflow, (uint8_t)o->overflow,
                              memory_order_relaxed);
        atomic_store_explicit(&ext->handler_limit, o->handler_limit,
                              memory_order_relaxed);
    }
    if (o->auto_stop) {
        // The spawner has the first handle. Relaxed: the ref is not known yet.
        atomic_store_explicit(&tri_ext_of(cell)->handles,
                              TRI_HANDLES_AUTO_STOP | 1, memory_order_relaxed);
    }
    return TR_OK;
}

/*
 * Returns the id that the parent had when it was known to live: outside threads
 * and tr_spawn_temp spawn under a guardian, which may have ended. is_own: the
 * parent is the actor that spawns.
 */
static uint64_t id_of_parent(const tr_system *sys, tri_cell *parent,
                             bool is_own)
{
    // Relaxed: a parent that spawns keeps its id.
    return is_own ? atomic_load_explicit(&parent->id, memory_order_relaxed)
           : parent == sys->user   ? sys->user_id
           : parent == sys->temp   ? sys->temp_id
           : parent == sys->system ? sys->system_id
           : parent == sys->root
               ? sys->root_id
               : atomic_load_explicit(&parent->id, memory_order_relaxed);
}

/* True if the parent has the hook child_terminated. */
static bool hears_of_ends(const tr_system *sys, tri_cell *parent, bool is_own)
{
    const tr_actor_def *def = is_own                ? tri_def_of(parent)
                              : parent == sys->user ? sys->options.guardian
                                                    : NULL;
    return def != NULL && def->child_terminated != NULL;
}

/* Fills the cell and links it under parent. After an error it is not linked. */
static tr_err prepare(tri_caller *caller, tri_cell *parent, tri_cell *cell,
                      const tr_actor_def *def, const tr_spawn_options *o,
                      uint32_t flags)
{
    TRI_CHECK_SLOW(tri_cell_is_owned(cell));
    tri_worker *worker = caller->worker;
    const tri_behaviour *behaviour =
        tri_behaviour_get(caller->sys, worker, def);
    const tr_interceptor *const *outer =
        flags & TRI_CELL_SYSTEM ? NULL : caller->sys->options.interceptors;
    if (behaviour != NULL && (outer != NULL || o->interceptors != NULL)) {
        behaviour =
            tri_behaviour_wrap(caller->sys, behaviour, outer, o->interceptors);
    }
    if (behaviour == NULL) {
        return TR_ENOMEM;
    }
    tri_cell_become(cell, behaviour);
    TR_TRY(TRI_LIKELY(tri_options_are_default(o))
               ? prepare_first_state(worker, parent, cell, def, o)
               : prepare_options(caller, parent, cell, def, o, &flags));
    uint32_t soft =
        o->soft_limit != 0 ? o->soft_limit : caller->sys->options.soft_limit;
    if (soft < TRI_SOFT_CHECK_FROM) {
        flags |= TRI_CELL_DEPTH_CHECKED;
    }
    // Relaxed: the ref is not known yet.
    atomic_store_explicit(&cell->flags, flags, memory_order_relaxed);
    if (parent == NULL) {
        return TR_OK;
    }
    bool is_own = caller->ctx != NULL && caller->ctx->cell == parent;
    uint64_t parent_id = id_of_parent(caller->sys, parent, is_own);
    if (TRI_UNLIKELY(hears_of_ends(caller->sys, parent, is_own))) {
        tr_ref ref = {tri_cell_ref(caller->sys, parent).cell, parent_id};
        TR_TRY(tri_child_end_prepare(worker, ref, cell));
    }
    return tri_children_link(worker, parent, parent_id, cell);
}

tr_ref tri_spawn_under(tri_caller *caller, tri_cell *parent,
                       const tr_actor_def *def, const tr_spawn_options *options,
                       uint32_t flags)
{
    tri_worker *worker = caller->worker;
    tr_system *sys = caller->sys;
    tri_cell *cell = tri_cell_new(&worker->cache, tri_id_next(worker));
    if (cell == NULL) {
        return error_ref(TR_ENOMEM);
    }
    tr_err err = prepare(caller, parent, cell, def, options, flags);
    if (err != TR_OK) {
        discard(worker, cell);
        return error_ref(err);
    }
    tri_count(&worker->count.spawned);
    tri_count(&worker->tally.lives[tri_cell_behaviour(cell)->kind].spawned);
    tr_ref ref = tri_cell_ref(sys, cell);
    tri_schedule_newborn(worker, cell);
    return ref;
}

/* Errors: TR_ESTOPPED (the parent ends), TR_ECLOSED (the system closes). */
static inline tr_err may_spawn(const tri_caller *caller)
{
    if (TRI_LIKELY(caller->ctx != NULL)) {
        tri_cell *cell = caller->ctx->cell;
        return tri_cell_life(cell) == TR_STATE_RUNNING ||
                       tri_life_takes_children(cell)
                   ? TR_OK
                   : TR_ESTOPPED;
    }
    // Acquire: pairs with tri_shutdown_begin.
    return atomic_load_explicit(&caller->sys->terminating, memory_order_acquire)
               ? TR_ECLOSED
               : TR_OK;
}

/* Returns which option of a spawn is out of its range. */
static const char *misfit(const tr_spawn_options *o)
{
    tr_supervision policy;
    TRI_CHECK(o != NULL);
    const char *why =
        o->supervision == NULL ? NULL
        : !tri_options_copy(&policy, sizeof(policy),
                            TRI_SIZE_THROUGH(tr_supervision, retry_message),
                            o->supervision)
            ? "the size of its supervision is not sizeof(tr_supervision)"
            : tri_supervision_fill(&policy);
    return why != NULL ? why
                       : "a time is negative, or a number out of its range, "
                         "in its options";
}

/* Returns what was wrong and what to do; o is NULL if it was not readable. */
static const char *refusal_text(tri_cell *parent, const tr_actor_def *def,
                                const tr_spawn_options *o, tr_err err)
{
    switch ((int)err) {
    case TR_EEXIST:
        return "a sibling has the name until it has ended: tr_join or watch "
               "it first";
    case TR_ENOENT:
        return "no such dispatcher: tr_dispatcher_add comes first";
    case TR_ECLOSED:
        return "the system is closing or closed";
    case TR_ESTOPPED:
        return "its parent is ending";
    case TR_ELIMIT:
        return "no more threads for it, or its TR_INIT is too large";
    case TR_EINVAL:
        return o == NULL ? "its options are of another version of Troupe"
               : o->name != NULL && tri_name_check(o->name) != TR_OK
                   ? "a name has 1 to 128 characters, does not begin with "
                     "'$', and has no '/' and no space"
               : o->init != NULL && o->init_size != def->state_size
                   ? "its TR_INIT is of another kind"
               : !tri_storable(def, o)
                   ? "a stored state needs TR_STATE, not a plain struct"
               : o->storage != NULL && o->name == NULL
                   ? "a stored state is found again by the name of its actor: "
                     "give it a .name"
               : o->storage != NULL && !has_lasting_path(parent, o)
                   ? "a stored state is found again by the path of its actor: "
                     "give each actor above it a .name"
                   : misfit(o);
    default:
        return tr_strerror(err);
    }
}

/*
 * Sets the error text of the caller and returns the error. top is as in spawn.
 */
static __attribute__((noinline)) tr_ref refuse(tr_ctx *ctx, tri_cell *top,
                                               const tr_actor_def *def,
                                               const tr_spawn_options *o,
                                               tr_err err)
{
    TRI_CHECK(err != TR_OK);
    bool named = o != NULL && o->name != NULL;
    const char *kind = def != NULL ? def->name : "an unknown kind";
    tri_cell *parent = top != NULL ? top : ctx != NULL ? ctx->cell : NULL;
    tri_error_set(ctx, "cannot spawn %s%s%.*s%s%s%s: %s", kind,
                  named ? " \"" : "", TRI_NAME_MAX, named ? o->name : "",
                  named ? "\"" : "", err == TR_ENOENT ? " on dispatcher " : "",
                  err == TR_ENOENT ? o->dispatcher : "",
                  refusal_text(parent, def, o, err));
    return error_ref(err);
}

/*
 * Checks the options and spawns under `top` or, if that is NULL, under the
 * caller. o is NULL if it is not readable.
 */
static inline __attribute__((always_inline)) tr_ref
spawn(tr_from from, tri_cell *top, const tr_actor_def *def,
      const tr_spawn_options *o)
{
    bool known = def != NULL && def->size >= sizeof(*def);
    tri_caller caller = tri_enter(from);
    tr_err err = !known || o == NULL ||
                         (o->name != NULL && tri_name_check(o->name) != TR_OK)
                     ? TR_EINVAL
                     : may_spawn(&caller);
    tr_ref ref = error_ref(err);
    if (TRI_LIKELY(err == TR_OK)) {
        tri_cell *parent = top != NULL          ? top
                           : caller.ctx != NULL ? caller.ctx->cell
                                                : caller.sys->user;
        ref = tri_spawn_under(&caller, parent, def, o, 0);
        if (ref.cell == 0 && ref.id == TR_ESTOPPED && caller.ctx == NULL) {
            ref.id = TR_ECLOSED;
        }
    }
    tri_leave(&caller);
    if (o != NULL && o->watch && caller.ctx != NULL && ref.cell != 0) {
        tr_watch(caller.ctx, ref);
    }
    return TRI_LIKELY(ref.cell != 0)
               ? ref
               : refuse(caller.ctx, top, known ? def : NULL, known ? o : NULL,
                        (tr_err)ref.id);
}

/* Spawns for a caller that was compiled with another version of the options. */
static __attribute__((noinline)) tr_ref
spawn_other_version(tr_from from, tri_cell *top, const tr_actor_def *def,
                    const tr_spawn_options *options)
{
    tr_spawn_options copy;
    bool readable = tri_options_copy(
        &copy, sizeof(copy), TRI_SIZE_THROUGH(tr_spawn_options, auto_stop),
        options);
    return spawn(from, top, def, readable ? &copy : NULL);
}

tr_ref tri_spawn_at(tr_from from, tri_cell *parent, const tr_actor_def *def,
                    const tr_spawn_options *options)
{
    TRI_CHECK(parent != NULL && options != NULL);
    return spawn_other_version(from, parent, def, options);
}

tr_ref(tr_spawn)(tr_from from, const tr_actor_def *def,
                 const tr_spawn_options *options)
{
    static const tr_spawn_options none = {.size = sizeof(none)};
    const tr_spawn_options *o = options != NULL ? options : &none;
    return TRI_LIKELY(o->size == sizeof(*o))
               ? spawn(from, NULL, def, o)
               : spawn_other_version(from, NULL, def, o);
}
