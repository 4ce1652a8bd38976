/*
 * worker.c - workers and groups: making, starting, watching, ending them.
 *
 * The monitor is the one thread that looks at the workers from outside. It
 * asks a worker in a long handler to read the clock, gets its queue stolen,
 * reports handlers that block, and adds a worker when all of a group are
 * blocked, so that a blocked thread never stops the rest. A thread that waits
 * for a processor is not blocked: on a busy machine one more would only take
 * turns with it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/lifecycle.h"
#include "core/private.h"

enum { MONITOR_IDLE_ROUNDS = 20, SPARE_WORKERS_MAX = 64 };

tri_worker *tri_worker_new(tr_system *sys, tri_group *group)
{
    tri_worker *worker = NULL;
    if (!tri_mem_should_fail(&sys->mem)) {
        worker = aligned_alloc(128, (sizeof(*worker) + 127) / 128 * 128);
    }
    if (worker == NULL) {
        return NULL;
    }
    memset(worker, 0, sizeof(*worker));
    worker->fresh =
        tri_mem_calloc(&sys->mem, TRI_FRESH * sizeof(*worker->fresh));
    if (worker->fresh == NULL) {
        free(worker);
        return NULL;
    }
    worker->fresh_mask = TRI_FRESH - 1;
    worker->own_end = &worker->own;
    worker->sys = sys;
    worker->group = group;
    worker->group_bits = group != NULL
                             ? (uint32_t)group->index << TRI_CELL_GROUP_SHIFT
                             : UINT32_MAX;
    worker->sends_left = TRI_BATCH_SENDS;
    worker->spin = TRI_SPIN;
    const tri_world_ops *ops = sys->world->ops;
    worker->fences = ops->can_barrier == NULL || !ops->can_barrier(sys->world);
    worker->pinned_taken = true;  // a pinned one is for whoever made it
    tri_cache_init(&worker->cache, &sys->mem);
    uint32_t max = sys->options.max_parked;
    tri_fiber_pool_init(&worker->fibers, sys->options.stack_size,
                        max > TRI_FIBER_LIVE_MAX ? TRI_FIBER_LIVE_MAX : max,
                        &sys->fibers_live, tri_loop, worker);
    worker->now = sys->world->ops->mono(sys->world);
    tri_wheel_init(&worker->wheel, worker->now);
    // Relaxed: published below.
    atomic_store_explicit(&worker->wheel_next, TR_FOREVER,
                          memory_order_relaxed);

    tri_lock_take(&sys->groups_lock);
    uint32_t index =
        atomic_load_explicit(&sys->worker_count, memory_order_relaxed);
    uint32_t place = group != NULL ? atomic_load_explicit(&group->count,
                                                          memory_order_relaxed)
                                   : 0;
    bool fits = index < TRI_WORKERS_MAX && place < TRI_GROUP_MAX;
    if (fits) {
        worker->index = index;
        // Release, all: publish the worker to schedulers and thieves.
        atomic_store_explicit(&sys->workers[index], worker,
                              memory_order_release);
        atomic_store_explicit(&sys->worker_count, index + 1,
                              memory_order_release);
        if (group != NULL) {
            atomic_store_explicit(&group->workers[place], worker,
                                  memory_order_release);
            atomic_store_explicit(&group->count, place + 1,
                                  memory_order_release);
        }
    }
    tri_lock_drop(&sys->groups_lock);
    if (!fits) {
        free(worker->fresh);
        free(worker);
        return NULL;
    }
    return worker;
}

void tri_worker_step(tri_worker *worker, uint32_t index)
{
    TRI_CHECK(worker->stepping);
    tri_worker *outer = tri_worker_current();
    tri_fiber *loop = worker->resting;
    if (loop == NULL) {
        loop = tri_fiber_take(&worker->fibers);
        TRI_CHECK(loop != NULL);  // the first one was tried at open
    }
    tri_clock(worker);
    worker->step_pick = tri_worker_pick(worker, index);
    worker->current = loop;
    worker->resting = NULL;
    tri_worker_set_current(worker);
    tri_fiber_thread_init(&worker->thread);
    tri_fiber_switch(&worker->thread, loop);
    tri_fiber_thread_fini(&worker->thread);
    tri_worker_set_current(outer);
}

void tri_worker_free(tri_worker *worker)
{
    if (worker->resting != NULL) {
        tri_fiber_give(&worker->fibers, worker->resting);
    }
    tri_props_forget(worker);
    tri_props_flush(worker);
    tri_tally_free(&worker->tally);
    tri_fiber_pool_fini(&worker->fibers);
    free(worker->fresh);
    free(worker);
}

/* The thread of a worker: lends its stack only to the switch. */
static void thread_main(void *arg)
{
    tri_worker *worker = arg;
    tri_worker_set_current(worker);
    tri_fiber_thread_init(&worker->thread);
    tri_fiber *first = tri_fiber_take(&worker->fibers);
    TRI_CHECK(first != NULL);  // taken once before the thread was started
    worker->current = first;
    tri_fiber_switch(&worker->thread, first);
    tri_fiber_give(&worker->fibers, worker->resting);
    worker->resting = NULL;
    tri_fiber_thread_fini(&worker->thread);
    tri_cache_fini(&worker->cache);
    tri_worker_set_current(NULL);
}

