/*
 * waiting.h - what the parked turn of an actor waits for, as observers see it.
 *
 * A turn publishes what it waits for when it parks, and clears it when it is
 * resumed. If several turns of an actor are parked, the oldest one is shown.
 *
 * Threads: tri_waiting_read, _show and _text: any. The others: the owner of the
 * cell.
 */
#ifndef TRI_CORE_RUN_WAITING_H
#define TRI_CORE_RUN_WAITING_H

#include <stdatomic.h>

#include "base/check.h"
#include "base/text.h"
#include "core/ask/wait.h"
#include "core/cell/ext.h"
#include "core/run/context.h"
#include "core/types.h"

/* A copy of tri_waiting. All texts are static, or constants of the program. */
typedef struct tri_waiting_view {
    const char *call;         // "tr_ask"
    const tr_type *handling;  // type of the turn's message, or NULL
    const tr_type *type;      // type of the request, or NULL
    tr_ref target;            // the actor that is waited for, or nobody
    const char *site;         // file:line of the call, or NULL
    tr_nanos since;
} tri_waiting_view;

/* Publishes the wait of the oldest parked turn, or that there is none. */
void tri_waiting_publish(tri_ext *ext);

/* Writes a wait to the record. */
static inline void tri_waiting_fill(tri_waiting *to, const tri_wait *wait)
{
    // Relaxed: only the owner of the cell writes.
    uint32_t seq = atomic_load_explicit(&to->seq, memory_order_relaxed);
    atomic_store_explicit(&to->seq, seq + 1, memory_order_relaxed);
    // Release, all: after the odd seq; pairs with tri_waiting_read.
    atomic_store_explicit(&to->call, wait->call, memory_order_release);
    atomic_store_explicit(&to->handling, wait->handling, memory_order_release);
    atomic_store_explicit(&to->type, wait->type, memory_order_release);
    atomic_store_explicit(&to->cell, wait->target.cell, memory_order_release);
    atomic_store_explicit(&to->id, wait->target.id, memory_order_release);
    atomic_store_explicit(&to->site, wait->site, memory_order_release);
    atomic_store_explicit(&to->since, wait->since, memory_order_release);
    // Release: pairs with the first load of tri_waiting_read.
    atomic_store_explicit(&to->seq, seq + 2, memory_order_release);
}

/* Marks the record as one of an actor without a wait. */
static inline void tri_waiting_clear(tri_waiting *to)
{
    // Relaxed: the other fields stay those of the wait that has ended.
    atomic_store_explicit(&to->call, NULL, memory_order_relaxed);
}

/* Publishes the wait of a turn that has just been added to ext->parked. */
static inline void tri_waiting_begin(tri_ext *ext, const tr_ctx *ctx)
{
    if (TRI_LIKELY(ext->parked == ctx)) {
        tri_waiting_fill(&ext->waiting, ctx->wait);
    } else {
        tri_waiting_publish(ext);
    }
}

/* Ends what tri_waiting_begin began; the turn is not parked any more. */
static inline void tri_waiting_end(tri_ext *ext)
{
    if (TRI_LIKELY(ext->parked == NULL)) {
        tri_waiting_clear(&ext->waiting);
    } else {
        tri_waiting_publish(ext);
    }
}

/* Fills *out. Returns false if no turn of the cell waits. */
bool tri_waiting_read(tri_cell *cell, tri_waiting_view *out);

/*
 * Adds ", handling Sum, waits in tr_ask with Get for /user/bob at bank.c:42,
 * 500 ms so far"; nothing if no turn of the cell waits. named: with the path of
 * the target, whose parent is locked meanwhile, so the caller holds no lock.
 */
void tri_waiting_show(tr_system *sys, tri_cell *cell, bool named,
                      tri_text *out);

enum { TRI_WAITING_MAX = 512 };  // bytes for the text of tri_waiting_show

/*
 * Writes what tri_waiting_show says about `ref` to buf, which has room for
 * TRI_WAITING_MAX bytes, if err is TR_ETIMEDOUT; else "". Returns buf.
 */
const char *tri_waiting_text(tr_system *sys, tr_err err, tr_ref ref, char *buf);

/* Returns the site that tr_at has set, or NULL, and forgets it. */
const char *tri_site_take(tr_ctx *ctx);

#endif
