/*
 * outside_box.c - opens, waits in and closes the mailbox of a thread.
 *
 * A late answer finds a cell with another id, so open waits need no table.
 *
 * Invariant: the thread owns the cell of its box, except from tri_sleep to the
 * return of wait_word or reclaim. It holds no lock while it waits.
 */
#include "core/ask/outside_box.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/world.h"
#include "core/caller.h"
#include "core/cell/cell.h"
#include "core/cell/ext.h"
#include "core/cell/message.h"
#include "core/cell/ref.h"
#include "core/life/join.h"
#include "core/life/spawn.h"
#include "core/life/watch.h"
#include "core/mail/hard_limit.h"
#include "core/mail/mailbox.h"
#include "core/mail/send.h"
#include "core/run/scheduler.h"
#include "core/run/worker.h"
#include "core/system.h"

tr_err tri_outside_box_open(tri_outside_box *box, tr_system *sys)
{
    TRI_CHECK(sys->magic == TRI_SYSTEM_MAGIC);
    tri_caller caller = tri_enter_system(sys, (tr_ref){0});
    tri_cell *cell =
        tri_cell_new(&caller.worker->cache, tri_id_next(caller.worker));
    if (cell != NULL) {
        cell->state = box;
        // Relaxed: its ref is not known yet.
        atomic_store_explicit(&cell->flags, TRI_CELL_OUTSIDE,
                              memory_order_relaxed);
        atomic_store_explicit(&cell->life, TR_STATE_RUNNING,
                              memory_order_relaxed);
    }
    tri_leave(&caller);
    if (cell == NULL) {
        return TR_ENOMEM;
    }
    box->cell = cell;
    box->sys = sys;
    box->awaited = sys->user;
    tri_lock_take(&sys->boxes_lock);
    tri_link_init(&box->link);
    tri_list_push_front(&sys->boxes, &box->link);
    tri_lock_drop(&sys->boxes_lock);
    // Relaxed: only this thread knows the box.
    atomic_store_explicit(&box->word, 0, memory_order_relaxed);
    return TR_OK;
}

/* Disposes of a list of items that were in the box of `self`. */
static void drop_all(tri_worker *worker, tr_ref self, tri_item *first)
{
    for (tri_item *item = first, *next; item != NULL; item = next) {
        next = item->next;
        tri_outside_box_drop(worker, self, item);
    }
}

void tri_outside_box_close(tri_outside_box *box)
{
    tri_cell *cell = box->cell;
    tri_cell_assert_owned(cell);
    tri_caller caller = tri_enter_system(box->sys, (tr_ref){0});
    tr_ref self = tri_cell_ref(box->sys, cell);
    tri_item *item = tri_close_user(cell);
    drop_all(caller.worker, self, cell->queue);
    cell->queue = NULL;
    drop_all(caller.worker, self, item);
    drop_all(caller.worker, self, tri_close_system(cell));
    if (tri_ext_of(cell) != NULL) {
        tri_unwatch_all(caller.worker, cell);  // watches of tr_watch_for
        tri_watchers_notify(caller.worker, cell, TR_STOPPED);
        tri_joins_answer(caller.worker, cell);
    }
    tri_ext_free(caller.worker, cell);
    tri_cell_free(&caller.worker->cache, cell);
    tri_leave(&caller);
    tri_lock_take(&box->sys->boxes_lock);
    tri_list_remove(&box->link);
    tri_lock_drop(&box->sys->boxes_lock);
}

void tri_outside_box_drop(tri_worker *worker, tr_ref self, tri_item *item)
{
    TRI_CHECK(tri_ref_is_here(worker->sys, self));
    switch (item->kind) {
    case TRI_ITEM_USER:
        tri_dead(worker, self, tri_msg_from(item), TR_DEAD_DRAINED);
        break;
    case TRI_ITEM_REPLY:
        tri_dead(worker, self, tri_msg_from(item), TR_DEAD_LATE);
        break;
    case TRI_ITEM_WATCH: {
        tri_watch *watch = (tri_watch *)(void *)item;
        tri_cell *cell = tri_ref_cell(self);
        tri_watch_arrived(worker, cell, watch);
        break;
    }
    case TRI_ITEM_JOIN:
        tri_join_arrived(worker, tri_ref_cell(self), (tri_join *)(void *)item);
        break;
    case TRI_ITEM_POISON:
        tri_msg_free(&worker->cache, tri_msg_from(item));
        break;
    default:  // a notice from malloc, such as TRI_ITEM_TERMINATED
        free(item);
        break;
    }
}

void tri_outside_wake(tri_worker *worker, tri_cell *cell)
{
    tri_world *world = worker->sys->world;
    tri_outside_box *box = cell->state;
    TRI_CHECK(box != NULL);
    // Release: gives the cell back; pairs with the acquire in wait_word. The
    // box may be gone after it, so only its address is used.
    atomic_store_explicit(&box->word, 1, memory_order_release);
    world->ops->wake(world, &box->word, 1);
    worker->sys->up->poll_ready(worker->sys);  // the thread may be in tr_poll
}

