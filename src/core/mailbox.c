/*
 * mailbox.c - both lanes of a mailbox, and what a send may run into.
 *
 * The words and their bits are drawn in cell.h. The argument that no wake-up
 * is lost:
 *
 *  - user mail: the push itself replaces IDLE, so it either finds the bit and
 *    schedules, or the owner's step to IDLE fails and it looks again;
 *  - system mail: the sender writes sys_mail, then reads mail; the owner
 *    writes IDLE or PARKED into mail, then reads sys_mail. All four are
 *    seq_cst, so at least one of the two sees the other's write
 *    (tests/model/mailbox.pml);
 *  - an answer that takes the cell before it is delivered, and a request that
 *    does, are in the position of a push that has replaced IDLE.
 */
#include "core/mailbox.h"

#include <stdlib.h>

#include "core/private.h"

/* ---- pushing ---- */

tr_err tri_push(tri_worker *worker, tri_cell *cell, uint64_t id, tr_msg *msg)
{
    uint32_t depth;
    return tri_push_user(worker, cell, id, msg, &depth);
}

/* True: nobody owned the cell, we do now. After a write to sys_mail. */
static bool claim(tri_cell *cell)
{
    // Seq_cst: after our write to sys_mail; see the file comment.
    uintptr_t seen = atomic_load_explicit(&cell->mail, memory_order_seq_cst);
    while (seen & (TRI_MAIL_IDLE | TRI_MAIL_PARKED)) {
        // Acquire side: pairs with tri_sleep, the cell is ours.
        if (atomic_compare_exchange_weak_explicit(
                &cell->mail, &seen, seen & ~(TRI_MAIL_IDLE | TRI_MAIL_PARKED),
                memory_order_seq_cst, memory_order_seq_cst)) {
            return true;
        }
    }
    return false;
}

void tri_poke(tri_worker *worker, tri_cell *cell)
{
    if (claim(cell)) {
        tri_schedule(worker, cell);
    }
}

bool tri_push_system(tri_worker *worker, tri_cell *cell, tri_node *node)
{
    // Acquire: a closed lane means that all of the actor's end is seen.
    uintptr_t seen =
        atomic_load_explicit(&cell->sys_mail, memory_order_acquire);
    do {
        if (seen & TRI_SYS_CLOSED) {
            return false;
        }
        node->next = (tri_node *)(seen & ~TRI_SYS_BITS);
        // Seq_cst: before tri_poke reads mail; also publishes the node.
    } while (!atomic_compare_exchange_weak_explicit(
        &cell->sys_mail, &seen, (uintptr_t)node | (seen & TRI_SYS_SIGNAL),
        memory_order_seq_cst, memory_order_acquire));
    tri_poke(worker, cell);
    return true;
}

/* Pushes to a cell that the caller owns: its lane is open. */
static void push_claimed(tri_cell *cell, tri_node *node)
{
    // Relaxed: confirmed by the exchange.
    uintptr_t seen =
        atomic_load_explicit(&cell->sys_mail, memory_order_relaxed);
    do {
        TRI_CHECK((seen & TRI_SYS_CLOSED) == 0);
        node->next = (tri_node *)(seen & ~TRI_SYS_BITS);
        // Release: publishes the node to tri_system_take.
    } while (!atomic_compare_exchange_weak_explicit(
        &cell->sys_mail, &seen, (uintptr_t)node | (seen & TRI_SYS_SIGNAL),
        memory_order_release, memory_order_relaxed));
}

bool tri_push_reply(tri_worker *worker, tri_cell *cell, tr_msg *reply)
{
    if (cell == worker->unsettled) {
        worker->unsettled = NULL;  // ours all the time
    } else if (!claim(cell)) {
        return tri_push_system(worker, cell, &reply->node);
    }
    // The cell is ours. What we sent it before this has been taken: that is
    // how it came to sleep again. So the order of what we send it is kept.
    if (cell->home == worker->index && tri_reply_awaited(worker, cell, reply)) {
        tri_hand_to(worker, cell);
    } else {
        push_claimed(cell, &reply->node);
        tri_schedule(worker, cell);
    }
    return true;
}

