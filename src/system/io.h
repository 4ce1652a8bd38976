/*
 * io.h - waiting for descriptors, and the poller behind it.
 *
 * A tri_io is made on first use and belongs to the system.
 *
 * Threads: any.
 */
#ifndef TRI_SYSTEM_IO_H
#define TRI_SYSTEM_IO_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/lock.h"
#include "base/map.h"
#include "base/world.h"
#include "core/types.h"
#include "system/blocking.h"
#include "troupe/base.h"

typedef struct tri_io {
    tr_system *sys;
    tri_poller *poller;
    tri_thread *thread;         // waits in the poller; NULL in a driven system
    _Atomic(uint32_t) watched;  // whether the thread runs: tri_io_watch
    _Atomic(bool) closing;

    tri_lock lock;   // for the next three
    tri_map waits;   // token -> the wait of a turn
    tri_map by_fd;   // descriptor + 1 -> the same
    uint64_t token;  // the latest one

    tri_lock streams_lock;  // for the next one
    tri_list streams;       // tr_stream.link

    tri_lock files_lock;  // for the next one, and for the end of a file
    tri_list files;       // tr_file.link

    tri_blocking blocking;
} tri_io;

/* Returns the system's tri_io in *out. Errors: TR_ENOMEM, TR_ELIMIT. */
TR_NODISCARD tr_err tri_io_need(tr_system *sys, tri_io **out);
/* Returns the system's tri_io, or NULL if it was never needed. */
tri_io *tri_io_peek(tr_system *sys);
/*
 * Starts the thread that waits in the poller, if none does, unless the system is driven.
 * Errors: TR_ENOMEM, TR_ELIMIT.
 */
TR_NODISCARD tr_err tri_io_watch(tri_io *io);
/* Waits in the poller and wakes the turns whose descriptors are ready. */
void tri_io_collect(tri_io *io, tr_nanos timeout);
/* Wakes the turn that is parked on the wait. Any thread. */
void tri_io_wake_turn(tr_system *sys, tri_wait *wait, tr_err err);
/* Ends the threads of tr_wait_fd and tr_blocking and frees the tri_io. */
void tri_io_close(tr_system *sys);

#endif
