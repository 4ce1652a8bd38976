/*
 * posix_stream.h - streams of the real world: sockets.
 *
 * The functions are the stream_* entries of tri_world_ops; world.h has their
 * contracts. The last two are for posix_poller.c.
 *
 * Threads: as world.h says.
 */
#ifndef TRI_BASE_POSIX_STREAM_H
#define TRI_BASE_POSIX_STREAM_H

#include <stddef.h>
#include <stdint.h>

#include "base/world.h"
#include "troupe/base.h"

tr_err tri_posix_stream_listen(tri_poller *poller, tri_stream **out,
                               const char *address, uint32_t backlog);
tr_err tri_posix_stream_accept(tri_stream *listener, tri_stream **out);
tr_err tri_posix_stream_connect(tri_poller *poller, tri_stream **out,
                                const char *address);
tr_err tri_posix_stream_connected(tri_stream *stream);
tr_err tri_posix_stream_read(tri_stream *stream, void *at, size_t size,
                             size_t *done);
tr_err tri_posix_stream_write(tri_stream *stream, const tri_piece *pieces,
                              uint32_t count, size_t *done);
tr_err tri_posix_stream_shutdown(tri_stream *stream);
void tri_posix_stream_close(tri_stream *stream);
void tri_posix_stream_address(tri_stream *stream, bool remote,
                              char out[TRI_STREAM_ADDRESS_MAX]);
tri_armed tri_posix_stream_wait(tri_stream *stream, uint32_t direction,
                                tri_waiter *waiter);
bool tri_posix_stream_cancel(tri_stream *stream, uint32_t direction,
                             tri_waiter *waiter);

/* Remembers epoll's event bits and calls the waiters they concern. */
void tri_posix_stream_ready(tri_stream *stream, uint32_t bits);
/* Frees a closed stream. Returns the next in the poller's list of those. */
tri_stream *tri_posix_stream_free(tri_stream *stream);

#endif
