/*
 * force.c - ending an actor for everybody else while its handler still runs.
 *
 * C cannot stop a thread safely (X15). So an actor that does not answer to
 * TRI_SIG_FORCE is taken out of the world around it: name free, parent
 * released, joins and watchers told with TR_FORCED, mail refused and dead
 * letters, its own children forced. What is left is a zombie: a cell outside
 * the tree, with its state, heap and stack, that ends by itself when its
 * handler returns, and tells nobody any more.
 *
 * An actor becomes a zombie under the lock of its parent, in whose list it
 * must be: one that is ending leaves that list first, so it is either the
 * owner or the forcer who tells. TRI_CELL_ZOMBIE is set under its own lock as
 * well; from then on the lists of watchers and joins are the forcer's until
 * it clears TRI_CELL_TELLING, and the owner waits for that before it frees
 * anything. Zombies are chained by their sibling links, under zombies_lock.
 */
#include "core/lifecycle.h"

#include <stdlib.h>

#include "core/mailbox.h"

/* There before any other actor is; NULL: the root has ended, all have. */
static tri_ext *root_ext(tr_system *sys)
{
    return tri_ext_of(sys->root);
}

/* ---- becoming a zombie: the locks of root, parent and cell are held ---- */

static void force_children(tri_worker *worker, tri_ext *ext)
{
    ext->closed = true;
    while (ext->last_child != NULL) {
        tri_cell *child = ext->last_child;
        // Relaxed: a linked child has its id.
        uint64_t id = atomic_load_explicit(&child->id, memory_order_relaxed);
        tri_signal(worker, child, id, TRI_SIG_FORCE);
        tri_child_to_root(worker->sys, ext, child);
    }
}

static void chain(tr_system *sys, tri_cell *cell)
{
    tri_lock_take(&sys->zombies_lock);
    cell->sibling_prev = NULL;
    cell->sibling_next = sys->zombies;
    if (sys->zombies != NULL) {
        sys->zombies->sibling_prev = cell;
    }
    sys->zombies = cell;
    // Relaxed: a number for people.
    atomic_fetch_add_explicit(&sys->zombie_count, 1, memory_order_relaxed);
    tri_lock_drop(&sys->zombies_lock);
}

static void unchain(tr_system *sys, tri_cell *cell)
{
    tri_lock_take(&sys->zombies_lock);
    if (cell->sibling_prev != NULL) {
        cell->sibling_prev->sibling_next = cell->sibling_next;
    } else {
        sys->zombies = cell->sibling_next;
    }
    if (cell->sibling_next != NULL) {
        cell->sibling_next->sibling_prev = cell->sibling_prev;
    }
    // Relaxed: as above.
    atomic_fetch_sub_explicit(&sys->zombie_count, 1, memory_order_relaxed);
    tri_lock_drop(&sys->zombies_lock);
}

typedef struct victim {
    tri_cell *cell;
    char path[TRI_PATH_MAX];  // as it was in the tree
} victim;

/* False without memory. */
static bool become_zombie(tri_worker *worker, tri_ext *parent, tri_cell *cell,
                          victim *out)
{
    tr_system *sys = worker->sys;
    tri_ext *ext = tri_ext_need(worker, cell);
    if (ext == NULL) {
        return false;
    }
    out->cell = cell;
    tri_path_write(sys, cell, out->path, sizeof(out->path));
    tri_lock_take(&ext->lock);
    tri_children_unlink(parent, cell);
    // Relaxed: under the lock of the parent it leaves.
    atomic_store_explicit(&cell->parent, sys->root, memory_order_relaxed);
    // Seq_cst: before sys_mail is swept; pairs with tri_force_late. BOUNDED
    // makes senders look.
    atomic_fetch_or_explicit(
        &cell->flags, TRI_CELL_ZOMBIE | TRI_CELL_TELLING | TRI_CELL_BOUNDED,
        memory_order_seq_cst);
    force_children(worker, ext);
    tri_lock_drop(&ext->lock);
    chain(sys, cell);
    // Relaxed: a linked child has its id.
    uint64_t id = atomic_load_explicit(&cell->id, memory_order_relaxed);
    tri_signal(worker, cell, id, TRI_SIG_FORCE);
    return true;
}