bool tri_hand_over(tri_worker *worker, tri_cell *cell, uint64_t id, tr_msg *msg)
{
    msg->to_id = id;
    // Relaxed: a glance; the message carries the id.
    if (atomic_load_explicit(&cell->id, memory_order_relaxed) != id ||
        !tri_runs_here(worker, cell) || !tri_mail_claim(cell, msg)) {
        return false;
    }
    if (cell->home == TRI_HOME_NONE || cell->home == worker->index) {
        tri_hand_to(worker, cell);
    } else {
        tri_schedule(worker, cell);
    }
    return true;
}

bool tri_signal_claim(tri_cell *cell, uint64_t id, uint32_t signal)
{
    uint64_t owner = id << TRI_SIG_BITS;
    // Relaxed: confirmed by the exchange.
    uint64_t seen = atomic_load_explicit(&cell->signals, memory_order_relaxed);
    do {
        if ((seen & ~TRI_SIG_MASK) != owner) {
            return false;  // ended, and perhaps another lives there
        }
        // Release: what the signal speaks of; pairs with tri_signals_take.
    } while (!atomic_compare_exchange_weak_explicit(
        &cell->signals, &seen, seen | signal, memory_order_release,
        memory_order_relaxed));
    // Seq_cst: before claim reads mail. On a reused cell it is a false alarm.
    atomic_fetch_or_explicit(&cell->sys_mail, TRI_SYS_SIGNAL,
                             memory_order_seq_cst);
    return claim(cell);
}

void tri_signal(tri_worker *worker, tri_cell *cell, uint64_t id,
                uint32_t signal)
{
    if (tri_signal_claim(cell, id, signal)) {
        tri_schedule(worker, cell);
    }
}

/* ---- the owner's side ---- */

uint32_t tri_signals_take(tri_cell *cell)
{
    // Acquire: pairs with tri_signal.
    uint64_t seen = atomic_fetch_and_explicit(&cell->signals, ~TRI_SIG_MASK,
                                              memory_order_acquire);
    return (uint32_t)(seen & TRI_SIG_MASK);
}

static tri_node *reversed(tri_node *newest, uint32_t *count)
{
    tri_node *oldest = NULL;
    uint32_t n = 0;
    while (newest != NULL) {
        tri_node *next = newest->next;
        newest->next = oldest;
        oldest = newest;
        newest = next;
        n++;
    }
    *count = n;
    return oldest;
}

tri_node *tri_system_take(tri_cell *cell, bool *signalled)
{
    // Relaxed: only the owner closes it. Acquire: sees the nodes that
    // tri_push_system published.
    uintptr_t seen =
        atomic_load_explicit(&cell->sys_mail, memory_order_relaxed);
    seen = atomic_exchange_explicit(&cell->sys_mail, seen & TRI_SYS_CLOSED,
                                    memory_order_acq_rel);
    uint32_t count;
    *signalled = (seen & TRI_SYS_SIGNAL) != 0;
    return reversed((tri_node *)(seen & ~TRI_SYS_BITS), &count);
}

/* Moves urgent messages out of a detached list into their lanes. */
static tri_node *sort_urgent(tri_cell *cell, tri_node *list, uint32_t *count)
{
    tri_ext *ext = tri_ext_of(cell);
    tri_node *first = NULL, **link = &first;
    for (tri_node *node = list, *next; node != NULL; node = next) {
        next = node->next;
        if (node->priority == 0 || ext == NULL) {
            *link = node;
            link = &node->next;
            continue;
        }
        node->next = NULL;
        if (ext->urgent[node->priority] == NULL) {
            ext->urgent[node->priority] = node;
        } else {
            ext->urgent_last[node->priority]->next = node;
        }
        ext->urgent_last[node->priority] = node;
        cell->slow |= TRI_SLOW_URGENT;
        (*count)--;
    }
    *link = NULL;
    return first;
}

