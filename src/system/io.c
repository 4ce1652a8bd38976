/*
 * io.c - waiting for descriptors (tr_wait_fd).
 *
 * The turn parks on a wait on its own stack; another thread wakes it with the
 * wait's item. A turn that is cut short calls the wait's `cancel` first: true
 * means that no other thread will touch the wait any more, false that the
 * wake-up is under way, and then the turn stays parked until it comes.
 *
 * Invariant: a wait is in both maps, or in none. The poller may report a
 * descriptor whose wait has ended, once, because its registration is left as
 * it is (removing it here could remove that of the next wait); no map has its
 * token any more. So a wait costs one call of the kernel, and no lock is held
 * during it.
 */
#include "system/io.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/lock.h"
#include "base/map.h"
#include "base/world.h"
#include "core/ask/error_text.h"
#include "core/ask/wait.h"
#include "core/caller.h"
#include "core/cell/cell_path.h"
#include "core/cell/mem.h"
#include "core/cell/message.h"
#include "core/mail/push.h"
#include "core/run/clock.h"
#include "core/run/context.h"
#include "core/run/park.h"
#include "core/run/waiting.h"
#include "core/system.h"
#include "system/blocking.h"
#include "system/file.h"
#include "system/stream.h"
#include "troupe/message.h"
#include "troupe/system.h"

enum { EVENTS = 64 };  // taken from the poller at once

void tri_io_wake_turn(tr_system *sys, tri_wait *wait, tr_err err)
{
    wait->err = err;
    wait->item.kind = TRI_ITEM_WAKE;
    tri_caller who = tri_enter((tr_from){.sys = sys});
    bool taken = tri_push_system(who.worker, wait->cell, &wait->item);
    TRI_CHECK(taken);  // the turn is parked, so its actor lives
    tri_leave(&who);
}

typedef struct fd_wait {
    tri_wait wait;  // first: fd_cancel casts it back
    tri_io *io;
    uint64_t token;
    int fd;
    uint32_t ready;
} fd_wait;

/* The key of a descriptor in by_fd, where 0 is not allowed. */
static uint64_t fd_key(int fd)
{
    return (uint64_t)fd + 1;
}

/* Ends the wait with this token. Returns it, or NULL. With the lock. */
static fd_wait *fd_disarm(tri_io *io, uint64_t token)
{
    tri_lock_assert_held(&io->lock);
    fd_wait *fd = tri_map_remove(&io->waits, token);
    if (fd != NULL) {
        tri_map_remove(&io->by_fd, fd_key(fd->fd));
    }
    return fd;
}

/* The cancel function of the wait. */
static bool fd_cancel(tri_wait *wait)
{
    fd_wait *fd = (fd_wait *)(void *)wait;
    tri_io *io = fd->io;
    tri_lock_take(&io->lock);
    bool ours = fd_disarm(io, fd->token) != NULL;
    tri_lock_drop(&io->lock);
    return ours;
}

