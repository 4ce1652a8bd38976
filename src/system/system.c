/*
 * system.c - opening a system, adding dispatchers to it, and freeing it.
 *
 * A system is made in steps: memory, options, the worker of outside threads,
 * pools and their threads, guardians. tri_system_free takes back whatever of
 * them exists, so an opening that fails leaves nothing behind. How an open
 * system ends is in shutdown.c.
 */
#include "system/system.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/fiber.h"
#include "base/lock.h"
#include "base/map.h"
#include "base/options.h"
#include "base/owner.h"
#include "base/text.h"
#include "base/world.h"
#include "core/ask/error_text.h"
#include "core/cell/behaviour.h"
#include "core/cell/mem.h"
#include "core/life/family.h"
#include "core/life/join.h"
#include "core/life/supervise.h"
#include "core/run/monitor.h"
#include "core/run/pool.h"
#include "core/run/scheduler.h"
#include "core/run/timer.h"
#include "core/run/worker.h"
#include "core/system.h"
#include "core/types.h"
#include "core/up.h"
#include "system/events.h"
#include "system/guardian.h"
#include "system/io.h"
#include "system/layers.h"
#include "system/poll.h"
#include "system/reminders.h"
#include "system/router.h"
#include "system/stores.h"
#include "system/topics.h"
#include "system/up.h"
#include "troupe/supervise.h"
#include "troupe/system.h"

enum {
    SOFT_LIMIT = 4096,
    MAX_PARKED = 16384,
    BLOCKING_THREADS = 64,
    BLOCKING_WORKERS = 4,
};

/* A call of tr_system_on_closed. */
typedef struct tri_closed_call {
    struct tri_closed_call *next;
    void (*fn)(void *arg);
    void *arg;
} tri_closed_call;

/* ---- options ---- */

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
    if (o->workers > TRI_POOL_WORKERS_MAX) {
        o->workers = TRI_POOL_WORKERS_MAX;
    }
    // Each worker also needs a stack that runs and a few spare ones.
    o->max_parked = tri_fiber_max_for(o->max_parked, o->workers);
}

/* Refuses spans of time below zero, with a text. */
static tr_err check_spans(const tr_system_options *o)
{
    const char *wrong = o->ask_timeout < 0     ? "ask_timeout"
                        : o->close_timeout < 0 ? "close_timeout"
                        : o->handler_limit < 0 ? "handler_limit"
                                               : NULL;
    if (wrong != NULL) {
        tri_error_set(NULL, "tr_system_open: .%s is below 0", wrong);
        return TR_EINVAL;
    }
    return TR_OK;
}

/* Sets the error text about an option and returns TR_EINVAL. */
static tr_err refuse(const char *option, const char *why)
{
    TRI_CHECK(option != NULL && why != NULL);
    tri_error_set(NULL, "tr_system_open: %s%s", option, why);
    return TR_EINVAL;
}

/* Refuses a supervision policy that makes no sense before actors use it. */
static tr_err take_policy(tr_supervision *out, const tr_supervision *given,
                          const char *option)
{
    tr_supervision none = {.size = sizeof(none)};
    if (!tri_options_copy(out, sizeof(*out),
                          TRI_SIZE_THROUGH(tr_supervision, retry_message),
                          given != NULL ? given : &none)) {
        return refuse(option, "size is not sizeof(tr_supervision)");
    }
    const char *why = tri_supervision_fill(out);
    return why == NULL ? TR_OK : refuse(option, why);
}

static tr_err check_options(tr_system *sys, const tr_system_options *o)
{
    tr_supervision user;
    if (o->stack_size < TRI_FIBER_STACK_MIN ||
        o->stack_size > TRI_FIBER_STACK_MAX) {
        return refuse("stack_size", " is not between 16 KiB and 1 GiB");
    }
    if (o->ns != NULL && !tri_text_is_word(o->ns)) {
        return refuse("ns", " is empty, or has a character other than "
                            "letters, digits, '-' and '_'");
    }
    TR_TRY(take_policy(&sys->supervision, o->supervision, "supervision."));
    return take_policy(&user, o->user_supervision, "user_supervision.");
}

