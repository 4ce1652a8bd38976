/*
 * activation.c - begins and ends the activations of virtual actors.
 *
 * Invariant: before its mailbox opens, an activation has the epoch of its shard,
 * is a child of the guardian, is counted and is in the list of its shard. All
 * of that is undone, with both mailboxes closed, before the next one begins.
 * The lock of the shard is held throughout, so no other thread sees it half
 * made.
 */
#include "cluster/virtual/activation.h"

#include <stdatomic.h>
#include <stddef.h>

#include "base/check.h"
#include "base/list.h"
#include "base/lock.h"
#include "cluster/bus/bus.h"
#include "cluster/virtual/activation_state.h"
#include "cluster/virtual/kind.h"
#include "cluster/virtual/load_queue.h"
#include "cluster/virtual/shard.h"
#include "cluster/virtual/sweeper.h"
#include "core/cell/cache.h"
#include "core/cell/cell.h"
#include "core/cell/ext.h"
#include "core/cell/props.h"
#include "core/cell/ref.h"
#include "core/cell/tally.h"
#include "core/life/family.h"
#include "core/life/lifecycle.h"
#include "core/life/signal.h"
#include "core/run/scheduler.h"
#include "core/run/worker.h"
#include "troupe/supervise.h"

#define CORRELATION_SHIFT 32

/* ---- the shard's list ---- */

/*
 * Adds `more` to shard->active. The caller holds the lock, because writers need
 * it; readers do not.
 */
static void count_in_list(tri_shard *shard, int32_t more)
{
    // Relaxed, both: the lock orders writers; the sweeper only looks.
    atomic_store_explicit(
        &shard->active,
        atomic_load_explicit(&shard->active, memory_order_relaxed) +
            (uint32_t)more,
        memory_order_relaxed);
}

static void list_add(tri_shard *shard, tri_activation *a)
{
    tri_lock_assert_held(&shard->lock);
    count_in_list(shard, 1);
    tri_list_push_back(&shard->activations, &a->link);
}

static void list_remove(tri_shard *shard, tri_activation *a)
{
    tri_lock_assert_held(&shard->lock);
    count_in_list(shard, -1);
    tri_list_remove(&a->link);
}

/* ---- what an activation needs beside the record ---- */

/* Makes v->activation; returns false without memory. */
static bool activation_new(tri_cluster *cluster, tri_worker *worker,
                           tri_virtual *v)
{
    TRI_CHECK(v->activation == NULL);
    tri_activation *a =
        tri_cache_alloc(&worker->cache, tri_class_of(sizeof(*a)));
    if (a == NULL) {
        return false;
    }
    *a = (tri_activation){.v = v,
                          // No count: the first sweep takes it for busy.
                          .seen = UINT64_MAX,
                          // Relaxed: numbers only have to differ and to grow.
                          .order = atomic_fetch_add_explicit(
                              &cluster->activations, 1, memory_order_relaxed)};
    v->activation = a;
    // Relaxed: the mailbox is not open yet.
    atomic_store_explicit(&a->epoch, tri_cluster_shard(cluster, v)->epoch,
                          memory_order_relaxed);
    // With a bus there is no queue: the union in tri_virtual is the bus's.
    a->loads = v->kind->props->storage != NULL && tri_bus_of(cluster) == NULL;
    if (a->loads) {
        tri_load_queue_enter(&cluster->load_queue);
    }
    return true;
}

static void activation_free(tri_worker *worker, tri_virtual *v)
{
    TRI_CHECK(v->activation != NULL);
    TRI_CHECK(!tri_link_is_linked(&v->activation->link));
    tri_cache_free(&worker->cache, tri_class_of(sizeof(*v->activation)),
                   v->activation);
    v->activation = NULL;
}

/* ---- begin and end ---- */

