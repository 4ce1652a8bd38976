/*
 * deadletter.h - messages that no actor handles.
 *
 * Threads: any.
 */
#ifndef TRI_SYSTEM_DEADLETTER_H
#define TRI_SYSTEM_DEADLETTER_H

#include <stdint.h>

#include "base/lock.h"
#include "core/types.h"
#include "troupe/base.h"
#include "troupe/observe.h"

enum {
    TRI_DEAD_RING = 1024,         // dead letters that are kept by default
    TRI_DEAD_RING_MAX = 1000000,  // tr_system_options.dead_letters, at most
    TRI_DEAD_LOGGED = 10,  // lines per second in the log; the rest is counted
};

typedef struct tri_dead_record {
    tr_ref to, sender;
    char type[TR_TYPE_NAME_SIZE];
    char content[TR_DEAD_CONTENT_SIZE];
    uint32_t reason;
    tr_nanos at;
} tri_dead_record;

/* Part of tri_layers. Everything is protected by `lock`, a leaf. */
typedef struct tri_dead_letters {
    tri_lock lock;
    tri_dead_record *ring;  // owned
    uint32_t size;          // of the ring
    uint64_t count;   // since the start; the newest is ring[(count - 1) % size]
    tr_nanos window;  // start of the second in which `logged` counts
    uint32_t logged;  // lines written in this window
    uint32_t suppressed;  // dead letters since the last line, not logged
} tri_dead_letters;

/* Makes a ring of this size. Errors: TR_EINVAL, TR_ENOMEM. */
tr_err tri_dead_letters_init(tri_dead_letters *dead, uint32_t size);
void tri_dead_letters_fini(tri_dead_letters *dead);

/* Records, logs and publishes msg, and answers a request. Takes msg. */
void tri_dead_letter(tri_worker *worker, tr_ref to, tr_msg *msg,
                     uint32_t reason);
/* Records and logs a message for which there was no memory. */
void tri_dead_letter_lost(tr_system *sys, tr_ref to, const tr_type *type,
                          uint32_t reason);
/* Returns how many dead letters there have been. */
uint64_t tri_dead_letter_count(tr_system *sys);

#endif
