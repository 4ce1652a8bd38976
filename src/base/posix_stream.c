/*
 * posix_stream.c - streams of the real world: non-blocking sockets, each
 * registered with its epoll instance once, edge-triggered.
 *
 * Invariant: if a direction's bit in `ready` is clear, epoll reports an edge
 * when a call would succeed. So a call clears the bit first and sets it again
 * if more may follow; an edge that comes in between sets it as well. The bits
 * for the end and for errors stay set.
 *
 * A stream that is closed while the poller's thread holds an event of it must
 * not be freed yet: it goes to the poller's list of closed streams, which the
 * next poller_wait frees.
 */
#define _GNU_SOURCE  // accept4

#include "base/posix_stream.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/check.h"
#include "base/posix_address.h"
#include "base/posix_poller.h"
#include "base/world_posix.h"

/* In `ready` beside TRI_FD_*: nothing more comes, so every read returns. */
#define READ_END UINT32_C(8)

_Static_assert(sizeof(tri_piece) == sizeof(struct iovec) &&
                   offsetof(tri_piece, size) == offsetof(struct iovec, iov_len),
               "tri_piece is a struct iovec");

struct tri_stream {
    tri_poller *poller;
    int fd;
    bool connecting;  // until stream_connected has decided
    bool is_pipe;     // not a socket
    bool is_ending;   // closed, but `end` has returned false
    bool (*end)(void *data, bool is_last);  // or NULL: posix_stream.h
    void *data;
    _Atomic(uint32_t) ready;          // TRI_FD_*, READ_END: worth a try
    _Atomic(tri_waiter *) waiter[2];  // for reading, for writing; or NULL
    tri_stream *next_closed;
};

/* The bits of `ready` that make a call of this direction worth a try. */
static uint32_t mask_of(uint32_t direction)
{
    return direction | TRI_FD_ERROR | (direction == TRI_FD_READ ? READ_END : 0);
}

static _Atomic(tri_waiter *) *slot_of(tri_stream *stream, uint32_t direction)
{
    TRI_CHECK(direction == TRI_FD_READ || direction == TRI_FD_WRITE);
    return &stream->waiter[direction == TRI_FD_WRITE];
}

/* Clears the direction's bit. Returns false if no call would succeed. */
static bool ready_take(tri_stream *stream, uint32_t direction)
{
    // Acquire and release: a call that follows sees what the edge announced;
    // pairs with tri_posix_stream_ready.
    uint32_t before = atomic_fetch_and_explicit(&stream->ready, ~direction,
                                                memory_order_acq_rel);
    return (before & mask_of(direction)) != 0;
}

static void ready_give(tri_stream *stream, uint32_t direction)
{
    // Relaxed: the bit is a hint to the same thread.
    atomic_fetch_or_explicit(&stream->ready, direction, memory_order_relaxed);
}

bool tri_posix_stream_take(tri_stream *stream, uint32_t direction)
{
    // Acquire and release: as in ready_take.
    uint32_t before = atomic_fetch_and_explicit(
        &stream->ready, ~(direction | TRI_FD_ERROR), memory_order_acq_rel);
    return (before & mask_of(direction)) != 0;
}

void tri_posix_stream_give(tri_stream *stream, uint32_t direction)
{
    ready_give(stream, direction);
}

void tri_posix_stream_set_end(tri_stream *stream,
                              bool (*end)(void *data, bool is_last), void *data)
{
    stream->end = end;
    stream->data = data;
}

void *tri_posix_stream_data(const tri_stream *stream,
                            bool (*end)(void *data, bool is_last))
{
    TRI_CHECK(stream->end == end);
    return stream->data;
}

void tri_posix_stream_set_pipe(tri_stream *stream)
{
    stream->is_pipe = true;
}

int tri_posix_stream_fd(const tri_stream *stream)
{
    return stream->fd;
}

/* ---- waiting ---- */

/* Calls the waiter of a direction, if there is one. */
static void waiter_call(tri_stream *stream, uint32_t direction)
{
    // Sequentially consistent: the bits were set before; pairs with
    // tri_posix_stream_wait, which stores the waiter and then reads the bits.
    tri_waiter *waiter = atomic_exchange_explicit(slot_of(stream, direction),
                                                  NULL, memory_order_seq_cst);
    if (waiter != NULL) {
        waiter->fn(waiter);
    }
}

