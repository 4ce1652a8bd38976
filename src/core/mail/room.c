/*
 * room.c - parks senders until a mailbox has room, and wakes them.
 *
 * A sender enters the list of ext->room, signals TRI_SIG_ROOM to the receiver
 * and waits. The receiver wakes senders by pushing their tri_wait as system
 * mail. Whoever takes a wait out of the list, under the lock, ends it: the
 * receiver with a wake-up, or the sender itself because its time is over.
 *
 * Invariant: a wait is in the list of at most one room; room.count is the
 * length of the list. A wait that was taken out by the receiver stays valid
 * until its item has been delivered.
 */
#include "core/mail/room.h"

#include <stdatomic.h>

#include "base/check.h"
#include "base/fiber.h"
#include "base/list.h"
#include "base/lock.h"
#include "core/ask/deadlock.h"
#include "core/ask/outside_box.h"
#include "core/ask/wait.h"
#include "core/caller.h"
#include "core/cell/cell.h"
#include "core/cell/cell_path.h"
#include "core/cell/ext.h"
#include "core/cell/message.h"
#include "core/cell/props.h"
#include "core/life/signal.h"
#include "core/mail/push.h"
#include "core/mail/soft_limit.h"
#include "core/run/clock.h"
#include "core/run/context.h"
#include "core/run/park.h"
#include "core/run/timer.h"
#include "core/run/worker.h"
#include "core/system.h"
#include "troupe/observe.h"

/* Appends a wait; the lock of the room is held. */
static void waiting_add(tri_room *room, tri_wait *wait)
{
    tri_lock_assert_held(&room->lock);
    tri_list_push_back(&room->waiting, &wait->room.link);
    room->count++;
}

/* Takes a wait out; the lock of the room is held. */
static void waiting_remove(tri_room *room, tri_wait *wait)
{
    tri_lock_assert_held(&room->lock);
    TRI_CHECK(room->count > 0);
    tri_list_remove(&wait->room.link);
    room->count--;
}

/*
 * Takes a wait out of its room. Returns false if the receiver has done so: its
 * wake-up is on its way.
 */
static bool leave(tri_wait *wait)
{
    tri_room *room = &wait->room.ext->room;
    TRI_CHECK(wait->kind == TRI_WAIT_ROOM);
    tri_lock_take(&room->lock);
    bool waiting = tri_link_is_linked(&wait->room.link);
    if (waiting) {
        waiting_remove(room, wait);
    }
    tri_lock_drop(&room->lock);
    return waiting;
}

/*
 * Adds a wait to the room of wait->room.ext, which belongs to the cell.
 * Returns false if the sender need not wait: the mailbox is closed, has
 * another owner, or has fallen to half of limit.
 */
static bool enter(tri_wait *wait, tri_cell *cell, uint32_t limit)
{
    tri_room *room = &wait->room.ext->room;
    TRI_CHECK(wait->kind == TRI_WAIT_ROOM);
    tri_lock_take(&room->lock);
    bool closed = room->closed;
    if (!closed) {
        waiting_add(room, wait);
    }
    tri_lock_drop(&room->lock);
    // Seq_cst: pairs with tri_close_user, whose owner then empties the list;
    // either the owner sees the wait there, or we see here that it has closed.
    uintptr_t mail = atomic_load_explicit(&cell->mail, memory_order_seq_cst);
    uint64_t id = atomic_load_explicit(&cell->id, memory_order_seq_cst);
    bool over = (mail & TRI_MAIL_CLOSED) || id != wait->target.id ||
                tri_depth(cell) <= limit / 2;
    return !closed && !(over && leave(wait));
}

/*
 * Wakes up to max senders, the oldest first. With close it also closes the
 * room once none is left.
 */
static void wake_senders(tri_worker *worker, tri_ext *ext, uint32_t max,
                         bool close)
{
    TRI_CHECK(ext != NULL);
    for (; max > 0; max--) {
        tri_lock_take(&ext->room.lock);
        tri_wait *wait = tri_list_item(tri_list_first(&ext->room.waiting),
                                       tri_wait, room.link);
        if (close && wait == NULL) {
            ext->room.closed = true;
        }
        tri_cell *sender = NULL;
        if (wait != NULL) {
            waiting_remove(&ext->room, wait);
            sender = wait->cell;
        }
        tri_lock_drop(&ext->room.lock);
        if (wait == NULL) {
            return;
        }
        // The sender stays parked until it has this item: tri_parked_cancel.
        tri_edge_answered(sender, wait->correlation);
        wait->item.kind = TRI_ITEM_WAKE;
        bool taken = tri_push_system(worker, sender, &wait->item);
        TRI_CHECK(taken);
    }
}

