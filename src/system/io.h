/*
 * io.h - waiting for descriptors and for blocking calls.
 */
#ifndef TRI_SYSTEM_IO_H
#define TRI_SYSTEM_IO_H

#include "core/lifecycle.h"

enum { TRI_BLOCKING_MAX = 256 };

typedef struct tri_io {
    tr_system *sys;
    tri_poller *poller;
    tri_thread *thread;  // waits for descriptors; NULL when polled
    _Atomic(bool) closing;

    tri_lock fds_lock;
    tri_map fds;      // token -> the turn that waits
    tri_map numbers;  // descriptor + 1 -> the same
    uint64_t token;

    tri_lock jobs_lock;
    struct job *first_job, *last_job;
    uint32_t queued, idle_threads, threads;
    _Atomic(uint32_t) jobs_word;  // changes with every job
    tri_thread *pool[TRI_BLOCKING_MAX];
} tri_io;

/* Made on first use. Errors: TR_ENOMEM, TR_ELIMIT. */
tr_err tri_io_need(tr_system *sys, tri_io **out);
tri_io *tri_io_peek(tr_system *sys);
/* Hands ready descriptors to those who wait for them. */
void tri_io_collect(tri_io *io, tr_nanos timeout);

#endif
