/*
 * family.h - an actor and its children: list, names, count, signals.
 *
 * Threads: `With the parent's lock` means ext->lock of the parent, on any
 * thread. The other functions are for the owner of the cell they are given.
 */
#ifndef TRI_CORE_LIFE_FAMILY_H
#define TRI_CORE_LIFE_FAMILY_H

#include <stdatomic.h>

#include "base/check.h"
#include "base/list.h"
#include "base/lock.h"
#include "core/cell/cell.h"
#include "core/cell/ext.h"
#include "core/types.h"

enum { TRI_NAME_MAX = 128 };  // bytes of an actor's name

/* Returns TR_EINVAL if no actor may have this name. Any thread. */
tr_err tri_name_check(const char *name);

/* Compares a child (value) with a name; for the map tri_family.names. */
bool tri_name_is(const void *value, const void *key, size_t size);

/*
 * Adds a child with its name. Takes the parent's lock; any thread, also if the
 * parent has ended: parent_id is the id that it had.
 * Errors: TR_ENOMEM, TR_ESTOPPED (the family is closed, or the parent has
 * ended), TR_EEXIST (the name).
 */
tr_err tri_children_link(tri_worker *worker, tri_cell *parent,
                         uint64_t parent_id, tri_cell *child);

/* Removes a child and its name, not its count. With the parent's lock. */
void tri_children_unlink(tri_ext *parent, tri_cell *child);

/*
 * Moves a child to the root, which becomes its parent. With the locks of the
 * root and of `from`.
 */
void tri_child_move_to_root(tr_system *sys, tri_ext *from, tri_cell *child);

/* Returns the child that was spawned first, or NULL. With the parent's lock. */
static inline tri_cell *tri_child_oldest(const tri_ext *parent)
{
    return tri_list_item(tri_list_first(&parent->family.children), tri_cell,
                         sibling);
}

/* Returns the child that was spawned last, or NULL. With the parent's lock. */
static inline tri_cell *tri_child_newest(const tri_ext *parent)
{
    return tri_list_item(tri_list_last(&parent->family.children), tri_cell,
                         sibling);
}

/* Returns the sibling spawned after child, or NULL. With the parent's lock. */
static inline tri_cell *tri_child_younger(const tri_ext *parent,
                                          const tri_cell *child)
{
    return tri_list_item(
        tri_list_next(&parent->family.children, &child->sibling), tri_cell,
        sibling);
}

/* Returns the sibling spawned before child, or NULL. With the parent's lock. */
static inline tri_cell *tri_child_older(const tri_ext *parent,
                                        const tri_cell *child)
{
    return tri_list_item(
        tri_list_prev(&parent->family.children, &child->sibling), tri_cell,
        sibling);
}

/* Adds `change` to the number of children. With the parent's lock. */
static inline void tri_children_count_add(tri_ext *parent, int32_t change)
{
    // The caller has just taken the lock: no check in release builds.
    TRI_CHECK_SLOW(tri_lock_is_held(&parent->lock));
    // Relaxed: written under the lock only. Release: what an ended child did;
    // pairs with tri_children_live.
    atomic_store_explicit(
        &parent->family.live,
        atomic_load_explicit(&parent->family.live, memory_order_relaxed) +
            (uint32_t)change,
        memory_order_release);
}

/*
 * Counts out a child that has ended. Returns true if it was the last one of a
 * closed family: the caller must then signal TRI_SIG_CHILDREN to the parent.
 * With the parent's lock; once it is dropped the parent may end.
 */
static inline bool tri_children_count_out(tri_ext *parent)
{
    // Relaxed: written under the lock. `closed` is read before the count falls:
    // a parent that waits for 0 takes no lock, and then its extension may be
    // free memory.
    uint32_t live =
        atomic_load_explicit(&parent->family.live, memory_order_relaxed);
    TRI_CHECK_SLOW(live > 0);
    bool last = parent->family.closed && live == 1;
    tri_children_count_add(parent, -1);
    return last;
}

/* Returns the number of children that have not ended. */
uint32_t tri_children_live(tri_cell *cell);

/* Closes the family, so that no child can be added, or opens it again. */
void tri_family_close(tri_cell *cell, bool closed);

/* Sets TRI_CELL_AWAITS_CHILDREN: whether the actor waits for its children to end. */
void tri_family_set_awaited(tri_cell *cell, bool awaited);

/* Sends a signal to every child, the newest first. */
void tri_children_signal(tr_ctx *ctx, uint32_t signal);

/* True if cell is `of` or one of its ancestors. For the owner of `of`. */
static inline bool tri_is_ancestor(const tri_cell *cell, tri_cell *of)
{
    while (of != NULL && of != cell) {
        of = tri_cell_parent(of);
    }
    return of != NULL;
}

/*
 * Locks the parent in whose list the cell is and returns its extension, or
 * NULL if the cell is in no list. Before that the cell may be moved to the
 * root, or ended by force, at any time.
 */
static inline tri_ext *tri_parent_lock(tri_cell *cell)
{
    TRI_CHECK_SLOW(tri_cell_is_owned(cell));
    for (;;) {
        tri_cell *parent = tri_cell_parent(cell);
        if (parent == NULL || tri_cell_is_zombie(cell)) {
            return NULL;
        }
        // Acquire: pairs with tri_ext_make; NULL only if the cell was moved.
        tri_ext *ext = atomic_load_explicit(&parent->ext, memory_order_acquire);
        if (ext == NULL) {
            continue;
        }
        tri_lock_take(&ext->lock);
        if (tri_cell_parent(cell) == parent && !tri_cell_is_zombie(cell)) {
            return ext;
        }
        tri_lock_drop(&ext->lock);  // the cell was moved meanwhile
    }
}

/* Sends the notice of a failure to the parent; false if there is none. */
bool tri_parent_send_failure(tri_worker *worker, tri_cell *cell);

/* Sends a signal to the parent, if there is one. */
void tri_parent_signal(tri_worker *worker, tri_cell *cell, uint32_t signal);

/* Leaves the parent's list; the name is free then. */
void tri_family_leave(tri_cell *cell);

/* Counts the ended cell out of its parent's children. The parent may end. */
void tri_child_ended(tri_worker *worker, tri_cell *cell);

#endif
