/*
 * poll.c - one descriptor that tells a foreign event loop to call tr_poll.
 *
 * It is the poller's own descriptor: readable after a wake, when the next
 * timer is due, or when a descriptor some actor waits for is ready.
 */
#include "system/io.h"
#include "system/layers.h"

void tri_poll_ready(tr_system *sys)
{
    tri_io *io = tri_io_peek(sys);
    if (io != NULL && sys->options.poll) {
        sys->world->ops->poller_wake(io->poller);
    }
}

int tr_poll_fd(tr_system *sys)
{
    if (!sys->options.poll || !sys->world->ops->has_threads) {
        return -1;
    }
    tri_io *io;
    if (tri_io_need(sys, &io) != TR_OK) {
        return -1;
    }
    tri_poll_ready(sys);  // whatever happened before somebody could see it
    return sys->world->ops->poller_fd(io->poller);
}

void tri_poll_settle(tr_system *sys)
{
    tri_io *io = tri_io_peek(sys);
    if (io != NULL) {
        tri_io_collect(io, 0);
    }
}

void tri_poll_rearm(tr_system *sys)
{
    tri_io *io = tri_io_peek(sys);
    if (io == NULL) {
        return;
    }
    // Relaxed: the polling thread is the worker.
    tr_nanos due = atomic_load_explicit(&sys->driven_worker->wheel_next,
                                        memory_order_relaxed);
    sys->world->ops->poller_alarm(io->poller, due);
    if (tri_worker_runnable(sys->driven_worker) > 0) {
        sys->world->ops->poller_wake(io->poller);
    }
}
