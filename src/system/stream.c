/*
 * stream.c - streams of the program: owners, closing, and calls that wait.
 *
 * A call that waits arms a waiter on its own stack (a parked turn's, or a
 * blocked thread's) and then looks whether the stream was closed or drained;
 * whoever closes or drains it sets that first and then takes the waiter. So
 * one of the two sees the other, and nobody waits for a closed stream.
 *
 * Invariant: an actor that owns a stream has one closer for it, which holds
 * the stream.
 */
#include "system/stream.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/lock.h"
#include "core/ask/error_text.h"
#include "core/ask/wait.h"
#include "core/caller.h"
#include "core/cell/heap.h"
#include "core/cell/mem.h"
#include "core/life/restart.h"
#include "core/run/context.h"
#include "core/run/park.h"
#include "core/run/worker.h"
#include "core/system.h"
#include "system/poll.h"

/* A call that never has to wait lets others run after this many tries. */
enum { TRIES_MAX = 64 };

typedef struct waiting {
    tri_wait wait;  // first: turn_cancel casts it back; of a turn
    tri_waiter waiter;
    tr_stream *stream;
    uint32_t direction;
    bool between;  // as in tri_stream_call
    bool in_turn;
    _Atomic(uint32_t) word;  // of an outside thread: 1 when it may go on
} waiting;

static const tri_world_ops *ops_of(const tr_stream *stream)
{
    return stream->sys->world->ops;
}

static tri_stream_side *side_of(tr_stream *stream, uint32_t direction)
{
    return &stream->side[direction == TRI_FD_WRITE];
}

/* ---- holding and closing ---- */

tr_err tri_stream_new(tri_io *io, tri_stream *raw, const tr_stream *listener,
                      tr_stream **out)
{
    TRI_CHECK(raw != NULL);
    tr_system *sys = io->sys;
    tr_stream *stream = tri_mem_calloc(&sys->mem, sizeof(*stream));
    *out = stream;
    if (stream == NULL) {
        sys->world->ops->stream_close(raw);
        return TR_ENOMEM;
    }
    stream->magic = TRI_STREAM_MAGIC;
    stream->sys = sys;
    stream->io = io;
    stream->raw = raw;
    stream->listener = listener;
    // Relaxed: no other thread knows the stream yet.
    atomic_store_explicit(&stream->holders, 1, memory_order_relaxed);
    tri_lock_take(&io->streams_lock);
    tri_list_push_back(&io->streams, &stream->link);
    tri_lock_drop(&io->streams_lock);
    return TR_OK;
}

void tri_stream_hold(tr_stream *stream)
{
    // Relaxed: the caller holds the stream already.
    atomic_fetch_add_explicit(&stream->holders, 1, memory_order_relaxed);
}

bool tri_stream_try_hold(tr_stream *stream)
{
    // Relaxed: the lock orders what the stream consists of.
    uint32_t holders =
        atomic_load_explicit(&stream->holders, memory_order_relaxed);
    while (holders > 0) {
        if (atomic_compare_exchange_weak_explicit(
                &stream->holders, &holders, holders + 1, memory_order_relaxed,
                memory_order_relaxed)) {
            return true;
        }
    }
    return false;
}

void tri_stream_drop(tr_stream *stream)
{
    // Release: publishes what this holder did. Acquire: the last holder sees
    // what all the others did.
    if (atomic_fetch_sub_explicit(&stream->holders, 1, memory_order_acq_rel) >
        1) {
        return;
    }
    tri_io *io = stream->io;
    ops_of(stream)->stream_close(stream->raw);
    if (stream->ended != NULL) {
        stream->ended(stream, stream->ended_user);
    }
    tri_lock_take(&io->streams_lock);
    tri_list_remove(&stream->link);
    tri_lock_drop(&io->streams_lock);
    free(stream->buffer);
    stream->magic = 0;
    free(stream);
}

/* Takes the waiter of a direction back and lets its call go on. */
static void interrupt(tr_stream *stream, uint32_t direction)
{
    // Acquire: pairs with arm. The waiter may be gone already: it is compared
    // only, and a waiter that was armed is there until it is called.
    tri_waiter *waiter = atomic_load_explicit(
        &side_of(stream, direction)->waiting, memory_order_acquire);
    if (waiter != NULL &&
        ops_of(stream)->stream_cancel(stream->raw, direction, waiter)) {
        waiter->fn(waiter);
    }
}

