/*
 * io.c - tr_wait_fd and tr_blocking.
 *
 * The turn parks on a wait on its own stack; another thread wakes it with the
 * wait's node. A turn that is cut short asks `cancel` first: true means that
 * nobody will touch the wait any more, false that the wake-up is under way, so
 * the turn stays parked for that moment. Hence no record outlives its turn,
 * except a job whose function is still running.
 */
#include "system/io.h"

#include <stdlib.h>

#include "system/layers.h"

enum { EVENTS = 64 };

static void wake_turn(tr_system *sys, tri_wait *wait, tr_err err)
{
    wait->err = err;
    wait->node.kind = TRI_NODE_WAKE;
    tri_actor_from who = tri_enter((tr_from){.sys = sys});
    bool taken = tri_push_system(who.worker, wait->cell, &wait->node);
    TRI_CHECK(taken);  // the turn is parked, so its actor lives
    tri_leave(&who);
}

/* ---- descriptors ---- */

typedef struct fd_wait {
    tri_wait wait;  // first: the cancel function gets it
    tri_io *io;
    uint64_t token;
    int fd;
    uint32_t ready;
} fd_wait;

static uint64_t number_of(int fd)
{
    return (uint64_t)fd + 1;  // a key is not zero
}

/* With the lock: nobody waits for this token any more; who did, or NULL. */
static fd_wait *fd_disarm(tri_io *io, uint64_t token)
{
    fd_wait *fd = tri_map_remove(&io->fds, token);
    if (fd != NULL) {
        tri_map_remove(&io->numbers, number_of(fd->fd));
        io->sys->world->ops->poller_remove(io->poller, fd->fd);
    }
    return fd;
}

static bool fd_cancel(tri_wait *wait)
{
    fd_wait *fd = (fd_wait *)(void *)wait;
    tri_io *io = fd->io;
    tri_lock_take(&io->fds_lock);
    bool ours = fd_disarm(io, fd->token) != NULL;
    tri_lock_drop(&io->fds_lock);
    return ours;
}

void tri_io_collect(tri_io *io, tr_nanos timeout)
{
    tri_world *world = io->sys->world;
    tri_fd_event events[EVENTS];
    uint32_t count =
        world->ops->poller_wait(io->poller, events, EVENTS, timeout);
    for (uint32_t i = 0; i < count; i++) {
        tri_lock_take(&io->fds_lock);
        fd_wait *fd = fd_disarm(io, events[i].token);
        if (fd != NULL) {
            fd->ready = events[i].events;
        }
        tri_lock_drop(&io->fds_lock);
        if (fd != NULL) {
            wake_turn(io->sys, &fd->wait, TR_OK);
        }
    }
}

static void io_main(void *arg)
{
    tri_io *io = arg;
    // Acquire: pairs with tri_io_close.
    while (!atomic_load_explicit(&io->closing, memory_order_acquire)) {
        tri_io_collect(io, TR_FOREVER);
    }
}

tri_io *tri_io_peek(tr_system *sys)
{
    // Acquire: pairs with tri_io_need.
    return atomic_load_explicit(&sys->io, memory_order_acquire);
}

tr_err tri_io_need(tr_system *sys, tri_io **out)
{
    *out = tri_io_peek(sys);
    if (*out != NULL) {
        return TR_OK;
    }
    tri_io *io = tri_mem_calloc(&sys->mem, sizeof(*io));
    if (io == NULL) {
        return TR_ENOMEM;
    }
    io->sys = sys;
    tri_map_init(&io->fds, NULL, NULL);
    tri_map_init(&io->numbers, NULL, NULL);
    tr_err err = sys->world->ops->poller_new(sys->world, &io->poller);
    if (err != TR_OK) {
        free(io);
        return err;
    }
    tri_io *none = NULL;
    // Release: publishes the poller; acquire: another's.
    if (!atomic_compare_exchange_strong_explicit(
            &sys->io, &none, io, memory_order_acq_rel, memory_order_acquire)) {
        sys->world->ops->poller_free(io->poller);
        free(io);
        *out = none;
        return TR_OK;
    }
    *out = io;
    return TR_OK;
}

/* With the lock: somebody must look at the poller from now on. */
static tr_err watch_poller(tri_io *io)
{
    tr_system *sys = io->sys;
    if (io->thread != NULL || sys->options.poll ||
        !sys->world->ops->has_threads) {
        return TR_OK;  // where we are driven, driving collects
    }
    return sys->world->ops->thread_start(sys->world, &io->thread, "tr-io",
                                         io_main, io);
}

