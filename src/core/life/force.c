/*
 * force.c - ends an actor for everybody else while its handler still runs.
 *
 * C cannot stop a thread safely. So an actor that does not react to
 * TRI_SIG_FORCE is taken out of its surroundings, rule 41 (force): its name is
 * free, its parent goes on, joins and watchers are told TR_FORCED, its mail
 * becomes dead letters, its children are forced. The cell stays as a zombie
 * with its state, heap and stack. It ends when its handler returns, and then
 * notifies nobody.
 *
 * Invariant: an actor becomes a zombie under the lock of its parent, in whose
 * list it must be. An actor that ends leaves that list first, so either the
 * owner or the forcer notifies, never both. TRI_CELL_ZOMBIE is also set under
 * the actor's own lock; from then on its watchers and joins belong to the
 * forcer until it clears TRI_CELL_NOTIFYING, and the owner waits for that before
 * it frees anything. Zombies are linked by tri_cell.sibling in sys->zombies,
 * under zombies_lock.
 */
#include "core/life/force.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/list.h"
#include "base/lock.h"
#include "core/caller.h"
#include "core/cell/cell.h"
#include "core/cell/cell_path.h"
#include "core/cell/ext.h"
#include "core/cell/message.h"
#include "core/life/child_end.h"
#include "core/life/family.h"
#include "core/life/join.h"
#include "core/life/lifecycle.h"
#include "core/life/signal.h"
#include "core/life/stop.h"
#include "core/life/supervise.h"
#include "core/life/watch.h"
#include "core/mail/backlog.h"
#include "core/mail/hard_limit.h"
#include "core/mail/push.h"
#include "core/mail/room.h"
#include "core/mail/send.h"
#include "core/run/context.h"
#include "core/run/worker.h"
#include "core/system.h"

/* Returns NULL if the root has ended; then there are only zombies. */
static tri_ext *root_ext(tr_system *sys)
{
    return tri_ext_of(sys->root);
}

/* ---- becoming a zombie ---- */

/*
 * Signals TRI_SIG_FORCE to all children and moves them to the root. With the
 * locks of the root and of ext.
 */
static void give_children_up(tri_worker *worker, tri_ext *ext)
{
    tri_lock_assert_held(&ext->lock);
    ext->family.closed = true;
    tri_cell *child;
    while ((child = tri_child_newest(ext)) != NULL) {
        // Relaxed: a linked child keeps its id.
        uint64_t id = atomic_load_explicit(&child->id, memory_order_relaxed);
        tri_signal(worker, child, id, TRI_SIG_FORCE);
        tri_child_move_to_root(worker->sys, ext, child);
    }
}

static void zombies_add(tr_system *sys, tri_cell *cell)
{
    tri_lock_take(&sys->zombies_lock);
    tri_list_push_front(&sys->zombies, &cell->sibling);
    // Relaxed: for observers.
    atomic_fetch_add_explicit(&sys->zombie_count, 1, memory_order_relaxed);
    tri_lock_drop(&sys->zombies_lock);
}

static void zombies_remove(tr_system *sys, tri_cell *cell)
{
    tri_lock_take(&sys->zombies_lock);
    tri_list_remove(&cell->sibling);
    // Relaxed: for observers.
    atomic_fetch_sub_explicit(&sys->zombie_count, 1, memory_order_relaxed);
    tri_lock_drop(&sys->zombies_lock);
}

/* An actor that has become a zombie and must be announced. */
typedef struct new_zombie {
    tri_cell *cell;
    tri_cell *parent;         // in whose list it was
    bool escalates;           // its on_limit; the policy depends on the parent
    char path[TRI_PATH_MAX];  // as it was in the tree
} new_zombie;

/*
 * Takes the actor out of the tree. With the locks of the root and of the
 * parent. Returns false without memory.
 */