void tri_stream_close(tr_stream *stream)
{
    TRI_CHECK(stream->magic == TRI_STREAM_MAGIC);
    // Sequentially consistent: before the waiters are taken; see arm.
    if (atomic_exchange_explicit(&stream->closed, true, memory_order_seq_cst)) {
        return;
    }
    interrupt(stream, TRI_FD_READ);
    interrupt(stream, TRI_FD_WRITE);
    tri_stream_drop(stream);  // the opener's
}

void tri_stream_drain(tr_stream *stream)
{
    // Sequentially consistent: as in tri_stream_close.
    atomic_store_explicit(&stream->draining, true, memory_order_seq_cst);
    interrupt(stream, TRI_FD_READ);
}

/* Holds any stream of the list, if one can be held. False: it is empty. */
static bool any_stream(tri_io *io, tr_stream **out)
{
    *out = NULL;
    tri_lock_take(&io->streams_lock);
    TRI_LIST_EACH_ITEM (it, &io->streams, tr_stream, link) {
        if (tri_stream_try_hold(it)) {
            *out = it;
            break;
        }
    }
    bool is_empty = tri_list_is_empty(&io->streams);
    tri_lock_drop(&io->streams_lock);
    return !is_empty;
}

void tri_streams_close(tri_io *io)
{
    tri_world *world = io->sys->world;
    tr_stream *any;
    // Threads that were in a call return now, and leave their streams.
    while (any_stream(io, &any)) {
        if (any != NULL) {
            tri_stream_close(any);
            tri_stream_drop(any);
        }
        world->ops->yield(world);
    }
}

/* ---- owners ---- */

static uint64_t owner_of(tr_stream *stream)
{
    // Relaxed: the owner is set once.
    return atomic_load_explicit(&stream->owner, memory_order_relaxed);
}

/* Finds a stream that the listener accepted and nobody owns; holds it. */
static tr_stream *find_unowned(tr_stream *listener)
{
    tri_io *io = listener->io;
    tr_stream *found = NULL;
    tri_lock_take(&io->streams_lock);
    TRI_LIST_EACH_ITEM (it, &io->streams, tr_stream, link) {
        if (it->listener == listener && owner_of(it) == TRI_STREAM_UNOWNED &&
            tri_stream_try_hold(it)) {
            found = it;
            break;
        }
    }
    tri_lock_drop(&io->streams_lock);
    return found;
}

/*
 * The closer of the owner, at the end of its incarnation. What a listener has
 * accepted and nobody has used ends with it.
 */
static void owner_ended(void *object)
{
    tr_stream *stream = object, *unowned;
    while ((unowned = find_unowned(stream)) != NULL) {
        tr_err err = tri_stream_own(NULL, unowned);
        TRI_CHECK(err == TR_OK);  // needs no closer, so no memory
        if (owner_of(unowned) == TRI_STREAM_OUTSIDE) {
            tri_stream_close(unowned);
        }
        tri_stream_drop(unowned);
    }
    tri_stream_close(stream);
    tri_stream_drop(stream);
}

/* The actor that closes a listener keeps what it has accepted. */
static void own_accepted(tr_ctx *ctx, tr_stream *listener)
{
    tr_stream *unowned;
    tr_err err = TR_OK;
    while (err == TR_OK && (unowned = find_unowned(listener)) != NULL) {
        err = tri_stream_own(ctx, unowned);
        tri_stream_drop(unowned);
    }
}

tr_err tri_stream_own(tr_ctx *ctx, tr_stream *stream)
{
    if (owner_of(stream) != TRI_STREAM_UNOWNED) {
        return TR_OK;
    }
    uint64_t unowned = TRI_STREAM_UNOWNED;
    uint64_t owner =
        ctx != NULL ? tri_cell_ref(ctx->sys, ctx->cell).id : TRI_STREAM_OUTSIDE;
    // The stream is gone after this incarnation, and the first state of the next
    // one would still point to it.
    if (ctx != NULL && stream->acceptor != 0 && stream->acceptor != owner &&
        !tri_restart_forbid(ctx)) {
        return TR_ENOMEM;
    }
    tri_stream_hold(stream);
    if (ctx != NULL && !tri_closer_add(ctx, owner_ended, stream)) {
        tri_stream_drop(stream);
        return TR_ENOMEM;
    }
    // Acquire and release: of two actors that try at once, one succeeds.
    bool ours = atomic_compare_exchange_strong_explicit(
        &stream->owner, &unowned, owner, memory_order_acq_rel,
        memory_order_relaxed);
    if (ctx == NULL) {
        tri_stream_drop(stream);
    } else if (!ours && tri_closer_remove(ctx->cell, stream)) {
        tri_stream_drop(stream);
    }
    return TR_OK;
}

