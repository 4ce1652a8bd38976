/*
 * signals.c - the public calls on signals of the process.
 *
 * A tr_signals is a tr_stream whose stream of the world takes the signals_*
 * calls only; owners, closing and waiting are those of stream.c.
 */
#include <stdint.h>

#include "base/check.h"
#include "base/world.h"
#include "core/ask/error_text.h"
#include "core/caller.h"
#include "core/system.h"
#include "system/io.h"
#include "system/stream.h"
#include "troupe/base.h"
#include "troupe/process.h"

enum { NUMBERS_MAX = 64 };  // the greatest number of a signal

static tr_stream *stream_of(tr_signals *signals)
{
    return (tr_stream *)(void *)signals;
}

/* Makes a set of numbers. Returns 0 if there are none, or a wrong one. */
static uint64_t set_of(const int *numbers, uint32_t count)
{
    uint64_t set = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (numbers[i] < 1 || numbers[i] > NUMBERS_MAX) {
            return 0;
        }
        set |= UINT64_C(1) << (numbers[i] - 1);
    }
    return set;
}

static tr_err open_set(tr_from from, tr_stream **out, uint64_t set)
{
    tri_io *io;
    tri_stream *raw;
    TR_TRY(tri_io_need(tri_from_system(from), &io));
    TR_TRY(io->sys->world->ops->signals_open(io->poller, &raw, set));
    return tri_stream_new(io, raw, NULL, out);
}

tr_err(tr_signals_open)(tr_from from, tr_signals **out, const int *numbers,
                        uint32_t count)
{
    TRI_CHECK(out != NULL);
    TRI_CHECK(numbers != NULL || count == 0);
    tr_ctx *ctx;
    tr_stream *stream;
    *out = NULL;
    TR_TRY(tri_stream_caller(from, &ctx));
    tr_err err = open_set(from, &stream, set_of(numbers, count));
    if (err != TR_OK) {
        tri_error_set(ctx, "taking over signals: %s", tr_strerror(err));
        return err;
    }
    err = tri_stream_own(ctx, stream);
    if (err != TR_OK) {
        tri_stream_close(stream);
        return err;
    }
    *out = (tr_signals *)(void *)stream;
    return TR_OK;
}

tr_err(tr_signals_wait)(tr_from from, tr_signals *signals, tr_nanos timeout,
                        int *number)
{
    TRI_CHECK(number != NULL);
    tri_stream_call call;
    *number = 0;
    TR_TRY(tri_stream_enter(&call, from, stream_of(signals), TRI_FD_READ,
                            timeout));
    tr_stream *stream = call.stream;
    const tri_world_ops *ops = stream->sys->world->ops;
    tr_err err;
    while ((err = ops->signals_take(stream->raw, number)) == TR_EWOULDBLOCK) {
        err = tri_stream_await_open(&call);
        if (err != TR_OK) {
            break;
        }
    }
    tri_stream_leave(&call);
    return err;
}

void(tr_signals_close)(tr_from from, tr_signals *signals)
{
    (tr_stream_close)(from, stream_of(signals));
}