/* Makes the cell ready for an activation; its mailbox is still closed. */
static tr_err prepare(tri_cluster *cluster, tri_worker *worker, tri_virtual *v)
{
    tri_cell *cell = &v->cell;
    tri_kind *kind = v->kind;
    tri_ext *ext = tri_ext_need(worker, cell);
    if (ext == NULL) {
        return TR_ENOMEM;
    }
    // So no ask of this activation takes the answer to one of an earlier one.
    ext->waits.correlation = v->activation->order << CORRELATION_SHIFT;
    // Relaxed: the mailbox is not open yet.
    atomic_store_explicit(&ext->room.soft_limit, kind->soft_limit,
                          memory_order_relaxed);
    tri_cell_reset(cell);
    if (tri_bus_of(cluster) != NULL && kind->workers == 0) {
        cell->attention |= TRI_ATTENTION_LEASE;
    }
    tri_cell_become(cell, kind->behaviour);
    // Relaxed: as above. Or: a flag that a sender sets meanwhile stays.
    uint32_t flags = kind->pool | (v->relayed ? TRI_CELL_RELAYED : 0);
    atomic_fetch_or_explicit(&cell->flags, flags, memory_order_relaxed);
    uint64_t id = atomic_load_explicit(&cell->id, memory_order_relaxed);
    atomic_store_explicit(&cell->signals, id << TRI_SIG_BITS,
                          memory_order_relaxed);
    tr_err err = tri_children_link(worker, tri_ref_cell(cluster->guardian),
                                   cluster->guardian.id, cell);
    if (err != TR_OK) {
        atomic_store_explicit(&cell->signals, 0, memory_order_relaxed);
        return err == TR_ESTOPPED ? TR_ECLOSED : err;
    }
    cell->props = kind->props;
    atomic_fetch_add_explicit(&kind->props->holds, 1, memory_order_relaxed);
    return TR_OK;
}

static uint32_t length_of(const tri_item *list)
{
    uint32_t count = 0;
    for (; list != NULL; list = list->next) {
        count++;
    }
    return count;
}

tr_err tri_activation_begin(tri_cluster *cluster, tri_worker *worker,
                            tri_virtual *v, tri_item *mail)
{
    tri_cell *cell = &v->cell;
    tri_lock_assert_held(&tri_cluster_shard(cluster, v)->lock);
    TRI_CHECK(mail != NULL);
    TRI_CHECK(!tri_virtual_is_active(v));
    // Relaxed: tri_cluster_close sets it, then takes each shard's lock.
    if (atomic_load_explicit(&cluster->closing, memory_order_relaxed)) {
        return TR_ECLOSED;
    }
    if (tri_kind_of(cluster, v) == NULL) {
        return TR_ENOENT;
    }
    if (!activation_new(cluster, worker, v)) {
        return TR_ENOMEM;
    }
    tr_err err = prepare(cluster, worker, v);
    if (err != TR_OK) {
        if (v->activation->loads) {
            // The caller starts the next one on an error.
            (void)tri_load_queue_leave(&cluster->load_queue);
        }
        activation_free(worker, v);
        return err;
    }
    tri_activation_state_set(v, TRI_ACTIVATION_CREATING);
    // Relaxed, both: statistics.
    atomic_fetch_add_explicit(&cluster->active, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&v->kind->active, 1, memory_order_relaxed);
    tri_count(&worker->count.spawned);
    tri_count(&tri_lives_of(worker, cell)->spawned);
    list_add(tri_cluster_shard(cluster, v), v->activation);
    cell->queue = mail;
    atomic_store_explicit(&cell->queued, length_of(mail), memory_order_relaxed);
    // Release, both: the mailboxes open after all of the above.
    atomic_store_explicit(&cell->sys_mail, 0, memory_order_release);
    atomic_store_explicit(&cell->mail, 0, memory_order_release);
    return TR_OK;
}

void tri_activation_schedule(tri_cluster *cluster, tri_worker *worker,
                             tri_virtual *v)
{
    TRI_CHECK(v->kind != NULL);
    tri_kind *kind = v->kind;
    tri_schedule_newborn(worker, &v->cell);
    // Relaxed: only the number matters.
    if (kind->max_active > 0 &&
        atomic_load_explicit(&kind->active, memory_order_relaxed) >
            kind->max_active) {
        tri_sweeper_over_limit(cluster, worker, kind);
    }
}

