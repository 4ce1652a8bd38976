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
    bool writer;  // the turn that waits could have changed the state
    bool reads;   // what it waits for runs beside readers
    tr_ref to;
} link;

/* Reads the edge that leaves the cell; false: there is none. */
static bool edge_of(tri_cell *cell, uint64_t id, link *out)
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
    *out = (link){
        .cell = cell,
        .id = id,
        .seq = seq,
        .site = atomic_load_explicit(&ext->edge_site, memory_order_relaxed),
        .writer = atomic_load_explicit(&ext->edge_writer, memory_order_relaxed),
        .reads = atomic_load_explicit(&ext->edge_reads, memory_order_relaxed),
        .to = {atomic_load_explicit(&ext->edge_cell, memory_order_relaxed),
               atomic_load_explicit(&ext->edge_id, memory_order_relaxed)}};
    // Acquire: pairs with tri_edge_answered, which comes before whatever
    // the one who answered does next.
    if (atomic_load_explicit(&ext->edge_answered, memory_order_acquire) ==
        atomic_load_explicit(&ext->edge_wait, memory_order_relaxed)) {
        return false;
    }
    return atomic_load_explicit(&ext->edge_seq, memory_order_seq_cst) == seq;
}

/*
 * Follows the chain that `home` begins; the number of links if it comes back.
 * An edge whose request could run beside what its target has parked is none.
 */
