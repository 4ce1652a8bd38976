/*
 * sim_udp.h - the datagrams of a simulated world.
 *
 * The functions tri_sim_udp_open, _send and _receive are the udp_* entries of
 * tri_world_ops; world.h has their contracts. Datagrams use the links of
 * sim_net.h, with all faults of messages.
 *
 * Threads: the one that runs the world.
 */
#ifndef TRI_SIM_SIM_UDP_H
#define TRI_SIM_SIM_UDP_H

#include <stddef.h>
#include <stdint.h>

#include "base/world.h"
#include "troupe/base.h"

/* A socket drops what arrives while this much is unread; as Linux does. */
enum { TRI_SIM_UDP_UNREAD_MAX = 208 * 1024 };

tr_err tri_sim_udp_open(tri_poller *poller, tri_stream **out,
                        const char *address);
tr_err tri_sim_udp_send(tri_stream *socket, const char *to,
                        const tri_piece *pieces, uint32_t count);
tr_err tri_sim_udp_receive(tri_stream *socket, void *at, size_t size,
                           size_t *done, char from[TRI_STREAM_ADDRESS_MAX]);

/* A tri_sim_deliver_fn: a datagram arrives. `user` is the tri_sim_tcp. */
void tri_sim_udp_arrived(void *user, uint32_t from, uint32_t to,
                         const void *bytes, size_t size);
/* Drops what has arrived and was not received. */
void tri_sim_udp_forget(tri_stream *socket);

#endif
