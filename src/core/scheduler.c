/*
 * scheduler.c - where runnable cells wait, who runs them, who sleeps.
 *
 * A worker picks from four places: its own FIFO and `fresh`, spawned cells,
 * newest first, so that trees unfold depth first and memory stays warm
 * (private.h); `ring`, what it has offered to others (share.c); and the
 * group's shared queue. The order rotates, so none of them can starve another.
 * Cells with a `home`, because a turn of theirs is parked on one of a worker's
 * stacks, go to that worker's FIFO, through its inbox where another thread
 * schedules them, and are never offered.
 *
 * What this costs on two cores decides more than anything else: a wake-up
 * takes as long as thousands of messages, and a thief that takes the only
 * runnable cell makes both cores wait for each other. So thieves leave a lone
 * cell alone unless its worker is stuck, a sleeper is woken only when work
 * has been waiting, and after a fruitless wake-up the next waits longer.
 *
 * No wake-up is lost: a worker that goes to sleep writes park_word, then
 * looks at inbox and shared queue; whoever puts something there writes it,
 * then reads park_word (or `sleeping`). All seq_cst; tests/model/park.pml.
 * What only lies with another worker needs no wake-up: that one is awake.
 */
#include <stdlib.h>
#include <string.h>

#include "core/private.h"

static _Thread_local tri_worker *current;

tri_worker *tri_worker_current(void)
{
    return current;
}

void tri_worker_set_current(tri_worker *worker)
{
    current = worker;
}

tr_nanos tri_clock(tri_worker *worker)
{
    tri_world *world = worker->sys->world;
    worker->now = world->ops->mono(world);
    return worker->now;
}

/* ---- the group's shared queue ---- */

static void shared_push(tri_group *group, tri_cell *first, tri_cell *last,
                        uint32_t count)
{
    last->run_next = NULL;
    tri_lock_take(&group->lock);
    if (group->last_cell != NULL) {
        group->last_cell->run_next = first;
    } else {
        group->first_cell = first;
    }
    group->last_cell = last;
    // Seq_cst: before the caller reads `sleeping`; see the file comment.
    atomic_fetch_add_explicit(&group->length, count, memory_order_seq_cst);
    tri_lock_drop(&group->lock);
}

static tri_cell *shared_pop(tri_group *group)
{
    // Seq_cst: also the last look before a worker sleeps.
    if (atomic_load_explicit(&group->length, memory_order_seq_cst) == 0) {
        return NULL;
    }
    tri_lock_take(&group->lock);
    tri_cell *cell = group->first_cell;
    if (cell != NULL) {
        group->first_cell = cell->run_next;
        if (group->first_cell == NULL) {
            group->last_cell = NULL;
        }
        // Relaxed: the lock orders it.
        atomic_fetch_sub_explicit(&group->length, 1, memory_order_relaxed);
    }
    tri_lock_drop(&group->lock);
    return cell;
}

/* ---- cells bound to a worker, from other threads ---- */

static void inbox_push(tri_worker *worker, tri_cell *cell)
{
    // Relaxed: confirmed by the exchange.
    tri_cell *seen = atomic_load_explicit(&worker->inbox, memory_order_relaxed);
    do {
        cell->run_next = seen;
        // Seq_cst: before the caller reads park_word.
    } while (!atomic_compare_exchange_weak_explicit(&worker->inbox, &seen, cell,
                                                    memory_order_seq_cst,
                                                    memory_order_relaxed));
}

/* Moves the inbox to our own, oldest first. */
static void inbox_take(tri_worker *worker)
{
    // Seq_cst: also the last look before the worker sleeps.
    if (atomic_load_explicit(&worker->inbox, memory_order_seq_cst) == NULL) {
        return;
    }
    // Acquire: pairs with inbox_push.
    tri_cell *newest =
        atomic_exchange_explicit(&worker->inbox, NULL, memory_order_acq_rel);
    tri_cell *oldest = NULL;
    while (newest != NULL) {
        tri_cell *next = newest->run_next;
        newest->run_next = oldest;
        oldest = newest;
        newest = next;
    }
    while (oldest != NULL) {
        tri_cell *next = oldest->run_next;
        tri_own_push(worker, oldest);
        oldest = next;
    }
}

/* ---- waking ---- */

