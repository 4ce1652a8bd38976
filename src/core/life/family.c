/*
 * family.c - an actor and its children: list, names, count, signals.
 *
 * The children of an actor are in the family of its extension, in the order of
 * spawning, under ext->lock. A child may be moved to the root while it lives
 * (force.c), so it finds its parent's lock with tri_parent_lock.
 *
 * Invariant: the parent of a child that is linked or counted lives. So the
 * child may use its parent's cell until it has counted itself out.
 */
#include "core/life/family.h"

#include <stdatomic.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/map.h"
#include "core/cell/cell.h"
#include "core/cell/ext.h"
#include "core/cell/message.h"
#include "core/life/child_end.h"
#include "core/life/cohort.h"
#include "core/life/signal.h"
#include "core/mail/push.h"
#include "core/run/context.h"
#include "core/run/run_queue.h"
#include "core/run/scheduler.h"
#include "core/system.h"

bool tri_name_is(const void *value, const void *key, size_t size)
{
    const tri_cell *cell = value;
    TRI_CHECK_SLOW(cell->name != NULL);
    return strlen(cell->name) == size && memcmp(cell->name, key, size) == 0;
}

tr_err tri_name_check(const char *name)
{
    size_t length = strlen(name);
    if (length == 0 || length > TRI_NAME_MAX || name[0] == '$') {
        return TR_EINVAL;
    }
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)name[i];
        if (c <= ' ' || c == '/' || c == 127) {
            return TR_EINVAL;
        }
    }
    return TR_OK;
}

/* True if the parent's map has the name: that of a virtual actor is not there. */
static bool is_in_names(tri_cell *cell)
{
    return cell->name != NULL && !tri_cell_is_virtual(cell);
}

/*
 * True if the parent may still get children: it has this id, has not ended,
 * and its family is open. With its lock: until that is dropped the parent
 * cannot close its family, so it cannot end.
 */
static bool takes_children(tri_cell *parent, uint64_t id, tri_ext *ext)
{
    // tri_children_link has just taken the lock.
    TRI_CHECK_SLOW(tri_lock_is_held(&ext->lock));
    // Acquire: pairs with tri_cell_new and tri_cell_free. A parent that has
    // ended keeps its id for a moment after its extension was dropped; then
    // `ext` is a new one, made after its last state was set: tri_ext_drop.
    tr_state life = tri_cell_life(parent);
    return atomic_load_explicit(&parent->id, memory_order_acquire) == id &&
           life != TR_STATE_STOPPED && life != TR_STATE_TERMINATED &&
           !ext->family.closed;
}

tr_err tri_children_link(tri_worker *worker, tri_cell *parent,
                         uint64_t parent_id, tri_cell *child)
{
    TRI_CHECK_SLOW(!tri_link_is_linked(&child->sibling));
    tri_ext *ext = tri_ext_need(worker, parent);
    if (ext == NULL) {
        return TR_ENOMEM;
    }
    tr_err err = TR_OK;
    tri_lock_take(&ext->lock);
    if (!takes_children(parent, parent_id, ext)) {
        err = TR_ESTOPPED;
    } else if (is_in_names(child)) {
        err = tri_map_put_bytes(&ext->family.names, child->name,
                                strlen(child->name), child);
    }
    if (err == TR_OK) {
        tri_list_push_back(&ext->family.children, &child->sibling);
        tri_children_count_add(ext, 1);
        // Relaxed: the lock and the schedule publish it.
        atomic_store_explicit(&child->parent, parent, memory_order_relaxed);
    }
    tri_lock_drop(&ext->lock);
    return err;
}

void tri_children_unlink(tri_ext *parent, tri_cell *child)
{
    tri_lock_assert_held(&parent->lock);
    // A child that was moved to the root has no name in its map.
    if (is_in_names(child) &&
        tri_map_get_bytes(&parent->family.names, child->name,
                          strlen(child->name)) == child) {
        tri_map_remove_bytes(&parent->family.names, child->name,
                             strlen(child->name));
    }
    tri_list_remove(&child->sibling);
}

