/*
 * sweeper.c - the actor that deactivates idle virtual actors.
 *
 * Counting costs a message nothing: the cell counts what it has handled
 * anyway, and the sweeper compares at least four times in each idle time. An
 * activation that has handled nothing for that whole time is asked to end, and
 * refuses if it is busy. So an actor is deactivated between one and one and a
 * half idle times after its last message.
 *
 * If more activations of a kind are active than it allows, the least recently
 * used ones are asked to end; of two that have worked since the last sweep,
 * the one that was activated first.
 */
#include "cluster/virtual/sweeper.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/list.h"
#include "base/lock.h"
#include "cluster/virtual/activation.h"
#include "cluster/virtual/shard.h"
#include "cluster/virtual/virtual.h"
#include "core/cell/cell.h"
#include "core/cell/message.h"
#include "core/life/signal.h"
#include "core/life/spawn.h"
#include "core/mail/send.h"
#include "core/run/clock.h"
#include "core/run/context.h"
#include "core/run/worker.h"
#include "core/system.h"
#include "troupe/macros.h"
#include "troupe/message.h"

enum { SWEEPS_PER_IDLE = 4 };

TR_MESSAGE(Sweep);
TR_MESSAGE(Crowded);
TR_MESSAGE(Pace, (int64_t, every));

typedef struct Sweeper {
    tri_cluster *cluster;
    tr_timer timer;
} Sweeper;

/* An activation, for use without the shard's lock. */
typedef struct candidate {
    tri_virtual *v;
    uint64_t id;  // the record may belong to another name by then
    tr_nanos since;
    uint64_t order;
} candidate;

static candidate candidate_of(const tri_activation *a)
{
    // Relaxed: it does not change while the record is active.
    uint64_t id = atomic_load_explicit(&a->v->cell.id, memory_order_relaxed);
    TRI_CHECK(id != 0);
    return (candidate){a->v, id, a->since, a->order};
}

static void ask_to_end(tri_worker *worker, const candidate *c)
{
    TRI_CHECK(c->id != 0);
    tri_signal(worker, &c->v->cell, c->id, TRI_SIG_IDLE);
}

/* Notes when the activation has worked since the last look. */
static void note_work(tri_activation *a, tr_nanos now)
{
    // Relaxed, both: counters of the cell's owner.
    uint64_t handled =
        atomic_load_explicit(&a->v->cell.handled, memory_order_relaxed) -
        atomic_load_explicit(&a->quiet, memory_order_relaxed);
    if (handled != a->seen) {
        a->seen = handled;
        a->since = now;
    }
}

/* Returns how many are active; one that begins right now is not idle. */
static uint32_t active_in(tri_shard *shard)
{
    // Relaxed: an estimate, which saves taking most of the locks.
    return atomic_load_explicit(&shard->active, memory_order_relaxed);
}

/* ---- idle ---- */

/* Collects the idle activations of a shard, at most `max`. */
static uint32_t collect_idle(tri_shard *shard, tr_nanos now, candidate *all,
                             uint32_t max)
{
    uint32_t count = 0;
    tri_lock_take(&shard->lock);
    TRI_LIST_EACH_ITEM (a, &shard->activations, tri_activation, link) {
        note_work(a, now);
        if (now - a->since >= a->v->kind->idle && count < max) {
            all[count++] = candidate_of(a);
        }
    }
    tri_lock_drop(&shard->lock);
    return count;
}

static void sweep(tri_worker *worker, tri_cluster *cluster, tr_nanos now)
{
    for (uint32_t i = 0; i < TRI_SHARDS; i++) {
        tri_shard *shard = &cluster->shards[i];
        uint32_t max = active_in(shard);
        if (max == 0) {
            continue;
        }
        candidate *all = calloc(max, sizeof(*all));
        uint32_t count = collect_idle(shard, now, all, all != NULL ? max : 0);
        for (uint32_t k = 0; k < count; k++) {
            ask_to_end(worker, &all[k]);
        }
        free(all);  // without memory the next sweep asks
    }
}

/* ---- too many of a kind ---- */

static int older_first(const void *left, const void *right)
{
    const candidate *a = left, *b = right;
    if (a->since != b->since) {
        return a->since < b->since ? -1 : 1;
    }
    return a->order < b->order ? -1 : a->order > b->order;
}

/* Collects the activations of a kind in all shards, at most `max`. */
static uint32_t collect_kind(tri_cluster *cluster, const tri_kind *kind,
                             tr_nanos now, candidate *all, uint32_t max)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < TRI_SHARDS; i++) {
        tri_shard *shard = &cluster->shards[i];
        if (active_in(shard) == 0) {
            continue;
        }
        tri_lock_take(&shard->lock);
        TRI_LIST_EACH_ITEM (a, &shard->activations, tri_activation, link) {
            if (a->v->kind == kind && count < max) {
                note_work(a, now);
                all[count++] = candidate_of(a);
            }
        }
        tri_lock_drop(&shard->lock);
    }
    return count;
}