/* ---- telling ---- */

/* Answers what is on its way to a zombie; the rest is put back. */
static void sweep(tri_worker *worker, tri_cell *cell)
{
    // Seq_cst: after the flag was set; pairs with tri_force_late.
    uintptr_t seen = atomic_fetch_and_explicit(&cell->sys_mail, TRI_SYS_CLOSED,
                                               memory_order_seq_cst);
    tri_node *oldest = NULL;
    for (tri_node *node = (tri_node *)(seen & ~TRI_SYS_BITS), *next;
         node != NULL; node = next) {
        next = node->next;
        node->next = oldest;
        oldest = node;
    }
    for (tri_node *node = oldest, *next; node != NULL; node = next) {
        next = node->next;
        if (node->kind == TRI_NODE_WATCH) {
            tri_watch_refuse(worker, (tri_watch *)(void *)node, TR_FORCED);
        } else if (node->kind == TRI_NODE_UNWATCH) {
            free(node);  // the other half is told; nobody expects it
        } else if (node->kind != TRI_NODE_JOIN ||
                   !tri_join_force(worker, (tri_join *)(void *)node)) {
            // Its lane is open: it has not left its family by itself.
            bool pushed = tri_push_system(worker, cell, node);
            TRI_CHECK(pushed);
        }
    }
    if (seen & TRI_SYS_SIGNAL) {
        // Seq_cst: as tri_signal, which has woken the owner, if any.
        atomic_fetch_or_explicit(&cell->sys_mail, TRI_SYS_SIGNAL,
                                 memory_order_seq_cst);
    }
}

/*
 * Dead letters from the lane; what the owner has taken out already follows
 * when it comes back. It may look at the lane at any moment and must not find
 * it empty after it has seen something there: a poison takes the mail's place.
 */
static void drain_lane(tri_worker *worker, tri_cell *cell)
{
    tr_none nothing = {};
    tr_msg *poison =
        tri_msg_new(&worker->cache, &tr_none_tr_type, &nothing, false);
    if (poison == NULL) {
        return;  // they stay until the handler returns
    }
    tr_ref self = tri_cell_ref(worker->sys, cell);
    poison->node.kind = TRI_NODE_POISON;
    poison->node.next = NULL;
    poison->to_id = self.id;
    poison->sender = (tr_ref){0};
    // Relaxed: confirmed by the exchange.
    uintptr_t seen = atomic_load_explicit(&cell->mail, memory_order_relaxed);
    do {
        if (tri_mail_newest(seen) == NULL) {
            tri_msg_free(&worker->cache, poison);
            return;
        }
        // Acquire: the messages. Release: the poison.
    } while (!atomic_compare_exchange_weak_explicit(
        &cell->mail, &seen,
        (uintptr_t)poison | (seen & TRI_MAIL_BITS) |
            (uintptr_t)1 << TRI_MAIL_DEPTH_SHIFT,
        memory_order_acq_rel, memory_order_relaxed));
    tri_node *oldest = NULL;
    for (tri_node *node = tri_mail_newest(seen), *next; node != NULL;
         node = next) {
        next = node->next;
        node->next = oldest;
        oldest = node;
    }
    for (tri_node *node = oldest, *next; node != NULL; node = next) {
        next = node->next;
        if (tri_is_counted(node)) {
            tri_dead(worker, self, tri_msg_from(node), TR_DEAD_DRAINED);
        } else if (node->kind == TRI_NODE_POISON) {
            tri_msg_free(&worker->cache, tri_msg_from(node));
        } else {  // timers and answers are the owner's to look after
            bool pushed = tri_push_system(worker, cell, node);
            TRI_CHECK(pushed);
        }
    }
}

