/*
 * backlog.c - moves mail through the backlog, and drops the oldest.
 *
 * Invariant: whoever moves mail from the lane to the backlog holds room.lock,
 * and so does the owner when it takes from either, so the order stays. A
 * sender pushes its own message after the move: the push wakes the actor if
 * the owner found the lane empty meanwhile.
 */
#include "core/mail/backlog.h"

#include <stdatomic.h>

#include "base/lock.h"
#include "core/cell/cell.h"
#include "core/cell/ext.h"
#include "core/cell/message.h"
#include "core/mail/hard_limit.h"
#include "core/mail/mailbox.h"

/* Counts the length of the backlog; with the lock. */
static void count(tri_room *room, const tri_item *item, int32_t change)
{
    tri_lock_assert_held(&room->lock);
    // Relaxed: for observers; written with the lock.
    atomic_store_explicit(
        &room->backlog,
        atomic_load_explicit(&room->backlog, memory_order_relaxed) +
            (uint32_t)change,
        memory_order_relaxed);
    if (tri_is_counted(item)) {
        room->droppable += (uint32_t)change;
    }
}

/* Moves the mail of the lane to the backlog; with the lock. */
static void move_lane(tri_cell *cell, tri_room *room)
{
    tri_lock_assert_held(&room->lock);
    // Relaxed: confirmed by the exchange.
    uintptr_t seen = atomic_load_explicit(&cell->mail, memory_order_relaxed);
    do {
        if (tri_mail_newest(seen) == NULL) {
            return;
        }
        // Acquire: sees the messages that tri_mail_push published. Release:
        // as tri_mail_take.
    } while (!atomic_compare_exchange_weak_explicit(
        &cell->mail, &seen, seen & TRI_MAIL_BITS, memory_order_acq_rel,
        memory_order_relaxed));
    uint32_t moved;
    tri_item *item = tri_items_reverse(tri_mail_newest(seen), &moved);
    if (room->oldest == NULL) {
        room->oldest = item;
    } else {
        room->newest->next = item;
    }
    for (; item != NULL; item = item->next) {
        count(room, item, 1);
        room->newest = item;
    }
}

/* Takes the item at *link out of the backlog; `before` is the one before. */
static tri_item *unlink_item(tri_room *room, tri_item **link, tri_item *before)
{
    tri_item *item = *link;
    *link = item->next;
    if (room->newest == item) {
        room->newest = before;
    }
    item->next = NULL;
    count(room, item, -1);
    return item;
}

/* Takes the oldest message that may be dropped out of the backlog, or NULL. */
static tri_item *take_droppable(tri_room *room)
{
    tri_item *before = NULL, **link = &room->oldest;
    tri_lock_assert_held(&room->lock);
    while (*link != NULL && !tri_is_counted(*link)) {
        before = *link;  // timers and answers are not dropped
        link = &before->next;
    }
    return *link != NULL ? unlink_item(room, link, before) : NULL;
}

static uint32_t limit_of(tri_room *room)
{
    // Relaxed: fixed at spawn.
    return atomic_load_explicit(&room->limit, memory_order_relaxed);
}

tri_item *tri_backlog_overflow(tri_cell *cell, uint64_t id)
{
    tri_item *dropped = NULL, **last = &dropped;
    tri_ext *ext = tri_ext_of(cell);
    if (ext == NULL) {
        return NULL;
    }
    tri_room *room = &ext->room;
    tri_lock_take(&room->lock);
    // Acquire: the room is still that of the actor; it cannot end while the
    // room is open and we have the lock.
    if (!room->closed && tri_ext_of(cell) == ext &&
        atomic_load_explicit(&cell->id, memory_order_acquire) == id) {
        move_lane(cell, room);
        while (room->droppable >= limit_of(room)) {
            tri_item *item = take_droppable(room);
            TRI_CHECK(item != NULL);
            *last = item;
            last = &item->next;
        }
    }
    tri_lock_drop(&room->lock);
    return dropped;
}

/* Takes the oldest message of the queue that may be dropped, or NULL. */
static tri_item *take_from_queue(tri_cell *cell)
{
    tri_item **link = &cell->queue;
    while (*link != NULL && !tri_is_counted(*link)) {
        link = &(*link)->next;
    }
    tri_item *item = *link;
    if (item != NULL) {
        *link = item->next;
    }
    return item;
}

