/*
 * pick.c - which cell a worker runs next, and when it sleeps.
 *
 * A worker picks from four places: its FIFO and its newborn cells, newest
 * first, so that trees unfold depth first and memory stays warm (run_queue.h);
 * the ring with cells that it has offered to others (steal.c); and the shared
 * queue of the pool. The order rotates, so none of them starves.
 *
 * A wake-up takes as long as thousands of messages, and a thief that takes the
 * only runnable cell makes two cores wait for each other. So thieves do not
 * take a single cell unless its worker is stuck, a sleeping worker is woken
 * only if work has waited for some time, and that time is longer after a
 * wake-up that found nothing.
 *
 * Invariant: a worker sleeps only after it has set park_word and then found
 * inbox and shared queue empty (scheduler.c); it holds no cell then.
 */
#include "core/run/pick.h"

#include <stdatomic.h>

#include "base/check.h"
#include "base/fiber.h"
#include "base/world.h"
#include "core/cell/cell.h"
#include "core/run/clock.h"
#include "core/run/run_queue.h"
#include "core/run/scheduler.h"
#include "core/run/steal.h"
#include "core/run/timer.h"
#include "core/run/turn.h"
#include "core/run/worker.h"
#include "core/system.h"

/*
 * Wakes a sleeping worker if cells have waited at this one for wake_pause. A
 * busy worker calls it when it polls.
 */
static void wake_if_late(tri_worker *worker)
{
    tri_pool *pool = worker->pool;
    // Relaxed: hints; after an old value the next poll is right.
    if (atomic_load_explicit(&pool->sleeping, memory_order_relaxed) == 0 ||
        atomic_load_explicit(&pool->searching, memory_order_relaxed) != 0 ||
        (tri_worker_waiting(worker) < 2 &&
         atomic_load_explicit(&pool->length, memory_order_relaxed) == 0)) {
        worker->backlog_since = 0;
        return;
    }
    tr_nanos now = tri_clock(worker);
    if (worker->backlog_since == 0) {
        worker->backlog_since = now;
        return;
    }
    uint64_t pause =
        atomic_load_explicit(&pool->wake_pause, memory_order_relaxed);
    if (now - worker->backlog_since >= (tr_nanos)pause) {
        worker->backlog_since = 0;
        tri_pool_wake(pool, false);
    }
}

/* True if the system closes: the worker's loop must end. */
static bool must_leave(tri_worker *worker)
{
    // Seq_cst: also the last read before a worker sleeps; pairs with
    // tri_workers_stop.
    return atomic_load_explicit(&worker->sys->stopping_workers,
                                memory_order_seq_cst);
}

/*
 * Returns the time until the next timer or ask is due: 0 if one is due now,
 * TR_FOREVER if there is none.
 */
static tr_nanos until_timer(tri_worker *worker, tr_nanos now)
{
    tr_nanos due = tri_worker_due(worker);
    if (due == TR_FOREVER) {
        return TR_FOREVER;
    }
    return due > now ? due - now : 0;
}

/*
 * Returns how long a worker without work polls before it sleeps. While other
 * workers are awake, they may schedule a cell at any moment. If not, work can
 * only come from an outside thread or a timer: then polling pays only if the
 * last sleep was short; else the worker would keep the CPU from the outside
 * thread that it has just answered.
 */
static tr_nanos search_span(tri_worker *worker)
{
    return tri_pool_is_asleep(worker->pool, 1) ? worker->spin : TRI_SPIN;
}

/* Polls for work for a while; returns NULL if there was none. */
static tri_cell *search(tri_worker *worker)
{
    tri_world *world = worker->sys->world;
    tri_pool *pool = worker->pool;
    tr_nanos start = tri_clock(worker);
    tr_nanos span = search_span(worker);
    tri_cell *cell = NULL;

    TRI_CHECK(!worker->stepping && worker->handoff == NULL);
    // Seq_cst: see tri_pool_wake.
    atomic_fetch_add_explicit(&pool->searching, 1, memory_order_seq_cst);
    for (uint32_t round = 0; cell == NULL; round++) {
        tri_worker_take_inbox(worker);
        if ((cell = tri_local_pop(worker)) != NULL ||
            (cell = tri_pool_pop(pool)) != NULL) {
            break;
        }
        if (round % TRI_STEAL_EVERY == TRI_STEAL_EVERY - 1) {
            tr_nanos now = tri_clock(worker);
            if ((cell = tri_steal(worker)) != NULL || now - start >= span ||
                until_timer(worker, now) == 0 || must_leave(worker)) {
                break;
            }
        }
        for (int i = 0; i < 16; i++) {
            world->ops->pause(world);
        }
    }
    atomic_fetch_sub_explicit(&pool->searching, 1, memory_order_seq_cst);
    if (cell != NULL &&
        atomic_load_explicit(&pool->length, memory_order_seq_cst) != 0) {
        tri_pool_wake(pool, false);  // more than this worker can run
    }
    return cell;
}

