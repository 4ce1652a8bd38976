/*
 * connection.h - one connection between two nodes: frames over a stream.
 *
 *   state       event                       next
 *   CONNECTING  the other side accepts      GREETING: our greeting is queued
 *   GREETING    its greeting has come       OPEN; an accepted one answers it
 *   any         the stream fails or ends,   BROKEN: closed and freed by
 *               a frame is too long, no     connections.c
 *               memory for a frame, or a
 *               greeting that is refused
 *
 * A frame is its length in four bytes and as many bytes; a length of 0 is a
 * ping, which keeps a connection from being half-open for ever.
 *
 * Threads: the turns of the bus; but the waiters of the stream are called by
 * the poller's thread, which notes that a side is ready and wakes the bus.
 * Ownership: held by connections.c and by each armed waiter.
 */
#ifndef TRI_CLUSTER_TRANSPORT_CONNECTION_H
#define TRI_CLUSTER_TRANSPORT_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/world.h"
#include "cluster/membership/view.h"
#include "troupe/base.h"
#include "troupe/message.h"

typedef enum tri_connection_state {
    TRI_CONNECTION_CONNECTING,
    TRI_CONNECTION_GREETING,
    TRI_CONNECTION_OPEN,
    TRI_CONNECTION_BROKEN,
} tri_connection_state;

/* One direction of a stream that is waited for. */
typedef struct tri_connection_side {
    tri_waiter waiter;
    struct tri_connection *connection;
    uint32_t direction;
    bool is_armed;            // of the turns
    _Atomic(bool) is_called;  // the waiter was called since it was armed
} tri_connection_side;

typedef struct tri_connection_buffer {
    unsigned char *bytes;
    size_t at, end, room;  // what is in it: [at, end)
} tri_connection_buffer;

typedef struct tri_connection {
    tri_link link;  // connections.c
    tr_system *sys;
    tri_stream *stream;
    _Atomic(uint32_t) holders;
    tri_connection_state state;
    bool is_dialled;   // by this node
    bool is_blocked;   // the bus takes its next frame later
    bool has_more;     // more may be read without waiting
    tri_node peer;     // slot TRI_NODE_NONE: it has not greeted yet
    tr_nanos since;    // the last change of state
    tr_nanos written;  // when bytes were last written
    tr_err err;        // why it is broken
    tri_connection_side in_side, out_side;
    tri_connection_buffer in, out;
} tri_connection;

/* Makes a connection of a stream; takes it on every path. NULL: no memory. */
tri_connection *tri_connection_new(tr_system *sys, tri_stream *stream,
                                   bool is_dialled, tr_nanos now);
/* Closes the stream and gives the connection up. */
void tri_connection_close(tri_connection *it);

/* Lets a connection that was dialled go on to GREETING when it is decided. */
void tri_connection_step(tri_connection *it, tr_nanos now);
void tri_connection_set_state(tri_connection *it, tri_connection_state state,
                              tr_nanos now);
void tri_connection_break(tri_connection *it, tr_err err);

/*
 * Reads what has come, unless enough is in the buffer. Sets has_more if there
 * may be more; else the bus is woken when there is.
 */
void tri_connection_read(tri_connection *it);
/*
 * Returns true and the next frame, which stays until tri_connection_next; false
 * if there is none.
 */
bool tri_connection_peek(tri_connection *it, tr_bytes *out);
void tri_connection_next(tri_connection *it);

/* Queues a frame; breaks the connection if there is no memory. */
void tri_connection_put(tri_connection *it, const void *bytes, size_t size);
/* Writes what is queued, as far as the stream takes it. */
void tri_connection_write(tri_connection *it, tr_nanos now);
/* Returns how many bytes are queued. */
size_t tri_connection_waiting(const tri_connection *it);

#endif