static uint32_t walk(const link *home, link *chain)
{
    tr_ref to = home->to;
    bool reads = home->reads;
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
 * Most targets wait for nobody: the chain ends before it has begun. After our
 * own edge was written.
 */
static bool goes_on(const tri_cell *home, tr_ref to)
{
    tri_cell *cell = tri_ref_cell(to);
    if (cell == home || cell == NULL) {
        return cell == home;
    }
    // Seq_cst, both: as in edge_of, which looks properly.
    tri_ext *ext = atomic_load_explicit(&cell->ext, memory_order_seq_cst);
    return ext != NULL &&
           atomic_load_explicit(&ext->edge_seq, memory_order_seq_cst) % 2 == 1;
}

/* Walks twice; a chain that has changed meanwhile is none. */
static uint32_t closes(const link *home, link *chain)
{
    link second[CHAIN_MAX];
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

static void count_refused(tr_ctx *ctx)
{
    tri_count(&ctx->worker->count.deadlocks);
}

static void describe(tr_system *sys, tr_ctx *ctx, const link *home,
                     const link *chain, uint32_t count, const tr_type *type)
{
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

/* How the target takes such a request: flags of its handler. */
static inline uint32_t taken_as(tr_ref target, const tr_type *type)
{
    tri_cell *cell = tri_ref_cell(target);
    const tri_behaviour *behaviour =
        type != NULL && cell != NULL ? tri_cell_behaviour(cell) : NULL;
    const tri_slot *slot = behaviour != NULL && behaviour->interleaves
                               ? tri_behaviour_find(behaviour, type)
                               : NULL;
    return slot != NULL ? slot->flags : 0;
}

/* Is the answer that the turn waits for in its system mail already? */
static bool has_come(tri_cell *cell, const tri_wait *wait)
{
    // Seq_cst: an answer that is not here yet comes after our edge.
    if (TRI_LIKELY(
            (atomic_load_explicit(&cell->sys_mail, memory_order_seq_cst) &
             ~TRI_SYS_BITS) == 0)) {
        return false;
    }
    // Relaxed: we own the cell.
    uint64_t id = atomic_load_explicit(&cell->id, memory_order_relaxed);
    tri_ext *ext = tri_ext_of(cell);
    tri_lock_take(&ext->lock);  // of a zombie others take the mail: force.c
    bool found = tri_cell_is_zombie(cell);
    // Seq_cst: as above; sees the nodes that tri_push_system published. They
    // are only taken by us.
    uintptr_t mail =
        found ? 0 : atomic_load_explicit(&cell->sys_mail, memory_order_seq_cst);
    for (tri_node *node = (tri_node *)(mail & ~TRI_SYS_BITS);
         node != NULL && !found; node = node->next) {
        found =
            node->kind == TRI_NODE_REPLY && tri_msg_from(node)->to_id == id &&
            tri_msg_ask(tri_msg_from(node))->correlation == wait->correlation;
    }
    tri_lock_drop(&ext->lock);
    return found;
}

/*
 * Is the wait of this turn an edge, and how does its target take the request?
 */
static inline bool is_edge(tr_ctx *ctx, const tri_wait *wait, bool *reads)
{
    if (ctx->kind == TRI_TURN_RUN ||
        (wait->target.cell >> 48) != ctx->sys->tag) {
        return false;
    }
    uint32_t flags = taken_as(wait->target, wait->type);
    bool myself = tri_ref_cell(wait->target) == ctx->cell;
    *reads = (flags & TR_READ_ONLY) != 0;
    if ((flags & TR_ALWAYS_INTERLEAVE) &&
        !(myself && ctx->kind == TRI_TURN_HOOK)) {
        return false;
    }
    // The answer to an early request may be here already.
    return wait->kind != TRI_WAIT_FUTURE || !has_come(ctx->cell, wait);
}

static inline bool is_writer(const tr_ctx *ctx)
{
    return ctx->kind == TRI_TURN_WRITE || ctx->kind == TRI_TURN_HOOK;
}

static link as_link(tr_ctx *ctx, const tri_wait *wait, bool reads)
{
    return (link){
        .cell = ctx->cell,
        .to = wait->target,
        .site = wait->site,
        // Relaxed: we own the cell.
        .id = atomic_load_explicit(&ctx->cell->id, memory_order_relaxed),
        .writer = is_writer(ctx),
        .reads = reads};
}

/* The edge is there: TR_EDEADLOCK if it closes a cycle. */
static __attribute__((noinline)) tr_err follow(tr_ctx *ctx, tri_wait *wait,
                                               bool reads)
{
    link edge = as_link(ctx, wait, reads), chain[CHAIN_MAX];
    uint32_t count = closes(&edge, chain);
    if (count == 0) {
        return TR_OK;
    }
    describe(ctx->sys, ctx, &edge, chain, count, wait->type);
    tri_edge_end(ctx, wait);
    count_refused(ctx);
    return TR_EDEADLOCK;
}

tr_err tri_edge_begin(tr_ctx *ctx, tri_wait *wait)
{
    tri_ext *ext = tri_ext_of(ctx->cell);
    bool reads;
    wait->has_edge = false;
    if (!is_edge(ctx, wait, &reads)) {
        return TR_OK;
    }
    // Relaxed, all: only we write them; the sequence publishes them.
    uint64_t seq = atomic_load_explicit(&ext->edge_seq, memory_order_relaxed);
    if (seq % 2 == 1) {
        return TR_OK;  // an outer turn of ours has an edge: it is the older
    }
    atomic_store_explicit(&ext->edge_answered, 0, memory_order_relaxed);
    atomic_store_explicit(&ext->edge_wait, wait->correlation,
                          memory_order_relaxed);
    atomic_store_explicit(&ext->edge_cell, wait->target.cell,
                          memory_order_relaxed);
    atomic_store_explicit(&ext->edge_id, wait->target.id, memory_order_relaxed);
    atomic_store_explicit(&ext->edge_site, wait->site, memory_order_relaxed);
    atomic_store_explicit(&ext->edge_reads, reads, memory_order_relaxed);
    atomic_store_explicit(&ext->edge_writer, is_writer(ctx),
                          memory_order_relaxed);
    // Seq_cst: before the walk; see the file comment.
    atomic_store_explicit(&ext->edge_seq, seq + 1, memory_order_seq_cst);
    wait->has_edge = true;
    return goes_on(ctx->cell, wait->target) ? follow(ctx, wait, reads) : TR_OK;
}

bool tri_edge_would_close(tr_ctx *ctx, const tri_wait *wait)
{
    bool reads;
    if (!is_edge(ctx, wait, &reads)) {
        return false;
    }
    link edge = as_link(ctx, wait, reads), chain[CHAIN_MAX];
    uint32_t count = closes(&edge, chain);
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
    // Relaxed: only we write it. Release: whoever hears of us after this sees
    // it gone; whoever walks by just now may see that we waited.
    uint64_t seq = atomic_load_explicit(&ext->edge_seq, memory_order_relaxed);
    atomic_store_explicit(&ext->edge_seq, seq + 1, memory_order_release);
    wait->has_edge = false;
}

void tri_edge_answered(tri_cell *cell, uint64_t correlation)
{
    // Acquire: pairs with tri_ext_need. It may be another's by now: then the
    // number does not fit, or a cycle of his is found by the next one.
    tri_ext *ext = atomic_load_explicit(&cell->ext, memory_order_acquire);
    // Relaxed: written before the request was sent.
    if (ext != NULL && correlation != 0 &&
        atomic_load_explicit(&ext->edge_wait, memory_order_relaxed) ==
            correlation) {
        // Release: before whatever we do next; pairs with edge_of.
        atomic_store_explicit(&ext->edge_answered, correlation,
                              memory_order_release);
    }
}

/* ---- a family that ends ---- */

/* Does the cell, which is `to`, wait for its children, `from` among them? */
static bool awaits_descendant(tri_cell *cell, tr_ref to, tri_cell *from)
{
    // Relaxed: set before the signal that tells us to end.
    if ((atomic_load_explicit(&cell->flags, memory_order_relaxed) &
         TRI_CELL_FAMILY) == 0 ||
        atomic_load_explicit(&cell->id, memory_order_relaxed) != to.id) {
        return false;
    }
    return tri_is_ancestor(cell, from);
}

/* The ancestor at the end of the chain; NULL: it ends elsewhere. */
static tri_cell *family_behind(tri_cell *home, tr_ref to)
{
    for (uint32_t n = 0; n < CHAIN_MAX; n++) {
        tri_cell *cell = tri_ref_cell(to);
        link next;
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

static void cut_for_family(tr_ctx *turn, tri_wait *wait, tri_cell *ancestor)
{
    char from[TRI_PATH_MAX], path[TRI_PATH_MAX];
    tri_path_write(turn->sys, turn->cell, from, sizeof(from));
    tri_path_write(turn->sys, ancestor, path, sizeof(path));
    tri_error_set(turn,
                  "%s, which waits for its children to end, %s among "
                  "them; tr_tell does not wait",
                  path, from);
    count_refused(turn);
    tri_wait_done(turn->worker, turn->cell, wait, TR_EDEADLOCK);
}

void tri_edge_cut_family(tr_ctx *ctx)
{
    tri_cell *cell = ctx->cell;
    tri_ext *ext = tri_ext_of(cell);
    link edge;
    // Relaxed: we own the cell. The edge, and not the wait, says whom a turn
    // waits for: its request may have been passed on.
    uint64_t id = atomic_load_explicit(&cell->id, memory_order_relaxed);
    if (ext == NULL || !edge_of(cell, id, &edge)) {
        return;
    }
    tri_cell *ancestor = family_behind(cell, edge.to);
    for (tr_ctx *turn = ancestor != NULL ? ext->parked : NULL; turn != NULL;
         turn = turn->next) {
        tri_wait *wait = turn->wait;
        if (!turn->ready && wait != NULL && wait->has_edge &&
            wait->kind != TRI_WAIT_ROOM) {
            cut_for_family(turn, wait, ancestor);
        }
    }
}

tr_err tri_edge_move(tr_ctx *ctx, tr_msg *request, tr_ref to)
{
    tr_system *sys = ctx->sys;
    tr_ref asker = request->sender;
    tri_cell *cell = tri_ref_cell(asker);
    if ((asker.cell >> 48) != sys->tag || (to.cell >> 48) != sys->tag) {
        return TR_OK;
    }
    tri_ext *ext = atomic_load_explicit(&cell->ext, memory_order_seq_cst);
    link edge, chain[CHAIN_MAX];
    uint64_t correlation = tri_msg_ask(request)->correlation;
    // Relaxed: another wait of the asker has another number.
    if (ext == NULL || !edge_of(cell, asker.id, &edge) ||
        atomic_load_explicit(&ext->edge_wait, memory_order_relaxed) !=
            correlation ||
        tri_ref_cell(edge.to) != ctx->cell) {
        return TR_OK;
    }
    uint32_t flags = taken_as(to, request->node.type);
    if (flags & TR_ALWAYS_INTERLEAVE) {
        tri_edge_answered(cell, correlation);  // that is none any more
        return TR_OK;
    }
    uint64_t old = edge.to.cell;
    // Seq_cst: before the walk, as in tri_edge_begin. A walk between the two
    // stores finds an id that does not fit: no cycle.
    if (!atomic_compare_exchange_strong_explicit(&ext->edge_cell, &old, to.cell,
                                                 memory_order_seq_cst,
                                                 memory_order_relaxed)) {
        return TR_OK;
    }
    edge.reads = (flags & TR_READ_ONLY) != 0;
    edge.to = to;
    atomic_store_explicit(&ext->edge_reads, edge.reads, memory_order_relaxed);
    atomic_store_explicit(&ext->edge_id, to.id, memory_order_seq_cst);
    uint32_t count = closes(&edge, chain);
    if (count == 0) {
        return TR_OK;
    }
    describe(sys, ctx, &edge, chain, count, request->node.type);
    count_refused(ctx);
    return TR_EDEADLOCK;
}
