/*
 * net.c - the public calls on streams: listening, connecting, reading, writing.
 *
 * Each call tries first and waits only if the world says TR_EWOULDBLOCK.
 */
#include "system/net.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "base/check.h"
#include "base/world.h"
#include "core/ask/error_text.h"
#include "core/caller.h"
#include "core/cell/mem.h"
#include "core/system.h"
#include "system/io.h"
#include "system/lookup.h"
#include "system/stream.h"
#include "troupe/net.h"

enum {
    BACKLOG = 128,       // default
    BUFFER_SIZE = 4096,  // read at once by tr_read_until
};

_Static_assert((int)TR_ADDRESS_SIZE == (int)TRI_STREAM_ADDRESS_MAX,
               "the same size");
_Static_assert(sizeof(tr_piece) == sizeof(tri_piece) &&
                   offsetof(tr_piece, size) == offsetof(tri_piece, size),
               "a tr_piece is a tri_piece");

static const tri_world_ops *ops_of(const tr_stream *stream)
{
    return stream->sys->world->ops;
}

static bool is_closed(tr_stream *stream)
{
    // Relaxed: a call that misses a close made at the same time ends later.
    return atomic_load_explicit(&stream->closed, memory_order_relaxed);
}

/* ---- listening and connecting ---- */

typedef struct opening {
    tr_ctx *ctx;
    tri_io *io;
    tr_from from;
    uint32_t backlog;
    tr_nanos deadline;
    tr_stream *stream;
} opening;

static tr_err listen_at(void *arg, const char *address)
{
    opening *it = arg;
    tri_stream *raw;
    TR_TRY(it->io->sys->world->ops->stream_listen(it->io->poller, &raw, address,
                                                  it->backlog));
    return tri_stream_new(it->io, raw, NULL, &it->stream);
}

static tr_err await_connected(tri_stream_call *call)
{
    tr_err err;
    while ((err = ops_of(call->stream)->stream_connected(call->stream->raw)) ==
           TR_EWOULDBLOCK) {
        if (is_closed(call->stream)) {
            return TR_ECLOSED;
        }
        TR_TRY(tri_stream_await(call));
    }
    return err;
}

/* Connects to one address. On an error there is no stream. */
static tr_err connect_to(void *arg, const char *address)
{
    opening *it = arg;
    tri_stream *raw;
    tri_stream_call call;
    TR_TRY(
        it->io->sys->world->ops->stream_connect(it->io->poller, &raw, address));
    TR_TRY(tri_stream_new(it->io, raw, NULL, &it->stream));
    tr_err err = tri_stream_enter(&call, it->from, it->stream, TRI_FD_WRITE, 0);
    if (err == TR_OK) {
        call.deadline = it->deadline;
        err = await_connected(&call);
        tri_stream_leave(&call);
    }
    if (err != TR_OK) {
        (tr_stream_close)(it->from, it->stream);
        it->stream = NULL;
    }
    return err;
}

static tr_err opening_init(opening *it, tr_from from, tr_stream **out)
{
    TRI_CHECK(out != NULL);
    *out = NULL;
    *it = (opening){.from = from};
    TR_TRY(tri_stream_caller(from, &it->ctx));
    return tri_io_need(tri_from_system(from), &it->io);
}

/* Gives the stream to the caller, or says what went wrong. */
static tr_err opening_end(opening *it, tr_err err, const char *what,
                          const char *address, tr_stream **out)
{
    tri_address parts;
    if (err == TR_OK) {
        *out = it->stream;
        return TR_OK;
    }
    bool is_address = tri_address_split(address, &parts) == TR_OK;
    tri_error_set(it->ctx, "%s \"%s\": %s", what, address,
                  is_address ? tr_strerror(err)
                             : "an address is \"tcp://HOST:PORT\" or "
                               "\"unix:PATH\"");
    return err;
}

