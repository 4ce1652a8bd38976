/*
 * system.c - opening and closing a system; its guardians.
 *
 * The order of the end (SH8, X18): /user, the hooks, /system, the root, then
 * the threads, then dead letters and event stream. Every phase has a deadline;
 * what does not keep it is named in the log and forced.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/options.h"
#include "system/layers.h"

enum {
    SOFT_LIMIT = 4096,
    MAX_PARKED = 16384,
    BLOCKING_THREADS = 64,
    BLOCKING_WORKERS = 4,
    GUARDIANS = 5,  // /, /user, /system, /deadLetters, /temp
};

#define JOIN_AGAIN TR_MS(10)         // after one for which there was no memory
#define SPAN_MAX   (TR_FOREVER / 4)  // of a close: its end is a time, too

static const tr_actor_def guardian = {
    .size = sizeof(tr_actor_def), .name = "guardian", .state_size = 0};

/* ---- opening ---- */

static void fill_options(tr_system_options *o, tri_world *world)
{
#define DEFAULT(field, value)                                                  \
    if (o->field == 0) o->field = (value)
    DEFAULT(workers, world->ops->cpus(world));
    DEFAULT(blocking_threads, BLOCKING_THREADS);
    DEFAULT(soft_limit, SOFT_LIMIT);
    DEFAULT(max_parked, MAX_PARKED);
    DEFAULT(stack_size, TRI_FIBER_STACK_DEFAULT);
    DEFAULT(handler_limit, TR_MS(100));
    DEFAULT(ask_timeout, TR_SECONDS(30));
    DEFAULT(close_timeout, TR_SECONDS(30));
#undef DEFAULT
    if (o->workers > TRI_GROUP_MAX) {
        o->workers = TRI_GROUP_MAX;
    }
    // Every worker also has a running stack and a few spare ones.
    o->max_parked = tri_fiber_max_for(o->max_parked, o->workers);
}

static bool take_policy(tr_supervision *out, const tr_supervision *given)
{
    tr_supervision none = {.size = sizeof(none)};
    return tri_options_copy(out, sizeof(*out),
                            TRI_SIZE_THROUGH(tr_supervision, retry_message),
                            given != NULL ? given : &none) &&
           tri_supervision_fill(out);
}

/* SV27: a policy that makes no sense is refused here. */
static tr_err take_policies(tr_system *sys, const tr_system_options *o)
{
    tr_supervision user;
    return take_policy(&sys->supervision, o->supervision) &&
                   take_policy(&user, o->user_supervision)
               ? TR_OK
               : TR_EINVAL;
}

static uint32_t driven_runnable(void *arg)
{
    return tri_worker_runnable(((tr_system *)arg)->driven_worker);
}

static void driven_step(void *arg, uint32_t index)
{
    tri_worker_step(((tr_system *)arg)->driven_worker, index);
}

static tr_nanos driven_next_due(void *arg)
{
    // The world's thread is the worker's thread.
    return tri_worker_due(((tr_system *)arg)->driven_worker);
}

static void driven_fire(void *arg, tr_nanos now)
{
    tri_worker *worker = ((tr_system *)arg)->driven_worker;
    worker->now = now;
    if (TRI_BUGGIFY(worker->sys->world, 0.05)) {
        return;  // a thread that looks at its timers late; it is asked again
    }
    tri_worker_fire(worker, now);
}

/* One thread runs everything: the caller's, or the world's. */
static tr_err start_driven(tr_system *sys, tri_group *group)
{
    // Acquire: pairs with tri_worker_new.
    sys->driven_worker =
        atomic_load_explicit(&group->workers[0], memory_order_acquire);
    sys->driven_worker->stepping = true;
    sys->driven_worker->apart = true;
    tri_fiber *first = tri_fiber_take(&sys->driven_worker->fibers);
    if (first == NULL) {
        return TR_ENOMEM;
    }
    tri_fiber_give(&sys->driven_worker->fibers, first);
    TR_TRY(tri_poll_open(sys));
    if (!sys->world->ops->has_threads) {
        sys->driven = (tri_driven){.system = sys,
                                   .runnable = driven_runnable,
                                   .step = driven_step,
                                   .next_due = driven_next_due,
                                   .fire = driven_fire};
        sys->world->ops->attach(sys->world, &sys->driven);
    }
    return TR_OK;
}

