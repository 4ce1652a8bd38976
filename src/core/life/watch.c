/*
 * watch.c - who watches whom, and exactly one tr_terminated for each watch.
 *
 * A watch is two records, see watch.h. The target's half goes to the target as
 * a system message, waits in its list, and comes back as the notice; so an end
 * never needs memory. While it is on its way the lane owns it; a sender that
 * finds the lane closed sends it back at once.
 *
 * Invariant: a tri_watch is sent back to its watcher exactly once, or its
 * target frees it on unwatch. The watcher frees a notice that it does not
 * expect. So there is one notice for each watch: rule 33 (exactly
 * one tr_terminated).
 */
#include "core/life/watch.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/map.h"
#include "core/cell/cell.h"
#include "core/cell/ext.h"
#include "core/cell/mem.h"
#include "core/cell/message.h"
#include "core/cell/ref.h"
#include "core/life/child_end.h"
#include "core/life/failure.h"
#include "core/life/force.h"
#include "core/mail/push.h"
#include "core/run/context.h"
#include "core/run/handle.h"
#include "core/run/worker.h"
#include "core/system.h"
#include "core/up.h"

/*
 * Checks that the caller may use the watches of the cell: it owns the cell, or
 * the cell belongs to an outside thread and outside_lock guards its watches.
 */
static void assert_may_use(tri_cell *cell)
{
    // Relaxed: fixed before the ref was known.
    TRI_CHECK(tri_cell_is_owned(cell) ||
              (atomic_load_explicit(&cell->flags, memory_order_relaxed) &
               TRI_CELL_OUTSIDE) != 0);
}

/* ---- the target's side ---- */

void tri_watch_send_back(tri_worker *worker, tri_watch *watch, tr_reason reason)
{
    TRI_CHECK(!tri_link_is_linked(&watch->link));
    tri_cell *watcher = tri_ref_cell(watch->watcher);
    watch->reason = (uint32_t)reason;
    watch->item.kind = TRI_ITEM_TERMINATED;
    if (watch->in_order) {
        if (tri_push(worker, watcher, watch->watcher.id,
                     (tr_msg *)(void *)watch) == TR_OK) {
            return;
        }
    } else if (tri_push_system(worker, watcher, &watch->item)) {
        return;
    }
    free(watch);  // the watcher has ended
}

/*
 * Returns the functions for a virtual actor, which may be on another node, or
 * NULL for any other actor.
 */
static const tri_virtual_ops *virtual_ops(tri_worker *worker, tri_cell *cell)
{
    return tri_cell_is_virtual(cell) ? tri_virtual_ops_of(worker->sys) : NULL;
}

void tri_watch_arrived(tri_worker *worker, tri_cell *cell, tri_watch *watch)
{
    assert_may_use(cell);
    // Relaxed: the caller owns the cell.
    uint64_t id = atomic_load_explicit(&cell->id, memory_order_relaxed);
    tri_ext *ext = tri_ext_need(worker, cell);
    if (watch->target.id != id || ext == NULL) {
        tri_watch_send_back(worker, watch, TR_NO_SUCH_ACTOR);
        return;
    }
    // Also if the actor ends: the unwatch may come next, in the same lane.
    tri_lock_take(&ext->lock);
    bool zombie = tri_cell_is_zombie(cell);
    if (!zombie) {
        tri_list_push_front(&ext->watch.watchers, &watch->link);
    }
    tri_lock_drop(&ext->lock);
    if (zombie) {
        tri_watch_send_back(worker, watch, TR_FORCED);
    }
}

/*
 * True if the watch is still in the target's list. An ordinary actor keeps it
 * there until it ends; a virtual actor may have sent it back at the end of an
 * earlier activation, so its list is searched.
 */
