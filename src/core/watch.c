/*
 * watch.c - who watches whom, and exactly one tr_terminated for each watch.
 *
 * A watch is two records: the watcher's half (tri_watching, found by the
 * target's id) and the target's half (tri_watch), which travels to the target
 * as a system node, waits in its list, and travels back as the notice. So an
 * end never needs memory. The half that is on its way is owned by the lane;
 * whoever finds that the lane is closed sends it back at once.
 *
 * Invariant: a tri_watch is delivered to its watcher exactly once, or freed by
 * its target on unwatch. The watcher drops one that it does not expect.
 */
#include <stdlib.h>
#include <string.h>

#include "core/lifecycle.h"

/* ---- the target's side ---- */

static void send_back(tri_worker *worker, tri_watch *watch, tr_reason reason)
{
    tri_cell *watcher = tri_ref_cell(watch->watcher);
    watch->reason = (uint32_t)reason;
    watch->node.kind = TRI_NODE_TERMINATED;
    if (watch->node.flags & TRI_MSG_IN_ORDER) {
        if (tri_push(worker, watcher, watch->watcher.id,
                     (tr_msg *)(void *)watch) == TR_OK) {
            return;
        }
    } else if (tri_push_system(worker, watcher, &watch->node)) {
        return;
    }
    free(watch);  // the watcher is gone
}

void tri_watch_back(tri_worker *worker, tri_watch *watch, tr_reason reason)
{
    send_back(worker, watch, reason);
}

/* A virtual actor that may be on another node. */
static const tri_virtual_ops *elsewhere(tri_worker *worker, tri_cell *cell)
{
    return tri_cell_is_virtual(cell) ? tri_virtual_ops_of(worker->sys) : NULL;
}

void tri_watch_arrived(tri_worker *worker, tri_cell *cell, tri_watch *watch)
{
    // Relaxed: we own the cell.
    uint64_t id = atomic_load_explicit(&cell->id, memory_order_relaxed);
    tri_ext *ext = tri_ext_need(worker, cell);
    if (watch->target.id != id || ext == NULL) {
        send_back(worker, watch, TR_NO_SUCH_ACTOR);
        return;
    }
    // Also in the final drain, where its unwatch may come next (X47).
    tri_lock_take(&ext->lock);
    bool zombie = tri_cell_is_zombie(cell);
    if (!zombie) {
        watch->prev = NULL;
        watch->next = ext->watchers;
        if (ext->watchers != NULL) {
            ext->watchers->prev = watch;
        }
        ext->watchers = watch;
    }
    tri_lock_drop(&ext->lock);
    if (zombie) {
        send_back(worker, watch, TR_FORCED);
    }
}

void tri_watch_refuse(tri_worker *worker, tri_watch *watch, tr_reason reason)
{
    send_back(worker, watch, reason);
}

/* A virtual actor may have sent it back at the end of its last life. */
static bool is_listed(tri_cell *cell, tri_ext *ext, const tri_watch *watch,
                      uint64_t watcher_id)
{
    if (!tri_cell_is_virtual(cell)) {
        return true;
    }
    const tri_watch *w = ext->watchers;
    while (w != NULL && w != watch) {
        w = w->next;
    }
    return w != NULL && w->watcher.id == watcher_id;
}

static void watch_unlink(tri_ext *ext, tri_watch *watch)
{
    if (watch->prev != NULL) {
        watch->prev->next = watch->next;
    } else {
        ext->watchers = watch->next;
    }
    if (watch->next != NULL) {
        watch->next->prev = watch->prev;
    }
}

void tri_unwatch_arrived(tri_worker *worker, tri_cell *cell,
                         tri_watching *watching)
{
    (void)worker;
    tri_ext *ext = tri_ext_of(cell);
    tri_watch *watch = watching->watch;
    // Relaxed: we own the cell.
    if (ext != NULL &&
        watching->target.id ==
            atomic_load_explicit(&cell->id, memory_order_relaxed) &&
        is_listed(cell, ext, watch, watching->watcher_id)) {
        tri_lock_take(&ext->lock);
        if (!tri_cell_is_zombie(cell)) {  // else it is on its way back
            watch_unlink(ext, watch);
            free(watch);
        }
        tri_lock_drop(&ext->lock);
    }
    free(watching);
}

void tri_watchers_tell(tri_worker *worker, tri_cell *cell, tr_reason reason)
{
    tri_ext *ext = tri_ext_of(cell);
    tri_watch *watch = ext != NULL ? ext->watchers : NULL;
    if (ext != NULL) {
        ext->watchers = NULL;
    }
    while (watch != NULL) {
        tri_watch *next = watch->next;
        send_back(worker, watch, reason);
        watch = next;
    }
}

/* ---- the watcher's side ---- */

