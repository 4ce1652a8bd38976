/*
 * activate.c - a record becomes active, and is no more.
 *
 * Invariant: an activation is registered, is a child of the guardian, is
 * counted and in the list of its shard before its mailbox opens; and all of
 * that is undone, with both lanes closed, before there can be another. The
 * lock of the shard is held throughout, so nobody finds a half of one.
 */
#include "cluster/activate.h"

#include "cluster/bus.h"
#include "core/mailbox.h"

#define CORRELATION_SHIFT 32

/* ---- those of a shard ---- */

/* With the shard's lock. */
static void count_in_list(tri_shard *shard, int32_t more)
{
    // Relaxed, both: the lock orders writers; the sweeper glances.
    atomic_store_explicit(
        &shard->active,
        atomic_load_explicit(&shard->active, memory_order_relaxed) +
            (uint32_t)more,
        memory_order_relaxed);
}

static void list_append(tri_shard *shard, tri_active *a)
{
    count_in_list(shard, 1);
    a->next = NULL;
    a->prev = shard->last;
    if (shard->last != NULL) {
        shard->last->next = a;
    } else {
        shard->first = a;
    }
    shard->last = a;
}

static void list_remove(tri_shard *shard, tri_active *a)
{
    count_in_list(shard, -1);
    if (a->prev != NULL) {
        a->prev->next = a->next;
    } else {
        shard->first = a->next;
    }
    if (a->next != NULL) {
        a->next->prev = a->prev;
    } else {
        shard->last = a->prev;
    }
}

/* ---- one more, one less ---- */

/* What an activation needs beside the record; false: no memory. */
static bool active_new(tri_cluster *cluster, tri_worker *worker, tri_virtual *v)
{
    tri_active *a = tri_cache_alloc(&worker->cache, tri_class_of(sizeof(*a)));
    if (a == NULL) {
        return false;
    }
    *a = (tri_active){.v = v,
                      // Whatever it has handled at the next sweep is news.
                      .seen = UINT64_MAX,
                      // Relaxed: only that they differ, and grow, counts.
                      .order = atomic_fetch_add_explicit(
                          &cluster->activations, 1, memory_order_relaxed)};
    v->active = a;
    // Where there is a bus it has asked for the place already.
    a->loads = v->kind->props->storage != NULL && tri_bus_of(cluster) == NULL;
    if (a->loads) {
        tri_line_count(&cluster->line);
    }
    return true;
}

static void active_free(tri_worker *worker, tri_virtual *v)
{
    tri_cache_free(&worker->cache, tri_class_of(sizeof(*v->active)), v->active);
    v->active = NULL;
}

static tri_place place_of(tri_cluster *cluster, const tri_virtual *v)
{
    return (tri_place){.node = cluster->here, .number = v->active->order + 1};
}

static tr_err enter_directory(tri_cluster *cluster, tri_virtual *v)
{
    tri_decision decision;
    if (v->kind->workers > 0 || tri_bus_of(cluster) != NULL) {
        return TR_OK;  // may be anywhere; or was registered before: bus.h
    }
    TR_TRY(tri_directory_register_hashed(&cluster->directory, v->hash, v->text,
                                         v->size, place_of(cluster, v),
                                         &decision));
    // One node: nobody else can have registered it.
    TRI_CHECK(decision.kind == TRI_PLACE_ON_NODE);
    return TR_OK;
}

static void leave_directory(tri_cluster *cluster, tri_worker *worker,
                            tri_virtual *v)
{
    if (v->kind->workers > 0) {
        return;
    }
    if (tri_bus_of(cluster) != NULL) {
        tri_bus_gone(cluster, worker, v);
        return;
    }
    bool was = tri_directory_unregister_hashed(
        &cluster->directory, v->hash, v->text, v->size, place_of(cluster, v));
    TRI_CHECK(was);
}