void tri_activation_end(tri_cluster *cluster, tri_worker *worker,
                        tri_virtual *v)
{
    tri_cell *cell = &v->cell;
    TRI_CHECK(v->activation != NULL);
    // Relaxed: the owner of the cell has closed it.
    TRI_CHECK(atomic_load_explicit(&cell->mail, memory_order_relaxed) &
              TRI_MAIL_CLOSED);
    list_remove(tri_cluster_shard(cluster, v), v->activation);
    activation_free(worker, v);
    tri_activation_state_set(v, TRI_ACTIVATION_INVALID);
    // Relaxed, all: statistics; both mailboxes are closed.
    atomic_fetch_sub_explicit(&cluster->active, 1, memory_order_relaxed);
    atomic_fetch_sub_explicit(&v->kind->active, 1, memory_order_relaxed);
    atomic_store_explicit(&cell->signals, 0, memory_order_relaxed);
    atomic_store_explicit(&cell->life, TR_STATE_CREATED, memory_order_relaxed);
}

/* ---- all of a shard ---- */

void tri_activation_set_epoch(tri_cluster *cluster, uint32_t shard,
                              uint32_t owner, uint64_t epoch, bool confirmed)
{
    TRI_CHECK(shard < TRI_SHARDS);
    tri_shard *records = &cluster->shards[shard];
    tri_lock_take(&records->lock);
    records->epoch = epoch;
    records->owner = owner;
    TRI_LIST_EACH_ITEM (a, &records->activations, tri_activation, link) {
        if (confirmed) {
            // Relaxed: a save with either epoch is correct; the store decides.
            atomic_store_explicit(&a->epoch, epoch, memory_order_relaxed);
        }
    }
    tri_lock_drop(&records->lock);
}

void tri_activation_confirm(tri_cluster *cluster, tri_virtual *v,
                            uint64_t epoch)
{
    tri_shard *shard = tri_cluster_shard(cluster, v);
    TRI_CHECK(epoch > 0);
    tri_lock_take(&shard->lock);
    tri_activation *a = v->activation;
    // Relaxed, both: as in tri_activation_set_epoch; writers hold the lock.
    if (a != NULL &&
        atomic_load_explicit(&a->epoch, memory_order_relaxed) < epoch) {
        atomic_store_explicit(&a->epoch, epoch, memory_order_relaxed);
    }
    tri_lock_drop(&shard->lock);
}

/* Takes some that were not told yet. Returns how many. */
static uint32_t collect_untold(tri_shard *shard, tri_virtual **v, uint64_t *id,
                               uint32_t max)
{
    uint32_t count = 0;
    tri_lock_take(&shard->lock);
    TRI_LIST_EACH_ITEM (a, &shard->activations, tri_activation, link) {
        if (count < max && !a->told_to_stop) {
            a->told_to_stop = true;
            v[count] = a->v;
            // Relaxed: it does not change while the record is active.
            id[count++] =
                atomic_load_explicit(&a->v->cell.id, memory_order_relaxed);
        }
    }
    tri_lock_drop(&shard->lock);
    return count;
}

uint32_t tri_activation_stop_all(tri_cluster *cluster, tri_worker *worker,
                                 uint32_t shard)
{
    enum { BATCH = 64 };
    tri_virtual *v[BATCH];
    uint64_t id[BATCH];
    uint32_t count, told = 0;
    TRI_CHECK(shard < TRI_SHARDS);
    do {
        count = collect_untold(&cluster->shards[shard], v, id, BATCH);
        for (uint32_t i = 0; i < count; i++) {
            tri_signal(worker, &v[i]->cell, id[i], TRI_SIG_STOP);
        }
        told += count;
    } while (count == BATCH);
    return told;
}
