/*
 * deadlock.c - a wait that would close a cycle is an error, not a hang.
 *
 * While a turn of A is parked on something that only B can give, A's extension
 * holds the edge A -> B. The edge is written first and the chain followed
 * after, all seq_cst: of two actors that close a cycle together at least one
 * sees the other's edge. A chain is believed only if a second walk finds every
 * edge with the same sequence number (api rules 19 to 21).
 *
 * Extensions stay extensions when they are freed (mem.h), so a walk may read
 * an old one; the id it carries does not fit then and the walk ends.
 */
#include <stdio.h>
#include <string.h>

#include "core/lifecycle.h"
#include "core/mailbox.h"

enum { CHAIN_MAX = 64 };

typedef struct link {
    tri_cell *cell;
    uint64_t id, seq;
    const char *site;
} link;

/* Reads the edge that leaves the cell; false: there is none. */
static bool edge_of(tri_cell *cell, uint64_t id, link *out, tr_ref *to)
{
    // Seq_cst: after our own edge was written; see the file comment.
    if (atomic_load_explicit(&cell->id, memory_order_seq_cst) != id) {
        return false;
    }
    tri_ext *ext = atomic_load_explicit(&cell->ext, memory_order_seq_cst);
    if (ext == NULL) {
        return false;
    }
    uint64_t seq = atomic_load_explicit(&ext->edge_seq, memory_order_seq_cst);
    if (seq % 2 == 0) {
        return false;
    }
    // Relaxed: confirmed by reading the sequence again.
    to->cell = atomic_load_explicit(&ext->edge_cell, memory_order_relaxed);
    to->id = atomic_load_explicit(&ext->edge_id, memory_order_relaxed);
    *out = (link){cell, id, seq,
                  atomic_load_explicit(&ext->edge_site,
                                       memory_order_relaxed)};
    return atomic_load_explicit(&ext->edge_seq, memory_order_seq_cst) == seq;
}

/* Follows the chain from `to`; the number of links if it comes back. */
static uint32_t walk(tr_ref to, tri_cell *home, uint64_t home_id, link *chain)
{
    for (uint32_t n = 0; n < CHAIN_MAX; n++) {
        tri_cell *cell = tri_ref_cell(to);
        if (cell == NULL) {
            return 0;
        }
        if (cell == home && to.id == home_id) {
            return n + 1;
        }
        if (!edge_of(cell, to.id, &chain[n], &to)) {
            return 0;
        }
    }
    return 0;
}

static void describe(tr_ctx *ctx, const link *chain, uint32_t count,
                     const char *site)
{
    // The actors of a cycle are all parked, so they are alive.
    char text[1024], path[TRI_PATH_MAX];
    tri_path_write(ctx->sys, ctx->cell, path, sizeof(path));
    size_t at = (size_t)snprintf(text, sizeof(text), "%s (%s)", path, site);
    for (uint32_t i = 0; i + 1 < count && at < sizeof(text); i++) {
        tri_path_write(ctx->sys, chain[i].cell, path, sizeof(path));
        at += (size_t)snprintf(text + at, sizeof(text) - at, " -> %s (%s)",
                               path, chain[i].site != NULL ? chain[i].site
                                                           : "?");
    }
    tri_path_write(ctx->sys, ctx->cell, path, sizeof(path));
    tri_error_set(ctx, "waiting would close a cycle: %s -> %s", text, path);
}

/* Could the target run this request beside what it has parked? */
static bool runs_beside(tri_wait *wait)
{
    if (wait->type == NULL) {
        return false;
    }
    tri_cell *cell = tri_ref_cell(wait->target);
    const tri_behaviour *behaviour = tri_cell_behaviour(cell);
    const tri_slot *slot = behaviour != NULL
                               ? tri_behaviour_find(behaviour, wait->type)
                               : NULL;
    if (slot == NULL || slot->flags == 0) {
        return false;
    }
    if (slot->flags & TR_ALWAYS_INTERLEAVE) {
        return true;
    }
    // READ beside readers only. Of another actor that cannot be seen from
    // here; its own edge says whether a writer of it waits.
    tri_ext *ext = atomic_load_explicit(&cell->ext, memory_order_seq_cst);
    return ext == NULL ||
           !atomic_load_explicit(&ext->edge_writer, memory_order_seq_cst);
}

