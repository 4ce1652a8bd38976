/*
 * inbox.c - a list, a lock and a word to wait on.
 *
 * Invariant: `asleep` is set only under the lock, when there is nothing to
 * take, after the word was read. Whoever then adds something clears it, moves
 * the word and wakes: a taker that has not parked yet finds the word changed.
 */
#include "storage/inbox.h"

#include <string.h>

#include "base/check.h"

void tri_inbox_init(tri_inbox *inbox, tri_world *world)
{
    memset(inbox, 0, sizeof(*inbox));
    inbox->world = world;
    tri_lock_init(&inbox->lock);
    tri_list_init(&inbox->ops);
}

/* Ends what began with the lock taken. */
static void drop_and_wake(tri_inbox *inbox)
{
    bool was_asleep = inbox->asleep;

    inbox->asleep = false;
    tri_lock_drop(&inbox->lock);
    if (was_asleep) {
        // Release: pairs with the acquire of the world's park.
        atomic_fetch_add_explicit(&inbox->word, 1, memory_order_release);
        inbox->world->ops->wake(inbox->world, &inbox->word, 1);
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

static bool is_read(const tri_store_op *op)
{
    return op->call == TR_STORE_LOAD || op->call == TR_STORE_READ ||
           op->call == TR_STORE_REMINDERS;
}

void tri_inbox_push_both(tri_inbox *reads, tri_inbox *writes, tri_list *ops)
{
    tri_list apart;

    tri_list_init(&apart);
    TRI_LIST_EACH_SAFE (link, ops) {
        if (is_read(tri_container_of(link, tri_store_op, link))) {
            tri_list_remove(link);
            tri_list_push_back(&apart, link);
        }
    }
    tri_inbox_push(reads, &apart);
    tri_inbox_push(writes, ops);
}

void tri_inbox_nudge(tri_inbox *inbox)
{
    tri_lock_take(&inbox->lock);
    inbox->nudged = true;
    drop_and_wake(inbox);
}

void tri_inbox_close(tri_inbox *inbox)
{
    tri_lock_take(&inbox->lock);
    inbox->closed = true;
    drop_and_wake(inbox);
}

/* Under the lock: takes what is there. True: there is a reason to return. */
static bool take_some(tri_inbox *inbox, tri_list *out, uint32_t max,
                      uint32_t *count)
{
    bool ready = inbox->nudged || inbox->closed;

    inbox->nudged = false;
    if (inbox->count <= max - *count) {
        // All of them: none is touched here, where others wait.
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

    for (;;) {
        tri_lock_take(&inbox->lock);
        bool ready = take_some(inbox, out, max, &count) || timeout == 0;
        inbox->asleep = !ready;
        // Relaxed: the lock orders it; see the invariant.
        uint32_t seen =
            atomic_load_explicit(&inbox->word, memory_order_relaxed);
        tri_lock_drop(&inbox->lock);
        if (ready) {
            return count;
        }
        if (!inbox->world->ops->park(inbox->world, &inbox->word, seen,
                                     timeout)) {
            timeout = 0;  // looks once more, as something may have come
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