static bool is_listed(tri_cell *cell, tri_ext *ext, const tri_watch *watch,
                      uint64_t watcher_id)
{
    if (!tri_cell_is_virtual(cell)) {
        return true;
    }
    TRI_LIST_EACH_ITEM (other, &ext->watch.watchers, tri_watch, link) {
        if (other == watch) {
            return other->watcher.id == watcher_id;
        }
    }
    return false;
}

void tri_unwatch_arrived(tri_worker *worker, tri_cell *cell,
                         tri_watching *watching)
{
    (void)worker;
    tri_ext *ext = tri_ext_of(cell);
    tri_watch *watch = watching->watch;
    assert_may_use(cell);
    // Relaxed: the caller owns the cell.
    if (ext != NULL &&
        watching->target.id ==
            atomic_load_explicit(&cell->id, memory_order_relaxed) &&
        is_listed(cell, ext, watch, watching->watcher_id)) {
        tri_lock_take(&ext->lock);
        if (!tri_cell_is_zombie(
                cell)) {  // else force.c has sent the watch back
            tri_list_remove(&watch->link);
            free(watch);
        }
        tri_lock_drop(&ext->lock);
    }
    free(watching);
}

void tri_watchers_notify(tri_worker *worker, tri_cell *cell, tr_reason reason)
{
    TRI_CHECK_SLOW(tri_cell_is_zombie(cell) || tri_cell_is_owned(cell));
    tri_ext *ext = tri_ext_of(cell);
    tri_list watchers = {};
    if (ext != NULL) {
        tri_list_move(&watchers, &ext->watch.watchers);
    }
    tri_link *link;
    while ((link = tri_list_pop_front(&watchers)) != NULL) {
        tri_watch_send_back(worker, tri_list_item(link, tri_watch, link),
                            reason);
    }
}

/* ---- the watcher's side ---- */

/* Sends the target's half on its way, or back if there is no such target. */
static void send_watch(tri_worker *worker, tri_cell *watcher, tri_watch *watch,
                       bool alive)
{
    TRI_CHECK(watch->item.kind == TRI_ITEM_WATCH);
    tr_ref target = watch->target;
    tri_cell *cell = tri_ref_cell(target);
    if (cell == watcher) {
        tri_watch_arrived(worker, watcher, watch);
    } else if (!alive) {
        tri_watch_send_back(worker, watch, TR_NO_SUCH_ACTOR);
    } else if (tri_push_system(worker, cell, &watch->item)) {
        // The watch may be freed by now.
        (void)tri_zombie_answer(worker, cell, target.id);
    } else {
        const tri_virtual_ops *ops = virtual_ops(worker, cell);
        if (ops == NULL || !ops->watch(worker, cell, watch)) {
            tri_watch_send_back(worker, watch, TR_NO_SUCH_ACTOR);
        }
    }
}

/*
 * Returns the watch of target and sets *key to its key; NULL if there is none.
 * A watch of nobody, or of a ref of another system, has a key of its own, and
 * only until its notice is handled: there are few of them.
 */
static tri_watching *find_watching(const tr_system *sys, tri_ext *ext,
                                   tr_ref target, uint64_t *key)
{
    tri_watching *found = NULL;
    tri_map_iter it = {.key = target.id};
    if (tri_ref_is_here(sys, target)) {
        found = tri_map_get(&ext->watch.watching, target.id);
    } else if (ext->watch.foreign > 0) {
        it = tri_map_iter_begin(&ext->watch.watching);
        while ((found = tri_map_iter_next(&ext->watch.watching, &it)) != NULL &&
               !tr_ref_eq(found->target, target)) {
        }
    }
    if (key != NULL) {
        *key = it.key;
    }
    return found;
}

/* Removes a watch from those of the watcher and returns it, or NULL. */
static tri_watching *take_watching(const tr_system *sys, tri_ext *ext,
                                   uint64_t key)
{
    tri_watching *watching = tri_map_remove(&ext->watch.watching, key);
    if (watching != NULL && !tri_ref_is_here(sys, watching->target)) {
        TRI_CHECK(ext->watch.foreign > 0);
        ext->watch.foreign--;
    }
    return watching;
}

