/*
 * tree.c - the actors of a running system: visited, listed, drawn.
 *
 * Nothing is stopped. On the way down the lock of each parent is held while
 * its children are visited, and a child unlinks itself under that lock before
 * it ends: so every visited actor is alive. What is read of it may be old by
 * the time the caller sees it.
 */
#include "system/tree.h"

#include <stdatomic.h>
#include <string.h>

#include "base/check.h"
#include "base/lock.h"
#include "base/text.h"
#include "core/caller.h"
#include "core/cell/behaviour.h"
#include "core/cell/cell.h"
#include "core/cell/cell_path.h"
#include "core/cell/ext.h"
#include "core/cell/ref.h"
#include "core/life/family.h"
#include "core/life/lifecycle.h"
#include "core/run/waiting.h"
#include "core/run/worker.h"
#include "core/system.h"
#include "troupe/message.h"
#include "troupe/observe.h"
#include "troupe/supervise.h"

/* ---- visiting ---- */

/* Visits what is below cell, with its lock held. False: fn has ended it. */
static bool visit_below(tri_cell *cell, tri_visit_fn fn, void *user,
                        uint32_t depth)
{
    TRI_CHECK(fn != NULL);
    // Acquire: pairs with tri_ext_make.
    tri_ext *ext = atomic_load_explicit(&cell->ext, memory_order_acquire);
    if (ext == NULL) {
        return true;
    }
    bool go_on = true;
    tri_lock_take(&ext->lock);
    for (tri_cell *child = tri_child_oldest(ext); child != NULL && go_on;
         child = tri_child_younger(ext, child)) {
        go_on =
            fn(user, child, depth) && visit_below(child, fn, user, depth + 1);
    }
    tri_lock_drop(&ext->lock);
    return go_on;
}

void tri_visit(tr_system *sys, tri_visit_fn fn, void *user)
{
    TRI_CHECK(sys->root != NULL);
    if (fn(user, sys->root, 0)) {
        visit_below(sys->root, fn, user, 1);
    }
}

/* ---- listing ---- */

/* Fills in what a worker is handling for the cell, and since when. */
static void fill_running(tr_system *sys, tri_cell *cell, tr_actor_info *out)
{
    // Acquire: pairs with tri_worker_new. Relaxed: an observer may read an
    // old value.
    uint32_t count =
        atomic_load_explicit(&sys->worker_count, memory_order_acquire);
    for (uint32_t i = 0; i < count; i++) {
        tri_worker *worker =
            atomic_load_explicit(&sys->workers[i], memory_order_acquire);
        if (atomic_load_explicit(&worker->running, memory_order_relaxed) !=
            cell) {
            continue;
        }
        const tr_type *type =
            atomic_load_explicit(&worker->handling, memory_order_relaxed);
        out->running = type != NULL ? type->name : NULL;
        out->since =
            atomic_load_explicit(&worker->monitor_since, memory_order_relaxed);
    }
}

/* Fills in what a handler of the cell waits for. */
static void fill_waiting(tri_cell *cell, tr_actor_info *out)
{
    tri_waiting_view it;
    if (!tri_waiting_read(cell, &it)) {
        return;
    }
    if (out->running == NULL) {
        out->running = it.handling != NULL ? it.handling->name : NULL;
        out->since = it.since;
    }
    out->waits_in = it.call;
    out->waits_with = it.type != NULL ? it.type->name : NULL;
    out->waits_for = it.target;
    out->waits_at = it.site;
    out->waits_since = it.since;
}

static void fill_info(tr_system *sys, tri_cell *cell, tr_actor_info *out)
{
    size_t size = out->size;
    memset(out, 0, sizeof(*out));
    out->size = size;
    out->ref = tri_cell_ref(sys, cell);
    tri_cell *parent = tri_cell_parent(cell);
    out->parent = parent != NULL ? tri_cell_ref(sys, parent) : (tr_ref){0};
    out->state = tri_cell_life(cell);
    out->depth = tri_depth(cell);
    // Relaxed: statistics.
    out->messages = atomic_load_explicit(&cell->handled, memory_order_relaxed);
    const tri_behaviour *behaviour = tri_cell_behaviour_peek(cell);
    out->kind = behaviour != NULL ? behaviour->def->name : "?";
    uint32_t incarnation = tri_cell_incarnation(cell);
    out->restarts = incarnation > 0 ? incarnation - 1 : 0;
    fill_running(sys, cell, out);
    fill_waiting(cell, out);
    tri_path_write(sys, cell, out->path, sizeof(out->path));
    // Relaxed: an observer may read an old value.
    uint32_t history =
        atomic_load_explicit(&cell->history, memory_order_relaxed);
    for (int i = 0; i < TR_HISTORY; i++) {
        out->history[i] = (tr_state)(history >> (4 * i) & 15);
    }
}

