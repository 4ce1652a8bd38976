/*
 * sim_tcp.h - the streams of a simulated world.
 *
 * The functions tri_sim_stream_* are the stream_* entries of tri_world_ops;
 * world.h has their contracts. A stream connects two nodes of one world, or a
 * node with a client; the links between nodes are those of sim_net.h.
 *
 * Threads: the one that runs the world.
 */
#ifndef TRI_SIM_SIM_TCP_H
#define TRI_SIM_SIM_TCP_H

#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/world.h"
#include "sim/sim_net.h"
#include "sim/sim_node.h"
#include "troupe/base.h"

#define TRI_SIM_PORT_FIRST UINT16_C(32768)  // of those the world chooses

/* All streams of a world; made by the first one. */
typedef struct tri_sim_tcp {
    tr_sim *sim;
    tri_sim_net *net;
    tri_list streams;
    tri_list pipes;
    uint16_t next_port;
} tri_sim_tcp;

/* Returns the streams of the world, which this makes. NULL: no memory. */
tri_sim_tcp *tri_sim_tcp_need(tr_sim *sim);
/* Ends what the node has: each other end sees a reset, or nothing. */
void tri_sim_tcp_kill(tri_sim_node *node);
/* Disturbs links with the world's probabilities; called once per step. */
void tri_sim_tcp_trouble(tr_sim *sim);
/* Ends cuts, clogs and slowness of all links. */
void tri_sim_tcp_heal(tr_sim *sim);
/* Frees all streams, with those that were left open. */
void tri_sim_tcp_free(tr_sim *sim);

tr_err tri_sim_stream_listen(tri_poller *poller, tri_stream **out,
                             const char *address, uint32_t backlog);
tr_err tri_sim_stream_accept(tri_stream *listener, tri_stream **out);
tr_err tri_sim_stream_connect(tri_poller *poller, tri_stream **out,
                              const char *address);
tr_err tri_sim_stream_connected(tri_stream *stream);
tr_err tri_sim_stream_read(tri_stream *stream, void *at, size_t size,
                           size_t *done);
tr_err tri_sim_stream_write(tri_stream *stream, const tri_piece *pieces,
                            uint32_t count, size_t *done);
tr_err tri_sim_stream_shutdown(tri_stream *stream);
void tri_sim_stream_close(tri_stream *stream);
void tri_sim_stream_address(tri_stream *stream, bool remote,
                            char out[TRI_STREAM_ADDRESS_MAX]);
tri_armed tri_sim_stream_wait(tri_stream *stream, uint32_t direction,
                              tri_waiter *waiter);
bool tri_sim_stream_cancel(tri_stream *stream, uint32_t direction,
                           tri_waiter *waiter);

/* Returns the node of a poller; in world_sim.c. */
tri_sim_node *tri_sim_poller_node(const tri_poller *poller);

#endif
