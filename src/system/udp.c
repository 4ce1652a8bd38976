/*
 * udp.c - the public calls on sockets of datagrams.
 *
 * A tr_udp is a tr_stream whose stream of the world takes the udp_* calls only;
 * the two types keep a program from mixing them. Owners, closing and waiting
 * are those of stream.c.
 */
#include "troupe/udp.h"

#include "base/check.h"
#include "base/world.h"
#include "core/ask/error_text.h"
#include "core/caller.h"
#include "core/system.h"
#include "system/io.h"
#include "system/lookup.h"
#include "system/stream.h"

_Static_assert((int)TR_UDP_MAX == (int)TRI_UDP_MAX, "the same size");

static tr_stream *stream_of(tr_udp *socket)
{
    return (tr_stream *)(void *)socket;
}

static const tri_world_ops *ops_of(const tr_stream *stream)
{
    return stream->sys->world->ops;
}

/* ---- opening and closing ---- */

typedef struct opening {
    tri_io *io;
    tr_stream *stream;
} opening;

static tr_err open_at(void *arg, const char *address)
{
    opening *it = arg;
    tri_stream *raw;
    TR_TRY(it->io->sys->world->ops->udp_open(it->io->poller, &raw, address));
    return tri_stream_new(it->io, raw, NULL, &it->stream);
}

tr_err(tr_udp_open)(tr_from from, tr_udp **out, const char *address)
{
    TRI_CHECK(out != NULL);
    opening it = {0};
    tr_ctx *ctx;
    *out = NULL;
    TR_TRY(tri_stream_caller(from, &ctx));
    TR_TRY(tri_io_need(tri_from_system(from), &it.io));
    tr_err err = tri_lookup_each(ctx, it.io->sys, address, open_at, &it);
    if (err != TR_OK) {
        tri_error_set(ctx, "opening %s: %s", address, tr_strerror(err));
        return err;
    }
    err = tri_stream_own(ctx, it.stream);
    if (err != TR_OK) {
        tri_stream_close(it.stream);
        return err;
    }
    *out = (tr_udp *)(void *)it.stream;
    return TR_OK;
}

void(tr_udp_close)(tr_from from, tr_udp *socket)
{
    (tr_stream_close)(from, stream_of(socket));
}

const char *tr_udp_address(tr_udp *socket, char *buf, size_t size)
{
    TRI_CHECK(socket != NULL);
    return tr_stream_address(stream_of(socket), false, buf, size);
}

/* ---- sending ---- */

typedef struct sending {
    tri_stream_call *call;
    const tri_piece *pieces;
    uint32_t count;
} sending;

static tr_err send_to(void *arg, const char *address)
{
    sending *it = arg;
    tr_stream *stream = it->call->stream;
    tr_err err;
    while ((err = ops_of(stream)->udp_send(stream->raw, address, it->pieces,
                                           it->count)) == TR_EWOULDBLOCK) {
        TR_TRY(tri_stream_await_open(it->call));
    }
    return err;
}

tr_err(tr_udp_send)(tr_from from, tr_udp *socket, const char *to,
                    tr_nanos timeout, const tr_piece *pieces, uint32_t count)
{
    TRI_CHECK(pieces != NULL || count == 0);
    TRI_CHECK(to != NULL);
    tri_piece parts[TRI_PIECES_MAX];
    tri_stream_call call;
    sending it = {.call = &call, .pieces = parts, .count = count};
    if (count > TRI_PIECES_MAX) {
        return TR_EINVAL;
    }
    for (uint32_t i = 0; i < count; i++) {
        parts[i] = (tri_piece){pieces[i].at, pieces[i].size};
    }
    TR_TRY(tri_stream_enter(&call, from, stream_of(socket), TRI_FD_WRITE,
                            timeout));
    tr_err err = tri_lookup_each(call.ctx, call.stream->sys, to, send_to, &it);
    tri_stream_leave(&call);
    return err;
}

/* ---- receiving ---- */

tr_err(tr_udp_receive)(tr_from from, tr_udp *socket, void *buf, size_t size,
                       tr_nanos timeout, size_t *got, char *sender)
{
    TRI_CHECK(buf != NULL || size == 0);
    TRI_CHECK(got != NULL);
    char unused[TR_ADDRESS_SIZE];
    tri_stream_call call;
    char *address = sender != NULL ? sender : unused;
    *got = 0;
    address[0] = '\0';
    TR_TRY(
        tri_stream_enter(&call, from, stream_of(socket), TRI_FD_READ, timeout));
    tr_stream *stream = call.stream;
    tr_err err;
    do {
        err = ops_of(stream)->udp_receive(stream->raw, buf, size, got, address);
        if (err != TR_EWOULDBLOCK) {
            break;
        }
        err = tri_stream_await_open(&call);
    } while (err == TR_OK);
    tri_stream_leave(&call);
    return err;
}
