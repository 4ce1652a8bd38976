/*
 * posix_udp.c - datagrams of the real world: UDP sockets that do not block.
 *
 * A socket is not connected, so the kernel tells it of no error that another
 * machine has answered with: a datagram that nobody takes is lost silently.
 *
 * Invariant: a direction's bit is clear only after the kernel has said EAGAIN,
 * because one datagram taken says nothing about the next (posix_stream.c).
 */
#define _GNU_SOURCE  // SOCK_CLOEXEC

#include "base/posix_udp.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/posix_address.h"
#include "base/posix_stream.h"

tr_err tri_posix_udp_open(tri_poller *poller, tri_stream **out,
                          const char *address)
{
    TRI_CHECK(out != NULL);
    struct sockaddr_storage at;
    uint32_t size;

    *out = NULL;
    TR_TRY(tri_posix_address_read(address, true, &at, &size));
    int fd = socket(at.ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return tri_posix_stream_err(errno);
    }
    if (bind(fd, (const struct sockaddr *)&at, size) != 0) {
        // No such address on this machine: as tr_listen has it.
        tr_err err =
            errno == EADDRNOTAVAIL ? TR_EINVAL : tri_posix_stream_err(errno);
        (void)close(fd);
        return err;
    }
    return tri_posix_stream_new(poller, fd, TRI_FD_READ | TRI_FD_WRITE, out);
}

tr_err tri_posix_udp_send(tri_stream *socket, const char *to,
                          const tri_piece *pieces, uint32_t count)
{
    TRI_CHECK(pieces != NULL || count == 0);
    struct sockaddr_storage at;
    uint32_t size;
    ssize_t put;

    if (count > TRI_PIECES_MAX) {
        return TR_EINVAL;
    }
    TR_TRY(tri_posix_address_read(to, true, &at, &size));
    struct msghdr message = {.msg_name = &at,
                             .msg_namelen = size,
                             .msg_iov = (struct iovec *)(uintptr_t)pieces,
                             .msg_iovlen = count};
    if (!tri_posix_stream_take(socket, TRI_FD_WRITE)) {
        return TR_EWOULDBLOCK;
    }
    do {
        put = sendmsg(tri_posix_stream_fd(socket), &message, MSG_NOSIGNAL);
    } while (put < 0 && errno == EINTR);
    if (put < 0 && errno == EAGAIN) {
        return TR_EWOULDBLOCK;
    }
    int number = put < 0 ? errno : 0;
    tri_posix_stream_give(socket, TRI_FD_WRITE);
    if (number == EMSGSIZE) {
        return TR_EINVAL;
    }
    return number == 0 ? TR_OK : tri_posix_stream_err(number);
}

tr_err tri_posix_udp_receive(tri_stream *socket, void *at, size_t size,
                             size_t *done, char from[TRI_STREAM_ADDRESS_MAX])
{
    TRI_CHECK(at != NULL || size == 0);
    TRI_CHECK(done != NULL);
    struct sockaddr_storage sender = {0};
    socklen_t sender_size;
    ssize_t got;

    *done = 0;
    from[0] = '\0';
    if (!tri_posix_stream_take(socket, TRI_FD_READ)) {
        return TR_EWOULDBLOCK;
    }
    do {
        sender_size = sizeof(sender);
        // MSG_TRUNC: the result is the size of the datagram, not of its part.
        got = recvfrom(tri_posix_stream_fd(socket), at, size, MSG_TRUNC,
                       (struct sockaddr *)&sender, &sender_size);
    } while (got < 0 && errno == EINTR);
    if (got < 0 && errno == EAGAIN) {
        return TR_EWOULDBLOCK;
    }
    int number = got < 0 ? errno : 0;
    tri_posix_stream_give(socket, TRI_FD_READ);
    if (number != 0) {
        return tri_posix_stream_err(number);
    }
    tri_posix_address_write(&sender, sender_size, true, from);
    *done = (size_t)got < size ? (size_t)got : size;
    return (size_t)got > size ? TR_ELIMIT : TR_OK;
}