/* A driven system knows the same names, but has no threads behind them. */
static tr_err start_groups(tr_system *sys)
{
    bool driven = sys->options.poll || !sys->world->ops->has_threads;
    tri_group *group, *other;
    TR_TRY(tri_group_new(sys, "parallel", TR_DISPATCH_PARALLEL,
                         driven ? 1 : sys->options.workers, &group));
    TR_TRY(tri_group_new(sys, "pinned", TR_DISPATCH_PINNED, 0, &other));
    TR_TRY(tri_group_new(sys, "concurrent", TR_DISPATCH_CONCURRENT,
                         driven ? 0 : 1, &other));
    TR_TRY(tri_group_new(sys, "blocking", TR_DISPATCH_BLOCKING,
                         driven ? 0 : BLOCKING_WORKERS, &other));
    if (driven) {
        return start_driven(sys, group);
    }
    TR_TRY(tri_workers_start(sys, group));
    return sys->world->ops->thread_start(sys->world, &sys->monitor,
                                         "tr-monitor", tri_monitor_main, sys);
}

/* *out is the cell as soon as there is one, whatever is missing then. */
static tr_err spawn_guardian(tr_system *sys, tri_cell *parent, const char *name,
                             const tr_supervision *policy, tri_cell **out,
                             uint64_t *id)
{
    tr_spawn_options options = {.size = sizeof(options),
                                .name = name,
                                .supervision = policy,
                                .stop_timeout = TR_FOREVER / 4};
    tri_actor_from who = tri_enter((tr_from){.sys = sys});
    tr_ref ref =
        tri_spawn_under(&who, parent, &guardian, &options, TRI_CELL_SYSTEM);
    *out = tri_ref_cell(ref);
    *id = ref.id;
    // With its family from the start: that can be closed without memory.
    bool whole = *out != NULL && tri_ext_need(who.worker, *out) != NULL;
    tri_leave(&who);
    return whole ? TR_OK : TR_ENOMEM;
}

/*
 * A guardian that fails ends: then the root ends the system (SV29). /user
 * carries the policy of its children, of which it is the guardian.
 */
static tr_err spawn_guardians(tr_system *sys)
{
    TR_TRY(spawn_guardian(sys, NULL, NULL, NULL, &sys->root, &sys->root_id));
    TR_TRY(spawn_guardian(sys, sys->root, "user", sys->options.user_supervision,
                          &sys->user, &sys->user_id));
    TR_TRY(spawn_guardian(sys, sys->root, "system", NULL, &sys->system,
                          &sys->system_id));
    // Places in the tree; askers are shown below /temp, but live nowhere.
    uint64_t id;
    tri_cell *temp;
    TR_TRY(spawn_guardian(sys, sys->root, "deadLetters", NULL,
                          &tri_layers_of(sys)->dead_letters, &id));
    return spawn_guardian(sys, sys->root, "temp", NULL, &temp, &id);
}

static void bury(tr_system *sys, tri_cell *cell)
{
    tri_ext_free(sys->outside, cell);
    free((void *)(uintptr_t)cell->name);
    tri_props_drop(cell->props);
}

/* Of a system that could not be opened, when no thread runs any more. */
static void bury_guardians(tr_system *sys)
{
    tri_ext *family = sys->root != NULL ? tri_ext_of(sys->root) : NULL;
    for (tri_cell *child = family != NULL ? family->first_child : NULL, *next;
         child != NULL; child = next) {
        next = child->sibling_next;
        bury(sys, child);
    }
    if (sys->root != NULL) {
        bury(sys, sys->root);
    }
}

