/*
 * attention.c - what comes before the next message of a cell.
 *
 * System mail, a stop, parked turns, the steps of a life, urgent mail and the
 * bound: nothing of it is there in most cells, which see it at one glance
 * (`sys_mail`, `slow`). Where there is something, tri_attention looks after
 * one thing after the other, in this order: it is the order that the rules
 * promise. What a turn may run beside is decided here and nowhere else.
 */
#include "core/lifecycle.h"
#include "core/turn.h"

/* ---- which turn may run beside which parked ones (api rules 1, 2, 10) ---- */

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
        kinds.run |= c->kind == TRI_TURN_RUN;
        kinds.hook |= c->kind == TRI_TURN_HOOK;
    }
    return kinds;
}

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

static bool may_resume(tri_cell *cell, const tr_ctx *ctx)
{
    if (!ctx->ready) {
        return false;
    }
    if (ctx->cancel != TR_OK) {
        return true;  // it only unwinds
    }
    if (tri_cell_life(cell) == TR_STATE_FAILED) {
        return false;  // rule 9
    }
    if (ctx->kind == TRI_TURN_RUN) {
        parked_kinds parked = kinds_parked(cell);
        return !parked.writer && !parked.reader && !parked.hook;
    }
    return true;
}

/* ---- what comes before user mail ---- */

static void system_mail(tr_ctx *ctx)
{
    tri_cell *cell = ctx->cell;
    bool signalled;
    tri_node *node = tri_system_take(cell, &signalled);
    while (node != NULL) {
        tri_node *next = node->next;
        tri_system_node(ctx, node);
        node = next;
    }
    if (signalled) {
        tri_life_signals(ctx, tri_signals_take(cell));
    }
}

void tri_system_node(tr_ctx *ctx, tri_node *node)
{
    tri_worker *worker = ctx->worker;
    tri_cell *cell = ctx->cell;
    switch (node->kind) {
    case TRI_NODE_REPLY:
        tri_reply_arrived(worker, cell, tri_msg_from(node));
        break;
    case TRI_NODE_WATCH:
        tri_watch_arrived(worker, cell, (tri_watch *)(void *)node);
        break;
    case TRI_NODE_WATCH_FOR:
    case TRI_NODE_UNWATCH_FOR:
        tri_watch_requested(ctx, (tri_watch *)(void *)node);
        break;
    case TRI_NODE_UNWATCH:
        tri_unwatch_arrived(worker, cell, (tri_watching *)(void *)node);
        break;
    case TRI_NODE_TERMINATED:
        tri_terminated_arrived(worker, cell, (tri_watch *)(void *)node);
        break;
    case TRI_NODE_FAILURE:
        tri_supervise(ctx, tri_cell_of_notice(node));
        break;
    case TRI_NODE_WAKE:
        tri_wait_woken(ctx, (tri_wait *)(void *)node);
        break;
    case TRI_NODE_JOIN:
        tri_join_arrived(worker, cell, (tri_join *)(void *)node);
        break;
    case TRI_NODE_USER:  // a timer's: force.c
        tri_drain_node(worker, tri_cell_ref(ctx->sys, cell), node,
                       TR_DEAD_DRAINED);
        break;
    default:
        TRI_CHECK(!"a system node of a known kind");
    }
}

static tr_ctx *find_ready(tri_cell *cell)
{
    tri_ext *ext = tri_ext_of(cell);
    for (tr_ctx *c = ext->parked; c != NULL; c = c->next) {
        if (may_resume(cell, c)) {
            return c;
        }
    }
    return NULL;
}

/* Brings the most urgent message to the front of the queue. */
static void urgent_first(tri_cell *cell)
{
    tri_ext *ext = tri_ext_of(cell);
    for (int p = TRI_PRIORITIES - 1; p > 0; p--) {
        tri_node *node = ext->urgent[p];
        if (node == NULL) {
            continue;
        }
        ext->urgent[p] = node->next;
        node->next = cell->queue;
        cell->queue = node;
        // Relaxed: for observers.
        atomic_fetch_add_explicit(&cell->queued, 1, memory_order_relaxed);
        return;
    }
    cell->slow &= (uint8_t)~TRI_SLOW_URGENT;
}