/* Waits until the thread owns the cell. Returns false at the deadline. */
static bool wait_word(tri_outside_box *box, tr_nanos deadline)
{
    tr_system *sys = box->sys;
    tri_world *world = sys->world;
    tr_nanos start = world->ops->mono(world);
    tr_nanos now = start;
    // Workers that sleep need long to answer, and perhaps this CPU for it: do
    // not spin then.
    bool spin = world->ops->has_threads && !sys->options.poll &&
                !tri_workers_are_asleep(sys, box->awaited);

    // Acquire: pairs with tri_outside_wake.
    while (atomic_load_explicit(&box->word, memory_order_acquire) == 0) {
        if (spin) {
            for (int i = 0; i < 32; i++) {
                world->ops->pause(world);
            }
            now = world->ops->mono(world);
            spin = now - start < TRI_SPIN_OUTSIDE;
        } else {
            sys->up->wait(sys, &box->word, 0,
                          deadline == TR_FOREVER ? TR_FOREVER : deadline - now);
        }
        now = world->ops->mono(world);
        if (now >= deadline &&
            atomic_load_explicit(&box->word, memory_order_acquire) == 0) {
            return false;
        }
    }
    // Relaxed: the thread owns the cell, so nobody else writes the word.
    atomic_store_explicit(&box->word, 0, memory_order_relaxed);
    return true;
}

/*
 * Claims the cell after the deadline. If a sender has claimed it first, waits
 * for that sender's tri_outside_wake.
 */
static void reclaim(tri_outside_box *box)
{
    tri_cell *cell = box->cell;
    // Relaxed: confirmed by the exchange.
    uintptr_t seen = atomic_load_explicit(&cell->mail, memory_order_relaxed);
    while (seen & (TRI_MAIL_IDLE | TRI_MAIL_PARKED)) {
        // Acquire: the cell is ours; pairs with tri_sleep.
        if (atomic_compare_exchange_weak_explicit(
                &cell->mail, &seen, seen & ~(TRI_MAIL_IDLE | TRI_MAIL_PARKED),
                memory_order_acq_rel, memory_order_relaxed)) {
            return;
        }
    }
    // Acquire: pairs with tri_outside_wake.
    while (atomic_load_explicit(&box->word, memory_order_acquire) == 0) {
        box->sys->world->ops->yield(box->sys->world);
    }
    atomic_store_explicit(&box->word, 0, memory_order_relaxed);
}

/* True if the item was for a former owner of the cell. */
static bool is_stale(const tri_item *item, uint64_t id)
{
    switch (item->kind) {
    case TRI_ITEM_USER:
    case TRI_ITEM_REPLY:
        return ((const tr_msg *)(const void *)item)->to_id != id;
    case TRI_ITEM_TERMINATED:
        return ((const tri_watch *)(const void *)item)->watcher.id != id;
    case TRI_ITEM_JOIN:
        return ((const tri_join *)(const void *)item)->waiter.id != id;
    default:
        return false;
    }
}

/* Takes the next item of the box; system mail first. NULL: there is none. */
static tri_item *next_item(tri_cell *cell)
{
    tri_cell_assert_owned(cell);
    if (cell->queue == NULL) {
        bool signalled;
        cell->queue = tri_system_take(cell, &signalled);
        tri_detach(cell);
    }
    tri_item *item = cell->queue;
    if (item != NULL) {
        cell->queue = item->next;
        // Relaxed: for observers; only the owner writes. The list also holds
        // system mail, which is not counted.
        uint32_t queued =
            atomic_load_explicit(&cell->queued, memory_order_relaxed);
        atomic_store_explicit(
            &cell->queued,
            item->next == NULL ? 0 : queued - tri_is_counted(item),
            memory_order_relaxed);
    }
    return item;
}

tri_item *tri_outside_box_wait(tri_outside_box *box, tr_nanos deadline)
{
    TRI_CHECK(box->cell != NULL);
    for (bool over = false;;) {
        tri_item *item = next_item(box->cell);
        if (item == NULL && over) {
            return NULL;
        }
        if (item != NULL) {
            tr_ref self = tri_cell_ref(box->sys, box->cell);
            if (!is_stale(item, self.id)) {
                return item;
            }
            tri_caller caller = tri_enter_system(box->sys, self);
            tri_outside_box_drop(caller.worker, self, item);
            tri_leave(&caller);
            continue;
        }
        if (!over && tri_sleep(box->sys->outside, box->cell, true) &&
            !wait_word(box, deadline)) {
            reclaim(box);
            over = true;
        }
    }
}

tr_nanos tri_deadline_outside(tr_system *sys, tr_nanos timeout,
                              tr_nanos standard)
{
    TRI_CHECK(sys->magic == TRI_SYSTEM_MAGIC);
    tr_nanos span = timeout != 0 ? timeout : standard;
    tr_nanos now = sys->world->ops->mono(sys->world);
    if (span < 0) {
        return now;
    }
    return span >= TR_FOREVER - now ? TR_FOREVER : now + span;
}