static void run_closers(tri_at_closed *closer)
{
    while (closer != NULL) {
        tri_at_closed *next = closer->next;
        closer->fn(closer->arg);
        free(closer);
        closer = next;
    }
}

void tri_system_free(tr_system *sys)
{
    tri_layers *layers = sys->layers;
    tri_at_closed *closers = layers != NULL ? layers->closers : NULL;
    if (!sys->world->ops->has_threads && sys->driven.system != NULL) {
        sys->world->ops->detach(sys->world, &sys->driven);
    }
    const tri_virtual_ops *virtual_ops = tri_virtual_ops_of(sys);
    if (virtual_ops != NULL) {
        virtual_ops->free(sys);
    }
    if (layers != NULL) {
        tri_events_free(sys);
        tri_topics_free(sys);
        tri_top_levels_free(sys);
        tri_routers_free(sys);
        tri_reminders_free(sys);
        tri_stores_free(sys);
        free(layers);
    }
    uint32_t workers =
        atomic_load_explicit(&sys->worker_count, memory_order_acquire);
    for (uint32_t i = 0; i < workers; i++) {
        tri_worker_free(
            atomic_load_explicit(&sys->workers[i], memory_order_acquire));
    }
    uint32_t groups =
        atomic_load_explicit(&sys->group_count, memory_order_acquire);
    for (uint32_t i = 0; i < groups; i++) {
        free(sys->groups[i]);
    }
    tri_results_free(sys);
    tri_behaviours_free(sys);
    tri_mem_fini(&sys->mem);
    free(sys->name);
    free(sys->ns);
    sys->magic = 0;
    free(sys);
    run_closers(closers);
}

tr_err(tr_system_open)(tr_system **out, const tr_system_options *options)
{
    TRI_CHECK(out != NULL);
    *out = NULL;
    tr_system_options o;
    if (!tri_options_copy(&o, sizeof(o),
                          TRI_SIZE_THROUGH(tr_system_options, log_user),
                          options)) {
        return TR_EINVAL;
    }
    tri_world *world = tri_world_given(o.world, "tr_system_open");
    tr_system *sys = calloc(1, sizeof(*sys));
    if (sys == NULL) {
        return TR_ENOMEM;
    }
    sys->magic = TRI_SYSTEM_MAGIC;
    sys->world = world;
    sys->up = &tri_system_up;
    fill_options(&o, world);
    sys->options = o;
    // Never 0, which is nobody's (rule 31): a ref with our tag has a cell.
    sys->tag = (uint16_t)(world->ops->random(world) % 0xffff + 1);
    // Relaxed: no other thread knows the system yet.
    atomic_store_explicit(&sys->next_id, 1, memory_order_relaxed);
    tri_mem_init(&sys->mem, o.memory_budget);
    tri_map_init(&sys->behaviours, NULL, NULL);
    sys->kinds[0] = "(others)";
    // Relaxed: no other thread knows the system yet.
    atomic_store_explicit(&sys->kind_count, 1, memory_order_relaxed);
    tri_map_init(&sys->results, NULL, NULL);
    sys->layers = calloc(1, sizeof(tri_layers));
    sys->name = strdup(o.name != NULL ? o.name : "troupe");
    sys->ns = o.ns != NULL ? strdup(o.ns) : NULL;
    sys->options.ns = sys->ns;
    tr_err err = sys->layers != NULL && sys->name != NULL &&
                         (o.ns == NULL || sys->ns != NULL)
                     ? TR_OK
                     : TR_ENOMEM;
    if (err == TR_OK) {
        tri_layers_init(sys);
        err = take_policies(sys, &o);
    }
    if (err == TR_OK && (sys->outside = tri_worker_new(sys, NULL)) == NULL) {
        err = TR_ENOMEM;
    }
    if (err == TR_OK) {
        sys->outside->is_outside = true;
        err = start_groups(sys);
    }
    if (err == TR_OK) {
        err = spawn_guardians(sys);
    }
    if (err != TR_OK) {
        tri_io_close(sys);
        tri_workers_stop(sys);
        bury_guardians(sys);
        tri_system_free(sys);
        return err;
    }
    *out = sys;
    return TR_OK;
}

