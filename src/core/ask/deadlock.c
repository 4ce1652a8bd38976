/*
 * deadlock.c - refuses waits that would close a cycle.
 *
 * While a turn of A is parked on something that only B can give, A's extension
 * holds the edge A -> B. A turn writes its edge first and follows the chain
 * after that, both seq_cst: if two actors close a cycle at the same time, at
 * least one of them sees the other's edge. A chain counts only if a second
 * walk finds every edge with the same sequence number.
 *
 * The memory of an extension stays an extension after its end (ext.h), so a
 * walk may read an old one; the id in it then differs and the walk ends.
 *
 * Invariant: an actor has at most one edge, and edge.seq is odd while it
 * exists. Only the owner writes the edge, except for tri_edge_move and
 * tri_edge_answered.
 */
#include "core/ask/deadlock.h"

#include <stdatomic.h>
#include <stdio.h>

#include "base/check.h"
#include "base/lock.h"
#include "core/ask/error_text.h"
#include "core/ask/wait.h"
#include "core/cell/behaviour.h"
#include "core/cell/cell.h"
#include "core/cell/cell_path.h"
#include "core/cell/ext.h"
#include "core/cell/message.h"
#include "core/cell/ref.h"
#include "core/life/family.h"
#include "core/run/context.h"
#include "core/run/park.h"
#include "core/run/worker.h"
#include "core/system.h"

enum { CHAIN_MAX = 64 };  // edges of a chain; a longer one is not followed

/* A copy of an edge: a turn of `cell` waits for `to`. */
typedef struct edge_copy {
    tri_cell *cell;
    uint64_t id, seq;
    const char *site;
    bool writer;  // the turn that waits could have changed the state
    bool reads;   // its request may run beside parked readers
    tr_ref to;
} edge_copy;

/* ---- following edges ---- */

/* Copies the edge of the cell to *out. Returns false if it has none. */
static bool edge_of(tri_cell *cell, uint64_t id, edge_copy *out)
{
    // Seq_cst: after our own edge was written; see the file comment.
    if (atomic_load_explicit(&cell->id, memory_order_seq_cst) != id) {
        return false;
    }
    tri_ext *ext = atomic_load_explicit(&cell->ext, memory_order_seq_cst);
    if (ext == NULL) {
        return false;
    }
    uint64_t seq = atomic_load_explicit(&ext->edge.seq, memory_order_seq_cst);
    if (seq % 2 == 0) {
        return false;
    }
    // Relaxed: confirmed by reading the sequence again.
    *out = (edge_copy){
        .cell = cell,
        .id = id,
        .seq = seq,
        .site = atomic_load_explicit(&ext->edge.site, memory_order_relaxed),
        .writer = atomic_load_explicit(&ext->edge.writer, memory_order_relaxed),
        .reads = atomic_load_explicit(&ext->edge.reads, memory_order_relaxed),
        .to = {atomic_load_explicit(&ext->edge.cell, memory_order_relaxed),
               atomic_load_explicit(&ext->edge.id, memory_order_relaxed)}};
    // Acquire: pairs with tri_edge_answered, which the answering thread calls
    // before it does anything else.
    if (atomic_load_explicit(&ext->edge.answered, memory_order_acquire) ==
        atomic_load_explicit(&ext->edge.wait, memory_order_relaxed)) {
        return false;
    }
    return atomic_load_explicit(&ext->edge.seq, memory_order_seq_cst) == seq;
}

/*
 * Follows the chain from `home` and returns its length if it comes back, else
 * 0. An edge does not count if its request can run beside the turn that its
 * target has parked.
 */