void tri_posix_stream_ready(tri_stream *stream, uint32_t bits)
{
    uint32_t ready = 0;

    ready |= bits & EPOLLIN ? TRI_FD_READ : 0;
    ready |= bits & EPOLLOUT ? TRI_FD_WRITE : 0;
    ready |= bits & EPOLLRDHUP ? READ_END : 0;
    ready |= bits & (EPOLLHUP | EPOLLERR) ? TRI_FD_ERROR : 0;
    // Sequentially consistent: see waiter_call.
    atomic_fetch_or_explicit(&stream->ready, ready, memory_order_seq_cst);
    if (ready & mask_of(TRI_FD_READ)) {
        waiter_call(stream, TRI_FD_READ);
    }
    if (ready & mask_of(TRI_FD_WRITE)) {
        waiter_call(stream, TRI_FD_WRITE);
    }
}

tri_armed tri_posix_stream_wait(tri_stream *stream, uint32_t direction,
                                tri_waiter *waiter)
{
    TRI_CHECK(waiter->fn != NULL);
    tri_waiter *none = NULL;
    // Sequentially consistent, here and at the bits: either this thread sees
    // the bit, or the poller's thread sees the waiter (waiter_call).
    if (!atomic_compare_exchange_strong_explicit(
            slot_of(stream, direction), &none, waiter, memory_order_seq_cst,
            memory_order_relaxed)) {
        return TRI_ARMED_ELSE;
    }
    uint32_t ready = atomic_load_explicit(&stream->ready, memory_order_seq_cst);
    if ((ready & mask_of(direction)) == 0) {
        return TRI_ARMED;
    }
    return tri_posix_stream_cancel(stream, direction, waiter) ? TRI_READY_NOW
                                                              : TRI_ARMED;
}

bool tri_posix_stream_cancel(tri_stream *stream, uint32_t direction,
                             tri_waiter *waiter)
{
    tri_waiter *mine = waiter;
    // Pairs with waiter_call: one of the two takes the waiter. Sequentially
    // consistent also if it fails: a caller that has set a flag before knows
    // then that a waiter armed later sees the flag.
    return atomic_compare_exchange_strong_explicit(
        slot_of(stream, direction), &mine, NULL, memory_order_seq_cst,
        memory_order_seq_cst);
}

/* ---- making and closing ---- */

tr_err tri_posix_stream_err(int number)
{
    switch (number) {
    case EAGAIN:
        return TR_EWOULDBLOCK;
    case ECONNRESET:
    case EPIPE:
    case ECONNABORTED:
    case ENOTCONN:
        return TR_ERESET;
    case ECONNREFUSED:
    case ENETUNREACH:
    case EHOSTUNREACH:
    case ENETDOWN:
    case EADDRNOTAVAIL:
    case ENOENT:
        return TR_EUNREACHABLE;
    case ETIMEDOUT:
        return TR_ETIMEDOUT;
    case EADDRINUSE:
        return TR_EEXIST;
    case ENOBUFS:
        return TR_ENOMEM;
    case EAFNOSUPPORT:
    case EACCES:
    case EPERM:
        return TR_EINVAL;
    default:
        return tri_posix_err(number);
    }
}

tr_err tri_posix_stream_new(tri_poller *poller, int fd, uint32_t ready,
                            tri_stream **out)
{
    TRI_CHECK(fd >= 0);
    tri_stream *stream = calloc(1, sizeof(*stream));
    if (stream == NULL) {
        (void)close(fd);
        return TR_ENOMEM;
    }
    stream->poller = poller;
    stream->fd = fd;
    // Relaxed: the poller does not know the stream yet.
    atomic_store_explicit(&stream->ready, ready, memory_order_relaxed);
    tr_err err = tri_posix_poller_add_stream(poller, fd, stream);
    if (err != TR_OK) {
        (void)close(fd);
        free(stream);
        return err;
    }
    *out = stream;
    return TR_OK;
}

/* Messages are gathered before they are written, so none waits for more. */
static void no_delay(int fd, int family)
{
    int on = 1;
    if (family == AF_INET || family == AF_INET6) {
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    }
}

static tr_err socket_of(const struct sockaddr_storage *at, int *fd)
{
    *fd = socket(at->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return *fd >= 0 ? TR_OK : tri_posix_stream_err(errno);
}

static tr_err begin_listening(int fd, const struct sockaddr_storage *at,
                              uint32_t size, uint32_t backlog)
{
    TRI_CHECK(fd >= 0);
    int on = 1;
    int most = backlog < SOMAXCONN ? (int)backlog : SOMAXCONN;
    // A port of a process that has just ended is free at once.
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
        bind(fd, (const struct sockaddr *)at, size) != 0 ||
        listen(fd, most) != 0) {
        return tri_posix_stream_err(errno);
    }
    return TR_OK;
}