void(tr_stream_close)(tr_from from, tr_stream *stream)
{
    if (stream == NULL) {
        return;
    }
    TRI_CHECK(stream->magic == TRI_STREAM_MAGIC);
    TRI_CHECK(tri_from_system(from) == stream->sys);
    tri_stream_hold(stream);
    tri_stream_close(stream);
    if (tri_from_is_ctx(from) &&
        owner_of(stream) == tri_cell_ref(stream->sys, from.ctx->cell).id &&
        tri_closer_remove(from.ctx->cell, stream)) {
        own_accepted(from.ctx, stream);
        tri_stream_drop(stream);
    }
    tri_stream_drop(stream);
}

/* ---- waiting ---- */

/* The waiter's function: wakes the turn, or the thread. */
static void wake(tri_waiter *waiter)
{
    waiting *it = tri_container_of(waiter, waiting, waiter);
    tr_system *sys = it->stream->sys;
    tri_world *world = sys->world;
    if (it->in_turn) {
        tri_io_wake_turn(sys, &it->wait, TR_OK);
        return;
    }
    // Release: pairs with await_outside, whose memory may be gone after it.
    atomic_store_explicit(&it->word, 1, memory_order_release);
    world->ops->wake(world, &it->word, 1);
}

static bool disarm(waiting *it)
{
    return ops_of(it->stream)
        ->stream_cancel(it->stream->raw, it->direction, &it->waiter);
}

/* The cancel function of a turn's wait. */
static bool turn_cancel(tri_wait *wait)
{
    return disarm((waiting *)(void *)wait);
}

/* True if the call does not wait any more. */
static bool is_over(const waiting *it)
{
    tr_stream *stream = it->stream;
    // Sequentially consistent, both: after the waiter was armed; see
    // tri_stream_close and tri_stream_drain.
    return atomic_load_explicit(&stream->closed, memory_order_seq_cst) ||
           (it->between &&
            atomic_load_explicit(&stream->draining, memory_order_seq_cst));
}

static tri_armed arm(waiting *it)
{
    tr_stream *stream = it->stream;
    TRI_CHECK(it->waiter.fn != NULL);
    // Release: pairs with interrupt.
    atomic_store_explicit(&side_of(stream, it->direction)->waiting, &it->waiter,
                          memory_order_release);
    tri_armed armed =
        ops_of(stream)->stream_wait(stream->raw, it->direction, &it->waiter);
    if (armed == TRI_ARMED && is_over(it) && disarm(it)) {
        return TRI_READY_NOW;
    }
    return armed;
}

static tr_err await_in_turn(tri_stream_call *call, waiting *it)
{
    tr_ctx *ctx = call->ctx;
    TRI_CHECK(ctx != NULL);
    it->in_turn = true;
    it->wait = (tri_wait){.kind = TRI_WAIT_OUTSIDE,
                          .cancel = turn_cancel,
                          .call = "a call",
                          .site = "a stream"};
    TR_TRY(tri_wait_begin(ctx, &it->wait, call->deadline));
    tr_err err = arm(it) == TRI_ARMED ? tri_park(ctx, &it->wait) : TR_OK;
    tri_wait_finish(ctx, &it->wait);
    return err;
}

static tr_err await_outside(tri_stream_call *call, waiting *it)
{
    tr_system *sys = call->stream->sys;
    if (arm(it) != TRI_ARMED) {
        return TR_OK;
    }
    tr_nanos deadline = call->deadline;
    // Acquire: pairs with wake.
    while (atomic_load_explicit(&it->word, memory_order_acquire) == 0) {
        tr_nanos left = TR_FOREVER;
        if (deadline != TR_FOREVER) {
            left = deadline - sys->world->ops->mono(sys->world);
            if (left <= 0 && disarm(it)) {
                return TR_ETIMEDOUT;
            }
            // The waiter is being called: wait for that.
            deadline = left <= 0 ? TR_FOREVER : deadline;
            left = left <= 0 ? TR_FOREVER : left;
        }
        tri_drive_or_park(sys, &it->word, 0, left);
    }
    return TR_OK;
}