/* Without locks. */
static void tell(tri_worker *worker, victim *it)
{
    tr_system *sys = worker->sys;
    tri_cell *cell = it->cell;
    tri_ext *ext = tri_ext_of(cell);
    sys->up->forced(worker, cell, it->path);
    drain_lane(worker, cell);
    tri_room_close(worker, ext);
    sys->up->ended(worker, cell);
    // Relaxed: a subscriber that comes now may miss it.
    if (atomic_load_explicit(&sys->watch_events, memory_order_relaxed) &
        TRI_EVENT_LIFECYCLE) {
        sys->up->lifecycle(worker, cell, TR_STATE_TERMINATED);
    }
    tri_joins_force(worker, cell);
    tri_watchers_tell(worker, cell, TR_FORCED);
    sweep(worker, cell);
    // Release: the owner may have it all now; pairs with tri_force_done.
    atomic_fetch_and_explicit(&cell->flags, ~(uint32_t)TRI_CELL_TELLING,
                              memory_order_release);
}

/* ---- who forces ---- */

typedef enum verdict { ENDS, IS_DEAF, MUST_NOT_END } verdict;

/* Of one that was forced a while ago. With its parent's lock. */
static verdict look_at(tri_cell *cell)
{
    tri_ext *ext = tri_ext_of(cell);
    // Relaxed, all: it has had its time.
    uint32_t flags = atomic_load_explicit(&cell->flags, memory_order_relaxed);
    if (flags & TRI_CELL_SYSTEM) {
        return ENDS;
    }
    if ((flags & TRI_CELL_VIRTUAL) ||
        (ext != NULL &&
         atomic_load_explicit(&ext->stores, memory_order_relaxed) > 0)) {
        return MUST_NOT_END;  // rule 28: a successor would load too early
    }
    // It has not even looked, or looked and does not wait for its children.
    return (atomic_load_explicit(&cell->signals, memory_order_relaxed) &
            TRI_SIG_FORCE) != 0 ||
                   !(flags & TRI_CELL_FAMILY)
               ? IS_DEAF
               : ENDS;
}

/* Those of a family that must end now, at most TRI_FORCE_BATCH. */
static uint32_t take_deaf(tri_worker *worker, tri_ext *ext, bool is_root,
                          victim *out)
{
    tr_system *sys = worker->sys;
    uint32_t count = 0;
    for (tri_cell *child = ext->first_child, *next;
         child != NULL && count < TRI_FORCE_BATCH; child = next) {
        next = child->sibling_next;
        verdict it = look_at(child);
        if (it == IS_DEAF) {
            count += become_zombie(worker, ext, child, &out[count]);
        } else if (it == MUST_NOT_END && !is_root) {
            tri_child_to_root(sys, ext, child);
        }
    }
    return count;
}

void tri_children_force(tr_ctx *ctx)
{
    tri_worker *worker = ctx->worker;
    tri_ext *ext = tri_ext_of(ctx->cell);
    tri_ext *top = root_ext(ctx->sys);
    victim taken[TRI_FORCE_BATCH];
    uint32_t count;
    if (top == NULL) {
        return;  // so we are a zombie, and have no children
    }
    do {
        // From above to below, as whoever walks the tree takes them.
        tri_lock_take(&top->lock);
        if (ext != top) {
            tri_lock_take(&ext->lock);
        }
        count = take_deaf(worker, ext, ext == top, taken);
        if (ext != top) {
            tri_lock_drop(&ext->lock);
        }
        tri_lock_drop(&top->lock);
        for (uint32_t i = 0; i < count; i++) {
            tell(worker, &taken[i]);
            tri_lock_take(&ext->lock);
            tri_children_count(ext, -1);  // our own turn looks next
            tri_lock_drop(&ext->lock);
        }
    } while (count == TRI_FORCE_BATCH);
}

static bool is_child(tri_ext *parent, const tri_cell *cell)
{
    const tri_cell *c = parent->last_child;
    while (c != NULL && c != cell) {
        c = c->sibling_prev;
    }
    return c != NULL;
}