/* Takes the oldest of the least urgent messages, or NULL. */
static tri_item *take_urgent(tri_ext *ext)
{
    for (int p = 1; p < TRI_PRIORITIES; p++) {
        tri_item *item = ext->urgent.first[p];
        if (item != NULL) {
            ext->urgent.first[p] = item->next;
            return item;
        }
    }
    return NULL;
}

/*
 * Takes the oldest message that may be dropped: an ordinary one that the owner
 * has taken out, then one of the backlog, then an urgent one. NULL: none.
 */
static tri_item *take_sorted(tri_cell *cell, tri_ext *ext)
{
    tri_item *item = take_from_queue(cell);
    if (item == NULL && (item = take_droppable(&ext->room)) != NULL) {
        return item;
    }
    if (item == NULL) {
        item = take_urgent(ext);
    }
    if (item != NULL) {
        // Relaxed: for observers.
        atomic_fetch_sub_explicit(&cell->queued, 1, memory_order_relaxed);
    }
    return item;
}

/* Returns the number of counted messages above the hard limit. */
static int32_t excess(tri_room *room)
{
    // Relaxed: only the number matters.
    return (int32_t)atomic_load_explicit(&room->counted, memory_order_relaxed) -
           (int32_t)limit_of(room);
}

/* Moves the oldest message of the backlog to the queue if that is empty. */
static void move_first(tri_cell *cell, tri_room *room)
{
    tri_lock_assert_held(&room->lock);
    if (cell->queue == NULL && room->oldest != NULL) {
        cell->queue = unlink_item(room, &room->oldest, NULL);
        // Relaxed: for observers.
        atomic_fetch_add_explicit(&cell->queued, 1, memory_order_relaxed);
    }
}

tri_item *tri_backlog_next(tri_cell *cell)
{
    tri_ext *ext = tri_ext_of(cell);
    tri_item *dropped = NULL, **last = &dropped;
    tri_cell_assert_owned(cell);
    // Relaxed: set before the message was pushed.
    if (atomic_load_explicit(&cell->flags, memory_order_relaxed) &
        TRI_CELL_URGENT) {
        (void)tri_detach(cell);
    }
    tri_lock_take(&ext->room.lock);
    move_lane(cell, &ext->room);
    for (int32_t left = excess(&ext->room); left > 0; left--) {
        tri_item *item = take_sorted(cell, ext);
        if (item == NULL) {
            break;  // a sender has counted its message and not pushed it yet
        }
        item->next = NULL;
        *last = item;
        last = &item->next;
    }
    if ((cell->attention & TRI_ATTENTION_URGENT) == 0) {
        move_first(cell, &ext->room);
    }
    tri_lock_drop(&ext->room.lock);
    return dropped;
}

/* Takes all of the backlog and appends `rest`; with the lock. */
static tri_item *take_all(tri_room *room, tri_item *rest)
{
    tri_item *list = room->oldest;
    tri_lock_assert_held(&room->lock);
    if (list != NULL) {
        room->newest->next = rest;
    }
    room->oldest = NULL;
    room->droppable = 0;
    // Relaxed: for observers; written with the lock.
    atomic_store_explicit(&room->backlog, 0, memory_order_relaxed);
    return list != NULL ? list : rest;
}

tri_item *tri_backlog_take(tri_cell *cell, uint32_t *taken)
{
    tri_room *room = &tri_ext_of(cell)->room;
    tri_cell_assert_owned(cell);
    tri_lock_take(&room->lock);
    move_lane(cell, room);
    // Relaxed: written with the lock.
    *taken = atomic_load_explicit(&room->backlog, memory_order_relaxed);
    tri_item *list = take_all(room, NULL);
    tri_lock_drop(&room->lock);
    return list;
}

tri_item *tri_backlog_close(tri_cell *cell, tri_item *rest)
{
    tri_room *room = &tri_ext_of(cell)->room;
    tri_cell_assert_owned(cell);
    // A sender that has moved older mail out of the lane has the lock.
    tri_lock_take(&room->lock);
    tri_item *list = take_all(room, rest);
    tri_lock_drop(&room->lock);
    return list;
}
