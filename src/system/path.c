/*
 * path.c - from refs to paths and back; walking the tree.
 *
 * A cell's name and parent belong to the family: they are read under the
 * parent's lock, and a path from below is written only by whoever knows that
 * the actor cannot end meanwhile.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/probe.h"
#include "system/layers.h"

/* ---- walking down ---- */

/* Visits the children of cell; its lock is held on the way down. */
static bool visit_below(tri_cell *cell, tri_visit_fn fn, void *user,
                        uint32_t depth)
{
    // Acquire: pairs with tri_ext_need.
    tri_ext *ext = atomic_load_explicit(&cell->ext, memory_order_acquire);
    if (ext == NULL) {
        return true;
    }
    bool go_on = true;
    tri_lock_take(&ext->lock);
    for (tri_cell *child = ext->first_child; child != NULL && go_on;
         child = child->sibling_next) {
        go_on =
            fn(user, child, depth) && visit_below(child, fn, user, depth + 1);
    }
    tri_lock_drop(&ext->lock);
    return go_on;
}

void tri_visit(tr_system *sys, tri_visit_fn fn, void *user)
{
    // A child unlinks itself under its parent's lock before it ends, so
    // what is visited under that lock is alive.
    if (fn(user, sys->root, 0)) {
        visit_below(sys->root, fn, user, 1);
    }
}

/* ---- ref to path ---- */

