/*
 * posix_udp.h - datagrams of the real world: UDP sockets.
 *
 * The functions are the udp_* entries of tri_world_ops; world.h has their
 * contracts.
 *
 * Threads: as world.h says.
 */
#ifndef TRI_BASE_POSIX_UDP_H
#define TRI_BASE_POSIX_UDP_H

#include <stddef.h>
#include <stdint.h>

#include "base/world.h"
#include "troupe/base.h"

tr_err tri_posix_udp_open(tri_poller *poller, tri_stream **out,
                          const char *address);
tr_err tri_posix_udp_send(tri_stream *socket, const char *to,
                          const tri_piece *pieces, uint32_t count);
tr_err tri_posix_udp_receive(tri_stream *socket, void *at, size_t size,
                             size_t *done, char from[TRI_STREAM_ADDRESS_MAX]);

#endif
