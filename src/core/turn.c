/*
 * turn.c - running a cell: one message, an activation, the loop.
 *
 * A worker's loop runs on a fiber, and takes one cell after the other that is
 * to run. What is special about a cell is looked after before each message
 * (attention.c). A turn that must wait parks the fiber with the loop on it
 * (park.c), and a spare one goes on with the loop. When the wait is over, the
 * fiber that finds out gives itself up and switches back. Stacks are suspended
 * and resumed in balance, never abandoned.
 */
#include <stdlib.h>
#include <string.h>

#include "core/lifecycle.h"
#include "core/mailbox.h"
#include "core/private.h"
#include "core/turn.h"

/* ---- the end of a turn ---- */

static void free_scratch(tr_ctx *ctx)
{
    while (ctx->scratch != NULL) {
        tri_scratch *next = ctx->scratch->next;
        tri_scratch_free(ctx->scratch);
        ctx->scratch = next;
    }
}

/* Looks after all that the turn has left; not after a failure. */
void tri_turn_end(tr_ctx *ctx)
{
    tri_worker *worker = ctx->worker;
    if (ctx->flags & TRI_CTX_FUTURES) {
        tri_futures_drop(ctx);
    }
    while (ctx->replies != NULL) {
        tri_node *next = ctx->replies->next;
        tri_msg_free(&worker->cache, tri_msg_from(ctx->replies));
        ctx->replies = next;
    }
    free_scratch(ctx);
    if (ctx->fail_text != NULL) {
        free(ctx->fail_text);
        ctx->fail_text = NULL;
    }
    ctx->fail_site = NULL;
    tri_ctx_carry_nothing(ctx);
    ctx->flags = 0;
    ctx->cancel = TR_OK;
    ctx->in_turn = false;
}

/* The handler has returned TR_OK and left something to do. */
static __attribute__((noinline)) void finish_slow(tr_ctx *ctx, tr_msg *msg)
{
    tri_worker *worker = ctx->worker;
    bool ours = (ctx->flags & TRI_CTX_MSG_GONE) == 0;
    tri_turn_end(ctx);
    ctx->msg = NULL;
    if (!ours) {
        return;
    }
    uint8_t flags = msg->node.flags;
    if (flags & TRI_MSG_TIMER) {
        tri_user_timer_handled(worker, msg);
    } else if ((flags & TRI_MSG_ASK) && !(flags & TRI_MSG_ANSWERED)) {
        tri_answer_error(worker, msg, TR_ENOREPLY, NULL);
    } else {
        tri_msg_free(&worker->cache, msg);
    }
}

/* ---- one message ---- */

static __attribute__((noinline)) void unhandled(tr_ctx *ctx, tr_msg *msg)
{
    tri_worker *worker = ctx->worker;
    tri_ctx_carry_nothing(ctx);  // there is no turn
    if ((msg->node.flags & TRI_MSG_TIMER) == 0) {
        worker->sys->up->unhandled(worker, ctx->cell, msg);
        return;
    }
    // The message stays its timer's: a copy is reported.
    tr_msg *copy =
        tri_msg_new(&worker->cache, msg->node.type, msg->payload, false);
    if (copy != NULL) {
        copy->to_id = msg->to_id;
        copy->sender = (tr_ref){0};
        worker->sys->up->unhandled(worker, ctx->cell, copy);
    }
    tri_user_timer_handled(worker, msg);
}

/* Has the turn that waits for it been left just now, on our behalf? */
static bool waits_here(tri_worker *worker, tr_msg *msg)
{
    tri_cell *asker = worker->unsettled;
    const tri_ask *ask = tri_msg_ask(msg);
    // Relaxed: we own the cell.
    return asker != NULL && asker == tri_ref_cell(msg->sender) &&
           ask->is_long && ask->correlation == tri_ext_of(asker)->correlation &&
           atomic_load_explicit(&asker->id, memory_order_relaxed) ==
               msg->sender.id;
}

