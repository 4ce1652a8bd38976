/*
 * push.c - sends mail of the runtime to a mailbox.
 *
 * Invariant: whoever replaces IDLE or PARKED owns the cell and schedules it;
 * mailbox.c says why no wake-up is lost.
 */
#include "core/mail/push.h"

#include <stdatomic.h>

#include "base/check.h"
#include "core/ask/wait.h"
#include "core/cell/cell.h"
#include "core/cell/message.h"
#include "core/mail/mailbox.h"
#include "core/run/run_queue.h"
#include "core/run/scheduler.h"
#include "core/run/worker.h"

/* Pushes to a lane that tri_mail_push refused: closed, or very deep. */
static __attribute__((noinline)) tr_err push_deep(tri_worker *worker,
                                                  tri_cell *cell, tr_msg *msg)
{
    uintptr_t seen;
    uint32_t depth;
    if (!tri_mail_push_deep(cell, msg, &seen, &depth)) {
        return TR_ESTOPPED;
    }
    if (seen & TRI_MAIL_IDLE) {
        tri_schedule(worker, cell);
    }
    return TR_OK;
}

tr_err tri_push(tri_worker *worker, tri_cell *cell, uint64_t id, tr_msg *msg)
{
    uintptr_t seen;
    uint32_t depth;
    // Relaxed: saves a push in vain; the message carries the id.
    if (atomic_load_explicit(&cell->id, memory_order_relaxed) != id) {
        return TR_EGONE;
    }
    msg->to_id = id;
    if (TRI_UNLIKELY(!tri_mail_push(cell, msg, &seen, &depth))) {
        return push_deep(worker, cell, msg);
    }
    if (seen & TRI_MAIL_IDLE) {
        tri_schedule(worker, cell);
    }
    return TR_OK;
}

bool tri_push_system(tri_worker *worker, tri_cell *cell, tri_item *item)
{
    TRI_CHECK(item != NULL);
    // Acquire: whoever sees the lane closed sees all of the actor's end.
    uintptr_t seen =
        atomic_load_explicit(&cell->sys_mail, memory_order_acquire);
    do {
        if (seen & TRI_SYS_CLOSED) {
            return false;
        }
        item->next = (tri_item *)(seen & ~TRI_SYS_BITS);
        // Seq_cst: before tri_mailbox_claim reads mail; also publishes the item.
    } while (!atomic_compare_exchange_weak_explicit(
        &cell->sys_mail, &seen, (uintptr_t)item | (seen & TRI_SYS_SIGNAL),
        memory_order_seq_cst, memory_order_acquire));
    tri_mailbox_wake(worker, cell);
    return true;
}

/* Pushes system mail to a cell that the caller owns and whose lane is open. */
static void push_claimed(tri_cell *cell, tri_item *item)
{
    // Relaxed: confirmed by the exchange.
    uintptr_t seen =
        atomic_load_explicit(&cell->sys_mail, memory_order_relaxed);
    do {
        TRI_CHECK((seen & TRI_SYS_CLOSED) == 0);
        item->next = (tri_item *)(seen & ~TRI_SYS_BITS);
        // Release: publishes the item to tri_system_take.
    } while (!atomic_compare_exchange_weak_explicit(
        &cell->sys_mail, &seen, (uintptr_t)item | (seen & TRI_SYS_SIGNAL),
        memory_order_release, memory_order_relaxed));
}

bool tri_push_reply(tri_worker *worker, tri_cell *cell, tr_msg *reply)
{
    if (cell == worker->held_asker) {
        worker->held_asker = NULL;  // this worker has never given it up
    } else if (!tri_mailbox_claim(cell)) {
        return tri_push_system(worker, cell, &reply->item);
    }
    // The cell is ours. It has slept since our earlier messages came, so it
    // has handled them: the answer does not overtake them.
    TRI_CHECK_SLOW(reply->item.kind == TRI_ITEM_REPLY);
    if (cell->home == worker->index &&
        tri_wait_give_reply(worker, cell, reply)) {
        tri_handoff_put(worker, cell);
    } else {
        push_claimed(cell, &reply->item);
        tri_schedule(worker, cell);
    }
    return true;
}

bool tri_handoff_send(tri_worker *worker, tri_cell *cell, tr_msg *msg)
{
    TRI_CHECK_SLOW(msg->item.priority == 0);
    // Relaxed: saves a claim in vain; the message carries the id.
    if (atomic_load_explicit(&cell->id, memory_order_relaxed) != msg->to_id ||
        !tri_worker_may_run(worker, cell) || !tri_mail_claim(cell, msg)) {
        return false;
    }
    if (cell->home == TRI_HOME_NONE || cell->home == worker->index) {
        tri_handoff_put(worker, cell);
    } else {
        tri_schedule(worker, cell);
    }
    return true;
}
