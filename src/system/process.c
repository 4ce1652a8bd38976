/*
 * process.c - the public calls on child processes.
 *
 * A tr_process is a tr_stream whose stream of the world takes the process_*
 * calls only; owners, closing and waiting are those of stream.c. Its pipes are
 * streams like all others.
 */
#include "troupe/process.h"

#include "base/check.h"
#include "base/options.h"
#include "base/world.h"
#include "core/ask/error_text.h"
#include "core/caller.h"
#include "core/system.h"
#include "system/io.h"
#include "system/stream.h"
#include "troupe/base.h"

static tr_stream *stream_of(tr_process *child)
{
    return (tr_stream *)(void *)child;
}

/* ---- starting ---- */

/* A child that is being started: the process, then its three pipes. */
typedef struct starting {
    tri_io *io;
    tr_ctx *ctx;
    tri_stream *raw[4];
    tr_stream *stream[4];
} starting;

static tri_process_plan plan_of(const char *const *argv,
                                const tr_process_options *options)
{
    return (tri_process_plan){.arguments = argv,
                              .environment = options->env,
                              .folder = options->folder,
                              .has_pipe = {options->in != NULL,
                                           options->out != NULL,
                                           options->err != NULL},
                              .is_merged = options->merge,
                              .is_quiet = options->quiet};
}

/* Makes the streams of the program. On an error none is left. */
static tr_err streams_new(starting *it)
{
    tr_err err = TR_OK;
    for (int i = 0; i < 4; i++) {
        tri_stream *raw = it->raw[i];
        if (raw == NULL) {
            continue;
        }
        if (err != TR_OK) {
            it->io->sys->world->ops->stream_close(raw);
            continue;
        }
        err = tri_stream_new(it->io, raw, NULL, &it->stream[i]);
        if (err == TR_OK) {
            err = tri_stream_own(it->ctx, it->stream[i]);
        }
    }
    return err;
}

static void streams_close(tr_from from, starting *it)
{
    for (int i = 0; i < 4; i++) {
        (tr_stream_close)(from, it->stream[i]);
        it->stream[i] = NULL;
    }
}

static tr_err start(tr_from from, starting *it, const tri_process_plan *plan)
{
    const tri_world_ops *ops = it->io->sys->world->ops;
    if (ops->process_start == NULL) {
        tri_error_set(it->ctx,
                      "tr_process_start of %s: a simulated world has no "
                      "child processes",
                      plan->arguments[0]);
        return TR_EINVAL;
    }
    // The poller's thread takes the status of a child that was closed.
    TR_TRY(tri_io_watch(it->io));
    tr_err err =
        ops->process_start(it->io->poller, &it->raw[0], plan, &it->raw[1]);
    if (err == TR_OK) {
        err = streams_new(it);
    }
    if (err != TR_OK) {
        streams_close(from, it);
        tri_error_set(it->ctx, "tr_process_start of %s: %s", plan->arguments[0],
                      tr_strerror(err));
    }
    return err;
}

/* Gives the streams to the caller: also NULL, after an error. */
static void starting_give(const starting *it, tr_process **out,
                          const tr_process_options *options)
{
    tr_stream **const to[3] = {options->in, options->out, options->err};
    *out = (tr_process *)(void *)it->stream[0];
    for (int i = 0; i < 3; i++) {
        if (to[i] != NULL) {
            *to[i] = it->stream[i + 1];
        }
    }
}

tr_err(tr_process_start)(tr_from from, tr_process **out,
                         const char *const *argv,
                         const tr_process_options *options)
{
    TRI_CHECK(out != NULL);
    starting it = {0};
    tr_process_options own;
    *out = NULL;
    if (argv == NULL || argv[0] == NULL ||
        !tri_options_copy(&own, sizeof(own), sizeof(size_t), options) ||
        (own.merge && own.err != NULL)) {
        return TR_EINVAL;
    }
    starting_give(&it, out, &own);
    TR_TRY(tri_stream_caller(from, &it.ctx));
    TR_TRY(tri_io_need(tri_from_system(from), &it.io));
    tri_process_plan plan = plan_of(argv, &own);
    tr_err err = start(from, &it, &plan);
    starting_give(&it, out, &own);
    return err;
}

/* ---- the end ---- */

tr_err(tr_process_wait)(tr_from from, tr_process *child, tr_nanos timeout,
                        tr_process_status *status)
{
    TRI_CHECK(status != NULL);
    tri_stream_call call;
    tri_process_status found = {0};
    *status = (tr_process_status){0};
    TR_TRY(
        tri_stream_enter(&call, from, stream_of(child), TRI_FD_READ, timeout));
    tr_stream *stream = call.stream;
    const tri_world_ops *ops = stream->sys->world->ops;
    tr_err err;
    while ((err = ops->process_status(stream->raw, &found)) == TR_EWOULDBLOCK) {
        err = tri_stream_await_open(&call);
        if (err != TR_OK) {
            break;
        }
    }
    tri_stream_leave(&call);
    *status = (tr_process_status){.code = found.code, .signal = found.signal};
    return err;
}

tr_err(tr_process_signal)(tr_from from, tr_process *child, int number)
{
    tr_stream *stream = stream_of(child);
    TRI_CHECK(stream != NULL && stream->magic == TRI_STREAM_MAGIC);
    if (tri_from_system(from) != stream->sys) {
        return TR_EFOREIGN;
    }
    tri_stream_hold(stream);
    tr_err err = stream->sys->world->ops->process_signal(stream->raw, number);
    tri_stream_drop(stream);
    return err;
}

void(tr_process_close)(tr_from from, tr_process *child)
{
    (tr_stream_close)(from, stream_of(child));
}