tr_err tri_watch_ref(tri_worker *worker, tr_system *sys, tri_cell *watcher,
                     tr_ref target, bool in_order)
{
    assert_may_use(watcher);
    tri_ext *ext = tri_ext_need(worker, watcher);
    tr_ref self = tri_cell_ref(sys, watcher);
    bool foreign = !tri_ref_is_here(sys, target);
    if (ext == NULL) {
        return TR_ENOMEM;
    }
    if (find_watching(sys, ext, target, NULL) != NULL) {
        return TR_OK;  // it is watched already
    }
    tri_cell *cell = tri_ref_cell(target);
    // Relaxed: the target compares the id again.
    bool alive =
        !foreign && !tri_cell_is_zombie(cell) &&
        atomic_load_explicit(&cell->id, memory_order_relaxed) == target.id;
    // The target needs an extension for its list. If it had none when the watch
    // arrives, the watch would come back, and an unwatch would not find it.
    if (tri_mem_should_fail(&sys->mem) ||
        (alive && tri_ext_need(worker, cell) == NULL)) {
        return TR_ENOMEM;
    }
    tri_watch *watch = calloc(1, sizeof(*watch));
    tri_watching *watching = calloc(1, sizeof(*watching));
    uint64_t key = foreign ? UINT64_MAX - ext->waits.correlation++ : target.id;
    if (watch == NULL || watching == NULL ||
        tri_map_put(&ext->watch.watching, key, watching) != TR_OK) {
        free(watch);
        free(watching);
        return TR_ENOMEM;
    }
    *watch = (tri_watch){.item = {.kind = TRI_ITEM_WATCH},
                         .watcher = self,
                         .target = target,
                         .key = key,
                         .in_order = in_order};
    *watching = (tri_watching){.item = {.kind = TRI_ITEM_UNWATCH},
                               .target = target,
                               .watch = watch,
                               .watcher_id = self.id};
    ext->watch.foreign += foreign;
    send_watch(worker, watcher, watch, alive);
    return TR_OK;
}

/*
 * Sends the watcher's half to the target, which ends the watch, or frees it if
 * the target has ended. Takes watching.
 */
static void unwatch(tri_worker *worker, tri_watching *watching)
{
    TRI_CHECK(watching->item.kind == TRI_ITEM_UNWATCH);
    tri_cell *cell = tri_ref_cell(watching->target);
    bool foreign = !tri_ref_is_here(worker->sys, watching->target);
    // Relaxed: the target compares again. A target that has ended has sent its
    // half back; the watcher does not expect it any more and frees it.
    if (foreign ||
        atomic_load_explicit(&cell->id, memory_order_relaxed) !=
            watching->target.id ||
        tri_cell_is_zombie(cell)) {
        free(watching);
    } else if (!tri_push_system(worker, cell, &watching->item)) {
        const tri_virtual_ops *ops = virtual_ops(worker, cell);
        if (ops == NULL || !ops->unwatch(worker, cell, watching)) {
            free(watching);
        }
    }
}

/* Clears the attention for notices if none is left. */
static void notices_taken(tri_cell *cell, const tri_ext *ext)
{
    if (ext->watch.pending == NULL) {
        cell->attention &= (uint16_t)~TRI_ATTENTION_TERMINATED;
    }
}

/* True if the watch of this notice has not ended. */
static bool is_expected(const tri_ext *ext, const tri_watch *watch)
{
    const tri_watching *watching =
        tri_map_get(&ext->watch.watching, watch->key);
    return watching != NULL && watching->watch == watch;
}