/* True: it has ended, for everybody else. */
static bool force_one(tri_worker *worker, tri_cell *cell, uint64_t id,
                      tr_nanos waited, uint32_t told_to_parent)
{
    tri_ext *top = root_ext(worker->sys);
    if (top == NULL || cell == worker->sys->root) {
        return false;
    }
    tri_lock_take(&top->lock);
    tri_cell *parent = tri_cell_parent(cell);
    // Acquire: pairs with tri_ext_need; it stays an extension.
    tri_ext *ext = parent != NULL ? atomic_load_explicit(&parent->ext,
                                                         memory_order_acquire)
                                  : NULL;
    victim it;
    bool forced = false;
    uint64_t parent_id = 0;
    if (ext != NULL) {
        if (ext != top) {
            tri_lock_take(&ext->lock);
        }
        // Relaxed, all: under the lock of the parent, if it is that.
        uint32_t flags =
            atomic_load_explicit(&cell->flags, memory_order_relaxed);
        forced = tri_cell_parent(cell) == parent && is_child(ext, cell) &&
                 atomic_load_explicit(&cell->id, memory_order_relaxed) == id &&
                 !(flags & (TRI_CELL_VIRTUAL | TRI_CELL_SYSTEM)) &&
                 waited >= tri_stop_timeout(cell) &&
                 become_zombie(worker, ext, cell, &it);
        parent_id = atomic_load_explicit(&parent->id, memory_order_relaxed);
        if (ext != top) {
            tri_lock_drop(&ext->lock);
        }
    }
    tri_lock_drop(&top->lock);
    if (forced) {
        tell(worker, &it);
        tri_lock_take(&ext->lock);  // after it the parent may end
        bool last = tri_children_less(ext);
        tri_lock_drop(&ext->lock);
        tri_signal(worker, parent, parent_id,
                   told_to_parent | TRI_SIG_GROUP |
                       (last ? TRI_SIG_CHILDREN : 0));
    }
    return forced;
}

bool tri_force_stuck(tr_system *sys, tri_cell *cell, uint64_t id,
                     tr_nanos waited, bool escalate)
{
    tri_actor_from who = tri_enter((tr_from){.sys = sys});
    bool forced = force_one(who.worker, cell, id, waited,
                            escalate ? TRI_SIG_CHILD_LOST : 0);
    tri_leave(&who);
    return forced;
}

bool tri_force_self(tr_ctx *ctx, uint32_t told_to_parent)
{
    // Relaxed: we own the cell.
    uint64_t id = atomic_load_explicit(&ctx->cell->id, memory_order_relaxed);
    return force_one(ctx->worker, ctx->cell, id, TR_FOREVER, told_to_parent);
}

/* ---- those who come late ---- */

bool tri_force_late(tri_worker *worker, tri_cell *cell, uint64_t id)
{
    // Seq_cst: after a push to sys_mail; pairs with become_zombie.
    if (TRI_LIKELY((atomic_load_explicit(&cell->flags, memory_order_seq_cst) &
                    TRI_CELL_ZOMBIE) == 0)) {
        return false;
    }
    tri_lock_take(&worker->sys->zombies_lock);
    tri_cell *zombie = worker->sys->zombies;
    while (zombie != NULL && zombie != cell) {
        zombie = zombie->sibling_next;
    }
    // Relaxed: it cannot be freed while it is in the list.
    if (zombie != NULL &&
        atomic_load_explicit(&cell->id, memory_order_relaxed) == id) {
        sweep(worker, cell);
    }
    tri_lock_drop(&worker->sys->zombies_lock);
    return true;
}

void tri_force_done(tr_system *sys, tri_cell *cell)
{
    // Acquire: pairs with tell.
    while (atomic_load_explicit(&cell->flags, memory_order_acquire) &
           TRI_CELL_TELLING) {
        tri_lock_yield();
    }
    unchain(sys, cell);
}