static tr_err start(tri_worker *worker)
{
    tr_system *sys = worker->sys;
    // So that the thread cannot fail to have its first stack.
    tri_fiber *first = tri_fiber_take(&worker->fibers);
    if (first == NULL) {
        return TR_ENOMEM;
    }
    tri_fiber_give(&worker->fibers, first);
    char name[32];
    snprintf(name, sizeof(name), "tr-%.8s-%u",
             worker->group != NULL ? worker->group->name : "pin",
             worker->index);
    return sys->world->ops->thread_start(sys->world, &worker->thread_handle,
                                         name, thread_main, worker);
}

tr_err tri_group_new(tr_system *sys, const char *name, tr_dispatch_kind kind,
                     uint32_t threads, tri_group **out)
{
    *out = NULL;
    if (strlen(name) >= sizeof((*out)->name)) {
        return TR_EINVAL;
    }
    tri_group *group = NULL;
    if (!tri_mem_should_fail(&sys->mem)) {
        group = aligned_alloc(128, (sizeof(*group) + 127) / 128 * 128);
    }
    if (group == NULL) {
        return TR_ENOMEM;
    }
    memset(group, 0, sizeof(*group));
    group->sys = sys;
    group->kind = kind;
    strcpy(group->name, name);
    // Relaxed: published below.
    atomic_store_explicit(&group->wake_pause, TRI_WAKE_MIN,
                          memory_order_relaxed);

    tri_lock_take(&sys->groups_lock);
    uint32_t count =
        atomic_load_explicit(&sys->group_count, memory_order_relaxed);
    tr_err err = count < TRI_GROUPS_MAX ? TR_OK : TR_ELIMIT;
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(sys->groups[i]->name, name) == 0) {
            err = TR_EEXIST;
        }
    }
    if (err == TR_OK) {
        group->index = (uint8_t)count;
        sys->groups[count] = group;
        // Release: publishes the group to tri_group_find.
        atomic_store_explicit(&sys->group_count, count + 1,
                              memory_order_release);
    }
    tri_lock_drop(&sys->groups_lock);
    if (err != TR_OK) {
        free(group);
        return err;
    }
    *out = group;
    for (uint32_t i = 0; i < threads; i++) {
        if (tri_worker_new(sys, group) == NULL) {
            return i > 0 ? TR_OK : TR_ENOMEM;
        }
    }
    return TR_OK;
}

tri_group *tri_group_find(tr_system *sys, const char *name)
{
    // Acquire: pairs with tri_group_new.
    uint32_t count =
        atomic_load_explicit(&sys->group_count, memory_order_acquire);
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(sys->groups[i]->name, name) == 0) {
            return sys->groups[i];
        }
    }
    return NULL;
}

tr_err tri_workers_start(tr_system *sys, tri_group *group)
{
    (void)sys;
    // Acquire: pairs with the store below.
    if (group->kind == TR_DISPATCH_PINNED ||
        atomic_load_explicit(&group->started, memory_order_acquire)) {
        return TR_OK;
    }
    tr_err err = TR_OK;
    tri_lock_take(&group->start_lock);
    // Acquire: pairs with tri_worker_new.
    uint32_t count = atomic_load_explicit(&group->count, memory_order_acquire);
    for (uint32_t i = 0; i < count && err == TR_OK; i++) {
        tri_worker *worker =
            atomic_load_explicit(&group->workers[i], memory_order_acquire);
        if (worker->thread_handle == NULL) {
            err = start(worker);
        }
    }
    // Release: the threads are there.
    atomic_store_explicit(&group->started, err == TR_OK, memory_order_release);
    tri_lock_drop(&group->start_lock);
    return err;
}

void tri_worker_unpin(tr_system *sys, tri_worker *worker)
{
    tri_lock_take(&sys->groups_lock);
    worker->pinned_taken = false;
    tri_lock_drop(&sys->groups_lock);
}