typedef struct listing {
    tr_system *sys;
    tr_actor_info *out;
    size_t max, count;
} listing;

static bool list_one(void *user, tri_cell *cell, uint32_t depth)
{
    listing *l = user;
    (void)depth;
    if (l->count < l->max) {
        l->out[l->count].size = sizeof(tr_actor_info);
        fill_info(l->sys, cell, &l->out[l->count]);
    }
    l->count++;
    return true;
}

size_t tr_actors(tr_system *sys, tr_actor_info *out, size_t max)
{
    TRI_CHECK(sys->magic == TRI_SYSTEM_MAGIC);
    TRI_CHECK(out != NULL || max == 0);
    listing l = {sys, out, max, 0};
    tri_visit(sys, list_one, &l);
    return l.count;
}

typedef struct one_wanted {
    tr_system *sys;
    tri_cell *cell;
    uint64_t id;
    tr_actor_info *out;
    bool found;
} one_wanted;

static bool find_one(void *user, tri_cell *cell, uint32_t depth)
{
    one_wanted *wanted = user;
    (void)depth;
    // Relaxed: a linked cell has its id.
    if (cell == wanted->cell &&
        atomic_load_explicit(&cell->id, memory_order_relaxed) == wanted->id) {
        fill_info(wanted->sys, cell, wanted->out);
        wanted->found = true;
        return false;
    }
    return true;
}

tr_err(tr_actor_info_of)(tr_from from, tr_ref ref, tr_actor_info *out)
{
    TRI_CHECK(out != NULL);
    tri_caller who = tri_enter(from);
    tr_system *sys = who.sys;
    tri_leave(&who);
    if (!tri_ref_is_here(sys, ref)) {
        return tri_ref_pointer(ref) == 0 ? TR_ENOENT : TR_EFOREIGN;
    }
    one_wanted wanted = {sys, tri_ref_cell(ref), ref.id, out, false};
    tri_visit(sys, find_one, &wanted);
    return wanted.found ? TR_OK : TR_ENOENT;
}

/* ---- drawing ---- */

typedef struct drawing {
    tr_system *sys;
    tri_text text;
} drawing;

static bool draw_one(void *user, tri_cell *cell, uint32_t depth)
{
    drawing *d = user;
    char path[TRI_PATH_MAX];
    tri_path_write(d->sys, cell, path, sizeof(path));
    const char *name = strrchr(path, '/');
    const tri_behaviour *behaviour = tri_cell_behaviour_peek(cell);
    // Relaxed: statistics.
    tri_text_add(&d->text, "%*s%s  %s %s, %u waiting, %llu handled",
                 (int)depth * 2, "",
                 name != NULL && name[1] != '\0' ? name + 1 : path,
                 behaviour != NULL ? behaviour->def->name : "?",
                 tri_state_name(tri_cell_life(cell)), tri_depth(cell),
                 (unsigned long long)atomic_load_explicit(
                     &cell->handled, memory_order_relaxed));
    tri_waiting_show(d->sys, cell, false, &d->text);
    tri_text_add(&d->text, "\n");
    return true;
}

size_t tr_tree(tr_system *sys, char *buf, size_t size)
{
    TRI_CHECK(sys->magic == TRI_SYSTEM_MAGIC);
    TRI_CHECK(buf != NULL || size == 0);
    char none[1];
    drawing d = {.sys = sys};
    tri_text_init(&d.text, size > 0 ? buf : none, size > 0 ? size : 1);
    tri_visit(sys, draw_one, &d);
    return d.text.need;
}