tr_err(tr_dispatcher_add)(tr_system *sys, const char *name,
                          const tr_dispatcher_options *options)
{
    tr_dispatcher_options o;
    if (!tri_options_copy(&o, sizeof(o),
                          TRI_SIZE_THROUGH(tr_dispatcher_options, threads),
                          options) ||
        tri_name_check(name) != TR_OK ||
        (unsigned)o.kind > TR_DISPATCH_BLOCKING) {
        return TR_EINVAL;
    }
    // Acquire: pairs with begin_end.
    if (atomic_load_explicit(&sys->terminating, memory_order_acquire)) {
        return TR_ECLOSED;
    }
    bool driven = sys->driven_worker != NULL;  // the name is all there is
    uint32_t threads = driven || o.kind == TR_DISPATCH_PINNED ? 0
                       : o.kind == TR_DISPATCH_CONCURRENT     ? 1
                       : o.threads != 0                       ? o.threads
                                        : sys->options.workers;
    tri_group *group;
    TR_TRY(tri_group_new(sys, name, o.kind, threads, &group));
    return driven ? TR_OK : tri_workers_start(sys, group);
}

/* ---- ending ---- */

static void signal_cell(tr_system *sys, tri_cell *cell, uint64_t id,
                        uint32_t signal)
{
    tri_actor_from who = tri_enter((tr_from){.sys = sys});
    tri_signal(who.worker, cell, id, signal);
    tri_leave(&who);
}

static tr_ref guardian_ref(tr_system *sys, tri_cell *cell)
{
    return tri_cell_ref(sys, cell);
}

void tri_system_begin_end(tr_system *sys)
{
    // Acquire and release: only the first one goes on.
    if (atomic_exchange_explicit(&sys->terminating, 1, memory_order_acq_rel) ==
        0) {
        signal_cell(sys, sys->user, sys->user_id, TRI_SIG_STOP);
        sys->world->ops->wake(sys->world, &sys->terminating, UINT32_MAX);
    }
}

void tr_system_terminate(tr_system *sys)
{
    TRI_CHECK(sys->magic == TRI_SYSTEM_MAGIC);
    tri_system_begin_end(sys);
}

/* Tells which actors did not stop; their waits end (rule 7). */
static void name_the_late(tr_system *sys)
{
    // Relaxed: a statistic.
    atomic_store_explicit(&tri_layers_of(sys)->late_named, true,
                          memory_order_relaxed);
    size_t room = tr_actors(sys, NULL, 0);
    tr_actor_info *late = calloc(room, sizeof(*late));
    size_t count = late != NULL ? tr_actors(sys, late, room) : 0;
    for (size_t i = 0; i < count && i < room; i++) {
        tri_cell *cell = tri_ref_cell(late[i].ref);
        // Relaxed: fixed at spawn, or another's: the signal knows.
        if (atomic_load_explicit(&cell->flags, memory_order_relaxed) &
            TRI_CELL_SYSTEM) {
            continue;
        }
        tri_logf(sys, TR_LOG_WARN, NULL, late[i].path,
                 "did not stop in time: state %s, %u messages waiting, "
                 "handling %s",
                 tri_state_name(late[i].state), late[i].depth,
                 late[i].running != NULL ? late[i].running : "nothing known");
        // Relaxed: a statistic.
        atomic_fetch_add_explicit(&tri_layers_of(sys)->forced, 1,
                                  memory_order_relaxed);
        signal_cell(sys, cell, late[i].ref.id, TRI_SIG_CLOSING);
    }
    free(late);
}