void tri_io_collect(tri_io *io, tr_nanos timeout)
{
    TRI_CHECK(io != NULL);
    tri_world *world = io->sys->world;
    tri_fd_event events[EVENTS];
    uint32_t count =
        world->ops->poller_wait(io->poller, events, EVENTS, timeout);
    for (uint32_t i = 0; i < count; i++) {
        tri_lock_take(&io->lock);
        fd_wait *fd = fd_disarm(io, events[i].token);
        if (fd != NULL) {
            fd->ready = events[i].events;
        }
        tri_lock_drop(&io->lock);
        if (fd != NULL) {
            tri_io_wake_turn(io->sys, &fd->wait, TR_OK);
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
    TRI_CHECK(out != NULL);
    *out = tri_io_peek(sys);
    if (*out != NULL) {
        return TR_OK;
    }
    tri_io *io = tri_mem_calloc(&sys->mem, sizeof(*io));
    if (io == NULL) {
        return TR_ENOMEM;
    }
    io->sys = sys;
    tri_map_init(&io->waits, NULL, NULL);
    tri_map_init(&io->by_fd, NULL, NULL);
    tri_list_init(&io->streams);
    tri_list_init(&io->files);
    tri_blocking_init(&io->blocking, sys);
    tr_err err = sys->world->ops->poller_new(sys->world, &io->poller);
    if (err != TR_OK) {
        free(io);
        return err;
    }
    tri_io *none = NULL;
    // Release: publishes io to tri_io_peek. Acquire: another thread's io.
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

enum { NOT_WATCHED, STARTING, WATCHED };  // io->watched

/* Moves io->watched on from STARTING. */
static tr_err watch_set(tri_io *io, tr_err err)
{
    // Release: pairs with tri_io_watch; publishes io->thread.
    atomic_store_explicit(&io->watched, err == TR_OK ? WATCHED : NOT_WATCHED,
                          memory_order_release);
    return err;
}

tr_err tri_io_watch(tri_io *io)
{
    tri_world *world = io->sys->world;
    if (io->sys->options.poll || !world->ops->has_threads) {
        return TR_OK;  // a driven system collects while it is driven
    }
    for (;;) {
        uint32_t state = NOT_WATCHED;
        // Acquire: pairs with watch_set.
        if (atomic_compare_exchange_strong_explicit(
                &io->watched, &state, STARTING, memory_order_acquire,
                memory_order_acquire)) {
            return watch_set(io, world->ops->thread_start(
                                     world, &io->thread, "tr-io", io_main, io));
        }
        if (state == WATCHED) {
            return TR_OK;
        }
        world->ops->yield(world);  // as long as a thread takes to start
    }
}

/*
 * Puts the wait into both maps. Errors: TR_ENOMEM, TR_EEXIST: *other waits for
 * the descriptor already; it is alive, because its turn is parked.
 */
static tr_err fd_enlist(tri_io *io, fd_wait *fd, tr_ref *other)
{
    tri_lock_take(&io->lock);
    const fd_wait *first = tri_map_get(&io->by_fd, fd_key(fd->fd));
    tr_err err = TR_EEXIST;
    if (first != NULL) {
        *other = tri_cell_ref(io->sys, first->wait.cell);
    } else {
        fd->token = ++io->token;
        err = tri_map_put(&io->waits, fd->token, fd);
    }
    if (err == TR_OK) {
        err = tri_map_put(&io->by_fd, fd_key(fd->fd), fd);
        if (err != TR_OK) {
            tri_map_remove(&io->waits, fd->token);
        }
    }
    tri_lock_drop(&io->lock);
    return err;
}

/* Begins to wait. A descriptor can have one waiter: an event comes once. */
static tr_err fd_arm(tr_ctx *ctx, fd_wait *fd, uint32_t events)
{
    tri_io *io = fd->io;
    tr_ref other = {0};
    TR_TRY(tri_io_watch(io));
    tr_err err = fd_enlist(io, fd, &other);
    if (err == TR_EEXIST) {
        char path[TRI_PATH_MAX];
        tri_error_set(ctx,
                      "descriptor %d is being waited for already, by %s; "
                      "give each waiter a dup() of its own",
                      fd->fd, tr_ref_path(ctx, other, path, sizeof(path)));
    }
    if (err == TR_OK) {
        err = io->sys->world->ops->poller_add(io->poller, fd->fd, events,
                                              fd->token);
        if (err != TR_OK) {
            bool ours = fd_cancel(&fd->wait);
            TRI_CHECK(ours);  // the poller does not know its token
        }
    }
    return err;
}

/* tr_wait_fd, except for the error text. */
static tr_err wait_fd(tr_ctx *ctx, int fd, uint32_t events, tr_nanos timeout,
                      uint32_t *ready)
{
    TRI_CHECK(ctx->magic == TRI_CTX_MAGIC);
    if (fd < 0 || events == 0) {
        return TR_EINVAL;
    }
    if (timeout < 0) {
        return TR_ETIMEDOUT;  // rule 60 (time-outs below zero)
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
                             .call = "tr_wait_fd",
                             .site = tri_site_take(ctx)},
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
    *ready = wait.ready;
    return err;
}

tr_err(tr_wait_fd)(tr_ctx *ctx, int fd, uint32_t events, tr_nanos timeout,
                   uint32_t *ready)
{
    uint32_t got = 0;
    tr_err err = wait_fd(ctx, fd, events, timeout, &got);
    if (ready != NULL) {
        *ready = got;
    }
    if (err != TR_OK && err != TR_EEXIST) {  // fd_arm has set its text
        bool real = ctx->sys->world->ops->has_threads;
        tri_error_set(
            ctx, "tr_wait_fd of descriptor %d: %s%s", fd, tr_strerror(err),
            err == TR_EINVAL && !real ? ": a simulated world has no descriptors"
                                      : "");
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
    tri_streams_close(io);
    tri_files_close(io);
    // Release: pairs with io_main.
    atomic_store_explicit(&io->closing, true, memory_order_release);
    if (io->thread != NULL) {
        world->ops->poller_wake(io->poller);
        world->ops->thread_join(world, io->thread);
    }
    tri_blocking_close(&io->blocking);
    world->ops->poller_free(io->poller);
    tri_map_fini(&io->waits);
    tri_map_fini(&io->by_fd);
    free(io);
    // Relaxed: no other thread is left.
    atomic_store_explicit(&sys->io, NULL, memory_order_relaxed);
}