bool tri_worker_wake(tri_worker *worker)
{
    bool woken = false;
    tri_world *world = worker->sys->world;
    // Seq_cst: after what the sleeper is to find; see the file comment.
    if (atomic_load_explicit(&worker->park_word, memory_order_seq_cst) == 1 &&
        atomic_exchange_explicit(&worker->park_word, 0, memory_order_seq_cst) ==
            1) {
        world->ops->wake(world, &worker->park_word, 1);
        woken = true;
    }
    if (worker->stepping) {
        tri_poll_ready(worker->sys);
    }
    return woken;
}

void tri_group_wake(tri_group *group, bool even_so)
{
    // Seq_cst, both: after shared_push; pair with worker_sleep and search. A
    // worker that is still searching looks at the queue once more before it
    // sleeps, and wakes another if it leaves something behind.
    if (atomic_load_explicit(&group->sleeping, memory_order_seq_cst) == 0 ||
        (!even_so &&
         atomic_load_explicit(&group->searching, memory_order_seq_cst) != 0)) {
        return;
    }
    uint32_t count = atomic_load_explicit(&group->count, memory_order_acquire);
    for (uint32_t i = 0; i < count; i++) {
        tri_worker *worker =
            atomic_load_explicit(&group->workers[i], memory_order_acquire);
        if (tri_worker_wake(worker)) {
            return;
        }
    }
}

/*
 * Called by a busy worker now and then: wakes a sleeper if work has been
 * lying here for as long as a wake-up costs.
 */
static void share_if_late(tri_worker *worker)
{
    tri_group *group = worker->group;
    // Relaxed: hints; nothing is lost by an old value.
    if (atomic_load_explicit(&group->sleeping, memory_order_relaxed) == 0 ||
        atomic_load_explicit(&group->searching, memory_order_relaxed) != 0 ||
        (tri_worker_waiting(worker) < 2 &&
         atomic_load_explicit(&group->length, memory_order_relaxed) == 0)) {
        worker->backlog_since = 0;
        return;
    }
    tr_nanos now = tri_clock(worker);
    if (worker->backlog_since == 0) {
        worker->backlog_since = now;
        return;
    }
    uint64_t pause =
        atomic_load_explicit(&group->wake_pause, memory_order_relaxed);
    if (now - worker->backlog_since >= (tr_nanos)pause) {
        worker->backlog_since = 0;
        tri_group_wake(group, false);
    }
}

/* ---- scheduling ---- */

static tri_group *group_of(tr_system *sys, const tri_cell *cell)
{
    // Relaxed: fixed at spawn.
    uint32_t flags = atomic_load_explicit(&((tri_cell *)(uintptr_t)cell)->flags,
                                          memory_order_relaxed);
    return sys->groups[(flags >> TRI_CELL_GROUP_SHIFT) & 0xff];
}

/* A thread outside, a worker that the cell is bound to, another group. */
static __attribute__((noinline)) void schedule_elsewhere(tri_worker *worker,
                                                         tri_cell *cell)
{
    tr_system *sys = worker->sys;
    // Relaxed: fixed at spawn.
    uint32_t flags = atomic_load_explicit(&cell->flags, memory_order_relaxed);
    if (flags & TRI_CELL_OUTSIDE) {
        tri_outside_wake(worker, cell);
        return;
    }
    if (cell->home != TRI_HOME_NONE) {
        // Acquire: the worker was published by tri_worker_new.
        tri_worker *home = atomic_load_explicit(&sys->workers[cell->home],
                                                memory_order_acquire);
        inbox_push(home, cell);
        tri_worker_wake(home);
        return;
    }
    tri_group *group = group_of(sys, cell);
    shared_push(group, cell, cell, 1);
    tri_group_wake(group, false);
    if (sys->driven_worker != NULL && group == sys->driven_worker->group) {
        tri_worker_wake(sys->driven_worker);
    }
}

void tri_schedule(tri_worker *worker, tri_cell *cell)
{
    if (TRI_LIKELY(cell->home == TRI_HOME_NONE ? tri_runs_here(worker, cell)
                                               : cell->home == worker->index)) {
        tri_own_push(worker, cell);
    } else {
        schedule_elsewhere(worker, cell);
    }
}

bool tri_schedules_here(tri_worker *worker, tri_cell *cell)
{
    return cell->home == TRI_HOME_NONE && !worker->stepping &&
           tri_runs_here(worker, cell);
}

void tri_schedule_fresh(tri_worker *worker, tri_cell *cell)
{
    if (tri_schedules_here(worker, cell)) {
        tri_fresh_push(worker, cell);
    } else {
        tri_schedule(worker, cell);
    }
}

/* ---- sleeping ---- */