/* Frees the pending notices whose watch has ended. */
static void drop_pending(tri_cell *watcher)
{
    tri_ext *ext = tri_ext_of(watcher);
    tri_item **link = &ext->watch.pending;
    ext->watch.pending_last = NULL;
    while (*link != NULL) {
        tri_watch *watch = (tri_watch *)(void *)*link;
        if ((*link)->kind == TRI_ITEM_CHILD_ENDED || is_expected(ext, watch)) {
            ext->watch.pending_last = *link;
            link = &(*link)->next;
        } else {
            *link = watch->item.next;
            free(watch);
        }
    }
    notices_taken(watcher, ext);
}

void tri_unwatch_ref(tri_worker *worker, tri_cell *watcher, tr_ref target)
{
    assert_may_use(watcher);
    tri_ext *ext = tri_ext_of(watcher);
    uint64_t key;
    if (ext == NULL || find_watching(worker->sys, ext, target, &key) == NULL) {
        return;  // not watched
    }
    tri_watching *watching = take_watching(worker->sys, ext, key);
    drop_pending(watcher);
    unwatch(worker, watching);
}

void tri_unwatch_all(tri_worker *worker, tri_cell *cell)
{
    tri_ext *ext = tri_ext_of(cell);
    assert_may_use(cell);
    if (ext == NULL) {
        return;
    }
    tri_watching *watching;
    for (tri_map_iter it = tri_map_iter_begin(&ext->watch.watching);
         (watching = tri_map_iter_next(&ext->watch.watching, &it)) != NULL;) {
        (void)take_watching(worker->sys, ext, it.key);
        unwatch(worker, watching);
    }
    drop_pending(cell);
}

void tri_unwatch_children(tri_worker *worker, tri_cell *cell)
{
    tri_ext *ext = tri_ext_of(cell);
    assert_may_use(cell);
    if (ext == NULL || tri_map_count(&ext->watch.watching) == 0) {
        return;
    }
    tri_item *ended = NULL;
    tri_lock_take(&ext->lock);
    TRI_LIST_EACH_ITEM (child, &ext->family.children, tri_cell, sibling) {
        // Relaxed: a linked child keeps its id.
        tri_watching *watching = take_watching(
            worker->sys, ext,
            atomic_load_explicit(&child->id, memory_order_relaxed));
        if (watching != NULL) {
            watching->item.next = ended;
            ended = &watching->item;
        }
    }
    tri_lock_drop(&ext->lock);
    for (tri_item *next; ended != NULL; ended = next) {
        next = ended->next;
        unwatch(worker, (tri_watching *)(void *)ended);
    }
    drop_pending(cell);
}

bool tri_terminated_arrived(tri_worker *worker, tri_cell *cell,
                            tri_watch *watch)
{
    (void)worker;
    tri_ext *ext = tri_ext_of(cell);
    assert_may_use(cell);
    // Relaxed: the caller owns the cell.
    uint64_t id = atomic_load_explicit(&cell->id, memory_order_relaxed);
    tri_watching *watching = ext != NULL && watch->watcher.id == id
                                 ? tri_map_get(&ext->watch.watching, watch->key)
                                 : NULL;
    if (watching == NULL || watching->watch != watch ||
        tri_cell_life(cell) == TR_STATE_TERMINATED) {
        free(watch);
        return false;
    }
    tri_notice_add(cell, ext, &watch->item);
    return true;
}

void tri_notice_add(tri_cell *cell, tri_ext *ext, tri_item *item)
{
    assert_may_use(cell);
    item->next = NULL;
    if (ext->watch.pending == NULL) {
        ext->watch.pending = item;
    } else {
        ext->watch.pending_last->next = item;
    }
    ext->watch.pending_last = item;
    cell->attention |= TRI_ATTENTION_TERMINATED;
}