/*
 * Frees stacks that were not needed for TRI_TRIM_PAUSE, and returns how long
 * the worker may sleep: not longer than that while there are many spare
 * stacks. The clock has been read.
 */
static tr_nanos trim_stacks(tri_worker *worker, tr_nanos timeout)
{
    if (worker->now - worker->trimmed_at >= TRI_TRIM_PAUSE) {
        worker->trimmed_at = worker->now;
        tri_fiber_pool_trim(&worker->fibers);
    }
    TRI_CHECK(timeout > 0);
    bool many = worker->fibers.spare_count > TRI_FIBER_SPARE_WARM;
    return many && timeout > TRI_TRIM_PAUSE ? TRI_TRIM_PAUSE : timeout;
}

/* Sleeps until woken, a timer is due, or stacks may be freed. */
static void worker_sleep(tri_worker *worker)
{
    tri_world *world = worker->sys->world;
    tri_pool *pool = worker->pool;

    TRI_CHECK(!worker->stepping && !worker->is_outside);
    TRI_CHECK(worker->handoff == NULL && worker->held_asker == NULL);
    // Seq_cst: before the last reads (file comment).
    atomic_store_explicit(&worker->park_word, 1, memory_order_seq_cst);
    atomic_fetch_add_explicit(&pool->sleeping, 1, memory_order_seq_cst);
    bool work =
        atomic_load_explicit(&worker->inbox, memory_order_seq_cst) != NULL ||
        atomic_load_explicit(&pool->length, memory_order_seq_cst) != 0 ||
        must_leave(worker);
    tr_nanos timeout = until_timer(worker, tri_clock(worker));
    if (!work && timeout > 0) {
        timeout = trim_stacks(worker, timeout);
        tri_count(&worker->count.parks);
        tr_nanos since = worker->now;
        world->ops->park(world, &worker->park_word, 1, timeout);
        worker->spin = tri_clock(worker) - since < TRI_SPIN ? TRI_SPIN : 0;
    }
    atomic_fetch_sub_explicit(&pool->sleeping, 1, memory_order_seq_cst);
    atomic_store_explicit(&worker->park_word, 0, memory_order_seq_cst);
}

/*
 * Sets how long work must wait before the next wake-up: short if this one was
 * useful, else twice as long as before.
 */
static void adapt_wake_pause(tri_pool *pool, bool useful)
{
    // Relaxed: a hint for wake_if_late.
    uint64_t pause =
        atomic_load_explicit(&pool->wake_pause, memory_order_relaxed);
    pause =
        useful ? TRI_WAKE_PAUSE_MIN : TRI_MIN(pause * 2, TRI_WAKE_PAUSE_MAX);
    atomic_store_explicit(&pool->wake_pause, pause, memory_order_relaxed);
}

/* ---- polling ---- */

/* Reads the clock if a timer is armed, and fires what is due. */
static void check_clock(tri_worker *worker)
{
    // Relaxed: the monitor's request; after an old one the next poll is right.
    if (atomic_load_explicit(&worker->requests, memory_order_relaxed) &
        TRI_REQUEST_CLOCK) {
        atomic_fetch_and_explicit(&worker->requests, ~TRI_REQUEST_CLOCK,
                                  memory_order_relaxed);
    }
    if (tri_worker_due(worker) != TR_FOREVER &&
        until_timer(worker, tri_clock(worker)) == 0) {
        tri_worker_fire(worker, worker->now);
    }
    wake_if_late(worker);
    worker->special_batch |= worker->tick % TRI_SAMPLE_EVERY == 0;
}

/* Lets an idle worker time its next handler. The clock has been read. */
static void sample_if_idle(tri_worker *worker)
{
    if (worker->now - worker->sampled_at >= TRI_SAMPLE_PAUSE) {
        worker->sampled_at = worker->now;
        worker->special_batch = true;
    }
}

/* ---- picking ---- */

