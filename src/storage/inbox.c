/*
 * inbox.c - a list, a lock, and a word that the taker parks on.
 *
 * Invariant: the taker sets `parked` under the lock, when there is nothing to
 * take, and reads `wakes` under the same lock. A thread that then changes the
 * inbox clears `parked`, increments `wakes` and wakes the taker. If the taker has
 * not parked yet, its park finds `wakes` changed and returns at once.
 */
#include "storage/inbox.h"

#include <stdatomic.h>
#include <string.h>

#include "base/check.h"
#include "storage/store_op.h"

void tri_inbox_init(tri_inbox *inbox, tri_world *world)
{
    TRI_CHECK(world->magic == TRI_WORLD_MAGIC);
    memset(inbox, 0, sizeof(*inbox));
    inbox->world = world;
    tri_lock_init(&inbox->lock);
    tri_list_init(&inbox->ops);
}

/* Drops the lock after a change, and wakes the taker if it is parked. */
static void drop_and_wake(tri_inbox *inbox)
{
    bool was_parked = inbox->parked;

    tri_lock_assert_held(&inbox->lock);
    inbox->parked = false;
    tri_lock_drop(&inbox->lock);
    if (was_parked) {
        // Release: pairs with the acquire of the world's park.
        atomic_fetch_add_explicit(&inbox->wakes, 1, memory_order_release);
        inbox->world->ops->wake(inbox->world, &inbox->wakes, 1);
    }
}

void tri_inbox_push(tri_inbox *inbox, tri_list *ops)
{
    uint32_t count = 0;

    if (tri_list_is_empty(ops)) {
        return;
    }
    TRI_LIST_EACH (link, ops) {
        count++;
    }
    tri_lock_take(&inbox->lock);
    TRI_CHECK(!inbox->closed);
    tri_list_move(&inbox->ops, ops);
    inbox->count += count;
    drop_and_wake(inbox);
}

void tri_inbox_push_both(tri_inbox *reads, tri_inbox *writes, tri_list *ops)
{
    tri_list read_ops;

    tri_list_init(&read_ops);
    TRI_LIST_EACH_SAFE (link, ops) {
        if (tri_store_op_is_read(tri_container_of(link, tri_store_op, link))) {
            tri_list_remove(link);
            tri_list_push_back(&read_ops, link);
        }
    }
    tri_inbox_push(reads, &read_ops);
    tri_inbox_push(writes, ops);
}

void tri_inbox_wake(tri_inbox *inbox)
{
    tri_lock_take(&inbox->lock);
    inbox->wake_once = true;
    drop_and_wake(inbox);
}

void tri_inbox_close(tri_inbox *inbox)
{
    tri_lock_take(&inbox->lock);
    inbox->closed = true;
    drop_and_wake(inbox);
}

/*
 * Moves ops to `out` until *count is `max`. Returns whether the take may end:
 * it has ops, or the inbox was woken or closed. The lock is held.
 */
static bool take_some(tri_inbox *inbox, tri_list *out, uint32_t max,
                      uint32_t *count)
{
    bool ready = inbox->wake_once || inbox->closed;

    tri_lock_assert_held(&inbox->lock);
    inbox->wake_once = false;
    if (inbox->count <= max - *count) {
        // The whole list at once: walking it would hold the lock for longer.
        tri_list_move(out, &inbox->ops);
        *count += inbox->count;
        inbox->count = 0;
    }
    for (; inbox->count > 0 && *count < max; inbox->count--) {
        tri_list_push_back(out, tri_list_pop_front(&inbox->ops));
        (*count)++;
    }
    return ready || *count > 0;
}

uint32_t tri_inbox_take(tri_inbox *inbox, tri_list *out, uint32_t max,
                        tr_nanos timeout)
{
    uint32_t count = 0;

    TRI_CHECK(max > 0);
    for (;;) {
        tri_lock_take(&inbox->lock);
        bool ready = take_some(inbox, out, max, &count) || timeout == 0;
        inbox->parked = !ready;
        // Relaxed: the lock orders this read; see the invariant.
        uint32_t seen =
            atomic_load_explicit(&inbox->wakes, memory_order_relaxed);
        tri_lock_drop(&inbox->lock);
        if (ready) {
            return count;
        }
        if (!inbox->world->ops->park(inbox->world, &inbox->wakes, seen,
                                     timeout)) {
            timeout = 0;  // take once more: an op may have come since
        }
    }
}

uint32_t tri_inbox_count(tri_inbox *inbox)
{
    tri_lock_take(&inbox->lock);
    uint32_t count = inbox->count;
    tri_lock_drop(&inbox->lock);
    return count;
}

bool tri_inbox_is_closed(tri_inbox *inbox)
{
    tri_lock_take(&inbox->lock);
    bool closed = inbox->closed;
    tri_lock_drop(&inbox->lock);
    return closed;
}
