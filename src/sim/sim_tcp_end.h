/*
 * sim_tcp_end.h - struct tri_stream of a simulated world: a listener, or one
 * end of a connection. For the files sim_tcp*.c.
 *
 * Threads: the one that runs the world.
 */
#ifndef TRI_SIM_SIM_TCP_END_H
#define TRI_SIM_SIM_TCP_END_H

#include <stdbool.h>
#include <stdint.h>

#include "base/address.h"
#include "base/list.h"
#include "base/world.h"
#include "sim/sim_event.h"
#include "sim/sim_node.h"
#include "sim/sim_pipe.h"
#include "sim/sim_tcp.h"
#include "troupe/base.h"

typedef enum tri_sim_stream_state {
    TRI_SIM_LISTENING,
    TRI_SIM_CONNECTING,
    TRI_SIM_OPEN,
    TRI_SIM_UDP,      // a socket of datagrams: sim_udp.c
    TRI_SIM_SIGNALS,  // signals of the node: sim_signal.c
} tri_sim_stream_state;

struct tri_stream {
    tri_link all;  // in tcp->streams
    tri_sim_tcp *tcp;
    tri_sim_node *node;
    tri_sim_stream_state state;
    tr_err broken;  // what every call gives, unless TR_OK
    bool killed;    // with its node: calls no waiter any more
    bool ended;     // stream_shutdown was called
    tri_waiter *waiter[2];
    char local[TRI_STREAM_ADDRESS_MAX], remote[TRI_STREAM_ADDRESS_MAX];

    uint32_t backlog, queued;  // of a listener
    tri_list queue;            // streams that wait for stream_accept
    tri_link queue_link;
    tri_stream *listener;  // in whose queue it is, or NULL

    tri_sim_event handshake;  // of a stream that connects
    uint32_t tries;
    bool refused;
    tri_sim_pipe *in, *out;  // NULL: none yet, or broken

    tri_list datagrams;  // that have arrived; of a socket of datagrams
    size_t datagram_bytes;

    uint64_t signal_set, signals_pending;  // bit n - 1: signal n
};

/* Makes a stream without pipes. NULL: no memory. */
tri_stream *tri_sim_end_new(tri_sim_tcp *tcp, tri_sim_node *node,
                            tri_sim_stream_state state);
/*
 * Returns the listener, or the socket of datagrams, that `to` reaches, or NULL.
 */
tri_stream *tri_sim_end_find(tri_sim_tcp *tcp, const tri_address *to);
/*
 * Sets where the listener or socket is: a free port if `at` has none.
 * Errors: TR_EEXIST (in use), TR_EINVAL (the address of another machine).
 */
tr_err tri_sim_end_bind(tri_sim_tcp *tcp, const tri_sim_node *node,
                        tri_address *at);
/* Frees a stream that has left its pipes. */
void tri_sim_end_free(tri_stream *stream);
/* Calls the waiters of what is ready; they may close the stream. */
void tri_sim_end_notify(tri_stream *stream);
/* Leaves both pipes. reset: what flies is lost; silent: nobody is told. */
void tri_sim_end_leave(tri_stream *stream, bool reset, bool silent);

#endif