static uint32_t walk(const edge_copy *home, edge_copy *chain)
{
    tr_ref to = home->to;
    bool reads = home->reads;
    TRI_CHECK(home->cell != NULL);
    for (uint32_t n = 0; n < CHAIN_MAX; n++) {
        tri_cell *cell = tri_ref_cell(to);
        if (cell == NULL) {
            return 0;
        }
        if (cell == home->cell && to.id == home->id) {
            return reads && !home->writer ? 0 : n + 1;
        }
        if (!edge_of(cell, to.id, &chain[n]) || (reads && !chain[n].writer)) {
            return 0;
        }
        to = chain[n].to;
        reads = chain[n].reads;
    }
    return 0;
}

/*
 * Returns true if the target waits too, so that the chain must be followed;
 * most targets do not. Called after our own edge was written.
 */
static bool target_waits(const tri_cell *home, tr_ref to)
{
    tri_cell *cell = tri_ref_cell(to);
    if (cell == home || cell == NULL) {
        return cell == home;
    }
    // Seq_cst, both: as in edge_of, which then compares the id.
    tri_ext *ext = atomic_load_explicit(&cell->ext, memory_order_seq_cst);
    return ext != NULL &&
           atomic_load_explicit(&ext->edge.seq, memory_order_seq_cst) % 2 == 1;
}

/*
 * Walks twice and returns the length of the cycle, or 0 if there is none or
 * it has changed between the walks.
 */
static uint32_t find_cycle(const edge_copy *home, edge_copy *chain)
{
    edge_copy second[CHAIN_MAX];
    uint32_t count = walk(home, chain);
    if (count == 0 || walk(home, second) != count) {
        return 0;
    }
    for (uint32_t i = 0; i + 1 < count; i++) {
        if (chain[i].seq != second[i].seq || chain[i].cell != second[i].cell) {
            return 0;
        }
    }
    return count;
}

static void count_deadlock(tr_ctx *ctx)
{
    tri_count(&ctx->worker->count.deadlocks);
}

/* Sets the error text: the paths and call sites of the cycle. */
static void describe(tr_system *sys, tr_ctx *ctx, const edge_copy *home,
                     const edge_copy *chain, uint32_t count,
                     const tr_type *type)
{
    TRI_CHECK(count > 0 && count <= CHAIN_MAX);
    // The actors of a cycle are all parked, so they are alive.
    char text[1024], path[TRI_PATH_MAX];
    tri_path_write(sys, home->cell, path, sizeof(path));
    size_t at = (size_t)snprintf(text, sizeof(text), "%s (%s)", path,
                                 home->site != NULL ? home->site : "?");
    for (uint32_t i = 0; i + 1 < count && at < sizeof(text); i++) {
        tri_path_write(sys, chain[i].cell, path, sizeof(path));
        at +=
            (size_t)snprintf(text + at, sizeof(text) - at, " -> %s (%s)", path,
                             chain[i].site != NULL ? chain[i].site : "?");
    }
    tri_path_write(sys, home->cell, path, sizeof(path));
    tri_error_set(ctx,
                  "%s would close a cycle: %s -> %s; tr_tell does not wait",
                  type != NULL ? type->name : "waiting for room", text, path);
}

/* Returns the flags of the target's handler for the type, or 0. */
static inline uint32_t handler_flags(tr_ref target, const tr_type *type)
{
    tri_cell *cell = tri_ref_cell(target);
    const tri_behaviour *behaviour =
        type != NULL && cell != NULL ? tri_cell_behaviour_peek(cell) : NULL;
    const tri_slot *slot = behaviour != NULL && behaviour->interleaves
                               ? tri_behaviour_find(behaviour, type)
                               : NULL;
    return slot != NULL ? slot->flags : 0;
}