tr_err tri_watch_ref(tri_worker *worker, tr_system *sys, tri_cell *watcher,
                     tr_ref target, bool in_order)
{
    tri_ext *ext = tri_ext_need(worker, watcher);
    tr_ref self = tri_cell_ref(sys, watcher);
    bool foreign = (target.cell >> 48) != sys->tag;
    if (ext == NULL) {
        return TR_ENOMEM;
    }
    if (!foreign && tri_map_get(&ext->watching, target.id) != NULL) {
        return TR_OK;  // DW7
    }
    tri_cell *cell = tri_ref_cell(target);
    // Relaxed: a glance; the target compares the id again.
    bool alive =
        !foreign && !tri_cell_is_zombie(cell) &&
        atomic_load_explicit(&cell->id, memory_order_relaxed) == target.id;
    // The target's half finds its room there: an unwatch relies on that.
    if (tri_mem_should_fail(&sys->mem) ||
        (alive && tri_ext_need(worker, cell) == NULL)) {
        return TR_ENOMEM;
    }
    tri_watch *watch = calloc(1, sizeof(*watch));
    tri_watching *watching = calloc(1, sizeof(*watching));
    uint64_t key = foreign ? UINT64_MAX - ext->correlation++ : target.id;
    if (watch == NULL || watching == NULL ||
        tri_map_put(&ext->watching, key, watching) != TR_OK) {
        free(watch);
        free(watching);
        return TR_ENOMEM;
    }
    *watch = (tri_watch){.node = {.kind = TRI_NODE_WATCH},
                         .watcher = self,
                         .target = target,
                         .key = key};
    if (in_order) {
        watch->node.flags = TRI_MSG_IN_ORDER;
    }
    *watching = (tri_watching){.node = {.kind = TRI_NODE_UNWATCH},
                               .target = target,
                               .watch = watch,
                               .watcher_id = self.id,
                               .in_order = in_order};
    if (cell == watcher) {
        tri_watch_arrived(worker, watcher, watch);
        return TR_OK;
    }
    if (!alive) {
        send_back(worker, watch, TR_NO_SUCH_ACTOR);
    } else if (tri_push_system(worker, cell, &watch->node)) {
        (void)tri_force_late(worker, cell, target.id);
    } else {
        const tri_virtual_ops *ops = elsewhere(worker, cell);
        if (ops == NULL || !ops->watch(worker, cell, watch)) {
            send_back(worker, watch, TR_NO_SUCH_ACTOR);
        }
    }
    return TR_OK;
}

/* Forgets the watch; the target is told, if it still can be. */
static void unwatch(tri_worker *worker, tri_watching *watching)
{
    tri_cell *cell = tri_ref_cell(watching->target);
    bool foreign = (watching->target.cell >> 48) != worker->sys->tag;
    // Relaxed: a glance. An ended target sends the other half back, and
    // that is not expected any more.
    if (foreign ||
        atomic_load_explicit(&cell->id, memory_order_relaxed) !=
            watching->target.id ||
        tri_cell_is_zombie(cell)) {
        free(watching);
    } else if (!tri_push_system(worker, cell, &watching->node)) {
        const tri_virtual_ops *ops = elsewhere(worker, cell);
        if (ops == NULL || !ops->unwatch(worker, cell, watching)) {
            free(watching);
        }
    }
}

/* Drops notices that have arrived and are not expected any more. */
static void drop_pending(tri_cell *watcher)
{
    tri_ext *ext = tri_ext_of(watcher);
    tri_node **link = &ext->pending;
    ext->pending_last = NULL;
    while (*link != NULL) {
        tri_watch *watch = (tri_watch *)(void *)*link;
        tri_watching *watching = tri_map_get(&ext->watching, watch->key);
        if (watching != NULL && watching->watch == watch) {
            ext->pending_last = *link;
            link = &(*link)->next;
        } else {
            *link = watch->node.next;
            free(watch);
        }
    }
    if (ext->pending == NULL) {
        watcher->slow &= (uint8_t)~TRI_SLOW_PENDING;
    }
}

void tri_unwatch_ref(tri_worker *worker, tri_cell *watcher, tr_ref target)
{
    tri_ext *ext = tri_ext_of(watcher);
    tri_watching *watching =
        ext != NULL ? tri_map_remove(&ext->watching, target.id) : NULL;
    if (watching == NULL) {
        return;  // DW8
    }
    drop_pending(watcher);
    unwatch(worker, watching);
}

static void unwatch_some(tri_worker *worker, tri_cell *cell, bool children)
{
    tri_ext *ext = tri_ext_of(cell);
    if (ext == NULL) {
        return;
    }
    tri_watching *watching;
    for (tri_map_iter it = tri_map_iter_begin(&ext->watching);
         (watching = tri_map_iter_next(&ext->watching, &it)) != NULL;) {
        tri_cell *target = tri_ref_cell(watching->target);
        if (!children && (watching->target.cell >> 48) == worker->sys->tag &&
            tri_cell_parent(target) == cell) {
            continue;
        }
        tri_map_remove(&ext->watching, it.key);
        unwatch(worker, watching);
    }
    drop_pending(cell);
}

void tri_unwatch_all(tri_worker *worker, tri_cell *cell)
{
    unwatch_some(worker, cell, true);
}

void tri_unwatch_all_but_children(tri_worker *worker, tri_cell *cell)
{
    unwatch_some(worker, cell, false);
}

