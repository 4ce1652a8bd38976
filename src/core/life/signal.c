/*
 * signal.c - signals to an actor, and tr_stop, tr_kill, tr_restart and
 * tr_poison.
 *
 * A stop, kill or restart is a signal and needs no memory; a poison is a message
 * behind those that are queued already. tri_life_handle_signals acts on a
 * signal.
 *
 * Threads: any. Requests to actors of the library are ignored.
 */
#include "core/life/signal.h"

#include <stdatomic.h>

#include "base/check.h"
#include "core/caller.h"
#include "core/cell/cell.h"
#include "core/cell/message.h"
#include "core/cell/ref.h"
#include "core/mail/mailbox.h"
#include "core/mail/push.h"
#include "core/run/context.h"
#include "core/run/scheduler.h"
#include "core/run/worker.h"
#include "core/system.h"

/* ---- signals ---- */

bool tri_signal_claim(tri_cell *cell, uint64_t id, uint32_t signal)
{
    uint64_t owner = id << TRI_SIG_BITS;
    TRI_CHECK((signal & ~TRI_SIG_MASK) == 0);
    // Relaxed: confirmed by the exchange.
    uint64_t seen = atomic_load_explicit(&cell->signals, memory_order_relaxed);
    do {
        if ((seen & ~TRI_SIG_MASK) != owner) {
            return false;  // the actor has ended
        }
        // Release: what the sender has written for it; pairs with
        // tri_signals_take.
    } while (!atomic_compare_exchange_weak_explicit(
        &cell->signals, &seen, seen | signal, memory_order_release,
        memory_order_relaxed));
    // Seq_cst: before tri_mailbox_claim reads mail. If another actor has the
    // cell by now, its owner finds no signal.
    atomic_fetch_or_explicit(&cell->sys_mail, TRI_SYS_SIGNAL,
                             memory_order_seq_cst);
    return tri_mailbox_claim(cell);
}

void tri_signal(tri_worker *worker, tri_cell *cell, uint64_t id,
                uint32_t signal)
{
    if (tri_signal_claim(cell, id, signal)) {
        tri_schedule(worker, cell);
    }
}

uint32_t tri_signals_take(tri_cell *cell)
{
    // Acquire: pairs with tri_signal.
    uint64_t seen = atomic_fetch_and_explicit(&cell->signals, ~TRI_SIG_MASK,
                                              memory_order_acquire);
    return (uint32_t)(seen & TRI_SIG_MASK);
}

/* ---- tr_stop, tr_kill, tr_poison ---- */

static void send_signal(tr_from from, tr_ref ref, uint32_t signal)
{
    TRI_CHECK(signal == TRI_SIG_STOP || signal == TRI_SIG_KILL ||
              signal == TRI_SIG_RESTART_ASKED);
    tri_caller caller = tri_enter(from);
    tri_cell *cell = tri_ref_cell(ref);
    if (tri_ref_is_here(caller.sys, ref)) {
        // Relaxed: fixed at spawn. If the cell belongs to another actor now,
        // tri_signal finds another id and does nothing.
        uint32_t flags =
            atomic_load_explicit(&cell->flags, memory_order_relaxed);
        if ((flags & TRI_CELL_VIRTUAL) &&
            tri_virtual_ops_of(caller.sys)
                ->signal(caller.worker, cell, signal)) {
            // The actor is on another node, which gets the request.
        } else if (!(flags & TRI_CELL_SYSTEM)) {
            tri_signal(caller.worker, cell, ref.id, signal);
        }
    }
    tri_leave(&caller);
}

void(tr_stop)(tr_from from, tr_ref ref)
{
    tr_ctx *ctx = from.ctx;
    // An actor that stops itself owns its cell: a flag is enough.
    if (tri_from_is_ctx(from) && ref.cell == ctx->self.cell &&
        ref.id == ctx->self.id) {
        // Relaxed: the monitor reads it if the handler does not return.
        atomic_store_explicit(&ctx->worker->self_stopped, ref.id,
                              memory_order_relaxed);
        ctx->cell->attention |= TRI_ATTENTION_STOP;
        return;
    }
    send_signal(from, ref, TRI_SIG_STOP);
}

void(tr_kill)(tr_from from, tr_ref ref)
{
    send_signal(from, ref, TRI_SIG_KILL);
}

void(tr_restart)(tr_from from, tr_ref ref)
{
    send_signal(from, ref, TRI_SIG_RESTART_ASKED);
}

/* Sends a poison message, unless the cell has one of the flags. */
static void poison(tr_from from, tr_ref ref, uint32_t ignored_flags)
{
    tri_caller caller = tri_enter(from);
    tri_cell *cell = tri_ref_cell(ref);
    // Relaxed: as in send_signal.
    if (tri_ref_is_here(caller.sys, ref) &&
        !(atomic_load_explicit(&cell->flags, memory_order_relaxed) &
          ignored_flags)) {
        tr_none nothing = {};
        tr_msg *msg = tri_msg_new(&caller.worker->cache, &tr_none_tr_type,
                                  &nothing, false);
        if (msg == NULL) {  // without memory: stop at once, not never
            tri_signal(caller.worker, cell, ref.id, TRI_SIG_STOP);
        } else {
            msg->item.kind = TRI_ITEM_POISON;
            msg->sender = caller.sender;
            if (tri_push(caller.worker, cell, ref.id, msg) != TR_OK &&
                !(tri_cell_is_virtual(cell) &&
                  tri_virtual_ops_of(caller.sys)
                      ->poison(caller.worker, cell, msg))) {
                tri_msg_free(&caller.worker->cache, msg);
            }
        }
    }
    tri_leave(&caller);
}

void(tr_poison)(tr_from from, tr_ref ref)
{
    poison(from, ref, TRI_CELL_SYSTEM);
}

void tri_poison_any(tr_system *sys, tr_ref ref)
{
    poison((tr_from){.sys = sys}, ref, 0);
}
