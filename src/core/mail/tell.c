/*
 * tell.c - tr_tell, tr_try_tell and tr_tell_urgent.
 *
 * Most messages go from a turn to an unbounded mailbox and have a small
 * payload without text. tr_tell has a fast path for them: the payload is
 * copied in line into a block of the worker's cache, and the rare cases are
 * calls in the last step, so that the fast path needs no stack frame.
 *
 * Threads: any; a thread that is no worker enters through tri_enter.
 *
 * Invariant: the fast path makes no message with a context in front, because
 * fast_tag of a turn with a context is no system's tag (context.h).
 */
#include <stdatomic.h>

#include "base/check.h"
#include "core/ask/error_text.h"
#include "core/caller.h"
#include "core/cell/cache.h"
#include "core/cell/cell.h"
#include "core/cell/cell_path.h"
#include "core/cell/ext.h"
#include "core/cell/mem.h"
#include "core/cell/message.h"
#include "core/cell/ref.h"
#include "core/life/failure.h"
#include "core/mail/send.h"
#include "core/run/context.h"
#include "core/run/worker.h"
#include "core/system.h"

/* Makes the message that a caller sends; NULL without memory. */
static tr_msg *message_of(tri_caller *caller, const tr_type *type,
                          const void *payload)
{
    return tri_msg_new_with(&caller->worker->cache, type, payload, false,
                            tri_ctx_context(caller->ctx));
}

/* Reports a call of another language, or a cast, that passes no type. */
static inline void check_type(tr_from from, const char *call,
                              const tr_type *type)
{
    if (TRI_UNLIKELY(type == NULL)) {
        tri_misuse(tri_from_is_ctx(from) ? from.ctx : NULL, call,
                   "the type is NULL");
    }
}

/* Sends any message to any ref. */
static __attribute__((noinline)) void tell_slow(tr_from from, uint64_t to_cell,
                                                uint64_t to_id,
                                                const tr_type *type,
                                                const void *payload)
{
    tr_ref to = {to_cell, to_id};
    tri_caller caller = tri_enter(from);
    tr_msg *msg = message_of(&caller, type, payload);
    if (TRI_LIKELY(msg != NULL)) {
        tri_send(&caller, to, msg);
    } else {
        caller.sys->up->dead_letter_lost(caller.sys, to, type,
                                         TR_DEAD_NO_MEMORY);
    }
    tri_leave(&caller);
}

/*
 * Sends again, with tell_slow, what a closed or very deep mailbox has refused:
 * the message is pushed, becomes a dead letter or activates a virtual actor.
 * Takes msg.
 */
static __attribute__((noinline)) void tell_refused(tr_from from,
                                                   uint64_t to_cell,
                                                   uint64_t to_id, tr_msg *msg,
                                                   const void *payload)
{
    const tr_type *type = msg->item.type;
    TRI_CHECK(tri_from_is_ctx(from));
    tri_msg_free(&from.ctx->worker->cache, msg);
    tell_slow(from, to_cell, to_id, type, payload);
}

/*
 * Sends a message without text from a turn to an unbounded mailbox, or calls
 * tell_slow if one of its conditions does not hold.
 */
static inline __attribute__((always_inline)) void tell_fast(
    tr_ctx *ctx, uint64_t to_cell, uint64_t to_id, const tr_type *type,
    size_t size, const void *payload)
{
    tri_worker *worker = ctx->worker;
    tri_cell *cell = tri_ref_cell((tr_ref){.cell = to_cell});
    uint32_t klass = tri_class_by_table(sizeof(tr_msg) + size);
    tri_magazine *hot = &worker->cache.of[klass].hot;
    TRI_CHECK_SLOW(type->var_count == 0);
    // Relaxed: the flags as in tri_send_is_special; the id saves a push in
    // vain, and the message carries it.
    if (TRI_UNLIKELY(
            (to_cell >> 48) != ctx->fast_tag || hot->head == NULL ||
            (TRI_FAULTS && tri_mem_should_fail(worker->cache.mem)) ||
            (atomic_load_explicit(&cell->flags, memory_order_relaxed) &
             (TRI_CELL_BOUNDED | TRI_CELL_DEPTH_CHECKED | TRI_CELL_RELAYED)) !=
                0 ||
            atomic_load_explicit(&cell->id, memory_order_relaxed) != to_id)) {
        tell_slow((tr_from){.ctx = ctx}, to_cell, to_id, type, payload);
        return;
    }
    tr_msg *msg = (tr_msg *)(void *)tri_magazine_take(hot, klass);
    tri_msg_init_plain(msg, type, klass, payload, size);
    msg->sender = ctx->self;
    tr_err err = tri_send_ordinary(TRI_SEND_SLOWED | TRI_SEND_FAST, worker, ctx,
                                   (tr_ref){to_cell, to_id}, 0, msg);
    if (TRI_UNLIKELY(err != TR_OK)) {
        tell_refused((tr_from){.ctx = ctx}, to_cell, to_id, msg, payload);
    }
}