tr_err tri_net_listen(tr_from from, tr_stream **out, const char *address,
                      uint32_t backlog)
{
    opening it;
    TR_TRY(opening_init(&it, from, out));
    it.backlog = backlog > 0 ? backlog : BACKLOG;
    tr_err err = tri_lookup_each(it.ctx, it.io->sys, address, listen_at, &it);
    return opening_end(&it, err, "listening at", address, out);
}

tr_err(tr_listen)(tr_from from, tr_stream **out, const char *address,
                  uint32_t backlog)
{
    TR_TRY(tri_net_listen(from, out, address, backlog));
    tr_err err = tri_stream_own(tri_from_is_ctx(from) ? from.ctx : NULL, *out);
    if (err != TR_OK) {
        tri_stream_close(*out);
        *out = NULL;
    }
    return err;
}

tr_err(tr_connect)(tr_from from, tr_stream **out, const char *address,
                   tr_nanos timeout)
{
    opening it;
    TR_TRY(opening_init(&it, from, out));
    it.deadline = tri_stream_deadline(it.io->sys, timeout);
    tr_err err = tri_lookup_each(it.ctx, it.io->sys, address, connect_to, &it);
    return opening_end(&it, err, "connecting to", address, out);
}

static tr_err accept_one(tri_stream_call *call, tr_stream **out)
{
    tr_stream *listener = call->stream;
    tri_stream *raw;
    tr_err err;
    while ((err = ops_of(listener)->stream_accept(listener->raw, &raw)) ==
           TR_EWOULDBLOCK) {
        if (is_closed(listener)) {
            return TR_ECLOSED;
        }
        TR_TRY(tri_stream_await(call));
    }
    TR_TRY(err);
    return tri_stream_new(listener->io, raw, listener, out);
}

tr_err(tr_accept)(tr_from from, tr_stream **out, tr_stream *listener,
                  tr_nanos timeout)
{
    TRI_CHECK(out != NULL);
    tri_stream_call call;
    *out = NULL;
    TR_TRY(tri_stream_enter(&call, from, listener, TRI_FD_READ, timeout));
    tr_err err = accept_one(&call, out);
    if (err == TR_OK && call.ctx != NULL) {
        (*out)->acceptor = tri_cell_ref(call.ctx->sys, call.ctx->cell).id;
    } else if (err == TR_OK) {
        err = tri_stream_own(NULL, *out);  // the program's
    }
    tri_stream_leave(&call);
    return err;
}

/* ---- reading ---- */

/*
 * Waits after a read that found nothing. Sets *end if the stream drains and the
 * read is `between` two messages: then no further bytes are waited for.
 */
static tr_err await_bytes(tri_stream_call *call, bool between, bool *end)
{
    tr_stream *stream = call->stream;
    call->between = between;
    if (is_closed(stream)) {
        return TR_ECLOSED;
    }
    // Acquire: pairs with tri_stream_drain.
    *end = between &&
           atomic_load_explicit(&stream->draining, memory_order_acquire);
    return *end ? TR_OK : tri_stream_await(call);
}

/*
 * Reads some bytes past the buffer. `between`: no byte of this message has
 * been read, so a drain ends the stream here.
 */
static tr_err read_raw(tri_stream_call *call, void *at, size_t size,
                       bool between, size_t *got)
{
    tr_stream *stream = call->stream;
    bool end = false;
    tr_err err;
    while ((err = ops_of(stream)->stream_read(stream->raw, at, size, got)) ==
               TR_EWOULDBLOCK &&
           !end) {
        TR_TRY(await_bytes(call, between, &end));
    }
    return err == TR_EWOULDBLOCK ? TR_OK : err;
}

static uint32_t buffered(const tr_stream *stream)
{
    return stream->buffer_end - stream->buffer_at;
}

static void buffer_free(tr_stream *stream)
{
    free(stream->buffer);
    stream->buffer = NULL;
    stream->buffer_at = stream->buffer_end = 0;
}

/*
 * Reads into the empty buffer, which exists only while it has bytes, so that
 * an idle connection has none. It stays empty at the end of the stream.
 */