/* Writes the path if the cell is alive, holding the locks above it. */
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
    // Acquire: pairs with tri_ext_need.
    tri_ext *ext = atomic_load_explicit(&parent->ext, memory_order_acquire);
    if (ext == NULL) {
        return false;
    }
    tri_lock_take(&ext->lock);
    bool alive = false;
    for (tri_cell *c = ext->last_child; c != NULL; c = c->sibling_prev) {
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
    tr_system *sys = tri_from_system(from);
    tri_cell *cell = tri_ref_cell(ref);
    if (cell == NULL) {
        snprintf(buf, size, "nobody");
        return buf;
    }
    if ((ref.cell >> 48) != sys->tag) {
        snprintf(buf, size, "foreign$%llx", (unsigned long long)ref.id);
        return buf;
    }
    // Relaxed: glances; path_of_living looks again under the lock.
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

static tri_cell *child_named(tri_ext *ext, const char *name, size_t length)
{
    if (name[0] != '$') {
        return tri_map_get_bytes(&ext->names, name, length);
    }
    char *end;
    uint64_t id = strtoull(name + 1, &end, 16);
    if (end != name + length) {
        return NULL;
    }
    for (tri_cell *c = ext->first_child; c != NULL; c = c->sibling_next) {
        // Relaxed: a linked child has its id.
        if (atomic_load_explicit(&c->id, memory_order_relaxed) == id) {
            return c;
        }
    }
    return NULL;
}

/* Goes down one name at a time, the lock above held until the one below. */
static tr_ref look_below(tr_system *sys, tri_cell *cell, const char *path)
{
    while (*path == '/') {
        path++;
    }
    if (*path == '\0') {
        return tri_cell_ref(sys, cell);
    }
    size_t length = strcspn(path, "/");
    // Acquire: pairs with tri_ext_need.
    tri_ext *ext = atomic_load_explicit(&cell->ext, memory_order_acquire);
    if (ext == NULL) {
        return (tr_ref){0, TR_ENOENT};
    }
    tri_lock_take(&ext->lock);
    tri_cell *child = child_named(ext, path, length);
    tr_ref ref = child != NULL ? look_below(sys, child, path + length)
                               : (tr_ref){0, TR_ENOENT};
    tri_lock_drop(&ext->lock);
    return ref;
}

#define TEMP "/temp/$"

/* GD10: who waits outside has a name there, and no actor. */
static tr_ref look_temp(tr_system *sys, const char *path)
{
    tr_ref ref = {0, TR_ENOENT};
    char *end;
    uint64_t id = strtoull(path + strlen(TEMP), &end, 16);
    tri_lock_take(&sys->boxes_lock);
    for (tri_mailbox *box = sys->boxes; *end == '\0' && box != NULL;
         box = box->next) {
        // Relaxed: a box that is listed keeps its id.
        if (atomic_load_explicit(&box->cell->id, memory_order_relaxed) == id) {
            ref = tri_cell_ref(sys, box->cell);
        }
    }
    tri_lock_drop(&sys->boxes_lock);
    return ref;
}

static tr_ref look_top(tr_system *sys, const char *path)
{
    tri_layers *layers = tri_layers_of(sys);
    size_t length = strcspn(path + 1, "/");
    tri_lock_take(&layers->top_lock);
    layers->top_closed = true;
    tri_top_level *top =
        tri_map_get_bytes(&layers->top_levels, path + 1, length);
    tr_ref ref = top != NULL ? top->ref : (tr_ref){0};
    tri_lock_drop(&layers->top_lock);
    if (ref.cell == 0 || path[1 + length] == '\0') {
        return ref;
    }
    tri_cell *cell = tri_ref_cell(ref);
    // Relaxed: a glance; the actor may end while we look below it.
    return atomic_load_explicit(&cell->id, memory_order_relaxed) == ref.id
               ? look_below(sys, cell, path + 1 + length)
               : (tr_ref){0, TR_ENOENT};
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
        ref = look_below(sys, ctx != NULL ? ctx->cell : sys->user, path);
    } else {
        ref = look_top(sys, path);
        ref = ref.cell != 0 ? ref
              : strncmp(path, TEMP, strlen(TEMP)) == 0
                  ? look_temp(sys, path)
                  : look_below(sys, sys->root, path);
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

/* ---- extra top levels ---- */

static bool top_is(const void *value, const void *key, size_t size)
{
    const tri_top_level *top = value;
    return strlen(top->name) == size && memcmp(top->name, key, size) == 0;
}

static bool is_reserved(const char *name)
{
    static const char *const reserved[] = {"user", "system", "temp",
                                           "deadLetters", "virtual"};
    for (size_t i = 0; i < TRI_COUNT_OF(reserved); i++) {
        if (strcmp(name, reserved[i]) == 0) {
            return true;
        }
    }
    return false;
}

tr_err tr_top_level(tr_system *sys, const char *name, tr_ref ref)
{
    tri_layers *layers = tri_layers_of(sys);
    if (name == NULL || tri_name_check(name) != TR_OK || is_reserved(name) ||
        (ref.cell >> 48) != sys->tag) {
        tri_error_set(
            NULL, "/%s cannot be a top level: it is reserved, or not a name",
            name != NULL ? name : "");
        return TR_EINVAL;
    }
    tri_top_level *top = tri_mem_calloc(&sys->mem, sizeof(*top));
    char *copy = strdup(name);
    if (top == NULL || copy == NULL) {
        free(top);
        free(copy);
        return TR_ENOMEM;
    }
    top->name = copy;
    top->ref = ref;
    tri_lock_take(&layers->top_lock);
    tr_err err =
        layers->top_closed
            ? TR_ECLOSED
            : tri_map_put_bytes(&layers->top_levels, copy, strlen(copy), top);
    tri_lock_drop(&layers->top_lock);
    if (err != TR_OK) {
        if (err == TR_ECLOSED) {
            tri_logf(sys, TR_LOG_WARN, NULL, NULL,
                     "/%s comes too late: the tree is in use", name);
        }
        free(copy);
        free(top);
    }
    return err;
}

void tri_top_levels_close(tr_system *sys)
{
    tri_layers *layers = tri_layers_of(sys);
    tri_lock_take(&layers->top_lock);
    layers->top_closed = true;
    tri_lock_drop(&layers->top_lock);
}

void tri_layers_init(tr_system *sys)
{
    tri_layers *layers = tri_layers_of(sys);
    tri_map_init(&layers->topics, tri_topic_is, NULL);
    tri_map_init(&layers->top_levels, top_is, NULL);
}

void tri_top_levels_free(tr_system *sys)
{
    tri_layers *layers = tri_layers_of(sys);
    tri_top_level *top;
    for (tri_map_iter it = tri_map_iter_begin(&layers->top_levels);
         (top = tri_map_iter_next(&layers->top_levels, &it)) != NULL;) {
        free(top->name);
        free(top);
    }
    tri_map_fini(&layers->top_levels);
}