static bool must_leave(tri_worker *worker)
{
    // Seq_cst: also the last look before a worker sleeps; pairs with
    // tri_workers_stop.
    return atomic_load_explicit(&worker->sys->stopping_workers,
                                memory_order_seq_cst);
}

tr_nanos tri_worker_due(tri_worker *worker)
{
    // Relaxed: our own wheel; others only cancel in it.
    tr_nanos due =
        atomic_load_explicit(&worker->wheel_next, memory_order_relaxed);
    return worker->asks != NULL && worker->asks->deadline < due
               ? worker->asks->deadline
               : due;
}

static tr_nanos until_timer(tri_worker *worker, tr_nanos now)
{
    tr_nanos due = tri_worker_due(worker);
    if (due == TR_FOREVER) {
        return TR_FOREVER;
    }
    return due > now ? due - now : 0;
}

static bool all_asleep(tri_group *group, uint32_t but)
{
    // Relaxed: hints.
    return atomic_load_explicit(&group->sleeping, memory_order_relaxed) + but >=
           atomic_load_explicit(&group->count, memory_order_relaxed);
}

bool tri_is_asleep(tr_system *sys, const tri_cell *cell)
{
    return cell != NULL && all_asleep(group_of(sys, cell), 0);
}

/*
 * How long a worker without work looks around. While others are awake these
 * may have some at any moment. Else it can only come from a thread outside or
 * a timer: then looking pays if the last sleep was a short one. If not, the
 * worker would only keep the core from the thread that it has just answered.
 */
static tr_nanos patience(tri_worker *worker)
{
    return all_asleep(worker->group, 1) ? worker->spin : TRI_SPIN;
}

