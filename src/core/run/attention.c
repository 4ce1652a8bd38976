/*
 * attention.c - what a batch does before the next message of a cell.
 *
 * That is: system mail, a stop, the lease of a node, parked turns, a step of the
 * actor's life, tr_terminated, urgent mail, limits of the mailbox. Most cells
 * have none of it, which a batch sees in `sys_mail` and `attention`.
 * tri_attention does them in this order, on which rule 1 (order), rule 6 (what
 * runs while a turn is parked), rule 7 (system messages) and rule 34 (when it is
 * handled) stand. This is also the only
 * source that decides which turn may run while others are parked.
 *
 * Invariant: every function here runs on the worker that owns the cell.
 */
#include "core/run/attention.h"

#include <stdatomic.h>

#include "base/check.h"
#include "core/ask/wait.h"
#include "core/cell/behaviour.h"
#include "core/cell/cell.h"
#include "core/cell/ext.h"
#include "core/cell/message.h"
#include "core/life/child_end.h"
#include "core/life/join.h"
#include "core/life/lifecycle.h"
#include "core/life/signal.h"
#include "core/life/stop.h"
#include "core/life/supervise.h"
#include "core/life/watch.h"
#include "core/mail/drain.h"
#include "core/mail/hard_limit.h"
#include "core/mail/mailbox.h"
#include "core/mail/room.h"
#include "core/mail/soft_limit.h"
#include "core/run/context.h"
#include "core/run/handle.h"
#include "core/run/turn.h"
#include "core/run/worker.h"
#include "core/system.h"
#include "core/up.h"

/* Kinds of the parked turns of a cell. */
typedef struct parked_kinds {
    bool writer, reader, run, hook;
} parked_kinds;

static parked_kinds kinds_parked(tri_cell *cell)
{
    parked_kinds kinds = {0};
    tri_ext *ext = tri_ext_of(cell);
    for (tr_ctx *c = ext != NULL ? ext->parked : NULL; c != NULL; c = c->next) {
        kinds.writer |= c->kind == TRI_TURN_WRITE;
        kinds.reader |=
            c->kind == TRI_TURN_READ || c->kind == TRI_TURN_INTERLEAVE;
        kinds.run |= c->kind == TRI_TURN_ON_RUN;
        kinds.hook |= c->kind == TRI_TURN_HOOK;
    }
    return kinds;
}

/* Rule 6 (what runs while a turn is parked), for a new turn. */
static bool may_run(parked_kinds parked, uint32_t handler_flags)
{
    if (parked.hook) {
        return false;
    }
    if (parked.writer) {
        return handler_flags & TR_ALWAYS_INTERLEAVE;
    }
    return !parked.reader ||
           (handler_flags & (TR_READ_ONLY | TR_ALWAYS_INTERLEAVE));
}

/* True if the parked turn may continue now. */
static bool may_resume(tri_cell *cell, const tr_ctx *ctx)
{
    if (!ctx->ready) {
        return false;
    }
    if (ctx->cancel != TR_OK) {
        return true;  // its wait returns an error, and it ends
    }
    if (tri_cell_life(cell) == TR_STATE_FAILED) {
        return false;  // rule 32 (while an actor is FAILED)
    }
    if (ctx->kind == TRI_TURN_ON_RUN) {
        parked_kinds parked = kinds_parked(cell);
        return !parked.writer && !parked.reader && !parked.hook;
    }
    return true;
}

/* Handles all system items, oldest first, then the signals. */
static void take_system_mail(tr_ctx *ctx)
{
    tri_cell *cell = ctx->cell;
    bool signalled;
    tri_item *item = tri_system_take(cell, &signalled);
    while (item != NULL) {
        tri_item *next = item->next;
        tri_system_item(ctx, item);
        item = next;
    }
    if (signalled) {
        tri_life_handle_signals(ctx, tri_signals_take(cell));
    }
}

