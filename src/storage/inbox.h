/*
 * inbox.h - the queue in front of one of a store's threads.
 *
 * Threads: any may push, nudge and close; one takes.
 */
#ifndef TRI_STORAGE_INBOX_H
#define TRI_STORAGE_INBOX_H

#include "base/lock.h"
#include "base/world.h"
#include "storage/storage.h"

typedef struct tri_inbox {
    tri_world *world;
    tri_lock lock;  // over all but `word`
    tri_list ops;
    uint32_t count;  // of ops
    bool asleep;     // the taker parks, or is about to
    bool nudged;
    bool closed;
    _Atomic(uint32_t) word;  // counts wakes
} tri_inbox;

void tri_inbox_init(tri_inbox *inbox, tri_world *world);
/* Takes the ops out of the list. */
void tri_inbox_push(tri_inbox *inbox, tri_list *ops);
/* The same for two: reads go to the one, all others to the other. */
void tri_inbox_push_both(tri_inbox *reads, tri_inbox *writes, tri_list *ops);
/* Lets the taker return once, with or without ops. */
void tri_inbox_nudge(tri_inbox *inbox);
/* From now on the taker never waits. */
void tri_inbox_close(tri_inbox *inbox);
/*
 * Moves up to `max` ops to the list and returns how many. Waits for at least
 * one, at most `timeout` (0: not at all), or until a nudge or the close.
 */
uint32_t tri_inbox_take(tri_inbox *inbox, tri_list *out, uint32_t max,
                        tr_nanos timeout);
/* How many wait now. */
uint32_t tri_inbox_count(tri_inbox *inbox);
bool tri_inbox_is_closed(tri_inbox *inbox);

#endif
