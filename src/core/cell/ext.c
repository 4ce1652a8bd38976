/*
 * ext.c - making, giving back and checking the extension of a cell.
 *
 * Invariant: an extension is published only when it is filled, and at most one
 * for each cell: the exchange in tri_ext_make decides between two makers.
 */
#include "core/cell/ext.h"

#include <stdatomic.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/map.h"
#include "core/ask/wait.h"
#include "core/cell/cache.h"
#include "core/cell/cell.h"
#include "core/cell/mem.h"
#include "core/cell/message.h"
#include "core/life/child_end.h"
#include "core/life/family.h"
#include "core/mail/room.h"
#include "core/run/context.h"
#include "core/run/user_timer.h"
#include "core/run/worker.h"

_Static_assert(sizeof(tri_ext) <= 832, "TRI_CLASS_EXT in mem.c");

tri_ext *tri_ext_make(tri_worker *worker, tri_cell *cell)
{
    tri_ext *ext = NULL;
    tri_ext *made = tri_cache_alloc(&worker->cache, TRI_CLASS_EXT);
    if (made == NULL) {
        return NULL;
    }
    // Another thread may still read the edge of the former actor: atomics are
    // stored one by one, and the rest is cleared around them. Relaxed, all:
    // the exchange below publishes them.
    uint64_t seq = atomic_load_explicit(&made->edge.seq, memory_order_relaxed);
    // A thread that writes a path may still search the former family.
    tri_lock_take(&made->lock);
    memset(made, 0, offsetof(tri_ext, edge));
    tri_lock_drop(&made->lock);
    atomic_store_explicit(&made->edge.seq, (seq | 1) + 1, memory_order_relaxed);
    atomic_store_explicit(&made->waiting.call, NULL, memory_order_relaxed);
    atomic_store_explicit(&made->handles, 0, memory_order_relaxed);
    atomic_store_explicit(&made->room.counted, 0, memory_order_relaxed);
    atomic_store_explicit(&made->room.limit, 0, memory_order_relaxed);
    atomic_store_explicit(&made->room.soft_limit, 0, memory_order_relaxed);
    tri_lock_take(&made->room.lock);
    // A late sender that waits here has been woken and is about to leave.
    while (!tri_list_is_empty(&made->room.waiting)) {
        tri_lock_drop(&made->room.lock);
        tri_lock_yield();
        tri_lock_take(&made->room.lock);
    }
    made->room.closed = false;
    made->room.oldest = NULL;
    made->room.droppable = 0;
    atomic_store_explicit(&made->room.backlog, 0, memory_order_relaxed);
    tri_lock_drop(&made->room.lock);
    tri_map_init(&made->watch.watching, NULL, NULL);
    tri_map_init(&made->family.names, tri_name_is, NULL);
    // Release: publishes the extension. Acquire: sees that of another maker.
    if (!atomic_compare_exchange_strong_explicit(&cell->ext, &ext, made,
                                                 memory_order_acq_rel,
                                                 memory_order_acquire)) {
        tri_cache_free(&worker->cache, TRI_CLASS_EXT, made);
        return ext;
    }
    return made;
}

void tri_ext_drop(tri_worker *worker, tri_cell *cell)
{
    // Acquire: pairs with tri_ext_make of a late sender. Release: whoever makes
    // another extension for the cell sees that the actor has ended.
    tri_ext *ext =
        atomic_exchange_explicit(&cell->ext, NULL, memory_order_acq_rel);
    if (ext != NULL) {
        TRI_CHECK(ext->parked == NULL);
        TRI_CHECK(tri_list_is_empty(&ext->waits.list));
        TRI_CHECK(tri_list_is_empty(&ext->heap.blocks));
        TRI_CHECK(tri_list_is_empty(&ext->timers.list));
        TRI_CHECK(tri_list_is_empty(&ext->family.children));
        TRI_CHECK(ext->room.oldest == NULL);
        TRI_CHECK(ext->watch.pending == NULL);
        tri_child_end_free(ext->end);
        tri_room_close(worker, ext);
        tri_map_fini(&ext->watch.watching);
        tri_map_fini(&ext->family.names);
        tri_cache_free(&worker->cache, TRI_CLASS_EXT, ext);
    }
}