static bool become_zombie(tri_worker *worker, tri_ext *parent, tri_cell *cell,
                          new_zombie *out)
{
    tr_system *sys = worker->sys;
    tri_lock_assert_held(&parent->lock);
    TRI_CHECK(!tri_cell_is_zombie(cell));
    tri_ext *ext = tri_ext_need(worker, cell);
    if (ext == NULL) {
        return false;
    }
    out->cell = cell;
    out->parent = tri_cell_parent(cell);
    out->escalates = tri_supervision_of(sys, cell)->on_limit == TR_ESCALATE;
    tri_path_write(sys, cell, out->path, sizeof(out->path));
    tri_lock_take(&ext->lock);
    tri_children_unlink(parent, cell);
    // Relaxed: under the lock of the parent it leaves.
    atomic_store_explicit(&cell->parent, sys->root, memory_order_relaxed);
    // Seq_cst: before answer_system_mail; pairs with tri_zombie_answer. BOUNDED
    // makes senders take the slow path, which refuses mail to zombies.
    atomic_fetch_or_explicit(
        &cell->flags, TRI_CELL_ZOMBIE | TRI_CELL_NOTIFYING | TRI_CELL_BOUNDED,
        memory_order_seq_cst);
    give_children_up(worker, ext);
    tri_lock_drop(&ext->lock);
    zombies_add(sys, cell);
    // Relaxed: the owner waits for the forcer before it frees the id.
    uint64_t id = atomic_load_explicit(&cell->id, memory_order_relaxed);
    tri_signal(worker, cell, id, TRI_SIG_FORCE);
    return true;
}

/* ---- announcing the end ---- */

/*
 * Answers watches and joins in the system lane of a zombie; puts the other
 * items back.
 */
static void answer_system_mail(tri_worker *worker, tri_cell *cell)
{
    // Seq_cst: after the flag was set; pairs with tri_zombie_answer.
    uintptr_t seen = atomic_fetch_and_explicit(&cell->sys_mail, TRI_SYS_CLOSED,
                                               memory_order_seq_cst);
    uint32_t count;
    tri_item *oldest =
        tri_items_reverse((tri_item *)(seen & ~TRI_SYS_BITS), &count);
    for (tri_item *item = oldest, *next; item != NULL; item = next) {
        next = item->next;
        if (item->kind == TRI_ITEM_WATCH) {
            tri_watch_send_back(worker, (tri_watch *)(void *)item, TR_FORCED);
        } else if (item->kind == TRI_ITEM_UNWATCH) {
            free(item);  // the target's half is sent back and then dropped
        } else if (item->kind != TRI_ITEM_JOIN ||
                   !tri_join_force(worker, (tri_join *)(void *)item)) {
            // The lane is open: its owner has not closed it before it became
            // a zombie, and waits for the forcer now.
            bool pushed = tri_push_system(worker, cell, item);
            TRI_CHECK(pushed);
        }
    }
    if (seen & TRI_SYS_SIGNAL) {
        // Seq_cst: as tri_signal, which has woken the owner if it slept.
        atomic_fetch_or_explicit(&cell->sys_mail, TRI_SYS_SIGNAL,
                                 memory_order_seq_cst);
    }
}

/*
 * Takes the mail out of the user lane of a zombie, oldest first. The owner may
 * detach the lane at any moment and must not find it empty after it has seen
 * mail there, so a poison message takes the place of the mail. Without memory
 * for it the mail stays until the handler returns.
 */
