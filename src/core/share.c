/*
 * share.c - how runnable cells get from one worker to another.
 *
 * A worker keeps what it has to itself (private.h). One that has nothing asks
 * another; the asked one, when it picks its next cell, puts half of what
 * waits, the oldest first, into its ring, where anybody may take it. Thieves
 * leave a lone cell alone: two cores that pass one cell to and fro are slower
 * than one. Only from a worker whose handler lasts is even that one taken.
 */
#include <stdlib.h>

#include "core/private.h"

/* ---- the ring: FIFO, its owner at the tail, everybody at the head ---- */

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
    // Relaxed: only we write tail. Acquire: pairs with the taking of head,
    // so the slot has been read before it is written again.
    uint32_t tail = atomic_load_explicit(&worker->tail, memory_order_relaxed);
    uint32_t head = atomic_load_explicit(&worker->head, memory_order_acquire);
    return tail - head < TRI_RING;
}

static void ring_push(tri_worker *worker, tri_cell *cell)
{
    // Relaxed, then release: the tail publishes the slot to tri_ring_take.
    uint32_t tail = atomic_load_explicit(&worker->tail, memory_order_relaxed);
    atomic_store_explicit(&worker->ring[tail % TRI_RING], cell,
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
        tri_cell *cell = atomic_load_explicit(&worker->ring[head % TRI_RING],
                                              memory_order_relaxed);
        // Release: our read of the slot is before its next write.
        if (atomic_compare_exchange_weak_explicit(
                &worker->head, &head, head + 1, memory_order_acq_rel,
                memory_order_acquire)) {
            return cell;
        }
    }
}

uint32_t tri_worker_waiting(tri_worker *worker)
{
    return tri_private_waiting(worker) + ring_length(worker);
}

void tri_fresh_grow(tri_worker *worker)
{
    uint32_t room = (worker->fresh_mask + 1) * 2;
    tri_cell **more = tri_mem_calloc(&worker->sys->mem, room * sizeof(*more));
    if (more == NULL) {
        tri_own_append(worker, tri_fresh_oldest(worker));
        return;
    }
    // Relaxed: we are in.
    uint32_t top =
        atomic_load_explicit(&worker->fresh_top, memory_order_relaxed);
    for (uint32_t i = 0; i <= worker->fresh_mask; i++) {
        more[(top + i) & (room - 1)] =
            worker->fresh[(top + i) & worker->fresh_mask];
    }
    free(worker->fresh);
    worker->fresh = more;
    worker->fresh_mask = room - 1;
}

/* ---- giving ---- */

/*
 * How many of which queue may go: half of those that wait, or the oldest of
 * the spawned, which is the root of the largest part of its tree. `lone`: the
 * last one, too. Whoever is in.
 */
static uint32_t own_share(tri_worker *worker, bool lone)
{
    // Relaxed: whoever is in is alone; to others a hint.
    uint32_t waiting =
        atomic_load_explicit(&worker->own_count, memory_order_relaxed);
    return lone ? (waiting + 1) / 2 : waiting >= 3 ? waiting / 2 : 0;
}

/* The oldest that is not bound to its worker, or NULL. Whoever is in. */
static tri_cell *own_unbound(tri_worker *worker)
{
    uint32_t index = 0;
    tri_cell *cell = worker->own;
    while (cell != NULL && cell->home != TRI_HOME_NONE &&
           index < TRI_UNBOUND_MAX) {
        cell = cell->run_next;
        index++;
    }
    return cell != NULL && cell->home == TRI_HOME_NONE
               ? tri_own_remove(worker, index)
               : NULL;
}

static tri_cell *give_one(tri_worker *worker, bool from_own)
{
    return from_own ? own_unbound(worker) : tri_fresh_oldest(worker);
}

/*
 * Is the work that waits worth another core? Cells that run for less than a
 * message takes from core to core, and are soon all through, are faster with
 * one worker than with two. Measured from one request to the next.
 */
static bool is_worth_it(tri_worker *worker)
{
    tr_nanos before = worker->asked_at;
    uint64_t ran = worker->asked_progress;
    worker->asked_at = tri_clock(worker);
    // Relaxed: our own.
    worker->asked_progress =
        atomic_load_explicit(&worker->progress, memory_order_relaxed);
    tr_nanos span = worker->asked_at - before;
    ran = worker->asked_progress - ran;
    if (span > TRI_ASKED_LATELY || ran == 0) {
        return false;  // we do not know; he asks again
    }
    tr_nanos each = span / (tr_nanos)ran;
    tr_nanos round = each * (tr_nanos)atomic_load_explicit(
                                &worker->own_count, memory_order_relaxed);
    return each >= TRI_SHARE_EACH || round >= TRI_SHARE_ROUND;
}

void tri_share(tri_worker *worker)
{
    if (ring_length(worker) > 0) {
        return;  // it has not been taken yet
    }
    bool worth = is_worth_it(worker);
    tri_private_enter(worker);
    uint32_t share = worth ? own_share(worker, false) : 0;
    bool from_own = share > 0;
    if (!from_own && tri_private_waiting(worker) >= 2) {
        share = 1;
    }
    for (; share > 0 && ring_has_room(worker); share--) {
        tri_cell *cell = give_one(worker, from_own);
        if (cell == NULL) {
            break;
        }
        ring_push(worker, cell);
    }
    tri_private_leave(worker);
}

