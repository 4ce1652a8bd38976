/*
 * inbox.h - the queue of operations in front of a thread of a store.
 *
 * Threads: any thread may push, wake and close; one thread, the taker, takes.
 */
#ifndef TRI_STORAGE_INBOX_H
#define TRI_STORAGE_INBOX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/lock.h"
#include "base/world.h"
#include "troupe/base.h"

typedef struct tri_inbox {
    tri_world *world;
    tri_lock lock;  // over all fields except `wakes`
    tri_list ops;   // of tri_store_op
    uint32_t count;
    bool parked;     // the taker parks, or is about to
    bool wake_once;  // the next take returns at once
    bool closed;
    _Atomic(uint32_t) wakes;  // the taker parks on this word
} tri_inbox;

void tri_inbox_init(tri_inbox *inbox, tri_world *world);
/* Moves all ops of the list into the inbox, which must not be closed. */
void tri_inbox_push(tri_inbox *inbox, tri_list *ops);
/* Moves the ops that only read to `reads` and all others to `writes`. */
void tri_inbox_push_both(tri_inbox *reads, tri_inbox *writes, tri_list *ops);
/* Lets one take return at once, with or without ops. */
void tri_inbox_wake(tri_inbox *inbox);
/* Lets every take return at once from now on. */
void tri_inbox_close(tri_inbox *inbox);
/*
 * Moves up to `max` ops to the end of `out` and returns how many. Waits for at
 * least one, but no longer than `timeout` (0: does not wait) and only until
 * tri_inbox_wake or tri_inbox_close is called.
 */
uint32_t tri_inbox_take(tri_inbox *inbox, tri_list *out, uint32_t max,
                        tr_nanos timeout);
/* Returns how many ops wait now. */
uint32_t tri_inbox_count(tri_inbox *inbox);
bool tri_inbox_is_closed(tri_inbox *inbox);

#endif