bool tri_rush(tri_cell *cell)
{
    // Acquire: pairs with tr_tell_urgent; the message is in the mail.
    atomic_fetch_and_explicit(&cell->flags, ~(uint32_t)TRI_CELL_RUSH,
                              memory_order_acquire);
    return tri_detach(cell) && (cell->slow & TRI_SLOW_URGENT) != 0;
}

/* Takes the first message that may run beside the parked turns. */
static tri_node *take_interleaving(tri_cell *cell, parked_kinds parked)
{
    bool only_interleave = false;
    for (tri_node **link = &cell->queue; *link != NULL; link = &(*link)->next) {
        tri_node *node = *link;
        const tri_slot *slot =
            node->kind == TRI_NODE_USER
                ? tri_behaviour_find(tri_cell_behaviour(cell), node->type)
                : NULL;
        uint32_t flags = slot != NULL ? slot->flags : 0;
        if (may_run(parked, flags) &&
            (!only_interleave || (flags & TR_ALWAYS_INTERLEAVE))) {
            *link = node->next;
            tri_taken(cell, node);
            return node;
        }
        only_interleave = true;  // a writer waits here: rule 1
    }
    return NULL;
}

/* Turns are parked: resumes one, runs one beside them, or sleeps. */
static tri_verdict beside_parked(tr_ctx *ctx)
{
    tri_cell *cell = ctx->cell;
    tr_ctx *ready = find_ready(cell);
    if (ready != NULL) {
        ctx->worker->resuming = ready;  // by the loop: the cell is his
        return TRI_GONE;
    }
    parked_kinds parked = kinds_parked(cell);
    if (!parked.writer && !parked.reader && !parked.hook) {
        return TRI_GO;  // only on_run waits
    }
    if (cell->slow & TRI_SLOW_LIFE) {
        return TRI_GO;  // life_step decides
    }
    if (tri_cell_behaviour(cell)->interleaves && !parked.hook) {
        tri_detach(cell);
        tri_node *node = take_interleaving(cell, parked);
        if (node != NULL) {
            if (ctx->worker->apart) {
                tri_handle_timed(ctx, node);
            } else {
                tri_handle(ctx, tri_msg_from(node));
            }
            return TRI_AGAIN;
        }
        tri_tighten(cell);
        return tri_sleep(ctx->worker, cell, true) ? TRI_GONE : TRI_AGAIN;
    }
    return tri_sleep(ctx->worker, cell, false) ? TRI_GONE : TRI_AGAIN;
}

tri_verdict tri_attention(tr_ctx *ctx)
{
    tri_worker *worker = ctx->worker;
    tri_cell *cell = ctx->cell;

    // Relaxed: a glance; tri_system_take acquires.
    if (atomic_load_explicit(&cell->sys_mail, memory_order_relaxed) &
        ~TRI_SYS_CLOSED) {
        system_mail(ctx);
    }
    if (cell->slow & TRI_SLOW_STOP) {
        if (tri_stop_plainly(ctx)) {
            return TRI_GONE;
        }
        cell->slow &= (uint8_t)~TRI_SLOW_STOP;
        tri_life_signals(ctx, TRI_SIG_STOP);
    }
    if (cell->slow & TRI_SLOW_PARKED) {
        tri_verdict v = beside_parked(ctx);
        if (v != TRI_GO) {
            return v;
        }
    }
    if (cell->slow & TRI_SLOW_LIFE) {
        switch (tri_life_step(ctx)) {
        case TRI_STEP_AGAIN:
            return TRI_AGAIN;
        case TRI_STEP_ENDED:
            return TRI_GONE;
        case TRI_STEP_WAIT:
            return tri_sleep(ctx->worker, cell, false) ? TRI_GONE : TRI_AGAIN;
        case TRI_STEP_RUNNING:
            break;
        }
    }
    if (cell->slow & TRI_SLOW_PENDING) {
        tri_terminated_turn(ctx);
        return TRI_AGAIN;
    }
    if ((cell->slow & TRI_SLOW_BLOCKED)) {
        tri_room_if_low(worker, cell);
    }
    if (cell->slow & TRI_SLOW_URGENT) {
        tri_detach(cell);
        urgent_first(cell);
    }
    if (cell->slow & TRI_SLOW_BOUNDED) {
        tri_bounded_trim(worker, cell);
    }
    return TRI_GO;
}