/* ---- pools ---- */

static uint32_t driven_runnable(void *arg)
{
    TRI_CHECK(arg != NULL);
    return tri_worker_runnable(((tr_system *)arg)->driven_worker);
}

static void driven_step(void *arg, uint32_t index)
{
    TRI_CHECK(arg != NULL);
    tri_worker_step(((tr_system *)arg)->driven_worker, index);
}

static tr_nanos driven_next_due(void *arg)
{
    return tri_worker_due(((tr_system *)arg)->driven_worker);
}

static void driven_fire(void *arg, tr_nanos now)
{
    tri_worker *worker = ((tr_system *)arg)->driven_worker;
    worker->now = now;
    if (TRI_BUGGIFY(worker->sys->world, 0.05)) {
        return;  // as a thread that fires its timers late; the world asks again
    }
    tri_worker_fire(worker, now);
}

/* Prepares the one worker that the caller's thread, or the world, will run. */
static tr_err start_driven(tr_system *sys, tri_pool *pool)
{
    TRI_CHECK(sys->driven_worker == NULL);
    // Acquire: pairs with tri_worker_new.
    sys->driven_worker =
        atomic_load_explicit(&pool->workers[0], memory_order_acquire);
    sys->driven_worker->stepping = true;
    sys->driven_worker->special_batch = true;
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

/*
 * Makes the pools of the standard dispatchers and starts their threads. A
 * driven system has the same names without threads.
 */
static tr_err start_pools(tr_system *sys)
{
    bool driven = sys->options.poll || !sys->world->ops->has_threads;
    tri_pool *pool, *other;
    TR_TRY(tri_pool_new(sys, "parallel", TR_DISPATCH_PARALLEL,
                        driven ? 1 : sys->options.workers, false, &pool));
    TR_TRY(tri_pool_new(sys, "pinned", TR_DISPATCH_PINNED, 0, false, &other));
    TR_TRY(tri_pool_new(sys, "concurrent", TR_DISPATCH_CONCURRENT,
                        driven ? 0 : 1, false, &other));
    TR_TRY(tri_pool_new(sys, "blocking", TR_DISPATCH_BLOCKING,
                        driven ? 0 : BLOCKING_WORKERS, false, &other));
    if (driven) {
        return start_driven(sys, pool);
    }
    TR_TRY(tri_workers_start(sys, pool));
    return sys->world->ops->thread_start(sys->world, &sys->monitor,
                                         "tr-monitor", tri_monitor_main, sys);
}

tr_err(tr_dispatcher_add)(tr_system *sys, const char *name,
                          const tr_dispatcher_options *options)
{
    TRI_CHECK(sys->magic == TRI_SYSTEM_MAGIC);
    tr_dispatcher_options o;
    if (!tri_options_copy(&o, sizeof(o),
                          TRI_SIZE_THROUGH(tr_dispatcher_options, threads),
                          options) ||
        tri_name_check(name) != TR_OK ||
        (unsigned)o.kind > TR_DISPATCH_BLOCKING ||
        (o.start != NULL && o.kind == TR_DISPATCH_PINNED)) {
        return TR_EINVAL;
    }
    // Acquire: pairs with tri_shutdown_begin.
    if (atomic_load_explicit(&sys->terminating, memory_order_acquire)) {
        return TR_ECLOSED;
    }
    bool driven = sys->driven_worker != NULL;  // then there are no threads
    uint32_t threads = driven || o.kind == TR_DISPATCH_PINNED ? 0
                       : o.kind == TR_DISPATCH_CONCURRENT     ? 1
                       : o.threads != 0                       ? o.threads
                                        : sys->options.workers;
    tri_pool *pool;
    bool own = o.start != NULL && !driven;
    TR_TRY(tri_pool_new(sys, name, o.kind, threads, own, &pool));
    tr_err err = driven ? TR_OK
                 : own  ? tri_pool_start_own(pool, &o)
                        : tri_workers_start(sys, pool);
    if (err != TR_OK) {
        tri_pool_give_up(pool);
    }
    return err;
}

/* ---- after the end ---- */

static void make_closed_calls(tri_closed_call *call)
{
    while (call != NULL) {
        tri_closed_call *next = call->next;
        call->fn(call->arg);
        free(call);
        call = next;
    }
}

tr_err tr_system_on_closed(tr_system *sys, void (*fn)(void *arg), void *arg)
{
    TRI_CHECK(sys->magic == TRI_SYSTEM_MAGIC);
    TRI_CHECK(fn != NULL);
    tri_closed_calls *calls = &tri_layers_of(sys)->closed_calls;
    tri_closed_call *call = malloc(sizeof(*call));
    if (call == NULL) {
        return TR_ENOMEM;
    }
    *call = (tri_closed_call){.fn = fn, .arg = arg};
    tri_lock_take(&calls->lock);
    call->next = calls->newest;
    calls->newest = call;
    tri_lock_drop(&calls->lock);
    return TR_OK;
}

/* Frees the system layer's own part. */
static void free_layers(tr_system *sys)
{
    tri_events_free(sys);
    tri_dead_letters_fini(&tri_layers_of(sys)->dead);
    tri_topics_free(sys);
    tri_routers_free(sys);
    tri_reminders_free(sys);
    tri_stores_free(sys);
    tri_servers_free(&tri_layers_of(sys)->servers);
    free(sys->layers);
    sys->layers = NULL;
}

static void free_workers_and_pools(tr_system *sys)
{
    // Acquire, all: pair with tri_worker_new and tri_pool_new.
    uint32_t workers =
        atomic_load_explicit(&sys->worker_count, memory_order_acquire);
    for (uint32_t i = 0; i < workers; i++) {
        tri_worker_free(
            atomic_load_explicit(&sys->workers[i], memory_order_acquire));
    }
    uint32_t pools =
        atomic_load_explicit(&sys->pool_count, memory_order_acquire);
    for (uint32_t i = 0; i < pools; i++) {
        free(sys->pools[i]);
    }
}

void tri_system_free(tr_system *sys)
{
    TRI_CHECK(sys->magic == TRI_SYSTEM_MAGIC);
    tri_closed_call *calls =
        sys->layers != NULL ? tri_layers_of(sys)->closed_calls.newest : NULL;
    if (!sys->world->ops->has_threads && sys->driven.system != NULL) {
        sys->world->ops->detach(sys->world, &sys->driven);
    }
    const tri_virtual_ops *virtual_ops = tri_virtual_ops_of(sys);
    if (virtual_ops != NULL) {
        virtual_ops->free(sys);
    }
    if (sys->layers != NULL) {
        free_layers(sys);
    }
    free_workers_and_pools(sys);
    tri_results_free(sys);
    tri_behaviours_free(sys);
    tri_mem_fini(&sys->mem);
    free(sys->name);
    free(sys->ns);
    sys->magic = 0;
    sys->owner.magic = 0;
    free(sys);
    make_closed_calls(calls);
}

/* ---- opening ---- */

/* Fills in what needs no memory: no other thread knows the system yet. */
static void init_fields(tr_system *sys, tri_world *world,
                        const tr_system_options *o)
{
    sys->magic = TRI_SYSTEM_MAGIC;
    sys->owner = (tri_owner){TRI_OWNER_MAGIC, &tri_system_owner};
    sys->world = world;
    sys->up = &tri_system_up;
    sys->options = *o;
    // Relaxed: no other thread knows the system yet.
    atomic_store_explicit(&sys->log_level, o->log_level, memory_order_relaxed);
    // Never 0, the tag of refs to nobody: a ref with our tag has a cell.
    sys->tag = (uint16_t)(world->ops->random(world) % 0xffff + 1);
    // Relaxed, both: no other thread knows the system yet.
    atomic_store_explicit(&sys->next_id, 1, memory_order_relaxed);
    sys->kinds[0] = "(others)";
    atomic_store_explicit(&sys->kind_count, 1, memory_order_relaxed);
    tri_mem_init(&sys->mem, o->memory_budget);
    tri_map_init(&sys->behaviours, NULL, NULL);
    tri_map_init(&sys->results, NULL, NULL);
}

/* Makes the copies of texts, and the system layer's own part. */
static tr_err init_parts(tr_system *sys, const tr_system_options *o)
{
    tri_layers *layers = calloc(1, sizeof(*layers));
    sys->layers = layers;
    sys->name = strdup(o->name != NULL ? o->name : "troupe");
    sys->ns = o->ns != NULL ? strdup(o->ns) : NULL;
    sys->options.ns = sys->ns;
    if (layers == NULL || sys->name == NULL ||
        (o->ns != NULL && sys->ns == NULL)) {
        // tri_system_free takes a part apart only if all of it was made.
        free(layers);
        sys->layers = NULL;
        return TR_ENOMEM;
    }
    tri_topics_init(&layers->topics);
    tri_routers_init(&layers->routers);
    return tri_dead_letters_init(&layers->dead, o->dead_letters);
}

/* Makes everything that runs: the outside worker, pools and guardians. */
static tr_err start(tr_system *sys)
{
    sys->outside = tri_worker_new(sys, NULL);
    if (sys->outside == NULL) {
        return TR_ENOMEM;
    }
    sys->outside->is_outside = true;
    TR_TRY(start_pools(sys));
    return tri_guardians_spawn(sys);
}

tr_err tri_system_open(tr_system **out, const tr_system_options *options,
                       tri_virtual_named *virtual_named)
{
    TRI_CHECK(out != NULL);
    TRI_CHECK(virtual_named != NULL);
    *out = NULL;
    tr_system_options o;
    if (!tri_options_copy(&o, sizeof(o),
                          TRI_SIZE_THROUGH(tr_system_options, log_user),
                          options)) {
        return refuse("", "its size is not sizeof(tr_system_options)");
    }
    TR_TRY(check_spans(&o));
    tri_world *world = tri_world_given(o.world, "tr_system_open");
    tr_system *sys = calloc(1, sizeof(*sys));
    if (sys == NULL) {
        return TR_ENOMEM;
    }
    fill_options(&o, world);
    init_fields(sys, world, &o);
    sys->virtual_named = virtual_named;
    tr_err err = init_parts(sys, &o);
    if (err == TR_OK) {
        err = check_options(sys, &o);
    }
    if (err == TR_OK) {
        err = start(sys);
        if (err != TR_OK) {
            tri_error_set(NULL, "tr_system_open: %s%s", tr_strerror(err),
                          err == TR_ELIMIT ? ": no more threads" : "");
        }
    }
    if (err != TR_OK) {
        tri_io_close(sys);
        tri_workers_stop(sys);
        tri_guardians_free(sys);
        tri_system_free(sys);
        return err;
    }
    tri_mem_limit(&sys->mem, o.memory_budget);
    *out = sys;
    return TR_OK;
}

const void *tr_system_world(const tr_system *sys)
{
    TRI_CHECK(sys->magic == TRI_SYSTEM_MAGIC);
    return sys->world;
}

/* ---- threads of the program ---- */

tr_err tr_thread_start(tr_system *sys, tr_thread **out, void (*fn)(void *arg),
                       void *arg)
{
    TRI_CHECK(sys->magic == TRI_SYSTEM_MAGIC);
    TRI_CHECK(out != NULL);
    TRI_CHECK(fn != NULL);
    tri_thread *thread = NULL;
    tr_err err =
        sys->world->ops->thread_start(sys->world, &thread, "outside", fn, arg);
    *out = (tr_thread *)thread;
    return err;
}

void tr_thread_join(tr_system *sys, tr_thread *thread)
{
    TRI_CHECK(sys->magic == TRI_SYSTEM_MAGIC);
    TRI_CHECK(thread != NULL);
    sys->world->ops->thread_join(sys->world, (tri_thread *)thread);
}