/* Rule 6: is the asker's time over, or the asker itself gone? */
static bool nobody_waits(tri_worker *worker, tr_msg *msg, uint32_t *reason)
{
    if (waits_here(worker, msg)) {
        return false;
    }
    tr_nanos deadline = tri_msg_ask(msg)->deadline;
    // Near the deadline a closer look.
    if (deadline - tri_clock_coarse(worker) <= TRI_CLOCK_LAG &&
        deadline <= tri_clock(worker)) {
        *reason = TR_DEAD_EXPIRED;
        return true;
    }
    tri_cell *asker = tri_ref_cell(msg->sender);
    // Relaxed: an asker that ends now gets its answer as a late one.
    if ((msg->sender.cell >> 48) == worker->sys->tag &&
        atomic_load_explicit(&asker->id, memory_order_relaxed) !=
            msg->sender.id) {
        *reason = TR_DEAD_CANCELLED;
        return true;
    }
    return false;
}

/* Messages that are more than a call of a handler. True: handled here. */
static __attribute__((noinline)) bool handle_special(tr_ctx *ctx, tr_msg *msg)
{
    tri_worker *worker = ctx->worker;
    tri_cell *cell = ctx->cell;

    if (msg->node.kind == TRI_NODE_TERMINATED) {
        tri_terminated_in_order(ctx, (tri_watch *)(void *)msg);
        return true;
    }
    if (msg->node.kind == TRI_NODE_WAKE) {
        tri_then_turn(ctx, (tri_wait *)(void *)msg, NULL);
        return true;
    }
    // Relaxed: we own the cell.
    uint64_t id = atomic_load_explicit(&cell->id, memory_order_relaxed);
    if (msg->to_id != id && msg->node.kind == TRI_NODE_POISON) {
        tri_msg_free(&worker->cache, msg);  // no letter, as where it is sent
        return true;
    }
    if (msg->to_id != id) {
        tri_dead(worker,
                 (tr_ref){tri_cell_ref(worker->sys, cell).cell, msg->to_id},
                 msg, TR_DEAD_NO_SUCH_ACTOR);
        return true;
    }
    if (msg->node.kind == TRI_NODE_POISON) {
        tri_msg_free(&worker->cache, msg);
        tri_life_signals(ctx, TRI_SIG_STOP);
        return true;
    }
    if (msg->node.kind == TRI_NODE_REPLY) {
        tri_reply_in_order(ctx, msg);
        return true;
    }
    if ((msg->node.flags & TRI_MSG_TIMER) &&
        !tri_user_timer_arrived(worker, msg)) {
        return true;
    }
    uint32_t reason = 0;
    if ((msg->node.flags & (TRI_MSG_ASK | TRI_MSG_ANSWERED)) == TRI_MSG_ASK &&
        nobody_waits(worker, msg, &reason)) {
        tri_dead(worker, tri_cell_ref(worker->sys, cell), msg, reason);
        return true;
    }
    if (msg->node.flags & TRI_MSG_CONTEXT) {
        tri_ctx_carry(ctx, tri_msg_context(msg));
    }
    return false;
}

/* The kind of turn of a handler with flags. */
static __attribute__((noinline)) uint8_t flagged_kind(tr_ctx *ctx,
                                                      uint32_t flags)
{
    if ((flags & TR_SUPPRESS_KEEP_ALIVE) && tri_cell_is_virtual(ctx->cell)) {
        tri_virtual_ops_of(ctx->sys)->quiet(ctx->cell);
    }
    return flags & TR_ALWAYS_INTERLEAVE ? TRI_TURN_INTERLEAVE
           : flags & TR_READ_ONLY       ? TRI_TURN_READ
                                        : TRI_TURN_WRITE;
}