static void collect_force(tr_system *sys)
{
    name_the_late(sys);
    signal_cell(sys, sys->user, sys->user_id, TRI_SIG_FORCE);
}

/* Stops a guardian and waits for its end. */
static bool end_guardian(tr_system *sys, tr_ref ref, uint32_t signal,
                         tr_nanos deadline)
{
    tri_world *world = sys->world;
    signal_cell(sys, tri_ref_cell(ref), ref.id, signal);
    for (;;) {
        tr_nanos now = world->ops->mono(world);
        tr_nanos left = deadline > now ? deadline - now : 1;
        tr_err err = tr_join(sys, ref, left, NULL, NULL);
        if (err != TR_ENOMEM || left <= JOIN_AGAIN) {
            return err != TR_ETIMEDOUT && err != TR_ENOMEM;
        }
        // Others are ending and give memory back.
        _Atomic(uint32_t) nobody = 0;
        tri_drive_or_park(sys, &nobody, 0, JOIN_AGAIN);
    }
}

/* The virtual actors end when nobody can call them any more. */
static bool end_virtuals(tr_system *sys, tr_nanos deadline)
{
    const tri_virtual_ops *ops = tri_virtual_ops_of(sys);
    if (ops == NULL) {
        return true;
    }
    tr_ref top = ops->close(sys);
    tr_nanos now = sys->world->ops->mono(sys->world);
    tr_nanos half = deadline > now ? now + (deadline - now) / 2 : now;
    return end_guardian(sys, top, TRI_SIG_STOP, half) ||
           end_guardian(sys, top, TRI_SIG_FORCE | TRI_SIG_CLOSING, deadline);
}

/* The last actor tells of its end before it is quite gone. */
static uint32_t wait_for_last(tr_system *sys, tr_nanos deadline)
{
    tri_world *world = sys->world;
    tri_live_await(sys);
    for (;;) {
        // Seq_cst: before the count; pairs with tri_live_less.
        uint32_t word =
            atomic_load_explicit(&sys->last_word, memory_order_seq_cst);
        uint32_t left = (uint32_t)tri_live_count(sys);
        tr_nanos now = world->ops->mono(world);
        if (left == 0 || now >= deadline) {
            return left;
        }
        tri_drive_or_park(sys, &sys->last_word, word, deadline - now);
    }
}

static void stop_threads_and_free(tr_system *sys)
{
    tri_io_close(sys);
    tri_workers_stop(sys);
    tri_system_free(sys);
}

