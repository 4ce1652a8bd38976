/*
 * sweep.c - the sweeper: an actor that finds out who is idle.
 *
 * A message costs nothing for being counted here: the cell counts what it has
 * handled anyway, and the sweeper compares, at least four times in each idle
 * time. Whoever has handled nothing for the whole of it is asked to rest, and
 * refuses if it is busy (rule 29). So an actor rests between one and one and
 * a half idle times after its last message.
 *
 * Where a kind has more active ones than it allows, those not seen at work
 * for longest are asked; between two that were at work since the last sweep
 * the one that was activated first.
 */
#include <stdlib.h>

#include "cluster/catalog.h"
#include "core/mailbox.h"

enum { SWEEPS_PER_IDLE = 4 };

TR_MESSAGE(Sweep);
TR_MESSAGE(Crowded);
TR_MESSAGE(Pace, (int64_t, every));

typedef struct Sweeper {
    tri_cluster *cluster;
    tr_timer timer;
} Sweeper;

/* With the shard's lock: of one that is active. */
static uint64_t id_of(tri_virtual *v)
{
    // Relaxed: it does not change while it is active.
    return atomic_load_explicit(&v->cell.id, memory_order_relaxed);
}

static void ask_to_rest(tri_worker *worker, tri_virtual *v, uint64_t id)
{
    tri_signal(worker, &v->cell, id, TRI_SIG_IDLE);
}

/* Notes whether it was at work since the last look. */
static void look(tri_active *a, tr_nanos now)
{
    // Relaxed, both: counters of the owner.
    uint64_t handled =
        atomic_load_explicit(&a->v->cell.handled, memory_order_relaxed) -
        atomic_load_explicit(&a->quiet, memory_order_relaxed);
    if (handled != a->seen) {
        a->seen = handled;
        a->since = now;
    }
}

/* Nobody is active there; whoever is so meanwhile is not idle. */
static bool is_empty(tri_shard *shard)
{
    // Relaxed: a glance, which spares most of the locks.
    return atomic_load_explicit(&shard->active, memory_order_relaxed) == 0;
}

static void sweep(tri_worker *worker, tri_cluster *cluster, tr_nanos now)
{
    for (uint32_t i = 0; i < TRI_SHARDS; i++) {
        tri_shard *shard = &cluster->shards[i];
        if (is_empty(shard)) {
            continue;
        }
        tri_lock_take(&shard->lock);
        for (tri_active *a = shard->first; a != NULL; a = a->next) {
            look(a, now);
            if (now - a->since >= a->v->kind->idle) {
                ask_to_rest(worker, a->v, id_of(a->v));
            }
        }
        tri_lock_drop(&shard->lock);
    }
}

/* ---- too many of a kind ---- */

typedef struct candidate {
    tri_virtual *v;
    uint64_t id;  // its name may be forgotten meanwhile
    tr_nanos since;
    uint64_t order;
} candidate;

static int older_first(const void *left, const void *right)
{
    const candidate *a = left, *b = right;
    if (a->since != b->since) {
        return a->since < b->since ? -1 : 1;
    }
    return a->order < b->order ? -1 : a->order > b->order;
}

static uint32_t collect(tri_cluster *cluster, const tri_kind *kind,
                        tr_nanos now, candidate *all, uint32_t max)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < TRI_SHARDS; i++) {
        tri_shard *shard = &cluster->shards[i];
        if (is_empty(shard)) {
            continue;
        }
        tri_lock_take(&shard->lock);
        for (tri_active *a = shard->first; a != NULL && count < max;
             a = a->next) {
            if (a->v->kind == kind) {
                look(a, now);
                all[count++] =
                    (candidate){a->v, id_of(a->v), a->since, a->order};
            }
        }
        tri_lock_drop(&shard->lock);
    }
    return count;
}

static void thin_out(tri_worker *worker, tri_cluster *cluster, tri_kind *kind,
                     tr_nanos now)
{
    // Release: whoever activates from now on tells us again.
    atomic_store_explicit(&kind->crowded, false, memory_order_release);
    // Relaxed: only the number counts.
    uint32_t active = atomic_load_explicit(&kind->active, memory_order_relaxed);
    if (kind->max_active == 0 || active <= kind->max_active) {
        return;
    }
    candidate *all = calloc(active, sizeof(*all));
    if (all == NULL) {
        return;  // the next sweep tries again
    }
    uint32_t count = collect(cluster, kind, now, all, active);
    qsort(all, count, sizeof(*all), older_first);
    for (uint32_t i = 0; i < count && count - i > kind->max_active; i++) {
        ask_to_rest(worker, all[i].v, all[i].id);
    }
    free(all);
}

static void thin_out_all(tr_ctx *ctx, tri_cluster *cluster)
{
    tr_nanos now = tri_clock(ctx->worker);
    tri_lock_take(&cluster->kinds_lock);
    tri_kind *first = cluster->first_kind;
    tri_lock_drop(&cluster->kinds_lock);
    // Kinds are added in front and stay for the system's life.
    for (tri_kind *kind = first; kind != NULL; kind = kind->next) {
        thin_out(ctx->worker, cluster, kind, now);
    }
}

/* ---- the actor ---- */

static tr_err on_sweep(tr_ctx *ctx, Sweeper *self, const Sweep *m)
{
    (void)m;
    sweep(ctx->worker, self->cluster, tri_clock(ctx->worker));
    thin_out_all(ctx, self->cluster);
    return TR_OK;
}

static tr_err on_crowded(tr_ctx *ctx, Sweeper *self, const Crowded *m)
{
    (void)m;
    thin_out_all(ctx, self->cluster);
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

/* A message of the library's own, from wherever it is. */
static void tell(tri_cluster *cluster, tri_worker *worker, const tr_type *type,
                 const void *payload)
{
    tr_msg *msg = tri_msg_new(&worker->cache, type, payload, false);
    if (msg == NULL) {
        return;  // what is missed now is seen at the next sweep
    }
    tri_actor_from who = {.sys = cluster->sys, .worker = worker};
    if (tri_try_send(&who, cluster->sweeper, msg) != TR_OK) {
        tri_msg_free(&worker->cache, msg);
    }
}

tr_err tri_sweep_for(tri_cluster *cluster, tri_actor_from *who,
                     const tri_kind *kind)
{
    tr_nanos every = kind->idle / SWEEPS_PER_IDLE;
    if (every < 1) {
        every = 1;
    }
    if (cluster->sweeper.cell == 0) {
        tr_spawn_options options = {.size = sizeof(options),
                                    .name = "sweeper",
                                    .init = &(Sweeper){.cluster = cluster},
                                    .init_size = sizeof(Sweeper)};
        tr_ref made = tri_spawn_under(who, who->sys->system, &sweeper, &options,
                                      TRI_CELL_SYSTEM);
        if (made.cell == 0) {
            return made.id == TR_ESTOPPED ? TR_ECLOSED : (tr_err)made.id;
        }
        cluster->sweeper = made;
    }
    if (cluster->sweep_every == 0 || every < cluster->sweep_every) {
        cluster->sweep_every = every;
        tell(cluster, who->worker, &Pace_tr_type, &(Pace){.every = every});
    }
    return TR_OK;
}

void tri_sweep_crowded(tri_cluster *cluster, tri_worker *worker, tri_kind *kind)
{
    // Acquire: pairs with thin_out; told once is enough.
    if (!atomic_exchange_explicit(&kind->crowded, true, memory_order_acq_rel)) {
        tell(cluster, worker, &Crowded_tr_type, &(Crowded){});
    }
}