/* Makes the cell ready for another life; its mailbox is still closed. */
static tr_err prepare(tri_cluster *cluster, tri_worker *worker, tri_virtual *v)
{
    tri_cell *cell = &v->cell;
    tri_kind *kind = v->kind;
    tri_ext *ext = tri_ext_need(worker, cell);
    if (ext == NULL) {
        return TR_ENOMEM;
    }
    // No answer to a question of an earlier life can be taken for ours.
    ext->correlation = v->active->order << CORRELATION_SHIFT;
    // Relaxed: the mailbox is not open yet.
    atomic_store_explicit(&ext->soft_limit, kind->soft_limit,
                          memory_order_relaxed);
    tri_cell_reset(cell);
    tri_cell_become(cell, kind->behaviour);
    // Relaxed: as above; a flag that a sender sets meanwhile stays.
    atomic_fetch_or_explicit(&cell->flags, kind->group, memory_order_relaxed);
    uint64_t id = atomic_load_explicit(&cell->id, memory_order_relaxed);
    atomic_store_explicit(&cell->signals, id << TRI_SIG_BITS,
                          memory_order_relaxed);
    // Before it has a parent, who may tell it to stop.
    TR_TRY(enter_directory(cluster, v));
    tr_err err =
        tri_children_link(worker, tri_ref_cell(cluster->guardian), cell);
    if (err != TR_OK) {
        leave_directory(cluster, worker, v);
        atomic_store_explicit(&cell->signals, 0, memory_order_relaxed);
        return err == TR_ESTOPPED ? TR_ECLOSED : err;
    }
    cell->props = kind->props;
    atomic_fetch_add_explicit(&kind->props->holds, 1, memory_order_relaxed);
    return TR_OK;
}

static uint32_t length_of(const tri_node *list)
{
    uint32_t count = 0;
    for (; list != NULL; list = list->next) {
        count++;
    }
    return count;
}

/*
 * With the shard's lock. Takes mail on TR_OK: the cell is then the caller's,
 * who schedules it without the lock.
 */
static tr_err try_activate(tri_cluster *cluster, tri_worker *worker,
                           tri_virtual *v, tri_node *mail)
{
    tri_cell *cell = &v->cell;
    // Relaxed: set before its setter takes each of these locks.
    if (atomic_load_explicit(&cluster->closing, memory_order_relaxed)) {
        return TR_ECLOSED;
    }
    if (tri_kind_of(cluster, v) == NULL) {
        return TR_ENOENT;
    }
    if (!active_new(cluster, worker, v)) {
        return TR_ENOMEM;
    }
    tr_err err = prepare(cluster, worker, v);
    if (err != TR_OK) {
        if (v->active->loads) {
            (void)tri_line_leave(&cluster->line);  // who sees it calls next
        }
        active_free(worker, v);
        return err;
    }
    tri_activation_set(v, TRI_ACTIVATION_CREATING);
    // Relaxed, both: statistics.
    atomic_fetch_add_explicit(&cluster->active, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&v->kind->active, 1, memory_order_relaxed);
    tri_count(&worker->count.spawned);
    tri_count(&tri_lives_of(worker, cell)->spawned);
    list_append(&cluster->shards[v->shard], v->active);
    cell->queue = mail;
    atomic_store_explicit(&cell->queued, length_of(mail), memory_order_relaxed);
    // Release, both: open the lanes after all of the above.
    atomic_store_explicit(&cell->sys_mail, 0, memory_order_release);
    atomic_store_explicit(&cell->mail, 0, memory_order_release);
    return TR_OK;
}

tr_err tri_activate(tri_cluster *cluster, tri_worker *worker, tri_virtual *v,
                    tri_node *mail)
{
    tr_err err = try_activate(cluster, worker, v, mail);
    if (err != TR_OK && tri_bus_of(cluster) != NULL) {
        tri_bus_back_out(cluster, worker, v);
    }
    return err;
}

void tri_activate_go(tri_cluster *cluster, tri_worker *worker, tri_virtual *v)
{
    tri_kind *kind = v->kind;
    tri_schedule_fresh(worker, &v->cell);
    // Relaxed: only the number counts.
    if (kind->max_active > 0 &&
        atomic_load_explicit(&kind->active, memory_order_relaxed) >
            kind->max_active) {
        tri_sweep_crowded(cluster, worker, kind);
    }
}

void tri_activate_end(tri_cluster *cluster, tri_worker *worker, tri_virtual *v)
{
    tri_cell *cell = &v->cell;
    leave_directory(cluster, worker, v);
    list_remove(&cluster->shards[v->shard], v->active);
    active_free(worker, v);
    tri_activation_set(v, TRI_ACTIVATION_INVALID);
    // Relaxed, all: statistics; both lanes are closed.
    atomic_fetch_sub_explicit(&cluster->active, 1, memory_order_relaxed);
    atomic_fetch_sub_explicit(&v->kind->active, 1, memory_order_relaxed);
    atomic_store_explicit(&cell->signals, 0, memory_order_relaxed);
    atomic_store_explicit(&cell->life, TR_STATE_CREATED, memory_order_relaxed);
}
