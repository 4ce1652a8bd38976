/*
 * net.h - streams: TCP and Unix sockets in straight-line code, and servers.
 *
 * A call that waits parks the handler; outside of handlers it blocks the
 * thread. One turn of an actor may read a stream while another one writes it.
 * In a simulated world the same calls use simulated streams (sim.h).
 *
 * Addresses are texts: "tcp://127.0.0.1:7000", "tcp://[::1]:7000",
 * "tcp://example.org:80", "unix:/run/app.sock". Port 0 listens on a free port,
 * which tr_stream_address tells. A simulation has one machine, whose ports all
 * its nodes share; "tcp://node-2:7000" is port 7000 of node 2.
 *
 * A timeout of 0 is the stream's default: no limit, or what tr_serve was told.
 * A timeout below 0 is over already: a call that would wait returns
 * TR_ETIMEDOUT.
 *
 * Threads: any; two calls that read one stream at the same time, or two that
 * write it, are refused with TR_EEXIST.
 * Ownership: a stream belongs to the actor that opened it and is closed at the
 * end of that incarnation, if tr_stream_close was not called before. A stream
 * that an actor has accepted belongs to the actor that first reads or writes
 * it, and until then to its listener's. An actor that uses a stream which another
 * one has accepted is never restarted (TR_RESTART becomes TR_STOP): its next
 * incarnation would find a stream that has ended. A stream that was opened or
 * accepted outside of actors belongs to the program, which closes it before the
 * system. A stream must not be used after its end.
 * Errors of all calls: TR_ECLOSED (the stream was closed meanwhile), TR_EEXIST,
 * TR_ENOMEM, TR_ELIMIT (no descriptor is left), TR_EFOREIGN (the stream belongs
 * to another system), TR_EWOULDBLOCK (`sys` inside a handler), TR_EIO; in a
 * handler an ended-wait error (actor.h).
 */
#ifndef TROUPE_NET_H
#define TROUPE_NET_H

#include <stddef.h>
#include <troupe/actor.h>
#include <troupe/base.h>

typedef struct tr_stream tr_stream;  // a connection, or a listener

/* Bytes of an address with its zero. */
enum { TR_ADDRESS_SIZE = 128 };

/* Bytes to write; borrowed for the call. */
typedef struct tr_piece {
    const void *at;
    size_t size;
} tr_piece;

/* Options of tr_serve. */
typedef struct tr_serve_options {
    size_t size;
    size_t stream_at;          // set by the macro: where the state has `stream`
    const void *init;          // TR_INIT(kind, ...): the first state of each
    const tr_type *init_type;  //   connection; its `stream` is set by tr_serve.
                               //   Its bytes are copied, not what they point to
    size_t init_size;
    const char *name;        // of the server; default "$<id>"
    const char *dispatcher;  // of the connections
    char *bound;             // gets the address, of TR_ADDRESS_SIZE bytes
    uint32_t connections;    // at once; default 10000; more wait to be accepted
    uint32_t per_address;    // of one remote host; more are closed at once
    uint32_t per_second;     // accepted; default: no limit
    uint32_t backlog;        // not accepted yet, at most; default 128
    tr_nanos read_timeout;   // of its streams; default: no limit
    tr_nanos write_timeout;  // the same; default 30 s
    tr_nanos drain;  // how long a stop lets connections finish; default 5 s
} tr_serve_options;

TR_BEGIN_DECLS

/*
 * Listens at an address. backlog: how many connections may wait to be
 * accepted; 0: 128.
 * Errors: TR_EEXIST (the address is in use), TR_EINVAL (no such address on this
 * machine), TR_ENOENT (no such name).
 */
TR_API TR_NODISCARD tr_err tr_listen(tr_from from, tr_stream **out,
                                     const char *address, uint32_t backlog);
/*
 * Waits for a connection.
 * Errors: TR_ETIMEDOUT.
 */
TR_API TR_NODISCARD tr_err tr_accept(tr_from from, tr_stream **out,
                                     tr_stream *listener, tr_nanos timeout);
/*
 * Connects to an address; the addresses of a name are tried one after the
 * other. The time to look up a name, on a thread for blocking calls, does not
 * count.
 * Errors: TR_EUNREACHABLE (nobody listens there, or no way), TR_ENOENT (no such
 * name), TR_ETIMEDOUT, TR_ERESET, TR_EFULL (the queue of a Unix socket),
 * TR_EINVAL (not an address).
 */
TR_API TR_NODISCARD tr_err tr_connect(tr_from from, tr_stream **out,
                                      const char *address, tr_nanos timeout);

/*
 * Reads what has come, at least one byte and at most size. TR_OK with *got 0
 * is the end of the stream.
 * Errors: TR_ETIMEDOUT, TR_ERESET, TR_EINVAL (size 0).
 */
TR_API TR_NODISCARD tr_err tr_read(tr_from from, tr_stream *stream, void *buf,
                                   size_t size, tr_nanos timeout, size_t *got);