static inline __attribute__((always_inline)) void call_handler(
    tr_ctx *ctx, tr_msg *msg, tr_handler_fn fn, const void *argument,
    uint32_t flags, uint32_t kind)
{
    tri_cell *cell = ctx->cell;
    ctx->msg = msg;
    ctx->kind =
        TRI_LIKELY(flags == 0) ? TRI_TURN_WRITE : flagged_kind(ctx, flags);
    ctx->in_turn = true;
    if (!TRI_BARE) {
        ctx->phase = TR_IN_HANDLER;
        tri_count(&ctx->worker->tally.messages[kind]);
        // Relaxed: for observers.
        atomic_store_explicit(&ctx->worker->handling, msg->node.type,
                              memory_order_relaxed);
    }
    tr_err err = fn(ctx, cell->state, argument);
    if (!TRI_BARE) {
        // Relaxed: for observers; only the owner writes.
        atomic_store_explicit(
            &cell->handled,
            atomic_load_explicit(&cell->handled, memory_order_relaxed) + 1,
            memory_order_relaxed);
    }
    if (!TRI_BARE && TRI_UNLIKELY(err != TR_OK)) {
        tri_life_fail(ctx, err);
        return;
    }
    // The flags of the turn first: a message that has gone is another's now.
    if (TRI_FAULTS && !(ctx->flags & TRI_CTX_MSG_GONE) &&
        (msg->node.flags & TRI_MSG_BLOBS)) {
        tri_state_check(ctx, msg);
    }
    if (TRI_LIKELY(ctx->flags == 0 && ctx->fail_text == NULL &&
                   ctx->cancel == TR_OK)) {
        if (TRI_LIKELY(tri_msg_is_plain(msg))) {
            ctx->in_turn = false;
            ctx->msg = NULL;
            tri_cache_free(&ctx->worker->cache, msg->node.klass, msg);
            return;
        }
        if ((msg->node.flags &
             (TRI_MSG_ASK | TRI_MSG_ANSWERED | TRI_MSG_TIMER)) ==
            (TRI_MSG_ASK | TRI_MSG_ANSWERED)) {
            ctx->in_turn = false;
            ctx->msg = NULL;
            tri_msg_free(&ctx->worker->cache, msg);
            return;
        }
    }
    finish_slow(ctx, msg);
}

/* S11: what the library sends and no handler names is offered to the hook. */
static bool wants_signal(tri_cell *cell, const tr_type *type)
{
    return tri_first_behaviour(cell)->def->on_signal != NULL &&
           (type->schema == tr_terminated_tr_type.schema ||
            type->schema == tr_timeout_tr_type.schema ||
            type->schema == tr_ask_failed_tr_type.schema ||
            type->schema == tr_termination_hook_tr_type.schema);
}

static tr_err offer_signal(tr_ctx *ctx, void *self, const void *m)
{
    return tri_first_behaviour(ctx->cell)->def->on_signal(ctx, self, m);
}

/* No handler names the type. */
static __attribute__((noinline)) void handle_unnamed(tr_ctx *ctx, tr_msg *msg)
{
    tri_cell *cell = ctx->cell;
    const tr_handler *any = tri_cell_behaviour(cell)->any;
    tr_handler_fn fn = wants_signal(cell, msg->node.type) ? offer_signal
                       : any != NULL                      ? any->fn
                                                          : NULL;
    if (fn != NULL) {
        call_handler(ctx, msg, fn, msg, 0, tri_cell_behaviour(cell)->kind);
    } else {
        unhandled(ctx, msg);
    }
}

static inline __attribute__((always_inline)) void handle_inline(tr_ctx *ctx,
                                                                tri_cell *cell,
                                                                tri_node *node)
{
    tr_msg *msg = tri_msg_from(node);
    // Relaxed: we own the cell.
    uint64_t id = atomic_load_explicit(&cell->id, memory_order_relaxed);

    if (TRI_UNLIKELY(
            msg->to_id != id || node->kind != TRI_NODE_USER ||
            (node->flags & (TRI_MSG_ASK | TRI_MSG_TIMER | TRI_MSG_CONTEXT)))) {
        if (handle_special(ctx, msg)) {
            return;
        }
    }
    if (TRI_UNLIKELY(cell->slow & TRI_SLOW_TIMEOUT)) {
        tri_receive_timeout_touch(ctx, msg);
    }
    const tri_slot *slot =
        tri_behaviour_find(tri_cell_behaviour(cell), node->type);
    if (TRI_LIKELY(slot != NULL)) {
        call_handler(ctx, msg, slot->fn, msg->payload, slot->flags, slot->kind);
    } else {
        handle_unnamed(ctx, msg);
    }
}

/* The same where it is not in a hurry. */
static __attribute__((noinline)) void handle(tr_ctx *ctx, tri_node *node)
{
    handle_inline(ctx, ctx->cell, node);
}

void tri_handle(tr_ctx *ctx, tr_msg *msg)
{
    handle(ctx, &msg->node);
}