/* With the lock: makes the wait known, to the poller last. */
static tr_err fd_enlist(tri_io *io, fd_wait *fd, uint32_t events)
{
    fd->token = ++io->token;
    TR_TRY(watch_poller(io));
    TR_TRY(tri_map_put(&io->fds, fd->token, fd));
    tr_err err = tri_map_put(&io->numbers, number_of(fd->fd), fd);
    if (err == TR_OK) {
        err = io->sys->world->ops->poller_add(io->poller, fd->fd, events,
                                              fd->token);
        if (err != TR_OK) {
            tri_map_remove(&io->numbers, number_of(fd->fd));
        }
    }
    if (err != TR_OK) {
        tri_map_remove(&io->fds, fd->token);
    }
    return err;
}

/* A descriptor has one waiter: an event is told once. */
static tr_err fd_arm(tr_ctx *ctx, fd_wait *fd, uint32_t events)
{
    tri_io *io = fd->io;
    tr_ref first = {0};
    tri_lock_take(&io->fds_lock);
    const fd_wait *other = tri_map_get(&io->numbers, number_of(fd->fd));
    if (other != NULL) {  // its turn is parked: the actor lives
        first = tri_cell_ref(io->sys, other->wait.cell);
    }
    tr_err err = other != NULL ? TR_EEXIST : fd_enlist(io, fd, events);
    tri_lock_drop(&io->fds_lock);
    if (other != NULL) {
        char path[TRI_PATH_MAX];
        tri_error_set(ctx,
                      "descriptor %d is being waited for already, by %s; "
                      "give each waiter a dup() of its own",
                      fd->fd, tr_ref_path(ctx, first, path, sizeof(path)));
    }
    return err;
}

tr_err tr_wait_fd(tr_ctx *ctx, int fd, uint32_t events, tr_nanos timeout,
                  uint32_t *ready)
{
    if (ready != NULL) {
        *ready = 0;
    }
    if (fd < 0 || events == 0 || timeout < 0) {
        return TR_EINVAL;
    }
    if (!tri_can_park(ctx)) {
        return TR_EWOULDBLOCK;
    }
    if (ctx->cancel != TR_OK) {
        return ctx->cancel;
    }
    tri_io *io;
    TR_TRY(tri_io_need(ctx->sys, &io));
    fd_wait wait = {.wait = {.kind = TRI_WAIT_OUTSIDE,
                             .cancel = fd_cancel,
                             .site = "tr_wait_fd"},
                    .io = io,
                    .fd = fd};
    tr_nanos now = tri_clock(ctx->worker);
    TR_TRY(tri_wait_begin(ctx, &wait.wait,
                          timeout >= TR_FOREVER - now ? TR_FOREVER
                                                      : now + timeout));
    tr_err err = fd_arm(ctx, &wait, events);
    if (err == TR_OK) {
        err = tri_park(ctx, &wait.wait);
    }
    tri_wait_finish(ctx, &wait.wait);
    if (ready != NULL) {
        *ready = wait.ready;
    }
    return err;
}

/* ---- blocking calls ---- */

enum { SHARED, LEFT, DONE };  // job.state

typedef struct job {
    struct job *next;
    tri_wait *wait;  // valid unless LEFT
    _Atomic(uint32_t) state;
    tr_err (*fn)(void *arg);
    void *arg;
} job;

typedef struct job_wait {
    tri_wait wait;  // first: the cancel function gets it
    job *job;
} job_wait;

/* The turn goes; the function runs on and its thread frees the job. */
static bool job_cancel(tri_wait *wait)
{
    job_wait *mine = (job_wait *)(void *)wait;
    uint32_t shared = SHARED;
    // Acquire and release: the two sides agree on who frees the job.
    return atomic_compare_exchange_strong_explicit(&mine->job->state, &shared,
                                                   LEFT, memory_order_acq_rel,
                                                   memory_order_acquire);
}

static void job_done(tr_system *sys, job *done, tr_err err)
{
    uint32_t shared = SHARED;
    // Acquire and release: as job_cancel.
    if (atomic_compare_exchange_strong_explicit(&done->state, &shared, DONE,
                                                memory_order_acq_rel,
                                                memory_order_acquire)) {
        wake_turn(sys, done->wait, err);
    } else {
        free(done);
    }
}

