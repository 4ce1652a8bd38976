/*
 * load_queue.c - limits how many activations load their stored state at once.
 *
 * Invariant: while a record waits, some activation is loading; each one that
 * leaves starts the next. An activation that must begin at once (the one
 * before it has left mail) is counted although the limit is reached.
 */
#include "cluster/virtual/load_queue.h"

#include <stddef.h>

#include "base/check.h"
#include "cluster/virtual/virtual.h"

void tri_load_queue_enter(tri_load_queue *queue)
{
    TRI_CHECK(queue != NULL);
    tri_lock_take(&queue->lock);
    queue->loading++;
    tri_lock_drop(&queue->lock);
}

bool tri_load_queue_wait(tri_load_queue *queue, tri_virtual *v)
{
    TRI_CHECK(!v->in_load_queue);
    TRI_CHECK(v->activation == NULL);
    tri_lock_take(&queue->lock);
    bool full = queue->loading >= queue->max;
    if (full) {
        v->load_next = NULL;
        v->in_load_queue = 1;
        if (queue->first == NULL) {
            queue->first = v;
        } else {
            queue->last->load_next = v;
        }
        queue->last = v;
    }
    tri_lock_drop(&queue->lock);
    return full;
}

bool tri_load_queue_leave(tri_load_queue *queue)
{
    tri_lock_take(&queue->lock);
    TRI_CHECK(queue->loading > 0);
    queue->loading--;
    bool waiting = queue->first != NULL;
    tri_lock_drop(&queue->lock);
    return waiting;
}

tri_virtual *tri_load_queue_next(tri_load_queue *queue)
{
    tri_virtual *v = NULL;
    tri_lock_take(&queue->lock);
    if (queue->loading < queue->max && queue->first != NULL) {
        v = queue->first;
        TRI_CHECK(v->in_load_queue);
        queue->first = v->load_next;
    }
    tri_lock_drop(&queue->lock);
    return v;
}
