/*
 * connection.c - one connection between two nodes: frames over a stream.
 *
 * Invariants:
 * - A side is armed from the stream_wait that armed its waiter until a turn
 *   has seen that the waiter was called. An armed waiter holds the connection.
 * - The buffers exist only while bytes are in them.
 */
#include "cluster/transport/connection.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "cluster/bus/bus.h"
#include "cluster/transport/packet.h"
#include "core/cell/mem.h"
#include "core/system.h"

enum {
    HEAD = 4,           // bytes of a frame's length
    CHUNK = 64 * 1024,  // bytes that are read at once
    FRAME_MAX = TRI_PACKET_HEAD + TRI_PACKET_MAX,
};

static const tri_world_ops *ops_of(const tri_connection *it)
{
    return it->sys->world->ops;
}

/* ---- holding ---- */

static void drop(tri_connection *it)
{
    // Release: what this holder did is before the end. Acquire: the last one
    // sees it.
    if (atomic_fetch_sub_explicit(&it->holders, 1, memory_order_acq_rel) == 1) {
        free(it);
    }
}

/* The waiter's function, on the poller's thread. */
static void on_ready(tri_waiter *waiter)
{
    tri_connection_side *side =
        tri_container_of(waiter, tri_connection_side, waiter);
    tri_connection *it = side->connection;
    tr_system *sys = it->sys;
    // Release: pairs with is_waiting.
    atomic_store_explicit(&side->is_called, true, memory_order_release);
    drop(it);
    tri_bus_wake(sys);
}

/* True if the side is armed and its waiter was not called yet. */
static bool is_waiting(tri_connection_side *side)
{
    TRI_CHECK(side->connection != NULL);
    // Acquire: pairs with on_ready.
    if (side->is_armed &&
        atomic_load_explicit(&side->is_called, memory_order_acquire)) {
        side->is_armed = false;
    }
    return side->is_armed;
}

/* Waits for the side. Returns false if it is worth another try now. */
static bool arm(tri_connection *it, tri_connection_side *side)
{
    TRI_CHECK(!side->is_armed);
    // Relaxed, both: the poller's thread does not know of it yet.
    atomic_store_explicit(&side->is_called, false, memory_order_relaxed);
    atomic_fetch_add_explicit(&it->holders, 1, memory_order_relaxed);
    tri_armed armed =
        ops_of(it)->stream_wait(it->stream, side->direction, &side->waiter);
    TRI_CHECK(armed != TRI_ARMED_ELSE);
    side->is_armed = armed == TRI_ARMED;
    if (!side->is_armed) {
        drop(it);
    }
    return side->is_armed;
}

static void disarm(tri_connection *it, tri_connection_side *side)
{
    if (is_waiting(side) &&
        ops_of(it)->stream_cancel(it->stream, side->direction, &side->waiter)) {
        drop(it);
    }
    side->is_armed = false;  // or its call is on its way, and drops the hold
}

static void side_init(tri_connection *it, tri_connection_side *side,
                      uint32_t direction)
{
    side->waiter.fn = on_ready;
    side->connection = it;
    side->direction = direction;
}

tri_connection *tri_connection_new(tr_system *sys, tri_stream *stream,
                                   bool is_dialled, tr_nanos now)
{
    TRI_CHECK(stream != NULL);
    tri_connection *it = tri_mem_calloc(&sys->mem, sizeof(*it));
    if (it == NULL) {
        sys->world->ops->stream_close(stream);
        return NULL;
    }
    it->sys = sys;
    it->stream = stream;
    it->is_dialled = is_dialled;
    it->peer.slot = TRI_NODE_NONE;
    it->since = it->written = now;
    it->has_more = true;
    it->state =
        is_dialled ? TRI_CONNECTION_CONNECTING : TRI_CONNECTION_GREETING;
    // Relaxed: no other thread knows the connection yet.
    atomic_store_explicit(&it->holders, 1, memory_order_relaxed);
    side_init(it, &it->in_side, TRI_FD_READ);
    side_init(it, &it->out_side, TRI_FD_WRITE);
    return it;
}

static void buffer_free(tri_connection_buffer *buffer)
{
    free(buffer->bytes);
    *buffer = (tri_connection_buffer){0};
}

void tri_connection_close(tri_connection *it)
{
    TRI_CHECK(it->stream != NULL);
    disarm(it, &it->in_side);
    disarm(it, &it->out_side);
    ops_of(it)->stream_close(it->stream);
    it->stream = NULL;
    buffer_free(&it->in);
    buffer_free(&it->out);
    drop(it);
}

void tri_connection_set_state(tri_connection *it, tri_connection_state state,
                              tr_nanos now)
{
    TRI_CHECK(state > it->state);
    it->state = state;
    it->since = now;
}

void tri_connection_break(tri_connection *it, tr_err err)
{
    TRI_CHECK(err != TR_OK);
    if (it->state != TRI_CONNECTION_BROKEN) {
        it->state = TRI_CONNECTION_BROKEN;
        it->err = err;
    }
}

void tri_connection_step(tri_connection *it, tr_nanos now)
{
    TRI_CHECK(it->is_dialled);
    if (it->state != TRI_CONNECTION_CONNECTING || is_waiting(&it->out_side)) {
        return;
    }
    tr_err err;
    do {
        err = ops_of(it)->stream_connected(it->stream);
    } while (err == TR_EWOULDBLOCK && !arm(it, &it->out_side));
    if (err == TR_OK) {
        tri_connection_set_state(it, TRI_CONNECTION_GREETING, now);
    } else if (err != TR_EWOULDBLOCK) {
        tri_connection_break(it, err);
    }
}

