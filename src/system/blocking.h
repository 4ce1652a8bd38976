/*
 * blocking.h - the threads that run blocking calls for actors (tr_blocking).
 *
 * Threads: any.
 */
#ifndef TRI_SYSTEM_BLOCKING_H
#define TRI_SYSTEM_BLOCKING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/lock.h"
#include "base/world.h"
#include "troupe/base.h"

enum { TRI_BLOCKING_MAX = 256 };  // threads, whatever the options say

/* Part of tri_io. */
typedef struct tri_blocking {
    tr_system *sys;
    tri_lock lock;  // for the queue, the numbers and the threads
    struct job *first, *last;
    uint32_t queued, idle_threads, thread_count;
    tri_thread *threads[TRI_BLOCKING_MAX];
    _Atomic(uint32_t) word;  // changes with every job; idle threads park on it
    _Atomic(bool) closing;
} tri_blocking;

void tri_blocking_init(tri_blocking *blocking, tr_system *sys);
/* Ends the threads. Every actor has ended, so no turn waits for a job. */
void tri_blocking_close(tri_blocking *blocking);

#endif
