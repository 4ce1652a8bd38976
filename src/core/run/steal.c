/*
 * steal.c - work stealing: moving runnable cells between workers.
 *
 * The queues of a worker are private (run_queue.h). A worker without work asks
 * another (TRI_REQUEST_SHARE), which moves half of its cells, the oldest first,
 * to its ring when it polls; from there any thread may take them. A single
 * cell is not moved, because two cores that pass one cell back and forth are
 * slower than one. Only if the worker has been in one batch for
 * TRI_STEAL_AFTER does a thief enter its private queues, and then takes even a
 * single cell.
 *
 * Invariant: a cell is in one queue. The ring is a FIFO with one producer, the
 * worker at the tail, and many consumers at the head.
 */
#include "core/run/steal.h"

#include <stdatomic.h>

#include "base/check.h"
#include "base/world.h"
#include "core/cell/cell.h"
#include "core/run/clock.h"
#include "core/run/run_queue.h"
#include "core/run/worker.h"
#include "core/system.h"
#include "troupe/system.h"

/* ---- the ring ---- */

static uint32_t ring_length(tri_worker *worker)
{
    // Relaxed: a hint.
    uint32_t head = atomic_load_explicit(&worker->head, memory_order_relaxed);
    uint32_t tail = atomic_load_explicit(&worker->tail, memory_order_relaxed);
    int32_t length = (int32_t)(tail - head);
    return length > 0 ? (uint32_t)length : 0;
}

static bool ring_has_room(tri_worker *worker)
{
    // Relaxed: only this worker writes tail. Acquire: pairs with the exchange
    // in tri_ring_take, so a slot has been read before it is written again.
    uint32_t tail = atomic_load_explicit(&worker->tail, memory_order_relaxed);
    uint32_t head = atomic_load_explicit(&worker->head, memory_order_acquire);
    return tail - head < TRI_RING_SIZE;
}

static void ring_push(tri_worker *worker, tri_cell *cell)
{
    TRI_CHECK_SLOW(ring_has_room(worker) && cell->home == TRI_HOME_NONE);
    // Relaxed, then release: the tail publishes the slot to tri_ring_take.
    uint32_t tail = atomic_load_explicit(&worker->tail, memory_order_relaxed);
    atomic_store_explicit(&worker->ring[tail % TRI_RING_SIZE], cell,
                          memory_order_relaxed);
    atomic_store_explicit(&worker->tail, tail + 1, memory_order_release);
}

tri_cell *tri_ring_take(tri_worker *worker)
{
    // Acquire: pairs with ring_push and with other takers.
    uint32_t head = atomic_load_explicit(&worker->head, memory_order_acquire);
    for (;;) {
        uint32_t tail =
            atomic_load_explicit(&worker->tail, memory_order_acquire);
        if ((int32_t)(tail - head) < 1) {
            return NULL;
        }
        // Relaxed: if the slot was written again, head has moved.
        tri_cell *cell = atomic_load_explicit(
            &worker->ring[head % TRI_RING_SIZE], memory_order_relaxed);
        // Release: the slot is read before it is written again.
        if (atomic_compare_exchange_weak_explicit(
                &worker->head, &head, head + 1, memory_order_acq_rel,
                memory_order_acquire)) {
            TRI_CHECK_SLOW(cell != NULL && tri_cell_is_owned(cell));
            return cell;
        }
    }
}

uint32_t tri_worker_waiting(tri_worker *worker)
{
    return tri_run_queue_waiting(worker) + ring_length(worker);
}

/* ---- sharing ---- */

/*
 * Returns how many cells of the FIFO may be moved: half of them. `single`: one,
 * if there is only one. Inside (run_queue.h).
 */
static uint32_t local_share(tri_worker *worker, bool single)
{
    // Relaxed: one thread is inside.
    uint32_t waiting =
        atomic_load_explicit(&worker->local_count, memory_order_relaxed);
    return single ? (waiting + 1) / 2 : waiting >= 3 ? waiting / 2 : 0;
}