void tri_handle_on_stack(tr_ctx *ctx, const tr_type *type, const void *payload,
                         size_t size)
{
    _Alignas(TRI_BLOCK_ALIGN) char room[sizeof(tr_msg) + TRI_STACK_PAYLOAD];
    TRI_CHECK(size <= TRI_STACK_PAYLOAD);
    memset(room, 0, sizeof(room));
    tr_msg *msg = (tr_msg *)(void *)room;
    msg->node.type = type;
    msg->node.kind = TRI_NODE_USER;
    msg->node.klass = TRI_CLASS_STACK;
    // Relaxed: we own the cell.
    msg->to_id = atomic_load_explicit(&ctx->cell->id, memory_order_relaxed);
    memcpy(msg->payload, payload, size);
    handle(ctx, &msg->node);
}

/* The timed handler has returned, or panicked. */
static void timed_end(tr_ctx *ctx)
{
    tri_world *world = ctx->sys->world;
    tri_tally_sample(ctx->worker, ctx->timed_kind,
                     world->ops->mono(world) - ctx->timed, ctx->timed_depth);
    ctx->timed = 0;
}

/* Between two looks at the clock; waits of the handler are in it. */
__attribute__((noinline)) void tri_handle_timed(tr_ctx *ctx, tri_node *node)
{
    tri_world *world = ctx->sys->world;
    tri_cell *cell = ctx->cell;
    ctx->worker->apart = ctx->worker->stepping;
    // Relaxed: only the owner writes.
    uint64_t handled =
        atomic_load_explicit(&cell->handled, memory_order_relaxed);
    ctx->timed_kind = tri_cell_behaviour(cell)->kind;
    ctx->timed_depth = tri_depth(cell);
    ctx->timed = world->ops->mono(world);
    handle(ctx, node);
    if (atomic_load_explicit(&cell->handled, memory_order_relaxed) != handled) {
        timed_end(ctx);
    }
    ctx->timed = 0;  // there may have been no handler for it
}

/* ---- an activation ---- */

/* True: enough for now, the cell must queue again. Two callers, one fast. */
static inline __attribute__((always_inline)) bool spent(tr_ctx *ctx)
{
    tri_worker *worker = ctx->worker;
    if (worker->sends_left < TRI_BATCH_SENDS / 2) {
        return true;
    }
    if (TRI_LIKELY(--ctx->budget > 0)) {
        return false;
    }
    if (worker->stepping || TRI_BATCH_MESSAGES <= TRI_CLOCK_EVERY) {
        return true;
    }
    tr_nanos before = ctx->started == 0 ? 0 : worker->now;
    tr_nanos now = tri_clock(worker);
    if (before == 0) {
        ctx->started = now;
        ctx->budget = TRI_CLOCK_FIRST;
        return false;
    }
    if (now - ctx->started > TRI_QUANTUM) {
        // Relaxed: a request to ourselves; work may be waiting for others.
        atomic_fetch_or_explicit(&worker->look, TRI_LOOK_CLOCK,
                                 memory_order_relaxed);
        return true;
    }
    // Slow handlers look at the clock more often.
    bool slow = now - before > TRI_QUANTUM / 16;
    ctx->budget = slow ? 1 : TRI_CLOCK_EVERY;
    return false;
}

/* Timed: up to the end of its first handler, which is timed. */
static inline __attribute__((always_inline)) bool messages(tr_ctx *ctx,
                                                           bool timed)
{
    tri_worker *worker = ctx->worker;
    tri_cell *cell = ctx->cell;

    for (;;) {
        // Relaxed: a glance; tri_attention acquires.
        if (TRI_UNLIKELY(
                (atomic_load_explicit(&cell->sys_mail, memory_order_relaxed) &
                 ~TRI_SYS_CLOSED) != 0 ||
                cell->slow != 0)) {
            tri_verdict v = tri_attention(ctx);
            if (v == TRI_GONE) {
                return false;
            }
            if (v == TRI_AGAIN) {
                continue;
            }
        }
        tri_node *node = cell->queue;
        if (node == NULL) {
            // Relaxed: a glance; tri_detach and tri_sleep look properly.
            uintptr_t mail =
                atomic_load_explicit(&cell->mail, memory_order_relaxed);
            if (TRI_LIKELY(tri_mail_newest(mail) == NULL)) {
                if (tri_sleep_idle(worker, cell, mail)) {
                    return false;
                }
                continue;
            }
            node = tri_detach_first(cell, mail);
            if (TRI_UNLIKELY(node == NULL)) {
                continue;
            }
        } else {
            // Relaxed: a glance; tri_rush acquires.
            if (TRI_UNLIKELY(
                    (atomic_load_explicit(&cell->flags, memory_order_relaxed) &
                     TRI_CELL_RUSH) != 0) &&
                tri_rush(cell)) {
                continue;
            }
            cell->queue = node->next;
            tri_taken(cell, node);
        }
        if (timed) {
            tri_handle_timed(ctx, node);
        } else {
            handle_inline(ctx, cell, node);
        }
        if (TRI_UNLIKELY(spent(ctx))) {
            tri_schedule(worker, cell);
            return false;
        }
        if (timed) {
            return true;
        }
    }
}