void tri_system_item(tr_ctx *ctx, tri_item *item)
{
    tri_worker *worker = ctx->worker;
    tri_cell *cell = ctx->cell;
    tri_cell_assert_owned(cell);
    switch (item->kind) {
    case TRI_ITEM_REPLY:
        tri_reply_arrived(worker, cell, tri_msg_from(item));
        break;
    case TRI_ITEM_WATCH:
        tri_watch_arrived(worker, cell, (tri_watch *)(void *)item);
        break;
    case TRI_ITEM_WATCH_FOR:
    case TRI_ITEM_UNWATCH_FOR:
        tri_watch_requested(ctx, (tri_watch *)(void *)item);
        break;
    case TRI_ITEM_UNWATCH:
        tri_unwatch_arrived(worker, cell, (tri_watching *)(void *)item);
        break;
    case TRI_ITEM_TERMINATED:
        tri_terminated_arrived(worker, cell, (tri_watch *)(void *)item);
        break;
    case TRI_ITEM_CHILD_ENDED:
        tri_child_end_arrived(ctx, (tri_child_end *)(void *)item);
        break;
    case TRI_ITEM_FAILURE:
        tri_supervise(ctx, tri_cell_of_notice(item));
        break;
    case TRI_ITEM_WAKE:
        tri_wait_woken(ctx, (tri_wait *)(void *)item);
        break;
    case TRI_ITEM_JOIN:
        tri_join_arrived(worker, cell, (tri_join *)(void *)item);
        break;
    case TRI_ITEM_USER:  // a timer's message that force.c has moved here
        tri_drain_item(worker, tri_cell_ref(ctx->sys, cell), item,
                       TR_DEAD_DRAINED);
        break;
    default:
        TRI_CHECK(!"a system item of a known kind");
    }
}

/* Returns the oldest parked turn that may continue, or NULL. */
static tr_ctx *find_ready(tri_cell *cell)
{
    tri_ext *ext = tri_ext_of(cell);
    TRI_CHECK(ext != NULL && ext->parked != NULL);
    for (tr_ctx *c = ext->parked; c != NULL; c = c->next) {
        if (may_resume(cell, c)) {
            return c;
        }
    }
    return NULL;
}

/* Moves the most urgent message to the front of the queue. */
static void queue_most_urgent(tri_cell *cell)
{
    tri_ext *ext = tri_ext_of(cell);
    TRI_CHECK(ext != NULL);
    for (int p = TRI_PRIORITIES - 1; p > 0; p--) {
        tri_item *item = ext->urgent.first[p];
        if (item == NULL) {
            continue;
        }
        ext->urgent.first[p] = item->next;
        item->next = cell->queue;
        cell->queue = item;
        return;
    }
    cell->attention &= (uint16_t)~TRI_ATTENTION_URGENT;
}

bool tri_urgent_arrived(tri_cell *cell)
{
    TRI_CHECK_SLOW(tri_cell_is_owned(cell));
    // Acquire: pairs with tr_tell_urgent, which has pushed the message before.
    atomic_fetch_and_explicit(&cell->flags, ~(uint32_t)TRI_CELL_URGENT_PENDING,
                              memory_order_acquire);
    return tri_detach(cell) && (cell->attention & TRI_ATTENTION_URGENT) != 0;
}

/*
 * Takes the first message of a list that may run now, or returns NULL. *before
 * gets the item before it in the list, or NULL. *only_interleave is set when a
 * message is passed over.
 */
static tri_item *take_beside(tri_cell *cell, tri_item **list,
                             parked_kinds parked, bool *only_interleave,
                             tri_item **before)
{
    TRI_CHECK_SLOW(tri_cell_is_owned(cell));
    *before = NULL;
    for (tri_item **link = list; *link != NULL; link = &(*link)->next) {
        tri_item *item = *link;
        const tri_slot *slot =
            item->kind == TRI_ITEM_USER
                ? tri_behaviour_find(tri_cell_behaviour(cell), item->type)
                : NULL;
        uint32_t flags = slot != NULL ? slot->flags : 0;
        if (may_run(parked, flags) &&
            (!*only_interleave || (flags & TR_ALWAYS_INTERLEAVE))) {
            *link = item->next;
            return item;
        }
        // This message waits for the parked turns: later ones of other
        // handlers must not overtake it.
        *only_interleave = true;
        *before = item;
    }
    return NULL;
}

/* Takes the first message that may run now, urgent ones first, or NULL. */
static tri_item *take_interleaving(tri_cell *cell, parked_kinds parked)
{
    tri_ext *ext = tri_ext_of(cell);
    tri_item *item = NULL, *before;
    bool only_interleave = false;
    for (int p = TRI_PRIORITIES - 1;
         p > 0 && (cell->attention & TRI_ATTENTION_URGENT); p--) {
        item = take_beside(cell, &ext->urgent.first[p], parked,
                           &only_interleave, &before);
        if (item != NULL) {
            ext->urgent.last[p] =
                ext->urgent.last[p] == item ? before : ext->urgent.last[p];
            break;
        }
    }
    if (item == NULL) {
        item =
            take_beside(cell, &cell->queue, parked, &only_interleave, &before);
    }
    if (item != NULL) {
        tri_queue_taken(cell, item);
    }
    return item;
}