tr_err tri_edge_begin(tr_ctx *ctx, tri_wait *wait)
{
    tri_cell *cell = ctx->cell;
    tri_ext *ext = tri_ext_of(cell);
    wait->has_edge = false;
    if (ctx->kind == TRI_TURN_RUN ||
        (wait->target.cell >> 48) != ctx->sys->tag) {
        return TR_OK;
    }
    // Relaxed: we own the cell.
    uint64_t id = atomic_load_explicit(&cell->id, memory_order_relaxed);
    uint64_t seq = atomic_load_explicit(&ext->edge_seq, memory_order_relaxed);
    bool writer = ctx->kind == TRI_TURN_WRITE || ctx->kind == TRI_TURN_HOOK;
    if (seq % 2 == 1) {
        return TR_OK;  // an outer turn of ours has an edge: it is the older
    }
    // Seq_cst: before the walk; see the file comment.
    atomic_store_explicit(&ext->edge_cell, wait->target.cell,
                          memory_order_relaxed);
    atomic_store_explicit(&ext->edge_id, wait->target.id,
                          memory_order_relaxed);
    atomic_store_explicit(&ext->edge_site, wait->site, memory_order_relaxed);
    atomic_store_explicit(&ext->edge_writer, writer, memory_order_seq_cst);
    atomic_store_explicit(&ext->edge_seq, seq + 1, memory_order_seq_cst);
    wait->has_edge = true;
    if (runs_beside(wait)) {
        return TR_OK;
    }
    link first[CHAIN_MAX], second[CHAIN_MAX];
    uint32_t count = walk(wait->target, cell, id, first);
    if (count == 0 || walk(wait->target, cell, id, second) != count) {
        return TR_OK;
    }
    for (uint32_t i = 0; i + 1 < count; i++) {
        if (first[i].seq != second[i].seq || first[i].cell != second[i].cell) {
            return TR_OK;
        }
    }
    describe(ctx, first, count, wait->site);
    tri_edge_end(ctx, wait);
    return TR_EDEADLOCK;
}

void tri_edge_end(tr_ctx *ctx, tri_wait *wait)
{
    if (!wait->has_edge) {
        return;
    }
    tri_ext *ext = tri_ext_of(ctx->cell);
    // Relaxed: only we write it. Seq_cst: a walk sees it gone.
    uint64_t seq = atomic_load_explicit(&ext->edge_seq, memory_order_relaxed);
    atomic_store_explicit(&ext->edge_seq, seq + 1, memory_order_seq_cst);
    atomic_store_explicit(&ext->edge_writer, false, memory_order_relaxed);
    wait->has_edge = false;
}

void tri_edge_move(tr_system *sys, tr_ref asker, tri_cell *from, tr_ref to)
{
    if ((asker.cell >> 48) != sys->tag) {
        return;
    }
    tri_cell *cell = tri_ref_cell(asker);
    // Seq_cst: as in edge_of.
    tri_ext *ext = cell != NULL ? atomic_load_explicit(&cell->ext,
                                                       memory_order_seq_cst)
                                : NULL;
    if (ext == NULL ||
        atomic_load_explicit(&cell->id, memory_order_seq_cst) != asker.id) {
        return;
    }
    uint64_t old = atomic_load_explicit(&ext->edge_cell, memory_order_relaxed);
    if ((tri_cell *)(uintptr_t)(old & UINT64_C(0xffffffffffff)) == from &&
        atomic_compare_exchange_strong_explicit(&ext->edge_cell, &old, to.cell,
                                                memory_order_seq_cst,
                                                memory_order_relaxed)) {
        // A walk between these two finds an id that does not fit: no cycle.
        atomic_store_explicit(&ext->edge_id, to.id, memory_order_seq_cst);
    }
}