void tri_child_move_to_root(tr_system *sys, tri_ext *from, tri_cell *child)
{
    tri_cell *root = sys->root;
    tri_ext *top = tri_ext_of(root);
    tri_lock_assert_held(&top->lock);
    tri_children_unlink(from, child);
    tri_list_push_back(&top->family.children, &child->sibling);
    // Relaxed: under both locks.
    atomic_store_explicit(&child->parent, root, memory_order_relaxed);
    tri_children_count_add(top, 1);
    tri_children_count_add(from, -1);
}

void tri_family_close(tri_cell *cell, bool closed)
{
    tri_cell_assert_owned(cell);
    tri_ext *ext = tri_ext_of(cell);
    if (ext != NULL) {
        tri_lock_take(&ext->lock);
        ext->family.closed = closed;
        tri_lock_drop(&ext->lock);
    }
}

void tri_family_set_awaited(tri_cell *cell, bool awaited)
{
    TRI_CHECK_SLOW(tri_cell_is_owned(cell));
    // Relaxed, all: only the owner writes this flag. Children see it after the
    // signal to end, which releases; the parent reads it some time later.
    bool before = atomic_load_explicit(&cell->flags, memory_order_relaxed) &
                  TRI_CELL_AWAITS_CHILDREN;
    if (awaited && !before) {
        atomic_fetch_or_explicit(&cell->flags, TRI_CELL_AWAITS_CHILDREN,
                                 memory_order_relaxed);
    } else if (!awaited && before) {
        atomic_fetch_and_explicit(&cell->flags,
                                  ~(uint32_t)TRI_CELL_AWAITS_CHILDREN,
                                  memory_order_relaxed);
    }
}

uint32_t tri_children_live(tri_cell *cell)
{
    tri_ext *ext = tri_ext_of(cell);
    // Acquire: pairs with tri_children_count_add; sees what the children did.
    return ext == NULL
               ? 0
               : atomic_load_explicit(&ext->family.live, memory_order_acquire);
}

/* Fetches the cache lines of the next cell while this one is used. */
static inline void prefetch_cell(const tri_cell *cell)
{
    if (cell == NULL) {
        return;
    }
    for (size_t at = 0; at < sizeof(*cell); at += TRI_CACHE_LINE) {
        __builtin_prefetch((const char *)cell + at, 1);
    }
}

/*
 * Children that slept go to the front of the run queue: so a tree ends branch
 * by branch, each cell while it is still in the cache. They are not queued as
 * newborn cells, which may be passed over, because their stop deadline runs.
 */
void tri_children_signal(tr_ctx *ctx, uint32_t signal)
{
    tri_worker *worker = ctx->worker;
    tri_ext *ext = tri_ext_of(ctx->cell);
    TRI_CHECK_SLOW(tri_cell_is_owned(ctx->cell));
    if (ext == NULL) {
        return;
    }
    tri_cell *first = NULL, *last = NULL;
    uint32_t count = 0;
    tri_lock_take(&ext->lock);
    for (tri_cell *child = tri_child_newest(ext), *next; child != NULL;
         child = next) {
        next = tri_child_older(ext, child);
        prefetch_cell(next);
        // Relaxed: a linked child keeps its id.
        uint64_t id = atomic_load_explicit(&child->id, memory_order_relaxed);
        if (!tri_signal_claim(child, id, signal)) {
            continue;
        }
        if (tri_schedule_is_local(worker, child)) {
            if (first == NULL) {
                first = child;
            } else {
                last->run_next = child;
            }
            last = child;
            count++;
        } else {
            tri_schedule(worker, child);
        }
    }
    tri_lock_drop(&ext->lock);
    if (count > 0) {
        tri_run_queue_enter(worker);
        tri_local_prepend(worker, first, last, count);
        tri_run_queue_leave(worker);
    }
}

void tri_family_leave(tri_cell *cell)
{
    TRI_CHECK_SLOW(tri_cell_is_owned(cell));
    tri_ext *ext = tri_parent_lock(cell);
    if (ext != NULL) {
        tri_children_unlink(ext, cell);
        tri_lock_drop(&ext->lock);
    }
}