static tr_err buffer_fill(tri_stream_call *call, bool between)
{
    tr_stream *stream = call->stream;
    bool end = false;
    TRI_CHECK(buffered(stream) == 0);
    for (;;) {
        size_t got = 0;
        if (stream->buffer == NULL) {
            stream->buffer = tri_mem_calloc(&stream->sys->mem, BUFFER_SIZE);
        }
        tr_err err = stream->buffer == NULL
                         ? TR_ENOMEM
                         : ops_of(stream)->stream_read(
                               stream->raw, stream->buffer, BUFFER_SIZE, &got);
        stream->buffer_at = 0;
        stream->buffer_end = (uint32_t)got;
        if (got == 0) {
            buffer_free(stream);
        }
        if (err != TR_EWOULDBLOCK || end) {
            return err == TR_EWOULDBLOCK ? TR_OK : err;
        }
        TR_TRY(await_bytes(call, between, &end));
    }
}

/* Copies bytes of the buffer. Returns how many. */
static size_t buffer_take(tr_stream *stream, void *at, size_t size)
{
    size_t part = buffered(stream) < size ? buffered(stream) : size;
    if (part > 0) {
        memcpy(at, stream->buffer + stream->buffer_at, part);
        stream->buffer_at += (uint32_t)part;
    }
    if (stream->buffer != NULL && buffered(stream) == 0) {
        buffer_free(stream);
    }
    return part;
}

/* Reads some bytes: those in the buffer, or what has come. */
static tr_err read_some(tri_stream_call *call, void *at, size_t size,
                        bool between, size_t *got)
{
    *got = buffer_take(call->stream, at, size);
    return *got > 0 ? TR_OK : read_raw(call, at, size, between, got);
}

tr_err(tr_read)(tr_from from, tr_stream *stream, void *buf, size_t size,
                tr_nanos timeout, size_t *got)
{
    TRI_CHECK(got != NULL);
    tri_stream_call call;
    *got = 0;
    if (size == 0) {
        return TR_EINVAL;
    }
    TR_TRY(tri_stream_enter(&call, from, stream, TRI_FD_READ, timeout));
    tr_err err = read_some(&call, buf, size, true, got);
    tri_stream_leave(&call);
    return err;
}

tr_err(tr_read_exactly)(tr_from from, tr_stream *stream, void *buf, size_t size,
                        tr_nanos timeout, size_t *got)
{
    TRI_CHECK(got != NULL);
    tri_stream_call call;
    tr_err err = TR_OK;
    *got = 0;
    if (size == 0) {
        return TR_EINVAL;
    }
    TR_TRY(tri_stream_enter(&call, from, stream, TRI_FD_READ, timeout));
    while (err == TR_OK && *got < size) {
        size_t part;
        err =
            read_some(&call, (char *)buf + *got, size - *got, *got == 0, &part);
        if (err == TR_OK && part == 0) {
            err = *got > 0 ? TR_ERESET : TR_OK;
            break;
        }
        *got += part;
    }
    tri_stream_leave(&call);
    return err;
}

/* Copies the buffer through the first `end`. True: it was there. */
static bool take_until(tr_stream *stream, char end, char *at, size_t size,
                       size_t *got)
{
    size_t part = buffered(stream) < size ? buffered(stream) : size;
    const char *from = stream->buffer + stream->buffer_at;
    const char *found = memchr(from, end, part);
    if (found != NULL) {
        part = (size_t)(found - from) + 1;
    }
    *got += buffer_take(stream, at, part);
    return found != NULL;
}

static tr_err read_until(tri_stream_call *call, char end, char *at, size_t size,
                         size_t *got)
{
    tr_stream *stream = call->stream;
    while (*got < size) {
        if (buffered(stream) == 0) {
            TR_TRY(buffer_fill(call, *got == 0));
        }
        if (buffered(stream) == 0) {
            return *got > 0 ? TR_ERESET : TR_OK;
        }
        if (take_until(stream, end, at + *got, size - *got, got)) {
            return TR_OK;
        }
    }
    return TR_ELIMIT;
}