tr_err tr_system_close_report(tr_system *sys, tr_nanos timeout,
                              tr_close_report *report)
{
    TRI_CHECK(sys->magic == TRI_SYSTEM_MAGIC);
    TRI_CHECK(tri_worker_current() == NULL || tri_worker_current()->sys != sys);
    tri_world *world = sys->world;
    tri_layers *layers = tri_layers_of(sys);
    // Relaxed: whoever made it has told us, or we could not know of it.
    if (atomic_load_explicit(&layers->probes, memory_order_relaxed) > 0) {
        tr_abort("tr_system_close",
                 "a probe is open: tr_probe_free comes first");
    }
    tr_nanos span = timeout > 0 ? timeout : sys->options.close_timeout;
    span = TRI_MIN(span, SPAN_MAX);
    tr_nanos start = world->ops->mono(world);
    tr_ref user = guardian_ref(sys, sys->user);
    user.id = sys->user_id;
    uint64_t ended_before = tri_ended_count(sys);

    tri_poll_own(sys);
    tri_system_begin_end(sys);
    bool clean = end_guardian(sys, user, TRI_SIG_STOP, start + span / 2);
    if (!clean) {
        collect_force(sys);
        clean =
            end_guardian(sys, user, TRI_SIG_FORCE, start + span / 2 + span / 4);
    }
    tri_hooks_run(sys, start + span);
    clean = end_virtuals(sys, start + span) && clean;
    tri_events_flush(sys, start + span);
    bool ended = end_guardian(
        sys, (tr_ref){guardian_ref(sys, sys->system).cell, sys->system_id},
        TRI_SIG_STOP, start + span);
    tr_ref root = {guardian_ref(sys, sys->root).cell, sys->root_id};
    // All of its time, and a second where that is over.
    tr_nanos at_least = world->ops->mono(world) + TR_SECONDS(1);
    ended = end_guardian(sys, root, TRI_SIG_STOP,
                         TRI_MAX(start + span, at_least)) &&
            ended;
    // Relaxed: statistics.
    uint32_t forced =
        atomic_load_explicit(&layers->forced, memory_order_relaxed);
    uint32_t zombies = wait_for_last(sys, start + span + TR_SECONDS(1));
    if (report != NULL) {
        report->forced = forced;
        report->zombies = zombies;
        uint32_t own = GUARDIANS + (layers->listener.cell != 0);
        uint32_t gone = (uint32_t)(tri_ended_count(sys) - ended_before);
        uint32_t not_ours = own + (forced > zombies ? forced - zombies : 0);
        report->stopped = gone > not_ours ? gone - not_ours : 0;
        report->dead_letters = layers->dead_count;
    }
    if (zombies > 0) {
        // A handler that never returns owns its stack and its thread; what
        // it may still touch cannot be freed.
        tri_logf(sys, TR_LOG_ERROR, NULL, NULL,
                 "%u actors never returned; their system is left behind",
                 zombies);
        tri_stores_leave(sys);
        return TR_ETIMEDOUT;
    }
    stop_threads_and_free(sys);
    return forced > 0 || !clean || !ended ? TR_ETIMEDOUT : TR_OK;
}

tr_err tr_system_close(tr_system *sys, tr_nanos timeout)
{
    return tr_system_close_report(sys, timeout, NULL);
}

tr_err tr_system_on_closed(tr_system *sys, void (*fn)(void *arg), void *arg)
{
    TRI_CHECK(sys->magic == TRI_SYSTEM_MAGIC);
    TRI_CHECK(fn != NULL);
    tri_layers *layers = tri_layers_of(sys);
    tri_at_closed *closer = malloc(sizeof(*closer));
    if (closer == NULL) {
        return TR_ENOMEM;
    }
    *closer = (tri_at_closed){.fn = fn, .arg = arg};
    tri_lock_take(&layers->hooks_lock);
    closer->next = layers->closers;
    layers->closers = closer;
    tri_lock_drop(&layers->hooks_lock);
    return TR_OK;
}

const void *tr_system_world(const tr_system *sys)
{
    TRI_CHECK(sys->magic == TRI_SYSTEM_MAGIC);
    return sys->world;
}

tr_err tr_system_run(tr_system *sys)
{
    tri_top_levels_close(sys);
    tri_world *world = sys->world;
    if (world->ops->wait_signal == NULL) {
        while (atomic_load_explicit(&sys->terminating, memory_order_acquire) ==
               0) {
            world->ops->park(world, &sys->terminating, 0, TR_FOREVER);
        }
        return TR_OK;
    }
    world->ops->wait_signal(world, &sys->terminating, 0);
    tri_system_begin_end(sys);
    return TR_OK;
}

/* ---- threads of the program ---- */

tr_err tr_thread_start(tr_system *sys, tr_thread **out, void (*fn)(void *arg),
                       void *arg)
{
    tri_thread *thread = NULL;
    tr_err err =
        sys->world->ops->thread_start(sys->world, &thread, "outside", fn, arg);
    *out = (tr_thread *)thread;
    return err;
}

void tr_thread_join(tr_system *sys, tr_thread *thread)
{
    sys->world->ops->thread_join(sys->world, (tri_thread *)thread);
}