/* Appends what was detached, newest first, to the queue. */
static void append(tri_cell *cell, tri_node *newest)
{
    uint32_t count;
    tri_node *list = reversed(newest, &count);
    // Relaxed: fixed, or set before the message was pushed.
    if (TRI_UNLIKELY(atomic_load_explicit(&cell->flags, memory_order_relaxed) &
                     TRI_CELL_URGENT)) {
        list = sort_urgent(cell, list, &count);
    }
    tri_queue_append(cell, list);
    // Relaxed: for observers.
    atomic_store_explicit(
        &cell->queued,
        atomic_load_explicit(&cell->queued, memory_order_relaxed) + count,
        memory_order_relaxed);
}

bool tri_detach(tri_cell *cell)
{
    // Relaxed: an empty lane costs no exchange.
    uintptr_t seen = atomic_load_explicit(&cell->mail, memory_order_relaxed);
    if (tri_mail_newest(seen) == NULL) {
        return false;
    }
    append(cell, tri_mail_take(cell, seen));
    return true;
}

tri_node *tri_detach_many(tri_cell *cell, tri_node *newest)
{
    append(cell, newest);
    tri_node *first = cell->queue;
    if (cell->slow != 0 || first == NULL) {
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
    // Seq_cst: after the step above; see the file comment. The cell is not
    // ours any more: if there is system mail it must be taken like any other
    // sleeping cell, since another worker may have run it meanwhile.
    if (atomic_load_explicit(&cell->sys_mail, memory_order_seq_cst) &
        ~TRI_SYS_CLOSED) {
        tri_poke(worker, cell);
    }
    return true;
}

tri_node *tri_close_user(tri_cell *cell)
{
    // Acquire: sees what tri_push_user published; nothing comes after.
    uintptr_t seen = atomic_exchange_explicit(&cell->mail, TRI_MAIL_CLOSED,
                                              memory_order_acq_rel);
    TRI_CHECK((seen & (TRI_MAIL_IDLE | TRI_MAIL_PARKED)) == 0);
    uint32_t count;
    return reversed(tri_mail_newest(seen), &count);
}

tri_node *tri_close_system(tri_cell *cell)
{
    // Acquire: sees what tri_push_system published; nothing comes after.
    uintptr_t seen = atomic_exchange_explicit(&cell->sys_mail, TRI_SYS_CLOSED,
                                              memory_order_acq_rel);
    uint32_t count;
    return reversed((tri_node *)(seen & ~TRI_SYS_BITS), &count);
}

uint32_t tri_depth(tri_cell *cell)
{
    // Relaxed, both: an estimate.
    uintptr_t mail = atomic_load_explicit(&cell->mail, memory_order_relaxed);
    return atomic_load_explicit(&cell->queued, memory_order_relaxed) +
           tri_mail_depth(mail);
}

/* ---- sending with all its policies ---- */

void tri_dead(tri_worker *worker, tr_ref to, tr_msg *msg, uint32_t reason)
{
    worker->sys->up->dead_letter(worker, to, msg, reason);
}

static uint32_t reason_of(tr_err err)
{
    switch (err) {
    case TR_EFULL:
    case TR_EDEADLOCK:
    case TR_ETIMEDOUT:  // of waiting for room
    case TR_ELIMIT:
        return TR_DEAD_FULL;
    case TR_EFOREIGN:
        return TR_DEAD_FOREIGN;
    case TR_ESTOPPED:
        return TR_DEAD_STOPPING;
    case TR_ECLOSED:
        return TR_DEAD_CLOSED;
    case TR_ENOMEM:
        return TR_DEAD_NO_MEMORY;
    default:
        return TR_DEAD_NO_SUCH_ACTOR;
    }
}

/* Counts the message into a bounded mailbox. */
static tr_err admit(tri_actor_from *who, tri_cell *cell, tr_ref to)
{
    // Acquire: pairs with tri_ext_need; a bounded cell is born with one.
    tri_ext *ext = atomic_load_explicit(&cell->ext, memory_order_acquire);
    if (ext == NULL) {
        return TR_OK;
    }
    // Relaxed, all: fixed at spawn, and only the number counts.
    uint32_t limit = atomic_load_explicit(&ext->limit, memory_order_relaxed);
    uint32_t before =
        atomic_fetch_add_explicit(&ext->bounded, 1, memory_order_relaxed);
    if ((int32_t)before < (int32_t)limit || limit == 0) {
        return TR_OK;
    }
    switch (atomic_load_explicit(&ext->overflow, memory_order_relaxed)) {
    case TR_OVERFLOW_DROP_OLD:
        return TR_OK;  // the owner drops what is too much: tri_bounded_trim
    case TR_OVERFLOW_BLOCK: {
        // It is admitted when its turn comes; counted already.
        tr_err err = tri_wait_for_room(who, cell, to, limit);
        if (err != TR_OK) {
            atomic_fetch_sub_explicit(&ext->bounded, 1, memory_order_relaxed);
        }
        return err;
    }
    case TR_OVERFLOW_STOP:
        tri_signal(who->worker, cell, to.id, TRI_SIG_STOP);
        break;
    default:
        break;
    }
    atomic_fetch_sub_explicit(&ext->bounded, 1, memory_order_relaxed);
    return TR_EFULL;
}

/* The message did not get in after all. */
static void unadmit(tri_cell *cell)
{
    // Acquire: as in admit. Relaxed: only the number counts; of a new owner
    // it may be one too low, which admits one message more.
    tri_ext *ext = atomic_load_explicit(&cell->ext, memory_order_acquire);
    if (ext != NULL) {
        atomic_fetch_sub_explicit(&ext->bounded, 1, memory_order_relaxed);
    }
}

/* Of senders' concern only: the actor's props are not theirs to read. */
static uint32_t soft_limit_of(tr_system *sys, tri_cell *cell)
{
    // Acquire: pairs with tri_ext_need. Relaxed: fixed at spawn.
    tri_ext *ext = atomic_load_explicit(&cell->ext, memory_order_acquire);
    uint32_t limit = ext != NULL ? atomic_load_explicit(&ext->soft_limit,
                                                        memory_order_relaxed)
                                 : 0;
    return limit != 0 ? limit : sys->options.soft_limit;
}

void tri_tighten(tri_cell *cell)
{
    // Relaxed, all: the owner's own number; senders may learn of it late.
    if (atomic_load_explicit(&cell->queued, memory_order_relaxed) >=
            TRI_SOFT_GLANCE &&
        (atomic_load_explicit(&cell->flags, memory_order_relaxed) &
         TRI_CELL_TIGHT) == 0) {
        atomic_fetch_or_explicit(&cell->flags, TRI_CELL_TIGHT,
                                 memory_order_relaxed);
    }
}

void tri_loosen(tri_worker *worker, tri_cell *cell)
{
    if (soft_limit_of(worker->sys, cell) >= TRI_SOFT_GLANCE) {
        // Relaxed: as above.
        atomic_fetch_and_explicit(&cell->flags, ~(uint32_t)TRI_CELL_TIGHT,
                                  memory_order_relaxed);
    }
}

/* A full mailbox makes its senders wait before they are let in. */
static bool blocks(tri_cell *cell)
{
    // Acquire: as in admit. Relaxed: fixed at spawn.
    tri_ext *ext = atomic_load_explicit(&cell->ext, memory_order_acquire);
    return ext != NULL &&
           atomic_load_explicit(&ext->overflow, memory_order_relaxed) ==
               TR_OVERFLOW_BLOCK;
}

void tri_slow_down(tr_ctx *ctx, tri_cell *cell, tr_ref to)
{
    // Relaxed: as in tri_try_send.
    uint32_t flags = atomic_load_explicit(&cell->flags, memory_order_relaxed);
    if ((flags & (TRI_CELL_SYSTEM | TRI_CELL_OUTSIDE)) ||
        ((flags & TRI_CELL_BOUNDED) && blocks(cell))) {
        return;
    }
    tri_actor_from who = {.sys = ctx->sys, .worker = ctx->worker, .ctx = ctx};
    uint32_t limit = soft_limit_of(ctx->sys, cell);
    uint32_t depth = tri_depth(cell);
    if (depth > limit && tri_wait_for_room(&who, cell, to, limit) != TR_OK) {
        ctx->sys->up->overload(ctx->worker, cell, depth);
    }
}

void tri_look_at_depth(tri_worker *worker, tri_cell *cell)
{
    uint32_t depth = tri_depth(cell);
    // Relaxed: as in tri_try_send.
    uint32_t flags = atomic_load_explicit(&cell->flags, memory_order_relaxed);
    if (!(flags & (TRI_CELL_SYSTEM | TRI_CELL_OUTSIDE)) &&
        depth > soft_limit_of(worker->sys, cell)) {
        worker->sys->up->overload(worker, cell, depth);
    }
}

tr_err tri_try_send(tri_actor_from *who, tr_ref to, tr_msg *msg)
{
    tr_system *sys = who->sys;
    if (TRI_UNLIKELY((to.cell >> 48) != sys->tag)) {
        return tri_ref_pointer(to) == 0 ? TR_EGONE : TR_EFOREIGN;
    }
    tri_cell *cell = tri_ref_cell(to);
    // Relaxed: set before the ref existed; of another actor if it is stale.
    uint32_t flags = atomic_load_explicit(&cell->flags, memory_order_relaxed);
    msg->sender = who->sender;
    if (TRI_UNLIKELY(flags & TRI_CELL_BOUNDED)) {
        // Relaxed: as in tri_push_user. Props belong to the actor we mean.
        if (atomic_load_explicit(&cell->id, memory_order_relaxed) != to.id ||
            (flags & TRI_CELL_ZOMBIE)) {
            return TR_EGONE;
        }
        TR_TRY(admit(who, cell, to));
    }
    uint32_t depth;
    tr_err err = tri_push_user(who->worker, cell, to.id, msg, &depth);
    if (TRI_UNLIKELY(err != TR_OK)) {
        if (flags & TRI_CELL_BOUNDED) {
            unadmit(cell);
        }
        // Between two lives of a virtual actor: this may begin the next.
        return err == TR_ESTOPPED && (flags & TRI_CELL_VIRTUAL)
                   ? tri_virtual_ops_of(sys)->send(who->worker, cell, msg)
                   : err;
    }
    tr_ctx *ctx = who->ctx;
    bool deep = depth >= TRI_SOFT_GLANCE || (flags & TRI_CELL_TIGHT);
    if (ctx != NULL) {
        if (TRI_UNLIKELY(deep)) {
            tri_slow_down(ctx, cell, to);
        }
        if (TRI_UNLIKELY(--ctx->worker->sends_left == 0)) {
            tri_yield(ctx);
        }
    } else if (TRI_UNLIKELY(deep)) {
        tri_look_at_depth(who->worker, cell);
    }
    return TR_OK;
}

void tri_send(tri_actor_from *who, tr_ref to, tr_msg *msg)
{
    tr_err err = tri_try_send(who, to, msg);
    if (TRI_UNLIKELY(err != TR_OK)) {
        tri_dead(who->worker, to, msg, reason_of(err));
    }
}

/* ---- waiting for room ---- */

static void blocked_link(tri_ext *ext, tri_wait *wait)
{
    wait->blocked_next = NULL;
    wait->blocked_prev = ext->blocked_last;
    if (ext->blocked_last != NULL) {
        ext->blocked_last->blocked_next = wait;
    } else {
        ext->blocked = wait;
    }
    ext->blocked_last = wait;
    ext->blocked_count++;
    wait->linked = true;
}

static void blocked_unlink(tri_ext *ext, tri_wait *wait)
{
    if (wait->blocked_prev != NULL) {
        wait->blocked_prev->blocked_next = wait->blocked_next;
    } else {
        ext->blocked = wait->blocked_next;
    }
    if (wait->blocked_next != NULL) {
        wait->blocked_next->blocked_prev = wait->blocked_prev;
    } else {
        ext->blocked_last = wait->blocked_prev;
    }
    ext->blocked_count--;
    wait->linked = false;
}

bool tri_room_leave(tri_wait *wait)
{
    tri_ext *ext = wait->room;
    tri_lock_take(&ext->blocked_lock);
    bool linked = wait->linked;
    if (linked) {
        blocked_unlink(ext, wait);
    }
    tri_lock_drop(&ext->blocked_lock);
    return linked;
}

bool tri_room_join(tri_wait *wait, tri_cell *cell, uint32_t limit)
{
    tri_ext *ext = wait->room;
    tri_lock_take(&ext->blocked_lock);
    bool gone = ext->no_room;
    if (!gone) {
        blocked_link(ext, wait);
    }
    tri_lock_drop(&ext->blocked_lock);
    // Seq_cst: pairs with tri_close_user, whose owner then empties the list;
    // either it sees us there or we see here that it has closed.
    uintptr_t mail = atomic_load_explicit(&cell->mail, memory_order_seq_cst);
    uint64_t id = atomic_load_explicit(&cell->id, memory_order_seq_cst);
    bool room = (mail & TRI_MAIL_CLOSED) || id != wait->target.id ||
                tri_depth(cell) <= limit / 2;
    return !gone && !(room && tri_room_leave(wait));
}

static void wake_blocked(tri_worker *worker, tri_ext *ext, uint32_t max,
                         bool for_good)
{
    for (; max > 0; max--) {
        tri_lock_take(&ext->blocked_lock);
        tri_wait *wait = ext->blocked;
        if (for_good && wait == NULL) {
            ext->no_room = true;
        }
        tri_cell *waiter = NULL;
        if (wait != NULL) {
            blocked_unlink(ext, wait);
            waiter = wait->cell;
        }
        tri_lock_drop(&ext->blocked_lock);
        if (wait == NULL) {
            return;
        }
        // The waiter stays parked until it has this node: tri_cut_waits.
        tri_edge_answered(waiter, wait->correlation);
        wait->node.kind = TRI_NODE_WAKE;
        bool taken = tri_push_system(worker, waiter, &wait->node);
        TRI_CHECK(taken);
    }
}

void tri_room(tri_worker *worker, tri_cell *cell)
{
    tri_ext *ext = tri_ext_of(cell);
    cell->slow &= (uint8_t)~TRI_SLOW_BLOCKED;
    if (ext != NULL) {
        wake_blocked(worker, ext, UINT32_MAX, false);
    }
}

void tri_room_close(tri_worker *worker, tri_ext *ext)
{
    wake_blocked(worker, ext, UINT32_MAX, true);
}

static uint32_t blocked_count(tri_ext *ext)
{
    tri_lock_take(&ext->blocked_lock);
    uint32_t count = ext->blocked_count;
    tri_lock_drop(&ext->blocked_lock);
    return count;
}

/* How many a hard limit still lets in: those who wait are counted, too. */
static uint32_t room_in(tri_ext *ext, uint32_t limit)
{
    // Relaxed: only the number counts.
    int64_t inside =
        (int32_t)atomic_load_explicit(&ext->bounded, memory_order_relaxed);
    inside -= blocked_count(ext);
    return inside >= (int64_t)limit ? 0 : (uint32_t)(limit - inside);
}

void tri_room_if_low(tri_worker *worker, tri_cell *cell)
{
    const tri_props *props = cell->props;
    uint32_t limit = props != NULL && props->mailbox_limit != 0
                         ? props->mailbox_limit
                         : soft_limit_of(worker->sys, cell);
    if (tri_depth(cell) > limit / 2) {
        cell->slow |= TRI_SLOW_BLOCKED;
    } else if (props == NULL || props->overflow != TR_OVERFLOW_BLOCK ||
               props->mailbox_limit == 0) {
        tri_room(worker, cell);
    } else {
        // A hard limit: as many as there is room for, the others later.
        wake_blocked(worker, tri_ext_of(cell), room_in(tri_ext_of(cell), limit),
                     false);
        cell->slow |= TRI_SLOW_BLOCKED;
        if (blocked_count(tri_ext_of(cell)) == 0) {
            cell->slow &= (uint8_t)~TRI_SLOW_BLOCKED;
        }
    }
}

void tri_bounded_trim(tri_worker *worker, tri_cell *cell)
{
    const tri_props *props = cell->props;
    tri_ext *ext = tri_ext_of(cell);
    if (props->overflow != TR_OVERFLOW_DROP_OLD) {
        return;
    }
    tri_detach(cell);
    // Relaxed: only the number counts.
    for (tri_node **link = &cell->queue;
         *link != NULL &&
         (int32_t)atomic_load_explicit(&ext->bounded, memory_order_relaxed) >
             (int32_t)props->mailbox_limit;) {
        tri_node *node = *link;
        if (!tri_is_counted(node)) {
            link = &node->next;  // timers and answers are not dropped
            continue;
        }
        *link = node->next;
        atomic_fetch_sub_explicit(&cell->queued, 1, memory_order_relaxed);
        atomic_fetch_sub_explicit(&ext->bounded, 1, memory_order_relaxed);
        tri_dead(worker, tri_cell_ref(worker->sys, cell), tri_msg_from(node),
                 TR_DEAD_DROPPED_OLD);
    }
}

tr_err tri_wait_for_room(tri_actor_from *who, tri_cell *cell, tr_ref to,
                         uint32_t limit)
{
    tr_ctx *ctx = who->ctx;
    if (ctx == NULL && who->locked) {
        return tri_outside_room(who, cell, to, limit);
    }
    if (ctx == NULL || cell == ctx->cell || !tri_can_park(ctx) ||
        ctx->cancel != TR_OK) {
        return TR_EFULL;
    }
    tri_ext *ext = tri_ext_need(who->worker, cell);
    tri_ext *mine = tri_ext_need(who->worker, ctx->cell);
    if (ext == NULL || mine == NULL) {
        return TR_ENOMEM;
    }
    tri_wait wait = {.kind = TRI_WAIT_ROOM,
                     .cell = ctx->cell,
                     .correlation = ++mine->correlation,
                     .target = to,
                     .fiber = tri_fiber_take(&who->worker->fibers),
                     .wheel = (uint16_t)who->worker->index,
                     .room = ext,
                     .cancel = tri_room_leave,
                     .site = "tr_tell"};
    if (wait.fiber == NULL) {
        return TR_ELIMIT;
    }
    tr_err err = tri_edge_begin(ctx, &wait);
    if (err != TR_OK) {
        tri_fiber_give(&who->worker->fibers, wait.fiber);
        return err;  // it would close a cycle
    }
    if (!tri_room_join(&wait, cell, limit)) {
        tri_edge_end(ctx, &wait);
        tri_fiber_give(&who->worker->fibers, wait.fiber);
        return TR_OK;
    }
    tri_signal(who->worker, cell, to.id, TRI_SIG_ROOM);
    // Rule 23: no longer than an ask would wait.
    tr_nanos span = ctx->sys->options.ask_timeout;
    tr_nanos now = tri_clock(who->worker);
    tri_arm(who->worker, &wait.timer,
            span >= TR_FOREVER - now ? TR_FOREVER : now + span, TRI_TIMER_WAIT);
    err = tri_park(ctx, &wait);
    tri_disarm(ctx->sys, wait.wheel, &wait.timer);
    tri_edge_end(ctx, &wait);
    return err;
}
