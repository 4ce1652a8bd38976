/*
 * path.c - from refs to paths and from paths to refs.
 *
 * A cell's name and parent are protected by the parent's lock. A path is
 * written from the cell upward, so only with a lock or a turn that keeps the
 * actor from ending meanwhile.
 */
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/map.h"
#include "core/ask/error_text.h"
#include "core/ask/outside_box.h"
#include "core/caller.h"
#include "core/cell/cell.h"
#include "core/cell/cell_path.h"
#include "core/cell/ext.h"
#include "core/cell/ref.h"
#include "core/life/family.h"
#include "core/run/context.h"
#include "core/system.h"
#include "core/types.h"
#include "core/up.h"
#include "system/top_level.h"
#include "troupe/message.h"

/* ---- ref to path ---- */

/*
 * Writes the path of the actor with this id, under its parent's lock. Returns
 * false if it has ended.
 */
static bool path_of_living(tr_system *sys, tri_cell *cell, uint64_t id,
                           char *buf, size_t size)
{
    tri_cell *parent = tri_cell_parent(cell);
    if (cell == sys->root) {
        snprintf(buf, size, "/");
        return true;
    }
    if (parent == NULL) {
        return false;
    }
    // Acquire: pairs with tri_ext_make.
    tri_ext *ext = atomic_load_explicit(&parent->ext, memory_order_acquire);
    if (ext == NULL) {
        return false;
    }
    tri_lock_take(&ext->lock);
    bool alive = false;
    for (tri_cell *c = tri_child_newest(ext); c != NULL;
         c = tri_child_older(ext, c)) {
        if (c == cell) {
            alive = atomic_load_explicit(&cell->id, memory_order_relaxed) == id;
            break;
        }
    }
    if (alive) {
        tri_path_write(sys, cell, buf, size);
    }
    tri_lock_drop(&ext->lock);
    return alive;
}

const char *(tr_ref_path)(tr_from from, tr_ref ref, char *buf, size_t size)
{
    TRI_CHECK(buf != NULL);
    TRI_CHECK(size > 0);
    tr_system *sys = tri_from_system(from);
    tri_cell *cell = tri_ref_cell(ref);
    if (cell == NULL) {
        snprintf(buf, size, "nobody");
        return buf;
    }
    if (!tri_ref_is_here(sys, ref)) {
        snprintf(buf, size, "foreign$%llx", (unsigned long long)ref.id);
        return buf;
    }
    // Relaxed: a first test; path_of_living repeats it under the lock.
    if (atomic_load_explicit(&cell->id, memory_order_relaxed) == ref.id) {
        uint32_t flags =
            atomic_load_explicit(&cell->flags, memory_order_relaxed);
        if (flags & TRI_CELL_OUTSIDE) {
            snprintf(buf, size, "/temp/$%llx", (unsigned long long)ref.id);
            return buf;
        }
        if (flags & TRI_CELL_VIRTUAL) {
            if (tri_virtual_ops_of(sys)->name(sys, cell, ref.id, buf, size)) {
                return buf;
            }
        } else if (path_of_living(sys, cell, ref.id, buf, size)) {
            return buf;
        }
    }
    snprintf(buf, size, "gone$%llx", (unsigned long long)ref.id);
    return buf;
}

/* ---- path to ref ---- */

/* Finds a child by its name, or by `$` and its id in hexadecimal. */
static tri_cell *child_named(tri_ext *ext, const char *name, size_t length)
{
    tri_lock_assert_held(&ext->lock);
    if (name[0] != '$') {
        return tri_map_get_bytes(&ext->family.names, name, length);
    }
    char *end;
    uint64_t id = strtoull(name + 1, &end, 16);
    if (end != name + length) {
        return NULL;
    }
    TRI_LIST_EACH_ITEM (c, &ext->family.children, tri_cell, sibling) {
        // Relaxed: a linked child has its id.
        if (atomic_load_explicit(&c->id, memory_order_relaxed) == id) {
            return c;
        }
    }
    return NULL;
}

/*
 * Follows the path from cell down, one name at a time, each parent's lock held
 * until the path is done.
 */
static tr_ref find_below(tr_system *sys, tri_cell *cell, const char *path)
{
    while (*path == '/') {
        path++;
    }
    if (*path == '\0') {
        return tri_cell_ref(sys, cell);
    }
    size_t length = strcspn(path, "/");
    // Acquire: pairs with tri_ext_make.
    tri_ext *ext = atomic_load_explicit(&cell->ext, memory_order_acquire);
    if (ext == NULL) {
        return (tr_ref){0, TR_ENOENT};
    }
    tri_lock_take(&ext->lock);
    tri_cell *child = child_named(ext, path, length);
    tr_ref ref = child != NULL ? find_below(sys, child, path + length)
                               : (tr_ref){0, TR_ENOENT};
    tri_lock_drop(&ext->lock);
    return ref;
}

#define TEMP "/temp/$"

/* Finds the outside box of a thread that waits: it has a path, but no actor. */
static tr_ref find_outside(tr_system *sys, const char *path)
{
    tr_ref ref = {0, TR_ENOENT};
    char *end;
    uint64_t id = strtoull(path + strlen(TEMP), &end, 16);
    tri_lock_take(&sys->boxes_lock);
    TRI_LIST_EACH_ITEM (box, &sys->boxes, tri_outside_box, link) {
        // Relaxed: a listed box keeps its id.
        if (*end == '\0' &&
            atomic_load_explicit(&box->cell->id, memory_order_relaxed) == id) {
            ref = tri_cell_ref(sys, box->cell);
        }
    }
    tri_lock_drop(&sys->boxes_lock);
    return ref;
}

tr_ref(tr_lookup)(tr_from from, const char *path)
{
    tr_system *sys = tri_from_system(from);
    tr_ctx *ctx = tri_from_is_ctx(from) ? from.ctx : NULL;
    if (path == NULL || path[0] == '\0') {
        tri_error_set(ctx, "tr_lookup of an empty path");
        return (tr_ref){0, TR_EINVAL};
    }
    tr_ref ref = {0};
    if (path[0] != '/') {  // relative: to the actor, or to /user
        ref = find_below(sys, ctx != NULL ? ctx->cell : sys->user, path);
    } else {
        tri_top_levels_close(sys);
        if (strncmp(path, TEMP, strlen(TEMP)) == 0) {
            ref = find_outside(sys, path);
        }
        if (ref.cell == 0) {  // not an outside thread: an actor
            ref = find_below(sys, sys->root, path);
        }
    }
    if (ref.cell == 0) {
        tri_error_set(ctx, "no actor has the path %s%s; tr_tree shows all",
                      path[0] == '/' ? ""
                      : ctx != NULL  ? "./"
                                     : "/user/",
                      path);
    }
    return ref;
}