static tri_item *take_user_lane(tri_worker *worker, tri_cell *cell)
{
    tr_none nothing = {};
    tr_msg *poison =
        tri_msg_new(&worker->cache, &tr_none_tr_type, &nothing, false);
    if (poison == NULL) {
        return NULL;
    }
    poison->item.kind = TRI_ITEM_POISON;
    poison->item.next = NULL;
    poison->to_id = tri_cell_ref(worker->sys, cell).id;
    poison->sender = (tr_ref){0};
    // Relaxed: the exchange confirms it.
    uintptr_t seen = atomic_load_explicit(&cell->mail, memory_order_relaxed);
    do {
        if (tri_mail_newest(seen) == NULL) {
            tri_msg_free(&worker->cache, poison);
            return NULL;
        }
        // Acquire: pairs with tri_mail_push, for the messages. Release: pairs
        // with tri_detach, for the poison.
    } while (!atomic_compare_exchange_weak_explicit(
        &cell->mail, &seen,
        (uintptr_t)poison | (seen & TRI_MAIL_BITS) |
            (uintptr_t)1 << TRI_MAIL_DEPTH_SHIFT,
        memory_order_acq_rel, memory_order_relaxed));
    uint32_t count;
    return tri_items_reverse(tri_mail_newest(seen), &count);
}

/*
 * Makes dead letters of the mail in the user lane and in a backlog. Mail that
 * the owner has taken out already follows when its handler returns.
 */
static void drain_user_lane(tri_worker *worker, tri_cell *cell)
{
    tr_ref self = tri_cell_ref(worker->sys, cell);
    uint32_t count;
    TRI_CHECK(tri_cell_is_zombie(cell));
    // Relaxed: fixed at spawn. The owner of a backlog may find it empty.
    tri_item *oldest =
        atomic_load_explicit(&cell->flags, memory_order_relaxed) &
                TRI_CELL_DROPS_OLD
            ? tri_backlog_take(cell, &count)
            : take_user_lane(worker, cell);
    for (tri_item *item = oldest, *next; item != NULL; item = next) {
        next = item->next;
        if (tri_is_counted(item)) {
            tri_dead(worker, self, tri_msg_from(item), TR_DEAD_DRAINED);
        } else if (item->kind == TRI_ITEM_POISON) {
            tri_msg_free(&worker->cache, tri_msg_from(item));
        } else {  // timers and answers are the owner's
            bool pushed = tri_push_system(worker, cell, item);
            TRI_CHECK(pushed);
        }
    }
}

/* Drains the mail and notifies joins and watchers. Without any lock. */
static void announce(tri_worker *worker, new_zombie *zombie)
{
    tr_system *sys = worker->sys;
    tri_cell *cell = zombie->cell;
    tri_ext *ext = tri_ext_of(cell);
    TRI_CHECK(tri_cell_is_zombie(cell));
    sys->up->forced(worker, cell, zombie->path);
    drain_user_lane(worker, cell);
    tri_room_close(worker, ext);
    sys->up->ended(worker, cell);
    if (tri_life_is_watched(worker)) {
        sys->up->lifecycle(worker, cell, TR_STATE_TERMINATED);
    }
    tri_joins_force(worker, cell);
    tri_watchers_notify(worker, cell, TR_FORCED);
    tri_child_end_send(worker, zombie->parent, cell, TR_FORCED);
    answer_system_mail(worker, cell);
    // Release: the lists belong to the owner again; pairs with
    // tri_zombie_leave.
    atomic_fetch_and_explicit(&cell->flags, ~(uint32_t)TRI_CELL_NOTIFYING,
                              memory_order_release);
}

/* ---- forcing ---- */

/* How an actor has reacted to TRI_SIG_FORCE. */
typedef enum reaction {
    IS_ENDING,        // it waits for its own children
    IS_UNRESPONSIVE,  // a handler of it does not return
    MUST_BE_AWAITED,  // a successor must not start before it has ended
} reaction;