/* ---- buffers ---- */

/* Makes room for `size` bytes at the end. False: no memory. */
static bool buffer_need(tri_connection *it, tri_connection_buffer *buffer,
                        size_t size)
{
    TRI_CHECK(buffer->at <= buffer->end && buffer->end <= buffer->room);
    if (buffer->room - buffer->end >= size) {
        return true;
    }
    size_t used = buffer->end - buffer->at;
    if (buffer->at > 0) {
        memmove(buffer->bytes, buffer->bytes + buffer->at, used);
        buffer->at = 0;
        buffer->end = used;
    }
    if (buffer->room - used >= size) {
        return true;
    }
    size_t room =
        buffer->room * 2 > used + size ? buffer->room * 2 : used + size;
    unsigned char *bytes = tri_mem_should_fail(&it->sys->mem)
                               ? NULL
                               : realloc(buffer->bytes, room);
    if (bytes == NULL) {
        tri_connection_break(it, TR_ENOMEM);
        return false;
    }
    buffer->bytes = bytes;
    buffer->room = room;
    return true;
}

static void buffer_take(tri_connection_buffer *buffer, size_t size)
{
    TRI_CHECK(size <= buffer->end - buffer->at);
    buffer->at += size;
    if (buffer->at == buffer->end) {
        buffer_free(buffer);
    }
}

/* ---- reading ---- */

/* Returns the length of the next frame; false if it is not there yet. */
static bool frame_size(const tri_connection *it, size_t *size)
{
    const tri_connection_buffer *in = &it->in;
    if (in->end - in->at < HEAD) {
        return false;
    }
    *size = 0;
    for (size_t i = 0; i < HEAD; i++) {
        *size |= (size_t)in->bytes[in->at + i] << 8 * i;
    }
    return true;
}

static bool has_frame(const tri_connection *it)
{
    size_t size;
    return frame_size(it, &size) && it->in.end - it->in.at - HEAD >= size;
}

void tri_connection_read(tri_connection *it)
{
    TRI_CHECK(it->stream != NULL);
    it->has_more = false;
    if (is_waiting(&it->in_side) || has_frame(it) ||
        it->state < TRI_CONNECTION_GREETING ||
        it->state == TRI_CONNECTION_BROKEN ||
        !buffer_need(it, &it->in, CHUNK)) {
        return;
    }
    size_t got = 0;
    tr_err err;
    do {
        err = ops_of(it)->stream_read(it->stream, it->in.bytes + it->in.end,
                                      it->in.room - it->in.end, &got);
    } while (err == TR_EWOULDBLOCK && !arm(it, &it->in_side));
    it->in.end += got;
    if (it->in.end == it->in.at) {
        buffer_free(&it->in);
    }
    if (err == TR_OK && got == 0) {
        err = TR_ECLOSED;  // the other side has ended
    }
    if (err != TR_OK && err != TR_EWOULDBLOCK) {
        tri_connection_break(it, err);
    }
    it->has_more = err == TR_OK;
}

bool tri_connection_peek(tri_connection *it, tr_bytes *out)
{
    TRI_CHECK(out != NULL);
    size_t size = 0;
    while (it->state != TRI_CONNECTION_BROKEN && frame_size(it, &size)) {
        if (size > FRAME_MAX) {
            tri_connection_break(it, TR_ELIMIT);
            return false;
        }
        if (it->in.end - it->in.at - HEAD < size) {
            return false;
        }
        if (size > 0) {
            *out = (tr_bytes){it->in.bytes + it->in.at + HEAD, size};
            return true;
        }
        buffer_take(&it->in, HEAD);  // a ping
    }
    return false;
}

void tri_connection_next(tri_connection *it)
{
    size_t size;
    bool there = frame_size(it, &size);
    TRI_CHECK(there);
    buffer_take(&it->in, HEAD + size);
}

/* ---- writing ---- */

void tri_connection_put(tri_connection *it, const void *bytes, size_t size)
{
    TRI_CHECK(size <= FRAME_MAX);
    if (it->state == TRI_CONNECTION_BROKEN ||
        !buffer_need(it, &it->out, HEAD + size)) {
        return;
    }
    unsigned char *at = it->out.bytes + it->out.end;
    for (size_t i = 0; i < HEAD; i++) {
        at[i] = (unsigned char)(size >> 8 * i);
    }
    if (size > 0) {
        memcpy(at + HEAD, bytes, size);
    }
    it->out.end += HEAD + size;
}

size_t tri_connection_waiting(const tri_connection *it)
{
    TRI_CHECK(it->out.at <= it->out.end);
    return it->out.end - it->out.at;
}

void tri_connection_write(tri_connection *it, tr_nanos now)
{
    TRI_CHECK(it->stream != NULL);
    while (it->state == TRI_CONNECTION_GREETING ||
           it->state == TRI_CONNECTION_OPEN) {
        size_t size = tri_connection_waiting(it), done = 0;
        if (size == 0 || is_waiting(&it->out_side)) {
            return;
        }
        tri_piece piece = {it->out.bytes + it->out.at, size};
        tr_err err = ops_of(it)->stream_write(it->stream, &piece, 1, &done);
        if (err == TR_OK) {
            it->written = now;
            buffer_take(&it->out, done);
        } else if (err != TR_EWOULDBLOCK) {
            tri_connection_break(it, err);
        } else if (arm(it, &it->out_side)) {
            return;
        }
    }
}