bool tri_parent_send_failure(tri_worker *worker, tri_cell *cell)
{
    TRI_CHECK(tri_cell_life(cell) == TR_STATE_FAILED);
    tri_ext *ext = tri_parent_lock(cell);
    if (ext == NULL) {
        return false;
    }
    cell->notice.kind = TRI_ITEM_FAILURE;
    bool sent = tri_push_system(worker, tri_cell_parent(cell), &cell->notice);
    tri_lock_drop(&ext->lock);
    return sent;
}

void tri_parent_signal(tri_worker *worker, tri_cell *cell, uint32_t signal)
{
    tri_cell_assert_owned(cell);
    tri_ext *ext = tri_parent_lock(cell);
    if (ext != NULL) {
        tri_cell *parent = tri_cell_parent(cell);
        // Relaxed: the parent lives while this cell is in its list.
        uint64_t id = atomic_load_explicit(&parent->id, memory_order_relaxed);
        tri_signal(worker, parent, id, signal);
        tri_lock_drop(&ext->lock);
    }
}

void tri_child_ended(tri_worker *worker, tri_cell *cell)
{
    tri_cell *parent = tri_cell_parent(cell);
    if (parent == NULL || tri_cell_is_zombie(cell)) {
        return;
    }
    TRI_CHECK(!tri_link_is_linked(&cell->sibling));
    // Relaxed: the parent lives until this child is counted out below.
    uint64_t id = atomic_load_explicit(&parent->id, memory_order_relaxed);
    tri_ext *ext = tri_ext_of(parent);
    if (tri_cohort_stage_of(cell) != TRI_COHORT_NONE) {
        tri_signal(worker, parent, id, TRI_SIG_COHORT);
    }
    tri_child_end_send(worker, parent, cell, (tr_reason)cell->reason);
    // After that the parent may end. Then tri_signal finds another id and does
    // nothing.
    tri_lock_take(&ext->lock);
    bool last = tri_children_count_out(ext);
    tri_lock_drop(&ext->lock);
    if (last) {
        tri_signal(worker, parent, id, TRI_SIG_CHILDREN);
    }
}

/* True if the actor ends or was told to end. With its parent's lock. */
static bool is_ending(tri_cell *cell)
{
    enum {
        ENDS =
            TRI_SIG_STOP | TRI_SIG_KILL | TRI_SIG_FORCE | TRI_SIG_STOP_DECIDED
    };
    tr_state life = tri_cell_life(cell);
    // Relaxed: the parent has sent the signal itself, or may be too early.
    return life == TR_STATE_STOPPING || life == TR_STATE_STOPPED ||
           life == TR_STATE_TERMINATED ||
           (atomic_load_explicit(&cell->signals, memory_order_relaxed) &
            ENDS) != 0;
}

tr_ref tr_child(tr_ctx *ctx, const char *name)
{
    TRI_CHECK(ctx->magic == TRI_CTX_MAGIC);
    TRI_CHECK(name != NULL);
    tri_ext *ext = tri_ext_of(ctx->cell);
    tr_ref ref = {0, TR_ENOENT};
    if (ext == NULL) {
        return ref;
    }
    tri_lock_take(&ext->lock);
    tri_cell *child = tri_map_get_bytes(&ext->family.names, name, strlen(name));
    if (child != NULL) {
        ref = is_ending(child) ? (tr_ref){0, TR_ESTOPPED}
                               : tri_cell_ref(ctx->sys, child);
    }
    tri_lock_drop(&ext->lock);
    return ref;
}

size_t tr_children(tr_ctx *ctx, tr_ref *out, size_t max)
{
    TRI_CHECK(ctx->magic == TRI_CTX_MAGIC);
    tri_ext *ext = tri_ext_of(ctx->cell);
    size_t count = 0;
    if (ext == NULL) {
        return 0;
    }
    tri_lock_take(&ext->lock);
    TRI_LIST_EACH_ITEM (child, &ext->family.children, tri_cell, sibling) {
        if (count < max) {
            out[count] = tri_cell_ref(ctx->sys, child);
        }
        count++;
    }
    tri_lock_drop(&ext->lock);
    return count;
}