/* Looks around for a while; NULL when nothing came. */
static tri_cell *search(tri_worker *worker)
{
    tri_world *world = worker->sys->world;
    tri_group *group = worker->group;
    tr_nanos start = tri_clock(worker);
    tr_nanos span = patience(worker);
    tri_cell *cell = NULL;

    // Seq_cst: see tri_group_wake.
    atomic_fetch_add_explicit(&group->searching, 1, memory_order_seq_cst);
    for (uint32_t round = 0; cell == NULL; round++) {
        inbox_take(worker);
        if ((cell = tri_own_pop(worker)) != NULL ||
            (cell = shared_pop(group)) != NULL) {
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
    atomic_fetch_sub_explicit(&group->searching, 1, memory_order_seq_cst);
    if (cell != NULL &&
        atomic_load_explicit(&group->length, memory_order_seq_cst) != 0) {
        tri_group_wake(group, false);  // there is more than we can run
    }
    return cell;
}

/*
 * The clock has been read. Stacks that were not needed for some time are given
 * back; while there are many a worker does not sleep for longer than that.
 */
static tr_nanos trim_stacks(tri_worker *worker, tr_nanos timeout)
{
    if (worker->now - worker->trimmed_at >= TRI_TRIM_PAUSE) {
        worker->trimmed_at = worker->now;
        tri_fiber_pool_trim(&worker->fibers);
    }
    bool many = worker->fibers.spare_count > TRI_FIBER_SPARE_WARM;
    return many && timeout > TRI_TRIM_PAUSE ? TRI_TRIM_PAUSE : timeout;
}

/* Sleeps until woken, a timer is due, or stacks may be given back. */
static void worker_sleep(tri_worker *worker)
{
    tri_world *world = worker->sys->world;
    tri_group *group = worker->group;

    // Seq_cst: before the last look around; see the file comment.
    atomic_store_explicit(&worker->park_word, 1, memory_order_seq_cst);
    atomic_fetch_add_explicit(&group->sleeping, 1, memory_order_seq_cst);
    bool work =
        atomic_load_explicit(&worker->inbox, memory_order_seq_cst) != NULL ||
        atomic_load_explicit(&group->length, memory_order_seq_cst) != 0 ||
        must_leave(worker);
    tr_nanos timeout = until_timer(worker, tri_clock(worker));
    if (!work && timeout > 0) {
        timeout = trim_stacks(worker, timeout);
        tri_count(&worker->count.parks);
        tr_nanos since = worker->now;
        world->ops->park(world, &worker->park_word, 1, timeout);
        worker->spin = tri_clock(worker) - since < TRI_SPIN ? TRI_SPIN : 0;
    }
    atomic_fetch_sub_explicit(&group->sleeping, 1, memory_order_seq_cst);
    atomic_store_explicit(&worker->park_word, 0, memory_order_seq_cst);
}

/* After a wake-up: was there anything? The next one waits accordingly. */
static void judge_wake(tri_group *group, bool useful)
{
    // Relaxed: a hint of share_if_late.
    uint64_t pause =
        atomic_load_explicit(&group->wake_pause, memory_order_relaxed);
    pause = useful ? TRI_WAKE_MIN : TRI_MIN(pause * 2, TRI_WAKE_MAX);
    atomic_store_explicit(&group->wake_pause, pause, memory_order_relaxed);
}

/* ---- timers ---- */

void tri_wheel_noted(tri_worker *worker)
{
    tri_lock_assert_held(&worker->wheel_lock);
    // Relaxed: read by the worker, and by the world that steps it.
    atomic_store_explicit(&worker->wheel_next, tri_wheel_next(&worker->wheel),
                          memory_order_relaxed);
}

void tri_arm(tri_worker *worker, tri_timer *timer, tr_nanos due, uint32_t kind)
{
    tri_lock_take(&worker->wheel_lock);
    tri_wheel_arm(&worker->wheel, timer, due, kind);
    // Relaxed: as above.
    if (due < atomic_load_explicit(&worker->wheel_next, memory_order_relaxed)) {
        atomic_store_explicit(&worker->wheel_next, due, memory_order_relaxed);
    }
    tri_lock_drop(&worker->wheel_lock);
}

void tri_disarm(tr_system *sys, uint16_t wheel, tri_timer *timer)
{
    // Acquire: the worker was published by tri_worker_new.
    tri_worker *worker =
        atomic_load_explicit(&sys->workers[wheel], memory_order_acquire);
    tri_lock_take(&worker->wheel_lock);
    tri_wheel_cancel(&worker->wheel, timer);
    tri_lock_drop(&worker->wheel_lock);
}

static void fire_one(tri_worker *worker, tri_timer *timer)
{
    switch (tri_timer_kind(timer)) {
    case TRI_TIMER_CELL: {
        tri_cell *cell = tri_container_of(timer, tri_cell, timer);
        // Relaxed: a cell cancels its timer before it gives its id up.
        uint64_t id = atomic_load_explicit(&cell->id, memory_order_relaxed);
        tri_signal(worker, cell, id, TRI_SIG_TIMER);
        break;
    }
    case TRI_TIMER_WAIT:
        tri_wait_timed_out(worker, tri_container_of(timer, tri_wait, timer));
        break;
    default:
        tri_count(&worker->count.timers);
        tri_user_timer_fire(worker,
                            tri_container_of(timer, tri_user_timer, timer));
        break;
    }
}

void tri_worker_fire(tri_worker *worker, tr_nanos now)
{
    // Fired under the lock: whoever finds a timer not armed in tri_disarm
    // knows that its message or signal is already on its way.
    tri_lock_take(&worker->wheel_lock);
    tri_timer *timer;
    while ((timer = tri_wheel_expire(&worker->wheel, now)) != NULL) {
        fire_one(worker, timer);
    }
    // Relaxed: as in tri_arm.
    atomic_store_explicit(&worker->wheel_next, tri_wheel_next(&worker->wheel),
                          memory_order_relaxed);
    tri_lock_drop(&worker->wheel_lock);
    tri_asks_fire(worker, now);
}

static void look_at_clock(tri_worker *worker)
{
    // Relaxed: the monitor's request; an old one costs a look.
    if (atomic_load_explicit(&worker->look, memory_order_relaxed) &
        TRI_LOOK_CLOCK) {
        atomic_fetch_and_explicit(&worker->look, ~TRI_LOOK_CLOCK,
                                  memory_order_relaxed);
    }
    if (tri_worker_due(worker) != TR_FOREVER &&
        until_timer(worker, tri_clock(worker)) == 0) {
        tri_worker_fire(worker, worker->now);
    }
    share_if_late(worker);
    worker->apart |= worker->tick % TRI_TIME_EVERY == 0;
}

/* The clock has been read; an idle worker has time for a second look. */
static void time_if_idle(tri_worker *worker)
{
    if (worker->now - worker->timed_at >= TRI_TIME_PAUSE) {
        worker->timed_at = worker->now;
        worker->apart = true;
    }
}

/* ---- picking ---- */

/* The newest; now and then the oldest, lest it be buried for ever. */
static tri_cell *fresh_pick(tri_worker *worker)
{
    bool oldest = ++worker->fresh_picks % TRI_BURIED == 0;
    tri_cell *cell = tri_fresh_pop(worker, oldest);
    if (cell != NULL) {
        worker->runs_fresh = true;
        bool owes =
            worker->fresh_debt > 0 && tri_fresh_count(worker) >= TRI_FRESH_MANY;
        worker->fresh_debt = owes ? worker->fresh_debt - 1 : 0;
    }
    return cell;
}

static tri_cell *pick(tri_worker *worker)
{
    uint32_t tick = worker->tick++;
    bool first = tri_fresh_first(worker);
    worker->runs_fresh = false;  // unless it will be a new one
    tri_cell *cell;
    if (tick % TRI_FAIR == 0 && (cell = shared_pop(worker->group)) != NULL) {
        return cell;
    }
    // What we have offered and nobody took.
    if (tick % TRI_LOOK_EVERY == 0 && (cell = tri_ring_take(worker)) != NULL) {
        return cell;
    }
    // New cells against the others: as a rule they come second, but are not
    // forgotten. Where they come first the others are not forgotten.
    bool new_first =
        first ? tick % TRI_OTHERS != 0 : tick % TRI_LOOK_EVERY == 0;
    if ((new_first && (cell = fresh_pick(worker)) != NULL) ||
        (cell = tri_own_pop(worker)) != NULL ||
        (cell = fresh_pick(worker)) != NULL ||
        (cell = tri_ring_take(worker)) != NULL) {
        return cell;
    }
    return shared_pop(worker->group);
}

static tri_cell *next_slowly(tri_worker *worker);

tri_cell *tri_next_other(tri_worker *worker)
{
    if (TRI_LIKELY(!tri_looks_around(worker))) {
        tri_cell *cell = worker->hand;
        worker->hand = NULL;
        if (cell != NULL) {
            worker->runs_fresh = false;
        } else {
            cell = fresh_pick(worker);
        }
        if (cell != NULL) {
            worker->tick++;
            return cell;
        }
    }
    return next_slowly(worker);
}

static __attribute__((noinline)) tri_cell *next_slowly(tri_worker *worker)
{
    if (worker->stepping) {
        tri_cell *picked = worker->step_pick;
        worker->step_pick = NULL;
        return picked;
    }
    tri_settle(worker);
    tri_hand_back(worker);  // the chain ends here
    bool woken = false;
    for (;;) {
        // Relaxed: a hint of the monitor.
        uint32_t look =
            atomic_load_explicit(&worker->look, memory_order_relaxed);
        if (TRI_UNLIKELY(look & TRI_LOOK_SHARE)) {
            // Relaxed: a thief who asks again now asks once more later.
            atomic_fetch_and_explicit(&worker->look, ~TRI_LOOK_SHARE,
                                      memory_order_relaxed);
            tri_share(worker);
        }
        if (worker->tick % TRI_LOOK_EVERY == 0 || (look & TRI_LOOK_CLOCK)) {
            look_at_clock(worker);
        }
        inbox_take(worker);
        tri_cell *cell = pick(worker);
        if (cell == NULL) {
            (void)tri_clock(worker);
            time_if_idle(worker);
            cell = tri_steal(worker);
        }
        if (cell == NULL) {
            look_at_clock(worker);  // may fill our own queues
            cell = pick(worker);
        }
        if (cell == NULL) {
            cell = search(worker);
        }
        if (woken) {
            judge_wake(worker->group, cell != NULL);
            woken = false;
        }
        if (cell != NULL) {
            return cell;
        }
        if (must_leave(worker)) {
            return NULL;
        }
        worker_sleep(worker);
        woken = true;
    }
}

/* ---- stepping: one worker, driven by a world or by tr_poll ---- */

uint32_t tri_worker_runnable(tri_worker *worker)
{
    // Relaxed: our own.
    uint32_t own =
        atomic_load_explicit(&worker->own_count, memory_order_relaxed);
    if (own > 0 && TRI_BUGGIFY(worker->sys->world, 0.02)) {
        return own;  // mail from other threads is seen later
    }
    inbox_take(worker);
    tri_cell *cell;
    while ((cell = shared_pop(worker->group)) != NULL) {
        tri_own_push(worker, cell);
    }
    // Relaxed: our own.
    return atomic_load_explicit(&worker->own_count, memory_order_relaxed);
}

tri_cell *tri_worker_pick(tri_worker *worker, uint32_t index)
{
    tri_cell *cell = tri_own_remove(worker, index);
    TRI_CHECK(cell != NULL);
    return cell;
}