/* Returns true if the answer to the wait is in the cell's system mail. */
static bool answer_is_here(tri_cell *cell, const tri_wait *wait)
{
    tri_cell_assert_owned(cell);
    // Seq_cst: an answer that is not here yet comes after our edge.
    if (TRI_LIKELY(
            (atomic_load_explicit(&cell->sys_mail, memory_order_seq_cst) &
             ~TRI_SYS_BITS) == 0)) {
        return false;
    }
    // Relaxed: we own the cell.
    uint64_t id = atomic_load_explicit(&cell->id, memory_order_relaxed);
    tri_ext *ext = tri_ext_of(cell);
    tri_lock_take(&ext->lock);  // others take the mail of a zombie: force.c
    bool found = tri_cell_is_zombie(cell);
    // Seq_cst: as above; sees the items that tri_push_system published. Only
    // the owner, which we are, takes them.
    uintptr_t mail =
        found ? 0 : atomic_load_explicit(&cell->sys_mail, memory_order_seq_cst);
    for (tri_item *item = (tri_item *)(mail & ~TRI_SYS_BITS);
         item != NULL && !found; item = item->next) {
        found =
            item->kind == TRI_ITEM_REPLY && tri_msg_from(item)->to_id == id &&
            tri_msg_ask(tri_msg_from(item))->correlation == wait->correlation;
    }
    tri_lock_drop(&ext->lock);
    return found;
}

/*
 * Returns true if the wait needs an edge. *reads is set if the target's
 * handler may run beside parked readers.
 */
static inline bool is_edge(tr_ctx *ctx, const tri_wait *wait, bool *reads)
{
    if (ctx->kind == TRI_TURN_ON_RUN ||
        !tri_ref_is_here(ctx->sys, wait->target)) {
        return false;
    }
    uint32_t flags = handler_flags(wait->target, wait->type);
    bool to_self = tri_ref_cell(wait->target) == ctx->cell;
    *reads = (flags & TR_READ_ONLY) != 0;
    if ((flags & TR_ALWAYS_INTERLEAVE) &&
        !(to_self && ctx->kind == TRI_TURN_HOOK)) {
        return false;
    }
    // The answer to a future may have come before tr_await.
    return wait->kind != TRI_WAIT_FUTURE || !answer_is_here(ctx->cell, wait);
}

/* True if the turn may have changed the state. */
static inline bool is_writer(const tr_ctx *ctx)
{
    return ctx->kind == TRI_TURN_WRITE || ctx->kind == TRI_TURN_HOOK;
}

/* Returns the edge that tri_edge_begin would record for the wait. */
static edge_copy edge_for(tr_ctx *ctx, const tri_wait *wait, bool reads)
{
    return (edge_copy){
        .cell = ctx->cell,
        .to = wait->target,
        .site = wait->site,
        // Relaxed: we own the cell.
        .id = atomic_load_explicit(&ctx->cell->id, memory_order_relaxed),
        .writer = is_writer(ctx),
        .reads = reads};
}

/*
 * Follows the chain of an edge that has just been recorded. Removes the edge
 * and returns TR_EDEADLOCK if it closes a cycle.
 */
static __attribute__((noinline)) tr_err refuse_cycle(tr_ctx *ctx,
                                                     tri_wait *wait, bool reads)
{
    edge_copy edge = edge_for(ctx, wait, reads), chain[CHAIN_MAX];
    TRI_CHECK(wait->has_edge);
    uint32_t count = find_cycle(&edge, chain);
    if (count == 0) {
        return TR_OK;
    }
    describe(ctx->sys, ctx, &edge, chain, count, wait->type);
    tri_edge_end(ctx, wait);
    count_deadlock(ctx);
    return TR_EDEADLOCK;
}