tr_err tri_stream_await(tri_stream_call *call)
{
    tr_stream *stream = call->stream;
    waiting it = {
        .waiter = {.fn = wake}, .stream = stream, .direction = call->direction};
    side_of(stream, call->direction)->tries = 0;
    TR_TRY(tri_io_watch(stream->io));
    tr_err err =
        call->ctx != NULL ? await_in_turn(call, &it) : await_outside(call, &it);
    // Relaxed: nobody armed is left to be found.
    atomic_store_explicit(&side_of(stream, call->direction)->waiting, NULL,
                          memory_order_relaxed);
    return err;
}

tr_err tri_stream_await_open(tri_stream_call *call)
{
    // Relaxed: a call that misses a close made at the same time ends later.
    if (atomic_load_explicit(&call->stream->closed, memory_order_relaxed)) {
        return TR_ECLOSED;
    }
    return tri_stream_await(call);
}

/* ---- calls ---- */

tr_err tri_stream_caller(tr_from from, tr_ctx **ctx)
{
    *ctx = tri_from_is_ctx(from) ? from.ctx : NULL;
    if (*ctx != NULL) {
        if ((*ctx)->cancel != TR_OK) {
            return (*ctx)->cancel;
        }
        return tri_can_park(*ctx) ? TR_OK : TR_EWOULDBLOCK;
    }
    const tri_worker *worker = tri_worker_current();
    if (worker != NULL && worker->sys == tri_from_system(from)) {
        tri_error_set(NULL, "waiting for a stream as `sys` inside a handler "
                            "would block its worker; use its ctx");
        return TR_EWOULDBLOCK;
    }
    return TR_OK;
}

/* A turn that always finds bytes must see a stop, and let others run. */
static tr_err let_others_run(tr_ctx *ctx, tri_stream_side *side)
{
    if (ctx == NULL || ++side->tries < TRIES_MAX) {
        return TR_OK;
    }
    side->tries = 0;
    return tr_sleep(ctx, 0);
}

tr_nanos tri_stream_deadline(tr_system *sys, tr_nanos timeout)
{
    if (timeout == 0 || timeout == TR_FOREVER) {
        return TR_FOREVER;
    }
    tr_nanos now = sys->world->ops->mono(sys->world);
    if (timeout < 0) {
        return now;  // over already
    }
    return timeout > TR_FOREVER - now ? TR_FOREVER : now + timeout;
}

static tr_err take_side(tr_ctx *ctx, tr_stream *stream, uint32_t direction)
{
    // Acquire: pairs with tri_stream_leave of the call before.
    if (!atomic_exchange_explicit(&side_of(stream, direction)->busy, true,
                                  memory_order_acquire)) {
        return TR_OK;
    }
    tri_error_set(ctx, "another turn or thread %s this stream already",
                  direction == TRI_FD_READ ? "reads" : "writes");
    return TR_EEXIST;
}

tr_err tri_stream_enter(tri_stream_call *call, tr_from from, tr_stream *stream,
                        uint32_t direction, tr_nanos timeout)
{
    TRI_CHECK(stream != NULL && stream->magic == TRI_STREAM_MAGIC);
    tr_ctx *ctx;
    if (tri_from_system(from) != stream->sys) {
        return TR_EFOREIGN;
    }
    TR_TRY(tri_stream_caller(from, &ctx));
    // Relaxed: a call that misses a close made at the same time finds it when
    // it waits.
    if (atomic_load_explicit(&stream->closed, memory_order_relaxed)) {
        return TR_ECLOSED;
    }
    TR_TRY(tri_stream_own(ctx, stream));
    TR_TRY(take_side(ctx, stream, direction));
    tri_stream_hold(stream);
    tri_stream_side *side = side_of(stream, direction);
    timeout = timeout != 0 ? timeout : side->timeout;
    *call = (tri_stream_call){.stream = stream,
                              .ctx = ctx,
                              .direction = direction,
                              .deadline =
                                  tri_stream_deadline(stream->sys, timeout)};
    tr_err err = let_others_run(ctx, side);
    if (err != TR_OK) {
        tri_stream_leave(call);
    }
    return err;
}

void tri_stream_leave(tri_stream_call *call)
{
    tr_stream *stream = call->stream;
    TRI_CHECK(stream != NULL);
    // Release: pairs with take_side of the next call.
    atomic_store_explicit(&side_of(stream, call->direction)->busy, false,
                          memory_order_release);
    tri_stream_drop(stream);
}