tr_err tri_posix_stream_listen(tri_poller *poller, tri_stream **out,
                               const char *address, uint32_t backlog)
{
    TRI_CHECK(out != NULL);
    struct sockaddr_storage at;
    uint32_t size;
    int fd;

    *out = NULL;
    TR_TRY(tri_posix_address_read(address, false, &at, &size));
    TR_TRY(socket_of(&at, &fd));
    tr_err err = begin_listening(fd, &at, size, backlog);
    if (err != TR_OK) {
        (void)close(fd);
        return err;
    }
    return tri_posix_stream_new(poller, fd, TRI_FD_READ, out);
}

tr_err tri_posix_stream_accept(tri_stream *listener, tri_stream **out)
{
    TRI_CHECK(out != NULL);
    struct sockaddr_storage at;
    int fd;

    *out = NULL;
    if (!ready_take(listener, TRI_FD_READ)) {
        return TR_EWOULDBLOCK;
    }
    do {
        socklen_t size = sizeof(at);
        fd = accept4(listener->fd, (struct sockaddr *)&at, &size,
                     SOCK_CLOEXEC | SOCK_NONBLOCK);
    } while (fd < 0 && (errno == EINTR || errno == ECONNABORTED));
    if (fd < 0 && errno == EAGAIN) {
        return TR_EWOULDBLOCK;
    }
    ready_give(listener, TRI_FD_READ);
    if (fd < 0) {
        return tri_posix_stream_err(errno);
    }
    no_delay(fd, at.ss_family);
    return tri_posix_stream_new(listener->poller, fd,
                                TRI_FD_READ | TRI_FD_WRITE, out);
}

tr_err tri_posix_stream_connect(tri_poller *poller, tri_stream **out,
                                const char *address)
{
    TRI_CHECK(out != NULL);
    struct sockaddr_storage at;
    uint32_t size;
    int fd;

    *out = NULL;
    TR_TRY(tri_posix_address_read(address, false, &at, &size));
    TR_TRY(socket_of(&at, &fd));
    TRI_CHECK(fd >= 0);
    no_delay(fd, at.ss_family);
    // EINTR: the kernel goes on connecting. EAGAIN: the queue of the Unix
    // listener is full, and the kernel would not tell when it has room.
    if (connect(fd, (const struct sockaddr *)&at, size) != 0 &&
        errno != EINPROGRESS && errno != EINTR) {
        tr_err err = errno == EAGAIN ? TR_EFULL : tri_posix_stream_err(errno);
        (void)close(fd);
        return err;
    }
    TR_TRY(tri_posix_stream_new(poller, fd, 0, out));
    (*out)->connecting = true;
    return TR_OK;
}

tr_err tri_posix_stream_connected(tri_stream *stream)
{
    int number = 0;
    socklen_t size = sizeof(number);

    if (!stream->connecting) {
        return TR_OK;
    }
    if (!ready_take(stream, TRI_FD_WRITE)) {
        return TR_EWOULDBLOCK;
    }
    ready_give(stream, TRI_FD_WRITE);
    if (getsockopt(stream->fd, SOL_SOCKET, SO_ERROR, &number, &size) != 0) {
        number = errno;
    }
    if (number == 0) {
        stream->connecting = false;
        return TR_OK;
    }
    return tri_posix_stream_err(number);
}

static void descriptor_close(const tri_stream *stream)
{
    // Closing alone is not enough: a forked child may have the socket, too,
    // and epoll would report it for ever.
    tri_posix_poller_remove(stream->poller, stream->fd);
    (void)close(stream->fd);
}

void tri_posix_stream_close(tri_stream *stream)
{
    if (stream == NULL) {
        return;
    }
    for (int i = 0; i < 2; i++) {
        // Relaxed: the caller has disarmed its waiters.
        TRI_CHECK(atomic_load_explicit(&stream->waiter[i],
                                       memory_order_relaxed) == NULL);
    }
    // The descriptor of what is ending stays: its event wakes the poller.
    stream->is_ending =
        stream->end != NULL && !stream->end(stream->data, false);
    if (!stream->is_ending) {
        descriptor_close(stream);
    }
    tri_posix_poller_free_later(stream->poller, stream, &stream->next_closed);
}

tri_stream *tri_posix_stream_free(tri_stream *stream, bool is_last)
{
    tri_stream *next = stream->next_closed;

    if (stream->is_ending && !stream->end(stream->data, is_last)) {
        TRI_CHECK(!is_last);
        tri_posix_poller_free_later_again(stream->poller, stream,
                                          &stream->next_closed);
        return next;
    }
    if (stream->is_ending) {
        descriptor_close(stream);
    }
    free(stream);
    return next;
}