/* ---- going in: a worker that does not answer ---- */

void tri_private_wait(tri_worker *worker)
{
    tri_world *world = worker->sys->world;
    do {
        // Release: as tri_private_leave.
        atomic_store_explicit(&worker->busy, 0, memory_order_release);
        // Acquire: as tri_private_enter. A thief is in for some hundred
        // cells at most.
        while (atomic_load_explicit(&worker->revoked, memory_order_acquire) !=
               0) {
            world->ops->pause(world);
        }
        // Seq_cst: the write before the read, whatever the world offers.
        atomic_store_explicit(&worker->busy, 1, memory_order_seq_cst);
    } while (atomic_load_explicit(&worker->revoked, memory_order_seq_cst) != 0);
}

/* Takes what tri_share would give, at least one, as a chain; NULL: not now. */
static tri_cell *revoke(tri_worker *victim)
{
    tri_world *world = victim->sys->world;
    uint32_t nobody = 0;
    // Seq_cst: before the fence, or the barrier; acquires what the last
    // thief did.
    if (tri_private_waiting(victim) == 0 ||
        !atomic_compare_exchange_strong_explicit(&victim->revoked, &nobody, 1,
                                                 memory_order_seq_cst,
                                                 memory_order_relaxed)) {
        return NULL;
    }
    if (victim->fences) {
        // Seq_cst: pairs with the fence of tri_private_enter.
        atomic_thread_fence(memory_order_seq_cst);
    } else {
        world->ops->barrier(world);
    }
    tri_cell *first = NULL, **end = &first;
    // Acquire: pairs with tri_private_leave.
    if (atomic_load_explicit(&victim->busy, memory_order_acquire) == 0) {
        uint32_t share = own_share(victim, true);
        bool from_own = share > 0;
        if (!from_own) {  // going in is dear: for more than one of many
            share = (tri_private_waiting(victim) + 1) / 2;
        }
        share = (uint32_t)TRI_MIN(share, (uint32_t)TRI_STEAL_MAX);
        for (; share > 0; share--) {
            *end = give_one(victim, from_own);
            if (*end == NULL) {
                break;
            }
            end = &(*end)->run_next;
        }
        *end = NULL;
    }
    // Release: pairs with tri_private_enter.
    atomic_store_explicit(&victim->revoked, 0, memory_order_release);
    return first;
}

/* ---- taking ---- */

/* The first is to be run, the others go to our own. */
static void keep_others(tri_worker *thief, tri_cell *first)
{
    tri_cell *more = first->run_next;
    while (more != NULL) {
        tri_cell *next = more->run_next;
        tri_own_push(thief, more);
        more = next;
    }
}

static tri_cell *steal_from(tri_worker *thief, tri_worker *victim, bool stuck)
{
    tri_cell *cell = tri_ring_take(victim);
    for (uint32_t more = ring_length(victim); cell != NULL && more > 0;
         more--) {
        tri_cell *other = tri_ring_take(victim);
        if (other == NULL) {
            break;
        }
        tri_own_push(thief, other);
    }
    if (cell == NULL && stuck) {
        cell = revoke(victim);
        if (cell != NULL) {
            keep_others(thief, cell);
        }
    }
    if (cell == NULL) {
        // Relaxed: a request; the worker looks at it when it picks.
        if (tri_private_waiting(victim) >= 2 &&
            !(atomic_load_explicit(&victim->look, memory_order_relaxed) &
              TRI_LOOK_SHARE)) {
            atomic_fetch_or_explicit(&victim->look, TRI_LOOK_SHARE,
                                     memory_order_relaxed);
        }
        return NULL;
    }
    tri_count(&thief->count.steals);
    return cell;
}

/* Has the victim been in one activation for TRI_LONE? */
static bool is_stuck(tri_worker *thief, uint32_t index, uint64_t progress)
{
    if (progress != thief->seen[index].progress) {
        thief->seen[index].progress = progress;
        thief->seen[index].since = thief->now;
        return false;
    }
    if (thief->now - thief->seen[index].since < TRI_LONE) {
        return false;
    }
    thief->seen[index].since = thief->now + TRI_REST;  // going in is dear
    return true;
}

tri_cell *tri_steal(tri_worker *thief)
{
    tri_group *group = thief->group;
    if (group->kind == TR_DISPATCH_PINNED ||
        group->kind == TR_DISPATCH_CONCURRENT) {
        return NULL;
    }
    uint32_t count = atomic_load_explicit(&group->count, memory_order_acquire);
    uint32_t start = thief->tick++;
    for (uint32_t i = 0; i < count; i++) {
        // Acquire: the worker was published by tri_worker_new.
        tri_worker *victim = atomic_load_explicit(
            &group->workers[(start + i) % count], memory_order_acquire);
        if (victim == thief) {
            continue;
        }
        // Relaxed: a hint.
        uint64_t progress =
            atomic_load_explicit(&victim->progress, memory_order_relaxed);
        bool stuck = is_stuck(thief, (start + i) % count, progress);
        tri_cell *cell = steal_from(thief, victim, stuck);
        if (cell != NULL) {
            return cell;
        }
    }
    return NULL;
}