/* Turns are parked: resumes one, runs a message beside them, or sleeps. */
static tri_next beside_parked(tr_ctx *ctx)
{
    tri_cell *cell = ctx->cell;
    TRI_CHECK(cell->home == ctx->worker->index);
    tr_ctx *ready = find_ready(cell);
    if (ready != NULL) {
        ctx->worker->resuming = ready;  // the loop switches to it
        return TRI_NEXT_CELL;
    }
    parked_kinds parked = kinds_parked(cell);
    if (!parked.writer && !parked.reader && !parked.hook) {
        return TRI_NEXT_MESSAGE;  // only on_run is parked
    }
    if (cell->attention & TRI_ATTENTION_LIFE) {
        return TRI_NEXT_MESSAGE;  // tri_life_step decides
    }
    if (tri_cell_behaviour(cell)->interleaves && !parked.hook) {
        tri_detach(cell);
        tri_item *item = take_interleaving(cell, parked);
        if (item != NULL) {
            if (ctx->worker->special_batch) {
                tri_handle_timed(ctx, item);
            } else {
                tri_handle(ctx, tri_msg_from(item));
            }
            return TRI_NEXT_CHECK;
        }
        tri_soft_limit_check_always(cell);
        return tri_sleep(ctx->worker, cell, true) ? TRI_NEXT_CELL
                                                  : TRI_NEXT_CHECK;
    }
    return tri_sleep(ctx->worker, cell, false) ? TRI_NEXT_CELL : TRI_NEXT_CHECK;
}

/* Stops an activation whose node has lost its lease: others may host it. */
static void check_lease(tr_ctx *ctx)
{
    if ((ctx->cell->attention & TRI_ATTENTION_LEASE) &&
        !tri_virtual_ops_of(ctx->sys)->has_lease(ctx->sys)) {
        ctx->cell->attention &= (uint16_t)~TRI_ATTENTION_LEASE;
        tri_life_handle_signals(ctx, TRI_SIG_STOP);
    }
}

tri_next tri_attention(tr_ctx *ctx)
{
    tri_worker *worker = ctx->worker;
    tri_cell *cell = ctx->cell;

    // batch_begin has taken the cell into this context.
    TRI_CHECK_SLOW(ctx->magic == TRI_CTX_MAGIC && tri_cell_is_owned(cell));
    // Relaxed: tri_system_take acquires.
    if (atomic_load_explicit(&cell->sys_mail, memory_order_relaxed) &
        ~TRI_SYS_CLOSED) {
        take_system_mail(ctx);
    }
    if (cell->attention & TRI_ATTENTION_STOP) {
        if (tri_stop_fast(ctx)) {
            return TRI_NEXT_CELL;
        }
        cell->attention &= (uint16_t)~TRI_ATTENTION_STOP;
        tri_life_handle_signals(ctx, TRI_SIG_STOP);
    }
    check_lease(ctx);
    if (cell->attention & TRI_ATTENTION_PARKED) {
        tri_next next = beside_parked(ctx);
        if (next != TRI_NEXT_MESSAGE) {
            return next;
        }
    }
    if (cell->attention & TRI_ATTENTION_LIFE) {
        switch (tri_life_step(ctx)) {
        case TRI_STEP_AGAIN:
            return TRI_NEXT_CHECK;
        case TRI_STEP_ENDED:
            return TRI_NEXT_CELL;
        case TRI_STEP_WAIT:
            return tri_sleep(ctx->worker, cell, false) ? TRI_NEXT_CELL
                                                       : TRI_NEXT_CHECK;
        case TRI_STEP_RUNNING:
            break;
        }
    }
    if (cell->attention & TRI_ATTENTION_TERMINATED) {
        tri_terminated_turn(ctx);
        return TRI_NEXT_CHECK;
    }
    if (cell->attention & TRI_ATTENTION_SENDERS) {
        tri_room_wake_if_low(worker, cell);
    }
    bool from_backlog = (cell->attention & TRI_ATTENTION_BOUNDED) &&
                        tri_hard_limit_trim(worker, cell);
    if ((cell->attention & TRI_ATTENTION_URGENT) ||
        ((cell->attention & TRI_ATTENTION_BOUNDED) &&
         tri_mail_is_ordered(cell))) {
        tri_detach(cell);
        queue_most_urgent(cell);
    }
    if (from_backlog && cell->queue == NULL) {
        // The batch must not detach the lane: senders take from it, too.
        return tri_sleep(worker, cell, true) ? TRI_NEXT_CELL : TRI_NEXT_CHECK;
    }
    return TRI_NEXT_MESSAGE;
}