/* Says which limit a message of the other side exceeds. */
static void say_too_long(tri_stream_call *call, char end, size_t size)
{
    char other[TR_ADDRESS_SIZE], shown[8];
    if (end > ' ' && end <= '~') {
        (void)snprintf(shown, sizeof(shown), "'%c'", end);
    } else if (end == '\n') {
        (void)snprintf(shown, sizeof(shown), "'\\n'");
    } else {
        (void)snprintf(shown, sizeof(shown), "0x%02x", (unsigned char)end);
    }
    tri_error_set(call->ctx,
                  "tr_read_until: no %s in the first %zu bytes, which is its "
                  "limit, from %s",
                  shown, size,
                  tr_stream_address(call->stream, true, other, sizeof(other)));
}

tr_err(tr_read_until)(tr_from from, tr_stream *stream, char end, void *buf,
                      size_t size, tr_nanos timeout, size_t *got)
{
    TRI_CHECK(got != NULL);
    tri_stream_call call;
    *got = 0;
    if (size == 0) {
        return TR_EINVAL;
    }
    TR_TRY(tri_stream_enter(&call, from, stream, TRI_FD_READ, timeout));
    tr_err err = read_until(&call, end, buf, size, got);
    if (err == TR_ELIMIT && *got == size) {
        say_too_long(&call, end, size);
    }
    tri_stream_leave(&call);
    return err;
}

/* ---- writing ---- */

/* The pieces that are left: the first one from `at` on. */
typedef struct remainder {
    const tr_piece *pieces;
    uint32_t count;
    size_t at;
} remainder;

/* Moves past `done` bytes and empty pieces. */
static void remainder_skip(remainder *it, size_t done)
{
    it->at += done;
    while (it->count > 0 && it->at >= it->pieces[0].size) {
        it->at -= it->pieces[0].size;
        it->pieces++;
        it->count--;
    }
}

static tr_err write_some(tri_stream_call *call, remainder *left)
{
    tri_piece pieces[TRI_PIECES_MAX];
    uint32_t count =
        left->count < TRI_PIECES_MAX ? left->count : TRI_PIECES_MAX;
    size_t done = 0;
    TRI_CHECK(count > 0);
    for (uint32_t i = 0; i < count; i++) {
        size_t skip = i == 0 ? left->at : 0;
        pieces[i] = (tri_piece){(const char *)left->pieces[i].at + skip,
                                left->pieces[i].size - skip};
    }
    tr_err err = ops_of(call->stream)
                     ->stream_write(call->stream->raw, pieces, count, &done);
    remainder_skip(left, done);
    return err;
}

tr_err(tr_write)(tr_from from, tr_stream *stream, tr_nanos timeout,
                 const tr_piece *pieces, uint32_t count)
{
    TRI_CHECK(pieces != NULL || count == 0);
    tri_stream_call call;
    remainder left = {pieces, count, 0};
    tr_err err = TR_OK;
    remainder_skip(&left, 0);
    TR_TRY(tri_stream_enter(&call, from, stream, TRI_FD_WRITE, timeout));
    while (err == TR_OK && left.count > 0) {
        err = is_closed(stream) ? TR_ECLOSED : write_some(&call, &left);
        if (err == TR_EWOULDBLOCK) {
            err = tri_stream_await(&call);
        }
    }
    tri_stream_leave(&call);
    return err;
}

tr_err(tr_shutdown)(tr_from from, tr_stream *stream)
{
    tri_stream_call call;
    TR_TRY(tri_stream_enter(&call, from, stream, TRI_FD_WRITE, 0));
    tr_err err = ops_of(stream)->stream_shutdown(stream->raw);
    tri_stream_leave(&call);
    return err;
}

const char *tr_stream_address(tr_stream *stream, bool remote, char *buf,
                              size_t size)
{
    TRI_CHECK(stream->magic == TRI_STREAM_MAGIC);
    char text[TRI_STREAM_ADDRESS_MAX];
    ops_of(stream)->stream_address(stream->raw, remote, text);
    if (size > 0) {
        (void)snprintf(buf, size, "%s", text);
    }
    return buf;
}
