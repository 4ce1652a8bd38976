/*
 * udp.h - datagrams: UDP sockets in straight-line code.
 *
 * A call that waits parks the handler; outside of handlers it blocks the
 * thread. One turn of an actor may receive while another one sends. A datagram
 * arrives whole, or not at all; it may come twice, or after a later one.
 *
 * Addresses are texts: "udp://127.0.0.1:7000", "udp://[::1]:7000",
 * "udp://example.org:53". Port 0 is a free port, which tr_udp_address tells. A
 * socket at "udp://0.0.0.0:0" or "udp://[::]:0" reaches every address of its
 * family. There is no multicast and no broadcast.
 *
 * In a simulated world the same calls use simulated sockets (sim.h). Datagrams
 * between nodes are lost, late, out of order, twice or damaged, which means
 * lost, by the fault classes `drop`, `delay`, `reorder`, `duplicate` and
 * `bit_flip`, and share the links of streams, with their faults. Those from or
 * to a workload are only late. The nodes share one machine, so they share its
 * ports; "udp://node-2:7000" is port 7000 of node 2.
 *
 * A timeout of 0 is no limit. A timeout below 0 is over already: a call that
 * would wait returns TR_ETIMEDOUT.
 *
 * Threads: any; two calls that receive from one socket at the same time, or two
 * that send, are refused with TR_EEXIST.
 * Ownership: a socket belongs to the actor that opened it and is closed at the
 * end of that incarnation, if tr_udp_close was not called before. A socket that
 * was opened outside of actors belongs to the program, which closes it before
 * the system. A socket must not be used after its end.
 * Errors of all calls: TR_ECLOSED (the socket was closed meanwhile), TR_EEXIST,
 * TR_ENOMEM, TR_ELIMIT (no descriptor is left), TR_EFOREIGN (the socket belongs
 * to another system), TR_EWOULDBLOCK (`sys` inside a handler), TR_EIO; in a
 * handler an ended-wait error (actor.h).
 */
#ifndef TROUPE_UDP_H
#define TROUPE_UDP_H

#include <stddef.h>
#include <troupe/base.h>
#include <troupe/net.h>

typedef struct tr_udp tr_udp;  // a socket

/* Bytes of a datagram, at most; beyond about 1400 a network may split it. */
enum { TR_UDP_MAX = 65507 };

TR_BEGIN_DECLS

/*
 * Opens a socket at an address of this machine.
 * Errors: TR_EEXIST (the address is in use), TR_EINVAL (no such address on this
 * machine), TR_ENOENT (no such name).
 */
TR_API TR_NODISCARD tr_err tr_udp_open(tr_from from, tr_udp **out,
                                       const char *address);
/*
 * Sends the bytes of all pieces as one datagram: tr_udp_send(ctx, socket, to,
 * 0, {head, 8}, {body, size}). TR_OK says nothing about its arrival. Waits
 * while the machine has too much to send. A name is looked up by each call; to
 * answer, give the address that tr_udp_receive has stored.
 * Errors: TR_ETIMEDOUT, TR_EINVAL (not an address, one of another family, more
 * than TR_UDP_MAX bytes or 64 pieces), TR_ENOENT (no such name),
 * TR_EUNREACHABLE (no way).
 */
TR_API TR_NODISCARD tr_err tr_udp_send(tr_from from, tr_udp *socket,
                                       const char *to, tr_nanos timeout,
                                       const tr_piece *pieces, uint32_t count);
/*
 * Waits for a datagram and stores its bytes, at most size, and the address of
 * its sender, in TR_ADDRESS_SIZE bytes; sender may be NULL. TR_OK with *got 0
 * is an empty datagram.
 * Errors: TR_ETIMEDOUT, TR_ELIMIT (the datagram was longer than size: its
 * first *got bytes are stored, the others are lost).
 */
TR_API TR_NODISCARD tr_err tr_udp_receive(tr_from from, tr_udp *socket,
                                          void *buf, size_t size,
                                          tr_nanos timeout, size_t *got,
                                          char *sender);
/*
 * Closes the socket; NULL is allowed. Calls of other turns that wait for it
 * return TR_ECLOSED.
 */
TR_API void tr_udp_close(tr_from from, tr_udp *socket);
/*
 * Writes the address of the socket and returns buf. TR_ADDRESS_SIZE bytes are
 * enough.
 */
TR_API const char *tr_udp_address(tr_udp *socket, char *buf, size_t size);

TR_END_DECLS

#ifndef __cplusplus

#define tr_udp_open(from, out, address)                                        \
    __extension__(tr_udp_open)((from), (out), (address))
#define tr_udp_send(from, socket, to, timeout, ...)                            \
    __extension__(tr_udp_send)(                                                \
        (from), (socket), (to), (timeout), (const tr_piece[]){__VA_ARGS__},    \
        sizeof((const tr_piece[]){__VA_ARGS__}) / sizeof(tr_piece))
#define tr_udp_receive(from, socket, buf, size, timeout, got, sender)          \
    __extension__(tr_udp_receive)((from), (socket), (buf), (size), (timeout),  \
                                  (got), (sender))
#define tr_udp_close(from, socket) __extension__(tr_udp_close)((from), (socket))

#endif /* !__cplusplus */
#endif