static void activation(tr_ctx *ctx)
{
    (void)messages(ctx, false);
}

static __attribute__((noinline)) bool first_timed(tr_ctx *ctx)
{
    return messages(ctx, true);
}

/*
 * A world that drives us gets one message for each step, and now and then the
 * two things that threads do: several in a row, and a turn that is cut at one
 * of its sends.
 */
static void begin_step(tr_ctx *ctx)
{
    tri_world *world = ctx->sys->world;
    ctx->budget = TRI_BUGGIFY(world, 0.02) ? TRI_CLOCK_FIRST : 1;
    ctx->worker->sends_left =
        TRI_BUGGIFY(world, 0.02) ? 1 : (uint32_t)TRI_BATCH_SENDS;
}

/* A step, or the one in many activations whose first handler is timed. */
static __attribute__((noinline)) bool apart(tr_ctx *ctx)
{
    if (ctx->worker->stepping) {
        begin_step(ctx);
    }
    bool more = first_timed(ctx);
    // There may have been no handler: the mark is for this one activation.
    ctx->worker->apart = ctx->worker->stepping;
    return more;
}

static inline void count_activation(tri_worker *worker)
{
    // Relaxed: the monitor and thieves look at it.
    atomic_store_explicit(
        &worker->progress,
        atomic_load_explicit(&worker->progress, memory_order_relaxed) + 1,
        memory_order_relaxed);
}

/* True: the activation of a cell that the worker owns is to go on. */
static inline __attribute__((always_inline)) bool run_begin(tr_ctx *ctx,
                                                            tri_cell *cell)
{
    tri_worker *worker = ctx->worker;
    ctx->cell = cell;
    ctx->self = tri_cell_ref(ctx->sys, cell);
    ctx->started = 0;
    ctx->budget = TRI_BATCH_MESSAGES == 1 ? 1 : TRI_CLOCK_FIRST;
    worker->sends_left = TRI_BATCH_SENDS;
    if (!TRI_BARE) {
        // Release: observers look at the cell.
        atomic_store_explicit(&worker->running, cell, memory_order_release);
    }
    count_activation(worker);
    return TRI_BARE || TRI_LIKELY(!worker->apart) || apart(ctx);
}

static inline void run_end(tri_worker *worker)
{
    if (!TRI_BARE) {
        // Relaxed: for observers.
        atomic_store_explicit(&worker->running, NULL, memory_order_relaxed);
    }
}

/* Runs a cell the worker owns, until it sleeps, queues again or is gone. */
static void run(tr_ctx *ctx, tri_cell *cell)
{
    if (run_begin(ctx, cell)) {
        activation(ctx);
    }
    run_end(ctx->worker);
}

void tri_settle_now(tri_worker *worker)
{
    tri_cell *cell = worker->unsettled;
    worker->unsettled = NULL;
    (void)tri_sleep(worker, cell, false);
}

/*
 * A turn has parked: most cells then wait for nothing but its answer. Where
 * that is to come from a cell that we run next, ours is given up only if it
 * has not come: nobody else could run it, having its stack here.
 */
static void after_park(tr_ctx *ctx, tri_cell *cell)
{
    tri_worker *worker = ctx->worker;
    const tr_ctx *parked = tri_ext_of(cell)->parked;
    // Relaxed: a glance; tri_sleep looks properly.
    if (TRI_LIKELY(
            cell->slow == TRI_SLOW_PARKED && parked->next == NULL &&
            parked->kind != TRI_TURN_RUN && !worker->stepping &&
            !tri_cell_behaviour(cell)->interleaves &&
            (atomic_load_explicit(&cell->sys_mail, memory_order_relaxed) &
             ~TRI_SYS_CLOSED) == 0)) {
        atomic_store_explicit(&worker->running, NULL, memory_order_relaxed);
        if (worker->hand != NULL) {
            worker->unsettled = cell;
        } else {
            (void)tri_sleep(worker, cell, false);  // as attention.c would
        }
    } else {
        tri_hand_back(worker);  // handlers of this cell may come first
        run(ctx, cell);
    }
}