static job *job_take(tri_io *io)
{
    tri_world *world = io->sys->world;
    for (;;) {
        // Acquire: the word is read before the queue; see job_put.
        uint32_t word =
            atomic_load_explicit(&io->jobs_word, memory_order_acquire);
        tri_lock_take(&io->jobs_lock);
        job *next = io->first_job;
        if (next != NULL) {
            io->first_job = next->next;
            if (io->first_job == NULL) {
                io->last_job = NULL;
            }
            io->queued--;
        } else {
            io->idle_threads++;
        }
        tri_lock_drop(&io->jobs_lock);
        if (next != NULL) {
            return next;
        }
        // Acquire: pairs with tri_io_close.
        bool closing = atomic_load_explicit(&io->closing, memory_order_acquire);
        if (!closing) {
            world->ops->park(world, &io->jobs_word, word, TR_FOREVER);
        }
        tri_lock_take(&io->jobs_lock);
        io->idle_threads--;
        tri_lock_drop(&io->jobs_lock);
        if (closing) {
            return NULL;
        }
    }
}

static void pool_main(void *arg)
{
    tri_io *io = arg;
    job *next;
    while ((next = job_take(io)) != NULL) {
        job_done(io->sys, next, next->fn(next->arg));
    }
}

/*
 * With the lock: one thread more, if the idle ones are fewer than the jobs
 * that would then wait. False: there is none at all.
 */
static bool enough_threads(tri_io *io)
{
    tr_system *sys = io->sys;
    uint32_t max = sys->options.blocking_threads < TRI_BLOCKING_MAX
                       ? sys->options.blocking_threads
                       : TRI_BLOCKING_MAX;
    if (io->queued >= io->idle_threads && io->threads < max &&
        sys->world->ops->thread_start(sys->world, &io->pool[io->threads],
                                      "tr-block", pool_main, io) == TR_OK) {
        io->threads++;
    }
    return io->threads > 0;
}

/* Takes the job on TR_OK. */
static tr_err job_put(tri_io *io, job *added)
{
    tri_world *world = io->sys->world;
    tri_lock_take(&io->jobs_lock);
    if (!enough_threads(io)) {
        tri_lock_drop(&io->jobs_lock);
        return TR_ELIMIT;
    }
    io->queued++;
    if (io->last_job != NULL) {
        io->last_job->next = added;
    } else {
        io->first_job = added;
    }
    io->last_job = added;
    tri_lock_drop(&io->jobs_lock);
    // Release: after the queue; whoever read the old word looks again.
    atomic_fetch_add_explicit(&io->jobs_word, 1, memory_order_acq_rel);
    world->ops->wake(world, &io->jobs_word, 1);
    return TR_OK;
}

tr_err tr_blocking(tr_ctx *ctx, tr_err (*fn)(void *arg), void *arg)
{
    if (!tri_can_park(ctx)) {
        return TR_EWOULDBLOCK;
    }
    if (ctx->cancel != TR_OK) {
        return ctx->cancel;
    }
    tri_io *io;
    TR_TRY(tri_io_need(ctx->sys, &io));
    job *mine = tri_mem_calloc(&ctx->sys->mem, sizeof(*mine));
    if (mine == NULL) {
        return TR_ENOMEM;
    }
    job_wait wait = {.wait = {.kind = TRI_WAIT_OUTSIDE,
                              .cancel = job_cancel,
                              .site = "tr_blocking"},
                     .job = mine};
    mine->wait = &wait.wait;
    mine->fn = fn;
    mine->arg = arg;
    tr_err err = tri_wait_begin(ctx, &wait.wait, TR_FOREVER);
    if (err != TR_OK) {
        free(mine);
        return err;
    }
    err = job_put(io, mine);
    if (err != TR_OK) {
        tri_wait_finish(ctx, &wait.wait);
        free(mine);
        return err;
    }
    err = tri_park(ctx, &wait.wait);
    tri_wait_finish(ctx, &wait.wait);
    // Acquire: as job_done; DONE means that the job is ours to free.
    if (atomic_load_explicit(&mine->state, memory_order_acquire) == DONE) {
        free(mine);
    }
    return err;
}

void tri_io_close(tr_system *sys)
{
    tri_io *io = tri_io_peek(sys);
    tri_world *world = sys->world;
    if (io == NULL) {
        return;
    }
    // Release: pairs with io_main and job_take.
    atomic_store_explicit(&io->closing, true, memory_order_release);
    if (io->thread != NULL) {
        world->ops->poller_wake(io->poller);
        world->ops->thread_join(world, io->thread);
    }
    atomic_fetch_add_explicit(&io->jobs_word, 1, memory_order_acq_rel);
    world->ops->wake(world, &io->jobs_word, UINT32_MAX);
    for (uint32_t i = 0; i < io->threads; i++) {
        world->ops->thread_join(world, io->pool[i]);
    }
    world->ops->poller_free(io->poller);
    tri_map_fini(&io->fds);
    tri_map_fini(&io->numbers);
    free(io);
    // Relaxed: the last thread.
    atomic_store_explicit(&sys->io, NULL, memory_order_relaxed);
}
