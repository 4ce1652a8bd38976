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

/* A thread, or the place for one. A free slot has only zero bytes. */
typedef struct tri_blocking_slot {
    uint8_t state;       // of slot_state (blocking.c); with the lock
    tri_thread *thread;  // written by the turn that starts it, then read by
                         // tri_blocking_close, when no turn is left
} tri_blocking_slot;

/* Part of tri_io. */
typedef struct tri_blocking {
    tr_system *sys;
    tri_lock lock;  // for the queue, the numbers and the slots
    struct job *first, *last;
    uint32_t queued, idle_threads;
    uint32_t thread_count;  // slots that are not FREE
    tri_blocking_slot slots[TRI_BLOCKING_MAX];
    _Atomic(uint32_t) word;  // changes with every job; idle threads park on it
    _Atomic(bool) closing;
} tri_blocking;

void tri_blocking_init(tri_blocking *blocking, tr_system *sys);
/* Ends the threads. Every actor has ended, so no turn waits for a job. */
void tri_blocking_close(tri_blocking *blocking);

#endif