/* ---- bytes ---- */

tr_err tri_posix_stream_read(tri_stream *stream, void *at, size_t size,
                             size_t *done)
{
    TRI_CHECK(size > 0);
    TRI_CHECK(done != NULL);
    ssize_t got;

    *done = 0;
    if (!ready_take(stream, TRI_FD_READ)) {
        return TR_EWOULDBLOCK;
    }
    do {
        got = stream->is_pipe ? read(stream->fd, at, size)
                              : recv(stream->fd, at, size, 0);
    } while (got < 0 && errno == EINTR);
    if (got < 0 && errno == EAGAIN) {
        return TR_EWOULDBLOCK;
    }
    // Fewer bytes than asked for: there were no more, and the next ones make
    // an edge.
    if (got <= 0 || (size_t)got == size) {
        ready_give(stream, TRI_FD_READ);
    }
    if (got < 0) {
        return tri_posix_stream_err(errno);
    }
    *done = (size_t)got;
    return TR_OK;
}

static size_t pieces_size(const tri_piece *pieces, uint32_t count)
{
    size_t size = 0;
    for (uint32_t i = 0; i < count; i++) {
        size += pieces[i].size;
    }
    return size;
}

/*
 * Writes to a pipe. Only a socket can be written to without SIGPIPE, so the
 * signal is blocked meanwhile, and taken back if this call has raised it.
 */
static ssize_t pipe_write(int fd, const struct iovec *pieces, uint32_t count)
{
    sigset_t pipe_signal, pending, before;
    sigemptyset(&pipe_signal);
    sigaddset(&pipe_signal, SIGPIPE);
    TRI_CHECK(pthread_sigmask(SIG_BLOCK, &pipe_signal, &before) == 0);
    TRI_CHECK(sigpending(&pending) == 0);
    ssize_t put = writev(fd, pieces, (int)count);
    int number = errno;
    if (put < 0 && number == EPIPE && !sigismember(&pending, SIGPIPE)) {
        struct timespec now = {0};
        (void)sigtimedwait(&pipe_signal, NULL, &now);
    }
    TRI_CHECK(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
    errno = number;
    return put;
}

tr_err tri_posix_stream_write(tri_stream *stream, const tri_piece *pieces,
                              uint32_t count, size_t *done)
{
    TRI_CHECK(pieces != NULL || count == 0);
    TRI_CHECK(done != NULL);
    uint32_t most = count < TRI_PIECES_MAX ? count : TRI_PIECES_MAX;
    struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)pieces,
                             .msg_iovlen = most};
    ssize_t put;

    *done = 0;
    if (!ready_take(stream, TRI_FD_WRITE)) {
        return TR_EWOULDBLOCK;
    }
    do {
        put = stream->is_pipe ? pipe_write(stream->fd, message.msg_iov, most)
                              : sendmsg(stream->fd, &message, MSG_NOSIGNAL);
    } while (put < 0 && errno == EINTR);
    if (put < 0 && errno == EAGAIN) {
        return TR_EWOULDBLOCK;
    }
    // Fewer bytes than given: the socket is full, and room makes an edge.
    if (put < 0 || (size_t)put == pieces_size(pieces, most)) {
        ready_give(stream, TRI_FD_WRITE);
    }
    if (put < 0) {
        return tri_posix_stream_err(errno);
    }
    *done = (size_t)put;
    return TR_OK;
}

tr_err tri_posix_stream_shutdown(tri_stream *stream)
{
    if (stream->is_pipe) {
        return TR_EINVAL;
    }
    return shutdown(stream->fd, SHUT_WR) == 0 ? TR_OK
                                              : tri_posix_stream_err(errno);
}

void tri_posix_stream_address(tri_stream *stream, bool remote,
                              char out[TRI_STREAM_ADDRESS_MAX])
{
    struct sockaddr_storage at = {0};
    socklen_t size = sizeof(at);
    int result = remote
                     ? getpeername(stream->fd, (struct sockaddr *)&at, &size)
                     : getsockname(stream->fd, (struct sockaddr *)&at, &size);

    out[0] = '\0';
    int kind = 0;
    socklen_t kind_size = sizeof(kind);
    if (result == 0 &&
        getsockopt(stream->fd, SOL_SOCKET, SO_TYPE, &kind, &kind_size) == 0) {
        tri_posix_address_write(&at, size, kind == SOCK_DGRAM, out);
    }
}