bool tri_terminated_arrived(tri_worker *worker, tri_cell *cell,
                            tri_watch *watch)
{
    (void)worker;
    tri_ext *ext = tri_ext_of(cell);
    // Relaxed: we own the cell.
    uint64_t id = atomic_load_explicit(&cell->id, memory_order_relaxed);
    tri_watching *watching = ext != NULL && watch->watcher.id == id
                                 ? tri_map_get(&ext->watching, watch->key)
                                 : NULL;
    if (watching == NULL || watching->watch != watch ||
        tri_cell_life(cell) == TR_STATE_TERMINATED) {
        free(watch);
        return false;
    }
    watch->node.next = NULL;
    if (ext->pending == NULL) {
        ext->pending = &watch->node;
    } else {
        ext->pending_last->next = &watch->node;
    }
    ext->pending_last = &watch->node;
    cell->slow |= TRI_SLOW_PENDING;
    return true;
}

/* Hands one notice to the actor. Takes watch. */
static void deliver(tr_ctx *ctx, tri_watch *watch)
{
    tri_cell *cell = ctx->cell;
    tri_ext *ext = tri_ext_of(cell);
    tri_watching *watching = tri_map_remove(&ext->watching, watch->key);
    tr_ref actor = watch->target;
    uint32_t reason = watch->reason;
    free(watch);
    if (watching == NULL) {
        return;
    }
    free(watching);
    tr_terminated notice = {.actor = actor, .reason = reason};
    tr_msg *msg = tri_msg_new(&ctx->worker->cache, &tr_terminated_tr_type,
                              &notice, false);
    if (msg == NULL) {
        // The block of the watch would do, were it one: keep the promise
        // with a message on this stack.
        tri_handle_on_stack(ctx, &tr_terminated_tr_type, &notice,
                            sizeof(notice));
        return;
    }
    // Relaxed: we own the cell.
    msg->to_id = atomic_load_explicit(&cell->id, memory_order_relaxed);
    msg->sender = (tr_ref){0};
    tri_handle(ctx, msg);
}

void tri_terminated_turn(tr_ctx *ctx)
{
    tri_ext *ext = tri_ext_of(ctx->cell);
    tri_node *node = ext->pending;
    if (node != NULL) {
        ext->pending = node->next;
    }
    if (ext->pending == NULL) {
        ctx->cell->slow &= (uint8_t)~TRI_SLOW_PENDING;
    }
    if (node != NULL) {
        deliver(ctx, (tri_watch *)(void *)node);
    }
}

void tri_terminated_in_order(tr_ctx *ctx, tri_watch *watch)
{
    tri_ext *ext = tri_ext_of(ctx->cell);
    tri_watching *watching =
        ext != NULL ? tri_map_get(&ext->watching, watch->key) : NULL;
    // Relaxed: we own the cell.
    if (watch->watcher.id !=
            atomic_load_explicit(&ctx->cell->id, memory_order_relaxed) ||
        watching == NULL || watching->watch != watch) {
        free(watch);
        return;
    }
    deliver(ctx, watch);
}

tr_err tri_watch_request(tri_worker *worker, tr_system *sys, tr_ref watcher,
                         tr_ref target, bool on)
{
    tri_watch *request = tri_mem_calloc(&sys->mem, sizeof(*request));
    if (request == NULL) {
        return TR_ENOMEM;
    }
    request->node.kind = on ? TRI_NODE_WATCH_FOR : TRI_NODE_UNWATCH_FOR;
    request->watcher = watcher;
    request->target = target;
    tri_cell *cell = tri_ref_cell(watcher);
    // Relaxed: a glance; the watcher compares.
    if (atomic_load_explicit(&cell->id, memory_order_relaxed) != watcher.id ||
        !tri_push_system(worker, cell, &request->node)) {
        free(request);
    }
    return TR_OK;
}

/* As tr_watch, which panics; here no turn is running. */
static void watch_failed(tr_ctx *ctx)
{
    if (tri_cell_life(ctx->cell) == TR_STATE_RUNNING) {
        ctx->fail_text = strdup("tr_watch_for: out of memory");
        ctx->phase = TR_IN_HANDLER;
        ctx->msg = NULL;
        tri_life_fail(ctx, TR_ENOMEM);
    }
}

void tri_watch_requested(tr_ctx *ctx, tri_watch *request)
{
    tr_ref target = request->target;
    bool on = request->node.kind == TRI_NODE_WATCH_FOR;
    // Relaxed: we own the cell.
    bool mine = tri_cell_life(ctx->cell) != TR_STATE_TERMINATED &&
                request->watcher.id ==
                    atomic_load_explicit(&ctx->cell->id, memory_order_relaxed);
    free(request);
    if (mine && !on) {
        tri_unwatch_ref(ctx->worker, ctx->cell, target);
    } else if (mine && tri_watch_ref(ctx->worker, ctx->sys, ctx->cell, target,
                                     false) != TR_OK) {
        watch_failed(ctx);
    }
}