/* Runs the handler of tr_terminated. Takes watch. */
static void deliver(tr_ctx *ctx, tri_watch *watch)
{
    TRI_CHECK(watch->item.kind == TRI_ITEM_TERMINATED);
    tri_cell *cell = ctx->cell;
    tri_ext *ext = tri_ext_of(cell);
    tri_watching *watching = take_watching(ctx->sys, ext, watch->key);
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
        // Without memory the message is made on this stack: the notice must
        // not be lost.
        tri_handle_on_stack(ctx, &tr_terminated_tr_type, &notice,
                            sizeof(notice));
        return;
    }
    // Relaxed: the caller owns the cell.
    msg->to_id = atomic_load_explicit(&cell->id, memory_order_relaxed);
    msg->sender = (tr_ref){0};
    tri_handle(ctx, msg);
}

void tri_terminated_turn(tr_ctx *ctx)
{
    TRI_CHECK(ctx->cell->attention & TRI_ATTENTION_TERMINATED);
    tri_ext *ext = tri_ext_of(ctx->cell);
    tri_item *item = ext->watch.pending;
    if (item != NULL && item->kind == TRI_ITEM_CHILD_ENDED) {
        tri_child_end_turn(ctx);
        return;
    }
    if (item != NULL) {
        ext->watch.pending = item->next;
    }
    notices_taken(ctx->cell, ext);
    if (item != NULL) {
        deliver(ctx, (tri_watch *)(void *)item);
    }
}

void tri_terminated_in_order(tr_ctx *ctx, tri_watch *watch)
{
    tri_ext *ext = tri_ext_of(ctx->cell);
    TRI_CHECK(watch->in_order);
    tri_watching *watching =
        ext != NULL ? tri_map_get(&ext->watch.watching, watch->key) : NULL;
    // Relaxed: the caller owns the cell.
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
    request->item.kind = on ? TRI_ITEM_WATCH_FOR : TRI_ITEM_UNWATCH_FOR;
    request->watcher = watcher;
    request->target = target;
    tri_cell *cell = tri_ref_cell(watcher);
    TRI_CHECK(tri_ref_is_here(sys, watcher));
    // Relaxed: the watcher compares the id again.
    if (atomic_load_explicit(&cell->id, memory_order_relaxed) != watcher.id ||
        !tri_push_system(worker, cell, &request->item)) {
        free(request);
    }
    return TR_OK;
}

/* Fails as tr_watch does without memory; that panics, but here no turn runs. */
static void fail_to_watch(tr_ctx *ctx)
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
    bool on = request->item.kind == TRI_ITEM_WATCH_FOR;
    assert_may_use(ctx->cell);
    // Relaxed: the caller owns the cell.
    bool mine = tri_cell_life(ctx->cell) != TR_STATE_TERMINATED &&
                request->watcher.id ==
                    atomic_load_explicit(&ctx->cell->id, memory_order_relaxed);
    free(request);
    if (mine && !on) {
        tri_unwatch_ref(ctx->worker, ctx->cell, target);
    } else if (mine && tri_watch_ref(ctx->worker, ctx->sys, ctx->cell, target,
                                     false) != TR_OK) {
        fail_to_watch(ctx);
    }
}

void tr_watch(tr_ctx *ctx, tr_ref ref)
{
    TRI_CHECK(ctx->magic == TRI_CTX_MAGIC);
    if (tri_watch_ref(ctx->worker, ctx->sys, ctx->cell, ref, false) != TR_OK) {
        (tr_panic)(ctx, "tr_watch", "out of memory");
    }
}

void tr_watch_in_order(tr_ctx *ctx, tr_ref ref)
{
    TRI_CHECK(ctx->magic == TRI_CTX_MAGIC);
    if (tri_watch_ref(ctx->worker, ctx->sys, ctx->cell, ref, true) != TR_OK) {
        (tr_panic)(ctx, "tr_watch_in_order", "out of memory");
    }
}

void tr_unwatch(tr_ctx *ctx, tr_ref ref)
{
    TRI_CHECK(ctx->magic == TRI_CTX_MAGIC);
    tri_unwatch_ref(ctx->worker, ctx->cell, ref);
}