/* ---- checking ---- */

static void check_lists(const tri_ext *ext)
{
    tri_list_check(&ext->family.children);
    tri_list_check(&ext->watch.watchers);
    tri_list_check(&ext->waits.list);
    tri_list_check(&ext->timers.list);
    tri_list_check(&ext->room.waiting);
    TRI_CHECK(!tri_list_is_empty(&ext->heap.blocks) || ext->heap.bytes == 0);
    TRI_CHECK((ext->watch.pending == NULL) ||
              (ext->watch.pending_last != NULL &&
               ext->watch.pending_last->next == NULL));
}

static uint32_t list_length(const tri_list *list)
{
    uint32_t length = 0;
    TRI_LIST_EACH (link, list) {
        length++;
    }
    return length;
}

static void check_counts(tri_ext *ext)
{
    TRI_CHECK(list_length(&ext->room.waiting) == ext->room.count);
    // Relaxed: no other thread runs.
    TRI_CHECK(list_length(&ext->family.children) <=
              atomic_load_explicit(&ext->family.live, memory_order_relaxed));
}

/* Checks a chain of items of which the last is known; returns its length. */
static uint32_t check_chain(const tri_item *first, const tri_item *last)
{
    uint32_t length = 0;
    for (const tri_item *item = first; item != NULL; item = item->next) {
        TRI_CHECK(item->next != NULL || item == last);
        length++;
    }
    return length;
}

static void check_mail(tri_ext *ext)
{
    // Relaxed: no other thread runs.
    TRI_CHECK(check_chain(ext->room.oldest, ext->room.newest) ==
              atomic_load_explicit(&ext->room.backlog, memory_order_relaxed));
    TRI_CHECK(check_chain(ext->keep.stash, ext->keep.stash_last) ==
              ext->keep.stashed);
    TRI_CHECK(ext->urgent.first[0] == NULL);  // ordinary mail is in the queue
    for (int p = 1; p < TRI_PRIORITIES; p++) {
        (void)check_chain(ext->urgent.first[p], ext->urgent.last[p]);
        TRI_CHECK(ext->urgent.first[p] == NULL ||
                  ext->urgent.first[p]->priority == p);
    }
    for (const tri_item *item = ext->keep.kept; item != NULL;
         item = item->next) {
        TRI_CHECK(item->flags & TRI_MSG_KEPT);
    }
}

static void check_timers(const tri_ext *ext)
{
    const tri_timers *timers = &ext->timers;
    bool found = timers->receive_timeout == NULL;
    TRI_LIST_EACH_ITEM (timer, &timers->list, tri_user_timer, link) {
        TRI_CHECK(timer->id != 0 && timer->id <= timers->last_id);
        TRI_CHECK(!timer->cancelled);  // a cancelled timer is in no list
        found |= timer == timers->receive_timeout;
    }
    TRI_CHECK(found);
    TRI_CHECK(timers->receive_timeout == NULL || timers->receive_span > 0);
}

static void check_waits(const tri_ext *ext)
{
    TRI_LIST_EACH_ITEM (wait, &ext->waits.list, tri_wait, link) {
        TRI_CHECK(wait->correlation <= ext->waits.correlation);
    }
}

/* Checks the parked turns and the edge of the turn that waits for an actor. */
static void check_parked(tri_ext *ext)
{
    bool has_edge = false;
    for (const tr_ctx *ctx = ext->parked; ctx != NULL; ctx = ctx->next) {
        TRI_CHECK(ctx->magic == TRI_CTX_MAGIC);
        TRI_CHECK(ctx->parked && ctx->fiber != NULL);
        has_edge |= ctx->wait != NULL && ctx->wait->has_edge;
    }
    // Relaxed: no other thread runs.
    uint64_t seq = atomic_load_explicit(&ext->edge.seq, memory_order_relaxed);
    TRI_CHECK((seq % 2 == 1) == has_edge);
}

void tri_ext_check(const tri_ext *ext)
{
    tri_ext *atomics = (tri_ext *)(uintptr_t)ext;  // loads are not const
    check_lists(ext);
    check_counts(atomics);
    check_mail(atomics);
    check_timers(ext);
    check_waits(ext);
    check_parked(atomics);
}