tr_err tri_edge_begin(tr_ctx *ctx, tri_wait *wait)
{
    tri_ext *ext = tri_ext_of(ctx->cell);
    bool reads;
    TRI_CHECK_SLOW(ext != NULL);
    wait->has_edge = false;
    if (!is_edge(ctx, wait, &reads)) {
        return TR_OK;
    }
    // Relaxed, all: only the owner writes them; the sequence publishes them.
    uint64_t seq = atomic_load_explicit(&ext->edge.seq, memory_order_relaxed);
    if (seq % 2 == 1) {
        return TR_OK;  // an older parked turn of this actor has the edge
    }
    atomic_store_explicit(&ext->edge.answered, 0, memory_order_relaxed);
    atomic_store_explicit(&ext->edge.wait, wait->correlation,
                          memory_order_relaxed);
    atomic_store_explicit(&ext->edge.cell, wait->target.cell,
                          memory_order_relaxed);
    atomic_store_explicit(&ext->edge.id, wait->target.id, memory_order_relaxed);
    atomic_store_explicit(&ext->edge.site, wait->site, memory_order_relaxed);
    atomic_store_explicit(&ext->edge.reads, reads, memory_order_relaxed);
    atomic_store_explicit(&ext->edge.writer, is_writer(ctx),
                          memory_order_relaxed);
    // Seq_cst: before the walk; see the file comment.
    atomic_store_explicit(&ext->edge.seq, seq + 1, memory_order_seq_cst);
    wait->has_edge = true;
    return target_waits(ctx->cell, wait->target)
               ? refuse_cycle(ctx, wait, reads)
               : TR_OK;
}

bool tri_edge_would_close(tr_ctx *ctx, const tri_wait *wait)
{
    bool reads;
    TRI_CHECK(wait != NULL);
    if (!is_edge(ctx, wait, &reads)) {
        return false;
    }
    edge_copy edge = edge_for(ctx, wait, reads), chain[CHAIN_MAX];
    uint32_t count = find_cycle(&edge, chain);
    if (count > 0) {
        describe(ctx->sys, ctx, &edge, chain, count, wait->type);
    }
    return count > 0;
}

void tri_edge_end(tr_ctx *ctx, tri_wait *wait)
{
    if (!wait->has_edge) {
        return;
    }
    tri_ext *ext = tri_ext_of(ctx->cell);
    // Relaxed: only the owner writes it. Release: an actor that gets a message
    // of ours after this sees no edge; a walk at this moment may still see it.
    uint64_t seq = atomic_load_explicit(&ext->edge.seq, memory_order_relaxed);
    TRI_CHECK_SLOW(seq % 2 == 1);
    atomic_store_explicit(&ext->edge.seq, seq + 1, memory_order_release);
    wait->has_edge = false;
}

void tri_edge_answered(tri_cell *cell, uint64_t correlation)
{
    // Acquire: pairs with tri_ext_make. If the cell has another owner by now,
    // the number differs; should it be the same, that owner's cycle is found
    // by the next actor that joins it.
    tri_ext *ext = atomic_load_explicit(&cell->ext, memory_order_acquire);
    // Relaxed: written before the request was sent.
    if (ext != NULL && correlation != 0 &&
        atomic_load_explicit(&ext->edge.wait, memory_order_relaxed) ==
            correlation) {
        // Release: before all that this thread does next; pairs with edge_of.
        atomic_store_explicit(&ext->edge.answered, correlation,
                              memory_order_release);
    }
}

/* ---- an actor that ends and waits for an ancestor ---- */

/* True if the cell of `to` waits for its children and `from` is below it. */
static bool awaits_descendant(tri_cell *cell, tr_ref to, tri_cell *from)
{
    TRI_CHECK(cell != NULL);
    // Relaxed: set before the signal that made `from` end.
    if ((atomic_load_explicit(&cell->flags, memory_order_relaxed) &
         TRI_CELL_AWAITS_CHILDREN) == 0 ||
        atomic_load_explicit(&cell->id, memory_order_relaxed) != to.id) {
        return false;
    }
    return tri_is_ancestor(cell, from);
}

/* Returns the ancestor of home to which the chain leads, or NULL. */
static tri_cell *ancestor_behind(tri_cell *home, tr_ref to)
{
    for (uint32_t n = 0; n < CHAIN_MAX; n++) {
        tri_cell *cell = tri_ref_cell(to);
        edge_copy next;
        if (cell == NULL || cell == home) {
            return NULL;
        }
        if (awaits_descendant(cell, to, home)) {
            return cell;
        }
        if (!edge_of(cell, to.id, &next)) {
            return NULL;
        }
        to = next.to;
    }
    return NULL;
}