/* For an actor that was forced TRI_FORCE_GRACE ago. With the parent's lock. */
static reaction reaction_of(tri_cell *cell)
{
    tri_ext *ext = tri_ext_of(cell);
    // Relaxed, all: TRI_FORCE_GRACE was long enough to see the owner's writes.
    uint32_t flags = atomic_load_explicit(&cell->flags, memory_order_relaxed);
    if (flags & TRI_CELL_SYSTEM) {
        return IS_ENDING;  // the library's own actors end by themselves
    }
    if ((flags & TRI_CELL_VIRTUAL) ||
        (ext != NULL && atomic_load_explicit(&ext->store_requests,
                                             memory_order_relaxed) > 0)) {
        return MUST_BE_AWAITED;  // rule 48 (an end waits for the store)
    }
    // It has not taken the signal, or has and does not wait for its children.
    return (atomic_load_explicit(&cell->signals, memory_order_relaxed) &
            TRI_SIG_FORCE) != 0 ||
                   !(flags & TRI_CELL_AWAITS_CHILDREN)
               ? IS_UNRESPONSIVE
               : IS_ENDING;
}

/*
 * Makes zombies of unresponsive children, at most TRI_FORCE_BATCH, and moves
 * those that must be awaited to the root. With the locks of the root and of
 * ext. Returns the number of zombies.
 */
static uint32_t force_unresponsive(tri_worker *worker, tri_ext *ext,
                                   bool is_root, new_zombie *out)
{
    tr_system *sys = worker->sys;
    uint32_t count = 0;
    for (tri_cell *child = tri_child_oldest(ext), *next;
         child != NULL && count < TRI_FORCE_BATCH; child = next) {
        next = tri_child_younger(ext, child);
        reaction reacts = reaction_of(child);
        if (reacts == IS_UNRESPONSIVE) {
            count += become_zombie(worker, ext, child, &out[count]);
        } else if (reacts == MUST_BE_AWAITED && !is_root) {
            tri_child_move_to_root(sys, ext, child);
        }
    }
    return count;
}

void tri_force_children(tr_ctx *ctx)
{
    tri_worker *worker = ctx->worker;
    tri_ext *ext = tri_ext_of(ctx->cell);
    tri_ext *top = root_ext(ctx->sys);
    new_zombie zombies[TRI_FORCE_BATCH];
    uint32_t count;
    tri_cell_assert_owned(ctx->cell);
    if (top == NULL) {
        return;  // this actor is a zombie and has no children
    }
    TRI_CHECK(ext != NULL);
    do {
        // The root's lock first: the order of all that walk the tree.
        tri_lock_take(&top->lock);
        if (ext != top) {
            tri_lock_take(&ext->lock);
        }
        count = force_unresponsive(worker, ext, ext == top, zombies);
        if (ext != top) {
            tri_lock_drop(&ext->lock);
        }
        tri_lock_drop(&top->lock);
        for (uint32_t i = 0; i < count; i++) {
            announce(worker, &zombies[i]);
            tri_lock_take(&ext->lock);
            tri_children_count_add(ext, -1);  // the caller's next step reads it
            tri_lock_drop(&ext->lock);
        }
    } while (count == TRI_FORCE_BATCH);
}

static bool is_child(tri_ext *parent, const tri_cell *cell)
{
    const tri_cell *c = tri_child_newest(parent);
    while (c != NULL && c != cell) {
        c = tri_child_older(parent, c);
    }
    return c != NULL;
}

/*
 * Makes a zombie of the actor, if it is in the list of its parent, still has
 * this id and `waited` is as long as its stop time-out. With the locks of the
 * root and of `parent`.
 */
static bool force_child(tri_worker *worker, tri_cell *parent, tri_ext *ext,
                        tri_cell *cell, uint64_t id, tr_nanos waited,
                        new_zombie *out)
{
    tri_lock_assert_held(&ext->lock);
    // Relaxed, all: under the lock of the parent, if `parent` still is that.
    uint32_t flags = atomic_load_explicit(&cell->flags, memory_order_relaxed);
    return tri_cell_parent(cell) == parent && is_child(ext, cell) &&
           atomic_load_explicit(&cell->id, memory_order_relaxed) == id &&
           !(flags & (TRI_CELL_VIRTUAL | TRI_CELL_SYSTEM)) &&
           waited >= tri_stop_timeout(cell) &&
           become_zombie(worker, ext, cell, out);
}