/* Takes the newest newborn cell; every TRI_OLDEST_EVERY-th time the oldest. */
static tri_cell *newborn_pick(tri_worker *worker)
{
    bool oldest = ++worker->newborn_picks % TRI_OLDEST_EVERY == 0;
    tri_cell *cell = tri_newborn_pop(worker, oldest);
    if (cell != NULL) {
        worker->runs_newborn = true;
        bool many = tri_newborn_count(worker) >= TRI_SPAWN_BURST;
        worker->newborn_ahead =
            many && worker->newborn_ahead > 0 ? worker->newborn_ahead - 1 : 0;
    }
    return cell;
}

/* Takes a cell from one of the four places, or returns NULL. */
static tri_cell *pick(tri_worker *worker)
{
    uint32_t tick = worker->tick++;
    TRI_CHECK_SLOW(!worker->stepping && worker->handoff == NULL);
    bool burst = tri_newborn_first(worker);
    worker->runs_newborn = false;  // unless newborn_pick sets it
    tri_cell *cell;
    if (tick % TRI_SHARED_EVERY == 0 &&
        (cell = tri_pool_pop(worker->pool)) != NULL) {
        return cell;
    }
    // Cells that were offered and not taken.
    if (tick % TRI_POLL_EVERY == 0 && (cell = tri_ring_take(worker)) != NULL) {
        return cell;
    }
    // Usually the FIFO goes before newborn cells, except at every
    // TRI_POLL_EVERY-th pick. In a burst of spawns newborn cells go before the
    // FIFO, except at every TRI_OLD_EVERY-th pick.
    bool newborn_now =
        burst ? tick % TRI_OLD_EVERY != 0 : tick % TRI_POLL_EVERY == 0;
    if ((newborn_now && (cell = newborn_pick(worker)) != NULL) ||
        (cell = tri_local_pop(worker)) != NULL ||
        (cell = newborn_pick(worker)) != NULL ||
        (cell = tri_ring_take(worker)) != NULL) {
        return cell;
    }
    return tri_pool_pop(worker->pool);
}

static tri_cell *next_after_poll(tri_worker *worker);

tri_cell *tri_worker_next_slow(tri_worker *worker)
{
    if (TRI_LIKELY(!tri_must_poll(worker))) {
        tri_cell *cell = worker->handoff;
        worker->handoff = NULL;
        if (cell != NULL) {
            worker->runs_newborn = false;
        } else {
            cell = newborn_pick(worker);
        }
        if (cell != NULL) {
            worker->tick++;
            return cell;
        }
    }
    return next_after_poll(worker);
}

/*
 * Polls clock, inbox and requests, then picks a cell; sleeps while there is
 * none. Returns NULL if the worker's loop must end.
 */
static __attribute__((noinline)) tri_cell *next_after_poll(tri_worker *worker)
{
    if (worker->stepping) {
        tri_cell *picked = worker->step_pick;
        worker->step_pick = NULL;
        return picked;
    }
    tri_asker_release(worker);
    tri_handoff_return(worker);  // ends a chain of hand-offs
    bool woken = false;
    for (;;) {
        // Relaxed: hints.
        uint32_t requests =
            atomic_load_explicit(&worker->requests, memory_order_relaxed);
        if (TRI_UNLIKELY(requests & TRI_REQUEST_SHARE)) {
            // Relaxed: if a request is lost here, the thief repeats it.
            atomic_fetch_and_explicit(&worker->requests, ~TRI_REQUEST_SHARE,
                                      memory_order_relaxed);
            tri_share(worker);
        }
        if (worker->tick % TRI_POLL_EVERY == 0 ||
            (requests & TRI_REQUEST_CLOCK)) {
            check_clock(worker);
        }
        tri_worker_take_inbox(worker);
        tri_cell *cell = pick(worker);
        if (cell == NULL) {
            (void)tri_clock(worker);
            sample_if_idle(worker);
            cell = tri_steal(worker);
        }
        if (cell == NULL) {
            check_clock(worker);  // may fill the private queues
            cell = pick(worker);
        }
        if (cell == NULL) {
            cell = search(worker);
        }
        if (woken) {
            adapt_wake_pause(worker->pool, cell != NULL);
        }
        if (cell != NULL) {
            TRI_CHECK_SLOW(tri_cell_is_owned(cell));
            return cell;
        }
        if (must_leave(worker)) {
            return NULL;
        }
        worker_sleep(worker);
        woken = true;
    }
}