/* Ends the wait of a parked turn with TR_EDEADLOCK, and says why. */
static void cancel_for(tr_ctx *turn, tri_wait *wait, tri_cell *ancestor)
{
    char from[TRI_PATH_MAX], path[TRI_PATH_MAX];
    TRI_CHECK(turn->parked);
    tri_path_write(turn->sys, turn->cell, from, sizeof(from));
    tri_path_write(turn->sys, ancestor, path, sizeof(path));
    tri_error_set(turn,
                  "%s, which waits for its children to end, %s among "
                  "them; tr_tell does not wait",
                  path, from);
    count_deadlock(turn);
    tri_wait_done(turn->worker, turn->cell, wait, TR_EDEADLOCK);
}

void tri_edge_cancel_family(tr_ctx *ctx)
{
    tri_cell *cell = ctx->cell;
    tri_ext *ext = tri_ext_of(cell);
    edge_copy edge;
    TRI_CHECK_SLOW(tri_cell_is_owned(cell));
    // Relaxed: we own the cell. The edge, not the wait, says whom the turn
    // waits for: its request may have been forwarded.
    uint64_t id = atomic_load_explicit(&cell->id, memory_order_relaxed);
    if (ext == NULL || !edge_of(cell, id, &edge)) {
        return;
    }
    tri_cell *ancestor = ancestor_behind(cell, edge.to);
    for (tr_ctx *turn = ancestor != NULL ? ext->parked : NULL; turn != NULL;
         turn = turn->next) {
        tri_wait *wait = turn->wait;
        if (!turn->ready && wait != NULL && wait->has_edge &&
            wait->kind != TRI_WAIT_ROOM) {
            cancel_for(turn, wait, ancestor);
        }
    }
}

/* ---- a request that is forwarded ---- */

tr_err tri_edge_move(tr_ctx *ctx, tr_msg *request, tr_ref to)
{
    tr_system *sys = ctx->sys;
    tr_ref asker = request->sender;
    tri_cell *cell = tri_ref_cell(asker);
    TRI_CHECK(request->item.flags & TRI_MSG_ASK);
    if (!tri_ref_is_here(sys, asker) || !tri_ref_is_here(sys, to)) {
        return TR_OK;
    }
    tri_ext *ext = atomic_load_explicit(&cell->ext, memory_order_seq_cst);
    edge_copy edge, chain[CHAIN_MAX];
    uint64_t correlation = tri_msg_ask(request)->correlation;
    // Relaxed: another wait of the asker has another number.
    if (ext == NULL || !edge_of(cell, asker.id, &edge) ||
        atomic_load_explicit(&ext->edge.wait, memory_order_relaxed) !=
            correlation ||
        tri_ref_cell(edge.to) != ctx->cell) {
        return TR_OK;
    }
    uint32_t flags = handler_flags(to, request->item.type);
    if (flags & TR_ALWAYS_INTERLEAVE) {
        tri_edge_answered(cell, correlation);  // no edge from now on
        return TR_OK;
    }
    uint64_t old = edge.to.cell;
    // Seq_cst: before the walk, as in tri_edge_begin. A walk between the two
    // stores finds an id that does not fit: no cycle.
    if (!atomic_compare_exchange_strong_explicit(&ext->edge.cell, &old, to.cell,
                                                 memory_order_seq_cst,
                                                 memory_order_relaxed)) {
        return TR_OK;
    }
    edge.reads = (flags & TR_READ_ONLY) != 0;
    edge.to = to;
    atomic_store_explicit(&ext->edge.reads, edge.reads, memory_order_relaxed);
    atomic_store_explicit(&ext->edge.id, to.id, memory_order_seq_cst);
    uint32_t count = find_cycle(&edge, chain);
    if (count == 0) {
        return TR_OK;
    }
    describe(sys, ctx, &edge, chain, count, request->item.type);
    count_deadlock(ctx);
    return TR_EDEADLOCK;
}