/* Takes the oldest cell of the FIFO that has no home, or NULL. Inside. */
static tri_cell *local_unbound(tri_worker *worker)
{
    uint32_t index = 0;
    tri_cell *cell = worker->local;
    while (cell != NULL && cell->home != TRI_HOME_NONE &&
           index < TRI_UNBOUND_MAX) {
        cell = cell->run_next;
        index++;
    }
    return cell != NULL && cell->home == TRI_HOME_NONE
               ? tri_local_remove(worker, index)
               : NULL;
}

/* Takes a cell from the FIFO, or the oldest newborn cell. Inside. */
static tri_cell *take_one(tri_worker *worker, bool from_local)
{
    return from_local ? local_unbound(worker) : tri_newborn_oldest(worker);
}

/*
 * True if the waiting cells run faster with another core: batches are longer
 * than a message takes from core to core, or the last cell waits long. Both
 * are measured from one request to the next.
 */
static bool sharing_pays(tri_worker *worker)
{
    tr_nanos before = worker->share_asked_at;
    uint64_t ran = worker->share_asked_progress;
    worker->share_asked_at = tri_clock(worker);
    // Relaxed: the worker's own count.
    worker->share_asked_progress =
        atomic_load_explicit(&worker->progress, memory_order_relaxed);
    tr_nanos span = worker->share_asked_at - before;
    ran = worker->share_asked_progress - ran;
    if (span > TRI_SHARE_SPAN_MAX || ran == 0) {
        return false;  // not known yet; the thief asks again
    }
    tr_nanos each = span / (tr_nanos)ran;
    tr_nanos round = each * (tr_nanos)atomic_load_explicit(
                                &worker->local_count, memory_order_relaxed);
    return each >= TRI_SHARE_BATCH_MIN || round >= TRI_SHARE_WAIT_MIN;
}

void tri_share(tri_worker *worker)
{
    TRI_CHECK(worker->pool != NULL && !worker->stepping);
    if (ring_length(worker) > 0) {
        return;  // the last share has not been taken yet
    }
    bool pays = sharing_pays(worker);
    tri_run_queue_enter(worker);
    uint32_t share = pays ? local_share(worker, false) : 0;
    bool from_local = share > 0;
    if (!from_local && tri_run_queue_waiting(worker) >= 2) {
        share = 1;
    }
    for (; share > 0 && ring_has_room(worker); share--) {
        tri_cell *cell = take_one(worker, from_local);
        if (cell == NULL) {
            break;
        }
        ring_push(worker, cell);
    }
    tri_run_queue_leave(worker);
}

/* ---- entering the private queues of a stuck worker ---- */

/* Takes up to half of the cells, at least one, from inside; as a chain. */
static tri_cell *take_chain(tri_worker *owner)
{
    // Relaxed: this thief has set it.
    TRI_CHECK(atomic_load_explicit(&owner->revoked, memory_order_relaxed) != 0);
    tri_cell *first = NULL, **end = &first;
    uint32_t share = local_share(owner, true);
    bool from_local = share > 0;
    if (!from_local) {  // entering is expensive: more than one newborn cell
        share = (tri_run_queue_waiting(owner) + 1) / 2;
    }
    share = (uint32_t)TRI_MIN(share, (uint32_t)TRI_STEAL_MAX);
    for (; share > 0; share--) {
        *end = take_one(owner, from_local);
        if (*end == NULL) {
            break;
        }
        end = &(*end)->run_next;
    }
    *end = NULL;
    return first;
}