/*
 * Reads exactly size bytes. TR_OK with *got 0 is the end of the stream before
 * the first byte. With an error, *got bytes have been read.
 * Errors: TR_ETIMEDOUT, TR_ERESET (also the end after some bytes), TR_EINVAL
 * (size 0).
 */
TR_API TR_NODISCARD tr_err tr_read_exactly(tr_from from, tr_stream *stream,
                                           void *buf, size_t size,
                                           tr_nanos timeout, size_t *got);
/*
 * Reads through the first byte that is `end`, such as '\n', which is stored,
 * too; what follows is kept for the next read. TR_OK with *got 0 is the end of
 * the stream before the first byte. With an error, *got bytes have been read.
 * Errors: TR_ELIMIT (none of the first size bytes is `end`; tr_error_text has
 * the limit and the other side), TR_ETIMEDOUT, TR_ERESET (also the end after
 * some bytes), TR_EINVAL (size 0).
 */
TR_API TR_NODISCARD tr_err tr_read_until(tr_from from, tr_stream *stream,
                                         char end, void *buf, size_t size,
                                         tr_nanos timeout, size_t *got);
/*
 * Writes all bytes of the pieces: tr_write(ctx, stream, 0, {line, size}, {"\n",
 * 1}). Waits while the other side does not read. After an error an unknown part
 * has been written.
 * Errors: TR_ETIMEDOUT, TR_ERESET.
 */
TR_API TR_NODISCARD tr_err tr_write(tr_from from, tr_stream *stream,
                                    tr_nanos timeout, const tr_piece *pieces,
                                    uint32_t count);
/*
 * Ends writing: the other side reads the end of the stream after all bytes.
 * Errors: TR_ERESET.
 */
TR_API TR_NODISCARD tr_err tr_shutdown(tr_from from, tr_stream *stream);
/*
 * Closes the stream; NULL is allowed. Calls of other turns that wait for it
 * return TR_ECLOSED.
 */
TR_API void tr_stream_close(tr_from from, tr_stream *stream);
/*
 * Writes the stream's own address, or that of the other side, and returns buf;
 * "" if it has none. TR_ADDRESS_SIZE bytes are enough.
 */
TR_API const char *tr_stream_address(tr_stream *stream, bool remote, char *buf,
                                     size_t size);

/*
 * Serves an address: listens, and starts an actor of the kind for each
 * connection. Its state has a member `tr_stream *stream`, which is its
 * connection. When on_run returns TR_OK, that actor handles the messages that
 * are in its mailbox and ends. TR_ERESET, TR_ETIMEDOUT and TR_ECLOSED, from
 * on_run or a handler, end it at once, and are not failures. An actor that
 * fails ends, too, and is never restarted, because its connection is gone; the
 * other connections do not notice.
 *
 * Returns the server, an actor whose children are the connections. When it is
 * stopped, it accepts no more, lets each connection read what has come and then
 * the end of the stream, and stops after `drain` those that have not ended.
 * Failure: nobody, as with tr_spawn; the errors of tr_listen and tr_spawn.
 */
TR_API tr_ref tr_serve(tr_from from, const char *address,
                       const tr_actor_def *kind,
                       const tr_serve_options *options);

TR_END_DECLS

#ifndef __cplusplus

#define tr_listen(from, out, address, backlog)                                 \
    __extension__(tr_listen)((from), (out), (address), (backlog))
#define tr_accept(from, out, listener, timeout)                                \
    __extension__(tr_accept)((from), (out), (listener), (timeout))
#define tr_connect(from, out, address, timeout)                                \
    __extension__(tr_connect)((from), (out), (address), (timeout))
#define tr_read(from, stream, buf, size, timeout, got)                         \
    __extension__(tr_read)((from), (stream), (buf), (size), (timeout), (got))
#define tr_read_exactly(from, stream, buf, size, timeout, got)                 \
    __extension__(tr_read_exactly)((from), (stream), (buf), (size), (timeout), \
                                   (got))
#define tr_read_until(from, stream, end, buf, size, timeout, got)              \
    __extension__(tr_read_until)((from), (stream), (end), (buf), (size),       \
                                 (timeout), (got))
#define tr_write(from, stream, timeout, ...)                                   \
    __extension__(tr_write)(                                                   \
        (from), (stream), (timeout), (const tr_piece[]){__VA_ARGS__},          \
        sizeof((const tr_piece[]){__VA_ARGS__}) / sizeof(tr_piece))
#define tr_shutdown(from, stream) __extension__(tr_shutdown)((from), (stream))
#define tr_stream_close(from, stream)                                          \
    __extension__(tr_stream_close)((from), (stream))

#define tr_serve(from, address, ...) TR_SERVE_(from, address, __VA_ARGS__, )
#define TR_SERVE_(from, address, A, ...)                                       \
    __extension__(tr_serve)(                                                   \
        (from), (address), TR_DEF(A),                                          \
        TR_OPTIONS(tr_serve_options,                                           \
                   .stream_at = _Generic(((A##_tr_state *)0)->stream,          \
                       tr_stream *: offsetof(A##_tr_state, stream)),           \
                   __VA_ARGS__))

#endif /* !__cplusplus */
#endif
