/*
 * mailbox.c - the owner's side of the two lanes of a mailbox.
 *
 * cell.h draws the words and their bits. Invariant: no wake-up is lost.
 *
 *  - User mail: the push itself replaces IDLE. Either it finds the bit and
 *    schedules the cell, or the owner's exchange to IDLE fails and the owner
 *    reads the lane again.
 *  - System mail: the sender writes sys_mail, then reads mail; the owner
 *    writes IDLE or PARKED into mail, then reads sys_mail. All four steps are
 *    seq_cst, so at least one of the two sees the other's write
 *    (tests/model/mailbox.pml).
 *  - An answer or a request that claims the cell before it is delivered
 *    (tri_push_reply, tri_handoff_send) has replaced IDLE like a push.
 */
#include "core/mail/mailbox.h"

#include <stdatomic.h>

#include "base/check.h"
#include "core/cell/cell.h"
#include "core/cell/ext.h"
#include "core/cell/message.h"
#include "core/cell/props.h"
#include "core/mail/backlog.h"
#include "core/run/scheduler.h"

void tri_mailbox_wake(tri_worker *worker, tri_cell *cell)
{
    if (tri_mailbox_claim(cell)) {
        tri_schedule(worker, cell);
    }
}

bool tri_mail_push_deep(tri_cell *cell, tr_msg *msg, uintptr_t *seen,
                        uint32_t *depth)
{
    uintptr_t count, next;
    // Relaxed: the exchange below confirms it.
    *seen = atomic_load_explicit(&cell->mail, memory_order_relaxed);
    do {
        if (*seen & TRI_MAIL_CLOSED) {
            return false;
        }
        msg->item.next = tri_mail_newest(*seen);
        count = tri_mail_depth(*seen) + (uintptr_t)1;
        count = count > TRI_MAIL_MANY ? TRI_MAIL_WRAP : count;
        next = (*seen & TRI_MAIL_PARKED) | count << TRI_MAIL_DEPTH_SHIFT |
               (uintptr_t)msg;
        // Release and acquire: as in tri_mail_push.
    } while (!atomic_compare_exchange_weak_explicit(
        &cell->mail, seen, next, memory_order_acq_rel, memory_order_relaxed));
    if (tri_mail_depth(*seen) == TRI_MAIL_MANY) {
        // Relaxed: an estimate. A wrap that comes after the owner has taken
        // the lane counts only while the lane is deep, until the next detach.
        atomic_fetch_add_explicit(&cell->flags, 1u << TRI_CELL_WRAP_SHIFT,
                                  memory_order_relaxed);
    }
    *depth = tri_mail_depth(next);
    return true;
}

tri_item *tri_items_reverse(tri_item *newest, uint32_t *count)
{
    tri_item *oldest = NULL;
    uint32_t n = 0;
    while (newest != NULL) {
        tri_item *next = newest->next;
        newest->next = oldest;
        oldest = newest;
        newest = next;
        n++;
    }
    *count = n;
    return oldest;
}

tri_item *tri_system_take(tri_cell *cell, bool *signalled)
{
    // Relaxed: only the owner closes it. Acquire: sees the items that
    // tri_push_system published.
    uintptr_t seen =
        atomic_load_explicit(&cell->sys_mail, memory_order_relaxed);
    seen = atomic_exchange_explicit(&cell->sys_mail, seen & TRI_SYS_CLOSED,
                                    memory_order_acq_rel);
    uint32_t count;
    *signalled = (seen & TRI_SYS_SIGNAL) != 0;
    return tri_items_reverse((tri_item *)(seen & ~TRI_SYS_BITS), &count);
}

/* Gives the message the priority that the actor's function returns. */
static void prioritize(const tri_props *props, tri_item *item)
{
    if (item->kind == TRI_ITEM_USER) {
        uint8_t priority = props->priority(tri_msg_from(item));
        priority = TRI_MIN(priority, TR_PRIORITY_MAX);
        item->priority = TRI_MAX(item->priority, priority);
    }
}

/* Moves urgent messages from a detached list to the lanes in ext. */
static tri_item *sort_urgent(tri_cell *cell, tri_item *list)
{
    tri_ext *ext = tri_ext_of(cell);
    tri_item *first = NULL, **link = &first;
    bool is_ordered = tri_mail_is_ordered(cell);
    for (tri_item *item = list, *next; item != NULL; item = next) {
        next = item->next;
        if (is_ordered) {
            prioritize(cell->props, item);
        }
        if (item->priority == 0 || ext == NULL) {
            *link = item;
            link = &item->next;
            continue;
        }
        TRI_CHECK(item->priority < TRI_PRIORITIES);
        item->next = NULL;
        if (ext->urgent.first[item->priority] == NULL) {
            ext->urgent.first[item->priority] = item;
        } else {
            ext->urgent.last[item->priority]->next = item;
        }
        ext->urgent.last[item->priority] = item;
        cell->attention |= TRI_ATTENTION_URGENT;
    }
    *link = NULL;
    return first;
}