/* Enters the private queues and takes a chain; NULL if that is not possible. */
static tri_cell *take_private(tri_worker *owner)
{
    tri_world *world = owner->sys->world;
    uint32_t nobody = 0;
    // Seq_cst: before the fence or the barrier; sees what the last thief did.
    if (tri_run_queue_waiting(owner) == 0 ||
        !atomic_compare_exchange_strong_explicit(&owner->revoked, &nobody, 1,
                                                 memory_order_seq_cst,
                                                 memory_order_relaxed)) {
        return NULL;
    }
    if (owner->needs_fence) {
        // Seq_cst: pairs with the fence of tri_run_queue_enter.
        atomic_thread_fence(memory_order_seq_cst);
    } else {
        world->ops->barrier(world);
    }
    tri_cell *first = NULL;
    // Acquire: pairs with tri_run_queue_leave.
    if (atomic_load_explicit(&owner->busy, memory_order_acquire) == 0) {
        first = take_chain(owner);
    }
    // Release: pairs with tri_run_queue_enter.
    atomic_store_explicit(&owner->revoked, 0, memory_order_release);
    return first;
}

/* ---- stealing ---- */

/* Moves all cells of a chain except the first to the FIFO of the thief. */
static void keep_others(tri_worker *thief, tri_cell *first)
{
    TRI_CHECK(first != NULL);
    tri_cell *more = first->run_next;
    while (more != NULL) {
        tri_cell *next = more->run_next;
        tri_local_push(thief, more);
        more = next;
    }
}

/* Takes cells from the ring, or from a stuck worker; else asks for a share. */
static tri_cell *steal_from(tri_worker *thief, tri_worker *owner, bool stuck)
{
    TRI_CHECK(thief != owner && thief->pool == owner->pool);
    tri_cell *cell = tri_ring_take(owner);
    for (uint32_t more = ring_length(owner); cell != NULL && more > 0; more--) {
        tri_cell *other = tri_ring_take(owner);
        if (other == NULL) {
            break;
        }
        tri_local_push(thief, other);
    }
    if (cell == NULL && stuck) {
        cell = take_private(owner);
        if (cell != NULL) {
            keep_others(thief, cell);
        }
    }
    if (cell == NULL) {
        // Relaxed: a request; the worker reads it when it polls.
        if (tri_run_queue_waiting(owner) >= 2 &&
            !(atomic_load_explicit(&owner->requests, memory_order_relaxed) &
              TRI_REQUEST_SHARE)) {
            atomic_fetch_or_explicit(&owner->requests, TRI_REQUEST_SHARE,
                                     memory_order_relaxed);
        }
        return NULL;
    }
    tri_count(&thief->count.steals);
    return cell;
}

/* True if the index-th worker has been in one batch for TRI_STEAL_AFTER. */
static bool is_stuck(tri_worker *thief, uint32_t index, uint64_t progress)
{
    TRI_CHECK(index < TRI_POOL_WORKERS_MAX);
    if (progress != thief->seen[index].progress) {
        thief->seen[index].progress = progress;
        thief->seen[index].since = thief->now;
        return false;
    }
    if (thief->now - thief->seen[index].since < TRI_STEAL_AFTER) {
        return false;
    }
    // Entering is expensive: not again for some time.
    thief->seen[index].since = thief->now + TRI_STEAL_PAUSE;
    return true;
}

tri_cell *tri_steal(tri_worker *thief)
{
    tri_pool *pool = thief->pool;
    TRI_CHECK(pool != NULL && !thief->stepping);
    if (pool->kind == TR_DISPATCH_PINNED ||
        pool->kind == TR_DISPATCH_CONCURRENT) {
        return NULL;
    }
    uint32_t count = atomic_load_explicit(&pool->count, memory_order_acquire);
    TRI_CHECK(count <= TRI_POOL_WORKERS_MAX);
    uint32_t start = thief->tick++;
    for (uint32_t i = 0; i < count; i++) {
        // Acquire: the worker was published by tri_worker_new.
        tri_worker *owner = atomic_load_explicit(
            &pool->workers[(start + i) % count], memory_order_acquire);
        if (owner == thief) {
            continue;
        }
        // Relaxed: a hint.
        uint64_t progress =
            atomic_load_explicit(&owner->progress, memory_order_relaxed);
        bool stuck = is_stuck(thief, (start + i) % count, progress);
        tri_cell *cell = steal_from(thief, owner, stuck);
        if (cell != NULL) {
            return cell;
        }
    }
    return NULL;
}
