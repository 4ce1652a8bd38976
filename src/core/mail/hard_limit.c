/*
 * hard_limit.c - admits messages to a bounded mailbox, or refuses them.
 *
 * Invariant: ext->room.counted is the number of counted messages in the
 * mailbox, plus the senders that wait for room, plus those between admission
 * and push. A cell is reused: a sender whose message was meant for the actor
 * before this one may make the number one too low, which admits one message
 * more.
 */
#include "core/mail/hard_limit.h"

#include <stdatomic.h>

#include "base/check.h"
#include "core/caller.h"
#include "core/cell/cell.h"
#include "core/cell/ext.h"
#include "core/cell/message.h"
#include "core/life/signal.h"
#include "core/mail/backlog.h"
#include "core/mail/room.h"
#include "core/mail/send.h"
#include "core/run/worker.h"
#include "core/system.h"

/* Makes dead letters of messages that were dropped. Takes the list. */
static void drop(tri_worker *worker, tri_cell *cell, tr_ref to, tri_item *list)
{
    while (list != NULL) {
        tri_item *next = list->next;
        TRI_CHECK(tri_is_counted(list));
        tri_hard_limit_unadmit(cell);
        tri_dead(worker, to, tri_msg_from(list), TR_DEAD_DROPPED_OLD);
        list = next;
    }
}

tr_err tri_hard_limit_admit(tri_caller *caller, tri_cell *cell, tr_ref to)
{
    TRI_CHECK(tri_ref_is_here(caller->sys, to));
    // Acquire: pairs with tri_ext_make; a bounded cell is born with one.
    tri_ext *ext = atomic_load_explicit(&cell->ext, memory_order_acquire);
    if (ext == NULL) {
        return TR_OK;
    }
    // Relaxed, all: fixed at spawn, and only the number matters.
    uint32_t limit =
        atomic_load_explicit(&ext->room.limit, memory_order_relaxed);
    uint32_t before =
        atomic_fetch_add_explicit(&ext->room.counted, 1, memory_order_relaxed);
    if ((int32_t)before < (int32_t)limit || limit == 0) {
        return TR_OK;
    }
    switch (atomic_load_explicit(&ext->room.overflow, memory_order_relaxed)) {
    case TR_OVERFLOW_DROP_OLD:
        drop(caller->worker, cell, to, tri_backlog_overflow(cell, to.id));
        return TR_OK;
    case TR_OVERFLOW_BLOCK: {
        // The message is counted already; it is pushed once there is room.
        tr_err err = tri_room_wait(caller, cell, to, limit);
        if (err != TR_OK) {
            atomic_fetch_sub_explicit(&ext->room.counted, 1,
                                      memory_order_relaxed);
        }
        return err;
    }
    case TR_OVERFLOW_STOP:
        tri_signal(caller->worker, cell, to.id, TRI_SIG_STOP);
        break;
    default:
        break;
    }
    atomic_fetch_sub_explicit(&ext->room.counted, 1, memory_order_relaxed);
    return TR_EFULL;
}

void tri_hard_limit_unadmit(tri_cell *cell)
{
    TRI_CHECK(cell != NULL);
    // Acquire: as in tri_hard_limit_admit. Relaxed: only the number matters.
    tri_ext *ext = atomic_load_explicit(&cell->ext, memory_order_acquire);
    if (ext != NULL) {
        atomic_fetch_sub_explicit(&ext->room.counted, 1, memory_order_relaxed);
    }
}

bool tri_hard_limit_blocks(tri_cell *cell)
{
    TRI_CHECK(cell != NULL);
    // Acquire: as in tri_hard_limit_admit. Relaxed: fixed at spawn.
    tri_ext *ext = atomic_load_explicit(&cell->ext, memory_order_acquire);
    return ext != NULL &&
           atomic_load_explicit(&ext->room.limit, memory_order_relaxed) != 0 &&
           atomic_load_explicit(&ext->room.overflow, memory_order_relaxed) ==
               TR_OVERFLOW_BLOCK;
}

bool tri_hard_limit_trim(tri_worker *worker, tri_cell *cell)
{
    tri_cell_assert_owned(cell);
    // Relaxed: fixed at spawn.
    if ((atomic_load_explicit(&cell->flags, memory_order_relaxed) &
         TRI_CELL_DROPS_OLD) == 0) {
        return false;
    }
    drop(worker, cell, tri_cell_ref(worker->sys, cell), tri_backlog_next(cell));
    return true;
}