void tri_room_wake(tri_worker *worker, tri_cell *cell)
{
    tri_ext *ext = tri_ext_of(cell);
    TRI_CHECK_SLOW(tri_cell_is_owned(cell));
    cell->attention &= (uint16_t)~TRI_ATTENTION_SENDERS;
    if (ext != NULL) {
        wake_senders(worker, ext, UINT32_MAX, false);
    }
}

void tri_room_close(tri_worker *worker, tri_ext *ext)
{
    wake_senders(worker, ext, UINT32_MAX, true);
}

static uint32_t waiting_count(tri_ext *ext)
{
    TRI_CHECK(ext != NULL);
    tri_lock_take(&ext->room.lock);
    uint32_t count = ext->room.count;
    tri_lock_drop(&ext->room.lock);
    return count;
}

/*
 * Returns how many more messages a hard limit admits. room.counted includes
 * the messages of the senders that wait.
 */
static uint32_t free_places(tri_ext *ext, uint32_t limit)
{
    // Relaxed: only the number matters.
    int64_t inside =
        (int32_t)atomic_load_explicit(&ext->room.counted, memory_order_relaxed);
    inside -= waiting_count(ext);
    return inside >= (int64_t)limit ? 0 : (uint32_t)(limit - inside);
}

void tri_room_wake_if_low(tri_worker *worker, tri_cell *cell)
{
    const tri_props *props = cell->props;
    tri_cell_assert_owned(cell);
    uint32_t limit = props != NULL && props->mailbox_limit != 0
                         ? props->mailbox_limit
                         : tri_soft_limit(worker->sys, cell);
    if (tri_depth(cell) > limit / 2) {
        cell->attention |= TRI_ATTENTION_SENDERS;
    } else if (props == NULL || props->overflow != TR_OVERFLOW_BLOCK ||
               props->mailbox_limit == 0) {
        tri_room_wake(worker, cell);
    } else {
        // A blocking hard limit wakes only as many as it admits.
        wake_senders(worker, tri_ext_of(cell),
                     free_places(tri_ext_of(cell), limit), false);
        cell->attention |= TRI_ATTENTION_SENDERS;
        if (waiting_count(tri_ext_of(cell)) == 0) {
            cell->attention &= (uint16_t)~TRI_ATTENTION_SENDERS;
        }
    }
}

enum { PATIENCE_S = 1 };  // a longer wait for room is logged

#define PATIENCE TR_SECONDS(PATIENCE_S)

/* Says in the log that a sender has waited for long, and where. */
static void log_parked(tri_caller *caller, tri_cell *cell, tr_ref to)
{
    tr_from from = {.ctx = caller->ctx};
    char path[TRI_PATH_MAX];
    if (caller->ctx == NULL) {
        from.sys = caller->sys;
    }
    const tri_up *up = caller->sys->up;
    up->log(from, TR_LOG_WARN, NULL,
            "a sender waits for room in %s since %d s: %u messages wait there",
            up->ref_path(from, to, path, sizeof(path)), PATIENCE_S,
            tri_depth(cell));
}

/* Returns until when the caller waits: a sender no longer than an asker. */
static tr_nanos deadline_of(const tri_caller *caller, tr_nanos now)
{
    tr_nanos span = caller->sys->options.ask_timeout;
    return caller->deadline != 0      ? caller->deadline
           : span >= TR_FOREVER - now ? TR_FOREVER
                                      : now + span;
}

/* Waits in the box until the receiver wakes the sender. */
static tr_err await_outside(tri_caller *caller, tri_outside_box *box,
                            tri_wait *wait, tri_cell *cell)
{
    tri_world *world = caller->sys->world;
    tr_nanos now = world->ops->mono(world);
    tr_nanos deadline = deadline_of(caller, now);
    bool long_wait = deadline - now > PATIENCE;
    if (tri_outside_box_wait(box, long_wait ? now + PATIENCE : deadline) !=
        NULL) {
        return TR_OK;
    }
    if (long_wait) {
        log_parked(caller, cell, wait->target);
        if (tri_outside_box_wait(box, deadline) != NULL) {
            return TR_OK;
        }
    }
    if (leave(wait)) {
        return TR_ETIMEDOUT;
    }
    // The receiver's wake-up is on its way.
    (void)tri_outside_box_wait(box, TR_FOREVER);
    return TR_OK;
}

