/*
 * load_queue.h - limits how many activations load their stored state at once.
 *
 * An activation that waits for its store occupies a stack, and a system has
 * max_parked of those. So at most `max` activations load at a time; the names
 * after them wait in this queue, with their mail pending in the record.
 *
 * Threads: any; the queue has its own lock, which may be taken under a
 * shard's.
 */
#ifndef TRI_CLUSTER_LOAD_QUEUE_H
#define TRI_CLUSTER_LOAD_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/lock.h"

struct tri_virtual;

typedef struct tri_load_queue {
    tri_lock lock;
    uint32_t loading, max;
    struct tri_virtual *first, *last;  // linked by tri_virtual.load_next
} tri_load_queue;

/* Counts one more activation that loads its state, whatever the limit says. */
void tri_load_queue_enter(tri_load_queue *queue);
/*
 * Appends the record if `max` activations are loading; returns whether it did.
 * With the shard's lock. Only records without an activation.
 */
bool tri_load_queue_wait(tri_load_queue *queue, struct tri_virtual *v);
/*
 * Ends what tri_load_queue_enter has counted. Returns true if others wait: the
 * caller starts the next of them.
 */
bool tri_load_queue_leave(tri_load_queue *queue);
/*
 * Removes and returns the record that may load now, or NULL. Its
 * `in_load_queue` stays set until the caller clears it under the shard's lock.
 */
struct tri_virtual *tri_load_queue_next(tri_load_queue *queue);

#endif
