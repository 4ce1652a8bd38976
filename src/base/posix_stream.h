/*
 * posix_stream.h - streams of the real world: sockets.
 *
 * The functions are the stream_* entries of tri_world_ops; world.h has their
 * contracts. Those after them are for posix_poller.c, and the last ones for
 * the files posix_*.c that have other descriptors to wait for.
 *
 * Threads: as world.h says.
 */
#ifndef TRI_BASE_POSIX_STREAM_H
#define TRI_BASE_POSIX_STREAM_H

#include <stdbool.h>
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
/*
 * Frees a closed stream, or leaves it to the poller if what is behind it has
 * not ended; not if it is the last chance. Returns the next of the list.
 */
tri_stream *tri_posix_stream_free(tri_stream *stream, bool is_last);

/*
 * Makes the stream of a descriptor that does not block. `ready`: the TRI_FD_*
 * that are worth a try. Takes fd: closes it on an error.
 */
tr_err tri_posix_stream_new(tri_poller *poller, int fd, uint32_t ready,
                            tri_stream **out);
/*
 * Begins a call: clears the direction's bit and that of errors, which do not
 * last on these descriptors. Returns false if the call would give
 * TR_EWOULDBLOCK.
 */
bool tri_posix_stream_take(tri_stream *stream, uint32_t direction);
/* Ends a call after which another one of the direction may succeed. */
void tri_posix_stream_give(tri_stream *stream, uint32_t direction);
/*
 * Sets what is behind the descriptor. A close calls end(data, false), and until
 * it returns true, each poller_wait calls it again; at the end of the poller
 * end(data, true) must return true, and may block. `end` frees the data then.
 */
void tri_posix_stream_set_end(tri_stream *stream,
                              bool (*end)(void *data, bool is_last),
                              void *data);
/* Returns the data, if the stream has that `end`. */
void *tri_posix_stream_data(const tri_stream *stream,
                            bool (*end)(void *data, bool is_last));
/* Makes the stream one of a pipe, which takes other calls than a socket. */
void tri_posix_stream_set_pipe(tri_stream *stream);
int tri_posix_stream_fd(const tri_stream *stream);
/* Returns the tr_err for an errno of a socket's call. */
tr_err tri_posix_stream_err(int number);

#endif