/* Waits for room on a thread outside, whose lock is dropped meanwhile. */
static tr_err wait_outside(tri_caller *caller, tri_cell *cell, tr_ref to,
                           uint32_t limit)
{
    tr_system *sys = caller->sys;
    TRI_CHECK(caller->locked);
    tri_ext *ext = tri_ext_need(caller->worker, cell);
    tri_outside_box box;
    if (ext == NULL) {
        return TR_ENOMEM;
    }
    tri_leave(caller);
    tr_err err = tri_outside_box_open(&box, sys);
    if (err == TR_OK) {
        tri_wait wait = {.kind = TRI_WAIT_ROOM,
                         .cell = box.cell,
                         .target = to,
                         .room.ext = ext};
        if (enter(&wait, cell, limit)) {
            tri_caller signaller = tri_enter_system(sys, (tr_ref){0});
            tri_signal(signaller.worker, cell, to.id, TRI_SIG_ROOM);
            tri_leave(&signaller);
            err = await_outside(caller, &box, &wait, cell);
        }
        tri_outside_box_close(&box);
    }
    tri_lock_take(&sys->outside_lock);
    return err;
}

/* Parks the turn of the caller until there is room, or until the deadline. */
static tr_err wait_inside(tri_caller *caller, tri_cell *cell, tr_ref to,
                          uint32_t limit, tr_nanos deadline)
{
    tr_ctx *ctx = caller->ctx;
    tri_ext *ext = tri_ext_need(caller->worker, cell);
    tri_ext *mine = tri_ext_need(caller->worker, ctx->cell);
    if (ext == NULL || mine == NULL) {
        return TR_ENOMEM;
    }
    tri_wait wait = {.kind = TRI_WAIT_ROOM,
                     .cell = ctx->cell,
                     .correlation = ++mine->waits.correlation,
                     .target = to,
                     .fiber = tri_fiber_take(&caller->worker->fibers),
                     .wheel = (uint16_t)caller->worker->index,
                     .room.ext = ext,
                     .cancel = leave,
                     .call = "tr_tell",
                     .site = "tr_tell"};
    if (wait.fiber == NULL) {
        return TR_ELIMIT;
    }
    tr_err err = tri_edge_begin(ctx, &wait);
    if (err != TR_OK) {
        tri_fiber_give(&caller->worker->fibers, wait.fiber);
        return err;
    }
    if (!enter(&wait, cell, limit)) {
        tri_edge_end(ctx, &wait);
        tri_fiber_give(&caller->worker->fibers, wait.fiber);
        return TR_OK;
    }
    tri_signal(caller->worker, cell, to.id, TRI_SIG_ROOM);
    tri_arm(caller->worker, &wait.timer, deadline, TRI_TIMER_WAIT);
    err = tri_park(ctx, &wait);
    tri_disarm(ctx->sys, wait.wheel, &wait.timer);
    tri_edge_end(ctx, &wait);
    return err;
}

tr_err tri_room_wait(tri_caller *caller, tri_cell *cell, tr_ref to,
                     uint32_t limit)
{
    tr_ctx *ctx = caller->ctx;
    TRI_CHECK(tri_ref_is_here(caller->sys, to));
    if (caller->never_waits) {
        return TR_EFULL;
    }
    if (ctx == NULL && caller->locked) {
        return wait_outside(caller, cell, to, limit);
    }
    if (ctx == NULL || cell == ctx->cell || !tri_can_park(ctx) ||
        ctx->cancel != TR_OK) {
        return TR_EFULL;
    }
    tr_nanos now = tri_clock(caller->worker);
    tr_nanos deadline = deadline_of(caller, now);
    bool long_wait = deadline - now > PATIENCE;
    tr_err err = wait_inside(caller, cell, to, limit,
                             long_wait ? now + PATIENCE : deadline);
    if (err == TR_ETIMEDOUT && long_wait) {
        log_parked(caller, cell, to);
        err = wait_inside(caller, cell, to, limit, deadline);
    }
    return err;
}