/* Appends detached mail, oldest first, to the queue. */
static void append(tri_cell *cell, tri_item *list, uint32_t count)
{
    TRI_CHECK_SLOW(count > 0);
    // Relaxed: fixed, or set before the message was pushed.
    uint32_t flags = atomic_load_explicit(&cell->flags, memory_order_relaxed);
    if (TRI_UNLIKELY(flags & TRI_CELL_WRAPS)) {
        atomic_fetch_and_explicit(&cell->flags, ~TRI_CELL_WRAPS,
                                  memory_order_relaxed);
    }
    if (TRI_UNLIKELY(flags & TRI_CELL_URGENT)) {
        list = sort_urgent(cell, list);
    }
    tri_queue_append(cell, list);
    // Relaxed: for observers.
    atomic_store_explicit(
        &cell->queued,
        atomic_load_explicit(&cell->queued, memory_order_relaxed) + count,
        memory_order_relaxed);
}

bool tri_mail_is_ordered(const tri_cell *cell)
{
    TRI_CHECK(cell != NULL);
    return cell->props != NULL && cell->props->priority != NULL;
}

bool tri_detach(tri_cell *cell)
{
    uint32_t count;
    tri_item *list;
    // Relaxed: fixed at spawn.
    if (TRI_UNLIKELY(atomic_load_explicit(&cell->flags, memory_order_relaxed) &
                     TRI_CELL_DROPS_OLD)) {
        list = tri_backlog_take(cell, &count);
    } else {
        // Relaxed: only decides whether an exchange is needed.
        uintptr_t seen =
            atomic_load_explicit(&cell->mail, memory_order_relaxed);
        list = tri_mail_newest(seen) == NULL
                   ? NULL
                   : tri_items_reverse(tri_mail_take(cell, seen), &count);
    }
    if (list != NULL) {
        append(cell, list, count);
    }
    return list != NULL;
}

tri_item *tri_detach_many(tri_cell *cell, tri_item *newest)
{
    uint32_t count;
    tri_item *list = tri_items_reverse(newest, &count);
    append(cell, list, count);
    tri_item *first = cell->queue;
    if (cell->attention != 0 || first == NULL) {
        return NULL;
    }
    cell->queue = first->next;
    // Relaxed: for observers.
    atomic_store_explicit(
        &cell->queued,
        atomic_load_explicit(&cell->queued, memory_order_relaxed) - 1,
        memory_order_relaxed);
    return first;
}

bool tri_sleep(tri_worker *worker, tri_cell *cell, bool for_user_mail)
{
    uintptr_t bit = for_user_mail ? TRI_MAIL_IDLE : TRI_MAIL_PARKED;
    // Relaxed: confirmed by the exchange.
    uintptr_t seen = atomic_load_explicit(&cell->mail, memory_order_relaxed);
    do {
        TRI_CHECK_SLOW((seen & (TRI_MAIL_IDLE | TRI_MAIL_PARKED)) == 0);
        if (for_user_mail && tri_mail_newest(seen) != NULL) {
            return false;
        }
        // Release: all that the owner wrote, to whoever takes the cell next.
        // Seq_cst: before sys_mail is read.
    } while (!atomic_compare_exchange_weak_explicit(
        &cell->mail, &seen, seen | bit, memory_order_seq_cst,
        memory_order_relaxed));
    // Seq_cst: after the exchange above; see the file comment. The cell is
    // not ours any more, and another worker may have run it since: if there is
    // system mail, we claim the cell like any other thread.
    if (atomic_load_explicit(&cell->sys_mail, memory_order_seq_cst) &
        ~TRI_SYS_CLOSED) {
        tri_mailbox_wake(worker, cell);
    }
    return true;
}

tri_item *tri_close_user(tri_cell *cell)
{
    // Acquire: sees what tri_mail_push published; nothing comes after.
    uintptr_t seen = atomic_exchange_explicit(&cell->mail, TRI_MAIL_CLOSED,
                                              memory_order_acq_rel);
    TRI_CHECK((seen & (TRI_MAIL_IDLE | TRI_MAIL_PARKED)) == 0);
    uint32_t count;
    tri_item *list = tri_items_reverse(tri_mail_newest(seen), &count);
    // Relaxed: fixed at spawn.
    return atomic_load_explicit(&cell->flags, memory_order_relaxed) &
                   TRI_CELL_DROPS_OLD
               ? tri_backlog_close(cell, list)
               : list;
}

tri_item *tri_close_system(tri_cell *cell)
{
    TRI_CHECK_SLOW(tri_cell_is_owned(cell));
    // Acquire: sees what tri_push_system published; nothing comes after.
    uintptr_t seen = atomic_exchange_explicit(&cell->sys_mail, TRI_SYS_CLOSED,
                                              memory_order_acq_rel);
    uint32_t count;
    return tri_items_reverse((tri_item *)(seen & ~TRI_SYS_BITS), &count);
}