/* Sends a message with text, a payload above TRI_COPY_SMALL, or from outside. */
static __attribute__((noinline)) void tell_larger(tr_from from,
                                                  uint64_t to_cell,
                                                  uint64_t to_id,
                                                  const tr_type *type,
                                                  const void *payload)
{
    if (TRI_LIKELY(tri_from_is_ctx(from) && type->var_count == 0 &&
                   type->size <= TRI_CLASS_TABLE_MAX - sizeof(tr_msg))) {
        tell_fast(from.ctx, to_cell, to_id, type, type->size, payload);
    } else {
        tell_slow(from, to_cell, to_id, type, payload);
    }
}

void(tr_tell)(tr_from from, tr_ref to, const tr_type *type, const void *payload)
{
    check_type(from, "tr_tell", type);
    size_t size = type->size;
    if (TRI_LIKELY(tri_from_is_ctx(from) && type->var_count == 0 &&
                   size <= TRI_COPY_SMALL)) {
        tell_fast(from.ctx, to.cell, to.id, type, size, payload);
    } else {
        tell_larger(from, to.cell, to.id, type, payload);
    }
}

/* Sets the error text of a message that was not delivered. */
static void set_text(tr_from from, tr_ref to, const tr_type *type, tr_err err)
{
    char path[TRI_PATH_MAX], room[TRI_ADVICE_MAX];
    tr_system *sys = tri_from_system(from);
    TRI_CHECK(err != TR_OK);
    sys->up->ref_path(from, to, path, sizeof(path));
    tri_error_set(tri_from_is_ctx(from) ? from.ctx : NULL, "%s to %s: %s%s",
                  type->name, path, tr_strerror(err),
                  tri_advice(sys, err, to, room, sizeof(room)));
}

tr_err(tr_try_tell)(tr_from from, tr_ref to, const tr_type *type,
                    const void *payload)
{
    check_type(from, "tr_try_tell", type);
    tri_caller caller = tri_enter(from);
    caller.never_waits = true;
    tr_msg *msg = message_of(&caller, type, payload);
    tr_err err = TR_ENOMEM;
    if (msg != NULL) {
        err = tri_try_send(&caller, to, msg);
        if (err != TR_OK) {
            tri_msg_free(&caller.worker->cache, msg);
            err = err == TR_ESTOPPED ? TR_EGONE : err;
        }
    }
    tri_leave(&caller);
    if (TRI_UNLIKELY(err != TR_OK && err != TR_EDEADLOCK)) {
        set_text(from, to, type, err);  // a cycle has its own text
    }
    return err;
}

/* Makes the cell sort urgent mail; without memory it stays in order. */
static void open_urgent_lanes(tri_worker *worker, tri_cell *cell)
{
    TRI_CHECK(cell != NULL);
    if (tri_ext_need(worker, cell) != NULL) {
        // Relaxed: the push that follows publishes it.
        atomic_fetch_or_explicit(&cell->flags, TRI_CELL_URGENT,
                                 memory_order_relaxed);
    }
}

void(tr_tell_urgent)(tr_from from, tr_ref to, uint8_t priority,
                     const tr_type *type, const void *payload)
{
    TRI_CHECK(priority >= 1 && priority <= TR_PRIORITY_MAX);
    check_type(from, "tr_tell_urgent", type);
    tri_caller caller = tri_enter(from);
    tr_msg *msg = message_of(&caller, type, payload);
    tri_cell *cell = tri_ref_cell(to);
    if (msg == NULL) {
        caller.sys->up->dead_letter_lost(caller.sys, to, type,
                                         TR_DEAD_NO_MEMORY);
    } else {
        msg->item.priority = priority;
        // Relaxed: a stale ref must not give another actor lanes.
        bool is_current =
            tri_ref_is_here(caller.sys, to) &&
            atomic_load_explicit(&cell->id, memory_order_relaxed) == to.id;
        if (is_current) {
            open_urgent_lanes(caller.worker, cell);
        }
        tri_send(&caller, to, msg);
        if (is_current) {
            // Release: after the message; pairs with tri_urgent_arrived. If
            // another actor has the cell by now, it only searches in vain.
            atomic_fetch_or_explicit(&cell->flags, TRI_CELL_URGENT_PENDING,
                                     memory_order_release);
        }
    }
    tri_leave(&caller);
}