/*
 * Forces one actor, whose parent may change meanwhile. in_restart: the actor
 * cannot be restarted, so its on_limit applies: rule 41 (force). Returns false
 * if nothing was done.
 */
static bool force_one(tri_worker *worker, tri_cell *cell, uint64_t id,
                      tr_nanos waited, bool in_restart)
{
    tri_ext *top = root_ext(worker->sys);
    if (top == NULL || cell == worker->sys->root) {
        return false;
    }
    tri_lock_take(&top->lock);
    tri_cell *parent = tri_cell_parent(cell);
    // Acquire: pairs with tri_ext_make. The memory stays an extension.
    tri_ext *ext = parent != NULL ? atomic_load_explicit(&parent->ext,
                                                         memory_order_acquire)
                                  : NULL;
    new_zombie zombie;
    bool forced = false;
    uint64_t parent_id = 0;
    uint32_t lost = 0;
    if (ext != NULL) {
        if (ext != top) {
            tri_lock_take(&ext->lock);
        }
        forced = force_child(worker, parent, ext, cell, id, waited, &zombie);
        if (forced && in_restart && zombie.escalates) {
            lost = TRI_SIG_CHILD_LOST;
        }
        // Relaxed: under the lock of the parent.
        parent_id = atomic_load_explicit(&parent->id, memory_order_relaxed);
        if (ext != top) {
            tri_lock_drop(&ext->lock);
        }
    }
    tri_lock_drop(&top->lock);
    if (forced) {
        announce(worker, &zombie);
        tri_lock_take(&ext->lock);  // once it is dropped the parent may end
        bool last = tri_children_count_out(ext);
        tri_lock_drop(&ext->lock);
        tri_signal(worker, parent, parent_id,
                   lost | TRI_SIG_COHORT | (last ? TRI_SIG_CHILDREN : 0));
    }
    return forced;
}

bool tri_force_stuck(tr_system *sys, tri_cell *cell, uint64_t id,
                     tr_nanos waited, bool in_restart)
{
    tri_caller caller = tri_enter((tr_from){.sys = sys});
    bool forced = force_one(caller.worker, cell, id, waited, in_restart);
    tri_leave(&caller);
    return forced;
}

bool tri_force_self(tr_ctx *ctx)
{
    tri_cell_assert_owned(ctx->cell);
    // Relaxed: the caller owns the cell.
    uint64_t id = atomic_load_explicit(&ctx->cell->id, memory_order_relaxed);
    return force_one(ctx->worker, ctx->cell, id, TR_FOREVER, true);
}

/* ---- zombies ---- */

bool tri_zombie_answer(tri_worker *worker, tri_cell *cell, uint64_t id)
{
    // Seq_cst: after a push to sys_mail; pairs with become_zombie.
    if (TRI_LIKELY((atomic_load_explicit(&cell->flags, memory_order_seq_cst) &
                    TRI_CELL_ZOMBIE) == 0)) {
        return false;
    }
    tri_lock_take(&worker->sys->zombies_lock);
    bool listed = false;
    TRI_LIST_EACH_ITEM (zombie, &worker->sys->zombies, tri_cell, sibling) {
        listed = listed || zombie == cell;
    }
    // Relaxed: the cell cannot be freed while it is in the list.
    if (listed && atomic_load_explicit(&cell->id, memory_order_relaxed) == id) {
        answer_system_mail(worker, cell);
    }
    tri_lock_drop(&worker->sys->zombies_lock);
    return true;
}

void tri_zombie_leave(tr_system *sys, tri_cell *cell)
{
    TRI_CHECK(tri_cell_is_zombie(cell));
    // Acquire: pairs with announce.
    while (atomic_load_explicit(&cell->flags, memory_order_acquire) &
           TRI_CELL_NOTIFYING) {
        tri_lock_yield();
    }
    zombies_remove(sys, cell);
}