tri_worker *tri_worker_pinned(tr_system *sys)
{
    tri_group *group = tri_group_find(sys, "pinned");
    tri_worker *worker = NULL;
    // A worker whose actor has ended is used again.
    tri_lock_take(&sys->groups_lock);
    uint32_t count = atomic_load_explicit(&group->count, memory_order_relaxed);
    for (uint32_t i = 0; i < count && worker == NULL; i++) {
        tri_worker *w =
            atomic_load_explicit(&group->workers[i], memory_order_relaxed);
        if (!w->pinned_taken) {
            w->pinned_taken = true;
            worker = w;
        }
    }
    tri_lock_drop(&sys->groups_lock);
    if (worker == NULL) {
        worker = tri_worker_new(sys, group);
        if (worker == NULL) {
            return NULL;
        }
    }
    if (worker->thread_handle == NULL && start(worker) != TR_OK) {
        tri_worker_unpin(sys, worker);
        return NULL;
    }
    return worker;
}

void tri_workers_stop(tr_system *sys)
{
    tri_world *world = sys->world;
    if (sys->monitor != NULL) {
        // Seq_cst: before the wake, which the monitor re-reads after.
        atomic_store_explicit(&sys->monitor_word, 1, memory_order_seq_cst);
        world->ops->wake(world, &sys->monitor_word, 1);
        world->ops->thread_join(world, sys->monitor);
        sys->monitor = NULL;
    }
    // Seq_cst: pairs with must_leave; the wake-ups follow.
    atomic_store_explicit(&sys->stopping_workers, true, memory_order_seq_cst);
    uint32_t count =
        atomic_load_explicit(&sys->worker_count, memory_order_acquire);
    for (uint32_t i = 0; i < count; i++) {
        tri_worker *worker =
            atomic_load_explicit(&sys->workers[i], memory_order_acquire);
        if (worker->thread_handle != NULL) {
            tri_worker_wake(worker);
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        tri_worker *worker =
            atomic_load_explicit(&sys->workers[i], memory_order_acquire);
        if (worker->thread_handle != NULL) {
            world->ops->thread_join(world, worker->thread_handle);
            worker->thread_handle = NULL;
        }
    }
}

/* ---- the monitor ---- */

/* X15: whoever should have ended and does not return ends for the others. */
static void force_if_due(tri_worker *worker, tr_nanos now)
{
    enum {
        ASKED = TRI_SIG_STOP | TRI_SIG_KILL | TRI_SIG_DOOM | TRI_SIG_FORCE |
                TRI_SIG_RESTART
    };
    // Acquire: pairs with `run`. Relaxed: what is pending for a cell that
    // another actor has taken over is that one's; the id tells them apart.
    tri_cell *cell =
        atomic_load_explicit(&worker->running, memory_order_acquire);
    if (cell == NULL || tri_cell_is_zombie(cell)) {
        return;
    }
    uint64_t id = atomic_load_explicit(&cell->id, memory_order_relaxed);
    uint64_t signals =
        atomic_load_explicit(&cell->signals, memory_order_relaxed);
    if (id != 0 &&
        atomic_load_explicit(&worker->stopped, memory_order_relaxed) == id) {
        signals |= TRI_SIG_STOP;  // by itself
    }
    if ((signals & ASKED) == 0) {
        worker->monitor_asked = 0;
        return;
    }
    if (worker->monitor_asked == 0) {
        worker->monitor_asked = now;
    }
    tr_nanos waited = now - worker->monitor_asked;
    if ((signals & TRI_SIG_FORCE) && waited >= TRI_FORCE_GRACE) {
        waited = TR_FOREVER;
    }
    (void)tri_force_stuck(worker->sys, cell, id, waited,
                          (signals & ASKED) == TRI_SIG_RESTART);
}

/* How long the handler that it runs may take. */
static tr_nanos handler_limit(tri_worker *worker)
{
    // Acquire: pairs with `run`; and with tri_ext_need. An extension's memory
    // stays one: of an actor that has just ended the limit is merely old.
    tri_cell *cell =
        atomic_load_explicit(&worker->running, memory_order_acquire);
    tri_ext *ext = cell != NULL
                       ? atomic_load_explicit(&cell->ext, memory_order_acquire)
                       : NULL;
    // Relaxed: fixed at spawn.
    tr_nanos own = ext != NULL ? atomic_load_explicit(&ext->handler_limit,
                                                      memory_order_relaxed)
                               : 0;
    return own != 0 ? own : worker->sys->options.handler_limit;
}

/* Looks at one worker; true if it has been in one handler all the time. */
static bool look_at(tri_worker *worker, tr_nanos now, bool *busy)
{
    // Relaxed, all: hints; an old value costs one round.
    uint64_t progress =
        atomic_load_explicit(&worker->progress, memory_order_relaxed);
    tr_nanos since =
        atomic_load_explicit(&worker->monitor_since, memory_order_relaxed);
    bool asleep =
        atomic_load_explicit(&worker->park_word, memory_order_relaxed) == 1;
    if (asleep || progress != worker->monitor_progress || since == 0) {
        worker->monitor_progress = progress;
        worker->monitor_told = false;
        worker->monitor_asked = 0;
        worker->monitor_ran = TR_FOREVER;
        atomic_store_explicit(&worker->monitor_since, asleep ? 0 : now,
                              memory_order_relaxed);
        *busy |= !asleep;
        return false;
    }
    *busy = true;
    atomic_fetch_or_explicit(&worker->look, TRI_LOOK_CLOCK,
                             memory_order_relaxed);
    if (!worker->monitor_told && now - since >= handler_limit(worker)) {
        worker->monitor_told = true;
        worker->sys->up->stuck(worker, since, now - since);
    }
    if (now - since >= TRI_STUCK) {
        force_if_due(worker, now);
    }
    return now - since >= TRI_MONITOR;
}

/*
 * Would it go on if it had a processor? Then a thread more would have none,
 * either. One that has had TRI_MONITOR of it in one handler is stuck.
 */
static bool starves(tri_worker *worker)
{
    tri_world *world = worker->sys->world;
    if (world->ops->thread_is_runnable == NULL ||
        !world->ops->thread_is_runnable(world, worker->thread_handle)) {
        return false;
    }
    tr_nanos ran = world->ops->thread_ran(world, worker->thread_handle);
    worker->monitor_ran = TRI_MIN(worker->monitor_ran, ran);
    return ran - worker->monitor_ran < TRI_MONITOR;
}

/* All workers of the group seem stuck: do they lack but a processor? */
static bool all_starve(tri_group *group, uint32_t count)
{
    bool all = true;
    for (uint32_t i = 0; i < count; i++) {
        // Acquire: pairs with tri_worker_new.
        tri_worker *worker =
            atomic_load_explicit(&group->workers[i], memory_order_acquire);
        // One that has got no thread never works.
        all &= worker->thread_handle == NULL || starves(worker);
    }
    return all;
}

static void look_at_group(tri_group *group, tr_nanos now, bool *busy)
{
    uint32_t count = atomic_load_explicit(&group->count, memory_order_acquire);
    uint32_t stuck = 0;
    // Relaxed: a hint.
    bool work = atomic_load_explicit(&group->length, memory_order_relaxed) != 0;
    for (uint32_t i = 0; i < count; i++) {
        tri_worker *worker =
            atomic_load_explicit(&group->workers[i], memory_order_acquire);
        // Acquire: pairs with tri_workers_start.
        if (!atomic_load_explicit(&group->started, memory_order_acquire)) {
            continue;
        }
        if (look_at(worker, now, busy)) {
            stuck++;
            work |= tri_worker_waiting(worker) != 0;
        }
    }
    if (stuck == 0 || !work || group->kind == TR_DISPATCH_PINNED ||
        group->kind == TR_DISPATCH_CONCURRENT) {
        return;
    }
    if (stuck < count) {
        tri_group_wake(group, true);
        return;
    }
    if (count < TRI_GROUP_MAX && group->spares < SPARE_WORKERS_MAX &&
        !all_starve(group, count)) {
        tri_worker *worker = tri_worker_new(group->sys, group);
        if (worker != NULL) {
            group->spares++;
            (void)start(worker);  // without a thread it just never works
        }
    }
}

void tri_monitor_main(void *arg)
{
    tr_system *sys = arg;
    tri_world *world = sys->world;
    uint32_t idle = 0;
    // Seq_cst: pairs with tri_workers_stop.
    while (atomic_load_explicit(&sys->monitor_word, memory_order_seq_cst) ==
           0) {
        world->ops->park(world, &sys->monitor_word, 0,
                         idle > MONITOR_IDLE_ROUNDS ? 10 * TRI_MONITOR
                                                    : TRI_MONITOR);
        bool busy = false;
        tr_nanos now = world->ops->mono(world);
        uint32_t groups =
            atomic_load_explicit(&sys->group_count, memory_order_acquire);
        for (uint32_t i = 0; i < groups; i++) {
            look_at_group(sys->groups[i], now, &busy);
        }
        idle = busy ? 0 : idle + 1;
    }
}