/* Asks the least recently used activations above the kind's limit to end. */
static void reduce_kind(tri_worker *worker, tri_cluster *cluster,
                        tri_kind *kind, tr_nanos now)
{
    // Release: an activation that begins after this tells the sweeper again.
    atomic_store_explicit(&kind->over_limit, false, memory_order_release);
    // Relaxed: only the number matters.
    uint32_t active = atomic_load_explicit(&kind->active, memory_order_relaxed);
    if (kind->max_active == 0 || active <= kind->max_active) {
        return;
    }
    candidate *all = calloc(active, sizeof(*all));
    if (all == NULL) {
        return;  // the next sweep tries again
    }
    uint32_t count = collect_kind(cluster, kind, now, all, active);
    qsort(all, count, sizeof(*all), older_first);
    for (uint32_t i = 0; i < count && count - i > kind->max_active; i++) {
        ask_to_end(worker, &all[i]);
    }
    free(all);
}

static void reduce_kinds(tr_ctx *ctx, tri_cluster *cluster)
{
    tr_nanos now = tri_clock(ctx->worker);
    for (tri_kind *kind = tri_kind_first(cluster); kind != NULL;
         kind = kind->next) {
        reduce_kind(ctx->worker, cluster, kind, now);
    }
}

/* ---- the actor ---- */

static tr_err on_sweep(tr_ctx *ctx, Sweeper *self, const Sweep *m)
{
    (void)m;
    sweep(ctx->worker, self->cluster, tri_clock(ctx->worker));
    reduce_kinds(ctx, self->cluster);
    return TR_OK;
}

static tr_err on_crowded(tr_ctx *ctx, Sweeper *self, const Crowded *m)
{
    (void)m;
    reduce_kinds(ctx, self->cluster);
    return TR_OK;
}

static tr_err on_pace(tr_ctx *ctx, Sweeper *self, const Pace *m)
{
    tr_cancel(ctx, self->timer);
    self->timer = tr_every(ctx, m->every, Sweep);
    return TR_OK;
}

TR_ACTOR(sweeper, Sweeper, TR_ON(Sweep, on_sweep), TR_ON(Crowded, on_crowded),
         TR_ON(Pace, on_pace));

/* ---- telling it ---- */

static void tell(tri_cluster *cluster, tri_worker *worker, const tr_type *type,
                 const void *payload)
{
    tri_lock_take(&cluster->kinds_lock);
    tr_ref to = cluster->sweeper;
    tri_lock_drop(&cluster->kinds_lock);
    TRI_CHECK(to.cell != 0);
    tr_msg *msg = tri_msg_new(&worker->cache, type, payload, false);
    if (msg == NULL) {
        return;  // the next sweep sees what was to be told
    }
    tri_caller who = {.sys = cluster->sys, .worker = worker};
    if (tri_try_send(&who, to, msg) != TR_OK) {
        tri_msg_free(&worker->cache, msg);
    }
}

static bool is_started(tri_cluster *cluster)
{
    tri_lock_take(&cluster->kinds_lock);
    bool started = cluster->sweeper.cell != 0;
    tri_lock_drop(&cluster->kinds_lock);
    return started;
}

tr_err tri_sweeper_start(tri_cluster *cluster, tri_caller *who)
{
    TRI_CHECK(cluster != NULL && who != NULL);
    if (is_started(cluster)) {
        return TR_OK;
    }
    tr_spawn_options options = {.size = sizeof(options),
                                .name = "sweeper",
                                .init = &(Sweeper){.cluster = cluster},
                                .init_size = sizeof(Sweeper)};
    tr_ref made = tri_spawn_under(who, who->sys->system, &sweeper, &options,
                                  TRI_CELL_SYSTEM);
    if (made.cell == 0 && tr_ref_err(made) == TR_EEXIST) {
        // Another thread has spawned it and stores its ref next.
        while (!is_started(cluster)) {
            tri_lock_yield();
        }
        return TR_OK;
    }
    if (made.cell == 0) {
        tr_err err = tr_ref_err(made);
        return err == TR_ESTOPPED ? TR_ECLOSED : err;
    }
    tri_lock_take(&cluster->kinds_lock);
    cluster->sweeper = made;
    tri_lock_drop(&cluster->kinds_lock);
    return TR_OK;
}

void tri_sweeper_add_kind(tri_cluster *cluster, tri_worker *worker,
                          const tri_kind *kind)
{
    TRI_CHECK(kind->idle > 0);
    tr_nanos every = kind->idle / SWEEPS_PER_IDLE;
    every = every < 1 ? 1 : every;
    tri_lock_take(&cluster->kinds_lock);
    bool faster = cluster->sweep_every == 0 || every < cluster->sweep_every;
    if (faster) {
        cluster->sweep_every = every;
    }
    tri_lock_drop(&cluster->kinds_lock);
    if (faster) {
        tell(cluster, worker, &Pace_tr_type, &(Pace){.every = every});
    }
}

void tri_sweeper_over_limit(tri_cluster *cluster, tri_worker *worker,
                            tri_kind *kind)
{
    TRI_CHECK(kind->max_active > 0);
    // Acquire and release: pairs with reduce_kind; one message is enough.
    if (!atomic_exchange_explicit(&kind->over_limit, true,
                                  memory_order_acq_rel)) {
        tell(cluster, worker, &Crowded_tr_type, &(Crowded){});
    }
}