/*
 * The turn that waits in this cell and may go on; NULL: a closer look. Where
 * nothing but TRI_SLOW_PARKED is special about it.
 */
static tr_ctx *ready_alone(tri_worker *worker, tri_cell *cell)
{
    // Relaxed: a glance; what comes now is seen when the turn ends or waits.
    if (worker->stepping ||
        (atomic_load_explicit(&cell->sys_mail, memory_order_relaxed) &
         ~TRI_SYS_CLOSED) != 0) {
        return NULL;
    }
    tr_ctx *parked = tri_ext_of(cell)->parked;
    return parked->next == NULL && parked->ready ? parked : NULL;
}

/* The turn that has left its stack parked, yielded or given itself up. */
static void after_switch(tr_ctx *ctx)
{
    tri_worker *worker = ctx->worker;
    tri_after after = worker->after;
    worker->after = TRI_AFTER_NONE;
    tri_settle(worker);
    switch (after) {
    case TRI_AFTER_NONE:
        break;
    case TRI_AFTER_CONTINUE:
        after_park(ctx, worker->after_cell);
        break;
    case TRI_AFTER_REQUEUE:
        tri_schedule(worker, worker->after_cell);
        break;
    case TRI_AFTER_GIVE:
        tri_fiber_give(&worker->fibers, worker->after_fiber);
        break;
    }
}

/*
 * Switches to a parked turn; from the loop: each return behind a switch is one
 * that the processor cannot foresee.
 */
static void resume(tri_worker *worker)
{
    tri_fiber *self = worker->current;
    tr_ctx *ctx = worker->resuming;

    worker->resuming = NULL;
    tri_parked_remove(ctx);
    worker->after = TRI_AFTER_GIVE;
    worker->after_fiber = self;
    worker->current = ctx->fiber;
    tri_fiber_switch(self, ctx->fiber);
}

static void rest(tri_worker *worker)
{
    tri_fiber *self = worker->current;
    worker->resting = self;
    worker->current = &worker->thread;
    tri_fiber_switch(self, &worker->thread);
}

/* A function of its own: in that of the jump all locals live in memory. */
static _Noreturn __attribute__((noinline)) void loop(tr_ctx *ctx)
{
    tri_worker *worker = ctx->worker;
    for (;;) {
        while (worker->after != TRI_AFTER_NONE) {
            after_switch(ctx);
        }
        if (worker->resuming != NULL) {
            resume(worker);
            continue;
        }
        tri_cell *cell = tri_worker_next(worker);
        if (TRI_UNLIKELY(cell == NULL)) {
            rest(worker);
            continue;
        }
        if (TRI_UNLIKELY(cell->slow == TRI_SLOW_PARKED) &&
            (worker->resuming = ready_alone(worker, cell)) != NULL) {
            count_activation(worker);
            worker->sends_left = TRI_BATCH_SENDS;
            continue;
        }
        // As run does, in line: between two handlers every jump counts, as a
        // processor foresees the next one by the last few of them.
        if (run_begin(ctx, cell)) {
            (void)messages(ctx, false);
        }
        run_end(worker);
        tri_settle(worker);
    }
}

/*
 * The entry of every pool fiber. The context is the fiber's: clean between
 * turns, kept as it is while one of them is parked.
 */
void tri_loop(void *arg)
{
    tr_ctx ctx = {.magic = TRI_CTX_MAGIC,
                  .worker = arg,
                  .sys = ((tri_worker *)arg)->sys,
                  .quick_tag = ((tri_worker *)arg)->sys->tag};

    if (tri_jump_set(&ctx.jump)) {  // tr_panic comes back here
        if (ctx.timed != 0) {
            timed_end(&ctx);
        }
        tri_life_fail(&ctx, TR_EPANIC);
        activation(&ctx);
        tri_settle(ctx.worker);
    }
    loop(&ctx);
}
