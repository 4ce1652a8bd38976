/*
 * stream.h - a stream of the program: a stream of the world with an owner, and
 * calls that wait.
 *
 * A stream is shared: by its opener until it is closed, by the closer of the
 * actor that owns it, and by each call in progress. The last one closes the
 * stream of the world.
 *
 * Threads: any.
 */
#ifndef TRI_SYSTEM_STREAM_H
#define TRI_SYSTEM_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/world.h"
#include "system/io.h"
#include "troupe/base.h"
#include "troupe/net.h"

#define TRI_STREAM_MAGIC UINT64_C(0x5452535452454141)

/* Owners that are not actors. */
#define TRI_STREAM_UNOWNED UINT64_C(0)
#define TRI_STREAM_OUTSIDE UINT64_MAX

/* One direction of a stream. */
typedef struct tri_stream_side {
    _Atomic(bool) busy;             // a call uses it
    _Atomic(tri_waiter *) waiting;  // of that call; compared, see interrupt
    tr_nanos timeout;               // default of its calls
    uint32_t tries;                 // calls since the last wait
} tri_stream_side;

struct tr_stream {
    uint64_t magic;
    tr_system *sys;
    tri_io *io;
    tri_stream *raw;
    _Atomic(uint32_t) holders;
    _Atomic(bool) closed;
    _Atomic(bool) draining;     // a read that would wait finds the end
    _Atomic(uint64_t) owner;    // id of an actor, or TRI_STREAM_*
    const tr_stream *listener;  // that accepted it; compared only
    uint64_t acceptor;          // id of the actor that accepted it; 0: none
    tri_link link;              // in io->streams; guarded by its lock
    tri_stream_side side[2];    // reading, writing
    char *buffer;               // bytes read too early, or NULL
    uint32_t buffer_at, buffer_end;
    /* Called when the stream of the world is closed; or NULL. */
    void (*ended)(tr_stream *stream, void *user);
    void *ended_user;
    uint64_t ended_host;   // for it: serve.c
    tri_link server_link;  // guarded by the server's lock: serve.c
};

/* A call that uses one direction of a stream. */
typedef struct tri_stream_call {
    tr_stream *stream;
    tr_ctx *ctx;  // NULL: an outside thread
    uint32_t direction;
    tr_nanos deadline;
    bool between;  // no byte of a message was read: a drain ends the wait
} tri_stream_call;

/*
 * Makes a stream of a stream of the world. Takes raw, on every path.
 * `listener` is the stream that accepted it, or NULL. Other threads may find
 * the stream in the list of its system before the call returns.
 * Errors: TR_ENOMEM.
 */
TR_NODISCARD tr_err tri_stream_new(tri_io *io, tri_stream *raw,
                                   const tr_stream *listener, tr_stream **out);
void tri_stream_hold(tr_stream *stream);
/*
 * Holds a stream that was found in a list, under the list's lock. False: its
 * last holder has left it and waits for that lock.
 */
bool tri_stream_try_hold(tr_stream *stream);
void tri_stream_drop(tr_stream *stream);

/*
 * Makes the actor of the turn the owner, or outside threads if ctx is NULL,
 * unless the stream has an owner. Errors: TR_ENOMEM.
 */
TR_NODISCARD tr_err tri_stream_own(tr_ctx *ctx, tr_stream *stream);
/* Closes the stream once; ends calls that wait for it. Any thread. */
void tri_stream_close(tr_stream *stream);
/* Lets reads find the end when nothing has come. Any thread. */
void tri_stream_drain(tr_stream *stream);
/* Closes all streams of a system, whose actors have ended. */
void tri_streams_close(tri_io *io);

/*
 * Begins a call: takes the direction and holds the stream.
 * Errors: those that net.h lists for all calls.
 */
TR_NODISCARD tr_err tri_stream_enter(tri_stream_call *call, tr_from from,
                                     tr_stream *stream, uint32_t direction,
                                     tr_nanos timeout);
/* Waits until another try is worth it, or returns why there is none. */
TR_NODISCARD tr_err tri_stream_await(tri_stream_call *call);
/* As tri_stream_await, or returns TR_ECLOSED if the stream is closed. */
TR_NODISCARD tr_err tri_stream_await_open(tri_stream_call *call);
void tri_stream_leave(tri_stream_call *call);

/* Returns when a call with this timeout ends; 0: TR_FOREVER. */
tr_nanos tri_stream_deadline(tr_system *sys, tr_nanos timeout);

/* Refuses `sys` in a handler. Returns the turn, or NULL outside, in *ctx. */
TR_NODISCARD tr_err tri_stream_caller(tr_from from, tr_ctx **ctx);

#endif
